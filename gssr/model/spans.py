"""What GPUs did in the time between two looks, where their single samples were not read."""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints

_SHORTEST = 1e-3
"""Seconds that a span has at least: that of a single sample has no length."""


class Spans(NamedTuple):
    """``gpu`` [n]: positions, each once. The samples of a span lie in start < time <= end (unix s, [n]; a GPU's first one at
    the start itself): ``rows`` [n] of them, with ``gaps`` [n] gaps. ``n`` and ``total`` [n_names, n]: counts and sums by
    metric; ``latest`` [n_metrics, n] the newest values, NaN without any."""

    gpu: Ints
    start: Floats
    end: Floats
    rows: Ints
    gaps: Ints
    n: Floats
    total: Floats
    latest: Floats


class Pieces(NamedTuple):
    """Spans cut at the edges of columns: ``of`` [n] is the span, ``column`` [n] the number of the column, ``share`` [n] what
    of the span lies in it, 0-1."""

    of: Ints
    column: Ints
    share: Floats


def cut(start: Floats, end: Floats, known: Floats, width: float) -> Pieces:
    """Cut start < time <= end, but for what is not after ``known`` (all [n], unix s), at multiples of ``width``, s. Samples
    count as spread evenly."""
    start = np.minimum(start, end - _SHORTEST)
    begin = np.maximum(start, known)
    new = np.flatnonzero(end > begin)
    first = np.floor(begin[new] / width + 1e-9).astype(np.int64)
    last = np.floor(end[new] / width + 1e-9).astype(np.int64)
    sizes = last - first + 1
    of = np.repeat(new, sizes)
    column = np.repeat(first, sizes) + np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    inside = np.minimum(end[of], (column + 1) * width) - np.maximum(begin[of], column * width)
    return Pieces(of, column, np.maximum(inside, 0.0) / (end - start)[of])
