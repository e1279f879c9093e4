"""Recordings come from other people: a file may hold anything. Whoever opens one gets a connection that can do nothing but
read the tables of gssr.store.format.schema, within bounds that grow with the file and with nothing that it says. The same
holds for the databases of other programs, of which other tables are read.

Views, virtual tables and computed columns do what the file says: one in the place of a table of ours is refused, and so are
triggers, conditions and indexes of expressions where the file is to be written. What else a file holds is never looked at.

How much a recording may hold of what is kept whole in memory and looked at one by one: runs, ranks, GPUs. Samples and
rollups are read in pieces, of any number; events only up to MOST_EVENTS of a run.

A file of a megabyte can list a hundred thousand GPUs: reading it is to end in seconds, with its numbers or with a sentence.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Container, Sequence
from typing import Any

from gssr.store.format.limits import LEAST_BYTES, MOST_GPUS, MOST_KEYS, MOST_RANKS, MOST_RUNS, MOST_TRACES
from gssr.store.format.schema import GPU_KEYS_PER_RANK, SKETCHES, TABLES, create_statements

_MOST = {
    "runs": MOST_RUNS,
    "gpus": MOST_GPUS,
    "processes": MOST_RANKS,
    "process_gpus": 4 * MOST_RANKS,
    "merged": MOST_RANKS,
    "thinned": MOST_RANKS,
    "traces": MOST_TRACES,
}
"""Rows by table."""


def check_sizes(connection: sqlite3.Connection, to_write: bool = False) -> None:
    """Has no table more rows than MOST_... say, and, ``to_write``, no more than half as many: what is added must be read as
    well. What can't be counted can't be read any further, either. Raises UnsafeError, sqlite3.Error."""
    size = 1
    for pragma in ("page_count", "page_size"):
        size *= connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    for table, most in _MOST.items():
        bound = most // 2 if to_write else most
        if bound * LEAST_BYTES > size:
            continue
        try:
            beyond = connection.execute(f"SELECT 1 FROM {table} LIMIT 1 OFFSET {bound}").fetchone()
        except sqlite3.DatabaseError:
            continue
        if beyond:
            raise UnsafeError(f"it has more than {bound:,} rows in {table}")


def highest_key(connection: sqlite3.Connection) -> int | None:
    """The highest key of a GPU in a file that is to be added to, also of one whose rollups are there and it is not. Raises
    UnsafeError when none is left for more GPUs, sqlite3.Error."""
    each = " UNION ALL ".join(
        f"SELECT max(gpu) AS gpu FROM {table}" for table in ("gpus", "rollup", *SKETCHES.values())
    )
    (highest,) = connection.execute(f"SELECT max(gpu) FROM ({each})").fetchone()
    if highest is None or (isinstance(highest, int) and highest < MOST_KEYS - GPU_KEYS_PER_RANK):
        return highest
    raise UnsafeError(f"it has a GPU under the key {str(highest)[:40]!r}")


LONGEST_VALUE = 1 << 26
"""Bytes of one value, or of one row."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 8,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
OPERATIONS, OPERATIONS_PER_BYTE = 5_000_000, 50
"""What one query may take of SQLite's own operations. A row of samples takes some 40, and at least 40 bytes; only where
pages of a damaged file lead back to themselves are more needed than the file is long."""
_OPERATIONS_AT_ONCE = 1_000_000
_STATEMENTS = 16
_SCHEMA_OPERATIONS, _SCHEMA_STEPS = 1000, 100
"""Reading a schema takes some ten for each of its tables and indexes: nobody has ten thousand of them."""

_DEFENSIVE, _ENABLE_TRIGGER = 1010, 1003  # SQLITE_DBCONFIG_…

_CATALOGUE = frozenset({"sqlite_master", "sqlite_schema"})
_FUNCTIONS = frozenset({"count", "total", "sum", "min", "max", "group_concat"})
_QUESTIONS = frozenset({"application_id", "user_version", "journal_mode"})
_QUESTIONS_OF_TABLES = frozenset({"table_info", "table_xinfo", "quick_check"})
_HARMLESS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_TRANSACTION})
_QUERIES = _HARMLESS | {
    sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_SAVEPOINT,
}  # fmt: skip
_LOOKS = _QUESTIONS_OF_TABLES | {
    "database_list", "foreign_key_list", "index_info", "index_list", "index_xinfo", "table_list",
}  # fmt: skip

_OWN = frozenset(statement.replace("IF NOT EXISTS ", "") for statement in create_statements())
"""As SQLite keeps the statements that made our tables."""
_NAME, _TYPE = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}"), re.compile("[A-Za-z0-9_]{0,32}")
_PLAIN_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX [\w\"]+ ON [\w\"]+ ?\([\w\", ]+\)")
_RUNS_WHEN_WRITTEN = re.compile(r"\b(check|default|collate|references|conflict)\b", re.IGNORECASE)


