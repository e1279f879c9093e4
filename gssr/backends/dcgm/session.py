"""One connection's life: watch, read, and turn what was read into rows, from connecting to losing the hostengine."""

import math
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import mul
from typing import NamedTuple

from gssr.backends.base import BackendError, Change, Row
from gssr.backends.dcgm import codes
from gssr.backends.dcgm.bins import LATE_SECONDS, Bins, Value
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.entities import Entity, Sampled
from gssr.backends.dcgm.read import Reader, Sample, sample_of
from gssr.backends.dcgm.watch import Watches
from gssr.metrics import INDEX, METRICS

LOST_SECONDS = 3.0
LOST_INTERVALS = 5
"""A GPU without any value for the longer of the two is lost."""
STEP_SECONDS = 0.5
"""A hostengine's clock that moves this much was set."""
TELLING_SECONDS = 1.5
TELLING_INTERVALS = 3
"""After the longer of the two, metrics that never had a value are named with their reason: of profiling metrics the first
value comes after two intervals at most."""

_MICRO = 1_000_000
_BY_FIELD = {metric.dcgm: metric for metric in METRICS if metric.dcgm is not None}
_PERCENT = (203, 204)
_HOPPER = 9
"""Its compute capability, and that of newer ones, is at least this."""
_LOST = {f"error {codes.GPU_IS_LOST}", f"error {codes.RESET_REQUIRED}"}
_CURES = {
    "not permitted": ": ask for profiling counters to be opened to all users on this node",
    "no value": ": profiling counters may not be permitted to the hostengine's user (ask for them to be opened to all users "
    "on this node), or, before Hopper, be held by another profiler (Nsight, CUPTI, dcgmi profile --pause)",
}
"""What to do where profiling metrics have no value, by reason."""


_MODULE = "that takes the package datacenter-gpu-manager-4-proprietary where DCGM is a 4"
_NO_MODULE = f"this hostengine can't do it: {_MODULE}"
_EITHER = f"these GPUs need no pausing (Hopper and newer), or this hostengine can't do it: {_MODULE}"


_NOT_BESIDE = (
    "dcgm: no profiling metrics (SM, tensor, memory activity): before Hopper reading them would take the counters from a "
    "recording or a profiler"
)


def _from_hopper_on(capability: str) -> bool:
    return int(capability.partition(".")[0]) >= _HOPPER


class SessionOptions(NamedTuple):
    """How to sample: ``interval`` in s; ``pause``: leave the profiling counters to others; ``beside``: take nothing from
    others that they could miss."""

    interval: float
    pause: bool = False
    beside: bool = False


