"""The simulated hostengine: what is watched, when it is sampled, and what a client gets to see of it."""

import random
from collections.abc import Callable, Sequence
from typing import Any

INT64_BLANK = 0x7FFFFFFFFFFFFFF0
DOUBLE_BLANK = 140737488355328.0
MICRO = 1_000_000

DEFAULTS: dict[str, Any] = {
    "major": 4,
    "gpus": ["GPU-a", "GPU-b"],  # UUIDs in the order of their ids
    "models": {},  # UUID: product name, where it is not an H100
    "mig": {},  # UUID: list of (gpu instance, compute instance)
    "profiling": 0,  # the code with which profiling fields are refused
    "pausable": False,  # before Hopper
    "failing": [],  # profiling fields that can't be watched
    "together": 99,  # how many profiling fields can be watched together
    "unsupported": [],  # fields whose values are "not supported"
    "forbidden": [],  # fields whose values are "not permitted"
    "lost": [],  # UUIDs of GPUs that fell off the bus
    "late": 0.0,  # values are inserted up to so many s after their stamp
    "jitter": 0.002,  # stamps are off by up to so many s
    "ahead": 0.0,  # the engine's clock, s ahead of true time
    "unwatch": False,  # true makes it forget all watches, once
}

STRINGS = {1, 50, 53, 54, 57}
DOUBLES = {155, 160, 164, *range(1001, 1009), *range(1013, 1017)}
KNOWN = {1, 50, 52, 53, 54, 57, 63, 100, 101, 112, 113, 140, 150, 155, 156, 160, 164, 190, 203, 204, 240, 241,
         250, 251, 252, 253, *range(1001, 1076)}  # fmt: skip
C2C = {1076, 1077, 1078, 1079}
PROFILING = range(1001, 1100)
GPU, GPU_I, GPU_CI = 1, 4, 5

BADPARAM, NOT_SUPPORTED, NO_DATA, NOT_WATCHED, GPU_IS_LOST = -1, -6, -14, -16, -18
GROUP_INCOMPATIBLE, MAX_LIMIT, DUPLICATE_KEY, MULTI_PASS = -23, -24, -26, -38
MOST_GROUPS, MOST_FIELDS = 64, 128

Entity = tuple[int, int]
Value = tuple[int, int, int, int, int, int, Any]
"""Entity group, entity, field, type, status, stamp in us, value."""


class Refused(Exception):
    """The engine's answer is an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Series:
    """One watched field of one entity: its watchers' (period, keep) and the samples, each with its time of insertion."""

    def __init__(self, entity: Entity, field: int, begin: int) -> None:
        self.entity = entity
        self.field = field
        self.watchers: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.random = random.Random(hash((entity, field)))
        self.due = begin + self.random.randrange(1, 3000)
        self.inserted = 0
        self.taken = 0
        self.samples: list[tuple[int, int, Any]] = []
        self.blank = False


def kind_of(field: int) -> str:
    return "s" if field in STRINGS else "d" if field in DOUBLES else "i"


def blank(field: int, reason: int = 0) -> Any:
    kind = kind_of(field)
    return "<<<NULL>>>" if kind == "s" else DOUBLE_BLANK + reason if kind == "d" else INT64_BLANK + reason


def value_at(uuid: str, field: int, stamp: int) -> Any:
    """The closed form of a field: every stamp has a value of its own."""
    share = random.Random(f"{uuid} {field} {stamp}").random()
    if field == 156:
        return stamp // 1000  # mJ at 1 kW
    if field == 112:
        return 4
    if field in DOUBLES:
        return 100 + 500 * share if field in (155, 160, 164) else share
    return round(share * (100 if field in (203, 204) else 80 if field in (140, 150) else 50_000))


