"""What a trace says: of one file, and of all ranks' files together, which is a map over them (gssr/workers.py)."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.gpu_name import gpu_label
from gssr.model.custom_metrics import Custom, custom
from gssr.model.traces import idle as idling
from gssr.model.traces.booking import book_gpu, host_calls, windows_of_files
from gssr.model.traces.call_tree import TIME, tree_of
from gssr.model.traces.call_tree import together as one_tree
from gssr.model.traces.critical_path import MOST_NODES
from gssr.model.traces.dependencies import dependencies_of
from gssr.model.traces.dependency_graph import Dependencies
from gssr.model.traces.derived_counters import derived_counters
from gssr.model.traces.flops import both_flops, by_operator, by_step, flops_by_call
from gssr.model.traces.gpu_names import gpus_of, names_of
from gssr.model.traces.io import all_calls, file_calls
from gssr.model.traces.kernel_sequences import both_sequences, kernel_sequences
from gssr.model.traces.launches import NONE_LINKED, Links, launches, links_of, no_calls, time_launched_within
from gssr.model.traces.lengths import (
    KINDS,
    NO_LENGTHS,
    NO_STATISTICS,
    Key,
    Lengths,
    LengthStatistics,
    lengths_of,
    lengths_of_rows,
    one_table,
    statistics,
    together,
    without_running_numbers,
)  # fmt: skip
from gssr.model.traces.levels import levels_of
from gssr.model.traces.messages import all_collectives, both, collectives_of, exchange_of
from gssr.model.traces.operator_counters import both_counters, operator_counters
from gssr.model.traces.part import TracePiece, are, group_rows, part_of
from gssr.model.traces.pipelines import transfers_of
from gssr.model.traces.point_to_point import point_to_point
from gssr.model.traces.sampled_functions import both_sampled, sampled_functions
from gssr.model.traces.segments import common, covered_by, in_parts, subsets, union
from gssr.model.traces.trace_results import (
    BINS,
    CAUSES,
    TYPES,
    CallTotals,
    Cause,
    CounterSummary,
    Gap,
    GpuUse,
    LateHost,
    Launches,
    OwnMetric,
    TraceAnalysis,
    Waits,
)
from gssr.model.traces.trace_rules import TABLE, judge_trace
from gssr.model.traces.trace_selection import WHOLE, TraceSelection, tracks_of, window_of
from gssr.model.traces.trace_steps import steps, steps_of
from gssr.model.traces.waits import CoveredTimes, add_waits, call_totals, no_waits
from gssr.model.verdicts.table import RuleTable
from gssr.traces.event_columns import SHAPED
from gssr.traces.join import booted_apart
from gssr.traces.open import TraceError, TraceSet
from gssr.traces.timeline import (
    BUSY,
    OPERATIONS,
    Category,
    Clock,
    Counter,
    HloOps,
    Kind,
    Timeline,
    TraceSource,
    Track,
)
from gssr.workers import HERE, Workers, available_memory

FEWER_BINS, MANY_GPUS = 60, 1000
"""Columns over time of each of more than MANY_GPUS, where BINS would take 20 KB a GPU."""
MOST_STEP_TIMES = 1 << 23
"""Steps times GPUs: of more it is not worked out how busy the GPUs were in each step, which would take a minute."""
PATH_IF_SMALL = "critical_path of a small file"
"""What a page asks for among the tables."""
MOST_FOR_PATH = 250_000
"""Intervals of a file beyond which its critical path is looked for only where that is asked for: of a million it takes 3 s,
as long as all the rest of a page."""
_OF_TORCH = re.compile(r"^aten::|\bat::native::")
"""Names of operators and kernels of PyTorch, whichever tool has traced them."""
_CAPTURES = re.compile(r"StreamBeginCapture|StreamEndCapture|GraphInstantiate")
_BY_GPU = ("ranks", "kernel_types", "idle", "gaps", "steps")
"""The tables that are made GPU by GPU."""
_ADD_UP = frozenset({"kernels", "copies", "copy_sizes", "api", "os"})
"""The tables for which only the lengths of single intervals count."""
_WITHOUT_CALLS = _ADD_UP | {"kernels_by_rank"}
"""The tables for which it does not matter what launched the GPUs' work."""
_OF_TREE = ("calltree", "calltree_metrics", "functions", "paradigms_by_rank")
"""Those of the call tree."""


