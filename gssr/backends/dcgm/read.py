"""Reading what the hostengine has sampled, losing and doubling nothing, at little cost.

The last values of everything are one round trip; the histories of everything are one for each entity and field, a hundred
times as dear for a node. So the last values are asked for once a sampling interval, in the middle between two samples: the
hostengine's stamps tell when it takes them. A series whose stamp has moved by anything but one interval may have lost a
sample in between, or is sampled faster for somebody else: it is set aside, and the histories of its entity are read, but no
more often than every HISTORY_SECONDS. They also tell how fast each series is sampled, and are therefore read first.

The hostengine inserts values after others that are stamped later, so its own "next" time skips some. Histories therefore go
back to what was read last of each series, and a value is taken if it is stamped after that.

The last value of every series the hostengine samples, in one call.

``dcgmEntitiesGetLatestValues`` makes one round trip for all entities and fields, where reading histories takes one for each
of both. What it gives back is read from memory in one go: the records are 4 kB each, of which 40 bytes matter.

The samples the hostengine has kept of one entity.

``dcgmGetValuesSince_v2`` makes a round trip for each entity of a group and each field, half a millisecond of CPU time each:
entities are asked for one at a time, so that other reads come in between. The group for that exists only while it is used.
"""

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from operator import sub
from typing import Any, NamedTuple, Protocol

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.bins import emptiest
from gssr.backends.dcgm.codes import DOUBLE_BLANK, blank_reason
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.entities import Entity
from gssr.backends.dcgm.watch import Watch, group_name, keep_seconds

_HEAD = struct.Struct("<4xIIHh")
"""Of c_dcgmFieldValue_v2, in DCGM 3 and 4: entity group, entity, field and type."""
_RECORD = "4x12si4xq"
"""The same, as bytes that only have to be equal from call to call; status and stamp. Then comes the value."""
_PARTS = 4
_READ = struct.calcsize(f"<{_RECORD}q")
_IS_DOUBLE = ord("d")
_MOST_FIELDS = 128
_CACHED = 0


class SampledSeries(NamedTuple):
    """One field of one entity."""

    entity: Entity
    field: int


class Values(NamedTuple):
    """What one call brought, of equal lengths: the series' numbers (a range where they follow one another; None: not asked
    for), DCGM's status, us of the hostengine's clock (0: none yet), and the value or blank."""

    numbers: Sequence[int | None]
    statuses: Sequence[int]
    stamps: Sequence[int]
    values: Sequence[int | float]


class Latest:
    """Reads the last value of each of these series."""

    def __init__(self, engine: Engine, series: Sequence[SampledSeries]) -> None:
        numbers = {each: number for number, each in enumerate(series)}
        fields_of: dict[Entity, list[int]] = {}
        for entity, field in series:
            fields_of.setdefault(entity, []).append(field)
        alike: dict[tuple[int, ...], list[Entity]] = {}
        for entity, fields in fields_of.items():
            for at in range(0, len(fields), _MOST_FIELDS):
                alike.setdefault(tuple(fields[at : at + _MOST_FIELDS]), []).append(entity)
        most = codes.MOST_ENTITIES
        self._requests = [
            _Request(engine, entities[at : at + most], fields, numbers)
            for fields, entities in alike.items()
            for at in range(0, len(entities), most)
        ]

    def read(self) -> list[Values]:
        """One call for each set of fields that entities have in common, usually one in all. Raises EngineError, also where
        a series is not watched any more."""
        return [request.ask() for request in self._requests]


