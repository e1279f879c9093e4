"""What the samples of a window add up to, GPU by GPU: the buckets that cover it, merged few at a time, so that neither many
GPUs nor samples years apart take much memory."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.store.format.layout import Layout, layout_of, part_of
from gssr.store.format.schema import LEVELS
from gssr.store.format.vectors import empty_vectors, merge
from gssr.store.read.recording import RunReader

VECTORS_AT_ONCE = 6_000
"""Buckets of all metrics: some seven megabytes, and as much again while they are merged."""
_AT_THE_ENDS = 30
"""Finer rollups of a GPU, at most, where a window does not begin or end with one of the coarsest."""


class Totals(NamedTuple):
    """Of some GPUs that have samples (positions [n], ascending) the vectors [n, layout.width]."""

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
    """The metrics ``names`` (None: all) of ``gpus`` (positions, None: all) in start <= time < end, unix s, None: open; each
    GPU that has samples comes once. More than ``gap_seconds`` between two samples of a GPU is a gap."""
    wanted = np.arange(len(reader.gpus)) if gpus is None else gpus
    first = reader.first_time if start is None else start
    last = reader.last_time if end is None else end
    of_each = max((last or 0.0) - (first or 0.0), 0.0) / LEVELS[-1]
    rows = reader.n_rows / max(len(reader.gpus), 1)  # one wrong clock, and years may lie between two
    of_each = min(of_each + _AT_THE_ENDS, rows)
    at_once = max(1, int(VECTORS_AT_ONCE / max(of_each, 1e-9)))
    layout = layout_of(reader.metrics) if names is None else part_of(layout_of(reader.metrics), names)
    for number in range(0, len(wanted), at_once):
        own = wanted[number : number + at_once]
        asked = None if len(own) == len(reader.gpus) else own
        windows = [(start, end)] if of_each <= VECTORS_AT_ONCE else _windows(reader, own, start, end)
        sampled, vectors = np.empty(0, np.int64), empty_vectors(0, layout)
        for lower, upper in windows:
            found = reader.buckets(lower, upper, gpus=asked, names=names)
            sampled, place = np.unique(np.concatenate((sampled, found.gpu)), return_inverse=True)
            both = np.concatenate((vectors, found.vectors))
            vectors = merge(both, place.reshape(-1), len(sampled), gap_seconds, layout)
        yield Totals(sampled, vectors, layout)


def _windows(
    reader: RunReader, gpus: Ints, start: float | None, end: float | None
) -> list[tuple[float | None, float | None]]:
    """The window in pieces that hold no more than VECTORS_AT_ONCE of the coarsest buckets with samples in them."""
    step = LEVELS[-1]
    buckets = np.unique(np.floor(reader.samples((), gpus, start, end).time / step))
    cuts = (buckets[VECTORS_AT_ONCE::VECTORS_AT_ONCE] * step).tolist()
    inside = [cut for cut in cuts if (-math.inf if start is None else start) < cut < (math.inf if end is None else end)]
    return list(zip([start, *inside], [*inside, end], strict=True))
