"""The events of a Chrome trace as columns of numbers; of a large file its halves by two processes."""

import json
import os
import subprocess
import sys
from collections import Counter as Count
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.traces.categories import CALLS, COUNTED_RANGE, ON_GPU
from gssr.traces.json_events import JsonEvents, mended, middle_of
from gssr.traces.timeline import NO_LINK, RECEIVE, SEND
from gssr.workers import is_worker

FLOW = frozenset("stf")
"""Phases that tie others together."""
SHAPED = frozenset({
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm", "aten::convolution",
    "aten::convolution_backward", "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_flash_attention_backward", "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_cudnn_attention_backward",
})  # fmt: skip
"""Operators whose shapes are kept: those that multiply matrices."""
COUNTED = "counted"
"""The first part of a shape that holds, as the last, what CUPTI counted in a range: an object of numbers by counter."""
_TRANSFER = "SendRecv"
"""What kernels of NCCL and RCCL are called that send or receive."""
_MOST_COUNTED = 1 << 18
"""Values of CUPTI's counters that are kept: torch.profiler counts in 1,500 ranges at most, unless it is told otherwise."""
_TOO_MANY_COUNTED = f"of what CUPTI counted only {_MOST_COUNTED:,} values are kept"
_EXACT_US = 1 << 43
"""From here on a double does not tell the nanoseconds of a time in µs."""
_MOST_US = 4e15
_MOST_INTEGER = float(1 << 53)
_TIMES = {int, float, str, type(None)}