class _Request:
    """One call and the layout of its answer, which is learned from the first one: types don't change, and the order may."""

    def __init__(
        self, engine: Engine, entities: Sequence[Entity], fields: Sequence[int], numbers: dict[SampledSeries, int]
    ) -> None:
        self._engine = engine
        self._known = numbers
        structs = engine.bindings.structs
        n_entities, n_fields = len(entities), len(fields)
        pairs = (structs.c_dcgmGroupEntityPair_t * n_entities)(*(engine.entity(*entity) for entity in entities))
        ids = (ctypes.c_uint16 * n_fields)(*fields)
        self._n = n_entities * n_fields
        self._answer = (structs.c_dcgmFieldValue_v2 * self._n)()
        count = ctypes.c_uint
        self._arguments = (pairs, count(n_entities), ids, count(n_fields), count(_CACHED), self._answer)
        self._layout = struct.Struct("")
        self._heads: Sequence[bytes] | None = None
        self._numbers: Sequence[int | None] = ()

    def ask(self) -> Values:
        self._engine.call_library("dcgmEntitiesGetLatestValues", *self._arguments)
        found = self._layout.unpack_from(self._answer)
        if found[0::_PARTS] != self._heads:
            self._learn()
            found = self._layout.unpack_from(self._answer)
            self._heads = found[0::_PARTS]
        statuses = found[1::_PARTS]
        if codes.NOT_WATCHED in statuses:
            raise EngineError(codes.NOT_WATCHED, "not watched any more")
        return Values(self._numbers, statuses, found[2::_PARTS], found[3::_PARTS])

    def _learn(self) -> None:
        n, size = self._n, ctypes.sizeof(self._answer) // self._n
        heads = [_HEAD.unpack_from(self._answer, size * position) for position in range(n)]
        rest = f"{size - _READ}x"
        records = (f"{_RECORD}{'d' if kind == _IS_DOUBLE else 'q'}{rest}" for _, _, _, kind in heads)
        self._layout = struct.Struct("<" + "".join(records))
        numbers = [self._known.get(SampledSeries((group, entity), field)) for group, entity, field, _ in heads]
        first = numbers[0]
        one_by_one = first is not None and numbers == list(range(first, first + n))
        self._numbers = range(first, first + n) if one_by_one and first is not None else numbers


_VALUE_HEAD = struct.Struct("<4xHhi4xq")
_INTEGER = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
# Of c_dcgmFieldValue_v1, 4 kB each of which 32 bytes matter: fieldId, fieldType, status and ts, then the value.

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
)

Take = Callable[[SampledSeries, int, int, int | float], None]
"""Called with the series, DCGM's status, the stamp in us of the hostengine's clock, and the value or blank."""


class Histories:
    """Reads histories on one connection."""

    def __init__(self, engine: Engine, take: Take) -> None:
        self._engine = engine
        self._take = take
        self._size = ctypes.sizeof(engine.bindings.structs.c_dcgmFieldValue_v1)
        self._group: Any = None
        self._entity: Entity | None = None
        self._failure: Exception | None = None
        self._callback = _CALLBACK(self._receive)  # kept: the library holds no reference

    def read(self, watch: Watch, entity: Entity, since: int) -> int | None:
        """Hand on what was sampled of the watch's fields since then (us of the hostengine's clock), oldest first for each
        field; where no group can be had for the entity alone, of all of the watch's entities. Returns the hostengine's
        time; None where it has nothing. Raises EngineError."""
        group = watch.group if len(watch.entities) == 1 else self._alone(entity) or watch.group
        try:
            now: int = self._engine.call("dcgmGetValuesSince_v2", group, watch.field_group, since, self._callback, None)
        except EngineError as error:
            if error.code != codes.NO_DATA:
                raise
            return None
        if self._failure is not None:
            raise self._failure
        return now

    def rest(self) -> None:
        """No history will be read for a while: give the group back. Never raises EngineError."""
        if self._group is not None:
            self._engine.quietly("dcgmGroupDestroy", self._group)
            self._group = self._entity = None

    def _alone(self, entity: Entity) -> Any:
        """A group of this entity only; None where there is no room for it."""
        try:
            if self._group is None:
                self._group = self._engine.call("dcgmGroupCreate", codes.EMPTY_GROUP, group_name())
            elif self._entity is not None and self._entity != entity:
                self._engine.call("dcgmGroupRemoveEntity", self._group, *self._entity)
                self._entity = None
            if self._entity is None:
                self._engine.call("dcgmGroupAddEntity", self._group, *entity)
                self._entity = entity
        except EngineError as error:
            if error.code != codes.MAX_LIMIT:
                raise
            return None
        return self._group

    def _receive(self, group: int, entity: int, address: int, count: int, _: object) -> int:
        try:
            for position in range(count):
                raw = (ctypes.c_char * 32).from_address(address + position * self._size)
                field, kind, status, stamp = _VALUE_HEAD.unpack_from(raw)
                (value,) = (_DOUBLE if kind == _IS_DOUBLE else _INTEGER).unpack_from(raw, 24)
                self._take(SampledSeries((group, entity), field), status, stamp, value)
        except Exception as error:  # the library would swallow it
            self._failure = error
            return 1  # no more, please
        return 0


