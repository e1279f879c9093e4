"""A recording and its disk: the files beside it, which journal mode is safe on its filesystem, whose the files are, room for
the end of a run. Without SQLite: what starts beside a job must start quickly.

WAL needs shared memory, so it works on one host and a local filesystem only; everywhere else (NFS, Lustre, GPFS) TRUNCATE
is used, which needs no more than POSIX locks and which readers on other hosts can follow.

What a recording is made of is its owner's alone, also in a folder in which everybody may make files.

Room on the disk for the end of a recording: where the disk is full from some moment on, how the run ended is still
written. It is held by a file without a name, which is gone with the process that holds it, however that ends.

How many files this process may have open.
"""

from __future__ import annotations

import os
import resource
import stat
from errno import EDQUOT, EINVAL, ENOSPC

COMPANIONS = ("-wal", "-shm", "-journal")
"""What there is while a database is open, or after a crash: see ``companion_path``."""


def companion_path(path: str, suffix: str) -> str:
    """Return the path of one of the COMPANIONS of a database: SQLite follows links, and keeps them beside the file
    itself."""
    return os.path.realpath(path) + suffix


def traces_beside(path: str) -> str:
    """Return the path of the folder with a recording's traces, ``NAME.traces``. ``path`` is the recording ``NAME.sql``,
    its folder ``NAME.sql.d``, or a rank's file in that."""
    path = path.rstrip("/")
    if os.path.basename(os.path.dirname(path)).endswith(".sql.d"):
        path = os.path.dirname(path)
    return path.removesuffix(".d" if path.endswith(".sql.d") else "").removesuffix(".sql") + ".traces"


def remove_unused(folder: str, sign: str) -> None:
    """Remove a folder that was made for others to put files in, and the file ``sign`` in it that was made with it. If
    there are other files they and the folder stay. Never raises."""
    for remove, name in ((os.unlink, os.path.join(folder, sign)), (os.rmdir, folder)):
        try:
            remove(name)
        except OSError:
            pass  # it is gone, or something is in it


def open_below(folder: str, path: str) -> int:
    """Open the file at a relative path below a folder, following no link on the way and not waiting for a pipe. Returns
    a descriptor, which the caller closes. Raises OSError, also for anything but a regular file."""
    at = os.open(folder, _FOLDER)
    try:
        *above, name = path.split("/")
        if any(part in ("", ".", "..") for part in (*above, name)):
            raise OSError(EINVAL, "is no path below the folder")
        for part in above:
            before, at = at, os.open(part, _FOLDER, dir_fd=at)
            os.close(before)
        found = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(EINVAL, "is not a file")
    return found


Identity = tuple[int, int]


