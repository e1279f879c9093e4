"""What nodes do beside the GPUs: frames whose rows are nodes, and means to show beside those of the GPUs.

Nodes are sampled once a second, and read from the files at each look that is due: they are few numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.gpu_name import without_domains
from gssr.metrics import HOST_METRICS, OF_HOST, OF_NODES, best_measured
from gssr.model.live.answers import Read, last_known_values
from gssr.model.live.kept_answers import KeptAnswers
from gssr.model.live.live_result import RECENT_SECONDS, Query, Result
from gssr.model.live.timeline import Timelines
from gssr.model.results import Grid, HostUse, Means, nodes_of, over_space
from gssr.model.statistics.grid import choose_width, column_of, columns_over
from gssr.model.statistics.sources import NODE_INTERVAL, host_use, node_means
from gssr.store.format.rows import Gpu
from gssr.store.format.schema import LEVELS
from gssr.store.read.host_use import Bins
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

_COVERS = 1.5
"""A sample, which is a mean since the one before, stands for at most so many seconds before it."""
_FINEST = 0.1
"""Columns are as wide as GPUs sampled each so many seconds would have."""
_LAG = 1.0
"""While a run grows nodes are read anew after max(1 s, 20 times what it took)."""
_LEAST = 1e6
"""No axis of a rate ends below this, B/s."""
_KEPT = 8
_ONE_BIN = float(LEVELS[-1] * (1 << 31))
_COLUMNS = (*(metric.name.removeprefix(OF_HOST) for metric in HOST_METRICS), "memory_total")
_MEMORY = _COLUMNS.index("memory_used")


class _NodeAnswer(NamedTuple):
    names: tuple[str, ...]
    grid: Grid
    whole: Means
    window: Means
    recent: Means
    moment: Means | None
    first: float
    last: float


def metrics_of(use: HostUse | None) -> tuple[str, ...]:
    """Return the names of the nodes' metrics that are known; () for None."""
    return tuple(name for name in OF_NODES if getattr(use, name.removeprefix(OF_HOST), None) is not None)


def host_means(use: HostUse | None) -> dict[str, float]:
    """Return the nodes' known means by metric, without memory, of which the greatest is told instead."""
    known = (name for name in metrics_of(use) if name != "host:memory_used")
    return {name: getattr(use, name.removeprefix(OF_HOST)) for name in known}


class Nodes:
    """Answers queries about the nodes of one run."""

    def __init__(self, seldom: bool) -> None:
        """``seldom``: reading the files is expensive, so what was read of a growing run stays good until ``renew``."""
        self._answers = KeptAnswers(_KEPT, _LAG, seldom)
        self._greatest: Mapping[str, float] = {}
        self._rows: tuple[Gpu, ...] = ()
        self._timelines = Timelines()

    def renew(self) -> None:
        """Read the files anew for everything asked from now on."""
        self._answers.renew()

    def beside(self, frame: Result, read: Read, growing: bool) -> Result:
        """Return a frame of GPUs, with what the nodes did in the cursor's column added to ``moment``, if there is a
        cursor, and their greatest rates. ``read`` returns the run as it is now; ``growing``: rows may still come."""
        moment, cursor = frame.moment, frame.query.cursor
        if cursor is not None:
            begin = frame.grid.start + frame.grid.column(cursor) * frame.grid.width
            window = Window(begin, begin + max(frame.grid.width, NODE_INTERVAL))
            is_growing = growing and window.end > frame.last
            use = self._answers.find(window, lambda: host_use(read(), window), is_growing)
            moment = {**moment, **host_means(use)}
        return replace(frame, moment=moment, greatest=self._greatest_of(read, growing))

    def frame(self, query: Query, base: Result, read: Read, growing: bool) -> Result | None:
        """Make the frame of the nodes that a query asks for; None if nothing was recorded about them.

        Args:
            query: What is shown.
            base: The GPUs' frame of the same window, or one without GPUs.
            read: Returns the run as it is now.
            growing: Rows may still come.
        """
        metric = query.metric if query.metric in OF_NODES else ""
        asked = (metric, query.span, query.end, query.columns, query.width, query.cursor, base.n_gpus, base.grid.width)
        shown = self._answers.find(asked, lambda: _shown(query, metric, base, read()), growing)
        if shown is None:
            return None
        if tuple(row.node for row in self._rows) != shown.names:
            self._rows = tuple(_row(at, name) for at, name in enumerate(shown.names))
        n = len(shown.names)
        greatest = self._greatest_of(read, growing)
        timeline = None
        if query.rows:
            full = greatest.get(shown.grid.metric, 1.0)
            place = np.arange(n)
            timeline = self._timelines.show(query, shown.grid, shown.window, self._rows, place, growing, full)
        frame = replace(
            base, query=query, gpus=self._rows, nodes=without_domains(shown.names), node_of=np.arange(n),
            n_gaps=np.zeros(n, np.int64), last_time=np.full(n, shown.last), latest=last_known_values(shown.grid.values),
            grid=shown.grid, space=over_space(shown.grid), whole=shown.whole, window=shown.window,
            recent=shown.recent, timeline=timeline, coming=None, by_node=True, greatest=greatest,
            moment={} if shown.moment is None else shown.moment.overall(np.array(query.gpus) if query.gpus else None),
            of_gpus=base if base.n_gpus else None,
        )  # fmt: skip
        if base.n_gpus:
            return frame
        now = shown.last if query.end is None else shown.window.end
        rows = int(shown.whole.n.max(initial=0))
        return replace(frame, first=shown.first, last=shown.last, now=now, n_rows=rows, sampling_seconds=NODE_INTERVAL)

    def _greatest_of(self, read: Read, growing: bool) -> Mapping[str, float]:
        """Return the greatest value that each rate of the nodes has had in the run, at least _LEAST, by metric. It is
        kept and never falls. ``read`` returns the run as it is now; ``growing``: rows may still come."""
        found = self._answers.find("greatest", lambda: read().host_use(ALL_TIME), growing)
        for metric in HOST_METRICS:
            value = max(found[metric.name.removeprefix(OF_HOST)].greatest or 0.0, _LEAST)
            if not metric.full_scale and value > self._greatest.get(metric.name, 0.0):
                self._greatest = {**self._greatest, metric.name: value}
        return self._greatest


