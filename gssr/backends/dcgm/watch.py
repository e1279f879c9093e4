"""What the hostengine is asked to sample: groups of entities, groups of fields, and watches on them.

An engine has room for some 60 groups, for all its clients together: one holds all GPUs of a model. Base and profiling
fields are watched apart, because one profiling field that fails takes everything watched with it down. Where not all
profiling fields can be watched together, those are that the score needs; where they are refused for a group, each of its
GPUs is tried alone, as one of them may lack them. Whatever fails, the base fields go on.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from gssr.backends.dcgm import codes
from gssr.backends.dcgm.codes import COMPUTE_INSTANCE, GPU, GPU_INSTANCE, DcgmError
from gssr.backends.dcgm.engine import Engine, EngineError
from gssr.backends.dcgm.entities import Entity, Sampled, unsupported
from gssr.metrics import BY_NAME, METRICS, SCORE_INPUTS

KEPT_SECONDS = 10.0
"""How long the hostengine is asked to keep samples, of which only the newest is read here. Much shorter ages leave
profiling fields of DCGM 3.3.9 to 4.2.3 blank."""
SHARED_KEPT_SECONDS = 3600.0
"""Before DCGM 4.2 the shortest age of all watchers holds for everybody: there it is an hour, the default of NVIDIA's own job
statistics (dcgmi stats), so that no other client's history is cut. It costs the hostengine 24 bytes a sample, 5 MB a GPU at
500 ms and 23 MB at 100 ms."""
_LONGEST_AGE_HOLDS = (4, 2)
"""The DCGM from which on the longest age of all watchers holds."""
_MICRO = 1_000_000
_FIELDS = tuple(metric.dcgm for metric in METRICS if metric.dcgm is not None)
_SCORED = tuple(field for name in SCORE_INPUTS if (field := BY_NAME[name].dcgm) is not None)
_BY_IMPORTANCE = (*_SCORED, *(field for field in _FIELDS if field not in _SCORED))
_serial = itertools.count()


class FieldWatch(NamedTuple):
    """One watch: its entities, the ids of its group of entities and its group of fields, and these fields."""

    entities: tuple[Entity, ...]
    group: Any
    field_group: Any
    fields: tuple[int, ...]


class NoRoomError(DcgmError):
    """The hostengine has as many groups as it can hold."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"DCGM's hostengine has no room for another {what} (all its clients together may have some 60)",
            "end those that hold them (dcgmi group --list, dcgmi fieldgroup --list), or restart nv-hostengine",
        )


def create(engine: Engine, what: str, name: str, *arguments: Any) -> Any:
    """Call the engine's function ``name`` with ``arguments``, and return what it has created. ``what`` names that in
    the text of an error. Raises NoRoomError if the hostengine can hold no more of it, EngineError for any other failure."""
    try:
        return engine.call(name, *arguments)
    except EngineError as error:
        if error.code == codes.MAX_LIMIT:
            raise NoRoomError(what) from None
        raise


