"""Chrome traces into a Timeline: torch.profiler's (Kineto), and others' for what they hold."""

import json
import re
from collections import Counter as Count
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.traces.categories import category_of, operation_of
from gssr.traces.json_events import Batch, JsonEvents, TraceError
from gssr.traces.timeline import (
    NO_LINK,
    Category,
    Clock,
    Counter,
    Intervals,
    Kind,
    Source,
    Timeline,
    Track,
    TrackKind,
)

_ON_GPU = {
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "Memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "Memset": Kind.MEMSET,
    "cuda_sync": Kind.GPU_SYNC,
    "gpu_user_annotation": Kind.GPU_RANGE,
    "cuda_profiler_range": Kind.GPU_RANGE,
    "mtia_ccp_events": Kind.KERNEL,
}
_CALLS = {
    "cuda_runtime": Kind.RUNTIME,
    "Runtime": Kind.RUNTIME,
    "mtia_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.DRIVER,
    "privateuse1_driver": Kind.DRIVER,
}
_KINDS = {
    **_ON_GPU,
    **_CALLS,
    "cpu_op": Kind.CPU_OP,
    "Operator": Kind.CPU_OP,
    "python_function": Kind.PYTHON,
    "user_annotation": Kind.RANGE,
    "overhead": Kind.OVERHEAD,
}
_OF_MTIA = {"dma_request": Kind.MEMCPY, "event_wait": Kind.GPU_SYNC, "event_record": Kind.GPU_SYNC}
_API = re.compile(r"^(?:hip|cuda|hsa_|cu[A-Z])")
_GPU_PROCESS = re.compile(r"^/device:(GPU|TPU):(\d+)|\b(GPU)\s?(\d+)$")
_STREAM = re.compile(r"Stream #(\d+)")
_FLOW = frozenset("stf")
_HELD = frozenset("XMiIRBEC") | _FLOW

_EXACT_US = 1 << 43
"""From here on a double does not tell the nanoseconds of a time in µs."""
_MOST_US = 4e15
_FIRST_UNIX, _LAST_UNIX = 10**17, 4 * 10**18
"""In ns: 1973 and 2096. What is before is a time since boot."""
_MOST_INTEGER = float(1 << 53)
_TIMES = {int, float, str, type(None)}


def read_kineto(path: str, most_bytes: int | None = None) -> Timeline:
    """A Chrome trace as a timeline; its times count from the clock of the file. Raises TraceError."""
    return _Reader(path, most_bytes).timeline()