def analyze_timeline(
    timeline: Timeline,
    window_ns: tuple[int, int] | None = None,
    tracks: Sequence[int] | Ints | None = None,
    names: Sequence[int] | Ints | None = None,
    like_hta: bool = False,
    rules: RuleTable = TABLE,
    tables: Collection[str] | None = None,
    own: Sequence[Custom] = (),
) -> TraceAnalysis:
    """Analyze one trace file, or several joined into one timeline. Raises ValueError, a sentence, for a pattern of a custom
    metric that takes too long.

    Args:
        timeline: the intervals, tracks and counters of the trace.
        window_ns: begin and end of the time to look at, ns; of an interval that it cuts, the part inside counts. None: all.
        tracks: places in the timeline's tracks to look at. None: all.
        names: places in the timeline's names to look at. None: all.
        like_hta: count as HolisticTraceAnalysis 0.5 does (gssr.model.traces.part), for comparisons with it only.
        rules: the rules that judge the trace.
        tables: names of the tables (gssr.model.traces.tables) that are asked for. None: all. What none of them needs is left
            empty. With "verdicts" come all but those of the call tree, and these where no GPU did anything.
        own: custom metrics.
    """
    judged = tables is None or "verdicts" in tables
    part, there = part_of(timeline, window_ns, tracks, names, like_hta), gpus_of(timeline.tracks)
    rows = part.rows(*BUSY, Kind.GPU_SYNC) if like_hta else part.rows(*BUSY)
    links = (
        Links(rows, no_calls(rows))
        if tables is not None and _WITHOUT_CALLS.issuperset(tables)
        else links_of(part, rows)
    )
    own_steps = steps_of(part)
    covered, work_of = CoveredTimes(part, own_steps), _work_by_gpu(part, links)
    of_two = None if like_hta else point_to_point(part, links)
    timed = own_steps if len(own_steps) * len(part.gpus) <= MOST_STEP_TIMES else own_steps[:0]
    asked = range(len(part.gpus)) if _asks(tables, *_BY_GPU) else ()
    calls, windows = None if like_hta else host_calls(part), windows_of_files(part)
    gpus = [_of_gpu(part, gpu, work_of(gpu), covered, timed, of_two) for gpu in asked]
    books = [
        None
        if calls is None
        else book_gpu(part, work_of(gpu), calls, windows[source], timeline.sources[source].is_damaged)
        for gpu in asked
        for source in [part.gpus[gpu].source]
    ]
    work = links
    if like_hta:
        is_work = timeline.intervals.kind[rows] != Kind.GPU_SYNC
        work = Links(rows[is_work], links.call[is_work])
    lengths, by_rank = _lengths(part, work, tables)
    flops = flops_by_call(part, links)
    counters = (*timeline.counters, *(derived_counters(part, links) if tables is None or "counters" in tables else ()))
    tree = tree_of(part, own_steps) if _asks(tables, *_OF_TREE) or (judged and not part.gpus) else None
    found = TraceAnalysis(
        sources=timeline.sources,
        clock=timeline.clock,
        window=part.window,
        whole=part.whole,
        like_hta=like_hta,
        axis_ns=int(timeline.intervals.start[0]) if timeline.clock.unix_ns == 0 and len(timeline.intervals) else 0,
        holds=_holds(part, links, own_steps) | ({"tree"} if tree and tree.has(TIME) and not part.gpus else frozenset()),
        gpus=tuple(gpu.use._replace(book=book) for gpu, book in zip(gpus, books, strict=True)),
        lengths=lengths,
        kernels_by_rank=by_rank,
        calls=call_totals(part, work) if judged else {},
        idle=_added([gpu.causes for gpu in gpus]),
        gaps=_longest(_described(part, [gpu.longest for gpu in gpus], work_of)),
        launches=launches(part, work if _asks(tables, "launches") else NONE_LINKED),
        steps=steps(
            part, own_steps, [gpu.in_steps for gpu in gpus] if len(timed) else [], by_step(part, flops, own_steps)
        )
        if _asks(tables, "steps")
        else (),
        flops=by_operator(part, flops),
        transfers=transfers_of(part),
        sequences=kernel_sequences(part, links) if tables is None or "kernel_sequences" in tables else (),
        operator_counters=operator_counters(part) if tables is None or "operator_counters" in tables else (),
        sampled_functions=sampled_functions(part) if _asks(tables, "sampled_functions") else (),
        counters=tuple(each for counter in counters if (each := _counter(part, counter, there)) is not None),
        facts=timeline.facts,
        metrics=_own_metrics(timeline, part, tracks, own) if own and _asks(tables, "metrics") else (),
        exchange=exchange_of(part) if _asks(tables, "messages") else None,
        collectives=collectives_of(part) if _asks(tables, "collectives") else (),
        io=file_calls(part) if _asks(tables, "io") else None,
        tree=tree,
        extent=part.worked,
        dependencies=_dependencies(part, links, tables),
        holders=tuple(each for each in timeline.holders if tracks is None or each.track in tracks),
        selected=tracks is not None,
    )
    found = _with_outside(_named(found, there))
    return judge_trace(found, rules) if judged else found


def _asks(tables: Collection[str] | None, *names: str) -> bool:
    """Tell whether any table of these ``names`` is needed; ``tables`` is None for all. "verdicts" needs all but those
    of the call tree."""
    if tables is None or any(name in tables for name in names):
        return True
    return "verdicts" in tables and names != _OF_TREE


def _dependencies(part: TracePiece, links: Links, tables: Collection[str] | None) -> tuple[Dependencies, ...]:
    """Make the graph for the critical path, where the table is asked for, or all or PATH_IF_SMALL of a file that is
    small."""
    small = len(part.timeline.intervals) <= MOST_FOR_PATH and (tables is None or PATH_IF_SMALL in tables)
    asked = small or (tables is not None and "critical_path" in tables)
    return (dependencies_of(part, links),) if asked and part.gpus and not part.like_hta else ()


def analyze_timelines(
    timelines: Iterable[Timeline], wanted: TraceSelection = WHOLE, rules: RuleTable = TABLE,
    tables: Collection[str] | None = None
) -> TraceAnalysis:  # fmt: skip
    """Analyze the ranks of one run together, each timeline when it is its turn. Times count from the zero of the first
    timeline.

    Args:
        timelines: Those of the run's files.
        wanted: The part of the time, the GPUs and the intervals that are looked at. Timelines that have nothing of it
            are left out.
        rules: The rules by which verdicts are made.
        tables: Names of the tables that are needed; None: all. What only others need is left empty.

    Raises ValueError, a sentence, where no timeline has anything of what is wanted.
    """
    asked = _AnalysisRequest(wanted, rules, None if tables is None else tuple(tables))
    return _together(_looked_at(timelines, asked), asked)


