"""When rows of text were measured: times of a zone that has summer, without a date, or none at all; and rows in the order of
time, each GPU once at a time."""

import re
import tempfile
from calendar import monthrange, timegm
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import chain
from typing import Literal, TypeVar

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.foreign.cells import TextCells
from gssr.foreign.series import ByteSource, ForeignSeries, ImportHints, Note
from gssr.store.format.sample_arrays import Samples

Clock = Literal["none", "day", "local", "unix"]
"""What a file says of a row's time: nothing; the time of a day, no date; that on the wall, no zone; seconds since 1970."""


FileRows = tuple[Clock, Samples]
"""Rows as a file has them: what it says of their times, and a piece whose times are seconds since midnight (clock "day") or
since 1970 ("local", "unix"), NaN where one cannot be read, and meaningless if the clock is "none"."""
_Some = TypeVar("_Some")
_DAY = 86400.0
_SLOT = 900
"""No zone changes its clock but at a multiple of so many seconds."""
_BACK_SECONDS = 1.0
"""A time no further before the one above it is put at that one: clocks that are kept right are set back so far."""
_FOLD_SECONDS = 60.0
"""A clock that is set back this far in an hour that comes twice has begun it again."""
_IN_MEMORY = 64 << 20
"""Bytes of rows whose time is not yet known that are held in memory; more are held in a temporary file."""

_LONGEST = 64
"""Bytes of a time."""
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d")
_EPOCH = re.compile(rb"\d{9,10}(?:\.\d+)?")
_ZONED = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)")
_LOCAL = re.compile(rb"(\d[\d/-]{7,9}|[A-Z][a-z]{2} +\d\d?)[T ]+(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_DATES = (
    re.compile(rb"(?P<y>\d{4})([-/]?)(?P<m>\d\d)\2(?P<d>\d\d)"),
    re.compile(rb"(?P<m>\d\d)-(?P<d>\d\d)-(?P<y>\d{4})"),
    re.compile(rb"(?P<name>[A-Z][a-z]{2}) +(?P<d>\d\d?)"),
)
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")


def stamps(cells: TextCells, begin: Ints, end: Ints, newest: float) -> tuple[Floats, Clock]:
    """Read the times between ``begin`` and ``end`` (bytes of a block, int64[n]), all in the form of the first that is a
    time.

    Returns the times in seconds, float64[n], NaN where one has another form, and what they count from (see Clock);
    "none", with NaN throughout, if none of the first nine is a time. A date without a year is put into the last year in
    which it is not more than a day after ``newest``, unix s.
    """
    bracket = (cells.text[begin] == 91) & (cells.text[end - 1] == 93)
    begin, end = begin + bracket, end - bracket
    words = (
        cells.raw[at : min(to, at + _LONGEST)].strip() for at, to in zip(begin[:9].tolist(), end.tolist(), strict=False)
    )
    word = next((word for word in words if any(form.search(word) for form in (_EPOCH, _ZONED, _CLOCK))), b"")
    if _EPOCH.fullmatch(word):
        return cells.numbers_at(begin, end), "unix"
    if _ZONED.fullmatch(word):
        places = zip(begin.tolist(), end.tolist(), strict=True)
        return np.array([_zoned(cells.raw[at : min(to, at + _LONGEST)].strip()) for at, to in places]), "unix"
    found = _CLOCK.search(word)
    if not found or (found.start() and not _LOCAL.fullmatch(word)):
        return np.full(len(begin), np.nan), "none"
    seconds = _of_day(cells, begin + found.start(), end)
    if not found.start():
        return seconds, "day"
    seconds += _days(cells, begin, found.start(), newest)
    for at in np.flatnonzero(np.isnan(seconds)).tolist():
        seconds[at] = _local(cells.raw[begin[at] : min(end[at], begin[at] + _LONGEST)].strip(), newest)
    return seconds, "local"


