"""Samples counted into cells of GPU and time, metric by metric, from raw rows or from rollups: what series of GPUs and
the evidence of a job are made of."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gssr.metrics import CLOCK_EVENT_REASONS
from gssr.model import series
from gssr.model.aggregate import chosen
from gssr.model.analysis import Floats, GpuSeries
from gssr.model.series import Bins
from gssr.store.layout import FIELDS
from gssr.store.reader import Buckets, RunReader, Samples
from gssr.store.schema import LEVELS

Ints = NDArray[np.int64]
Float32s = NDArray[np.float32]

FLAGS = tuple(name for _, name, _ in CLOCK_EVENT_REASONS)
BITS = "clock_event_reasons"

MOST_BINS = 720
MOST_VECTORS, FEWEST_BINS = 50_000, 20
"""A coarser rollup is read when the finer one has more than so many buckets, a tenth of a second, if that leaves enough
bins."""


class Counted:
    """Counts and sums in cells of GPU and bin: ``n`` (as float32, exact up to 2^24) and ``total`` by metric
    [n_gpus, bins.n]. GPU by GPU [n_gpus]: ``least`` and ``greatest`` by metric, single samples, NaN without any; ``n_rows``,
    ``first_time`` and ``last_time``, unix s; ``flags`` [1 + len(FLAGS), n_gpus]: samples with flags, then those with each
    of them set."""

    def __init__(self, names: Sequence[str], n_gpus: int, bins: Bins) -> None:
        self.bins = bins
        shape = (n_gpus, bins.n)
        self.n = {name: np.zeros(shape, np.float32) for name in names}
        self.total = {name: np.zeros(shape) for name in names}
        self.least = {name: np.full(n_gpus, np.nan) for name in names}
        self.greatest = {name: np.full(n_gpus, np.nan) for name in names}
        self.flags = np.zeros((1 + len(FLAGS), n_gpus))
        self.n_rows = np.zeros(n_gpus, np.int64)
        self.first_time = np.full(n_gpus, np.nan)
        self.last_time = np.full(n_gpus, np.nan)

    def holds(self, names: Sequence[str], bins: Bins) -> bool:
        """Whether ``gpu_series`` can make series of these metrics in these bins."""
        ratio = bins.width / self.bins.width
        shift = (self.bins.start - bins.start) / self.bins.width
        inside = shift >= 0 and self.bins.start + self.bins.n * self.bins.width <= bins.start + bins.n * bins.width
        return ratio == round(ratio) and shift == round(shift) and inside and self.n.keys() >= set(names)

    def gpu_series(self, name: str, bins: Bins) -> GpuSeries:
        """Each GPU's series of a metric in bins that are whole numbers of the cells."""
        ratio, shift = round(bins.width / self.bins.width), round((self.bins.start - bins.start) / self.bins.width)
        target = (np.arange(self.bins.n) + shift) // ratio
        starts = np.flatnonzero(np.diff(target, prepend=-1))
        n = np.add.reduceat(self.n[name], starts, axis=1, dtype=np.float64)
        total = np.add.reduceat(self.total[name], starts, axis=1)
        values = np.full((len(n), bins.n), np.nan)
        values[:, target[starts]] = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
        return GpuSeries(name, bins.start, bins.width, values)


def count_rows(rows: Samples, names: Sequence[str], n_gpus: int, bins: Bins) -> Counted:
    """Count raw rows of these metrics and, where they are among the rows' values, the clock event reasons; ``rows.gpu``
    counts from 0 to ``n_gpus`` - 1."""
    counted, gpu, size = Counted(names, n_gpus, bins), rows.gpu, n_gpus * bins.n
    cell = gpu * bins.n + bins.holding(rows.time)
    for name in names:
        column = rows.values[name]
        known = np.isfinite(column)
        column, own = column[known], gpu[known]
        counted.n[name] += np.bincount(cell[known], minlength=size).reshape(-1, bins.n)
        counted.total[name] += np.bincount(cell[known], column, size).reshape(-1, bins.n)
        np.fmin.at(counted.least[name], own, column)
        np.fmax.at(counted.greatest[name], own, column)
    if BITS in rows.values:
        known = np.isfinite(rows.values[BITS])
        flags, own = rows.values[BITS][known].astype(np.int64), gpu[known]
        counted.flags[0] = np.bincount(own, minlength=n_gpus)
        for number, (bit, _, _) in enumerate(CLOCK_EVENT_REASONS, 1):
            counted.flags[number] = np.bincount(own[(flags & bit) != 0], minlength=n_gpus)
    counted.n_rows += np.bincount(gpu, minlength=n_gpus)
    np.fmin.at(counted.first_time, gpu, rows.time)
    np.fmax.at(counted.last_time, gpu, rows.time)
    return counted


