"""Reading small files of the kernel, in /proc and /sys, quickly and again and again.

By hand, although there is psutil: loading that would take longer beside a job than the whole first look at the host does
now, and each further look, once a second, would take twice as long.
"""

from __future__ import annotations

import os

_ONE_MORE = 2048
"""Bytes that any line is shorter than: the kernel gives as many lines as there is room for, a page at least."""


_PAGE = 4096
_open: dict[str, int] = {}
"""Files that are read again and again stay open: looking them up takes longer than reading them."""


def contents(path: str, most: int = 2048) -> bytes | None:
    """Read the beginning of a file of /proc or /sys: at most ``most`` bytes, of which the kernel may give no more than
    a page at once. Returns None when it can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def contents_again(path: str, most: int = 2048) -> bytes | None:
    """Read at most ``most`` bytes of a file that will be read again, and leave it open. Returns None when it can't be
    read."""
    try:
        return read_open_file(path, most, 0)
    except OSError:
        return None


def lines_of(path: str) -> list[bytes]:
    """Read all lines of a file in /proc that will be read again, and leave it open. Raises OSError."""
    more = data = read_open_file(path, 1 << 16, 0)
    while len(more) > _PAGE - _ONE_MORE and (more := read_open_file(path, 1 << 16, len(data))):
        data += more
    return data.splitlines()


def read_open_file(path: str, most: int, start: int) -> bytes:
    """Read what a file says now, from byte ``start`` on, and leave it open. Raises OSError; then it is opened anew the next
    time."""
    descriptor = _open.get(path)
    if descriptor is None:
        descriptor = _open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, most, start)
    except OSError:
        os.close(_open.pop(path))
        raise
