"""What a trace says: of one file, and of all ranks' files together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.gpu_name import place
from gssr.model.traces import idle as idling
from gssr.model.traces.gpu_names import gpus_of, names_of
from gssr.model.traces.launches import Launched, Links, launches, links_of
from gssr.model.traces.lengths import Key, Lengths, lengths_of, together
from gssr.model.traces.part import Part, part_of
from gssr.model.traces.results import (
    CAUSES,
    LENGTH_TABLES,
    CallTotals,
    Cause,
    CounterSummary,
    Course,
    Gap,
    GpuUse,
    Launches,
    TraceAnalysis,
)
from gssr.model.traces.rules import TABLE, judge_trace
from gssr.model.traces.segments import Segments, common, subsets, union, union_places
from gssr.model.traces.steps import steps, steps_of
from gssr.model.traces.waits import Beside, beside, call_totals, waits_of
from gssr.model.traces.window import WHOLE, Wanted, tracks_of, window_of
from gssr.model.verdicts.table import Table
from gssr.traces.timeline import BUSY, OPERATIONS, Category, Clock, Counter, Kind, Timeline, Track

BINS = 600
"""Columns of a GPU's course."""
_WORK = (Kind.KERNEL, Kind.GRAPH)


def analyze_timeline(
    timeline: Timeline,
    window_ns: tuple[int, int] | None = None,
    tracks: Sequence[int] | Ints | None = None,
    names: Sequence[int] | Ints | None = None,
    like_hta: bool = False,
    rules: Table = TABLE,
) -> TraceAnalysis:
    """Of one file, or of several joined: in a window (begin and end, ns; of an interval that it cuts the part inside
    counts), on some tracks and of some names (places in the timeline's; None for all). ``like_hta``: as
    HolisticTraceAnalysis 0.5 counts (gssr.model.traces.part), to be compared with only."""
    part, gpus = part_of(timeline, window_ns, tracks, names, like_hta), gpus_of(timeline.tracks)
    rows = part.rows(*BUSY, Kind.GPU_SYNC) if like_hta else part.rows(*BUSY)
    links = links_of(timeline, part.by_kind, rows)
    own_steps = steps_of(part)
    meanwhile = beside(part, own_steps)
    uses, all_busy, causes, gaps = [], [], [], []
    for gpu, mine in enumerate(_by_gpu(part, links)):
        busy, first = union_places(part.start[mine.rows], part.end[mine.rows])
        idle = idling.idle_of(part, busy, first, mine)
        uses.append(_use(part, gpu, mine, busy, meanwhile))
        all_busy.append(busy)
        causes.append(idling.by_cause(idling.idle_of_streams(part, mine) if like_hta else idle))
        gaps += idling.longest(part, gpu, idle, mine)
    is_work = part.timeline.intervals.kind[rows] != Kind.GPU_SYNC
    work = Links(rows[is_work], links.call[is_work]) if like_hta else links
    found = TraceAnalysis(
        sources=timeline.sources,
        clock=timeline.clock,
        window=part.window,
        whole=part.whole,
        like_hta=like_hta,
        holds=_holds(part, links, own_steps),
        gpus=tuple(uses),
        lengths=_lengths(part, work),
        calls=call_totals(part, work),
        idle=_added(causes),
        gaps=_longest(gaps),
        launches=launches(part, work),
        steps=steps(part, own_steps, all_busy),
        counters=tuple(each for counter in timeline.counters if (each := _counter(part, counter, gpus)) is not None),
        facts=timeline.facts,
    )
    return judge_trace(_named(found, gpus), rules)


