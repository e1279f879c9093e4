"""Statistics over time: what every GPU's rows of a window add up to, from raw rows or from rollups.

Both ways end in one rollup vector per GPU (gssr.store.format.layout), so that counts, means, gaps, energy and clock event
reasons are computed once. They differ in the percentiles: exact from raw rows, bounded from the sketch's histogram.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME
from gssr.model.percentiles import known_percentiles
from gssr.model.results import Means, Statistics
from gssr.model.statistics.energy import joules_by_gpu
from gssr.model.statistics.sums import add_buckets, sum_samples, summed_names
from gssr.store.format.buckets import empty_vectors, fold, merge
from gssr.store.format.layout import RELATIVE_BIN_WIDTH, Layout, layout_of
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.recording import RunReader

if TYPE_CHECKING:
    from gssr.store.read.histograms import Histograms

PERCENTILES = (5.0, 50.0, 95.0)
SURE = 1 / 10
_FLOAT32_MAX = float(np.finfo(np.float32).max)
UNKNOWN = Statistics(None, None, None, None, None, None, None, 0, None)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What the rows of a window add up to. Arrays are [n_gpus]: ``n_rows``, ``n_gaps`` int64; ``first_time`` and
    ``last_time`` unix s, NaN without rows; ``counted_joules``: the increase of the energy counter, NaN with fewer than two
    samples of it. ``statistics`` over all samples of all GPUs, where they
    were asked for. ``sums``: of the metrics that have a mean, and of the clock event reasons;
    from raw rows of counters, too."""

    n_rows: Ints
    n_gaps: Ints
    first_time: Floats
    last_time: Floats
    counted_joules: Floats
    sums: Means
    statistics: dict[str, Statistics]

    @property
    def interval(self) -> float | None:
        """Seconds between rows to the millisecond, from the rows alone: the median over the GPUs of their mean spacing; None
        when no GPU has two rows."""
        several = self.n_rows > 1
        if not several.any():
            return None
        spans = self.last_time[several] - self.first_time[several]
        return round(float(np.median(spans / (self.n_rows[several] - 1))), 3) or None

    @property
    def joules(self) -> Floats:
        """Return the energy each GPU used [n_gpus], J: by its counter, else its mean power times its time. NaN where neither
        is known (gssr.model.statistics.energy)."""
        power = self.sums.per_gpu("power_usage")
        return joules_by_gpu(self.counted_joules, power, self.last_time - self.first_time)


def from_samples(samples: Samples, n_gpus: int, gap_seconds: float) -> Aggregate:
    """Aggregate raw rows: counts, sums and times GPU by GPU, and each metric's statistics over all rows together. Everything
    is exact, the statistics are numpy's own.

    ``samples.gpu`` counts from 0 to ``n_gpus`` - 1. Two rows of a GPU that are further apart than ``gap_seconds`` are a gap.
    """
    layout = layout_of([name for name in samples.values if BY_NAME[name].kind in ("counter", "bits")], ())
    groups, vectors = fold(samples.gpu, samples.time, samples.values, gap_seconds, layout)
    per_gpu = empty_vectors(n_gpus, layout)
    per_gpu[groups] = vectors
    sums, statistics = {}, {}
    for name, column in samples.values.items():
        if BY_NAME[name].kind != "bits":
            known = np.isfinite(column)
            statistics[name] = exact_statistics(column[known])
            sums[name] = sum_samples(samples.gpu, column, n_gpus)
    return aggregate_of(per_gpu, layout, sums, statistics)


