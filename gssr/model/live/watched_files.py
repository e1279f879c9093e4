"""The files of a recording that is watched: which there are, and whether they were changed."""

import os

from gssr.store.disk import companion_path
from gssr.store.read.open import RecordingError, files_of

Files = tuple[tuple[str, int, int], ...]


def identities(path: str) -> Files:
    """Return (name, inode, 0 if empty else 1) of each of the recording's files; () if there is none."""
    try:
        names = files_of(path)
    except RecordingError:
        return ()
    found = []
    for name in names:
        try:
            status = os.stat(name)
        except OSError:
            continue
        found.append((name, status.st_ino, min(status.st_size, 1)))
    return tuple(found)


def marks(files: Files) -> Files:
    """Return (name, time of the last change in ns, size) of these files and their write-ahead logs. Empty ones are left
    out, as readers make an empty log."""
    found = []
    for name in (each for file, _, _ in files for each in (file, companion_path(file, "-wal"))):
        try:
            status = os.stat(name)
        except OSError:
            continue
        if status.st_size:
            found.append((name, status.st_mtime_ns, status.st_size))
    return tuple(found)
