"""From the cells of tables to rows: which columns are metrics, which GPU a row is of, and what is left out."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from tempfile import gettempdir
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.foreign.cells import TextCells
from gssr.foreign.names import (
    MEMORY_FREE,
    MEMORY_RESERVED,
    MEMORY_TOTAL,
    OF_GPUS,
    POWER_LIMIT,
    Meant,
    blanks_to_nan,
    unit_of,
)
from gssr.foreign.series import ByteSource, ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note
from gssr.foreign.times import FileRows, pieces_of
from gssr.store.format.sample_arrays import Samples

MOST_GPUS = 4096
"""No node has more GPUs and instances."""
_LONGEST = 100
_NAMED = 12
"""Unknown columns that are named in one note."""


def clean(text: str) -> str:
    """Replace the unprintable characters of a word from a file by ?, and cut it to 100 characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])


class MetricColumn(NamedTuple):
    """A column that is read. ``place``: its position in the header, from 0; ``meant``: its metric and the factor to the
    catalogue's unit; ``unit``: the unit that may stand behind its values, b"" for none; ``decimals``: the digits behind
    the point that values in the expected unit have (values with another number are unknown), None if any number will
    do."""

    place: int
    meant: Meant
    unit: bytes = b""
    decimals: int | None = None


class RowTable:
    """Turns the rows of one file into ``series``. ``rows`` is called with this table when the first piece is taken.

    ``odd`` counts lines that are left out, ``unread`` values that are left out, ``rest`` is a last line without an end;
    readers set them, and notes tell them after the last piece. Taking the pieces raises ForeignError if there are no
    rows.
    """

    def __init__(
        self, kind: str, source: ByteSource, told: ImportHints, rows: Callable[["RowTable"], Iterator[FileRows | None]]
    ) -> None:
        self.source, self.told = source, told
        self.odd = self.unread = 0
        self.rest = b""
        self._unknown: dict[str, None] = {}
        self._of_key: dict[Hashable, int] = {}
        self.series = ForeignSeries(kind, self._pieces(rows))

    def _pieces(self, rows: Callable[["RowTable"], Iterator[FileRows | None]]) -> Iterator[Samples]:
        """Yield the pieces of the file, and then add the notes. Raises ForeignError if there was no row, or no room for
        a temporary file."""
        any_rows = False
        try:
            for piece in pieces_of(rows(self), self.series, self.source, self.told):
                any_rows = True
                yield piece
        except OSError as error:
            raise ForeignError(
                f"{self.source.path}: its rows can't be held in {gettempdir()} until their time is known: "
                f"{error.strerror} (give --start, or another TMPDIR)"
            ) from None
        notes = [
            (len(self._unknown), f"columns that are no metrics here are left out: {self._named()}"),
            (self.odd, f"{self.odd:,} lines are neither rows of GPUs nor headers, and are left out"),
            (self.unread, f"{self.unread:,} values are no numbers, or in no known unit, and are left out"),
            (len(self.rest.strip()), "the last line has no end, and is left out: it may be cut"),
        ]
        self.series.notes += [Note(text) for count, text in notes if count]
        if not any_rows:
            why = "; ".join(note.text for note in self.series.notes)
            raise ForeignError(f"{self.source.path}: has no rows of GPUs that can be read" + (why and f" ({why})"))

    def _named(self) -> str:
        names = list(self._unknown)
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more

    def metric_columns(
        self,
        names: Sequence[str],
        table: Mapping[str, Meant],
        beside: Collection[str] = (),
        units: Mapping[str, str] = MappingProxyType({}),
        decimals: Mapping[str, int] = MappingProxyType({}),
    ) -> tuple[MetricColumn, ...]:
        """Find the columns of a header that hold metrics. Returns () if there are none. If two columns hold one metric,
        the one that comes first in ``table`` is taken. Unknown columns are named in a note later.

        Args:
            names: the header's columns, which may have ``[unit]`` behind them.
            table: by the tool's column name, the metric.
            beside: known columns that are no metrics.
            units: by unit of the catalogue, the unit that may stand behind values.
            decimals: by column name, ``MetricColumn.decimals``.
        """
        found: dict[str, MetricColumn] = {}
        words = list(table)
        for place, name in enumerate(names):
            word, _, said = name.partition(" [")
            meant = table.get(word)
            unit = units.get(unit_of(meant.name), "") if meant else ""
            if meant and said in ("", f"{unit}]"):
                other = found.get(meant.name)
                if other is None or words.index(word) < words.index(names[other.place].partition(" [")[0]):
                    found[meant.name] = MetricColumn(place, meant, unit.encode(), decimals.get(word))
            elif word not in beside and len(self._unknown) < MOST_GPUS:
                self._unknown[clean(name if meant else word)] = None
        return tuple(found.values())

    def gpus(self, keys: Ints, make: Callable[[int], tuple[Hashable, ForeignGpu]], of: "RowValues") -> Ints:
        """Find the GPUs of rows, and add new ones to ``series.gpus``. Returns their positions there, int64[n]. Raises
        ForeignError if there are too many.

        Args:
            keys: small numbers from 0 on, int64[n], equal for rows of one GPU. At least one.
            make: called with the index of a row; returns what identifies its GPU in the whole file, and what the row
                says of it.
            of: the rows' values, from which a GPU's memory size and power limit are taken if they are there.
        """
        first = np.full(int(keys.max()) + 1, -1)
        first[keys[::-1]] = np.arange(len(keys))[::-1]
        places = np.empty(len(first), np.int64)
        for row in np.sort(first[first >= 0]).tolist():
            name, gpu = make(row)
            if name not in self._of_key:
                if len(self._of_key) >= MOST_GPUS:
                    raise ForeignError(f"{self.source.path}: says it is of more than {MOST_GPUS:,} GPUs")
                self._of_key[name] = len(self.series.gpus)
                self.series.gpus.append(gpu)
            place = places[keys[row]] = self._of_key[name]
            gpu = self.series.gpus[place]
            if of.has_attributes and (gpu.memory_total is None or gpu.power_limit is None):
                self.series.gpus[place] = of.described(gpu, np.flatnonzero(keys == keys[row]))
        return places[keys]


