"""The table ``samples`` of a finished file, read from its pages."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Bytes, Floats, Ints
from gssr.store.format.columns import columns_of
from gssr.store.pages.file import SHIFT, SIZE, Cells, Leaves, NotPlainError, PageFile, leaves, pieces

_VALUE = np.array([np.nan, 0, 0, 0, 0, 0, 0, 0, 0, 1], np.float64)
_FLOAT = 7

MOST_COLUMNS = 126
"""With more the length of a row's head takes two bytes."""


class Rows:
    """The rows of leaf pages. ``rowid`` int64[n] ascends. Columns are asked for in their order."""

    def __init__(self, file: PageFile, found: Leaves, n_columns: int) -> None:
        """Read the pages of a table of ``n_columns`` columns. Raises NotPlainError."""
        cells = Cells(file, found)
        self._buffer, self._start, self.rowid = cells.buffer, cells.start, cells.rowid
        self._types = self._serial_types(cells.payload, n_columns)
        self._next = 0
        self._offset = self._start + self._buffer[self._start]

    def _serial_types(self, payload: Ints, n_columns: int) -> Bytes:
        """[n_columns, n]: each value's type. Rows from before a column was added end early: there it is NULL."""
        head = self._buffer[self._start].astype(np.int64)
        if (head < 1).any() or (head > n_columns + 1).any() or (head > payload).any():
            raise NotPlainError("a row of other columns")
        wide = pieces(self._buffer, self._start + 1, 32) if n_columns <= 32 else None
        if wide is None:
            wide = np.hstack([pieces(self._buffer, self._start + 1 + at, 32) for at in range(0, n_columns, 32)])
        types = np.ascontiguousarray(wide[:, :n_columns].T)
        if (head <= n_columns).any():
            types[np.arange(n_columns)[:, None] >= head - 1] = 0
        if types.max(initial=0) >= len(SIZE):
            raise NotPlainError("a value that is no number")
        self._sizes = np.take(SIZE, types, mode="clip")
        if (head + self._sizes.sum(axis=0, dtype=np.int64) != payload).any():
            raise NotPlainError("a row of another length")
        return types

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Go on with these rows only."""
        if chosen.all():
            return
        self.rowid, self._offset = self.rowid[chosen], self._offset[chosen]
        self._types, self._sizes = self._types[:, chosen], self._sizes[:, chosen]

    def column(self, number: int) -> Floats:
        """The values of a column (from 0) [n], NaN for NULL; it comes behind those asked for before."""
        assert number >= self._next
        for passed in range(self._next, number):
            self._offset += self._sizes[passed]
        types = self._types[number]
        low, high = int(types.min(initial=9)), int(types.max(initial=0))
        if low == high and not SIZE[low]:
            values = np.full(len(types), _VALUE[low])
        else:
            at_every_byte = np.ndarray((len(self._buffer) - 7,), "V8", self._buffer, strides=(1,))
            values = _values(at_every_byte[self._offset].view(">i8").astype(np.int64), types, low, high)
        self._offset += self._sizes[number]
        self._next = number + 1
        return values


def _values(bits: Ints, types: Bytes, low: int, high: int) -> Floats:
    """Values from the 8 bytes [n] that begin with them; ``low`` and ``high`` are the extremes of their types."""
    if low > 0 and high < _FLOAT:
        return (bits >> (SHIFT[low] if low == high else SHIFT[types])).astype(np.float64)
    values = bits.view(np.float64)
    if not low == high == _FLOAT:
        other = np.flatnonzero(types != _FLOAT)
        own = types[other]
        whole = (bits[other] >> SHIFT[own]).astype(np.float64)
        values[other] = np.where(SIZE[own] > 0, whole, _VALUE[own])
    unknown = np.isnan(values)
    if unknown.any():  # in a float, too, for SQLite: but there is more than one way to write it
        values[unknown] = np.nan
    return values


_EXACT = float(1 << 53)
"""Below this every whole number is a float64."""


class Wanted(NamedTuple):
    """Columns by name, and which rows: of these GPUs (None: all), with first <= rowid <= last and start <= time < end."""

    names: Sequence[str]
    keys: Sequence[int] | None
    first: int
    last: int
    start: float
    end: float


class PageTable:
    """``samples`` of a file that is finished. Several threads may read at once."""

    def __init__(self, file: PageFile, connection: sqlite3.Connection) -> None:
        """``connection`` reads the same file. Raises NotPlainError, sqlite3.DatabaseError."""
        self._place = {name: place for place, name in enumerate(columns_of(connection, "samples"))}
        roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'samples'").fetchall()
        columns = connection.execute("PRAGMA table_info(samples)").fetchall()
        if len(roots) != 1 or list(self._place)[:2] != ["gpu", "time"] or len(columns) > MOST_COLUMNS:
            raise NotPlainError("no table of samples")
        if any(default is not None or key for _, _, _, _, default, key in columns):
            raise NotPlainError("a column that is not what its rows say")
        self._root = int(roots[0][0])
        self._file = file
        self.page_size = file.page_size

    def leaves(self, first: int, last: int) -> Leaves:
        """The pages that hold the rows with first <= rowid <= last. Raises NotPlainError."""
        found = leaves(self._file, self._root, first, last)
        if not self._file.is_unchanged():
            raise NotPlainError("it is being written")
        return found

    def read(self, found: Leaves, wanted: Wanted) -> tuple[Ints, Floats, dict[str, Floats]]:
        """GPU keys, times and one array per metric (NaN for NULL and for columns the file lacks) of the rows on these pages
        that are wanted. Raises NotPlainError."""
        rows = Rows(self._file, found, len(self._place))
        if not self._file.is_unchanged():
            raise NotPlainError("it is being written")
        if wanted.first > rows.rowid[0] or wanted.last < rows.rowid[-1]:
            rows.keep((rows.rowid >= wanted.first) & (rows.rowid <= wanted.last))
        gpu, time = _comparable(rows.column(0)), _comparable(rows.column(1))
        if (gpu != np.floor(gpu)).any():
            raise NotPlainError("a GPU that is no number")
        chosen = np.ones(len(gpu), bool)
        if np.isfinite(wanted.start) or np.isfinite(wanted.end):
            chosen &= (time >= wanted.start) & (time < wanted.end)
        if wanted.keys is not None:
            chosen &= np.isin(gpu, np.array(wanted.keys, np.float64))
        rows.keep(chosen)
        if not chosen.all():
            gpu, time = gpu[chosen], time[chosen]
        values: dict[str, Floats] = {}
        for name in sorted((name for name in wanted.names if name in self._place), key=self._place.__getitem__):
            values[name] = rows.column(self._place[name])
        nothing = np.full(len(gpu), np.nan)
        return gpu.astype(np.int64), time, {name: values.get(name, nothing) for name in wanted.names}


def _comparable(values: Floats) -> Floats:
    """Values that are compared: SQLite compares whole numbers to the last digit, where floats have none left."""
    if not (np.abs(values) < _EXACT).all():  # NaN is not, either
        raise NotPlainError("a number that is too large")
    return values


def in_parts(found: Leaves, most: int) -> Iterator[Leaves]:
    """At most so many pages at a time."""
    for begin in range(0, len(found.page), most):
        yield found.part(begin, begin + most)
