"""Making the graph of what had to come before what in the trace of one file (gssr.model.traces.dependency_graph).

- On a thread each moment follows the one before it. Where nothing is traced on a thread and another one of its process did
  something last, the thread waited for that one (as the thread of the forward pass waits for that of the backward pass).
- Work starts after its launch, and after the work before it on its stream. Work that was launched after a call for waiting
  for an event also starts after what had ended last on the GPU's other streams, of what was launched before that call.
- A call that waits for a GPU ends after the work that ended last while it waited, of the stream that the trace names, else
  of all work that its process had launched. A copy or set that ended within its call ends before it.

Formats tell launches and streams. Which event a stream waited for, and which thread another one, most do not: these two are
told from the times.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.model.traces.dependency_graph import END, HOST, START, Dependencies, Slices
from gssr.model.traces.launches import Links
from gssr.model.traces.lengths import without_running_numbers
from gssr.model.traces.nesting import nesting
from gssr.model.traces.part import TracePiece, processes_of
from gssr.model.traces.point_to_point import point_to_point, transfer_kernels
from gssr.model.traces.segments import union
from gssr.model.traces.waits import BLOCKING
from gssr.traces.event_columns import Numbers
from gssr.traces.timeline import BUSY, NO_LINK, Category, Kind

_WAIT_EVENT = re.compile(r"^(?:cuda|cu|hip)StreamWaitEvent")
_COPIES = (Kind.MEMCPY, Kind.MEMSET)
_ON_THREADS = (Kind.RUNTIME, Kind.DRIVER, Kind.CPU_OP, Kind.PYTHON, Kind.RANGE, Kind.OS, Kind.OTHER)
_DOES_SOMETHING = (Kind.RUNTIME, Kind.DRIVER, Kind.CPU_OP)
"""What a thread is at work in. Ranges and lines of Python also stay open while it waits for another thread."""
_RUNNING = re.compile(r"#\d+$")
"""The number of a step in the name of its range."""
_NEAR = 16
"""So many pieces of work that ended last are looked at for one that something waited for."""


class _Points(NamedTuple):
    """Moments on threads [n], ascending by track and time. ``waits_for`` [2, n]: places in the work, -1 for none; ``after``
    [n]: another moment, -1."""

    track: Ints
    time: Ints
    waits_for: Ints
    after: Ints
    launch: Ints
    """Of each piece of work [n work] the moment of its launch, -1 where that is not known."""


def dependencies_of(part: TracePiece, links: Links) -> Dependencies:
    """Make the graph of a file's trace, from its work and its launches (``links``)."""
    own, busy = part.timeline.intervals, np.isin(part.timeline.intervals.kind[links.rows], BUSY)
    rows, call = links.rows[busy], links.call[busy]
    start, end = part.times(rows)
    track = own.track[rows].astype(np.int64)
    points = _points(part, rows, call)
    n, n_points = len(rows), len(points.time)
    order = np.lexsort((start, track))
    previous = np.full(n, -1)
    follows = track[order[1:]] == track[order[:-1]]
    previous[order[1:][follows]] = order[:-1][follows]
    waited = _event_waits(part, rows, call)

    def ended(at: Ints) -> Ints:
        return np.where(at >= 0, n_points + n + at, -1)

    on_thread = np.concatenate([[-1], np.arange(n_points - 1)]) if n_points else np.empty(0, np.int64)
    on_thread[np.flatnonzero(np.diff(points.track, prepend=-1))] = -1
    nobody = np.full(n, -1)
    before = np.concatenate(
        [
            [on_thread, ended(points.waits_for[0]), np.maximum(ended(points.waits_for[1]), points.after)],
            [points.launch, ended(previous), ended(waited)],
            [n_points + np.arange(n), nobody, nobody],
        ],
        axis=1,
    )
    of_two = point_to_point(part, links)
    is_collective = part.category[rows] == Category.COMMUNICATION
    if of_two is not None:
        is_collective &= ~of_two[rows]
    collectives = np.flatnonzero(is_collective)
    transfers, told = _transfers(part, rows)
    slices = _slices(part, np.unique(points.track))
    texts = Numbers()
    codes = np.array([texts[_RUNNING.sub("", without_running_numbers(name))] for name in part.timeline.names] or [0])
    operation = np.concatenate([codes[own.name[rows[collectives]]], [texts[each] for each in told]]).astype(np.int64)
    shared = np.concatenate([collectives, transfers])
    name = np.where(slices.name >= 0, codes[slices.name], -1).astype(np.int32)
    return Dependencies(
        np.concatenate([points.time, start, end]),
        np.repeat(np.array([HOST, START, END], np.int8), [n_points, n, n]),
        before.astype(np.int64),
        np.concatenate([np.full(n_points + n, -1), codes[own.name[rows]]]),
        np.concatenate([np.zeros(n_points + n, np.int8), part.category[rows]]),
        np.concatenate([points.track, track, track]),
        part.timeline.tracks,
        slices._replace(name=name),
        n_points + shared,
        operation,
        part.gpu_of[track[shared]],
        tuple(texts),
    )


