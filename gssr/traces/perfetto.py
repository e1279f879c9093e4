"""Traces of Perfetto (protobuf: ``.pftrace``, ``.perfetto-trace``) into a Timeline: slices and counters on tracks, as its
SDK, rocprofv3 and ROCm Systems Profiler write them. What the kernel's ftrace tells is not read.

A trace is a row of packets. Those of one writer (a sequence) are in order, refer to names that an earlier packet of it has
told, and may count times from each other.
"""

import os
import re
from array import array
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.traces.categories import KINDS
from gssr.traces.json_events import FileChunks
from gssr.traces.protobuf_fields import (
    LAST_NS,
    LONGEST_MESSAGE,
    IntervalRows,
    UnsoundError,
    fields,
    number_at,
    text_of,
    unpacked,
)
from gssr.traces.timeline import NO_LINK, Clock, Counter, Kind, Timeline, TraceError, TraceSource, Track, is_unix_time

_PACKET, _LONGEST_HEAD = b"\x0a", 11
"""How a packet begins: field 1, and its length in at most ten bytes."""
_LEAST_PACKET, _NEVER_TOO_MANY = 12, 1_000_000
"""Bytes of a file that a packet takes at least, beyond so many packets: those of slices take 20. Packed ones may take 6, and
of many --max-size tells that they are meant."""
_MOST_NAMES, _MOST_SEQUENCES, _MOST_TRACKS = 1 << 20, 1 << 16, 1 << 18
"""That sequences hold at once; and writers and tracks of a file: as many as a recording may have ranks."""
_MOST_ANNOTATIONS = 64
_LONGEST_PACKET = 64 << 20
"""Bytes of a packet that is not read, but passed over."""
_BOOT, _UNIX = 6, 1
"""Clocks by their number: the one that times count by where nothing else is said, and"""
_OF_SEQUENCE = range(64, 128)
"""those that each sequence has for itself."""
_CLEARED, _NEEDS_STATE = 1, 2
"""Flags of a packet: it forgets the sequence's names, it needs them."""
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_IS_END = -1
_LEGACY = {ord("B"): _BEGIN, ord("E"): _END, ord("I"): _INSTANT, ord("i"): _INSTANT, ord("X"): _BEGIN}
_UNITS = {1: "ns", 2: "", 3: "B"}
_OF_ROCM = {
    "kernel_dispatch": Kind.KERNEL, "memory_copy": Kind.MEMCPY, "hip_api": Kind.RUNTIME, "hip_runtime_api": Kind.RUNTIME,
    "hip_compiler_api": Kind.RUNTIME, "hsa_api": Kind.DRIVER, "rccl_api": Kind.CPU_OP, "marker_api": Kind.RANGE,
}  # fmt: skip
"""By category, in which ROCm Systems Profiler writes "rocm_" before it."""
_NEEDS = (
    "reading it needs the packages protobuf and perfetto: pip install 'protobuf>=6.31.1,<8' 'perfetto>=0.56,<1' (with GSSR "
    "in a checkout: pip install '.[perfetto]')"
)
_ON_GPU = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.GPU_SYNC, Kind.GPU_RANGE)
_API = re.compile(r"(?:hip|cuda|hsa_|cu)[A-Z]")
_DEVICE = re.compile(r"(?:AGENT|GPU|Device)\D{0,20}?(\d{1,9})", re.IGNORECASE)
_STREAM = re.compile(r"(?:STREAM|QUEUE|THREAD)\D{0,3}(\d{1,9})", re.IGNORECASE)
_OF_CPU = "(CPU)"
"""How rocprofv3 ends the name of a track of copies to the host."""
_LINKS, _SIZES = ("corr_id", "correlation", "correlation_id"), ("copy_bytes", "bytes")
"""Arguments that tell which call launched it, and how many bytes it copies."""
_LAST_NUMBER = re.compile(r"(\d{1,9})\D*$")
_NO_DATA = {
    None, "clock_snapshot", "trace_config", "trace_stats", "service_event", "synchronization_marker", "system_info",
    "trace_uuid", "process_tree", "initial_display_state", "track_event_range_of_interest", "extension_descriptor",
    "process_descriptor", "thread_descriptor", "chrome_metadata", "ui_state", "trigger", "clone_snapshot_trigger",
}  # fmt: skip
"""Packets that are no events of the program."""


