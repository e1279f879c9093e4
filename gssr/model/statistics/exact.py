"""Statistics from raw rows of a run that is too long to be held in memory: in chunks, several at a time.

Exact percentiles of more values than fit into memory: they are looked for in brackets, and only what falls into a bracket
is kept.

A sample of the values says about where a percentile lies. One pass over all of them counts what is below the bracket and
keeps what is in it: then it is certain whether the percentile is among these. If not, or if they were too many to keep, a
narrower bracket is known, and only that metric is read again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME
from gssr.model.results import Grid, Statistics
from gssr.model.statistics.aggregate import PERCENTILES, UNKNOWN, Aggregate, aggregate_of, filtered, numbers_within
from gssr.model.statistics.sources import RollupSource
from gssr.store.format.buckets import fold, merge
from gssr.store.format.layout import Layout, layout_of
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader
from gssr.store.read.samples import ROWS_TOGETHER
from gssr.store.read.time_window import Window
from gssr.store.read.whole_run import is_in_turns, look_at_chunks

MOST_KEPT = 1 << 19
"""Values in a bracket that are kept: 4 MB."""
_CELLS = 1 << 14
"""Of a bracket with more different values than can be kept."""
_DEVIATIONS = 3.5
"""Half a bracket's width, in standard deviations of a percentile of the sample. One bracket in 2,100 misses, so of thirty
runs of thirty metrics, with three brackets each, one is read a second time; at 2.5, where one in eighty misses, every other
one."""


class Inside(NamedTuple):
    """Of some values, how many are below a bracket, and those in it: ``values``, each ``times`` times."""

    below: int
    values: Floats
    times: int


class Bracket:
    """Where the percentile ``share`` (0-1) is looked for: from ``low`` to ``high``, both included. It counts what is
    added to it."""

    def __init__(self, share: float, low: float = -math.inf, high: float = math.inf) -> None:
        self.share, self.low, self.high = share, low, high
        self._below = self._n_inside = 0
        self._kept: list[Floats] = []
        self._n_kept = 0
        self._distinct: Floats = np.empty(0)
        self._times: Ints = np.empty(0, np.int64)
        self._cells: Ints | None = None
        self._least = self._greatest = np.empty(0)
        self._ends = 0.0, 0.0

    def pick(self, values: Floats, least: float, greatest: float) -> Inside:
        """Pick from these finite values [n], whose extremes ``least`` and ``greatest`` are, what ``add`` takes. Changes
        nothing, so it may be called in any thread."""
        if least > self.high:
            return Inside(0, values[:0], 1)
        if greatest < self.low:
            return Inside(len(values), values[:0], 1)
        if least == greatest:
            return Inside(0, values[:1], len(values))
        below = int(np.count_nonzero(values < self.low)) if least < self.low else 0
        if self.low == self.high:
            return Inside(below, np.array([self.low]), int(np.count_nonzero(values == self.low)))
        is_within = values >= self.low
        is_within &= values <= self.high
        return Inside(below, values[is_within], 1)

    def add(self, inside: Inside) -> None:
        """Count some values by what ``pick`` returned of them; those in the bracket are kept, condensed where they get too
        many."""
        self._below += inside.below
        self._n_inside += len(inside.values) * inside.times
        if not len(inside.values) or not inside.times:
            return
        if inside.times > 1:
            self._distinct = np.append(self._distinct, inside.values)
            self._times = np.append(self._times, np.full(len(inside.values), inside.times))
        else:
            self._kept.append(inside.values)
        self._n_kept += len(inside.values)
        if self._n_kept > MOST_KEPT:
            self._condense()

    def _condense(self) -> None:
        """Keep each value once, with how often it occurs, to save memory. If there are still too many different ones,
        keep only the number of values and their extremes in each of _CELLS equal cells; then what comes later goes into
        the cells as well."""
        values, times = _counts(np.concatenate([np.empty(0), *self._kept]))
        if self._cells is None:
            if len(self._distinct):
                values, times = _together(np.append(self._distinct, values), np.append(self._times, times))
            self._distinct, self._times = values, times
            self._kept, self._n_kept = [], len(values)
            if self._n_kept <= MOST_KEPT // 2:
                return
            self._cells = np.zeros(_CELLS, np.int64)
            self._least, self._greatest = np.full(_CELLS, np.inf), np.full(_CELLS, -np.inf)
            self._ends = (
                self.low if math.isfinite(self.low) else float(values[0]),
                self.high if math.isfinite(self.high) else float(values[-1]),
            )
        elif len(self._distinct):
            values, times = np.append(self._distinct, values), np.append(self._times, times)
        cell = self._cell_of(values)
        self._cells += np.bincount(cell, times, _CELLS).astype(np.int64)
        np.minimum.at(self._least, cell, values)
        np.maximum.at(self._greatest, cell, values)
        self._distinct, self._times = np.empty(0), np.empty(0, np.int64)
        self._kept, self._n_kept = [], 0

    def _cell_of(self, values: Floats) -> Ints:
        low, high = self._ends
        return np.clip((values - low) * (_CELLS / (high - low)), 0, _CELLS - 1).astype(np.int64)

    def find(self, n: int, least: float, greatest: float) -> "float | Bracket":
        """Find numpy's linear percentile of all ``n`` values that were added, whose extremes are ``least`` and
        ``greatest``. Returns a narrower Bracket in which it certainly lies, for another pass over the values, if it is
        not known yet."""
        position = self.share * (n - 1)
        first, last = math.floor(position) - self._below, math.ceil(position) - self._below
        if first < 0 or last >= self._n_inside:
            low = max(self.low, least) if first >= 0 else least
            high = min(self.high, greatest) if last < self._n_inside else greatest
            return Bracket(self.share, low, high)
        weight = position - math.floor(position)
        if self._cells is not None or len(self._distinct):
            self._condense()  # into cells, where too many were kept
        if self._cells is None:
            return _between(*self._at(first, last), weight)
        return self._narrower(first, last, weight)

    def _at(self, first: int, last: int) -> tuple[float, float]:
        """Look up the values of these two ranks, counted from 0, among those in the bracket."""
        if not len(self._distinct):
            values = np.concatenate(self._kept)
            values.partition((first, last))
            return float(values[first]), float(values[last])
        below, above = self._distinct[np.searchsorted(np.cumsum(self._times), (first, last), side="right")].tolist()
        return below, above

    def _narrower(self, first: int, last: int, weight: float) -> "float | Bracket":
        """Return a bracket over the cell that holds both ranks. Where they are in two cells, returns the percentile
        itself: it lies between the greatest value of one and the least of the other."""
        assert self._cells is not None
        begin, end = np.searchsorted(np.cumsum(self._cells), np.array([first, last]), side="right").tolist()
        below, above = float(self._greatest[begin]), float(self._least[end])
        if begin != end or below == above:
            return _between(below, above, weight)
        return Bracket(self.share, above, below)


def _between(below: float, above: float, weight: float) -> float:
    """Weigh two neighbours as numpy does: ``weight`` 0 gives ``below``, 1 gives ``above``."""
    apart = above - below
    return float(below + apart * weight if weight < 0.5 else above - apart * (1 - weight))


def _counts(values: Floats) -> tuple[Floats, Ints]:
    """Count equal values. Returns each value once, ascending, and how many times it is there."""
    return _together(values, np.ones(len(values), np.int64))


def _together(values: Floats, times: Ints) -> tuple[Floats, Ints]:
    """Join equal values [n], each of which stands for ``times`` [n] samples. Returns each value once, ascending, and how
    many samples it stands for."""
    if not len(values):
        return values, times
    order = np.argsort(values)
    values, times = values[order], times[order]
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[starts], np.add.reduceat(times, starts)


def brackets_around(sample: Floats, n_independent: int, shares: Sequence[float]) -> list[Bracket]:
    """Make a bracket for each of the ``shares`` where, as far as an evenly spread ``sample`` [n] of many values tells,
    that percentile of them lies. Without known values in it the brackets are unbounded.

    Values near one another are alike: only ``n_independent`` of the sample tell something that the others don't.
    """
    ordered = np.sort(sample[np.isfinite(sample)])
    if not len(ordered) or not n_independent:
        return [Bracket(share) for share in shares]
    found = []
    for share in shares:
        half = _DEVIATIONS * math.sqrt(share * (1 - share) / n_independent) + 1 / len(ordered)
        begin, end = math.floor((share - half) * (len(ordered) - 1)), math.ceil((share + half) * (len(ordered) - 1))
        low = float(ordered[begin]) if begin > 0 else -math.inf
        high = float(ordered[end]) if end < len(ordered) - 1 else math.inf
        found.append(Bracket(share, low, high))
    return found


_EVERY = 48
"""One of so many pages is read beforehand."""
_MOST_VECTORS = 1 << 16
"""What was folded chunk by chunk is merged when there is so much of it."""


class ExactSource:
    """A gssr.model.statistics.sources.Source that computes all statistics from raw rows, exact percentiles among them.
    Series, which are means over bins of time, come from rollups, whose means are exact as well."""

    exact = True

    def __init__(
        self,
        reader: RunReader,
        positions: Ints,
        series: RollupSource,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Aggregate the GPUs at these ``positions`` of the run exactly; ``series`` makes series over time from rollups.
        ``progress`` is called with the share of the run's rows that was read, 0-1."""
        self._reader = reader
        self._progress = progress
        self._positions = positions
        self._series = series

    def aggregate(self, names: Sequence[str], window: Window, gap_seconds: float) -> Aggregate:
        """Aggregate the rows of these metrics in a window: counts, sums and times GPU by GPU, and each metric's
        statistics over all rows, with exact percentiles. All rows are read once, and again until each percentile is
        narrowed down. Rows of a GPU further apart than ``gap_seconds`` are a gap."""
        reader, positions, n_gpus = self._reader, self._positions, len(self._positions)
        gpus = filtered(reader, positions)
        valued = [name for name in names if BY_NAME[name].kind != "bits"]
        stateful = [name for name in names if BY_NAME[name].kind in ("counter", "bits")]
        folding = _Folding(n_gpus, gap_seconds, layout_of(stateful, ()), is_in_turns(reader))
        brackets = _first_brackets(reader, valued, gpus, window)
        counted = {name: _MetricCounts(n_gpus, brackets[name]) for name in valued}

        def number(samples: Samples) -> Samples:
            return Samples(numbers_within(samples.gpu, positions, len(reader.gpus)), samples.time, samples.values)

        def count(samples: Samples) -> "tuple[int, tuple[Ints, Floats], dict[str, _Column | None]]":
            """Count some rows. Returns how many they are, the GPUs and vectors that ``_Folding.fold`` made of them, and
            what each metric's values add up to (None: it has none)."""
            own = number(samples)
            rows = np.bincount(own.gpu, minlength=n_gpus)
            columns = {
                name: _column(own.gpu, rows, own.values[name], counted[name].brackets, n_gpus) for name in valued
            }
            return len(own.gpu), folding.fold(own), columns

        n_rows = 0
        for n_of_chunk, folded, columns in look_at_chunks(reader, count, names, gpus, window):
            n_rows += n_of_chunk
            if self._progress is not None:
                self._progress(min(n_rows / max(reader.n_rows, 1), 1.0))
            folding.add(*folded)
            for name, column in columns.items():
                counted[name].add(column)
        statistics = self._statistics(counted, gpus, window)
        sums = {name: counted[name].sums() for name in valued}
        return aggregate_of(folding.per_gpu(), folding.layout, sums, statistics)

    def _statistics(
        self, counted: "Mapping[str, _MetricCounts]", gpus: Ints | None, window: Window
    ) -> dict[str, Statistics]:
        """Make each metric's statistics from what was counted in the first pass. The rows in ``window`` of these GPUs
        (positions; None: all) are read again, as often as it takes, for metrics of which percentiles are not known yet."""
        open_ = {name: own for name, own in counted.items() if own.n and not own.close_in()}
        while open_:
            for picked in look_at_chunks(self._reader, partial(_pick, open_), list(open_), gpus, window):
                for name, inside in picked.items():
                    open_[name].add_inside(inside)
            open_ = {name: own for name, own in open_.items() if not own.close_in()}
        return {name: own.statistics() for name, own in counted.items()}

    def gpu_series(
        self, names: Sequence[str], span: Window, window: Window, interval: float, most: int
    ) -> dict[str, Grid]:
        """Average these metrics over time, GPU by GPU, in at most ``most`` bins over ``span``, from the rollups that
        this object was made with; ``interval`` (s) is that of sampling. Only rows in ``window`` count. Returns a Grid
        [n_gpus, n_bins] by metric, NaN where a GPU has no samples."""
        return self._series.gpu_series(names, span, window, interval, most)


