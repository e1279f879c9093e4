"""A trace watched as a recording is: the same query, the same frame. Times are seconds after the trace's own zero, computed
in whole nanoseconds."""

import math
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import OF_COUNTER
from gssr.model.live.frame import CounterLine, Frame, Query, Timeline, TracePart
from gssr.model.live.timeline import Timelines, neighbours
from gssr.model.results import Grid, Judgement, Means, nodes_of, over_space
from gssr.model.statistics.grid import choose_width
from gssr.model.traces.analyze import analyze_timeline
from gssr.model.traces.as_metrics import Level, LevelName, levels_of
from gssr.model.traces.nesting import Lanes, lanes
from gssr.model.traces.results import TraceAnalysis
from gssr.store.format.rows import Event
from gssr.traces.open import TraceError
from gssr.traces.timeline import Kind
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
_KEPT = 16

_Answer = TypeVar("_Answer")


class Watched(Protocol):
    """What is looked at: a recording (gssr.model.live.watch) or a trace."""

    path: str
    run_ids: tuple[str, ...]

    @property
    def growing(self) -> bool: ...
    @property
    def pace(self) -> float: ...
    def look(self, query: Query, quick: bool = False) -> Frame: ...
    def close(self) -> None: ...


class WatchTrace:
    """Watches the trace that ``read`` gives, called at the first look, of the file, folder or files named ``path``."""

    pace = 0.0
    run_ids: tuple[str, ...] = ()

    def __init__(self, path: str, read: Callable[[], Trace]) -> None:
        self.path = path
        self._read = read
        self._trace: Trace | None = None
        self._problem: str | None = None
        self._kept: OrderedDict[object, object] = OrderedDict()
        self._worker = ThreadPoolExecutor(1, "gssr-analysis")
        self._asked: tuple[object, Future[TraceAnalysis]] | None = None
        self.growing = True
        """Something more will be known."""

    def close(self) -> None:
        """Let what is not begun not begin."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def look(self, query: Query, quick: bool = False) -> Frame:
        """What the query asks for. Never raises for what is wrong with the files: the frame says it. With ``quick`` what
        takes long of a large trace is left out where it is not known already, and ``refined`` is False then: reading,
        tables, verdicts. The first look after reading is quick, too."""
        if self._trace is None and self._problem is None:
            if quick:
                return _nothing(self.path, query, None)
            try:
                self._open(self._read())
            except (TraceError, ValueError, OSError) as error:
                self._problem = str(error)
            quick = True
        if self._trace is None:
            frame = _nothing(self.path, query, self._problem)
        else:
            frame = self._frame(query, quick and len(self._trace.intervals) > LARGE)
        self.growing = not frame.refined
        return frame

    def _open(self, trace: Trace) -> None:
        if not len(trace.intervals):
            raise ValueError(f"{self.path}: holds no intervals")
        own = trace.intervals
        self._trace = trace
        self._levels = levels_of(trace)
        self._timelines = {name: Timelines() for name in self._levels}
        self._nodes: dict[LevelName, tuple[tuple[str, ...], Ints]] = {}
        self._first, self._last = int(own.start[0]), int((own.start + own.length).max())
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

    def _remembered(self, key: object, compute: Callable[[], _Answer]) -> _Answer:
        if key not in self._kept:
            self._kept[key] = compute()
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]  # type: ignore[return-value]

    def _frame(self, query: Query, quick: bool) -> Frame:
        assert self._trace is not None
        name: LevelName = query.level if query.level in self._levels else next(iter(self._levels))
        level, trace = self._levels[name], self._trace
        if name not in self._nodes:
            self._nodes[name] = nodes_of(level.gpus)
        nodes, node_of = self._nodes[name]
        n_gpus = len(level.gpus)
        first, last = self._first / NS, self._last / NS
        newest = last if query.end is None else min(query.end, last)
        span = max(newest - first, FINEST) if query.span is None else query.span
        width = query.width or _width(span, query.columns, query.span is None)
        n, begin, step = _columns(query, width, self._first, self._last)
        metric = query.metric if query.metric in level.metrics or ":" in query.metric else "busy"
        grid = self._remembered(
            (name, metric, begin, step, n), lambda: _grid(level, metric, begin, step, min(n, _at_most(n_gpus)), n)
        )
        low, high = max(begin, self._first), min(begin + n * step, self._last)
        window = self._remembered((name, metric, low, high), lambda: level.means(low, high, metric))
        whole = self._remembered(
            (name, metric, self._first, self._last), lambda: level.means(self._first, self._last, metric)
        )
        moment: dict[str, float | None] = {}
        gpus = np.array(query.gpus, np.int64) if query.gpus else None
        if query.cursor is not None:
            at = begin + max(int((query.cursor * NS - begin) // step), 0) * step
            moment = level.means(at, at + step, metric).overall(gpus)
        columns = begin, step, n
        asked = (name, metric, columns, query.gpus, query.rows, query.grouped, query.opened)
        timeline, part = self._remembered(asked, lambda: self._part(query, level, grid, window, columns))
        analysis, refined = self._analysis(query, level, (low, high), quick)
        if not level.ready_to_zoom():
            refined = refined and not quick
            if not quick:
                level.prepare()
        judgement = None
        if analysis is not None and query.causes is not None:
            judgement = Judgement(analysis.verdicts, analysis.abstentions, low / NS, high / NS)
        known = np.isfinite(grid.values)
        final = grid.values.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
        latest = np.where(known.any(axis=1), grid.values[np.arange(n_gpus), final], np.nan)
        steps = () if analysis is None else analysis.steps
        happened = [Event(each.start_ns / NS, None, None, each.rank, "mark", each.name) for each in steps]
        return Frame(
            path=self.path, query=query, state="ended", run=None, gpus=level.gpus, nodes=nodes, node_of=node_of,
            first=first, last=last, now=last, silent=0.0, sampling_seconds=0.0, n_rows=len(trace.intervals),
            n_gaps=np.zeros(n_gpus, np.int64), last_time=np.full(n_gpus, last), latest=latest, grid=grid,
            space=over_space(grid.values), whole=whole, recent=window, window=window, moment=moment, host=None,
            events=(*self._events, *happened), problem=None, following=query.end is None, refined=refined,
            timeline=timeline, judgement=judgement, part=replace(part, analysis=analysis),
        )  # fmt: skip

    def _part(
        self, query: Query, level: Level, grid: Grid, window: Means, columns: tuple[int, int, int]
    ) -> tuple[Timeline | None, TracePart]:
        """The timeline, and what goes with it."""
        assert self._trace is not None
        trace, (begin, step, n) = self._trace, columns
        n_gpus = len(level.gpus)
        looked_at = np.array(query.gpus, np.int64) if query.gpus else np.arange(n_gpus)
        all_in_one = np.full(n_gpus, -1)
        all_in_one[looked_at] = 0
        total = level.split_of(window.overall(looked_at if query.gpus else None))
        part = TracePart(trace, self._levels, level, total)
        if not query.rows:
            return None, part
        timeline, own = self._lines(query, level, grid, window, looked_at, columns)
        lines = np.full(n_gpus, -1)
        for line, members in enumerate(timeline.members):
            lines[members] = line
        opened: Lanes | None = None
        if query.opened and len(query.gpus) == 1:
            wanted, of = level.owner_of == query.gpus[0], trace.intervals
            opened = lanes(of.start, of.length, of.track, wanted, begin, step, n)
        names = [name for name in level.metrics if name.startswith(OF_COUNTER)][:MOST_COUNTERS]
        whole = self._first, self._last
        found, time = level.split(lines, len(timeline.members), begin, step, n)
        counted = [_counter(level, name, all_in_one, begin, step, n, whole) for name in names]
        return timeline, replace(
            part,
            columns=own,
            split=_divided(found, time[:, :, None]),
            whole_split=_divided(found.sum(axis=0), time.sum(axis=0)[:, None]),
            lanes=opened,
            counters=tuple(counter for counter in counted if counter.full > 0),
        )

    def _lines(
        self, query: Query, level: Level, grid: Grid, window: Means, looked_at: Ints, columns: tuple[int, int, int]
    ) -> tuple[Timeline, Grid]:
        """The lines of the timeline, and their columns: the grid's where it has all that were asked for; of more GPUs than
        that neighbours share a line. Two rows each: how much, and of what."""
        begin, step, n = columns
        rows = max((query.rows - MOST_COUNTERS) // 2, 1)
        node_of = self._nodes[level.name][1]
        if grid.n == n:
            own = replace(query, rows=rows, grouped=query.grouped and len(looked_at) > rows)
            return self._timelines[level.name].show(own, grid, window, level.gpus, node_of, False), grid
        owner = neighbours(node_of[looked_at], rows)
        n_lines = int(owner.max(initial=-1)) + 1
        lines = np.full(len(level.gpus), -1)
        lines[looked_at] = owner
        mean = _divided(*level.values(grid.metric, lines, n_lines, begin, step, n))
        unknown = np.full(mean.shape, np.nan)
        members = tuple(looked_at[owner == line] for line in range(n_lines))
        shown = Timeline((), members, mean, unknown, np.full((3, n), np.nan))
        return shown, Grid(grid.metric, begin / NS, step / NS, mean, math.inf)

    def _analysis(
        self, query: Query, level: Level, window: tuple[int, int], quick: bool
    ) -> tuple[TraceAnalysis | None, bool]:
        """What is found out of the window and the GPUs asked for, where a screen shows it; and whether nothing was left
        out because it would take long."""
        if not query.tables and query.causes is None:
            return None, True
        key = ("analysis", level.name, window, query.gpus)
        if key in self._kept:
            return self._remembered(key, lambda: self._analysed(level, window, query.gpus)), True
        if quick:
            return None, False
        assert self._trace is not None
        if len(self._trace.intervals) <= LARGE:
            return self._remembered(key, lambda: self._analysed(level, window, query.gpus)), True
        if self._asked is None or (self._asked[0] != key and self._asked[1].done()):
            self._asked = key, self._worker.submit(self._analysed, level, window, query.gpus)
        if self._asked[0] != key or not self._asked[1].done():
            return None, False
        return self._remembered(key, self._asked[1].result), True

    def _analysed(self, level: Level, window: tuple[int, int], gpus: tuple[int, ...]) -> TraceAnalysis:
        assert self._trace is not None
        trace = self._trace
        whole = window == (self._first, self._last)
        tracks: Ints | None = None
        if gpus:
            wanted = np.isin(level.owner_of, np.array(gpus))
            if level.name in ("gpus", "streams"):  # what these ranks did on the CPU belongs to it
                ranks = {trace.tracks[at].rank for at in np.flatnonzero(wanted).tolist()}
                beside = [track.kind != "gpu_stream" and track.rank in ranks for track in trace.tracks]
                wanted |= np.array(beside, bool)
            tracks = np.flatnonzero(wanted)
        return analyze_timeline(trace, None if whole else window, tracks)


def _at_most(n_gpus: int) -> int:
    return max(MOST_CELLS // max(n_gpus, 1), 1)


def _width(span: float, columns: int, whole: bool) -> float:
    """The narrowest width, s, of which so many columns cover a span: of the ``whole`` in two digits, to fill them."""
    if not whole:
        return choose_width(span, max(columns, 1), FINEST / 2, 0)
    least = max(span / max(columns - 1, 1), FINEST)
    digits = 10.0 ** (math.floor(math.log10(least)) - 1)
    return math.ceil(least / digits - 1e-9) * digits


def _columns(query: Query, width: float, first: int, last: int) -> tuple[int, int, int]:
    """How many columns, where the first begins and how wide each is, ns."""
    step = max(round(width * NS), 1)
    until = last if query.end is None else round(query.end * NS)
    final = -(-until // step)
    n = query.columns if query.span is not None else min(query.columns, final - first // step)
    return n, (final - n) * step, step


def _divided(total: Floats, weight: Floats) -> Floats:
    values: Floats = np.divide(
        total, weight, out=np.full(total.shape, np.nan), where=np.broadcast_to(weight > 0, total.shape)
    )
    return values


def _grid(level: Level, metric: str, begin: int, step: int, at_most: int, n: int) -> Grid:
    """In ``n`` columns, or in as many wider ones as there may be."""
    factor = -(-n // at_most)
    wide, first = step * factor, begin // (step * factor) * (step * factor)
    columns = -(-(begin + n * step - first) // wide)
    values = _divided(*level.values(metric, None, len(level.gpus), first, wide, columns))
    return Grid(metric, first / NS, wide / NS, values, math.inf)


def _counter(
    level: Level, metric: str, line_of: Ints, begin: int, step: int, n: int, whole: tuple[int, int]
) -> CounterLine:
    values = _divided(*level.values(metric, line_of, 1, begin, step, n))[0]
    course = _divided(*level.values(metric, line_of, 1, whole[0], max((whole[1] - whole[0]) // n, 1), n))[0]
    return CounterLine(metric, values, float(np.nanmax(np.append(course, values), initial=0.0)))


def _nothing(path: str, query: Query, problem: str | None) -> Frame:
    """What could not be read."""
    none, values = np.zeros(0), np.zeros((0, max(query.columns, 1)))
    means = Means((), 0.0, 0.0, np.zeros((0, 0)), np.zeros((0, 0)))
    return Frame(
        path=path, query=query, state="waiting" if problem is None else "ended", run=None, gpus=(), nodes=(),
        node_of=np.zeros(0, np.int64), first=0.0, last=0.0, now=0.0, silent=0.0, sampling_seconds=0.0, n_rows=0,
        n_gaps=np.zeros(0, np.int64), last_time=none,
        latest=none, grid=Grid(query.metric, 0.0, 1.0, values, 0.0), space=over_space(values), whole=means, recent=means,
        window=means, moment={}, host=None, events=(), problem=problem, following=True,
        refined=problem is not None,
    )  # fmt: skip