def analyze_files(
    run: TraceSet, wanted: TraceSelection = WHOLE, rules: RuleTable = TABLE, tables: Collection[str] | None = None,
    workers: Workers = HERE,
) -> TraceAnalysis:  # fmt: skip
    """Analyze the files of one run together, as ``analyze_timelines`` does with timelines, whose further arguments are
    the same. ``workers`` read the files. Files that can't be read are left out, and added to the run's ``problems``;
    raises TraceError if none can be read, and ValueError as ``analyze_timelines``."""
    asked = _AnalysisRequest(wanted, rules, None if tables is None else tuple(tables))
    return _together(_read_by(workers if len(run.sources) > 1 else HERE, run, asked), asked)


def analyze_ranks(
    timelines: Iterable[Timeline],
    wanted: TraceSelection = WHOLE,
    rules: RuleTable = TABLE,
    tables: Collection[str] | None = None,
) -> Iterator[tuple[int | None, TraceAnalysis]]:
    """Analyze each rank of a run alone, in the order of the files. Yields the rank (None where the file does not tell it)
    and its analysis, whose times count from the zero of the rank's file. Raises ValueError, a sentence, where no rank has
    anything of what is ``wanted``."""
    asked = _AnalysisRequest(wanted, rules, None if tables is None else tuple(tables), by_rank=True)
    return _parts(_looked_at(timelines, asked), asked, {})


class _AnalysisRequest(NamedTuple):
    """The arguments of ``analyze_timelines``, and whether each rank is analyzed alone."""

    wanted: TraceSelection
    rules: RuleTable
    tables: tuple[str, ...] | None
    by_rank: bool = False

    @property
    def adds_up(self) -> bool:
        """Whether only tables in _ADD_UP are asked for, of all of the traces."""
        return bool(self.tables and _ADD_UP.issuperset(self.tables) and not any(self.wanted))


class _FilePart(NamedTuple):
    """The analysis of one file: ``parts``, the ranks with their analyses ([] if nothing of it is wanted), its ``gpus`` and
    its ``clock``.

    ``wrong``: a sentence on why nothing of it is in the window, "" for no such reason; ``unread``: a sentence on why it
    can't be read, "" where it can.
    """

    parts: list[tuple[int | None, TraceAnalysis]]
    gpus: tuple[Track, ...] = ()
    clock: Clock = Clock()
    wrong: str = ""
    unread: str = ""


def _together(files: Iterable[_FilePart], asked: _AnalysisRequest) -> TraceAnalysis:
    """Combine the analyses of the files of one run into one of them all. ``asked``: tables, metrics and selection that
    are wanted. Raises ValueError, a sentence, where no file has anything of these."""
    there: dict[Track, None] = {}
    parts = (part for _, part in _parts(files, asked, there))
    found = combined(parts, asked.rules if _asks(asked.tables, "verdicts") else None, there)
    known = {each.expression for each in found.metrics}
    own = map(custom, asked.wanted.metrics)
    without = [OwnMetric(each.name, each.text, each.unit) for each in own if each.text not in known]
    return replace(found, metrics=(*found.metrics, *without)) if without else found


def _looked_at(timelines: Iterable[Timeline], asked: _AnalysisRequest) -> Iterator[_FilePart]:
    """Analyze what is asked for of each timeline, when it is its turn; wanted times count from the zero of the first."""
    first: Clock | None = None
    for timeline in timelines:
        first = first or timeline.clock
        part = _part_of_file(timeline, first.unix_ns, asked)
        del timeline  # before the next is read
        yield part


_PAYS_BYTES = 32 << 20
"""Bytes of traces from which on another process pays: reading so much JSON takes 0.2 s."""
_UNPACKED, _IN_MEMORY = 16, 2
"""A packed file is taken to be this many times as long unpacked, and what is read of a file to need so many times as much
memory: of 74 MB of JSON it was less than once (benchmarks/traces.py)."""