class _Column(NamedTuple):
    """What a chunk's values of a metric add up to. By GPU [n_gpus]: ``n``, how many, and ``total``, their sum. Of all:
    ``n_all``, ``sum_all``, ``squares`` (the sum of the squared differences from their mean) and the extremes.
    ``inside``: what falls into each bracket."""

    n: Ints
    total: Floats
    n_all: int
    sum_all: float
    squares: float
    least: float
    greatest: float
    inside: list[Inside]


def _column(gpu: Ints, rows: Ints, values: Floats, brackets: Sequence[Bracket], n_gpus: int) -> _Column | None:
    """Add up a chunk's values [rows] of a metric; None without values that are finite. ``rows`` [n_gpus]: how many
    there are of each GPU."""
    least, greatest = float(values.min(initial=math.inf)), float(values.max(initial=-math.inf))
    if not math.isfinite(greatest - least):
        known = np.isfinite(values)
        gpu, values = gpu[known], values[known]
        if not len(values):
            return None
        rows = np.bincount(gpu, minlength=n_gpus)
        least, greatest = float(values.min()), float(values.max())
    inside = [bracket.pick(values, least, greatest) for bracket in brackets]
    n = len(values)
    if least == greatest:
        return _Column(rows, np.multiply(rows, least, dtype=np.float64), n, n * least, 0.0, least, greatest, inside)
    total = np.bincount(gpu, values, n_gpus).astype(np.float64, copy=False)
    sum_all = float(total.sum())
    squares = values - sum_all / n
    squares *= squares
    return _Column(rows, total, n, sum_all, float(squares.sum()), least, greatest, inside)


