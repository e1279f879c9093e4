"""What the samples of a window add up to, GPU by GPU: the buckets that cover it, merged few at a time, so that neither many
GPUs nor samples years apart take much memory."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gssr.store.layout import Layout, layout_of, part_of
from gssr.store.moments import Floats, Ints, empty_vectors, merge
from gssr.store.reader import RunReader
from gssr.store.schema import LEVELS

VECTORS_AT_ONCE = 6_000
"""Buckets of all metrics: some seven megabytes, and as much again while they are merged."""
_AT_THE_ENDS = 30
"""Finer rollups of a GPU, at most, where a window does not begin or end with one of the coarsest."""


class Totals(NamedTuple):
    """Of some GPUs (positions [n]) the vectors [n, layout.width]; that of a GPU without samples is empty."""

    gpus: Ints
    vectors: Floats
    layout: Layout


def totals(
    reader: RunReader,
    names: Sequence[str] | None,
    gpus: Ints | None,
    start: float | None,
    end: float | None,
    gap_seconds: float,
) -> Iterator[Totals]:
    """The metrics ``names`` (None: all) of ``gpus`` (positions, None: all; each comes once, in this order) in start <= time
    < end, unix s, None: open. More than ``gap_seconds`` between two samples of a GPU is a gap."""
    wanted = np.arange(len(reader.gpus)) if gpus is None else gpus
    first = reader.first_time if start is None else start
    last = reader.last_time if end is None else end
    of_each = max((last or 0.0) - (first or 0.0), 0.0) / LEVELS[-1]
    rows = reader.n_rows / max(len(reader.gpus), 1)  # one wrong clock, and years may lie between two
    of_each = min(of_each, rows) + _AT_THE_ENDS
    at_once = max(1, int(VECTORS_AT_ONCE / of_each))
    for number in range(0, len(wanted), at_once):
        own = wanted[number : number + at_once]
        place = np.full(len(reader.gpus), -1, np.int64)
        place[own] = np.arange(len(own))
        asked = None if len(own) == len(reader.gpus) else own
        windows = [(start, end)] if of_each <= VECTORS_AT_ONCE else _windows(reader, own, start, end)
        layout = part_of(layout_of(reader.metrics), names) if names is not None else layout_of(reader.metrics)
        vectors = empty_vectors(len(own), layout)
        for lower, upper in windows:
            found = reader.buckets(lower, upper, gpus=asked, names=names)
            group = np.concatenate((np.arange(len(own)), place[found.gpu]))
            vectors = merge(np.concatenate((vectors, found.vectors)), group, len(own), gap_seconds, layout)
        yield Totals(own, vectors, layout)


def _windows(
    reader: RunReader, gpus: Ints, start: float | None, end: float | None
) -> list[tuple[float | None, float | None]]:
    """The window in pieces that hold no more than VECTORS_AT_ONCE of the coarsest buckets with samples in them."""
    step = LEVELS[-1]
    buckets = np.unique(np.floor(reader.samples((), gpus, start, end).time / step))
    cuts = (buckets[VECTORS_AT_ONCE::VECTORS_AT_ONCE] * step).tolist()
    inside = [cut for cut in cuts if (-math.inf if start is None else start) < cut < (math.inf if end is None else end)]
    return list(zip([start, *inside], [*inside, end], strict=True))