HISTORY_SECONDS = 1.0
POLL_SECONDS = 1.0
"""With a longer interval the hostengine is asked this often all the same: what it sampled is soon on the disk."""
SHORTEST_SECONDS = 0.1
"""Profiling fields sampled faster than this are blank."""
PHASE_SECONDS = 1.0
"""How often it is looked at when in an interval the samples are taken."""
CLOCK_SECONDS = 10.0
"""How often the hostengine's clock is looked at; one that was set shows in the stamps at once."""

_MICRO = 1_000_000
_REGULAR = 0.7, 1.3
"""Steps between two stamps, in intervals, that are as they should be: shorter or longer ones tell that the series is sampled
faster, or that something came in between."""
_ENOUGH = 1.2
"""So many intervals after the start everything has been sampled twice."""
_FADING = 0.8
"""So much of what a history took is still reckoned with after the next one."""
_NEARLY = 0.75
"""A series sampled every so much of our interval, or more, is sampled at ours."""

Sample = tuple[int, int, int | float | None, str | None, int]
"""The number of the series, the stamp in us of the hostengine's clock, the value or None, the reason why it is None, and how
often the series is sampled, in us."""


class SampleSink(Protocol):
    """Where samples go, those of each series in their order."""

    def deliver(self, samples: Sequence[Sample]) -> None:
        """These are new."""
        ...

    def deliver_tick(self, first: int, stamps: Sequence[int], values: Sequence[int | float], step: int) -> None:
        """These are new: one of each of the series from number ``first`` on, blanks among them, all sampled every ``step``
        us."""
        ...


class EngineClock:
    """The hostengine's clock against the recording's. ``offset`` is their difference in s, engine minus recording, as
    small a change as what was seen allows: 0 on a machine whose clock nobody sets."""

    def __init__(self) -> None:
        self.offset = 0.0

    def see(self, before: float, engine: float, after: float) -> float:
        """The engine's clock showed ``engine`` somewhere between two times of the recording's (all in s); returns by how
        much the offset moved. It is wrong by at most ``after - before``."""
        moved = min(max(self.offset, engine - after), engine - before) - self.offset
        self.offset += moved
        return moved


class _Part:
    """What one call reads the histories of: a watch's fields of one entity, by their numbers."""

    def __init__(self, watch: Watch, entity: Entity, numbers: Sequence[int]) -> None:
        self.watch = watch
        self.entity = entity
        self.numbers = numbers
        self.read_at = -math.inf
        """When that was done last."""


