"""What belongs together on a timeline: a kernel and its launch, the two ends of a message."""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.messages import other_end
from gssr.model.traces.nesting import Lanes
from gssr.traces.timeline import BUSY, NO_LINK, NO_TIME, Kind
from gssr.traces.timeline import Timeline as Trace

LAUNCHES = (Kind.RUNTIME, Kind.DRIVER)
MOST_FLOWS = 60
"""The most lines that are drawn at once: more would hide what they join. The line of the interval under the cursor is always
drawn."""
_MOST_READ = 300_000
"""Intervals of which flows are looked for."""


class Flow(NamedTuple):
    """From a ``line`` at a ``time`` (ns) to another."""

    line: int
    time: int
    to_line: int
    to_time: int


def partner(trace: Trace, place: int) -> int:
    """Find the interval that belongs to an interval, both as indices into the trace's intervals.

    Of work that is its launch, of a launch the first of its work, of a call that communicates the other end of its
    first message. -1 if there is none.
    """
    own = trace.intervals
    if own.link[place] == NO_LINK:
        return other_end(trace, place)
    calls = np.isin(own.kind[place], LAUNCHES)
    linked = np.flatnonzero(own.link == own.link[place])
    others = linked[np.isin(own.kind[linked], LAUNCHES) != calls]
    return int(others[0]) if len(others) else -1


class StreamWait(NamedTuple):
    """How the time from a launch to the start of its work divides. ``behind``: other work and waits on its stream meanwhile,
    each as (index into the trace's intervals, ns), the longest first; ``free``: the ns in which the stream had nothing."""

    behind: tuple[tuple[int, int], ...]
    free: int


def stream_wait(trace: Trace, call: int, work: int) -> StreamWait:
    """Divide the time from a launch (``call``) to the start of its ``work``, both indices into the trace's intervals. It is
    all free if the work started before the call."""
    own, track = trace.intervals, trace.intervals.track[work]
    begin, end = int(own.start[call]), int(own.start[work])
    before = np.flatnonzero((own.track[:work] == track) & (own.start[:work] + own.length[:work] > begin))
    behind = []
    free, at = 0, begin
    for place in before[np.isin(own.kind[before], (*BUSY, Kind.GPU_SYNC))].tolist():
        start, stop = max(int(own.start[place]), at), min(int(own.start[place] + own.length[place]), end)
        if stop > start:
            free += start - at
            behind.append((place, stop - start))
            at = stop
    return StreamWait(tuple(sorted(behind, key=lambda each: -each[1])), free + max(end - at, 0))


def launch_flows(trace: Trace, lanes: Lanes, begin: int, end: int) -> tuple[list[Flow], int]:
    """List the lines from launches to the work they launched, both on these lanes and begun in ``begin`` <= time <
    ``end`` (ns), and return how many there are.

    If there are more than MOST_FLOWS, the list is empty and only their number is returned. ([], 0) if there are none,
    or more than _MOST_READ intervals on the lanes, in which none are looked for.
    """
    own, places = trace.intervals, lanes.places
    if len(places) > _MOST_READ:
        return [], 0
    links, kinds = own.link[places], own.kind[places]
    launch = np.isin(kinds, LAUNCHES)
    linked = links != NO_LINK
    work = np.flatnonzero(linked & ~launch & (own.start[places] >= begin) & (own.start[places] < end))
    calls = np.flatnonzero(linked & launch & (own.start[places] >= begin) & (own.start[places] < end))
    if not len(work) or not len(calls):
        return [], 0
    order = calls[np.argsort(links[calls], kind="stable")]
    at = np.minimum(np.searchsorted(links[order], links[work]), len(order) - 1)
    found = links[order[at]] == links[work]
    pairs = list(zip(order[at[found]].tolist(), work[found].tolist(), strict=True))
    if len(pairs) > MOST_FLOWS:
        return [], len(pairs)
    return [flow_between(trace, lanes, int(places[a]), int(places[b])) for a, b in pairs], len(pairs)


def flow_between(trace: Trace, lanes: Lanes, cause: int, effect: int) -> Flow:
    """Return the line from the begin of ``cause`` to that of ``effect``, both indices into the trace's intervals,
    which must be on these lanes."""
    own = trace.intervals

    def line(place: int) -> int:
        return int(lanes.lane[np.searchsorted(lanes.places, place)])

    return Flow(line(cause), int(own.start[cause]), line(effect), int(own.start[effect]))


def message_flows(trace: Trace, line_of: Ints, begin: int, end: int) -> tuple[list[Flow], int]:
    """List the lines from sends to their receives that overlap ``begin`` to ``end`` (ns) and are on two different
    lines that are shown, and return how many there are.

    ``line_of`` [n_tracks] is the line of each track, -1 for none. If there are more than MOST_FLOWS, the list is empty
    and only their number is returned. ([], 0) if there are none.
    """
    messages = trace.messages
    if messages is None or not len(messages.source):
        return [], 0
    known = (messages.sent != NO_TIME) & (messages.received != NO_TIME)
    rows = np.flatnonzero(known & (messages.received >= begin) & (messages.sent < end))
    lines = line_of
    source, target = lines[messages.source[rows]], lines[messages.target[rows]]
    shown = (source >= 0) & (target >= 0) & (source != target)
    rows, source, target = rows[shown], source[shown], target[shown]
    if len(rows) > MOST_FLOWS:
        return [], len(rows)
    sent, received = messages.sent[rows].tolist(), messages.received[rows].tolist()
    return [Flow(*each) for each in zip(source.tolist(), sent, target.tolist(), received, strict=True)], len(rows)
