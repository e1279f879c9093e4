"""Tables with commas, a row for each GPU and look: the CSV of ``nvidia-smi --query-gpu``, with units or without, written
once or again and again, and that of ``kempnerpulse --export``: unix seconds, percent, MiB, nothing where nothing is known.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.foreign.cells import Lines, TextCells, take_until
from gssr.foreign.names import KEMPNERPULSE, MISSING, PULSE_DECIMALS, QUERY, Meant
from gssr.foreign.series import ByteSource, ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note
from gssr.foreign.tables import MetricColumn, RowTable, RowValues, clean
from gssr.foreign.times import Clock, FileRows, stamps
from gssr.metrics import RATIO
from gssr.store.format.sample_arrays import Samples

_BURST_SECONDS = 0.010001
"""Rows of one look that says no GPU follow each other within this."""
_MOST_IN_BURST = 64
_NO_GPU = "no column says which GPU a row is of: query index or uuid, too"
_IN_ORDER = "no column says which GPU a row is of: rows that were written together are taken for GPUs, in their order"


class Dialect(NamedTuple):
    """The names that one tool gives to the columns of its CSV.

    ``metrics``: by column name, the metric it holds. ``time``: the column of the time. ``ids``: columns that tell GPUs
    apart, the best first. ``number``, ``uuid``, ``name``, ``driver``, ``node``: columns that hold this about the GPU or
    its node, each () if the tool has none. ``others``: known columns that are no metrics. ``units``: by unit of the
    catalogue, the unit that may stand behind values. ``decimals``: by column, the digits behind the point that values
    have when they are in the expected unit.
    """

    kind: str
    metrics: Mapping[str, Meant]
    time: str
    ids: tuple[str, ...]
    number: tuple[str, ...]
    uuid: tuple[str, ...]
    name: tuple[str, ...]
    driver: tuple[str, ...]
    others: tuple[str, ...] = ()
    units: Mapping[str, str] = MappingProxyType({})
    decimals: Mapping[str, int] = MappingProxyType({})
    node: tuple[str, ...] = ("host", "hostname", "node")

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of all columns that are no metrics."""
        return (self.time, *self.ids, *self.number, *self.uuid, *self.name, *self.driver, *self.others, *self.node)


