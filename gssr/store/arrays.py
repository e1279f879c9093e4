"""Some steps with arrays that many modules take."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


def where(mask: Flags, *columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Of each column what is chosen; itself where that is all of it: rollups are large."""
    return columns if mask.all() else tuple(column[mask] for column in columns)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Each value once, ascending. As ``np.unique``, which imports numpy.ma at its first call: 15 ms."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


def among(values: NDArray[Any], others: NDArray[Any]) -> Flags:
    """[n]: which values are among the others. As ``np.isin``, which calls ``np.unique``."""
    if not len(others):
        return np.zeros(len(values), bool)
    ordered = np.sort(others)
    return np.asarray(ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values, bool)
