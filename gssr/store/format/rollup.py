"""Rollups and sketches kept while recording, in plain Python: no numpy in the sampler.

A GPU's rows are collected for its current bucket of 10 s and folded column by column, which lets the built-in ``sum``,
``min`` and ``max`` do the work. A closed bucket is merged into the GPU's bucket of 60 s, and that
into its bucket of 600 s.
``gssr.store.format.buckets`` does the same arithmetic on arrays; a test holds the two equal.

Packing rollups and sketches into the blobs that gssr.store.format.layout describes, and back, in plain Python.
"""

from __future__ import annotations

import math
import sqlite3
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import add, itemgetter
from struct import pack
from typing import Any, NamedTuple

from gssr.metrics import CLOCK_EVENT_REASONS, FLOP_ACTIVE, PLACES
from gssr.store.format.layout import HEAD, LAYOUT, Layout
from gssr.store.format.schema import FINE_SKETCH_SECONDS, LEVELS, SKETCH_SECONDS

NAN = math.nan
MOST_BYTES = 1 << 18
"""Of a packed sketch, unpacked: forty times what any was seen to have."""
_FOLD_ROWS = 101  # rows of a GPU, 1 KB each, kept before they are folded: a bucket of 10 Hz is folded as a whole
_FOLD_SPREAD = 32  # not all GPUs in the same tick: some wait for up to this many rows more
_UPPER_HALF = slice(1, None, 2) if sys.byteorder == "little" else slice(0, None, 2)

Row = Sequence[Any]
"""(position of the GPU, time, values at gssr.metrics.PLACES): int, float, then numbers or None."""
Vector = list[float]
Histogram = Counter[int]


class Bucket:
    """The sum of a GPU's samples in ``seconds`` from ``start`` on (unix s), open or closed: a row of ``rollup``.
    ``gpu``: key of the GPU; ``vector``: see gssr.store.format.layout. If rows come late a bucket is closed more than
    once, and must be merged into what the file has already."""

    __slots__ = ("first_rowid", "gpu", "last_rowid", "seconds", "start", "vector")

    def __init__(self, gpu: int, seconds: int, start: int, first_rowid: int, last_rowid: int, vector: Vector) -> None:
        self.gpu, self.seconds, self.start = gpu, seconds, start
        self.first_rowid, self.last_rowid = first_rowid, last_rowid
        self.vector = vector


class SketchRow(NamedTuple):
    """A sketch of ``seconds`` from ``bucket`` (unix s) on. ``gpu``: key of the GPU; ``histograms``: in the order of
    Layout.sketched. A closed one is merged into what the file has already, as a Bucket is."""

    gpu: int
    seconds: int
    bucket: int
    histograms: list[Histogram]


def empty_vector(layout: Layout = LAYOUT) -> Vector:
    """Return the vector of a bucket without rows."""
    vector = [0.0, 0.0, NAN, NAN]
    for block in layout.blocks:
        if block.metric.kind == "counter":
            vector += (0.0, NAN, NAN, 0.0)
        elif block.metric.kind == "bits":
            vector += (0.0,) * block.width
        else:
            vector += (0.0, 0.0, 0.0, NAN, NAN)
    return vector


def lay_out_anew(vector: Vector, known: Layout, layout: Layout) -> Vector:
    """Return a vector of the layout ``known`` in another ``layout``. A metric that only one of them has, or that the
    vector is too short for, has no samples."""
    if known == layout and len(vector) == layout.width:
        return vector
    anew = empty_vector(layout)
    anew[: len(HEAD)] = vector[: len(HEAD)]
    starts = {block.metric.name: block.start for block in known.blocks}
    for metric, start, width in layout.blocks:
        begin = starts.get(metric.name, len(vector))
        if begin + width <= len(vector):
            anew[start : start + width] = vector[begin : begin + width]
    return anew


def put_in_order(histograms: Sequence[Histogram], known: Layout, layout: Layout) -> list[Histogram]:
    """Return the histograms of a sketch of the layout ``known`` in the order of another ``layout``; empty ones for
    metrics that it lacks."""
    by_name = dict(zip(known.sketched, histograms))
    return [by_name.get(name, Counter()) for name in layout.sketched]


