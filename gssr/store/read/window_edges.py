"""The samples at the ends of a window that cuts buckets of 10 s, of which no rollup tells: read and folded once for all that
is asked of one window."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.store.format.buckets import Buckets, join_buckets
from gssr.store.format.layout import Layout
from gssr.store.format.schema import LEVELS
from gssr.store.read.fold_samples import fold_samples, merge_same_buckets, stored_metrics_of
from gssr.store.read.recording_file import Part
from gssr.store.read.samples import join_samples
from gssr.store.read.time_window import Window

_ROWS_AT_ONCE = 80_000
"""Some fifteen megabytes of every metric."""
_MOST_PIECES = 8
"""Each looks through all samples of the 10 s."""


class WindowEdges(NamedTuple):
    """What was read ahead of a window's ends: the buckets that these cut, as far as they lie in it (all metrics of the
    file), by which part of the window each lies in. ``gpus``: whose they are, None: everybody's."""

    gpus: frozenset[int] | None
    gap_seconds: float
    buckets: dict[Window, Buckets]


def read_edges(
    part: Part, window: Window, gpus: Ints | None, gap_seconds: float, interval: float
) -> dict[Window, Buckets]:
    """Read the samples at the ends of a window, where it cuts buckets of the finest level (10 s), fold them, and keep
    the result with the file, in ``part.shard.edges``, for ``kept_edges`` to return. It replaces what was kept of this part.

    Args:
        part: The part of a file to read.
        window: The window (unix s) whose ends are read: only what lies in it of the buckets that it cuts.
        gpus: Positions of the GPUs to read; None: all.
        gap_seconds: More than this between two samples of a GPU is a gap.
        interval: About the time between two samples of a GPU, s. It only decides how much is read at once.

    Returns the dictionary that ``kept_edges`` looks into: the folded samples by the piece of the window they lie in (none to
    two pieces). The caller may add buckets of other pieces to it, which ``kept_edges`` then returns as well.
    """
    layout = part.shard.file.layout
    names = stored_metrics_of(layout)
    rows_per_second = len(part.position if gpus is None else gpus) / interval
    found: dict[Window, Buckets] = {}
    part.shard.edges[part.first, part.last] = WindowEdges(
        None if gpus is None else frozenset(gpus.tolist()), gap_seconds, found
    )
    for cut in window.cut_off(LEVELS[0]):
        n = min(max(1, math.ceil(rows_per_second * cut.seconds / _ROWS_AT_ONCE)), _MOST_PIECES)
        # One after the other: threads would have several pieces of them in memory.
        pieces = (
            join_samples([read() for read in part.pieces(names, gpus, *piece)], names)
            for piece in cut.at(cut.start + cut.seconds * k / n for k in range(1, n))
        )
        folded = [fold_samples(rows, gap_seconds, layout) for rows in pieces]
        found[cut] = folded[0] if n == 1 else merge_same_buckets(join_buckets(folded, layout), gap_seconds)
    return found


def kept_edges(
    part: Part, ranges: Sequence[Window], gpus: Ints | None, gap_seconds: float, layout: Layout
) -> Buckets | None:
    """Return what ``read_edges`` has kept of these pieces of a window (``Window.cut_off``) for these GPUs (positions; None:
    all): the buckets of all pieces together, in ``layout``. None if there are no pieces, if any of them or of the GPUs
    is not kept, or if it was folded with another ``gap_seconds``."""
    ends: WindowEdges | None = part.shard.edges.get((part.first, part.last))
    if ends is None or ends.gap_seconds != gap_seconds or any(own not in ends.buckets for own in ranges) or not ranges:
        return None
    if ends.gpus is not None and (gpus is None or not ends.gpus.issuperset(gpus.tolist())):
        return None
    buckets = join_buckets([ends.buckets[own] for own in ranges], part.shard.file.layout)
    if gpus is not None:
        buckets = buckets.of(np.isin(buckets.gpu, gpus))
    return buckets.in_layout(layout)
