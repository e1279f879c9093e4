"""Time that intervals cover, in columns: exact whole nanoseconds, for any lines and any columns of equal width.

What is in a column is found with sums over the intervals' starts and ends, and a running sum of how many are open over the
columns, so that it costs no more for long intervals than for short ones, and nothing for those outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.model.traces.segments import in_parts, stretches, union_places

MOST = 1 << 62
"""No sum of times is greater."""
_AT_ONCE = 1 << 18
"""Intervals, so that what is needed on the way stays in caches, and in memory that the process has already."""


@dataclass(frozen=True, slots=True)
class CellPieces:
    """Stretches of time [n] from ``start`` to ``end`` (ns), each of an ``owner``, from 0 on. ``sign`` [n]: -1 for what is to
    be taken away; None where nothing is. ``reach`` [n]: the last end up to each one, of pieces that ascend by start; None
    where they don't."""

    start: Ints
    end: Ints
    owner: NDArray[np.int32]
    sign: NDArray[np.int8] | None = None
    reach: Ints | None = None

    def in_time(self) -> "CellPieces":
        """Return the same pieces ascending by start, so that what a zoom needs is found at once."""
        if self.reach is not None:
            return self
        order = np.argsort(self.start, kind="stable")
        start, end, owner = self.start[order], self.end[order], self.owner[order]
        sign = None if self.sign is None else self.sign[order]
        return CellPieces(start, end, owner, sign, np.maximum.accumulate(end) if len(end) else end)

    def between(self, begin: int, end: int) -> slice:
        """Return a slice of the pieces that holds all which reach into the time from ``begin`` to ``end`` (ns): all of them
        unless they ascend by start."""
        if self.reach is None:
            return slice(None)
        return slice(int(np.searchsorted(self.reach, begin, "right")), int(np.searchsorted(self.start, end, "left")))


def in_order(numbers: NDArray[np.int32]) -> Ints:
    """Sort numbers from 0 on. Returns the places of the sorted ones [n], those of equal numbers in the order in which they
    stand (a stable argsort, faster than numpy's)."""
    above = numbers >> 16  # numpy sorts what has 16 bits several times as fast
    if not above.any():
        return np.argsort(numbers.astype(np.uint16), kind="stable")
    order, n = np.empty(len(numbers), np.int64), 0
    for number in np.flatnonzero(np.bincount(above)).tolist():
        places = np.flatnonzero(above == number)
        order[n : n + len(places)] = places[np.argsort(numbers[places].astype(np.uint16), kind="stable")]
        n += len(places)
    return order


