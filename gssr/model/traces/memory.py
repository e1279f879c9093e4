"""What a memory snapshot or a memory timeline of PyTorch says: how full each GPU was over time, what held its memory at the
peak, how much of it lay in pieces, and what would have to go to fit.

Bytes of allocations are as the program asked for them. PyTorch rounds each up (to 512 bytes by default), and holds segments
around them: what it has reserved is more.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.traces.memory_dump import (
    CATEGORIES,
    CategoryTimeline,
    Frame,
    MemoryEvent,
    Segment,
    Snapshot,
    Stack,
    rank_in_name,
)

_FREES = ("free_requested", "free")
_LONGEST_NAME = 500
_OPERATOR = re.compile(r"at::_ops::(\w+)::")
_GROWS, _SHRINKS = ("segment_alloc", "segment_map"), ("segment_free", "segment_unmap")


class MemoryAllocation(NamedTuple):
    """``size``: bytes that were asked for. ``stack``: what asked, empty where that was not recorded; ``place``: name_of
    it."""

    size: int
    place: str
    stack: Stack


class Pool(NamedTuple):
    """The segments of one kind (large or small blocks) on one stream. ``reserved`` is the sum of the others but
    ``largest_free``."""

    stream: int
    kind: str
    segments: int
    reserved: int
    allocated: int
    awaiting: int
    free: int
    largest_free: int


class Fit(NamedTuple):
    """The allocations that would have to go so that memory fits into ``limit`` bytes. ``over``: bytes too many, 0 or
    less if the sum fits. ``largest``: the largest allocations alive then, as few as are ``over`` bytes together."""

    limit: int
    over: int
    largest: tuple[MemoryAllocation, ...]


class OutOfMemory(NamedTuple):
    """An allocation that failed: ``asked`` bytes; what was ``requested`` in all and ``reserved`` then, and what the driver
    had ``free``. ``at_ns`` counts from the first step; None where times were not recorded."""

    asked: int
    requested: int
    reserved: int
    free: int
    at_ns: int | None
    stack: Stack
    fit: Fit


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a GPU, as one file says.

    ``device`` is None in a timeline, which does not tell. ``peak_bytes`` is the most that was requested at once, as far
    back as the file goes; None in a snapshot without a history. ``peak_ns`` counts from the first step, None where
    times were not recorded. ``alive``: the allocations at the peak, without a history those of the end, largest first;
    None in a timeline. ``at_peak``: bytes by category, None in a snapshot. ``pools`` are of the end; None in a timeline.

    ``times`` [n], ns from the first step, empty where times were not recorded; ``sizes`` [n, k], bytes from then on, by
    ``series``.
    """

    path: str
    rank: int | None
    device: int | None
    steps: int
    peak_bytes: int | None
    peak_ns: int | None
    alive: tuple[MemoryAllocation, ...] | None
    at_peak: dict[str, int] | None
    reserved_at_peak: int | None
    requested: int | None
    pools: tuple[Pool, ...] | None
    times: Ints
    sizes: Ints
    series: tuple[str, ...]
    failures: tuple[OutOfMemory, ...]
    fit: Fit | None

    def total(self, name: str) -> int | None:
        """Add up a number of the pools; None in a timeline."""
        return None if self.pools is None else sum(getattr(pool, name) for pool in self.pools)

    @property
    def largest_free(self) -> int | None:
        """The largest free block at the end, bytes; None in a timeline."""
        return None if self.pools is None else max((pool.largest_free for pool in self.pools), default=0)


def device_memories(path: str, dump: Snapshot | CategoryTimeline, limit: int | None = None) -> list[DeviceMemory]:
    """Return the memory of each GPU of the file ``path``, which holds ``dump``, that has any. ``limit``: bytes into which it
    should fit, None if nobody asks."""
    if isinstance(dump, CategoryTimeline):
        return [_summarize_timeline(path, dump, limit)]
    devices = sorted({segment.device for segment in dump.segments} | set(dump.events))
    return [_summarize_snapshot(path, dump, device, limit) for device in devices]