class Totals:
    """Collects the sums of rollups for each GPU of a run, some GPUs at a time, each GPU once, and with ``over_gpus`` the
    statistics over all of them: each one's vector of the whole window is a kilobyte, of which hardly anything is wanted GPU
    by GPU, so vectors are merged as they come."""

    def __init__(self, layout: Layout, n_gpus: int, over_gpus: bool) -> None:
        self._layout, self._over_gpus = layout, over_gpus
        self._head = np.zeros((n_gpus, 4))
        self._head[:, 2:] = np.nan
        self._names = summed_names(layout)
        self._n, self._total = np.zeros((len(self._names), n_gpus)), np.zeros((len(self._names), n_gpus))
        self._joules = np.full(n_gpus, np.nan)
        self._counters: dict[str, list[Statistics]] = {}
        self._merged: list[Floats] = []

    def add(self, gpus: Ints, vectors: Floats) -> None:
        """Take in the summed ``vectors`` [n, layout.width] of these GPUs [n], none of which may have been added before."""
        self._head[gpus] = vectors[:, :4]
        self._joules[gpus] = _counted_joules(vectors, self._layout)
        add_buckets(self._names, gpus, vectors, self._layout, self._n, self._total)
        if not self._over_gpus:
            return
        # Over GPUs only the moments mean something; an infinite gap keeps the merge from counting any.
        self._merged.append(merge(vectors, np.zeros(len(vectors), np.int64), 1, math.inf, self._layout))
        for metric, start, width in self._layout.blocks:
            if metric.kind == "counter":
                self._counters.setdefault(metric.name, []).append(_of_counter(vectors[:, start : start + width]))

    def sums(self, statistics: dict[str, Statistics] | None = None) -> Aggregate:
        """Return what was added, GPU by GPU, as an Aggregate. ``statistics``: those over all GPUs together, by metric, which
        it is to hold; None: none."""
        return _aggregate(self._head, self._joules, self._names, self._n, self._total, statistics or {})

    def aggregate(self, histograms: "Histograms") -> Aggregate:
        """Return what was added, GPU by GPU, with each metric's statistics over all samples of all GPUs, which only one made
        with ``over_gpus`` knows.

        n, mean, min, max and std are exact. Percentiles come from ``histograms`` (counts by sketch key, see
        ``sketch_percentiles``); where these are not exact themselves, none lies outside of what their bounds give. A
        counter's rollup keeps no moments: of its statistics n is known, and where it never falls its least and greatest
        value.
        """
        merged = np.concatenate([empty_vectors(0, self._layout), *self._merged])
        total = merge(merged, np.zeros(len(merged), np.int64), 1, math.inf, self._layout)[0]
        statistics = {}
        bounds = histograms.least or {}, histograms.greatest or {}
        for metric, start, width in self._layout.blocks:
            name = metric.name
            if metric.kind == "counter":
                statistics[name] = _of_counters(self._counters.get(name, ()))
            elif metric.kind != "bits":
                within = [bound[name] for bound in bounds if name in bound]
                statistics[name] = _merged_statistics(total[start : start + width], histograms.counts.get(name), within)
        return self.sums(statistics)


def is_sure(own: Statistics) -> bool:
    """Tell whether percentiles whose samples were not all looked at are near enough: off by at most the share SURE of
    what lies between the least and the greatest sample, or by no more than others from histograms. True also where the
    error is unknown."""
    if own.p_error is None or own.min is None or own.max is None:
        return True
    return is_within_a_bin(own) or own.p_error <= SURE * (own.max - own.min)


def is_within_a_bin(own: Statistics) -> bool:
    """Tell whether no percentile is off by more than the width of a histogram's bin. True also where the error is
    unknown."""
    ends = [abs(value) for value in (own.p05, own.median, own.p95) if value is not None]
    return own.p_error is None or own.p_error <= RELATIVE_BIN_WIDTH * max(ends, default=0.0)


def _of_counter(per_gpu: Floats) -> Statistics:
    """Make a counter's statistics of each GPU's n, first, last and increase [n_gpus, 4]. If it was never set back, it
    has risen by last - first, to within the rounding of n sums; only then are min and max known."""
    n, first, last, increase = per_gpu[per_gpu[:, 0] > 0].T
    if not len(n):
        return UNKNOWN
    slack = np.finfo(np.float64).eps * n * np.maximum(np.abs(first), np.abs(last))
    low, high = (float(first.min()), float(last.max())) if (increase - (last - first) <= slack).all() else (None, None)
    return Statistics(None, None, low, high, None, None, None, int(n.sum()), None)


