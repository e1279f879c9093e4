"""What was read of many recordings, kept for the next look: an SQLite file in the user's own cache folder, never beside the
recordings, which may be others'.

A row is true as long as nothing of its recording has changed: the inode, the size and the times of its file, of the
write-ahead log or the journal beside it, and of every rank's file; and as long as this version of gssr reads. An index is
read as guardedly as a recording: what is not exactly what this version writes is thrown away and made anew.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any

from gssr.guarded_sqlite import Guarded, not_by_itself, only_reads, open_guarded, uri_of
from gssr.store.disk import COMPANIONS, FILE, FOLDER, companion_path
from gssr.store.format.schema import Column
from gssr.version import __version__

APPLICATION_ID = 0x47535349  # "GSSI"
_MAGIC = b"SQLite format 3\0"
_SETTLED = 2.0
"""Seconds: what was written more lately may be written again within the same tick of the filesystem's clock."""
_PATIENCE = 5.0
"""Seconds for which another process may hold the index up; then this look is not kept."""

_PARTS = ("", "-wal", "-journal")
"""What holds a part of a recording."""
_TYPES: dict[str, type] = {"TEXT": str, "REAL": float, "INTEGER": int}
_OF_THE_DISK = ("full", "readonly", "disk I/O", "unable to open")
_BEYOND = 1e300
"""No number of ours."""

Rows = Mapping[str, list[tuple[Any, ...]]]
"""Rows by table, without what says of which recording they are."""


def default_index() -> str | None:
    """Return the path of the index, ``gssr/fleet.index`` in $XDG_CACHE_HOME or ~/.cache; None for a user without a
    home."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.expanduser("~/.cache")
    return os.path.join(folder, "gssr", "fleet.index") if os.path.isabs(folder) else None


_RECORDINGS = (
    "CREATE TABLE recordings (id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL UNIQUE, state TEXT NOT NULL)"
)
_SEQUENCE = "CREATE TABLE sqlite_sequence(name,seq)"
"""What SQLite adds to it, so that no number is ever another recording's."""


def _statement(table: str, columns: Sequence[Column]) -> str:
    """Return the statement that makes a table in which the rows of one recording lie together."""
    own = "".join(f"{column.name} {column.type}, " for column in columns)
    return (
        f"CREATE TABLE {table} (recording INTEGER NOT NULL, number INTEGER NOT NULL, {own}"
        "PRIMARY KEY (recording, number)) WITHOUT ROWID"
    )


def _strict_text(decode: Callable[[bytes], str], data: bytes) -> str:
    """Decode text with ``decode``. Raises sqlite3.DatabaseError for what is no UTF-8, which an index never has: such a
    file is damaged."""
    text = decode(data)
    if text.encode() != data:
        raise sqlite3.DatabaseError("holds text that is no UTF-8")
    return text


