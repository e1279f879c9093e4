"""Dips that come back: checkpoints, validation, waits for data."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.model.results import Cycle

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
    """The dips of a series [n] in bins of ``width`` seconds that come back with a period; None where there are none. NaN:
    missing, belongs to no dip."""
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
    """The cycle of the runs of True in ``inside`` [n]; None for fewer than FEWEST."""
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
    distances = np.array([later - earlier for earlier, later in pairwise(centres.tolist())])
    usual = float(np.median(distances))
    apart = np.abs(distances - usual)
    spread = float(np.median(apart))
    if spread > max(REGULAR * usual, 0.5):
        return None
    return float(distances[apart <= max(spread, 1.0)].mean()) * width