class Numbers(dict[Any, int]):
    """A dictionary that numbers keys from 0 on in the order in which they are first looked up."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Open(NamedTuple):
    """A begin (ph B) or an end (ph E) of an event at ``time``, ns. ``cat``, ``name`` and ``track`` are numbers as in
    EventColumns."""

    time: int
    is_begin: bool
    cat: int
    name: int
    track: int


COLUMNS = (
    ("start", np.int64),
    ("length", np.int64),
    ("cat", np.int32),
    ("name", np.int32),
    ("track", np.int32),
    ("link", np.int64),
    ("size", np.int64),
)


_CPU, _WINDOW, _CALL, _GPU = range(4)
"""What an event is, by its category; a window is one of the recording itself, and no event of the program."""
_ROLES = {"Trace": _WINDOW} | dict.fromkeys(CALLS, _CALL) | dict.fromkeys(ON_GPU, _GPU)


@dataclass(slots=True)
class EventColumns:
    """The events of a trace as columns.

    ``cats``, ``names``, ``threads`` ((pid, tid) pairs) and ``shapes`` (as in Shape) number these as they came. A track's
    number is twice its thread's, plus 1 if it is on a GPU. ``parts``: by each of COLUMNS, arrays to be concatenated; times
    in ns, ``link`` NO_LINK and ``size`` -1 where there is none (that of shapes is as in Intervals). ``streams``: by track,
    (device, stream). ``labels``: by (kind of label, pid, tid). ``series``: by (counter, key in its arguments), arrays of
    times (ns) and values. ``open``: begins and ends that are not matched yet. ``keys``: what else is in the file.
    ``phases``: the number of events of each ph. ``n_events`` counts all, ``n_unsound`` those without sound times,
    ``n_broken`` those that could not be decoded. ``is_cut``: the file ends within its events, or can't be unpacked to
    their end."""

    shapes: Numbers = field(default_factory=Numbers)
    cats: Numbers = field(default_factory=Numbers)
    names: Numbers = field(default_factory=Numbers)
    threads: Numbers = field(default_factory=Numbers)
    parts: dict[str, list[NDArray[Any]]] = field(default_factory=lambda: {name: [] for name, _ in COLUMNS})
    streams: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    labels: dict[tuple[str, Any, Any], str] = field(default_factory=dict)
    series: dict[tuple[str, str], list[tuple[Ints, Floats]]] = field(default_factory=dict)
    open: list[Open] = field(default_factory=list)
    phases: Count[Any] = field(default_factory=Count)
    keys: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    n_events: int = 0
    n_unsound: int = 0
    n_broken: int = 0
    is_cut: bool = False

    def add(self, other: "EventColumns") -> None:
        """Append the events of ``other``, which follow these in the same file, renumbering its cats, names and threads."""
        cat = np.array([self.cats[one] for one in other.cats] or [0], np.int32)
        name = np.array([self.names[one] for one in other.names] or [0], np.int32)
        thread = np.array([self.threads[one] for one in other.threads] or [0], np.int32)
        shape = np.array([-2 - self.shapes[one] for one in other.shapes] or [0], np.int64)
        own = {
            "size": lambda part: np.where(part < -1, shape[np.maximum(-2 - part, 0)], part) if other.shapes else part,
            "cat": lambda part: cat[part],
            "name": lambda part: name[part],
            "track": lambda part: _renumber_tracks(thread, part),
        }
        for what, parts in other.parts.items():
            self.parts[what] += map(own[what], parts) if what in own else parts
        self.streams = {
            int(_renumber_tracks(thread, track)): place for track, place in other.streams.items()
        } | self.streams
        self.labels |= other.labels
        for key, points in other.series.items():
            self.series.setdefault(key, []).extend(points)
        self.open += [
            one._replace(
                cat=int(cat[one.cat]), name=int(name[one.name]), track=int(_renumber_tracks(thread, one.track))
            )
            for one in other.open
        ]
        self.phases.update(other.phases)
        self.keys |= other.keys
        self.notes += [note for note in other.notes if note not in self.notes]
        self.n_events += other.n_events
        self.n_unsound += other.n_unsound
        self.n_broken += other.n_broken
        self.is_cut |= other.is_cut


def _renumber_tracks(thread: NDArray[np.int32], track: Any) -> Any:
    """Give tracks, one or an array of them, new numbers: ``thread`` has the new number of each thread by its old one."""
    return 2 * thread[track // 2] + track % 2


def columns_of(path: str, most_bytes: int | None = None) -> EventColumns:
    """Read all events of a Chrome trace, a large unpacked one with a second process. ``most_bytes`` is how much it may
    unpack to, None for the default. Raises TraceError."""
    middle = _middle_of(path)
    if middle is None:
        return _Reader(JsonEvents(path, most_bytes)).read()
    command = [sys.executable, "-P", "-c", f"from {__name__} import {send.__name__} as send; send()", path, str(middle)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:
        try:
            half = JsonEvents(path, most_bytes, end=middle)
            columns = _Reader(half).read()
            if half.is_through and other.stdout is not None:
                columns.add(_received(other.stdout))
                return columns
        except EOFError:
            pass  # it could not
        finally:
            other.kill()
    return _Reader(JsonEvents(path, most_bytes)).read()


_PLAIN = ("keys", "notes", "n_events", "n_unsound", "n_broken", "is_cut", "open")
_NUMBERED = ("cats", "names", "threads", "shapes")
_PAIRS = ("streams", "labels", "phases")


def send() -> None:
    """Run in the second process: write the events from byte ``sys.argv[2]`` of the file ``sys.argv[1]`` on to standard
    output: the length of a JSON header, the header, then the arrays as they lie in memory."""
    path, begin = sys.argv[1:]
    found = _Reader(JsonEvents(path, begin=int(begin))).read()
    found.shapes = Numbers({(name, *(part.hex() for part in texts)): at for (name, *texts), at in found.shapes.items()})
    parts = [
        np.concatenate(found.parts[name] or [np.empty(0, kind)]).astype(kind, copy=False) for name, kind in COLUMNS
    ]
    series = [(key, time, value) for key, points in found.series.items() for time, value in points]
    head = {name: getattr(found, name) for name in _PLAIN} | {name: list(getattr(found, name)) for name in _NUMBERED}
    head |= {name: list(getattr(found, name).items()) for name in _PAIRS} | {"parts": [len(part) for part in parts]}
    head["series"] = [(key, len(time)) for key, time, _ in series]
    text = json.dumps(head).encode()
    sys.stdout.buffer.write(len(text).to_bytes(8, "little") + text)
    for part in (*parts, *(one for _, time, value in series for one in (time, value))):
        sys.stdout.buffer.write(part.tobytes())


def _received(stream: IO[bytes]) -> EventColumns:
    """Read what ``send`` has written. Raises EOFError if it did not come to its end."""

    def exactly(n: int) -> bytes:
        data = stream.read(n)
        if len(data) < n:
            raise EOFError
        return data

    def array(n: int, kind: Any) -> NDArray[Any]:
        return np.frombuffer(exactly(n * np.dtype(kind).itemsize), kind)

    head = json.loads(exactly(int.from_bytes(exactly(8), "little")))
    found = EventColumns(**{name: head[name] for name in _PLAIN if name != "open"})
    for numbers, values in ((found.cats, head["cats"]), (found.names, head["names"])):
        numbers.update({value: number for number, value in enumerate(values)})
    found.threads.update({tuple(value): number for number, value in enumerate(head["threads"])})
    found.shapes.update({(name, *map(bytes.fromhex, texts)): at for at, (name, *texts) in enumerate(head["shapes"])})
    found.streams.update({track: (device, stream_) for track, (device, stream_) in head["streams"]})
    found.labels.update({(kind, pid, tid): label for (kind, pid, tid), label in head["labels"]})
    found.phases.update(dict(head["phases"]))
    found.open += [Open(*one) for one in head["open"]]
    for (name, kind), n in zip(COLUMNS, head["parts"], strict=True):
        found.parts[name].append(array(n, kind))
    for key, n in head["series"]:
        found.series.setdefault((key[0], key[1]), []).append((array(n, np.int64), array(n, np.float64)))
    return found


def _middle_of(path: str) -> int | None:
    """Find where a second process can begin to read the file (``middle_of``); None if it is better read by one, as with
    a single core, or can't be read."""
    try:
        return middle_of(path) if sys.executable and len(os.sched_getaffinity(0)) > 1 and not is_worker() else None
    except OSError:
        return None


