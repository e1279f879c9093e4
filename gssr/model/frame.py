"""One look at a recording, growing or finished: what the live screen draws from, and nothing else. A frame never changes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.gpu_name import place
from gssr.metrics import SCORE_INPUTS
from gssr.model.results import HostUse
from gssr.score import score_of_means
from gssr.store.reader import Event, Gpu, Run

RECENT_SECONDS = 60.0
"""The running score's window."""
STALE_SECONDS = 2.0
"""A GPU is stale after max(2.5 sampling intervals, 2 s) without a sample."""
BUSY, IDLE = 0.66, 0.33
"""Shares of the full scale from which on a GPU is busy, and below which it is idle (thresholds of our own)."""

State = Literal["waiting", "live", "stalled", "lost", "ended"]


@dataclass(frozen=True, slots=True)
class Query:
    """What a frame is to show: ``columns`` columns of time of one metric, together at least ``span`` seconds (None: the
    whole run until then), up to ``end`` (unix s; None: the newest sample). ``cursor`` is the time (unix s) whose column is
    looked at with all metrics, or None. ``width`` is the columns' width in seconds, None for the narrowest that will do;
    ``activity``: look for where the work begins. ``gpus``: positions of the GPUs whose moment and timeline are wanted, none
    for all; ``rows``: the lines that a timeline may have, 0 for no timeline; ``grouped``: one of them holds similar GPUs.
    ``energy``: tell what the GPUs' counters say of the window."""

    metric: str = "sm_active"
    span: float | None = None
    end: float | None = None
    columns: int = 60
    cursor: float | None = None
    width: float | None = None
    activity: bool = False
    gpus: tuple[int, ...] = ()
    rows: int = 0
    grouped: bool = True
    energy: bool = False


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

    def per_gpu(self, metric: str) -> Floats:
        """[n_gpus]: each GPU's mean of the metric, NaN without samples."""
        if metric not in self.names:
            return np.full(self.n.shape[1], np.nan)
        n, total = self.n[self.names.index(metric)], self.total[self.names.index(metric)]
        means: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
        return means

    def overall(self, gpus: Ints | None = None) -> dict[str, float | None]:
        """Each metric's mean over all samples of these GPUs (positions; None: all); None without any."""
        n, total = (self.n, self.total) if gpus is None else (self.n[:, gpus], self.total[:, gpus])
        counts, sums = n.sum(axis=1).tolist(), total.sum(axis=1).tolist()
        return {name: sums[i] / counts[i] if counts[i] else None for i, name in enumerate(self.names)}

    def score(self, gpus: Ints | None = None) -> float | None:
        """The score of these GPUs together; None when it can't be known."""
        return score_of_means(self.overall(gpus))

    def scores(self) -> Floats:
        """[n_gpus]: each GPU's own score, NaN where it can't be known."""
        columns = {name: self.per_gpu(name).tolist() for name in SCORE_INPUTS}
        found = [score_of_means({name: columns[name][gpu] for name in columns}) for gpu in range(self.n.shape[1])]
        return np.array([np.nan if score is None else score for score in found], np.float64)


