"""Where an analysis takes its numbers from: raw rows, or rollups and sketches. Both answer the same questions.

GPUs are numbered from 0 within the selection. ``window`` bounds the rows that count; it is open where nothing is cut off:
rows just before a run's start and after its end belong to it.

What the nodes did beside the GPUs.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME, OF_HOST, OF_NODES
from gssr.model.results import Grid, HostUse, Series, over_space
from gssr.model.statistics import series
from gssr.model.statistics.aggregate import (
    UNKNOWN,
    Aggregate,
    Totals,
    filtered,
    from_samples,
    is_sure,
    numbers_within,
    sum_known,
)
from gssr.model.statistics.balance import has_balance
from gssr.model.statistics.gpu_time_counts import (
    WindowCounts,
    bins_to_count,
    count_rollups,
    most_bins,
    series_of_rollups,
    series_of_rows,
)
from gssr.store.format.layout import Layout, layout_of, part_of
from gssr.store.format.rows import GpuProcesses
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.host_use import Bins
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

MOST_AT_AN_END = 100_000
"""So many samples are looked at, at most, to tell which of a histogram that is cut lie in a window, if its percentiles are
sure enough without (gssr.model.statistics.aggregate.is_sure)."""
MOST_CUT = 3 / 4
"""Of a window of which more than this share lies in histograms that it cuts all samples in these are looked at."""
PASSED_OVER = 5
"""Samples of other GPUs that lie between take so much less time."""
FEWEST_OF_MOST = 1 / 4
"""Of the bins that a series may have it has so many at least, where that spares reading finer rollups than were read."""

NODE_INTERVAL = 1.0
"""Nodes are sampled every so many seconds."""
_MOST_PROCESSES = 1_000_000
"""Of a file that tells of more the rest is not looked at."""


class Source(Protocol):
    """The rows of the selected GPUs."""

    exact: bool
    """False when percentiles come from the sketch."""

    def aggregate(self, names: Sequence[str], window: Window, gap_seconds: float) -> Aggregate:
        """Aggregate the rows of these metrics in a window: counts, sums and times GPU by GPU, and each metric's statistics
        over all rows. Rows of a GPU further apart than ``gap_seconds`` are a gap."""
        ...

    def gpu_series(
        self, names: Sequence[str], span: Window, window: Window, interval: float, most: int
    ) -> dict[str, Grid]:
        """Average these metrics over time, GPU by GPU, in at most ``most`` bins over ``span``, each at least ``interval``
        seconds wide. Only rows in ``window`` count. Returns a Grid [n_gpus, n_bins] by metric, NaN where a GPU has no
        samples."""
        ...


class RowSource:
    """Raw rows of the metrics ``names``, read once."""

    exact = True

    def __init__(self, reader: RunReader, positions: Ints, names: Sequence[str], window: Window) -> None:
        rows = reader.samples(names, filtered(reader, positions), window)
        unknown = np.full(len(rows.time), np.nan)  # of all metrics that nobody measured the same
        values = {name: own if np.isfinite(own).any() else unknown for name, own in rows.values.items()}
        self._rows = Samples(numbers_within(rows.gpu, positions, len(reader.gpus)), rows.time, values)
        self._n_gpus = len(positions)

    def between(self, names: Sequence[str], window: Window, places: Ints | None = None) -> Samples:
        """Pick the rows of these metrics in a window. With ``places`` (numbers of GPUs, ascending) only the rows of
        these GPUs, numbered anew from 0; None: of all."""
        rows = self._rows
        values = {name: rows.values[name] for name in names}
        inside = (rows.time >= window.start) & (rows.time < window.end)
        gpu = rows.gpu
        if places is not None and len(places) < self._n_gpus:
            gpu = numbers_within(gpu, places, self._n_gpus)
            inside &= gpu >= 0
        if inside.all():
            return Samples(gpu, rows.time, values)
        return Samples(gpu[inside], rows.time[inside], {name: column[inside] for name, column in values.items()})

    def aggregate(self, names: Sequence[str], window: Window, gap_seconds: float) -> Aggregate:
        """Aggregate the rows of these metrics in a window: counts, sums and times GPU by GPU, and each metric's
        statistics over all rows, all of it exact. Rows of a GPU further apart than ``gap_seconds`` are a gap."""
        return from_samples(self.between(names, window), self._n_gpus, gap_seconds)

    def gpu_series(
        self, names: Sequence[str], span: Window, window: Window, interval: float, most: int
    ) -> dict[str, Grid]:
        """Average the rows of these metrics over time, GPU by GPU, in at most ``most`` bins over ``span``, each at least
        ``interval`` seconds wide. Only rows in ``window`` count. Returns a Grid [n_gpus, n_bins] by metric, NaN where a
        GPU has no samples."""
        rows = self.between(names, window)
        bins = series.bins_of_samples(rows, span, interval, most_bins(self._n_gpus, len(rows.time), most))
        return series_of_rows(rows, names, self._n_gpus, bins)


class RollupSource:
    """Rollups and sketches. A series over so short a span that it holds no more than ``few_rows`` is made of raw rows, which
    can be cut finer."""

    exact = False

    def __init__(self, reader: RunReader, positions: Ints, few_rows: int) -> None:
        self._reader = reader
        self._positions = positions
        self._few_rows = few_rows
        self._counted: tuple[Window, WindowCounts] | None = None

    def count(self, names: Sequence[str], span: Window, window: Window, interval: float) -> WindowCounts:
        """Count the rows in cells of GPU and time (gssr.model.statistics.gpu_time_counts). The counts are kept: later
        series of the same window whose bins consist of these cells are made of them."""
        bins = bins_to_count(len(self._positions), self._reader.n_rows, span, interval)
        counted = count_rollups(self._reader, names, self._positions, bins, window)
        self._counted = window, counted
        return counted

    def aggregate(self, names: Sequence[str], window: Window, gap_seconds: float) -> Aggregate:
        """Add up the rollups of these metrics in a window: counts, sums and times GPU by GPU, and each metric's
        statistics over all samples. More than ``gap_seconds`` between two samples of a GPU is a gap. Percentiles come
        from sketches, with a bound of their error; where that is too wide, the samples at the window's ends are read as
        well."""
        gpus = filtered(self._reader, self._positions)
        sums = Totals(self._layout(names), len(self._positions), over_gpus=True)
        self._add_up(sums, names, window, gap_seconds)
        sketched = [name for name in names if has_balance(BY_NAME[name])]
        most = MOST_AT_AN_END if self._is_mostly_whole(window) else math.inf
        found = self._reader.histograms(sketched, window, gpus, most)
        aggregate = sums.aggregate(found)
        unsure = [name for name in sketched if not is_sure(aggregate.statistics.get(name, UNKNOWN))]
        if not (found.readable and unsure):
            return aggregate
        return sums.aggregate(found.with_others(self._reader.histograms(unsure, window, gpus)))

    def sums(self, names: Sequence[str], window: Window, gap_seconds: float) -> Aggregate:
        """Add up the rollups of these metrics, of which the file need not have all, GPU by GPU and without statistics."""
        found = Totals(self._layout(names), len(self._positions), over_gpus=False)
        self._add_up(found, names, window, gap_seconds)
        return found.sums()

    def _layout(self, names: Sequence[str]) -> Layout:
        return part_of(layout_of(self._reader.metrics), names)

    def _add_up(self, sums: Totals, names: Sequence[str], window: Window, gap_seconds: float) -> None:
        """Add to ``sums`` what the rollups of each GPU hold of these metrics in a window."""
        from gssr.store.read.whole_run import merge_window_by_gpu

        for own in merge_window_by_gpu(self._reader, names, self._positions, window, gap_seconds):
            sums.add(numbers_within(own.gpu, self._positions, len(self._reader.gpus)), own.vectors)

    def _is_mostly_whole(self, window: Window) -> bool:
        """Tell whether enough of a window lies in histograms that it does not cut: otherwise bounds of the rest would
        be wide."""
        span = window.close_at(self._reader.first_time, self._reader.last_time)
        return self._reader.cut_seconds(window) <= MOST_CUT * span.seconds

    def gpu_series(
        self, names: Sequence[str], span: Window, window: Window, interval: float, most: int
    ) -> dict[str, Grid]:
        """Average these metrics over time, GPU by GPU, in at most ``most`` bins (at least two) over ``span``. Rollups
        are read, or raw rows if these are few, which can be cut finer: bins are then at least ``interval`` seconds wide.
        Only rows in ``window`` count. Returns a Grid [n_gpus, n_bins] by metric, NaN where a GPU has no samples."""
        few = len(self._positions) * span.seconds / interval <= self._few_rows
        gpus = filtered(self._reader, self._positions)
        few = few and self._reader.rows_between(span, gpus) <= PASSED_OVER * self._few_rows
        if few and self._reader.thinned_until <= span.start:
            rows = RowSource(self._reader, self._positions, names, window)
            return rows.gpu_series(names, span, ALL_TIME, interval, most)
        most = most_bins(len(self._positions), self._reader.n_rows, most)
        bins = series.bins_of_buckets(span, interval, most)
        if self._counted is not None and self._counted[0] == window:
            counted = self._counted[1]
            if counted.bins.width > bins.width and counted.bins.n >= most * FEWEST_OF_MOST:
                bins = counted.bins
            if counted.holds(names, bins):
                return {name: counted.gpu_series(name, bins) for name in names}
        return series_of_rollups(self._reader, names, self._positions, bins, window)


def host_use(reader: RunReader, window: Window) -> HostUse | None:
    """Sum up what the nodes and the workload's processes did in a window. Returns None when nothing was recorded of them; a
    field is None where nothing was recorded of it."""
    nodes, ranks = reader.host_use(window), reader.workload_use(window)
    if not ranks and not any(extent.n for extent in nodes.values()):
        return None
    busy = [rank["cpu"].mean for rank in ranks]
    return HostUse(
        cpu_utilization=nodes["cpu_utilization"].mean,
        load1=nodes["load1"].mean,
        memory_used=nodes["memory_used"].greatest,
        memory_total=nodes["memory_total"].greatest,
        read_bytes=nodes["read_bytes"].mean,
        write_bytes=nodes["write_bytes"].mean,
        net_rx_bytes=nodes["net_rx_bytes"].mean,
        net_tx_bytes=nodes["net_tx_bytes"].mean,
        fabric_rx_bytes=nodes["fabric_rx_bytes"].mean,
        fabric_tx_bytes=nodes["fabric_tx_bytes"].mean,
        workload_cpu=sum_known(busy),
        workload_rss=sum_known([rank["rss"].greatest for rank in ranks]),
        workload_processes=sum_known([rank["n_processes"].greatest for rank in ranks]),
    )


def node_means(
    reader: RunReader, metrics: Sequence[str], bins: Bins, window: Window, nodes: Sequence[str] = ()
) -> dict[str, Floats]:
    """Compute the nodes' means in bins, by metric of the nodes (gssr.metrics.HOST_METRICS): [n_nodes, n_bins], NaN
    without samples. The rows are these ``nodes``; where none are named, all nodes with samples, by name, or one row of
    NaN where none has any."""
    columns = {name: _columns_of(name) for name in metrics}
    wanted = tuple(dict.fromkeys(column for own in columns.values() for column in own))
    sums = reader.nodes_over_time(window, bins, wanted)
    nothing = np.zeros((bins[2], len(wanted), 2))
    found: Floats = np.stack([sums.get(node, nothing) for node in nodes or sorted(sums)] or [nothing])
    count, sum_of = found[..., 0], found[..., 1]
    means: Floats = np.divide(sum_of, count, out=np.full(count.shape, np.nan), where=count > 0)
    return {name: _as_metric(*(means[..., wanted.index(column)] for column in own)) for name, own in columns.items()}


def _columns_of(metric: str) -> tuple[str, ...]:
    column = metric.removeprefix(OF_HOST)
    return ("memory_used", "memory_total") if column == "memory_used" else (column,)


def _as_metric(values: Floats, of: Floats | None = None) -> Floats:
    """Divide ``values`` by ``of``, element by element: the memory in use becomes a share of what there is, 0-1. NaN where
    there is none. None for ``of``: the values are returned as they are."""
    if of is None:
        return values
    ratio: Floats = np.divide(values, of, out=np.full(values.shape, np.nan), where=of > 0)
    return ratio


def node_series(reader: RunReader, span: Window, window: Window, most: int) -> Mapping[str, Series]:
    """Make series over the nodes of all metrics of theirs that were measured; empty where none was. In at most ``most``
    bins over ``span``."""
    if reader.host_times is None:
        return {}
    bins = series.bins_of_buckets(span, NODE_INTERVAL, most, least=NODE_INTERVAL)
    found = node_means(reader, tuple(OF_NODES), bins, window)
    return {
        name: over_space(Grid(name, bins.start, bins.width, values))
        for name, values in found.items()
        if np.isfinite(values).any()
    }


def processes_on_gpus(reader: RunReader, positions: Ints, window: Window) -> tuple[GpuProcesses, ...]:
    """Find which processes were on these GPUs, together by name and user, most memory first; empty where none was seen."""
    chosen = set(positions.tolist())
    each: dict[tuple[str | None, str | None], list[tuple[int, float, float, int | None, int | None]]] = {}
    for gpu, first, last, pid, name, user, memory in islice(reader.processes_on_gpus(window), _MOST_PROCESSES):
        if gpu in chosen:
            each.setdefault((name, user), []).append((gpu, first, last, pid, memory))
    found = [
        GpuProcesses(
            name, user, len({(reader.gpus[gpu].node, pid) for gpu, _, _, pid, _ in rows}), len({row[0] for row in rows}),
            max((memory for *_, memory in rows if memory is not None), default=None),
            min(first for _, first, *_ in rows), max(last for _, _, last, *_ in rows),
        )
        for (name, user), rows in each.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda own: (-(own.memory_used or 0), -own.n_gpus, own.name or "", own.user or "")))