def bins_to_count(n_gpus: int, span: tuple[float, float], interval: float) -> Bins:
    """Bins over ``span`` (unix s): at most MOST_BINS, of the finest level that is not too much to read of so many GPUs;
    ``interval`` is the sampling interval, s."""
    seconds, level = span[1] - span[0], LEVELS[0]
    for coarser in LEVELS[1:]:
        if n_gpus * seconds / level > MOST_VECTORS and seconds / coarser >= FEWEST_BINS:
            level = coarser
    return series.bins_of_buckets(*span, max(interval, level / 2), MOST_BINS)


def count_rollups(
    reader: RunReader,
    names: Sequence[str],
    positions: Ints,
    bins: Bins,
    window: tuple[float | None, float | None],
) -> Counted:
    """Count the rollups of these metrics, and the clock event reasons, of some GPUs (``positions``) in ``bins``, which are
    whole buckets. Rows with window[0] <= time < window[1] count (None: open)."""
    counted = Counted(names, len(positions), bins)
    for buckets in series.slices_of_buckets(reader, (*names, BITS), positions, bins, *window):
        _count(counted, buckets, chosen(buckets.gpu, positions, len(reader.gpus)))
    return counted


def _count(counted: Counted, buckets: Buckets, gpu: Ints) -> None:
    """Add the buckets of ``gpu`` [n]."""
    bins, vectors = counted.bins, buckets.vectors
    if not len(gpu):
        return
    bin_ = bins.holding(buckets.start)
    # Of many GPUs and bins these are few, one after the other.
    own = slice(int(gpu.min()), int(gpu.max()) + 1), slice(int(bin_.min()), int(bin_.max()) + 1)
    n_gpus, n_bins = (part.stop - part.start for part in own)
    cell = (gpu - own[0].start) * n_bins + bin_ - own[1].start
    # As they mostly are: of each GPU one in each bin, bin by bin.
    full = np.array_equal(cell, (np.arange(n_bins)[:, None] + np.arange(n_gpus) * n_bins).reshape(-1))

    def cells(column: Floats) -> Floats:
        if full:
            return column.reshape(n_bins, n_gpus).T
        return np.asarray(np.bincount(cell, column, n_gpus * n_bins).reshape(n_gpus, n_bins), np.float64)

    def extreme(which: np.ufunc, into: Floats, column: Floats) -> None:
        if full:
            into[own[0]] = which(into[own[0]], which.reduce(column.reshape(n_bins, n_gpus), axis=0))
        else:
            which.at(into, gpu, column)

    counted.n_rows += np.bincount(gpu, vectors[:, 0], counted.n_rows.size).astype(np.int64)
    extreme(np.fmin, counted.first_time, vectors[:, 2])
    extreme(np.fmax, counted.last_time, vectors[:, 3])
    for block in buckets.layout.blocks:
        name, at = block.metric.name, block.start
        if name == BITS:
            for number, field in enumerate(("n", *FLAGS)):
                column = vectors[:, at + FIELDS["bits"].index(field)]
                counted.flags[number] += np.bincount(gpu, column, counted.n_rows.size)
            continue
        counted.n[name][own] += cells(vectors[:, at])
        counted.total[name][own] += cells(vectors[:, at + 1])
        extreme(np.fmin, counted.least[name], vectors[:, at + 3])
        extreme(np.fmax, counted.greatest[name], vectors[:, at + 4])