def _summarize_timeline(path: str, held: CategoryTimeline, limit: int | None) -> DeviceMemory:
    """Summarize a timeline of bytes by category. Of several moments at the peak the first counts. Without steps the peak
    is 0 bytes at an unknown time. ``limit`` is as in ``device_memories``."""
    totals = held.sizes.sum(axis=1)
    peak = int(totals.argmax()) if len(totals) else None
    times = held.times - held.times[:1]
    at_peak = None if peak is None else dict(zip(CATEGORIES, held.sizes[peak].tolist(), strict=True))
    most = 0 if peak is None else int(totals[peak])
    return DeviceMemory(
        path, rank_in_name(path), None, len(totals), most, None if peak is None else int(times[peak]), None,
        at_peak or dict.fromkeys(CATEGORIES, 0), None, None, None, times, held.sizes, CATEGORIES, (),
        None if limit is None else Fit(limit, most - limit, ()),
    )  # fmt: skip


class _Lives(NamedTuple):
    """Allocations, each with the step before which it was made and in which it was freed: it is alive after k steps for
    ``begin`` < k <= ``end``. ``begin`` is -1 for one made before the first step."""

    begin: Ints
    end: Ints
    size: Ints
    stacks: Sequence[Stack]

    def alive(self, k: int) -> tuple[MemoryAllocation, ...]:
        """Return the allocations alive after ``k`` steps, largest first."""
        which = np.flatnonzero((self.begin < k) & (k <= self.end))
        order = which[np.argsort(-self.size[which], kind="stable")].tolist()
        names: dict[int, str] = {}  # a name for each stack: many allocations share one
        for at in order:
            if id(self.stacks[at]) not in names:
                names[id(self.stacks[at])] = name_of(self.stacks[at])
        return tuple(MemoryAllocation(int(self.size[at]), names[id(self.stacks[at])], self.stacks[at]) for at in order)

    def totals(self, steps: int) -> Ints:
        """Return how many bytes are alive after 0, 1, ... ``steps`` steps."""
        changes = np.zeros(steps + 2, np.int64)
        np.add.at(changes, self.begin + 1, self.size)
        np.subtract.at(changes, self.end + 1, self.size)
        totals: Ints = np.cumsum(changes)[: steps + 1]
        return totals


def _lives(segments: Sequence[Segment], events: Sequence[MemoryEvent]) -> _Lives:
    """Pair allocations with their frees. What the segments hold in the end and no step made was there before."""
    begin: list[int] = []
    end: list[int] = []
    size: list[int] = []
    stacks: list[Stack] = []
    alive: dict[int, int] = {}

    def add(made: int, gone: int, n: int, stack: Stack) -> None:
        begin.append(made)
        end.append(gone)
        size.append(n)
        stacks.append(stack)

    for at, step in enumerate(events):
        if step.action == "alloc":
            if step.address in alive:  # its free is missing
                end[alive[step.address]] = at
            alive[step.address] = len(begin)
            add(at, len(events), step.size, step.stack)
        elif step.action in _FREES:
            if (own := alive.pop(step.address, None)) is None:
                add(-1, at, step.size, ())  # the stack of the free is not that of the allocation
            else:
                end[own] = at
    for segment in segments:
        for block in segment.blocks:
            if block.state == "allocated" and block.address not in alive:
                add(-1, len(events), block.requested, block.stack)
    return _Lives(np.array(begin, np.int64), np.array(end, np.int64), np.array(size, np.int64), stacks)


def _reserved(segments: Sequence[Segment], events: Sequence[MemoryEvent]) -> Ints:
    """Return how many bytes PyTorch had from the driver after 0, 1, ... steps, counted back from the end."""
    changes = [step.size if step.action in _GROWS else -step.size if step.action in _SHRINKS else 0 for step in events]
    after = np.cumsum(np.array([0, *changes], np.int64))
    reserved: Ints = after + (sum(segment.size for segment in segments) - after[-1])
    return reserved


