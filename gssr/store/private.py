"""What a recording is made of is its owner's alone, also in a folder in which everybody may make files."""

import os
import stat

FILE, FOLDER = 0o600, 0o700
"""Modes of what is made; the user's umask can only take from them. What SQLite keeps beside a database it makes like it."""


def make_folder(path: str) -> None:
    """Make a folder, unless it is there; those above it are made as others are. Raises OSError."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        os.mkdir(path, FOLDER)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def is_planted(path: str) -> bool:
    """Whether somebody else has made what stands at this name, in a folder in which everybody may make files, such as
    /tmp: who made it could read what is written there, or lead it elsewhere."""
    try:
        folder = os.stat(os.path.dirname(os.path.abspath(path)))
        return bool(folder.st_mode & stat.S_IWOTH) and os.lstat(path).st_uid != os.geteuid()
    except OSError:
        return False