def _of_day(cells: TextCells, begin: Ints, end: Ints) -> Floats:
    """Read HH:MM:SS, with up to 9 digits behind a point or a comma, as seconds since midnight; NaN for anything else."""
    hour, good = cells.digits(begin, begin + 2)
    minute, good_minute = cells.digits(begin + 3, begin + 5)
    second, good_second = cells.digits(begin + 6, begin + 8)
    good &= good_minute & good_second & (cells.text[begin + 2] == 58) & (cells.text[begin + 5] == 58)
    good &= (hour < 24) & (minute < 60) & (second <= 60)
    seconds = hour * 3600 + minute * 60 + second
    behind = np.maximum(end - begin - 9, 0)
    if behind.any():
        part, good_part = cells.digits(end - behind, end)
        point = cells.text[begin + 8]
        seconds = seconds + np.where(behind > 0, part / 10.0 ** np.minimum(behind, 15), 0.0)
        good &= (behind == 0) | (good_part & (behind < 10) & ((point == 46) | (point == 44)))
    return np.where(good & ((behind > 0) | (end - begin == 8)), seconds, np.nan)


def _days(cells: TextCells, begin: Ints, width: int, newest: float) -> Floats:
    """Read dates of ``width`` bytes as seconds since 1970; NaN for what is no date. Each change of the text is parsed
    once, as few rows have another date than the row before. ``newest`` as in ``stamps``."""
    if width > 16:
        return np.full(len(begin), np.nan)
    texts = [cells.words[begin + max(width - 8, 0)]]
    if width > 8:
        texts.append(cells.words[begin])
    elif width < 8:
        texts[0] = texts[0] << np.uint64(64 - 8 * width)
    new = np.ones(len(begin), bool)
    new[1:] = np.any([text[1:] != text[:-1] for text in texts], axis=0)
    at = np.flatnonzero(new)
    days = [_day(cells.raw[place : place + width].strip(b" \tT"), newest) for place in begin[at].tolist()]
    found: Floats = np.array(days)[np.cumsum(new) - 1]
    return found


@lru_cache(maxsize=256)
def _day(word: bytes, newest: float) -> float:
    """Parse a date as seconds since 1970 at its midnight, NaN if it is none. ``newest`` as in ``stamps``."""
    found = next((match for date in _DATES if (match := date.fullmatch(word))), None)
    if found is None:
        return np.nan
    told = found.groupdict()
    try:
        month = int(told["m"]) if told.get("m") else _MONTHS.index(told["name"]) + 1
        year = int(told["y"]) if told.get("y") else datetime.fromtimestamp(newest + _DAY).year
        if not (1 <= month <= 12 and 1970 <= year < 9999):
            return np.nan
        if not told.get("y") and timegm((year, month, int(told["d"]), 0, 0, 0)) > newest + _DAY:
            year -= 1
        if not 1 <= int(told["d"]) <= monthrange(year, month)[1]:
            return np.nan
        return float(timegm((year, month, int(told["d"]), 0, 0, 0)))
    except (ValueError, OverflowError, OSError):
        return np.nan


def _local(word: bytes, newest: float) -> float:
    """Parse a date and time without a zone as seconds since 1970 on the wall, NaN if it is none. ``newest`` as in
    ``stamps``."""
    found = _LOCAL.fullmatch(word)
    if not found or int(found[2]) > 23 or int(found[3]) > 59 or int(found[4]) > 60:
        return np.nan
    clock = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
    return _day(found[1], newest) + clock + float(b"0." + (found[5] or b"0"))


def _zoned(word: bytes) -> float:
    """Parse a date and time with a zone as unix s, NaN if it is none."""
    if not (found := _ZONED.fullmatch(word)):
        return np.nan
    zone = found[4].replace(b":", b"")
    east = 0 if zone == b"Z" else int(zone[:1] + b"1") * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)
    return _local(b" ".join(found.group(1, 2)), 0.0) + float(b"0." + (found[3] or b"0")) - east


