"""More columns of time than there are cells: neighbours go together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.model.results import Grid


class Folded(NamedTuple):
    """Columns of ``width`` seconds from ``start`` (unix s), of which ``factor`` of the grid went into each: ``values``
    [..., n] are their means, ``low`` and ``high`` the extremes among them; NaN where none has a value."""

    start: float
    width: float
    factor: int
    values: Floats
    low: Floats
    high: Floats

    @property
    def n(self) -> int:
        """How many columns."""
        return int(self.values.shape[-1])

    def column(self, time: float) -> int | None:
        """The column that holds a time (unix s), None for a time outside."""
        found = int((time - self.start) // self.width)
        return found if 0 <= found < self.n else None


def fold(grid: Grid, values: Floats, cells: int, last: float | None = None) -> Folded:
    """``values`` [..., grid.n] in at most ``cells`` columns: as they are where they fit, else the means of so many
    neighbours that all do. Neighbours are counted in unix time, so that a column that is over never changes. ``last``: leave
    out the columns after this time (unix s), where nothing is any more."""
    n = grid.n if last is None else min(grid.column(last) + 1, grid.n)
    values = values[..., :n]
    cells = max(cells, 1)
    if n <= cells:
        return Folded(grid.start, grid.width, 1, values, values, values)
    number = round(grid.start / grid.width)
    factor = -(-n // cells)
    while (number + n - 1) // factor - number // factor + 1 > cells:
        factor += 1
    first = number // factor
    edges = np.unique(np.maximum(np.arange(first, (number + n - 1) // factor + 1) * factor - number, 0))
    means = means_from(values, edges)
    low, high = np.fmin.reduceat(values, edges, axis=-1), np.fmax.reduceat(values, edges, axis=-1)
    return Folded(first * factor * grid.width, factor * grid.width, factor, means, low, high)


def means_from(values: Floats, edges: Sequence[int] | NDArray[np.int64]) -> Floats:
    """[..., len(edges)]: the means of what is known of ``values`` [..., n] from each edge to the next, NaN without any."""
    known = np.isfinite(values)
    n = np.add.reduceat(known, edges, axis=-1, dtype=np.int64)
    total = np.add.reduceat(np.where(known, values, 0.0), edges, axis=-1)
    return np.asarray(np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0), np.float64)


def coarser(values: Floats, step: int) -> Floats:
    """Bins [..., n] put together ``step`` by ``step``: the means of what is known, NaN without any."""
    if step <= 1 or not values.shape[-1]:
        return values
    return means_from(values, np.arange(0, values.shape[-1], step))
