"""GPU x time: samples counted into cells of GPU and bin, metric by metric, from raw rows, from rollups, or from what GPUs
did between two looks. Series, evidence and the grid of the screen are made of it.

Memory is bounded by what there is to count: a metric that nobody measured takes none, and a run with very many GPUs is
counted in few bins (``most_bins``).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.metrics import CLOCK_EVENT_REASONS
from gssr.model.results import Grid
from gssr.model.statistics import series
from gssr.model.statistics.aggregate import numbers_within
from gssr.model.statistics.series import Bins
from gssr.store.format.buckets import Buckets, empty_vectors, fold, merge
from gssr.store.format.layout import LAYOUT, Layout, layout_of, part_of
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

Float32s = NDArray[np.float32]

FLAGS = tuple(name for _, name, _ in CLOCK_EVENT_REASONS)
BITS = "clock_event_reasons"
LEVELS_AT_WORK = ("sm_active", "tensor_active", "dram_active", "power_usage")
"""Metrics whose upper levels are kept as well, how high the higher samples of a cell are: means mix work with waiting."""

MOST_BINS = 4_000
MOST_VECTORS, FEWEST_BINS = 50_000, 20
"""A coarser rollup is read when the finer one has more than so many buckets, a tenth of a second, if that leaves enough
bins."""
MOST_CELLS, FEW_CELLS, CELLS_OF_A_ROW = 640_000, 50_000, 2
"""A metric has no more cells than MOST_CELLS, 8 MB, and of few rows no more than so many times their number: samples that
come regularly fill nearly all of their cells. FEW_CELLS it may have in any case."""
_FEW = 8
"""Where fewer cells than one in so many are touched only these are."""


def most_bins(n_gpus: int, n_rows: int, most: int) -> int:
    """Return how many bins of time may be counted of ``n_gpus`` GPUs with ``n_rows`` rows in all, so that memory stays
    small: at most ``most``, at least 1."""
    cells = min(MOST_CELLS, max(FEW_CELLS, CELLS_OF_A_ROW * n_rows))
    return max(1, min(most, cells // max(n_gpus, 1)))


class GpuTimeCounts:
    """Samples counted by metric, GPU and bin. ``n`` and ``total``: by metric [n_gpus, n_bins] the number of samples in
    each cell (as ``kind``; float32 is exact up to 2^24) and their sum. Both hold only metrics that have samples, of the
    ``names`` that are counted."""

    def __init__(self, names: Sequence[str], n_gpus: int, n_bins: int, kind: type = np.float32) -> None:
        self.names = tuple(names)
        self.n_gpus, self.n_bins = n_gpus, n_bins
        self.n: dict[str, NDArray[Any]] = {}
        self.total: dict[str, Floats] = {}
        self._kind = kind

    def cells(self, name: str) -> tuple[NDArray[Any], Floats]:
        """Return ``n`` and ``total`` of a metric to be changed in place. A metric that has no samples yet gets empty
        ones."""
        if name not in self.n:
            self.n[name] = np.zeros((self.n_gpus, self.n_bins), self._kind)
            self.total[name] = np.zeros((self.n_gpus, self.n_bins))
        return self.n[name], self.total[name]

    def add_rows(self, gpu: Ints, bin_: Ints, values: Mapping[str, Floats]) -> None:
        """Count rows [rows]: GPUs, their bins, and the values by metric (NaN: missing)."""
        cell = gpu * self.n_bins + bin_
        for name in self.names:
            known = np.isfinite(values[name])
            if known.any():
                self._add(name, cell[known], None, values[name][known])

    def add_spans(self, name: str, gpu: Ints, bin_: Ints, n: Floats, total: Floats) -> None:
        """Count what lies in parts of cells: GPUs, bins, counts and sums of a metric, all [spans]."""
        if len(gpu):
            self._add(name, gpu * self.n_bins + bin_, n, total)

    def _add(self, name: str, cell: Ints, n: Floats | None, total: Floats) -> None:
        """Add counts and sums to the cells of these indices (GPU × n_bins + bin). ``n``: None for single samples."""
        counts, sums = self.cells(name)
        size = counts.size
        if len(cell) * _FEW < size:  # a tick: touch only what it touches
            np.add.at(counts.reshape(-1), cell, 1 if n is None else n)
            np.add.at(sums.reshape(-1), cell, total)
        else:
            counts += np.bincount(cell, n, size).reshape(counts.shape)
            sums += np.bincount(cell, total, size).reshape(counts.shape)

    def add_rollups(self, gpu: Ints, bin_: Ints, buckets: Buckets) -> None:
        """Count rollups [buckets] into these GPUs and bins; each lies in its bin as a whole."""
        if not len(gpu):
            return
        # Of many GPUs and bins these are few, one after the other.
        own = _extent(gpu), _extent(bin_)
        n_gpus, n_bins = (part.stop - part.start for part in own)
        cell = (gpu - own[0].start) * n_bins + bin_ - own[1].start
        full = in_order(cell, n_gpus, n_bins)

        def summed(column: Floats) -> Floats:
            if full:
                return column.reshape(n_bins, n_gpus).T
            return np.asarray(np.bincount(cell, column, n_gpus * n_bins).reshape(n_gpus, n_bins), np.float64)

        for block in buckets.layout.blocks:
            n = buckets.vectors[:, block.start]
            if block.metric.name in self.names and n.any():
                counts, sums = self.cells(block.metric.name)
                counts[own] += summed(n)
                sums[own] += summed(buckets.vectors[:, block.start + 1])

    def means(self, name: str, first: int = 0, kind: type = np.float64) -> NDArray[Any]:
        """Compute the mean of each cell of a metric [n_gpus, bins from ``first`` on]; NaN without samples."""
        shape = (self.n_gpus, self.n_bins - first)
        values: NDArray[Any] = np.full(shape, np.nan, kind)
        if name in self.n:
            n = self.n[name][:, first:]
            np.divide(self.total[name][:, first:], n, out=values, where=n > 0, casting="same_kind")
        return values

    def put_together(self, name: str, starts: Ints, cells: slice = slice(None)) -> tuple[Floats, Floats]:
        """Add up the cells of a metric in groups of bins. The groups begin at ``starts``, which count within the bins
        ``cells``. Returns counts and sums [n_gpus, len(starts)]. Raises KeyError for a metric without samples."""
        n = np.add.reduceat(self.n[name][:, cells], starts, axis=1, dtype=np.float64)
        return n, np.add.reduceat(self.total[name][:, cells], starts, axis=1)

    def move(self, shift: int) -> None:
        """Move what was counted ``shift`` bins towards the first bin (negative: towards the last); what moves out of
        sight is forgotten."""
        for cells in (self.n, self.total):
            for name, old in cells.items():
                new = np.zeros_like(old)
                if 0 < shift < self.n_bins:
                    new[:, :-shift] = old[:, shift:]
                elif 0 < -shift < self.n_bins:
                    new[:, -shift:] = old[:, :shift]
                cells[name] = new


def _extent(places: Ints) -> slice:
    return slice(int(places.min()), int(places.max()) + 1)


def in_order(cell: Ints, n_gpus: int, n_bins: int) -> bool:
    """Tell whether rollups come as they mostly do: one of each GPU in each bin, bin by bin. ``cell``: GPU * n_bins +
    bin."""
    return np.array_equal(cell, (np.arange(n_bins)[:, None] + np.arange(n_gpus) * n_bins).reshape(-1))


class WindowCounts:
    """What was counted of a window of a run. ``cells``: the samples of each GPU in ``bins``. ``by_gpu``: what all of
    them add up to, one bucket for each GPU, in their order; it is empty for one without samples, and counts no gaps.
    ``upper_levels``: by metric of LEVELS_AT_WORK that was counted how high the higher samples of each cell are [n_gpus,
    n_bins], NaN without samples."""

    def __init__(self, cells: GpuTimeCounts, bins: Bins, by_gpu: Buckets, upper_levels: Mapping[str, Floats]) -> None:
        self.cells, self.bins, self.by_gpu, self.upper_levels = cells, bins, by_gpu, upper_levels

    def holds(self, names: Sequence[str], bins: Bins) -> bool:
        """Tell whether ``gpu_series`` can make series of these metrics in these bins."""
        ratio = bins.width / self.bins.width
        shift = (self.bins.start - bins.start) / self.bins.width
        inside = shift >= 0 and self.bins.start + self.bins.n * self.bins.width <= bins.start + bins.n * bins.width
        return ratio == round(ratio) and shift == round(shift) and inside and set(self.cells.names) >= set(names)

    def gpu_series(self, name: str, bins: Bins) -> Grid:
        """Make the series of a metric, GPU by GPU, in bins that are whole numbers of the cells (see ``holds``); all NaN
        for a metric without samples."""
        ratio, shift = round(bins.width / self.bins.width), round((self.bins.start - bins.start) / self.bins.width)
        target = (np.arange(self.bins.n) + shift) // ratio
        starts = np.flatnonzero(np.diff(target, prepend=-1))
        values = np.full((self.cells.n_gpus, bins.n), np.nan)
        if name in self.cells.n:
            n, total = self.cells.put_together(name, starts)
            values[:, target[starts]] = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
        return Grid(name, bins.start, bins.width, values)


def count_rows(rows: Samples, names: Sequence[str], n_gpus: int, bins: Bins) -> WindowCounts:
    """Count raw rows of these metrics and, where they are among the rows' values, the clock event reasons; ``rows.gpu``
    counts from 0 to ``n_gpus`` - 1."""
    cells = GpuTimeCounts(names, n_gpus, bins.n)
    cells.add_rows(rows.gpu, bins.holding(rows.time), rows.values)
    known = [*names, *({BITS} & set(rows.values))]
    layout = part_of(LAYOUT, known)
    vectors = empty_vectors(n_gpus, layout)
    gpus, folded = fold(rows.gpu, rows.time, rows.values, math.inf, layout)
    vectors[gpus] = folded
    levels = _no_levels(names, n_gpus, bins)
    of_levels = part_of(LAYOUT, levels.names)
    cell, folded = fold(rows.gpu * bins.n + bins.holding(rows.time), rows.time, rows.values, math.inf, of_levels)
    gpu, bin_ = np.divmod(cell, bins.n)
    starts, seconds = bins.start + bin_ * bins.width, np.full(len(cell), bins.width)
    _add_upper_levels(levels, gpu, bin_, Buckets(gpu, starts, seconds, folded, of_levels))
    return WindowCounts(cells, bins, _of_window(vectors, layout, bins), _means_of(levels))


def _no_levels(names: Sequence[str], n_gpus: int, bins: Bins) -> GpuTimeCounts:
    """Return cells for the upper levels of those of these metrics that are among LEVELS_AT_WORK, still empty."""
    return GpuTimeCounts([name for name in LEVELS_AT_WORK if name in names], n_gpus, bins.n)


def _add_upper_levels(levels: GpuTimeCounts, gpu: Ints, bin_: Ints, buckets: Buckets) -> None:
    """Count the upper levels of buckets [n] into the cells of these GPUs and bins [n]."""
    levels.add_rows(gpu, bin_, {name: _upper_level(buckets, name) for name in levels.names})


def _upper_level(buckets: Buckets, name: str) -> Floats:
    """Estimate how high the higher ones of a metric's samples are in each bucket [n]: one standard deviation above their
    mean, and no more than the highest. NaN without samples."""
    if not buckets.holds(name):
        return np.full(len(buckets), np.nan)
    n, total, m2, highest = (buckets.column(name, field) for field in ("n", "sum", "m2", "max"))
    n = np.where(n > 0, n, np.nan)
    return np.minimum(total / n + np.sqrt(np.maximum(m2, 0.0) / n), highest)


def _means_of(levels: GpuTimeCounts) -> dict[str, Floats]:
    """Return the means of all cells of the metrics that have samples."""
    return {name: levels.means(name) for name in levels.n}


def _of_window(vectors: Floats, layout: Layout, bins: Bins) -> Buckets:
    """Return the buckets of GPUs with these vectors over the time of all bins."""
    n = len(vectors)
    return Buckets(np.arange(n), np.full(n, bins.start), np.full(n, bins.n * bins.width), vectors, layout)


def bins_to_count(n_gpus: int, n_rows: int, span: Window, interval: float) -> Bins:
    """Choose bins over ``span`` (unix s): at most MOST_BINS, of the finest level that is not too much to read of
    ``n_gpus`` GPUs with ``n_rows`` rows in all. ``interval``: the sampling interval, s. Of samples that are further apart
    than buckets are long a bin holds one where it can: several would be a mean of moments."""
    level = LEVELS[0]
    for coarser in LEVELS[1:]:
        if n_gpus * span.seconds / level > MOST_VECTORS and span.seconds / coarser >= FEWEST_BINS:
            level = coarser
    half = interval / 2 if interval >= level else max(interval, level / 2)
    return series.bins_of_buckets(span, half, most_bins(n_gpus, n_rows, MOST_BINS))


def count_rollups(reader: RunReader, names: Sequence[str], positions: Ints, bins: Bins, window: Window) -> WindowCounts:
    """Count the rollups of these metrics, and the clock event reasons, of some GPUs (``positions``) in ``bins``, which
    are whole buckets. Only rows in ``window`` count. GPUs are numbered in the order of ``positions``."""
    cells = GpuTimeCounts(names, len(positions), bins.n)
    layout = part_of(layout_of(reader.metrics), (*names, BITS))
    vectors = empty_vectors(len(positions), layout)
    levels = _no_levels(names, len(positions), bins)
    for buckets in series.slices_of_buckets(reader, (*names, BITS), positions, bins, window):
        gpu = numbers_within(buckets.gpu, positions, len(reader.gpus))
        if len(gpu):
            bin_ = bins.holding(buckets.start)
            cells.add_rollups(gpu, bin_, buckets)
            _add_upper_levels(levels, gpu, bin_, buckets)
            own, place = np.unique(gpu, return_inverse=True)
            group, both = np.append(np.arange(len(own)), place), np.concatenate((vectors[own], buckets.vectors))
            vectors[own] = merge(both, group, len(own), math.inf, layout)
    return WindowCounts(cells, bins, _of_window(vectors, layout, bins), _means_of(levels))


def series_of_rows(samples: Samples, names: Sequence[str], n_gpus: int, bins: Bins) -> dict[str, Grid]:
    """Make the series of each metric, GPU by GPU, from raw rows. ``samples.gpu`` counts from 0 to ``n_gpus`` - 1."""
    bin_, found = bins.holding(samples.time), {}
    for name in names:
        cells = GpuTimeCounts([name], n_gpus, bins.n)
        cells.add_rows(samples.gpu, bin_, samples.values)
        found[name] = Grid(name, bins.start, bins.width, cells.means(name))
    return found


def series_of_rollups(
    reader: RunReader, names: Sequence[str], positions: Ints, bins: Bins, window: Window
) -> dict[str, Grid]:
    """Make the series of each metric from rollups, GPU by GPU in the order of ``positions``, the GPUs' positions in the
    run. ``bins`` must be whole buckets; only rows in ``window`` count. Returns a Grid [n_gpus, n_bins] by metric, NaN
    where a GPU has no samples."""
    cells = GpuTimeCounts(names, len(positions), bins.n)
    for buckets in series.slices_of_buckets(reader, names, positions, bins, window):
        gpu = numbers_within(buckets.gpu, positions, len(reader.gpus))
        cells.add_rollups(gpu, bins.holding(buckets.start), buckets)
    return {name: Grid(name, bins.start, bins.width, cells.means(name)) for name in names}
