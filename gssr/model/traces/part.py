"""The part of a timeline that is looked at: a window of time, and some tracks or names; or only some of its intervals, as if
it held no others."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Ints
from gssr.model.traces.gpu_names import gpus_of
from gssr.model.traces.only import Only
from gssr.model.traces.segments import in_parts
from gssr.traces.categories import category_as_hta
from gssr.traces.timeline import BUSY, NO_LINK, Kind, Timeline, Track

_CPU = tuple(kind for kind in Kind if kind >= Kind.RUNTIME)
_PROFILER_STEP = re.compile("ProfilerStep")


@dataclass(frozen=True, slots=True)
class TracePiece:
    """The part of a timeline that is looked at. Rows of its intervals are places in the timeline's.

    ``start``, ``length``, ``category`` [n] are those of all of the timeline's intervals, but cut to the window (ns);
    ``chosen`` [n] tells which of them are looked at, None for all. ``n_by_kind`` [n kinds]: how many of each kind the
    timeline has. ``gpus``: the first track of each GPU that did something at any time, ``gpu_of`` [n tracks] the place of
    each track's GPU among them, -1 of a thread. ``worked``: from the first start to the last end of what any of the GPUs
    did, cut to the window; None without GPUs. ``on`` [n tracks]: the tracks that are looked at, None for all."""

    timeline: Timeline
    window: tuple[int, int]
    whole: bool
    like_hta: bool
    start: Ints
    length: Ints
    category: NDArray[np.int8]
    chosen: Flags | None
    gpus: tuple[Track, ...]
    gpu_of: Ints
    n_by_kind: Ints
    worked: tuple[int, int] | None
    on: Flags | None = None

    def rows(self, *kinds: Kind) -> Ints:
        """Find the intervals of these kinds that are looked at. Returns their places, ascending."""
        found = self.all_rows(*kinds)
        return found if self.chosen is None else found[self.chosen[found]]

    def all_rows(self, *kinds: Kind) -> Ints:
        """Find the timeline's intervals of these kinds, whether they are looked at or not. Returns their places,
        ascending."""
        return _rows_of_kinds(self.timeline.intervals.kind, self.n_by_kind, kinds)

    def end(self, rows: Ints) -> Ints:
        """Return the ends of these intervals (ns), cut to the window."""
        end = self.start[rows]
        end += self.length[rows]
        return end

    def times(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the starts and the ends of these intervals (ns), cut to the window."""
        start = self.start[rows]
        return start, start + self.length[rows]

    def extent(self, rows: Ints) -> tuple[int, int]:
        """Return the first start and the last end of these intervals, of which there is at least one."""
        return _extent(self.start, self.length, rows)

    def has(self, time: Ints, *tracks: NDArray[np.int32]) -> Flags:
        """Flag the moments [n] that are in the window, and on a track that is looked at: each on any of its ``tracks``."""
        begin, end = self.window
        chosen = np.full(len(time), True) if self.whole else (time >= begin) & (time < end)
        if self.on is not None:
            chosen &= np.any([self.on[track] for track in tracks], axis=0)
        return chosen

    def is_named(self, rows: Ints, holds: Callable[[str], object]) -> Flags:
        """Flag those of the intervals ``rows`` [n] for whose name ``holds`` returns something true; it is asked once for
        each name."""
        name = self.timeline.intervals.name[rows]
        names = np.flatnonzero(np.bincount(name, minlength=1))
        yes = np.zeros(len(self.timeline.names) + 1, np.bool_)
        yes[[at for at in names.tolist() if holds(self.timeline.names[at])]] = True
        return yes[name]

    def named(self, holds: Callable[[str], object], *kinds: Kind) -> Ints:
        """Find the intervals of these kinds that are looked at and for whose name ``holds`` is true. Returns places,
        ascending."""
        found = [rows[self.is_named(rows, holds)] for rows in map(self.rows, kinds)]
        return np.sort(np.concatenate(found))


