"""Reading what the kernel says of itself in /proc.

By hand, although there is psutil: loading that would take longer beside a job than the whole first look at the host does
now, and each further look, once a second, would take twice as long.
"""

import os


def contents(path: str, most: int = 2048) -> bytes | None:
    """The first ``most`` bytes at most of a file in /proc, or the first page of it; None when it can't be read."""
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


def lines_of(path: str) -> list[bytes]:
    """All lines of a file in /proc, which gives a page at a time. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, 1 << 16)
        while more := os.read(descriptor, 1 << 16):
            data += more
    finally:
        os.close(descriptor)
    return data.splitlines()
