"""Open an SQLite database that came from somebody else. Every reader of such a file uses the connection made here: the
readers of recordings (gssr.store.read.open, which also knows what a recording may hold), those of traces and metric files
that are databases, and gssr.recognise, which only asks what a file is.

The connection can do nothing but read the tables it is given, within bounds that grow with the file and with nothing that
the file says. Views, virtual tables and computed columns do what the file says: one in the place of a table that is read is
refused (``check_table``). What else a file holds is never looked at.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Container, Sequence
from typing import Any, Optional

LONGEST_VALUE = 1 << 26
"""Bytes of one value, or of one row."""
_LONGEST_STATEMENT = 1 << 16
"""Bytes of one row of the schema, while it is read: the longest statement of a known tool, GSSR's own, has 4,000. Rows of a
damaged schema can share their pages, so that a small file holds very many long ones."""
_MOST_TEXT = 2
"""Bytes of text that one query may give, in sizes of the file: text in UTF-16 becomes up to one and a half times as long in
UTF-8. Only where values share their pages, as no tool writes them, there can be more."""
LIMIT_LENGTH = 0
"""SQLite's number of the limit for the length of a value, a row and a statement, in bytes: SQLITE_LIMIT_LENGTH."""
_LIMIT_COLUMN, _LIMIT_EXPR_DEPTH, _LIMIT_FUNCTION_ARG, _LIMIT_TRIGGER_DEPTH = 2, 3, 6, 10  # SQLITE_LIMIT_…
_LIMITS = {
    LIMIT_LENGTH: _LONGEST_STATEMENT,
    _LIMIT_COLUMN: 200,
    _LIMIT_EXPR_DEPTH: 50,
    _LIMIT_FUNCTION_ARG: 8,
    _LIMIT_TRIGGER_DEPTH: 1,
}
OPERATIONS, OPERATIONS_PER_BYTE = 5_000_000, 50
"""What one query may take of SQLite's own operations. A row of samples takes some 40, and at least 40 bytes; only where
pages of a damaged file lead back to themselves are more needed than the file is long."""
_OPERATIONS_AT_ONCE = 1_000_000
_STATEMENTS = 16
_SCHEMA_OPERATIONS, _SCHEMA_STEPS = 1000, 100
"""Reading a schema takes some ten for each of its tables and indexes: nobody has ten thousand of them."""

_DEFENSIVE, _ENABLE_TRIGGER = 1010, 1003  # SQLITE_DBCONFIG_…

_READ, _OK = sqlite3.SQLITE_READ, sqlite3.SQLITE_OK
_CATALOGUE = frozenset({"sqlite_master", "sqlite_schema"})
_FUNCTIONS = frozenset({"count", "total", "sum", "min", "max", "group_concat"})
_QUESTIONS = frozenset({"application_id", "user_version", "journal_mode", "page_count"})
_QUESTIONS_OF_TABLES = frozenset({"table_info", "table_xinfo", "quick_check"})
_HARMLESS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_TRANSACTION})
_QUERIES = _HARMLESS | {
    sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_SAVEPOINT,
}  # fmt: skip
_LOOKS = _QUESTIONS_OF_TABLES | {
    "database_list", "foreign_key_list", "index_info", "index_list", "index_xinfo", "table_list",
}  # fmt: skip

_NAME, _TYPE = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}"), re.compile("[A-Za-z0-9_]{0,32}")


class UnsafeError(sqlite3.DatabaseError):
    """The file holds what no file of its kind holds. The text continues a sentence that begins with the file's name."""


class Budget:
    """Counts what the running query has used. ``files``: the database and the files beside it, whose sizes bound the
    query. It does not refer to its connection, as neither could be freed then."""

    def __init__(self) -> None:
        self.operations = self.text_bytes = 0
        self.files: Sequence[str] = ()

    def size(self) -> int:
        """Return how long the files are together."""
        return sum(map(_size, self.files))

    def is_spent(self) -> bool:
        """Count a batch of operations, each time SQLite calls it, and return True if the query has used too many."""
        self.operations += _OPERATIONS_AT_ONCE
        if self.operations <= OPERATIONS:
            return False
        return self.operations > OPERATIONS + OPERATIONS_PER_BYTE * self.size()

    def text(self, data: bytes) -> str:
        """Decode text, replacing what is not UTF-8. Raises sqlite3.DatabaseError if the query has returned more text
        than the file can hold."""
        self.text_bytes += len(data)
        if self.text_bytes > LONGEST_VALUE and self.text_bytes > _MOST_TEXT * self.size():
            raise sqlite3.DatabaseError("it gives more text than it is long")
        return data.decode("utf-8", "replace")


