"""Stretches of time that do not touch: unions of intervals, what two of them share, and how much lies before a time."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints

_AT_ONCE = 1 << 16
"""Intervals, so that what is needed on the way stays in caches, and in memory that the process has already."""


class Segments(NamedTuple):
    """Stretches [n] from ``start`` to ``end``, ns, ascending, none touching the next."""

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        """The length of all stretches together, ns."""
        return int(self.end.sum() - self.start.sum())

    @property
    def some(self) -> "Segments":
        """The stretches without those that take no time, or less than none."""
        some = self.end > self.start
        return self if some.all() else Segments(self.start[some], self.end[some])

    def gaps(self, before: int | None = None) -> "Segments":
        """Return the gaps between the stretches. ``before``: the end of what came before the first stretch, with which
        there is a gap as well; None: nothing came."""
        if before is None:
            return Segments(self.end[:-1], self.start[1:])
        return Segments(np.append(before, self.end[:-1]), self.start)

    def before(self, times: Ints) -> Ints:
        """Measure how many ns of the stretches lie before each of the ``times``."""
        if not len(self.start):
            return np.zeros(len(times), np.int64)
        ahead = np.concatenate([[0], np.cumsum(self.end - self.start)])
        at = np.searchsorted(self.start, times, "right")
        beyond = self.end[np.maximum(at - 1, 0)] - times
        return np.asarray(ahead[at] - np.where(at > 0, np.maximum(beyond, 0), 0), np.int64)


NONE = Segments(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Ints, end: Ints, before: int | None = None) -> Segments:
    """Return the stretches of time that intervals [n], ascending by ``start``, cover together; see ``union_places``."""
    return union_places(start, end, before)[0]


def union_places(start: Ints, end: Ints, before: int | None = None) -> tuple[Segments, Ints]:
    """Find what intervals [n], ascending by ``start``, cover. ``before``: the last end of those that came before and touch
    none of these. Returns the stretches, and the place of the first interval of each. An interval that ends before it
    begins, as rounding makes some, is a stretch of less than nothing unless another covers its start: that is how
    HolisticTraceAnalysis counts it."""
    if not len(start):
        return NONE, np.empty(0, np.int64)
    reach = np.maximum.accumulate(end)
    if before is not None:
        np.maximum(reach, before, out=reach)
    apart = np.empty(len(start), np.bool_)
    apart[0] = True
    np.greater(start[1:], reach[:-1], out=apart[1:])
    first = np.flatnonzero(apart)
    return Segments(start[first], reach[np.append(first[1:], len(start)) - 1]), first


def in_parts(n: int) -> Iterator[slice]:
    """Cut ``n`` rows into parts so small that no large arrays are needed on the way."""
    for low in range(0, n, _AT_ONCE):
        yield slice(low, min(low + _AT_ONCE, n))


def stretches(n: int, times: Callable[[slice], tuple[Ints, Ints]]) -> Iterator[tuple[slice, Segments, Ints]]:
    """Divide ``n`` intervals, ascending by start, into parts small enough for little memory, cut where no interval is open.
    ``times`` returns the starts and ends of the intervals of a slice.

    Yields for each part its slice, the stretches of time that its intervals cover, and, for each stretch, the place within
    the part of its first interval.
    """
    low, size, before = 0, _AT_ONCE, None
    while low < n:
        part = slice(low, min(low + size, n))
        covered, first = union_places(*times(part), before)
        if part.stop < n:  # the last stretch may go on
            if len(first) == 1:
                size *= 2
                continue
            part = slice(low, low + int(first[-1]))
            covered, first = Segments(covered.start[:-1], covered.end[:-1]), first[:-1]
        yield part, covered, first
        low, size, before = part.stop, _AT_ONCE, int(covered.end[-1])


def common(a: Segments, b: Segments) -> Segments:
    """Return the stretches of time that both cover. It takes time by the shorter of them."""
    few, many = (a, b) if len(a.start) <= len(b.start) else (b, a)
    low = np.searchsorted(many.end, few.start, "right")
    n = np.maximum(np.searchsorted(many.start, few.end, "left") - low, 0)
    own = np.repeat(np.arange(len(few.start)), n)
    other = np.arange(len(own)) + np.repeat(low - (np.cumsum(n) - n), n)
    return Segments(np.maximum(few.start[own], many.start[other]), np.minimum(few.end[own], many.end[other]))


def covered_by(*parts: Segments) -> Segments:
    """Return the stretches of time that any of these cover. The stretches of one may touch or overlap."""
    start, end = map(np.concatenate, zip(NONE, *parts, strict=True))
    order = np.argsort(start, kind="stable")
    return union(start[order], end[order]).some


def without(a: Segments, b: Segments) -> Segments:
    """Return the stretches of time that ``a`` covers and ``b`` does not."""
    if not len(b.start):
        return a.some
    beyond = np.iinfo(np.int64).max
    return common(a, Segments(np.append(-beyond, b.end), np.append(b.start, beyond))).some


def subsets(unions: tuple[Segments, Segments, Segments]) -> tuple[int, ...]:
    """Measure how long each combination of three unions of segments holds, in ns.

    Returns 8 lengths: position 1 is the time in the first union alone, 2 in the second alone, 4 in the third alone, and a
    sum of these in exactly those unions. Position 0, in none of them, is 0.
    """
    a, b, c = unions
    both = common(a, b)
    ab, ac, bc, abc = both.length, common(a, c).length, common(b, c).length, common(both, c).length
    only = (a.length - ab - ac + abc, b.length - ab - bc + abc, c.length - ac - bc + abc)
    return 0, only[0], only[1], ab - abc, only[2], ac - abc, bc - abc, abc
