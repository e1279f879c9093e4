"""Every GPU along time in a bounded number of rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.model.results import Analysis, GpuSeries
from gssr.render.cells import clean, fit

MOST_ROWS = 1024
"""More GPUs share rows; a screen has no more lines."""


class HeatMap(NamedTuple):
    """``values`` [n_rows, n_bins], the least of the row's GPUs in each bin, NaN where none has a sample. ``first`` [n_rows]
    is the position of each row's first GPU, ``each`` how many share a row (the last may have fewer)."""

    values: Floats
    first: NDArray[np.int64]
    each: int


def heat_map(series: GpuSeries, n_nodes: int) -> HeatMap:
    """The series of all GPUs; of more than MOST_ROWS, neighbours in one row, whole nodes where nodes are alike. The least of
    them stays: a GPU that waits must not vanish among those that work."""
    n = len(series.values)
    each = max(-(-n // MOST_ROWS), 1)
    per_node, rest = divmod(n, max(n_nodes, 1))
    if each > 1 and per_node and not rest:
        each = -(-each // per_node) * per_node
    first = np.arange(0, n, each)
    return HeatMap(np.fmin.reduceat(series.values, first, axis=0) if n else series.values, first, each)


def short_place(place: str, most: int) -> str:
    """``node:index`` in at most so many characters: without the node's domain where it is longer, then from its end."""
    if len(place) > most:
        node, colon, index = place.rpartition(":")
        place = f"{node.partition('.')[0]}{colon}{index}"
    return fit(place, most, "…", keep="end")


def row_name(analysis: Analysis, found: HeatMap, row: int) -> str:
    """The GPU, or the first and the last GPU, of a row."""
    first = int(found.first[row])
    last = min(first + found.each, len(analysis.gpus)) - 1
    places = [clean(analysis.gpus[gpu].place) for gpu in dict.fromkeys((first, last))]
    return " to ".join(places)
