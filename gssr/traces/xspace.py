"""Profiles of XLA (XSpace, ``*.xplane.pb``) into a Timeline: of JAX, PyTorch/XLA and TensorFlow.

A plane is a device or the threads of a host, a line one of its streams or threads, and what is constant in its events, such
as their names, stands in a table of the plane. On GPUs what is on streams is work; on TPUs XLA's operations, and copies
beside them.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gssr.traces.categories import category_of, work_named
from gssr.traces.dump_file import content_of, whole_number
from gssr.traces.protobuf_fields import LAST_NS, LONGEST_MESSAGE, IntervalRows, UnsoundError, fields, signed, text_of
from gssr.traces.runs import RunTraits
from gssr.traces.timeline import (
    NO_LINK,
    OPERATIONS,
    Category,
    Clock,
    Counter,
    HloOp,
    HloOps,
    Intervals,
    Kind,
    Timeline,
    TraceError,
    TraceSource,
    Track,
    is_unix_time,
)
from gssr.traces.xspace_messages import message

_Made = TypeVar("_Made")
"""What is made of a profile."""
_PLANES, _HOSTS = 1, 4
"""Fields of an XSpace, and"""
_PLANE_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA, _STATS = 2, 3, 4, 5, 6
"""of a plane, and"""
_LINE_ID, _LINE_NAME, _LINE_NS, _EVENTS = 1, 2, 3, 4
"""of a line."""
_AT_ONCE = 1 << 15
"""Bytes of events that are decoded at once."""
_NEVER_TOO_LONG, _MOST_TIMES = 64 << 20, 8
"""Bytes to which a packed file may unpack unless --max-size says more, and sizes of the file: XLA's unpack to 6."""
_MOST_NAMES = 1 << 18
"""Planes, different events in one, and operations: a program of as many is compiled in hours."""
_MOST_ALLOCATORS = 1 << 10
_MOST_OF_ONE = 1 << 53
"""Operations on numbers, and bytes, of one execution; a million of them can be added up."""
_DAMAGED = "is a profile of XLA (XSpace) that is cut off or damaged"
_NEEDS = (
    "reading it needs the package protobuf: pip install 'protobuf>=6.31.1,<8' (with GSSR in a checkout: "
    "pip install '.[perfetto]')"
)
_DEVICE = re.compile(r"/device:(GPU|TPU):(\d{1,9})(?: (SparseCore \d{1,9}))?$")
_TPU = "/device:TPU"
_STREAM = re.compile(r"Stream #(\d{1,9})")
_METADATA, _ENVIRONMENT = "/host:metadata", "Task Environment"
_OPS = ("XLA Ops", "Sparse Core Ops")
_ASYNC, _MODULES, _STEPS, _WAITS = "Async XLA Ops", "XLA Modules", "Steps", "XLA TraceMe"
_MODULE = re.compile(r"(.*)\((\d{1,20})\)$")
"""A module's event: its name, and the number of the program."""
_HOLDS_OPS = ("while", "conditional", "call")
"""Categories of what consists of other operations on its line."""
_IS_DONE = re.compile(r"(?:copy|slice|dynamic-slice|dynamic-update-slice|async)-done\b")
"""The wait for what runs beside the operations."""
_IS_PART = re.compile(r"-(?:start|done)\b")
"""What of it is done is done between the two, not in their own time."""
_TEXT = re.compile(r"%([^\s=]{1,500}) = ")
_COPIED = re.compile(r"\(\w+\[[^\]]*\](\{[^}]*\})?, \w+\[[^\]]*\](\{[^}]*\})?")
"""In the text of a copy the layouts of where it goes, and of where it comes from."""
_IN_HOST_MEMORY = "S(5)"
_BYTES = re.compile(r"\bsize:(\d{1,18})")
_PAGEABLE = " (pageable)"
_API = re.compile(r"(?:hip|cuda|hsa_|cu[A-Z])")
_OF_MEMORY = ("MemoryAllocation", "MemoryDeallocation")
_NUMBER = re.compile(r"[.\d]+$")
_STATS_READ = frozenset((
    "correlation_id", "memcpy_details", "memset_details", "Memset_details", "hlo_op", "hlo_module", "hlo_category",
    "program_id", "flops", "bytes_accessed", "step_num", "allocator_name", "bytes_allocated", "profile_start_time",
    "profile_stop_time",
    "process_id", "jax_version", "device_duration_ps", "device_type_string", "device_vendor", "memory_size",
    "peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second", "matrix_unit_utilization_percent",
    "hbm_utilization_percent",
))  # fmt: skip