def identity_of(path: str) -> Identity | None:
    """Return the device and inode of a file, by which to tell whether a name still means the same file; None if there
    is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_SMALL = 4096
"""Bytes of a small file beside recordings, at most."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def small_text(path: str, most: int = _SMALL) -> str:
    """Read up to ``most`` bytes of a small file beside recordings, whatever its encoding. Raises OSError, also for a
    link, and for anything but a regular file (a pipe might never answer)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(EINVAL, f"{path} is not a file")
        return os.read(descriptor, most).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


_LARGE, _FILLED = 1 << 30, 1 / 64
"""Bytes from which on a file is looked at, and the share of it that a file which somebody has written takes of a disk, at
least: filesystems that pack files make a tenth of them, or a twentieth."""


def is_file_or_none(path: str) -> bool:
    """Tell whether a name is a regular file or does not exist; False for a pipe, a device, a folder or a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def is_hollow(path: str) -> bool:
    """Tell whether a file claims to be far longer than anybody has written, so that reading or copying all of it would
    never end. False if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return status.st_size > _LARGE and 512 * status.st_blocks < status.st_size * _FILLED


def fingerprint(path: str) -> tuple[bytes, tuple[int, ...]]:
    """Return what changes when a database is written: SQLite's own count of changes, and the sizes of its files
    (``sizes``). Raises OSError if it cannot be read."""
    with open(path, "rb") as stream:
        counter = stream.read(100)[24:28]
    return counter, sizes(path)


def sizes(path: str) -> tuple[int, ...]:
    """Return the bytes of a database, its write-ahead log and its journal, -1 for one that does not exist. Nothing is
    opened."""
    found, file = [], os.path.realpath(path)
    for suffix in ("", "-wal", "-journal"):
        try:
            found.append(os.stat(file + suffix).st_size)
        except FileNotFoundError:
            found.append(-1)
    return tuple(found)


LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "zfs", "f2fs", "jfs", "bcachefs", "reiserfs"}
)
"""Filesystems on which WAL is safe. What is not listed counts as shared between hosts."""


def _unescape(field: str) -> str:
    """Undo the octal escapes of /proc/self/mountinfo."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def filesystem_of(path: str, mountinfo: str = "/proc/self/mountinfo") -> str:
    """Return the type of the filesystem that holds ``path``, which need not exist yet; for an overlay, that of its
    upper directory. "unknown" if the kernel does not say it, "overlay" if the upper directory cannot be seen."""
    try:
        with open(mountinfo, encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return "unknown"
    mounts: dict[str, tuple[str, str]] = {}
    for line in lines:
        head, _, tail = line.partition(" - ")
        where, what = head.split(), tail.split()
        if len(where) > 4 and len(what) > 2:
            mounts[_unescape(where[4])] = (what[0], _unescape(what[2]))  # a later mount hides an earlier one
    place = os.path.realpath(path)
    for _ in range(8):  # an overlay may lie on an overlay
        while place not in mounts and place != "/":
            place = os.path.dirname(place)
        kind, options = mounts.get(place, ("unknown", ""))
        if kind != "overlay":
            return kind
        upper = next((option[9:] for option in options.split(",") if option.startswith("upperdir=")), None)
        if upper is None or not os.path.isdir(upper):
            return kind  # made in a container: what it lies on can't be seen from here
        place = upper
    return "overlay"


def is_local(path: str) -> bool:
    """Tell whether the filesystem is this host's own. An overlay whose upper directory cannot be seen is a container's
    own disk."""
    kind = filesystem_of(path)
    return kind in LOCAL or kind == "overlay"


def journal_mode(path: str) -> str:
    """Return the journal mode that is safe for a database at this path: ``WAL`` or ``TRUNCATE``."""
    return "WAL" if is_local(path) else "TRUNCATE"


FILE, FOLDER = 0o600, 0o700
"""Modes of what is made; the user's umask can only take from them. What SQLite keeps beside a database it makes like it."""
_GROUP_FILE, _GROUP_FOLDER = 0o640, 0o750
"""Modes of a recording that a group may read, whatever the umask. It lies in a folder of that group with the bit setgid,
which gives its group to all that is made in it, also to what SQLite makes there, and the bit to folders."""
_GROUP_UMASK = 0o027
_shares_with_group = False  # by a process and those that it forks, as a umask
PLANTED = "is another user's, or a second name of some file"
"""What is wrong with a name that ``is_planted``."""


def share_with_group() -> None:
    """Let the group of the folder read each recording that this process, and those that it forks, make from now on."""
    global _shares_with_group
    _shares_with_group = True


def make_file(path: str, flags: int) -> int:
    """Make a file of a recording, for its owner alone or also for the group of its folder. Returns a descriptor to write to
    it, which the caller closes. Raises OSError.

    ``flags``: further flags of open(2), such as O_EXCL.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | flags, FILE)
    if _shares_with_group:
        os.fchmod(descriptor, _GROUP_FILE)
    return descriptor


def make_folder(path: str) -> None:
    """Make a folder for its owner alone, or also for its group (``share_with_group``), unless it exists; folders above it
    get usual modes. Raises OSError."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    umask = os.umask(_GROUP_UMASK) if _shares_with_group else None  # chmod would take setgid away from no member
    try:
        os.mkdir(path, FOLDER if umask is None else _GROUP_FOLDER)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    finally:
        if umask is not None:
            os.umask(umask)


def is_planted(path: str) -> bool:
    """Tell whether somebody else may have made what is at this name in a folder in which everybody may make files, such
    as /tmp: its maker could read what is written there, or lead it elsewhere. False if there is nothing."""
    try:
        if not os.stat(os.path.dirname(os.path.abspath(path))).st_mode & stat.S_IWOTH:
            return False
        status = os.lstat(path)
    except OSError:
        return False
    return status.st_uid != os.geteuid() or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1)


BYTES = 1 << 17
"""The end takes about a dozen pages, and as many again in the write-ahead log or the journal."""


def reason(error: Exception, path: str) -> str:
    """Return why a recording cannot be written, for the error that was raised. SQLite knows no quotas and reports an
    I/O error then, so after one the disk of ``path`` itself is asked."""
    if "disk I/O error" in str(error):
        try:
            Reserve(path).release()
        except OSError as found:
            return found.strerror or str(error)
    return str(error)


class Reserve:
    """Room on the disk that is held beside the recording at ``path``; none on filesystems without unnamed files."""

    def __init__(self, path: str) -> None:
        """Take the room. Raises OSError if there is no space or quota for it, and so none for a recording."""
        self._descriptor = -1
        try:
            self._descriptor = os.open(
                os.path.dirname(os.path.abspath(path)), os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600
            )
            os.posix_fallocate(self._descriptor, 0, BYTES)
        except OSError as error:
            self.release()
            if error.errno in (ENOSPC, EDQUOT):
                raise

    def release(self) -> None:
        """Give the room back, to whoever writes first. Calling it again does nothing."""
        if self._descriptor >= 0:
            try:
                os.ftruncate(self._descriptor, 0)  # at once, also where a forked process has it open as well
                os.close(self._descriptor)
            except OSError:
                pass
            self._descriptor = -1


_SPARE = 50
"""Left for whatever else is opened meanwhile."""
_FEW = 10
"""What reading files opens beside them at any time: modules, folders, a temporary file."""
_USUALLY_OPEN = 100


def allow_descriptors(n: int) -> None:
    """Raise this process's own limit of open files, as far as allowed, if ``n`` more may not fit: a job can have
    thousands of shards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _open_now() + n + _SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def lacks_descriptors(n: int) -> bool:
    """Tell whether this process cannot open ``n`` more files and a few others. Takes no longer than opening one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # all numbers below are in use
    except OSError:
        return True
    os.close(lowest)
    return soft != resource.RLIM_INFINITY and lowest + n + _FEW > soft


def _open_now() -> int:
    """Count the files that are open now; a usual number if the kernel does not say it."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return _USUALLY_OPEN