@dataclass(frozen=True, slots=True)
class Grid:
    """One metric, GPU by GPU, in columns of ``width`` seconds whose edges are multiples of it (unix s), the first from
    ``start``: ``values`` [n_gpus, n_columns], NaN where a GPU has no sample. Columns that end by ``closed`` never change."""

    metric: str
    start: float
    width: float
    values: Floats
    closed: float

    @property
    def n(self) -> int:
        """How many columns."""
        return int(self.values.shape[1])

    @property
    def end(self) -> float:
        """Where the last column ends, unix s."""
        return self.start + self.n * self.width

    def column(self, time: float) -> int:
        """The column that holds this time; the nearest one for a time outside."""
        return min(max(int((time - self.start) // self.width), 0), max(self.n - 1, 0))


@dataclass(frozen=True, slots=True)
class Space:
    """The grid over space, column by column, all [n_columns] and NaN where no GPU has a sample: ``mean``, ``low`` and
    ``high``, and from the 5th to the 95th percentile of the GPUs ``p05``, ``p50``, ``p95``."""

    mean: Floats
    low: Floats
    high: Floats
    p05: Floats
    p50: Floats
    p95: Floats


@dataclass(frozen=True, slots=True)
class Timeline:
    """The grid in a few lines. ``members``: the positions of the GPUs in each, ascending; ``names``: its letter where
    similar GPUs were put together, else empty. ``mean`` and ``low`` [n_lines, n_columns]: over them, NaN where none has a
    sample. ``shares`` [3, n_columns]: of the GPUs that have a value, the share that is busy (from BUSY of the full scale
    on), medium, and idle (below IDLE)."""

    names: tuple[str, ...]
    members: tuple[Ints, ...]
    mean: Floats
    low: Floats
    shares: Floats


@dataclass(frozen=True, slots=True)
class Frame:
    """One look.

    ``gpus`` are sorted by node, device index and UUID, and everything else counts them by position; ``node_of`` [n_gpus]
    numbers ``nodes``. ``first`` and ``last`` are the times of the first and the newest sample (unix s), ``now`` the time
    that counts as now: while the run lives it goes on when samples stay away. ``silent``: seconds since something new came.
    ``last_time`` [n_gpus], NaN without samples, and ``latest`` [n_gpus], the newest value of the metric, at the window's
    right edge. ``active_from``: where the run begins to work (gssr.model.window.warm_up_and_tear_down), unix s, None when
    that was not asked for. ``whole``, ``recent`` (RECENT_SECONDS up to the window's right edge) and ``window`` (of the grid;
    while the run lives it may be some seconds old) hold means; ``moment`` the means of all metrics in the cursor's column,
    over the GPUs asked for. ``timeline``: None when none was asked for.
    ``n_gaps`` [n_gpus]. ``problem``: what could not be read, one sentence. ``following``: the window's right edge is the
    newest sample. ``coming`` [n_gpus]: something came of the GPU just now, whatever its node's clock says; None when the
    run does not grow, or the past is looked at. ``reread``: seconds since all that is no newest sample was read from the
    files (events, host, means of a window other than the whole run), None where that is as new as the samples. ``thinned``:
    of the time before this (unix s) nothing finer than 10 s is known, because samples were not kept. ``ranks_missing``: of
    the run's ranks those that are not in the recording (yet), as far as is known.
    """

    path: str
    query: Query
    state: State
    run: Run | None
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
    space: Space
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
    timeline: Timeline | None = None
    coming: Flags | None = None
    reread: float | None = None
    energy_j: float | None = None
    thinned: float = -math.inf
    ranks_missing: tuple[int, ...] = ()

    @property
    def n_gpus(self) -> int:
        """How many GPUs."""
        return len(self.gpus)

    def place(self, gpu: int) -> str:
        """What a GPU is called (gssr.gpu_name.place)."""
        return place(self.gpus[gpu], self.nodes[self.node_of[gpu]])

    def on_node(self, node: int) -> Ints:
        """Positions of a node's GPUs."""
        return np.flatnonzero(self.node_of == node)


def over_space(values: Floats) -> Space:
    """The columns of a grid [n_gpus, n_columns] over its GPUs."""
    n_columns = values.shape[1]
    nothing = np.full(n_columns, np.nan)
    if not len(values) or not np.isfinite(values).any():
        return Space(nothing, nothing, nothing, nothing, nothing, nothing)
    known = np.isfinite(values)
    n = known.sum(axis=0)
    mean = np.divide(np.where(known, values, 0.0).sum(axis=0), n, out=nothing.copy(), where=n > 0)
    ordered = np.sort(values, axis=0)  # NaN last
    return Space(
        mean,
        np.fmin.reduce(values, axis=0),
        np.fmax.reduce(values, axis=0),
        *(_percentile(ordered, n, share) for share in (0.05, 0.5, 0.95)),
    )


def _percentile(ordered: Floats, n: Ints, share: float) -> Floats:
    """numpy's linear percentile of each column's first ``n`` values."""
    position = share * np.maximum(n - 1, 0)
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(n - 1, 0))
    column = np.arange(ordered.shape[1])
    low, high = ordered[below, column], ordered[above, column]
    return np.asarray(low + (position - below) * (high - low), np.float64)


def nodes_of(gpus: Sequence[Gpu]) -> tuple[tuple[str, ...], Ints]:
    """The nodes' names in the GPUs' order, and [n_gpus] which of them each GPU is on."""
    names = dict.fromkeys(gpu.node or "?" for gpu in gpus)
    number = {name: index for index, name in enumerate(names)}
    return tuple(names), np.array([number[gpu.node or "?"] for gpu in gpus], np.int64)
