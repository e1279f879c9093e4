"""The files beside a recording, SQLite's and our own, and what tells of them without SQLite: what starts beside a job must
start quickly."""

import os
import stat
from errno import EINVAL
from typing import NamedTuple

COMPANIONS = ("-wal", "-shm", "-journal")
"""What there is while a database is open, or after a crash: see ``beside``."""


def beside(path: str, suffix: str) -> str:
    """The name of one of the COMPANIONS of a database: SQLite follows links, and keeps them where the file itself is."""
    return os.path.realpath(path) + suffix


_SMALL = 4096


def small_text(path: str) -> str:
    """What stands in a small file beside recordings, whatever its encoding. Raises OSError, also for what is no file: a
    pipe might never answer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(EINVAL, f"{path} is not a file")
        return os.read(descriptor, _SMALL).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


_LARGE, _FILLED = 1 << 30, 1 / 64
"""Bytes from which on a file is looked at, and the share of it that a file which somebody has written takes of a disk, at
least: filesystems that pack files make a tenth of them, or a twentieth."""


def is_file_or_none(path: str) -> bool:
    """False for a pipe, a device, a folder, a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def is_hollow(path: str) -> bool:
    """Whether a file says that it is far longer than anybody has written: whatever reads all of it, or copies it, would not
    come to an end."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return status.st_size > _LARGE and 512 * status.st_blocks < status.st_size * _FILLED


class Fingerprint(NamedTuple):
    """What tells whether a database was written between two looks."""

    change_counter: bytes
    sizes: tuple[int, ...]


def fingerprint(path: str) -> Fingerprint:
    """A look at the file itself; ``sizes`` of the file, its write-ahead log and its journal, -1 for none."""
    with open(path, "rb") as stream:
        counter = stream.read(100)[24:28]
    sizes = []
    for suffix in ("", "-wal", "-journal"):
        try:
            sizes.append(os.stat(beside(path, suffix)).st_size)
        except FileNotFoundError:
            sizes.append(-1)
    return Fingerprint(counter, tuple(sizes))