_UUID, _NAME, _BUS = ("uuid", "gpu_uuid"), ("name", "gpu_name"), ("pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
_SMI = Dialect(
    "nvidia-smi-query", QUERY, "timestamp", (*_UUID, *_BUS, "index"), ("index",), _UUID, _NAME, ("driver_version",),
    ("count",), {RATIO: "%", "B": "MiB", "W": "W", "MHz": "MHz"},
)  # fmt: skip
_PULSE = Dialect(
    "kempnerpulse", KEMPNERPULSE, "timestamp", ("gpu_id",), ("gpu_id",), (), ("model",), (),
    ("real_util_pct", "status", "health"), decimals=PULSE_DECIMALS,
)  # fmt: skip
_IS_PULSE = re.compile(rb"(?m)^(?:[a-z]\w*,)*gpu_id\b")


def read(source: ByteSource, told: ImportHints) -> ForeignSeries:
    """Read a CSV file of ``nvidia-smi --query-gpu`` or of kempnerpulse, and follow it while it grows.

    Returns the series before any row is read. Taking its pieces raises ForeignError if no row can be read, or if no
    column says which GPU a row is of and the order of rows does not say it either.
    """
    lines = Lines(source.chunks)
    blocks = iter(lines)
    begun = take_until(blocks, len)
    dialect = _PULSE if begun and _IS_PULSE.search(begun[-1]) else _SMI
    every = chain(begun, blocks)
    return RowTable(dialect.kind, source, told, lambda table: _CsvFile(table, dialect).rows(every, lines)).series


class _Header(NamedTuple):
    """A header line: ``names`` of all its columns; ``at``, by column name, the position of each known column that is no
    metric; ``metrics``, the columns that are read."""

    names: tuple[str, ...]
    at: dict[str, int]
    metrics: tuple[MetricColumn, ...]

    def place(self, names: tuple[str, ...]) -> int | None:
        """Return the position of the first of these columns that the header has, or None if it has none of them."""
        return next((self.at[name] for name in names if name in self.at), None)


class _CsvFile:
    """A reader of one CSV file, whose rows it adds to a table block by block."""

    def __init__(self, table: RowTable, dialect: Dialect) -> None:
        self._table, self._dialect = table, dialect
        told = table.told.columns
        self._header = self._parsed(told) if told else None
        self._bursts = _Bursts(table.source.path)
        self._nodes: set[bytes] = set()
        self._is_noted = False

    def rows(self, blocks: Iterator[bytes], lines: Lines) -> Iterator[FileRows | None]:
        """Read whole lines into rows. Yields None whenever there are no more lines at the moment, and nothing for a
        block without rows. Raises ForeignError if the file has rows but no header."""
        for block in blocks:
            if not block:
                yield None
                continue
            cells = TextCells(block, comma=True)
            for first, last, header, plain in self._runs(cells):
                if header.metrics:
                    made = self._made(cells, np.arange(first, last)[plain[first:last]], header)
                    if made:
                        yield made
        self._table.rest = lines.rest

    def _runs(self, cells: TextCells) -> Iterator[tuple[int, int, _Header, Flags]]:
        """Split a block into ranges of lines under one header.

        Yields the index of the first line of a range and the index behind its last, the header, and flags of all lines
        of the block, True for those that are neither headers nor blank. Lines before the first header of the file are
        counted as left out. Raises ForeignError if there are lines and never a header.
        """
        count, first = cells.count, cells.first[:-1]
        plain = (count > 1) | (cells.end[first] > cells.begin[first])
        letter = cells.text[cells.begin[first]]
        begin = 0
        for number in np.flatnonzero(plain & (letter >= 97) & (letter <= 122)).tolist():
            names = tuple(name.decode("utf-8", "replace").strip() for name in cells.line(number).split(b","))
            bare = [name.partition(" [")[0] for name in names]
            if not any(name in self._dialect.metrics or name in self._dialect.beside for name in bare):
                continue
            plain[number] = False
            if self._header and names == self._header.names:
                continue
            if self._header:
                yield begin, number, self._header, plain
            else:
                self._table.odd += int(plain[:number].sum())
            begin, self._header = number, self._parsed(names)
        if self._header:
            yield begin, len(count), self._header, plain
        elif plain.any():
            raise ForeignError(f"{self._table.source.path}: its columns have no names: say them with --columns")

    def _parsed(self, names: tuple[str, ...]) -> _Header:
        """Read a line of column names; names that are not known are kept for a note. Raises ForeignError if there is
        neither a column of times nor one that tells GPUs apart."""
        beside = {name.partition(" [")[0]: place for place, name in reversed(list(enumerate(names)))}
        at = {name: place for name, place in beside.items() if name in self._dialect.beside}
        own = self._dialect
        header = _Header(names, at, self._table.metric_columns(names, own.metrics, own.beside, own.units, own.decimals))
        if self._dialect.time not in at and header.place(self._dialect.ids) is None:
            raise ForeignError(f"{self._table.source.path}: no column says which GPU a row is of, and none when it was")
        return header

    def _made(self, cells: TextCells, lines: Ints, header: _Header) -> FileRows | None:
        """Make rows of the lines at these indices. Counted as left out are lines with another number of cells than the
        header, lines that name no GPU, and all lines if the header has a column of times and none of the first nine is
        in a known form. A single time that can't be read is NaN. Returns None if no row is left."""
        fits = cells.count[lines] == len(header.names)
        self._table.odd += int((~fits).sum())
        first = cells.first[lines[fits]]
        if not len(first):
            return None
        at = header.at.get(self._dialect.time)
        clock: Clock = "none"
        seconds = np.full(len(first), np.nan)
        if at is not None:
            seconds, clock = stamps(cells, cells.begin[first + at], cells.end[first + at], self._table.source.modified)
            if clock == "none":
                self._table.odd += len(first)
                return None
        keys, kept = self._keys(cells, first, header, seconds)
        if not kept.all():
            first, seconds, keys = first[kept], seconds[kept], keys[kept]
            self._table.odd += int((~kept).sum())
            if not len(first):
                return None
        values = RowValues(self._table, cells, header.metrics, lambda place: first + place)
        gpu = self._table.gpus(keys, lambda row: self._gpu(cells, int(first[row]), int(keys[row]), header), values)
        return clock, Samples(gpu, seconds, values.metrics())

    def _keys(self, cells: TextCells, first: Ints, header: _Header, seconds: Floats) -> tuple[Ints, Flags]:
        """Number the rows whose first cells are ``first`` so that rows of one GPU have one number.

        Returns the numbers, int64[n], and flags that are False for rows that name no GPU. Without a column that tells
        GPUs apart, the number is the row's place in its burst, and rows without a time are flagged False. Raises
        ForeignError if that does not tell GPUs apart.
        """
        node = header.place(self._dialect.node)
        nodes, each = cells.distinct(first + node) if node is not None else (first * 0, first[:0])
        self._nodes.update(cells.word(cell) for cell in each.tolist())
        for name in self._dialect.ids:
            if name in header.at:
                which, each = cells.distinct(first + header.at[name])
                said = np.array([_said(cells.word(cell)) is not None for cell in each.tolist()])
                if said.any():
                    kept = said[which]
                    if nodes.any():  # GPUs of several nodes have the same numbers
                        _, which = np.unique(which * len(nodes) + nodes, return_inverse=True)
                    return which, kept
        if len(self._nodes) > 1:
            raise ForeignError(f"{self._table.source.path}: {_NO_GPU}")
        named = header.place(self._dialect.name)
        names = (
            np.array([hash(cells.word(cell)) for cell in (first + named).tolist()]) if named is not None else first * 0
        )
        kept = np.isfinite(seconds)
        places = np.zeros(len(first), np.int64)
        places[kept] = self._bursts.places(seconds[kept], names[kept])
        if places.any() and not self._is_noted:
            self._is_noted = True
            self._table.series.notes.append(Note(_IN_ORDER))
        return places, kept

    def _gpu(self, cells: TextCells, first: int, number: int, header: _Header) -> tuple[Hashable, ForeignGpu]:
        """Describe the GPU of the row whose first cell is ``first``. Returns what identifies the GPU in the whole file
        (``number`` if no id column says anything), and what the row says of it."""
        told = {
            what: _said(cells.word(first + place))
            for what, names in (("uuid", self._dialect.uuid), ("name", self._dialect.name), ("number", self._dialect.number),
                                ("driver", self._dialect.driver), ("node", self._dialect.node))
            if (place := header.place(names)) is not None
        }  # fmt: skip
        said = told.get("number")
        device = int(said) if said and said.isascii() and said.isdigit() and len(said) < 5 else None
        node = told.get("node") or self._table.told.host
        gpu = ForeignGpu(node, device, told.get("uuid"), told.get("name"), driver_version=told.get("driver"))
        for name in self._dialect.ids:
            if name in header.at and (word := _said(cells.word(first + header.at[name]))):
                return (node, name, word), gpu
        return number, gpu


def _said(word: bytes) -> str | None:
    text = clean(word[:200].decode("utf-8", "replace").strip())
    return None if text.lower() in MISSING else text


class _Bursts:
    """Tells GPUs apart where no column does. The rows that a tool writes in one look follow each other within
    ``_BURST_SECONDS``, one for each GPU, always as many; so a row's place in its burst stands for its GPU."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last, self._place = -np.inf, -1
        self._size: int | None = None
        self._names: dict[int, int] = {}
        self._in_parts = False

    def places(self, seconds: Floats, names: Ints) -> Ints:
        """Return the place of each row in its burst, from 0 on, int64[n]. Bursts go on from the last call.

        Args:
            seconds: finite times of the rows, float64[n].
            names: numbers that tell the names of their GPUs apart, int64[n].

        Raises ForeignError if bursts differ in size, or a place in the burst changes its name.
        """
        if not len(seconds):
            return np.empty(0, np.int64)
        apart = np.diff(seconds, prepend=self._last)
        begins = (apart > _BURST_SECONDS) | (apart < 0)
        rows = np.arange(len(seconds))
        begun = np.maximum.accumulate(np.where(begins, rows, -self._place - 1))
        places = rows - begun
        ended = places[np.flatnonzero(begins) - 1] if not begins[0] else places[np.flatnonzero(begins)[1:] - 1]
        sizes = ended + 1
        if begins[0] and self._place >= 0:
            sizes = np.concatenate(([self._place + 1], sizes))
        if self._size is None and len(sizes):
            self._size = int(sizes[0])
        most = int(places.max()) + 1
        if (len(sizes) and (sizes != self._size).any()) or most > min(self._size or most, _MOST_IN_BURST):
            raise ForeignError(f"{self._path}: {_NO_GPU}")
        self._in_parts |= bool((seconds != np.floor(seconds)).any())
        self._check(places, names)
        self._last, self._place = float(seconds[-1]), int(places[-1])
        return places

    def _check(self, places: Ints, names: Ints) -> None:
        """Check that each place in a burst always has one name, and, if all times are whole seconds (so that bursts may
        have run together), that no two places share a name. Raises ForeignError otherwise."""
        for place in range(int(places.max()) + 1):
            own = names[places == place]
            known = self._names.setdefault(place, int(own[0])) if len(own) else 0
            if (own != known).any():
                raise ForeignError(f"{self._path}: no column says which GPU a row is of, and their order changes")
        alike = len(set(self._names.values())) < len(self._names)
        if alike and not self._in_parts:
            raise ForeignError(f"{self._path}: no column says which GPU a row is of, and times are whole seconds")