def _pick(open_: "Mapping[str, _MetricCounts]", samples: Samples) -> dict[str, list[Inside]]:
    """Pick the samples that fall into the brackets in which percentiles are still sought (``open_``, by metric). Returns
    for each metric one Inside for each of its brackets; metrics without values in ``samples`` are left out."""
    picked = {}
    for name, own in open_.items():
        values = samples.values[name]
        values = values[np.isfinite(values)]
        if len(values):
            ends = float(values.min()), float(values.max())
            picked[name] = [bracket.pick(values, *ends) for bracket in own.brackets]
    return picked


class _MetricCounts:
    """The counts and sums of a metric over all passes through the samples, and the percentiles found so far."""

    def __init__(self, n_gpus: int, brackets: list[Bracket]) -> None:
        self.brackets = brackets
        """Those whose percentile is not known yet."""
        self.n = 0
        self._found: dict[float, float] = {}
        self._mean = self._squares = 0.0
        self._least, self._greatest = math.inf, -math.inf
        self._n_by_gpu = np.zeros(n_gpus, np.int64)
        self._total_by_gpu = np.zeros(n_gpus)

    def add(self, column: _Column | None) -> None:
        """Count a chunk of the first pass; None counts nothing. Moments as in Chan, Golub and LeVeque, The American
        Statistician 37, 1983."""
        if column is None:
            return
        self._n_by_gpu += column.n
        self._total_by_gpu += column.total
        n = self.n + column.n_all
        apart = column.sum_all / column.n_all - self._mean
        self._mean += apart * column.n_all / n
        self._squares += column.squares + apart * apart * self.n * column.n_all / n
        self.n = n
        self._least, self._greatest = min(self._least, column.least), max(self._greatest, column.greatest)
        self.add_inside(column.inside)

    def add_inside(self, inside: Sequence[Inside]) -> None:
        """Count what falls into the brackets."""
        for bracket, own in zip(self.brackets, inside, strict=True):
            bracket.add(own)

    def close_in(self) -> bool:
        """Look for the percentiles after a pass. Returns whether all are known; if not, ``brackets`` are narrower ones
        for the next pass."""
        narrower = []
        for bracket in self.brackets:
            found = bracket.find(self.n, self._least, self._greatest)
            if isinstance(found, Bracket):
                narrower.append(found)
            else:
                self._found[bracket.share] = found
        self.brackets = narrower
        return not narrower

    def sums(self) -> tuple[Floats, Floats]:
        """Return for each GPU how many samples it has, and their sum: two arrays [n_gpus]."""
        return self._n_by_gpu.astype(np.float64), self._total_by_gpu

    def statistics(self) -> Statistics:
        """Make the statistics over all samples; all percentiles must be known."""
        if not self.n:
            return UNKNOWN
        p05, median, p95 = (self._found[percent / 100] for percent in PERCENTILES)
        std = math.sqrt(self._squares / self.n) if self._least < self._greatest else 0.0
        mean = float(self._total_by_gpu.sum()) / self.n
        return Statistics(mean, median, self._least, self._greatest, std, p05, p95, self.n, 0.0)


