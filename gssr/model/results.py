"""What an analysis of a run holds. Every page, picture and JSON object is drawn from this and nothing else."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.gpu_name import gpu_label
from gssr.metrics import SCORE_INPUTS
from gssr.model.breakdown.result import Breakdown
from gssr.model.percentiles import known_percentiles
from gssr.model.run_history import History
from gssr.peaks import Peaks
from gssr.score import score_of_means
from gssr.store.format.rank_ends import RankEnd
from gssr.store.format.rows import Event, Gpu, GpuProcesses, RunRow

if TYPE_CHECKING:  # few runs have traces, and these classes take long to make
    from gssr.model.traced import Traced


@dataclass(frozen=True, slots=True)
class Statistics:
    """A metric's statistics over all samples of all GPUs that have a value, in the metric's unit; ``std`` has ddof 0. ``n``:
    how many samples these are; with n = 0 all others are None. ``p_error`` bounds the absolute error of median, p05 and p95:
    0 when they are exact, None when unknown. From rollups, of a counter only ``n`` is known, and ``min`` and ``max`` where
    it was never set back."""

    mean: float | None
    median: float | None
    min: float | None
    max: float | None
    std: float | None
    p05: float | None
    p95: float | None
    n: int
    p_error: float | None


class GpuMeans(Mapping[str, float | None]):
    """One GPU's means of the metrics ``names``: a row of ``columns`` [n_sampled], NaN without samples, which all GPUs
    share. Dictionaries of a hundred thousand GPUs would take a hundred times as much memory."""

    __slots__ = ("_columns", "_gpu", "_names")

    def __init__(self, names: Mapping[str, None], columns: Mapping[str, Floats], gpu: int) -> None:
        self._names, self._columns, self._gpu = names, columns, gpu

    def __getitem__(self, name: str) -> float | None:
        if name not in self._names:
            raise KeyError(name)
        column = self._columns.get(name)
        value = math.nan if column is None else float(column[self._gpu])
        return value if value == value else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """One GPU over the window. ``gpu`` is its key in the recording, not a position. ``score`` is None where it can't be
    known. ``mean`` by metric name, None where it has no samples (a GpuMeans). ``memory_total`` (bytes), ``power_limit``
    (W) and ``max_sm_clock`` (MHz) are the full scales of memory_used, power_usage and sm_clock. ``mig`` names the MIG
    instance, None of a whole GPU."""

    gpu: int
    node: str | None
    rank: int | None
    device_index: int | None
    uuid: str | None
    name: str | None
    n_samples: int
    n_gaps: int
    score: float | None
    mean: Mapping[str, float | None]
    memory_total: int | None = None
    power_limit: float | None = None
    max_sm_clock: int | None = None
    mig: str | None = None
    backend: str | None = None

    @property
    def place(self) -> str:
        """The GPU's name on pages and screens, such as ``node0:3`` (gssr.gpu_name.gpu_label)."""
        return gpu_label(self)


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly GPUs ran, by their time means of one metric. ``imbalance`` = 1 - mean/max of those means, None when the
    max is 0 or unknown. ``lowest`` and ``highest`` are None when no GPU has samples."""

    imbalance: float | None
    lowest: GpuSummary | None
    highest: GpuSummary | None


@dataclass(frozen=True, slots=True)
class AnalysisWindow:
    """The time looked at, unix s. ``leading`` and ``trailing``: the seconds that --detect-outliers left out at its
    ends. ``whole``: whether it is all of the run."""

    start: float
    end: float
    leading: float
    trailing: float
    whole: bool

    @property
    def duration(self) -> float:
        """The length of the window, s."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class HostUse:
    """What the nodes and the workload's processes did in the window; None where it was not measured.

    ``cpu_utilization`` (ratio), ``load1`` and the rates (bytes/s) are means over all nodes and seconds; ``memory_used``
    and ``memory_total`` (bytes) the greatest of any node. ``workload_cpu`` is the number of cores kept busy: the sum over
    ranks of their means; ``workload_rss`` (bytes) and ``workload_processes`` the sums of the ranks' greatest."""

    cpu_utilization: float | None
    load1: float | None
    memory_used: float | None
    memory_total: float | None
    read_bytes: float | None
    write_bytes: float | None
    net_rx_bytes: float | None
    net_tx_bytes: float | None
    fabric_rx_bytes: float | None
    fabric_tx_bytes: float | None
    workload_cpu: float | None
    workload_rss: float | None
    workload_processes: float | None


Severity = Literal["info", "warning", "critical"]


SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One number that a verdict rests on. ``metric``: a metric of the catalogue, a clock event reason, or what else was
    measured; ``value`` in its unit; ``threshold``: what it was held against, None if nothing; ``text``: both in words."""

    metric: str
    value: float
    threshold: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule has found. ``code`` names the rule (gssr.model.verdicts.rules), ``source`` where its thresholds come
    from. ``start`` and ``end``: when it held, unix s. ``gpus``: positions, among the GPUs looked at, of those
    concerned; empty for all of them. ``lost``: which share (0-1) of all the GPUs' time its cure would save, None where
    that can't be told. ``gpu_hours``: how many of the window's GPU-hours that is; None where it can't be told, and for
    an info. ``aliases``: what the code was called earlier."""

    code: str
    severity: Severity
    title: str
    evidence: tuple[Finding, ...]
    advice: str
    source: str
    start: float
    end: float
    gpus: tuple[int, ...] = ()
    gpu_hours: float | None = None
    lost: float | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeadingLoss:
    """What the largest loss of GPU time is due to: ``share`` (0-1) of the GPU time, and a ``text`` that completes "25 % is
    ...". ``awaited``: positions of the GPUs that the others wait for; empty where it is not that, or nobody can be named."""

    share: float
    text: str
    awaited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long a step of the program took. ``seconds``: on average; ``accuracy``: the standard error of that, as a
    share. ``changed_at`` (unix s): where the ``series`` changed most; ``change``: by which share from then on. Both are
    None where it did not change. ``series``: (unix s, seconds) window by window."""

    seconds: float
    accuracy: float
    changed_at: float | None
    change: float | None
    series: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a window of a run says, from ``start`` to ``end`` (unix s): page, screen and fleet show this and judge nothing
    themselves. GPUs are numbered among those asked for.

    ``verdicts``: the worst first and otherwise in the order of the rules, causes before what they explain; ``abstentions``:
    the rules that could not be judged, by code, with a clause on what was missing. ``not_judged``: why nothing is judged, a
    clause (samples are too few, the file of a trace is damaged), else None. ``step``: how long a step took, None where
    nothing tells. ``breakdown``: where the GPU time went; None if no GPU has two samples. ``leading_loss``: what its
    largest loss is due to, None where no verdict tells. ``phases``, in the order of time. ``unevenness``: None where there
    are no two GPUs to compare. ``peaks``: of all GPUs, None where they are unknown; ``place``: where the run lies under the
    roofline, None where that was not looked at."""

    verdicts: tuple[Verdict, ...]
    abstentions: Mapping[str, str]
    start: float
    end: float
    step: StepTime | None = None
    breakdown: Breakdown | None = None
    leading_loss: LeadingLoss | None = None
    phases: "tuple[Phase, ...]" = ()
    unevenness: "Unevenness | None" = None
    peaks: Peaks | None = None
    place: "Place | str | None" = None
    not_judged: str | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """Dips of a metric that come back: ``count`` of them, every ``period`` seconds (None: without a period), of ``seconds``
    each on average, together ``share`` (0-1) of the time; ``low`` and ``high``: the mean in and between them, in the
    metric's unit."""

    count: int
    period: float | None
    seconds: float
    share: float
    low: float
    high: float


Bound = Literal["compute", "memory", "neither"]


NEAR = 0.4
"""From this share of the roof on it is the roof that bounds; below, something else does (a threshold of our own)."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """One pipe of a GPU, such as the tensor cores. ``metric``: the name of its activity; ``label``: what it is called;
    ``active``: its activity (ratio, 0-1); ``peak``: FLOP/s, None where unknown."""

    metric: str
    label: str
    active: float
    peak: float | None

    @property
    def flops(self) -> float:
        """The most FLOP/s that the pipe can have done: its activity times its peak, 0 where that is unknown."""
        return self.active * (self.peak or 0.0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a GPU, on average over the GPUs, lies under the roofline: ``flops`` (FLOP/s), ``bytes`` (B/s) and ``intensity``
    (FLOP/B), upper bounds all. ``dominant``: the pipe that does most of it; ``roof``: the FLOP/s that are possible at this
    intensity with that pipe; ``ridge`` (FLOP/B): where the roof's slope ends. ``unpriced``: active pipes whose peak is
    unknown, which are left out."""

    flops: float
    bytes: float
    intensity: float
    dominant: Pipe
    pipes: tuple[Pipe, ...]
    roof: float
    ridge: float
    unpriced: tuple[str, ...]

    @property
    def of_roof(self) -> float:
        """``flops`` as a share of ``roof``; above 1 where several pipes together do more than the dominant one could."""
        return self.flops / self.roof

    @property
    def bound(self) -> Bound:
        """The limit that the GPU comes near: "neither" below NEAR of the roof, else "compute" right of the ridge (and on
        it), and "memory" left of it."""
        if self.of_roof < NEAR:
            return "neither"
        return "compute" if self.intensity >= self.ridge else "memory"