class _Numbers(dict[Any, int]):
    """Numbers what it is asked for in order of its first time."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class _Role(IntEnum):
    CPU = 0
    WINDOW = 1  # of the recording itself: no event of the program
    CALL = 2
    GPU = 3


_ROLES = {"Trace": _Role.WINDOW} | dict.fromkeys(_CALLS, _Role.CALL) | dict.fromkeys(_ON_GPU, _Role.GPU)


class _Open(NamedTuple):
    """What began or ended: ph B or E."""

    time: int
    is_begin: bool
    cat: int
    name: int
    track: int


_COLUMNS = (
    ("start", np.int64),
    ("length", np.int64),
    ("cat", np.int32),
    ("name", np.int32),
    ("track", np.int32),
    ("link", np.int64),
    ("size", np.int64),
)


class _Reader:
    def __init__(self, path: str, most_bytes: int | None) -> None:
        self._path = path
        self._events = JsonEvents(path, most_bytes)
        self._cats, self._names, self._threads = _Numbers(), _Numbers(), _Numbers()  # threads: (pid, tid)
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name, _ in _COLUMNS}
        self._streams: dict[int, tuple[Any, Any]] = {}
        self._labels: dict[tuple[str, Any, Any], str] = {}
        self._series: dict[tuple[str, str], list[tuple[Ints, Floats]]] = {}
        self._open: list[_Open] = []
        self._phases: Count[Any] = Count()
        self._n_events = self._n_unsound = 0

    def timeline(self) -> Timeline:
        for batch in self._events:
            self._add(batch)
        if not any(self._phases[phase] for phase in _HELD):
            raise TraceError(f"{self._path}: holds no trace: nothing in it is an event")
        self._close()
        columns = {name: np.concatenate([np.empty(0, kind), *self._parts.pop(name)]) for name, kind in _COLUMNS}
        order = np.lexsort((-columns["length"], columns["start"]))
        for name, column in columns.items():
            columns[name] = column[order]
        is_kineto = any(cat in _KINDS for cat in self._cats)
        is_used = np.zeros(2 * len(self._threads), np.bool_)
        is_used[columns["track"]] = True
        tracks = self._named_tracks(np.flatnonzero(is_used).tolist(), is_kineto)
        track = (np.cumsum(is_used, dtype=np.int32) - 1)[columns["track"]]
        names, place = self._texts()
        rows = self._classified(columns["cat"], columns["name"], track, tracks, is_kineto)
        intervals = Intervals(
            columns["start"], columns["length"], track, place[columns["name"]], *rows[:2],
            columns["link"], columns["size"], rows[2],
        )  # fmt: skip
        keys = self._events.keys
        source = Source(
            self._path, "kineto" if is_kineto else "chrome", "torch.profiler" if is_kineto else "",
            rank=rank_of(keys), host=_host_of(keys), n_events=self._n_events,
            left_out=self._events.left_out + self._n_unsound, notes=tuple(self._notes()),
        )  # fmt: skip
        pageable = None
        if any("Pageable" in name or "Pinned" in name for name in names):
            is_pageable = np.array(["Pageable" in name for name in names])
            pageable = np.flatnonzero(is_pageable[intervals.name] & (intervals.kind == Kind.MEMCPY))
        tracks = tuple(track._replace(rank=source.rank, node=source.host) for track in tracks)
        return Timeline(
            (source,), _clock_of(intervals.start, keys), tracks, names, intervals,
            tuple(self._counters()), pageable, _facts_of(keys),
        )  # fmt: skip

    def _add(self, batch: Batch) -> None:
        spans = [event for event in batch.events if event.ph == "X"]
        times = [event.ts for event in spans]
        if _needs_digits(times):
            self._events.want_digits()
            again = self._events.decode(batch.text)
            if again is not None:
                self._add(Batch(again, batch.text))
                return
        self._n_events += len(batch.events)
        self._add_spans(spans, times)
        self._phases["X"] += len(spans)
        if len(spans) == len(batch.events):
            return
        others = [event for event in batch.events if event.ph != "X" and event.ph not in _FLOW]
        phases = Count([event.ph for event in others])
        self._phases.update(phases)
        self._add_memory([event for event in others if event.name == "[memory]" and event.args])
        if phases.keys() & {"M", "B", "E"}:
            for event in others:
                self._add_other(event)
        if "C" in phases:
            self._add_counters(batch.text)

    def _add_spans(self, spans: Sequence[Any], times: Sequence[Any]) -> None:
        cats, names, threads = self._cats, self._names, self._threads
        cat = np.array([cats[event.cat] for event in spans], np.int32)
        name = np.array([names[event.name] for event in spans], np.int32)
        thread = np.array([threads[event.pid, event.tid] for event in spans], np.int32)
        role = np.array([_ROLES.get(one, _Role.CPU) for one in cats] or [_Role.CPU], np.int8)[cat]
        on_gpu = role == _Role.GPU
        start, is_sound = _nanoseconds(times)
        length, has_length = _nanoseconds([event.dur for event in spans])
        is_sound &= has_length & (length >= 0) & ((length > 0) | (start > 0) | ~on_gpu)  # CUPTI, once it has lost count
        is_kept = is_sound & (role != _Role.WINDOW)
        self._n_unsound += len(spans) - int(is_sound.sum())

        linked = np.flatnonzero(role >= _Role.CALL)
        args = [spans[at].args for at in linked.tolist()]
        link, size = np.full(len(spans), NO_LINK), np.full(len(spans), -1)
        found = _integers([one and one.correlation for one in args], NO_LINK)
        link[linked] = np.where(found > 0, found, NO_LINK)
        track = 2 * thread + on_gpu
        for at in np.flatnonzero(on_gpu[linked]).tolist():
            one = args[at]
            if one and one.stream is not None and (place := int(track[linked[at]])) not in self._streams:
                self._streams[place] = one.device, one.stream
        size[linked] = _integers([one and (one.bytes or one.size) for one in args], -1)
        columns: tuple[NDArray[Any], ...] = (start, length, cat, name, track, link, size)
        for (what, _), column in zip(_COLUMNS, columns, strict=True):
            self._parts[what].append(column if is_kept.all() else column[is_kept])

    def _add_other(self, event: Any) -> None:
        args = event.args
        if event.ph == "M" and args and isinstance(event.name, str):
            label = args.name if args.name is not None else args.labels
            if label is not None:
                thread = event.tid if event.name == "thread_name" else None
                self._labels[event.name, event.pid, thread] = str(label)
        elif event.ph in ("B", "E"):
            (time,), (is_sound,) = _nanoseconds([event.ts])
            if is_sound:
                track = 2 * self._threads[event.pid, event.tid] + (event.cat in _ON_GPU)
                self._open.append(
                    _Open(int(time), event.ph == "B", self._cats[event.cat], self._names[event.name], track)
                )
            else:
                self._n_unsound += 1

    def _add_memory(self, events: Sequence[Any]) -> None:
        args = [event.args for event in events]
        time, is_sound = _nanoseconds([event.ts for event in events])
        devices = _Numbers()
        device = np.array([devices[one.device_type, one.device_id] for one in args], np.int64)
        for name, values in (
            ("allocated", [one.allocated for one in args]),
            ("reserved", [one.reserved for one in args]),
        ):
            value = _doubles(values)
            for (kind, number), place in devices.items():
                chosen = is_sound & np.isfinite(value) & (device == place)
                where = "CPU" if kind in (0, None) else f"GPU {number}"
                self._series.setdefault((f"memory {name}", where), []).append((time[chosen], value[chosen]))

    def _add_counters(self, text: bytes | memoryview) -> None:
        points: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
        for event in json.loads(b"".join((b"[", text, b"]")), parse_float=str):
            args = event.get("args")
            for key, value in args.items() if event.get("ph") == "C" and isinstance(args, dict) else ():
                points.setdefault((str(event.get("name")), key), []).append((event.get("ts"), value))
        for what, of_one in points.items():
            (time, is_sound), value = (
                _nanoseconds([time for time, _ in of_one]),
                _doubles([value for _, value in of_one]),
            )
            is_sound &= np.isfinite(value)
            self._series.setdefault(what, []).append((time[is_sound], value[is_sound]))

    def _close(self) -> None:
        """The intervals of what began and ended."""
        waiting: dict[int, list[_Open]] = {}
        spans = []
        for one in sorted(self._open, key=lambda one: one.time):
            stack = waiting.setdefault(one.track, [])
            if one.is_begin:
                stack.append(one)
            elif stack:
                begun = stack.pop()
                spans.append((begun.time, one.time - begun.time, begun.cat, begun.name, begun.track, NO_LINK, -1))
        self._n_unsound += len(self._open) - 2 * len(spans)
        for (name, kind), column in zip(_COLUMNS, zip(*spans, strict=True), strict=False):
            self._parts[name].append(np.array(column, kind))

    def _named_tracks(self, used: Sequence[int], is_kineto: bool) -> tuple[Track, ...]:
        tracks = []
        threads = list(self._threads)
        for number in used:
            pid, tid = threads[number // 2]
            process = self._labels.get(("process_name", pid, None), "")
            thread = self._labels.get(("thread_name", pid, tid), "").strip()
            device, stream = self._streams.get(number, (pid, tid))
            kind: TrackKind = "gpu_stream" if number % 2 else "cpu_thread"
            if not is_kineto and (found := _GPU_PROCESS.search(process)):
                of_stream = _STREAM.search(thread)
                is_work = of_stream or found[3] or (found[1] == "TPU" and thread == "XLA Ops")
                kind = "gpu_stream" if is_work else "other"
                device, stream = int(found[2] or found[4]), int(of_stream[1]) if of_stream else tid
            elif isinstance(pid, str):
                kind = "other"
            if kind == "gpu_stream":
                name = thread if thread.lower().startswith(("stream", "xla")) else f"stream {stream}"
                track = Track(kind, name, None, None, _whole(pid), None, _whole(device), None, _whole(stream))
            else:
                name = thread or f"{process} {'' if tid is None else tid}".strip()
                track = Track(kind, name, None, None, _whole(pid), _whole(tid))
            tracks.append(track)
        return tuple(tracks)

    def _texts(self) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The names as text, and the place among them of each that was met."""
        texts = _Numbers()
        places = [texts["" if name is None else str(name)] for name in self._names]
        return tuple(texts), np.array(places or [0], np.int32)

    def _classified(
        self,
        cat: NDArray[np.int32],
        name: NDArray[np.int32],
        track: NDArray[np.int32],
        tracks: Sequence[Track],
        is_kineto: bool,
    ) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
        """Kind, category and operation [n] of intervals: each of the combinations that there are is looked at once."""
        on_gpu = np.array([one.kind == "gpu_stream" for one in tracks] or [False])
        n_cats = len(self._cats) or 1
        key = (name.astype(np.int64) * n_cats + cat) * 2 + on_gpu[track]
        there = np.zeros(2 * n_cats * (len(self._names) or 1), np.bool_)
        there[key] = True
        tables = np.zeros((3, len(there)), np.int8)
        cats, names = list(self._cats), list(self._names)
        for combination in np.flatnonzero(there).tolist():
            rest, is_work = divmod(combination, 2)
            text = str(names[rest // n_cats] or "")
            kind = _kind_of(cats[rest % n_cats], text, bool(is_work), is_kineto)
            copies = kind in (Kind.MEMCPY, Kind.MEMSET)
            tables[:, combination] = kind, category_of(kind, text), operation_of(text) if copies else -1
        return tables[0][key], tables[1][key], tables[2][key]

    def _counters(self) -> Iterable[Counter]:
        for (name, key), parts in self._series.items():
            time, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            order = np.argsort(time, kind="stable")
            unit = "B" if name in ("memory allocated", "memory reserved") else ""
            full = name if key in (name, "value") else f"{name} ({key})"
            if len(order):
                yield Counter(full, unit, "gauge", time[order], value[order])

    def _notes(self) -> Iterable[str]:
        yield from self._events.notes
        if self._events.left_out:
            yield f"{self._events.left_out:,} events could not be read, and were left out"
        if self._n_unsound:
            yield f"{self._n_unsound:,} events without a sound beginning and end were left out"
        unknown = sum(n for phase, n in self._phases.items() if phase not in _HELD and phase is not None)
        if unknown:
            yield f"{unknown:,} events of kinds that no timeline shows (asynchronous ones, objects) were left out"


def _kind_of(cat: Any, name: str, on_gpu: bool, is_kineto: bool) -> Kind:
    if is_kineto:
        return _OF_MTIA.get(name, Kind.KERNEL) if cat == "mtia_ccp_events" else _KINDS.get(cat, Kind.OTHER)
    if not on_gpu:
        return Kind.RUNTIME if _API.match(name) else Kind.OTHER
    if category_of(Kind.KERNEL, name) != Category.COPY:
        return Kind.KERNEL
    return Kind.MEMSET if "memset" in name.lower() else Kind.MEMCPY


def _needs_digits(times: Sequence[Any]) -> bool:
    """Whether these times in µs are doubles so large that they don't tell nanoseconds."""
    return float in set(map(type, times)) and float(np.nanmax(np.abs(_doubles(times)))) >= _EXACT_US


def _doubles(values: Sequence[Any]) -> Floats:
    """Numbers [n], also those that are spelt; NaN where there is none."""
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_double(value) for value in values], np.float64)