def _transfers(part: TracePiece, rows: Ints) -> tuple[Ints, list[str]]:
    """Find the kernels that send to or receive from a rank that the trace tells. Returns their places in the work
    (``rows``), and for each a text that is the same at both ends."""
    own = part.timeline.intervals
    found, peers, sends = transfer_kernels(part, rows[own.kind[rows] == Kind.KERNEL])
    ranks = [part.timeline.tracks[at].rank for at in own.track[found].tolist()]
    ends = [
        (rank, peer) if is_send else (peer, rank)
        for rank, peer, is_send in zip(ranks, peers.tolist(), sends.tolist(), strict=True)
    ]
    known = np.array([rank is not None for rank in ranks], np.bool_)
    texts = [f"from rank {source} to rank {target}" for source, target in ends if None not in (source, target)]
    return np.flatnonzero(np.isin(rows, found[known])), texts


def _points(part: TracePiece, rows: Ints, call: Ints) -> _Points:
    """Find the moments on threads that matter: launches, the begins and ends of calls that wait, where a thread goes on
    after it has waited for another, and its first and last moment."""
    own = part.timeline.intervals
    launches = np.unique(call[call >= 0])
    waiting, waited = _waiting_calls(part, rows, call)
    threads = np.unique(own.track[np.concatenate([launches, waiting])]).astype(np.int64)
    does = part.rows(*_DOES_SOMETHING)
    does = does[np.isin(own.track[does], threads)]
    passed, went_on = _handovers(part, does, threads)
    columns: list[tuple[Ints, Ints]] = [
        (own.track[launches].astype(np.int64), part.start[launches]),
        (own.track[waiting].astype(np.int64), part.start[waiting]),
        (own.track[waiting].astype(np.int64), part.end(waiting)),
        passed, went_on, *_ends(part, does, threads),
    ]  # fmt: skip
    track, time = (np.concatenate(column) for column in zip(*columns, strict=True))
    edges = np.cumsum([0, *(len(column[0]) for column in columns)])
    order = np.lexsort((time, track))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    waits_for, after = np.full((2, len(order)), -1), np.full(len(order), -1)
    waits_for[:, place[edges[2] : edges[3]]] = waited
    after[place[edges[4] : edges[5]]] = place[edges[3] : edges[4]]
    launch = np.full(len(call), -1)
    launch[call >= 0] = place[np.searchsorted(launches, call[call >= 0])]
    return _Points(track[order], time[order], waits_for, after, launch)


def _ends(part: TracePiece, does: Ints, threads: Ints) -> list[tuple[Ints, Ints]]:
    """Return the threads that did something with the first moment of each, and the same with the last."""
    track, (start, end) = part.timeline.intervals.track[does], part.times(does)
    first, last = (
        np.full(len(part.timeline.tracks), np.iinfo(np.int64).max),
        np.full(len(part.timeline.tracks), -1 << 62),
    )
    np.minimum.at(first, track, start)
    np.maximum.at(last, track, end)
    some = threads[last[threads] > -1 << 62]
    return [(some, first[some]), (some, last[some])]


