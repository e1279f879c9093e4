"""The folders of this process's cgroup and of those around it. Version 1 and 2 of cgroups. Nothing here raises."""

from __future__ import annotations

import os

OWN_CGROUPS, CGROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
"""The file that names a process's cgroups, and where cgroups are mounted."""


def cgroup_folders(controller: str, listed: str = OWN_CGROUPS, root: str = CGROUPS) -> tuple[list[str], bool]:
    """Find the folder of this process's cgroup and those of the cgroups around it, the innermost first.

    Args:
        controller: "memory" or "cpu".
        listed: The path of a file such as /proc/self/cgroup.
        root: Where cgroups are mounted.

    Returns the folders, and True for version 2. See the kernel's cgroup-v2.rst and cgroup-v1/cgroups.rst.
    """
    own, mount, is_v2 = _find(controller, listed, root)
    folders = [own]
    while len(own) > len(mount):
        own = os.path.dirname(own)
        folders.append(own)
    return folders, is_v2


def read_text(path: str) -> str:
    """Read a file of the kernel's, up to 64 KiB; "" where it can't be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read(1 << 16)
    except OSError:
        return ""


def _find(controller: str, listed: str, root: str) -> tuple[str, str, bool]:
    """Return the cgroup's folder, the folder where its hierarchy is mounted, and True for version 2."""
    v2 = ""
    for line in read_text(listed).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            return _join(f"{root}/{controller}", path), f"{root}/{controller}", False
        if number == "0" and not controllers:
            v2 = path
    return _join(root, v2), root, True


def _join(mount: str, path: str) -> str:
    """Return the folder of a cgroup, given the folder ``mount`` of its hierarchy and its ``path`` there. Inside a
    container a path from outside does not exist: then it is ``mount`` itself."""
    own = f"{mount}{path.rstrip('/')}"
    return own if ".." not in path and os.path.isdir(own) else mount