def _double(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _nanoseconds(values: Sequence[Any]) -> tuple[Ints, Flags]:
    """Times in µs [n] as whole ns, and which of them are sound."""
    types = set(map(type, values))
    if not types <= _TIMES:  # as they are written
        return _from_digits(values)
    us = _doubles(values)
    is_sound = np.abs(us) < _MOST_US  # and no NaN
    us = np.where(is_sound, us, 0)
    if str in types and us.size and np.abs(us).max() >= _EXACT_US:
        return _from_digits(values)
    whole = np.floor(us)
    return whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64), is_sound


def _from_digits(values: Sequence[Any]) -> tuple[Ints, Flags]:
    ns = [_ns_of(value) for value in values]
    return np.array([value or 0 for value in ns], np.int64), np.array([value is not None for value in ns], np.bool_)


def _ns_of(value: Any) -> int | None:
    text = str(value) if isinstance(value, int | float | str) else b"" if value is None else bytes(value)
    try:
        us = Decimal(text if isinstance(text, str) else text.decode().strip('"'))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return int((us * 1000).to_integral_value()) if us.is_finite() and abs(us) < _MOST_US else None


def _integers(values: Sequence[Any], absent: int) -> Ints:
    """Whole numbers [n] below 2**53; ``absent`` where there is none."""
    numbers = _doubles(values)
    return np.where(np.abs(numbers) < _MOST_INTEGER, numbers, absent).astype(np.int64)