def _of_counters(found: Sequence[Statistics]) -> Statistics:
    """Join the statistics of one counter over different GPUs. n is added up; the extremes are known only if all that
    have samples know theirs; the rest is None. UNKNOWN if none has samples."""
    known = [own for own in found if own.n]
    if not known:
        return UNKNOWN
    ends = [(own.min, own.max) for own in known if own.min is not None and own.max is not None]
    rising = len(ends) == len(known)
    low, high = (min(low for low, _ in ends), max(high for _, high in ends)) if rising else (None, None)
    return Statistics(None, None, low, high, None, None, None, sum(own.n for own in known), None)


def exact_statistics(values: Floats) -> Statistics:
    """Compute the statistics of finite values [n]; UNKNOWN where there is none. std has ddof 0, percentiles are numpy's
    linear ones."""
    if not len(values):
        return UNKNOWN
    shares = [percent / 100 for percent in PERCENTILES]
    p05, median, p95 = (found.item() for found in known_percentiles(values[:, None], shares))
    mean, std = float(np.mean(values)), float(np.std(values))
    return Statistics(mean, median, float(np.min(values)), float(np.max(values)), std, p05, p95, len(values), 0.0)


def sketch_percentiles(counts: Ints, low: float, high: float) -> tuple[list[float], float]:
    """Estimate the 5th, 50th and 95th percentile of the samples in a histogram. Returns the three in this order, and a bound
    of their absolute errors, in the unit of the samples.

    ``counts`` [65536] by sketch key, some of them not 0; ``low`` and ``high`` are the samples' true extremes. numpy's linear
    percentile q lies between the order statistics floor(q (n-1)) and ceil(q (n-1)). Each of the two lies in a known bin,
    clipped to [low, high]; taking the middle of that, it is off by at most half of its extent. The percentile weighs the two
    with w and 1 - w, so its error is at most the same mean of the two halves; the bound returned is the greatest of the
    three percentiles. Values were rounded to float32 before they were put into bins, so a bin's edges are widened by half a
    unit in the last place (2^-24 of the edge, or 2^-150).
    """
    keys = np.flatnonzero(counts != 0)  # of a mask that takes a fourth of the time
    negative = keys >= 0x8000
    order = np.argsort(np.where(negative, 0x7FFF - keys, keys))  # by value: a negative one falls as its key grows
    keys, negative = keys[order], negative[order]
    magnitude = keys & 0x7FFF
    near = np.minimum(_value_of(magnitude), _FLOAT32_MAX) * (1 - 2.0**-24) - 2.0**-150
    far = _value_of(magnitude + 1) * (1 + 2.0**-24) + 2.0**-150
    lower = np.clip(np.where(negative, -far, near), low, high)
    upper = np.clip(np.where(negative, -near, far), low, high)
    middle = np.where(lower == upper, lower, lower / 2 + upper / 2)  # half of the least number there is would be 0
    half = upper / 2 - lower / 2
    half += np.where(half > 0, 4 * np.finfo(np.float64).eps * np.maximum(np.abs(lower), np.abs(upper)), 0.0)
    ends = np.cumsum(counts[keys])
    position = np.asarray(PERCENTILES) / 100 * (int(ends[-1]) - 1)
    below = np.searchsorted(ends, np.floor(position), side="right")
    above = np.searchsorted(ends, np.ceil(position), side="right")
    weight = position - np.floor(position)
    found = middle[below] + weight * (middle[above] - middle[below])
    errors = (1 - weight) * half[below] + weight * half[above]
    return found.tolist(), float(errors.max())


def _value_of(magnitude: Ints) -> Floats:
    """Return the float32 numbers whose upper 16 bits are ``magnitude`` [n], as float64; instead of infinity a number beyond
    every sample."""
    bits = np.minimum(magnitude, 0x7F80).astype(np.uint32) << np.uint32(16)
    values = bits.view(np.float32).astype(np.float64)
    return np.where(np.isfinite(values), values, np.finfo(np.float64).max / 4)