class HostEngine:
    """``clock`` gives true unix time in s. Every method raises Refused for an error code."""

    def __init__(self, clock: Callable[[], float], **knobs: Any) -> None:
        self.knobs = DEFAULTS | knobs
        self.log: list[tuple[str, int, int, Any, int]] = []
        """Every sample taken: (UUID, field, stamp, value, time of insertion); a blank is None."""
        self.calls: list[str] = []
        self.paused = False
        self._clock = clock
        self._gpus = list(self.knobs["gpus"])
        self._groups: dict[int, tuple[int, set[Entity]]] = {}
        self._field_groups: dict[int, tuple[int, str, list[int]]] = {}
        self._series: dict[tuple[Entity, int], _Series] = {}
        self._serial = 1

    def now(self) -> int:
        """Its own clock, us."""
        return round((self._clock() + self.knobs["ahead"]) * MICRO)

    def request(self, client: int, name: str, arguments: Sequence[Any]) -> Any:
        """What the function of this name answers this client."""
        self.calls.append(name)
        if self.knobs["unwatch"]:
            self.knobs["unwatch"] = False
            self._series.clear()
        return getattr(self, name)(client, *arguments)

    def forget(self, client: int) -> None:
        """A client is gone: so is all that was its."""
        for group in [key for key, (owner, _) in self._groups.items() if owner == client]:
            del self._groups[group]
        for group in [key for key, (owner, _, _) in self._field_groups.items() if owner == client]:
            del self._field_groups[group]
        for key, series in list(self._series.items()):
            series.watchers = {watcher: how for watcher, how in series.watchers.items() if watcher[0] != client}
            if not series.watchers:
                del self._series[key]

    def set_clock(self, seconds: int) -> None:
        """Somebody sets its machine's clock: it goes on sampling by the new one, and drops what it had."""
        for series in self._series.values():
            self._advance(series, self.now())
            series.due += seconds * MICRO
            series.inserted = 0
            series.samples.clear()
        self.knobs["ahead"] += seconds

    @property
    def left_behind(self) -> int:
        """Groups, field groups and watched fields there are."""
        return len(self._groups) + len(self._field_groups) + len(self._series)

    # What the bindings call

    def knows(self, _client: int, field: int) -> bool:
        return field in KNOWN or (field in C2C and self.knobs["major"] >= 4)

    def devices(self, _client: int) -> list[int]:
        return list(range(len(self._gpus)))

    def hierarchy(self, _client: int) -> list[tuple[int, int, int, int, int, int]]:
        """(entity group, id, parent's group, parent's id, GPU instance, compute instance)"""
        entries = []
        for gpu, uuid in enumerate(self._gpus):
            holders: dict[int, int] = {}
            for number, (instance, compute) in enumerate(self.knobs["mig"].get(uuid, [])):
                if instance not in holders:
                    holders[instance] = 8 * gpu + len(holders)
                    entries.append((GPU_I, holders[instance], GPU, gpu, instance, 0))
                entries.append((GPU_CI, 8 * gpu + number, GPU_I, holders[instance], instance, compute))
        return entries

    def latest_live(self, _client: int, entities: Sequence[Entity], fields: Sequence[int]) -> list[Value]:
        now = self.now()
        return [self._live(tuple(entity), field, now) for entity in entities for field in fields]

    def group_create(self, client: int, _kind: int, _name: str) -> int:
        if len(self._groups) >= MOST_GROUPS:
            raise Refused(MAX_LIMIT)
        self._groups[self._next()] = (client, set())
        return self._serial

    def group_add(self, _client: int, group: int, entity_group: int, entity: int) -> None:
        self._group(group).add((entity_group, entity))

    def group_destroy(self, _client: int, group: int) -> None:
        self._group(group)
        del self._groups[group]

    def fields_create(self, client: int, fields: Sequence[int], name: str) -> int:
        if not fields or len(fields) > MOST_FIELDS or not all(self.knows(client, field) for field in fields):
            raise Refused(BADPARAM)
        if any(taken == name for _, taken, _ in self._field_groups.values()):
            raise Refused(DUPLICATE_KEY)
        if len(self._field_groups) >= MOST_GROUPS:
            raise Refused(MAX_LIMIT)
        self._field_groups[self._next()] = (client, name, list(fields))
        return self._serial

    def fields_destroy(self, _client: int, field_group: int) -> None:
        self._fields(field_group)
        del self._field_groups[field_group]

    def watch(self, client: int, group: int, field_group: int, period: int, keep: float, _most: int) -> None:
        entities, fields = self._group(group), self._fields(field_group)
        profiled = [field for field in fields if field in PROFILING]
        code = self._refusal(entities, profiled) if profiled else 0
        if code:
            for entity in entities:
                for key in [key for key in self._series if key[0] == entity]:
                    del self._series[key]
            raise Refused(code)
        kept = max(int(keep), 1)
        now = self.now()
        for entity in entities:
            for field in fields:
                series = self._series.setdefault((entity, field), _Series(entity, field, now))
                slowest = max((period for period, _ in series.watchers.values()), default=period)
                # Watching again more slowly, without unwatching first, leaves a profiling field blank.
                series.blank = field in PROFILING and (
                    series.blank or period > slowest or period < 100_000 or (period >= MICRO and kept <= 2)
                )
                series.watchers[client, group, field_group] = (period, kept)

    def unwatch(self, client: int, group: int, field_group: int) -> None:
        self._fields(field_group)
        for key, series in list(self._series.items()):
            series.watchers.pop((client, group, field_group), None)
            if not series.watchers:
                del self._series[key]

    def values_since(self, _client: int, group: int, field_group: int, since: int) -> tuple[int, list[Value]]:
        entities, fields = sorted(self._group(group)), self._fields(field_group)
        if not all((entity, field) in self._series for entity in entities for field in fields):
            raise Refused(NOT_WATCHED)
        now = self.now()
        values: list[Value] = []
        for entity in entities:
            for field in fields:
                series = self._series[entity, field]
                self._advance(series, now)
                kind = ord(kind_of(field))
                new = [sample for sample in series.samples if since <= sample[1] <= now and sample[0] <= now]
                if not new:
                    values.append((*entity, field, kind, NO_DATA, 0, 0.0 if kind == ord("d") else 0))
                values += [(*entity, field, kind, 0, stamp, value) for _, stamp, value in new]
        return now + 1, values

    def supported(self, _client: int, gpu: int) -> list[tuple[int, list[int]]]:
        """(major id, fields) of the groups of profiling metrics."""
        if self.knobs["profiling"]:
            raise Refused(self.knobs["profiling"])
        fields = [field for field in (*KNOWN, *C2C) if field in PROFILING and self.knows(0, field)]
        return [(gpu, fields[at : at + 64]) for at in range(0, len(fields), 64)]

    def pause(self, _client: int, paused: bool) -> None:
        if not self.knobs["pausable"]:
            raise Refused(NOT_SUPPORTED)
        self.paused = paused

    # What it does by itself

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _group(self, group: int) -> set[Entity]:
        if group not in self._groups:
            raise Refused(BADPARAM)
        return self._groups[group][1]

    def _fields(self, field_group: int) -> list[int]:
        if field_group not in self._field_groups:
            raise Refused(BADPARAM)
        return self._field_groups[field_group][2]

    def _refusal(self, entities: set[Entity], fields: Sequence[int]) -> int:
        if self.knobs["profiling"]:
            return int(self.knobs["profiling"])
        if len({self.knobs["models"].get(self.uuid(entity)[0]) for entity in entities}) > 1:
            return GROUP_INCOMPATIBLE
        if any(field in self.knobs["failing"] for field in fields):
            return NOT_SUPPORTED
        return MULTI_PASS if len(fields) > self.knobs["together"] else 0

    def uuid(self, entity: Entity) -> tuple[str, str]:
        """(UUID of its GPU, name in the log)"""
        group, number = entity
        if group == GPU:
            return self._gpus[number], self._gpus[number]
        for kind, own, _, _, instance, compute in self.hierarchy(0):
            if (kind, own) == entity:
                gpu = self._gpus[number // 8]
                return gpu, f"MIG-{gpu}/{instance}/{compute}" if group == GPU_CI else f"{gpu}/{instance}"
        raise Refused(BADPARAM)

    def _live(self, entity: Entity, field: int, now: int) -> Value:
        uuid = self.uuid(entity)[0]
        kind = ord(kind_of(field))
        if uuid in self.knobs["lost"] and field not in (50, 52, 54):
            return (*entity, field, kind, GPU_IS_LOST, now, blank(field))
        fixed = {1: "570.00", 50: self.knobs["models"].get(uuid, "NVIDIA H100"), 52: entity[1], 54: uuid,
                 63: 9 << 16, 113: 1980, 164: 700.0, 250: 81559}  # fmt: skip
        return (*entity, field, kind, 0, now, fixed.get(field, self._value(uuid, field, now)))

    def _value(self, uuid: str, field: int, stamp: int) -> Any:
        if field in self.knobs["unsupported"]:
            return blank(field, 2)
        if field in self.knobs["forbidden"]:
            return blank(field, 3)
        return value_at(uuid, field, stamp)

    def _advance(self, series: _Series, now: int) -> None:
        """Take the samples that are due, each a little late, stamped when taken and inserted after that."""
        period = min(period for period, _ in series.watchers.values())
        kept = max(kept for _, kept in series.watchers.values())
        gpu, name = self.uuid(series.entity)
        while series.due <= now:
            stamp = series.due + int(series.random.random() * self.knobs["jitter"] * MICRO)
            series.due = max(series.due + period, stamp - period // 2)
            series.taken += 1
            if gpu in self.knobs["lost"]:
                continue
            value = self._value(gpu, series.field, stamp)
            if series.field in PROFILING and (series.taken == 1 or series.blank or self.paused):
                value = blank(series.field)
            delay = int(series.random.random() * self.knobs["late"] * MICRO)
            series.inserted = max(series.inserted, stamp + delay)
            series.samples.append((series.inserted, stamp, value))
            base = DOUBLE_BLANK if series.field in DOUBLES else INT64_BLANK
            self.log.append((name, series.field, stamp, None if value >= base else value, series.inserted))
        series.samples = [sample for sample in series.samples if sample[1] > now - kept * MICRO]
