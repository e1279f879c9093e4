"""The simulated hostengine: what is watched, when it is sampled, and what a client gets to see of it."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from fakedcgm.fields import PROFILING, TYPES

INT64_BLANK = 0x7FFFFFFFFFFFFFF0
DOUBLE_BLANK = 140737488355328.0
MICRO = 1_000_000

DEFAULTS: dict[str, Any] = {
    "major": 4,
    "gpus": ["GPU-a", "GPU-b"],  # UUIDs in the order of their ids
    "capability": 9,  # compute capability: 9 Hopper, 8 Ampere
    "models": {},  # UUID: product name, where it is not an H100
    "mig": {},  # UUID: list of (gpu instance, compute instance)
    "profiling": 0,  # the code with which profiling fields are refused
    "without_gpm": {},  # UUID: the code with which profiling fields are refused for this GPU, -33 without NVIDIA's module
    "hidden": False,  # GPM is forbidden to the engine: profiling fields are watched, and stay blank
    "pausable": False,  # before Hopper, with NVIDIA's module
    "failing": [],  # profiling fields that can't be watched
    "together": 99,  # how many profiling fields can be watched together
    "unsupported": [],  # fields whose values are "not supported"
    "forbidden": [],  # fields whose values are "not permitted"
    "lost": [],  # UUIDs of GPUs that fell off the bus
    "late": 0.0,  # values are inserted up to so many s after their stamp
    "jitter": 0.002,  # stamps are off by up to so many s
    "ahead": 0.0,  # the engine's clock, s ahead of true time
    "unwatch": False,  # true makes it forget all watches, once
    "groups": 0,  # groups that others have made
    "field_groups": 0,  # field groups that others have made
    "start": 0.0,  # s it takes to start, as a process
    "hang": False,  # as a process: it answers nobody
    "busy": 0.0,  # 0-1: how often others have all the processors of its node
}

C2C = {1076, 1077, 1078, 1079}
GPU, GPU_I, GPU_CI = 1, 4, 5
MAPPED = {140, 156, 157}
"""Fields that a live read asks the driver for all at once: they come after the others."""

BADPARAM, NOT_SUPPORTED, UNKNOWN_FIELD, NO_DATA, NOT_WATCHED = -1, -6, -13, -14, -16
GROUP_INCOMPATIBLE, MAX_LIMIT, DUPLICATE_KEY, MULTI_PASS = -23, -24, -26, -38
MOST_GROUPS, MOST_FIELD_GROUPS, MOST_FIELDS = {3: 66, 4: 64}, 64, 128
OWN_GROUPS, OWN_FIELD_GROUPS = 2, 3
ALL_GPUS = 0x7FFFFFFF
"""A group that is always there."""
LONGEST_SLEEP = 10 * MICRO
"""Its loop sleeps until something watched is due, at most so long."""
STOPPED = 1.0
"""A process that was not seen for so many s was stopped."""
TURN, LONGEST_WAIT = MICRO // 2, 0.4
"""us of a busy node's time in which others get their turn once or not at all, and up to how much of a second that lasts."""

Entity = tuple[int, int]
Value = tuple[int, int, int, int, int, int, Any]
"""Entity group, entity, field, type, status, stamp in us, value."""


