"""When a GPU was idle, why, and what the program did meanwhile.

A GPU is idle between two pieces of work of any of its streams. The causes are read off what comes next:

- host: the part of a gap before that was launched. The host was late. The launch of a kernel that itself takes 30 µs or more
  is part of it: the driver then loads code or allocates memory.
- launch: the rest, where it is below 30 µs: what it takes to get from one piece of work to the next.
- copy: the rest before a copy or set, which waited for its data.
- dependency: the rest before other work, which waited for something else: an event, another GPU, another stream.
- unknown: the trace does not tell what launched it.
- outside: before a GPU's first work and after its last, in the time that is looked at.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.launches import Links
from gssr.model.traces.part import TracePiece
from gssr.model.traces.segments import Segments, stretches
from gssr.model.traces.trace_results import CAUSES, Cause, Gap, LateHost
from gssr.traces.timeline import BUSY, Category, Kind

LAUNCH = 30_000
"""Below so many ns a gap is a launch's (HolisticTraceAnalysis' consecutive_kernel_delay, as it acts)."""
BRIEF = 1_000_000
"""Below so many ns a late host may have been launching all the while: what PyTorch does for one operator takes less."""
LONG = 500_000_000
"""From so many ns on a gap is named by itself (the rule gpu_gaps)."""
_TOLERANCE = 10_000
"""By so many ns the clocks of a GPU and its host may differ in a trace."""
MOST_GAPS = 50
_BLOCK = 256


class Idle(NamedTuple):
    """The gaps [n] of a GPU, from ``start`` to ``end``; each ends with the beginning of the row ``after`` it. During the
    first ``host`` ns of a gap the host had not launched that row yet; the ``rest`` of the gap has another cause (a place in
    CAUSES)."""

    start: Ints
    end: Ints
    after: Ints
    host: Ints
    rest: Ints

    @property
    def length(self) -> Ints:
        """The length of each gap, ns."""
        return self.end - self.start


NO_GAPS = Idle(*(np.empty(0, np.int64) for _ in Idle._fields))
_HOST, LAUNCHING, _DEPENDENCY, _COPY, _UNKNOWN = (
    CAUSES.index(name) for name in ("host", "launch", "dependency", "copy", "unknown")
)


def causes_as_hta(part: TracePiece, links: Links) -> dict[Cause, tuple[int, int]]:
    """Count the gaps of each cause, and add up their ns, as HolisticTraceAnalysis does: stream by stream, from each end to
    the next start, where an overlap counts as less than nothing. All of a gap has one of three causes; its "other" is
    "unknown" here. Returns (count, ns) by cause."""
    rows = np.flatnonzero(np.isin(part.timeline.intervals.kind[links.rows], BUSY))
    track = part.timeline.intervals.track[links.rows[rows]]
    rows = rows[np.argsort(track, kind="stable")]
    track = np.sort(track, kind="stable")
    next_ = np.flatnonzero(track[1:] == track[:-1]) + 1
    after, before = links.rows[rows[next_]], links.rows[rows[next_ - 1]]
    call, start = links.call[rows[next_]], part.end(before)
    length = part.start[after] - start
    is_late = (call >= 0) & (part.start[call] > start)
    return _added_up(np.where(is_late, _HOST, np.where(length < LAUNCH, LAUNCHING, _UNKNOWN)), length)


def idle_of(part: TracePiece, start: Ints, end: Ints, after: Ints, call: Ints) -> Idle:
    """Find out why a GPU was idle in each of its gaps. ``start``, ``end`` [n]: when each begins and ends, ns; ``after`` [n]:
    the row of the work that ends it; ``call`` [n]: the row of the call that launched that work, -1 where nobody knows."""
    is_copy = part.category[after] == Category.COPY
    # the call of a copy may wait for the copy itself, that of a kernel does not wait for the kernel
    is_slow = ~is_copy & (part.end(call) - part.start[call] >= LAUNCH)
    launched = np.where(is_slow, part.end(call), part.start[call])
    host = np.where(call < 0, 0, np.clip(launched - start, 0, end - start))
    rest = np.full(len(start), _DEPENDENCY)
    rest[is_copy] = _COPY
    rest[end - start - host < LAUNCH] = LAUNCHING
    rest[call < 0] = _UNKNOWN
    return Idle(start, end, after, host, rest)


def work_and_gaps(part: TracePiece, links: Links) -> Iterator[tuple[Ints, Ints, Segments, Idle]]:
    """Go through a GPU's work in parts between which it was idle. Yields of each its rows, the calls that launched these
    (as in Links), when any of them ran, and the gaps between them, with that before the first."""
    last: int | None = None
    for some, busy, first in stretches(len(links.rows), lambda some: part.times(links.rows[some])):
        rows, call = links.rows[some], links.call[some]
        gaps = busy.gaps(last)
        after = first[len(first) - len(gaps.start) :]
        yield rows, call, busy, idle_of(part, gaps.start, gaps.end, rows[after], call[after])
        last = int(busy.end[-1])


def not_waiting(idle: Idle) -> Segments:
    """Return the gaps without the parts in which the next work was launched and waited for other work or an event:
    whatever the program did meanwhile is not why the GPU was idle. Some may take no time."""
    return Segments(idle.start, np.where(idle.rest == _DEPENDENCY, idle.start + idle.host, idle.end))


def split_late_host(idle: Idle, blocked: Segments | None, elsewhere: Segments) -> LateHost:
    """Split the time in which the host was late by what kind of gap it was in. ``blocked``: when a thread waited in a call
    for the GPU; None where no such calls were traced. ``elsewhere``: times that count as something else than a late host."""
    late = idle.host - (elsewhere.before(idle.start + idle.host) - elsewhere.before(idle.start))
    is_drained = np.zeros(len(idle.start), np.bool_)
    if blocked is not None and len(blocked.start):
        at = np.searchsorted(blocked.start, idle.start, "right") - 1
        is_drained = (at >= 0) & (idle.start <= blocked.end[at] + _TOLERANCE)
    is_brief = ~is_drained & (idle.host < BRIEF)
    is_long = ~is_drained & (idle.length >= LONG)
    kinds = (is_drained, is_brief, ~(is_drained | is_brief | is_long))
    return LateHost(*(int(late[kind].sum()) for kind in kinds))


def by_cause(idle: Idle) -> dict[Cause, tuple[int, int]]:
    """Add up idle time by cause. Returns for each cause how many gaps have a part of it, and the ns of these parts."""
    has_rest = idle.host < idle.length
    found = _added_up(idle.rest[has_rest], (idle.length - idle.host)[has_rest])
    return found | {"host": (int(np.count_nonzero(idle.host)), int(idle.host.sum()))}


def _added_up(cause: Ints, length: Ints) -> dict[Cause, tuple[int, int]]:
    count, total = np.bincount(cause, minlength=len(CAUSES)), np.bincount(cause, length, len(CAUSES))
    return {name: (int(count[at]), int(total[at])) for at, name in enumerate(CAUSES)}


def longest(*parts: Idle) -> Idle:
    """Return the MOST_GAPS longest of all these gaps; of equally long ones the first."""
    both = Idle(*map(np.concatenate, zip(NO_GAPS, *parts, strict=True)))
    length = both.length
    if len(length) > MOST_GAPS:
        near = np.flatnonzero(length >= np.partition(length, -MOST_GAPS)[-MOST_GAPS])
        near = near[np.argsort(-length[near], kind="stable")[:MOST_GAPS]]
        both = Idle(*(column[near] for column in both))
    return both


def described(part: TracePiece, gpu: int, idle: Idle, links: Links) -> list[Gap]:
    """Describe gaps of the GPU with index ``gpu``: their cause, the work before and after, and what the program did in their
    middle. ``links``: the GPU's work. The descriptions do not have the GPU's name yet."""
    length, is_late = idle.length, 2 * idle.host > idle.length
    cause = np.where(is_late, _HOST, idle.rest)
    open_ = _Open(part)
    own = part.timeline.intervals
    usual = open_.thread_of(links)
    found = []
    for at in range(len(length)):
        place = int(np.searchsorted(links.rows, idle.after[at]))
        call = int(links.call[place])
        thread = int(own.track[call]) if call >= 0 else usual
        middle = (int(idle.start[at]) + int(idle.end[at])) // 2
        found.append(
            Gap(
                int(idle.start[at]), int(length[at]), part.gpus[gpu], "", CAUSES[int(cause[at])], int(idle.host[at]),
                _before(part, links, place, int(idle.start[at])), part.timeline.names[own.name[idle.after[at]]],
                *(open_.name(thread, kinds, middle) for kinds in _SHOWN),
            )
        )  # fmt: skip
    return found


def _before(part: TracePiece, links: Links, place: int, end: int) -> str:
    """Name what ended at ``end``, among the GPU's rows before this place."""
    found = _last(place, lambda low, high: part.end(links.rows[low:high]) == end)
    return "" if found is None else part.timeline.names[part.timeline.intervals.name[links.rows[found]]]


