"""A private copy of a recording, in which SQLite may finish what was begun: a transaction, a write-ahead log."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ENXIO

from gssr.store.disk import FILE, companion_path, fingerprint, is_file_or_none, sizes

_AT_ONCE = 1 << 20
PRIVATE = "recording.sql"
"""The name of the recording in a private folder."""
_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFT = ("-wal", "-journal")  # what may hold a part of a database
_TRIES, _PAUSE = 10, 0.1  # s
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""At the end of a journal that names a further file, for a transaction over several databases: SQLite deletes that file when
it is through, whatever it is. Our transactions are of one file, so such a journal comes from elsewhere."""


def is_left(path: str) -> bool:
    """Tell whether a part of the recording is in a write-ahead log or a journal. Raises OSError."""
    return any(size > 0 for size in sizes(path)[1:])


def copy_whole(path: str, copy: str) -> None:
    """Copy a recording and what is left beside it, in a state in which nobody wrote it, if possible within a second.
    Raises OSError."""
    for attempt in range(_TRIES):
        before = fingerprint(path)
        if _copy_once(path, copy) and fingerprint(path) == before:
            break
        if attempt < _TRIES - 1:
            time.sleep(_PAUSE)
    if journal_names_another(copy):
        with open(copy + "-journal", "r+b") as stream:
            stream.seek(-len(_NAMES_ANOTHER), os.SEEK_END)
            stream.write(bytes(len(_NAMES_ANOTHER)))


def _copy_once(path: str, copy: str) -> bool:
    """Copy what is there now. Returns False if a part of it has just gone, which may belong to what was copied before.
    (On shared filesystems names are seen for a while after their files are gone.)"""
    _copy_file(path, copy)
    whole = True
    for suffix in _LEFT:
        source = companion_path(path, suffix)
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
    """Copy what was written of a file. Holes stay holes, so that the copy takes no more of the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(source, "rb") as stream, open(os.open(copy, flags, FILE), "wb") as into:
        size, end = os.fstat(stream.fileno()).st_size, 0
        while end < size:
            begin, end = _find_written_part(stream.fileno(), end, size)
            into.seek(begin)
            for at in range(begin, end, _AT_ONCE):
                into.write(os.pread(stream.fileno(), min(_AT_ONCE, end - at), at))
        into.truncate(size)


def _find_written_part(descriptor: int, begin: int, size: int) -> tuple[int, int]:
    """Return where the next written part of a file from ``begin`` on begins and ends; (size, size) if there is none."""
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
def private_folder(kind: str = "copy", parent: str | None = None) -> Iterator[str]:
    """Make a private folder in ``parent`` (None: where temporary files are) for one recording called PRIVATE, and yield
    its path; it is removed afterwards. Folders of the same ``kind`` whose processes were killed are removed as well.
    Raises OSError."""
    import tempfile  # here, because what starts beside a job must start quickly

    prefix, parent = f"gssr-{kind}-", parent or tempfile.gettempdir()
    with suppress(OSError):  # in a folder that can't be listed others' stay
        _remove_left_folders(parent, prefix)
    while True:
        folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
        with suppress(FileNotFoundError):  # another process has just cleared it
            lock = os.open(folder, _AS_FOLDER)
            if _take_lock(lock) is not False and os.path.exists(folder):
                break
            os.close(lock)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def _remove_left_folders(parent: str, prefix: str) -> None:
    """Remove the folders below ``parent`` whose names begin with ``prefix``, which are this user's alone and which
    nobody has locked. A process that is just making one notices, and makes it anew."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if not name.startswith(prefix):
            continue
        try:
            lock = os.open(path, _AS_FOLDER)
        except OSError:
            continue
        status = os.fstat(lock)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700 and _take_lock(lock):
            _remove(path)
        os.close(lock)


def _remove(folder: str) -> None:
    """Remove a private folder and the recording in it; if anything else is in it, both stay."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(PRIVATE):
                os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def _take_lock(lock: int) -> bool | None:
    """Lock a folder for as long as it is open. Returns False if another process has the lock, None if the filesystem
    has no locks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def journal_names_another(path: str) -> bool:
    """Tell whether finishing what was begun in this recording would make SQLite delete some other file. Raises OSError."""
    journal = companion_path(path, "-journal")
    if not os.path.exists(journal):
        return False
    with open(journal, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - len(_NAMES_ANOTHER)))
        return stream.read() == _NAMES_ANOTHER