def keep_seconds(interval: float, version: str, shared: bool) -> float:
    """Return how long a hostengine should keep samples that are taken every ``interval`` s, in whole seconds, to which
    it would cut them. ``version``: the hostengine's; ``shared``: other clients may use it as well."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    kept = SHARED_KEPT_SECONDS if shared and numbers < _LONGEST_AGE_HOLDS else KEPT_SECONDS
    return float(math.ceil(max(kept, 5 * interval)))


class Watches:
    """All watches of one connection. ``live``: those in force; ``notes``: lines for the user about what cannot be
    watched."""

    def __init__(self, engine: Engine, interval: float) -> None:
        self.live: list[FieldWatch] = []
        self.notes: list[str] = []
        self._engine = engine
        self._period = round(interval * _MICRO)
        self._kept = keep_seconds(interval, engine.version(), shared=not engine.embedded)
        self._groups: list[Any] = []
        self._field_groups: dict[tuple[int, ...], Any] = {}
        self._refused: dict[str, list[Sampled]] = {}
        self._n_of_model: dict[str, int] = {}

    def make(self, found: Sequence[Sampled], profiling: bool) -> None:
        """Watch all fields of these GPUs; profiling fields only with ``profiling``. What cannot be watched is in
        ``notes``. Raises EngineError if the connection is lost, and DcgmError if nothing at all can be watched."""
        engine = self._engine
        known = [field for field in _BY_IMPORTANCE if engine.knows_field(field)]
        self._n_of_model = {model: len(part) for model, part in _sorted_out(found, _model)}
        full: NoRoomError | None = None
        groups = []
        for (kind, _), alike in _sorted_out(found, lambda each: (each.entity[0], each.model)):
            fields = [field for field in known if _is_measured(kind, field)]
            for at in range(0, len(alike), codes.MOST_ENTITIES):
                part = alike[at : at + codes.MOST_ENTITIES]
                try:
                    groups.append((part, self._group(part), fields))
                except NoRoomError as error:
                    full = error
        # Profiling first: where it fails, it may take down what is watched already.
        for part, group, fields in groups if profiling else ():
            self._profile(part, group, [field for field in fields if field in codes.PROFILING])
        for part, group, fields in groups:
            base = [field for field in fields if field not in codes.PROFILING]
            lacking = unsupported(engine, [each.entity for each in part], base)
            try:
                self._watch(part, group, [field for field in base if field not in lacking])
            except NoRoomError as error:
                full = error
        if full is not None:
            if not self.live:
                raise full
            self.notes.append(f"dcgm: not everything is sampled: {full}")
        self.notes += [f"dcgm: {why.format(self._name_models(whose))}" for why, whose in self._refused.items()]
        if any(each.entity[0] != GPU for each in found):
            # A MIG instance that was watched before is otherwise left until the hostengine next looks round, every 10 s.
            engine.ask("dcgmUpdateAllFields", 1)

    def destroy(self) -> None:
        """Stop watching and delete every group. Never raises EngineError."""
        while self.live:
            self._drop(self.live.pop())
        for field_group in self._field_groups.values():  # on which nothing could be watched
            self._engine.quietly("dcgmFieldGroupDestroy", field_group)
        for group in self._groups:
            self._engine.quietly("dcgmGroupDestroy", group)
        self._groups, self._field_groups = [], {}

    def _group(self, members: Sequence[Sampled]) -> Any:
        """Create a group of these entities. Raises NoRoomError and EngineError."""
        group = create(self._engine, "group", "dcgmGroupCreate", codes.EMPTY_GROUP, group_name())
        self._groups.append(group)
        for member in members:
            self._engine.call("dcgmGroupAddEntity", group, *member.entity)
        return group

    def _field_group(self, fields: tuple[int, ...]) -> Any:
        """Return the group of these fields, creating it the first time. Raises NoRoomError and EngineError."""
        if fields not in self._field_groups:
            created = create(self._engine, "field group", "dcgmFieldGroupCreate", list(fields), group_name())
            self._field_groups[fields] = created
        return self._field_groups[fields]

    def _watch(self, members: Sequence[Sampled], group: Any, fields: Sequence[int]) -> None:
        """Watch fields of a group; does nothing without fields. Raises NoRoomError and EngineError."""
        if not fields:
            return
        entities = tuple(member.entity for member in members)
        watch = FieldWatch(entities, group, self._field_group(tuple(fields)), tuple(fields))
        try:
            self._engine.call("dcgmWatchFields", group, watch.field_group, self._period, self._kept, 0)
        except EngineError:
            self._drop(watch)
            raise
        self.live.append(watch)

    def _profile(self, members: Sequence[Sampled], group: Any, fields: Sequence[int]) -> None:
        """Watch profiling fields of all members together, or, if that is refused, of each GPU alone. What cannot be
        watched is noted."""
        gpus = _sorted_out(members, lambda member: member.gpu)
        try:
            code = self._watch_offered(members, group, fields)
            if not code:
                return
            if len(gpus) == 1:
                self._refuse(members, code)
                return
        except NoRoomError as error:
            self._note_lack_of_profiling(members, str(error))
            return
        for _, part in gpus:
            try:
                smaller = self._group(part)
            except NoRoomError as error:
                self._note_lack_of_profiling(part, str(error))
                continue
            self._profile(part, smaller, fields)

    def _watch_offered(self, members: Sequence[Sampled], group: Any, fields: Sequence[int]) -> int:
        """Watch those of the fields that all members have, or, if that is refused, those that the score needs. Returns
        0, or the code with which DCGM refuses both. Raises NoRoomError, and EngineError when the connection is lost."""
        offered: Sequence[int] = fields
        try:
            has = self._offered(members)
            offered = [field for field in fields if has is None or field in has]
            self._watch(members, group, offered)
        except EngineError as error:
            _unless_lost(error)
            scored = [field for field in offered if field in _SCORED]
            if error.code in codes.REFUSALS or not scored or scored == offered:
                return error.code
            try:
                self._watch(members, group, scored)
            except EngineError as again:
                _unless_lost(again)
                return again.code
            left = ", ".join(metric.label for metric in METRICS if metric.dcgm in offered and metric.dcgm not in scored)
            self._refused.setdefault(f"{{}} can't measure all metrics together, left out are {left}", []).extend(
                members
            )
        return 0

    def _offered(self, members: Sequence[Sampled]) -> set[int] | None:
        """Find the profiling fields that all these GPUs have; a GPU whose list is empty does not count. None if DCGM
        lists none for any. (On Hopper and newer it lists all.) Raises EngineError if a GPU has no profiling metrics."""
        common: set[int] | None = None
        for gpu in dict.fromkeys(member.gpu for member in members):
            answer = self._engine.call("dcgmProfGetSupportedMetricGroups", gpu)
            groups = [answer.metricGroups[position] for position in range(answer.numMetricGroups)]
            offered = {field for group in groups for field in list(group.fieldIds)[: group.numFieldIds]}
            if offered:
                common = offered if common is None else common & offered
        return common

    def _refuse(self, members: Sequence[Sampled], code: int) -> None:
        why, cure = codes.REFUSALS.get(code, codes.NO_REASON)
        self._note_lack_of_profiling(members, f"{why} (error {code}); {cure}")

    def _note_lack_of_profiling(self, members: Sequence[Sampled], why: str) -> None:
        """Note that these GPUs have no profiling metrics because of ``why``. GPUs with the same reason share one
        note."""
        text = (
            f"no profiling metrics (SM, tensor, memory activity) of {{}}: {why}. Utilization, power, memory and clocks are "
            "recorded"
        )
        self._refused.setdefault(text, []).extend(members)

    def _name_models(self, members: Sequence[Sampled]) -> str:
        """Name the models of these GPUs, with the indices of those meant if they are not all of a model."""
        words = []
        for model, part in _sorted_out(list(dict.fromkeys(members)), _model):
            indices = sorted({member.device.device_index for member in part})
            some = f" {', '.join(map(str, indices))}" if len(part) < self._n_of_model[model] else ""
            words.append(f"{model}{some and ' (GPU' + some + ')'}")
        return ", ".join(words)

    def _drop(self, watch: FieldWatch) -> None:
        """Stop watching, and delete the watch's group of fields unless one of the watches in ``live`` uses it. It is
        unwatched first: a later, slower watch of a field that is still watched would be blank. Errors are ignored."""
        self._engine.quietly("dcgmUnwatchFields", watch.group, watch.field_group)
        if not any(other.field_group is watch.field_group for other in self.live):
            self._engine.quietly("dcgmFieldGroupDestroy", watch.field_group)
            self._field_groups.pop(watch.fields, None)


def _model(member: Sampled) -> str:
    return member.model


def _sorted_out(members: Sequence[Sampled], by: Callable[[Sampled], Hashable]) -> list[tuple[Any, list[Sampled]]]:
    """Group members by what ``by`` returns, keeping their order. Returns each key with its members."""
    parts: dict[Hashable, list[Sampled]] = {}
    for member in members:
        parts.setdefault(by(member), []).append(member)
    return list(parts.items())


def _is_measured(entity_group: int, field: int) -> bool:
    fields_of_instances = {GPU_INSTANCE: codes.GPU_INSTANCE_FIELDS, COMPUTE_INSTANCE: codes.COMPUTE_INSTANCE_FIELDS}
    return entity_group == GPU or field in fields_of_instances[entity_group]


def group_name() -> str:
    """Return a name for a group that no other client of the hostengine uses."""
    return f"gssr-{socket.gethostname()}-{os.getpid()}-{next(_serial)}"


def _unless_lost(error: EngineError) -> None:
    if error.code == codes.CONNECTION_NOT_VALID:
        raise error
