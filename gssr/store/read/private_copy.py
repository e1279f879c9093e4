"""A copy of a recording of one's own, in which SQLite may finish what was begun: a transaction, a write-ahead log.

A journal can name a further file, for transactions over several databases: SQLite deletes that file when it is through,
whatever it is. Our transactions are of one file, so such a journal comes from elsewhere.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ENXIO

from gssr.store.disk import FILE, beside, fingerprint, is_file_or_none

_AT_ONCE = 1 << 20
_PREFIX = "gssr-copy-"
_NEW = 60.0
"""Seconds in which whoever has made a folder has locked it."""
_LEFT = ("-wal", "-journal")  # what may hold a part of a database
_TRIES, _PAUSE = 10, 0.1  # s
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")  # at the end of a journal


def is_left(path: str) -> bool:
    """Whether something of the recording is in a write-ahead log or a journal. Raises OSError."""
    return any(size > 0 for size in fingerprint(path).sizes[1:])


def copy_whole(path: str, copy: str) -> None:
    """Copy a recording and what is left beside it. Raises OSError."""
    for attempt in range(_TRIES):
        before = fingerprint(path)
        if _copied(path, copy) and fingerprint(path) == before:
            break
        if attempt < _TRIES - 1:
            time.sleep(_PAUSE)
    if journal_names_another(copy):
        with open(copy + "-journal", "r+b") as stream:
            stream.seek(-len(_NAMES_ANOTHER), os.SEEK_END)
            stream.write(bytes(len(_NAMES_ANOTHER)))


def _copied(path: str, copy: str) -> bool:
    """Copy what is there now; False when a part of it has just gone, which may belong to what was copied before. On shared
    filesystems names are seen for a while after their files are gone."""
    _copy_file(path, copy)
    whole = True
    for suffix in _LEFT:
        source = beside(path, suffix)
        try:
            if os.path.exists(source) and is_file_or_none(source):
                _copy_file(source, copy + suffix)
                continue
        except FileNotFoundError:
            whole = False
        if os.path.exists(copy + suffix):
            os.unlink(copy + suffix)  # of a try before
    return whole


def _copy_file(source: str, copy: str) -> None:
    """Copy what was written of a file; holes stay holes: the copy takes no more of a disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(source, "rb") as stream, open(os.open(copy, flags, FILE), "wb") as into:
        size, end = os.fstat(stream.fileno()).st_size, 0
        while end < size:
            begin, end = _written(stream.fileno(), end, size)
            into.seek(begin)
            for at in range(begin, end, _AT_ONCE):
                into.write(os.pread(stream.fileno(), min(_AT_ONCE, end - at), at))
        into.truncate(size)


def _written(descriptor: int, begin: int, size: int) -> tuple[int, int]:
    """What was written next from ``begin`` on of a file that is ``size`` long: where it begins, and ends."""
    try:
        begin = os.lseek(descriptor, begin, os.SEEK_DATA)
        return begin, min(os.lseek(descriptor, begin, os.SEEK_HOLE), size)
    except OSError as error:
        if error.errno == ENXIO:  # nothing more
            return size, size
        if error.errno == EINVAL:  # a filesystem that does not tell
            return begin, size
        raise


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder of one's own among the temporary files, which is gone afterwards; those of processes that were killed are
    removed. Raises OSError."""
    import shutil  # here, because what starts beside a job must start quickly
    import tempfile

    with suppress(OSError):  # in a folder that can't be listed others' stay
        _clear(tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _is_ours(lock)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _clear(parent: str) -> None:
    import shutil

    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if not name.startswith(_PREFIX):
            continue
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            status = os.fstat(lock)
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _NEW and _is_ours(lock):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _is_ours(lock: int) -> bool:
    """Lock a folder, for as long as it is open, unless another process has."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def journal_names_another(path: str) -> bool:
    """Whether finishing what was begun in this recording would delete some other file. Raises OSError."""
    journal = beside(path, "-journal")
    if not os.path.exists(journal):
        return False
    with open(journal, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - len(_NAMES_ANOTHER)))
        return stream.read() == _NAMES_ANOTHER