_SHOWN = ((Kind.RUNTIME, Kind.DRIVER, Kind.OS), (Kind.CPU_OP, Kind.RANGE), (Kind.PYTHON,))


class _Open:
    """The intervals that are open on a thread at some time."""

    def __init__(self, part: TracePiece) -> None:
        self._part = part
        self._rows: dict[tuple[int, tuple[Kind, ...]], tuple[Ints, Ints, Ints]] = {}

    def thread_of(self, links: Links) -> int:
        """Find the thread that launched most; -1 without any."""
        calls = links.call[links.call >= 0]
        return int(np.bincount(self._part.timeline.intervals.track[calls]).argmax()) if len(calls) else -1

    def name(self, thread: int, kinds: tuple[Kind, ...], time: int) -> str | None:
        """Name the innermost interval of these kinds that is open on a thread at a time. None without any."""
        own, key = self._part.timeline.intervals, (thread, kinds)
        if thread < 0:
            return None
        if key not in self._rows:
            rows = self._part.all_rows(*kinds)
            rows = rows[own.track[rows] == thread]
            self._rows[key] = rows, own.start[rows], own.start[rows] + own.length[rows]
        rows, start, end = self._rows[key]
        found = _last(int(np.searchsorted(start, time, "right")), lambda low, high: end[low:high] > time)
        return None if found is None else self._part.timeline.names[own.name[rows[found]]]


def _last(before: int, holds: "Callable[[int, int], np.ndarray[tuple[int], np.dtype[np.bool_]]]") -> int | None:
    """Find the last place below ``before`` for which ``holds`` is true; it looks in blocks from the end, as most are near.
    None without any."""
    size, high = _BLOCK, before
    while high > 0:
        low = max(high - size, 0)
        there = np.flatnonzero(holds(low, high))
        if len(there):
            return low + int(there[-1])
        high, size = low, 2 * size
    return None