def merge(into: Vector, other: Vector, gap_seconds: float, layout: Layout = LAYOUT) -> None:
    """Merge the bucket ``other`` into ``into``, both vectors of the same GPU in ``layout``. More than ``gap_seconds``
    between the two is a gap. For counters they are taken in the order of their first rows; if their rows interleave in
    time (late ones) ``increase`` is a lower bound."""
    if not other[0]:
        return
    if not into[0]:
        into[:] = other
        return
    other_first = other[2] < into[2]
    overlap = other[2] < into[3] if not other_first else other[3] > into[2]
    into[0] += other[0]
    into[1] += other[1] + (max(other[2] - into[3], into[2] - other[3]) > gap_seconds)
    into[2] = min(into[2], other[2])
    into[3] = max(into[3], other[3])
    for metric, s, width in layout.blocks:
        n, m = into[s], other[s]
        if not m:
            continue
        if not n:
            into[s : s + width] = other[s : s + width]
        elif metric.kind == "counter":
            a, b = (other, into) if other_first else (into, other)
            first, last = a[s + 1], b[s + 2]
            between = 0.0 if overlap else max(0.0, b[s + 1] - a[s + 2])
            into[s : s + 4] = (n + m, first, last, a[s + 3] + b[s + 3] + between)
        elif metric.kind == "bits":
            into[s] = n + m
            into[s + 1] = float(int(into[s + 1]) | int(other[s + 1]))
            for k in range(s + 2, s + width):
                into[k] += other[k]
        else:
            delta = other[s + 1] / m - into[s + 1] / n
            into[s] = n + m
            into[s + 1] += other[s + 1]
            into[s + 2] += other[s + 2] + delta * delta * n * m / (n + m)
            if other[s + 3] < into[s + 3]:
                into[s + 3] = other[s + 3]
            if other[s + 4] > into[s + 4]:
                into[s + 4] = other[s + 4]


def finite(column: Iterable[float | None]) -> list[float]:
    """Return the values that are neither missing nor infinite."""
    return [value for value in column if value is not None and math.isfinite(value)]


def known_values_and_sum(column: Sequence[float | None]) -> tuple[Sequence[float], float]:
    """Return the values that are neither missing nor infinite, and their sum."""
    values: Sequence[float] = column  # type: ignore[assignment]
    try:
        total = sum(values)
    except TypeError:  # None is among them
        values = finite(column)
        total = sum(values)
    if not math.isfinite(total):
        values = finite(values)
        total = sum(values)
    return values, total


def _fold_values(column: Sequence[float | None], bins: array[int]) -> Vector | None:
    """Return [n, sum, m2, min, max] of a column, and add the sketch's bin of each value to ``bins``; None if all are
    missing. This is where the sampler spends its time: every step is one call that loops in C."""
    values, total = known_values_and_sum(column)
    if not values:
        return None
    n = len(values)
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    if low == high:
        distance = 0.0
        bins.extend(_bins((low,)) * n)
    else:
        distance = math.dist(values, (total / n,) * n)
        bins.extend(_bins(ordered))
    return [float(n), float(total), distance * distance, float(low), float(high)]


def _bins(values: Sequence[float]) -> array[int]:
    """Return the key of the sketch's bin of each value."""
    return array("H", pack(f"{len(values)}f", *values))[_UPPER_HALF]


def row_sums(columns: Sequence[Sequence[float | None]]) -> Sequence[float | None]:
    """Return the sum of each row, added left to right; None if one of its values is missing."""
    total = columns[0]
    try:
        for column in columns[1:]:
            total = list(map(add, total, column))
    except TypeError:  # None is among them
        return [None if None in row else sum(row) for row in zip(*columns)]
    return total


def _fold_counter(column: Sequence[float | None]) -> Vector | None:
    """Return [n, first, last, increase] of a column in the order of time; None if all values are missing."""
    values = finite(column)
    if not values:
        return None
    increase = 0.0
    for before, after in zip(values, values[1:]):
        if after > before:
            increase += after - before
    return [float(len(values)), float(values[0]), float(values[-1]), increase]


def _fold_bits(column: Sequence[float | None]) -> Vector | None:
    """Return [n, or, one count for each flag] of a column; None if all values are missing."""
    n = either = 0
    shares = [0.0] * len(CLOCK_EVENT_REASONS)
    for value, times in Counter(column).items():
        if value is None or not math.isfinite(value):
            continue
        flags = int(value)
        n += times
        either |= flags
        for k, (bit, _, _) in enumerate(CLOCK_EVENT_REASONS):
            if flags & bit:
                shares[k] += times
    return [float(n), float(either), *shares] if n else None


