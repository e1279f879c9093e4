"""Reading what the hostengine has sampled, losing and doubling nothing, at little cost.

The last values of everything are one round trip; the history of everything is one for each entity and field, a hundred
times as dear for a node. So the last values are asked for once a sampling interval, in the middle between two samples: the
hostengine's stamps tell when it takes them. A series whose stamp has moved by anything but one interval may have lost a
sample in between, or is sampled faster for somebody else: it is set aside, and the histories are read, but no more often
than every HISTORY_SECONDS. They also tell how fast each series is sampled.

The hostengine inserts values after others that are stamped later, so its own "next" time skips some. Histories therefore go
back to what was read last of each series, and a value is taken if it is stamped after that.
"""

import ctypes
import math
import struct
from collections.abc import Callable, Sequence

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.bins import emptiest
from gssr.backends.dcgm.codes import blank_reason
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.latest import Latest, Series, Values
from gssr.backends.dcgm.watch import Watch, keep_seconds

HISTORY_SECONDS = 1.0
POLL_SECONDS = 1.0
"""With a longer interval the hostengine is asked this often all the same: what it sampled is soon on the disk."""
SHORTEST_SECONDS = 0.1
"""Profiling fields sampled faster than this are blank."""
CLOCK_SECONDS = 10.0
"""How often the hostengine's clock is looked at; one that was set shows in the stamps at once."""

_MICRO = 1_000_000
_REGULAR = 0.7, 1.5
"""Steps between two stamps, in intervals, in between which there can have been nothing."""
_NEARLY = 0.75
"""A series sampled every so much of our interval, or more, is sampled at ours."""

_HEAD = struct.Struct("<4xHhi4xq")
_INTEGER = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_IS_DOUBLE = ord("d")
# Of c_dcgmFieldValue_v1, 4 kB each of which 32 bytes matter: fieldId, fieldType, status and ts, then the value.

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
)

Deliver = Callable[[int, int, int | float | None, str | None, int], None]
"""Called with the number of the series, the stamp in us of the hostengine's clock, the value or None, the reason why it is
None, and how soon the next value may come at the earliest, in us."""


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


