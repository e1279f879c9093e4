"""How much a recording may hold of what is kept whole in memory and looked at one by one: runs, ranks, GPUs. Samples and
rollups are read in pieces, of any number; events only up to MOST_EVENTS of a run.

A file of a megabyte can list a hundred thousand GPUs: reading it is to end in seconds, with its numbers or with a sentence.
"""

import sqlite3

from gssr.store.format.limits import LEAST_BYTES, MOST_GPUS, MOST_KEYS, MOST_RANKS, MOST_RUNS
from gssr.store.format.schema import GPU_KEYS_PER_RANK, SKETCHES
from gssr.store.read.guard import UnsafeError

_MOST = {
    "runs": MOST_RUNS,
    "gpus": MOST_GPUS,
    "processes": MOST_RANKS,
    "process_gpus": 4 * MOST_RANKS,
    "merged": MOST_RANKS,
    "thinned": MOST_RANKS,
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
