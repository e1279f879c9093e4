"""Checks on a recording that comes from somebody else, once gssr.guarded_sqlite has opened it.

- Nothing but plain tables is in the place of those of gssr.store.format.schema; and no trigger, condition or index of an
  expression is there where the file is to be written.
- There are not too many runs, ranks and GPUs, which are kept whole in memory and looked at one by one: a file of a megabyte
  can list a hundred thousand GPUs, and reading it has to end in seconds, with its numbers or with a sentence. Samples and
  rollups may be any number, as they are read in pieces.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Container

from gssr.guarded_sqlite import Guarded, UnsafeError, check_table
from gssr.store.format.limits import (
    LEAST_BYTES,
    MOST_GPUS,
    MOST_KEYS,
    MOST_RANKS,
    MOST_ROWIDS,
    MOST_RUNS,
    MOST_TRACES,
)  # fmt: skip
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


def check_sizes(connection: Guarded, to_write: bool = False) -> None:
    """Check that no table has more rows than may be. With ``to_write`` no more than half as many may be there, as what
    is added must be readable as well, and more samples must have room behind the last rowid. A table whose rows cannot
    be counted passes, as they cannot be read either. Raises UnsafeError, sqlite3.Error."""
    size = connection.budget.size()
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
    if to_write:
        check_rowid(connection.execute("SELECT max(rowid) FROM samples").fetchone()[0])


def check_rowid(highest: int | None) -> None:
    """Check that more samples can follow the one with this rowid, None for no sample. Raises UnsafeError."""
    if highest is not None and highest >= MOST_ROWIDS:
        raise UnsafeError(f"it has a sample under the rowid {highest}, behind which there is no room")


def highest_key(connection: sqlite3.Connection) -> int | None:
    """Return the highest key of a GPU in a file that is to be added to, also of GPUs that only have rollups; None
    without any. Raises UnsafeError if none is left for more GPUs, sqlite3.Error."""
    each = " UNION ALL ".join(
        f"SELECT max(gpu) AS gpu FROM {table}" for table in ("gpus", "rollup", *SKETCHES.values())
    )
    (highest,) = connection.execute(f"SELECT max(gpu) FROM ({each})").fetchone()
    if highest is None or (isinstance(highest, int) and highest < MOST_KEYS - GPU_KEYS_PER_RANK):
        return highest
    raise UnsafeError(f"it has a GPU under the key {str(highest)[:40]!r}")


_OWN = frozenset(statement.replace("IF NOT EXISTS ", "") for statement in create_statements())
"""As SQLite keeps the statements that made our tables."""
_PLAIN_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX [\w\"]+ ON [\w\"]+ ?\([\w\", ]+\)")
_RUNS_WHEN_WRITTEN = re.compile(r"\b(check|default|collate|references|conflict)\b", re.IGNORECASE)


def check_schema(connection: Guarded, to_write: bool = False, tables: Container[str] = TABLES.keys()) -> None:
    """Check that whatever has the name of one of these tables (in lower case) is a plain table, and, with ``to_write``,
    that nothing runs when it is written. Notes which of them are as this version makes them. Raises UnsafeError,
    sqlite3.Error."""
    schema, connection.schema = connection.schema, None
    assert schema is not None
    connection.known_tables = frozenset(
        name for kind, name, statement in schema if kind == "table" and statement in _OWN
    )
    for kind, name, statement in schema:
        if statement in _OWN or (kind == "index" and statement is None):
            continue
        text, table = str(statement), str(name).lower()
        if table in tables:
            check_table(connection, table, kind, text)
        if to_write and _runs_when_written(str(kind), table, text):
            raise UnsafeError(f"the {kind} {str(name)[:40]!r} would do more than keep what is written")


def _runs_when_written(kind: str, table: str, statement: str) -> bool:
    """Tell whether this part of a schema, of its ``kind`` and with its ``statement``, makes SQLite do more than store
    rows when a table is written."""
    if kind == "table":
        return table in TABLES and _RUNS_WHEN_WRITTEN.search(statement) is not None
    return kind == "trigger" or (kind == "index" and not _PLAIN_INDEX.fullmatch(statement))