class RowValues:
    """The values of a block's rows in some metric columns. ``where`` is called with a column's ``place`` and returns
    the index of its cell in each row, int64[n], negative for rows without one."""

    def __init__(
        self, table: RowTable, cells: TextCells, columns: Sequence[MetricColumn], where: Callable[[int], Ints]
    ) -> None:
        self._table, self._cells, self._columns, self._where = table, cells, columns, where

    def metrics(self) -> dict[str, Floats]:
        """Read the columns of all metrics, float64[n] each, by metric name, in the catalogue's units; NaN where a value
        is missing."""
        columns = [column for column in self._columns if column.meant.name not in OF_GPUS]
        return {column.meant.name: self._of(column, self._where(column.place)) for column in columns}

    @property
    def has_attributes(self) -> bool:
        """Whether there are columns of GPUs' sizes and limits."""
        return any(column.meant.name in OF_GPUS for column in self._columns)

    def described(self, gpu: ForeignGpu, rows: Ints) -> ForeignGpu:
        """Return the GPU with its memory size and power limit, from the first of these rows (indices) that says them;
        unchanged where it has them already or no row does."""
        columns = [column for column in self._columns if column.meant.name in (*OF_GPUS, "memory_used")]
        before = self._table.unread  # of these cells metrics count those that can't be read
        values = {column.meant.name: self._of(column, self._where(column.place)[rows]) for column in columns}
        self._table.unread = before
        total = values.get(MEMORY_TOTAL)
        if total is None and {*_PARTS} <= values.keys():
            total = values["memory_used"] + values[MEMORY_FREE] + values[MEMORY_RESERVED]
        size, limit = _first(total), _first(values.get(POWER_LIMIT))
        return gpu._replace(
            memory_total=gpu.memory_total or (int(size) if size and size > 0 else None),
            power_limit=limit if gpu.power_limit is None else gpu.power_limit,
        )

    def _of(self, column: MetricColumn, cells: Ints) -> Floats:
        """Read one column's cells in the catalogue's unit, float64[n]; NaN where a value is missing or in another unit.
        Counts unreadable ones in the table's ``unread``."""
        before = self._cells.unread
        values = blanks_to_nan(self._cells.numbers(cells, column.unit)) * column.meant.factor
        self._table.unread += self._cells.unread - before
        if column.decimals is not None:
            other = np.isfinite(values) & (self._cells.text[self._cells.end[cells] - 1 - column.decimals] != 46)
            self._table.unread += int(other.sum())
            values[other] = np.nan
        return values


_PARTS = ("memory_used", MEMORY_FREE, MEMORY_RESERVED)


def _first(values: Floats | None) -> float | None:
    """Return the first finite value; None without any."""
    there = values if values is None else values[np.isfinite(values)]
    return None if there is None or not len(there) else float(there[0])
