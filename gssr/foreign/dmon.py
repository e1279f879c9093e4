"""The text of ``dcgmi dmon`` and ``nvidia-smi dmon``: columns under a header that comes again, a line for each GPU.

``dcgmi dmon`` says no times, and has empty cells: where the numbers of a line are fewer than the columns, they must stand
under their names to the byte. Its instances (GPU-I) stand beside the GPUs they are part of, which it does not name.
"""

import re
from collections.abc import Hashable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.foreign.cells import Lines, TextCells, key, take_until
from gssr.foreign.names import DCGMI_DMON, SMI_DMON
from gssr.foreign.series import ByteSource, ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note
from gssr.foreign.tables import MOST_GPUS, MetricColumn, RowTable, RowValues
from gssr.foreign.times import Clock, FileRows, stamps
from gssr.store.format.sample_arrays import Samples

_HEADER = re.compile(rb"#\s*(?:Entity\s|(?:Date[\s,]+)?(?:Time[\s,]+)?gpu[\s,])")
_UNITS = re.compile(rb"#\s*(?:YYYYMMDD|HH:MM:SS|Idx)\b")
_GPU, _INSTANCE, _LINK = (np.uint64(key(word)) for word in (b"GPU", b"GPU-I", b"LINK"))
_OTHERS = (b"GPU-CI", b"CPU", b"CPU-CORE", b"SW", b"CX")
_STOPPED = re.compile(rb"dmon was stopped")
_IN_FRONT = 5
"""Words that may stand before a row: a date and a time in brackets."""
_MIG = "MIG instances (GPU-I) stand beside the GPU that they are part of: the file does not say which it is"


class _Header(NamedTuple):
    """A header line.

    ``text``: the line from # on. ``in_front``: the number of words before the #. ``n_columns``: the number of columns
    behind the GPU's number; ``metrics``: those that are read. ``starts``: int64[n_columns], bytes from the # to each
    column's name (empty for nvidia-smi). ``stamp``: how many words of a row are its date and time; ``clock``: whether a
    time is among them.
    """

    text: bytes
    in_front: int
    n_columns: int
    starts: Ints
    metrics: tuple[MetricColumn, ...]
    is_dcgm: bool
    stamp: int
    clock: bool


class _DmonRows(NamedTuple):
    """Rows of a block. ``keys`` int64[n]: 2 * the GPU's or instance's number, + 1 for a MIG instance. ``cells``
    int64[n, columns]: the index of each column's cell, -1 where the row has none. ``begin``, ``end`` int64[n]: the
    bytes of the row's time, equal where it has none."""

    keys: Ints
    cells: Ints
    begin: Ints
    end: Ints


def read(source: ByteSource, told: ImportHints) -> ForeignSeries:
    """Read one log of ``dcgmi dmon`` or ``nvidia-smi dmon``, and follow it while it grows.

    Returns the series before its rows are read. Raises ForeignError at once if the file has no header of either tool,
    and while the pieces of the series are taken if no row can be read.
    """
    lines = Lines(source.chunks)
    blocks = iter(lines)
    begun = take_until(blocks, _HEADER.search)
    found = _HEADER.search(begun[-1]) if begun else None
    if found is None:
        raise ForeignError(f"{source.path}: has no header of dcgmi dmon or nvidia-smi dmon")
    kind = "dcgmi-dmon" if b"Entity" in found[0] else "nvidia-smi-dmon"
    return RowTable(kind, source, told, lambda table: _DmonLog(table, lines).rows(chain(begun, blocks))).series