class LocalTime:
    """Converts times on the wall to unix times, block after block in the file's order: the last time of a block is
    remembered for the next. In the hour that comes twice in autumn, times are of the second one from where they step
    back by more than _FOLD_SECONDS, and of the first before.

    ``set_back``: unix times at which the clock was seen to be set back. ``twice``: unix time of the first row in an
    hour that comes twice, None if there was none.
    """

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._last = -np.inf
        self._again = False
        self.set_back: list[float] = []
        self.twice: float | None = None

    def unix(self, seconds: Floats) -> Floats:
        """Convert the next block's times to unix s, float64[n]. ``seconds``: since 1970 on the wall, finite,
        float64[n], in the file's order. Call it once for each block, in order. NaN where the zone cannot tell."""
        slots = np.floor(seconds / _SLOT).astype(np.int64)
        new = np.diff(slots, prepend=-1) != 0
        offsets = np.array([_offsets(slot * _SLOT, self._zone) for slot in slots[new].tolist()]).reshape(-1, 2)
        first, second = offsets[np.cumsum(new) - 1].T
        twice = second > first
        found: Floats = seconds + first
        if twice.any():
            self.twice = self.twice or float(found[np.argmax(twice)])
            back = twice & (np.diff(seconds, prepend=self._last) < -_FOLD_SECONDS)
            again = self._again
            for at in np.flatnonzero(twice).tolist():
                if back[at] and not again:
                    self.set_back.append(float(seconds[at] + second[at]))
                again = bool(back[at] or (again and (at == 0 or twice[at - 1])))
                if again:
                    found[at] = seconds[at] + second[at]
            self._again = again and bool(twice[-1])
        elif len(twice):
            self._again = False
        self._last = float(seconds[-1]) if len(seconds) else self._last
        return found


@lru_cache(maxsize=4096)
def _offsets(wall: int, zone: tzinfo | None) -> tuple[float, float]:
    """Return what to add to a time on the wall (s since 1970) to get unix s, if it is the first and if it is the second
    time that the clock shows it. Both are equal outside of that hour, NaN if the zone cannot tell."""
    try:
        there = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=wall)
        return there.timestamp() - wall, there.replace(fold=1).timestamp() - wall
    except (OverflowError, ValueError, OSError):
        return np.nan, np.nan


class Ticks:
    """Finds the rows that were sampled in one look at the GPUs. In each look GPUs come in the same order, though some
    may be missing; a look ends when a GPU comes again or one that comes earlier in the order."""

    def __init__(self) -> None:
        self._order: list[int] = []
        self._last, self._done = -1, 0

    def of(self, gpu: Ints) -> Ints:
        """Return the number of the look that each row belongs to, int64[n], from 0 on, never falling. Calls go on from
        each other."""
        if not len(gpu):
            return gpu
        found, first = np.unique(gpu, return_index=True)
        for at in np.sort(first[~np.isin(found, self._order)]).tolist():
            before = int(gpu[at - 1]) if at else self._last
            self._order.insert(self._order.index(before) + 1 if self._order else 0, int(gpu[at]))
        place = np.empty(max(self._order) + 1, np.int64)
        place[self._order] = np.arange(len(self._order))
        places = place[gpu]
        before = place[self._last] if self._last >= 0 else -1
        looks: Ints = np.cumsum(np.diff(places, prepend=before) <= 0) + self._done
        self._last, self._done = int(gpu[-1]), int(looks[-1])
        return looks


