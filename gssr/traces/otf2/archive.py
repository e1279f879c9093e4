"""Archives of Score-P (OTF2) into a Timeline. libotf2 runs in a process of its own (gssr.traces.otf2.events)."""

from collections import Counter as Counts
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Ints
from gssr.traces.interval_columns import order_of
from gssr.traces.otf2.definitions import UNDEFINED_LONG, Definitions, Region
from gssr.traces.otf2.events import Otf2Event
from gssr.traces.otf2.match import Regions, matched, paired, waits
from gssr.traces.otf2.process import Location, Otf2Process
from gssr.traces.otf2.samples import call_paths, frames
from gssr.traces.timeline import (
    COLLECTIVES,
    FILE_OPERATIONS,
    NO_LINK,
    NO_TIME,
    OPERATIONS,
    CallSamples,
    Category,
    Clock,
    Collectives,
    Counter,
    FileUse,
    Intervals,
    Kind,
    Messages,
    Timeline,
    TraceError,
    TraceSource,
)

MOST_EVENTS = 30_000_000
"""Of an archive with more of them a part must be chosen: they take 4 GB."""
MOST_FRAMES = 1 << 21
"""Of samples: a sample may find very many functions, and each takes 130 bytes."""
_TOO_MANY = "more than fit at once ({:,}): choose ranks, as --ranks 0-7, or a time with --from and --to"
_OPEN, _BACKWARDS = -1, -2
_ALWAYS = -(1 << 62), 1 << 62
_BYTES_UNKNOWN = 1 << 62
_AT_ONCE = 1 << 19
"""Events, of many locations that have few, that are gone through together."""


class _Rows(NamedTuple):
    """Events other than entering and leaving, as columns [n], location by location in their order.

    ``place``: index of the location; ``kind``: an Otf2Event; ``at``: ns; ``fields`` int64[n, 6]: the event's fields.
    ``first``: index, among all enters and leaves, of that location's first one; ``before``: how many of all are before
    this event. ``raw``: the rows as they were read, uint64[n, WIDTH].
    """

    place: Ints
    kind: Ints
    at: Ints
    fields: Ints
    first: Ints
    before: Ints
    raw: NDArray[np.uint64]

    def are(self, *events: Otf2Event) -> Ints:
        """Return the indices of these kinds of events."""
        return np.flatnonzero(np.isin(self.kind, events))

    def messages(self, rows: Ints) -> Ints:
        """Return of messages (indices in these rows) the location, the other end's rank, communicator, tag, bytes and
        time, int64[k, 6]."""
        return np.column_stack([self.place[rows], self.fields[rows, :4], self.at[rows]])


def _received(rows: _Rows) -> Ints:
    """Return the receives, as ``_Rows.messages`` does, in the order in which the program called for them: that order
    decides which message each one gets."""
    asked = rows.are(Otf2Event.MPI_IRECV_REQUEST, Otf2Event.MPI_IRECV)
    is_end = rows.kind[asked] == Otf2Event.MPI_IRECV
    request = np.where(is_end, rows.fields[asked, 4], rows.fields[asked, 0])
    begin, end = paired((rows.place[asked], request), is_end)
    mine, called = rows.are(Otf2Event.MPI_RECV, Otf2Event.MPI_IRECV), np.arange(len(rows.kind))
    called[asked[end]] = asked[begin]
    return rows.messages(mine[np.argsort(called[mine], kind="stable")])