class _Described(NamedTuple):
    """What a track is said to be; None and "" are unknown. ``unit_multiplier``: of a counter's values."""

    name: str
    parent: int
    pid: int | None
    tid: int | None
    is_counter: bool = False
    unit: str = ""
    unit_multiplier: int = 1
    is_incremental: bool = False


@dataclass(slots=True)
class _Sequence:
    """What packets of one writer refer to: interned texts by kind and number, times that others count from, and the
    defaults. ``is_valid``: nothing was lost since names were told."""

    names: dict[tuple[str, int], str] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    totals: dict[int, float] = field(default_factory=dict)
    track: int = 0
    clock: int = 0
    is_valid: bool = True


def read_perfetto(path: str, rank: int | None = None, most_bytes: int | None = None) -> Timeline:
    """Read a trace of Perfetto. ``rank`` is that of its tracks; ``most_bytes``: how much the file may unpack to, None for
    the default. Raises TraceError."""
    try:
        size = most_bytes or os.path.getsize(path)
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    chunks = FileChunks(path, most_bytes)
    try:
        reading = _Reading(path, rank, size)
    except ImportError:
        raise TraceError(f"{path}: {_NEEDS}") from None
    is_whole = reading.read(chunks)
    if chunks.problem:
        reading.notes.append(chunks.problem)
    elif not is_whole:
        reading.notes.append("the file is cut off or damaged: what comes before is read")
    return reading.timeline(is_damaged=bool(chunks.problem) or not is_whole)


