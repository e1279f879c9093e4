"""Files that are made of recordings: reports, pictures, tables. They are as private as what they are made of, and nothing is
written through a name that somebody else has taken."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EISDIR, ELOOP, EPERM
from typing import BinaryIO, NamedTuple

from gssr.store.disk import FILE, PLANTED, is_planted
from gssr.store.read.open import RecordingError, files_of

_OTHERS = 0o066
_GROUP = 0o070
_MOST_LINKS = 40


class Access(NamedTuple):
    """Who may read and write a file besides its owner. ``mode``: the file's mode, from which the umask can only take;
    what it gives to a group is for ``group`` (an id) alone, None for no group."""

    mode: int
    group: int | None


PRIVATE = Access(FILE, None)
"""The user's alone."""


def access_of(recordings: Iterable[str]) -> Access:
    """Return the access for what is made of these recordings, given by any of their names: those who may read and write
    all of them may do so with the result. The user alone if that cannot be told."""
    mode, groups = _OTHERS, set()
    try:
        for path in recordings:
            for file in files_of(path):
                status = os.stat(file)
                mode &= status.st_mode
                groups.add(status.st_gid)
    except (OSError, RecordingError):
        return PRIVATE
    return Access(FILE | mode, groups.pop() if len(groups) == 1 else None) if groups else PRIVATE


_OWN_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


@contextmanager
def output_file(path: str, access: Access, new: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing. It gets its name, replacing a file that was there, when the block ends without an error;
    a link stays one. A pipe or a device is written to directly. ``new``: the file must not exist. Raises OSError, which
    names ``path``: PermissionError for something that another user may have put there, FileExistsError."""
    begun = ""
    try:
        place = path if new else _followed(path)
        if not new and path in _OWN_STREAMS:  # opened by its name, a job's log would lose what is in it
            with open(os.dup(_OWN_STREAMS[path]), "wb") as stream:
                yield stream
            return
        if not new and _is_stream(place):
            with open(os.open(place, os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY | os.O_CLOEXEC), "wb") as stream:
                yield stream
            return
        if os.path.isdir(place):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        aside = os.path.join(os.path.dirname(place), f".gssr-{os.urandom(8).hex()}")
        descriptor = new_file(place if new else aside, access)
        begun = place if new else aside
        with open(descriptor, "wb") as stream:
            yield stream
        if not new:
            os.replace(aside, place)
        begun = ""
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        if begun:
            os.unlink(begun)


def new_file(path: str, access: Access) -> int:
    """Create a file that must not exist. Returns its descriptor, which the caller closes. Raises OSError."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, access.mode)
    _keep_from_other_groups(descriptor, access)
    return descriptor


def output_folder(path: str, access: Access) -> None:
    """Make a folder for such files, and those above it, if necessary. Raises OSError; PermissionError for something
    that another user may have put there."""
    path = path.rstrip("/") or "/"
    if is_planted(path):
        raise PermissionError(EPERM, PLANTED, path)
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above:
        output_folder(above, access)
    try:
        os.mkdir(path, access.mode | 0o100 | (access.mode & 0o044) >> 2)  # who may read it may enter it
    except FileExistsError:  # another process of the same export was faster, or it is something else
        if is_planted(path) or not os.path.isdir(path):
            raise
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _keep_from_other_groups(descriptor, access)
    finally:
        os.close(descriptor)


def _keep_from_other_groups(descriptor: int, access: Access) -> None:
    """Take from a file the rights of its group, beyond everybody's, if it belongs to another group than ``access``
    means."""
    status = os.fstat(descriptor)
    if status.st_gid != access.group:
        mode = stat.S_IMODE(status.st_mode)
        os.fchmod(descriptor, mode & ~_GROUP | (mode & _GROUP & mode << 3))


def _followed(path: str) -> str:
    """Return where the user's own links lead. Raises OSError, also for something planted and for too many links."""
    for _ in range(_MOST_LINKS):
        if is_planted(path):
            raise PermissionError(EPERM, PLANTED)
        if _is_stream(path) or not os.path.islink(path):
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise OSError(ELOOP, os.strerror(ELOOP))


def _is_stream(path: str) -> bool:
    """Tell whether a path is a pipe, a device, a socket, or a descriptor of ours, such as /dev/stdout leads to."""
    if path.startswith(("/proc/", "/dev/fd/")):
        return True
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return False
    return kind in (stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK)
