"""Statistics from raw rows of a run that is too long to be held in memory: in chunks, several at a time."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME
from gssr.model.aggregate import PERCENTILES, UNKNOWN, Aggregate, aggregate_of, chosen, filtered
from gssr.model.order_statistics import Bracket, Inside, brackets_around
from gssr.model.results import GpuSeries, Statistics
from gssr.model.sources import Rollups
from gssr.store.chunks import each_chunk, in_turns
from gssr.store.layout import Layout, layout_of
from gssr.store.moments import fold, merge
from gssr.store.raw import ROWS_TOGETHER
from gssr.store.reader import RunReader, Samples
from gssr.store.schema import LEVELS

_EVERY = 48
"""One of so many pages is read beforehand."""
_MOST_VECTORS = 1 << 16
"""What was folded chunk by chunk is merged when there is so much of it."""


class Exact:
    """As gssr.model.sources.Source: all statistics from raw rows, exact percentiles among them. Series, which are means
    over bins of time, come from rollups, whose means are exact as well."""

    exact = True

    def __init__(
        self,
        reader: RunReader,
        positions: Ints,
        series: Rollups,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """``progress`` is told the share of the run's rows that was read, 0-1."""
        self._reader = reader
        self._progress = progress
        self._positions = positions
        self._series = series

    def aggregate(
        self, names: Sequence[str], lower: float | None, upper: float | None, gap_seconds: float
    ) -> Aggregate:
        """As in Source."""
        reader, positions, n_gpus = self._reader, self._positions, len(self._positions)
        gpus = filtered(reader, positions)
        valued = [name for name in names if BY_NAME[name].kind != "bits"]
        stateful = [name for name in names if BY_NAME[name].kind in ("counter", "bits")]
        folding = _Folding(n_gpus, gap_seconds, layout_of(stateful, ()), in_turns(reader))
        brackets = _first_brackets(reader, valued, gpus, lower, upper)
        counted = {name: _Counted(n_gpus, brackets[name]) for name in valued}

        def number(samples: Samples) -> Samples:
            return Samples(chosen(samples.gpu, positions, len(reader.gpus)), samples.time, samples.values)

        def count(samples: Samples) -> "_Chunk":
            own = number(samples)
            rows = np.bincount(own.gpu, minlength=n_gpus)
            columns = {
                name: _column(own.gpu, rows, own.values[name], counted[name].brackets, n_gpus) for name in valued
            }
            return _Chunk(len(own.gpu), folding.fold(own), columns)

        n_rows = 0
        for chunk in each_chunk(reader, count, names, gpus, lower, upper):
            n_rows += chunk.n_rows
            if self._progress is not None:
                self._progress(min(n_rows / max(reader.n_rows, 1), 1.0))
            folding.add(*chunk.folded)
            for name, column in chunk.columns.items():
                counted[name].add(column)
        statistics = self._statistics(counted, gpus, lower, upper)
        means = {name: counted[name].means() for name in valued}
        return aggregate_of(folding.per_gpu(), folding.layout, means, statistics)

    def _statistics(
        self, counted: "Mapping[str, _Counted]", gpus: Ints | None, lower: float | None, upper: float | None
    ) -> dict[str, Statistics]:
        """Of each metric; those whose percentiles were not in their brackets are read again until they are."""
        open_ = {name: own for name, own in counted.items() if own.n and not own.close_in()}
        while open_:
            for picked in each_chunk(self._reader, partial(_pick, open_), list(open_), gpus, lower, upper):
                for name, inside in picked.items():
                    open_[name].add_inside(inside)
            open_ = {name: own for name, own in open_.items() if not own.close_in()}
        return {name: own.statistics() for name, own in counted.items()}

    def gpu_series(
        self,
        names: Sequence[str],
        span: tuple[float, float],
        lower: float | None,
        upper: float | None,
        interval: float,
        most: int,
    ) -> dict[str, GpuSeries]:
        """As in Source."""
        return self._series.gpu_series(names, span, lower, upper, interval, most)


class _Column(NamedTuple):
    """What a chunk's values of a metric add up to: ``n`` and ``total`` [n_gpus], ``squares`` the sum of the squared
    differences from their mean."""

    n: Ints
    total: Floats
    n_all: int
    sum_all: float
    squares: float
    least: float
    greatest: float
    inside: list[Inside]


class _Chunk(NamedTuple):
    n_rows: int
    folded: tuple[Ints, Floats]
    columns: dict[str, _Column | None]


def _column(gpu: Ints, rows: Ints, values: Floats, brackets: Sequence[Bracket], n_gpus: int) -> _Column | None:
    """None without values. ``rows`` [n_gpus]: how many there are of each GPU."""
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


def _pick(open_: "Mapping[str, _Counted]", samples: Samples) -> dict[str, list[Inside]]:
    """What falls into the brackets of some metrics."""
    picked = {}
    for name, own in open_.items():
        values = samples.values[name]
        values = values[np.isfinite(values)]
        if len(values):
            ends = float(values.min()), float(values.max())
            picked[name] = [bracket.pick(values, *ends) for bracket in own.brackets]
    return picked


class _Counted:
    """What was counted of a metric."""

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
        """Count a chunk. Moments as in Chan, Golub and LeVeque, The American Statistician 37, 1983."""
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
        """After a pass: whether all percentiles are known. If not, narrower brackets are to be looked through."""
        narrower = []
        for bracket in self.brackets:
            found = bracket.find(self.n, self._least, self._greatest)
            if isinstance(found, Bracket):
                narrower.append(found)
            else:
                self._found[bracket.share] = found
        self.brackets = narrower
        return not narrower

    def means(self) -> Floats:
        """Each GPU's [n_gpus], NaN without samples."""
        means = np.full(len(self._n_by_gpu), np.nan)
        np.divide(self._total_by_gpu, self._n_by_gpu, out=means, where=self._n_by_gpu > 0)
        return means

    def statistics(self) -> Statistics:
        """Over all samples."""
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
        """GPUs and vectors of a chunk; of GPUs that several ranks sampled in turns, file after file, bucket by bucket, so
        that they can be put in the order of time."""
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
        """Count a chunk."""
        self._gpu.append(gpu)
        self._vectors.append(vectors)
        if not self._in_turns and sum(map(len, self._gpu)) > _MOST_VECTORS + self._n_gpus:
            self._vectors = [self.per_gpu()]
            self._gpu = [np.arange(self._n_gpus)]

    def per_gpu(self) -> Floats:
        """[n_gpus, layout.width]."""
        gpu = np.concatenate([np.empty(0, np.int64), *self._gpu])
        vectors = np.concatenate([np.empty((0, self.layout.width)), *self._vectors])
        return merge(vectors, gpu, self._n_gpus, self._gap_seconds, self.layout)


def _first_brackets(
    reader: RunReader, names: Sequence[str], gpus: Ints | None, lower: float | None, upper: float | None
) -> dict[str, list[Bracket]]:
    """Where the percentiles of these metrics lie, as far as a sample of the rows tells."""
    shares = [percent / 100 for percent in PERCENTILES]
    sample = list(each_chunk(reader, lambda samples: samples.values, names, gpus, lower, upper, every=_EVERY))
    found = {}
    for name in names:
        values = np.concatenate([np.empty(0), *(piece[name] for piece in sample)])
        found[name] = brackets_around(values, len(values) // ROWS_TOGETHER, shares)
    return found