class _Reading:
    """A pass through the packets of one file, which collects tracks, intervals and counters. ``notes``: sentences that say
    what could not be read."""

    def __init__(self, path: str, rank: int | None, size: int) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

        self._packet, self._units = messages.TracePacket, messages.CounterDescriptor
        self._path, self._rank, self._size = path, rank, size
        self.notes: list[str] = []
        self._rows = IntervalRows(path, size)
        self._sequences: dict[int, _Sequence] = {}
        self._described: dict[int, _Described] = {}
        self._offsets: dict[tuple[int, int], tuple[int, int]] = {}
        """By sequence (0 for all) and clock what is added to its times, and ns of one of its units."""
        self._unix: int | None = None
        self._numbers: dict[int, int] = {}
        """Of tracks, by what the file numbers them."""
        self._tracks: dict[tuple[int, bool, int | None], int] = {}
        """By number, whether it is of a GPU, and the device where an event says it."""
        self._edges = tuple(array("q") for _ in range(5))
        """Begins and ends of slices: time, number of the track, place in _types (_IS_END for an end), link, size."""
        self._types: dict[tuple[str, Kind, int | None], int] = {}
        """Of slices: name, kind, and the device where it says one."""
        self._kinds: dict[tuple[tuple[str | bytes, ...], str], Kind] = {}
        """By categories and name."""
        self._series: dict[int, tuple[array[int], array[float]]] = {}
        self._others: Counts[str] = Counts()
        self._n_packets = self._n_names = self._n_lost = self._last = 0

    def read(self, chunks: Iterable[bytes]) -> bool:
        """Read all packets. Returns whether the file ends behind one."""
        held = b""
        for chunk in chunks:
            held += chunk
            at = 0
            while at + _LONGEST_HEAD <= len(held):
                if held[at : at + 1] != _PACKET:
                    return False
                try:
                    length, begin = number_at(held, at + 1, at + _LONGEST_HEAD)
                except UnsoundError:
                    return False
                if length > _LONGEST_PACKET:
                    return False
                if begin + length > len(held):
                    break
                self._add(held[begin : begin + length])
                at = begin + length
            held = held[at:]
        try:
            for number, _, begin, stop in fields(held, 0, len(held)):
                if number == 1:
                    self._add(held[begin:stop])
        except UnsoundError:
            return False
        return True

    def _add(self, data: bytes, is_unpacked: bool = False) -> None:
        """Read a packet. ``is_unpacked``: it stood within a packed one. Raises TraceError."""
        from google.protobuf.message import DecodeError

        self._n_packets += 1
        if self._n_packets > max(_NEVER_TOO_MANY, self._size // _LEAST_PACKET):
            raise TraceError(
                f"{self._path}: holds more packets than a trace of its size has: --max-size SIZE allows more"
            )
        if len(data) > LONGEST_MESSAGE:
            self._n_lost += 1
            return
        try:
            packet = self._packet.FromString(data)
        except DecodeError:
            self._n_lost += 1
            return
        number = packet.trusted_packet_sequence_id
        sequence = self._sequences.get(number)
        if sequence is None:
            if len(self._sequences) >= _MOST_SEQUENCES:
                raise TraceError(f"{self._path}: names more than {_MOST_SEQUENCES:,} writers, more than any trace has")
            sequence = self._sequences[number] = _Sequence()
        if packet.incremental_state_cleared or packet.sequence_flags & _CLEARED:
            self._n_names -= len(sequence.names)
            self._sequences[number] = sequence = _Sequence()
        elif packet.previous_packet_dropped:
            sequence.is_valid = False
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            sequence.clock = defaults.timestamp_clock_id
            sequence.track = defaults.track_event_defaults.track_uuid
        if packet.HasField("interned_data"):
            self._remember(sequence, packet.interned_data)
        kind = packet.WhichOneof("data")
        if kind == "clock_snapshot":
            self._add_clocks(number, sequence, packet.clock_snapshot)
        elif kind == "track_descriptor":
            self._note_description(packet.track_descriptor)
        elif kind == "track_event":
            self._rows.count()
            if sequence.is_valid or not (packet.sequence_flags & _NEEDS_STATE and _refers(packet, sequence)):
                self._add_event(number, sequence, packet)
            else:
                self._n_lost += 1
        elif kind == "compressed_packets" and not is_unpacked:
            try:
                inside = unpacked(packet.compressed_packets, _LONGEST_PACKET)
                for field_, _, begin, stop in fields(inside, 0, len(inside)):
                    if field_ == 1:
                        self._add(inside[begin:stop], True)
            except UnsoundError:
                self._n_lost += 1
        elif kind not in _NO_DATA:
            self._others[kind] += 1

    def _remember(self, sequence: _Sequence, told: Any) -> None:
        """Note the texts that a packet tells. Raises TraceError if they become too many."""
        for kind, listed in (
            ("name", told.event_names), ("category", told.event_categories), ("argument", told.debug_annotation_names),
            ("text", told.debug_annotation_string_values),
        ):  # fmt: skip
            self._n_names += len(listed)
            if self._n_names > _MOST_NAMES:
                raise TraceError(f"{self._path}: tells more than {_MOST_NAMES:,} names, more than any trace has")
            for each in listed:
                sequence.names[kind, each.iid] = _text(each.str if kind == "text" else each.name)

    def _add_clocks(self, number: int, sequence: _Sequence, snapshot: Any) -> None:
        """Note how clocks compare that were looked at in one moment."""
        times = {each.clock_id: each for each in snapshot.clocks[:_MOST_ANNOTATIONS]}
        reference = times.get(_BOOT) or next(iter(times.values()), None)
        if reference is None:
            return
        at = reference.timestamp * (reference.unit_multiplier_ns or 1)
        for clock, each in times.items():
            unit = each.unit_multiplier_ns or 1
            own = number if clock in _OF_SEQUENCE else 0
            if each.is_incremental:
                sequence.times[clock] = each.timestamp * unit
            self._offsets[own, clock] = (at - each.timestamp * unit, unit)
        if _UNIX in times and _BOOT in times and is_unix_time(times[_UNIX].timestamp) and at < LAST_NS:
            self._unix = times[_UNIX].timestamp - at if self._unix is None else self._unix

    def _note_description(self, told: Any) -> None:
        """Note what a TrackDescriptor says about its track. Raises TraceError if more than _MOST_TRACKS tracks are
        described."""
        if len(self._described) >= _MOST_TRACKS:
            raise TraceError(f"{self._path}: names more than {_MOST_TRACKS:,} tracks, more than any trace has")
        thread, process, counter = told.thread, told.process, told.counter
        is_thread, is_process = told.HasField("thread"), told.HasField("process")
        self._described[told.uuid] = _Described(
            _text(told.name or told.static_name or thread.thread_name or process.process_name),
            told.parent_uuid, thread.pid if is_thread else process.pid if is_process else None,
            thread.tid if is_thread else None, told.HasField("counter"),
            _text(counter.unit_name) or _UNITS.get(counter.unit, ""), counter.unit_multiplier or 1, counter.is_incremental,
        )  # fmt: skip

    def _time_of(self, number: int, sequence: _Sequence, packet: Any) -> int:
        """Return the time of an event, ns since boot where the clocks are known."""
        event = packet.track_event
        if event.HasField("timestamp_absolute_us"):
            return int(event.timestamp_absolute_us) * 1000
        clock = packet.timestamp_clock_id or sequence.clock or _BOOT
        offset, unit = self._offsets.get((number if clock in _OF_SEQUENCE else 0, clock), (0, 1))
        time = packet.timestamp * unit
        if clock in sequence.times:
            time = sequence.times[clock] = sequence.times[clock] + time
        return int(time + (0 if clock == _BOOT else offset))

    def _add_event(self, number: int, sequence: _Sequence, packet: Any) -> None:
        """Add what a packet's track event tells: a begin, an end, a moment or a value of a counter. An event without a
        type or a sound time is counted as lost; of Chrome's own phases those that are not read are packets of another
        kind. ``number`` and ``sequence``: the packet's writer. Raises TraceError if events are on more than _MOST_TRACKS
        tracks."""
        event = packet.track_event
        track = event.track_uuid or sequence.track
        time = self._time_of(number, sequence, packet)
        kind, legacy = event.type, None
        if not kind and event.HasField("legacy_event"):
            legacy = event.legacy_event
            kind = _LEGACY.get(legacy.phase, 0)
        if not 0 <= time < LAST_NS or not (kind or legacy):
            self._n_lost += 1
            return
        if not kind:
            self._others["legacy_event"] += 1
            return
        if kind == _COUNTER:
            self._add_value(sequence, track, time, event)
            return
        own = self._numbers.setdefault(track, len(self._numbers))
        if len(self._numbers) > _MOST_TRACKS:
            raise TraceError(f"{self._path}: names more than {_MOST_TRACKS:,} tracks, more than any trace has")
        if kind == _END:
            self._add_edge(time, own, _IS_END)
            return
        iid = event.name_iid or (legacy.name_iid if legacy else 0)
        named = sequence.names
        name = _text(event.name) or named.get(("name", iid), "(no name)")
        categories = (*event.categories[:8], *[named.get(("category", n), "") for n in event.category_iids[:8]])
        what = self._kinds.get((categories, name))
        if what is None:
            what = self._kinds[categories, name] = _kind_of(categories, name)
        if kind == _INSTANT:
            self._rows.add(time, time, self._track(own, False, None), name, Kind.MARK)
            return
        told = self._arguments(sequence, event) if what is not Kind.RANGE and event.debug_annotations else {}
        flows = event.flow_ids or event.terminating_flow_ids or event.flow_ids_old or event.terminating_flow_ids_old
        link, size, device = flows[0] % (1 << 61) if flows else NO_LINK, -1, None
        if told:
            link = next((n for key in _LINKS if (n := _whole(told.get(key)))), link)
            size = next((n for key in _SIZES if (n := _whole(told.get(key))) is not None), -1)
            source = _LAST_NUMBER.search(str(told.get("src_agent", "")))
            if source and what is Kind.MEMCPY and self._described.get(track, _UNKNOWN).name.endswith(_OF_CPU):
                device = int(source[1])
        name = name.replace("_", "") if what is Kind.MEMCPY and name.startswith("MEMORY_COPY_") else name
        of = self._types.setdefault((name, what, device), len(self._types))
        self._add_edge(time, own, of, link=link, size=size)
        if legacy and legacy.phase == ord("X"):
            self._add_edge(min(time + max(legacy.duration_us * 1000, 0), LAST_NS), own, _IS_END)

    def _add_edge(self, *values: int, link: int = NO_LINK, size: int = -1) -> None:
        for column, value in zip(self._edges, (*values, link, size), strict=False):
            column.append(value)

    def _arguments(self, sequence: _Sequence, event: Any) -> dict[str, Any]:
        """Return the first arguments of an event that are texts or numbers, by name."""
        found: dict[str, Any] = {}
        for each in event.debug_annotations[:_MOST_ANNOTATIONS]:
            name = _text(each.name) or sequence.names.get(("argument", each.name_iid), "")
            kind = each.WhichOneof("value")
            if kind == "string_value_iid":
                found[name] = sequence.names.get(("text", each.string_value_iid), "")
            elif kind == "string_value":
                found[name] = _text(each.string_value)
            elif kind in ("uint_value", "int_value"):
                found[name] = getattr(each, kind)
        return found

    def _add_value(self, sequence: _Sequence, track: int, time: int, event: Any) -> None:
        """Add a value of a counter."""
        own = self._described.get(track, _UNKNOWN)
        value = event.double_counter_value if event.HasField("double_counter_value") else float(event.counter_value)
        if own.is_incremental:
            value = sequence.totals[track] = sequence.totals.get(track, 0.0) + value
        if track not in self._series and len(self._series) >= _MOST_TRACKS:
            raise TraceError(f"{self._path}: names more than {_MOST_TRACKS:,} counters, more than any trace has")
        times, values = self._series.setdefault(track, (array("q"), array("d")))
        times.append(time)
        values.append(value * own.unit_multiplier)

    def _track(self, number: int, is_gpu: bool, device: int | None) -> int:
        return self._tracks.setdefault((number, is_gpu, device), len(self._tracks))

    def _close(self) -> None:
        """Make intervals of begins and ends: an end is that of what was begun last on its track. What is still open lasts
        until the last event."""
        if not self._edges[0]:
            return
        time, number, kind, link, size = (np.frombuffer(column, np.int64) for column in self._edges)
        end = np.full(len(time), time.max())
        order = np.lexsort((time, number))
        waiting: list[int] = []
        before = -1
        for at, of, on in zip(order.tolist(), kind[order].tolist(), number[order].tolist(), strict=True):
            if on != before:
                before, waiting = on, []
            if of != _IS_END:
                waiting.append(at)
            elif waiting:
                end[waiting.pop()] = time[at]
            else:
                self._n_lost += 1
        begun = np.flatnonzero(kind != _IS_END)
        types = list(self._types)
        places, which = np.unique(number[begun] * max(len(types), 1) + kind[begun], return_inverse=True)
        made = []
        for own, of in (divmod(place, len(types)) for place in places.tolist()):
            name, what, device = types[of]
            made.append((self._track(own, what in _ON_GPU, device), self._rows.key(name, what)))
        track, key = np.array(made, np.int64).reshape(-1, 2)[which].T
        self._rows.add_columns(time[begun], end[begun], track, key, link[begun], size[begun])

    def timeline(self, is_damaged: bool) -> Timeline:
        """Make the timeline of what was read, of a file that ``is_damaged`` or not. Call it once. Raises TraceError."""
        self._close()
        counters = tuple(self._make_counters())
        if not (self._rows.n_events or counters):
            kinds = ", ".join(kind for kind, _ in self._others.most_common(3))
            what = f"only {kinds}, which this version can't read" if kinds else "no events"
            raise TraceError(
                f"{self._path}: is a trace of Perfetto without slices and counters on tracks: it has {what}"
            )
        intervals, names, _ = self._rows.finish()
        numbers = list(self._numbers)
        tracks = tuple(self._made(numbers[number], is_gpu, device) for number, is_gpu, device in self._tracks)
        lost = self._n_lost + self._rows.n_left_out
        if lost:
            self.notes.append(f"events without sound times, names or ends, which are left out: {lost:,}")
        if n := self._others.total():
            kinds = ", ".join(kind for kind, _ in self._others.most_common(3))
            self.notes.append(f"packets of other kinds ({kinds}), which are left out: {n:,}")
        source = TraceSource(
            self._path, "perfetto", "Perfetto", "", self._rank, None, self._rows.n_events, lost, tuple(self.notes),
            is_damaged=is_damaged,
        )  # fmt: skip
        return Timeline((source,), self._clock(intervals.start, counters), tracks, names, intervals, counters)

    def _clock(self, start: Ints, counters: Sequence[Counter]) -> Clock:
        """Determine the clock. Who makes traces by hand often writes unix times, whatever the clock's number."""
        times = start if len(start) else counters[0].time if counters else start
        if len(times) and is_unix_time(int(times[len(times) // 2])):
            return Clock(0, "unix", 1000)
        if self._unix is None:
            return Clock(None, "boot") if (0, _BOOT) in self._offsets else Clock()
        return Clock(self._unix, "unix", 1000)

    def _made(self, uuid: int, is_gpu: bool, device: int | None) -> Track:
        """Make the track that the file numbers ``uuid``. Its process is told by its own description, or by that of a
        track that it is a part of. ``is_gpu``: it is a GPU's, with the number ``device`` if an event tells it (None:
        none does)."""
        own = told = self._described.get(uuid, _UNKNOWN)
        for _ in range(_MOST_ANNOTATIONS):  # parents may go in a circle
            if told.pid is not None or told.parent not in self._described:
                break
            told = self._described[told.parent]
        name = own.name or told.name or ("" if own.tid is not None and not is_gpu else f"track {uuid}")
        if not is_gpu or (name.endswith(_OF_CPU) and device is None):
            return Track("other" if is_gpu else "cpu_thread", name, self._rank, pid=told.pid, tid=own.tid)
        found, stream = _DEVICE.search(name), _STREAM.search(name)
        number = device if device is not None else int(found[1]) if found else 0
        return Track(
            "gpu_stream", name, self._rank, pid=told.pid, device=number, stream=int(stream[1]) if stream else None
        )

    def _make_counters(self) -> Iterator[Counter]:
        """Make the counters, with times ascending. One without a name is called by its track's number in the file."""
        for track, (times, values) in self._series.items():
            own = self._described.get(track, _UNKNOWN)
            time, value = np.frombuffer(times, np.int64), np.frombuffer(values, np.float64)
            order = np.argsort(time, kind="stable")
            yield Counter(own.name or f"counter {track}", own.unit, "gauge", time[order], value[order])


_UNKNOWN = _Described("", 0, None, None)


def _refers(packet: Any, sequence: _Sequence) -> bool:
    """Tell whether an event can't be understood without what earlier packets of its sequence have told."""
    event, clock = packet.track_event, packet.timestamp_clock_id or sequence.clock
    return bool(clock in _OF_SEQUENCE or not event.track_uuid or event.name_iid or event.category_iids)


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None


def _text(value: str | bytes) -> str:
    """Return a text, which google.protobuf leaves as bytes where it is no UTF-8."""
    return value if isinstance(value, str) else text_of(value)


def _kind_of(categories: Iterable[str | bytes], name: str) -> Kind:
    """Return what a slice is, by its categories."""
    for category in map(_text, categories):
        found = _OF_ROCM.get(category.removeprefix("rocm_"), KINDS.get(category))
        if found is not None:
            return found
    return Kind.RUNTIME if _API.match(name) else Kind.RANGE
