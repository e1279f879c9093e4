"""What rules and phases look at: a job's GPUs and nodes over time, gathered once (gssr.model.evidence.gather).

A part of the evidence, cut out of what was gathered: without another look at the recording.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.results import Means, nodes_of
from gssr.model.statistics.gpu_time_counts import BITS, FLAGS, Float32s, GpuTimeCounts, WindowCounts
from gssr.peaks import Peaks, peaks_of
from gssr.store.format.rows import Event, Gpu, RunRow
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

METRICS = (
    "gpu_utilization", "memory_copy_utilization", "gr_engine_active", "sm_active", "sm_occupancy", "tensor_active",
    "tensor_dfma_active", "fp64_active", "fp32_active", "fp16_active", "dram_active", "pcie_tx_bytes", "pcie_rx_bytes",
    "nvlink_tx_bytes", "nvlink_rx_bytes", "c2c_tx_bytes", "c2c_rx_bytes", "power_usage", "temperature", "sm_clock",
    "memory_used", "flop_active",
)  # fmt: skip
"""What is gathered as series; derived ones last."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A job, or a window and a selection of it. GPUs count from 0 in the order of ``gpus``; ``positions`` are theirs in the
    run. ``start`` to ``end`` is the window, ``interval`` the sampling interval (s).

    ``times`` [n_bins] are the bins' beginnings (unix s), each ``width`` seconds long: the first and the last may reach
    beyond the window. ``series``: by metric [n_gpus, n_bins], in stored units, NaN without samples; only metrics that
    anyone has samples of, ``flop_active`` among them. ``means``: over the window, GPU by GPU, of the same metrics and of
    every clock event reason (the share of its samples). ``greatest``: by metric [n_gpus], single samples.
    ``upper_levels``: by metric of LEVELS_AT_WORK how high the higher samples of each bin are [n_gpus, n_bins], NaN without
    samples: the value of a single one, and of several at most the highest.
    ``n_rows`` [n_gpus]: how many samples each has. ``host`` and ``workload``: [n_bins] by column of
    ``host_samples`` and ``workload_samples``, the mean over nodes, and over ranks; only what was measured.
    ``node_of`` [n_gpus] numbers ``nodes``. ``peaks``: what the GPUs can do at most, None where they are unknown, or not
    all of one model, or parts of a GPU. ``by_node``: what each node moved [n_nodes, n_bins] by column of ``host_samples``;
    empty where there is one node, or nodes and bins are too many to keep. ``n_cores``: how many cores a rank may keep busy,
    the mean of those for which that was recorded; None without any. ``whole_run``: where the window is a part of the
    run, when the same GPUs worked in all of it, in bins of rollups and by no other metrics than those that tell that; None
    where nothing is left out. ``of_job``: where these are some of the job's GPUs, the evidence of all of them in the same
    bins; None for all.
    """

    run: RunRow
    state: str
    start: float
    end: float
    interval: float
    gpus: tuple[Gpu, ...]
    positions: Ints
    nodes: tuple[str, ...]
    node_of: Ints
    times: Floats
    width: float
    series: Mapping[str, Float32s]
    means: Means
    greatest: Mapping[str, Floats]
    n_rows: Ints
    host: Mapping[str, Floats]
    workload: Mapping[str, Floats]
    peaks: Peaks | None
    events: tuple[Event, ...]
    by_node: Mapping[str, Floats] = field(default_factory=dict)
    n_cores: float | None = None
    whole_run: "Evidence | None" = None
    upper_levels: Mapping[str, Float32s] = field(default_factory=dict)
    of_job: "Evidence | None" = None

    @property
    def n_gpus(self) -> int:
        """The number of GPUs."""
        return len(self.gpus)

    @property
    def window(self) -> Window:
        """The window from ``start`` to ``end``, unix s."""
        return Window(self.start, self.end)

    @property
    def seconds(self) -> float:
        """The length of the window, s."""
        return self.window.seconds

    def has(self, *metrics: str) -> bool:
        """Tell whether each of these metrics has samples of some GPU; clock event reasons count as metrics."""
        return all(
            name in self.means.names and bool(self.means.n[self.means.names.index(name)].any()) for name in metrics
        )

    def mean(self, metric: str) -> float | None:
        """Return the mean over all samples of all GPUs; None without any."""
        if metric not in self.means.names:
            return None
        at = self.means.names.index(metric)
        n = float(self.means.n[at].sum())
        return float(self.means.total[at].sum()) / n if n else None

    def over_space(self, metric: str) -> Floats:
        """Return the mean over the GPUs that have a value, bin by bin, float64[n_bins]; NaN where none has, and
        throughout for an unknown metric."""
        return over_gpus(self.series[metric]) if metric in self.series else np.full(len(self.times), np.nan)


def evidence_of(
    reader: RunReader,
    positions: Ints,
    span: Window,
    interval: float,
    counted: WindowCounts,
    known: Sequence[str],
) -> Evidence:
    """Make the evidence of what was counted of a window of a run, still without anything of its nodes and workload.

    Args:
        reader: The run.
        positions: Of the GPUs in the run, in the order in which ``counted`` numbers them.
        span: The window, unix s, closed.
        interval: The sampling interval, s.
        counted: What was counted; the cells of the ``known`` metrics are removed from it, which saves half of the
            memory.
        known: The metrics that have samples.
    """
    bins = counted.bins
    gpus = tuple(reader.gpus[position] for position in positions.tolist())
    nodes, node_of = nodes_of(gpus)
    means = _means(counted, known, span)
    grids = {name: _grid(counted.cells, name) for name in known}
    return Evidence(
        run=reader.run,
        state=reader.state,
        start=span.start,
        end=span.end,
        interval=interval,
        gpus=gpus,
        positions=positions,
        nodes=nodes,
        node_of=node_of,
        times=np.asarray(bins.start + bins.width * np.arange(bins.n), np.float64),
        width=bins.width,
        series=grids,
        means=means,
        greatest={name: counted.by_gpu.column(name, "max") for name in known},
        n_rows=counted.by_gpu.vectors[:, 0].astype(np.int64),
        host={},
        workload={},
        peaks=_peaks(gpus),
        events=reader.events,
        upper_levels={
            name: values.astype(np.float32) for name, values in counted.upper_levels.items() if name in known
        },
    )


def _peaks(gpus: tuple[Gpu, ...]) -> Peaks | None:
    """Look up what these GPUs can do at most; None where that is unknown, or they are not of one model, or parts of a
    GPU."""
    models = {gpu.name for gpu in gpus}
    if len(models) != 1 or any(gpu.mig for gpu in gpus):
        return None
    return peaks_of(models.pop())


def _grid(cells: GpuTimeCounts, name: str) -> Float32s:
    """Return a metric's means [n_gpus, n_bins], NaN without samples, and remove its counts from ``cells``, because
    keeping both would double the memory."""
    means = cells.means(name, kind=np.float32)
    cells.n.pop(name, None)
    cells.total.pop(name, None)
    return means


def _means(counted: WindowCounts, known: Sequence[str], span: Window) -> Means:
    """Add up what was counted of the window, GPU by GPU: counts and sums of the ``known`` metrics, and of the clock event
    reasons if they were measured."""
    flagged = counted.by_gpu.column(BITS, "n") if counted.by_gpu.holds(BITS) else np.zeros(counted.cells.n_gpus)
    reasons = FLAGS if flagged.any() else ()
    shape = len(known) + len(reasons), counted.cells.n_gpus
    n, total = np.zeros(shape), np.zeros(shape)
    for row, name in enumerate(known):
        if name in counted.cells.n:
            n[row] = counted.cells.n[name].sum(axis=1, dtype=np.float64)
            total[row] = counted.cells.total[name].sum(axis=1)
    if reasons:
        n[len(known) :], total[len(known) :] = flagged, [counted.by_gpu.column(BITS, name) for name in reasons]
    return Means((*known, *reasons), *span, n, total)


def over_gpus(values: Float32s | Floats) -> Floats:
    """Return the mean of values [n_gpus, n_bins] over the GPUs that have one, float64[n_bins]; NaN where none has."""
    known = np.isfinite(values)
    n = known.sum(axis=0)
    total = np.where(known, values, 0).sum(axis=0, dtype=np.float64)
    return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0), np.float64)


def excerpt(evidence: Evidence, part: Window) -> Evidence | None:
    """Cut out the evidence of a part of the window: the bins whose middle lies in it. All of the window gives the evidence
    as it is. None if there is no such bin.

    Each bin then counts as one sample: ``greatest`` is that of bins, clock event reasons are unknown,
    and ``n_rows`` counts bins with values. The part is looked at by itself: what is outside is not known of it.
    """
    if part.start <= evidence.start and part.end >= evidence.end:
        return evidence
    begins = np.maximum(evidence.times, evidence.start)  # those at the ends of the window are cut to it first
    ends = np.minimum(evidence.times + evidence.width, evidence.end)
    middles = (begins + ends) / 2
    inside = (middles >= part.start) & (middles < part.end) & (begins < ends)
    if not inside.any():
        return None
    first, last = int(np.argmax(inside)), len(inside) - int(np.argmax(inside[::-1]))
    series = {name: values[:, first:last] for name, values in evidence.series.items()}
    times = evidence.times[first:last]
    n_rows = np.zeros(evidence.n_gpus, np.int64)
    for values in series.values():
        np.maximum(n_rows, np.isfinite(values).sum(axis=1), out=n_rows)
    return replace(
        evidence,
        of_job=evidence.of_job and excerpt(evidence.of_job, part),
        start=part.start,
        end=part.end,
        times=times,
        series=series,
        upper_levels={name: values[:, first:last] for name, values in evidence.upper_levels.items()},
        means=_means_within(series, part, evidence.n_gpus),
        greatest={name: np.fmax.reduce(values, axis=1).astype(np.float64) for name, values in series.items()},
        n_rows=n_rows,
        host={name: values[first:last] for name, values in evidence.host.items()},
        workload={name: values[first:last] for name, values in evidence.workload.items()},
        by_node={name: values[:, first:last] for name, values in evidence.by_node.items()},
        whole_run=None,
        events=tuple(event for event in evidence.events if part.start <= event.time < part.end),
    )


def of_some_gpus(job: Evidence, positions: Ints) -> Evidence:
    """Cut out the evidence of some of a job's GPUs.

    Args:
        job: the evidence of all GPUs of the run, in their order.
        positions: those of the GPUs in the run [n]; the result numbers them in this order.

    Returns evidence in the same bins, with the job's as ``of_job``: what a GPU waits for is seen in the others.
    """
    at = np.searchsorted(job.positions, positions)
    gpus = tuple(job.gpus[each] for each in at.tolist())
    nodes, node_of = nodes_of(gpus)
    return replace(
        job,
        gpus=gpus,
        positions=job.positions[at],
        nodes=nodes,
        node_of=node_of,
        series={name: values[at] for name, values in job.series.items()},
        upper_levels={name: values[at] for name, values in job.upper_levels.items()},
        means=replace(job.means, n=job.means.n[:, at], total=job.means.total[:, at]),
        greatest={name: values[at] for name, values in job.greatest.items()},
        n_rows=job.n_rows[at],
        by_node={name: values[[job.nodes.index(node) for node in nodes]] for name, values in job.by_node.items()},
        peaks=_peaks(gpus),
        whole_run=None,
        of_job=job,
    )


def _means_within(series: Mapping[str, Float32s], part: Window, n_gpus: int) -> Means:
    """Add up the bins [n_gpus, n_bins] of each metric, each bin with a value as one sample."""
    known = [np.isfinite(values) for values in series.values()]
    n = [each.sum(axis=1, dtype=np.float64) for each in known]
    total = [
        np.where(each, values, 0).sum(axis=1, dtype=np.float64)
        for each, values in zip(known, series.values(), strict=True)
    ]
    shape = len(n), n_gpus
    return Means(tuple(series), *part, np.reshape(n, shape), np.reshape(total, shape))