class Reader:
    """Reads the watches of one connection and hands every value on once."""

    def __init__(
        self, engine: Engine, deliver: Deliver, clock: Callable[[], float], interval: float, gpu: int | None
    ) -> None:
        """``clock`` is the recording's, in unix s; ``interval`` in s is the one that was asked for; ``gpu`` is DCGM's id of
        any of the GPUs."""
        self.clock = EngineClock()
        self.series: list[Series] = []
        self._engine = engine
        self._deliver = deliver
        self._now = clock
        self._anyone = [] if gpu is None else [engine.entity(codes.GPU, gpu)]
        self._interval = round(interval * _MICRO)
        self._kept = round(keep_seconds(interval) * _MICRO)
        self._shortest = min(round(SHORTEST_SECONDS * _MICRO), self._interval)
        self._size = ctypes.sizeof(engine.bindings.structs.c_dcgmFieldValue_v1)
        self._watches: Sequence[Watch] = ()
        self._latest = Latest(engine, ())
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._last: list[int] = []
        """By series, the stamp up to which it is complete."""
        self._steps: list[int] = []
        """By series, how often it is sampled, us."""
        self._torn: set[int] = set()
        """Series of which something may be missing."""
        self._floor = 0
        self._until = 0
        self._spoken = self._history_at = self._clock_at = 0.0
        self._passed: dict[int, int] = {}
        self._apart: dict[int, list[int]] = {}
        self._failure: Exception | None = None
        self._callback = _CALLBACK(self._receive)  # kept: the library holds no reference

    def start(self, watches: Sequence[Watch]) -> int:
        """Begin now: what others had sampled before is not ours. Returns now, us of the hostengine's clock. Raises
        EngineError."""
        self.follow(watches)
        self._floor = self._until = self._look_at_clock()
        self._last = [self._floor - 1] * len(self.series)
        self._spoken = self._now()
        return self._floor

    def follow(self, watches: Sequence[Watch]) -> None:
        """Read these watches from now on."""
        known = dict(zip(self.series, zip(self._last, self._steps, strict=True), strict=True))
        self._watches = watches
        self.series = [
            Series(entity, field) for watch in watches for entity in watch.entities for field in watch.fields
        ]
        self._numbers = {(*each.entity, each.field): number for number, each in enumerate(self.series)}
        self._latest = Latest(self._engine, self.series)
        found = [known.get(each, (self._floor - 1, self._interval)) for each in self.series]
        self._last, self._steps = [last for last, _ in found], [step for _, step in found]
        self._torn = set()

    def read(self, finally_all: bool = False) -> int:
        """Deliver what is new; returns the time it was asked at, us of the hostengine's clock. ``finally_all``: nothing is
        put off. Raises EngineError."""
        before = self._now()
        for values in self._latest.read():
            self._take_latest(values, before)
        after = self._now()
        silent = after - self._spoken > max(POLL_SECONDS, 2.5 * self._interval / _MICRO)
        due = finally_all or after - self._history_at >= HISTORY_SECONDS
        if (self._torn or silent) and due:
            return self._read_histories()
        if after - self._clock_at >= CLOCK_SECONDS:
            self._look_at_clock()
        self._until = self._engine_time(after)
        return self._until

    @property
    def due_in(self) -> float:
        """Seconds from now to the next ``read``: when everything is between two samples."""
        step = min(self._steps, default=self._interval)
        step //= math.ceil(step / (POLL_SECONDS * _MICRO))
        newest = max(self._last, default=0)
        phases = sorted(stamp % step for stamp in self._last if stamp > newest - 2 * self._interval)
        now = self.time()
        if not phases or newest < self._floor:
            return step / _MICRO
        soonest = now + 2 * step // 5
        return (soonest + (emptiest(phases, step) - soonest) % step - now) / _MICRO

    def forget(self) -> None:
        """Begin again now: after its clock was set back nothing would be newer for as long."""
        self._floor = self._until
        self._last = [self._floor - 1] * len(self.series)
        self._torn = set()

    def time(self) -> int:
        """Now, us of the hostengine's clock."""
        return self._engine_time(self._now())

    def _engine_time(self, moment: float) -> int:
        return round((moment + self.clock.offset) * _MICRO)

    def _look_at_clock(self) -> int:
        """The hostengine's time, us: the stamp of what it reads from the driver for us now. Raises EngineError."""
        self._clock_at = before = self._now()
        anyone = self._anyone
        answer = (
            self._engine.ask("dcgmEntitiesGetLatestValues", anyone, [codes.NAME], codes.LIVE_DATA) if anyone else ()
        )
        after = self._now()
        stamp = max((value.ts for value in answer or ()), default=0)
        if not stamp:
            return self._engine_time(after)
        self.clock.see(before, stamp / _MICRO, after)
        return int(stamp)

    def _take_latest(self, values: Values, before: float) -> None:
        lasts, steps, torn, floor = self._last, self._steps, self._torn, self._floor
        low, high = _REGULAR
        newest = 0
        for number, status, stamp, value in zip(*values, strict=True):
            if number is None or stamp <= lasts[number] or number in torn:
                continue  # seen; or, stamped 0, nothing has come yet
            last, step = lasts[number], steps[number]
            if stamp - last > high * step or (stamp - last < low * step and last >= floor):
                torn.add(number)
                continue
            lasts[number] = newest = stamp
            if status:
                self._deliver(number, stamp, None, f"error {status}", step)
                continue
            reason = blank_reason(value)
            self._deliver(number, stamp, None if reason else value, reason, step)
        if newest:
            self._spoken = now = self._now()
            ahead = newest / _MICRO - now - self.clock.offset
            if ahead > 0:
                self.clock.see(before, newest / _MICRO, now)

    def _read_histories(self) -> int:
        """All values after the last ones of their series. Raises EngineError."""
        self._history_at = self._now()
        since = max(min(self._last), self._until - self._kept, self._floor)
        self._passed, self._apart, self._torn = {}, {}, set()
        until = 0
        for watch in self._watches:
            now = self._ask(watch, since)
            until = until or now
        self._until = until
        for number, apart in self._apart.items():
            usual = sorted(apart)[len(apart) // 2]
            near = usual >= _NEARLY * self._interval
            self._steps[number] = self._interval if near else max(usual, self._shortest)
        return until

    def _ask(self, watch: Watch, since: int) -> int:
        before = self._now()
        try:
            now: int = self._engine.call(
                "dcgmGetValuesSince_v2", watch.group, watch.field_group, since, self._callback, None
            )
        except EngineError as error:
            if error.code != codes.NO_DATA:
                raise
            return self._engine_time(before)
        if self._failure is not None:
            raise self._failure
        self.clock.see(before, now / _MICRO, self._now())
        return now

    def _receive(self, group: int, entity: int, address: int, count: int, _: object) -> int:
        try:
            self._take(group, entity, address, count)
        except Exception as error:  # the library would swallow it
            self._failure = error
            return 1  # no more, please
        return 0

    def _take(self, group: int, entity: int, address: int, count: int) -> None:
        for position in range(count):
            raw = (ctypes.c_char * 32).from_address(address + position * self._size)
            field, kind, status, stamp = _HEAD.unpack_from(raw)
            number = self._numbers.get((group, entity, field))
            if number is None or stamp < self._floor:
                continue  # not ours; or, stamped 0, a stand-in for "nothing new"
            passed = self._passed.get(number)
            if passed is not None:
                self._apart.setdefault(number, []).append(stamp - passed)
            self._passed[number] = stamp
            if stamp <= self._last[number]:
                continue
            self._last[number] = stamp
            self._spoken = self._now()
            step = self._steps[number]
            if status:
                self._deliver(number, stamp, None, f"error {status}", step)
                continue
            (value,) = (_DOUBLE if kind == _IS_DOUBLE else _INTEGER).unpack_from(raw, 24)
            reason = blank_reason(value)
            self._deliver(number, stamp, None if reason else value, reason, step)