class Reader:
    """Reads the watches of one connection and hands every value on once."""

    def __init__(
        self,
        engine: Engine,
        sink: SampleSink,
        clock: Callable[[], float],
        interval: float,
        gpu: int | None,
    ) -> None:
        """``sink`` is given what is new. ``clock`` is the recording's, in unix
        s; ``interval`` in s is the one that was asked for; ``gpu`` is DCGM's id of any of the GPUs."""
        self.clock = EngineClock()
        self.series: list[SampledSeries] = []
        self._engine = engine
        self._sink = sink
        self._now = clock
        self._anyone = [] if gpu is None else [engine.entity(codes.GPU, gpu)]
        self._interval = round(interval * _MICRO)
        self._kept = round(keep_seconds(interval) * _MICRO)
        self._shortest = min(round(SHORTEST_SECONDS * _MICRO), self._interval)
        self._latest = Latest(engine, ())
        self._histories = Histories(engine, self._take)
        self._parts: list[_Part] = []
        self._numbers: dict[SampledSeries, int] = {}
        self._last: list[int] = []
        """By series, the stamp up to which it is complete."""
        self._steps: list[int] = []
        """By series, how often it is sampled, us."""
        self._torn: set[int] = set()
        """Series of which something may be missing."""
        self._floor = 0
        self._spoken = self._clock_at = self._due_at = 0.0
        self._step, self._phase, self._phase_at = 0, -1, -math.inf
        self._history_seconds = 0.0
        self._begun = self._silent = self._ending = self._faster = False
        self._passed: dict[int, int] = {}
        self._apart: dict[int, list[int]] = {}
        self._found: list[Sample] = []

    def start(self) -> int:
        """Begin now: what others had sampled before is not ours. Returns now, us of the hostengine's clock. Raises
        EngineError."""
        self._floor = self._look_at_clock()
        return self._floor

    def follow(self, watches: Sequence[Watch]) -> None:
        """Read these watches from now on."""
        known = dict(zip(self.series, zip(self._last, self._steps, strict=True), strict=True))
        entities = dict.fromkeys(entity for watch in watches for entity in watch.entities)
        self.series, self._parts = [], []
        for entity in entities:
            for watch in watches:
                if entity in watch.entities:
                    first = len(self.series)
                    self.series += [SampledSeries(entity, field) for field in watch.fields]
                    self._parts.append(_Part(watch, entity, range(first, len(self.series))))
        self._numbers = {each: number for number, each in enumerate(self.series)}
        self._latest = Latest(self._engine, self.series)
        found = [known.get(each, (self._floor - 1, self._interval)) for each in self.series]
        self._last, self._steps = [last for last, _ in found], [step for _, step in found]
        self._torn = set(range(len(self.series)))
        self._spoken = now = self._now()
        self._due_at = now + min(_ENOUGH * self._interval / _MICRO, POLL_SECONDS)

    @property
    def due_in(self) -> float:
        """Seconds from now to the next ``read``."""
        now = self._now()
        return 0.0 if self._fits(now) and self._next_part(now) else max(self._due_at - now, 0.0)

    @property
    def complete_until(self) -> int | None:
        """The stamp up to which everything was delivered that there is, where more is known to be; else None."""
        return min((self._last[number] for number in self._torn), default=None)

    def read(self) -> int:
        """Deliver what is new: the last values when it is time for them, and a history where one is wanted. Returns now, us
        of the hostengine's clock. Raises EngineError."""
        now = self._now()
        due = now >= self._due_at
        if due:
            self._begun = True
            self._read_latest(now)
            self._due_at = math.inf if self._ending else self._next_due()
        now = self._now()
        # Just after the last values there is the most time for a history, should it take longer than there is.
        part = self._next_part(now) if due or self._fits(now) else None
        if part is not None:
            self._read_history(part)
        if not self._torn:
            self._histories.rest()
        return self.time()

    def end(self) -> None:
        """Nothing is put off any more: the next ``read`` brings the last values, and those after it, as long as
        ``complete_until`` isn't None, what was missing."""
        self._ending, self._silent, self._begun = True, False, True
        self._due_at = -math.inf

    def forget(self) -> None:
        """Begin again now: after its clock was set back nothing would be newer for as long."""
        self._floor = self.time()
        self._last = [self._floor - 1] * len(self.series)
        self._torn = set()

    def close(self) -> None:
        """Give back what reading took. Never raises EngineError."""
        self._histories.rest()

    def time(self) -> int:
        """Now, us of the hostengine's clock."""
        return round((self._now() + self.clock.offset) * _MICRO)

    def _next_due(self) -> float:
        """When the last values are to be read next: when everything is between two samples."""
        step = min(self._steps, default=self._interval)
        step //= math.ceil(step / (POLL_SECONDS * _MICRO))
        now = self._now()
        if step != self._step or now - self._phase_at >= PHASE_SECONDS:
            self._step, self._phase_at = step, now
            newest = max(self._last, default=0)
            phases = sorted(stamp % step for stamp in self._last if stamp > newest - 2 * self._interval)
            self._phase = emptiest(phases, step) if newest >= self._floor else -1
        if self._phase < 0:
            return now + step / _MICRO
        soonest = self.time() + 2 * step // 5
        return now + (2 * step // 5 + (self._phase - soonest) % step) / _MICRO

    def _look_at_clock(self) -> int:
        """The hostengine's time, us: the stamp of what it reads from the driver for us now. Raises EngineError."""
        self._clock_at = before = self._now()
        engine, anyone = self._engine, self._anyone
        answer = engine.ask("dcgmEntitiesGetLatestValues", anyone, [codes.NAME], codes.LIVE_DATA) if anyone else None
        after = self._now()
        stamp = max((value.ts for value in answer or ()), default=0)
        if not stamp:
            return self.time()
        self.clock.see(before, stamp / _MICRO, after)
        return int(stamp)

    def _read_latest(self, before: float) -> None:
        newest = max((self._take_latest(values) for values in self._latest.read()), default=0)
        now = self._now()
        if newest:
            self._spoken, self._silent = now, False
            if newest / _MICRO > now + self.clock.offset:
                self.clock.see(before, newest / _MICRO, now)
        elif now - self._spoken > max(POLL_SECONDS, 2.5 * self._interval / _MICRO):
            self._silent = not self._ending  # its clock was set back, or it has dropped the watches: a history tells
        if now - self._clock_at >= CLOCK_SECONDS:
            self._look_at_clock()

    def _take_latest(self, values: Values) -> int:
        """Deliver what is new and regular; the newest stamp, or 0."""
        if self._take_tick(values):
            return max(values.stamps)
        lasts, steps, torn, floor = self._last, self._steps, self._torn, self._floor
        low, high = _REGULAR
        new: list[Sample] = []
        for number, status, stamp, value in zip(*values, strict=True):
            if number is None:
                continue
            last = lasts[number]
            if stamp <= last or number in torn:
                continue  # seen; or, stamped 0, nothing has come yet
            step = steps[number]
            # The first one comes at once.
            if not low * step <= stamp - last <= high * step if last >= floor else stamp - last > low * step:
                torn.add(number)
                continue
            lasts[number] = stamp
            if value < DOUBLE_BLANK and not status:  # the smaller of the blanks
                new.append((number, stamp, value, None, step))
            else:
                new.append(sample_of(number, status, stamp, value, step))
        self._sink.deliver(new)
        return max((stamp for _, stamp, _, _, _ in new), default=0)

    def _fits(self, now: float) -> bool:
        """Is there time for a history before the last values are due again? Were they read too late, more would be missing
        than it brings."""
        return self._begun and now + self._history_seconds < self._due_at

    def _take_tick(self, values: Values) -> bool:
        """Deliver everything at once where all of it is new and regular, as it usually is."""
        numbers, step = values.numbers, self._interval
        if self._torn or self._faster or not isinstance(numbers, range) or any(values.statuses):
            return False
        place = slice(numbers.start, numbers.stop)
        apart = list(map(sub, values.stamps, self._last[place]))
        low, high = _REGULAR
        if min(apart) < low * step or max(apart) > high * step:
            return False
        self._last[place] = values.stamps
        self._sink.deliver_tick(numbers.start, values.stamps, values.values, step)
        return True

    def _next_part(self, now: float) -> _Part | None:
        """Of which part to read the histories now: that for which it was done the longest time ago."""
        torn, silent = self._torn, self._silent
        if not torn and not silent:
            return None
        latest = now if self._ending else now - HISTORY_SECONDS
        wanted = [
            part for part in self._parts if part.read_at <= latest and (silent or not torn.isdisjoint(part.numbers))
        ]
        return min(wanted, key=lambda part: part.read_at, default=None)

    def _read_history(self, part: _Part) -> None:
        """Deliver all values of it after the last ones of their series. Raises EngineError."""
        oldest = min(self._last[number] for number in part.numbers)
        since = max(oldest, self.time() - self._kept, self._floor)
        self._torn.difference_update(part.numbers)
        self._passed, self._apart, self._found = {}, {}, []
        before = self._now()
        told = self._histories.read(part.watch, part.entity, since)
        self._sink.deliver(self._found)
        part.read_at = after = self._now()
        self._history_seconds = max(after - before, _FADING * self._history_seconds)
        if told is not None:
            self.clock.see(before, told / _MICRO, after)
        if self._found:
            self._spoken = after
        for number, apart in self._apart.items():
            usual = sorted(apart)[len(apart) // 2]
            near = usual >= _NEARLY * self._interval
            self._steps[number] = self._interval if near else max(usual, self._shortest)
        self._faster = any(step != self._interval for step in self._steps)

    def _take(self, series: SampledSeries, status: int, stamp: int, value: int | float) -> None:
        number = self._numbers.get(series)
        if number is None or stamp < self._floor:
            return  # not ours; or, stamped 0, a stand-in for "nothing new"
        passed = self._passed.get(number)
        if passed is not None:
            self._apart.setdefault(number, []).append(stamp - passed)
        self._passed[number] = stamp
        if stamp > self._last[number]:
            self._last[number] = stamp
            self._found.append(sample_of(number, status, stamp, value, self._steps[number]))


def sample_of(number: int, status: int, stamp: int, value: int | float, step: int) -> Sample:
    """What DCGM gave, with the reason in place of a blank."""
    reason = f"error {status}" if status else blank_reason(value)
    return number, stamp, None if reason else value, reason, step
