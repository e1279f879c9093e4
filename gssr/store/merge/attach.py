"""Attaching a rank's file to the merged one, for reading, whatever state its writer left it in."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import quote

from gssr.store.companions import COMPANIONS
from gssr.store.guard import distrust
from gssr.store.liveness import CLOCK
from gssr.store.private_copy import copy_whole, is_left
from gssr.store.starts import ASIDE

_SCRATCH = "merging-"


def scratch(folder: str, what: str) -> str:
    """The path of a file of this process alone, to be deleted again: see ``clear``."""
    return os.path.join(folder, f"{_SCRATCH}{os.uname().nodename}-{os.getpid()}-{what}")


def clear(folder: str) -> None:
    """Delete what has been left in the folder by merges and ranks that were killed: files of their own, and what SQLite kept
    beside ranks' files that merges have deleted. Who still needs such a file makes it again."""
    for name in os.listdir(folder):
        of = next((name.removesuffix(suffix) for suffix in COMPANIONS if name.endswith(suffix)), name)
        if name.startswith((_SCRATCH, ASIDE, CLOCK)) or (of != name and not os.path.exists(os.path.join(folder, of))):
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:
                pass  # whose it is has just tidied up


@contextmanager
def attached(connection: sqlite3.Connection, path: str) -> Iterator[None]:
    """Inside, the file is the schema ``shard``. It is not changed: what its writer left in a write-ahead log or a journal
    is put into a private copy. Raises sqlite3.Error, OSError."""
    copy = _private_copy(path) if is_left(path) else None
    try:
        connection.execute(f"ATTACH 'file:{quote(os.fsencode(os.path.abspath(copy or path)))}?mode=ro' AS shard")
        try:
            yield
        finally:
            if not connection.in_transaction:
                connection.execute("DETACH shard")
    finally:
        if copy is not None:
            _remove(copy)


def _private_copy(path: str) -> str:
    copy = scratch(os.path.dirname(os.path.abspath(path)), "copy")
    try:
        copy_whole(path, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            distrust(connection)
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()  # rolls back, or takes over what was committed
    except BaseException:
        _remove(copy)
        raise
    return copy


def _remove(copy: str) -> None:
    for suffix in ("", *COMPANIONS):
        with suppress(FileNotFoundError):
            os.unlink(copy + suffix)