Kind = Literal["start-up", "steady", "recurring", "idle", "tail"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a run. ``start`` and ``end`` in unix s; ``share`` (0-1) of the window's GPU-hours; ``score`` and
    ``means`` over it, None where unknown; ``place``: where it lies under the roofline, or a clause on why it has no place;
    ``verdicts``: those that hold in it. ``cycle``: the dips of a recurring phase, in the first of
    gssr.metrics.DETECTION_METRICS that was measured; None for others."""

    kind: Kind
    start: float
    end: float
    share: float
    score: float | None
    means: Mapping[str, float | None]
    place: Place | str
    verdicts: tuple[Verdict, ...] = ()
    cycle: Cycle | None = None

    @property
    def seconds(self) -> float:
        """The length of the phase, s."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Means:
    """What samples of a stretch of time add up to: ``n`` and ``total`` [n_metrics, n_gpus], the count and the sum of the
    values by metric (in the order of ``names``) and GPU; ``start`` and ``end`` in unix s. The flags of THROTTLES count as
    metrics: their mean is the share of samples in which they were set."""

    names: tuple[str, ...]
    start: float
    end: float
    n: Floats
    total: Floats

    def per_gpu(self, metric: str, gpus: Ints | slice = slice(None)) -> Floats:
        """Compute the mean of a metric for each of these GPUs (positions) [n_gpus]; NaN without samples, and for all
        GPUs where the metric is not among ``names``."""
        if metric not in self.names:
            return np.full(self.n.shape[1], np.nan)[gpus]
        n, total = (of[self.names.index(metric)][gpus] for of in (self.n, self.total))
        means: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
        return means

    def measured(self) -> frozenset[str]:
        """Find the metrics of which there are samples."""
        return frozenset(name for name, n in zip(self.names, self.n, strict=True) if n.any())

    def overall(self, gpus: Ints | None = None) -> dict[str, float | None]:
        """Compute each metric's mean over all samples of these GPUs (positions; None: all); None where a metric has
        none."""
        n, total = (self.n, self.total) if gpus is None else (self.n[:, gpus], self.total[:, gpus])
        counts, sums = n.sum(axis=1).tolist(), total.sum(axis=1).tolist()
        return {name: sums[i] / counts[i] if counts[i] else None for i, name in enumerate(self.names)}

    def score(self, gpus: Ints | None = None) -> float | None:
        """Compute the score of these GPUs (positions; None: all) together; None when it can't be known."""
        return score_of_means(self.overall(gpus))

    def scores(self) -> Floats:
        """Compute each GPU's own score [n_gpus]; NaN where it can't be known."""
        columns = np.array([self.per_gpu(name) for name in SCORE_INPUTS])
        scores = np.full(columns.shape[1], np.nan)
        for gpu in np.flatnonzero(
            np.isfinite(columns).all(axis=0)
        ).tolist():  # of very many GPUs hardly any may have samples
            score = score_of_means(dict(zip(SCORE_INPUTS, columns[:, gpu].tolist(), strict=True)))
            scores[gpu] = np.nan if score is None else score
        return scores


@dataclass(frozen=True, slots=True)
class Grid:
    """One metric, GPU by GPU, in columns of ``width`` seconds, the first from ``start`` (unix s): ``values`` [n_gpus,
    n_columns], the means of each GPU's samples, NaN without any. GPUs are in the order of the run, or of ``Analysis.gpus``.
    Columns that end by ``closed`` never change; those of a finished run are all closed. On a screen the edges are multiples
    of the width, so that a column stays the same wherever the view moves."""

    metric: str
    start: float
    width: float
    values: Floats
    closed: float = math.inf

    @property
    def n(self) -> int:
        """The number of columns."""
        return int(self.values.shape[1])

    @property
    def end(self) -> float:
        """The time at which the last column ends, unix s."""
        return self.start + self.n * self.width

    def column(self, time: float) -> int:
        """Find the index of the column that holds this time (unix s); the nearest one for a time outside."""
        return min(max(int((time - self.start) // self.width), 0), max(self.n - 1, 0))


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over time, summarized over the GPUs, in columns of ``width`` seconds, the first from ``start`` (unix s).
    All arrays are [n_columns]: ``n_gpus``, how many GPUs have a value in a column, and over these ``mean``, ``low`` and
    ``high``, the mean, least and greatest, and the percentiles ``p05``, ``p50`` and ``p95``, NaN where none has one."""

    metric: str
    start: float
    width: float
    n_gpus: Ints
    mean: Floats
    low: Floats
    high: Floats
    p05: Floats
    p50: Floats
    p95: Floats

    def continued(self, columns: int, later: "Series") -> "Series":
        """Return a series of the first ``columns`` columns of this one and after them all of ``later``, whose width must be
        the same."""
        names = ("n_gpus", "mean", "low", "high", "p05", "p50", "p95")
        arrays = (np.concatenate([getattr(self, name)[:columns], getattr(later, name)]) for name in names)
        return Series(self.metric, self.start, self.width, *arrays)


def over_space(grid: Grid) -> Series:
    """Summarize a grid over its GPUs, column by column: mean, extremes and percentiles [n_columns], NaN in columns in which
    no GPU has a value."""
    values, known = grid.values, np.isfinite(grid.values)
    nothing = np.full(grid.n, np.nan)
    n = known.sum(axis=0)
    if not known.any():
        return Series(grid.metric, grid.start, grid.width, n, *[nothing] * 6)
    mean = np.divide(np.where(known, values, 0.0).sum(axis=0), n, out=nothing, where=n > 0)
    low, p05, p50, p95, high = known_percentiles(values, (0.0, 0.05, 0.5, 0.95, 1.0))
    return Series(grid.metric, grid.start, grid.width, n, mean, low, high, p05, p50, p95)


def nodes_of(gpus: Sequence[Gpu]) -> tuple[tuple[str, ...], Ints]:
    """Number the nodes of these GPUs. Returns the nodes' names, in the order in which the GPUs name them, and for each
    GPU [n_gpus] the index of its node there. A GPU of an unknown node is on "?"."""
    names = dict.fromkeys(gpu.node or "?" for gpu in gpus)
    number = {name: index for index, name in enumerate(names)}
    return tuple(names), np.array([number[gpu.node or "?"] for gpu in gpus], np.int64)


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How uneven GPUs were in a window.

    ``gpus`` [n] positions and ``means`` [n] their time means, NaN without samples. ``space``: the grid over these GPUs;
    ``over_time`` [n_columns]: 1 - mean/max there, NaN where the max is 0 or unknown; ``spread`` [n_columns]: from the 5th to
    the 95th percentile, in the metric's unit.

    ``of_means`` = 1 - mean/max of the time means, what pages call imbalance. ``resolved`` is the same column by column,
    each weighted by its GPUs × max: sum of n (max - mean) over sum of n max. Who is behind at one time and ahead at another
    counts in it, and not in ``of_means``: the difference is what rotates. Both are None when unknown. Source: POP's load
    balance is mean/max, of which this is the complement.

    ``gpu_hours``: the GPUs × the window's time; ``lost`` = ``resolved`` × these, what could have been used had all GPUs
    done at any time what the busiest did; ``static`` = ``of_means`` × these, the part of it that time means show.

    ``worst`` is the imbalance of the minute that lost most, which begins at ``worst_start`` (unix s).
    ``low`` and ``high``: places in ``gpus`` of those that are not like the others (gssr.model.statistics.balance), the
    farthest first. ``behind_any``: the share of working columns in which some GPU is behind (BEHIND); ``behind_most``: the
    share in which the one GPU is that is behind most often; ``n_behind``: how many GPUs ever are.
    """

    gpus: Ints
    means: Floats
    space: Series
    over_time: Floats
    spread: Floats
    of_means: float | None
    resolved: float | None
    gpu_hours: float
    worst: float | None
    worst_start: float
    low: Ints
    high: Ints
    behind_any: float
    behind_most: float
    n_behind: int

    @property
    def lost(self) -> float | None:
        """The GPU-hours that could have been used had all GPUs done at any time what the busiest did; None where unknown."""
        return None if self.resolved is None else self.resolved * self.gpu_hours

    @property
    def static(self) -> float | None:
        """The part of ``lost``, GPU-hours, that the GPUs' means over the whole window show already; None where unknown."""
        if self.lost is None or self.of_means is None:
            return None
        return min(self.of_means * self.gpu_hours, self.lost)


@dataclass(frozen=True, slots=True)
class Groups:
    """GPUs that have something in common, group by group. ``keys`` [k]: what that is; ``means`` [k]: the mean of the
    members' time means; ``below`` [k]: how far they are on average below their node's mean (metric's unit, negative:
    above); ``share`` [k]: the share of the members that are below it."""

    keys: Ints
    means: Floats
    below: Floats
    share: Floats


@dataclass(frozen=True, slots=True)
class Alike:
    """GPUs that behave alike: ``gpus``, positions; ``mean``: of their time means, in the metric's unit; ``apart``: they are
    not like the others (gssr.model.statistics.balance)."""

    name: str
    gpus: tuple[int, ...]
    mean: float
    apart: bool


@dataclass(frozen=True, slots=True)
class Unevenness:
    """How uneven the GPUs were over a window, in the first metric measured of gssr.metrics.DETECTION_METRICS. ``start``
    (unix s) and ``width`` (seconds) are those of the columns of ``imbalance``.

    ``energy_lost`` (J): each GPU's power in a column × its share of what the busiest GPU did that it did not, summed; None
    where power was not measured. ``score_as_median``: the score if all GPUs ran like the median GPU; None when unknown.
    ``nodes``: names; the keys of ``by_node`` count them. ``by_index``: by the driver's index in the node. ``alike``: bands
    of similar GPUs (gssr.model.findings.similar_gpus), the largest first, those apart last.
    """

    metric: str
    start: float
    width: float
    imbalance: Imbalance
    energy_lost: float | None
    score_as_median: float | None
    nodes: tuple[str, ...]
    by_node: Groups
    by_index: Groups
    alike: tuple[Alike, ...]

    def numbered(self, places: Ints) -> "Unevenness":
        """Return the same with other numbers for the GPUs: ``places[g]`` for the GPU that was g (``places`` [n_gpus])."""
        alike = tuple(replace(group, gpus=tuple(places[list(group.gpus)].tolist())) for group in self.alike)
        return replace(self, alike=alike, imbalance=replace(self.imbalance, gpus=places[self.imbalance.gpus]))


@dataclass(frozen=True, slots=True)
class Analysis:
    """One run (or a window and a selection of it), analysed.

    ``metrics`` has every metric asked for, in the catalogue's order, ``flop_active`` among them, ``clock_event_reasons``
    apart: that is ``clock_event_reasons``, the share of samples in which each flag was set (empty: not measured).
    ``series`` and ``gpu_series`` hold the metrics drawn that have samples. ``gpus`` are sorted by node, device_index, uuid.
    ``exact`` is False when percentiles come from the sketch. ``notes`` are sentences about the data (never about the job):
    damage, gaps, metrics missing, GPUs without samples. ``imbalance``
    is SM active's, whatever was asked for. ``host`` is None when nothing was recorded of the nodes. ``judgement`` is what
    the window says; where causes were not asked for it says nothing.
    ``ranks_missing`` are those that are not in the recording, None where nobody knows how many there are.
    ``n_ranks``: those that are. ``ranks_stopped``: those that were lost or failed, the first of them first;
    ``gpu_hours_unmeasured``: those of ``gpu_hours`` that come after a GPU's rank was lost, of which nothing is known.
    ``history`` is None where nobody asked for it, or where only a part of the run is looked at. ``traces``: those of it.
    ``node_series``: the metrics of the nodes (gssr.metrics.HOST_METRICS) over the nodes, where metrics are drawn that were
    measured; ``processes`` on the GPUs, most memory first, where they were asked for.
    """

    run: RunRow
    state: str
    window: AnalysisWindow
    backend: str | None
    gpus: tuple[GpuSummary, ...]
    n_nodes: int
    n_samples: int
    n_gaps: int
    score: float | None
    metrics: dict[str, Statistics]
    balance: dict[str, Balance]
    clock_event_reasons: dict[str, float]
    energy_j: float | None
    gpu_hours: float
    exact: bool
    series: dict[str, Series]
    gpu_series: dict[str, Grid]
    events: tuple[Event, ...]
    notes: tuple[str, ...]
    judgement: Judgement
    imbalance: float | None = None
    host: HostUse | None = None
    ranks_missing: tuple[int, ...] | None = None
    n_ranks: int = 1
    ranks_stopped: tuple[RankEnd, ...] = ()
    gpu_hours_unmeasured: float = 0.0
    history: History | None = None
    traces: tuple["Traced", ...] = ()
    node_series: Mapping[str, Series] = field(default_factory=dict)
    processes: tuple[GpuProcesses, ...] = ()