class _Folding:
    """Each GPU's rollup vector of what can't be added up row by row: rows and gaps, counters, flags."""

    def __init__(self, n_gpus: int, gap_seconds: float, layout: Layout, in_turns: bool) -> None:
        self.layout = layout
        self._n_gpus = n_gpus
        self._gap_seconds = gap_seconds
        self._in_turns = in_turns
        self._gpu: list[Ints] = []
        self._vectors: list[Floats] = []

    def fold(self, samples: Samples) -> tuple[Ints, Floats]:
        """Fold the rows of a chunk. Returns GPUs and their vectors. Where several ranks sampled GPUs in turns, file
        after file, there is a vector for each GPU and bucket, so that these can be put in the order of time."""
        step = np.floor(samples.time / LEVELS[0]).astype(np.int64) if self._in_turns else 0
        group, vectors = fold(
            (samples.gpu << 40) + step if self._in_turns else samples.gpu,
            samples.time,
            samples.values,
            self._gap_seconds,
            self.layout,
        )
        return group >> 40 if self._in_turns else group, vectors

    def add(self, gpu: Ints, vectors: Floats) -> None:
        """Add the vectors that ``fold`` returned of a chunk for these GPUs [n]; they are merged when they get too many."""
        self._gpu.append(gpu)
        self._vectors.append(vectors)
        if not self._in_turns and sum(map(len, self._gpu)) > _MOST_VECTORS + self._n_gpus:
            self._vectors = [self.per_gpu()]
            self._gpu = [np.arange(self._n_gpus)]

    def per_gpu(self) -> Floats:
        """Merge all chunks into one vector per GPU [n_gpus, layout.width]."""
        gpu = np.concatenate([np.empty(0, np.int64), *self._gpu])
        vectors = np.concatenate([np.empty((0, self.layout.width)), *self._vectors])
        return merge(vectors, gpu, self._n_gpus, self._gap_seconds, self.layout)


def _first_brackets(
    reader: RunReader, names: Sequence[str], gpus: Ints | None, window: Window
) -> dict[str, list[Bracket]]:
    """Make brackets for the percentiles of these metrics, as far as a sample of the rows tells where they lie."""
    shares = [percent / 100 for percent in PERCENTILES]
    sample = list(look_at_chunks(reader, lambda samples: samples.values, names, gpus, window, every=_EVERY))
    found = {}
    for name in names:
        values = np.concatenate([np.empty(0), *(piece[name] for piece in sample)])
        found[name] = brackets_around(values, len(values) // ROWS_TOGETHER, shares)
    return found
