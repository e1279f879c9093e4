"""Where several series change their level at once.

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

from gssr.arrays import Floats, Ints

STRICT = 3.0
_NORMAL = 0.6745
"""The median absolute deviation of a normal distribution of standard deviation 1."""


def noise(values: Floats, least: Floats) -> Floats:
    """[m]: the standard deviation of each series [m, n] about its level, from the median absolute difference of neighbours,
    which changes of level hardly move; ``least`` [m] where it is below that."""
    differences = np.abs(np.diff(values, axis=1))
    found = np.array([float(np.median(known)) if len(known := row[np.isfinite(row)]) else 0.0 for row in differences])
    return np.asarray(np.maximum(found / (_NORMAL * math.sqrt(2)), least), np.float64)


def change_points(values: Floats, deviation: Floats) -> Ints:
    """The first bin of each segment of the series [m, n] but the first one, ascending; ``deviation`` [m] is their noise,
    above 0. NaN says nothing: a bin without values belongs to either side."""
    m, n = values.shape
    if n < 2 or not m:
        return np.zeros(0, np.int64)
    known = np.isfinite(values)
    middle = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    scaled = np.where(known, (values - middle[:, None]) / deviation[:, None], 0.0)
    sums = np.zeros((3, m, n + 1))  # of values, of their squares, and how many there are, up to each bin
    np.cumsum([scaled, scaled**2, known], axis=2, out=sums[:, :, 1:])
    penalty = STRICT * (m + 1) * math.log(n)
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
        found.append(at)
        at = int(begins[at])
    return np.array(found[::-1], np.int64)
