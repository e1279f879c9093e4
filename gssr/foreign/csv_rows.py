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
from gssr.foreign.cells import Lines, TextCells, until
from gssr.foreign.names import KEMPNERPULSE, MISSING, PULSE_DECIMALS, QUERY, Meant
from gssr.foreign.series import ByteSource, ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note
from gssr.foreign.tables import MetricColumn, RowTable, RowValues, clean
from gssr.foreign.times import Clock, FileRows, stamps
from gssr.metrics import RATIO

_BURST_SECONDS = 0.010001
"""Rows of one look that says no GPU follow each other within this."""
_MOST_IN_BURST = 64
_NO_GPU = "no column says which GPU a row is of: query index or uuid, too"
_IN_ORDER = "no column says which GPU a row is of: rows that were written together are taken for GPUs, in their order"


class Dialect(NamedTuple):
    """What a tool calls its columns: of metrics, of the time, of the GPU's ids (the best first), of its number, UUID, name,
    and driver, what else is known and no metric; what may stand
    behind values, by unit of the catalogue; by column, how many digits behind the point say that the unit is known; and what
    users call a column of the node that they add."""

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
    """Read one file, and follow it where it grows. Taking the pieces of the series raises ForeignError where nothing can be
    read."""
    lines = Lines(source.chunks)
    blocks = iter(lines)
    begun = until(blocks, len)
    dialect = _PULSE if begun and _IS_PULSE.search(begun[-1]) else _SMI
    every = chain(begun, blocks)
    return RowTable(dialect.kind, source, told, lambda table: _File(table, dialect).rows(every, lines)).series


class _Header(NamedTuple):
    """``names`` of all columns; ``at``: the place of each that is no metric; ``metrics``: those that are."""

    names: tuple[str, ...]
    at: dict[str, int]
    metrics: tuple[MetricColumn, ...]

    def place(self, names: tuple[str, ...]) -> int | None:
        """Find the first of these columns that there is. Returns its place, None without any."""
        return next((self.at[name] for name in names if name in self.at), None)


class _File:
    """What stands in one file, block by block."""

    def __init__(self, table: RowTable, dialect: Dialect) -> None:
        self._table, self._dialect = table, dialect
        told = table.told.columns
        self._header = self._parsed(told) if told else None
        self._bursts = _Bursts(table.source.path)
        self._nodes: set[bytes] = set()
        self._is_noted = False

    def rows(self, blocks: Iterator[bytes], lines: Lines) -> Iterator[FileRows | None]:
        """Read whole lines into rows. Yields None where there are no more at the moment."""
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
        """Go through the lines header by header. Yields the first line under a header and the one behind the last, the
        header, and flags of all lines that are neither headers nor blank."""
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
        """Parse a header. Raises ForeignError where it has neither a time nor anything that tells GPUs apart."""
        beside = {name.partition(" [")[0]: place for place, name in reversed(list(enumerate(names)))}
        at = {name: place for name, place in beside.items() if name in self._dialect.beside}
        own = self._dialect
        header = _Header(names, at, self._table.metric_columns(names, own.metrics, own.beside, own.units, own.decimals))
        if self._dialect.time not in at and header.place(self._dialect.ids) is None:
            raise ForeignError(f"{self._table.source.path}: no column says which GPU a row is of, and none when it was")
        return header

    def _made(self, cells: TextCells, lines: Ints, header: _Header) -> FileRows | None:
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
        return FileRows(gpu, seconds, clock, values.metrics())

    def _keys(self, cells: TextCells, first: Ints, header: _Header, seconds: Floats) -> tuple[Ints, Flags]:
        """Number rows so that the numbers tell their GPUs apart. Returns the numbers, and flags of the rows that say a
        GPU."""
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
    """Which GPU a row is of where no column says it: rows of one look follow each other closely, as many in each."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last, self._place = -np.inf, -1
        self._size: int | None = None
        self._names: dict[int, int] = {}
        self._in_parts = False

    def places(self, seconds: Floats, names: Ints) -> Ints:
        """Find the place of each row in its burst, int64[n]. ``names`` are numbers that tell the names of GPUs apart. Raises
        ForeignError."""
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
        """Raise ForeignError unless each place in a burst has one name, and, where times are whole seconds, each another
        one."""
        for place in range(int(places.max()) + 1):
            own = names[places == place]
            known = self._names.setdefault(place, int(own[0])) if len(own) else 0
            if (own != known).any():
                raise ForeignError(f"{self._path}: no column says which GPU a row is of, and their order changes")
        alike = len(set(self._names.values())) < len(self._names)
        if alike and not self._in_parts:
            raise ForeignError(f"{self._path}: no column says which GPU a row is of, and times are whole seconds")
