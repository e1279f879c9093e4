"""What PyTorch writes about the memory of GPUs: snapshots of its allocator (``torch.cuda.memory._dump_snapshot``), and
memory timelines of torch.profiler (``export_memory_timeline``).

A snapshot holds the segments that PyTorch has from the driver, the blocks in them, and the newest allocations and frees. A
timeline holds bytes by category and no allocations.
"""

import os
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.recognise import RANK_IN_NAME
from gssr.traces.dump_file import load_dump, objects, text, whole_number
from gssr.traces.timeline import TraceError

CATEGORIES = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown",
)  # fmt: skip
"""Of torch.profiler, in the order in which it numbers them."""
MOST_DEVICES = 1024
"""Of a file: no process has more GPUs."""
_MOST_BYTES = 1 << 48
"""Of one allocation or category: no GPU has as much, and a million of them can be added up."""
_LATEST = 1 << 62
"""ns, and bytes that a step may change."""
_ACTIONS = (1, 2, 3, 4)
"""There before, created, changed, destroyed: as torch.profiler numbers the steps."""

BlockState = Literal["allocated", "awaiting free", "free"]


class Frame(NamedTuple):
    """A call on the stack; ``line`` is 0 where it is unknown."""

    file: str
    line: int
    function: str


Stack = tuple[Frame, ...]
"""The innermost call first; empty if stacks were not recorded."""


class MemoryBlock(NamedTuple):
    """A piece of a segment. ``size``: bytes that it takes; ``requested``: bytes that were asked for, at most as many."""

    address: int
    size: int
    requested: int
    state: BlockState
    stack: Stack


class Segment(NamedTuple):
    """Memory that PyTorch has from the driver, of ``size`` bytes."""

    device: int
    address: int
    size: int
    stream: int
    kind: str
    blocks: tuple[MemoryBlock, ...]


class MemoryEvent(NamedTuple):
    """A step of the allocator. ``address`` is that of the block or segment, of an ``oom`` the bytes that the driver had
    free; ``time_us`` is unix time, None where it was not recorded."""

    action: str
    address: int
    size: int
    time_us: int | None
    stack: Stack


@dataclass(frozen=True)
class Snapshot:
    """``events`` by device, oldest first: only the newest, as many as were to be kept."""

    segments: tuple[Segment, ...]
    events: dict[int, tuple[MemoryEvent, ...]]


@dataclass(frozen=True)
class CategoryTimeline:
    """``times`` [n], ns by the profiler's clock; ``sizes`` [n, 8], bytes by CATEGORIES from then on."""

    times: Ints
    sizes: Ints


def read_memory_dump(path: str, most_bytes: int | None = None) -> Snapshot | CategoryTimeline:
    """Read a snapshot or a memory timeline. Raises TraceError. ``most_bytes``: as of load_dump."""
    held = load_dump(path, most_bytes)
    if type(held) is dict and type(held.get("segments")) is list:
        return _snapshot(held, path)
    if type(held) is list:
        return _timeline(held, path)
    raise TraceError(f"{path}: holds neither a memory snapshot nor a memory timeline of PyTorch")


def rank_in_name(path: str) -> int | None:
    """Return the rank that the name of a snapshot or memory timeline tells; None if it tells none."""
    named = RANK_IN_NAME.search(os.path.basename(path))
    return int(named[1]) if named else None