class Index:
    """An index of recordings, with rows of ``tables`` for each. It only saves time, so errors are not raised:
    ``notice`` is a sentence if it had to be made anew or cannot be used, else "". Call ``load`` before asking what it
    knows."""

    def __init__(self, path: str, tables: Mapping[str, Sequence[Column]], named: bool = False) -> None:
        """``named``: the user named this file, so a file there that is no index must stay. Raises ValueError then."""
        self.path, self.notice = path, ""
        self._tables = tables
        self._create = {name: _statement(name, columns) for name, columns in tables.items()}
        self._missing: set[str] = set()
        """Tables that an earlier version's index has not: they have no rows, and are added when something is kept."""
        self._current: dict[str, int | None] = {}
        """Of recordings that were looked at in this look: their numbers, None of those that are not in it as they are."""
        self._kept: dict[bytes, tuple[int, str]] = {}
        """Number and state of those in the index."""
        self._folders: dict[str, str] = {}
        """Their paths, links followed."""
        self._usable = self._is_usable(named)

    def _is_usable(self, named: bool) -> bool:
        """Tell whether the index can be used; a damaged one or another version's is removed first. Raises
        ValueError."""
        try:
            os.makedirs(os.path.dirname(os.path.abspath(self.path)), FOLDER, exist_ok=True)
            status = os.lstat(self.path)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                self.notice = f"{self.path}: is not used: it is no file of your own that nobody else can write"
                return False
            with open(self.path, "rb") as stream:
                head = stream.read(100)
        except FileNotFoundError:
            return True
        except OSError as error:
            self.notice = f"{self.path}: can't be used: {error.strerror}"
            return False
        if head[:16] == _MAGIC and head[68:72] == APPLICATION_ID.to_bytes(4, "big"):
            try:
                with closing(self._connect("ro")) as connection:
                    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL").fetchall()
                present = {sql for (sql,) in found}
                if {_RECORDINGS, _SEQUENCE} <= present <= {_RECORDINGS, _SEQUENCE, *self._create.values()}:
                    self._missing = {name for name, sql in self._create.items() if sql not in present}
                    return True
            except sqlite3.Error as error:
                if _is_busy(error):
                    return False
        elif named:
            raise ValueError(f"{self.path}: is no index of gssr fleet: name another file, or a new one")
        return self.discard()

    def discard(self) -> bool:
        """Delete the index, as it cannot be true. Returns True if a new one can be made."""
        self.notice = f"{self.path}: was damaged, or another version's: it is made anew"
        self._kept.clear()
        self._missing.clear()
        try:
            for suffix in ("", *COMPANIONS):
                with suppress(FileNotFoundError):
                    os.unlink(self.path + suffix)
        except OSError as error:
            self.notice = f"{self.path}: can't be used: {error.strerror}"
            return False
        return True

    def _connect(self, mode: str) -> Guarded:
        """Open the index in an SQLite ``mode`` ("ro", "rw", ...), with limits on what a file from a stranger may do.
        Raises sqlite3.Error."""
        connection = open_guarded(uri_of(self.path, mode), [self.path], uri=True, timeout=_PATIENCE)
        connection.bound()
        connection.text_factory = partial(_strict_text, connection.budget.text)
        return connection

    def _make(self) -> None:
        """Make an empty index, complete from the first moment, as two processes may begin it at once. Raises OSError,
        sqlite3.Error."""
        with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(self.path)), prefix=".gssr-") as folder:
            new = os.path.join(folder, "index")
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE))
            with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                for statement in (_RECORDINGS, *self._create.values()):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            with suppress(FileExistsError):
                os.link(new, self.path)

    def _place(self, name: str) -> bytes:
        """Return the key of a recording: its path, with links to its folder resolved."""
        folder, slash, base = name.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder or slash or ".").rstrip("/")
        return os.fsencode(f"{self._folders[folder]}/{base}")

    def load(self, places: Iterable[str]) -> None:
        """Learn from the index which recordings it has at these places, which are folders (with all below them) or
        recordings. What was known before is kept; answers of ``is_known`` are looked up anew."""
        paths = [os.fsencode(os.path.realpath(name)) if os.path.isdir(name) else self._place(name) for name in places]
        if not self._usable or not os.path.lexists(self.path) or not paths:
            return
        common = os.path.commonpath(paths).rstrip(b"/")
        try:
            with closing(self._connect("ro")) as connection:
                connection.set_authorizer(only_reads({"recordings"}))
                query = "SELECT path, id, state FROM recordings WHERE path >= ? AND path < ?"
                found = connection.execute(query, (common, common + b"0")).fetchall()  # "0" comes after "/"
            self._kept = {path: (number, state) for path, number, state in found}
            self._current.clear()
        except sqlite3.Error as error:
            self._failed(error)

    def is_known(self, name: str, listed: Container[str] | None = None) -> bool:
        """Tell whether the index has this recording as it is now. ``listed``: the names in its folder now, if they are
        known. The first answer about a recording is remembered, and given again until ``load`` is called. Raises OSError
        if the recording cannot be looked at."""
        if name not in self._current:
            number, kept = self._kept.get(self._place(name), (None, ""))
            self._current[name] = None if number is None or _state(name, listed) != kept else number
        return self._current[name] is not None

    def known(self, names: Iterable[str]) -> dict[str, int]:
        """Return the numbers in the index of those of these recordings that it has as they are now, by name. The places
        where they lie must have been loaded. Recordings that can't be looked at are left out."""
        found = {}
        for name in names:
            with suppress(OSError):
                if self.is_known(name) and (number := self._current[name]) is not None:
                    found[name] = number
        return found

    def rows(self, table: str, numbers: Collection[int]) -> dict[int, list[tuple[Any, ...]]]:
        """Return the rows of a table by the numbers of their recordings (at least one); each row begins with that
        number. Empty if the index cannot be used, or holds what we never wrote. Recordings in between may be in it,
        too."""
        columns = self._tables[table]
        if not self._usable or table in self._missing or not os.path.lexists(self.path):
            return {}
        wanted = f"SELECT recording, {', '.join(column.name for column in columns)} FROM {table}"
        found: list[tuple[Any, ...]] = []
        try:
            with closing(self._connect("ro")) as connection:
                connection.set_authorizer(only_reads({table}))
                query = f"{wanted} WHERE recording BETWEEN ? AND ? ORDER BY recording, number"
                found = connection.execute(query, (min(numbers), max(numbers))).fetchall()
        except sqlite3.Error as error:
            self._failed(error)
        if found and not all(map(_can_be, [*zip(*found)][1:], columns)):
            self._usable, found = self.discard(), []
        by_recording: dict[int, list[tuple[Any, ...]]] = {}
        for row in found:
            by_recording.setdefault(row[0], []).append(row)
        return by_recording

    def keep(self, read: Iterable[tuple[str, str, Rows]], gone: Iterable[bytes] = ()) -> None:
        """Store the rows of recordings, each as (name, its ``state`` before it was read, rows by table), unless it has
        changed since. Recordings that are ``gone`` are forgotten. If another process writes for too long nothing is
        stored."""
        changed = [(self._place(name), before, rows) for name, before, rows in read if state(name) == before]
        if not self._usable or not (changed or gone):
            return
        try:
            if not os.path.lexists(self.path):
                self._make()
            with closing(self._connect("rw")) as connection:
                connection.set_authorizer(not_by_itself)
                connection.execute("BEGIN IMMEDIATE")
                self._add_missing_tables(connection)
                for path in gone:
                    self._forget(connection, path)
                for path, now, rows in changed:
                    self._forget(connection, path)
                    added = connection.execute("INSERT INTO recordings (path, state) VALUES (?, ?)", (path, now))
                    for table, columns in self._tables.items():
                        into = f"INSERT INTO {table} VALUES ({', '.join('?' * (len(columns) + 2))})"
                        own = ((added.lastrowid, place, *row) for place, row in enumerate(rows[table]))
                        connection.executemany(into, own)
                connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeError, OverflowError, OSError) as error:
            self._failed(error)

    def _add_missing_tables(self, connection: sqlite3.Connection) -> None:
        """Add the tables that an earlier version's index has not, unless another process has done so meanwhile."""
        for table in self._missing:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                connection.execute(self._create[table])
        self._missing.clear()

    def _forget(self, connection: sqlite3.Connection, path: bytes) -> None:
        """Delete a recording and its rows."""
        found = connection.execute("SELECT id FROM recordings WHERE path = ?", (path,)).fetchone()
        if found:
            for table in self._tables:
                connection.execute(f"DELETE FROM {table} WHERE recording = ?", found)
            connection.execute("DELETE FROM recordings WHERE id = ?", found)

    def _failed(self, error: Exception) -> None:
        """React to an error: another process that is busy is no damage, a full disk stops the use, and a damaged index
        is discarded."""
        if _is_busy(error) or isinstance(error, (UnicodeError, OverflowError)):
            return
        if isinstance(error, OSError) or any(word in str(error) for word in _OF_THE_DISK):
            self.notice = f"{self.path}: can't be used: {error}"
            self._usable = False
        else:
            self._usable = self.discard()

    def gone(self) -> list[bytes]:
        """Return the paths of recordings that the index has at the places loaded, and that do not exist any more."""
        numbers = set(self._current.values())
        rest = (path for path, (number, _) in self._kept.items() if number not in numbers)
        return [path for path in rest if not (os.path.lexists(path) or os.path.lexists(path + b".d"))]


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "lock" in str(error)