def _rows_of_kinds(kind: NDArray[np.int8], n_by_kind: Ints, kinds: Sequence[Kind]) -> Ints:
    """Find the intervals whose ``kind`` [n] is one of ``kinds``, by how many there are of each (``n_by_kind``). Returns
    places, ascending."""
    some = [each for each in kinds if n_by_kind[each]]
    if n_by_kind[some].sum() == len(kind):
        return np.arange(len(kind))
    if len(some) < 2:
        return np.flatnonzero(kind == some[0]) if some else np.empty(0, np.int64)
    return np.flatnonzero(are(kind, some))


def processes_of(tracks: Sequence[Track]) -> Ints:
    """Number the process of each track [n tracks]."""
    numbers: dict[tuple[int, int | None], int] = {}
    return np.array([numbers.setdefault((track.source, track.pid), len(numbers)) for track in tracks], np.int64)


def group_rows(rows: Ints, number: Ints) -> Callable[[Sequence[int]], Ints]:
    """Group ``rows``, ascending, by the number that each has: of its process, its rank, its GPU. Returns a function that
    takes some of the numbers and returns the rows that have one of them, ascending."""
    order = np.argsort(number, kind="stable")
    rows, number = rows[order], number[order]

    def rows_with(numbers: Sequence[int]) -> Ints:
        low, high = (np.searchsorted(number, numbers, side) for side in ("left", "right"))
        parts = [rows[begin:end] for begin, end in zip(low.tolist(), high.tolist(), strict=True)]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    return rows_with


def counted(column: NDArray[np.signedinteger], n: int, rows: Ints | None = None) -> Ints:
    """Count how often each number from 0 up to ``n`` - 1 is in the column, or in its ``rows`` (None: all). Returns [n]."""
    found = np.zeros(n, np.int64)
    for part in in_parts(len(column if rows is None else rows)):
        found += np.bincount(column[part if rows is None else rows[part]], minlength=n)
    return found


def part_of(
    timeline: Timeline,
    window: tuple[int, int] | None = None,
    tracks: Sequence[int] | Ints | None = None,
    names: Sequence[int] | Ints | None = None,
    like_hta: bool = False,
) -> TracePiece:
    """Choose the part of a timeline that is looked at.

    Args:
        timeline: the trace.
        window: begin and end, ns; of an interval that it cuts, the part inside counts. None: all of the time.
        tracks: places in the timeline's tracks. None: all.
        names: places in the timeline's names. None: all.
        like_hta: read the trace as HolisticTraceAnalysis 0.5 does: in whole µs, without the last profiler step and what it
            launched, and with its own classes of kernels.
    """
    own = timeline.intervals
    start, length, category = own.start, own.length, own.category
    chosen: Flags | None = None
    if like_hta:
        start, length = _in_whole_us(timeline)
        chosen, category = _without_last_step(timeline, start), _categories_as_hta(timeline)
        chosen = _on_streams(timeline, chosen)
    on = None if tracks is None else _among(tracks, len(timeline.tracks))
    named = None if names is None else _among(names, len(timeline.names))
    for column, yes in ((own.track, on), (own.name, named)):
        if yes is not None:
            chosen = yes[column] if chosen is None else chosen & yes[column]
    n_by_kind = counted(own.kind, max(Kind) + 1)
    busy = _rows_of_kinds(own.kind, n_by_kind, BUSY)
    busy = busy if chosen is None else busy[chosen[busy]]
    gpus, gpu_of = _gpus(timeline, busy)
    worked = _extent(start, length, _on_gpus(own.track, gpu_of, busy)) if gpus else None
    if window is not None:
        begin, stop = window
        end = start + length
        inside = (start < stop) & ((end > begin) | (start >= begin))
        chosen = inside if chosen is None else chosen & inside
        start = np.clip(start, begin, stop)
        length = np.clip(end, begin, stop) - start
        worked = worked and (min(max(worked[0], begin), stop), min(max(worked[1], begin), stop))
    ends = [int((start[part] + length[part]).max()) for part in in_parts(len(own))]
    if ends:
        extent = int(start[0]), max(ends)
    else:  # only counters
        values = [counter.time for counter in timeline.counters if len(counter.time)]
        extent = min((int(time[0]) for time in values), default=0), max((int(time[-1]) for time in values), default=0)
    return TracePiece(
        timeline, window or extent, window is None, like_hta, start, length, category, chosen, gpus, gpu_of, n_by_kind,
        worked, on,
    )  # fmt: skip


