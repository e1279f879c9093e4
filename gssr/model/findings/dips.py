"""Dips that come back: checkpoints, validation, waits for data.

Where several series change their level at once.

Optimal partitioning: of all ways to cut n bins into segments the one that minimises the sum of squared distances to the
segments' means, in units of each series' noise, plus a penalty for every segment. Solved exactly by dynamic programming
with pruning. Sources: Jackson et al., An algorithm for optimal partitioning of data on an interval, IEEE Signal Processing
Letters 12 (2005); the pruning is PELT, Killick, Fearnhead and Eckley, Journal of the American Statistical Association 107
(2012). The penalty is Schwarz's criterion for a segment's mean in each series and its place, (m + 1) log n (Yao, Statistics
and Probability Letters 6, 1988), three times as strict: neighbouring bins of a job are not independent (a choice of our
own).
"""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.model.results import Cycle

STRICT = 3.0
_NORMAL = 0.6745
"""The median absolute deviation of a normal distribution of standard deviation 1."""


def noise(values: Floats, least: Floats) -> Floats:
    """Estimate how noisy each series [m, n] is: its standard deviation [m] about its level, from the median absolute
    difference of neighbours, which changes of level hardly move. It is never below ``least`` [m]; NaN in ``values`` is
    missing."""
    differences = np.abs(np.diff(values, axis=1))
    found = np.array([float(np.median(known)) if len(known := row[np.isfinite(row)]) else 0.0 for row in differences])
    return np.asarray(np.maximum(found / (_NORMAL * math.sqrt(2)), least), np.float64)


def change_points(values: Floats, deviation: Floats) -> Ints:
    """Find the bins at which the level of the series [m, n] changes, in any of them. Returns the first bin of each segment
    except the first segment, ascending; empty if the level never changes or there are fewer than two bins.

    ``deviation`` [m] is the noise of each series, above 0. NaN says nothing: a bin without values belongs to either side.
    """
    m, n = values.shape
    some = np.flatnonzero(np.isfinite(values).any(axis=0))
    if n < 2 or not len(some):
        return np.zeros(0, np.int64)
    penalty = STRICT * (m + 1) * math.log(n)
    values, n = values[:, some], len(some)
    known = np.isfinite(values)
    middle = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    scaled = np.where(known, (values - middle[:, None]) / deviation[:, None], 0.0)
    sums = np.zeros((3, m, n + 1))  # of values, of their squares, and how many there are, up to each bin
    np.cumsum([scaled, scaled**2, known], axis=2, out=sums[:, :, 1:])
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    begins = np.zeros(n + 1, np.int64)
    candidates = np.zeros(1, np.int64)
    for end in range(1, n + 1):
        total, squares, count = sums[:, :, end, None] - sums[:, :, candidates]
        cost = (squares - total**2 / np.maximum(count, 1.0)).sum(axis=0)
        reached = best[candidates] + cost
        at = int(reached.argmin())
        best[end], begins[end] = reached[at] + penalty, candidates[at]
        candidates = np.append(candidates[reached <= best[end]], end)
    found = []
    at = int(begins[n])
    while at > 0:
        found.append(int(some[at - 1]) + 1)
        at = int(begins[at])
    return np.array(found[::-1], np.int64)


FEWEST = 3
"""So many dips come back (a choice of our own)."""
DEPTH = 0.25
"""A dip is at least this share of the level deep (a choice of our own)."""
REGULAR = 0.2
"""Dips have a period when the median deviation of the distances between them from their median is at most this share of it,
or half a bin (a choice of our own; of distances without memory it is 0.69)."""
_USUAL = 75
"""The percentile that stands for the level between dips; the lowest tenth for the dips."""


def cycle(values: Floats, width: float) -> Cycle | None:
    """Find the dips of a series [n] in bins of ``width`` seconds that come back with a period, or return None if there
    are none. NaN is missing and belongs to no dip."""
    known = values[np.isfinite(values)]
    if len(known) < 2 * FEWEST:
        return None
    high, low = float(np.percentile(known, _USUAL)), float(np.percentile(known, 10))
    if high <= 0 or low > (1 - DEPTH) * high:
        low = float(known.min())
        if high <= 0 or low > (1 - DEPTH) * high:
            return None
    with np.errstate(invalid="ignore"):
        inside = values < (low + high) / 2
    found = cycle_of(inside, values, width)
    return found if found is not None and found.period is not None else None


def cycle_of(inside: NDArray[np.bool_], values: Floats, width: float) -> Cycle | None:
    """Describe the runs of True in ``inside`` [n] as dips of ``values`` [n], in bins of ``width`` seconds. None if
    they are fewer than FEWEST, not deep enough (DEPTH), or nothing is known inside or outside of them."""
    edges = np.diff(inside.astype(np.int8), prepend=0, append=0)
    begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    known = np.isfinite(values)
    if len(begins) < FEWEST or not (known & inside).any() or not (known & ~inside).any():
        return None
    low, high = float(values[known & inside].mean()), float(values[known & ~inside].mean())
    if low > (1 - DEPTH) * high:
        return None
    seconds = float((ends - begins).mean()) * width
    return Cycle(len(begins), _period((begins + ends) / 2, width), seconds, float(inside.mean()), low, high)


def _period(centres: Floats, width: float) -> float | None:
    """Return the mean distance between ``centres`` (ascending, in bins), in seconds, or None if the distances vary too
    much for a period."""
    distances = np.array([later - earlier for earlier, later in pairwise(centres.tolist())])
    usual = float(np.median(distances))
    apart = np.abs(distances - usual)
    spread = float(np.median(apart))
    if spread > max(REGULAR * usual, 0.5):
        return None
    return float(distances[apart <= max(spread, 1.0)].mean()) * width