class Refused(Exception):
    """The engine's answer is an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Series:
    """One field of one entity: its watchers' (period, keep) and the samples, each with its time of insertion.

    It outlives its watchers, with its samples, as DCGM's do: only a sample that comes drops one that is too old.
    """

    def __init__(self, entity: Entity, field: int) -> None:
        self.entity = entity
        self.field = field
        self.watchers: dict[int, tuple[int, int]] = {}
        self.random = random.Random(hash((entity, field)))
        self.due = 0
        self.queried = 0
        self.inserted = 0
        self.taken = 0
        self.samples: deque[tuple[int, int, Any]] = deque()
        self.blank = False

    @property
    def period(self) -> int:
        return min(period for period, _ in self.watchers.values())


def kind_of(field: int, major: int = 4) -> str:
    """DCGM's letter for the field's type."""
    return TYPES[major][field]


def blank(field: int, reason: int = 0) -> Any:
    """The value that says: there is none."""
    kind = kind_of(field)
    return {"d": DOUBLE_BLANK + reason, "i": INT64_BLANK + reason, "b": ""}.get(kind, "<<<NULL>>>")


def is_blank(field: int, value: Any) -> bool:
    kind = kind_of(field)
    return (
        bool(value >= (DOUBLE_BLANK if kind == "d" else INT64_BLANK)) if kind in "di" else value in ("", "<<<NULL>>>")
    )


def value_at(uuid: str, field: int, stamp: int) -> Any:
    """The closed form of a field: every stamp has a value of its own."""
    if kind_of(field) in "sb":
        return f"field {field} of {uuid}"
    share = random.Random(f"{uuid} {field} {stamp}").random()
    if field == 156:
        return stamp // 1000  # mJ at 1 kW
    if field == 112:
        return 4
    if kind_of(field) == "d":
        return share if field in PROFILING else 100 + 500 * share
    return round(share * (100 if field in (203, 204) else 80 if field in (140, 150) else 50_000))


@cache
def _turn_of_others(begin: int) -> tuple[float, float]:
    """Two shares, of chance and of the longest wait, for the turn that begins then."""
    drawn = random.Random(begin)
    return drawn.random(), drawn.random()


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
        self._groups: dict[int, tuple[int, str, list[Entity]]] = {}
        self._field_groups: dict[int, tuple[int, str, list[int]]] = {}
        self._series: dict[tuple[Entity, int], _Series] = {}
        self._serial = 1
        self._woken = self.now()
        self._seen = clock()

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
        for group in [key for key, (owner, _, _) in self._groups.items() if owner == client]:
            del self._groups[group]
        for group in [key for key, (owner, _, _) in self._field_groups.items() if owner == client]:
            del self._field_groups[group]
        self._advance_all(self.now())
        for series in self._series.values():
            self._leave(series, client)

    def be_alive(self) -> None:
        """To be called often where time is real: after being stopped it has no samples of that time."""
        seen, self._seen = self._seen, self._clock()
        if self._seen - seen < STOPPED:
            return
        stopped = round((seen + self.knobs["ahead"]) * MICRO)
        now = self.now()
        for series in self._watched():
            self._advance(series, stopped)
            if series.due < now:
                series.taken = 0 if now - series.due > 3 * series.period else series.taken  # the next one is blank
                series.due = now

    def set_clock(self, seconds: int) -> None:
        """Somebody sets its machine's clock: it goes on sampling by the new one, and drops what it had."""
        self._advance_all(self.now())
        for series in self._series.values():
            series.due += seconds * MICRO
            series.queried += seconds * MICRO
            series.inserted = 0
            series.samples.clear()
        self._woken += seconds * MICRO
        self.knobs["ahead"] += seconds

    def runs_at(self, moment: int) -> int:
        """When it gets to do what is due at this moment, us: at once, or on a busy node when others have had their turn."""
        if not self.knobs["busy"]:
            return moment
        begin = moment // TURN * TURN
        chance, length = _turn_of_others(begin)
        return max(moment, begin + round(length * LONGEST_WAIT * MICRO)) if chance < self.knobs["busy"] else moment

    @property
    def left_behind(self) -> int:
        """Groups, field groups and watched fields there are."""
        return len(self._groups) + len(self._field_groups) + len(self._watched())

    # What clients ask

    def version(self, _client: int) -> str:
        return {3: "3.3.9", 4: "4.6.0"}[self.knobs["major"]]

    def knows(self, _client: int, field: int) -> bool:
        return field in TYPES[self.knobs["major"]]

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
        """Read for this call. What the driver is asked for at once comes last."""
        now = self.now()
        ordered = sorted(fields, key=lambda field: field in MAPPED)
        return [self._live(tuple(entity), field, now) for entity in entities for field in ordered]

    def latest(self, _client: int, entities: Sequence[Entity], fields: Sequence[int]) -> list[Value]:
        """The newest sample of each, with its stamp; where there is none a status that says why, stamped 0."""
        now = self.now()
        return [value for entity in entities for field in fields for value in self._latest(tuple(entity), field, now)]

    def samples(self, _client: int, entity: Entity, field: int, start: int, end: int) -> list[Value]:
        """All samples from start to end, by stamp."""
        if not self.knows(0, field):
            raise Refused(UNKNOWN_FIELD)
        series = self._series.get((entity, field))
        if series is None:
            raise Refused(NOT_WATCHED)
        there = self._there(series, self.now())
        kind = ord(kind_of(field))
        found = [(*entity, field, kind, 0, stamp, value) for stamp, value in there if start <= stamp <= end]
        if not found:
            raise Refused(NO_DATA if there or series.watchers else NOT_WATCHED)
        return found

    def group_create(self, client: int, _kind: int, name: str) -> int:
        if OWN_GROUPS + self.knobs["groups"] + len(self._groups) >= MOST_GROUPS[self.knobs["major"]]:
            raise Refused(MAX_LIMIT)
        self._groups[self._next()] = (client, name, [])
        return self._serial

    def group_add(self, _client: int, group: int, kind: int, number: int) -> None:
        entities = self._group(group)
        self.uuid((kind, number))
        if (kind, number) in entities:
            raise Refused(BADPARAM)
        if len(entities) >= (1024 if self.knobs["major"] >= 4 else 64):
            raise Refused(MAX_LIMIT)
        entities.append((kind, number))

    def group_destroy(self, _client: int, group: int) -> None:
        self._group(group)
        del self._groups[group]

    def group_info(self, _client: int, group: int) -> tuple[int, str, list[Entity]]:
        entities = list(self._group(group))
        return self.now(), "DCGM_ALL_SUPPORTED_GPUS" if group == ALL_GPUS else self._groups[group][1], entities

    def fields_create(self, client: int, fields: Sequence[int], name: str) -> int:
        if not fields or len(fields) > MOST_FIELDS or not all(self.knows(client, field) for field in fields):
            raise Refused(BADPARAM)
        if OWN_FIELD_GROUPS + self.knobs["field_groups"] + len(self._field_groups) >= MOST_FIELD_GROUPS:
            raise Refused(MAX_LIMIT)
        if any(taken == name for _, taken, _ in self._field_groups.values()):
            raise Refused(DUPLICATE_KEY)
        self._field_groups[self._next()] = (client, name, list(fields))
        return self._serial

    def fields_destroy(self, _client: int, field_group: int) -> None:
        self.fields_info(0, field_group)
        del self._field_groups[field_group]

    def fields_info(self, _client: int, field_group: int) -> tuple[str, list[int]]:
        if field_group not in self._field_groups:
            raise Refused(BADPARAM)
        _, name, fields = self._field_groups[field_group]
        return name, fields

    def watch(self, client: int, group: int, field_group: int, period: int, keep: float, _most: int) -> None:
        entities, fields = self._group(group), self.fields_info(client, field_group)[1]
        kept = max(int(keep), 1)
        now = self.now()
        self._advance_all(now)
        wakes = self._next_wake(now)
        first = False
        for entity in entities:
            for field in fields:
                series = self._series.setdefault((entity, field), _Series(entity, field))
                if not series.watchers:
                    # A GPU is sampled at once; anything else only where it never was before.
                    series.queried = 0 if entity[0] == GPU else series.queried
                    series.due = wakes
                    series.taken = 0
                first = first or not series.queried
                slowest = max((slow for slow, _ in series.watchers.values()), default=period)
                # Watching again more slowly, without unwatching first, leaves a profiling field blank.
                series.blank = field in PROFILING and (
                    (series.blank and bool(series.watchers))
                    or period > slowest
                    or period < 100_000
                    or (period >= MICRO and kept <= 2)
                )
                series.watchers[client] = (period, kept)
        if first:
            self.update_all(client)
        profiled = [field for field in fields if field in PROFILING]
        if profiled and (code := self._refusal(entities, profiled)):
            self.unwatch(client, group, field_group)
            raise Refused(code)

    def unwatch(self, client: int, group: int, field_group: int) -> None:
        """It is by client that watchers are told apart, not by group."""
        now = self.now()
        for entity in self._group(group):
            for field in self.fields_info(client, field_group)[1]:
                if series := self._series.get((entity, field)):
                    self._advance(series, now)
                    self._leave(series, client)

    def update_all(self, _client: int) -> None:
        """Its loop runs now, and takes what is old enough."""
        now = self.now()
        self._advance_all(now)
        for series in self._watched():
            series.due = min(series.due, max(now + 1, series.queried + series.period))
        self._advance_all(now + 1)
        self._woken = now

    def supported(self, _client: int, gpu: int) -> list[tuple[int, list[int]]]:
        """(major id, fields) of the groups of profiling metrics."""
        if code := self._refusal([(GPU, gpu)], []):
            raise Refused(code)
        fields = [field for field in TYPES[self.knobs["major"]] if field in PROFILING]
        return [(number, fields[at : at + 64]) for number, at in enumerate(range(0, len(fields), 64))]

    def pause(self, _client: int, paused: bool) -> None:
        if not self.knobs["pausable"]:
            raise Refused(NOT_SUPPORTED)
        self.paused = paused

    # What it does by itself

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _group(self, group: int) -> list[Entity]:
        if group == ALL_GPUS:
            return [(GPU, number) for number in range(len(self._gpus))]
        if group not in self._groups:
            raise Refused(BADPARAM)
        return self._groups[group][2]

    def _refusal(self, entities: Sequence[Entity], fields: Sequence[int]) -> int:
        uuids = [self.uuid(entity)[0] for entity in entities]
        for uuid in uuids:
            if code := self.knobs["profiling"] or self.knobs["without_gpm"].get(uuid, 0):
                return int(code)
        if len({self.knobs["models"].get(uuid) for uuid in uuids}) > 1:
            return GROUP_INCOMPATIBLE
        if any(field in self.knobs["failing"] for field in fields):
            return NOT_SUPPORTED
        return MULTI_PASS if len(fields) > self.knobs["together"] else 0

    def uuid(self, entity: Entity) -> tuple[str, str]:
        """(UUID of its GPU, name in the log)"""
        group, number = entity
        if group == GPU and number < len(self._gpus):
            return self._gpus[number], self._gpus[number]
        for kind, own, _, _, instance, compute in self.hierarchy(0):
            if (kind, own) == entity:
                gpu = self._gpus[number // 8]
                return gpu, f"MIG-{gpu}/{instance}/{compute}" if group == GPU_CI else f"{gpu}/{instance}"
        raise Refused(BADPARAM)

    def _live(self, entity: Entity, field: int, now: int) -> Value:
        if not self.knows(0, field):
            return (*entity, field, ord("i"), UNKNOWN_FIELD, 0, 0)
        kind = ord(kind_of(field))
        try:
            uuid = self.uuid(entity)[0]
        except Refused as refused:
            return (*entity, field, ord("i"), refused.code, 0, 0)
        if uuid in self.knobs["lost"] and field not in (50, 52, 54):
            return (*entity, field, kind, 0, now, blank(field))
        fixed = {1: "570.00", 50: self.knobs["models"].get(uuid, "NVIDIA H100"), 52: entity[1], 54: uuid,
                 63: self.knobs["capability"] << 16, 113: 1980, 164: 700.0, 250: 81559}  # fmt: skip
        return (*entity, field, kind, 0, now, fixed.get(field, self._value(uuid, field, now)))

    def _latest(self, entity: Entity, field: int, now: int) -> list[Value]:
        major = self.knobs["major"]
        series = self._series.get((entity, field))
        if series:
            self._advance(series, now)
            for inserted, stamp, value in reversed(series.samples):
                if inserted <= now and stamp <= now:
                    return [(*entity, field, ord(kind_of(field)), 0, stamp, value)]
        if not self.knows(0, field):
            # 4 leaves it out, and the library finds that there are too few.
            return [] if major >= 4 else [(*entity, field, ord("i"), UNKNOWN_FIELD, 0, 0)]
        status = NO_DATA if series and series.watchers else NOT_WATCHED
        if major >= 4:
            return [(*entity, field, ord(kind_of(field)), status, 0, blank(field))]
        return [(*entity, field, ord("i"), status, 0, 0)]

    def _value(self, uuid: str, field: int, stamp: int) -> Any:
        if field in self.knobs["unsupported"]:
            return blank(field, 2)
        if field in self.knobs["forbidden"]:
            return blank(field, 3)
        return value_at(uuid, field, stamp)

    def _watched(self) -> list[_Series]:
        return [series for series in self._series.values() if series.watchers]

    def _leave(self, series: _Series, client: int) -> None:
        series.watchers.pop(client, None)

    def _next_wake(self, now: int) -> int:
        """When the loop will run by itself: when something watched is due, at the latest after its longest sleep."""
        woken = max([self._woken, *(series.queried for series in self._series.values())])
        self._woken = woken + max(0, now - woken) // LONGEST_SLEEP * LONGEST_SLEEP
        return min([self._woken + LONGEST_SLEEP, *(series.due for series in self._watched())])

    def _there(self, series: _Series, now: int) -> list[tuple[int, Any]]:
        """(stamp, value) of what has been inserted by now, in the order of stamps."""
        self._advance(series, now)
        return [(stamp, value) for inserted, stamp, value in series.samples if inserted <= now and stamp <= now]

    def _advance_all(self, now: int) -> None:
        for series in self._watched():
            self._advance(series, now)

    def _advance(self, series: _Series, now: int) -> None:
        """Take the samples that are due, each a little late, stamped when taken and inserted after that."""
        if not series.watchers or series.due > now:
            return
        period = series.period
        ages = [kept for _, kept in series.watchers.values()]
        kept = max(ages) if self.knobs["major"] >= 4 else min(ages)
        gpu, name = self.uuid(series.entity)
        while series.due <= now:
            runs = self.runs_at(series.due)
            if runs > now:
                break
            off = int(series.random.random() * self.knobs["jitter"] * MICRO)
            stamp = runs + (off if series.taken else 0)
            held_up = bool(series.taken) and stamp - series.queried > 3 * period
            # Held up by others, it counts from then on; its own lateness it makes up for.
            series.due = stamp + period if runs > series.due else max(series.due + period, stamp - period // 2)
            series.queried = stamp
            series.taken += 1
            profiled = series.field in PROFILING
            value = self._value(gpu, series.field, stamp)
            if gpu in self.knobs["lost"] or (
                profiled and (series.taken == 1 or held_up or series.blank or self.paused or self.knobs["hidden"])
            ):
                value = blank(series.field)
            delay = int(series.random.random() * self.knobs["late"] * MICRO)
            series.inserted = max(series.inserted, stamp + delay)
            series.samples.append((series.inserted, stamp, value))
            self.log.append(
                (name, series.field, stamp, None if is_blank(series.field, value) else value, series.inserted)
            )
        while series.samples and series.samples[0][1] <= now - kept * MICRO:
            series.samples.popleft()