def _merged_statistics(block: Floats, counts: Ints | None, within: Sequence[Ints]) -> Statistics:
    """Make statistics of a merged block (n, sum, m2, min, max) and its histogram; UNKNOWN where n is 0. ``within``: two
    histograms that bound the percentiles, or none.

    Where the histogram does not hold n samples (a damaged file), its percentiles come without a bound; where it holds
    none they are unknown.
    """
    n = int(block[0])
    if not n:
        return UNKNOWN
    _, total, squares, low, high = block.tolist()
    mean, std = total / n, math.sqrt(squares / n)
    counted = 0 if counts is None else int(counts.sum())
    if counts is None or not counted:
        return Statistics(mean, None, low, high, std, None, None, n, None)
    (p05, median, p95), error = sketch_percentiles(counts, low, high)
    for bound in within:
        ends, beyond = sketch_percentiles(bound, low, high)
        apart = max(abs(end - own) for end, own in zip(ends, (p05, median, p95), strict=True))
        error = max(error, min(apart + beyond, high - low))
    return Statistics(mean, median, low, high, std, p05, p95, n, error if counted == n else None)


def aggregate_of(
    per_gpu: Floats, layout: Layout, sums: Mapping[str, tuple[Floats, Floats]], statistics: dict[str, Statistics]
) -> Aggregate:
    """Make an Aggregate of each GPU's rollup vector [n_gpus, layout.width], of which the head, ``energy`` and the clock
    event reasons are used, and of counts and sums [n_gpus] of each metric that has a mean."""
    flags = summed_names(layout)
    names = (*sums, *flags)
    n, total = np.zeros((len(names), len(per_gpu))), np.zeros((len(names), len(per_gpu)))
    for row, (counts, summed) in enumerate(sums.values()):
        n[row], total[row] = counts, summed
    add_buckets(flags, np.arange(len(per_gpu)), per_gpu, layout, n[len(sums) :], total[len(sums) :])
    return _aggregate(per_gpu[:, :4], _counted_joules(per_gpu, layout), names, n, total, statistics)


def _aggregate(
    head: Floats, joules: Floats, names: tuple[str, ...], n: Floats, total: Floats, statistics: dict[str, Statistics]
) -> Aggregate:
    """Make an Aggregate of each GPU's counts of rows and gaps and its first and last time (``head`` [n_gpus, 4]), its
    counted ``joules`` [n_gpus], and the counts ``n`` and sums ``total`` [n_names, n_gpus]."""
    n_rows, n_gaps, first_time, last_time = head.T.copy()  # not a view, which would keep whole vectors
    begin, end = float(np.fmin.reduce(first_time, initial=np.nan)), float(np.fmax.reduce(last_time, initial=np.nan))
    sums = Means(names, begin, end, n, total)
    return Aggregate(n_rows.astype(np.int64), n_gaps.astype(np.int64), first_time, last_time, joules, sums, statistics)


def _counted_joules(vectors: Floats, layout: Layout) -> Floats:
    """Read the energy (J) that each GPU's counter rose by, from rollup vectors [n_gpus, layout.width]. Returns [n_gpus], NaN
    with fewer than two samples of the counter."""
    block = next((block for block in layout.blocks if block.metric.name == "energy"), None)
    if block is None:
        return np.full(len(vectors), np.nan)
    return np.where(vectors[:, block.start] > 1, vectors[:, block.start + block.width - 1], np.nan)


def sum_known(values: Iterable[float | None]) -> float | None:
    """Add up what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def filtered(reader: RunReader, positions: Ints) -> Ints | None:
    """Return the GPUs to ask the reader for: None, which costs it nothing, when every GPU of the run is selected."""
    return None if len(positions) == len(reader.gpus) else positions


def numbers_within(gpu: Ints, positions: Ints, n_gpus: int) -> Ints:
    """Convert positions among all ``n_gpus`` GPUs of a run to numbers from 0 within ``positions``; -1 for GPUs that are
    not in it."""
    place = np.full(n_gpus, -1, np.int64)
    place[positions] = np.arange(len(positions))
    return place[gpu]
