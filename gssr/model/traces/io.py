"""What was read from and written to files, by file and by call."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.add_rows import add_up
from gssr.model.traces.part import TracePiece
from gssr.traces.timeline import FILE_OPERATIONS


class FileCalls(NamedTuple):
    """Operations of one kind on one file by one call. ``layer``: the interface, such as "POSIX I/O"; ``call``: None where it
    is not told; ``bytes``: of those ``n_sized`` operations whose size is known."""

    file: str
    operation: str
    call: str | None
    layer: str
    n: int
    bytes: int
    n_sized: int
    total_ns: int
    max_ns: int

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes over the time that the operations took; None where that is 0 or a size is unknown."""
        return self.bytes * 1e9 / self.total_ns if self.total_ns and self.n_sized == self.n else None


def file_calls(part: TracePiece) -> tuple[FileCalls, ...] | None:
    """Add up the operations on files that begin in the window on what is looked at, by file, operation, call and interface.
    Those that took longest come first. Returns None where the trace tells of no files."""
    own = part.timeline.io
    if own is None:
        return None
    rows = np.flatnonzero(part.has(own.start, own.track))
    if not len(rows):
        return ()
    file, layer = _alike(own.files)[own.file[rows]], _alike(own.layers)[own.layer[rows]]
    keys = np.stack([file, own.operation[rows], own.name[rows], layer])
    groups, at = np.unique(keys, axis=1, return_inverse=True)
    at = at.reshape(-1)
    n, size, length = groups.shape[1], own.size[rows], own.length[rows]
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, at, length)
    sums = [np.bincount(at, values, n).astype(np.int64).tolist() for values in (np.maximum(size, 0), size >= 0, length)]
    names = part.timeline.names
    found = [
        FileCalls(own.files[file], FILE_OPERATIONS[operation], names[name] if name >= 0 else None, own.layers[layer],
                  count, n_bytes, n_sized, total, most)
        for (file, operation, name, layer), count, n_bytes, n_sized, total, most in zip(
            groups.T.tolist(), np.bincount(at, minlength=n).tolist(), *sums, longest.tolist(), strict=True)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: -each.total_ns))


def _alike(texts: Sequence[str]) -> Ints:
    """Find the first place of each text [n]: those of several archives may be the same."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(text, at) for at, text in enumerate(texts)], np.int64)


def all_calls(a: Sequence[FileCalls] | None, b: Sequence[FileCalls] | None) -> tuple[FileCalls, ...] | None:
    """Add up the operations on files of two parts of a run, as ``file_calls`` returns them, those that took longest
    first. None counts as nothing; None if both are."""
    if a is None or b is None:
        return None if a is b else tuple(a or b or ())
    return tuple(sorted(add_up((*a, *b), 4, most=("max_ns",)), key=lambda each: -each.total_ns))