def _summarize_snapshot(path: str, held: Snapshot, device: int, limit: int | None) -> DeviceMemory:
    """Summarize what a snapshot holds of one GPU. Of several moments at the peak the first counts. Times are unknown
    unless every step has one and none is before the step that precedes it. ``limit`` is as in ``device_memories``; it
    holds for the peak, without a history for the end."""
    segments = [segment for segment in held.segments if segment.device == device]
    events = held.events.get(device, ())
    lives = _lives(segments, events)
    totals, reserved = lives.totals(len(events)), _reserved(segments, events)
    peak = int(totals.argmax())
    alive = lives.alive(peak)
    clock = [step.time_us for step in events]
    known = np.array([each for each in clock if each is not None], np.int64)
    is_timed = bool(events) and len(known) == len(clock) and bool((np.diff(known) >= 0).all())
    times = np.concatenate((known[:1], known)) - known[:1] if is_timed else np.zeros(0, np.int64)
    times = times * 1000
    sizes = np.stack((totals, reserved), axis=1) if is_timed else np.zeros((0, 2), np.int64)
    failures = tuple(
        _failure(step, lives.alive(at), int(totals[at]), int(reserved[at]), int(times[at + 1]) if is_timed else None)
        for at, step in enumerate(events)
        if step.action == "oom"
    )
    return DeviceMemory(
        path, rank_in_name(path), device, len(events), int(totals[peak]) if events else None,
        int(times[peak]) if is_timed else None, alive, None, int(reserved[peak]) if events else None,
        int(totals[-1]), _pools(segments), times, sizes, ("requested", "reserved"), failures,
        None if limit is None else _fit(limit, int(totals[peak]), alive),
    )  # fmt: skip


def _failure(
    step: MemoryEvent, alive: tuple[MemoryAllocation, ...], requested: int, reserved: int, at_ns: int | None
) -> OutOfMemory:
    """Return what failed. It would have had to fit into what PyTorch had and what the driver could still give."""
    fit = _fit(reserved + step.address, requested + step.size, alive)
    return OutOfMemory(step.size, requested, reserved, step.address, at_ns, step.stack, fit)


def _fit(limit: int, needed: int, alive: Sequence[MemoryAllocation]) -> Fit:
    """Say what would have to go of ``alive``, largest first, so that ``needed`` bytes fit; all of it if that is too
    little."""
    over, gone, found = needed - limit, 0, []
    for each in alive:
        if gone >= over:
            break
        found.append(each)
        gone += each.size
    return Fit(limit, over, tuple(found))


def _pools(segments: Sequence[Segment]) -> tuple[Pool, ...]:
    """Add segments up by stream and kind, the largest pool first."""
    groups: dict[tuple[int, str], list[Segment]] = {}
    for segment in segments:
        groups.setdefault((segment.stream, segment.kind), []).append(segment)
    pools = []
    for (stream, kind), own in groups.items():
        blocks = [block for segment in own for block in segment.blocks]
        allocated, awaiting = (
            sum(block.size for block in blocks if block.state == state) for state in ("allocated", "awaiting free")
        )
        reserved = sum(segment.size for segment in own)
        largest = max((block.size for block in blocks if block.state == "free"), default=0)
        pools.append(
            Pool(stream, kind, len(own), reserved, allocated, awaiting, reserved - allocated - awaiting, largest)
        )
    return tuple(sorted(pools, key=lambda pool: -pool.reserved))


def places(alive: Sequence[MemoryAllocation]) -> dict[str, list[MemoryAllocation]]:
    """Sort allocations by the line of the program that made them, the line with most bytes first. ``alive``: largest first,
    as are those of each line."""
    groups: dict[str, list[MemoryAllocation]] = {}
    for each in alive:
        groups.setdefault(each.place, []).append(each)
    return dict(sorted(groups.items(), key=lambda place: -bytes_of(place[1])))


def bytes_of(allocations: Iterable[MemoryAllocation]) -> int:
    """Add up the bytes of allocations."""
    return sum(each.size for each in allocations)


def name_of(stack: Stack) -> str:
    """Name the innermost line of the program itself: Python outside of PyTorch, else Python, else (the backward pass has
    threads of its own) the operator, else any; "" for an empty stack."""
    python = [frame for frame in stack if frame.file.endswith(".py") or frame.file.startswith("<")]
    own = [frame for frame in python if "/torch/" not in frame.file and not frame.file.startswith("<frozen")]
    if not python and (operators := [found[1] for frame in stack if (found := _OPERATOR.match(frame.function))]):
        return f"operator {operators[0]}"[:_LONGEST_NAME]
    frame = next(iter((*own[:1], *python[:1], *stack[:1])), None)
    return "" if frame is None else frame_text(frame)


def frame_text(frame: Frame) -> str:
    """Write a frame as ``file:line function``, as far as that is known, at most _LONGEST_NAME characters."""
    line = f":{frame.line}" if frame.line else ""
    return f"{frame.file if frame.file != '??' else ''}{line} {frame.function}".strip()[:_LONGEST_NAME]