class Guarded(sqlite3.Connection):
    """A connection whose queries are bounded, see OPERATIONS. It caches few statements, as a thousand files may be open
    at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.budget = Budget()
        self.schema: list[tuple[str, str, str | None]] | None = None
        """Type, name and statement of all that the file holds, from ``distrust`` until they were checked."""
        self.known_tables: frozenset[str] = frozenset()
        """Tables that were made by a statement of this version, so that nobody need ask for their columns."""
        super().__init__(*arguments, **(options | {"cached_statements": _STATEMENTS}))

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Execute a statement with a fresh budget. Raises sqlite3.DatabaseError also for a damaged schema that SQLite
        quotes in a message that is not UTF-8."""
        self.budget.operations = self.budget.text_bytes = 0
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError:
            raise sqlite3.DatabaseError("malformed database schema") from None

    def bound(self) -> None:
        """Bound every query from now on by the sizes of the files. Call it once the schema was read, which has narrower
        bounds."""
        limit(self, LIMIT_LENGTH, LONGEST_VALUE)
        self.set_progress_handler(self.budget.is_spent, _OPERATIONS_AT_ONCE)


def limit(connection: sqlite3.Connection, which: int, most: int) -> None:
    """Set one of SQLite's limits for a connection, by its number. Does nothing before Python 3.11, which can't: there only
    the progress handler and the authorizer bound what a file can make SQLite do."""
    set_limit = getattr(connection, "setlimit", None)
    if set_limit is not None:
        set_limit(which, most)


def open_guarded(database: str, files: Sequence[str], **options: Any) -> Guarded:
    """Open a database that nobody vouches for, and read its schema within bounds.

    Args:
        database: a path, or a URI with ``uri=True``.
        files: the database's file and those beside it, whose sizes bound what a query may use.
        options: passed on to sqlite3.connect.

    Call ``bound`` and set an authorizer before you read tables. Raises sqlite3.Error.
    """
    connection = sqlite3.connect(database, isolation_level=None, factory=Guarded, **options)
    connection.budget.files = files
    connection.text_factory = connection.budget.text
    try:
        distrust(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def uri_of(path: str, mode: str) -> str:
    """Return the URI with which SQLite opens a file in a mode ("ro" or "rw")."""
    from urllib.parse import quote  # here, because what starts beside a job must start quickly

    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def distrust(connection: Guarded) -> None:
    """Make a connection take nothing for granted that the file says, and read its schema within bounds. Call it before
    the first statement. Raises sqlite3.Error."""
    for which, most in _LIMITS.items():
        limit(connection, which, most)
    steps = iter(range(_SCHEMA_STEPS))
    connection.set_progress_handler(lambda: next(steps, None) is None, _SCHEMA_OPERATIONS)
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON"):
        connection.execute(f"PRAGMA {pragma}")
    configure = getattr(connection, "setconfig", None)  # from Python 3.12 on
    if configure is not None:
        configure(_DEFENSIVE, True)
        configure(_ENABLE_TRIGGER, False)
    connection.schema = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()


def check_table(connection: Guarded, table: str, kind: str, statement: str) -> None:
    """Check that a table is a plain one. ``kind`` and ``statement`` are ``type`` and ``sql`` of its row in
    sqlite_master. Raises UnsafeError for a view, a virtual table, computed columns and impossible names; sqlite3.Error."""
    if kind != "table" or not statement.startswith("CREATE TABLE "):
        raise UnsafeError(f"{table} is no plain table")
    for _, name, type_, _, _, _, hidden in connection.execute(f"PRAGMA table_xinfo({table})").fetchall():
        if hidden or name.lower() == "rowid" or not (_NAME.fullmatch(name) and _TYPE.fullmatch(type_)):
            raise UnsafeError(f"{table} has an impossible column, {name[:40]!r}")


def in_one_line(error: Exception) -> str:
    """Return the message of an error of SQLite, which may quote statements of the file, in one line."""
    return " ".join(str(error).split())


Authorizer = Callable[[int, Optional[str], Optional[str], Optional[str], Optional[str]], int]


def only_reads(tables: Container[str]) -> Authorizer:
    """Make an authorizer that allows only what reading these tables (names in lower case) needs, and nothing on behalf
    of a view or trigger."""

    def authorize(action: int, first: str | None, second: str | None, _: str | None, inside: str | None) -> int:
        """Answer whether a statement may do this, as SQLite asks it of an authorizer. ``inside``: the view or trigger on
        whose behalf it would be done."""
        if action == _READ and first in tables and inside is None:
            return _OK  # nearly always: each column of each statement is asked for
        name = str(first).lower()
        allowed = inside is None and (
            action in _HARMLESS
            or (action == _READ and (name in tables or name in _CATALOGUE))
            or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS)
            or (action == sqlite3.SQLITE_PRAGMA and first in (_QUESTIONS_OF_TABLES if second else _QUESTIONS))
        )
        return _OK if allowed else sqlite3.SQLITE_DENY

    return authorize


def answers(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Authorize what only reads, for questions that the user asks in SQL."""
    allowed = action in _QUERIES or (
        action == sqlite3.SQLITE_PRAGMA and first in (_LOOKS if second else _QUESTIONS | _LOOKS)
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def not_by_itself(*asked: int | str | None) -> int:
    """Authorize everything except what a view or trigger does, for writing."""
    return sqlite3.SQLITE_OK if asked[-1] is None else sqlite3.SQLITE_DENY
