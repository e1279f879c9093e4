"""``--group NAME``: a recording that the members of a group may read as well, such as a site's user support."""

from __future__ import annotations

import grp
import os
import stat
from shlex import quote

from gssr.profile.request import UsageError
from gssr.store.disk import share_with_group


def share_recordings(name: str, folder: str) -> None:
    """Let a group read what is recorded into a folder from now on.

    The folder has to be the group's, with the bit "setgid": then what SQLite makes beside a recording while it grows is the
    group's as well, and this process need not be a member.

    Args:
        name: The group's name or number.
        folder: The folder of the recording.

    Raises:
        UsageError: There is no such group, or the folder is not its.
    """
    try:
        group = int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"--group: there is no group {name!r} on this node") from None
    try:
        status = os.stat(folder)
    except OSError as error:
        raise UsageError(f"--group {name}: {folder}: {error.strerror}") from None
    if status.st_gid != group or not status.st_mode & stat.S_ISGID:
        place, whose = quote(folder), quote(name)
        raise UsageError(
            f"--group {name}: {folder} is not that group's with the bit setgid: chgrp {whose} {place} && chmod g+s {place}"
        )
    share_with_group()
