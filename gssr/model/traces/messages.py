"""Who sends to whom, and who waits for whom in collective operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.model.traces.part import TracePiece
from gssr.traces.timeline import COLLECTIVES, NO_TIME, Category, Intervals, Timeline, Track


@dataclass(frozen=True, slots=True)
class Exchange:
    """Messages by pair [n]: from ``ends[source]`` to ``ends[target]``, processes by the first of their tracks, the rank's
    order. ``count``, ``size`` (bytes); ``time``: from sending to receiving, ns together, of those ``timed`` whose both ends
    were read, ``timed_size`` the bytes of these. A message that came before it was sent took no time. ``late``: how long
    the receiving call had waited when the sending call began, ns together, of those ``called`` whose calls are both known
    (Scalasca's "late sender"); a call that receives several waits for each."""

    ends: tuple[Track, ...]
    source: Ints
    target: Ints
    count: Ints
    size: Ints
    time: Ints
    timed: Ints
    timed_size: Ints
    late: Ints
    called: Ints

    def rate(self) -> Floats:
        """Divide the bytes of each pair [n] by the time that its messages were under way. NaN where that is 0 or unknown."""
        return _rate(self.timed_size, self.time)


class CollectiveUse(NamedTuple):
    """All collective operations of one kind on one communicator, all ranks' parts together. ``wait_ns`` is of ``n_known``
    parts (gssr.traces.timeline.Collectives), None of none."""

    kind: str
    comm: str
    n: int
    total_ns: int
    wait_ns: int | None
    max_wait_ns: int | None
    n_known: int
    sent: int
    received: int


def exchange_of(part: TracePiece) -> Exchange | None:
    """Add up, by sending and receiving process, the messages that were sent in the window from or to a track that is looked
    at. A message whose sending was not read counts when it was received. Returns None where the trace tells of no
    messages."""
    messages = part.timeline.messages
    if messages is None:
        return None
    first_known = np.where(messages.sent == NO_TIME, messages.received, messages.sent)
    rows = np.flatnonzero(part.has(first_known, messages.source, messages.target))
    tracks = part.timeline.tracks
    used = np.array([part.on is None and track.kind in ("cpu_thread", "process") for track in tracks] or [False])
    used[messages.source[rows]] = used[messages.target[rows]] = True
    ends, end_of = _ends(tracks, used)
    pair = end_of[messages.source[rows]] * max(len(ends), 1) + end_of[messages.target[rows]]
    pairs, at = np.unique(pair, return_inverse=True)
    sent, received, size = messages.sent[rows], messages.received[rows], messages.size[rows]
    timed = (sent != NO_TIME) & (received != NO_TIME)
    time = np.where(timed, np.maximum(received - sent, 0), 0)
    own = part.timeline.intervals
    sending = call_at(own, messages.source[rows], sent)
    receiving = call_at(own, messages.target[rows], received)
    called = (sending >= 0) & (receiving >= 0)
    late = np.zeros(len(rows), np.int64)
    begun = own.start[receiving[called]]
    late[called] = np.clip(own.start[sending[called]] - begun, 0, received[called] - begun)

    def added(values: Ints | Flags) -> Ints:
        return np.bincount(at, values, len(pairs)).astype(np.int64)

    return Exchange(
        ends, *np.divmod(pairs, max(len(ends), 1)), np.bincount(at, minlength=len(pairs)), added(size), added(time),
        added(timed), added(np.where(timed, size, 0)), added(late), added(called),
    )  # fmt: skip


def call_at(own: Intervals, track: NDArray[np.int32], time: Ints) -> Ints:
    """Find the communicating call that was open on each ``track`` [n] at each ``time`` [n] (ns): the last one that had
    begun. Returns the places of these intervals [n], -1 where that call had ended or there was none."""
    used = np.zeros(max(int(own.track.max(initial=0)), int(track.max(initial=0))) + 1, np.bool_)
    used[track] = True
    calls = np.flatnonzero((own.category == Category.COMMUNICATION) & used[own.track])
    n, found = len(calls), np.full(len(track), -1, np.int64)
    order = np.lexsort((np.append(own.start[calls], time), np.append(own.track[calls], track)))  # of equals calls first
    last = np.maximum.accumulate(np.where(order < n, np.arange(len(order)), -1))
    asked = (order >= n) & (last >= 0)
    place, row = calls[order[last[asked]]], order[asked] - n
    within = (own.track[place] == track[row]) & (own.start[place] + own.length[place] >= time[row])
    found[row[within]] = place[within]
    return found


def other_end(timeline: Timeline, place: int) -> int:
    """Find the call at the other end of a message of the call at ``place``: the one that received its first message, or sent
    the first one that it received. Returns the place of that interval, -1 without one."""
    own, messages = timeline.intervals, timeline.messages
    if messages is None:
        return -1
    track, begin, end = own.track[place], own.start[place], own.start[place] + own.length[place]
    sending = messages.source, messages.sent
    receiving = messages.target, messages.received
    for (mine, time), (other, then) in ((sending, receiving), (receiving, sending)):
        rows = np.flatnonzero((mine == track) & (time >= begin) & (time <= end) & (then != NO_TIME))[:1]
        if len(rows) and call_at(own, mine[rows], time[rows])[0] == place:
            return int(call_at(own, other[rows], then[rows])[0])
    return -1


def _ends(tracks: Sequence[Track], used: Flags) -> tuple[tuple[Track, ...], Ints]:
    """Find the processes that the ``used`` tracks belong to. Returns these by rank, each as its first track, and the place
    of each track's process among them (-1: of none)."""
    first: dict[object, tuple[int, Track]] = {}
    key_of = []
    for at, track in enumerate(tracks):
        key = (track.source, track.rank) if track.rank is not None else (track.source, None, at)
        key_of.append(key)
        if used[at]:
            first.setdefault(key, (at, track))
    keys = sorted(first, key=lambda key: (first[key][1].rank is None, first[key][1].rank or 0, first[key][0]))
    place = {key: at for at, key in enumerate(keys)}
    return tuple(first[key][1] for key in keys), np.array([place.get(key, -1) for key in key_of] or [0], np.int64)


def both(a: Exchange | None, b: Exchange | None) -> Exchange | None:
    """Join the messages of two archives: the processes of ``a``, then those of ``b``. None counts as nothing; None if both
    are."""
    if a is None or b is None:
        return a or b
    moved = b.source + len(a.ends), b.target + len(a.ends)
    columns = [*moved, b.count, b.size, b.time, b.timed, b.timed_size, b.late, b.called]
    own = [a.source, a.target, a.count, a.size, a.time, a.timed, a.timed_size, a.late, a.called]
    return Exchange(a.ends + b.ends, *(np.append(*pair) for pair in zip(own, columns, strict=True)))


class Matrix(NamedTuple):
    """What is sent by lines of senders [n] and columns of receivers [n], each a process, a node or some neighbours:
    ``labels`` [n]; ``n``, ``size``, ``time``, ``timed_size`` [n, n] as in Exchange."""

    labels: tuple[str, ...]
    n: Ints
    size: Ints
    time: Ints
    timed_size: Ints

    def rate(self) -> Floats:
        """Divide bytes by time [n, n]. NaN where it is unknown."""
        return _rate(self.timed_size, self.time)


def matrix_of(exchange: Exchange, by_node: bool = False, at_most: int = 1 << 30) -> Matrix:
    """Put the messages into a matrix of senders (lines) and receivers (columns), by process or, with ``by_node``, by node.
    Where there would be more than ``at_most`` lines, neighbours share one."""
    ends = exchange.ends
    names = [track.node or "unknown" for track in ends] if by_node else [_label(track) for track in ends]
    if by_node:
        places = {name: at for at, name in enumerate(dict.fromkeys(names))}
        line = np.array([places[name] for name in names], np.int64)
        names = list(places)
    else:
        line = np.arange(len(ends))
    fold = -(-len(names) // max(at_most, 1)) if names else 1
    n = -(-len(names) // max(fold, 1))
    own = [names[at * fold : (at + 1) * fold] for at in range(n)]
    labels = tuple(some[0] if len(some) == 1 else f"{some[0]}-{some[-1]}" for some in own)
    cell = line[exchange.source] // fold * n + line[exchange.target] // fold if n else exchange.source

    def added(values: Ints) -> Ints:
        return np.bincount(cell, values, n * n).astype(np.int64).reshape(n, n)

    return Matrix(labels, *map(added, (exchange.count, exchange.size, exchange.time, exchange.timed_size)))


def _label(track: Track) -> str:
    return track.name if track.rank is None else str(track.rank)


def _rate(size: Ints, time: Ints) -> Floats:
    rate: Floats = np.divide(size * 1e9, time, out=np.full(size.shape, np.nan), where=time > 0)
    return rate


def collectives_of(part: TracePiece) -> tuple[CollectiveUse, ...]:
    """Add up the collective operations that begin in the window on what is looked at, by kind and communicator. Those that
    took longest in all come first; () where the trace has none."""
    messages = part.timeline.messages
    if messages is None or not len(messages.collectives.start):
        return ()
    own = messages.collectives
    rows = np.flatnonzero(part.has(own.start, own.track))
    code = own.kind[rows].astype(np.int64) * (len(messages.comms) or 1) + own.comm[rows]
    codes, at = np.unique(code, return_inverse=True)
    wait = own.wait[rows]
    known, n = wait >= 0, len(codes)
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, at, wait)
    columns = [
        np.bincount(at, values, n).astype(np.int64).tolist()
        for values in (own.length[rows], np.where(known, wait, 0), known, own.sent[rows], own.received[rows])
    ]
    counts = np.bincount(at, minlength=n).tolist()
    found = [
        CollectiveUse(COLLECTIVES[code // len(messages.comms)], messages.comms[code % len(messages.comms)], count, total,
                      waited if n_known else None, most if n_known else None, n_known, sent, received)
        for code, count, total, waited, n_known, sent, received, most in zip(
            codes.tolist(), counts, *columns, longest.tolist(), strict=True)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda use: -use.total_ns))


def all_collectives(a: Sequence[CollectiveUse], b: Sequence[CollectiveUse]) -> tuple[CollectiveUse, ...]:
    """Join the collective operations of two archives, whose communicators are never the same: those that took longest
    first."""
    return tuple(sorted((*a, *b), key=lambda use: -use.total_ns))
