"""Time that intervals cover, in columns: exact whole nanoseconds, for any lines and any columns of equal width.

What is in a column is found with two sums over the intervals' ends and a running sum over the columns between them, so that
it costs no more for long intervals than for short ones, and nothing for those outside.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints

_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class Pieces:
    """Stretches of time [n] from ``start`` to ``end`` (ns), ascending by start, each of an ``owner``, from 0 on. ``sign``
    [n]: -1 for what is to be taken away; None where nothing is."""

    start: Ints
    end: Ints
    owner: NDArray[np.int32]
    sign: NDArray[np.int8] | None = None
    _reach: Ints = field(init=False)
    """The last end of all up to each one."""

    def __post_init__(self) -> None:
        reach = np.maximum.accumulate(self.end) if len(self.end) else self.end
        object.__setattr__(self, "_reach", reach)

    def between(self, begin: int, end: int) -> slice:
        """Where to look for what reaches into this time."""
        return slice(int(np.searchsorted(self._reach, begin, "right")), int(np.searchsorted(self.start, end, "left")))


class ByOwner:
    """Intervals ascending by start, by their owners: what some of them cover together, owner by owner."""

    def __init__(self, start: Ints, end: Ints, owner: NDArray[np.int32], n_owners: int) -> None:
        small = owner.astype(np.uint16) if n_owners <= 1 << 16 else owner  # numpy sorts these several times as fast
        order = np.argsort(small, kind="stable")
        self._order = order
        self._start, self._end, self._owner = start[order], end[order], owner[order]

    def union(self, wanted: Flags | None = None) -> Pieces:
        """What those that are ``wanted`` [n] (None: all) cover of each owner's time."""
        order, start, end, owner = self._order, self._start, self._end, self._owner
        if wanted is not None:
            kept = np.flatnonzero(wanted[order])
            order, start, end, owner = order[kept], start[kept], end[kept], owner[kept]
        if not len(start):
            return Pieces(start, end, owner)
        head = np.empty(len(start), bool)
        reach = np.empty(len(start), np.int64)
        zero, shift = int(start.min()), int(end.max() - start.min()) + 1
        begin = 0
        while begin < len(start):  # shifted by their owners one running maximum serves all, as far as numbers reach
            first = int(owner[begin])
            last = int(np.searchsorted(owner, first + _MOST // shift))
            part = slice(begin, max(last, begin + 1))
            by = (owner[part].astype(np.int64) - first) * shift - zero
            reached = np.maximum.accumulate(end[part] + by)
            head[part.start] = True
            np.greater((start[part] + by)[1:], reached[:-1], out=head[part.start + 1 : part.stop])
            reach[part] = reached - by
            begin = part.stop
        heads = np.flatnonzero(head)
        in_time = np.full(len(self._order), -1, np.int64)
        in_time[order[heads]] = np.arange(len(heads))
        heads_in_time = in_time[in_time >= 0]
        ends = reach[np.append(heads[1:], len(start)) - 1]
        return Pieces(start[heads][heads_in_time], ends[heads_in_time], owner[heads][heads_in_time])


def cells(pieces: Pieces, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int) -> Floats:
    """[n_lines, n]: ns of the pieces in ``n`` columns of ``width`` ns from ``begin`` on, by the line of their owner
    (``line_of`` [n_owners], -1 for none; None: each owner has its own)."""
    stop = begin + n * width
    near = pieces.between(begin, stop)
    start, end, owner = pieces.start[near], pieces.end[near], pieces.owner[near]
    line = owner if line_of is None else line_of[owner]
    sign = None if pieces.sign is None else pieces.sign[near]
    kept = (end > begin) & (end > start)
    if line_of is not None:
        kept &= line >= 0
    if not kept.all():
        start, end, line = start[kept], end[kept], line[kept]
        sign = None if sign is None else sign[kept]
    first = np.maximum(start, begin) - begin
    last = np.minimum(end, stop) - begin
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
