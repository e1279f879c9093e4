"""Timelines of several files as one: times on one clock, names once, links that belong to one file only."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.store.format.rows import Process
from gssr.traces.interval_columns import order_of
from gssr.traces.timeline import (
    NO_LINK,
    NO_TIME,
    CallSamples,
    Clock,
    Collectives,
    CountedKernel,
    Counter,
    FileUse,
    HloOp,
    HloOps,
    Intervals,
    Messages,
    Shape,
    Timeline,
    TraceSource,
    Track,
)

_MOST_LINK = 1 << 62
_NS = 1_000_000_000
_UNKNOWN = "its clock is unknown: it is shown as if it had begun when the others did"
_APART = "it does not overlap in time with the first of these files: are they of one run?"


def from_zero(timeline: Timeline, zero: int | None = None) -> Timeline:
    """Shift a timeline so that its times count from ``zero``, in ns on its current clock. None: from the start of its
    first interval, or of its first counter value if it has no intervals. The clock and the sources' ``zero_ns`` are
    adjusted."""
    if zero is None:
        times = [timeline.intervals.start] if len(timeline.intervals) else [one.time for one in timeline.counters]
        zero = min((int(time[0]) for time in times if len(time)), default=0)
    if zero == 0:
        return timeline
    clock = timeline.clock
    return replace(
        timeline,
        sources=tuple(source._replace(zero_ns=source.zero_ns + zero) for source in timeline.sources),
        clock=clock if clock.unix_ns is None else clock._replace(unix_ns=clock.unix_ns + zero),
        intervals=replace(timeline.intervals, start=timeline.intervals.start - zero),
        counters=tuple(counter._replace(time=counter.time - zero) for counter in timeline.counters),
        messages=timeline.messages and _messages_from(timeline.messages, zero),
        io=timeline.io and replace(timeline.io, start=timeline.io.start - zero),
        samples=timeline.samples and replace(timeline.samples, time=timeline.samples.time - zero),
    )


def _messages_from(messages: Messages, zero: int) -> Messages:
    sent, received = (np.where(at == NO_TIME, at, at - zero) for at in (messages.sent, messages.received))
    own = messages.collectives
    return replace(messages, sent=sent, received=received, collectives=replace(own, start=own.start - zero))


def by_boot(timeline: Timeline, processes: Sequence[Process]) -> Timeline:
    """Give a timeline whose times count since boot its unix time, if one of the run's processes on its node says when
    that was. Otherwise the timeline is returned unchanged. Raises ValueError, with a clause, if the trace is of a node
    that is not in the run, or of several nodes."""
    hosts = {track.node for track in timeline.tracks} - {None}
    if timeline.clock.origin != "boot" or not hosts or not processes:
        return timeline
    if len(hosts) > 1:
        raise ValueError("is of several nodes, which were booted at different times: lay the file of each over it")
    host = str(hosts.pop())
    on_node = [process for process in processes if is_on(host, process)]
    if not on_node:
        others = ", ".join(list(dict.fromkeys(str(each.node or each.hostname) for each in processes))[:4])
        raise ValueError(f"was recorded on {host}, since whose boot its times count, and the run was on {others}")
    booted = next((process.booted_at for process in on_node if process.booted_at is not None), None)
    if booted is None:
        return timeline
    clock = timeline.clock._replace(unix_ns=round(booted * _NS) + timeline.sources[0].zero_ns)
    return replace(timeline, clock=clock)


def is_on(host: str, process: Process) -> bool:
    """Tell whether a host name is the node or host of a process, compared without domains and case."""
    names = {name.partition(".")[0].lower() for name in (process.node, process.hostname) if name}
    return host.partition(".")[0].lower() in names


def join(timelines: Sequence[Timeline]) -> Timeline:
    """Join timelines into one whose clock begins with the first interval. Timelines with an unknown clock are shifted
    to begin together with the others, and get a note. But if no clock is known and all overlap in time, they are taken
    to share one clock: that of a machine since boot. ``timelines`` has at least one."""
    if len(timelines) == 1:
        return from_zero(timelines[0])
    timelines, clock = _on_one_clock(timelines)
    names: dict[str, int] = {}
    tracks: list[Track] = []
    sources: list[TraceSource] = []
    counters: list[Counter] = []
    facts: dict[str, str] = {}
    track, name, link, size = [], [], [], list[Ints]()
    shapes: list[Shape] = []
    counted: list[CountedKernel] = []
    messages, collectives, io, samples = list[Messages](), list[Collectives](), list[FileUse](), list[CallSamples]()
    first_link = 0
    for timeline in timelines:
        place = np.array([names.setdefault(text, len(names)) for text in timeline.names] or [0], np.int32)
        name.append(place[timeline.intervals.name])
        track.append(timeline.intervals.track + np.int32(len(tracks)))
        own, first_link = _moved_links(timeline.intervals.link, first_link)
        link.append(own)
        size.append(
            np.where(timeline.intervals.size < -1, timeline.intervals.size - len(shapes), timeline.intervals.size)
        )
        shapes += timeline.shapes
        counted += [one._replace(source=one.source + len(sources)) for one in timeline.counted]
        counters += [one if one.track < 0 else one._replace(track=one.track + len(tracks)) for one in timeline.counters]
        if (sent := timeline.messages) is not None:
            n_comms, by = sum(len(each.comms) for each in messages), len(tracks)
            messages.append(replace(sent, source=sent.source + by, target=sent.target + by, comm=sent.comm + n_comms))
            each = sent.collectives
            collectives.append(replace(each, track=each.track + by, comm=each.comm + n_comms))
        if (used := timeline.io) is not None:
            n_files, n_layers = (sum(len(getattr(each, what)) for each in io) for what in ("files", "layers"))
            named = np.where(used.name < 0, -1, place[used.name]).astype(np.int32)
            io.append(replace(used, track=used.track + len(tracks), file=used.file + n_files, name=named,
                              layer=used.layer + n_layers))  # fmt: skip
        if (sampled := timeline.samples) is not None:
            n_paths = sum(len(each.parent) for each in samples)
            parent = np.where(sampled.parent < 0, -1, sampled.parent + n_paths)
            samples.append(replace(sampled, track=sampled.track + len(tracks), path=sampled.path + n_paths, parent=parent,
                                   name=place[sampled.name].astype(np.int64)))  # fmt: skip
        tracks += [one._replace(source=one.source + len(sources)) for one in timeline.tracks]
        sources += timeline.sources
        facts.update(timeline.facts)
    parts = [timeline.intervals for timeline in timelines]
    start, length = np.concatenate([one.start for one in parts]), np.concatenate([one.length for one in parts])
    order = np.arange(len(start))[order_of(start, length)]
    intervals = Intervals(
        start[order], length[order], np.concatenate(track)[order], np.concatenate(name)[order],
        np.concatenate([one.kind for one in parts])[order], np.concatenate([one.category for one in parts])[order],
        np.concatenate(link)[order], np.concatenate(size)[order],
        np.concatenate([one.operation for one in parts])[order],
    )  # fmt: skip
    joined = Timeline(
        tuple(sources),
        clock,
        tuple(tracks),
        tuple(names),
        intervals,
        tuple(counters),
        _moved_places([one.pageable for one in timelines], timelines, order),
        facts,
        {name: domain for one in timelines for name, domain in one.domains.items()},
        replace(_in_a_row(messages), collectives=_in_a_row(collectives)) if messages else None,
        _in_a_row(io) if io else None,
        _in_a_row(samples) if samples else None,
        start_end=_moved_places([one.start_end for one in timelines], timelines, order),
        shapes=tuple(shapes),
        hlo=_joined_ops(timelines, order),
        counted=tuple(counted),
    )
    return from_zero(joined)


def _joined_ops(timelines: Sequence[Timeline], order: NDArray[np.intp]) -> HloOps | None:
    """Join the operations of XLA, given the sort ``order`` of the concatenated intervals; None if no timeline has any."""
    ops: list[HloOp] = []
    parts = []
    for timeline in timelines:
        own = timeline.hlo or HloOps(np.full(len(timeline.intervals), -1, np.int32), ())
        parts.append(np.where(own.op < 0, -1, own.op + len(ops)).astype(np.int32))
        ops += own.ops
    return HloOps(np.concatenate(parts)[order], tuple(ops)) if ops else None


_Columns = TypeVar("_Columns", Messages, Collectives, FileUse, CallSamples)


def _in_a_row(parts: Sequence[_Columns]) -> _Columns:
    """Concatenate the arrays of several objects and chain their tuples. Other fields are those of the first. ``parts``
    must not be empty."""
    found: dict[str, Any] = {}
    for field in fields(parts[0]):
        values = [getattr(one, field.name) for one in parts]
        if isinstance(values[0], np.ndarray):
            found[field.name] = np.concatenate(values)
        elif isinstance(values[0], tuple):
            found[field.name] = tuple(chain.from_iterable(values))
    return replace(parts[0], **found)


def _on_one_clock(timelines: Sequence[Timeline]) -> tuple[list[Timeline], Clock]:
    """Shift timelines so that their times count from one moment. Returns them, and the clock of that moment (unknown if
    no timeline has a known one). Timelines that had to be placed without a clock, or overlap with none, get a note."""
    known = [one.clock for one in timelines if one.clock.unix_ns is not None]
    if not known:
        if not booted_apart((one.clock, one.sources) for one in timelines) and _have_a_common_time(timelines):
            return list(timelines), timelines[0].clock
        return [timelines[0], *(_noted(one, _UNKNOWN, timelines[0]) for one in timelines[1:])], Clock()
    clock = max(known, key=lambda one: (one.origin != "unix", one.error_ns))._replace(
        unix_ns=min(one.unix_ns for one in known if one.unix_ns is not None)
    )
    zero = clock.unix_ns or 0
    moved = [one if one.clock.unix_ns is None else from_zero(one, zero - one.clock.unix_ns) for one in timelines]
    first = next(one for one in moved if one.clock.unix_ns is not None)
    done = []
    for one in moved:
        if one.clock.unix_ns is None:
            one = _noted(one, _UNKNOWN, first)
        elif not _have_a_common_time((first, one)):
            one = _noted(one, _APART)
        done.append(one)
    return done, clock


def booted_apart(traces: Iterable[tuple[Clock, Sequence[TraceSource]]]) -> bool:
    """Tell whether times of several traces count since the boots of different hosts. Each trace is its clock and its
    sources."""
    return len({source.host for clock, sources in traces if clock.origin == "boot" for source in sources}) > 1


def _noted(timeline: Timeline, note: str, like: Timeline | None = None) -> Timeline:
    """Add a note to all sources of a timeline. With ``like`` the timeline is also shifted to begin when that one does."""
    if like is not None and len(like.intervals) and len(timeline.intervals):
        timeline = from_zero(timeline, int(timeline.intervals.start[0] - like.intervals.start[0]))
    sources = tuple(source._replace(notes=(*source.notes, note)) for source in timeline.sources)
    return replace(timeline, sources=sources)


def _have_a_common_time(timelines: Sequence[Timeline]) -> bool:
    """Tell whether there is a moment at which all timelines with intervals are running; True if none has intervals."""
    parts = [one.intervals for one in timelines if len(one.intervals)]
    begins = [int(one.start[0]) for one in parts]
    ends = [int((one.start + one.length).max()) for one in parts]
    return not parts or max(begins) <= min(ends)


def _moved_links(link: Ints, first: int) -> tuple[Ints, int]:
    """Renumber links so that they begin at ``first`` or above, keeping equal ones equal. Returns them (NO_LINK stays),
    and the first number that is still free; the links themselves and ``first`` if none is a link."""
    linked = link != NO_LINK
    if not linked.any():
        return link, first
    numbers = link[linked]
    top = int(numbers.max())
    if int(numbers.min()) < 0 or first + top >= _MOST_LINK:
        _, numbers = np.unique(numbers, return_inverse=True)
        top = int(numbers.max())
    moved = link.copy()
    moved[linked] = numbers + first
    return moved, first + top + 1


def _moved_places(places: Sequence[Ints | None], timelines: Sequence[Timeline], order: NDArray[np.intp]) -> Ints | None:
    """Convert indices of intervals in each timeline to indices in the joined one, ascending, given the sort ``order``
    of the concatenated intervals. None if no timeline has any (all None)."""
    if all(own is None for own in places):
        return None
    chosen = np.zeros(len(order), np.bool_)
    begin = 0
    for own, one in zip(places, timelines, strict=True):
        if own is not None:
            chosen[begin + own] = True
        begin += len(one.intervals)
    return np.flatnonzero(chosen[order])
