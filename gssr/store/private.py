"""What a recording is made of is its owner's alone, also in a folder in which everybody may make files."""

import os
import stat

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
