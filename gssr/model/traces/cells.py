"""Time that intervals cover, in columns: exact whole nanoseconds, for any lines and any columns of equal width.

What is in a column is found with two sums over the intervals' ends and a running sum over the columns between them, so that
it costs no more for long intervals than for short ones, and nothing for those outside.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints

_MOST = 1 << 62


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
    """Intervals [n] ascending by start, by their owners: what some of them cover together, owner by owner."""

    def __init__(self, start: Ints, end: Ints, owner: NDArray[np.int32], n_owners: int) -> None:
        order = np.argsort(owner.astype(np.uint16), kind="stable")  # numpy sorts these several times as fast
        if n_owners > 1 << 16:
            order = order[np.argsort((owner[order] >> 16).astype(np.uint16), kind="stable")]
        self._order = order
        self._zero = int(start.min()) if len(start) else 0
        self._shift = int(end.max()) - self._zero + 1 if len(start) else 1
        by_owner = owner[order]
        edges = np.append(np.arange(0, n_owners, max(_MOST // self._shift, 1)), n_owners)
        self._parts = [
            (slice(*pair), int(first))
            for pair, first in zip(pairwise(np.searchsorted(by_owner, edges).tolist()), edges.tolist(), strict=False)
        ]
        by = by_owner.astype(np.int64)
        for part, first in self._parts[1:]:
            by[part] -= first
        by *= self._shift
        by -= self._zero
        self._begins, self._ends = start[order] + by, end[order] + by
        """Shifted by their owners, so that one running maximum serves all, as far as numbers reach."""

    def union(self, wanted: Flags | None = None) -> Pieces:
        """What those that are ``wanted`` [n] (None: all) cover of each owner's time, owner by owner."""
        own = None if wanted is None else wanted[self._order]
        found = []
        for part, first in self._parts:
            begins, reach = self._begins[part], self._ends[part]
            if own is not None:
                begins, reach = begins[own[part]], reach[own[part]]
            if not len(begins):
                continue
            reach = np.maximum.accumulate(reach)
            heads = np.flatnonzero(np.append(True, begins[1:] > reach[:-1]))
            by = begins[heads] // self._shift
            ends = reach[np.append(heads[1:], len(reach)) - 1]
            back = self._zero - by * self._shift
            found.append((begins[heads] + back, ends + back, (by + first).astype(np.int32)))
        none = np.zeros(0, np.int64)
        columns = zip(*found, strict=True) if found else ((none,), (none,), (none.astype(np.int32),))
        return Pieces(*(np.concatenate(column) for column in columns))


def cells(pieces: Pieces, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int) -> Floats:
    """[n_lines, n]: ns of the pieces in ``n`` columns of ``width`` ns from ``begin`` on, by the line of their owner
    (``line_of`` [n_owners], -1 for none; None: each owner has its own)."""
    stop = begin + n * width
    near = pieces.between(begin, stop)
    start, end, owner = pieces.start[near], pieces.end[near], pieces.owner[near]
    line = owner if line_of is None else line_of[owner]
    sign = None if pieces.sign is None else pieces.sign[near]
    kept = end > np.maximum(start, begin)
    if pieces.reach is None:
        kept &= start < stop
    if line_of is not None:
        kept &= line >= 0
    if not kept.all():
        start, end, line = start[kept], end[kept], line[kept]
        sign = None if sign is None else sign[kept]
    first = np.maximum(start, begin) - begin
    last = np.minimum(end, stop) - begin
    if n == 1:
        spent = last - first
        total = np.bincount(line, spent if sign is None else spent * sign, n_lines)
        return np.asarray(total, np.float64).reshape(n_lines, 1)
    one, other = first // width, (last - 1) // width
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
    return np.asarray(found, np.float64).reshape(n_lines, n)
