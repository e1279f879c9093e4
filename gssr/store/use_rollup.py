"""Rollups of ``host_samples`` and ``workload_samples``: SQLite counts its own rows, when their buckets are over.

There is a row a second of each node, and of each rank that samples: of a thousand for an hour seven million, which no page
can wait for. A bucket of a node or rank may have several rows, each of other samples: what is late opens another one.
"""

import sqlite3
from typing import NamedTuple

from gssr.store.schema import LEVELS, TABLES


class UseTable(NamedTuple):
    """A table that stands beside the GPUs' samples: its name, that of its rollup, the column that says whose a row is, and
    those with values."""

    samples: str
    rollup: str
    owner: str
    values: tuple[str, ...]


def _table(samples: str, rollup: str) -> UseTable:
    columns = [column.name for column in TABLES[samples]]
    return UseTable(samples, rollup, columns[1], tuple(columns[3:]))


HOST, WORKLOAD = _table("host_samples", "host_rollup"), _table("workload_samples", "workload_rollup")
USE_TABLES = (HOST, WORKLOAD)


def newest_row(connection: sqlite3.Connection, table: UseTable) -> int:
    """Rowid of the newest row of a table; 0 when it is empty. Raises sqlite3.Error."""
    ((rowid,),) = connection.execute(f"SELECT max(rowid) FROM main.{table.samples}").fetchall()
    return int(rowid or 0)


def roll_up(connection: sqlite3.Connection, table: UseTable, level: int, after: int, last: int) -> None:
    """Write buckets of ``level`` seconds of the rows after rowid ``after`` up to ``last``. Raises sqlite3.Error."""
    counted = ", ".join(f"count({name}), total({name}), max({name})" for name in table.values)
    connection.execute(
        f"INSERT INTO main.{table.rollup} SELECT run_id, {table.owner}, {level}, CAST(time / {level} AS INTEGER) * {level},"
        f" count(*), {counted} FROM main.{table.samples} WHERE rowid > ? AND rowid <= ? GROUP BY 1, 2, 4",
        (after, last),
    )


def counted(connection: sqlite3.Connection, schema: str, table: UseTable, level: int) -> int | None:
    """How many rows the rollups of a level count; None where there are none of such. Raises sqlite3.Error."""
    columns = connection.execute(f"PRAGMA {schema}.table_info({table.rollup})").fetchall()
    if [row[1] for row in columns] != [column.name for column in TABLES[table.rollup]]:
        return None
    query = f"SELECT CAST(total(n_rows) AS INTEGER) FROM {schema}.{table.rollup} WHERE level = {level}"
    ((n,),) = connection.execute(query).fetchall()
    return int(n)


class UseRollups:
    """What one writer's file has rolled up. Only the writer adds rows while this lives."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Rows that are there already are somebody else's. Raises sqlite3.Error."""
        self._connection = connection
        self._until = {(table, level): newest_row(connection, table) for table in USE_TABLES for level in LEVELS}

    def close(self, all_of_them: bool = False) -> None:
        """Write the buckets that ended before the newest row, or all. Raises sqlite3.Error; then nothing was written, and
        the next call may write it."""
        connection, until = self._connection, {}
        connection.execute("BEGIN IMMEDIATE")
        for (table, level), after in self._until.items():
            last = newest_row(connection, table)
            if last > after and not all_of_them:
                ((last,),) = connection.execute(
                    f"SELECT min(rowid) - 1 FROM {table.samples} WHERE rowid > :after AND time >= {level} *"
                    f" (SELECT CAST(time / {level} AS INTEGER) FROM {table.samples} WHERE rowid = :last)",
                    {"after": after, "last": last},
                ).fetchall()
            if last > after:
                roll_up(connection, table, level, after, last)
                until[table, level] = last
        connection.execute("COMMIT")
        self._until |= until
