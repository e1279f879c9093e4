"""Checking that everything of the ranks' files is in the merged one, before a rank's file is deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing

from gssr.store.format.columns import columns_of
from gssr.store.format.rows import Merged
from gssr.store.read.open import connect
from gssr.store.read.small_tables import ends_of

_ROWS = 16
"""Of each file so many samples, spread over it, are compared value by value."""


def all_full(target: sqlite3.Connection, ledger: Iterable[Merged], copied: Mapping[str, int]) -> bool:
    """Tell whether the merged file has a sample at each rowid that its ledger gives to a file. Asking of all files at
    once takes half the time; False only means that each must be checked. ``copied``: how many samples each file has, by
    name. Raises sqlite3.Error."""
    ends = sorted((row.first_rowid, row.last_rowid, copied.get(row.shard)) for row in ledger if row.last_rowid)
    end = 0
    for first, last, n in ends:
        if first is None or last is None or first != end + 1 or last - end != n:
            return False
        end = last
    # No more rows than places: as many rows as places are one in each.
    lowest, highest = ends_of(target)
    (n,) = target.execute("SELECT count(*) FROM samples").fetchone()
    return (lowest, highest, n) == ((1, end, end) if end else (None, None, 0))


def missing_from(
    target: sqlite3.Connection, path: str, row: Merged, n: int | None = None, found: int | None = None
) -> str | None:
    """Say what the merged file lacks of the rank's file at ``path``; None if it holds all.

    Args:
        row: the file's row in the ledger.
        n: how many samples the file has, if known.
        found: how many the merged file has at the ledger's rowids, if they were just counted.

    Raises RecordingError, sqlite3.Error.
    """
    with closing(connect(path)) as shard:
        first, last = ends_of(shard)
        if n is None:
            (n,) = shard.execute("SELECT count(*) FROM samples").fetchone()
        if found is None:
            (found,) = target.execute(
                "SELECT count(*) FROM samples WHERE rowid BETWEEN ? AND ?", (row.first_rowid, row.last_rowid)
            ).fetchone()
        if found != n or (row.last_rowid or 0) - (row.first_rowid or 0) != (last or 0) - (first or 0):
            return f"{found} of {n} samples are in the merged file"
        columns = [name for name in columns_of(shard, "samples") if name != "gpu"]
        wanted = f"SELECT {', '.join(columns)} FROM samples WHERE rowid = ?"
        shift = (row.first_rowid or 0) - (first or 0)
        for rowid in _spread(first, last) if first and last else ():
            if shard.execute(wanted, (rowid,)).fetchall() != target.execute(wanted, (rowid + shift,)).fetchall():
                return f"sample {rowid} is another one in the merged file"
        for table in ("processes", "gpus"):
            run_id = shard.execute("SELECT run_id FROM runs").fetchone()
            (own,) = shard.execute(f"SELECT count(*) FROM {table}").fetchone()
            (there,) = target.execute(f"SELECT count(*) FROM {table} WHERE run_id = ?", run_id).fetchone()
            if there < own:
                return f"{there} of {own} rows of {table} are in the merged file"
    return None


def _spread(first: int, last: int) -> Iterable[int]:
    """Return some rowids from the first to the last, both among them."""
    step = max(1, (last - first) // _ROWS)
    return sorted({*range(first, last, step), last})