class ByOwner:
    """Intervals [n] ascending by start, by their owners: what some of them cover together, owner by owner. ``order`` [n]:
    the places of the intervals in the order that flags are given in."""

    def __init__(self, start: Ints, length: Ints, owner: NDArray[np.int32], n_owners: int) -> None:
        self.order = order = in_order(owner)
        self._start, self._length, self._owner = start, length, owner[order]
        zero = int(start.min()) if len(start) else 0
        ends = [int((start[part] + np.maximum(length[part], 0)).max()) for part in in_parts(len(start))]
        shift = max(ends, default=0) - zero + 1
        at_once = max(MOST // shift, 1)
        edges = np.searchsorted(self._owner, np.append(np.arange(0, n_owners, at_once), n_owners))
        self._groups = list(pairwise(edges.tolist()))
        """Intervals of owners that are gone through together, from the first to before the last."""
        self._by = np.arange(n_owners) % at_once * shift - zero
        """[n_owners]: shifts all by their owners, so that those of a group follow each other in one line of time."""

    def union(self) -> CellPieces:
        """Return what all intervals of each owner cover, owner by owner."""
        return self.unions([None])[0]

    def unions(self, wanted: Sequence[Flags | None]) -> list[CellPieces]:
        """Return what the intervals of each owner cover together, owner by owner, once for each of several choices of
        intervals: flags [n], in ``order``, or None for all."""
        most = [len(self.order) if each is None else int(np.count_nonzero(each)) for each in wanted]
        found = [CellPieces(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)) for n in most]
        filled = [0] * len(found)
        for begin, end in self._groups:
            for some, every, first in stretches(end - begin, partial(self._times, begin)):
                part = slice(begin + some.start, begin + some.stop)
                starts, ends = self._times(begin, some)
                for at, each in enumerate(wanted):
                    covered, heads = every, first
                    if each is not None:
                        chosen = np.flatnonzero(each[part])
                        covered, heads = union_places(starts[chosen], ends[chosen])
                        heads = chosen[heads]
                    here = slice(filled[at], filled[at] + len(heads))
                    owner = found[at].owner[here] = self._owner[part][heads]
                    np.subtract(covered.start, self._by[owner], out=found[at].start[here])
                    np.subtract(covered.end, self._by[owner], out=found[at].end[here])
                    filled[at] = here.stop
        return [  # memory that was not written to is none
            CellPieces(each.start[:n], each.end[:n], each.owner[:n]) for each, n in zip(found, filled, strict=True)
        ]

    def _times(self, begin: int, some: slice) -> tuple[Ints, Ints]:
        """Return the starts and ends, shifted by owner, of ``some`` intervals of the group that begins at ``begin``."""
        part = slice(begin + some.start, begin + some.stop)
        places = self.order[part]
        starts = self._start[places]
        starts += self._by[self._owner[part]]
        ends = np.maximum(self._length[places], 0)
        ends += starts
        return starts, ends


def cells(pieces: CellPieces, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int) -> Floats:
    """Measure the time that pieces cover in columns. Returns ns [n_lines, n].

    Args:
        pieces: the stretches of time, each of an owner.
        line_of: the line of each owner [n_owners], -1 for none. None: each owner has a line.
        n_lines: number of lines.
        begin: begin of the first column, ns.
        width: width of a column, ns.
        n: number of columns.
    """
    first, last, _ = pieces.between(begin, begin + n * width).indices(len(pieces.start))
    total = np.zeros((n, n_lines))
    step = max(_AT_ONCE, n_lines * n)
    for at in range(first, last, step):
        total += _cells(pieces, slice(at, min(at + step, last)), line_of, n_lines, begin, width, n)
    return total.T


def _cells(
    pieces: CellPieces, near: slice, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
) -> Floats:
    """Measure the time that the pieces in the slice ``near`` cover in columns. The arguments are those of ``cells``, but
    the result has columns first, ns [n, n_lines]. It is all of each column in which pieces are open, less what lies
    before their starts and after their ends."""
    start, end, owner = pieces.start[near], pieces.end[near], pieces.owner[near]
    line = owner if line_of is None else line_of[owner]
    sign = None if pieces.sign is None else pieces.sign[near]
    stop, size = begin + n * width, (n + 1) * n_lines
    kept = line >= 0
    if pieces.reach is None:
        kept &= (start < stop) & (end > begin)
    if not kept.all():
        start, end, line = start[kept], end[kept], line[kept]
        sign = None if sign is None else sign[kept]
    if n == 1:
        spent = np.minimum(end, stop)
        spent -= np.maximum(start, begin)
        np.maximum(spent, 0, out=spent)
        return np.asarray(np.bincount(line, spent if sign is None else spent * sign, n_lines)[None], np.float64)
    counted, summed = [], []
    for points in (start, end):
        within = np.clip(points, begin, stop)
        within -= begin
        at = within // width
        within -= at * width
        at *= n_lines
        at += line
        counted.append(np.bincount(at, sign, size)[:-n_lines].reshape(n, n_lines))
        summed.append(np.bincount(at, within if sign is None else within * sign, size)[:-n_lines].reshape(n, n_lines))
    (opened, closed), (before, found) = counted, summed
    opened -= closed
    for last, own in pairwise(opened):
        own += last
    opened *= width
    found += opened
    found -= before
    return np.asarray(found, np.float64)
