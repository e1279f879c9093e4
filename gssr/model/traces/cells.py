"""Time that intervals cover, in columns: exact whole nanoseconds, for any lines and any columns of equal width.

What is in a column is found with two sums over the intervals' ends and a running sum over the columns between them, so that
it costs no more for long intervals than for short ones, and nothing for those outside.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.model.traces.segments import in_parts

_MOST = 1 << 62
_AT_ONCE = 1 << 18
"""Intervals, so that what is needed on the way stays in caches, and in memory that the process has already."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Stretches of time [n] from ``start`` to ``end`` (ns), each of an ``owner``, from 0 on. ``sign`` [n]: -1 for what is to
    be taken away; None where nothing is. ``reach`` [n]: the last end up to each one, of pieces that ascend by start; None
    where they don't."""

    start: Ints
    end: Ints
    owner: NDArray[np.int32]
    sign: NDArray[np.int8] | None = None
    reach: Ints | None = None

    def in_time(self) -> "Pieces":
        """The same, ascending by start: what a zoom needs is found at once."""
        if self.reach is not None:
            return self
        order = np.argsort(self.start, kind="stable")
        start, end, owner = self.start[order], self.end[order], self.owner[order]
        sign = None if self.sign is None else self.sign[order]
        return Pieces(start, end, owner, sign, np.maximum.accumulate(end) if len(end) else end)

    def between(self, begin: int, end: int) -> slice:
        """Where to look for what reaches into this time."""
        if self.reach is None:
            return slice(None)
        return slice(int(np.searchsorted(self.reach, begin, "right")), int(np.searchsorted(self.start, end, "left")))


class ByOwner:
    """Intervals [n] ascending by start, by their owners: what some of them cover together, owner by owner. ``order`` [n]:
    the places of the intervals in the order that flags are given in."""

    def __init__(self, start: Ints, length: Ints, owner: NDArray[np.int32], n_owners: int) -> None:
        order = np.argsort(owner.astype(np.uint16), kind="stable")  # numpy sorts these several times as fast
        if n_owners > 1 << 16:
            order = order[np.argsort((owner[order] >> 16).astype(np.uint16), kind="stable")]
        self.order = order
        self._owner = owner[order]
        zero = int(start.min()) if len(start) else 0
        ends = [int((start[part] + np.maximum(length[part], 0)).max()) for part in in_parts(len(start))]
        shift = max(ends, default=0) - zero + 1
        at_once = max(_MOST // shift, 1)
        edges = np.union1d(self._owner[::_AT_ONCE], np.append(np.arange(0, n_owners, at_once), n_owners))
        self._parts = [slice(*pair) for pair in pairwise(np.searchsorted(self._owner, edges).tolist())]
        self._by = np.arange(n_owners) % at_once * shift - zero
        """[n_owners]: shifts all by their owners, so that one running maximum serves all, as far as numbers reach."""
        self._begins, self._ends = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        for part in self._parts:
            places = order[part]
            begins = start[places]
            begins += self._by[self._owner[part]]
            self._begins[part] = begins
            np.add(begins, np.maximum(length[places], 0), out=self._ends[part])

    def union(self, wanted: Flags | None = None) -> Pieces:
        """What those that are ``wanted`` [n] (None: all) cover of each owner's time, owner by owner."""
        found = []
        for part in self._parts:
            begins, reach, owner = self._begins[part], self._ends[part], self._owner[part]
            places = None if wanted is None else np.flatnonzero(wanted[part])
            if places is not None:
                begins, reach = begins[places], reach[places]
            if not len(begins):
                continue
            reach = np.maximum.accumulate(reach)
            apart = np.empty(len(begins), np.bool_)
            apart[0] = True
            np.greater(begins[1:], reach[:-1], out=apart[1:])
            heads = np.flatnonzero(apart)
            tails = np.empty_like(heads)
            np.subtract(heads[1:], 1, out=tails[:-1])
            tails[-1] = len(reach) - 1
            start, end = begins[heads], reach[tails]
            of = owner[heads if places is None else places[heads]]
            by = self._by[of]
            start -= by
            end -= by
            found.append((start, end, of))
        if len(found) == 1:
            return Pieces(*found[0])
        none = np.zeros(0, np.int64)
        columns = zip(*found, strict=True) if found else ((none,), (none,), (none.astype(np.int32),))
        return Pieces(*(np.concatenate(column) for column in columns))


def cells(pieces: Pieces, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int) -> Floats:
    """[n_lines, n]: ns of the pieces in ``n`` columns of ``width`` ns from ``begin`` on, by the line of their owner
    (``line_of`` [n_owners], -1 for none; None: each owner has its own)."""
    near = pieces.between(begin, begin + n * width)
    total = np.zeros((n_lines, n))
    first, last, _ = near.indices(len(pieces.start))
    step = max(_AT_ONCE, n_lines * n)
    for at in range(first, last, step):
        total += _cells(pieces, slice(at, min(at + step, last)), line_of, n_lines, begin, width, n)
    return total


def _cells(
    pieces: Pieces, near: slice, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
) -> Floats | Ints:
    """Of those ``near``."""
    stop = begin + n * width
    start, end, owner = pieces.start[near], pieces.end[near], pieces.owner[near]
    if n == 1 and line_of is None and pieces.sign is None:
        spent = np.minimum(end, stop)
        spent -= np.maximum(start, begin)
        np.maximum(spent, 0, out=spent)
        return np.bincount(owner, spent, n_lines).reshape(n_lines, 1)
    line = owner if line_of is None else line_of[owner]
    sign = None if pieces.sign is None else pieces.sign[near]
    kept = line >= 0
    if pieces.reach is None:
        kept &= (start < stop) & (end > begin)
    if not kept.all():
        start, end, line = start[kept], end[kept], line[kept]
        sign = None if sign is None else sign[kept]
    first, last = np.maximum(start, begin), np.minimum(end, stop)
    first -= begin
    last -= begin
    np.maximum(last, first, out=last)  # few of those near have nothing within
    if n == 1:
        spent = last - first
        total = np.bincount(line, spent if sign is None else spent * sign, n_lines)
        return total.reshape(n_lines, 1)
    one, other = first // width, np.maximum(last - 1, first) // width
    at = line.astype(np.int64) * n
    several = np.flatnonzero(one != other)
    inside = last - first
    inside[several] = (one[several] + 1) * width - first[several]
    found = np.bincount(at + one, inside if sign is None else inside * sign, n_lines * n)
    if len(several):
        at, one, other, last = at[several], one[several], other[several], last[several]
        by = 1 if sign is None else sign[several]
        found += np.bincount(at + other, (last - other * width) * by, n_lines * n)
        row = at // n * (n + 1)
        full, size = np.broadcast_to(np.float64(width) * by, len(at)), n_lines * (n + 1)
        steps = np.bincount(row + one + 1, full, size) - np.bincount(row + other, full, size)
        found += np.cumsum(steps.reshape(n_lines, n + 1), axis=1)[:, :n].ravel()
    return found.reshape(n_lines, n)