def _whole(value: Any) -> int | None:
    """The number that this is, or spells; None where it does not."""
    try:
        number = None if isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) < 1 << 62 else None


def rank_of(keys: Mapping[str, Any]) -> int | None:
    """The rank that the file says it is of."""
    info = keys.get("distributedInfo")
    rank = _whole(info.get("rank")) if isinstance(info, dict) else None
    return rank if rank is not None and rank >= 0 else None


def _host_of(keys: Mapping[str, Any]) -> str | None:
    found = (keys.get(name) for name in ("host_name", "hostname", "hostName"))
    return next((host for host in found if isinstance(host, str) and host), None)


def _clock_of(start: Ints, keys: Mapping[str, Any]) -> Clock:
    """That of a file whose events begin so: since 1970 until 2024, since ``baseTimeNanoseconds`` after, else since boot."""
    if not len(start):
        return Clock()
    usual = int(start[len(start) // 2])
    base = _whole(keys.get("baseTimeNanoseconds")) or 0
    for zero, error in ((0, 1000), (base, 0)):
        if _FIRST_UNIX <= zero + usual <= _LAST_UNIX:
            return Clock(zero, "unix", error)
    return Clock()


_FACTS = ("cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version", "hip_driver_version")


def _facts_of(keys: Mapping[str, Any]) -> dict[str, str]:
    facts = {name: str(keys[name]) for name in _FACTS if isinstance(keys.get(name), int | str)}
    devices = keys.get("deviceProperties")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str):
            facts[f"GPU {device.get('id')}"] = device["name"]
    return facts