_Stats = Mapping[str, Any]


class _EventType(NamedTuple):
    """What events of one number have in common. ``text``: an operation as XLA writes it, "" for what is none."""

    name: str
    text: str = ""
    stats: _Stats = MappingProxyType({})


class _Line(NamedTuple):
    """A line. ``chunks``: positions in the file, each of some of its events; times count from ``start_ps``."""

    number: int
    name: str
    start_ps: int
    chunks: list[tuple[int, int]]


class _Plane(NamedTuple):
    """A plane without its events. ``device``: its number, None for a host; ``part``: of the device, "" for all of it."""

    name: str
    device: int | None
    part: str
    types: Mapping[int, _EventType]
    stat_names: Mapping[int, str]
    stats: _Stats
    lines: list[_Line]


def read_xspace(path: str, rank: int | None = None, most_bytes: int | None = None) -> Timeline:
    """Read a profile of XLA. ``rank`` is that of its tracks; ``most_bytes``: how much the file may unpack to, None for the
    default. Raises TraceError."""
    return _read(path, rank, most_bytes, _Reading.timeline)


def told_by_xspace(path: str, most_bytes: int | None = None) -> RunTraits:
    """Read when a profile begins and ends. Raises TraceError."""
    return _read(path, None, most_bytes, _Reading.traits)


def _read(path: str, rank: int | None, most_bytes: int | None, make: "Callable[[_Reading], _Made]") -> _Made:
    """Open a profile and return what ``make`` makes of it. Raises TraceError."""
    data, size = _content(path, most_bytes)
    try:
        return make(_Reading(path, rank, data, size))
    except UnsoundError:
        raise TraceError(f"{path}: {_DAMAGED}") from None
    except ImportError:
        raise TraceError(f"{path}: {_NEEDS}") from None


def _content(path: str, most_bytes: int | None) -> tuple[bytes, int]:
    """Return what a file holds, unpacked, and its size as it is. Raises TraceError."""
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    return content_of(path, most_bytes, max(_NEVER_TOO_LONG, _MOST_TIMES * size)), size


def _decoded(name: str, data: bytes) -> Any:
    """Decode a message. Raises UnsoundError."""
    from google.protobuf.message import DecodeError

    try:
        return message(name).FromString(data)
    except DecodeError:
        raise UnsoundError from None


