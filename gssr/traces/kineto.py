"""Chrome traces into a Timeline: torch.profiler's (Kineto), and others' for what they hold."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.traces.categories import COUNTED_RANGE, KINDS, category_of, operation_of, work_named
from gssr.traces.event_columns import COLUMNS, COUNTED, FLOW, EventColumns, Numbers, Open, columns_of, whole_number
from gssr.traces.host_waits import host_waits_apart
from gssr.traces.interval_columns import order_of
from gssr.traces.timeline import (
    NO_LINK,
    Clock,
    CountedKernel,
    Counter,
    Intervals,
    Kind,
    Shape,
    Timeline,
    TraceError,
    TraceSource,
    Track,
    TrackKind,
    is_unix_time,
)

_OF_MTIA = {"dma_request": Kind.MEMCPY, "event_wait": Kind.GPU_SYNC, "event_record": Kind.GPU_SYNC}
_API = re.compile(r"^(?:hip|cuda|hsa_|cu[A-Z])")
_GPU_PROCESS = re.compile(r"^/device:(GPU|TPU):(\d+)|\b(GPU)\s?(\d+)$")
_STREAM = re.compile(r"Stream #(\d+)")
_HELD = frozenset("XMiIRBEC") | FLOW
_MOST_KEYS = 1 << 26


def read_kineto(path: str, most_bytes: int | None = None) -> Timeline:
    """Read a Chrome trace. The timeline's times are those of the file, not shifted. ``most_bytes`` is how much the file
    may unpack to, None for the default. Raises TraceError if it cannot be read, is too large, or holds no event."""
    found = columns_of(path, most_bytes)
    if not any(found.phases[phase] for phase in _HELD):
        raise TraceError(f"{path}: holds no trace: nothing in it is an event")
    _close(found)
    columns = {name: np.concatenate([np.empty(0, kind), *found.parts.pop(name)]) for name, kind in COLUMNS}
    order = order_of(columns["start"], columns["length"])
    for name, column in columns.items():
        columns[name] = column[order]
    counted, columns = _counted_apart(found, columns)
    is_kineto = any(cat in KINDS for cat in found.cats)
    is_used = np.zeros(2 * len(found.threads), np.bool_)
    is_used[columns["track"]] = True
    tracks = _named_tracks(found, np.flatnonzero(is_used).tolist(), is_kineto)
    track = (np.cumsum(is_used, dtype=np.int32) - 1)[columns["track"]]
    names, place = _texts(found)
    rows = _classified(found, columns["cat"], columns["name"], track, tracks, is_kineto)
    intervals = Intervals(
        columns["start"], columns["length"], track, place[columns["name"]], *rows[:2],
        columns["link"], columns["size"], rows[2],
    )  # fmt: skip
    keys, notes, is_damaged = found.keys, list(_list_notes(found)), found.is_cut
    before = len(intervals)
    if counted:
        notes.append(f"CUPTI counted in {len(counted):,} kernels, whose times are not known: --csv operator_counters")
    elif is_kineto:
        intervals = _of_gpus(intervals, tracks, names, keys, is_damaged, notes)
    tracks, intervals = host_waits_apart(tracks, names, intervals)
    source = TraceSource(
        path, "kineto" if is_kineto else "chrome", "torch.profiler" if is_kineto else "",
        rank=rank_of(keys), host=_host_of(keys), n_events=found.n_events,
        left_out=found.n_broken + found.n_unsound + before - len(intervals), notes=tuple(notes),
        is_damaged=is_damaged,
    )  # fmt: skip
    pageable = None
    if any("Pageable" in name or "Pinned" in name for name in names):
        is_pageable = np.array(["Pageable" in name for name in names])
        pageable = np.flatnonzero(is_pageable[intervals.name] & (intervals.kind == Kind.MEMCPY))
    counters = tuple(_make_counters(found))
    tracks = tuple(track._replace(rank=source.rank, node=source.host) for track in tracks)
    return Timeline(
        (source,), _clock_of(intervals.start, counters, keys), tracks, names, intervals,
        counters, pageable, _facts_of(keys), shapes=tuple(_shapes(found)), counted=counted,
    )  # fmt: skip


def _close(found: EventColumns) -> None:
    """Match begins and ends of events on each track, and add them to the columns as intervals. Those without a partner
    are counted as unsound."""
    waiting: dict[int, list[Open]] = {}
    spans = []
    for one in sorted(found.open, key=lambda one: one.time):
        stack = waiting.setdefault(one.track, [])
        if one.is_begin:
            stack.append(one)
        elif stack:
            begun = stack.pop()
            spans.append((begun.time, one.time - begun.time, begun.cat, begun.name, begun.track, NO_LINK, -1))
    found.n_unsound += len(found.open) - 2 * len(spans)
    for (name, kind), column in zip(COLUMNS, zip(*spans, strict=True), strict=False):
        found.parts[name].append(np.array(column, kind))


def _named_tracks(found: EventColumns, used: Sequence[int], is_kineto: bool) -> tuple[Track, ...]:
    """Make the tracks with these numbers (as in EventColumns), in that order, without rank and node. ``is_kineto``: the
    trace is torch.profiler's; in others what a process is called tells whether it is a GPU."""
    tracks = []
    threads = list(found.threads)
    for number in used:
        pid, tid = threads[number // 2]
        process = found.labels.get(("process_name", pid, None), "")
        thread = found.labels.get(("thread_name", pid, tid), "").strip()
        device, stream = found.streams.get(number, (pid, None if is_kineto else tid))
        device = pid if device is None else device
        kind: TrackKind = "gpu_stream" if number % 2 else "cpu_thread"
        if not is_kineto and (device_of := _GPU_PROCESS.search(process)):
            of_stream = _STREAM.search(thread)
            is_work = of_stream or device_of[3] or (device_of[1] == "TPU" and thread == "XLA Ops")
            kind = "gpu_stream" if is_work else "other"
            device, stream = int(device_of[2] or device_of[4]), int(of_stream[1]) if of_stream else tid
        elif isinstance(pid, str):
            kind = "other"
        if kind == "gpu_stream":
            name = (
                thread
                if thread.lower().startswith(("stream", "xla"))
                else f"stream {tid if stream is None else stream}"
            )
            track = Track(
                kind, name, None, None, whole_number(pid), None, whole_number(device), None, whole_number(stream)
            )
        else:
            name = thread or f"{process} {'' if tid is None else tid}".strip()
            track = Track(kind, name, None, None, whole_number(pid), whole_number(tid))
        tracks.append(track)
    return tuple(tracks)


def _texts(found: EventColumns) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Convert all names to texts. Returns the different texts, and for each name its index among them."""
    texts = Numbers()
    places = [texts["" if name is None else str(name)] for name in found.names]
    return tuple(texts), np.array(places or [0], np.int32)


def _classified(
    found: EventColumns,
    cat: NDArray[np.int32],
    name: NDArray[np.int32],
    track: NDArray[np.int32],
    tracks: Sequence[Track],
    is_kineto: bool,
) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
    """Find the kind, the category and the operation of each interval, int8[n] each; operation is -1 of what is no copy.
    ``cat``, ``name`` and ``track`` [n] are the intervals' columns: indices into ``found.cats``, ``found.names`` and
    ``tracks``. Each combination of cat, name and place is looked at once."""
    on_gpu = np.array([one.kind == "gpu_stream" for one in tracks] or [False])
    n_cats = len(found.cats) or 1
    key = (name.astype(np.int64) * n_cats + cat) * 2 + on_gpu[track]
    n_keys = 2 * n_cats * (len(found.names) or 1)
    if n_keys > _MOST_KEYS:
        combinations, key = np.unique(key, return_inverse=True)
    else:  # without sorting
        is_there = np.zeros(n_keys, np.bool_)
        is_there[key] = True
        combinations = np.flatnonzero(is_there)
        key = (np.cumsum(is_there, dtype=np.int32) - 1)[key]
    tables = np.zeros((3, len(combinations) or 1), np.int8)
    cats, names = list(found.cats), list(found.names)
    for number, combination in enumerate(combinations.tolist()):
        rest, is_work = divmod(combination, 2)
        text = str(names[rest // n_cats] or "")
        kind = _determine_kind(cats[rest % n_cats], text, bool(is_work), is_kineto)
        copies = kind in (Kind.MEMCPY, Kind.MEMSET)
        tables[:, number] = kind, category_of(kind, text), operation_of(text) if copies else -1
    return tables[0][key], tables[1][key], tables[2][key]


def _of_gpus(
    own: Intervals, tracks: Sequence[Track], names: Sequence[str], keys: Mapping[str, Any], is_damaged: bool,
    notes: list[str],
) -> Intervals:  # fmt: skip
    """Remove intervals that ROCm's profiler recorded on GPUs while it warmed up, and append to ``notes`` what is odd
    about GPUs. ``is_damaged``: some events of the file are missing."""
    on_gpu = np.array([track.kind == "gpu_stream" for track in tracks] or [False])[own.track]
    is_hip = "hip_runtime_version" in keys or any(name.startswith("hip") for name in names)
    if not on_gpu.any():
        if keys.get("deviceProperties") or ((own.kind == Kind.RUNTIME) | (own.kind == Kind.DRIVER)).any():
            why = "HIP was used before the profiler began, or the profiler" if is_hip else "the profiler"
            why = "the file is damaged, so they may be missing" if is_damaged else f"{why} was not on for GPUs"
            notes.append(f"no GPU rows: {why}; what GPUs did is not known")
        return own
    early = on_gpu & (own.start + own.length <= own.start[~on_gpu].min(initial=np.iinfo(np.int64).max))
    if not is_hip or on_gpu.all() or not early.any():
        return own
    n = np.count_nonzero(early)
    notes.append(f"GPU rows before the first row of the program, left out, as the profiler was warming up: {n:,}")
    return replace(own, **{field.name: getattr(own, field.name)[~early] for field in fields(own)})


def _make_counters(found: EventColumns) -> Iterable[Counter]:
    """Make the counters, with times ascending. The profiler's sums of memory are in bytes, the units of others are not
    known. Each key of an event's values makes a counter of its own, with the key behind the name unless it is the name
    or "value". Counters without values are left out."""
    for (name, key), parts in found.series.items():
        time, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(time, kind="stable")
        unit = "B" if name in ("Total Allocated", "Total Reserved") else ""
        full = name if key in (name, "value") else f"{name} ({key})"
        if len(order):
            yield Counter(full, unit, "gauge", time[order], value[order])


def _counted_apart(
    found: EventColumns, columns: dict[str, NDArray[Any]]
) -> tuple[tuple[CountedKernel, ...], dict[str, NDArray[Any]]]:
    """Take the kernels in which CUPTI counted out of the columns: their times divide the recording, and are not when they
    ran. Returns them and the columns of all other events."""
    is_counted = columns["cat"] == found.cats.get(COUNTED_RANGE, -1)
    if not is_counted.any():
        return (), columns
    names, values = (
        list(found.names),
        [json.loads(values) if name == COUNTED else {} for name, *_, values in found.shapes],
    )
    rows = zip(*(columns[name][is_counted].tolist() for name in ("name", "track", "size")), strict=True)
    counted = tuple(
        CountedKernel(str(names[name] or ""), track, values[-2 - size] if size < -1 else {})
        for name, track, size in rows
    )
    return counted, {name: column[~is_counted] for name, column in columns.items()}


def _shapes(found: EventColumns) -> Iterable[Shape]:
    for name, *texts in found.shapes:
        yield Shape(name, *("" if name == COUNTED else text.decode(errors="replace") for text in texts))


def _list_notes(found: EventColumns) -> Iterable[str]:
    """List what is to be said about the trace, as sentences: the reader's own, and how many events were left out for
    which reason."""
    yield from found.notes
    if found.n_broken:
        yield f"events that could not be read, and are left out: {found.n_broken:,}"
    if found.n_unsound:
        yield f"events without a sound beginning and end, which are left out: {found.n_unsound:,}"
    unknown = sum(n for phase, n in found.phases.items() if phase not in _HELD and phase is not None)
    if unknown:
        yield f"events of kinds that no timeline shows (asynchronous ones, objects), which are left out: {unknown:,}"


def _determine_kind(cat: Any, name: str, on_gpu: bool, is_kineto: bool) -> Kind:
    """Determine the kind of an event from its category and name in the file, and whether it is ``on_gpu``. In a trace of
    torch.profiler (``is_kineto``) the category decides, on MTIA the name, and an unknown category is OTHER. In others
    everything on a GPU is a kernel unless it is named like a copy or a memset, and on the host what is named like a call
    of CUDA's or HIP's interface is a call: the rest is OTHER."""
    if is_kineto:
        return _OF_MTIA.get(name, Kind.KERNEL) if cat == "mtia_ccp_events" else KINDS.get(cat, Kind.OTHER)
    if not on_gpu:
        return Kind.RUNTIME if _API.match(name) else Kind.OTHER
    return work_named(name)


def rank_of(keys: Mapping[str, Any]) -> int | None:
    """Return the rank that the file's ``distributedInfo`` says, None if it says none."""
    info = keys.get("distributedInfo")
    rank = whole_number(info.get("rank")) if isinstance(info, dict) else None
    return rank if rank is not None and rank >= 0 else None


def _host_of(keys: Mapping[str, Any]) -> str | None:
    found = (keys.get(name) for name in ("host_name", "hostname", "hostName"))
    return next((host for host in found if isinstance(host, str) and host), None)


def _clock_of(start: Ints, counters: Sequence[Counter], keys: Mapping[str, Any]) -> Clock:
    """Determine the clock of a file from the times of its events, or of its first counter if it has no events. Times
    are unix times in traces until 2024, and count from ``baseTimeNanoseconds`` in later ones. Otherwise the clock is
    unknown."""
    start = start if len(start) or not counters else counters[0].time
    if not len(start):
        return Clock()
    usual = int(start[len(start) // 2])
    base = whole_number(keys.get("baseTimeNanoseconds")) or 0
    for zero, error in ((0, 1000), (base, 0)):
        if is_unix_time(zero + usual):
            return Clock(zero, "unix", error)
    return Clock()


_FACTS = ("cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version", "hip_driver_version")


def _facts_of(keys: Mapping[str, Any]) -> dict[str, str]:
    """Collect versions of drivers and runtimes, and the names of GPUs."""
    facts = {name: str(keys[name]) for name in _FACTS if isinstance(keys.get(name), int | str)}
    devices = keys.get("deviceProperties")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str) and device["name"].strip():
            facts[f"GPU {device.get('id')}"] = device["name"]
    return facts