class UnsafeError(sqlite3.DatabaseError):
    """The file holds what no recording holds; the text goes on after its name."""


class Budget:
    """What the query that is running has taken so far; ``files``: the recording's, and what is beside it. Knows nothing of
    its connection, which could not be let go of in a circle."""

    def __init__(self) -> None:
        self.operations = 0
        self.files: Sequence[str] = ()

    def is_spent(self) -> bool:
        """Called by SQLite each time that it has taken some more."""
        self.operations += _OPERATIONS_AT_ONCE
        if self.operations <= OPERATIONS:
            return False
        return self.operations > OPERATIONS + OPERATIONS_PER_BYTE * sum(map(_size, self.files))


class Guarded(sqlite3.Connection):
    """A connection whose queries end: see OPERATIONS. It keeps few of them ready: a thousand files are open at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.budget = Budget()
        super().__init__(*arguments, **(options | {"cached_statements": _STATEMENTS}))

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """As always, with a bound of its own."""
        self.budget.operations = 0
        return super().execute(*arguments)

    def bound(self) -> None:
        """Bound every query from now on."""
        self.set_progress_handler(self.budget.is_spent, _OPERATIONS_AT_ONCE)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def distrust(connection: sqlite3.Connection) -> None:
    """Before its first statement: make a connection take nothing for granted that the file says, while its schema is read
    as well. Raises sqlite3.Error."""
    for which, most in _LIMITS.items():
        connection.setlimit(which, most)
    steps = iter(range(_SCHEMA_STEPS))
    connection.set_progress_handler(lambda: next(steps, None) is None, _SCHEMA_OPERATIONS)
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON"):
        connection.execute(f"PRAGMA {pragma}")
    configure = getattr(connection, "setconfig", None)  # from Python 3.12 on
    if configure is not None:
        configure(_DEFENSIVE, True)
        configure(_ENABLE_TRIGGER, False)


def check_schema(
    connection: sqlite3.Connection, to_write: bool = False, tables: Container[str] = TABLES.keys()
) -> None:  # fmt: skip
    """Is what has the name of one of these tables (in lower case) a plain table, and, ``to_write``, does nothing run when
    it is written? Raises UnsafeError, sqlite3.Error."""
    for kind, name, statement in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if statement in _OWN or (kind == "index" and statement is None):
            continue
        text, table = str(statement), str(name).lower()
        if table in tables:
            if kind != "table" or not text.startswith("CREATE TABLE "):
                raise UnsafeError(f"{table} is no plain table")
            _check_columns(connection, table)
        if to_write and _runs_when_written(str(kind), table, text):
            raise UnsafeError(f"the {kind} {str(name)[:40]!r} would do more than keep what is written")


def _runs_when_written(kind: str, table: str, statement: str) -> bool:
    if kind == "table":
        return table in TABLES and _RUNS_WHEN_WRITTEN.search(statement) is not None
    return kind == "trigger" or (kind == "index" and not _PLAIN_INDEX.fullmatch(statement))


def _check_columns(connection: sqlite3.Connection, table: str) -> None:
    for _, name, kind, _, _, _, hidden in connection.execute(f"PRAGMA table_xinfo({table})").fetchall():
        if hidden or name.lower() == "rowid" or not (_NAME.fullmatch(name) and _TYPE.fullmatch(kind)):
            raise UnsafeError(f"{table} has an impossible column, {name[:40]!r}")


Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def only_reads(tables: Container[str]) -> Authorizer:
    """An authorizer: only what reading these tables (in lower case) needs, nothing in the name of a view or a trigger."""

    def authorize(action: int, first: str | None, second: str | None, _: str | None, inside: str | None) -> int:
        name = str(first).lower()
        allowed = inside is None and (
            action in _HARMLESS
            or (action == sqlite3.SQLITE_READ and (name in tables or name in _CATALOGUE))
            or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS)
            or (action == sqlite3.SQLITE_PRAGMA and first in (_QUESTIONS_OF_TABLES if second else _QUESTIONS))
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return authorize


def answers(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """An authorizer for questions that the user asks in SQL: whatever only reads."""
    allowed = action in _QUERIES or (
        action == sqlite3.SQLITE_PRAGMA and first in (_LOOKS if second else _QUESTIONS | _LOOKS)
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def not_by_itself(*asked: int | str | None) -> int:
    """An authorizer for writing: nothing in the name of a view or a trigger."""
    return sqlite3.SQLITE_OK if asked[-1] is None else sqlite3.SQLITE_DENY
