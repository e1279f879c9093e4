"""One number for each GPU and bucket of time, so that numpy can look buckets up in sorted arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints

_START = (1 << 40) - 1
"""The lower 40 bits of a number hold when the bucket begins (unix s), those above the GPU's position."""


def codes_of(gpu: Ints, bucket: NDArray[Any]) -> Ints:
    """Make one number of each GPU's position and start of a bucket (unix s)."""
    return gpu * (1 << 40) + np.asarray(bucket, np.int64)


def starts_of(codes: Ints) -> Ints:
    """Return where the buckets of these numbers begin, unix s."""
    return codes & _START


def positions_of(codes: Ints) -> Ints:
    """Return the positions of the GPUs of the buckets of these numbers."""
    return codes >> 40
