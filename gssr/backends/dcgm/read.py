"""Reading what the hostengine has sampled, losing and doubling nothing.

The hostengine inserts values after others that are stamped later, so its own "next" time skips some. Each read therefore
goes back OVERLAP_SECONDS before the one before, and a value is taken if it is stamped after the last one of its entity
and field.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.codes import blank_reason
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.watch import Watch

OVERLAP_SECONDS = 1.5
_MICRO = 1_000_000

_HEAD = struct.Struct("<4xHhi4xq")
_INTEGER = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_IS_DOUBLE = ord("d")
# Of c_dcgmFieldValue_v1, 4 kB each of which 32 bytes matter: fieldId, fieldType, status and ts, then the value.

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
)

Deliver = Callable[[tuple[int, int], int, int, int | float | None, str | None], None]
"""Called with (entity, field id, stamp in us of the hostengine's clock, value or None, reason why it is None)."""


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

    def __init__(self, engine: Engine, deliver: Deliver, clock: Callable[[], float]) -> None:
        """``clock`` is the recording's, in unix s."""
        self.clock = EngineClock()
        self._engine = engine
        self._deliver = deliver
        self._now = clock
        self._size = ctypes.sizeof(engine.bindings.structs.c_dcgmFieldValue_v1)
        self._last: dict[tuple[int, int, int], int] = {}
        self._floor = 0
        self._until = 0
        self._failure: Exception | None = None
        self._callback = _CALLBACK(self._receive)  # kept: the library holds no reference

    def start(self, watches: Sequence[Watch]) -> int:
        """Begin now: what others had sampled before is not ours. Returns now, us of the hostengine's clock. Raises
        EngineError."""
        self._floor = 1 << 62
        since = round(self._now() * _MICRO)
        self._until = self._floor = self._ask(watches[0], since)
        return self._floor

    def read(self, watches: Sequence[Watch]) -> int:
        """Deliver what is new; returns the time up to which it was asked, us of the hostengine's clock. Raises
        EngineError."""
        since = max(self._until - round(OVERLAP_SECONDS * _MICRO), self._floor)
        until = 0
        for watch in watches:
            now = self._ask(watch, since)
            until = until or now
        self._until = until
        return until

    def forget(self) -> None:
        """Begin again now: after its clock was set back nothing would be newer for as long."""
        self._last, self._floor = {}, self._until

    def _ask(self, watch: Watch, since: int) -> int:
        before = self._now()
        try:
            now: int = self._engine.call(
                "dcgmGetValuesSince_v2", watch.group, watch.field_group, since, self._callback, None
            )
        except EngineError as error:
            if error.code != codes.NO_DATA:
                raise
            return round((before + self.clock.offset) * _MICRO)
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
        last, floor = self._last, self._floor
        for position in range(count):
            raw = (ctypes.c_char * 32).from_address(address + position * self._size)
            field, kind, status, stamp = _HEAD.unpack_from(raw)
            key = (group, entity, field)
            if stamp < floor or stamp <= last.get(key, 0):
                continue  # seen; or, stamped 0, a stand-in for "nothing new"
            last[key] = stamp
            if status:
                self._deliver((group, entity), field, stamp, None, f"error {status}")
                continue
            (value,) = (_DOUBLE if kind == _IS_DOUBLE else _INTEGER).unpack_from(raw, 24)
            reason = blank_reason(value)
            self._deliver((group, entity), field, stamp, None if reason else value, reason)