def read_otf2(
    path: str, ranks: Sequence[range] | None = None, window: tuple[int | None, int | None] = (None, None)
) -> Timeline:
    """Read an archive of Score-P.

    Args:
        path: its folder or its anchor file.
        ranks: only these are read; None for all.
        window: (begin, end) in ns after the archive's begin; only what reaches into it is kept. None: no limit.

    Times of the timeline count from the archive's begin. Raises TraceError if it cannot be read, has too many events,
    or none of the ranks; ValueError, with a sentence, if nothing is within the window.
    """
    with Otf2Process(path) as archive:
        definitions = Definitions(archive.definitions)
        if not definitions.ids:
            raise TraceError(f"{path}: holds no trace: its definitions name nobody who could have done anything")
        chosen = definitions.chosen(ranks)
        if not chosen:
            raise TraceError(f"{path}: {_no_rank(definitions)}")
        in_part = window != (None, None)
        n_events = sum(definitions.n_events[place] for place in chosen)
        if n_events > MOST_EVENTS and not in_part:
            raise TraceError(f"{path}: holds {n_events:,} events, {_TOO_MANY.format(MOST_EVENTS)}")
        reader = _Reader(path, definitions, window)
        most = _ALWAYS[1] if in_part else MOST_EVENTS
        for location in archive.locations([definitions.ids[place] for place in chosen], most):
            reader.add(location)
        return reader.timeline(archive, chosen)


def _no_rank(definitions: Definitions) -> str:
    """Say in a clause that an archive has none of the ranks asked for, and which it has."""
    ranks = sorted({track.rank for track in definitions.tracks if track.rank is not None})
    n = len({track.pid for track in definitions.tracks})
    there = f"there are {ranks[0]} to {ranks[-1]}" if ranks else f"it tells no ranks: {n} processes, from 0 on, count"
    return f"none of these ranks is in it: {there}"


