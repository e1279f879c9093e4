"""The samples at the ends of a window that cuts buckets of 10 s: no rollup tells of them. Who asks several things of one
window has them read and folded once, for all of it.

Buckets of time: their numbers, and where a window cuts them.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.store.format.buckets import Buckets, fold, join_buckets, merge, no_buckets
from gssr.store.format.layout import Layout
from gssr.store.format.sample_arrays import Samples, derive
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording_file import Part
from gssr.store.read.samples import one_after_another

_START = (1 << 40) - 1


class Window(NamedTuple):
    """start <= time < end, unix s; infinite where it is open."""

    start: float = -math.inf
    end: float = math.inf

    @classmethod
    def of(cls, start: float | None, end: float | None) -> "Window":
        """Make a window of two ends, of which None is open."""
        return cls(-math.inf if start is None else start, math.inf if end is None else end)

    @property
    def seconds(self) -> float:
        """The length of the window, s."""
        return self.end - self.start

    def close_at(self, first: float | None, last: float | None) -> "Window":
        """Close the window at these ends (unix s) where it is open. An end that is not known (None) becomes 0."""
        start = self.start if math.isfinite(self.start) else first or 0.0
        return Window(start, self.end if math.isfinite(self.end) else last or 0.0)

    def at(self, cuts: Iterable[float]) -> "list[Window]":
        """Cut the window at those of these times, ascending, that lie within it. Returns the pieces in order: the
        window itself where none does."""
        inside = (cut for cut in cuts if self.start < cut < self.end)
        return list(starmap(Window, pairwise([self.start, *inside, self.end])))

    def cut_off(self, step: int) -> "list[Window]":
        """Return the parts of the window that lie in buckets of ``step`` seconds which it cuts: two at most, none where
        it cuts none."""
        start, end = self
        pieces = []
        if math.isfinite(start) and start % step:
            pieces.append(Window(start, min(end, (start // step + 1) * step)))
        if math.isfinite(end) and end % step and (not pieces or end > pieces[0].end):
            pieces.append(Window(max(start, end // step * step), end))
        return pieces


ALL_TIME = Window()


def codes_of(gpu: Ints, bucket: NDArray[Any]) -> Ints:
    """Make one number of each GPU's position and start of a bucket (unix s)."""
    return gpu * (1 << 40) + np.asarray(bucket, np.int64)


def starts_of(codes: Ints) -> Ints:
    """Return where the buckets of these numbers begin, unix s."""
    return codes & _START


def positions_of(codes: Ints) -> Ints:
    """Return the positions of the GPUs of the buckets of these numbers."""
    return codes >> 40


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


def hold(part: Part, window: Window, gpus: Ints | None, gap_seconds: float, interval: float) -> dict[Window, Buckets]:
    """Read the samples at the ends of a window, where it cuts buckets of the finest level (10 s), fold them, and keep
    the result with the file, in ``part.shard.held``, for ``held`` to return. It replaces what was kept of this part.

    Args:
        part: The part of a file to read.
        window: The window (unix s) whose ends are read: only what lies in it of the buckets that it cuts.
        gpus: Positions of the GPUs to read; None: all.
        gap_seconds: More than this between two samples of a GPU is a gap.
        interval: About the time between two samples of a GPU, s. It only decides how much is read at once.

    Returns the dictionary that ``held`` looks into: the folded samples by the piece of the window they lie in (none to
    two pieces). The caller may add buckets of other pieces to it, which ``held`` then returns as well.
    """
    layout = part.shard.file.layout
    names = stored_of(layout)
    rows_per_second = len(part.position if gpus is None else gpus) / interval
    found: dict[Window, Buckets] = {}
    part.shard.held[part.first, part.last] = WindowEdges(
        None if gpus is None else frozenset(gpus.tolist()), gap_seconds, found
    )
    for cut in window.cut_off(LEVELS[0]):
        n = min(max(1, math.ceil(rows_per_second * cut.seconds / _ROWS_AT_ONCE)), _MOST_PIECES)
        # One after the other: threads would have several pieces of them in memory.
        pieces = (
            one_after_another([read() for read in part.pieces(names, gpus, *piece)], names)
            for piece in cut.at(cut.start + cut.seconds * k / n for k in range(1, n))
        )
        folded = [fold_samples(rows, gap_seconds, layout) for rows in pieces]
        found[cut] = folded[0] if n == 1 else merged(join_buckets(folded, layout), gap_seconds)
    return found


def merged(buckets: Buckets, gap_seconds: float) -> Buckets:
    """Merge the buckets of each GPU and start into one."""
    codes = codes_of(buckets.gpu, buckets.start)
    _, first, group, n = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    several = n > 1
    if several.all():
        vectors = merge(buckets.vectors, group, len(first), gap_seconds, buckets.layout)
    else:
        vectors = buckets.vectors[first]  # most of them may be the only ones: vectors are large
        pieces = several[group]
        place = (np.cumsum(several) - 1)[group[pieces]]
        vectors[several] = merge(buckets.vectors[pieces], place, int(several.sum()), gap_seconds, buckets.layout)
    return Buckets(buckets.gpu[first], buckets.start[first], buckets.seconds[first], vectors, buckets.layout)


def held(part: Part, ranges: Sequence[Window], gpus: Ints | None, gap_seconds: float, layout: Layout) -> Buckets | None:
    """Return what ``hold`` has kept of these pieces of a window (``Window.cut_off``) for these GPUs (positions; None:
    all): the buckets of all pieces together, in ``layout``. None if there are no pieces, if any of them or of the GPUs
    is not kept, or if it was folded with another ``gap_seconds``."""
    ends: WindowEdges | None = part.shard.held.get((part.first, part.last))
    if ends is None or ends.gap_seconds != gap_seconds or any(own not in ends.buckets for own in ranges) or not ranges:
        return None
    if ends.gpus is not None and (gpus is None or not ends.gpus.issuperset(gpus.tolist())):
        return None
    buckets = join_buckets([ends.buckets[own] for own in ranges], part.shard.file.layout)
    if gpus is not None:
        buckets = buckets.of(np.isin(buckets.gpu, gpus))
    return buckets.in_layout(layout)


def stored_of(layout: Layout) -> list[str]:
    """List the columns of ``samples`` that vectors of this layout are made of."""
    blocks = sorted(layout.blocks, key=lambda block: block.metric.derived)  # derived ones last
    return list(dict.fromkeys(name for block in blocks for name in block.metric.parts or (block.metric.name,)))


def fold_samples(samples: Samples, gap_seconds: float, layout: Layout, step: int = LEVELS[0]) -> Buckets:
    """Fold samples into buckets of ``step`` seconds, one for each GPU and step that has any."""
    gpu, time, values = samples
    if not len(gpu):
        return no_buckets(layout)
    derived = {metric.name: derive(values, metric.parts) for metric, _, _ in layout.blocks if metric.derived}
    bucket = np.floor(time / step).astype(np.int64) * step
    groups, vectors = fold(codes_of(gpu, bucket), time, values | derived, gap_seconds, layout)
    start, seconds = starts_of(groups).astype(np.float64), np.full(len(groups), float(step))
    return Buckets(positions_of(groups), start, seconds, vectors, layout)
