"""Reading the live blocks of many ranks at once (gssr.store.live_block.write)."""

import os
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.metrics import THROTTLES
from gssr.store.format.limits import GREATEST, LATEST
from gssr.store.format.schema import LIVE_SUFFIX
from gssr.store.live_block.write import CHECKED_FROM, COUNTED, GPU, HEAD, KIND, MAGIC

_ENTRY = np.dtype(
    [
        ("key", "<u4"),
        ("n_rows", "<u4"),
        ("n_gaps", "<u4"),
        ("n_flags", "<u4"),
        ("first", "<f8"),
        ("last", "<f8"),
        ("n", "<u4", (len(COUNTED),)),
        ("total", "<f8", (len(COUNTED),)),
        ("latest", "<f4", (len(COUNTED),)),
        ("held", "<u4", (len(THROTTLES),)),
    ]
)
Entries = NDArray[np.void]
"""GPUs' parts of blocks, with the fields of _ENTRY."""
assert _ENTRY.itemsize == GPU.size

_AT_ONCE = 1 << 16  # bytes: longer ones, of more than a hundred GPUs, take a second call
_LONGEST = 1 << 20
_GREATEST_ROWID = 1 << 62
_TRIES = 3


class Blocks(NamedTuple):
    """The live blocks that one look found new. ``file`` int64[n_files]: indices of their files; ``rowid``
    int64[n_files]: up to which row each counts. ``gpus`` [n]: their GPUs' entries; ``owner`` int64[n]: the index of the
    file each is of. ``without``: indices of files that have no block."""

    file: Ints
    rowid: Ints
    gpus: Entries
    owner: Ints
    without: list[int]


class BlockReader:
    """Reads the live blocks beside the recordings at ``paths``."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [path + LIVE_SUFFIX for path in paths]
        self._seen = [0] * len(paths)
        """Their sequence numbers."""

    def look(self) -> Blocks:
        """Read the blocks that have changed since the last look. Each file is opened afresh: on network filesystems
        that is what asks the server. A block that cannot be read now, or is just being written, is left for the next
        look."""
        files, rowids, payloads, without = [], [], [], []
        for number, path in enumerate(self._paths):
            for _ in range(_TRIES):
                try:
                    data = _bytes_of(path)
                    found = HEAD.unpack_from(data) if len(data) >= HEAD.size else None
                except FileNotFoundError:
                    without.append(number)
                    break
                except OSError:
                    break
                if found is None:
                    continue  # just made
                magic, kind, length, checksum, sequence, rowid, _ = found
                if (magic, kind) != (MAGIC, KIND) or (length - HEAD.size) % GPU.size or rowid > _GREATEST_ROWID:
                    without.append(number)  # another version's
                elif sequence == self._seen[number]:
                    pass
                elif len(data) < length or crc32(memoryview(data)[CHECKED_FROM:length]) != checksum:
                    continue  # just being written
                else:
                    self._seen[number] = sequence
                    files.append(number)
                    rowids.append(rowid)
                    payloads.append(data[HEAD.size : length])
                break
        file = np.array(files, np.int64)
        gpus = np.frombuffer(b"".join(payloads), _ENTRY)
        owner = np.repeat(file, [len(payload) // GPU.size for payload in payloads])
        sound = _are_sound(gpus)
        return Blocks(file, np.array(rowids, np.int64), gpus[sound], owner[sound], without)


def _are_sound(gpus: Entries) -> NDArray[np.bool_]:
    """Tell which entries hold possible times and sums, bool[n]; NaN counts as none and is sound."""
    with np.errstate(invalid="ignore"):
        fine: NDArray[np.bool_] = np.all(np.abs(gpus["total"]) <= GREATEST, axis=1)
        for when in (gpus["first"], gpus["last"]):
            fine &= ((when >= 0) & (when <= LATEST)) | np.isnan(when)
    return fine


def _bytes_of(path: str) -> bytes:
    """Read a block's bytes, at most about 1 MiB. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it might be a pipe, which never answers
    try:
        data = os.read(descriptor, _AT_ONCE)
        if len(data) == _AT_ONCE:
            data += os.read(descriptor, _LONGEST)
        return data
    finally:
        os.close(descriptor)