class _Reader:
    def __init__(self, path: str, definitions: Definitions, window: tuple[int | None, int | None]) -> None:
        self._path = path
        self._own = definitions
        self._window = tuple(every if at is None else at for at, every in zip(window, _ALWAYS, strict=True))
        refs = sorted(definitions.regions)
        self._refs = np.array(refs, np.int64)
        self._names: dict[str, int] = {}
        self._domains: dict[str, str] = {}
        regions = [*(definitions.regions[ref] for ref in refs), _UNKNOWN_REGION]
        self._tables = self._region_tables(regions)
        self._metrics, self._scopes = definitions.metrics(), definitions.scopes()
        self._intervals: list[tuple[NDArray[Any], ...]] = []
        self._sends: list[Ints] = []
        self._receives: list[Ints] = []
        self._collectives: list[Ints] = []
        self._io: list[Ints] = []
        self._paths, self._samples = call_paths(definitions.contexts), list[Ints]()
        self._series: dict[tuple[int, str, str, bool], list[tuple[Ints, NDArray[np.float64]]]] = {}
        self._counts: Counts[str] = Counts()
        self._cut: list[tuple[int, str]] = []
        self._last = -(1 << 62)
        self._n_events = self._n_kept = self._n_frames = 0
        self._with_events: set[int] = set()
        self._waiting: list[tuple[int, Location]] = []
        self._n_waiting = 0
        self._on_gpu = np.array([track.kind == "gpu_stream" for track in definitions.tracks], np.bool_)

    def _region_tables(self, regions: Sequence[Region]) -> NDArray[np.int32]:
        """Return for each region the index of its name, its kind, category and operation, int32[2, 4, regions]: [0] on
        a thread, [1] on a stream of a GPU."""
        table = np.zeros((2, 4, len(regions)), np.int32)
        for at, region in enumerate(regions):
            name = self._name(region.name, region.paradigm)
            table[0, :, at] = name, *region.on_thread, -1
            table[1, :, at] = name, *region.on_gpu, region.operation
        return table

    def _name(self, name: str, paradigm: str) -> int:
        self._domains.setdefault(name, paradigm)
        return self._names.setdefault(name, len(self._names))

    def _inside(self, start: Ints, end: Ints) -> Flags:
        return np.asarray((end >= self._window[0]) & (start < self._window[1]), np.bool_)

    def add(self, location: Location) -> None:
        """Take what one location has recorded. Raises TraceError if there is too much in all."""
        place = self._own.place_of[location.number]
        if location.problem:
            self._cut.append((place, location.problem))
        if location.n_events:
            self._n_events += location.n_events
            self._with_events.add(place)
            self._waiting.append((place, location))
            self._n_waiting += location.n_events
        if self._n_waiting > _AT_ONCE:
            self._work_off()

    def _work_off(self) -> None:
        """Process the locations that are waiting, all at once, and forget them. Raises TraceError if there are too many
        regions in the time that was asked for."""
        if not self._waiting:
            return
        places, locations = zip(*self._waiting, strict=True)
        self._waiting, self._n_waiting = [], 0
        n_codes, n_rows = ([len(each[at]) for each in locations] for at in (1, 3))
        of = np.array(places, np.int32)
        time, code, rows = (np.concatenate([each[at] for each in locations]) for at in (1, 2, 3))
        place = np.repeat(of, n_codes)
        happened = self._own.ns(time)
        regions = Regions(place, happened, code)
        at = self._own.ns(rows[:, 1])
        ends = [happened, at]
        self._last = max([self._last, *(int(each.max()) for each in ends if len(each))])
        self._counts["alone"] += regions.n_alone
        self._counts["other"] += regions.n_other
        self._counts["backwards"] += int(np.count_nonzero(regions.length == _BACKWARDS))
        self._counts["open"] += int(np.count_nonzero(regions.length == _OPEN))
        end = np.where(regions.length == _OPEN, _ALWAYS[1], regions.start + regions.length)
        kept = (regions.length != _BACKWARDS) & self._inside(regions.start, end)
        whose, start, length, region = (
            column[kept] for column in (regions.place, regions.start, regions.length, regions.region)
        )
        self._n_kept += len(start)
        if self._n_kept > MOST_EVENTS // 2:
            many = _TOO_MANY.format(MOST_EVENTS)
            raise TraceError(f"{self._path}: holds {self._n_kept:,} regions in that time, {many}")
        on_gpu = self._on_gpu[whose].astype(np.int64)
        name, kind, category, operation = self._tables[on_gpu, :, self._dense(region)].T
        self._intervals.append((
            start, length, whose, name, kind.astype(np.int8), category.astype(np.int8), np.full(len(start), -1),
            operation.astype(np.int8),
        ))  # fmt: skip
        if len(rows):
            first = np.repeat(np.cumsum([0, *n_codes[:-1]]), n_rows)
            kind, before = rows[:, 0].astype(np.int64), first + rows[:, 2].astype(np.int64)
            fields = np.minimum(rows[:, 3:], np.uint64(_BYTES_UNKNOWN)).astype(np.int64)
            found = _Rows(np.repeat(of, n_rows).astype(np.int64), kind, at, fields, first, before, rows)
            self._add_rows(found, regions)
            if Otf2Event.SAMPLE in kind:
                self._add_samples(found, regions, place, happened)

    def _dense(self, region: Ints) -> Ints:
        """Return the indices of regions, given their numbers in the archive; the index behind the last for regions that
        are not defined."""
        at = np.searchsorted(self._refs, region)
        known = np.append(self._refs, -1)[np.minimum(at, len(self._refs))] == region
        self._counts["undefined"] += int(np.count_nonzero(~known))
        return np.where(known, at, len(self._refs))

    def _add_rows(self, rows: "_Rows", regions: Regions) -> None:
        """Take all events other than entering and leaving."""
        there = set(np.unique(rows.kind).tolist())
        if there & set(_SENDS):
            self._sends.append(rows.messages(rows.are(*_SENDS)))
        if there & {Otf2Event.MPI_RECV, Otf2Event.MPI_IRECV}:
            self._receives.append(_received(rows))
        if there & set(_COLLECTIVE_ENDS):
            self._collectives.append(self._collective(rows))
        if Otf2Event.IO_BEGIN in there:
            self._io.append(self._file_use(rows, regions))
        if there & set(_RMA_BEGINS):
            self._add_copies(rows)
        if Otf2Event.METRIC in there:
            self._add_metrics(rows)
        for event, word in ((Otf2Event.FLUSH, "flushes"), (Otf2Event.ON_OFF, "switches")):
            self._counts[word] += len(rows.are(event))
        flushed = rows.are(Otf2Event.FLUSH)
        self._counts["flush_ns"] += int((self._own.ns(rows.raw[flushed, 3]) - rows.at[flushed]).sum())

    def _collective(self, rows: "_Rows") -> Ints:
        """Pair the begins and ends of collective operations. Returns int64[n, 7], one row for each part that has both:
        location, start and length in ns, kind (an index in COLLECTIVES, or above it), communicator, bytes sent, bytes
        received."""
        own = rows.are(Otf2Event.COLLECTIVE_BEGIN, Otf2Event.LATER_COLLECTIVE_REQUEST, *_COLLECTIVE_ENDS)
        of = rows.kind[own]
        is_end = np.isin(of, _COLLECTIVE_ENDS)
        request = np.where(of == Otf2Event.LATER_COLLECTIVE_END, rows.fields[own, 5], -1)
        request = np.where(of == Otf2Event.LATER_COLLECTIVE_REQUEST, rows.fields[own, 0], request)
        begin, end = paired((rows.place[own], request), is_end)
        self._counts["half"] += int(np.count_nonzero(is_end)) - len(end)
        first, last = own[begin], own[end]
        start = rows.at[first]
        return np.column_stack([rows.place[first], start, rows.at[last] - start, rows.fields[last][:, [0, 1, 3, 4]]])

    def _file_use(self, rows: "_Rows", regions: Regions) -> Ints:
        """Pair the begins and ends of operations on files. Returns int64[n, 7], one row for each that was finished:
        location, start and length in ns, handle, mode, name (-1 if unknown), bytes (-1 if unknown)."""
        own = rows.are(Otf2Event.IO_BEGIN, Otf2Event.IO_COMPLETE)
        is_end = rows.kind[own] == Otf2Event.IO_COMPLETE
        handle, number = rows.fields[own, 0], np.where(is_end, rows.fields[own, 2], rows.fields[own, 4])
        begin, end = paired((rows.place[own], handle, number), is_end)
        self._counts["unfinished"] += int(np.count_nonzero(~is_end)) - len(begin)
        first, last = own[begin], own[end]
        region = regions.open_at(rows.first[first], rows.before[first])
        name = np.full(len(region), -1)
        name[region >= 0] = self._tables[0, 0][self._dense(region[region >= 0])]
        size, start = rows.fields[last, 1], rows.at[first]
        return np.column_stack([
            rows.place[first], start, rows.at[last] - start, handle[begin], rows.fields[first, 1], name,
            np.where(size >= _BYTES_UNKNOWN, -1, size),
        ])  # fmt: skip

    def _add_copies(self, rows: "_Rows") -> None:
        """Add copies between a GPU and its host as intervals on the stream: "get" copies to the GPU, "put" from it, and
        a get from the stream itself copies within the GPU."""
        own = rows.are(*_RMA_BEGINS, Otf2Event.RMA_COMPLETE)
        own = own[self._on_gpu[rows.place[own]]]
        fields = rows.fields[own]
        is_end = rows.kind[own] == Otf2Event.RMA_COMPLETE
        number = np.where(is_end, fields[:, 1], fields[:, 3])
        begin, end = paired((rows.place[own], fields[:, 0], number), is_end)
        first = own[begin]
        place, start, length = rows.place[first], rows.at[first], rows.at[own[end]] - rows.at[first]
        window, remote = rows.fields[first, 0], rows.fields[first, 1]
        other = np.full(len(first), -1)
        for each in np.unique(window).tolist():
            mine = window == each
            other[mine] = self._own.locations_of(self._own.windows.get(each, -1), remote[mine], place[mine])
        which = np.where(rows.kind[first] == Otf2Event.RMA_PUT, 1, np.where(other == place, 2, 0))
        names = np.array([self._name(f"Memcpy {OPERATIONS[each]}", "CUDA") for each in range(3)], np.int32)
        kept = (length >= 0) & self._inside(start, start + length)
        n = int(kept.sum())
        self._intervals.append((
            start[kept], length[kept], place[kept].astype(np.int32), names[which[kept]],
            np.full(n, Kind.MEMCPY, np.int8), np.full(n, Category.COPY, np.int8), rows.fields[first, 2][kept],
            which[kept].astype(np.int8),
        ))  # fmt: skip

    def _add_samples(self, rows: "_Rows", regions: Regions, place: NDArray[np.int32], happened: Ints) -> None:
        """Keep the samples of call paths, and draw each on its thread until the thread's next sample, enter or leave.
        ``place``, ``happened``: location and time of each enter and leave. Raises TraceError if they are too many."""
        own = rows.are(Otf2Event.SAMPLE)
        of, start, path = rows.place[own], rows.at[own], self._paths.find_paths(rows.fields[own, 0])
        region, before = regions.open_at(rows.first[own], rows.before[own]), rows.before[own]
        same, never = np.append(of[1:] == of[:-1], False), _ALWAYS[1]
        next_sample = np.where(same, np.append(start[1:], 0), never)
        next_call = np.where(np.append(place, -1)[before] == of, np.append(happened, never)[before], never)
        end = np.minimum(next_sample, next_call)
        end = np.maximum(np.where(end == never, start, end), start)
        goes_on: Flags = np.append(False, (same & (np.append(before[1:], 0) == before))[:-1])
        known = path >= 0
        self._counts["undefined"] += int(np.count_nonzero(~known))
        goes_on &= np.append(False, known[:-1])
        of, start, end, path, region = (each[known] for each in (of, start, end, path, region))
        inside = self._inside(start, start)
        self._samples.append(np.stack([of, start, path])[:, inside])
        drawn = []
        for level in frames(self._paths, path, goes_on[known], region):
            first, last, _ = level
            drawn.append(level[:, self._inside(start[first], end[last])])
            self._n_frames += drawn[-1].shape[1]
            if self._n_frames > MOST_FRAMES:
                many = _TOO_MANY.format(MOST_FRAMES)
                raise TraceError(f"{self._path}: its samples found functions {self._n_frames:,} times, {many}")
        first, last, path = np.concatenate(drawn[::-1] or [np.empty((3, 0), np.int64)], axis=1)
        name, _, category, _ = self._tables[0][:, self._dense(self._paths.region[path])]
        around = self._tables[0][2, self._dense(np.maximum(region[first], 0))]
        n = len(first)
        self._intervals.append((
            start[first], end[last] - start[first], of[first].astype(np.int32), name, np.full(n, Kind.SAMPLED, np.int8),
            np.where(region[first] >= 0, around, category).astype(np.int8), np.full(n, -1), np.full(n, -1, np.int8),
        ))  # fmt: skip

    def _add_metrics(self, rows: "_Rows") -> None:
        """Add the values of metrics to the series. A metric of a class belongs to the location that recorded it, one of
        an instance to what the instance is about."""
        own = rows.are(Otf2Event.METRIC)
        place, ref, member = rows.place[own], rows.fields[own, 0], np.minimum(rows.fields[own, 1], 255)
        order = np.lexsort((member, ref, place))
        new = [np.append(True, key[order][1:] != key[order][:-1])[: len(order)] for key in (place, ref, member)]
        edges = np.append(np.flatnonzero(np.logical_or.reduce(new)), len(order)).tolist()
        for low, high in pairwise(edges):
            mine = own[order[low:high]]
            whose, (of, at_member) = int(rows.place[mine[0]]), rows.fields[mine[0], :2].tolist()
            known = self._metrics.get(of, ())
            if at_member >= len(known):
                self._counts["undefined"] += len(mine)
                continue
            metric, time = known[at_member], rows.at[mine]
            raw = np.ascontiguousarray(rows.raw[mine, 5])
            value = raw.view(_VALUE_TYPES.get(metric.value_type, "u8")).astype(np.float64) * metric.factor
            track, what = self._scopes.get(of, (whose, ""))
            kept = self._inside(time, time)
            key = track, f"{metric.name} ({what})" if what else metric.name, metric.unit, metric.grows
            self._series.setdefault(key, []).append((time[kept], value[kept]))

    # All of it together

    def timeline(self, archive: Otf2Process, chosen: Sequence[int]) -> Timeline:
        """Make the timeline of all that was added. ``chosen`` are the indices of the locations that were read. Raises
        TraceError if there are no events; ValueError, with a sentence, if none is within the window."""
        self._work_off()
        if not self._n_events:
            why = f": {self._cut[0][1]}" if self._cut else ""
            raise TraceError(f"{self._path}: holds no events, only definitions{why}")
        if not (self._n_kept or self._n_frames) and self._window != _ALWAYS:
            raise ValueError(f"nothing of {self._path} is in that time: it lasts until {self._last / 1e9:.9g} s")
        columns = [np.concatenate(column) for column in zip(*self._intervals, strict=True)]
        start, length = columns[:2]
        length = np.where(length == _OPEN, np.maximum(self._last - start, 0), length)
        order = order_of(start, length)
        messages, io = self._messages(), self._files()
        track = np.full(len(self._own.tracks), -1, np.int32)
        used = {*self._with_events.intersection(chosen), *(each[0] for each in self._series)} - {-1}
        if messages is not None:
            used |= {*messages.source.tolist(), *messages.target.tolist()}
        places = sorted(used)
        track[places] = np.arange(len(places))
        every, read = self._own.tracks, set(chosen)
        tracks = tuple(every[at] if at in read else every[at]._replace(kind="process") for at in places)
        _, _, place, name, kind, category, size, operation = (column[order] for column in columns)
        intervals = Intervals(
            start[order], length[order], track[place], name.astype(np.int32), kind, category,
            np.broadcast_to(np.int64(NO_LINK), len(start)), size, operation,
        )  # fmt: skip
        if messages is not None:
            messages = _move_to_tracks(messages, track)
        if io is not None:
            io = FileUse(track[io.track], *(getattr(io, name) for name in io.__dataclass_fields__ if name != "track"))
        hosts = {one.node for one in tracks}
        own = self._own
        source = TraceSource(
            self._path, "otf2", archive.tool, archive.version, None, hosts.pop() if len(hosts) == 1 else None,
            self._n_events, self._counts["backwards"] + self._counts["alone"], tuple(self._list_notes(archive)),
            is_damaged=bool(self._cut),
        )  # fmt: skip
        clock = Clock() if own.unix_ns is None else Clock(own.unix_ns, "unix")
        return Timeline(
            (source,), clock, tracks, tuple(self._names), intervals, tuple(self._make_counters(track)), None, archive.facts,
            self._domains, messages, io, self._all_samples(track),
        )  # fmt: skip

    def _messages(self) -> Messages | None:
        """Match sends and receives. None if the archive has neither messages nor collective operations."""
        if not (self._sends or self._receives or self._collectives):
            return None
        none = np.zeros((0, 6), np.int64)
        sends, receives = (np.concatenate([none, *parts]) for parts in (self._sends, self._receives))
        receiver = self._others(sends)
        sender = self._others(receives)
        lost = (receiver < 0).sum() + (sender < 0).sum()
        self._counts["nobody"] += int(lost)
        sends, receiver = sends[receiver >= 0], receiver[receiver >= 0]
        receives, sender = receives[sender >= 0], sender[sender >= 0]
        sent, got = matched(
            (sends[:, 2], sends[:, 0], receiver, sends[:, 3]), (receives[:, 2], sender, receives[:, 0], receives[:, 3])
        )

        def either(of_send: Ints, of_receive: Ints) -> Ints:
            mine, other = np.append(of_send, 0), np.append(of_receive, 0)
            return np.where(sent >= 0, mine[sent], other[got])

        t_sent = np.where(sent >= 0, np.append(sends[:, 5], 0)[sent], NO_TIME)
        t_got = np.where(got >= 0, np.append(receives[:, 5], 0)[got], NO_TIME)
        source, target = either(sends[:, 0], sender), either(receiver, receives[:, 0])
        comm, size = (either(sends[:, at], receives[:, at]) for at in (2, 4))
        inside = self._inside(np.where(sent >= 0, t_sent, t_got), np.maximum(t_sent, t_got))
        order = np.flatnonzero(inside)
        order = order[np.argsort(np.where(t_sent == NO_TIME, t_got, t_sent)[order], kind="stable")]
        both = (t_sent != NO_TIME) & (t_got != NO_TIME)
        early = both & (t_got < t_sent)
        self._counts["early"] += int(early.sum())
        self._counts["early_ns"] = int((t_sent - t_got)[early].max(initial=0))
        self._counts["unmatched"] += int((~both).sum())
        collectives, refs = self._all_collectives(comm)
        place = np.searchsorted(refs, comm[order])
        return Messages(
            source[order].astype(np.int32), target[order].astype(np.int32), t_sent[order], t_got[order], size[order],
            place.astype(np.int32), tuple(map(self._own.comm_name, refs.tolist())), collectives,
        )  # fmt: skip

    def _others(self, rows: Ints) -> Ints:
        """Return the index of the location at the other end of each message, -1 if it is not defined. ``rows`` as from
        ``_Rows.messages``."""
        found = np.full(len(rows), -1)
        for comm in np.unique(rows[:, 2]).tolist():
            mine = rows[:, 2] == comm
            found[mine] = self._own.locations_of(comm, rows[mine, 1], rows[mine, 0])
        return found

    def _all_collectives(self, comms: Ints) -> tuple[Collectives, Ints]:
        """Join all parts of collective operations. Returns them, and the numbers of all communicators, ascending, into
        which ``comm`` is an index; ``comms`` are the numbers that messages use."""
        rows = np.concatenate([np.zeros((0, 7), np.int64), *self._collectives])
        place, start, length, kind, comm, sent, received = rows.T
        refs = np.union1d(comms, comm)
        at = np.searchsorted(refs, comm)
        sizes = np.array([self._own.size_of(ref) for ref in refs.tolist()] or [0], np.int64)
        wait, n_other = waits(place.astype(np.int32), start, length, at, kind, sizes[at])
        self._counts["disagree"] += n_other
        kept = np.flatnonzero((length >= 0) & self._inside(start, start + length))
        kept = kept[np.argsort(start[kept], kind="stable")]
        other = len(COLLECTIVES) - 1
        return Collectives(
            place[kept].astype(np.int32), start[kept], length[kept], np.minimum(kind[kept], other).astype(np.int8),
            at[kept].astype(np.int32), _known(sent[kept]), _known(received[kept]), wait[kept],
        ), refs  # fmt: skip

    def _all_samples(self, track: NDArray[np.int32]) -> CallSamples | None:
        """Join all samples. ``track``: the track of each location. None if there are none."""
        if not self._samples:
            return None
        place, time, path = np.concatenate(self._samples, axis=1)
        name = self._tables[0][0, self._dense(self._paths.region)].astype(np.int64)
        return CallSamples(track[place], time, path, self._paths.parent, name)

    def _files(self) -> FileUse | None:
        """Join all operations on files. None if there are none."""
        if not self._io:
            return None
        rows = np.concatenate(self._io)
        rows = rows[(rows[:, 2] >= 0) & self._inside(rows[:, 1], rows[:, 1] + rows[:, 2])]
        place, start, length, handle, mode, name, size = rows[np.argsort(rows[:, 1], kind="stable")].T
        files: dict[str, int] = {}
        layers: dict[str, int] = {}
        handles, at = np.unique(handle, return_inverse=True)
        known = [self._own.handles.get(each, (f"handle {each}", "I/O")) for each in handles.tolist()]
        file = np.array([files.setdefault(each[0], len(files)) for each in known] or [0], np.int32)
        layer = np.array([layers.setdefault(each[1], len(layers)) for each in known] or [0], np.int32)
        operation = np.minimum(mode, len(FILE_OPERATIONS) - 1).astype(np.int8)
        return FileUse(
            place.astype(np.int32), start, length, file[at], operation, name.astype(np.int32), layer[at], size, tuple(files),
            tuple(layers),
        )  # fmt: skip

    def _make_counters(self, track: NDArray[np.int32]) -> Iterator[Counter]:
        """Make the counters, with times ascending; those without values are left out. ``track``: by location its place
        among the timeline's tracks. A counter of no location is on track -1."""
        for (place, name, unit, grows), parts in self._series.items():
            time, value = (np.concatenate(column) for column in zip(*parts, strict=True))
            order = np.argsort(time, kind="stable")
            if len(order):
                at = -1 if place < 0 else int(track[place])
                yield Counter(name, unit, "total" if grows else "gauge", time[order], value[order], at)

    def _list_notes(self, archive: Otf2Process) -> Iterator[str]:
        """List what is to be said about the archive, as sentences: locations that could not be read as they should
        (_MOST_TOLD of them, then how many more), what ``archive`` notes itself, and what was counted while reading."""
        counts = self._counts
        for place, problem in self._cut[:_MOST_TOLD]:
            own = self._own.tracks[place]
            told = "" if own.rank is None or own.kind == "cpu_thread" else f"rank {own.rank} "
            yield f"{told}{own.name}: {problem}"
        if len(self._cut) > _MOST_TOLD:
            yield f"{len(self._cut) - _MOST_TOLD:,} more locations like these"
        yield from archive.notes
        for word, text in _NOTES:
            if counts[word]:
                yield text.format(n=f"{counts[word]:,}", ms=f"{counts[f'{word}_ns'] / 1e6:,.3f} ms")
        if counts["flushes"]:
            yield (
                f"times that Score-P wrote its buffers to disk: {counts['flushes']:,}, which took "
                f"{counts['flush_ns'] / 1e9:.6g} s that are not the program's; see SCOREP_TOTAL_MEMORY"
            )