class Session:
    """The watches on one engine. ``notes`` are lines to be said; ``measures`` what can have values."""

    def __init__(
        self,
        engine: Engine,
        found: Sequence[Sampled | None],
        lost: list[bool],
        options: SessionOptions,
        clock: Callable[[], float],
    ) -> None:
        """Watch ``found``: by position in the recording; None is a GPU that this engine doesn't have. ``lost`` says which
        are known to be lost, and is kept up to date. ``clock`` is the recording's, unix s. Raises EngineError, and leaves
        nothing behind."""
        self.notes: list[str] = []
        self._engine = engine
        self._options = options
        self._there = [each for each in found if each is not None]
        self._positions: dict[Entity, int] = {}
        for position, each in enumerate(found):
            if each is not None:
                self._positions |= dict.fromkeys(each.entities, position)
        self._watches = Watches(engine, options.interval)
        self._places: list[tuple[int, int, float, float]] = []
        self._factors: list[float] = []
        self._percents: list[int] = []
        self._spans: list[tuple[int, list[int], int]] = []
        anyone = self._there[0].gpu if self._there else None
        self._reader = Reader(engine, self, clock, options.interval, anyone)
        self._paused = False
        try:
            self._paused = options.pause and self._pause()
            self._profiles = not self._paused and not (options.beside and self._would_take_counters())
            self._start = self._reader.start()
            self._watch()
        except (BackendError, EngineError):
            self.close()
            raise
        self.notes += self._watches.notes
        self._watched = [self._columns(each) for each in found]
        measured = set().union(*self._watched) if self._watched else set()
        self.measures: Sequence[str] = tuple(metric.name for metric in METRICS if INDEX[metric.name] in measured)
        self._bins = Bins(self._watched, options.interval, self._start)
        self._last_value = [self._start if each is not None else -math.inf for each in found]
        self._last_row = [-math.inf] * len(found)
        self._lost = lost
        self._gone: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._valued: set[int] = set()
        self._told = False
        self._late = self._late_told = 0

    @property
    def paused(self) -> bool:
        """The counters are left to others, until ``close``."""
        return self._paused

    @property
    def due_in(self) -> float:
        """Seconds until the next ``poll`` is due."""
        return self._reader.due_in

    def end(self) -> None:
        """The end is near: the next ``poll`` brings what is new since the one before, and more are needed as long as the
        session is ``incomplete``."""
        self._reader.end()

    @property
    def incomplete(self) -> bool:
        """Is something known to be missing that there is?"""
        return self._reader.complete_until is not None

    def poll(self) -> tuple[list[Row], list[Change]]:
        """New rows, in the recording's time, and what happened. Raises EngineError when the connection is lost."""
        changes: list[Change] = []
        if not self._watches.live:
            return [], changes
        self._gone = set()
        offset = self._reader.clock.offset
        try:
            now = self._reader.read()
        except EngineError as error:
            if error.code != codes.NOT_WATCHED:
                raise
            self._watches.destroy()
            self._watch()
            changes.append(Change("backend", None, "dcgm: its hostengine had dropped the watches; they were set again"))
            now = self._reader.read()
        stepped = abs(self._reader.clock.offset - offset) > STEP_SECONDS
        rows = self._start_again(now, offset) if stepped else self._take(now)
        self._look_for_lost(now, changes)
        self._tell(now, changes)
        return rows, changes

    def flush(self) -> list[Row]:
        """All rows there are, complete or not: nothing more will come from this connection."""
        return self._take(self._reader.time(), everything=True)

    def close(self) -> None:
        """Give back the counters, the watches and the groups, and hang up. Never raises EngineError."""
        self._reader.close()
        self._watches.destroy()
        if self._paused:
            self._engine.quietly("dcgmProfResume")
        self._engine.disconnect()

    def _pause(self) -> bool:
        try:
            self._engine.call("dcgmProfPause")
        except EngineError as error:
            if error.code == codes.CONNECTION_NOT_VALID:
                raise
            self.notes.append(f"dcgm: profiling was not paused: {self._why_not_paused(error)}")
            return False
        self.notes.append(
            "dcgm: profiling is paused on this node until the end of the run (for everybody): no SM, tensor and memory "
            "activity is recorded"
        )
        return True

    def _why_not_paused(self, error: EngineError) -> str:
        """DCGM says the same where nothing needs to be paused and where it lacks the module that does it."""
        if error.code != codes.NOT_SUPPORTED:
            return str(error)
        capabilities = [each.device.compute_capability for each in self._there]
        older = any(known is not None and not _from_hopper_on(known) for known in capabilities)
        return _NO_MODULE if older else "these GPUs need no pausing" if all(capabilities) else _EITHER

    def _would_take_counters(self) -> bool:
        """Unless it is known that others can profile all the GPUs at the same time."""
        if all(_from_hopper_on(each.device.compute_capability or "0") for each in self._there):
            return False
        self.notes.append(_NOT_BESIDE)
        return True

    def _watch(self) -> None:
        """Watch everything, and find out where the values of each series go."""
        self._watches.make(self._there, self._profiles)
        self._watches.update()
        self._reader.follow(self._watches.live)
        places, factors, percents = [], [], []
        spans: list[tuple[int, list[int], int]] = []
        for number, (entity, field) in enumerate(self._reader.series):
            metric, position = _BY_FIELD[field], self._positions[entity]
            factor = int(metric.dcgm_factor) if metric.integral else metric.dcgm_factor
            column = INDEX[metric.name]
            places.append((position, column, factor, 100 if field in _PERCENT else math.inf))
            factors.append(factor)
            if field in _PERCENT:
                percents.append(number)
            if not number or entity != self._reader.series[number - 1].entity:
                spans.append((number, [], position))
            spans[-1][1].append(column)
        self._places, self._factors, self._percents, self._spans = places, factors, percents, spans

    def _columns(self, found: Sampled | None) -> list[int]:
        if found is None:
            return []
        mine = [field for entity, field in self._reader.series if entity in found.entities]
        return sorted({INDEX[_BY_FIELD[field].name] for field in mine})

    def deliver_tick(self, first: int, stamps: Sequence[int], values: Sequence[int | float], step: int) -> None:
        """See ``Sink``."""
        place = slice(first, first + len(values))
        blanks = not max(values) < codes.DOUBLE_BLANK or sum(values) != sum(values)  # not a number
        percents = [values[number - first] for number in self._percents if place.start <= number < place.stop]
        if not self._told or any(100 < value < codes.DOUBLE_BLANK for value in percents):
            numbers = range(place.start, place.stop)
            self.deliver([sample_of(*each, step) for each in zip(numbers, repeat(0), stamps, values, strict=False)])
            return
        plain: list[int | float | None] = list(map(mul, values, self._factors[place]))
        if blanks:
            plain = [None if codes.blank_reason(value) else own for value, own in zip(values, plain, strict=True)]
        for begin, columns, position in self._spans:
            if place.start <= begin < place.stop:
                part = slice(begin - first, begin - first + len(columns))
                own = plain[part]
                self._bins.add_together(position, columns, stamps[part], own, step)
                if own.count(None) < len(own):
                    self._last_value[position] = max(stamps[part])

    def deliver(self, samples: Sequence[Sample]) -> None:
        """See ``Sink``."""
        places, valued, last_value = self._places, self._valued, self._last_value
        binned: list[Value] = []
        for number, stamp, value, reason, step in samples:
            position, column, factor, most = places[number]
            if value is not None and value > most:
                value, reason = None, "out of range"
            if value is None:
                self._reasons[column] = reason or ""
                if reason in _LOST:
                    self._gone.add(position)
            else:
                value *= factor
                valued.add(column)
                if stamp > last_value[position]:
                    last_value[position] = stamp
            binned.append((position, column, stamp, value, step))
        self._bins.add(binned)

    def _take(self, now: int, everything: bool = False) -> list[Row]:
        ready = self._bins.take(now, everything, self._reader.complete_until)
        self._late += ready.late
        offset = self._reader.clock.offset
        return self._in_order([(row[0], row[1] / _MICRO - offset, *row[2:]) for row in ready.rows])  # type: ignore[operator]

    def _in_order(self, rows: list[Row]) -> list[Row]:
        """The rows, none of a GPU earlier than the one before: where a clock was set its time is known to a millisecond."""
        for place, row in enumerate(rows):
            gpu, time = row[:2]
            before = self._last_row[gpu]  # type: ignore[index]
            if time < before:  # type: ignore[operator]
                rows[place] = (gpu, before, *row[2:])
            else:
                self._last_row[gpu] = time  # type: ignore[index, assignment]
        return rows

    def _start_again(self, now: int, before: float) -> list[Row]:
        """The hostengine's clock was set: give out what was stamped by the old one (``before`` was its offset), and begin
        new bins."""
        after, present = self._reader.clock.offset, now / _MICRO - self._reader.clock.offset
        rows: list[Row] = []
        for row in self._bins.take(now, everything=True).rows:
            stamp = row[1] / _MICRO  # type: ignore[operator]
            time = min(stamp - before, stamp - after, key=lambda time: abs(present - time))
            rows.append((row[0], time, *row[2:]))
        rows = self._in_order(rows)
        if after < before:
            self._reader.forget()
        self._bins = Bins(self._watched, self._options.interval, now)
        self._start = now
        self._last_value = [last if last == -math.inf else now for last in self._last_value]
        return rows

    def _look_for_lost(self, now: int, changes: list[Change]) -> None:
        if self._reader.complete_until is not None:
            return  # something of it is still to be read
        limit = max(LOST_SECONDS, LOST_INTERVALS * self._options.interval) * _MICRO
        for position, last in enumerate(self._last_value):
            lost = position in self._gone or now - last > limit
            if lost != self._lost[position]:
                self._lost[position] = lost
                kind, what = (
                    ("gpu_lost", "DCGM has no more values of it") if lost else ("gpu_back", "DCGM has values again")
                )
                changes.append(Change(kind, position, what))

    def _tell(self, now: int, changes: list[Change]) -> None:
        """Say once which metrics stay without a value, and why; and that values came too late."""
        interval = self._options.interval
        if not self._told and now - self._start > max(TELLING_SECONDS, TELLING_INTERVALS * interval) * _MICRO:
            self._told = True
            for reason in sorted(set(self._reasons.values())):
                columns = [c for c, why in sorted(self._reasons.items()) if why == reason and c not in self._valued]
                if columns:
                    labels = ", ".join(METRICS[column].label for column in columns)
                    profiled = all(METRICS[column].dcgm in codes.PROFILING for column in columns)
                    cure = _CURES.get(reason, "") if profiled else ""
                    changes.append(Change("backend", None, f"dcgm: {reason} for {labels}{cure}"))
        if self._late >= max(2 * self._late_told, 1):
            self._late_told = self._late
            text = f"dcgm: {self._late} values so far came over {LATE_SECONDS:g} s late and are left out"
            changes.append(Change("backend", None, text))
