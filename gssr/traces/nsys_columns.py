"""Columns of a report's intervals as they are gathered from its tables, part by part, and put in order."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints

Key = tuple[int, ...]


class IntervalColumns:
    """Collects the columns of Intervals part by part. ``name`` is a number of the reader's own, and a length of -1
    means that the interval is open to the end. ``link`` and ``size`` stay None, taking no memory, until a row has one;
    after ``finish`` they are arrays."""

    def __init__(self, most: int) -> None:
        """Make room for at most so many intervals. Rows that are not filled take no memory."""
        self._most, self._n = most, 0
        self.start, self.length = np.empty(most, np.int64), np.empty(most, np.int64)
        self.track, self.name = np.empty(most, np.int32), np.empty(most, np.int32)
        self.link: Ints | None = None
        self.size: Ints | None = None

    def add(
        self,
        start: Ints,
        length: Ints,
        track: NDArray[np.int32],
        name: NDArray[np.int32],
        link: Ints | None = None,
        size: Ints | None = None,
    ) -> None:
        """Append intervals, columns [k] each. A column that is None is -1 for each."""
        new = slice(self._n, self._n + len(start))
        self.start[new], self.length[new], self.track[new], self.name[new] = start, length, track, name
        self.link, self.size = self._fill_column(self.link, link, new), self._fill_column(self.size, size, new)
        self._n = new.stop

    def _fill_column(self, column: Ints | None, values: Ints | None, new: slice) -> Ints | None:
        """Write values into the rows ``new`` of a column; None: -1 into each. A column that is None is made as soon as
        there are values, with -1 in the rows before. Returns the column, None while there is none."""
        if column is None:
            if values is None:
                return None
            column = np.empty(self._most, np.int64)
            column[: new.start] = -1
        column[new] = -1 if values is None else values
        return column

    def finish(self) -> None:
        """Sort the intervals by start, those of equal start by falling length, after ending open ones where the last
        interval ends. Cuts the columns to the number of intervals. Call it once."""
        own = slice(self._n)
        self.start, self.length, self.track, self.name = (
            self.start[own],
            self.length[own],
            self.track[own],
            self.name[own],
        )
        is_open = self.length < 0
        if is_open.any():
            self.length[is_open] = (self.start + np.maximum(self.length, 0)).max() - self.start[is_open]
        order = _order(self.start, self.length)
        self.link, self.size = (
            all_alike(-1, self._n) if column is None else column[own] for column in (self.link, self.size)
        )
        if order is not None:
            self.start, self.length = self.start[order], self.length[order]
            self.track, self.name = self.track[order], self.name[order]
            self.link, self.size = (
                column[order] if any(column.strides) else column for column in (self.link, self.size)
            )


def _order(start: Ints, length: Ints) -> Ints | None:
    """Return the indices that sort intervals by start, and by falling length if starts are equal; None if they are
    sorted already."""
    order = np.argsort(start, kind="stable") if (start[1:] < start[:-1]).any() else None
    before = start if order is None else start[order]
    alike = before[1:] == before[:-1]
    tied = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
    own = tied if order is None else order[tied]
    again = own[np.lexsort((-length[own], start[own]))]
    if (again == own).all():
        return order
    if order is None:
        order = np.arange(len(start))
    order[tied] = again
    return order


def all_alike(number: int, n: int) -> Ints:
    """Return a column [n] of one value, which takes no memory."""
    return np.broadcast_to(np.int64(number), n)


def placed(columns: Sequence[Ints], known: dict[Key, int]) -> NDArray[np.int32]:
    """Give each row the number that ``known`` has for its combination of values in these columns; new combinations are
    added to it. Returns the numbers, int32[n]. The columns must not be empty."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if any(column.strides) and (column != column[0]).any():
            own, n = _dense(column)
            code = _dense(code * n + own)[0] if code.any() else own
    row = np.zeros(int(code.max()) + 1, np.int64)
    row[code] = np.arange(len(code))  # any that has these values
    rows = zip(*(column[row].tolist() for column in columns), strict=True)
    places: NDArray[np.int32] = np.array([known.setdefault(values, len(known)) for values in rows], np.int32)[code]
    return places


_FEW = 1 << 16


def _dense(column: Ints) -> tuple[Ints, int]:
    """Renumber the values of a column from 0 on in ascending order, equal values alike. Returns the numbers, int64[n],
    and how many different ones there are."""
    low, high = int(column.min()), int(column.max())
    if high - low > 4 * len(column) + _FEW:
        distinct, own = np.unique(column, return_inverse=True)
        return own, len(distinct)
    there = np.zeros(high - low + 1, np.bool_)
    there[column - low] = True
    number = np.cumsum(there) - 1
    return number[column - low], int(number[-1]) + 1
