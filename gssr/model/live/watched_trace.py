"""A trace to be watched as a recording is: the same query, the same frame. Times are seconds after the trace's own zero,
computed in whole nanoseconds."""

import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from time import monotonic
from typing import TypeVar

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.gpu_name import is_named
from gssr.metrics import OF_COUNTER, OF_OWN, RATIO, metric_named
from gssr.model.breakdown.result import Breakdown
from gssr.model.custom_metrics import Custom
from gssr.model.findings.similar_gpus import bands
from gssr.model.frame_cache import once
from gssr.model.live.kept_answers import KeptAnswers
from gssr.model.live.live_result import (
    Around,
    CounterLine,
    GridLines,
    Query,
    Result,
    TracePart,
    UnreadableError,
    nothing_yet,
)
from gssr.model.live.timeline import MOST_BANDS, Timelines, neighbours
from gssr.model.live.watch import Watch
from gssr.model.results import Grid, Judgement, Means, nodes_of, over_space
from gssr.model.statistics.grid import choose_width, columns_over
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.call_tree import TIME, VISITS, spread
from gssr.model.traces.derived_counters import MOST_WORK, derived_counters
from gssr.model.traces.launches import links_of
from gssr.model.traces.levels import N_CATEGORIES, Level, LevelName, levels_of
from gssr.model.traces.nesting import Lanes, lanes, open_at
from gssr.model.traces.only import NOTHING, Only
from gssr.model.traces.part import only, part_of
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.traces.trace_selection import flag_tracks_of_processes
from gssr.model.traces.trace_steps import steps_of
from gssr.model.verdicts.words import damage_text
from gssr.store.format.rows import Event
from gssr.traces.details import details_of
from gssr.traces.timeline import BUSY, Kind, TraceError
from gssr.traces.timeline import Timeline as Trace

NS = 1e9
FINEST = 1e-6
"""Columns are at least so wide, s."""
MOST_CELLS = 500_000
"""No more (GPU, column) cells are computed, so that of very many GPUs there are fewer columns than were asked for. Lines of
the timeline, which are few, always have all."""
LARGE = 100_000
"""Of a trace of more intervals tables and verdicts are found beside the pictures."""
MOST_COUNTERS = 3
MOST_MARKS = 10_000
"""Of the marks of a program so many are listed."""
_KEPT = 24
_COURSE = 100
"""Columns of the whole trace, in the greatest of which an axis ends that nothing else tells the end of."""

_Answer = TypeVar("_Answer")


