"""Writing a recording: one writer, one file, committed while sampling.

What is added is kept for at most COMMIT_SECONDS and then written in one transaction: samples, the rollups that closed with
them, host samples, events. When a write fails (disk full, quota) everything is kept and tried again, up to a limit.
"""

import math
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from gssr.metrics import METRICS
from gssr.store import open as opening
from gssr.store.blobs import pack_sketch, pack_vector, unpack_sketch, unpack_vector
from gssr.store.open import RecordingError
from gssr.store.rollup import RollupRow, Rollups, Row, SketchRow, merge
from gssr.store.schema import GAP_INTERVALS, GPU_KEYS_PER_RANK, TABLES

COMMIT_SECONDS = 0.5
"""Rows are at most this old (and one tick) when they are committed; a killed sampler loses no more."""
CHECKPOINT_SECONDS = 10.0
MAX_KEPT_ROWS = 100_000
"""Rows kept in memory while the file can't be written; beyond that the oldest are dropped and an event says so."""

SILENT_SECONDS = 20.0
"""A GPU's bucket that ended this long ago is closed although no later row came: readers may rely on it."""

Value = str | int | float | None


def _insert_into(table: str) -> str:
    columns = [column.name for column in TABLES[table]]
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


_INSERTS = {table: _insert_into(table) for table in ("host_samples", "workload_samples", "events")}


