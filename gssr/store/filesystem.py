"""Which journal mode is safe where a recording lies.

WAL needs shared memory, so it works on one host and a local filesystem only; everywhere else TRUNCATE is used, which needs
no more than POSIX locks and which readers on other hosts can follow.
"""

import os

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


def journal_mode(path: str) -> str:
    """``WAL`` or ``TRUNCATE``. An overlay whose upper directory can't be seen is a container's own disk: local."""
    kind = filesystem_of(path)
    return "WAL" if kind in LOCAL or kind == "overlay" else "TRUNCATE"
