"""Comparing GPUs in the same moment: by how much each waits longer than the others."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.evidence.evidence import Evidence

LEAST_EXCESS = 0.03
SAMPLES_BETWEEN_NODES = 8
"""Nodes are compared over so many samples: each is sampled at moments of its own."""
CERTAIN = 4.0
"""So many standard deviations: the largest of hundreds of values that differ by chance reaches three."""
LONGEST_INTERVAL = 1.5
"""Samples further apart than this (s) may be snapshots of a second each, whose beat with the steps looks like turns."""
LASTING = 0.3
"""An autocorrelation above this is no chance in the tens of bins that any job has."""


def excess(waits: Floats, inside: Flags, evidence: Evidence, snapshots: bool = False) -> Floats:
    """By how much each GPU waits [n_gpus, n_bins] longer than the least waiting ones at the same time.

    GPUs of a node are read in one moment and compared bin by bin; nodes are read at different moments, and compared over
    several samples.
    """
    known = np.where(inside, waits, np.nan)
    n_nodes = len(evidence.nodes)
    fine = max(1, int(np.ceil(2.0 / evidence.width)))
    coarse = max(fine, int(np.ceil(SAMPLES_BETWEEN_NODES * evidence.interval / evidence.width)))
    if snapshots:
        fine = max(fine, int(np.ceil(5.0 / evidence.width)))
    own = np.zeros_like(waits)
    least = np.full((n_nodes, waits.shape[1]), np.nan)
    for node in range(n_nodes):
        of = evidence.node_of == node
        if of.sum() > 1:
            chance = CERTAIN * _chance(known[of]) / np.sqrt(fine) if snapshots else 0.0
            own[of] = np.maximum(_above_least(smoothed(known[of], fine)) - chance, 0.0)
        least[node] = _least(known[of])
    if n_nodes > 1:
        own = own + _between_nodes(least, fine, coarse, evidence.interval)[evidence.node_of]
    own = np.minimum(own, waits)
    return np.where(own > LEAST_EXCESS, own, 0.0)


def _between_nodes(least: Floats, fine: int, coarse: int, interval: float) -> Floats:
    """By how much the least waiting GPU of each node [n_nodes, n_bins] waits longer than that of other nodes.

    Nodes are read at different moments, so single samples differ by chance. If what differs lasts from one bin to the next,
    it is real, unless samples are so far apart that their beat with a program's steps lasts as well; else only what is more
    than chance leaves in the mean of several samples counts.
    """
    near = _above_least(smoothed(least, fine))
    if interval <= LONGEST_INTERVAL and _lasts(near[:, ::fine]):
        return near
    return np.maximum(_above_least(rolling(least, coarse)) - CERTAIN * _chance(least) / np.sqrt(coarse), 0.0)


def _lasts(values: Floats) -> bool:
    """Whether values [n, n_bins] are like those of the bin before: their autocorrelation is clearly above chance."""
    if values.shape[1] < 8:
        return False
    apart = values - values.mean()
    spread = float((apart**2).sum())
    return spread > 0 and float((apart[:, 1:] * apart[:, :-1]).sum()) > LASTING * spread


def _least(values: Floats) -> Floats:
    """[n_bins]: what the least waiting GPUs wait, without the lowest tenth; NaN where none is known."""
    finite = np.where(np.isfinite(values), values, np.inf)
    rank = len(values) // 10 if len(values) > 8 else 0
    least = np.partition(finite, rank, axis=0)[rank]
    return np.where(np.isfinite(least), least, np.nan)


def _chance(values: Floats) -> float:
    """By how much values [n, n_bins] differ from one bin to the next, as a standard deviation; 0 without neighbours."""
    steps = np.diff(values, axis=1)
    steps = steps[np.isfinite(steps)]
    return float(np.sqrt(np.mean(steps**2) / 2)) if len(steps) else 0.0


def _above_least(values: Floats) -> Floats:
    above = values - _least(values)
    return np.where(np.isfinite(above), np.maximum(above, 0.0), 0.0)


def rolling(values: Floats, n: int) -> Floats:
    """The mean over ``n`` bins around each, of those that have a value."""
    if n <= 1:
        return values
    known = np.isfinite(values)

    def sums(x):
        c = np.cumsum(np.pad(x, ((0, 0), (1, 0))), axis=1)
        at = np.arange(values.shape[1])
        lo, hi = np.maximum(at - n // 2, 0), np.minimum(at + (n + 1) // 2, values.shape[1])
        return c[:, hi] - c[:, lo]

    count = sums(known.astype(np.float64))
    return np.divide(sums(np.where(known, values, 0.0)), count, out=np.full(values.shape, np.nan), where=count > 0)


def smoothed(values: Floats, n: int) -> Floats:
    """Each bin with the mean of its group of ``n`` bins."""
    if n <= 1:
        return values
    pad = -values.shape[1] % n
    padded = np.pad(values, ((0, 0), (0, pad)), constant_values=np.nan).reshape(values.shape[0], -1, n)
    known = np.isfinite(padded)
    mean = np.where(known, padded, 0).sum(axis=2) / np.maximum(known.sum(axis=2), 1)
    mean = np.where(known.any(axis=2), mean, np.nan)
    return np.repeat(mean, n, axis=1)[:, : values.shape[1]]
