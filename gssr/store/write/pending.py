"""What a writer has not written yet, and how it gets into the file: in one transaction, or in several where much has
waited."""

import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, Union

from gssr.metrics import PLACES
from gssr.store.format.layout import LAYOUT, Layout
from gssr.store.format.rollup import (
    Bucket,
    Row,
    SketchRow,
    add_histograms,
    lay_out_anew,
    merge,
    pack_sketch,
    pack_vector,
    unpack_sketch,
    unpack_vector,
)
from gssr.store.format.schema import SKETCHES, TABLES

MAX_ROWS = 50_000
"""Samples kept (about 1 KB each) while the file can't be written; beyond that the oldest are dropped, and the rollups that
only counted them."""
MAX_OTHERS = 10_000
"""The same for each of the tables beside them."""
ROWS_AT_ONCE = 1_000
"""Samples written in one transaction, so that sampling goes on where many have waited: some 8 ms on a local disk, and a
quarter of a second on a slow one."""

Value = Union[str, int, float, None]

_KEYS = {"runs": ("run_id",), "processes": ("run_id", "rank")}


def insert_into(table: str, columns: Collection[str]) -> str:
    """Make the SQL statement that inserts a row of these columns."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def insertion(table: str, values: Mapping[str, Value]) -> tuple[str, list[Value]]:
    """Make the SQL statement that inserts a row of these columns, and its parameters. Raises ValueError for an unknown
    column."""
    names = [column.name for column in TABLES[table] if column.name in values]
    if len(names) != len(values):
        raise ValueError(f"{table} has no column {set(values) - set(names)}")
    return insert_into(table, names), [values[name] for name in names]


_OTHERS = {
    table: insert_into(table, [column.name for column in TABLES[table]])
    for table in ("host_samples", "workload_samples", "gpu_processes", "events")
}


def _only_time(row: Row) -> tuple[Any, ...]:
    return (row[1],)


def _fitting(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value for value in row)


class Pending:
    """What is to be written of one run, or of one rank of it. It is false when nothing is.

    ``rows`` are (rowid, GPU key) + ``columns`` of what the backend gave. ``others`` are whole rows of the tables that
    grow beside ``samples``, by table. ``closed`` and ``sketches`` come from Rollups.take.
    """

    def __init__(self) -> None:
        self.run_id = ""
        self.rank = 0
        self.measured: list[str] = []
        self.insert = ""
        """The statement for rows of ``samples``: rowid, gpu, time and the measured metrics."""
        self.gap_seconds = 0.0
        self.layout = LAYOUT
        self.columns: Callable[[Row], tuple[Any, ...]] = _only_time
        """Of a row that a backend gives, what is written: its time and the values of the measured metrics."""
        self.rows_at_once = ROWS_AT_ONCE
        """So many samples are written in one transaction."""
        self._written_until = -math.inf
        """The time of the last sample that was written, unix s."""
        self.forget()

    def measure(self, names: Collection[str], gap_seconds: float, layout: Layout) -> None:
        """Set which metrics' columns are written of samples to come, in the catalogue's order. More than
        ``gap_seconds`` between two samples of a GPU is a gap. Rollups are in ``layout``."""
        self.layout = layout
        self.measured = [name for name in PLACES if name in names]
        self.insert = insert_into("samples", ["rowid", "gpu", "time", *self.measured])
        self.gap_seconds = gap_seconds
        self.columns = itemgetter(1, *(PLACES[name] for name in self.measured)) if self.measured else _only_time

    def forget(self) -> None:
        """Forget everything that waits, because it has been written."""
        self.rows: list[tuple[Any, ...]] = []
        self.closed: list[Bucket] = []
        self.sketches: list[SketchRow] = []
        self.others: dict[str, list[tuple[Value, ...]]] = {table: [] for table in _OTHERS}
        self._singles: list[tuple[str, list[Value]]] = []
        self._updates: dict[str, dict[str, Value]] = {}

    def __bool__(self) -> bool:
        several = (self.rows, self.closed, self.sketches, self._singles, self._updates, *self.others.values())
        return any(several)

    def add(self, table: str, values: Mapping[str, Value]) -> None:
        """Add a row of these columns to a table that does not grow. Raises ValueError for an unknown column."""
        self._singles.append(insertion(table, values))

    def update(self, table: str, values: Mapping[str, Value]) -> None:
        """Change the run's row of ``runs``, or the rank's of ``processes``; nothing for no values."""
        if values:
            self._updates.setdefault(table, {}).update(values)

    def keep_the_end(self) -> None:
        """Forget all but events and what is to be told of the run and its ranks, which need little space."""
        singles, updates, events = self._singles, self._updates, self.others["events"]
        self.forget()
        self._singles, self._updates, self.others["events"] = singles, updates, events

    def drop_oldest(self) -> int:
        """Drop the oldest of what waits beyond MAX_ROWS samples and MAX_OTHERS other rows of a table. Returns how many
        samples were dropped."""
        for others in self.others.values():
            del others[:-MAX_OTHERS]
        n_dropped = max(0, len(self.rows) - MAX_ROWS)
        if n_dropped:
            del self.rows[:n_dropped]
            oldest, written = self.rows[0][2], self._written_until
            self.closed = [row for row in self.closed if row.start <= written or row.start + row.seconds > oldest]
            self.sketches = [row for row in self.sketches if row.bucket <= written or row.bucket + row.seconds > oldest]
        return n_dropped

    def null_what_does_not_fit(self) -> None:
        """Make NULL of integers that SQLite can't hold: a driver's -1 without a sign, where it has no value."""
        self.rows = list(map(_fitting, self.rows))
        self.others = {table: list(map(_fitting, rows)) for table, rows in self.others.items()}

    def write(self, connection: sqlite3.Connection) -> None:
        """Write all of it in one transaction, or of more than ``rows_at_once`` samples the oldest, and forget what was
        written. Raises sqlite3.Error, or OverflowError (null_what_does_not_fit), then maybe inside of the transaction."""
        # EXCLUSIVE, because where readers and the writer lock each other out a reader is met here, before anything was
        # written. Met at the end, all of it would be written again at every try; met in between, where the rows outgrow
        # SQLite's cache, each further page would wait for the reader.
        connection.execute("BEGIN EXCLUSIVE")
        rows = self.rows[: self.rows_at_once]
        is_all = len(rows) == len(self.rows)
        if rows:
            connection.executemany(self.insert, rows)
        for statement, parameters in self._singles:
            connection.execute(statement, parameters)
        for table, others in self.others.items():
            if others:
                connection.executemany(_OTHERS[table], others)
        if is_all:
            self._write_what_counts_rows(connection)
        connection.execute("COMMIT")
        if rows:
            self._written_until = rows[-1][2]
        if is_all:
            self.forget()
        else:
            del self.rows[: len(rows)]
            self._singles = []
            self.others = {table: [] for table in _OTHERS}

    def _write_what_counts_rows(self, connection: sqlite3.Connection) -> None:
        """Write rollups, sketches, and how the run stands: none of it is true before all samples are there."""
        for table, values in self._updates.items():
            assignments = ", ".join(f"{name} = ?" for name in values)
            where = " AND ".join(f"{key} = ?" for key in _KEYS[table])
            keys = (self.run_id, self.rank)[: len(_KEYS[table])]
            connection.execute(f"UPDATE {table} SET {assignments} WHERE {where}", (*values.values(), *keys))
        for rollup in self.closed:
            write_rollup(connection, rollup, self.gap_seconds, self.layout)
        for sketch in self.sketches:
            write_sketch(connection, sketch)


def write_rollup(connection: sqlite3.Connection, row: Bucket, gap_seconds: float, layout: Layout) -> None:
    """Insert a bucket, or merge it into the one of the same GPU, level and start that is there. Vectors are in the
    file's ``layout``; more than ``gap_seconds`` between the two is a gap. The caller commits. Raises sqlite3.Error."""
    where = (row.seconds, row.start, row.gpu)
    inserted = connection.execute(
        "INSERT OR IGNORE INTO rollup (level, bucket, gpu, first_rowid, last_rowid, data) VALUES (?, ?, ?, ?, ?, ?)",
        (*where, row.first_rowid, row.last_rowid, pack_vector(row.vector)),
    )
    if inserted.rowcount:
        return
    first, last, data = connection.execute(
        "SELECT first_rowid, last_rowid, data FROM rollup WHERE level = ? AND bucket = ? AND gpu = ?", where
    ).fetchone()
    vector = lay_out_anew(
        unpack_vector(data), layout, layout
    )  # one from before the file had all its columns is shorter
    merge(vector, row.vector, gap_seconds, layout)
    connection.execute(
        "UPDATE rollup SET first_rowid = ?, last_rowid = ?, data = ? WHERE level = ? AND bucket = ? AND gpu = ?",
        (min(first, row.first_rowid), max(last, row.last_rowid), pack_vector(vector), *where),
    )


def write_sketch(connection: sqlite3.Connection, row: SketchRow) -> None:
    """Insert a sketch, or add it to the one of the same GPU and time that is there. Raises sqlite3.Error."""
    table, where = SKETCHES[row.seconds], (row.bucket, row.gpu)
    inserted = connection.execute(
        f"INSERT OR IGNORE INTO {table} (bucket, gpu, data) VALUES (?, ?, ?)",
        (*where, pack_sketch(row.histograms, row.seconds)),
    )
    if inserted.rowcount:
        return
    (data,) = connection.execute(f"SELECT data FROM {table} WHERE bucket = ? AND gpu = ?", where).fetchone()
    histograms = unpack_sketch(data, row.seconds)
    histograms += [Counter() for _ in row.histograms[len(histograms) :]]  # the same with its histograms
    add_histograms(histograms, row.histograms)
    connection.execute(
        f"UPDATE {table} SET data = ? WHERE bucket = ? AND gpu = ?", (pack_sketch(histograms, row.seconds), *where)
    )