def _on_gpus(track: NDArray[np.int32], gpu_of: Ints, busy: Ints) -> Ints:
    """Leave out of the rows ``busy`` those on tracks of threads; there are hardly ever any."""
    is_used = counted(track, len(gpu_of), busy) > 0
    return busy if (gpu_of[is_used] >= 0).all() else busy[gpu_of[track[busy]] >= 0]


def _extent(start: Ints, length: Ints, rows: Ints) -> tuple[int, int]:
    """Return the first start and the last end of these rows, which ascend by start and are at least one."""
    return int(start[rows[0]]), max(int((start[rows[at]] + length[rows[at]]).max()) for at in in_parts(len(rows)))


def _among(places: Sequence[int] | Ints, n: int) -> Flags:
    """Flag, among ``n`` things, those at these ``places``."""
    yes = np.zeros(n, np.bool_)
    yes[np.asarray(places, np.int64)] = True
    return yes


def are(kind: NDArray[np.int8], kinds: Sequence[Kind]) -> Flags:
    """Flag the intervals whose kind is among ``kinds``. ``kind`` [n]: the kind of each. Returns [n]."""
    yes = np.zeros(max(Kind) + 1, np.bool_)
    yes[list(kinds)] = True
    return yes[kind]


def _gpus(timeline: Timeline, busy: Ints) -> tuple[tuple[Track, ...], Ints]:
    """Find the GPUs that did this work. Returns them by rank, node and number, each as its first track, and the place of
    each track's GPU among them, -1 of a thread."""
    used = counted(timeline.intervals.track, len(timeline.tracks), busy) > 0
    gpus = gpus_of(timeline.tracks)
    there = sorted({gpu for at in np.flatnonzero(used).tolist() if (gpu := gpus[at]) is not None}, key=_order)
    place: dict[Track | None, int] = {gpu: at for at, gpu in enumerate(there)}
    return tuple(there), np.array([place.get(gpu, -1) for gpu in gpus], np.int64)


def _order(gpu: Track) -> tuple[tuple[bool, str], ...]:
    """Return what GPUs are sorted by: file, rank, node and UUID or number, unknown ones last."""
    key = (gpu.source, gpu.rank, gpu.node, gpu.uuid or (gpu.pid, gpu.device))
    return tuple((value is None, str(value).rjust(20)) for value in key)


def _without_last_step(timeline: Timeline, start: Ints) -> Flags | None:
    """Flag the intervals to keep where the last profiler step is left out, as it may be cut short: those of threads that
    begin before it, and the GPU's work that these launched. None if the trace has fewer than two profiler steps."""
    own = timeline.intervals
    steps = [at for at, name in enumerate(timeline.names) if _PROFILER_STEP.search(name)]
    cpu = are(own.kind, _CPU)
    last = np.full(len(timeline.sources) or 1, np.iinfo(np.int64).min)
    rows = np.flatnonzero(cpu & np.isin(own.name, steps))
    if len(np.unique(own.name[rows])) < 2:
        return None
    source = np.array([track.source for track in timeline.tracks], np.int64)
    np.maximum.at(last, source[own.track[rows]], start[rows])
    kept = cpu & (start < last[source[own.track]])
    launched = np.isin(own.link, own.link[kept & (own.link != NO_LINK)])
    return np.asarray(kept | (launched & ~cpu), np.bool_)