class WatchedTrace(Watch):
    """Watches the trace that ``read`` returns. ``read`` is called at the first look; ``path``: the file,
    folder or files, as the user named them; ``own``: the user's own metrics."""

    growing = True
    """Something more will be known."""
    arrived = 0.0

    def __init__(self, path: str, read: Callable[[], Trace], own: Sequence[Custom] = ()) -> None:
        self.path = path
        self._own = own
        self._read = read
        self._trace: Trace | None = None
        self._unreadable: UnreadableError | None = None
        """Why there is no trace: it is not read again."""
        self._answers = KeptAnswers(_KEPT)
        self._worker = ThreadPoolExecutor(1, "gssr-analysis")
        self._asked: dict[str, tuple[object, Future[object]]] = {}
        self.arrived = monotonic()

    def close(self) -> None:
        """Cancel analyses that have not begun."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def read_result(self, query: Query, quick: bool) -> Result:
        """Return what the query asks for of the trace, which is read at the first look that is not ``quick``; until then
        the frame says that it is waited for. With ``quick``, what takes long in a large trace (tables, verdicts) is left
        out unless it is known already. The first look after reading is quick, too. Raises UnreadableError."""
        if self._unreadable is not None:
            raise self._unreadable
        if self._trace is None:
            if quick:
                return replace(nothing_yet(self.path, query, "waiting"), refined=False)
            try:
                self._trace = self._prepared(self._read())
            except (TraceError, ValueError, OSError) as error:
                self._unreadable, self.growing = UnreadableError(str(error)), False
                raise self._unreadable from error
            quick = True
        if self._trace.profile is not None:
            try:
                frame = self._of_profile(query)
            except TraceError as error:
                raise UnreadableError(str(error)) from error
        else:
            frame = self._make_frame(query, quick and len(self._trace.intervals) > LARGE)
        self.growing = not frame.refined
        return frame

    def _prepared(self, trace: Trace) -> Trace:
        """Prepare what every look needs, and return the trace. Raises ValueError if it holds nothing."""
        if not len(trace.intervals) and trace.profile is None:
            raise ValueError(f"{self.path}: holds no intervals")
        own = trace.intervals
        part = part_of(trace)
        if len(own) <= MOST_WORK:
            trace = replace(
                trace, counters=(*trace.counters, *derived_counters(part, links_of(part, part.rows(*BUSY))))
            )
        self._whole = replace(part, timeline=trace)
        levels = levels_of(self._whole, self._own)
        for level in levels.values() if self._own else ():
            level.metrics  # noqa: B018  a pattern that takes too long is found out now
        self._levels = levels
        self._timelines = {name: Timelines() for name in levels}
        self._nodes: dict[LevelName, tuple[tuple[str, ...], Ints]] = {}
        times = [own.start, own.start + own.length]
        if not own.length.any():  # marks and counters alone, such as those of memory
            times += [each.time for each in trace.counters]
        self._first = min((int(each.min()) for each in times if len(each)), default=0)
        self._last = max((int(each.max()) for each in times if len(each)), default=0)
        name = os.path.basename(self.path.rstrip("/"))
        self._events = tuple(
            Event(self._first / NS, None, None, source.rank, "note", f"{os.path.basename(source.path) or name}: {note}")
            for source in trace.sources
            for note in source.notes
        )
        marks = np.flatnonzero(own.kind == Kind.MARK)[:MOST_MARKS].tolist()
        self._events += tuple(
            Event(own.start[at] / NS, None, None, trace.tracks[own.track[at]].rank, "mark", trace.names[own.name[at]])
            for at in marks
        )
        return trace

    @cached_property
    def _steps(self) -> dict[str, float]:
        """The time at which each step of the whole trace first begins, s, by its name."""
        assert self._trace is not None
        own, found = self._trace.intervals, dict[str, float]()
        for at in steps_of(self._whole).tolist():
            found.setdefault(self._trace.names[own.name[at]], own.start[at] / NS)
        return found

    def _make_frame(self, query: Query, quick: bool) -> Result:
        """Return the frame. If a custom metric can't be computed, as its pattern takes too long, it is the frame of
        another metric, and its ``problem`` says so. Raises ValueError for any other metric."""
        try:
            return self._frame(query, quick)
        except ValueError as error:
            if not query.metric.startswith(OF_OWN):
                raise
            frame = self._frame(replace(query, metric=""), quick)
            return replace(frame, query=replace(frame.query, metric=query.metric), problem=str(error))

    def _only(self, wanted: Only) -> tuple[Trace, dict[LevelName, Level]]:
        """Return the trace with only the wanted intervals, and its levels, whose rows last as long as with all
        intervals."""
        assert self._trace is not None
        if wanted == NOTHING:
            return self._trace, self._levels
        trace = only(self._trace, wanted)
        levels = levels_of(part_of(trace), self._own)
        for name, level in levels.items():
            level.last_as(self._levels[name])
        return trace, levels

    def _passing(self, level: Level, query: Query) -> tuple[int, ...]:
        """Return the rows of the level that the query asks for and its filter names, or where it names none, those of the
        processes that it names on other levels: a thread of rank 1 is called otherwise than the GPU. () without any."""
        wanted = np.zeros(len(level.gpus), bool)
        wanted[list(query.gpus) or slice(None)] = True
        found = _named(level, query.only.who)
        if not found.any():
            assert self._trace is not None
            tracks = self._trace.tracks
            of_named = np.zeros(len(tracks), bool)
            for other in self._levels.values():
                of_named |= np.append(_named(other, query.only.who), False)[other.owner_of]
            owners = level.owner_of[flag_tracks_of_processes(tracks, of_named)]
            found[owners[owners >= 0]] = True
        return tuple(np.flatnonzero(found & wanted).tolist())

    def _frame(self, query: Query, quick: bool) -> Result:
        """Draw up the frame that a query asks for."""
        assert self._trace is not None
        some = query.only._replace(who=())
        trace, levels = self._answers.find(("only", some), lambda: self._only(some))
        name: LevelName = query.level if query.level in levels else next(iter(levels))
        if query.level is None and query.metric.startswith(OF_OWN):
            name = next((each for each in levels if len(levels[each].of_metric(query.metric))), name)
        level = levels[name]
        matched = len(trace.intervals) > 0
        if query.only.who:
            passing = self._answers.find(("who", name, query.only.who, query.gpus), lambda: self._passing(level, query))
            query, matched = replace(query, gpus=passing), matched and bool(passing)
        if name not in self._nodes:
            self._nodes[name] = nodes_of(level.gpus)
        nodes, node_of = self._nodes[name]
        n_gpus = len(level.gpus)
        first, last = self._first / NS, self._last / NS
        newest = last if query.end is None else min(query.end, last)
        span = max(newest - first, FINEST) if query.span is None else query.span
        width = query.width or _width(span, query.columns, query.span is None)
        n, begin, step = _columns(query, width, self._first, self._last)
        usual = level.work if query.compared else "busy"
        metric = query.metric if query.metric in level.metrics or ":" in query.metric else usual
        grid = self._answers.find(
            (some, name, metric, begin, step, n), lambda: _grid(level, metric, begin, step, min(n, _at_most(n_gpus)), n)
        )
        low, high = max(begin, self._first), min(begin + n * step, self._last)
        window = self._answers.find((some, name, metric, low, high), lambda: level.means(low, high, metric))
        whole = self._answers.find(
            (some, name, metric, self._first, self._last), lambda: level.means(self._first, self._last, metric)
        )
        moment: dict[str, float | None] = {}
        gpus = np.array(query.gpus, np.int64) if query.gpus else None
        if query.cursor is not None:
            at = begin + max(int((query.cursor * NS - begin) // step), 0) * step
            moment = level.means(at, at + step, metric).overall(gpus)
        columns = begin, step, n
        greatest = self._answers.find((some, name, "greatest", metric), lambda: self._greatest(level, metric))
        asked = (some, name, metric, columns, query.gpus, query.rows, query.grouped, query.opened, query.alike)
        timeline, part = self._answers.find(
            asked, lambda: self._part(query, (trace, levels, level), grid, window, columns, greatest)
        )
        analysis, refined = self._analysis(query, trace, level, (low, high), quick)
        judged, there = analysis, True
        if some != NOTHING and query.causes is not None:  # what is left out is no cause
            unfiltered = replace(query, only=NOTHING)
            judged, there = self._analysis(unfiltered, self._trace, self._levels[name], (low, high), quick)
        refined = refined and there
        part = replace(part, steps=self._steps) if query.activity else part
        around, there = self._around(query, trace, level, quick)
        refined = refined and there
        if not level.ready_to_zoom():
            if not quick:
                level.prepare()
            refined = refined and level.ready_to_zoom()
        judgement = None
        if judged is not None and query.causes is not None:
            breakdown = _breakdown(judged)
            judgement = Judgement(judged.verdicts, judged.abstentions, low / NS, high / NS, breakdown=breakdown,
                                  not_judged=damage_text(judged.sources) or None)  # fmt: skip
        known = np.isfinite(grid.values)
        final = grid.values.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
        latest = np.where(known.any(axis=1), grid.values[np.arange(n_gpus), final], np.nan)
        steps = () if analysis is None else analysis.steps
        happened = [Event(each.start_ns / NS, None, None, each.rank, "mark", each.name) for each in steps]
        return Result(
            path=self.path, query=query, state="ended", run=None, gpus=level.gpus, nodes=nodes, node_of=node_of,
            first=first, last=last, now=last, silent=0.0, sampling_seconds=0.0, n_rows=len(self._trace.intervals),
            n_gaps=np.zeros(n_gpus, np.int64), last_time=np.full(n_gpus, last), latest=latest, grid=grid,
            space=over_space(grid), whole=whole, recent=window, window=window, moment=moment, host=None,
            events=(*self._events, *happened), problem=None, following=query.end is None, refined=refined,
            timeline=timeline, judgement=judgement,
            part=replace(part, analysis=analysis, around=around, matched=matched),
            greatest=greatest,
            active_from=self._whole.worked[0] / NS if query.activity and self._whole.worked else None,
        )  # fmt: skip

    def _greatest(self, level: Level, metric: str) -> Mapping[str, float]:
        """Find the greatest value of the metric in any row and column of the whole trace, for the scale of an axis.
        Returns it by the metric's name; {} if the metric has a full scale of its own or is unknown."""
        known = metric_named(metric)
        if known is None or known.full_scale:
            return {}
        n = min(_at_most(len(level.gpus)), _COURSE)
        step = max(-(-(self._last - self._first) // n), 1)
        values = _divided(*level.values(metric, None, len(level.gpus), self._first, step, n))
        return {metric: float(np.nanmax(values, initial=0.0))}

    def _around(self, query: Query, trace: Trace, level: Level, quick: bool) -> tuple[Around | None, bool]:
        """Find what is open at the cursor: intervals by track, those of GPUs first, and the details of one of them.
        Returns that, or None if the query does not ask for it; and False if the details are still being computed."""
        if not query.around or query.cursor is None:
            return None, True
        own, tracks = trace.intervals, trace.tracks
        chosen = level.owner_of >= 0 if not query.gpus else np.isin(level.owner_of, np.array(query.gpus))
        is_program = np.array([track.kind not in ("gpu_stream", "host_wait") for track in tracks], bool)
        shown = chosen | (is_program & flag_tracks_of_processes(tracks, chosen))
        found = open_at(own.start, own.length, own.track, shown, round(query.cursor * NS))
        found = dict(sorted(found.items(), key=lambda each: (tracks[each[0]].kind != "gpu_stream", each[0])))
        innermost = next((places[0] for places in found.values()), -1)
        place = query.place if 0 <= query.place < len(own) else innermost
        details, there = None, True
        if place >= 0:
            key = "details", query.only, place
            details, there = self._in_time("details", key, lambda: details_of(trace, place), quick)
        return Around(found, place, details), there

    def _of_profile(self, query: Query) -> Result:
        """Return the frame of a profile, which has only a call tree; its metrics are sums over all places."""
        assert self._trace is not None
        trace, level = self._trace, next(iter(self._levels.values()))
        analysis = self._answers.find("profile", lambda: analyze_timeline(trace))
        means = self._answers.find("sums", lambda: _sums(analysis, len(level.gpus)))
        named = next((name for name in means.names if name == query.metric), means.names[0])
        n_gpus = len(level.gpus)
        return replace(
            nothing_yet(self.path, query, "ended", gpus=level.gpus), n_rows=len(analysis.tree or ()), events=self._events,
            last_time=np.zeros(n_gpus), whole=means, recent=means, window=means, following=True,
            grid=Grid(named, 0.0, 1.0, np.full((n_gpus, 1), np.nan), 0.0),
            part=TracePart(trace, self._levels, level, np.zeros(N_CATEGORIES), analysis=analysis),
        )  # fmt: skip

    def _part(
        self, query: Query, of: tuple[Trace, dict[LevelName, Level], Level], grid: Grid, window: Means,
        columns: tuple[int, int, int], greatest: Mapping[str, float],
    ) -> tuple[GridLines | None, TracePart]:  # fmt: skip
        """Return the timeline, None if none is asked for, and the rest that only frames of traces have."""
        (trace, levels, level), (begin, step, n) = of, columns
        n_gpus = len(level.gpus)
        looked_at = np.array(query.gpus, np.int64) if query.gpus else np.arange(n_gpus)
        all_in_one = np.full(n_gpus, -1)
        all_in_one[looked_at] = 0
        total = level.split_of(window.overall(looked_at if query.gpus else None))
        part = TracePart(trace, levels, level, total)
        if not query.rows:
            return None, part
        alike: Floats | None = None
        low, high = round(window.start * NS), round(window.end * NS)
        if query.alike:
            alike = np.nan_to_num(_divided(*_of_window(level, None, n_gpus, low, high)))
        timeline, own = self._lines(query, level, grid, window, looked_at, columns, alike, greatest.get(grid.metric))
        lines = np.full(n_gpus, -1)
        for line, members in enumerate(timeline.members):
            lines[members] = line
        opened: Lanes | None = None
        if query.opened:
            wanted, every = _opened(trace, level, query.gpus), trace.intervals
            opened = _gpus_first(trace, lanes(every.start, every.length, every.track, wanted, begin, step, n))
        names = [name for name in level.metrics if name.startswith(OF_COUNTER)]
        names = names[:MOST_COUNTERS] if trace.sources[0].format != "memory" else names
        whole = self._first, self._last
        found, spent = level.split(lines, len(timeline.members), begin, step, n)
        line_split = None
        if alike is not None:
            line_split = _divided(*_of_window(level, lines, len(timeline.members), low, high))
        counted = [_counter(level, name, all_in_one, begin, step, n, whole) for name in names]
        return timeline, replace(
            part,
            columns=own,
            split=_divided(found, spent[:, :, None]),
            whole_split=_divided(found.sum(axis=0), spent.sum(axis=0)[:, None]),
            lanes=opened,
            line_split=line_split,
            counters=tuple(counter for counter in counted if counter.full > 0),
        )

    def _lines(
        self, query: Query, level: Level, grid: Grid, window: Means, looked_at: Ints, columns: tuple[int, int, int],
        alike: Floats | None, full: float | None,
    ) -> tuple[GridLines, Grid]:  # fmt: skip
        """Return the timeline and its columns.

        These are the grid's if it has all columns asked for; otherwise neighbours share a line. Of the metric "busy" a
        line takes two rows on the screen, of others one. ``alike`` [n_gpus, categories]: lines are bands of rows that
        are alike in this; None otherwise. ``full``: the full scale.
        """
        begin, step, n = columns
        rows = max((query.rows - MOST_COUNTERS) // (2 if grid.metric == "busy" else 1), 1)
        node_of = self._nodes[level.name][1]
        names: tuple[str, ...] = ()
        if alike is not None:
            found = bands(alike[looked_at], 1.0, np.zeros(len(looked_at), bool), min(rows, MOST_BANDS))
            names, owner = found.names, found.owner
        elif grid.n == n:
            own = replace(query, rows=rows, grouped=query.grouped and len(looked_at) > rows)
            return self._timelines[level.name].show(own, grid, window, level.gpus, node_of, False, full), grid
        else:
            owner = neighbours(node_of[looked_at], rows)
        n_lines = int(owner.max(initial=-1)) + 1
        lines = np.full(len(level.gpus), -1)
        lines[looked_at] = owner
        mean = _divided(*level.values(grid.metric, lines, n_lines, begin, step, n))
        unknown = np.full(mean.shape, np.nan)
        members = tuple(looked_at[owner == line] for line in range(n_lines))
        shown = GridLines(names, members, mean, unknown, np.full((3, n), np.nan))
        return shown, Grid(grid.metric, begin / NS, step / NS, mean, math.inf)

    def _analysis(
        self, query: Query, trace: Trace, level: Level, window: tuple[int, int], quick: bool
    ) -> tuple[TraceAnalysis | None, bool]:
        """Analyse the window (ns) and the rows that the query asks for, in a large trace in a thread. Returns the
        analysis, or None if the query asks for none or it is not there yet; and False in the latter case, else True.
        ``quick``: begin nothing."""
        if not query.tables and query.causes is None:
            return None, True
        key = ("analysis", query.only, level.name, window, query.gpus, query.tables)
        what = "verdicts" if trace is self._trace else "tables"
        return self._in_time(what, key, lambda: self._analysed(trace, level, window, query), quick)

    def _in_time(
        self, what: str, key: Hashable, compute: Callable[[], _Answer], quick: bool
    ) -> tuple[_Answer | None, bool]:
        """Compute something that may take long, or return what is kept of it under ``key``. In a large trace it is
        computed in a thread, one of each kind ``what`` at a time; with ``quick`` nothing is begun. Returns the result,
        or None until it is there; and True once it is."""
        if self._answers.holds(key):
            return self._answers.find(key, compute), True
        if quick:
            return None, False
        assert self._trace is not None
        if len(self._trace.intervals) <= LARGE:
            return self._answers.find(key, compute), True
        asked = self._asked.get(what)
        if asked is None or (asked[0] != key and asked[1].done()):
            asked = self._asked[what] = key, self._worker.submit(compute)
        if asked[0] != key or not asked[1].done():
            return None, False
        future = asked[1]
        return self._answers.find(key, lambda: future.result()), True  # type: ignore[return-value]

    def _analysed(self, trace: Trace, level: Level, window: tuple[int, int], query: Query) -> TraceAnalysis:
        """Analyse a window and the GPUs asked for; with the call tree if tables are asked for."""
        whole = window == (self._first, self._last)
        tracks = level.tracks_with_host(query.gpus)
        return analyze_timeline(trace, None if whole else window, tracks, tables=None if query.tables else ["verdicts"])


@once
def _breakdown(analysis: TraceAnalysis) -> Breakdown | None:
    """Return where the GPU time went; None of an analysis without a breakdown."""
    return analysis.breakdown


def _named(level: Level, who: Sequence[Sequence[str]]) -> Flags:
    """Flag the rows of a level of which each list of patterns names one, bool[n_rows]."""
    return np.array([all(any(is_named(row, one) for one in each) for each in who) for row in level.gpus], bool)


def _opened(trace: Trace, level: Level, gpus: tuple[int, ...]) -> Flags:
    """Flag the tracks that belong to these rows of the level (() for all), bool[n_tracks]; for GPUs and streams also the
    threads of their processes."""
    wanted = level.owner_of >= 0 if not gpus else np.isin(level.owner_of, np.array(gpus))
    if level.name not in ("gpus", "streams"):
        return np.asarray(wanted, np.bool_)
    is_thread = np.array([track.kind == "cpu_thread" for track in trace.tracks], bool)
    return np.asarray(wanted | (is_thread & flag_tracks_of_processes(trace.tracks, wanted)), np.bool_)


def _gpus_first(trace: Trace, found: Lanes) -> Lanes:
    """Return the lanes with those of streams above those of threads, which may be many levels deep."""
    below = np.array([trace.tracks[at].kind != "gpu_stream" for at in found.track.tolist()], bool)
    order = np.argsort(below, kind="stable")
    place_of = np.argsort(order, kind="stable")
    lane = place_of[found.lane] if len(order) else found.lane
    return Lanes(found.track[order], found.level[order], found.item[order], found.share[order], found.places, lane)


def _sums(analysis: TraceAnalysis, n_gpus: int) -> Means:
    """Return the sums of a profile's metrics over all of it; unknown (n = 0) in a large profile, where all of it would
    have to be read."""
    tree = analysis.tree
    assert tree is not None
    for name in (TIME, VISITS):
        tree.values(name)  # so that what is drawn without being asked for is there
    few = len(tree) * len(tree.places) * len(tree.metrics) <= MOST_CELLS * 10
    units = {metric.name: "s" if metric.unit == "ns" else metric.unit for metric in tree.metrics}
    names = tuple(f"{OF_COUNTER}{units[metric.name]}:{metric.name}" for metric in tree.metrics)
    total = np.zeros((len(names), n_gpus))
    for at, metric in enumerate(tree.metrics if few else ()):
        values = spread(tree.values(metric.name).inclusive[tree.depth == 0], metric.combine).total
        total[at, 0] = (values.sum() if metric.combine == "sum" else values.max()) / (NS if metric.unit == "ns" else 1)
    n = np.zeros_like(total)
    n[:, 0] = few
    return Means(names, 0.0, 0.0, n, total)


def _at_most(n_gpus: int) -> int:
    return max(MOST_CELLS // max(n_gpus, 1), 1)


def _width(span: float, columns: int, whole: bool) -> float:
    """Choose how wide columns must be, s, so that ``columns`` of them cover ``span`` seconds: the narrowest width of the
    ladder, or for the ``whole`` trace any width, rounded up to two digits, so that they fill the screen."""
    if not whole:
        return choose_width(span, max(columns, 1), FINEST / 2, 0)
    least = max(span / max(columns - 1, 1), FINEST)
    digits = 10.0 ** (math.floor(math.log10(least)) - 1)
    return math.ceil(least / digits - 1e-9) * digits


def _columns(query: Query, width: float, first: int, last: int) -> tuple[int, int, int]:
    """Choose the columns for a query, ``width`` seconds wide. Returns their number, where the first begins and how wide
    each is, both in ns. The last one ends at a multiple of the width, at or after the query's end. ``first`` and
    ``last`` are the trace's own ends, ns."""
    step = max(round(width * NS), 1)
    until = last if query.end is None else round(query.end * NS)
    final = -(-until // step)
    if query.span is None:
        n = min(query.columns, final - first // step)
    else:
        n = min(query.columns, columns_over(query.span, width, until / NS))
    return n, (final - n) * step, step


def _of_window(level: Level, line_of: Ints | None, n_lines: int, low: int, high: int) -> tuple[Floats, Floats]:
    """Measure on each line of a level the time from ``low`` to ``high`` (ns). ``line_of``: the line of each row, -1 for
    none; None: each row is one. Returns the ns by category, float64[n_lines, categories], and all time there is,
    float64[n_lines, 1]."""
    found, spent = level.split(line_of, n_lines, low, max(high - low, 1), 1)
    return found[:, 0], spent


def _divided(total: Floats, weight: Floats) -> Floats:
    """Divide totals by weights; NaN where the weight is 0."""
    values: Floats = np.divide(
        total, weight, out=np.full_like(total, np.nan), where=np.broadcast_to(weight > 0, total.shape)
    )
    return values


def _grid(level: Level, metric: str, begin: int, step: int, at_most: int, n: int) -> Grid:
    """Average a metric into ``n`` columns of ``step`` ns from ``begin`` (ns) on, for each row of the level.

    If ``n`` is more than ``at_most``, columns are wider by a whole factor. They then begin at a multiple of their
    width, at or before ``begin``, and there may be one more of them than needed. The grid's times are seconds.
    """
    factor = -(-n // at_most)
    wide, first = step * factor, begin // (step * factor) * (step * factor)
    columns = -(-(begin + n * step - first) // wide)
    values = _divided(*level.values(metric, None, len(level.gpus), first, wide, columns))
    return Grid(metric, first / NS, wide / NS, values, math.inf)


def _counter(
    level: Level, metric: str, line_of: Ints, begin: int, step: int, n: int, whole: tuple[int, int]
) -> CounterLine:
    """Average a counter in ``n`` columns of ``step`` ns from ``begin`` on, on one line. ``line_of``: 0 for the rows that
    count, -1 for others. The full scale of the result is 1 for a ratio, else the greatest mean over the ``whole`` trace
    (begin and end, ns) and these columns."""
    values = _divided(*level.values(metric, line_of, 1, begin, step, n))[0]
    course = _divided(*level.values(metric, line_of, 1, whole[0], max((whole[1] - whole[0]) // n, 1), n))[0]
    known = np.append(course, values)
    of_ratio = metric.startswith(f"{OF_COUNTER}{RATIO}:") and bool(np.isfinite(known).any())
    full = 1.0 if of_ratio else float(np.nanmax(known, initial=0.0))
    return CounterLine(metric, values, full, level.greatest_value(metric, line_of >= 0, begin, begin + n * step))
