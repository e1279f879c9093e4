"""One look at a recording, growing or finished: what the live screen draws from, and nothing else. A frame never changes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.gpu_name import gpu_label, without_domains
from gssr.metrics import DETECTION_METRICS, HELD_DOWN
from gssr.model.findings.imbalance import grouped_by_index, grouped_by_node, imbalance_between, score_of_medians
from gssr.model.findings.outlier_gpus import culprits, outlier_gpus
from gssr.model.results import (
    Analysis,
    Grid,
    HostUse,
    Imbalance,
    Judgement,
    Means,
    Series,
    Unevenness,
    nodes_of,
    over_space,
)
from gssr.model.statistics.balance import scale_limit
from gssr.model.traces.only import NOTHING, Only
from gssr.model.verdicts.table import RuleTable
from gssr.store.format.rank_ends import RankEnd
from gssr.store.format.rows import Event, Gpu, GpuProcess, RunRow
from gssr.store.format.schema import GAP_INTERVALS

if TYPE_CHECKING:  # whoever looks at a recording without traces needs none of it
    from gssr.model.traced import Traced
    from gssr.model.traces.levels import Level, LevelName
    from gssr.model.traces.nesting import Lanes
    from gssr.model.traces.trace_results import TraceAnalysis
    from gssr.traces.timeline import Timeline as Trace

RECENT_SECONDS = 60.0
"""The running score's window."""
STALE_SECONDS = 2.0
"""A GPU is stale after max(2.5 sampling intervals, 2 s) without a sample."""
BEGINNING_SECONDS = 10.0
"""Ranks don't begin at once: the first sample of a GPU may come so much later than the run's, and nothing is missing."""
HELD_DOWN_SHARE = 0.1
"""A GPU's clocks count as held down where one of HELD_DOWN was set in at least this share of the window's samples (a
threshold of our own)."""
BUSY, IDLE = 0.66, 0.33
"""Shares of the full scale from which on a GPU is busy, and below which it is idle (thresholds of our own)."""

State = Literal["waiting", "live", "stalled", "lost", "ended"]


class UnreadableError(Exception):
    """What is watched can't be read: one sentence."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a frame is to show.

    ``metric``: "" for the best that was measured. ``columns`` columns of time, together at least ``span`` seconds
    (None: the whole run so far), up to ``end`` (unix s; None: the newest sample). ``width``: their width in s, None for
    the narrowest that will do. ``cursor``: the time (unix s) whose column is looked at with all metrics, or None.
    ``activity``: look for where the work begins. ``gpus``: positions of the GPUs whose moment and timeline are wanted,
    () for all. ``rows``: how many lines the timeline may have, 0 for none; ``grouped``: a line holds similar GPUs.
    ``causes``: the rules that judge the window, None for no
    judgement; ``analysis``: analyse it, too, as ``gssr compare`` does. ``beside``: tell also what the nodes did in the
    window and in the cursor's column. ``score_columns``: how many columns the score's curve may have, 0 for none.

    Of traces only: ``level``: what the lines are (None: the trace's own first); ``opened``: show the one GPU asked for
    track by track; ``tables``: make tables of names; ``only``: which intervals count; ``alike``: lines are bands of
    rows that spend their time alike, whenever; ``around``: tell what is open at the cursor, and all that is known of
    one interval: the one with index ``place``, or the innermost at the cursor for -1; ``compared``: the lines are compared
    with each other, by default in what they compute, as waiting for others in communication counts as busy.
    """

    metric: str = ""
    span: float | None = None
    end: float | None = None
    columns: int = 60
    cursor: float | None = None
    width: float | None = None
    activity: bool = False
    gpus: tuple[int, ...] = ()
    rows: int = 0
    grouped: bool = True
    causes: RuleTable | None = None
    beside: bool = False
    score_columns: int = 0
    analysis: bool = False
    level: "LevelName | None" = None
    opened: bool = False
    tables: bool = False
    only: Only = NOTHING
    alike: bool = False
    around: bool = False
    place: int = -1
    compared: bool = False


