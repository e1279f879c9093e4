"""Rollups of ``host_samples`` and ``workload_samples``: SQLite counts its own rows, when their buckets are over.

There is a row a second of each node, and of each rank that samples: of a thousand for an hour seven million, which no page
can wait for. A bucket of a node or rank may have several rows, each of other samples: what is late opens another one. What
all of them do together over time is added up once more: that is what a job is judged by.

What columns of the host's and the workload's samples add up to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gssr.store.format.columns import columns_of
from gssr.store.format.schema import LEVELS, TABLES


class UseTable(NamedTuple):
    """A table of the use of nodes or ranks. ``samples``: its name; ``rollup``: the name of its rollup's table;
    ``owner``: the column that says whose a row is; ``values``: the columns with values. ``each`` and ``together``: SQL
    conditions that select the rollups of single owners, and those of all of them together."""

    samples: str
    rollup: str
    owner: str
    values: tuple[str, ...]
    each: str
    together: str

    def in_order(self, values: Mapping[str, float | None]) -> list[float | None]:
        """Return values by name in the order of the columns; None for a column without one."""
        return [values.get(name) for name in self.values]


def _table(samples: str, rollup: str, everyone: str) -> UseTable:
    columns = [column.name for column in TABLES[samples]]
    owner = columns[1]
    return UseTable(samples, rollup, owner, tuple(columns[3:]), f"{owner} > {everyone}", f"{owner} = {everyone}")


HOST = _table("host_samples", "host_rollup", "''")
WORKLOAD = _table("workload_samples", "workload_rollup", "-1")
USE_TABLES = (HOST, WORKLOAD)


def newest_row(connection: sqlite3.Connection, table: UseTable) -> int:
    """Return the rowid of the newest row of a table; 0 if it is empty. Raises sqlite3.Error."""
    ((rowid,),) = connection.execute(f"SELECT max(rowid) FROM main.{table.samples}").fetchall()
    return int(rowid or 0)


def roll_up(connection: sqlite3.Connection, table: UseTable, level: int, after: int, last: int) -> None:
    """Write buckets of ``level`` seconds of the rows behind rowid ``after``, up to ``last``. Raises sqlite3.Error."""
    counted = ", ".join(f"count({name}), total({name}), max({name})" for name in table.values)
    connection.execute(
        f"INSERT INTO main.{table.rollup} ({_columns(table)}) SELECT run_id, {table.owner}, {level},"
        f" CAST(time / {level} AS INTEGER) * {level}, count(*), {counted}"
        f" FROM main.{table.samples} WHERE rowid > ? AND rowid <= ? GROUP BY 1, 2, 4",
        (after, last),
    )


def _columns(table: UseTable) -> str:
    return ", ".join(column.name for column in TABLES[table.rollup])


def add_up(connection: sqlite3.Connection, table: UseTable) -> None:
    """Write anew the rollups that add up all owners (nodes, or ranks) of a table, from those of each owner. If there is
    only one owner they are only deleted: its own rollups say the same. Raises sqlite3.Error."""
    rollup, owner = f"main.{table.rollup}", table.owner
    connection.execute(f"DELETE FROM {rollup} WHERE level IN ({', '.join(map(str, LEVELS))}) AND {table.together}")
    ends = (f"(SELECT {end}({owner}) FROM {rollup} WHERE level = {LEVELS[-1]})" for end in ("min", "max"))
    ((first, last),) = connection.execute(f"SELECT {', '.join(ends)}").fetchall()
    if first == last:
        return
    everyone = table.together.removeprefix(f"{owner} = ")
    sums = ", ".join(f"CAST(total({name}_n) AS INTEGER), total({name}_sum), max({name}_max)" for name in table.values)
    for level in LEVELS:
        connection.execute(
            f"INSERT INTO {rollup} ({_columns(table)}) SELECT run_id, {everyone}, level, bucket, sum(n_rows),"
            f" {sums} FROM {rollup} WHERE level = {level} GROUP BY run_id, bucket"
        )


def count_rolled_up(connection: sqlite3.Connection, schema: str, table: UseTable, level: int, whose: str) -> int | None:
    """Return how many rows of a table of nodes or ranks its rollups of ``level`` seconds count. ``schema`` is "main" or
    the name of an attached file; ``whose`` is the condition ``table.each`` (rollups of each owner) or ``table.together``
    (those of all owners). None if the file lacks columns that such rollups need. Raises sqlite3.Error."""
    rows, rollups = (columns_of(connection, name, schema) for name in (table.samples, table.rollup))
    lacking = [name for name in table.values if name not in rows]  # in a file of an earlier version
    needed = {column.name for column in TABLES[table.rollup] if column.name.rpartition("_")[0] not in lacking}
    if not needed <= set(rollups):
        return None
    query = f"SELECT CAST(total(n_rows) AS INTEGER) FROM {schema}.{table.rollup} WHERE level = {level} AND {whose}"
    ((n,),) = connection.execute(query).fetchall()
    return int(n)


class UseRollups:
    """Rolls up the rows of nodes and ranks in one writer's file. Nobody else may add rows meanwhile."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Start behind the rows that are there already, which are somebody else's. Raises sqlite3.Error."""
        self._connection = connection
        self._until = {(table, level): newest_row(connection, table) for table in USE_TABLES for level in LEVELS}

    def close(self, all_of_them: bool = False) -> None:
        """Write the buckets that ended before the newest row, or all of them with ``all_of_them``. Raises
        sqlite3.Error; then nothing was written, and the next call may write it."""
        connection, until = self._connection, {}
        connection.execute("BEGIN EXCLUSIVE")  # a reader in the way is met before anything was done
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
        for table in USE_TABLES if all_of_them else ():
            add_up(connection, table)
        connection.execute("COMMIT")
        self._until |= until


class Extent(NamedTuple):
    """A column summed up: the number of its values that are not NULL, their sum, and the greatest, None without any."""

    n: int
    total: float
    greatest: float | None

    @property
    def mean(self) -> float | None:
        """The mean, None without values."""
        return self.total / self.n if self.n else None


def extents_of(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Extent]:
    """Join rows into one Extent for each of these columns: counts and sums are added, and the greatest value is kept
    (None if no row has one). Each row has count, sum and greatest value of every column in turn."""
    joined_rows = {}
    for index, name in enumerate(columns):
        triples = [row[3 * index : 3 * index + 3] for row in rows]
        greatest = [triple[2] for triple in triples if triple[2] is not None]
        joined_rows[name] = Extent(sum(t[0] for t in triples), sum(t[1] for t in triples), max(greatest, default=None))
    return joined_rows
