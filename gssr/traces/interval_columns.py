"""Columns of a trace's intervals as readers gather them, part by part, what the intervals are called, and their order."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.traces.categories import category_of
from gssr.traces.timeline import Category, Intervals, Kind

Key = tuple[int, ...]


class IntervalColumns:
    """Collects the columns of Intervals part by part. Columns of links and sizes take no memory until a row has one. An
    interval's key is the index of its name, kind, category and operation in the tables that ``finish`` is given."""

    def __init__(self, most: int) -> None:
        """Make room for at most so many intervals. Rows that are not filled take no memory."""
        self._most, self._n = most, 0
        self._start, self._length = np.empty(most, np.int64), np.empty(most, np.int64)
        self._track, self._key = np.empty(most, np.int32), np.empty(most, np.int32)
        self._link: Ints | None = None
        self._size: Ints | None = None

    def add(
        self, start: Ints, length: Ints, track: NDArray[np.int32], key: NDArray[np.int32], link: Ints | None = None,
        size: Ints | None = None,
    ) -> None:  # fmt: skip
        """Append intervals, columns [k] each. ``start`` and ``length`` in ns, with the length -1 for an interval that
        is open to the end; ``key``: the index of all that its name tells; ``link`` and ``size``: None counts as -1,
        which is unknown, for each."""
        new = slice(self._n, self._n + len(start))
        self._start[new], self._length[new], self._track[new], self._key[new] = start, length, track, key
        self._link, self._size = self._fill_column(self._link, link, new), self._fill_column(self._size, size, new)
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

    def finish(
        self, name: NDArray[np.int32], kind: NDArray[np.int8], category: NDArray[np.int8], operation: NDArray[np.int8]
    ) -> tuple[Intervals, NDArray[np.int32]]:
        """Put the intervals in order and look up what their keys stand for. Open intervals end where the last interval
        ends. They are sorted by start, and at equal starts by falling length, so that an interval comes before those it
        contains.

        ``name``, ``kind``, ``category`` and ``operation`` [n_keys] hold, at the index of each key that was added, what
        its intervals have. Returns the intervals, and the key of each in their order, int32[n]. Call it once: the
        columns are given away.
        """
        own = slice(self._n)
        start, length = self._start[own], self._length[own]
        is_open = length < 0
        if is_open.any():
            length[is_open] = (start + np.maximum(length, 0)).max() - start[is_open]
        rows = order_of(start, length)
        self._start, self._length = start[rows], length[rows]
        self._track, self._key = self._track[own][rows], self._key[own][rows]
        link, size = (all_alike(-1, self._n) if each is None else each[own][rows] for each in (self._link, self._size))
        self._link = self._size = None
        del start, length, rows  # what is not needed any more, before there is more
        key = self._key
        intervals = Intervals(
            self._start, self._length, self._track, name[key], kind[key], category[key], link, size, operation[key]
        )
        return intervals, key


class IntervalNames:
    """Gathers what keys stand for. ``texts``: the different names, with their places."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, name: str, kind: Kind, operation: int = -1, category: Category | None = None) -> None:
        """Append the next key: its name, its kind, the index in OPERATIONS of a copy or set, and its category, None for what
        kind and name say."""
        of = category_of(kind, name) if category is None else category
        self._rows.append((self.texts.setdefault(name, len(self.texts)), kind, of, operation))

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
        """Return the place of each key's name, its kind, category and operation [n_keys]."""
        name, *others = np.array(self._rows, np.int32).reshape(-1, 4).T
        kind, category, operation = (each.astype(np.int8) for each in others)
        return name, kind, category, operation


def order_of(start: Ints, length: Ints) -> Ints | slice:
    """Return the indices that sort intervals by start, and by falling length if starts are equal; a slice of all if they
    are sorted already."""
    order = np.argsort(start, kind="stable") if (start[1:] < start[:-1]).any() else None
    before = start if order is None else start[order]
    alike = before[1:] == before[:-1]
    tied = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
    own = tied if order is None else order[tied]
    again = own[np.lexsort((-length[own], start[own]))]
    if (again == own).all():
        return slice(None) if order is None else order
    if order is None:
        order = np.arange(len(start))
    order[tied] = again
    return order


def all_alike(number: int, n: int) -> Ints:
    """Return a column [n] of one value, which takes no memory."""
    return np.broadcast_to(np.int64(number), n)


def number_combinations(columns: Sequence[Ints], known: dict[Key, int]) -> NDArray[np.int32]:
    """Number the rows by their combination of values in these columns [n], as ``known`` numbers combinations; new ones
    get the next numbers and are added to it, in place. Returns the numbers, int32[n]. There must be at least one
    row."""
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
