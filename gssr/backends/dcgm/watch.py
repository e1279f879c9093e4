"""What the hostengine is asked to sample: groups of entities, groups of fields, and watches on them.

Base and profiling fields are watched apart, and GPUs per model: one profiling field that fails takes everything watched
with it down. Whatever fails, the base fields go on.
"""

import itertools
import math
import os
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.codes import COMPUTE_INSTANCE, GPU, GPU_INSTANCE
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.entities import Found, unsupported
from gssr.metrics import BY_NAME, METRICS, SCORE_INPUTS

KEPT_SECONDS = 10.0
_MICRO = 1_000_000
_FIELDS = tuple(metric.dcgm for metric in METRICS if metric.dcgm is not None)
_SCORED = tuple(field for name in SCORE_INPUTS if (field := BY_NAME[name].dcgm) is not None)
_BY_IMPORTANCE = (*_SCORED, *(field for field in _FIELDS if field not in _SCORED))
_serial = itertools.count()


class Target(NamedTuple):
    """Entities of one kind on GPUs of one model, with the DCGM id of one of these GPUs."""

    model: str
    entity_group: int
    entities: tuple[int, ...]
    gpu: int


class Watch(NamedTuple):
    """One watch: what it is on, the ids of its two groups, and the fields in it."""

    target: Target
    group: Any
    field_group: Any
    fields: tuple[int, ...]


def keep_seconds(interval: float, poll: float) -> float:
    """How long the hostengine keeps samples, whole seconds (it truncates): never so short that profiling fields of DCGM
    3.3.9 to 4.2.3 stay blank, nor that a slow poll loses some."""
    return float(math.ceil(max(KEPT_SECONDS, 5 * interval, 3 * poll)))


def targets_of(found: Sequence[Found]) -> list[Target]:
    """The entities, by model and kind."""
    sorted_out: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for each in found:
        for group, entity in each.entities:
            sorted_out.setdefault((each.model, group), []).append((entity, each.gpu))
    return [
        Target(model, group, tuple(entity for entity, _ in entries), entries[0][1])
        for (model, group), entries in sorted_out.items()
    ]


class Watches:
    """All watches of one connection. ``notes`` are the lines to be said about what can't be watched."""

    def __init__(self, engine: Engine, interval: float, poll: float) -> None:
        self.live: list[Watch] = []
        self.notes: list[str] = []
        self._engine = engine
        self._period = round(interval * _MICRO)
        self._kept = keep_seconds(interval, poll)
        self._groups: list[Any] = []

    def make(self, found: Sequence[Found], profiling: bool) -> None:
        """Watch all there is of these; ``profiling`` fields only if told. Raises EngineError when the connection is lost
        or nothing at all can be watched."""
        engine = self._engine
        known = [field for field in _BY_IMPORTANCE if engine.knows_field(field)]
        groups = []
        for target in targets_of(found):
            measured = [field for field in known if _measured(target.entity_group, field)]
            groups.append((target, self._group(target), measured))
        # Profiling first: where it fails, it may take down what is watched already.
        for target, group, fields in groups if profiling else ():
            self._watch_profiling(target, group, [field for field in fields if field in codes.PROFILING])
        for target, group, fields in groups:
            base = [field for field in fields if field not in codes.PROFILING]
            lacking = unsupported(engine, [(target.entity_group, entity) for entity in target.entities], base)
            self._watch(target, group, [field for field in base if field not in lacking])

    def destroy(self) -> None:
        """Stop watching and delete every group. Never raises EngineError."""
        for watch in self.live:
            self._drop(watch)
        for group in self._groups:
            self._quietly("dcgmGroupDestroy", group)
        self.live, self._groups = [], []

    def _group(self, target: Target) -> Any:
        group = self._engine.call("dcgmGroupCreate", codes.EMPTY_GROUP, _name())
        self._groups.append(group)
        for entity in target.entities:
            self._engine.call("dcgmGroupAddEntity", group, target.entity_group, entity)
        return group

    def _watch(self, target: Target, group: Any, fields: Sequence[int]) -> None:
        if not fields:
            return
        call = self._engine.call
        watch = Watch(target, group, call("dcgmFieldGroupCreate", list(fields), _name()), tuple(fields))
        try:
            call("dcgmWatchFields", group, watch.field_group, self._period, self._kept, 0)
        except EngineError:
            self._drop(watch)
            raise
        self.live.append(watch)

    def _watch_profiling(self, target: Target, group: Any, fields: Sequence[int]) -> None:
        try:
            offered = self._offered(target)
            self._watch(target, group, [field for field in fields if offered is None or field in offered])
        except EngineError as error:
            _unless_lost(error)
            if error.code in codes.REFUSALS:
                why, cure = codes.REFUSALS[error.code]
                self.notes.append(
                    f"dcgm: no profiling metrics (SM, tensor, memory activity) of {target.model}: {why} (error "
                    f"{error.code}); {cure}. Utilization, power, memory and clocks are recorded"
                )
            else:
                self._watch_one_by_one(target, group, fields)

    def _watch_one_by_one(self, target: Target, group: Any, fields: Sequence[int]) -> None:
        """The largest set that can be watched together, most important fields first."""
        good: list[int] = []
        for field in fields:
            try:
                self._watch(target, group, [*good, field])
            except EngineError as error:
                _unless_lost(error)
                continue
            good.append(field)
            self._drop(self.live.pop())
        self._watch(target, group, good)
        left = ", ".join(metric.label for metric in METRICS if metric.dcgm in fields and metric.dcgm not in good)
        self.notes.append(f"dcgm: {target.model} can't measure together with the others: {left}")

    def _offered(self, target: Target) -> set[int] | None:
        """The profiling fields the GPU's model has; None when DCGM doesn't tell. (On Hopper and newer it lists all.)"""
        answer = self._engine.call("dcgmProfGetSupportedMetricGroups", target.gpu)
        groups = [answer.metricGroups[position] for position in range(answer.numMetricGroups)]
        return {field for group in groups for field in list(group.fieldIds)[: group.numFieldIds]} or None

    def _drop(self, watch: Watch) -> None:
        """Unwatch, then delete: a later, slower watch of a field that is still watched leaves it blank."""
        self._quietly("dcgmUnwatchFields", watch.group, watch.field_group)
        self._quietly("dcgmFieldGroupDestroy", watch.field_group)

    def _quietly(self, name: str, *arguments: Any) -> None:
        try:
            self._engine.call(name, *arguments)
        except EngineError:
            pass  # the hostengine forgets what belongs to a connection that ends


def _measured(entity_group: int, field: int) -> bool:
    if entity_group == GPU:
        return True
    return (
        field
        in {GPU_INSTANCE: codes.GPU_INSTANCE_FIELDS, COMPUTE_INSTANCE: codes.COMPUTE_INSTANCE_FIELDS}[entity_group]
    )


def _name() -> str:
    """A name no other client of the hostengine has."""
    return f"gssr-{socket.gethostname()}-{os.getpid()}-{next(_serial)}"


def _unless_lost(error: EngineError) -> None:
    if error.code == codes.CONNECTION_NOT_VALID:
        raise error