class _Gpu:
    """What is open for one GPU."""

    __slots__ = ("bins", "buckets", "end", "fold_rows", "late", "rows", "sketch")

    def __init__(self, fold_rows: int) -> None:
        self.fold_rows = fold_rows
        self.buckets: list[Bucket | None] = [None] * len(LEVELS)
        self.end = -math.inf  # of the open bucket of the finest level
        self.rows: list[Row] = []
        self.bins: tuple[int, list[array[int]]] | None = None
        """Of the open finest sketch its begin, and for each metric the bins that are counted when it is closed."""
        self.sketch: SketchRow | None = None
        """The open coarser sketch, in which what is in ``bins`` is not counted yet."""
        self.late: list[tuple[int, Row]] = []


class Rollups:
    """All open buckets and sketches of one file.

    Args:
        gap_seconds: more than this between two rows of a GPU is a gap.
        measured: the metrics that may have values; the others cost nothing.
        layout: the file's, whose columns may be in another order than the catalogue's if an earlier version made it.

    ``totals``: the vector of everything closed so far, by key of the GPU.
    """

    def __init__(self, gap_seconds: float, measured: Iterable[str], layout: Layout = LAYOUT) -> None:
        self._gap = gap_seconds
        self._layout = layout
        self._gpus: dict[int, _Gpu] = {}
        self._closed: list[Bucket] = []
        self._sketches: list[SketchRow] = []
        self.totals: dict[int, Vector] = {}
        """Everything closed so far, GPU by GPU."""
        self._empty = empty_vector(layout)
        names = set(measured)
        sketched = {name: position for position, name in enumerate(layout.sketched)}
        self._plan = [
            (
                block.metric.kind,
                block.start,
                block.width,
                PLACES[block.metric.name],
                sketched.get(block.metric.name, -1),
            )
            for block in layout.blocks
            if block.metric.name in names
        ]
        self._flop = next(block.start for block in layout.blocks if block.metric is FLOP_ACTIVE)
        self._flop_sketch = sketched[FLOP_ACTIVE.name]
        parts = FLOP_ACTIVE.parts
        self._flop_columns = [PLACES[part] for part in parts] if names.issuperset(parts) else []

    def add(self, rowid: int, gpu: int, row: Row) -> None:
        """Count one row of ``samples``. ``rowid`` is the one it has or will have; ``gpu`` its GPU's key in the file."""
        state = self._gpus.get(gpu)
        if state is None:
            state = self._gpus[gpu] = _Gpu(_FOLD_ROWS + len(self._gpus) % _FOLD_SPREAD)
        time: float = row[1]
        bucket = state.buckets[0]
        if time >= state.end:
            if bucket is not None:
                self._close(gpu, state)
            start = math.floor(time / LEVELS[0]) * LEVELS[0]
            bucket = state.buckets[0] = Bucket(gpu, LEVELS[0], start, rowid, rowid, self._empty[:])
            state.end = start + LEVELS[0]
        elif bucket is None or time < bucket.start:
            state.late.append((rowid, row))
            return
        bucket.last_rowid = rowid
        state.rows.append(row)
        if len(state.rows) >= state.fold_rows:
            self._fold_into_open(gpu, state)

    def take(self) -> tuple[list[Bucket], list[SketchRow]]:
        """Return the buckets and the sketches that were closed since the last call. Write them in one transaction with
        the rows they count."""
        closed, sketches = self._closed, self._sketches
        self._closed, self._sketches = [], []
        return closed, sketches

    def close_before(self, time: float) -> None:
        """Close the buckets and sketches of silent GPUs that ended before ``time``, unix s. Rows that come later are
        merged in."""
        for gpu, state in self._gpus.items():
            if state.end < time and (state.buckets[0] is not None or state.late):
                self._close(gpu, state)
            if state.end < time:
                for level in range(1, len(LEVELS)):
                    coarse = state.buckets[level]
                    if coarse is not None and coarse.start + LEVELS[level] < time:
                        self._emit(gpu, state, level)
                self._emit_sketches(gpu, state, time)

    def close_all(self) -> None:
        """Close every open bucket and sketch, at the end of the recording."""
        for gpu, state in self._gpus.items():
            self._close(gpu, state)
            for level in range(1, len(LEVELS)):
                self._emit(gpu, state, level)
            self._emit_sketches(gpu, state, math.inf)

    def _fold(self, rows: list[Row], bins: list[array[int]]) -> Vector:
        """Add up rows of one GPU, which are sorted in place. Returns their vector; the bins of their values are added to
        ``bins``."""
        rows.sort(key=itemgetter(1))  # gaps and counters are between neighbours in time
        columns: list[Sequence[float | None]] = list(zip(*rows))
        vector = self._empty[:]
        times: Sequence[float] = columns[1]  # type: ignore[assignment]
        n_gaps = sum(later - earlier > self._gap for earlier, later in zip(times, times[1:]))
        vector[:4] = float(len(rows)), float(n_gaps), times[0], times[-1]
        for kind, start, width, column, sketch in self._plan:
            values = columns[column]
            if kind == "counter":
                folded = _fold_counter(values)
            elif kind == "bits":
                folded = _fold_bits(values)
            else:
                folded = _fold_values(values, bins[sketch])
            if folded is not None:
                vector[start : start + width] = folded
        if self._flop_columns:
            flops = row_sums([columns[column] for column in self._flop_columns])
            folded = _fold_values(flops, bins[self._flop_sketch])
            if folded is not None:
                vector[self._flop : self._flop + len(folded)] = folded
        return vector

    def _fold_into_open(self, gpu: int, state: _Gpu) -> None:
        """Add the rows collected in ``state.rows`` to the GPU's open bucket of the finest level and to its open finest
        sketch, and empty ``state.rows``. Before that, sketches that end at the bucket's start or earlier are closed
        (``_emit_sketches``), and a finest sketch is opened if there is none. Coarser buckets and sketches stay as they
        are: they get the rows when the finer ones are closed. ``gpu`` is the GPU's key in the file; its finest bucket
        must be open."""
        bucket = state.buckets[0]
        assert bucket is not None
        self._emit_sketches(gpu, state, bucket.start)
        if state.bins is None:
            state.bins = bucket.start // FINE_SKETCH_SECONDS * FINE_SKETCH_SECONDS, self._no_bins()
        vector = self._fold(state.rows, state.bins[1])
        merge(bucket.vector, vector, self._gap, self._layout)
        state.rows = []

    def _close(self, gpu: int, state: _Gpu) -> None:
        """Close the GPU's open bucket of the finest level. Its rows are folded, and coarser buckets and sketches that ended
        before it are closed. Late rows are counted as well. ``gpu`` is the GPU's key in the file."""
        if state.rows:
            self._fold_into_open(gpu, state)
        self._count_late(gpu, state)
        self._emit(gpu, state, 0)

    def _count_late(self, gpu: int, state: _Gpu) -> None:
        """Count the rows in ``state.late``, which came after their bucket was closed, and empty it. They go into coarser
        buckets and sketches that are still open, and otherwise into further ones of the same start, which the writer
        merges in the same transaction; so the last_rowid of the newest bucket truly says up to which row all are
        counted. ``gpu``: its key."""
        together: dict[int, list[tuple[int, Row]]] = {}
        for rowid, row in state.late:
            together.setdefault(math.floor(row[1] / LEVELS[0]) * LEVELS[0], []).append((rowid, row))
        newest = state.buckets[0]
        for finest, late in together.items():
            first, last = late[0][0], late[-1][0]
            if newest is not None:
                newest.last_rowid = max(newest.last_rowid, last)
            bins = self._no_bins()
            vector = self._fold([row for _, row in late], bins)
            for level, seconds in enumerate(LEVELS):
                start = finest // seconds * seconds
                coarse = state.buckets[level]
                if coarse is not None and coarse.start == start:
                    merge(coarse.vector, vector, self._gap, self._layout)
                    coarse.last_rowid = max(coarse.last_rowid, last)
                    break  # with this one they come into the coarser ones
                self._closed.append(Bucket(gpu, seconds, start, first, last, vector))
                if seconds == LEVELS[-1]:
                    self._add_to_totals(gpu, vector)
            self._count_late_bins(gpu, state, finest, bins)
        state.late = []

    def _count_late_bins(self, gpu: int, state: _Gpu, time: int, bins: list[array[int]]) -> None:
        """Add bins of late rows of a bucket that begins at ``time`` to the finest sketch if that is open, with which they
        come into the coarser one; else to a further one, and to the coarser one if that is open, else to a further one."""
        fine, begin = (time // seconds * seconds for seconds in (FINE_SKETCH_SECONDS, SKETCH_SECONDS))
        if state.bins is not None and state.bins[0] == fine:
            for own, more in zip(state.bins[1], bins):
                own.extend(more)
            return
        histograms: list[Histogram] = [Counter(each) for each in bins]
        self._sketches.append(SketchRow(gpu, FINE_SKETCH_SECONDS, fine, histograms))
        if state.sketch is not None and state.sketch.bucket == begin:
            add_histograms(state.sketch.histograms, histograms)
        else:
            self._sketches.append(SketchRow(gpu, SKETCH_SECONDS, begin, histograms))

    def _emit(self, gpu: int, state: _Gpu, level: int) -> None:
        """Close the GPU's open bucket of a level, if there is one, and add it to the next coarser one, after closing
        that if the bucket lies behind it. ``gpu``: its key in the file."""
        bucket = state.buckets[level]
        if bucket is None:
            return
        state.buckets[level] = None
        self._closed.append(bucket)
        if LEVELS[level] == LEVELS[-1]:
            self._add_to_totals(gpu, bucket.vector)
            return
        seconds = LEVELS[level + 1]
        start = bucket.start // seconds * seconds
        coarse = state.buckets[level + 1]
        if coarse is not None and coarse.start != start:
            self._emit(gpu, state, level + 1)
            coarse = None
        if coarse is None:
            first = bucket.first_rowid
            coarse = state.buckets[level + 1] = Bucket(gpu, seconds, start, first, first, self._empty[:])
        merge(coarse.vector, bucket.vector, self._gap, self._layout)
        coarse.last_rowid = max(coarse.last_rowid, bucket.last_rowid)

    def _emit_sketches(self, gpu: int, state: _Gpu, time: float) -> None:
        """Close the GPU's open sketches that end at ``time`` (unix s) or before, the finest first, which is added to
        the coarser one. ``gpu``: its key in the file."""
        if state.bins is not None and state.bins[0] + FINE_SKETCH_SECONDS <= time:
            start, bins = state.bins
            state.bins = None
            fine = SketchRow(gpu, FINE_SKETCH_SECONDS, start, [Counter(each) for each in bins])
            self._sketches.append(fine)
            if state.sketch is None:
                begin = start // SKETCH_SECONDS * SKETCH_SECONDS
                state.sketch = SketchRow(gpu, SKETCH_SECONDS, begin, [Counter() for _ in bins])
            add_histograms(state.sketch.histograms, fine.histograms)
        if state.sketch is not None and state.sketch.bucket + SKETCH_SECONDS <= time:
            self._sketches.append(state.sketch)
            state.sketch = None

    def _add_to_totals(self, gpu: int, vector: Vector) -> None:
        merge(self.totals.setdefault(gpu, self._empty[:]), vector, self._gap, self._layout)

    def _no_bins(self) -> list[array[int]]:
        return [array("H") for _ in self._layout.sketched]


def add_histograms(into: list[Histogram], more: list[Histogram]) -> None:
    """Add the histograms of one sketch to those of another with the same metrics, in place. Raises ValueError if it has
    more or fewer."""
    if len(into) != len(more):
        raise ValueError(f"{len(into)} histograms and {len(more)} are not of the same metrics")
    for histogram, other in zip(into, more):
        histogram.update(other)


assert len(HEAD) == 4  # the head is filled by position above


def _little_endian(values: array) -> bytes:  # type: ignore[type-arg]
    """Return the bytes of numbers in little-endian order; the array itself stays as it is."""
    if sys.byteorder != "little":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _read_little_endian(typecode: str, data: bytes) -> array:  # type: ignore[type-arg]
    """Read numbers that are stored one after the other in little-endian order. ``typecode``: their type, as in
    ``array``. Raises ValueError if the last one is cut off."""
    values: array = array(typecode)  # type: ignore[type-arg]
    values.frombytes(data)
    if sys.byteorder != "little":
        values.byteswap()
    return values


def pack_vector(vector: Sequence[float]) -> bytes:
    """Return the blob of a rollup's vector."""
    return _little_endian(array("d", vector))


def unpack_vector(data: bytes) -> Vector:
    """Return the vector in a rollup's blob. Raises sqlite3.DatabaseError."""
    if not isinstance(data, bytes) or len(data) % 8 or len(data) < 8 * len(HEAD):
        raise sqlite3.DatabaseError("a rollup is malformed")
    return list(_read_little_endian("d", data))


def pack_sketch(histograms: Sequence[Histogram], seconds: int = SKETCH_SECONDS) -> bytes:
    """Return the blob of a sketch of ``seconds``, given histograms in the order of Layout.sketched."""
    keys = array("H")
    counts = array("I")
    for histogram in histograms:
        ordered = sorted(histogram)
        keys.extend(ordered)
        counts.extend(map(histogram.__getitem__, ordered))
    head = array("H", [len(histograms), *(len(histogram) for histogram in histograms)])
    return as_stored(_little_endian(head) + _little_endian(keys) + _little_endian(counts), seconds)


def as_stored(sketch: bytes, seconds: int) -> bytes:
    """Return the blob in which a sketch of ``seconds`` is stored: packed if its table packs them (zlib's first level
    takes less time than making the sketch), else unchanged."""
    if seconds != FINE_SKETCH_SECONDS:
        return sketch
    begin = 2 + 2 * int.from_bytes(sketch[:2], "little")
    end = begin + (len(sketch) - begin) // 3
    keys = _read_little_endian("H", sketch[begin:end])
    steps = _little_endian(array("H", [key - before & 0xFFFF for before, key in zip((0, *keys), keys)]))
    counts = sketch[end:]
    places = (steps[::2], steps[1::2], *(counts[place::4] for place in range(4)))
    return zlib.compress(b"".join((sketch[:begin], *places)), 1)


def inflated(data: bytes) -> bytes:
    """Decompress a packed sketch; its bytes are still in the packed order. b"" if it is damaged or too long."""
    unzip = zlib.decompressobj()
    try:
        found = unzip.decompress(data, MOST_BYTES)
    except (zlib.error, TypeError):
        return b""
    return found if unzip.eof and not unzip.unused_data else b""


def _unpacked(data: bytes) -> bytes:
    """Return the plain form of a packed sketch. Raises sqlite3.DatabaseError."""
    found = inflated(data)
    begin = 2 + 2 * int.from_bytes(found[:2], "little")
    n_bins, rest = divmod(len(found) - begin, 6)
    if len(found) < begin or rest:
        raise sqlite3.DatabaseError("a sketch is malformed")
    steps, counts = bytearray(2 * n_bins), bytearray(4 * n_bins)
    for into, first in ((steps, 0), (counts, 2)):
        width = len(into) // max(n_bins, 1)
        for place in range(width):
            into[place::width] = found[begin + (first + place) * n_bins :][:n_bins]
    keys = accumulate(_read_little_endian("H", bytes(steps)), lambda key, step: key + step & 0xFFFF)
    return found[:begin] + _little_endian(array("H", keys)) + bytes(counts)


def unpack_sketch(data: bytes, seconds: int = SKETCH_SECONDS) -> list[Histogram]:
    """Return the histograms in the blob of a sketch of ``seconds``. Raises sqlite3.DatabaseError."""
    if seconds == FINE_SKETCH_SECONDS:
        data = _unpacked(data)
    n_metrics = int.from_bytes(data[:2], "little") if isinstance(data, bytes) else 0
    start = 2 + 2 * n_metrics
    if not isinstance(data, bytes) or len(data) < start:
        raise sqlite3.DatabaseError("a sketch is malformed")
    sizes = _read_little_endian("H", data[2:start])
    total = sum(sizes)
    if len(data) != start + 6 * total:
        raise sqlite3.DatabaseError("a sketch is malformed")
    keys = _read_little_endian("H", data[start : start + 2 * total])
    counts = _read_little_endian("I", data[start + 2 * total :])
    histograms, at = [], 0
    for size in sizes:
        histograms.append(Counter(dict(zip(keys[at : at + size], counts[at : at + size]))))
        at += size
    return histograms