@dataclass(frozen=True, slots=True)
class GridLines:
    """The grid in a few lines. ``members``: the positions of the GPUs in each line, ascending; ``names``: each line's
    letter if similar GPUs were put together, else (). ``mean`` and ``low`` float64[n_lines, n_columns]: over a line's
    GPUs, NaN where none has a sample. ``shares`` float64[3, n_columns]: of the GPUs that have a value, the shares that
    are busy (from BUSY of the full scale on), medium, and idle (below IDLE)."""

    names: tuple[str, ...]
    members: tuple[Ints, ...]
    mean: Floats
    low: Floats
    shares: Floats


@dataclass(frozen=True, slots=True)
class CounterLine:
    """A counter's mean over all GPUs that have it: ``values`` float64[n_columns], NaN where it is not known; ``full``:
    the greatest mean in the whole trace, 1 for a ratio; ``greatest``: the greatest single value on any of these GPUs in the
    time of the columns, NaN if there is none."""

    metric: str
    values: Floats
    full: float
    greatest: float


class Around(NamedTuple):
    """What is open at the cursor. ``tracks``: by track, the indices of the intervals that are open on it, the innermost
    first. ``place``: index of one interval, -1 for none; ``details``: what its file says about it, None before that is
    read."""

    tracks: Mapping[int, list[int]]
    place: int
    details: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TracePart:
    """What only a frame of a trace has. ``levels`` that there are, and the one whose rows the frame's GPUs are. ``columns``:
    those of ``frame.timeline`` (of very many GPUs they are not the grid's); ``split`` [n_lines, n_columns, categories] and
    ``whole_split`` [n_columns, categories] of all GPUs asked for: shares of time that never add up to more than 1.
    ``total`` [categories]: of the window. ``lanes``: of the GPU that is opened. ``analysis``: of the window and the GPUs
    asked for, None before there is one. ``line_split`` [n_lines, categories]: of the window, where lines are bands that
    spend their time alike. ``around``: what is open at the cursor. ``steps``: when each of the whole trace
    begins, s, by its name. ``matched``: the filter leaves rows and intervals. What nobody asked for is None."""

    trace: "Trace"
    levels: "Mapping[LevelName, Level]"
    level: "Level"
    total: Floats
    columns: Grid | None = None
    split: Floats | None = None
    whole_split: Floats | None = None
    counters: tuple[CounterLine, ...] = ()
    lanes: "Lanes | None" = None
    analysis: "TraceAnalysis | None" = None
    line_split: Floats | None = None
    around: Around | None = None
    steps: Mapping[str, float] = field(default_factory=dict)
    matched: bool = True