def _on_streams(timeline: Timeline, chosen: Flags | None) -> Flags | None:
    """Leave out of ``chosen`` (flags, None: all) a GPU's intervals that are on none of its streams: waits for a whole
    context, requests of MTIA without one. Returns flags [n], None for all."""
    without = np.array(
        [one.kind in ("gpu_stream", "host_wait") and one.stream in (None, -1) for one in timeline.tracks]
    )
    if not without.any():
        return chosen
    on_stream = ~without[timeline.intervals.track]
    return on_stream if chosen is None else chosen & on_stream


def _in_whole_us(timeline: Timeline) -> tuple[Ints, Ints]:
    """Round times to whole µs as HolisticTraceAnalysis does: starts up, ends down, of the times as the file has them. Times
    since 1970 are the numbers of 64 bits that it keeps them in, which are 0.25 µs apart. Returns starts and lengths, ns."""
    own, zero = timeline.intervals, timeline.clock.unix_ns or 0
    if not timeline.clock.error_ns:
        begin = own.start + zero % 1000
        start, end = -(-begin // 1000) * 1000, (begin + own.length) // 1000 * 1000
        return start - zero % 1000, end - start
    whole, rest = np.divmod(own.start + zero, 1000)
    time = whole + rest / 1000
    start = np.ceil(time).astype(np.int64) * 1000
    return start - zero, np.floor(time + own.length / 1000).astype(np.int64) * 1000 - start


def _categories_as_hta(timeline: Timeline) -> NDArray[np.int8]:
    """Return the category of each interval [n] in HolisticTraceAnalysis' own classes of kernels."""
    own = timeline.intervals
    category = own.category.copy()
    on_gpu = np.flatnonzero(are(own.kind, (*BUSY, Kind.GPU_SYNC)))
    by_name = np.zeros(len(timeline.names) + 1, np.int8)
    for at in np.unique(own.name[on_gpu]).tolist():
        by_name[at] = category_as_hta(timeline.names[at])
    category[on_gpu] = by_name[own.name[on_gpu]]
    return category


def fits_name(names: Iterable[str], patterns: tuple[str, ...]) -> Flags:
    """Flag the names [n] that fit one of the patterns, or, where a pattern holds neither ``*`` nor ``?``, contain it; small
    and capital letters are the same."""
    low = [one.lower() if set(one) & set("*?") else f"*{one.lower()}*" for one in patterns]
    return np.array([any(fnmatchcase(name.lower(), one) for one in low) for name in names], np.bool_)


def only(timeline: Timeline, wanted: Only) -> Timeline:
    """Return the timeline as if it held only the intervals that ``wanted`` lets through, the calls that launched these, and
    only the messages of the sizes that it lets through. All of its tracks stay."""
    own, messages = timeline.intervals, timeline.messages
    kept, sent = np.ones(len(own), np.bool_), np.ones(0 if messages is None else len(messages.size), np.bool_)
    for patterns in wanted.names:
        kept &= fits_name(timeline.names, patterns)[own.name]
    for what, below, value in wanted.limits:
        column = own.length if what == "takes" else own.size
        kept &= (column < value if below else column > value) & (column >= 0)
        if what == "size" and messages is not None:
            sent &= messages.size < value if below else messages.size > value
    launch = are(own.kind, (Kind.RUNTIME, Kind.DRIVER)) & (own.link != NO_LINK)
    kept |= launch & np.isin(own.link, own.link[kept & ~launch & (own.link != NO_LINK)])
    if messages is not None and not sent.all():
        columns = ("source", "target", "sent", "received", "size", "comm")
        messages = replace(messages, **{name: getattr(messages, name)[sent] for name in columns})
    at = np.flatnonzero(kept)
    own = replace(own, **{name: getattr(own, name)[at] for name in own.__slots__})
    pageable, start_end = (
        None if places is None else np.searchsorted(at, places[kept[places]])
        for places in (timeline.pageable, timeline.start_end)
    )
    hlo = timeline.hlo and replace(timeline.hlo, op=timeline.hlo.op[at])
    return replace(timeline, intervals=own, pageable=pageable, start_end=start_end, messages=messages, hlo=hlo)