def _n_workers(run: TraceSet) -> int:
    """Return with how many processes it pays to read a run's files, each of which holds a file in memory."""
    sizes = [_bytes_of(source.path) for source in run.sources]
    return max(min(len(sizes), sum(sizes) // _PAYS_BYTES, available_memory() // max(_IN_MEMORY * max(sizes), 1)), 1)


def _bytes_of(path: str) -> int:
    """Return how long a file is unpacked, about; 0 where it is not there."""
    try:
        return os.stat(path).st_size * (_UNPACKED if path.endswith(".gz") else 1)
    except OSError:
        return 0


def _read_by(workers: Workers, run: TraceSet, asked: _AnalysisRequest) -> Iterator[_FilePart]:
    """Have the files of a run read by workers, and yield what each says that can be read. Where times are asked for, the
    first file is read before all others, as they count from its zero. Raises TraceError if none can be read."""
    sources, zero, n = list(run.sources), None, 0
    quiet = replace(run, problems=[])  # what workers find is told by what they return
    if asked.wanted.start is not None or asked.wanted.end is not None:
        while sources and not n:
            (part,) = _part_of_source([sources.pop(0)], quiet, None, asked)
            n, zero = int(not part.unread), part.clock.unix_ns
            if part.unread:
                run.note_problem(part.unread)
            else:
                yield part
    read = partial(_part_of_source, run=quiet, zero=zero, asked=asked)
    last = ""
    for part in workers.map(read, sources, _killed, at_once=1, most=_n_workers(run)):
        if part.unread:
            last = part.unread
            run.note_problem(last)
            continue
        n += 1
        yield part
    if not n:
        raise TraceError(last or run.problems[-1])


def _part_of_source(
    sources: Sequence[TraceSource], run: TraceSet, zero: int | None, asked: _AnalysisRequest
) -> Iterator[_FilePart]:  # fmt: skip
    """Read files of a run, in a worker, and yield what each says of what is ``asked`` for. ``zero``: the unix time, ns,
    that wanted times count from; None: from each file's own zero."""
    for source in sources:
        try:
            if asked.adds_up:
                yield _part_of_lengths(run, source, asked)
            else:
                yield _part_of_file(run.timeline_of(source), zero, asked)
        except TraceError as error:
            yield _FilePart([], unread=str(error))


def _part_of_lengths(run: TraceSet, source: TraceSource, asked: _AnalysisRequest) -> _FilePart:
    """Analyze a file of which only tables in _ADD_UP are asked for: piece by piece, keeping the counts of lengths alone.
    Raises TraceError."""
    kinds = {kind for table in asked.tables or () for kind in KINDS[table]}
    pieces = (analyze_timeline(piece, tables=asked.tables) for piece in run.lengths_of(source, kinds))
    first = next(pieces)
    gathered = {name: [own] for name, own in first.lengths.items()}
    for piece in pieces:
        for name, own in piece.lengths.items():
            _gather(gathered[name], own)
    found = replace(first, lengths={name: together(gathered.pop(name)) for name in [*gathered]})
    return _FilePart([(None, found)], clock=first.clock)


def _killed(source: TraceSource) -> _FilePart:
    """Return what is said of a file that no worker has survived."""
    return _FilePart([], unread=f"{source.path}: the process that read it died")


def _part_of_file(timeline: Timeline, zero: int | None, asked: _AnalysisRequest) -> _FilePart:
    """Analyze what is asked for of a timeline, or of each of its ranks. ``zero``: the unix time, ns, that wanted times count
    from. Raises ValueError."""
    wanted = asked.wanted
    gpus = tuple(dict.fromkeys(gpu for gpu in gpus_of(timeline.tracks) if gpu is not None))
    if timeline.profile is not None and any(wanted):
        raise ValueError(f"{timeline.sources[0].path}: is a profile, without times and GPUs: all of it is shown")
    tracks = None if wanted.gpus is None else tracks_of(timeline, wanted.gpus)
    if tracks is not None and not len(tracks):
        return _FilePart([], gpus, timeline.clock)
    try:
        window = window_of(timeline, wanted, zero)
    except ValueError as error:
        return _FilePart([], gpus, timeline.clock, str(error))
    own = tuple(map(custom, wanted.metrics))
    ranks = _ranks_of(timeline, tracks) if asked.by_rank else [(None, tracks)]
    parts = [
        (rank, analyze_timeline(timeline, window, mine, None, wanted.like_hta, asked.rules, asked.tables, own))
        for rank, mine in ranks
    ]
    return _FilePart(parts, gpus, timeline.clock)


def _parts(
    files: Iterable[_FilePart], asked: _AnalysisRequest, there: dict[Track, None]
) -> Iterator[tuple[int | None, TraceAnalysis]]:  # fmt: skip
    """Yield the rank (None for all of a file) and the analysis of what is wanted of each file, or of each of its ranks. Adds
    all GPUs of the files to ``there``. Raises ValueError, a sentence, where there is nothing of what is wanted."""
    wrong, n = "", 0
    for file in files:
        there.update(dict.fromkeys(file.gpus))
        wrong = wrong or file.wrong
        n += len(file.parts)
        parts = file.parts
        del file
        while parts:
            yield parts.pop(0)
    if not n:
        known = ", ".join(map(gpu_label, names_of(there).values())) or "no GPUs"
        raise ValueError(wrong or f"no GPU {', '.join(asked.wanted.gpus or ())}: there are: {known}")


def _ranks_of(timeline: Timeline, tracks: Ints | None) -> list[tuple[int | None, Ints | None]]:
    """Find the ranks that have any of these tracks (places; None: all). Returns each rank with the places of its tracks;
    where there is only one rank, the tracks as they were given."""
    found: dict[int | None, list[int]] = {}
    for at in range(len(timeline.tracks)) if tracks is None else tracks.tolist():
        track = timeline.tracks[at]
        found.setdefault(timeline.sources[track.source].rank if track.rank is None else track.rank, []).append(at)
    if len(found) == 1:
        return [(next(iter(found)), tracks)]
    return [(rank, np.array(places)) for rank, places in found.items()]


def combined(
    parts: Iterable[TraceAnalysis], rules: RuleTable | None = TABLE, known: Iterable[Track] = ()
) -> TraceAnalysis:  # fmt: skip
    """Combine the analyses of several files into one, taking each when it is its turn. Kept of each file are its GPUs and
    their table of kernels, its longest gaps, its steps and its counts of lengths (gssr.model.traces.lengths). Times are
    moved to the zero of the first file where both clocks are known. Raises ValueError without any analysis.

    Args:
        parts: the analyses.
        rules: the rules that judge the result. None: it has no verdicts.
        known: other GPUs of the run, on which names depend; they are looked at when all parts are taken.
    """
    each = iter(parts)
    found = next(each, None)
    if found is None:
        raise ValueError("no trace to combine")
    lengths = {name: [own] for name, own in found.lengths.items()}
    delays = [found.launches.delay]
    trees = [] if found.tree is None else [found.tree]
    found = _without_lengths(found)
    for part in each:
        for name, gathered in lengths.items():
            _gather(gathered, part.lengths[name])
        _gather(delays, part.launches.delay)
        trees += [] if part.tree is None else [part.tree]
        apart = booted_apart(((found.clock, found.sources), (part.clock, part.sources)))
        part = _without_lengths(_moved(part, found.clock))  # these are not kept while the next is read
        if apart or found.clock.unix_ns is None or part.clock.unix_ns is None:
            number = len(found.sources)
            part = replace(
                part, gpus=tuple(_with_own_clock(gpu, number) for gpu in part.gpus),
                dependencies=tuple(each._replace(clock=number) for each in part.dependencies),
                transfers=tuple(each._replace(clock=number) for each in part.transfers),
            )  # fmt: skip
        found = replace(
            found,
            clock=Clock() if apart else found.clock,
            sources=found.sources + part.sources,
            window=(min(found.window[0], part.window[0]), max(found.window[1], part.window[1])),
            holds=found.holds | part.holds,
            gpus=found.gpus + part.gpus,
            kernels_by_rank=one_table(found.kernels_by_rank, part.kernels_by_rank),
            calls={name: CallTotals(*map(sum, zip(found.calls[name], part.calls[name], strict=True)))
                   for name in found.calls},
            idle=_added([found.idle, part.idle]),
            gaps=_longest([*found.gaps, *part.gaps]),
            launches=_both(found.launches, part.launches),
            steps=found.steps + part.steps,
            counters=found.counters + part.counters,
            metrics=found.metrics + part.metrics,
            facts={**part.facts, **found.facts},
            places={**found.places, **part.places},
            exchange=both(found.exchange, part.exchange),
            collectives=all_collectives(found.collectives, part.collectives),
            io=all_calls(found.io, part.io),
            extent=_both_extents(found.extent, part.extent),
            dependencies=_both_graphs(found, part),
            flops=both_flops(found.flops, part.flops),
            transfers=found.transfers + part.transfers,
            sequences=both_sequences(found.sequences, part.sequences),
            operator_counters=both_counters(found.operator_counters, part.operator_counters),
            sampled_functions=both_sampled(found.sampled_functions, part.sampled_functions),
        )  # fmt: skip
    found = replace(
        found,
        lengths={name: together(gathered) for name, gathered in lengths.items()},
        launches=found.launches._replace(delay=together(delays)),
        tree=one_tree(trees) if trees else None,
    )
    found = _with_outside(_named(found, [*known, *found.places]))
    return found if rules is None else judge_trace(found, rules)


def _both_graphs(a: TraceAnalysis, b: TraceAnalysis) -> tuple[Dependencies, ...]:
    """Put together the graphs for the critical path of two parts; none where one has none though it has GPUs, or where both
    are too large together."""
    if any(part.gpus and not part.dependencies for part in (a, b)):
        return ()
    graphs = a.dependencies + b.dependencies
    return graphs if sum(len(each.time) for each in graphs) <= MOST_NODES else ()


def _with_own_clock(gpu: GpuUse, number: int) -> GpuUse:
    """Return the GPU's use, marked with a ``number`` of its clock that no other file has: its times are not to be compared
    with those of GPUs from other files."""
    return gpu._replace(book=gpu.book and gpu.book._replace(clock=number))


def _without_lengths(part: TraceAnalysis) -> TraceAnalysis:
    """Return the analysis without counts of lengths and call tree, which are combined apart."""
    return replace(part, lengths={}, launches=part.launches._replace(delay=NO_LENGTHS), tree=None)


def _named(trace: TraceAnalysis, gpus: Iterable[Track | None]) -> TraceAnalysis:
    """Name the GPUs of an analysis, where ``gpus`` are all GPUs of the run, by which they must be told apart. Returns
    the analysis with these names in its GPUs, gaps, counters and metrics."""
    places: dict[Track | None, str] = {gpu: gpu_label(name) for gpu, name in names_of(gpus).items()}
    return replace(
        trace,
        places=places,
        gpus=tuple(gpu._replace(place=places[gpu.track]) for gpu in trace.gpus),
        gaps=tuple(gap._replace(place=places[gap.track]) for gap in trace.gaps),
        counters=tuple(each._replace(place=places.get(each.track)) for each in trace.counters),
        metrics=tuple(each._replace(place=places.get(each.track, each.place)) for each in trace.metrics),
    )


def _gather(parts: list[Lengths], more: Lengths) -> None:
    """Append counts of lengths to ``parts``, in place. Parts are joined into one once the later ones have more than half as
    many lengths together as the first, so that none is gone through often, and few are there twice."""
    parts.append(more)
    if 2 * sum(len(part.key) for part in parts[1:]) > len(parts[0].key):
        parts[:] = [together(parts)]


def _both(a: Launches, b: Launches) -> Launches:
    """Add up the launches of two parts. Their delays can't be added: those of ``a`` are kept, for the caller to replace."""
    return Launches(
        a.n + b.n, a.delay, a.short_kernels + b.short_kernels, a.slow_calls + b.slow_calls, a.long_delays + b.long_delays,
        max(a.queue_max, b.queue_max), a.queue_full + b.queue_full,
    )  # fmt: skip


def _moved(part: TraceAnalysis, clock: Clock) -> TraceAnalysis:
    """Move the times of an analysis to the zero of ``clock``. Where one of the two zeros is unknown the analysis is returned
    as it is."""
    if clock.unix_ns is None or part.clock.unix_ns is None or clock.unix_ns == part.clock.unix_ns:
        return part
    by = part.clock.unix_ns - clock.unix_ns
    return replace(
        part,
        window=(part.window[0] + by, part.window[1] + by),
        extent=part.extent and (part.extent[0] + by, part.extent[1] + by),
        dependencies=tuple(each.moved(by) for each in part.dependencies),
        transfers=tuple(each._replace(start=each.start + by, end=each.end + by) for each in part.transfers),
        gpus=tuple(
            gpu._replace(
                begin_ns=gpu.begin_ns + by,
                book=gpu.book and gpu.book.moved(by),
            )
            for gpu in part.gpus
        ),
        gaps=tuple(gap._replace(start_ns=gap.start_ns + by) for gap in part.gaps),
        steps=tuple(step._replace(start_ns=step.start_ns + by) for step in part.steps),
        counters=tuple(counter._replace(at_max_ns=counter.at_max_ns + by) for counter in part.counters),
    )


def _longest(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Return the MOST_GAPS longest gaps, the longest first."""
    return tuple(sorted(gaps, key=lambda gap: (-gap.length_ns, gap.start_ns))[: idling.MOST_GAPS])


def _added(parts: Sequence[Mapping[Cause, tuple[int, int]]]) -> dict[Cause, tuple[int, int]]:
    """Add up, for each cause, the counts and the ns of several parts."""
    return {cause: (sum(part[cause][0] for part in parts), sum(part[cause][1] for part in parts)) for cause in CAUSES}


def _both_extents(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    return (min(a[0], b[0]), max(a[1], b[1])) if a and b else a or b


def _with_outside(trace: TraceAnalysis) -> TraceAnalysis:
    """Return the analysis with the idle time, under "outside", before each GPU's first work and after its last one, which is
    no gap between its work: others of the job worked meanwhile, or the window begins earlier or ends later."""
    if not trace.gpus or trace.like_hta or trace.extent is None:
        return trace
    length = trace.extent[1] - trace.extent[0]
    n = sum(gpu.span_ns < length for gpu in trace.gpus)
    return replace(trace, idle={**trace.idle, "outside": (n, trace.span_ns - sum(gpu.span_ns for gpu in trace.gpus))})


def _work_by_gpu(part: TracePiece, links: Links) -> Callable[[int], Links]:
    """Group the work of all GPUs (``links``) by GPU. Returns a function that takes a GPU's index in ``part.gpus`` and
    returns its work."""
    if len(part.gpus) < 2:
        return lambda _: links

    @cache
    def rows_of() -> Callable[[Sequence[int]], Ints]:
        return group_rows(np.arange(len(links.rows)), part.gpu_of[part.timeline.intervals.track[links.rows]])

    def work_of(at: int) -> Links:
        own = rows_of()((at,))
        return Links(links.rows[own], links.call[own])

    return work_of


def _described(part: TracePiece, longest: Sequence[idling.Idle], work_of: Callable[[int], Links]) -> list[Gap]:
    """Describe the longest gaps of all GPUs. ``longest``: the longest gaps of each GPU. Only the gaps that are kept are
    described, because that means to look at what every thread did."""
    length = np.concatenate([np.empty(0, np.int64), *(idle.length for idle in longest)])
    start = np.concatenate([np.empty(0, np.int64), *(idle.start for idle in longest)])
    gpu = np.repeat(np.arange(len(longest)), np.array([len(idle.start) for idle in longest], np.int64))
    place = np.concatenate([np.empty(0, np.int64), *(np.arange(len(idle.start)) for idle in longest)])
    kept = np.sort(np.lexsort((start, -length))[: idling.MOST_GAPS])
    gaps: list[Gap] = []
    for at in np.unique(gpu[kept]).tolist():
        own = idling.Idle(*(column[place[kept[gpu[kept] == at]]] for column in longest[at]))
        gaps += idling.described(part, at, own, work_of(at))
    return gaps


class _GpuMeasures(NamedTuple):
    """How a GPU was used, its idle time by cause, its longest gaps, and how long it was busy in each step [n steps]."""

    use: GpuUse
    causes: Mapping[Cause, tuple[int, int]]
    longest: idling.Idle
    in_steps: Ints


def _of_gpu(
    part: TracePiece, gpu: int, links: Links, covered: CoveredTimes, own_steps: Ints, of_two: Flags | None
) -> _GpuMeasures:
    """Measure one GPU in parts between which it was idle, whose figures add up. What is on the GPU and of no type, as the
    syncs of HolisticTraceAnalysis, is busy time and no more.

    Args:
        part: the part of the trace that is looked at.
        gpu: the GPU's place in ``part.gpus``.
        links: the GPU's work, and which calls launched it.
        covered: times that data loading and waiting calls cover.
        own_steps: rows of the steps in which the GPU's busy time is measured.
        of_two: flags [n intervals] of communication between two ranks. None where it is not told apart.
    """
    kind = part.timeline.intervals.kind
    begin, stop = part.extent(links.rows) if len(links.rows) else (part.window[0],) * 2
    bins = BINS if len(part.gpus) <= MANY_GPUS else FEWER_BINS
    edges = begin + np.arange(bins + 1) * (stop - begin) // bins
    in_steps = np.zeros(len(own_steps), np.int64)
    step_times = part.times(own_steps)
    beside = covered.times_on_host(gpu, links)
    waits, late_host = no_waits(beside), LateHost()
    named = ("loader", "blocked", "between_steps")
    loading, blocked, apart = (beside[Waits._fields.index(name)] for name in named)
    elsewhere = covered_by(*(each for each in (loading, apart) if each is not None))
    n_kernels = under = exposed_collectives = 0
    last_collective: int | None = None
    ns, before, types = np.zeros(4, np.int64), np.zeros((4, bins + 1), np.int64), np.zeros(8, np.int64)
    ends: list[int | None] = [None] * 3
    causes, longest = [], []
    for rows, _, busy, idle in idling.work_and_gaps(part, links):
        n_kernels += int(np.isin(kind[rows], KINDS["kernels"]).sum())
        causes.append(idling.by_cause(idle))
        longest.append(idling.longest(idle))
        waits = add_waits(waits, beside, idling.not_waiting(idle).some)
        late = idling.split_late_host(idle, blocked, elsewhere)
        late_host = LateHost(*(so_far + more for so_far, more in zip(late_host, late, strict=True)))
        (start, end), category = part.times(rows), part.category[rows]
        of_types = [
            union(start[mine], end[mine], last)
            for mine, last in zip((category == one for one in TYPES.values()), ends, strict=True)
        ]
        under += common(*of_types[:2]).length
        if of_two is not None:
            mine = (category == Category.COMMUNICATION) & ~of_two[rows]
            collectives = union(start[mine], end[mine], last_collective)
            exposed_collectives += collectives.length - common(of_types[0], collectives).length
            last_collective = int(collectives.end[-1]) if len(collectives.end) else last_collective
        types += subsets((of_types[0].some, of_types[1].some, of_types[2].some))
        for at, each in enumerate((busy, *of_types)):
            if len(each.start):
                ns[at] += each.length
                before[at] += each.before(edges)
        ends = [int(each.end[-1]) if len(each.end) else last for each, last in zip(of_types, ends, strict=True)]
        in_steps += busy.before(step_times[1]) - busy.before(step_times[0])
    if part.like_hta:
        causes = [idling.causes_as_hta(part, links)]
    busy_ns, compute_ns, communication_ns, copy_ns = ns.tolist()
    shares = np.diff(before) / np.maximum(np.diff(edges), 1)
    window = (begin, stop) if part.like_hta else part.window
    waited_for = 0 if blocked is None else int(np.diff(blocked.before(np.array(window))).sum())
    use = GpuUse(
        part.gpus[gpu], "", n_kernels, begin, stop - begin, busy_ns, compute_ns, communication_ns, copy_ns,
        tuple(types.tolist()), under / communication_ns if communication_ns else None,
        waits, shares[0], tuple(shares[1:]),
        0 if of_two is None else int(types[2] + types[6]) - exposed_collectives, waited_for, late_host,
    )  # fmt: skip
    return _GpuMeasures(use, _added(causes), idling.longest(*longest), in_steps)


def _holds(part: TracePiece, links: Links, own_steps: Ints) -> frozenset[str]:
    """Tell which kinds of records a trace has: a set of the names that TraceAnalysis lists. ``own_steps``: rows of the
    intervals that are steps."""
    kinds = part.n_by_kind > 0
    there = {
        "intervals": len(part.timeline.intervals),
        "kernels": len(part.gpus),
        "copies": kinds[Kind.MEMCPY] or kinds[Kind.MEMSET],
        "copy_work": _has_work(part, links, Category.COPY),
        "calls": kinds[Kind.RUNTIME] or kinds[Kind.DRIVER],
        "launches": (links.call >= 0).any(),
        "ranges": kinds[Kind.CPU_OP] or kinds[Kind.RANGE] or kinds[Kind.PYTHON],
        "communication": _has_work(part, links, Category.COMMUNICATION),
        "steps": len(own_steps) > 1,
        "pageable": part.timeline.pageable is not None,
        "shapes": any(shape.operator in SHAPED for shape in part.timeline.shapes),
        "multiplications": len(part.named(SHAPED.__contains__, Kind.CPU_OP)),
        "torch": any(source.tool == "torch.profiler" for source in part.timeline.sources)
        or any(_OF_TORCH.search(name) for name in part.timeline.names),
        "captures": len(part.named(_CAPTURES.search, Kind.RUNTIME, Kind.DRIVER)),
    }
    return frozenset(name for name, yes in there.items() if yes)


def _has_work(part: TracePiece, links: Links, category: Category) -> bool:
    """Tell whether any work of a GPU is of a category."""
    return any((part.category[links.rows[some]] == category).any() for some in in_parts(len(links.rows)))


def _lengths(
    part: TracePiece, links: Links, tables: Collection[str] | None
) -> tuple[dict[str, Lengths], LengthStatistics]:
    """Count the lengths of what the trace has, for each of the ``tables`` that are asked for; copies by size only where the
    size is known. Returns the counts by table, and the table of kernels by rank."""
    own, names, length = part.timeline.intervals, part.timeline.names, part.length
    n_types = len(Category)
    copies = links.rows[are(own.kind[links.rows], KINDS["copies"])]
    kernels = links.rows if not len(copies) else part.rows(*KINDS["kernels"])
    if part.like_hta:
        kernels = part.rows(*BUSY, Kind.GPU_SYNC)
        kernels = kernels[part.category[kernels] != Category.SYNC]

    def work(codes: Sequence[int]) -> list[Key]:
        return [(names[code // n_types], Category(code % n_types).name.lower()) for code in codes]

    def of_ranks(codes: Sequence[int]) -> list[Key]:
        """Return the key of each code: its GPU, and what its kernel's name and category are counted under."""
        n = len(names) * n_types
        places = [part.gpus[code // n] for code in codes]
        named = work([code % n for code in codes])
        return [(gpu, *name) for gpu, name in zip(places, named, strict=True)]

    def named(codes: Sequence[int]) -> list[Key]:
        return [(names[code],) for code in codes]

    def of_domains(codes: Sequence[int]) -> list[Key]:
        """Return the key of each code: a range's name without running numbers, its domain, and its style, None where
        that is not told."""
        of, n = part.timeline.domains, len(names)
        styles = (None, None) if part.timeline.start_end is None else ("PushPop", "StartEnd")
        found = [(names[code % n], styles[code // n]) for code in codes]
        return [(without_running_numbers(name), of.get(name), style) for name, style in found]

    def of_operators(codes: Sequence[int]) -> list[Key]:
        return [(without_running_numbers(names[code]),) for code in codes]

    def operations(codes: Sequence[int]) -> list[Key]:
        return [(OPERATIONS[code],) for code in codes]

    @cache
    def of_kernels() -> Lengths:
        return lengths_of_rows(kernels, lambda rows: own.name[rows] * n_types + part.category[rows], length, work)

    def by_rank() -> Lengths:
        """Count the lengths of the kernels by GPU, name and category."""
        if len(part.gpus) == 1:
            one, of = part.gpus[0], of_kernels()
            return replace(of, keys=tuple((one, *key) for key in of.keys))
        code = part.gpu_of[own.track[kernels]] * len(names) * n_types
        code += own.name[kernels] * n_types
        code += part.category[kernels]
        return lengths_of(code, length[kernels], of_ranks)

    def of_copies() -> Lengths:
        """Count the lengths of copies and sets by operation, and add up their bytes and how many sizes are known."""
        size = own.size[copies]
        sums = {"bytes": np.maximum(size, 0), "n_sized": (size >= 0).astype(np.int64)}
        return lengths_of(own.operation[copies], length[copies], operations, sums)

    def of_sizes() -> Lengths:
        sized = copies[own.size[copies] >= 0]
        return lengths_of(own.operation[sized], own.size[sized], operations)

    launched_within = cache(lambda: time_launched_within(part, links))

    def marked(table: str, as_keys: Callable[[Sequence[int]], list[Key]]) -> Lengths:
        """Count the lengths of the ranges or operators (``table``) by the keys that ``as_keys`` makes, and add up the GPU
        time of what was launched in them."""
        rows = part.rows(*KINDS[table])
        within = {"gpu_ns": launched_within()(rows) if len(rows) else rows}
        code = own.name[rows].astype(np.int64)
        if table == "ranges" and part.timeline.start_end is not None:
            code += len(names) * np.isin(rows, part.timeline.start_end)
        return lengths_of(code, length[rows], as_keys, within)

    def called(table: str) -> Lengths:
        rows = part.rows(*KINDS[table])
        return lengths_of(own.name[rows], length[rows], named)

    def of_hlo() -> Lengths:
        """Count the lengths of XLA's operations by category and module, and add up what they computed and moved, and how
        many there are of which that is known and which the window does not cut."""
        hlo = part.timeline.hlo or HloOps(np.full(len(own), -1, np.int32), ())
        rows = np.flatnonzero(hlo.op >= 0)
        rows = rows if part.chosen is None else rows[part.chosen[rows]]
        op = hlo.op[rows]
        flops, moved = (np.array([each[at] for each in hlo.ops] or [0], np.int64)[op] for at in (2, 3))
        known = (flops >= 0) & (moved >= 0) & (length[rows] == own.length[rows])
        sums = {"flops": np.maximum(flops, 0), "moved": np.maximum(moved, 0), "n_counted": known.astype(np.int64)}
        return lengths_of(op, length[rows], lambda codes: [hlo.ops[code][1::-1] for code in codes], sums)

    made: dict[str, Callable[[], Lengths]] = {
        "kernels": of_kernels, "copies": of_copies, "copy_sizes": of_sizes,
        "ranges": lambda: marked("ranges", of_domains), "operators": lambda: marked("operators", of_operators),
        "hlo": of_hlo, "api": lambda: called("api"), "os": lambda: called("os"),
    }  # fmt: skip
    ranks = statistics(by_rank()) if _asks(tables, "kernels_by_rank") else NO_STATISTICS
    return {name: make() for name, make in made.items() if _asks(tables, name)}, ranks


def _own_metrics(
    timeline: Timeline, part: TracePiece, tracks: Sequence[int] | Ints | None, own: Sequence[Custom]
) -> tuple[OwnMetric, ...]:
    """Evaluate the custom metrics ``own`` in the window of ``part``: each for every GPU, or else every thread, on which
    there are intervals with fitting names. ``tracks``: only these tracks count; None: all. An item's value is None
    where it is a quotient by 0."""
    found, there = [], gpus_of(timeline.tracks)
    begin, width = part.window[0], max(part.window[1] - part.window[0], 1)
    for name, level in levels_of(part_of(timeline), own).items():
        if name not in ("gpus", "threads"):
            continue
        chosen = np.unique(level.owner_of if tracks is None else level.owner_of[np.asarray(tracks, np.int64)])
        first = {owner: at for at, owner in reversed(list(enumerate(level.owner_of.tolist())))}
        for each in own:
            if each.metric not in level.metrics:
                continue
            total, weight = (values[:, 0] for values in level.values(each.metric, None, len(level), begin, width, 1))
            for row in chosen[chosen >= 0].tolist():
                track = there[first[row]] or timeline.tracks[first[row]]
                value = float(total[row] / weight[row]) if weight[row] > 0 else None
                kind: Literal["GPU", "thread"] = "GPU" if name == "gpus" else "thread"
                found.append(OwnMetric(each.name, each.text, each.unit, kind, track, gpu_label(level.gpus[row]), value))
    return tuple(found)


def _counter(part: TracePiece, counter: Counter, gpus: Sequence[Track | None]) -> CounterSummary | None:
    """Summarize the values that a counter has in the window: how many, mean (of a gauge by time), extremes, the last
    one, and when the greatest was. ``gpus``: the first track of the GPU that each track is of, None for a thread. None
    without any value."""
    inside = slice(None) if part.whole else slice(*np.searchsorted(counter.time, part.window))
    time, value = counter.time[inside], counter.value[inside]
    if not np.isfinite(value).any():
        return None
    weights = np.diff(time, append=time[-1])
    weighted = counter.mode == "gauge" and weights.sum() > 0
    track = gpus[counter.track] or part.timeline.tracks[counter.track] if counter.track >= 0 else None
    of = part.timeline.sources
    rank = track.rank if track else of[0].rank if len(of) == 1 else None
    known = np.isfinite(value)
    return CounterSummary(
        counter.name, counter.unit, track, rank, None, int(known.sum()),
        float(np.average(value[known], weights=weights[known] if weighted and weights[known].sum() else None)),
        float(np.nanmin(value)), float(np.nanmax(value)), float(value[known][-1]), int(time[np.nanargmax(value)]),
    )  # fmt: skip