@dataclass(frozen=True)
class Result:
    """One look. What its properties say is computed when it is asked for first.

    ``gpus`` are sorted by node, device index and UUID, and everything else counts them by position; ``node_of`` [n_gpus]
    numbers ``nodes``. ``first`` and ``last`` are the times of the first and the newest sample (unix s), ``now`` the time
    that counts as now: while the run lives it goes on when samples stay away. ``silent``: seconds since something new came.
    ``last_time`` [n_gpus], NaN without samples, and ``latest`` [n_gpus], the newest value of the metric, at the window's
    right edge; ``first_time`` [n_gpus] of all of the run, NaN without samples, None of traces and nodes. ``active_from``:
    where the run begins to work (gssr.model.window.warm_up_and_tear_down), unix s, None when that was not asked for; of a
    trace when the first work of any GPU starts, None without any. ``whole``, ``recent`` (RECENT_SECONDS up to the window's
    right edge) and ``window`` (of the grid; while the run lives it may be some seconds old) hold means; ``moment`` the means
    of all metrics in the cursor's column, over the GPUs asked for. ``timeline``: None when none was asked for. ``n_gaps``
    [n_gpus]. ``problem``: what could not be read, one sentence. ``following``: the window's right edge is the newest sample.
    ``coming`` [n_gpus]: something came of the GPU just now, whatever its node's clock says; None when the run does not grow,
    or the past is looked at. ``reread``: seconds since all that is no newest sample was read from the files (events, host,
    means of a window other than the whole run), None where that is as new as the samples. ``thinned``: of the time before
    this (unix s) nothing finer than 10 s is known, because samples were not kept. ``ranks_missing``: of the run's ranks
    those that are not in the recording (yet), as far as is known; ``ranks_stopped``: those that were lost or failed, the
    first of them first. ``judgement``: the newest on this window and the GPUs asked for, of a growing run some seconds old;
    None where there is none yet; ``analysis``: what it is compared with another run by, None where nobody asked or there is
    none yet. ``part``: None but of a trace, whose times are seconds after the trace's own zero.
    ``score_curve``: the score of all GPUs together over the window, a grid of one row; None where nobody asked, or its
    metrics were not measured. ``newest`` [n_metrics, n_gpus]: the newest value of each of ``whole.names``, NaN without any;
    None where the run does not grow. ``by_node``: a metric of the nodes is shown, and each of the ``gpus`` stands for one;
    ``of_gpus``: the GPUs in the same window, None where there are none. ``greatest``: of each of the nodes' rates in all of
    the run. ``processes``: those that were on the GPUs at the window's right edge, as far as they are recorded, GPU by GPU;
    ``without_process``: the GPUs that were looked at, and had none. Of other GPUs it is not known; of very many files never.
    ``traced``: what traces of the run say of all of it; a frame of these themselves counts unix s, too, and the recording's
    first sample is of ``since``."""

    path: str
    query: Query
    state: State
    run: RunRow | None
    gpus: tuple[Gpu, ...]
    nodes: tuple[str, ...]
    node_of: Ints
    first: float
    last: float
    now: float
    silent: float
    sampling_seconds: float
    n_rows: int
    n_gaps: Ints
    last_time: Floats
    latest: Floats
    grid: Grid
    space: Series
    whole: Means
    recent: Means
    window: Means
    moment: Mapping[str, float | None]
    host: HostUse | None
    events: tuple[Event, ...]
    problem: str | None
    following: bool
    refined: bool = True
    active_from: float | None = None
    timeline: GridLines | None = None
    coming: Flags | None = None
    reread: float | None = None
    thinned: float = -math.inf
    ranks_missing: tuple[int, ...] = ()
    ranks_stopped: tuple[RankEnd, ...] = ()
    judgement: Judgement | None = None
    analysis: Analysis | None = None
    part: TracePart | None = None
    newest: Floats | None = None
    by_node: bool = False
    of_gpus: "Result | None" = None
    greatest: Mapping[str, float] = field(default_factory=dict)
    processes: tuple[GpuProcess, ...] = ()
    without_process: frozenset[int] = frozenset()
    traced: tuple["Traced", ...] = ()
    since: float | None = None
    first_time: Floats | None = None
    score_curve: Grid | None = None

    @property
    def is_live(self) -> bool:
        """True if what is shown ends now: the run lives, and its newest samples are followed."""
        return self.following and self.part is None and self.state in ("live", "stalled")

    def lately(self, metric: str) -> Floats:
        """Return a metric's newest values if the run lives and is followed, else its means over the window,
        float64[n_gpus]; NaN without any."""
        if self.newest is None or not self.is_live or metric not in self.whole.names:
            return self.window.per_gpu(metric)
        newest: Floats = self.newest[self.whole.names.index(metric)]
        return newest

    @property
    def duration(self) -> float:
        """The length of the run, s: of one that has ended as it was recorded of the workload, as pages tell it; else, and of
        traces, from the first sample to the newest."""
        run = self.run
        if self.part is not None or self.state != "ended" or run is None:
            return self.last - self.first
        begun = self.first if run.started_at is None else run.started_at
        ended = self.last if run.ended_at is None else run.ended_at
        return max(ended - begun, 0.0)

    @property
    def noun(self) -> str:
        """The word for one of ``gpus``: a node if nodes are shown, in traces also a stream or a thread."""
        if self.by_node:
            return "node"
        return "GPU" if self.part is None else self.part.level.noun

    @property
    def n_gpus(self) -> int:
        """The number of rows of the frame: its GPUs, or what it shows instead of them."""
        return len(self.gpus)

    @property
    def gpus_of_run(self) -> int:
        """The number of GPUs of the run, whatever the rows are."""
        gpus = self.of_gpus or self
        return 0 if gpus.by_node else gpus.n_gpus

    def place(self, gpu: int) -> str:
        """Return the name of the GPU at this position (see gssr.gpu_name.gpu_label), or of the node."""
        return self.nodes[gpu] if self.by_node else gpu_label(self.gpus[gpu], self.nodes[self.node_of[gpu]])

    def on_node(self, node: int) -> Ints:
        """Return the positions of a node's GPUs."""
        return np.flatnonzero(self.node_of == node)

    def with_judgement(self, judgement: Judgement | None) -> "Result":
        """Return the result with this judgement on its window, and if it shows nodes, on that of their GPUs as well."""
        gpus = None if self.of_gpus is None else replace(self.of_gpus, judgement=judgement)
        return replace(self, judgement=judgement, of_gpus=gpus)

    @property
    def looked_at(self) -> Ints:
        """Positions of the GPUs that the query asks for: all if it names none."""
        return np.array(self.query.gpus, np.int64) if self.query.gpus else np.arange(self.n_gpus)

    # Which GPUs need a look, and why

    @cached_property
    def blamed(self) -> tuple[int, ...]:
        """Positions of the GPUs that the worst verdict blames; () if these are most of those looked at, or there is no
        judgement."""
        found = self.judgement.verdicts if self.judgement is not None else ()
        return self.of_looked_at(culprits(found, len((self.of_gpus or self).looked_at)))

    @cached_property
    def awaited(self) -> tuple[int, ...]:
        """Positions of the GPUs that wait least while the others wait, which is the largest loss; () if it is another,
        or nobody can be named, or there is no judgement."""
        leading = self.judgement.leading_loss if self.judgement is not None else None
        return self.of_looked_at(leading.awaited) if leading is not None else ()

    @property
    def singled_out(self) -> tuple[int, ...]:
        """Positions of the GPUs that the judgement singles out: those that the others wait for, else those that the worst
        verdict blames; () if it singles out none."""
        return self.awaited or self.blamed

    def of_looked_at(self, gpus: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of GPUs that a judgement numbers among those looked at; if the rows are nodes, those of
        their nodes."""
        shown = self.of_gpus or self
        looked_at = shown.looked_at
        found = looked_at[[at for at in gpus if at < len(looked_at)]]
        return tuple((np.unique(shown.node_of[found]) if self.by_node else found).tolist())

    @cached_property
    def unlike(self) -> Flags:
        """Flags of the GPUs that are unlike the rest in the grid's metric over the window, bool[n_gpus], by the same
        rule as on the page (gssr.model.findings.outlier_gpus)."""
        name = self.grid.metric
        return outlier_gpus(name, self.window.per_gpu(name), self._full_scale, self.blamed)

    @cached_property
    def age(self) -> Floats:
        """Seconds since each GPU's last sample if that is too long, infinity if the window has none, else 0,
        float64[n_gpus]. Always 0 for traces and nodes: a trace ends for each GPU when it does, and nodes are read now
        and then."""
        if self.part is not None or self.by_node:
            return np.zeros(self.n_gpus)
        grid, last = self.grid, self.last_time
        if not self.following:  # what was known then
            known = np.isfinite(grid.values)
            column = grid.n - 1 - np.argmax(known[:, ::-1], axis=1)
            last = np.minimum(np.where(known.any(axis=1), grid.start + (column + 1) * grid.width, np.nan), last)
        age = self.now - last
        if self.state == "live" and self.now <= self.first + BEGINNING_SECONDS:  # the first may still come
            age = np.nan_to_num(age)
        if self.coming is not None:
            age = np.where(self.coming, 0.0, age)
        patience = max(GAP_INTERVALS * self.sampling_seconds, STALE_SECONDS)
        return np.where(np.isnan(age), np.inf, np.where(age > patience, age, 0.0))

    @cached_property
    def missing(self) -> Floats:
        """Seconds of the window, float64[n_gpus], in complete columns in which others had samples of the metric and the
        GPU had none. Time before a GPU's first sample does not count if that came within BEGINNING_SECONDS. Always 0
        for traces and nodes."""
        grid, known = self.grid, np.isfinite(self.grid.values)
        if self.part is not None or self.by_node or known.all():
            return np.zeros(self.n_gpus)
        ends = np.arange(1, grid.n + 1) * grid.width + grid.start
        lacks = ~known & (np.isfinite(self.space.mean) & (ends <= min(grid.closed, self.last)))
        if self.first_time is not None:
            begin = np.where(np.isnan(self.first_time), self.now, self.first_time)
            column = grid.start + grid.width * np.argmax(known, axis=1)  # of a rate the first sample has no value
            begin = np.fmax(begin, np.where(known.any(axis=1), column, begin))
            soon = begin <= self.first + BEGINNING_SECONDS
            lacks &= ends > np.where(soon, begin, -np.inf)[:, None]
        return np.asarray(grid.width * lacks.sum(axis=1), np.float64)

    @cached_property
    def held_down(self) -> Flags:
        """Flags of the GPUs whose clocks were held down for at least HELD_DOWN_SHARE of the window, bool[n_gpus]; False
        if that is unknown, and for traces and nodes."""
        found = np.zeros(self.n_gpus, bool)
        if self.part is None and not self.by_node:
            for name in HELD_DOWN:
                found |= self.window.per_gpu(name) >= HELD_DOWN_SHARE
        return found

    def letters(self, gpu: int) -> str:
        """Return the letters that apply to a GPU: ``g`` for a gap, ``!`` if it is unlike the rest, ``t`` if clocks were
        held down; "" for none."""
        gap = self.age[gpu] > 0 or self.missing[gpu] > 0
        pairs = (("g", gap), ("!", self.unlike[gpu]), ("t", self.held_down[gpu]))
        return "".join(letter for letter, applies in pairs if applies)

    @cached_property
    def marked(self) -> Flags:
        """Flags of the GPUs that are unlike the rest, or have a gap or lowered clocks if fewer than half of the GPUs
        have the same, bool[n_gpus]."""
        found = self.unlike.copy()
        for flags in ((self.age > 0) | (self.missing > 0), self.held_down):
            if 2 * flags.sum() < self.n_gpus:
                found |= flags
        return found

    # How uneven they are

    @property
    def _full_scale(self) -> float:
        """The value with which a GPU's mean of the grid's metric is compared."""
        name = self.grid.metric
        return (
            scale_limit(self.gpus, name)
            or self.greatest.get(name)
            or float(np.nanmax(self.window.per_gpu(name), initial=0.0))
        )

    @cached_property
    def imbalance(self) -> Imbalance:
        """The imbalance of the GPUs asked for, column by column of the grid."""
        grid, gpus = self.grid, self.looked_at
        values = grid.values[gpus] if self.query.gpus else grid.values
        space = over_space(replace(grid, values=values)) if self.query.gpus else self.space
        window = max(self.window.start, self.first), min(self.window.end, self.last)
        means = self.window.per_gpu(grid.metric, gpus)
        return imbalance_between(gpus, means, values, space, self._full_scale, window)

    @cached_property
    def unevenness(self) -> Unevenness:
        """The unevenness of the GPUs asked for. It is the page's finding if this window was judged by the grid's metric;
        while the run lives, and for other metrics, it comes from the columns of the grid."""
        found = None if self.judgement is None or self.is_live else self.judgement.unevenness
        if found is None or found.metric != self.grid.metric:
            own = self.imbalance
            return Unevenness(
                self.grid.metric, self.grid.start, self.grid.width, own, None, score_of_medians(self.window, own.gpus),
                self.nodes, grouped_by_node(own, self.node_of), grouped_by_index(own, self.gpus, self.node_of), (),
            )  # fmt: skip
        found = found.numbered(self.looked_at)
        there = np.array(list(dict.fromkeys(self.node_of[found.imbalance.gpus].tolist())), np.int64)
        by_node = replace(found.by_node, keys=there[found.by_node.keys])
        return replace(found, nodes=self.nodes, by_node=by_node)


def nothing_yet(
    path: str, query: Query, state: State, problem: str | None = None, gpus: tuple[Gpu, ...] = ()
) -> Result:
    """Make the frame of something that has no samples yet or could not be read (``problem`` says why). ``gpus``: those
    known already."""
    nodes, node_of = nodes_of(gpus)
    unknown = np.full(len(gpus), np.nan)
    values = np.full((len(gpus), max(query.columns, 1)), np.nan)
    grid = Grid(query.metric or DETECTION_METRICS[0], 0.0, 1.0, values, 0.0)
    means = Means((), 0.0, 0.0, np.zeros((0, len(gpus))), np.zeros((0, len(gpus))))
    return Result(
        path=path, query=query, state=state, run=None, gpus=gpus, nodes=without_domains(nodes), node_of=node_of, first=0.0,
        last=0.0, now=0.0, silent=0.0, sampling_seconds=0.0, n_rows=0, n_gaps=np.zeros(len(gpus), np.int64),
        last_time=unknown, latest=unknown, grid=grid, space=over_space(grid), whole=means, recent=means,
        window=means, moment={}, host=None, events=(), problem=problem, following=query.end is None,
    )  # fmt: skip
