"""Reads the newest value of everything that is watched, in one call.

DCGM gives values in two ways. ``dcgmEntitiesGetLatestValues`` makes one round trip for all GPUs and fields and brings the
newest sample of each; ``dcgmGetValuesSince_v2`` brings all samples since a time, in a round trip for each GPU and field, 216
for a node. Here the newest values are read once an interval, midway between two samples. What the hostengine samples between
two reads is missing from the recording, as is what it does not sample at all; nothing is made up for it.

The reason is the cost, measured on the stand-in, which charges its clients what the real library does, with 8 GPUs of 27
fields at 10 Hz. The newest values take 10 requests and 10 ms of CPU a second; the histories of all GPUs once a second 264
requests and 79 ms; that of one GPU in turn at each tick 330 requests and some 130 ms. Nothing is missed by the newest
values on a quiet node, 2 to 3 % of what a hostengine samples that is held up by others, and a fifth where every second read
is 60 ms late. Histories read for what was missed brought all but 0.5 % of that, for six times the requests: just when the
node has no time to spare.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.codes import DcgmError
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.entities import Entity

_MAX_FIELDS = 128
"""In one request, in DCGM 3 and 4."""
_CACHED = 0
_IS_DOUBLE = ord("d")
_IDENTITY = (("version", "I"), ("entityGroupId", "I"), ("entityId", "I"), ("fieldId", "H"), ("fieldType", "H"))
"""Members of a record that tell whose value it is and how to read it, with their types as ``struct`` names them."""


def prepare_requests(engine: Engine, series: Sequence[tuple[Entity, int]]) -> list[LatestValues]:
    """Prepare the calls that read the newest value of each of these series, an entity and a field each; readings refer
    to series by their index here. There is one call for each set of fields that entities have in common, usually one
    in all."""
    numbers = {each: number for number, each in enumerate(series)}
    fields_of: dict[Entity, list[int]] = {}
    for entity, field in series:
        fields_of.setdefault(entity, []).append(field)
    alike: dict[tuple[int, ...], list[Entity]] = {}
    for entity, fields in fields_of.items():
        for at in range(0, len(fields), _MAX_FIELDS):
            alike.setdefault(tuple(fields[at : at + _MAX_FIELDS]), []).append(entity)
    most = codes.MOST_ENTITIES
    return [
        LatestValues(engine, entities[at : at + most], fields, numbers)
        for fields, entities in alike.items()
        for at in range(0, len(entities), most)
    ]


class LatestValues:
    """One prepared call. Its answer is an array of records of 4 kB, of which 40 bytes matter: they are read member by
    member, at the offsets that the bindings' structure has."""

    def __init__(
        self, engine: Engine, entities: Sequence[Entity], fields: Sequence[int], numbers: dict[tuple[Entity, int], int]
    ) -> None:
        self._engine = engine
        self._number_of = numbers
        structs = engine.bindings.structs
        record = structs.c_dcgmFieldValue_v2
        count = len(entities) * len(fields)
        memory = bytearray(count * ctypes.sizeof(record))
        self._arguments = (
            (structs.c_dcgmGroupEntityPair_t * len(entities))(*(engine.entity(*entity) for entity in entities)),
            ctypes.c_uint(len(entities)),
            (ctypes.c_uint16 * len(fields))(*fields),
            ctypes.c_uint(len(fields)),
            ctypes.c_uint(_CACHED),
            (record * count).from_buffer(memory),
        )
        self._version = structs.dcgmFieldValue_version2
        self._identity = [_column(memory, record, member, kind) for member, kind in _IDENTITY]
        self._statuses = _column(memory, record, "status", "i")
        self._stamps = _column(memory, record, "ts", "q")
        self._integers = _column(memory, record, "value", "q")
        self._doubles = _column(memory, record, "value", "d")
        self._known: list[list[int]] = []
        self._numbers: list[int] = []
        self._is_double: list[bool] = []

    def read(self) -> Iterator[tuple[int, int, int, int | float]]:
        """Make the call. Returns for each series its index, DCGM's status (0 is fine), the time in us of the hostengine's
        clock (0 if nothing was sampled yet) and the value, or a blank. Raises EngineError, also if a series is no longer
        watched, and DcgmError if the library fills in other records than the bindings describe."""
        self._engine.call_library("dcgmEntitiesGetLatestValues", *self._arguments)
        identity = [column.tolist() for column in self._identity]
        if identity != self._known:  # DCGM promises no order, and a type may come with the first sample
            self._identify(*identity)
            self._known = identity
        statuses = self._statuses.tolist()
        if codes.NOT_WATCHED in statuses:
            raise EngineError(codes.NOT_WATCHED, "DCGM's hostengine does not watch any more what it was told to")
        values = [
            double if is_double else integer
            for is_double, double, integer in zip(self._is_double, self._doubles.tolist(), self._integers.tolist())
        ]
        return zip(self._numbers, statuses, self._stamps.tolist(), values)

    def _identify(self, versions: list[int], *columns: list[int]) -> None:
        """Find out which series each record of the answer belongs to, and keep that for later answers in the same order:
        the index of the series in ``_numbers``, and whether its value is a floating-point number in ``_is_double``.

        Args:
            versions: The version of each record's structure.
            columns: Four lists with one number for each record: the entity group, the entity, the field, and the type of
                the field's values.

        Raises DcgmError, and keeps nothing, if a record has another version than the bindings describe, or is of an
        entity and field that nobody asked for.
        """
        groups, entities, fields, types = columns
        found = [
            self._number_of.get(((group, entity), field), -1) for group, entity, field in zip(groups, entities, fields)
        ]
        if set(versions) != {self._version} or -1 in found:
            raise DcgmError(
                "DCGM's library answers with other records than its Python bindings describe",
                "reinstall DCGM: library and bindings must be of one version",
            )
        self._numbers = found
        self._is_double = [kind == _IS_DOUBLE for kind in types]


def _column(memory: bytearray, record: Any, member: str, kind: str) -> memoryview:
    """View one member of every record as an array. ``kind`` is its type as ``struct`` names it."""
    items: Any = memoryview(memory).cast(kind)  # type: ignore[call-overload]
    column: memoryview = items[
        getattr(record, member).offset // items.itemsize :: ctypes.sizeof(record) // items.itemsize
    ]
    return column