def analyze_timelines(
    timelines: Iterable[Timeline], wanted: Wanted = WHOLE, rules: Table = TABLE
) -> TraceAnalysis:  # fmt: skip
    """What is wanted of the ranks of one run, each taken when it is its turn; times count from the zero of the first. Ranks
    that have nothing of it are left out. Raises ValueError, a sentence, where none has."""
    wrong: list[ValueError] = []
    there: dict[Track, None] = {}

    def parts() -> Iterator[TraceAnalysis]:
        zero: int | None = None
        for number, timeline in enumerate(timelines):
            zero = timeline.clock.unix_ns if number == 0 else zero
            tracks = None if wanted.gpus is None else tracks_of(timeline, wanted.gpus)
            there.update((gpu, None) for gpu in gpus_of(timeline.tracks) if gpu is not None)
            if tracks is not None and not len(tracks):
                continue
            try:
                window = window_of(timeline, wanted, zero)
            except ValueError as error:
                wrong.append(error)
                continue
            yield analyze_timeline(timeline, window, tracks, None, wanted.like_hta, rules)

    found = parts()
    first = next(found, None)
    if first is not None:
        return combined(chain([first], found), rules, there)
    known = ", ".join(map(place, names_of(there).values())) or "no GPUs"
    raise wrong[0] if wrong else ValueError(f"no GPU {', '.join(wanted.gpus or ())}: there are: {known}")


def combined(
    parts: Iterable[TraceAnalysis], rules: Table = TABLE, known: Iterable[Track] = ()
) -> TraceAnalysis:  # fmt: skip
    """All of them as one, each taken when it is its turn: what stays of a file are its GPUs, its longest gaps, its steps and
    counts of lengths (gssr.model.traces.lengths). Times are moved to the zero of the first where both clocks are known.
    ``known``: the run's other GPUs, on which names depend; looked at when all are taken. Raises ValueError without any."""
    each = iter(parts)
    first = next(each, None)
    if first is None:
        raise ValueError("no trace to combine")
    found, lengths = first, {name: _Gathered(first.lengths[name]) for name in LENGTH_TABLES}
    delays = _Gathered(first.launches.delay)
    for part in each:
        later = _moved(part, first.clock)
        for name, gathered in lengths.items():
            gathered.add(later.lengths[name])
        delays.add(later.launches.delay)
        found = replace(
            found,
            sources=found.sources + later.sources,
            window=(min(found.window[0], later.window[0]), max(found.window[1], later.window[1])),
            holds=found.holds | later.holds,
            gpus=found.gpus + later.gpus,
            calls={name: CallTotals(*map(sum, zip(found.calls[name], later.calls[name], strict=True)))
                   for name in found.calls},
            idle=_added([found.idle, later.idle]),
            gaps=_longest([*found.gaps, *later.gaps]),
            launches=_both(found.launches, later.launches),
            steps=found.steps + later.steps,
            counters=found.counters + later.counters,
            facts={**later.facts, **found.facts},
        )  # fmt: skip
    found = replace(
        found,
        lengths={name: gathered.all() for name, gathered in lengths.items()},
        launches=found.launches._replace(delay=delays.all()),
    )
    return judge_trace(_named(found, [*known, *(gpu.track for gpu in found.gpus)]), rules)


def _named(trace: TraceAnalysis, gpus: Iterable[Track | None]) -> TraceAnalysis:
    """With what its GPUs are called when these are all there are."""
    called: dict[Track | None, str] = {gpu: place(name) for gpu, name in names_of(gpus).items()}
    return replace(
        trace,
        gpus=tuple(gpu._replace(place=called[gpu.track]) for gpu in trace.gpus),
        gaps=tuple(gap._replace(place=called[gap.track]) for gap in trace.gaps),
        counters=tuple(each._replace(place=called.get(each.track)) for each in trace.counters),
    )


class _Gathered:
    """Counts that are added up when as many have come as there are, so that none is gone through often."""

    def __init__(self, first: Lengths) -> None:
        self._parts = [first]

    def add(self, part: Lengths) -> None:
        self._parts.append(part)
        if sum(len(part.key) for part in self._parts[1:]) > len(self._parts[0].key):
            self.all()

    def all(self) -> Lengths:
        self._parts = [together(self._parts)]
        return self._parts[0]


def _both(a: Launches, b: Launches) -> Launches:
    return Launches(
        a.n + b.n, a.delay, a.short_kernels + b.short_kernels, a.slow_calls + b.slow_calls, a.long_delays + b.long_delays,
        max(a.queue_max, b.queue_max), a.queue_full + b.queue_full,
    )  # fmt: skip