class Order:
    """Puts rows into ascending time, with each GPU once at a time. Counts ``moved`` rows (up to a second too early, put
    at the time of the row above), ``left_out`` ones (earlier still), and ``repeated`` ones (the same GPU and time
    again)."""

    def __init__(self) -> None:
        self._last = -np.inf
        self._of_gpu: Floats = np.empty(0)
        self.moved = self.left_out = self.repeated = 0

    def ordered(self, gpu: Ints, time: Floats, values: dict[str, Floats]) -> Samples:
        """Return the rows with ascending times, which also follow those of earlier calls: pass the pieces of a file in
        order. ``gpu``: positions, int64[n]; ``time``: finite, s, float64[n]; ``values``: float64[n] by metric. Rows
        that step back by more than a second are left out, and so are those of a GPU that has a row at this time
        already; the result may have no rows."""
        above = np.maximum.accumulate(np.concatenate(([self._last], time)))[:-1]
        kept = time >= above - _BACK_SECONDS
        self.left_out += int((~kept).sum())
        self.moved += int((kept & (time < above)).sum())
        time = np.maximum(time, above)
        if len(gpu) and gpu.max() >= len(self._of_gpu):
            more = np.full(int(gpu.max()) + 1 - len(self._of_gpu) + 16, -np.inf)
            self._of_gpu = np.concatenate((self._of_gpu, more))
        places = np.flatnonzero(kept)
        places = places[np.argsort(gpu[places].astype(np.int16), kind="stable")]
        whose, when = gpu[places], time[places]
        earlier = self._of_gpu[whose]
        same = whose[1:] == whose[:-1]
        earlier[1:][same] = when[:-1][same]
        again = when <= earlier
        self.repeated += int(again.sum())
        kept[places[again]] = False
        self._of_gpu[whose] = when  # the last of each stays
        if len(time):
            self._last = float(time[-1])
        return Samples(gpu, time, values).of(kept)


def pieces_of(
    rows: Iterator[FileRows | None], series: ForeignSeries, source: ByteSource, told: ImportHints
) -> Iterator[Samples]:
    """Date the rows of a file and put them in order. Yields pieces with unix times; None from ``rows`` (nothing new at
    the moment) is passed over. Adds notes on what was assumed and left out, and sets ``series.sampling_seconds`` if the
    file has no times."""
    begun = list(until_first(rows))
    clock: Clock = begun[-1][0] if begun and begun[-1] is not None else "none"
    local, order = LocalTime(told.timezone), Order()
    if clock == "none":
        series.sampling_seconds = told.interval or 1.0
    timed = _timed(chain(begun, rows), clock, series, told)
    if clock == "day" or (clock == "none" and told.start is None):
        timed = shift_times(timed, lambda last: _moved(last, clock, source, told))
        series.notes.append(Note(_NO_TIMES.format(series.sampling_seconds) if clock == "none" else _NO_DATE))
    elif clock == "none" and told.interval is None:
        series.notes.append(Note("the file says no times: assumed 1 s between samples (--interval)"))
    if clock in ("local", "day") and told.timezone is None:
        here = datetime.now().astimezone().tzname()
        series.notes.append(Note(f"the file says no time zone: this machine's is taken, {here} (--timezone)"))
    for piece in timed:
        if piece is not None and len(piece.gpu):
            time = local.unix(piece.time) if clock in ("day", "local") else piece.time
            dated = np.isfinite(time)
            made = order.ordered(piece.gpu[dated], time[dated], {name: v[dated] for name, v in piece.values.items()})
            if len(made.gpu):
                yield made
    for when in local.set_back:
        series.notes.append(Note("the clock was set back here: times after it are those of the second such hour", when))
    if local.twice is not None and not local.set_back:
        series.notes.append(
            Note("the clock is set back here: of an hour that comes twice the first is taken", local.twice)
        )
    for count, what in (
        (order.left_out, "lie before rows above them, and are left out (a wrong --timezone, or files put together?)"),
        (order.moved, "lie up to a second before the row above them, and are put at its time"),
        (order.repeated, "have the time of an earlier row of the same GPU, and are left out"),
    ):
        if count:
            series.notes.append(Note(f"{count:,} rows {what}"))


