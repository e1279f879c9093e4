"""The last value of every series the hostengine samples, in one call.

``dcgmEntitiesGetLatestValues`` makes one round trip for all entities and fields, where reading histories takes one for each
of both. What it gives back is read from memory in one go: the records are 4 kB each, of which 40 bytes matter.
"""

import ctypes
import struct
from collections.abc import Sequence
from typing import NamedTuple

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.entities import Entity

_HEAD = struct.Struct("<4xIIHh")
"""Of c_dcgmFieldValue_v2, in DCGM 3 and 4: entity group, entity, field and type."""
_RECORD = "4x12si4xq"
"""The same, as bytes that only have to be equal from call to call; status and stamp. Then comes the value."""
_PARTS = 4
_READ = struct.calcsize(f"<{_RECORD}q")
_IS_DOUBLE = ord("d")
_MOST_FIELDS = 128
_CACHED = 0


class Series(NamedTuple):
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

    def __init__(self, engine: Engine, series: Sequence[Series]) -> None:
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
        self, engine: Engine, entities: Sequence[Entity], fields: Sequence[int], numbers: dict[Series, int]
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
        numbers = [self._known.get(Series((group, entity), field)) for group, entity, field, _ in heads]
        first = numbers[0]
        one_by_one = first is not None and numbers == list(range(first, first + n))
        self._numbers = range(first, first + n) if one_by_one and first is not None else numbers
