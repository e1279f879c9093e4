"""Files that PyTorch writes in one go when something is wrong, as a pickle or as JSON, packed with gzip or not."""

import json
import os
from typing import Any

from gssr.traces.json_events import FileChunks
from gssr.traces.plain_pickle import load_plain_pickle
from gssr.traces.timeline import TraceError

_NEVER_TOO_MUCH, _MOST_TIMES = 64 << 20, 18
"""Bytes of memory that the objects of a JSON file may take, and sizes of its text: PyTorch's take 7 times theirs, those of
rocprofv3 4 times."""
_MOST_UNPACKED = 24 << 20
"""Bytes to which a packed file may unpack unless --max-size says more: what they hold takes many times as much memory."""
_OBJECT, _LIST, _ELEMENT = 190, 72, 40
"""Bytes of memory of an object with a key, of a list, and of one more element."""


def load_dump(
    path: str, most_bytes: int | None = None, most_unpacked: int = _MOST_UNPACKED, most_times: int = _MOST_TIMES
) -> Any:
    """Read a pickle of plain data, or JSON.

    Args:
        path: the file.
        most_bytes: how long it may be unpacked; None for ``most_unpacked``, or its size if that is more.
        most_times: how many times its size the objects of JSON may take.

    Raises:
        TraceError: it can't be read, is damaged or cut off, no plain data, or far too large.
    """
    data = content_of(path, most_bytes, most_unpacked)
    if data[:1] == b"\x80":
        return load_plain_pickle(data, path)
    taken = _OBJECT * data.count(b"{") + _LIST * data.count(b"[") + _ELEMENT * data.count(b",")
    if taken > max(_NEVER_TOO_MUCH, most_times * len(data)):
        raise TraceError(
            f"{path}: would take {taken >> 20:,} MB of memory, far more than its size: no tool writes such a file"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise TraceError(f"{path}: is cut off, or no sound JSON") from None


def content_of(path: str, most_bytes: int | None, most_unpacked: int) -> bytes:
    """Return all that a file holds, unpacked. ``most_bytes``: how long it may be; None for any length of a file that is not
    packed, and ``most_unpacked``, or its size if that is more, of one that is. Raises TraceError."""
    if most_bytes is None and is_packed(path):
        most_bytes = max(most_unpacked, os.path.getsize(path))
    chunks = FileChunks(path, most_bytes)
    data = b"".join(chunks)
    if chunks.problem:
        raise TraceError(f"{path}: {chunks.problem.split(':')[0]}")
    return data


def is_packed(path: str) -> bool:
    """Tell whether a file is packed with gzip; False if it can't be read, which is said when it is."""
    try:
        with open(path, "rb") as stream:
            return stream.read(2) == b"\x1f\x8b"
    except OSError:
        return False


def whole_number(value: Any) -> int | None:
    """Return a whole number below 2**63 in size, also if it is written as text; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and abs(value) < 1 << 63 else None


def text(value: Any) -> str:
    """Return a text as it is, and "" for anything else."""
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the dicts in a list; none for anything but a list."""
    return [each for each in value if type(each) is dict] if type(value) is list else []
