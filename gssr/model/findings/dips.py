"""Where several series change their level at once; and dips that come back: checkpoints, validation, waits for data.

Optimal partitioning: of all ways to cut n bins into segments the one that minimises the sum of squared distances to the
segments' means, in units of each series' noise, plus a penalty for every segment. Solved exactly by dynamic programming
with pruning. Sources: Jackson et al., An algorithm for optimal partitioning of data on an interval, IEEE Signal Processing
Letters 12 (2005); the pruning is PELT, Killick, Fearnhead and Eckley, Journal of the American Statistical Association 107
(2012). The penalty is Schwarz's criterion for a segment's mean in each series and its place, (m + 1) log n (Yao, Statistics
and Probability Letters 6, 1988), three times as strict: neighbouring bins of a job are not independent (a choice of our
own).
"""

import math

import numpy as np

from gssr.arrays import Flags, Floats, Ints
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
SHORT_DIP = 0.05
"""Dips without a period come back where none of them is longer than this share of the time ..."""
CLEAR = 0.5
"""... and bins halfway down are fewer than this share of those in dips: noise has as many (choices of our own)."""
_USUAL = 75
"""The percentile that stands for the level between dips; the lowest tenth for the dips."""


def find_dips(values: Floats) -> Flags:
    """Flag the bins of a series [n] that lie in dips which come back: with a period, or short and clear. None is flagged
    where there are fewer than FEWEST. NaN is missing and belongs to no dip."""
    nothing = np.zeros(len(values), bool)
    known = values[np.isfinite(values)]
    if len(known) < 2 * FEWEST:
        return nothing
    high, low = float(np.percentile(known, _USUAL)), float(np.percentile(known, 10))
    if low > (1 - DEPTH) * high:
        low = float(known.min())
    if not low < (1 - DEPTH) * high:
        return nothing
    with np.errstate(invalid="ignore"):
        inside = np.asarray(values < (low + high) / 2, bool)
        halfway = np.abs(values - (low + high) / 2) < (high - low) / 4
    begins, ends = _edges(inside)
    longest = max(3 * float(np.median(ends - begins)), SHORT_DIP * len(values))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        if end - begin > longest:
            inside[begin:end] = False  # another level
    begins, ends = _edges(inside)
    if len(begins) < FEWEST:
        return nothing
    is_short = int((ends - begins).max()) <= SHORT_DIP * len(values) and halfway.sum() < CLEAR * inside.sum()
    return inside if is_short or _period((begins + ends) / 2) is not None else nothing


def describe_dips(inside: Flags, values: Floats, width: float) -> Cycle | None:
    """Describe the dips of a series [n] in bins of ``width`` seconds, which are the runs of True in ``inside`` [n]. None if
    they are fewer than FEWEST, not deep enough (DEPTH), or nothing is known inside or outside of them."""
    begins, ends = _edges(inside)
    known = np.isfinite(values)
    if len(begins) < FEWEST or not (known & inside).any() or not (known & ~inside).any():
        return None
    low, high = float(values[known & inside].mean()), float(values[known & ~inside].mean())
    if low > (1 - DEPTH) * high:
        return None
    is_whole = (begins > 0) & (ends < len(inside))  # others may be cut off
    seconds = float((ends - begins)[is_whole if is_whole.any() else slice(None)].mean()) * width
    period = _period((begins + ends) / 2)
    return Cycle(len(begins), None if period is None else period * width, seconds, float(inside.mean()), low, high)


def _edges(inside: Flags) -> tuple[Ints, Ints]:
    """Find the runs of True in [n]: where each begins and where it ends, exclusive."""
    edges = np.diff(inside.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)


def _period(centres: Floats) -> float | None:
    """Return the mean distance between ``centres`` (ascending, in bins), or None if the distances vary too much for a
    period."""
    distances = np.diff(centres)
    usual = float(np.median(distances))
    apart = np.abs(distances - usual)
    spread = float(np.median(apart))
    if spread > max(REGULAR * usual, 0.5):
        return None
    return float(distances[apart <= max(spread, 1.0)].mean())