class _Reader:
    def __init__(self, events: JsonEvents) -> None:
        self._events = events
        self._found = EventColumns()
        self._wants_digits = False
        self._n_counted = 0

    def read(self) -> EventColumns:
        """Read all events, and what else the file holds. Call it once. Raises TraceError if the file can't be read, or
        unpacks to more events than it may."""
        for events, text in self._events:
            self._add(events, text)
            self._events.check_number(self._found.n_events)
        found = self._found
        found.keys, found.n_broken = self._events.keys, self._events.left_out
        found.notes += self._events.notes
        found.is_cut = self._events.is_cut
        return found

    def _add(self, events: list[Any], text: bytes | memoryview) -> None:
        """Add a batch of events, which was decoded from ``text``. With the first batch whose times are so large that a
        double doesn't tell their nanoseconds, times are read by their digits from then on: that batch is decoded from
        ``text`` once more."""
        spans = [event for event in events if event.ph == "X"]
        start, is_sound, is_rounded = _nanoseconds([event.ts for event in spans])
        if is_rounded and not self._wants_digits:
            self._wants_digits = True
            self._events.want_digits()
            self._add(self._events.decode(text) or events, text)
            return
        self._found.n_events += len(events)
        if spans:
            self._add_spans(spans, start, is_sound, text)
        self._found.phases["X"] += len(spans)
        phases = [event.ph for event in events]
        if len(spans) + sum(map(phases.count, FLOW)) == len(events):
            return
        others = [event for event in events if event.ph != "X" and event.ph not in FLOW]
        there = Count([event.ph for event in others])
        self._found.phases.update(there)
        if memory := [event for event in others if event.name == "[memory]" and event.args]:
            self._add_memory(memory)
        if there.keys() & {"M", "B", "E"}:
            for event in others:
                self._add_other(event)
        if "C" in there:
            self._add_counters(text)

    def _add_spans(self, spans: Sequence[Any], start: Ints, is_sound: Flags, text: bytes | memoryview) -> None:
        """Add complete events (phase "X"), which have a begin and a length. Left out, and counted in ``n_unsound``, are
        those whose begin or length is no time, whose length is below 0, or that are on a GPU with both 0. The
        profiler's own windows are left out uncounted.

        Args:
            spans: The events, in the order in which they stand in the file.
            start: When each begins, ns [n].
            is_sound: False where ``start`` is no time [n].
            text: The bytes that the events were decoded from, with the other events of the batch: counts of hardware
                events are read from it once more.
        """
        cats, names, threads = self._found.cats, self._found.names, self._found.threads
        cat = np.array([cats[event.cat] for event in spans], np.int32)
        name = np.array([names[event.name] for event in spans], np.int32)
        thread = np.array([threads[event.pid, event.tid] for event in spans], np.int32)
        role = np.array([_ROLES.get(one, _CPU) for one in cats] or [_CPU], np.int8)[cat]
        on_gpu = role == _GPU
        length, has_length, _ = _nanoseconds([event.dur for event in spans])
        is_sound = is_sound & has_length & (length >= 0)
        is_sound &= (length > 0) | (start > 0) | ~on_gpu  # CUPTI, once it has lost count
        is_kept = is_sound & (role != _WINDOW)
        self._found.n_unsound += len(spans) - int(is_sound.sum())

        linked = np.flatnonzero(role >= _CALL)
        args = [spans[at].args for at in linked.tolist()]
        link, size = np.full(len(spans), NO_LINK), np.full(len(spans), -1)
        found = _integers([one and one.correlation for one in args], NO_LINK)
        link[linked] = np.where(found > 0, found, NO_LINK)
        track = 2 * thread + on_gpu
        if not set(track[on_gpu].tolist()) <= self._found.streams.keys():
            for one, place in zip(args, track[linked].tolist(), strict=True):
                if one and one.stream is not None and place % 2:
                    self._found.streams.setdefault(place, (one.device, one.stream))
        size[linked] = _integers([one and (one.bytes or one.size) for one in args], -1)
        is_shaped = np.array([one in SHAPED for one in names] or [False])[name] & (role == _CPU)
        shaped = np.flatnonzero(is_shaped)
        size[shaped] = [-2 - self._shape_of(spans[at]) for at in shaped.tolist()]
        is_transfer = np.array([isinstance(one, str) and _TRANSFER in one for one in names] or [False])[name] & on_gpu
        transfers = np.flatnonzero(is_transfer)
        size[transfers] = [-2 - self._transfer_of(spans[at].args) for at in transfers.tolist()]
        if COUNTED_RANGE in cats:
            counted = np.flatnonzero(cat == cats[COUNTED_RANGE])
            size[counted] = self._counts_of(counted.tolist(), len(spans), text)
        columns: tuple[NDArray[Any], ...] = (start, length, cat, name, track, link, size)
        for (what, _), column in zip(COLUMNS, columns, strict=True):
            self._found.parts[what].append(column if is_kept.all() else column[is_kept])

    def _shape_of(self, event: Any) -> int:
        """Return the number of an operator's shape in ``EventColumns.shapes``, where it is entered if it is new; -1
        where the event does not tell it."""
        own = event.args
        if own is None or own.dims is None:
            return -1
        return self._found.shapes[event.name, bytes(own.dims), bytes(own.types or b""), bytes(own.values or b"")]

    def _transfer_of(self, args: Any) -> int:
        """Return the number in ``EventColumns.shapes`` of the entry that tells a kernel's other rank; -1 where its
        arguments tell none, or two."""
        found = [] if args is None else [(SEND, args.target), (RECEIVE, args.source)]
        told = [(kind, rank) for kind, value in found if (rank := whole_number(value)) is not None]
        return self._found.shapes[told[0][0], str(told[0][1]).encode(), b"", b""] if len(told) == 1 else -1

    def _counts_of(self, places: Sequence[int], n: int, text: bytes | memoryview) -> list[int]:
        """Store what was counted in some ranges as shapes. Returns for each range -2 less the number of its shape, -1
        where nothing was counted; where too much was, a note says so.

        Args:
            places: Indices of the ranges among the events of phase "X" in ``text``.
            n: How many events of phase "X" there are in ``text``; if it holds another number, nothing is stored.
            text: The bytes of the batch.
        """
        spans = [event for event in self._in_full(text) if event.get("ph") == "X"] if places else []
        if len(spans) != n:
            return [-1] * len(places)
        sizes = []
        for at in places:
            args = spans[at].get("args")
            told = args if isinstance(args, dict) else {}
            value = _doubles(list(told.values()))
            counts = {key: one for key, one in zip(told, value.tolist(), strict=True) if np.isfinite(one)}
            self._n_counted += len(counts)
            kept = counts and self._n_counted <= _MOST_COUNTED
            sizes.append(-2 - self._found.shapes[COUNTED, b"", b"", json.dumps(counts).encode()] if kept else -1)
        if self._n_counted > _MOST_COUNTED:
            self._found.notes = [*dict.fromkeys([*self._found.notes, _TOO_MANY_COUNTED])]
        return sizes

    def _in_full(self, text: bytes | memoryview) -> list[dict[str, Any]]:
        """Decode the events of a batch with all there is in them: what was passed over before need not be sound. If it is no
        sound JSON a note says so, and there are none."""
        try:
            return list(json.loads(b"[%b]" % mended(bytes(text)), parse_float=str))
        except (ValueError, RecursionError):
            self._found.notes.append("counters could not be read")
            return []

    def _add_other(self, event: Any) -> None:
        """Add a label (ph M), or a begin or end (ph B, E); ignore any other event."""
        args = event.args
        if event.ph == "M" and args and isinstance(event.name, str):
            label = args.name if args.name is not None else args.labels
            if label is not None:
                thread = event.tid if event.name == "thread_name" else None
                self._found.labels[event.name, event.pid, thread] = str(label)
        elif event.ph in ("B", "E"):
            (time,), (is_sound,), _ = _nanoseconds([event.ts])
            if is_sound:
                track = 2 * self._found.threads[event.pid, event.tid] + (event.cat in ON_GPU)
                self._found.open.append(
                    Open(int(time), event.ph == "B", self._found.cats[event.cat], self._found.names[event.name], track)
                )
            else:
                self._found.n_unsound += 1

    def _add_memory(self, events: Sequence[Any]) -> None:
        """Add the memory that torch's allocator reports as counters, by device."""
        args = [event.args for event in events]
        time, is_sound, _ = _nanoseconds([event.ts for event in events])
        devices = Numbers()
        device = np.array([devices[one.device_type, one.device_id] for one in args], np.int64)
        for name, values in (
            ("Total Allocated", [one.allocated for one in args]),
            ("Total Reserved", [one.reserved for one in args]),
        ):
            value = _doubles(values)
            for (kind, number), place in devices.items():
                chosen = is_sound & np.isfinite(value) & (device == place)
                where = "CPU" if kind in (0, None) else f"GPU {number}"
                self._found.series.setdefault((name, where), []).append((time[chosen], value[chosen]))

    def _add_counters(self, text: bytes | memoryview) -> None:
        """Add the counters (ph C) in the text of a batch."""
        points: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
        for event in self._in_full(text):
            args = event.get("args")
            for key, value in args.items() if event.get("ph") == "C" and isinstance(args, dict) else ():
                points.setdefault((str(event.get("name")), key), []).append((event.get("ts"), value))
        for what, of_one in points.items():
            time, is_sound, _ = _nanoseconds([time for time, _ in of_one])
            value = _doubles([value for _, value in of_one])
            is_sound &= np.isfinite(value)
            self._found.series.setdefault(what, []).append((time[is_sound], value[is_sound]))