def _waiting_calls(part: TracePiece, rows: Ints, call: Ints) -> tuple[Ints, Ints]:
    """Find the calls that waited for work of a GPU: those that synchronize, and copies and sets that ended within their
    call. Returns the calls' rows, and for each the places in the work (``rows``, launched by ``call``) that it waited for
    [2, n calls]: what ended last, and what ended last on any other stream; -1 for none."""
    own = part.timeline.intervals
    end = part.end(rows)
    within = np.flatnonzero((call >= 0) & np.isin(own.kind[rows], _COPIES))
    within = within[end[within] <= part.end(call[within])]
    copying, last = np.unique(call[within][::-1], return_index=True)
    copies = within[::-1][last]
    waiting = part.named(BLOCKING.search, Kind.RUNTIME, Kind.DRIVER)
    process = processes_of(part.timeline.tracks)
    stream = _streams_waited_for(part, waiting)
    launched = np.where(call >= 0, part.start[call], np.iinfo(np.int64).max)
    of_call, of_work = process[own.track[waiting]], np.where(call >= 0, process[own.track[call]], -1)

    def may_wait_for(at: Ints, work: Ints) -> Flags:
        """Flag the pairs of a call and a piece of work that it may have waited for: work of the same process, on the
        stream that the call waits for, if that is known, which was launched when the call began and ended after that.
        ``at``: places in ``waiting``; ``work``: places in ``rows``, as many."""
        on = own.track[rows[work]]
        return np.asarray(
            (of_work[work] == of_call[at]) & (launched[work] <= part.start[waiting[at]])
            & ((stream[at] < 0) | (on == stream[at])) & (end[work] > part.start[waiting[at]]),
        )  # fmt: skip

    waited = _last_ended(end, part.end(waiting), may_wait_for)
    waiting, stream, of_call, waited = (each[waited >= 0] for each in (waiting, stream, of_call, waited))
    first = own.track[rows[waited]]
    also = _last_ended(
        end, part.end(waiting), lambda at, work: may_wait_for(at, work) & (own.track[rows[work]] != first[at])
    )
    found = [np.concatenate([waited, copies]), np.concatenate([also, np.full(len(copies), -1)])]
    return np.concatenate([waiting, copying]), np.stack(found)


def _streams_waited_for(part: TracePiece, calls: Ints) -> Ints:
    """Find the track of the stream that each of these calls waits for, by the waits that the trace lists beside them.
    Returns [n calls], -1 where it lists none, or one that is for more than a stream."""
    own, tracks = part.timeline.intervals, part.timeline.tracks
    found = np.full(len(calls), -1)
    listed = part.rows(Kind.GPU_SYNC)
    listed = listed[own.link[listed] != NO_LINK]
    listed = listed[part.is_named(listed, re.compile("Stream Sync").search)]
    if not len(listed):
        return found
    places = {
        (one.source, one.pid, one.device, one.stream): at for at, one in enumerate(tracks) if one.kind == "gpu_stream"
    }
    of = [tracks[at] for at in own.track[listed].tolist()]
    track = np.array([places.get((one.source, one.pid, one.device, one.stream), -1) for one in of], np.int64)
    order = np.argsort(own.link[listed], kind="stable")
    at = np.minimum(np.searchsorted(own.link[listed][order], own.link[calls]), len(order) - 1)
    same = own.link[listed][order[at]] == own.link[calls]
    found[same] = track[order[at[same]]]
    return found


def _event_waits(part: TracePiece, rows: Ints, call: Ints) -> Ints:
    """Find for each piece of work the one on another stream of its GPU that it waited for by an event, as a place in the
    work; -1 for none. The work is the first that its thread launched after the call for waiting."""
    own = part.timeline.intervals
    found = np.full(len(rows), -1)
    waits = part.named(_WAIT_EVENT.search, Kind.RUNTIME, Kind.DRIVER)
    linked = np.flatnonzero(call >= 0)
    if not len(waits) or not len(linked):
        return found
    thread = own.track[call[linked]].astype(np.int64)
    order = np.lexsort((part.start[call[linked]], thread))
    linked, thread = linked[order], thread[order]
    begun = part.start[call[linked]]
    zero, bits = part.window[0], (part.window[1] - part.window[0] + 1).bit_length()
    key = (thread << bits) + (begun - zero)
    wanted = (own.track[waits].astype(np.int64) << bits) + (part.start[waits] - zero)
    at = np.searchsorted(key, wanted, "right")
    known = at < len(key)
    at, waits = at[known], waits[known]
    same = thread[at] == own.track[waits]
    at, waits = at[same], waits[same]
    later, first = np.unique(at, return_index=True)
    work, asked = linked[later], part.start[waits[first]]
    end, launched = part.end(rows), np.where(call >= 0, part.start[call], np.iinfo(np.int64).max)
    track, gpu = own.track[rows], part.gpu_of[own.track[rows]]

    def fits(place: Ints, other: Ints) -> Flags:
        mine = work[place]
        return np.asarray((gpu[other] == gpu[mine]) & (track[other] != track[mine]) & (launched[other] <= asked[place]))

    found[work] = _last_ended(end, part.start[rows[work]], fits)
    return found


