"""Writing whole recordings from arrays: the same file as gssr.store.write.writer makes, fifty times as fast.

For generated and imported data, not for the sampler: it uses numpy, and until ``finish`` a crash loses everything.
"""

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME, DERIVED
from gssr.store.format.buckets import Buckets, fold, join_buckets, merge
from gssr.store.format.host_rollups import UseTable
from gssr.store.format.layout import Layout
from gssr.store.format.rollup import as_stored
from gssr.store.format.sample_arrays import derive
from gssr.store.format.schema import FINE_SKETCH_SECONDS, LEVELS, SKETCH_SECONDS, SKETCHES, TABLES
from gssr.store.read.open import RecordingError
from gssr.store.write.pending import Value, insert_into
from gssr.store.write.thinning import Keep
from gssr.store.write.writer import Writer

_FEWEST_ROWS = 4
"""Buckets of fewer samples are left out, except the coarsest: a bucket takes as much room as twenty samples of the few
metrics that other tools record, and as long to read as several."""
_INSERT_ROWS = 1000  # converting and binding this many at once stays in the processor's cache
_STATEMENT_ROWS = 10  # a statement takes 999 values, or more in newer versions of SQLite
_CACHE_KIB = 4096  # rows come in the order of each table and index, so that no page is needed again
_PATIENCE_MS = 60_000  # a reader may hold the file locked between two chunks; nothing is lost by waiting


