"""Thinning a recording while it grows: of samples that are old enough their means over 10 s are left, or nothing.

Rollups and sketches have counted a sample before it goes, and are on the disk, so statistics stay those of all samples.
What is young stays as it is, for whoever follows the recording, looks at its newest samples, or merges it. Rows go bucket
by bucket, each in a transaction with the row of ``thinned`` that says so. The row of means takes the rowid of the bucket's
first sample: rowids go on ascending with time, and what rollups say of them stays true.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from typing import Any, Literal

from gssr.metrics import NAMES
from gssr.store.format.layout import Layout
from gssr.store.format.rollup import unpack_vector
from gssr.store.format.schema import LEVELS, YOUNG_SECONDS

Keep = Literal["raw", "10s", "none"]
"""What is kept of old samples: all, their means over 10 s, or nothing."""
KEEPS: tuple[Keep, ...] = ("raw", "10s", "none")

SHRINK_PAGES = 4_096
"""Pages given back to the filesystem at once."""

_STEP = LEVELS[0]


def mean_row(vector: Sequence[float], layout: Layout) -> tuple[float, dict[str, float | None]]:
    """Make what a bucket leaves of its samples, from its vector in ``layout``. Returns the middle of their times (unix
    s), and by metric the mean of a gauge or a rate, a counter's last value, every flag of a bit field that was set;
    None where nothing was measured."""
    values: dict[str, float | None] = {}
    for metric, at, _ in layout.blocks:
        if metric.derived or at >= len(vector):
            continue
        if not vector[at]:
            values[metric.name] = None
        elif metric.kind == "counter":
            values[metric.name] = vector[at + 2]
        elif metric.kind == "bits":
            values[metric.name] = vector[at + 1]
        else:
            values[metric.name] = vector[at + 1] / vector[at]
    return (vector[2] + vector[3]) / 2, values


class Thinner:
    """Thins what one writer records of a run's ``rank`` into a file whose rollups are in ``layout``. ``keys`` are those
    of its GPUs, empty until they are known: till then nothing is thinned."""

    def __init__(self, connection: sqlite3.Connection, run_id: str, rank: int, keep: Keep, layout: Layout) -> None:
        """Thin the samples of this rank of the run from now on, as ``keep`` says, and note that in the file; the caller
        commits. ``layout`` is that of the file's rollups. Raises sqlite3.Error."""
        self._connection = connection
        self._owner = (run_id, rank)
        self._keep = keep
        self._layout = layout
        self._end = -math.inf
        """Up to here everything was thinned, unix s."""
        self._wait = -math.inf
        self.keys: list[int] = []
        connection.execute("INSERT INTO thinned (run_id, rank, keep) VALUES (?, ?, ?)", (*self._owner, keep))

    def step(self, now: float) -> bool:
        """Thin the oldest bucket of 10 s that is old enough at ``now`` (unix s), in one transaction. All that was
        sampled must be written. Returns False when there is no such bucket. Raises sqlite3.Error, then maybe inside of
        the transaction."""
        if now < self._wait:
            return False
        bucket = self._oldest()
        if bucket is None or bucket + YOUNG_SECONDS > now:
            self._wait = now + _STEP if bucket is None else bucket + YOUNG_SECONDS
            return False
        self._connection.execute("BEGIN EXCLUSIVE")  # a reader in the way is met before anything was done
        self._thin_bucket(bucket)
        self._connection.execute("COMMIT")
        self._end = bucket + _STEP
        return True

    def _only(self) -> str:
        return f"level = {_STEP} AND gpu IN ({', '.join(map(str, self.keys))})"

    def _oldest(self) -> int | None:
        """Find the start of the first bucket from ``_end`` on; None without any."""
        begin = int(max(self._end, -1.0))
        query = f"SELECT bucket FROM rollup WHERE {self._only()} AND bucket >= ? ORDER BY bucket LIMIT 1"
        found = self._connection.execute(query, (begin,)).fetchone() if self.keys else None
        return None if found is None else int(found[0])

    def _thin_bucket(self, bucket: int) -> None:
        """Delete the samples of the 10 s from ``bucket`` (unix s) on, put their means in their place if ``keep`` is
        "10s", one row for each GPU, and note in ``thinned`` how far samples were thinned. There must be a rollup of that
        bucket. The caller has begun the transaction, and ends it. Raises sqlite3.Error."""
        end = bucket + _STEP
        found = self._connection.execute(
            f"SELECT gpu, first_rowid, last_rowid, data FROM rollup WHERE {self._only()} AND bucket = ?", (bucket,)
        ).fetchall()
        first, last = min(row[1] for row in found), max(row[2] for row in found)
        self._connection.execute(
            "DELETE FROM samples WHERE rowid BETWEEN ? AND ? AND time >= ? AND time < ?", (first, last, bucket, end)
        )
        if self._keep == "10s":
            names = ", ".join(("rowid", "gpu", "time", *NAMES))
            marks = ", ".join("?" * (3 + len(NAMES)))
            self._connection.executemany(f"INSERT INTO samples ({names}) VALUES ({marks})", map(self._row, found))
        self._connection.execute(
            "UPDATE thinned SET end_time = ?, first_rowid = coalesce(first_rowid, ?),"
            " last_rowid = max(coalesce(last_rowid, 0), ?) WHERE run_id = ? AND rank = ?",
            (end, first, last, *self._owner),
        )

    def shrink(self) -> None:
        """Give the pages that are free to the filesystem. Raises sqlite3.Error."""
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        for _ in range(0, free, SHRINK_PAGES):
            # As a script: execute would take one step, and it takes one for each page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({SHRINK_PAGES})")

    def _row(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """Make the row of ``samples`` for a bucket's (GPU, first rowid, last rowid, blob)."""
        time, values = mean_row(unpack_vector(found[3]), self._layout)
        return found[1], found[0], time, *(values.get(name) for name in NAMES)
