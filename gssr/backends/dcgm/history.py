"""The samples the hostengine has kept of one entity.

``dcgmGetValuesSince_v2`` makes a round trip for each entity of a group and each field, half a millisecond of CPU time each:
entities are asked for one at a time, so that other reads come in between. The group for that exists only while it is used.
"""

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.entities import Entity
from gssr.backends.dcgm.latest import Series
from gssr.backends.dcgm.watch import Watch, group_name

_VALUE_HEAD = struct.Struct("<4xHhi4xq")
_INTEGER = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_IS_DOUBLE = ord("d")
# Of c_dcgmFieldValue_v1, 4 kB each of which 32 bytes matter: fieldId, fieldType, status and ts, then the value.

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
)

Take = Callable[[Series, int, int, int | float], None]
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
                self._take(Series((group, entity), field), status, stamp, value)
        except Exception as error:  # the library would swallow it
            self._failure = error
            return 1  # no more, please
        return 0