def _shown(query: Query, metric: str, base: Result, reader: RunReader) -> _NodeAnswer | None:
    """Read the values of the nodes in the window of a query. ``metric``: the nodes' metric to show, "" for the first of
    their metrics that was measured. ``base``: the result of the GPUs, whose columns of time are used. Returns None if no
    node was recorded."""
    times = reader.host_times
    if times is None:
        return None
    first, last = times
    if base.n_gpus:
        start, width, n = base.grid.start, base.grid.width, base.grid.n
    else:
        start, width, n = _columns(query, first, last)
    window = Window(start, min(start + n * width, math.inf if query.end is None else query.end))
    if query.span is None and query.end is None:
        window = ALL_TIME
    sums = reader.nodes_over_time(ALL_TIME, (0.0, _ONE_BIN, 1), _COLUMNS)
    known = nodes_of(base.gpus)[0] if base.n_gpus else ()
    names = (*known, *sorted(sums.keys() - set(known)))

    def means(part: Window) -> Means:
        """Return the means of the nodes' metrics in a part of the time."""
        own = sums if part == ALL_TIME else reader.nodes_over_time(part, (0.0, _ONE_BIN, 1), _COLUMNS)
        counts, totals = _by_metric(own, names)
        begin, end = part.close_at(*((base.first, base.last) if base.n_gpus else (first, last)))
        return Means(tuple(OF_NODES), begin, end, counts, totals)

    whole = means(ALL_TIME)
    chosen = metric or best_measured(whole.measured()) or HOST_METRICS[0].name
    grid = Grid(chosen, start, width, _values(reader, names, chosen, (start, width, n), window), math.inf)
    moment = None
    if query.cursor is not None:
        begin = start + grid.column(query.cursor) * width
        moment = means(Window(begin, begin + max(width, NODE_INTERVAL)))
    own = whole if window == ALL_TIME else means(window)
    until = last if query.end is None else min(query.end, last)
    last_minute = Window(until - RECENT_SECONDS, math.inf if query.end is None else query.end)
    recent = own if base.n_gpus else means(last_minute)  # of GPUs their own is shown
    return _NodeAnswer(names, grid, whole, own, recent, moment, first, last)


def _columns(query: Query, first: float, last: float) -> Bins:
    """Choose the columns of a frame without GPUs, by the same rules as for one with them. ``first`` and ``last``: the
    times of the first and the newest sample of the nodes, unix s. Returns start (unix s), width (s) and number."""
    until = last if query.end is None else min(query.end, last)
    whole = query.span is None
    span = max(until - first, NODE_INTERVAL) if query.span is None else query.span
    n = max(query.columns - 1, 1) if whole else query.columns
    width = query.width or choose_width(span, n, _FINEST, 1, snug=whole)
    end = column_of(last, width) if query.end is None else math.ceil(query.end / width - 1e-9) - 1
    n = min(query.columns, columns_over(span, width, query.end))
    begin = column_of(first, width) if whole else end - n + 1
    return begin * width, width, max(end - begin + 1, 1)


def _values(reader: RunReader, names: tuple[str, ...], metric: str, bins: Bins, window: Window) -> Floats:
    """Return the means of a metric, float64[n_nodes, n_columns]. If columns are shorter than the nodes' interval, each
    sample fills all that it covers."""
    start, width, n = bins
    part = Window(max(window.start, start), min(window.end, start + n * width))
    values = node_means(reader, (metric,), bins, part, names)[metric]
    if width >= NODE_INTERVAL:
        return values
    place = np.where(np.isfinite(values), np.arange(n), n)
    following = np.minimum.accumulate(place[:, ::-1], axis=1)[:, ::-1]
    covered = (following < n) & ((following - np.arange(n)) * width < _COVERS)
    filled = np.take_along_axis(values, np.minimum(following, n - 1), axis=1)
    return np.where(covered, filled, np.nan)


def _by_metric(sums: Mapping[str, Floats], names: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Put the sums of each node over one bin in the order of metrics. ``sums``: by node, [1, columns, 2]. Returns the
    counts and the sums of the nodes ``names``, float64[n_metrics, n_nodes] both; of memory they are those of its share,
    0 where that is unknown."""
    nothing = np.zeros((1, len(_COLUMNS), 2))
    found = np.stack([sums.get(name, nothing)[0] for name in names])
    (*_, n), (*_, all_of_it) = found[..., 0].T, found[..., 1].T
    counts, totals = found[:, :-1, 0].T.copy(), found[:, :-1, 1].T.copy()
    known = (n > 0) & (all_of_it > 0)
    counts[_MEMORY] = np.where(known, counts[_MEMORY], 0.0)
    totals[_MEMORY] = np.divide(totals[_MEMORY] * n, all_of_it, out=np.zeros(len(names)), where=known)
    return counts, totals


def _row(number: int, node: str) -> Gpu:
    """Make a Gpu that stands for a node."""
    return Gpu(number, "", node, *[None] * 12)
