"""What had to come before what in a trace: a graph in which gssr.model.traces.critical_path looks for the longest chain, and
which gssr.model.traces.dependencies makes.

Its nodes are moments on threads (a launch, the begin and end of a call that waits) and the starts and ends of work on GPUs.
An edge means that the later moment could not come before the earlier one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.traces.timeline import Track

HOST, START, END, JOIN = range(4)
"""Kinds of nodes: a moment on a thread, the start of work, its end, and the last start of a collective operation."""


class Slices(NamedTuple):
    """What is innermost on threads: from each ``key`` [n], ascending (the thread's track above ``bits`` bits of ns since
    ``zero``), to the next the ``name`` [n], -1 for nothing."""

    key: Ints
    name: NDArray[np.int32]
    zero: int
    bits: int

    def within(self, track: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Find what was innermost on these tracks from ``begin`` to ``end`` [n], ns. Returns columns: the place of the
        stretch of time that a row is about, the name and the ns."""
        low, high = (
            (track << self.bits) + np.clip(times - self.zero, 0, (1 << self.bits) - 1) for times in (begin, end)
        )
        first = np.searchsorted(self.key, low, "right") - 1
        n = np.maximum(np.searchsorted(self.key, high, "left") - first, 0)
        place = np.repeat(np.arange(len(track)), n)
        at = np.arange(len(place)) + np.repeat(first - (np.cumsum(n) - n), n)
        until = np.append(self.key, np.iinfo(np.int64).max)[at + 1]
        ns = np.minimum(until, high[place]) - np.maximum(self.key[at], low[place])
        return place[ns > 0], self.name[at[ns > 0]].astype(np.int64), ns[ns > 0]


class Dependencies(NamedTuple):
    """The graph of one file [n nodes]; times are ns.

    ``time``: when the node was reached; ``kind``: HOST, START, END; ``before`` [3, n]: nodes that it follows, -1 for none;
    ``name``: of an END the work's, else -1; ``category``: of an END the work's; ``track``: of the thread or stream, in
    ``tracks``. ``slices``: what threads did. ``shared`` [m]: the START nodes of kernels in which ranks communicate, by
    start; the n-th with the same text in ``operation`` [m] on each GPU are one operation; ``gpu`` [m]: the number of the
    GPU of each. ``names`` hold what ``name`` and ``operation`` count, without running numbers of steps. ``clock``: files
    with equal numbers have times that can be compared."""

    time: Ints
    kind: NDArray[np.int8]
    before: Ints
    name: Ints
    category: NDArray[np.int8]
    track: Ints
    tracks: tuple[Track, ...]
    slices: Slices
    shared: Ints
    operation: Ints
    gpu: Ints
    names: tuple[str, ...]
    clock: int = 0

    def moved(self, by: int) -> "Dependencies":
        """Return the same graph with all times ``by`` ns later."""
        return self._replace(time=self.time + by, slices=self.slices._replace(zero=self.slices.zero + by))
