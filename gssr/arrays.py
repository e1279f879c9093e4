"""What arrays are called everywhere: by the kind of their elements; shapes are said where they matter."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


def select(chosen: Flags, *columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return of each column [n, ...] the rows that are ``chosen`` [n]; the columns themselves, not copies, if all are."""
    return columns if chosen.all() else tuple(column[chosen] for column in columns)
