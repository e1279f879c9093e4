"""GPU × time: one metric's samples counted into columns of time, from a recording and then row by row as it grows.

Columns are aligned to unix time, so that one that is over never changes, whatever comes after it and wherever the view
moves.

What GPUs did in the time between two looks, where their single samples were not read.

More columns of time than there are cells: neighbours go together.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.model.results import Grid, Series, over_space
from gssr.model.statistics.gpu_time_counts import GpuTimeCounts
from gssr.model.statistics.series import ROUND_WIDTHS
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

_SHORTEST = 1e-3
"""Seconds that a span has at least: that of a single sample has no length."""


class Spans(NamedTuple):
    """What GPUs did between two looks, one span per GPU. ``gpu`` [n]: positions, each once. The samples of a span lie
    in start < time <= end (unix s, [n]; a GPU's first one at the start itself): ``rows`` [n] of them, with ``gaps`` [n]
    gaps. ``n`` and ``total`` [n_names, n]: counts and sums by metric. ``latest`` [n_metrics, n]: the newest values, NaN
    without any."""

    gpu: Ints
    start: Floats
    end: Floats
    rows: Ints
    gaps: Ints
    n: Floats
    total: Floats
    latest: Floats


def cut(start: Floats, end: Floats, known: Floats, width: float) -> tuple[Ints, Ints, Floats]:
    """Cut the spans start < time <= end (both [n], unix s) at multiples of ``width`` s, without what is not after ``known``
    [n], a time for each. Samples count as spread evenly over their span, so a piece has as much of the span's samples as of
    its time; spans with nothing new are left out.

    Returns of each piece the index of its span, the number of the column it lies in (time // width), and how much of the
    span it is, 0-1.
    """
    start = np.minimum(start, end - _SHORTEST)
    begin = np.maximum(start, known)
    new = np.flatnonzero(end > begin)
    first = np.floor(begin[new] / width + 1e-9).astype(np.int64)
    last = np.floor(end[new] / width + 1e-9).astype(np.int64)
    sizes = last - first + 1
    of = np.repeat(new, sizes)
    column = np.repeat(first, sizes) + np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    inside = np.minimum(end[of], (column + 1) * width) - np.maximum(begin[of], column * width)
    return of, column, np.maximum(inside, 0.0) / (end - start)[of]


def means_from(values: Floats, edges: Sequence[int] | NDArray[np.int64]) -> Floats:
    """Average ``values`` [..., n] group by group: from each edge (an index, ascending) up to the next one, the last to the
    end. NaN values don't count. Returns [..., len(edges)], NaN where a group has none."""
    known = np.isfinite(values)
    n = np.add.reduceat(known, edges, axis=-1, dtype=np.int64)
    total = np.add.reduceat(np.where(known, values, 0.0), edges, axis=-1)
    return np.asarray(np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0), np.float64)


def coarser(values: Floats, step: int) -> Floats:
    """Average bins [..., n] in groups of ``step`` neighbours; NaN bins don't count. Returns [..., ceil(n / step)], NaN where
    a group has no value; the last group may be shorter."""
    if step <= 1 or not values.shape[-1]:
        return values
    return means_from(values, np.arange(0, values.shape[-1], step))


MOST_ROWS = 300_000
"""Columns narrower than a rollup bucket are made of raw rows: of no more than about so many."""


SNUG_STEPS, SNUG_WIDTHS = (1, 1.5, 2, 3, 4, 5, 6, 8), (12, 15, 25, 40, 50, 90, 180, 240, 420)
"""More widths for a whole run, so that it fills its columns better: below 10 s times powers of ten, and above."""
_OF_TRACES = 1e-5
"""A shorter interval, s, is not one of sampling."""


def ladder(interval: float, snug: bool = False) -> Iterator[float]:
    """Yield the widths that a column can have, seconds, ascending without end.

    They are 1, 2, 5 times powers of ten below 10 s (of traces down to 1 µs), from two sampling intervals on (then
    jitter empties no column), then ROUND_WIDTHS, multiples of a rollup's bucket; then days doubled. ``snug``: with
    those of SNUG_STEPS and SNUG_WIDTHS.
    """
    least = 2 * interval * (1 - 1e-9)
    powers = range(6 if interval < _OF_TRACES else 2, -1, -1)
    fine = (step / 10**power for power in powers for step in (SNUG_STEPS if snug else (1, 2, 5)))
    widths = sorted({*ROUND_WIDTHS, *SNUG_WIDTHS}) if snug else ROUND_WIDTHS
    coarse = (float(width) for width in widths)
    yield from (width for width in (*fine, *coarse) if width >= least)
    day = float(ROUND_WIDTHS[-1])
    while True:
        day *= 2
        yield day


def is_fine(width: float) -> bool:
    """Tell whether columns of this width (s) need raw rows, because it is no multiple of a rollup's bucket."""
    return width % LEVELS[0] != 0


def choose_width(
    span: float, columns: int, interval: float, n_gpus: int, snug: bool = False, least: float = 0.0
) -> float:
    """Return the narrowest width of the ladder, at least ``least`` s, of which ``columns`` cover ``span`` seconds, and
    whose columns can be read in reasonable time from ``n_gpus`` GPUs sampled every ``interval`` s."""
    rows = n_gpus * span / max(interval, 1e-3)
    for width in ladder(interval, snug):
        if width < least or (is_fine(width) and rows > MOST_ROWS):
            continue
        if width * columns >= span * (1 - 1e-9):
            return width
    raise AssertionError("the ladder has no end")


def columns_over(span: float, width: float, end: float | None) -> int:
    """Count the columns of this width (s) that a window of ``span`` seconds touches, at least 1, so that no more time than
    that is shown. ``end``: where the window ends, unix s; None where it moves on, so that it always has as many."""
    if end is None:
        return max(math.ceil(span / width - 1e-9), 1)
    return max(math.ceil(end / width - 1e-9) - math.floor((end - span) / width + 1e-9), 1)


class Columns:
    """Counts and sums in ``n_columns`` columns from number ``first`` on: column k is [k × width, (k + 1) × width)."""

    def __init__(
        self, metric: str, width: float, first: int, n_columns: int, n_gpus: int, sliding: bool = False
    ) -> None:
        """Make ``n_columns`` empty columns of a metric for ``n_gpus`` GPUs, each ``width`` seconds wide. ``first`` is
        the number of the first one: it begins at unix time ``first * width``. ``sliding``: the newest column is always
        in sight."""
        self.metric = metric
        self.width = width
        self.first = first
        self._sliding = sliding
        self._cells = GpuTimeCounts([metric], n_gpus, n_columns, np.float64)  # of a span parts may lie in several
        self._read_up_to = np.full(n_gpus, -math.inf)
        self._values: Floats | None = None
        self._space: Series | None = None
        self._changed = 0
        """Columns from here on are newer than ``_values`` and ``_space``."""

    @classmethod
    def read(
        cls, reader: RunReader, metrics: Sequence[str], width: float, first: int, n: int, sliding: bool = False
    ) -> "list[Columns]":
        """Count what a recording holds of these columns of each of some metrics, which is read once for all of them. The
        arguments are those of ``Columns``. They remember for each GPU up to when samples were counted."""
        made = [cls(metric, width, first, n, len(reader.gpus), sliding) for metric in metrics]
        window = Window(first * width, (first + n) * width)
        if is_fine(width):
            rows = reader.samples(metrics, None, window)
            for columns in made:
                value = rows.values[columns.metric]
                known = np.isfinite(value)
                columns._add_counts(rows.gpu[known], rows.time[known], np.ones(int(known.sum())), value[known])
                np.fmax.at(columns._read_up_to, rows.gpu, rows.time)
            return made
        level = max(level for level in LEVELS if width % level == 0)
        buckets = reader.buckets(window, level=level, names=metrics)
        vectors = buckets.vectors
        blocks = {block.metric.name: block.start for block in buckets.layout.blocks}
        for columns in made:
            at = blocks[columns.metric]
            columns._add_counts(buckets.gpu, buckets.start, vectors[:, at], vectors[:, at + 1])
            np.fmax.at(columns._read_up_to, buckets.gpu, vectors[:, 3])
        return made

    @classmethod
    def made_of(
        cls, other: "Columns", width: float, first: int, n_columns: int, sliding: bool, start: float, end: float
    ) -> "Columns | None":
        """Make columns of the samples that ``other`` counts, or return None if ``width`` is no multiple of its width, or
        it has not all of the columns in which there are samples.

        ``width`` (s), ``first``, ``n_columns`` and ``sliding`` are as in ``Columns``. ``start`` and ``end`` are the
        times of the first and the newest sample, unix s.
        """
        ratio = round(width / other.width)
        if abs(ratio * other.width - width) > 1e-9 * width:
            return None
        low = max(first * ratio, column_of(start, other.width))
        high = min((first + n_columns) * ratio - 1, column_of(end, other.width))
        if not other.first <= low <= high < other.first + other._cells.n_bins:
            return None
        made = cls(other.metric, width, first, n_columns, other._cells.n_gpus, sliding)
        target = np.arange(low, high + 1) // ratio - first
        starts = np.flatnonzero(np.diff(target, prepend=-1))
        if other.metric in other._cells.n:
            held = slice(low - other.first, high + 1 - other.first)
            counts, sums = made._cells.cells(other.metric)
            counts[:, target[starts]], sums[:, target[starts]] = other._cells.put_together(other.metric, starts, held)
        made._read_up_to = other._read_up_to.copy()
        return made

    def add(self, gpu: Ints, time: Floats, value: Floats) -> None:
        """Count rows that were added since; those that were there already when the recording was read are ignored.
        ``gpu``: positions, ``time``: unix s, ``value``: NaN if missing, all [n]."""
        self._slide(time)
        known = np.isfinite(value) & (time > self._read_up_to[gpu])
        self._add_counts(gpu[known], time[known], np.ones(int(known.sum())), value[known])

    def add_spans(self, gpu: Ints, start: Floats, end: Floats, n: Floats, total: Floats) -> None:
        """Count what lies in start < time <= end (unix s) and was not there when the recording was read. ``n`` and
        ``total`` are counts and sums; all [n_spans]. A span over several columns is divided among them by its length."""
        self._slide(end)
        of, column, share = cut(start, end, self._read_up_to[gpu], self.width)
        self._add_counts(gpu[of], np.asarray(column * self.width, np.float64), n[of] * share, total[of] * share)

    def _slide(self, time: Floats) -> None:
        """Have the newest of these times in sight."""
        if self._sliding and len(time):
            newest = column_of(float(time.max()), self.width)
            self.move_to(max(self.first, newest - self._cells.n_bins + 1))

    def _add_counts(self, gpu: Ints, time: Floats, n: Floats, total: Floats) -> None:
        """Add counts ``n`` and sums ``total`` to the columns that these times (unix s) lie in, all [n]. Times outside
        the columns, and entries whose count is 0, are ignored."""
        column = np.floor(time / self.width + 1e-9).astype(np.int64) - self.first
        inside = (column >= 0) & (column < self._cells.n_bins) & (n > 0)
        if not inside.any():
            return
        self._cells.add_spans(self.metric, gpu[inside], column[inside], n[inside], total[inside])
        self._changed = min(self._changed, int(column[inside].min()))

    def move_to(self, first: int) -> None:
        """Make ``first`` the number of the first column; what moves out of sight is forgotten."""
        if first != self.first:
            self._cells.move(first - self.first)
            self.first = first
            self._values = None
            self._changed = 0

    def grid(self, closed: float) -> tuple[Grid, Series]:
        """Return what was counted so far, GPU by GPU, and over the GPUs. ``closed`` (unix s): columns that end by then
        are complete."""
        n_columns = self._cells.n_bins
        at = min(self._changed, n_columns)
        if self._values is None or self._space is None:
            at = 0
        start, fresh = self.first * self.width, self._cells.means(self.metric, at)
        if at == 0 or self._values is None or self._space is None:
            self._values, self._space = fresh, over_space(Grid(self.metric, start, self.width, fresh))
        elif at < n_columns:
            self._values = np.concatenate([self._values[:, :at], fresh], axis=1)
            newest = Grid(self.metric, start + at * self.width, self.width, fresh)
            self._space = self._space.continued(at, over_space(newest))
        self._changed = n_columns
        return Grid(self.metric, start, self.width, self._values, closed), self._space


def column_of(time: float, width: float) -> int:
    """Number the column that holds a time (unix s); column 0 begins with the unix epoch."""
    return math.floor(time / width + 1e-9)