_NO_TIMES = (
    "the file says no times: its last rows get the time of its last change, with {:g} s between samples (--start, "
    "--interval)"
)
_NO_DATE = "the file says no dates: its last row gets the last such time before the file was written (--start)"


def until_first(rows: Iterator[_Some | None]) -> Iterator[_Some | None]:
    """Yield items up to and including the first that is not None."""
    for each in rows:
        yield each
        if each is not None:
            return


def _timed(
    rows: Iterator[FileRows | None], clock: Clock, series: ForeignSeries, told: ImportHints
) -> Iterator[Samples | None]:
    """Convert rows to pieces with seconds as ``clock`` counts them: unix or wall time since 1970, since the first
    midnight, or, if the file has no times, since the first look. Yields None for None. Rows without a readable time are
    left out and noted."""
    ticks, unread, last, n_midnights = Ticks(), 0, -np.inf, 0
    for each in rows:
        if each is None:
            yield None
            continue
        own, piece = each
        if clock == "none":
            looks = ticks.of(piece.gpu).astype(np.float64) * (series.sampling_seconds or 1.0)
            yield Samples(piece.gpu, looks + (told.start or 0.0), piece.values)
            continue
        read = np.isfinite(piece.time) if own == clock else np.zeros(len(piece.gpu), bool)
        unread += int((~read).sum())
        seconds: Floats = piece.time[read]
        if clock == "day" and len(seconds):  # more than half a day before the row above it is after another midnight
            passed = np.cumsum(np.diff(seconds, prepend=last) < -_DAY / 2) + n_midnights
            last, n_midnights = float(seconds[-1]), int(passed[-1])
            seconds = seconds + _DAY * passed
        yield Samples(piece.gpu[read], seconds, {name: column[read] for name, column in piece.values.items()})
    if unread:
        series.notes.append(Note(f"{unread:,} rows have no time that can be read, and are left out"))


def _moved(last: float, clock: Clock, source: ByteSource, told: ImportHints) -> float:
    """Return the seconds to add to all times of a file, given its newest one, ``last``. Looks without times ("none")
    are shifted so that the last is as old as the file. Times of a day ("day") are shifted by whole days: to the day of
    the user's start or, without one, to the last day on which the newest is not more than a minute after the file's
    modification."""
    if clock == "none":
        return source.modified - last
    at = source.modified if told.start is None else told.start
    wall = datetime.fromtimestamp(at, told.timezone).replace(tzinfo=None)
    day = float(timegm(wall.timetuple()))
    if told.start is not None:
        return float(np.floor(day / _DAY) * _DAY)
    return float(np.floor((day + 60.0 - last) / _DAY) * _DAY)


def shift_times(pieces: Iterator[Samples | None], shift: Callable[[float], float]) -> Iterator[Samples | None]:
    """Shift the times of pieces by ``shift(newest time)``, in s. All pieces up to the first None (nothing new at the
    moment) that follows a piece, or up to the end, are held back, on disk if they are many, since the newest time is
    known only then. Later ones are shifted by the same as they come, and None stays None."""
    held: list[tuple[str, ...]] = []
    last = -np.inf
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        for piece in pieces:
            if piece is None:
                if held:
                    break
                continue
            if len(piece.gpu):
                last = float(piece.time[-1])
                held.append(tuple(piece.values))
                for array in (piece.gpu, piece.time, *piece.values.values()):
                    file.write(len(array).to_bytes(8, "little") + array.tobytes())
        file.seek(0)
        moved = shift(last) if held else 0.0
        for names in held:
            data = [file.read(8 * int.from_bytes(file.read(8), "little")) for _ in range(len(names) + 2)]
            columns = [np.frombuffer(column) for column in data[1:]]
            yield Samples(
                np.frombuffer(data[0], np.int64), columns[0] + moved, dict(zip(names, columns[1:], strict=True))
            )
    for piece in pieces:
        yield piece and Samples(piece.gpu, piece.time + moved, piece.values)