class BulkWriter(Writer):
    """A Writer that takes columns. Rows come in time order, in chunks that don't cut a bucket of 10 s. GPUs and metrics
    may come later than the first of them."""

    def __init__(self, path: str, keep: Keep = "raw", append: bool = False) -> None:
        """Create the file, in which samples are kept as ``keep`` says, or with ``append`` open it to add a run. Raises
        RecordingError."""
        super().__init__(path, append)
        self._bulk_keep: Keep = keep
        self._levels: tuple[int, ...] = LEVELS
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{_CACHE_KIB}"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._coarse: dict[int, list[Buckets]] = {level: [] for level in LEVELS[1:]}
        self._sketches = {seconds: _SketchCounts(seconds) for seconds in SKETCHES}

    def add_gpus(self, gpus: Sequence[Mapping[str, Value]], measured: Sequence[str], sampling_seconds: float) -> None:
        """Add GPUs as ``Writer.add_gpus`` does. Of samples that are kept, and are so far apart that buckets of a level would
        hold fewer than _FEWEST_ROWS, no buckets of that level are written."""
        super().add_gpus(gpus, measured, sampling_seconds)
        if self._bulk_keep == "raw":
            least = min(_FEWEST_ROWS * sampling_seconds, LEVELS[-1])
            self._levels = tuple(level for level in LEVELS if level >= least)

    def add_columns(self, gpu: Ints, time: Floats, values: Mapping[str, Floats]) -> None:
        """Add rows, and write them at once.

        Args:
            gpu: Positions of the GPUs, int64 [n].
            time: Unix s, ascending, float64 [n].
            values: By metric, float64 [n]; NaN is NULL. A metric that is not among them is NULL.

        Raises RecordingError when they can't be written.
        """
        if not len(gpu):
            return
        if self._pending and not self.commit(float(time[0])):  # whoever reads meanwhile finds whose the rows are
            raise RecordingError(f"{self.path}: can't be written: {self.problem}")
        if not values.keys() <= set(self._pending.measured):
            self._pending.measure({*self._pending.measured, *values}, self._pending.gap_seconds, self._layout)
        missing = np.full(len(gpu), np.nan)
        keys = np.asarray(self._keys, np.int64)[gpu]
        rowids = np.arange(self._next_rowid, self._next_rowid + len(gpu))
        self._next_rowid += len(gpu)
        try:
            self._connection.execute(f"PRAGMA busy_timeout={_PATIENCE_MS}")
            self._connection.execute("BEGIN")
            if self._bulk_keep == "raw":
                known = (values.get(name, missing) for name in self._pending.measured)
                self._insert_columns([rowids, keys, time, *known])
            closed = self._roll_up(keys, time, values, rowids)
            if self._bulk_keep == "10s":
                self._insert_columns(self._means(closed))
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path}: can't be written: {error}") from None

    def add_use(self, table: UseTable, owners: Sequence[str | int], time: Floats, values: Floats) -> None:
        """Add rows of nodes (HOST: ``owners`` are their names) or processes (WORKLOAD: ranks): ``time`` float64[n] unix s,
        ``values`` float64[n, owners, columns from the first after time on] (NaN is NULL); columns that are not given are
        NULL. Raises RecordingError."""
        names = [column.name for column in TABLES[table.samples]][: 3 + values.shape[2]]
        rows = (
            (self._pending.run_id, owner, when, *(None if value != value else value for value in column))
            for when, columns in zip(time.tolist(), values.tolist(), strict=True)
            for owner, column in zip(owners, columns, strict=True)
        )
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany(insert_into(table.samples, names), rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path}: can't be written: {error}") from None

    def finish(self, now: float, exit_code: int | None, state: str, ended_at: float) -> bool:
        """Write the rollups and sketches that are still open, and then finish the file as ``Writer.finish`` does: the
        end of the run is recorded, all is committed and the file is sealed. ``now`` and ``ended_at`` are in unix s.
        Returns False if not all could be written at the end. Raises RecordingError if the open rollups can't be written."""
        try:
            end = self._coarse[LEVELS[-1]][-1].start.max() + LEVELS[0] if self._coarse[LEVELS[-1]] else None
            for level in LEVELS[1:]:
                self._close_coarse(level, None)
            self._close_sketches(math.inf)
            if self._bulk_keep != "raw" and end is not None:
                self._connection.execute(
                    "INSERT INTO thinned SELECT run_id, rank, ?, ?, 1, ? FROM processes",
                    (self._bulk_keep, float(end), self._next_rowid - 1),
                )
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path}: can't be written: {error}") from None
        return super().finish(now, exit_code, state, ended_at)

    def _means(self, closed: Buckets) -> list[Ints | Floats]:
        """Compute what is kept of the samples of closed buckets where old samples are thinned. Returns columns [n],
        ordered by the buckets' first rowids: that rowid, the GPU's key, the middle of the first and the last time (unix
        s), and then a column for each measured metric: its mean, a counter's last value, the flags of a bit field that
        were ever set; NaN where a bucket has no sample of it."""
        assert closed.rowids is not None
        first = closed.rowids[:, 0]
        order = np.argsort(first)
        vectors = closed.vectors[order]
        columns = {metric.name: vectors[:, at : at + width].T for metric, at, width in self._layout.blocks}
        found: list[Ints | Floats] = [first[order], closed.gpu[order], vectors[:, 2:4].mean(axis=1)]
        for name in self._pending.measured:
            n, second, *rest = columns[name]
            kind = BY_NAME[name].kind
            mean = np.divide(second, n, out=np.full(len(n), np.nan), where=n > 0)
            known = {"counter": rest[0], "bits": second}.get(kind, mean)
            found.append(np.where(n > 0, known, np.nan))
        return found

    def _insert_columns(self, columns: list[Ints | Floats]) -> None:
        """Insert rows into ``samples``, given as columns of the same length: the rowids, the GPUs' keys, the times (unix
        s), and one for each measured metric, in this order. NaN becomes NULL. Raises sqlite3.Error."""
        n, width = len(columns[0]), len(columns)
        for start in range(0, n, _INSERT_ROWS):
            rows = min(_INSERT_ROWS, n - start)
            values: list[Any] = [None] * (rows * width)
            for position, column in enumerate(columns):
                values[position::width] = column[start : start + rows].tolist()
            at_once = _STATEMENT_ROWS if rows % _STATEMENT_ROWS == 0 else 1
            statement = self._pending.insert + f", ({', '.join('?' * width)})" * (at_once - 1)
            size = at_once * width
            self._connection.executemany(statement, (values[at : at + size] for at in range(0, len(values), size)))

    def _roll_up(self, keys: Ints, time: Floats, values: Mapping[str, Floats], rowids: Ints) -> Buckets:
        """Write the rollups of rows, whose buckets of the finest level all end with them, and count the rows into the
        open sketches. ``keys`` [n] are the GPUs' keys in the file, ``time`` [n] ascends (unix s), ``values`` are by
        metric [n], ``rowids`` [n] the rows' own. Returns the buckets of the finest level; coarser ones are written once
        they are over."""
        whole = dict(values)
        for metric in DERIVED:
            if all(part in values for part in metric.parts):
                whole[metric.name] = derive(values, metric.parts)
        step = np.floor(time / LEVELS[0]).astype(np.int64)
        groups, vectors = fold((keys << 32) + step, time, whole, self._pending.gap_seconds, self._layout)
        place = np.searchsorted(groups, (keys << 32) + step)
        ends = _rowids_by_group(place, np.column_stack([rowids, rowids]), len(groups))
        closed = _of_level(LEVELS[0], groups, vectors, self._layout, ends)
        self._insert_rollups(LEVELS[0], closed)
        for level in LEVELS[1:]:
            self._close_coarse(level, int(closed.start.min()))
            self._coarse[level].append(closed)
        minute = np.floor(time / FINE_SKETCH_SECONDS).astype(np.int64)
        columns = [whole.get(name) for name in self._layout.sketched]
        counted = _count_cells(minute, np.searchsorted(self._keys, keys), columns)
        self._sketches[FINE_SKETCH_SECONDS].add(*counted)
        self._close_sketches(float(minute[-1]) * FINE_SKETCH_SECONDS)
        return closed

    def _insert_rollups(self, level: int, closed: Buckets) -> None:
        """Insert closed buckets as rollups of ``level`` seconds, if those are written; they must have their rowids. Raises
        sqlite3.Error."""
        if level not in self._levels:
            return
        blobs = [row.tobytes() for row in closed.vectors.astype("<f8")]
        assert closed.rowids is not None
        heads = (column.tolist() for column in (closed.gpu, closed.start.astype(np.int64), *closed.rowids.T))
        self._connection.executemany(
            f"INSERT INTO rollup (gpu, level, bucket, first_rowid, last_rowid, data) VALUES (?, {level}, ?, ?, ?, ?)",
            zip(*heads, blobs, strict=True),
        )

    def _close_coarse(self, level: int, before: int | None) -> None:
        """Write the coarse buckets that end at or before ``before`` (None: all)."""
        waiting = self._coarse[level]
        if not waiting or (before is not None and before // level * level <= int(waiting[0].start.min())):
            return
        open_from = math.inf if before is None else before // level * level
        self._coarse[level] = [rest for closed in waiting if len(rest := closed.of(closed.start >= open_from))]
        waiting = [closed.of(closed.start < open_from) for closed in waiting]
        finer = join_buckets(waiting, self._layout)
        assert finer.rowids is not None
        step = np.floor(finer.start / level).astype(np.int64)
        codes, group = np.unique((finer.gpu << 32) + step, return_inverse=True)
        merged = merge(finer.vectors, group, len(codes), self._pending.gap_seconds, self._layout)
        ends = _rowids_by_group(group, finer.rowids, len(codes))
        self._insert_rollups(level, _of_level(level, codes, merged, self._layout, ends))

    def _close_sketches(self, before: float) -> None:
        """Write the sketches that end at ``before`` (unix s) or earlier, and add the finer ones to the coarser ones."""
        for seconds, table in SKETCHES.items():
            start, cell, count = self._sketches[seconds].take(before)
            encoded = _encode_sketches(start, cell, count, len(self._layout.sketched))
            rows = ((self._keys[gpu], begin, as_stored(blob, seconds)) for gpu, begin, blob in encoded)
            self._connection.executemany(f"INSERT INTO {table} (gpu, bucket, data) VALUES (?, ?, ?)", rows)
            if seconds != SKETCH_SECONDS and len(start):
                self._sketches[SKETCH_SECONDS].add(start // SKETCH_SECONDS, cell, count)


def _of_level(level: int, codes: Ints, vectors: Floats, layout: Layout, rowids: Ints) -> Buckets:
    """Return buckets of ``level`` seconds; ``codes`` [n]: the key of the GPU × 2^32 + the number of the bucket."""
    start, seconds = ((codes & 0xFFFFFFFF) * level).astype(np.float64), np.full(len(codes), float(level))
    return Buckets(codes >> 32, start, seconds, vectors, layout, rowids)


def _rowids_by_group(group: Ints, rowids: Ints, n_groups: int) -> Ints:
    """Return the first and the last of the ``rowids`` [n, 2] of each ``group`` [n]: int64 [n_groups, 2]."""
    of_groups = np.zeros((n_groups, 2), np.int64)
    of_groups[:, 0] = np.iinfo(np.int64).max
    np.minimum.at(of_groups[:, 0], group, rowids[:, 0])
    np.maximum.at(of_groups[:, 1], group, rowids[:, 1])
    return of_groups


class _SketchCounts:
    """Counts the samples of sketches of one length by bucket and *cell*: ``(gpu * n_metrics + metric) << 16 | bin``, where
    ``gpu`` is a position among the file's keys and ``metric`` one among the metrics of a sketch.

    What is counted is held as arrays of one length, ascending by bucket and cell.
    """

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._bucket, self._cell, self._count = (np.empty(0, np.int64) for _ in range(3))

    def add(self, bucket: Ints, cell: Ints, count: Ints) -> None:
        """Add counts [n] of cells [n] to buckets [n], which are numbered from 1970 on."""
        bucket, cell, count = (
            np.append(held, new) for held, new in ((self._bucket, bucket), (self._cell, cell), (self._count, count))
        )
        if not len(bucket):
            return
        lowest, width = bucket.min(), cell.max() + 1
        code = (bucket - lowest) * width + cell
        order = np.argsort(code)
        code, first = _find_runs(code[order])
        self._bucket, self._cell = code // width + lowest, code % width
        self._count = np.add.reduceat(count[order], first)

    def take(self, before: float) -> tuple[Ints, Ints, Ints]:
        """Remove the buckets that end at ``before`` (unix s) or earlier. Returns the starts of the buckets (unix s), the
        cells and their counts, [n] each, ascending by bucket and cell."""
        n = int(np.searchsorted((self._bucket + 1) * self._seconds, before, side="right"))
        taken = (self._bucket[:n] * self._seconds, self._cell[:n], self._count[:n])
        self._bucket, self._cell, self._count = (rest[n:] for rest in (self._bucket, self._cell, self._count))
        return taken


def _find_runs(ascending: Ints) -> tuple[Ints, Ints]:
    """Return the different numbers among ``ascending`` [n > 0], and the index of the first of each."""
    first = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    return ascending[first], first


def _count_cells(bucket: Ints, gpu: Ints, columns: Sequence[Floats | None]) -> tuple[Ints, Ints, Ints]:
    """Count samples by bucket and cell. ``bucket`` and ``gpu`` [n]: of each row; ``columns``: the values [n] of each metric
    of a sketch, None of one that has none. Returns buckets, cells and counts, as ``_SketchCounts.add`` takes them; NaN and
    infinity are left out."""
    codes, lowest, width = [np.empty(0, np.int64)], int(bucket.min()), (int(gpu.max()) + 1) * len(columns) << 16
    owner = (bucket - lowest) * (width >> 16) + gpu * len(columns)
    for metric, column in enumerate(columns):
        if column is not None:
            values = np.asarray(column, np.float32)
            codes.append((owner + metric << 16 | values.view(np.uint32) >> 16)[np.isfinite(values)])
    if not (ascending := np.sort(np.concatenate(codes))).size:
        return ascending, ascending, ascending
    code, first = _find_runs(ascending)
    return code // width + lowest, code % width, np.diff(first, append=len(ascending))


def _encode_sketches(start: Ints, cell: Ints, count: Ints, n_metrics: int) -> Iterator[tuple[int, int, bytes]]:
    """Encode counts, which are as ``_SketchCounts.take`` returns them. Yields for each sketch the position of its GPU, the
    start of its bucket (unix s) and its blob, which is not packed."""
    if not len(start):
        return
    metric, gpu = (cell >> 16) % n_metrics, (cell >> 16) // n_metrics
    first = np.flatnonzero(np.append(True, (start[1:] != start[:-1]) | (gpu[1:] != gpu[:-1])))
    sketch = np.repeat(np.arange(len(first)), np.diff(first, append=len(start)))
    n_bins = np.bincount(sketch * n_metrics + metric, minlength=len(first) * n_metrics).reshape(-1, n_metrics)
    heads = np.column_stack([np.full(len(first), n_metrics), n_bins]).astype("<u2")
    bins, counts = (cell & 0xFFFF).astype("<u2"), count.astype("<u4")
    edges = zip(first.tolist(), [*first[1:].tolist(), len(start)], strict=True)
    for head, (begin, end) in zip(heads, edges, strict=True):
        blob = head.tobytes() + bins[begin:end].tobytes() + counts[begin:end].tobytes()
        yield int(gpu[begin]), int(start[begin]), blob