class _Stacks:
    """Makes stacks of lists of frames, one for each list: pickles hold a list once, however many blocks have it."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Stack]] = {}
        self._frames: dict[int, tuple[Any, Frame]] = {}

    def of(self, frames: Any) -> Stack:
        """Return the stack of what stands under ``frames``; an empty one if that is no list."""
        if type(frames) is not list or not frames:
            return ()
        if (made := self._made.get(id(frames))) is None:
            made = self._made[id(frames)] = (frames, tuple(self._frame(each) for each in objects(frames)))
        return made[1]

    def _frame(self, frame: dict[str, Any]) -> Frame:
        """Make the Frame of a frame as the file has it, once for each such object."""
        if (made := self._frames.get(id(frame))) is None:
            line = whole_number(frame.get("line")) or 0
            made = self._frames[id(frame)] = (frame, Frame(text(frame.get("filename")), line, text(frame.get("name"))))
        return made[1]


def _size(value: Any, path: str) -> int:
    """Return a number of bytes. Raises TraceError if it is none."""
    number = whole_number(value)
    if number is None or not 0 <= number < _MOST_BYTES:
        raise TraceError(f"{path}: is a damaged memory snapshot: {str(value)[:40]!r} is no number of bytes")
    return number


def _snapshot(held: dict[str, Any], path: str) -> Snapshot:
    """Make a Snapshot of what the file holds. Raises TraceError."""
    stacks = _Stacks()
    segments = tuple(_segment(each, stacks, path) for each in objects(held["segments"]))
    traces = held.get("device_traces")
    traces = traces if type(traces) is list else []
    if len(traces) > MOST_DEVICES or any(not 0 <= each.device < MOST_DEVICES for each in segments):
        raise TraceError(f"{path}: is a damaged memory snapshot: no process has more than {MOST_DEVICES:,} GPUs")
    events: dict[int, tuple[MemoryEvent, ...]] = {}
    for device, each in enumerate(traces):
        if found := tuple(_make_event(step, stacks, path) for step in objects(each)):
            events[device] = found
    return Snapshot(segments, events)


def _segment(segment: dict[str, Any], stacks: _Stacks, path: str) -> Segment:
    """Read a segment and its blocks. Old versions give blocks no address: they follow each other."""
    address = at = whole_number(segment.get("address")) or 0
    blocks = []
    for block in objects(segment.get("blocks")):
        size = _size(block.get("size"), path)
        named = text(block.get("state"))
        state: BlockState = (
            "allocated" if named == "active_allocated" else "awaiting free" if named.startswith("active") else "free"
        )
        requested = min(_size(block.get("requested_size", size), path), size)
        frames = block.get("frames")
        history = objects(block.get("history"))  # before PyTorch 2.1
        if frames is None and history:
            frames = history[0].get("frames")
            requested = min(_size(history[0].get("real_size", size), path), size)
        own = whole_number(block.get("address"))
        blocks.append(MemoryBlock(at if own is None else own, size, requested, state, stacks.of(frames)))
        at += size
    return Segment(
        whole_number(segment.get("device")) or 0, address, _size(segment.get("total_size"), path),
        whole_number(segment.get("stream")) or 0, text(segment.get("segment_type")), tuple(blocks),
    )  # fmt: skip


def _make_event(step: dict[str, Any], stacks: _Stacks, path: str) -> MemoryEvent:
    """Make a MemoryEvent of a step of the allocator as the file has it. An address that is missing is 0. Raises
    TraceError if its size is no number of bytes; ``path`` is for the text."""
    action = text(step.get("action"))
    address = whole_number(step.get("device_free" if action == "oom" else "addr")) or 0
    return MemoryEvent(
        action, address, _size(step.get("size", 0), path), whole_number(step.get("time_us")), stacks.of(step.get("frames"))
    )  # fmt: skip


def _timeline(held: list[Any], path: str) -> CategoryTimeline:
    """Make a CategoryTimeline of either form: [times in us, bytes by category], or a list of
    [time in ns, action, bytes, category]. Raises TraceError."""
    if len(held) == 2 and _are_lists(held) and _are_lists(held[1][:1]):
        times, sizes = held[0], _rows(held[1], len(CATEGORIES) + 1, path)  # the first column is always 0
        if len(times) != len(sizes) or not all(type(each) is int and abs(each) < _LATEST // 1000 for each in times):
            raise TraceError(f"{path}: is a damaged memory timeline: it has more times than sizes, or fewer")
        return _checked(CategoryTimeline(np.array(times, np.int64) * 1000, sizes[:, 1:]), path)
    steps = _rows(held, 4, path)
    times, actions, categories = steps[:, 0], steps[:, 1], steps[:, 3]
    if not (np.isin(actions, _ACTIONS) & (categories >= 0) & (categories < len(CATEGORIES))).all():
        raise TraceError(f"{path}: is a damaged memory timeline: it has steps or categories that PyTorch has not")
    is_before = times < 0  # the profiler began
    times = np.where(is_before, times[~is_before].min(initial=_LATEST) if not is_before.all() else 0, times)
    changes = np.zeros((len(steps), len(CATEGORIES)), np.int64)
    changes[np.arange(len(steps)), categories] = steps[:, 2]
    return _checked(CategoryTimeline(times, np.cumsum(changes, axis=0)), path)


def _are_lists(values: list[Any]) -> bool:
    return all(type(each) is list for each in values)


def _rows(rows: list[Any], n: int, path: str) -> Ints:
    """Return rows of ``n`` whole numbers each as an array. Raises TraceError if they are not that."""
    for row in rows:
        if type(row) is not list or len(row) != n or not all(type(each) is int and abs(each) < _LATEST for each in row):
            raise TraceError(f"{path}: is a damaged memory timeline: {str(row)[:40]!r} is no row of {n} whole numbers")
    return np.array(rows, np.int64).reshape(len(rows), n)


def _checked(timeline: CategoryTimeline, path: str) -> CategoryTimeline:
    """Return the timeline. Raises TraceError if a category has more bytes than any GPU, or fewer than none, or time goes
    back."""
    sizes = timeline.sizes
    if len(sizes) and not (sizes.min() >= 0 and sizes.max() < _MOST_BYTES and (np.diff(timeline.times) >= 0).all()):
        raise TraceError(f"{path}: is a damaged memory timeline: a category has less than nothing, or time goes back")
    return timeline