_MOST_TOLD = 5
_NOTES = (
    ("open", "regions that were open at the end, and last until it: {n}"),
    ("alone", "regions that are left but were not entered, and are left out: {n}"),
    ("other", "regions that end under the name of another, and have the name under which they began: {n}"),
    ("backwards", "regions that end before they begin, as a clock ran backwards, and are left out: {n}"),
    ("undefined", "events that name what is not defined: {n}"),
    ("nobody", "messages that name a rank that is not defined, and are left out: {n}"),
    ("unmatched", "messages of which one end was not read, or never came: {n}"),
    ("early", "messages that arrive before they are sent, so that clocks differ by {ms} or more: {n}"),
    ("half", "collective operations without a beginning, which are left out: {n}"),
    (
        "disagree",
        "parts of collective operations that do not fit together, so that it is not known what they wait: {n}",
    ),
    ("unfinished", "operations on files without an end, which are left out: {n}"),
    ("switches", "times that the program switched recording on or off: {n}"),
)
"""Of what was counted, what is said."""
_SENDS = Otf2Event.MPI_SEND, Otf2Event.MPI_ISEND
_COLLECTIVE_ENDS = Otf2Event.COLLECTIVE_END, Otf2Event.LATER_COLLECTIVE_END
_RMA_BEGINS = Otf2Event.RMA_PUT, Otf2Event.RMA_GET
_VALUE_TYPES: Mapping[int, str] = {4: "u8", 8: "i8", 10: "f8"}
_UNKNOWN_REGION = Region(
    "(not defined)", "unknown", (Kind.OTHER, Category.OTHER), (Kind.OTHER, Category.OTHER), -1
)  # fmt: skip


def _known(size: Ints) -> Ints:
    return np.where((size < 0) | (size >= UNDEFINED_LONG >> 2), 0, size)


def _move_to_tracks(messages: Messages, track: NDArray[np.int32]) -> Messages:
    """Replace the locations that messages and collective operations name by the timeline's tracks. ``track``: by
    location its place among these."""
    own = messages.collectives
    return replace(
        messages, source=track[messages.source], target=track[messages.target],
        collectives=replace(own, track=track[own.track]),
    )  # fmt: skip
