"""The table ``rollup`` of a finished file, read from its pages."""

import sqlite3
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Bytes, Floats, Ints
from gssr.store.format.buckets import Buckets
from gssr.store.format.columns import columns_of
from gssr.store.format.layout import Layout
from gssr.store.format.schema import TABLES
from gssr.store.pages.file import (
    HIGHEST,
    LOWEST,
    SHIFT,
    SIZE,
    LeafCells,
    Leaves,
    NotPlainError,
    PageFile,
    leaves,
    pieces,
)

_COLUMNS = [column.name for column in TABLES["rollup"]]
_N_HEADS = len(_COLUMNS) - 1  # the last one is the vector
_HEAD = 1 + _N_HEADS + 2
"""Bytes that say what a row holds: how many they are, one for each number, and two for the vector, whose type is twice its
length and 12: it has 64 bytes or more, and fits onto its page."""
_WHOLE = np.array([False, True, True, True, True, True, True, False, True, True])
"""By the type of a number: whether it is a whole one."""

_AT_ONCE = 512
"""Rows decoded together: half a megabyte, which stays in a core's cache."""


class PageRollups:
    """Reads ``rollup`` of a finished file whose vectors all have ``width`` numbers."""

    def __init__(self, file: PageFile, connection: sqlite3.Connection, width: int) -> None:
        """``connection`` reads the same file. Raises NotPlainError, sqlite3.DatabaseError."""
        roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rollup'").fetchall()
        if len(roots) != 1 or columns_of(connection, "rollup") != _COLUMNS:
            raise NotPlainError("no table of rollups")
        kind = 8 * width * 2 + 12
        if not 0x80 <= kind < 1 << 14:
            raise NotPlainError("vectors of such a length")
        self._file, self._width = file, width
        self._vector = np.array([kind >> 7 | 0x80, kind & 0x7F], np.uint8)
        self._leaves = leaves(file, int(roots[0][0]), LOWEST, HIGHEST)

    def read(self, rowids: Ints, level: int, layout: Layout, columns: Ints | None) -> Buckets:
        """Read the rows of these rowids, in their order, with their rowids in ``samples``. ``columns``: which numbers of the
        file's vectors make those of ``layout``, ascending (None: all). Raises NotPlainError, also if one of the rows is not
        of this ``level``, s."""
        places = np.arange(self._width) if columns is None else columns
        numbers, vectors = np.empty((_N_HEADS, len(rowids)), np.int64), np.empty((len(places), len(rowids)))
        for begin in range(0, len(rowids), _AT_ONCE):
            end = begin + _AT_ONCE
            self._decode(rowids[begin:end], places, numbers[:, begin:end], vectors[:, begin:end])
        self.check()
        if (numbers[1] != level).any():
            raise NotPlainError("an index of something else")
        start, seconds = numbers[2].astype(np.float64), np.full(len(rowids), float(level))
        return Buckets(numbers[0], start, seconds, vectors.T, layout, numbers[3:].T)

    def check(self) -> None:
        """Raises NotPlainError when what was read may not be true any more."""
        if not self._file.is_unchanged():
            raise NotPlainError("it is being written")

    def _decode(self, rowids: Ints, places: Ints, numbers: Ints, vectors: Floats) -> None:
        """Read the rows of these rowids [n] and fill in ``numbers`` [_N_HEADS, n] and, in ``vectors`` [len(places), n],
        those numbers of each vector whose indices are ``places``. Raises NotPlainError, also if a row is missing."""
        cells = LeafCells(self._file, self._pages_of(rowids))
        place = np.minimum(np.searchsorted(cells.rowid, rowids), len(cells.rowid) - 1)
        if (cells.rowid[place] != rowids).any():
            raise NotPlainError("a row that is not there")
        start, payload = cells.start[place], cells.payload[place]
        types, at = self._types(pieces(cells.buffer, start, _HEAD)), start + _HEAD
        for own, kind in zip(numbers, types, strict=True):
            own[:] = _whole_numbers(cells.buffer, at, kind)
            at += SIZE[kind]
        if (at + 8 * self._width != start + payload).any():
            raise NotPlainError("a row of another length")
        # Column by column in memory, as they will be looked at; columns side by side are fetched together.
        cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
        for begin, end in pairwise(cuts):
            size = 8 * (end - begin)
            everywhere = np.ndarray((len(cells.buffer) - size + 1,), f"V{size}", cells.buffer, strides=(1,))
            vectors[begin:end] = everywhere[at + 8 * int(places[begin])].view("<f8").reshape(len(at), -1).T

    def _pages_of(self, rowids: Ints) -> Leaves:
        """Find the leaf pages of the table on which the rows of these rowids [n] lie, in whatever order these are given.
        Returns each page once, in the order of rowids. No page is read. Raises NotPlainError if ``rowids`` is empty, or
        if one lies behind the last row of the table; a rowid that is missing among the others is not noticed here."""
        found = self._leaves
        own = np.searchsorted(found.high, rowids)
        own = own[np.diff(own, prepend=-1) != 0]
        if (np.diff(own) < 0).any():  # mostly they ascend
            own = np.unique(own)
        if not len(own) or own[-1] >= len(found.page):
            raise NotPlainError("a row that is not there")
        return Leaves(found.page[own], found.low[own], found.high[own])

    def _types(self, head: Bytes) -> NDArray[np.uint8]:
        """Read the type of each number [_N_HEADS, n]."""
        if (head[:, 0] != _HEAD).any() or (head[:, _HEAD - 2 :] != self._vector).any():
            raise NotPlainError("a row of other columns")
        types = np.ascontiguousarray(head[:, 1 : 1 + _N_HEADS].T)
        if types.max() >= len(_WHOLE) or not _WHOLE[types].all():
            raise NotPlainError("a value that is no whole number")
        return types


def _whole_numbers(buffer: Bytes, at: Ints, kind: NDArray[np.uint8]) -> Ints:
    """Read the whole numbers [n] that begin at the bytes ``at`` [n] of the buffer, each stored as the ``kind`` [n] of
    integer that SQLite calls its serial type."""
    bits = np.ndarray((len(buffer) - 7,), "V8", buffer, strides=(1,))[at].view(">i8").astype(np.int64)
    constant = kind >= 8  # which are the numbers 0 and 1 themselves
    return np.where(constant, kind.astype(np.int64) - 8, bits >> SHIFT[kind])