class Writer:
    """The writer of one run into one file. Times are unix seconds on the recording's clock."""

    def __init__(self, path: str, append: bool = False) -> None:
        """Create the file, or with ``append`` open it to add a run. Raises RecordingError."""
        self.path = path
        self._connection = opening.reopen(path) if append else opening.create(path)
        self._run_id = ""
        self._rank = 0
        self._node = ""
        self._keys: list[int] = []
        self._rows: list[tuple[Any, ...]] = []
        self._statements: list[tuple[str, tuple[Value, ...]]] = []
        self._closed: list[RollupRow] = []
        self._sketches: list[SketchRow] = []
        self._rollups: Rollups | None = None
        self._gap_seconds = math.inf
        self._dropped = 0
        self._last_commit = -math.inf
        self._last_checkpoint = -math.inf
        self.problem: str | None = None
        (last,) = self._connection.execute("SELECT max(rowid) FROM samples").fetchone()
        self._next_rowid = (last or 0) + 1
        self._insert = ""
        self._columns: list[int] | None = None

    def begin(self, run: Mapping[str, Value], process: Mapping[str, Value]) -> None:
        """Record the run and this rank's process at once; keys are columns of ``runs`` and ``processes``. The run's row is
        left alone when another rank made it already. Raises RecordingError."""
        self._run_id, self._rank = str(run["run_id"]), int(process["rank"] or 0)
        self._node = str(process.get("node") or "")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._put("INSERT OR IGNORE", "runs", run)
            self._put("INSERT", "processes", {"run_id": self._run_id, **process})
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path}: can't be written: {error}") from None

    def add_gpus(
        self,
        gpus: Sequence[Mapping[str, Value]],
        measured: Sequence[str],
        sampling_seconds: float,
        shared: bool = False,
    ) -> None:
        """Record the GPUs (columns of ``gpus``) whose rows will follow, in the order of the backend's positions, and which
        metrics may have values. ``shared``: ranks share them, so ``rank`` stays NULL. Raises RecordingError."""
        (highest,) = self._connection.execute("SELECT max(gpu) FROM gpus").fetchone()
        base = self._rank * GPU_KEYS_PER_RANK if highest is None else highest + 1
        self._keys = [base + position for position in range(len(gpus))]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for key, gpu in zip(self._keys, gpus, strict=True):
                rank = None if shared else self._rank
                self._put(
                    "INSERT", "gpus", {"gpu": key, "run_id": self._run_id, "node": self._node, "rank": rank, **gpu}
                )
                self._put("INSERT", "process_gpus", {"run_id": self._run_id, "rank": self._rank, "gpu": key})
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path}: can't be written: {error}") from None
        names = set(measured)
        self._gap_seconds = GAP_INTERVALS * sampling_seconds
        self._rollups = Rollups(self._gap_seconds, names)
        present = [index for index, metric in enumerate(METRICS) if metric.name in names]
        self._columns = [index + 3 for index in present] if len(present) < len(METRICS) else None
        columns = ["rowid", "gpu", "time", *(METRICS[index].name for index in present)]
        self._insert = f"INSERT INTO samples ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"

    def add(self, rows: Sequence[Row]) -> None:
        """Add samples: (position of the GPU, time, values in catalogue order)."""
        rollups = self._rollups
        assert rollups is not None
        rowid = self._next_rowid
        for row in rows:
            stored = (rowid, self._keys[row[0]], *row[1:])
            self._rows.append(stored)
            rollups.add(rowid, stored[1:])
            rowid += 1
        self._next_rowid = rowid

    def add_host(self, time: float, values: Sequence[float | None]) -> None:
        """Add a row of ``host_samples``: its columns from cpu_utilization on."""
        self._statements.append((_INSERTS["host_samples"], (self._run_id, self._node, time, *values)))

    def add_workload(self, time: float, values: Sequence[float | None]) -> None:
        """Add a row of ``workload_samples``: cpu, rss, n_processes."""
        self._statements.append((_INSERTS["workload_samples"], (self._run_id, self._rank, time, *values)))

    def event(self, time: float, kind: str, message: str, gpu: int | None = None) -> None:
        """Add an event; ``gpu`` is a position in the backend's list."""
        key = None if gpu is None else self._keys[gpu]
        values = (self._run_id, time, self._node, key, self._rank, kind, message)
        self._statements.append((_INSERTS["events"], values))

    def sampled_every(self, seconds: float) -> None:
        """The run is sampled at this interval, not at the one that was asked for."""
        self._update("runs", {"sampling_ms": 1000 * seconds})

    def started(self, time: float) -> None:
        """The workload was started."""
        self._update("processes", {"started_at": time})
        self._update("runs", {"started_at": time})

    def tick(self, now: float) -> None:
        """Commit if it is time. Never raises: ``problem`` says in one sentence why the last write failed, else None."""
        if now - self._last_commit >= COMMIT_SECONDS or now < self._last_commit:
            self._last_commit = now
            self.commit(now)
            if self.problem is None and now - self._last_checkpoint >= CHECKPOINT_SECONDS:
                self._last_checkpoint = now
                try:
                    self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                except sqlite3.Error:
                    pass  # the next one will do

    def commit(self, now: float) -> bool:
        """Write everything added so far in one transaction; False when that failed (and is kept to be tried again)."""
        if self._rollups is not None:
            self._rollups.close_before(now - SILENT_SECONDS)
            closed, sketches = self._rollups.take()
            self._closed += closed
            self._sketches += sketches
        if not (self._rows or self._statements or self._closed or self._sketches):
            return True
        try:
            self._write()
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if "locked" not in str(error):  # a reader looks at it just now: the next try will do
                if self.problem is None:
                    self.event(now, "storage", f"the recording could not be written: {error}")
                self.problem = f"{self.path}: can't be written: {error}"
            self._drop_oldest()
            return False
        self._rows, self._statements, self._closed, self._sketches = [], [], [], []
        if self.problem is not None:
            lost = f"; {self._dropped} samples were lost" if self._dropped else ""
            self.problem, self._dropped = None, 0
            self.event(now, "storage", f"the recording is written again{lost}")
        return True

    def finish(self, now: float, exit_code: int | None, state: str, ended_at: float) -> bool:
        """Close the rollups, record the end, commit and seal the file: afterwards it is one plain file that opens from
        anywhere. False when it could not be written."""
        if self._rollups is not None:
            self._rollups.close_all()
        for table in ("processes", "runs"):
            self._update(table, {"ended_at": ended_at, "exit_code": exit_code, "state": state})
        written = self.commit(now)
        for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode=DELETE"):
            try:
                self._connection.execute(statement).fetchall()
            except sqlite3.Error:
                pass  # a reader has it open: it stays a write-ahead log, which is as good on this host
        self._connection.close()
        return written

    @property
    def totals(self) -> Mapping[int, Sequence[float]]:
        """What each GPU (by key) has done, as a rollup's vector over the whole run; complete after ``finish``."""
        return self._rollups.totals if self._rollups is not None else {}

    def _update(self, table: str, values: Mapping[str, Value]) -> None:
        """An UPDATE of this run's (this rank's) row, done with the next commit."""
        where = "run_id = ? AND rank = ?" if table == "processes" else "run_id = ?"
        keys = (self._run_id, self._rank) if table == "processes" else (self._run_id,)
        assignments = ", ".join(f"{name} = ?" for name in values)
        self._statements.append((f"UPDATE {table} SET {assignments} WHERE {where}", (*values.values(), *keys)))

    def _put(self, verb: str, table: str, values: Mapping[str, Value]) -> None:
        names = [column.name for column in TABLES[table] if column.name in values]
        if len(names) != len(values):
            raise ValueError(f"{table} has no column {set(values) - set(names)}")
        marks = ", ".join("?" * len(names))
        self._connection.execute(
            f"{verb} INTO {table} ({', '.join(names)}) VALUES ({marks})", [values[name] for name in names]
        )

    def _write(self) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        if self._rows:
            columns = self._columns
            rows = self._rows if columns is None else [(*row[:3], *[row[c] for c in columns]) for row in self._rows]
            self._connection.executemany(self._insert, rows)
        for statement, values in self._statements:
            execute(statement, values)
        for rollup in self._closed:
            self._write_rollup(rollup)
        for sketch in self._sketches:
            self._write_sketch(sketch)
        execute("COMMIT")

    def _write_rollup(self, row: RollupRow) -> None:
        where = (row.level, row.bucket, row.gpu)
        if row.late:
            found = self._connection.execute(
                "SELECT first_rowid, last_rowid, data FROM rollup WHERE level = ? AND bucket = ? AND gpu = ?", where
            ).fetchone()
            if found:
                vector = unpack_vector(found[2])
                merge(vector, row.vector, self._gap_seconds)
                rowids = (min(found[0], row.first_rowid), max(found[1], row.last_rowid))
                self._connection.execute(
                    "UPDATE rollup SET first_rowid = ?, last_rowid = ?, data = ? WHERE level = ? AND bucket = ? AND gpu = ?",
                    (*rowids, pack_vector(vector), *where),
                )
                return
        self._connection.execute(
            "INSERT INTO rollup (level, bucket, gpu, first_rowid, last_rowid, data) VALUES (?, ?, ?, ?, ?, ?)",
            (*where, row.first_rowid, row.last_rowid, pack_vector(row.vector)),
        )

    def _write_sketch(self, row: SketchRow) -> None:
        where = (row.bucket, row.gpu)
        if row.late:
            found = self._connection.execute("SELECT data FROM sketch WHERE bucket = ? AND gpu = ?", where).fetchone()
            if found:
                histograms = unpack_sketch(found[0])
                for histogram, more in zip(histograms, row.histograms, strict=False):
                    histogram.update(more)
                self._connection.execute(
                    "UPDATE sketch SET data = ? WHERE bucket = ? AND gpu = ?", (pack_sketch(histograms), *where)
                )
                return
        self._connection.execute(
            "INSERT INTO sketch (bucket, gpu, data) VALUES (?, ?, ?)", (*where, pack_sketch(row.histograms))
        )

    def _drop_oldest(self) -> None:
        excess = len(self._rows) - MAX_KEPT_ROWS
        if excess > 0:
            del self._rows[:excess]
            self._dropped += excess