class _DmonLog:
    """A reader of one log of dmon, whose rows it adds to a table block by block."""

    def __init__(self, table: RowTable, lines: Lines) -> None:
        self._table, self._lines = table, lines
        self._header: _Header | None = None
        self._noted: set[str] = set()

    def rows(self, blocks: Iterator[bytes]) -> Iterator[FileRows | None]:
        """Read whole lines into rows. Yields None whenever there are no more lines at the moment, and nothing for a
        block without rows."""
        for block in blocks:
            if not block:
                yield None
                continue
            cells = TextCells(block, comma=False)
            for first, last, header, plain in self._runs(cells):
                if header.metrics and (made := self._made(cells, np.arange(first, last)[plain[first:last]], header)):
                    yield made
        self._table.rest = self._lines.rest

    def _runs(self, cells: TextCells) -> Iterator[tuple[int, int, _Header, Flags]]:
        """Split a block into ranges of lines under one header.

        Yields the index of the first line of a range and the index behind its last, the header, and flags of all lines
        of the block, True for those that are neither blank nor hold a #. Lines before the file's first header are
        counted as left out.
        """
        sharp = np.flatnonzero(cells.text == 35)
        which = np.unique(np.searchsorted(cells.lines, sharp, "right") - 1)
        plain = cells.count > 0
        plain[which] = False
        begin = 0
        for number in which.tolist():
            line = cells.line(number)
            at = line.index(b"#")
            text = line[at:]
            if (self._header and text == self._header.text) or _UNITS.match(text):
                continue
            if not _HEADER.match(text):
                self._table.odd += 1
                continue
            if self._header:
                yield begin, number, self._header, plain
            else:
                self._table.odd += int(plain[begin:number].sum())
            begin, self._header = number, self._parsed(text, len(line[:at].split()))
        if self._header:
            yield begin, len(cells.lines), self._header, plain
        else:
            self._table.odd += int(plain.sum())

    def _parsed(self, text: bytes, in_front: int) -> _Header:
        """Read a line of column names from its # on, with ``in_front`` words before it. Names that are not known are
        kept for a note."""
        words = list(re.finditer(rb"[^\s,]+", text.replace(b"#", b" ", 1)))
        names = [word[0].decode("utf-8", "replace") for word in words]
        if names[0] == "Entity":
            metrics = self._table.metric_columns(names[1:], DCGMI_DMON)
            starts = np.array([word.start() for word in words[1:]], np.int64)
            return _Header(text, in_front, len(starts), starts, metrics, True, 0, False)
        stamp = names.index("gpu")
        columns = [name.lower() for name in names[stamp + 1 :]]
        metrics, no_starts = self._table.metric_columns(columns, SMI_DMON), np.empty(0, np.int64)
        return _Header(text, in_front, len(columns), no_starts, metrics, False, stamp, "Time" in names[:stamp])

    def _made(self, cells: TextCells, lines: Ints, header: _Header) -> FileRows | None:
        """Make rows of the lines at these indices in ``cells``, which stand under ``header``; None if none of them is a
        row of a GPU. Rows without a time get NaN, and the clock "none" if all are so. Raises ForeignError if the words
        before the rows are no times."""
        found = self._of_dcgm(cells, lines, header) if header.is_dcgm else self._of_smi(cells, lines, header)
        if not len(found.keys):
            return None
        values = RowValues(self._table, cells, header.metrics, lambda place: found.cells[:, place])
        gpu = self._table.gpus(found.keys, lambda row: self._gpu(int(found.keys[row])), values)
        clock: Clock = "none"
        seconds = np.full(len(gpu), np.nan)
        if (stamped := found.end > found.begin).any():
            times, clock = stamps(cells, found.begin[stamped], found.end[stamped], self._table.source.modified)
            seconds[stamped] = times
            if clock == "none":
                raise ForeignError(f"{self._table.source.path}: has words before its rows that are no times")
        return clock, Samples(gpu, seconds, values.metrics())

    def _gpu(self, number: int) -> tuple[Hashable, ForeignGpu]:
        index, is_instance = divmod(number, 2)
        node = self._table.told.host
        return number, ForeignGpu(node, mig=f"GPU-I {index}") if is_instance else ForeignGpu(node, index)

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._table.series.notes.append(Note(text))

    def _of_smi(self, cells: TextCells, lines: Ints, header: _Header) -> _DmonRows:
        """Find the rows of nvidia-smi: lines with as many words as the header says and the GPU's number in its column.
        Other lines are counted as left out."""
        n = header.n_columns
        fits = cells.count[lines] == header.in_front + header.stamp + 1 + n
        first = cells.first[lines]
        place = np.where(fits, first + header.in_front + header.stamp, first)
        number, good = cells.digits(cells.begin[place], cells.end[place])
        fits &= good & (number < MOST_GPUS)
        self._table.odd += int((~fits).sum())
        first, place = first[fits], place[fits]
        at, to = first + header.in_front, place
        if not header.clock:
            at, to = first, first + header.in_front
        has = to > at
        begin = np.where(has, cells.begin[at], 0)
        return _DmonRows(2 * number[fits].astype(np.int64), place[:, None] + 1 + np.arange(n), begin,
                      np.where(has, cells.end[to - 1], begin))  # fmt: skip

    def _of_dcgm(self, cells: TextCells, lines: Ints, header: _Header) -> _DmonRows:
        """Find the rows of dcgmi: lines with GPU or GPU-I and a number, with or without a time before it. Rows with
        fewer values than columns are kept only if each value stands under its column's name. Other lines are counted as
        left out, or named in a note if they are of another entity."""
        first, count, n = cells.first[lines], cells.count[lines], header.n_columns
        entity = np.full(len(lines), -1)
        is_instance = np.zeros(len(lines), bool)
        for at in range(_IN_FRONT):
            word = cells.keys(np.minimum(first + at, len(cells.begin) - 1))
            here = (entity < 0) & (at + 1 < count) & ((word == _GPU) | (word == _INSTANCE))
            entity[here], is_instance[here] = (first + at)[here], word[here] == _INSTANCE
            if (entity >= 0).all():
                break
        place = np.where(entity < 0, first, entity + 1)
        number, good = cells.digits(cells.begin[place], cells.end[place])
        behind = cells.keys(np.minimum(place + 1, len(cells.begin) - 1))
        whole = (place + 1 >= first + count) | (behind != _LINK)
        good &= (entity >= 0) & whole & (number < MOST_GPUS)
        n_values = (count - (place + 1 - first)).astype(np.int64)
        table = np.where((n_values == n)[:, None], place[:, None] + 1 + np.arange(n), -1)
        fewer = np.flatnonzero(good & (n_values != n))
        good[fewer] = self._by_position(cells, header, entity[fewer], n_values[fewer], table, fewer)
        self._count_others(cells, lines[~good])
        if is_instance[good].any():
            self._note(_MIG)
        first, entity = first[good], entity[good]
        has = entity > first
        begin = np.where(has, cells.begin[first], 0)
        return _DmonRows(2 * number[good].astype(np.int64) + is_instance[good], table[good], begin,
                      np.where(has, cells.end[entity - 1], begin))  # fmt: skip

    @staticmethod
    def _by_position(cells: TextCells, header: _Header, entity: Ints, count: Ints, table: Ints, rows: Ints) -> Flags:
        """Assign the values of rows with empty cells to columns by their byte positions.

        Args:
            entity: the cell with the word GPU of each row, int64[n].
            count: the number of values of each row, int64[n].
            table: int64[all rows, columns]; the cells found are set in its rows ``rows``.
            rows: indices of these rows in ``table``, int64[n].

        Returns bool[n]: True where every value of the row stands exactly under a column's name.
        """
        count = np.where(count < len(header.starts), count, 0)
        which = np.repeat(np.arange(len(rows)), count)
        each = (entity + 2)[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        at = cells.begin[each] - cells.begin[entity][which]
        places = np.minimum(np.searchsorted(header.starts, at), len(header.starts) - 1)
        fits = header.starts[places] == at
        table[rows[which[fits]], places[fits]] = each[fits]
        good: Flags = (np.bincount(which[fits], minlength=len(rows)) == count) & (count > 0)
        return good

    def _count_others(self, cells: TextCells, lines: Ints) -> None:
        """Count the lines at these indices as left out, or note their kind if they are of another entity (a CPU, a
        link)."""
        for line in lines.tolist():
            words = cells.line(line).split()
            kind = next((word.decode() for word in words[:_IN_FRONT] if word in _OTHERS), "")
            if b"LINK" in words:
                kind = "LINK"
            if kind:
                self._note(f"rows of other kinds than GPU and GPU-I are left out: {kind}")
            elif b"ID" not in words[:_IN_FRONT] and not _STOPPED.search(cells.line(line)):
                self._table.odd += 1