def state(name: str) -> str | None:
    """Return a text that changes whenever anything of a recording changes. None if the last change is too recent to
    tell a later one apart, or the recording cannot be looked at."""
    try:
        found = _state(name, None)
        newest = max(map(float, re.findall(r":(\d+)\.", found)), default=0.0) / 1e9
        return found if newest < time.time() - _SETTLED else None
    except OSError:
        return None


def _state(name: str, listed: Container[str] | None) -> str:
    """Return a text that changes whenever anything of a recording changes, however lately that was: it is made of this
    version of GSSR and of the sizes, times and inodes of its files. ``listed``: the names in its folder if they are
    known, which saves looking for each. Raises OSError."""
    base = name.rpartition("/")[2]
    found = [__version__]
    if listed is not None and base in listed:
        status = os.lstat(name)
        if stat.S_ISREG(status.st_mode):
            found.append(_of(status))
        else:
            listed = None  # what is beside it is beside the file itself
    for suffix in _PARTS if listed is None else _PARTS[1:]:
        if listed is None or base + suffix in listed:
            with suppress(FileNotFoundError):
                found.append(suffix + _of(os.stat(companion_path(name, suffix))))
    if os.path.isdir(name + ".d") if listed is None else base + ".d" in listed:
        with os.scandir(name + ".d") as entries:
            found += [entry.name + _of(os.stat(entry)) for entry in sorted(entries, key=lambda entry: entry.name)]
    return " ".join(found)


def _of(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}.{status.st_ctime_ns}"


def _can_be(values: Sequence[Any], column: Column) -> bool:
    """Tell whether all values are of the type that the column declares, and possible numbers. SQLite itself does not
    mind."""
    kind, *not_null = column.type.split(" ", 1)
    types = set(map(type, values))
    if types - {_TYPES[kind], *([] if not_null else [type(None)])}:
        return False
    if kind == "TEXT":
        return True
    known = [value for value in values if value is not None] if type(None) in types else values
    return not known or (min(known) > -_BEYOND and max(known) < _BEYOND)
