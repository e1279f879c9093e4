"""Exact percentiles of more values than fit into memory: they are looked for in brackets, and only what falls into a bracket
is kept.

A sample of the values says about where a percentile lies. One pass over all of them counts what is below the bracket and
keeps what is in it: then it is certain whether the percentile is among these. If not, or if they were too many to keep, a
narrower bracket is known, and only that metric is read again.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints

MOST_KEPT = 1 << 19
"""Values in a bracket that are kept: 4 MB."""
_CELLS = 1 << 14
"""Of a bracket with more different values than can be kept."""
_DEVIATIONS = 2.5
"""Half a bracket's width, in standard deviations of a percentile of the sample: one in a hundred brackets misses at most."""


class Inside(NamedTuple):
    """Of some values, how many are below a bracket, and those in it: ``values``, each ``times`` times."""

    below: int
    values: Floats
    times: int


class Bracket:
    """Where the percentile ``share`` (0-1) is looked for: from ``low`` to ``high``, both included."""

    def __init__(self, share: float, low: float = -math.inf, high: float = math.inf) -> None:
        self.share, self.low, self.high = share, low, high
        self._below = self._n_inside = 0
        self._kept: list[Floats] = []
        self._n_kept = 0
        self._distinct: Floats = np.empty(0)
        self._times: Ints = np.empty(0, np.int64)
        self._cells: Ints | None = None
        self._least = self._greatest = np.empty(0)
        self._ends = 0.0, 0.0

    def pick(self, values: Floats, least: float, greatest: float) -> Inside:
        """What ``add`` takes of these finite values [n], whose extremes these are. May be called in any thread."""
        if least > self.high:
            return Inside(0, values[:0], 1)
        if greatest < self.low:
            return Inside(len(values), values[:0], 1)
        if least == greatest:
            return Inside(0, values[:1], len(values))
        below = int(np.count_nonzero(values < self.low)) if least < self.low else 0
        if self.low == self.high:
            return Inside(below, np.array([self.low]), int(np.count_nonzero(values == self.low)))
        chosen = values >= self.low
        chosen &= values <= self.high
        return Inside(below, values[chosen], 1)

    def add(self, inside: Inside) -> None:
        """Count values."""
        self._below += inside.below
        self._n_inside += len(inside.values) * inside.times
        if not len(inside.values) or not inside.times:
            return
        if inside.times > 1:
            self._distinct = np.append(self._distinct, inside.values)
            self._times = np.append(self._times, np.full(len(inside.values), inside.times))
        else:
            self._kept.append(inside.values)
        self._n_kept += len(inside.values)
        if self._n_kept > MOST_KEPT:
            self._condense()

    def _condense(self) -> None:
        """Keep each value once; if they are too many still, only how many there are in each of equal cells."""
        values, times = _counts(np.concatenate([np.empty(0), *self._kept]))
        if self._cells is None:
            if len(self._distinct):
                values, times = _together(np.append(self._distinct, values), np.append(self._times, times))
            self._distinct, self._times = values, times
            self._kept, self._n_kept = [], len(values)
            if self._n_kept <= MOST_KEPT // 2:
                return
            self._cells = np.zeros(_CELLS, np.int64)
            self._least, self._greatest = np.full(_CELLS, np.inf), np.full(_CELLS, -np.inf)
            self._ends = (
                self.low if math.isfinite(self.low) else float(values[0]),
                self.high if math.isfinite(self.high) else float(values[-1]),
            )
        elif len(self._distinct):
            values, times = np.append(self._distinct, values), np.append(self._times, times)
        cell = self._cell_of(values)
        self._cells += np.bincount(cell, times, _CELLS).astype(np.int64)
        np.minimum.at(self._least, cell, values)
        np.maximum.at(self._greatest, cell, values)
        self._distinct, self._times = np.empty(0), np.empty(0, np.int64)
        self._kept, self._n_kept = [], 0

    def _cell_of(self, values: Floats) -> Ints:
        low, high = self._ends
        return np.clip((values - low) * (_CELLS / (high - low)), 0, _CELLS - 1).astype(np.int64)

    def find(self, n: int, least: float, greatest: float) -> "float | Bracket":
        """numpy's linear percentile of all ``n`` values that were added, whose extremes these are; or a bracket in which it
        certainly is, for another pass."""
        position = self.share * (n - 1)
        first, last = math.floor(position) - self._below, math.ceil(position) - self._below
        if first < 0 or last >= self._n_inside:
            low = max(self.low, least) if first >= 0 else least
            high = min(self.high, greatest) if last < self._n_inside else greatest
            return Bracket(self.share, low, high)
        weight = position - math.floor(position)
        if self._cells is None:
            return _between(*self._at(first, last), weight)
        self._condense()
        return self._narrower(first, last, weight)

    def _at(self, first: int, last: int) -> tuple[float, float]:
        """The values of these ranks among those in the bracket."""
        if not len(self._distinct):
            values = np.concatenate(self._kept)
            values.partition((first, last))
            return float(values[first]), float(values[last])
        self._condense()
        below, above = self._distinct[np.searchsorted(np.cumsum(self._times), (first, last), side="right")].tolist()
        return below, above

    def _narrower(self, first: int, last: int, weight: float) -> "float | Bracket":
        """The cell that holds these ranks; the percentile itself where they are in two: there it lies between the greatest
        value of one and the least of the other."""
        assert self._cells is not None
        begin, end = np.searchsorted(np.cumsum(self._cells), np.array([first, last]), side="right").tolist()
        below, above = float(self._greatest[begin]), float(self._least[end])
        if begin != end or below == above:
            return _between(below, above, weight)
        return Bracket(self.share, above, below)


def _between(below: float, above: float, weight: float) -> float:
    """As numpy weighs two neighbours."""
    apart = above - below
    return float(below + apart * weight if weight < 0.5 else above - apart * (1 - weight))


def _counts(values: Floats) -> tuple[Floats, Ints]:
    """Each value once, ascending, and how many times it is there."""
    return _together(values, np.ones(len(values), np.int64))


def _together(values: Floats, times: Ints) -> tuple[Floats, Ints]:
    """The same of values that are each there so many times."""
    if not len(values):
        return values, times
    order = np.argsort(values)
    values, times = values[order], times[order]
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[starts], np.add.reduceat(times, starts)


def brackets_around(sample: Floats, n_independent: int, shares: Sequence[float]) -> list[Bracket]:
    """Where percentiles of many values lie, as far as an evenly spread ``sample`` [n] of them tells. Values near one another
    are alike: only so many of them tell something that the others don't."""
    ordered = np.sort(sample[np.isfinite(sample)])
    if not len(ordered) or not n_independent:
        return [Bracket(share) for share in shares]
    found = []
    for share in shares:
        half = _DEVIATIONS * math.sqrt(share * (1 - share) / n_independent) + 1 / len(ordered)
        begin, end = math.floor((share - half) * (len(ordered) - 1)), math.ceil((share + half) * (len(ordered) - 1))
        low = float(ordered[begin]) if begin > 0 else -math.inf
        high = float(ordered[end]) if end < len(ordered) - 1 else math.inf
        found.append(Bracket(share, low, high))
    return found
