"""Metrics of Prometheus as text, also OpenMetrics: one scrape, or many behind each other, with times or without; and what
has the values of each metric together, as GSSR's own export.

Read line by line, but what stands before the value is looked up as it is: the same series come with each scrape.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from time import time
from typing import Literal

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.foreign.cells import TextCells
from gssr.foreign.prometheus_series import NOTHING, SeriesTable
from gssr.foreign.series import ByteSource, ForeignError, ForeignSeries, ImportHints, Note
from gssr.foreign.times import shift_times, until_first
from gssr.store.format.limits import LATEST
from gssr.store.format.sample_arrays import Samples

_SAMPLE = re.compile(
    rb'([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{((?:[^"{}]*"(?:[^"\\]|\\.)*")*[^"{}]*)\})?\s*([^\s{}#]+)(?:\s+([^\s{}#]+))?\s*(?:#.*)?',
    re.DOTALL,
)
_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)\s*')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BLANKS_ALONE_PART = bytes(b if (b > 32 and b != 44) or b in b" \t\r\n" else 95 for b in range(256))
"""What else would part cells stands for no number."""
_MOST_KNOWN = 1 << 20
"""Beginnings of lines that are remembered."""
_MILLISECONDS = 1e11
"""Times above this are in ms, below in s: in s it is in the year 5138, in ms 1973."""
_LATE = 600.0
"""s: scrapes of many targets tell of times that are so far apart, at most."""
_ENOUGH = 1 << 17
"""Values that are made rows of at a time, at least."""
_HEAD = -2
"""In place of the number of a series: a line that says what type a metric is."""
_INTERVAL = 1.0
"""s between scrapes without times, where nobody tells."""


def read(source: ByteSource, told: ImportHints) -> ForeignSeries:
    """Read a text file of Prometheus metrics. Returns the series before its rows are read. Taking the pieces raises
    ForeignError if the file cannot be read or holds no metric of a GPU; lines that are no samples are left out, and
    counted in a note."""
    series = ForeignSeries("prometheus", iter(()), sampling_seconds=told.interval)
    series.pieces = _Reader(source, told, series).pieces()
    return series


class LineReader:
    """Reads samples from lines, and remembers the beginnings of lines, as the same series come with each scrape. Blocks
    must come in the file's order.

    ``names``: the metric of each series, by the series' number. ``n_bad``: lines so far that are no samples.
    """

    def __init__(self, number_of: Callable[[str, Mapping[str, str]], int]) -> None:
        """``number_of``: called with the name and the labels of a series, returns its number, which is the next one for
        a new series, or NOTHING (-1) for one that is no metric of a GPU."""
        self._number_of = number_of
        self._known: dict[bytes, int] = {}
        self.names: list[str] = []
        self.n_bad = 0
        self._is_headed = False

    def samples(self, block: bytes) -> tuple[Ints, Floats, Floats, Flags]:
        """Read the samples of a block of whole lines. Returns the numbers of their series, int64[n], values, float64[n],
        times in unix s, float64[n] (NaN without one), and whether a line with the metric's type stands before each,
        bool[n]."""
        known, series, rests, heads = self._known, [], [], [0] if self._is_headed else []
        for line in block.split(b"\n"):
            head, _, rest = line.rpartition(b"} ")
            own = known.get(head or line)
            if own is None:
                own, rest = self._new(line, head)
            if own >= 0:
                series.append(own)
                rests.append(rest)
            elif own == _HEAD:
                heads.append(len(series))
        headed = np.zeros(len(series) + 1, np.bool_)
        headed[heads] = True
        self._is_headed = bool(headed[-1])
        if not series:
            return np.empty(0, np.int64), np.empty(0), np.empty(0), headed[:-1]
        cells = TextCells(b"\n".join(rests).translate(_BLANKS_ALONE_PART) + b"\n", comma=False)
        sound = (cells.count == 1) | (cells.count == 2)
        first, is_timed = cells.first[:-1][sound], cells.count[sound] == 2
        values, times = cells.numbers(first), np.full(len(first), np.nan)
        times[is_timed] = _seconds(cells.numbers(first[is_timed] + 1))
        self.n_bad += cells.unread + int((~sound).sum())
        return np.array(series, np.int64)[sound], values, times, headed[:-1][sound]

    def _new(self, whole: bytes, head: bytes) -> tuple[int, bytes]:
        """Find the series of a line that was not seen before. ``head`` is the line up to its labels' end.

        Returns the series' number, NOTHING (-1) for a line that is no sample of a known metric, or _HEAD (-2) for a
        line with a metric's type; and the value and time behind the labels, b"" if it is no sample.
        """
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        line = whole.strip()
        if not line or line.startswith(b"#"):
            own = self._known[head or whole] = _HEAD if line.startswith(b"# TYPE ") else NOTHING
            return own, b""
        found = _SAMPLE.fullmatch(line)
        labels = None if found is None else split_labels(found[2] or b"")
        if found is None or labels is None:
            self.n_bad += 1
            return NOTHING, b""
        name = found[1].decode()
        own = self._number_of(name, labels) if labels else NOTHING
        if own == len(self.names):
            self.names.append(name)
        if head and b"#" not in line:
            self._known[head] = own
        return own, b" ".join(filter(None, found.group(3, 4)))


def read_seconds(word: bytes) -> float | None:
    """Read one time in s or ms. Returns unix s; None for what is no time."""
    try:
        found = float(_seconds(np.array([float(word)]))[0])
    except ValueError:
        return None
    return None if np.isnan(found) else found


def _seconds(times: Floats) -> Floats:
    """Convert times in s or ms to s; NaN for what is no time."""
    seconds = np.where(times > _MILLISECONDS, times / 1e3, times)
    return np.where((seconds >= 0) & (seconds <= LATEST), seconds, np.nan)


def split_labels(text: bytes) -> dict[str, str] | None:
    """Parse the labels between braces. None if the text is no list of labels; empty if there are none."""
    found, at = {}, 0
    text = text.strip()
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None:
            return None
        value = label[2].decode("utf-8", "replace")
        found[label[1].decode()] = _ESCAPE.sub(_unescaped, value) if "\\" in value else value
        at = label.end()
    return found


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


class _Reader:
    """Turns samples into rows. Without times each scrape is one moment, and a new one begins where a series comes again.
    With times a row is complete when later scrapes have come, or, where metrics stand one behind the other, at the end."""

    def __init__(self, source: ByteSource, told: ImportHints, series: ForeignSeries) -> None:
        self._source, self._told, self._series = source, told, series
        self._table = SeriesTable(series, told)
        self._lines = LineReader(self._table.add)
        self._held: list[tuple[Ints, Floats, Floats]] = []
        """Series, values, and times, or numbers of scrapes."""
        self._n_held = self._n_rows = 0
        self._enough = _ENOUGH
        self._has_times: bool | None = None
        self._n_timeless = self._n_late = 0
        self._written_until = -np.inf
        self._order: Literal["", "scrapes", "metrics"] = ""
        self._first_name = ""
        self._scrape = 0
        self._in_scrape = np.zeros(0, np.bool_)
        """By series, whether the scrape that is open has it."""
        self._live_from: tuple[int, float] | None = None
        """The newest scrape of those that were there at first, and when it was, unix s."""
        self._arrived: dict[int, float] = {}
        """When later ones came, s after that."""

    def pieces(self) -> Iterator[Samples]:
        """Yield all rows, ascending in time. Raises ForeignError if the file has no metric of a GPU."""
        rows = self._rows()
        every: Iterator[Samples | None] = chain(list(until_first(rows)), rows)
        if not self._has_times and self._told.start is None:
            every = shift_times(every, lambda last: self._source.modified - last)
        yield from (piece for piece in every if piece is not None)

    def _rows(self) -> Iterator[Samples | None]:
        """Yield rows, and None whenever there is nothing new at the moment. If the file has no times and the user gives
        none, times begin at 0."""
        rest, idle = b"", 0
        for chunk in self._source.chunks:
            if not chunk:
                idle += 1
                yield from self._out(is_end=bool(self._has_times) or idle > 1)
                if self._n_rows and self._live_from is None:
                    self._live_from = self._scrape - 1, self._source.modified
                yield None
                continue
            idle = 0
            block, end, after = chunk.rpartition(b"\n")
            if not end:
                rest += chunk
                continue
            self._take(rest + block)
            rest = after
            if self._n_held >= self._enough:
                yield from self._out(is_end=False)
        yield from self._out(is_end=True)
        if rest.strip() and not rest.lstrip().startswith(b"#"):
            self._note("the last line has no end, and may be cut off: it is left out")
        self._finish()

    def _take(self, block: bytes) -> None:
        """Hold the samples of a block of whole lines. Samples without a time are left out if the file has times."""
        own, values, times, headed = self._lines.samples(block)
        timed = ~np.isnan(times)
        if self._has_times is None and len(own):
            self._has_times = bool(timed.any())
        if self._has_times:
            self._n_timeless += int((~timed).sum())
            own, values, times = own[timed], values[timed], times[timed]
        if not len(own):
            return
        if self._has_times:
            self._tell_order(own)
        else:
            times = self._scrapes(own, headed).astype(np.float64)
        self._held.append((own, values, times))
        self._n_held += len(own)

    def _tell_order(self, own: Ints) -> None:
        """Find out whether the file has scrape after scrape or metric after metric: the former if its first metric
        comes again behind another one."""
        if self._order == "scrapes":
            return
        names = self._lines.names
        self._first_name = self._first_name or names[own[0]]
        is_first = np.array([name == self._first_name for name in names])[own]
        other = 0 if self._order == "metrics" else int(np.argmin(is_first))
        if not is_first.all():
            self._order = "scrapes" if is_first[other:].any() else "metrics"

    def _scrapes(self, own: Ints, headed: Flags) -> Ints:
        """Number the scrapes of a block's samples, whose series are ``own`` [n], in the file's order: returns the
        number of each sample's scrape, int64[n], never falling, and goes on from the block before. A new scrape begins
        where a series comes again. It also begins behind a line with a metric's type (``headed`` [n]) if a GPU follows
        whose metric the scrape already has, whatever the labels."""
        n = len(self._lines.names)
        in_scrape = np.zeros(n, np.bool_)
        in_scrape[: len(self._in_scrape)] = self._in_scrape
        before = _before(own, in_scrape)
        cells = self._table.cells()
        if headed.any() and len(np.unique(cells)) < len(cells):
            of_cell = np.zeros(int(cells.max()) + 1, np.bool_)
            of_cell[cells[np.flatnonzero(in_scrape)]] = True
            before = np.where(headed, np.maximum(before, _before(cells[own], of_cell)), before)
        latest = np.maximum.accumulate(before)
        begins: list[int] = []
        begin = -1
        while (at := int(np.searchsorted(latest, begin))) < len(own):
            begins.append(at)
            begin = at
        numbers = self._scrape + np.searchsorted(begins, np.arange(len(own)), side="right")
        if self._live_from is not None and self._told.interval is None:
            first = self._scrape + bool(in_scrape.any())
            self._arrived |= dict.fromkeys(range(first, self._scrape + len(begins) + 1), time() - self._live_from[1])
        self._scrape += len(begins)
        self._in_scrape = np.zeros(n, np.bool_) if begins else in_scrape
        self._in_scrape[own[max(begin, 0) :]] = True
        return numbers

    def _out(self, is_end: bool) -> Iterator[Samples]:
        """Yield the rows that are complete, or, with ``is_end``, all that is held. Rows that come later than others
        that were already yielded are counted as left out."""
        if not self._held or (self._has_times and self._order != "scrapes" and not is_end):
            return
        own, values, times = (np.concatenate(column) for column in zip(*self._held, strict=True))
        if self._has_times:
            late = times < self._written_until
            until = np.inf if is_end else max(float(times.max()) - _LATE, self._written_until)
            self._n_late += int(late.sum())
            out, left = (times < until) & ~late, times >= until
            self._written_until = until if until < np.inf else float(np.nextafter(times.max(), np.inf))
            moments = times
        else:
            out = times < np.inf if is_end else times < self._scrape
            left, moments = ~out, self._moments(times)
        self._held, self._n_held = [(own[left], values[left], times[left])], int(left.sum())
        self._enough = max(_ENOUGH, 2 * self._n_held)
        for piece in self._table.pieces(own[out], moments[out], values[out]):
            self._n_rows += len(piece.time)
            yield piece
        if is_end and not self._has_times:  # what still comes is another one
            self._scrape, self._in_scrape = self._scrape + 1, np.zeros(0, np.bool_)
        if is_end:
            self._held = []

    def _moments(self, scrapes: Floats) -> Floats:
        """Return the time in s of each scrape number, float64[n]: from the user's start, or 0, at the user's interval,
        or 1 s. A scrape that came while the file was being followed gets the time at which it came."""
        begin, interval = self._told.start or 0.0, self._told.interval or _INTERVAL
        numbers, place = np.unique(scrapes, return_inverse=True)
        newest = begin + interval * (self._live_from[0] if self._live_from is not None else 0)
        late = {number: newest + after for number, after in self._arrived.items()}
        return np.array([late.get(int(number), begin + number * interval) for number in numbers])[place]

    def _note(self, text: str) -> None:
        self._series.notes.append(Note(text))

    def _finish(self) -> None:
        """Add notes about what was assumed and left out. Raises ForeignError if there was no row."""
        self._table.finish()
        told = [name for name, value in zip(("--start", "--interval"), self._told, strict=False) if value is None]
        if not self._n_rows:
            raise ForeignError(f"{self._source.path}: holds no metric of a GPU that GSSR knows")
        if not self._has_times and self._scrape == 1 and self._told.start is None:
            self._note("it is one scrape, without a time, which is taken to be that of the file: --start tells another")
        elif not self._has_times and self._scrape > 1 and told:
            interval = self._told.interval or _INTERVAL
            last = "" if self._told.start is not None else ", the last one as old as the file"
            self._note(f"its {self._scrape:,} scrapes have no times: they are taken to be {interval:g} s apart{last}: "
                       f"{' and '.join(told)} tell better")  # fmt: skip
        for n, what in (
            (self._lines.n_bad, "are no samples"),
            (self._n_timeless, "have no time, as others do"),
            (self._n_late, f"come more than {_LATE:g} s behind their time"),
        ):
            if n:
                self._note(f"{n:,} lines that {what} are left out")


def _before(keys: Ints, is_open: Flags) -> Ints:
    """Return for each key the index of its previous occurrence, int64[n]. Without one: -1 if ``is_open[key]``, else -2."""
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    before = np.where(is_open[keys], -1, -2)
    before[order[again + 1]] = order[again]
    return before