class _Reading:
    """One pass through a file."""

    def __init__(self, path: str, rank: int | None, data: bytes, size: int) -> None:
        self._path, self._rank, self._data = path, rank, data
        self._rows = IntervalRows(path, size)
        self._tracks: list[Track] = []
        self._host: str | None = None
        self._ops: dict[tuple[int, str, HloOp], int] = {}
        """Operations, by number of the program and name."""
        self._programs: dict[int, str] = {}
        """Names of modules."""
        self._allocated: dict[str, list[tuple[int, int]]] = {}
        self._facts: dict[str, str] = {}
        self._stats: dict[str, Any] = {}
        """Of planes of the host."""
        self._has_steps = self._is_unix = False

    def timeline(self) -> Timeline:
        """Read the whole file. Call it once. Raises UnsoundError, TraceError."""
        data, spans = self._data, list[tuple[int, int]]()
        for number, _, begin, stop in fields(data, 0, len(data)):
            if number == _PLANES:
                spans.append((begin, stop))
            elif number == _HOSTS:
                self._host = self._host or text_of(data[begin:stop][:255]) or None
            if len(spans) > _MOST_NAMES:
                raise UnsoundError
        spans.sort(key=lambda span: not _DEVICE.match(self._plane_name(*span)))  # they tell whether there are steps
        compiled = []
        for span in spans:
            if self._plane_name(*span) == _METADATA:
                compiled.append(span)
            self._read_plane(*span)
        categories = {key: category for span in compiled for key, category in self._compiled(*span)}
        intervals, names, op = self._rows.finish()
        pid = whole_number(self._stats.get("process_id"))
        tracks = tuple(each._replace(rank=self._rank, node=self._host, pid=pid) for each in self._tracks)
        left_out, version = self._rows.n_left_out, self._stats.get("jax_version")
        source = TraceSource(
            self._path, "xspace", "XLA", f"JAX {version}" if version else "", self._rank, self._host, self._rows.n_events,
            left_out, tuple(_list_notes(intervals, left_out)),
        )  # fmt: skip
        start = whole_number(self._stats.get("profile_start_time")) or 0
        clock = Clock(0 if self._is_unix else start, "unix") if self._is_unix or is_unix_time(start) else Clock()
        ops = tuple(
            own._replace(
                module=own.module or self._programs.get(program, ""),
                category=own.category or categories.get((program, name), ""),
            )
            for program, name, own in self._ops
        )  # fmt: skip
        pageable = np.flatnonzero(
            np.isin(intervals.name, [at for at, name in enumerate(names) if name.endswith(_PAGEABLE)])
        )
        return Timeline(
            (source,), clock, tracks, names, intervals, tuple(self._counters()), pageable if len(pageable) else None,
            self._facts, hlo=HloOps(op, ops) if ops else None,
        )  # fmt: skip

    def traits(self) -> RunTraits:
        """Read only when the profile begins and ends. Raises UnsoundError."""
        data = self._data
        for number, _, begin, stop in fields(data, 0, len(data)):
            if number == _PLANES and self._plane_name(begin, stop) == _ENVIRONMENT:
                stats = self._decode_plane(begin, stop).stats
                start, end = (whole_number(stats.get(f"profile_{name}_time")) for name in ("start", "stop"))
                return RunTraits(begin=start, end=end)
        return RunTraits()

    def _plane_name(self, begin: int, stop: int) -> str:
        data = self._data
        found = (data[low:high] for number, _, low, high in fields(data, begin, stop) if number == _PLANE_NAME)
        return text_of(next(found, b"")[:500])

    def _read_plane(self, begin: int, stop: int) -> None:
        """Read a plane with its events."""
        plane = self._decode_plane(begin, stop)
        if plane.device is None:
            self._stats |= plane.stats
            for name, called in (("matrix_unit", "matrix units busy"), ("hbm", "memory bandwidth used")):
                if (percent := plane.stats.get(f"{name}_utilization_percent")) is not None:
                    self._facts[called] = f"{percent:.3g} %"
        elif any(line.chunks for line in plane.lines):
            self._facts.update(_facts_of(plane.device, plane.stats))
        has_async = any(line.name == _ASYNC and line.chunks for line in plane.lines)
        for line in plane.lines:
            if line.chunks and plane.name != _METADATA:
                self._is_unix |= is_unix_time(line.start_ps // 1000)  # else from the profile's start
                self._read_line(plane, line, has_async)

    def _decode_plane(self, begin: int, stop: int) -> _Plane:
        """Decode the plane that lies in these bytes of the file, all but its events, which are only counted. Modules
        that it names are noted by the numbers of their programs. Stats and names of stats that are longer than
        LONGEST_MESSAGE are left out, and so are the types of events of the plane _METADATA. Raises UnsoundError, also if
        it has more than _MOST_NAMES parts."""
        data, name = self._data, ""
        lines, stats = list[_Line](), list[Any]()
        types, stat_names = dict[int, tuple[int, int]](), dict[int, str]()
        for number, _, low, high in fields(data, begin, stop):
            if number == _PLANE_NAME:
                name = text_of(data[low:high][:500])
            elif number == _LINES:
                lines.append(self._decode_line(low, high))
            elif number == _STATS and high - low <= LONGEST_MESSAGE:
                stats.append(_decoded("XStat", data[low:high]))
            elif number in (_EVENT_METADATA, _STAT_METADATA):
                key, span = 0, (0, 0)
                for field, value, *place in fields(data, low, high):
                    key, span = (signed(value), span) if field == 1 else (key, (place[0], place[1]))
                if number == _EVENT_METADATA:
                    types[key] = span
                elif span[1] - span[0] <= LONGEST_MESSAGE:
                    stat_names[key] = text_of(_decoded("XStatMetadata", data[slice(*span)]).name)
            if len(lines) + len(stats) + len(types) + len(stat_names) > _MOST_NAMES:
                raise UnsoundError
        device = _DEVICE.match(name)
        found = _Plane(
            name, int(device[2]) if device else None, (device[3] or "") if device else "", {}, stat_names, {}, lines
        )
        own = {} if name == _METADATA else {key: self._decode_type(*span, found) for key, span in types.items()}
        for each in own.values():
            if (module := _MODULE.match(each.name)) and len(self._programs) < _MOST_NAMES:
                self._programs[int(module[2])] = module[1]
        return found._replace(types=own, stats=_values(stats, stat_names))

    def _decode_type(self, begin: int, stop: int, plane: _Plane) -> _EventType:
        """Decode what the events of one number have in common, from these bytes of the file. An operation of XLA has its
        name there, anything else its display name if it has one. The name is "" if the message is longer than
        LONGEST_MESSAGE. Raises UnsoundError."""
        if stop - begin > LONGEST_MESSAGE:
            return _EventType("")
        told = _decoded("XEventMetadata", self._data[begin:stop])
        text, display = text_of(told.name), text_of(told.display_name)
        op = _TEXT.match(text)
        stats = _values(told.stats, plane.stat_names)
        return _EventType(op[1] if op else display or text, text if op else "", stats)

    def _decode_line(self, begin: int, stop: int) -> _Line:
        """Decode the line that lies in these bytes of the file, and count its events. They are not decoded: its chunks
        say where they are, in pieces of about _AT_ONCE bytes. Raises UnsoundError."""
        data, name, line_id, ns, n, at = self._data, "", 0, 0, 0, begin
        chunks = []
        for number, value, low, high in fields(data, begin, stop):
            if number == _EVENTS:
                n += 1
            elif number == _LINE_ID:
                line_id = signed(value)
            elif number == _LINE_NAME:
                name = text_of(data[low:high][:500])
            elif number == _LINE_NS:
                ns = signed(value)
            if high - at >= _AT_ONCE or high == stop:
                self._rows.count(n)
                chunks += [(at, high)] if n else []
                at, n = high, 0
        return _Line(line_id, name, ns * 1000, chunks)

    def _events(self, line: _Line, plane: _Plane) -> Iterator[tuple[int, int, _EventType, _Stats]]:
        """Yield each event as its start and end (ns), what it has in common with others, and its stats. Of TPUs XLA moves
        the times onto the host's clock, which may squeeze an event to nothing: its length is the device's own."""
        types, names, unknown = plane.types, plane.stat_names, _EventType("(no name)")
        for begin, stop in line.chunks:
            if stop - begin > LONGEST_MESSAGE:
                self._rows.n_left_out += 1
                continue
            for event in _decoded("XLine", self._data[begin:stop]).events:
                start = line.start_ps + event.offset_ps
                stats = _values(event.stats, names) if event.stats else {}
                length = whole_number(stats.get("device_duration_ps")) or event.duration_ps
                yield start // 1000, (start + length) // 1000, types.get(event.metadata_id, unknown), stats

    def _read_line(self, plane: _Plane, line: _Line, has_async: bool) -> None:
        """Read the events of a line. Lines of devices that XLA derives from others are passed over."""
        is_tpu = plane.name.startswith(_TPU)
        stream = None if is_tpu else _STREAM.match(line.name)
        track = len(self._tracks)
        if plane.device is None:
            self._tracks.append(Track("cpu_thread", line.name or f"thread {line.number}", tid=line.number))
            for event in self._events(line, plane):
                self._add_host_event(track, *event)
            return
        is_ops = is_tpu and line.name in _OPS
        if is_tpu and line.name == _STEPS and not plane.part:
            if not self._has_steps:  # of the first device: all have the same
                self._has_steps = True
                self._tracks.append(Track("other", f"steps of device {plane.device}", device=plane.device))
                for start, end, own, _ in self._events(line, plane):
                    self._rows.add(start, end, track, f"step {own.name}", Kind.RANGE)
        elif stream or is_ops or (is_tpu and line.name in (_ASYNC, _MODULES, _WAITS)):
            number = int(stream[1]) if stream else line.number
            name = f"{plane.part} {line.name}".strip()
            self._tracks.append(Track("gpu_stream", name, device=plane.device, stream=number))
            for start, end, own, stats in self._events(line, plane):
                if stream:
                    self._add_gpu_event(track, start, end, own, stats)
                elif is_ops or line.name == _ASYNC:
                    self._add_operation(track, start, end, own, is_ops, has_async)
                else:
                    kind = Kind.GPU_SYNC if line.name == _WAITS else Kind.GPU_RANGE
                    module = _MODULE.match(own.name)
                    self._rows.add(start, end, track, module[1] if module else own.name, kind)

    def _add_gpu_event(self, track: int, start: int, end: int, own: _EventType, stats: _Stats) -> None:
        """Add what a stream of a GPU did."""
        details = str(stats.get("memcpy_details", ""))
        is_set = "memset_details" in stats or "Memset_details" in stats
        kind = Kind.MEMSET if is_set else Kind.MEMCPY if details else work_named(own.name)
        size = _BYTES.search(details or str(stats.get("memset_details") or stats.get("Memset_details", "")))
        name = own.name + (_PAGEABLE if "pageable" in details else "")
        self._rows.add(
            start, end, track, name, kind, _link(stats), int(size[1]) if size else -1, self._op_of(stats)
        )  # fmt: skip

    def _add_operation(self, track: int, start: int, end: int, own: _EventType, is_ops: bool, has_async: bool) -> None:
        """Add an operation on a TPU, or what runs beside the operations (``is_ops`` is False). ``has_async``: the device's
        profile has what runs beside them."""
        category = str(own.stats.get("hlo_category", ""))
        if category in _HOLDS_OPS:
            self._rows.add(start, end, track, own.name, Kind.GPU_RANGE)
            return
        op = self._op_of({**own.stats, "hlo_op": own.name})
        communicates = _category_of_kernel(category) == Category.COMMUNICATION
        is_done = _IS_DONE.match(category or own.name) is not None
        if not communicates and (not is_ops or (is_done and not has_async)):
            size = _size(own.stats)
            self._rows.add(
                start, end, track, own.name, Kind.MEMCPY, NO_LINK, size, op if is_ops else -1, _direction(own.text)
            )  # fmt: skip
        elif is_done:
            self._rows.add(start, end, track, own.name, Kind.GPU_SYNC, op=op)
        else:
            of = Category.COMMUNICATION if communicates else None
            self._rows.add(start, end, track, own.name, Kind.KERNEL, op=op if is_ops else -1, category=of)

    def _add_host_event(self, track: int, start: int, end: int, own: _EventType, stats: _Stats) -> None:
        """Add what a thread did, or what it told of memory."""
        name, op, link = own.name, -1, _link(stats)
        if name in _OF_MEMORY:
            held = whole_number(stats.get("bytes_allocated"))
            allocator = str(stats.get("allocator_name", ""))
            if (
                held is not None
                and 0 <= start < LAST_NS
                and (allocator in self._allocated or len(self._allocated) < _MOST_ALLOCATORS)
            ):
                self._allocated.setdefault(allocator, []).append((start, held))
            return
        kind = Kind.RANGE
        if link != NO_LINK or _API.match(name):
            kind = Kind.RUNTIME
        elif "step_num" in stats and not self._has_steps:
            name = f"{name if name.isidentifier() else ''} step {stats['step_num']}".strip()
        elif "hlo_op" in stats:
            kind, op = Kind.CPU_OP, self._op_of(stats)
        elif name.startswith("$"):
            kind, name = Kind.PYTHON, name[1:]
        elif start == end:
            kind = Kind.OTHER
        elif "::" in name:
            kind = Kind.CPU_OP
        self._rows.add(start, end, track, name, kind, link, op=op)

    def _op_of(self, stats: _Stats) -> int:
        """Return the number of the operation that an event is of, by its stats; -1 if it is of none."""
        name = stats.get("hlo_op")
        if not name:
            return -1
        flops, size = _size(stats, "flops"), _size(stats)
        op = HloOp(str(stats.get("hlo_module", "")), str(stats.get("hlo_category", "")), flops, size)
        if _IS_PART.search(op.category):
            op = op._replace(flops=-1, bytes=-1)
        program = stats.get("program_id")
        program = program % (1 << 64) if type(program) is int else 0
        if len(self._ops) >= _MOST_NAMES:
            raise UnsoundError
        return self._ops.setdefault((program, str(name), op), len(self._ops))

    def _compiled(self, begin: int, stop: int) -> Iterator[tuple[tuple[int, str], str]]:
        """Yield the category of each operation that there was, by number of the program and name, from the programs as
        they were compiled (HloProto), in the plane of metadata."""
        data, wanted = self._data, {(program, name) for program, name, _ in self._ops}
        for number, _, low, high in fields(data, begin, stop):
            if number != _EVENT_METADATA:
                continue
            for place in _within(data, [(low, high)], 2):
                names = (text_of(data[slice(*each)][:500]) for each in _within(data, [place], 2))
                module = _MODULE.match(next(names, ""))
                if module:
                    for each in _within(data, [place], 5, 6, 1, 3, 2):
                        name, category = _instruction(data, *each)
                        if (int(module[2]), name) in wanted:
                            yield (int(module[2]), name), category

    def _counters(self) -> Iterator[Counter]:
        """Make the counters of allocated bytes, each with ascending times."""
        for name, points in self._allocated.items():
            points.sort(key=lambda point: point[0])
            time, value = np.array(points, np.int64).T
            yield Counter(f"allocated by {name}" if name else "allocated", "B", "gauge", time.copy(), value * 1.0)


def _within(data: bytes, places: Iterable[tuple[int, int]], *path: int) -> Iterator[tuple[int, int]]:
    """Yield the positions of the fields with the last number of ``path`` in those with the number before it, and so on, of
    these messages. Goes into nothing that is no message."""
    number, *rest = path
    for begin, stop in places:
        found = []
        with suppress(UnsoundError):
            found = [(low, high) for field, _, low, high in fields(data, begin, stop) if field == number]
        yield from _within(data, found, *rest) if rest else found


def _instruction(data: bytes, begin: int, stop: int) -> tuple[str, str]:
    """Return the name of an instruction (HloInstructionProto), and the category that XLA gives it."""
    told = {1: "", 2: "", 11: ""}
    with suppress(UnsoundError):
        for number, _, low, high in fields(data, begin, stop):
            if number in told:
                told[number] = text_of(data[low:high][:500])
    name, opcode, fusion = told.values()
    return name, f"{fusion[1:].lower()} fusion" if opcode == "fusion" and fusion else opcode


def _values(stats: Iterable[Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Return the stats that are read, by name: texts and numbers."""
    found: dict[str, Any] = {}
    for stat in stats:
        name = names.get(stat.metadata_id)
        if name in _STATS_READ:
            if stat.str_value:
                found[name] = text_of(stat.str_value)
            elif stat.ref_value:
                found[name] = names.get(stat.ref_value, "")
            else:
                found[name] = stat.double_value or stat.uint64_value or stat.int64_value
    return found


_category_of_kernel = lru_cache(1 << 14)(partial(category_of, Kind.KERNEL))


def _list_notes(own: Intervals, left_out: int) -> Iterator[str]:
    """List what is to be said about the profile, as sentences: how many events were left out, and whether calls and
    ranges are on different threads, so that it is not known which range launched what."""
    if left_out:
        yield f"events without sound times, which are left out: {left_out:,}"
    calls, ranges = (np.unique(own.track[own.kind == kind]) for kind in (Kind.RUNTIME, Kind.RANGE))
    if len(calls) and len(ranges) and not np.isin(calls, ranges).any():
        yield "calls are on threads of their own: which range launched what is not known, GPU times of ranges are 0"


def _link(stats: _Stats) -> int:
    """Return the number that a call shares with what it launched, NO_LINK if there is none."""
    found = whole_number(stats.get("correlation_id"))
    return found if found and found > 0 else NO_LINK


def _size(stats: _Stats, name: str = "bytes_accessed") -> int:
    """Return a number of bytes, or of what else is counted; -1 if it is unknown."""
    found = whole_number(stats.get(name))
    return found if found is not None and 0 <= found < _MOST_OF_ONE else -1


def _direction(text: str) -> int:
    """Return the index in OPERATIONS of what copies from one memory to another, by its text."""
    found = _COPIED.search(text)
    if not found:
        return OPERATIONS.index("other")
    into, source = ("H" if _IN_HOST_MEMORY in (layout or "") else "D" for layout in found.groups())
    return OPERATIONS.index(f"{source}to{into}")


def _facts_of(device: int, stats: _Stats) -> Iterator[tuple[str, str]]:
    """Yield what a plane says of its device."""
    vendor, size = stats.get("device_vendor"), whole_number(stats.get("memory_size"))
    named = stats.get("device_type_string") or (
        f"{vendor} GPU" + (f", {size / 1e9:.0f} GB" if size else "") if vendor else ""
    )
    if named:
        yield f"GPU {device}", str(named)
    for name, called in (
        ("peak_teraflops_per_second", "TFLOP/s"),
        ("peak_hbm_bw_gigabytes_per_second", "GB/s of memory"),
    ):
        if isinstance(peak := stats.get(name), int | float) and peak > 0:
            yield f"peak {called}", f"{peak:.4g}"
