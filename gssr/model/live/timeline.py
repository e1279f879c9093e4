"""The grid in as many lines as fit: similar GPUs in one line, or neighbours; and how many GPUs are busy over time."""

import math
import time

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.findings.similar_gpus import Bands, bands
from gssr.model.live.live_result import BUSY, IDLE, GridLines, Query
from gssr.model.results import Grid, Means
from gssr.model.statistics.balance import outliers, scale_limit
from gssr.store.format.rows import Gpu

MOST_BANDS = 8
"""Bands of similar GPUs; more could not be kept apart by eye."""
REGROUP_SECONDS = 2.0
"""While a run grows, which GPUs are similar is looked at no more often than this."""


class Timelines:
    """Makes timelines of a run, keeping what stays valid from one to the next."""

    def __init__(self) -> None:
        self._asked: tuple[object, ...] = ()
        """What the newest timeline was asked for."""
        self._values: Floats | None = None
        """The grid's values that it was made of."""
        self._newest = GridLines((), (), *[np.zeros((0, 0))] * 3)
        self._owner = np.zeros(0, np.int64)
        """The line of each GPU looked at [n_looked_at]."""
        self._grouped_at = -math.inf
        """When the GPUs were grouped, monotonic s."""

    def show(
        self, query: Query, grid: Grid, window: Means, gpus: tuple[Gpu, ...], node_of: Ints, growing: bool,
        full: float | None = None,
    ) -> GridLines:  # fmt: skip
        """Make the timeline that a query asks for.

        Args:
            grid: the values, [n_gpus, n_columns].
            window: the means of the grid's window.
            gpus: all GPUs of the grid.
            node_of: the number of each GPU's node, int64[n_gpus].
            growing: rows may still come.
            full: what fills the axis if the GPUs do not say it.
        """
        looked_at = np.array(sorted(query.gpus), np.int64) if query.gpus else np.arange(len(gpus))
        follows = growing and query.end is None
        asked = (grid.metric, query.gpus, query.grouped, query.rows, query.only, follows, grid.width)
        if asked == self._asked and self._values is grid.values:
            return self._newest
        means = window.per_gpu(grid.metric)
        full = full or scale_limit(gpus, grid.metric) or float(np.nanmax(means, initial=0.0)) or 1.0
        names, owner, now = self._newest.names, self._owner, time.monotonic()
        if asked != self._asked or not follows or now - self._grouped_at > REGROUP_SECONDS:
            names, owner = self._grouped(query, grid, looked_at, node_of, means, full)
            self._grouped_at = now
        members = tuple(looked_at[owner == line] for line in range(int(owner.max(initial=-1)) + 1))
        values = grid.values[looked_at] if query.gpus else grid.values
        self._asked, self._values, self._owner = asked, grid.values, owner
        self._newest = GridLines(names, members, *_reduced(values, owner, len(members)), _shares(values, full))
        return self._newest

    def _grouped(
        self, query: Query, grid: Grid, looked_at: Ints, node_of: Ints, means: Floats, full: float
    ) -> tuple[tuple[str, ...], Ints]:
        """Divide the GPUs looked at (positions) among the lines of a timeline: bands of GPUs that run alike if the query
        asks for groups, otherwise neighbours. Returns the bands' letters, () for neighbours, and for each GPU looked at
        the index of its line, int64[n_looked_at]. Bands keep the letters that they had for the same question before."""
        if not query.grouped:
            return (), neighbours(node_of[looked_at], query.rows)
        is_same = self._asked[:3] == (grid.metric, query.gpus, True)
        before = Bands(self._newest.names, self._owner) if is_same else None
        values = grid.values[:, _filled(grid)]
        apart = outliers(means, full)
        if query.gpus:
            values, apart = values[looked_at], apart[looked_at]
        found = bands(values, full, apart, min(query.rows, MOST_BANDS), before)
        return found.names, found.owner


def neighbours(node_of: Ints, at_most: int) -> Ints:
    """Put neighbouring GPUs together in at most ``at_most`` lines: whole nodes, or equal parts of a node, if all nodes
    have the same size. Returns the line of each GPU, int64[n]."""
    each = max(-(-len(node_of) // at_most), 1)
    sizes = np.bincount(node_of)
    size = int(sizes.max(initial=0))
    if size and np.isin(sizes, (0, size)).all():
        each = next((part for part in range(each, size) if size % part == 0), -(-each // size) * size)
    return np.arange(len(node_of)) // each


def _filled(grid: Grid) -> slice:
    """Return the complete columns between the first and the last in which a GPU has a value; all columns if there are
    none."""
    known = np.isfinite(grid.values).any(axis=0)
    done = np.flatnonzero(known & (grid.start + (np.arange(grid.n) + 1) * grid.width <= grid.closed))
    return slice(int(done[0]), int(done[-1]) + 1) if len(done) else slice(None)


def _reduced(values: Floats, owner: Ints, n_lines: int) -> tuple[Floats, Floats]:
    """Return mean and least of the rows of ``values`` [n_gpus, n_columns] that are in each line, [n_lines, n_columns] each;
    NaN where none has a value. ``owner`` [n_gpus]: the line of each row."""
    if not n_lines:
        return values[:0], values[:0]
    if (np.diff(owner) < 0).any():
        values = values[np.argsort(owner, kind="stable")]
    starts = np.searchsorted(np.sort(owner), np.arange(n_lines))
    total = np.add.reduceat(values, starts, axis=0)
    n: Floats = np.diff(starts, append=len(values)).astype(np.float64)[:, None]
    if np.isnan(total).any():
        known = np.isfinite(values)
        n = np.add.reduceat(known, starts, axis=0, dtype=np.float64)
        total = np.add.reduceat(np.where(known, values, 0.0), starts, axis=0)
    mean = np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0)
    return mean, np.fmin.reduceat(values, starts, axis=0)


def _shares(values: Floats, full: float) -> Floats:
    """Compute which share of the GPUs that have a value in a column are busy (from BUSY of ``full`` on), medium, and
    idle (below IDLE of ``full``). ``values`` [n_gpus, n_columns]; NaN is no value. Returns float64[3, n_columns] in this
    order; NaN in columns without a value."""
    n = np.isfinite(values).sum(axis=0)
    busy, idle = (values >= BUSY * full).sum(axis=0), (values < IDLE * full).sum(axis=0)
    counts = np.stack([busy, n - busy - idle, idle]).astype(np.float64)
    shares: Floats = np.divide(counts, n, out=np.full(counts.shape, np.nan), where=n > 0)
    return shares
