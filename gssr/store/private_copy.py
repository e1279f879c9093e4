"""A copy of a recording of one's own, in which SQLite may finish what was begun: a transaction, a write-ahead log.

A journal can name a further file, for transactions over several databases: SQLite deletes that file when it is through,
whatever it is. Our transactions are of one file, so such a journal comes from elsewhere.
"""

import os
import time

from gssr.store.companions import beside
from gssr.store.open import fingerprint, is_file_or_none

_LEFT = ("-wal", "-journal")  # what may hold a part of a database
_TRIES, _PAUSE = 10, 0.1  # s
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")  # at the end of a journal


def is_left(path: str) -> bool:
    """Whether something of the recording is in a write-ahead log or a journal. Raises OSError."""
    return any(size > 0 for size in fingerprint(path).sizes[1:])


def copy_whole(path: str, copy: str) -> None:
    """Copy a recording and what is left beside it. Raises OSError."""
    for attempt in range(_TRIES):
        before = fingerprint(path)
        if _copied(path, copy) and fingerprint(path) == before:
            break
        if attempt < _TRIES - 1:
            time.sleep(_PAUSE)
    if journal_names_another(copy):
        with open(copy + "-journal", "r+b") as stream:
            stream.seek(-len(_NAMES_ANOTHER), os.SEEK_END)
            stream.write(bytes(len(_NAMES_ANOTHER)))


def _copied(path: str, copy: str) -> bool:
    """Copy what is there now; False when a part of it has just gone, which may belong to what was copied before. On shared
    filesystems names are seen for a while after their files are gone."""
    import shutil  # here, because what starts beside a job must start quickly

    shutil.copyfile(path, copy)
    whole = True
    for suffix in _LEFT:
        source = beside(path, suffix)
        try:
            if os.path.exists(source) and is_file_or_none(source):
                shutil.copyfile(source, copy + suffix)
                continue
        except FileNotFoundError:
            whole = False
        if os.path.exists(copy + suffix):
            os.unlink(copy + suffix)  # of a try before
    return whole


def journal_names_another(path: str) -> bool:
    """Whether finishing what was begun in this recording would delete some other file. Raises OSError."""
    journal = beside(path, "-journal")
    if not os.path.exists(journal):
        return False
    with open(journal, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - len(_NAMES_ANOTHER)))
        return stream.read() == _NAMES_ANOTHER
