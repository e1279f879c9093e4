"""The grid in as many lines as fit: similar GPUs in one line, or neighbours; and how many GPUs are busy over time.

Of a growing run only the columns that were not complete before are computed anew.
"""

import time
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.findings.similar_gpus import Bands, bands
from gssr.model.live.live_result import BUSY, IDLE, GridLines, Query
from gssr.model.results import Grid, Means
from gssr.model.statistics.balance import outliers, scale_limit
from gssr.store.format.rows import Gpu

MOST_BANDS = 8
"""Bands of similar GPUs; more could not be kept apart by eye."""
REGROUP_SECONDS, REGROUP_COSTS = 2.0, 100
"""Which GPUs are similar is looked at anew after max(2 s, 100 times what it took) while a run grows."""


class _LastLines(NamedTuple):
    """The last timeline, and what it was made of. ``owner`` int64[n_looked_at]: the line of each GPU; ``at``: when GPUs
    were grouped, monotonic s; ``cost``: how long that took, s."""

    asked: tuple[object, ...]
    grid: Grid
    following: bool
    owner: Ints
    """[n_looked_at]: the line of each GPU."""
    timeline: GridLines
    at: float
    """When the GPUs were grouped, monotonic s."""
    cost: float
    """How long that took, s."""


class Timelines:
    """Makes timelines of a run, keeping what stays valid from one to the next."""

    def __init__(self) -> None:
        self._made: _LastLines | None = None

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
        asked = (grid.metric, query.gpus, query.grouped, query.rows, query.only)
        made = self._made if self._made is not None and self._made.asked == asked else None
        if made is not None and made.grid.values is grid.values:
            return made.timeline
        means = window.per_gpu(grid.metric)
        full = full or scale_limit(gpus, grid.metric) or float(np.nanmax(means, initial=0.0)) or 1.0
        now = time.monotonic()
        following = growing and query.end is None
        fresh = (
            made is None
            or not (following and made.following)
            or made.grid.width != grid.width
            or now - made.at > max(REGROUP_SECONDS, REGROUP_COSTS * made.cost)
        )
        if made is not None and not fresh:
            names, owner, members = made.timeline.names, made.owner, made.timeline.members
            at, cost = made.at, made.cost
        else:
            names, owner = self._grouped(query, grid, looked_at, node_of, means, full)
            if made is not None and np.array_equal(owner, made.owner):
                members = made.timeline.members
            else:
                members = tuple(looked_at[owner == line] for line in range(int(owner.max(initial=-1)) + 1))
            at, cost = now, time.monotonic() - now
        timeline = GridLines(names, members, *self._columns(grid, looked_at, owner, len(members), full, made))
        self._made = _LastLines(asked, grid, following, owner, timeline, at, cost)
        return timeline

    def _grouped(
        self, query: Query, grid: Grid, looked_at: Ints, node_of: Ints, means: Floats, full: float
    ) -> tuple[tuple[str, ...], Ints]:
        """Divide the GPUs looked at (positions) among the lines of a timeline: bands of GPUs that run alike if the query
        asks for groups, otherwise neighbours. Returns the bands' letters, () for neighbours, and for each GPU looked at
        the index of its line, int64[n_looked_at]. Bands keep the letters that they had for the same question before."""
        if not query.grouped:
            return (), neighbours(node_of[looked_at], query.rows)
        made = self._made
        before = None
        if made is not None and made.asked[:3] == (grid.metric, query.gpus, True):
            before = Bands(made.timeline.names, made.owner)
        values = grid.values[:, _filled(grid)]
        apart = outliers(means, full)
        if query.gpus:
            values, apart = values[looked_at], apart[looked_at]
        found = bands(values, full, apart, min(query.rows, MOST_BANDS), before)
        return found.names, found.owner

    def _columns(
        self, grid: Grid, looked_at: Ints, owner: Ints, n_lines: int, full: float, made: _LastLines | None
    ) -> tuple[Floats, Floats, Floats]:
        """Compute the lines of a timeline from the columns of a grid.

        Args:
            grid: The values [n_gpus, n_columns].
            looked_at: Positions of the GPUs that are shown.
            owner: The line of each of these GPUs.
            n_lines: The number of lines.
            full: The metric's full scale, which tells busy from idle.
            made: The timeline before; its complete columns are taken over if the lines and the width are the same. None:
                none.

        Returns the mean and the least value of each line, [n_lines, n_columns] both, and the shares of GPUs that are
        busy, medium and idle, [3, n_columns]; NaN where there are no values.
        """
        mean, low = np.full((n_lines, grid.n), np.nan), np.full((n_lines, grid.n), np.nan)
        shares = np.full((3, grid.n), np.nan)
        wanted = np.ones(grid.n, bool)
        if made is not None and made.grid.width == grid.width and np.array_equal(made.owner, owner):
            shift = round((grid.start - made.grid.start) / grid.width)
            before = np.arange(grid.n) + shift
            ends = grid.start + (np.arange(grid.n) + 1) * grid.width
            kept = (before >= 0) & (before < made.grid.n) & (ends <= made.grid.closed)
            for new, old in zip((mean, low, shares), _lines(made.timeline), strict=True):
                new[:, kept] = old[:, before[kept]]
            wanted = ~kept
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(n_lines))
        positions = looked_at[order]
        in_place = len(positions) == len(grid.values) and bool((np.diff(positions) == 1).all())
        columns = slice(None) if wanted.all() else np.flatnonzero(wanted)
        values = grid.values[:, columns]
        if not in_place:
            values = values[positions]
        mean[:, columns], low[:, columns] = _reduced(values, starts)
        shares[:, columns] = _shares(values, full)
        return mean, low, shares


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


def _lines(timeline: GridLines) -> tuple[Floats, Floats, Floats]:
    return timeline.mean, timeline.low, timeline.shares


def _reduced(values: Floats, starts: Ints) -> tuple[Floats, Floats]:
    """Return mean and least of the rows of ``values`` [n_gpus, n_columns] from each start to the next, [n_starts,
    n_columns] each; NaN where none has a value."""
    if not len(starts):
        return values[:0], values[:0]
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
