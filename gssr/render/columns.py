"""A series of any number of bins drawn into a number of columns."""

import numpy as np

from gssr.arrays import Floats

_SLIVER = 1e-6
"""A bin that covers less than this share of a column is rounding, not data."""


def columns(values: Floats, start: float, width: float, begin: float, end: float, n: int) -> Floats:
    """``values`` [..., bins], bins of ``width`` seconds from ``start``, averaged into ``n`` equal columns from ``begin`` to
    ``end``: [..., n]. Each column is the mean of the bins it overlaps, weighted by the overlap; NaN, and nothing else, where
    no bin with a value overlaps it."""
    bins = values.shape[-1]
    if n < 1 or bins == 0 or not end > begin:
        return np.full((*values.shape[:-1], max(n, 0)), np.nan)
    size = (end - begin) / n
    left = begin + size * np.arange(n)
    edge = start + width * np.arange(bins)
    overlap = np.minimum(left[:, None] + size, edge + width) - np.maximum(left[:, None], edge)
    overlap[overlap < _SLIVER * min(size, width)] = 0.0
    known = np.isfinite(values)
    weight = known @ overlap.T
    mean: Floats = np.where(known, values, 0.0) @ overlap.T
    np.divide(mean, weight, out=mean, where=weight > 0)
    mean[weight <= 0] = np.nan
    return mean


def unbroken(values: Floats) -> list[tuple[int, int]]:
    """[first, last) of each unbroken run of finite ``values`` [n]."""
    known = np.concatenate([[False], np.isfinite(values), [False]])
    edges = np.flatnonzero(known[1:] != known[:-1])
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