def _doubles(values: Sequence[Any]) -> Floats:
    """Convert values to float64[n], also numbers written as texts; NaN for anything else."""
    try:
        found = np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(0)
    if found.shape == (len(values),):  # lists of numbers are none
        return found
    return np.array([_double(value) for value in values], np.float64)


def _double(value: Any) -> float:
    """Convert a number or its text to a float; NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _nanoseconds(values: Sequence[Any]) -> tuple[Ints, Flags, bool]:
    """Read times in µs. Returns whole ns [n], which of them are sound, and whether some were doubles too large to tell
    nanoseconds."""
    types = set(map(type, values))
    if not types <= _TIMES:  # as they are written
        return _from_digits(values)
    us = _doubles(values)
    is_sound = np.abs(us) < _MOST_US  # and no NaN
    if not is_sound.all():
        us = np.where(is_sound, us, 0)
    is_large = bool(us.size) and types != {int} and max(us.max(), -us.min()) >= _EXACT_US
    if is_large and str in types:
        return _from_digits(values)
    whole = np.floor(us)
    ns = whole.astype(np.int64)
    ns *= 1000
    us -= whole
    us *= 1000
    ns += np.rint(us, out=us).astype(np.int64)
    return ns, is_sound, is_large and float in types


def _from_digits(values: Sequence[Any]) -> tuple[Ints, Flags, bool]:
    """Read times in µs by their digits, exactly, as ``_nanoseconds`` does."""
    ns = [ns_of(value) for value in values]
    is_sound = np.array([value is not None for value in ns], np.bool_)
    return np.array([value or 0 for value in ns], np.int64), is_sound, False


def ns_of(value: Any) -> int | None:
    """Convert one time in µs, a number or its text, exactly to whole ns. None if it is no time, or absurdly large."""
    try:
        if isinstance(value, int | float | str):
            us = Decimal(value)  # of a double all of it: its shortest text may lie 50 ns beside it
        else:
            us = Decimal((b"" if value is None else bytes(value)).decode().strip('"'))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return int((us * 1000).to_integral_value()) if us.is_finite() and abs(us) < _MOST_US else None


def _integers(values: Sequence[Any], absent: int) -> Ints:
    """Convert values to int64[n]; ``absent`` where there is no number below 2**53."""
    numbers = _doubles([absent if value is None else value for value in values])
    return np.where(np.abs(numbers) < _MOST_INTEGER, numbers, absent).astype(np.int64)


def whole_number(value: Any) -> int | None:
    """Convert a number or its text to an int; the fraction of a float is cut off. None for anything else, booleans too,
    and from 2**62 on."""
    try:
        number = None if isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) < 1 << 62 else None
