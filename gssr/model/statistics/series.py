"""Statistics over space: each GPU's means in bins of time, and their mean over the GPUs.

Time is cut into bins of at least one sampling interval; a GPU's value in a bin is the mean of its samples there, and the
space average is the mean over the GPUs that have a value. GPUs are never aligned by the numbers of their samples.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.model.statistics.aggregate import filtered
from gssr.store.format.buckets import Buckets
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import GAP_INTERVALS, LEVELS
from gssr.store.read.recording import VECTORS_AT_ONCE, RunReader
from gssr.store.read.time_window import Window

MAX_EMPTY = 0.05
"""A bin's width is too narrow when more than this share of the (GPU, bin) cells is empty without a gap."""
ROUND_WIDTHS = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
"""Widths from 10 s on; every one is a multiple of a rollup level. Above them, doubled days."""
_CLOCK_NOISE = 1e-6  # s; a float64 holds unix time to 0.24 microseconds


class Bins(NamedTuple):
    """Equal bins of time: ``n`` of them, each ``width`` seconds wide, the first from ``start`` (unix s)."""

    start: float
    width: float
    n: int

    def holding(self, time: Floats) -> Ints:
        """Find the index of the bin that holds each time (unix s); what lies beyond an end belongs to the bin there."""
        position = np.floor((time - self.start + _CLOCK_NOISE) / self.width).astype(np.int64)
        return np.clip(position, 0, self.n - 1)


def widths(interval: float) -> Iterator[float]:
    """Yield widths for bins, s, ascending without end: 1, 2 and 5 sampling intervals (``interval``: s, above 0), then
    round numbers of seconds that are multiples of the interval, or at least ten times as long, when that does not
    matter any more."""
    for factor in (1, 2, 5):
        yield round(factor * interval, 9)
    for width in _round_widths():
        multiple = width / interval
        if multiple > 5 and (multiple >= 10 or abs(multiple - round(multiple)) < 1e-6):
            yield width


def _round_widths() -> Iterator[float]:
    """Yield 1, 2, 5 times powers of ten below 10 s, then ROUND_WIDTHS, then doubled days, without end."""
    for power in (1000, 100, 10, 1):
        yield from (step / power for step in (1, 2, 5))
    yield from (float(width) for width in ROUND_WIDTHS)
    yield from (float(ROUND_WIDTHS[-1] << doubled) for doubled in count(1))


def _bins(window: Window, width: float) -> Bins:
    """Return bins of this width that cover the window from its start on."""
    return Bins(window.start, width, max(1, math.ceil((window.seconds - _CLOCK_NOISE) / width)))


def bins_of_samples(samples: Samples, window: Window, interval: float, most: int) -> Bins:
    """Choose at most ``most`` bins of a window, which must not be an open one, for these rows: the narrowest of
    ``widths`` in which no more than MAX_EMPTY of the cells are empty where there is no gap.

    Ticks come a little late: bins of one interval would turn empty and double by turns when a tick falls near an edge.
    GPUs sampled at a lower rate than the others would enter only some bins and make the average jump. Both show as
    empty cells between two rows of a GPU that are no further apart than GAP_INTERVALS of its own usual spacing.
    """
    order = np.lexsort((samples.time, samples.gpu))
    gpu, time = samples.gpu[order], samples.time[order]
    spacing = np.diff(time)
    same = np.diff(gpu) == 0
    gap = spacing > GAP_INTERVALS * np.maximum(interval, _usual_spacing(gpu[1:], spacing, same))

    def holds(bins: Bins) -> bool:
        """Tell whether few enough cells of GPU and bin are empty where there is no gap."""
        steps = np.where(same, np.diff(bins.holding(time)), 0)
        cells = int(steps.sum()) + len(np.unique(gpu))
        return int(np.maximum(steps - 1, 0)[~gap].sum()) <= MAX_EMPTY * cells

    candidates = (_bins(window, width) for width in widths(interval))
    return next(bins for bins in candidates if bins.n <= max(most, 1) and holds(bins))


def _usual_spacing(gpu: Ints, spacing: Floats, same: NDArray[np.bool_]) -> Floats:
    """Find for each row [n] the median spacing of its GPU, s. ``gpu`` [n] is grouped; ``spacing`` [n] is the time
    between a row and its neighbour, and ``same`` [n] flags those where both are of one GPU: only these count. 0 where a
    GPU has none."""
    usual = np.zeros(len(gpu))
    if not len(gpu):
        return usual
    starts = np.flatnonzero(np.concatenate(([True], np.diff(gpu) != 0)))
    for first, last in zip(starts, np.append(starts[1:], len(gpu)), strict=True):
        own = slice(first, last)
        inside = spacing[own][same[own]]
        if len(inside):
            usual[own] = np.median(inside)
    return usual


def bins_of_buckets(window: Window, interval: float, most: int, least: float = LEVELS[0]) -> Bins:
    """Choose at most ``most`` bins (but two in any case) that cover a window, aligned to unix time: made of whole
    rollup buckets, or as narrow as ``least`` seconds. They are the narrowest that are at least two sampling intervals
    wide: then jitter empties none."""
    candidates = (
        _bins(Window(math.floor(window.start / width) * width, window.end), width)
        for width in _round_widths()
        if width >= max(least, 2 * interval)
    )
    return next(bins for bins in candidates if bins.n <= max(most, 2))


def slices_of_buckets(
    reader: RunReader, names: Sequence[str], positions: Ints, bins: Bins, window: Window
) -> Iterator[Buckets]:
    """Read the rollups of the metrics ``names`` that make up ``bins``, of some time or some GPUs at once.

    ``positions`` are those of the GPUs in ``reader.gpus``, as in the buckets that are returned. ``bins`` must be whole
    buckets of a level; only rows in ``window`` count. Yields pieces, which may be empty, in no particular order of GPUs.
    """
    level = max(level for level in LEVELS if bins.width % level == 0)
    long = LEVELS[-1]  # where a slice ends no bucket is cut, of whatever level
    at_once = max(1, VECTORS_AT_ONCE * level // long)
    gpus = [positions[first : first + at_once] for first in range(0, len(positions), at_once)]
    # One wrong clock, and years may lie between two rows.
    sparse = VECTORS_AT_ONCE * bins.n * bins.width / max(reader.n_rows, 1)
    step = long * max(1, at_once // max(1, len(positions)), int(min(sparse, bins.n * bins.width) / long))
    first, last = bins.start // step + 1, math.ceil((bins.start + bins.n * bins.width) / step)
    for piece in window.at(number * step for number in range(int(first), last)):
        for own in gpus:
            yield reader.buckets(piece, level=level, gpus=filtered(reader, own), names=names)
