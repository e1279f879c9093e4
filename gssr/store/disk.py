"""A recording and its disk: the files beside it, which journal mode is safe on its filesystem, whose the files are, room for
the end of a run. Without SQLite: what starts beside a job must start quickly.

WAL needs shared memory, so it works on one host and a local filesystem only; everywhere else (NFS, Lustre, GPFS) TRUNCATE
is used, which needs no more than POSIX locks and which readers on other hosts can follow.

What a recording is made of is its owner's alone, also in a folder in which everybody may make files.

Room on the disk for the end of a recording: where the disk is full from some moment on, how the run ended is still
written. It is held by a file without a name, which is gone with the process that holds it, however that ends.

How many files this process may have open.
"""

import os
import resource
import stat
from errno import EDQUOT, EINVAL, ENOSPC
from typing import NamedTuple

COMPANIONS = ("-wal", "-shm", "-journal")
"""What there is while a database is open, or after a crash: see ``companion_path``."""


def companion_path(path: str, suffix: str) -> str:
    """The name of one of the COMPANIONS of a database: SQLite follows links, and keeps them where the file itself is."""
    return os.path.realpath(path) + suffix


def traces_beside(path: str) -> str:
    """The folder of the traces of a recording, which is named by its file, by one of its ranks' or by their folder."""
    path = path.rstrip("/")
    if os.path.basename(os.path.dirname(path)).endswith(".sql.d"):
        path = os.path.dirname(path)
    return path.removesuffix(".d" if path.endswith(".sql.d") else "").removesuffix(".sql") + ".traces"


def remove_unused(folder: str, sign: str) -> None:
    """Remove a folder that was made for others to put something in, and a file of this name in it, which was made with it.
    What they have put in stays, and so does the folder then. Never raises."""
    for remove, name in ((os.unlink, os.path.join(folder, sign)), (os.rmdir, folder)):
        try:
            remove(name)
        except OSError:
            pass  # it is gone, or something is in it


def open_below(folder: str, path: str) -> int:
    """A descriptor of the file at a relative path below a folder, without following any link on the way, nor waiting for a
    pipe. Raises OSError, also for what is no file."""
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
    """What tells whether a name still means the same file; None without one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_SMALL = 4096
"""Bytes of a small file beside recordings, at most."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def small_text(path: str, most: int = _SMALL) -> str:
    """What stands in a small file beside recordings, ``most`` bytes of it, whatever its encoding. Raises OSError, also for
    what is no file: a pipe might never answer."""
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
    """A look at the file itself; ``sizes`` as below."""
    with open(path, "rb") as stream:
        counter = stream.read(100)[24:28]
    return Fingerprint(counter, sizes(path))


def sizes(path: str) -> tuple[int, ...]:
    """Bytes of a database, its write-ahead log and its journal, -1 for none. Nothing is opened."""
    found = []
    for suffix in ("", "-wal", "-journal"):
        try:
            found.append(os.stat(companion_path(path, suffix)).st_size)
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
    """Type of the filesystem that holds ``path`` (which need not exist yet); of an overlay, that of its upper directory;
    ``unknown`` where the kernel doesn't say."""
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
    """Whether the filesystem is this host's own. An overlay whose upper directory can't be seen is a container's own
    disk."""
    kind = filesystem_of(path)
    return kind in LOCAL or kind == "overlay"


def journal_mode(path: str) -> str:
    """``WAL`` or ``TRUNCATE``."""
    return "WAL" if is_local(path) else "TRUNCATE"


FILE, FOLDER = 0o600, 0o700
"""Modes of what is made; the user's umask can only take from them. What SQLite keeps beside a database it makes like it."""
PLANTED = "is another user's, or a second name of some file"
"""What is wrong with a name that ``is_planted``."""


def make_folder(path: str) -> None:
    """Make a folder, unless it is there; those above it are made as others are. Raises OSError."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        os.mkdir(path, FOLDER)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def is_planted(path: str) -> bool:
    """Whether somebody else may have made what stands at this name, in a folder in which everybody may make files, such as
    /tmp: who made it could read what is written there, or lead it elsewhere."""
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
    """Why a recording can't be written: SQLite knows of no quota, and calls it an I/O error."""
    if "disk I/O error" in str(error):
        try:
            Reserve(path).release()
        except OSError as found:
            return found.strerror or str(error)
    return str(error)


class Reserve:
    """Room beside the recording at ``path``; none on filesystems that have no files without names."""

    def __init__(self, path: str) -> None:
        """Raises OSError when there is no space, or no quota, for it: then there is none for a recording."""
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
        """Give the room back, to whoever writes first."""
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
    """Raise this process's own limit of open files where ``n`` more than are open now may not fit: a job can have thousands
    of shards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _open_now() + n + _SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def lacks_descriptors(n: int) -> bool:
    """Whether this process can't open ``n`` more files and a few others, as quickly as it takes to open one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # all numbers below are in use
    except OSError:
        return True
    os.close(lowest)
    return soft != resource.RLIM_INFINITY and lowest + n + _FEW > soft


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return _USUALLY_OPEN
