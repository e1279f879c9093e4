"""Buckets of time: their numbers, and where a window cuts them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints

_START = (1 << 40) - 1

Range = tuple[float, float]
"""A window [start, end), unix s."""


def codes_of(gpu: Ints, bucket: NDArray[Any]) -> Ints:
    """One number for each (position, start of a bucket)."""
    return gpu * (1 << 40) + np.asarray(bucket, np.int64)


def starts_of(codes: Ints) -> Ints:
    """Where the buckets of these numbers begin, unix s."""
    return codes & _START


def positions_of(codes: Ints) -> Ints:
    """Whose the buckets of these numbers are."""
    return codes >> 40


def cut_off(start: float, end: float, step: int) -> list[Range]:
    """The parts of [start, end) that are cut off from the buckets of ``step`` seconds it cuts."""
    ranges = []
    if math.isfinite(start) and start % step:
        ranges.append((start, min(end, (start // step + 1) * step)))
    if math.isfinite(end) and end % step and (not ranges or end > ranges[0][1]):
        ranges.append((max(start, end // step * step), end))
    return ranges