def _last_ended(end: Ints, by: Ints, fits: Callable[[Ints, Ints], Flags]) -> Ints:
    """Find for each time of ``by`` [n] the work that ended last until then, of that which fits. ``end``: when each piece of
    work ended. ``fits`` takes places in ``by`` and in ``end`` and flags which of these pairs fit. Returns places in
    ``end``, -1 where none of the last _NEAR fits."""
    order = np.argsort(end, kind="stable")
    found = np.full(len(by), -1)
    at = np.searchsorted(end[order], by, "right") - 1
    open_ = np.flatnonzero(at >= 0)
    for _ in range(_NEAR):
        if not len(open_):
            break
        work = order[at[open_]]
        yes = fits(open_, work)
        found[open_[yes]] = work[yes]
        at[open_] -= 1
        open_ = open_[~yes & (at[open_] >= 0)]
    return found


def _handovers(part: TracePiece, does: Ints, threads: Ints) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Find where a thread goes on after it has done nothing while another thread of its process did something and stopped.
    ``does``: rows of what these ``threads`` do. Returns the tracks and times at which the others stopped, and those at which
    the threads went on."""
    process, track = processes_of(part.timeline.tracks), part.timeline.intervals.track[does]
    columns: list[tuple[Ints, Ints, Ints]] = []
    for thread in threads.tolist() if len(threads) > 1 else ():
        times = union(*part.times(does[track == thread])).some
        columns.append((np.full(len(times.start), thread), times.start, times.end))
    none = np.empty(0, np.int64)
    if not columns:
        return (none, none), (none, none)
    own, start, end = (np.concatenate(column) for column in zip(*columns, strict=True))
    stopped: list[tuple[Ints, Ints]] = []
    went_on: list[tuple[Ints, Ints]] = []
    for number in np.unique(process[threads]).tolist():
        mine = np.flatnonzero(process[own] == number)
        by_end = mine[np.argsort(end[mine], kind="stable")]
        at = np.searchsorted(end[by_end], start[mine], "right") - 1
        mine, at = mine[at >= 0], at[at >= 0]
        last = by_end[at]
        following = np.where(last + 1 < len(own), last + 1, last)
        is_idle = (own[following] != own[last]) | (start[following] >= start[mine]) | (following == last)
        is_other = (own[last] != own[mine]) & is_idle
        stopped.append((own[last[is_other]], end[last[is_other]]))
        went_on.append((own[mine[is_other]], start[mine[is_other]]))
    first, second = ([np.concatenate(column) for column in zip(*each, strict=True)] for each in (stopped, went_on))
    return (first[0], first[1]), (second[0], second[1])


def _slices(part: TracePiece, threads: Ints) -> Slices:
    """Find out what is innermost on these threads (tracks) at each time."""
    own = part.timeline.intervals
    wanted = np.zeros(len(part.timeline.tracks), np.bool_)
    wanted[threads] = True
    rows = part.rows(*_ON_THREADS)
    rows = rows[wanted[own.track[rows]] & (part.length[rows] > 0)]
    zero, bits = part.window[0], (part.window[1] - part.window[0] + 1).bit_length()
    start, end = part.times(rows)
    depth, parent = nesting(start, part.length[rows], own.track[rows])
    outer = np.where(parent >= 0, own.name[rows[parent]], -1) if len(rows) else parent
    outer = np.where((parent >= 0) & (end[parent] <= end), -1, outer) if len(rows) else outer
    track = own.track[rows].astype(np.int64) << bits
    begins = np.concatenate(
        [[(each << bits) for each in threads.tolist()], track + (end - zero), track + (start - zero)]
    )
    names = np.concatenate([np.full(len(threads), -1), outer, own.name[rows]])
    level = np.concatenate(
        [np.full(len(threads), -(1 << 20)), -depth - 1, depth]
    )  # of one moment ends first, inner ones before outer ones
    order = np.lexsort((level, begins))
    begins, names = begins[order], names[order]
    last = np.append(begins[1:] != begins[:-1], True) if len(begins) else np.empty(0, np.bool_)
    return Slices(begins[last].astype(np.int64), names[last].astype(np.int32), zero, bits)