def _moved(part: TraceAnalysis, clock: Clock) -> TraceAnalysis:
    """With times counted from the zero of ``clock``."""
    if clock.unix_ns is None or part.clock.unix_ns is None or clock.unix_ns == part.clock.unix_ns:
        return part
    by = part.clock.unix_ns - clock.unix_ns
    return replace(
        part,
        window=(part.window[0] + by, part.window[1] + by),
        gpus=tuple(
            gpu._replace(
                begin_ns=gpu.begin_ns + by,
                course=gpu.course._replace(begin=gpu.course.begin + by, end=gpu.course.end + by),
            )
            for gpu in part.gpus
        ),
        gaps=tuple(gap._replace(start_ns=gap.start_ns + by) for gap in part.gaps),
        steps=tuple(step._replace(start_ns=step.start_ns + by) for step in part.steps),
        counters=tuple(counter._replace(at_max_ns=counter.at_max_ns + by) for counter in part.counters),
    )


def _longest(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    return tuple(sorted(gaps, key=lambda gap: (-gap.length_ns, gap.start_ns))[: idling.MOST_GAPS])


def _added(parts: Sequence[Mapping[Cause, tuple[int, int]]]) -> dict[Cause, tuple[int, int]]:
    return {cause: (sum(part[cause][0] for part in parts), sum(part[cause][1] for part in parts)) for cause in CAUSES}


def _by_gpu(part: Part, links: Links) -> list[Links]:
    """The rows of each GPU."""
    if len(part.gpus) == 1:
        return [links]
    gpu = part.gpu_of[part.timeline.intervals.track[links.rows]]
    order = np.argsort(gpu, kind="stable")
    edges = np.searchsorted(gpu[order], np.arange(len(part.gpus) + 1))
    mine = [order[low:high] for low, high in pairwise(edges)]
    return [Links(links.rows[own], links.call[own]) for own in mine]


def _use(part: Part, gpu: int, links: Links, busy: Segments, meanwhile: Beside) -> GpuUse:
    """How one GPU was used. What is on it and of no type, as HolisticTraceAnalysis' syncs, is busy and no more."""
    own = part.timeline.intervals
    start, end, category = part.start[links.rows], part.end[links.rows], part.category[links.rows]
    compute, communication, copy = types = [
        union(start[mine], end[mine]) for mine in (category == kind for kind in _TYPED)
    ]
    under = common(compute, communication).length
    begin, stop = int(busy.start[0]), int(busy.end[-1])
    edges = begin + np.arange(BINS + 1) * (stop - begin) // BINS
    return GpuUse(
        track=part.gpus[gpu],
        place="",
        n_kernels=int(np.isin(own.kind[links.rows], (Kind.KERNEL, Kind.GRAPH)).sum()),
        begin_ns=begin,
        span_ns=stop - begin,
        busy_ns=busy.length,
        compute_ns=compute.length,
        communication_ns=communication.length,
        copy_ns=copy.length,
        types=subsets((compute.some, communication.some, copy.some)),
        overlap=under / communication.length if communication.length else None,
        waits=waits_of(part, gpu, busy.gaps, links, meanwhile),
        course=Course(begin, stop, _shares(busy, edges), tuple(_shares(each, edges) for each in types)),
    )


_TYPED = (Category.COMPUTE, Category.COMMUNICATION, Category.COPY)


def _shares(covered: Segments, edges: Ints) -> Floats:
    """How much of each bin they cover, 0-1."""
    return np.diff(covered.before(edges)) / np.maximum(np.diff(edges), 1)


def _holds(part: Part, links: Links, own_steps: Ints) -> frozenset[str]:
    """See TraceAnalysis."""
    kinds = np.bincount(part.timeline.intervals.kind, minlength=max(Kind) + 1) > 0
    there = {
        "kernels": len(part.gpus),
        "copies": kinds[Kind.MEMCPY] or kinds[Kind.MEMSET],
        "calls": kinds[Kind.RUNTIME] or kinds[Kind.DRIVER],
        "launches": (links.call >= 0).any(),
        "ranges": kinds[Kind.CPU_OP] or kinds[Kind.RANGE] or kinds[Kind.PYTHON],
        "communication": (part.category[links.rows] == Category.COMMUNICATION).any(),
        "steps": len(own_steps) > 1,
        "pageable": part.timeline.pageable is not None,
    }
    return frozenset(name for name, yes in there.items() if yes)


def _lengths(part: Part, links: Links) -> dict[str, Lengths]:
    """The tables of lengths. Of copies by size only those whose size is known."""
    own, names = part.timeline.intervals, part.timeline.names
    length = part.end - part.start
    is_copy = np.isin(own.kind[links.rows], (Kind.MEMCPY, Kind.MEMSET))
    kernels, copies = links.rows if part.like_hta else links.rows[~is_copy], links.rows[is_copy]
    sized = copies[own.size[copies] >= 0]
    n_types = len(Category)

    def work(codes: Sequence[int]) -> list[Key]:
        return [(names[code // n_types], Category(code % n_types).name.lower()) for code in codes]

    def by_rank(codes: Sequence[int]) -> list[Key]:
        n = len(names) * n_types
        places = [part.gpus[code // n] for code in codes]
        named = work([code % n for code in codes])
        return [(gpu, *name) for gpu, name in zip(places, named, strict=True)]

    def named(codes: Sequence[int]) -> list[Key]:
        return [(names[code],) for code in codes]

    def of_domains(codes: Sequence[int]) -> list[Key]:
        return [(names[code], part.timeline.domains.get(names[code])) for code in codes]

    def operations(codes: Sequence[int]) -> list[Key]:
        return [(OPERATIONS[code],) for code in codes]

    code = own.name[kernels].astype(np.int64) * n_types + part.category[kernels]
    gpu = part.gpu_of[own.track[kernels]]
    found = {
        "kernels": lengths_of(code, length[kernels], work),
        "copies": lengths_of(own.operation[copies].astype(np.int64), length[copies], operations,
                             {"bytes": np.maximum(own.size[copies], 0)}),
        "copy_sizes": lengths_of(own.operation[sized].astype(np.int64), own.size[sized], operations),
    }  # fmt: skip
    if len(part.gpus) == 1:
        one, of = part.gpus[0], found["kernels"]
        keys = tuple((one, *key) for key in of.keys)
        found["kernels_by_rank"] = replace(of, keys=keys)
    else:
        found["kernels_by_rank"] = lengths_of(gpu * (len(names) * n_types) + code, length[kernels], by_rank)
    launched = cache(lambda: Launched(part, links))
    for table, kind, as_keys in (("ranges", Kind.RANGE, of_domains), ("operators", Kind.CPU_OP, named)):
        rows = part.rows(kind)
        within = {"gpu_ns": launched().within(rows) if len(rows) else rows}
        found[table] = lengths_of(own.name[rows].astype(np.int64), length[rows], as_keys, within)
    for table, kinds in (("api", (Kind.RUNTIME, Kind.DRIVER)), ("os", (Kind.OS,))):
        rows = part.rows(*kinds)
        found[table] = lengths_of(own.name[rows].astype(np.int64), length[rows], named)
    return found


def _counter(part: Part, counter: Counter, gpus: Sequence[Track | None]) -> CounterSummary | None:
    """What a series held in the window; None where it had no value there."""
    inside = slice(None) if part.whole else slice(*np.searchsorted(counter.time, part.window))
    time, value = counter.time[inside], counter.value[inside]
    if not np.isfinite(value).any():
        return None
    weights = np.diff(time, append=time[-1])
    weighted = counter.mode == "gauge" and weights.sum() > 0
    track = gpus[counter.track] or part.timeline.tracks[counter.track] if counter.track >= 0 else None
    known = np.isfinite(value)
    return CounterSummary(
        counter.name, counter.unit, track, None, int(known.sum()),
        float(np.average(value[known], weights=weights[known] if weighted and weights[known].sum() else None)),
        float(np.nanmin(value)), float(np.nanmax(value)), float(value[known][-1]), int(time[np.nanargmax(value)]),
    )  # fmt: skip
