"""Percentiles of what is known, in many columns at once: to the last bit numpy's, in a part of its time. Those of very many
samples are found in gssr.model.statistics, from rows or from histograms."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Floats


def known_percentiles(values: Floats, shares: Sequence[float]) -> list[Floats]:
    """Return numpy's linear percentiles of each column of ``values`` [rows, columns], of what is not NaN in it: an array
    [columns] for each of the ``shares``, 0 for the least value and 1 for the greatest; NaN where a column holds nothing
    else."""
    if not len(values):
        return [np.full(values.shape[1], np.nan) for _ in shares]
    last = np.maximum(np.isfinite(values).sum(axis=0) - 1, 0)
    ordered = np.sort(values, axis=0)  # NaN last; np.partition takes longer, even for two ranks
    column, found = np.arange(values.shape[1]), []
    for share in shares:
        position = share * last
        below = np.floor(position).astype(np.int64)
        low, high = ordered[below, column], ordered[np.minimum(below + 1, last), column]
        part, apart = (
            position - below,
            high - low,
        )  # from the nearer of the two, as numpy does, else they round otherwise
        found.append(np.where(part < 0.5, low + part * apart, high - (1 - part) * apart))
    return found
