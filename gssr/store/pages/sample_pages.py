"""The table ``samples`` of a finished file, read from its pages."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.store.format.columns import own_name
from gssr.store.format.sample_arrays import Samples
from gssr.store.pages.file import Leaves, NotPlainError, PageFile, leaves
from gssr.store.pages.leaf_rows import LeafRows, plain_table

_EXACT = float(1 << 53)
"""Below this every whole number is a float64."""


class SampleQuery(NamedTuple):
    """Columns by name, and which rows: of these GPUs (None: all), with first <= rowid <= last and start <= time < end."""

    names: Sequence[str]
    keys: Sequence[int] | None
    first: int
    last: int
    start: float
    end: float


class PageTable:
    """Reads ``samples`` of a finished file. Several threads may read at once."""

    def __init__(self, file: PageFile, connection: sqlite3.Connection) -> None:
        """``connection`` reads the same file. Raises NotPlainError, sqlite3.DatabaseError."""
        self._root, columns, key, least = plain_table(connection, "samples")
        self._place = {own_name(name, "samples"): place for place, name in enumerate(columns)}
        if list(self._place)[:2] != ["gpu", "time"] or key is not None or least:
            raise NotPlainError("no table of samples")
        self._file = file
        self.page_size = file.page_size

    def leaves(self, first: int, last: int) -> Leaves:
        """Find the pages that hold the rows with first <= rowid <= last. Raises NotPlainError."""
        found = leaves(self._file, self._root, first, last)
        if not self._file.is_unchanged():
            raise NotPlainError("it is being written")
        return found

    def read(self, found: Leaves, wanted: SampleQuery) -> Samples:
        """Read the rows on these pages that are wanted. Raises NotPlainError."""
        rows = LeafRows(self._file, found, len(self._place))
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
        return Samples(gpu.astype(np.int64), time, {name: values.get(name, nothing) for name in wanted.names})


def _comparable(values: Floats) -> Floats:
    """Return the values. Raises NotPlainError if one is too large for a float to be compared as exactly as SQLite does,
    or NaN."""
    if not (np.abs(values) < _EXACT).all():  # NaN is not, either
        raise NotPlainError("a number that is too large")
    return values
