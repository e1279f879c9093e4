"""The rows of some leaf pages: their numbers, decoded column by column.

Which page a table begins at, and its columns.
"""

import re
import sqlite3

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Bytes, Floats, Ints
from gssr.store.pages.file import LOWEST, SHIFT, SIZE, TEXT, LeafCells, Leaves, NotPlainError, PageFile, pieces

# The value of those serial types that take no bytes.
_VALUE = np.array([np.nan, 0, 0, 0, 0, 0, 0, 0, 0, 1], np.float64)
_FLOAT = 7
NULL = LOWEST
"""What stands for it among whole numbers."""

_DESCENDING = re.compile(r"\bdesc\b", re.IGNORECASE)
"""A key of whole numbers that is declared so is not the rowid."""
_MOST_COLUMNS = 126
"""With more the length of a row's head takes two bytes."""


def plain_table(connection: sqlite3.Connection, name: str) -> tuple[int, list[str], int | None, int]:
    """Look up the table of this name. Raises NotPlainError, sqlite3.DatabaseError.

    Returns the table's root page; its columns in their order, as the file spells them; the place of the column that is the
    rowid, and NULL in rows (None: there is none); and how many columns a row must hold, as they are not NULL where it ends
    early.
    """
    roots = connection.execute(f"SELECT rootpage, sql FROM sqlite_master WHERE name = '{name}'").fetchall()
    columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
    if len(roots) != 1 or not 0 < len(columns) <= _MOST_COLUMNS:
        raise NotPlainError(f"no table {name}")
    keys = [place for place, *_, key in columns if key]
    if keys and (len(keys) > 1 or columns[keys[0]][2].upper() != "INTEGER" or _DESCENDING.search(roots[0][1])):
        raise NotPlainError("a key that is not the rowid")
    given = [place for place, _, _, _, default, _ in columns if default is not None]
    least = max(given, default=-1) + 1
    return int(roots[0][0]), [column[1] for column in columns], keys[0] if keys else None, least


class LeafRows:
    """The rows of leaf pages. ``rowid`` int64[n] ascends. Columns are asked for in their order."""

    def __init__(self, file: PageFile, found: Leaves, n_columns: int, whole: bool = True, least: int = 0) -> None:
        """Read the pages of a table, and of its rows the first ``n_columns``: all that it has, unless not ``whole``; each
        row holds ``least``. Raises NotPlainError."""
        cells = LeafCells(file, found)
        self._buffer, self._start, self.rowid = cells.buffer, cells.start, cells.rowid
        if (self._buffer[self._start] <= min(least, n_columns)).any():
            raise NotPlainError("a value that is not in its row")
        self._types = self._serial_types(cells.payload, n_columns, whole)
        self._next = 0
        self._offset = self._start + self._buffer[self._start]

    def _serial_types(self, payload: Ints, n_columns: int, whole: bool) -> Bytes:
        """Read the type of each value of the first ``n_columns`` columns, uint8[n_columns, n], and keep the values'
        sizes in ``_sizes``. ``payload`` [n] is the length of each row in bytes. Rows from before a column was added end
        early: their values there get the type of NULL. With ``whole`` rows must have no further column. Raises
        NotPlainError for rows that do not fit this, and for long texts or blobs."""
        head = self._buffer[self._start].astype(np.int64)
        longest = n_columns + 1 if whole else 0x7F
        if (head < 1).any() or (head > longest).any() or (head > payload).any():
            raise NotPlainError("a row of other columns")
        wide = pieces(self._buffer, self._start + 1, 32) if n_columns <= 32 else None
        if wide is None:
            wide = np.hstack([pieces(self._buffer, self._start + 1 + at, 32) for at in range(0, n_columns, 32)])
        types = np.ascontiguousarray(wide[:, :n_columns].T)
        if (head <= n_columns).any():
            types[np.arange(n_columns)[:, None] >= head - 1] = 0
        if types.max(initial=0) >= len(SIZE):
            raise NotPlainError("a value that is long")
        alike = (types == types[:, :1]).all(axis=1).tolist()  # mostly they are, of a column
        self._sizes = [SIZE[own[0] if same else own] for own, same in zip(types, alike, strict=True)]
        left = payload - head
        for sizes in self._sizes:
            left -= sizes
        if (left < 0).any() or (whole and left.any()):
            raise NotPlainError("a row of another length")
        return types

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Drop the rows that are not ``chosen`` [n]: what is read afterwards is only of those that are."""
        if chosen.all():
            return
        self.rowid, self._offset = self.rowid[chosen], self._offset[chosen]
        self._types = self._types[:, chosen]
        self._sizes = [sizes[chosen] if sizes.ndim else sizes for sizes in self._sizes]

    def column(self, number: int) -> Floats:
        """Read the values of a column (index from 0), float64[n], NaN for NULL. Columns must be asked for in ascending
        order. Raises NotPlainError."""
        types, low, high = self._next_column(number)
        if low == high and not SIZE[low]:
            return np.full(len(types), _VALUE[low])
        return _values(self._bits(), types, low, high)

    def integers(self, number: int) -> Ints:
        """Read a column of whole numbers, exactly; NULL for NULL. Raises NotPlainError for what is none."""
        types, low, high = self._next_column(number)
        if low == high and not SIZE[low]:
            return np.full(len(types), _constant(low), np.int64)
        if (types == _FLOAT).any():
            raise NotPlainError("a value that is no whole number")
        values = self._bits() >> (SHIFT[low] if low == high else SHIFT[types])
        for constant in (0, 8, 9) if low == 0 or high > _FLOAT else ():
            values[types == constant] = _constant(constant)
        return values

    def _next_column(self, number: int) -> tuple[Bytes, int, int]:
        """Move on to a column (index from 0, never below the last one) and return the types of its values [n], with the
        least and the greatest of them. Raises NotPlainError if one is a text or a blob."""
        assert number >= self._next
        for passed in range(self._next, number):
            self._offset += self._sizes[passed]
        self._next = number
        types = self._types[number]
        low, high = int(types.min(initial=9)), int(types.max(initial=0))
        if high >= TEXT:
            raise NotPlainError("a value that is no number")
        return types, low, high

    def _bits(self) -> Ints:
        """Return, as one big-endian number for each row [n], the 8 bytes that begin with the row's value of the column
        last moved on to. Shorter values have bytes of what follows them behind."""
        at_every_byte = np.ndarray((len(self._buffer) - 7,), "V8", self._buffer, strides=(1,))
        bits: Ints = at_every_byte[self._offset].view(">i8").astype(np.int64)
        return bits


def _constant(kind: int) -> int:
    """Return the whole number that a type without bytes is."""
    return kind - 8 if kind else NULL


def _values(bits: Ints, types: Bytes, low: int, high: int) -> Floats:
    """Convert the 8 bytes [n] that begin with each value into float64[n], by the values' ``types`` [n], of which ``low``
    and ``high`` are the least and the greatest. NULL becomes NaN."""
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
