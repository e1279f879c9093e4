"""What the columns of a recording's tables are called. For SQLite SM_CLOCK and sm_clock are one name: so they are for its
readers."""

import sqlite3
from collections.abc import Sequence

from gssr.guarded_sqlite import Guarded
from gssr.store.format.schema import TABLES

_COLUMNS = {table: [column.name for column in columns] for table, columns in TABLES.items()}
_NAMES = {table: frozenset(names) for table, names in _COLUMNS.items()}


def own_name(name: str, table: str) -> str:
    """Return the name of a column as gssr.store.format.schema writes it; unchanged if the schema has no such column."""
    own = name.lower()
    return own if own in _NAMES[table] else name


def columns_of(connection: sqlite3.Connection, table: str, schema: str = "main") -> list[str]:
    """List the names of a table's columns, in its order; [] if there is no such table. Raises sqlite3.Error."""
    if schema == "main" and isinstance(connection, Guarded) and table in connection.known_tables:
        return [*_COLUMNS[table]]
    return [own_name(row[1], table) for row in connection.execute(f"PRAGMA {schema}.table_info({table})")]


def metric_columns(connection: sqlite3.Connection, schema: str = "main") -> list[str]:
    """List the names of the metrics in ``samples``, in the file's order. Raises sqlite3.Error."""
    return [name for name in columns_of(connection, "samples", schema) if name not in ("gpu", "time")]


def selected(connection: sqlite3.Connection, table: str, names: Sequence[str]) -> list[str]:
    """Return SQL expressions that select these columns: their names, or NULL for those that an earlier version's file
    lacks. Raises sqlite3.Error."""
    present = columns_of(connection, table)
    return [name if name in present else "NULL" for name in names]
