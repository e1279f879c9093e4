"""Rolling up what a rank's file left uncounted: the end of one that was cut off. In the merged file the rollups of all
ranks are read together, so none may lack its last minutes."""

import sqlite3
from collections.abc import Mapping

from gssr.metrics import NAMES
from gssr.store.columns import columns_of
from gssr.store.pending import write_rollup, write_sketch
from gssr.store.rollup import Rollups
from gssr.store.values import GREATEST, LATEST, number

_ROWS_AT_ONCE = 4096


def roll_up_rest(connection: sqlite3.Connection, last: int, counted: Mapping[int, int], gap_seconds: float) -> None:
    """Roll up the samples of GPUs (by key) with rowids from behind ``counted`` up to ``last``. Raises sqlite3.Error."""
    columns = columns_of(connection, "samples")
    wanted = ", ".join(name if name in columns else "NULL" for name in NAMES)
    rollups = Rollups(gap_seconds, [name for name in NAMES if name in columns])
    cursor = connection.execute(
        f"SELECT rowid, gpu, time, {wanted} FROM main.samples WHERE rowid BETWEEN ? AND ? ORDER BY rowid",
        (min(counted.values()) + 1, last),
    )
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        for rowid, key, time, *values in rows:
            if rowid > counted.get(key, last) and number(time, LATEST) is not None:
                rollups.add(
                    rowid, key, (key, time, *(None if value is None else number(value, GREATEST) for value in values))
                )
        _write(connection, rollups, gap_seconds)
    rollups.close_all()
    _write(connection, rollups, gap_seconds)


def _write(connection: sqlite3.Connection, rollups: Rollups, gap_seconds: float) -> None:
    closed, sketches = rollups.take()
    for bucket in closed:
        write_rollup(connection, bucket, gap_seconds)
    for sketch in sketches:
        write_sketch(connection, sketch)
