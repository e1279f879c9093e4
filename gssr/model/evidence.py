"""What rules and phases look at: a job's GPUs and nodes over time, gathered once, from raw rows where there are few and from
rollups otherwise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gssr.metrics import BY_NAME
from gssr.model import series
from gssr.model.aggregate import chosen, filtered
from gssr.model.analysis import Floats
from gssr.model.counted import BITS, FLAGS, MOST_BINS, Counted, Float32s, bins_to_count, count_rollups, count_rows
from gssr.model.frame import Ints, Means, nodes_of
from gssr.model.glimpses import glimpses, read, stretches, use, within
from gssr.model.window import extent
from gssr.peaks import Peaks, peaks_of
from gssr.store.reader import Event, Gpu, Run, RunReader, Samples
from gssr.store.schema import LEVELS

METRICS = (
    "gpu_utilization", "memory_copy_utilization", "gr_engine_active", "sm_active", "sm_occupancy", "tensor_active",
    "tensor_dfma_active", "fp64_active", "fp32_active", "fp16_active", "dram_active", "pcie_tx_bytes", "pcie_rx_bytes",
    "nvlink_tx_bytes", "nvlink_rx_bytes", "c2c_tx_bytes", "c2c_rx_bytes", "power_usage", "temperature", "sm_clock",
    "memory_used", "flop_active",
)  # fmt: skip
"""What is gathered as series; derived ones last."""

MOST_INSTANTS = 4_000
"""Bins of the course."""
MOST_ROWS = 200_000
"""A window of up to this many rows is gathered from them."""
CLOSE = LEVELS[0]
"""Where the series' bins are longer than this, s, some GPUs are looked at closer ..."""
FEW_GPUS, FEW_VECTORS = 16, 12_000
"""... so many at least, spread over all, and as many more as have so many of the finest rollups together."""
BRIEF = 2.0
"""Where they are longer than this, s, stretches of the window are looked at in shorter ones: of these metrics apart."""
_BOARD = ("power_usage", "temperature", "sm_clock", "memory_used")


@dataclass(frozen=True, slots=True)
class Course:
    """The space average in finer bins: ``width`` seconds each from ``start`` (unix s); ``values`` by metric [n_instants],
    NaN without samples; over ``n_gpus`` of the GPUs."""

    start: float
    width: float
    values: Mapping[str, Floats]
    n_gpus: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """A job, or a window and a selection of it. GPUs count from 0 in the order of ``gpus``; ``positions`` are theirs in the
    run. ``start`` to ``end`` is the window, ``interval`` the sampling interval (s).

    ``times`` [n_bins] are the bins' beginnings (unix s), each ``width`` seconds long: the first and the last may reach
    beyond the window. ``series``: by metric [n_gpus, n_bins], in stored units, NaN without samples; only metrics that
    anyone has samples of, ``flop_active`` among them. ``means``: over the window, GPU by GPU, of the same metrics and of
    every clock event reason (the share of its samples). ``least`` and ``greatest``: by metric [n_gpus], single samples.
    ``n_rows``, ``first_time``, ``last_time`` [n_gpus]. ``host`` and ``workload``: [n_bins] by column of
    ``host_samples`` and ``workload_samples``, the mean over nodes, and over ranks; only what was measured.
    ``node_of`` [n_gpus] numbers ``nodes``. ``peaks``: what the GPUs can do at most, None where they are unknown, or not
    all of one model, or parts of a GPU.

    ``closer``: some of the GPUs in shorter bins, where the series' are long; None elsewhere. ``glimpses``: the same in bins
    of a sample or few, over stretches of the window (gssr.model.glimpses) between which ``times`` leap over an empty bin;
    None where bins are as short, nothing is known of the nodes, or rows are too many to read some tens of seconds of them.
    """

    run: Run
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
    least: Mapping[str, Floats]
    greatest: Mapping[str, Floats]
    n_rows: Ints
    first_time: Floats
    last_time: Floats
    course: Course
    host: Mapping[str, Floats]
    workload: Mapping[str, Floats]
    peaks: Peaks | None
    events: tuple[Event, ...]
    closer: "Evidence | None" = None
    glimpses: "Evidence | None" = None

    @property
    def n_gpus(self) -> int:
        """How many GPUs."""
        return len(self.gpus)

    @property
    def seconds(self) -> float:
        """How long the window is."""
        return self.end - self.start

    def has(self, *metrics: str) -> bool:
        """Whether any GPU has samples of each of them; clock event reasons count as metrics."""
        return all(
            name in self.means.names and bool(self.means.n[self.means.names.index(name)].any()) for name in metrics
        )

    def mean(self, metric: str) -> float | None:
        """Over all samples of all GPUs; None without any."""
        if metric not in self.means.names:
            return None
        at = self.means.names.index(metric)
        n = float(self.means.n[at].sum())
        return float(self.means.total[at].sum()) / n if n else None

    def over_space(self, metric: str) -> Floats:
        """[n_bins]: the mean over the GPUs that have a value, NaN where none has."""
        return over_gpus(self.series[metric]) if metric in self.series else np.full(len(self.times), np.nan)


def gather(
    reader: RunReader,
    positions: Ints,
    start: float | None = None,
    end: float | None = None,
    rows: Samples | None = None,
    counted: Counted | None = None,
) -> Evidence:
    """The evidence of some GPUs of a run (their ``positions``) in start <= time < end, unix s (None: as far as the run
    goes). ``rows``: the raw rows of these GPUs in this window, where they were read already, numbered from 0 within
    ``positions``; ``counted``: what their rollups add up to (gssr.model.counted.count_rollups), where those were.

    1,024 GPUs sampled at 10 Hz for an hour take some tenths of a second."""
    first, last = extent(reader)
    span = first if start is None else start, last if end is None else end
    found = evidence_names(reader)
    names = tuple(name for name in found if name != BITS)
    if rows is None and counted is None and reader.has_rows(MOST_ROWS, start):
        read = reader.samples(found, filtered(reader, positions), start, end)
        rows = Samples(chosen(read.gpu, positions, len(reader.gpus)), read.time, read.values)
    interval = reader.sampling_seconds or 1.0
    if rows is not None:
        bins = series.bins_of_samples(rows, *span, interval, MOST_BINS)
        counted = count_rows(rows, names, len(positions), bins)
    elif counted is None:
        counted = count_rollups(reader, names, positions, bins_to_count(len(positions), span, interval), (start, end))
    known = [name for name in names if counted.n[name].any()]
    evidence = _evidence(reader, positions, span, interval, counted, known)
    apart = _apart(len(positions), span)
    few = positions[::apart]
    own = None if rows is None else _of_few(rows, apart, known)
    closer = None
    if evidence.width > CLOSE:
        closer = _closer(reader, few, span, (start, end), interval, own, known)
        closer = _with_use(closer, reader, (start, end)) if closer.width < evidence.width else None
    evidence = _with_use(evidence, reader, (start, end), closer)
    return replace(
        evidence,
        course=_course_of_rows(rows, known, len(positions), span, interval) if rows else (closer or evidence).course,
        closer=closer,
        glimpses=_glimpsed(evidence, reader, few, own, known) if evidence.host else None,
    )


def _with_use(
    evidence: Evidence, reader: RunReader, window: tuple[float | None, float | None], closer: Evidence | None = None
) -> Evidence:
    """With what the nodes and the workload did meanwhile: from ``closer``, where that has it in shorter bins."""
    bins = series.Bins(float(evidence.times[0]), evidence.width, len(evidence.times))
    if closer is not None:
        at = bins.holding(closer.times)
        return replace(evidence, host=_folded(closer.host, at, bins.n), workload=_folded(closer.workload, at, bins.n))
    host, workload = (reader.use_over_time(table, *window, *bins) for table in ("host_samples", "workload_samples"))
    return replace(evidence, host=host, workload=workload)


def _folded(use: Mapping[str, Floats], at: Ints, n: int) -> dict[str, Floats]:
    """[n]: the means of the values [len(at)] of each bin that ``at`` names."""
    found = {}
    for name, values in use.items():
        known = np.isfinite(values)
        count = np.bincount(at[known], minlength=n)
        total = np.bincount(at[known], values[known], n)
        found[name] = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
    return found


def _evidence(
    reader: RunReader,
    positions: Ints,
    span: tuple[float, float],
    interval: float,
    counted: Counted,
    known: Sequence[str],
) -> Evidence:
    """What was counted, as evidence; its course is in the bins of its series."""
    bins = counted.bins
    gpus = tuple(reader.gpus[position] for position in positions.tolist())
    nodes, node_of = nodes_of(gpus)
    grids = {name: _quotient(counted.total[name], counted.n[name]) for name in known}
    return Evidence(
        run=reader.run,
        state=reader.state,
        start=span[0],
        end=span[1],
        interval=interval,
        gpus=gpus,
        positions=positions,
        nodes=nodes,
        node_of=node_of,
        times=np.asarray(bins.start + bins.width * np.arange(bins.n), np.float64),
        width=bins.width,
        series=grids,
        means=_means(counted, known, *span),
        least={name: counted.least[name] for name in known},
        greatest={name: counted.greatest[name] for name in known},
        n_rows=counted.n_rows,
        first_time=counted.first_time,
        last_time=counted.last_time,
        course=Course(bins.start, bins.width, {name: over_gpus(grids[name]) for name in known}, len(gpus)),
        host={},
        workload={},
        peaks=_peaks(gpus),
        events=reader.events,
    )


def _apart(n_gpus: int, span: tuple[float, float]) -> int:
    """Every how many GPUs one is looked at closer."""
    most = max(FEW_GPUS, int(FEW_VECTORS * LEVELS[0] / max(span[1] - span[0], LEVELS[0])))
    return max(1, math.ceil(n_gpus / most))


def _of_few(rows: Samples, apart: int, names: Sequence[str]) -> Samples:
    """The rows of every so many GPUs, numbered anew."""
    own = rows.gpu % apart == 0
    return Samples(rows.gpu[own] // apart, rows.time[own], {name: rows.values[name][own] for name in names})


def _closer(
    reader: RunReader,
    few: Ints,
    span: tuple[float, float],
    window: tuple[float | None, float | None],
    interval: float,
    rows: Samples | None,
    known: Sequence[str],
) -> Evidence:
    """Of some of the GPUs, in bins that may be as short as those of the course. ``rows``: theirs."""
    if rows is None:
        bins = series.bins_of_buckets(*span, interval, MOST_INSTANTS)
        counted = count_rollups(reader, known, few, bins, window)
    else:
        counted = count_rows(rows, known, len(few), series.bins_of_samples(rows, *span, interval, MOST_INSTANTS))
    return _evidence(reader, few, span, interval, counted, known)


def _glimpsed(
    evidence: Evidence, reader: RunReader, few: Ints, rows: Samples | None, known: Sequence[str]
) -> Evidence | None:
    """Of some of the GPUs, for some stretches of the window, in bins of a sample or few; None where those of the series are
    as short, or no stretches can be had. ``rows``: theirs."""
    begins, seconds = stretches(reader, (evidence.start, evidence.end))
    if evidence.width <= BRIEF or evidence.width <= evidence.interval or not len(begins) or not len(few):
        return None
    names = [name for name in known if name not in _BOARD]
    rows = read(reader, few, names, begins, seconds) if rows is None else within(rows, names, begins, seconds)
    looks = glimpses(rows, begins, seconds, evidence.interval)
    if looks.width >= evidence.width:
        return None
    moved = Samples(rows.gpu, looks.moved(rows.time), rows.values)
    counted = count_rows(moved, names, len(few), looks.bins)
    found = _evidence(reader, few, (evidence.start, evidence.end), evidence.interval, counted, names)
    n_ranks = reader.run.world_size or len(reader.gpus)
    return replace(
        found,
        times=looks.times,
        first_time=evidence.first_time[np.isin(evidence.positions, few)],
        last_time=evidence.last_time[np.isin(evidence.positions, few)],
        course=evidence.course,
        host=use(reader, "host_samples", len(set(evidence.nodes)), looks),
        workload=use(reader, "workload_samples", n_ranks, looks),
    )


def evidence_names(reader: RunReader) -> tuple[str, ...]:
    """What is gathered of a run: those of METRICS that its files can give, and the clock event reasons."""
    stored = set(reader.metrics)
    names = (name for name in (*METRICS, BITS) if stored >= set(BY_NAME[name].parts or (name,)))
    return tuple(names)


def _peaks(gpus: tuple[Gpu, ...]) -> Peaks | None:
    models = {gpu.name for gpu in gpus}
    if len(models) != 1 or any(gpu.mig for gpu in gpus):
        return None
    return peaks_of(models.pop())


def _quotient(total: Floats, n: Float32s) -> Float32s:
    means = np.full(total.shape, np.nan, np.float32)
    np.divide(total, n, out=means, where=n > 0, casting="same_kind")
    return means


def _means(counted: "Counted", known: Sequence[str], start: float, end: float) -> Means:
    reasons = FLAGS if counted.flags[0].any() else ()
    n = [counted.n[name].sum(axis=1, dtype=np.float64) for name in known] + [counted.flags[0]] * len(reasons)
    total = [counted.total[name].sum(axis=1) for name in known] + list(counted.flags[1 : 1 + len(reasons)])
    shape = len(n), counted.n_rows.size
    return Means((*known, *reasons), start, end, np.reshape(n, shape), np.reshape(total, shape))


def over_gpus(values: Float32s | Floats) -> Floats:
    """[n_bins]: the mean of values [n_gpus, n_bins] over the GPUs that have one, NaN where none has."""
    known = np.isfinite(values)
    n = known.sum(axis=0)
    total = np.where(known, values, 0).sum(axis=0, dtype=np.float64)
    return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0), np.float64)


def _course_of_rows(
    rows: Samples, known: Sequence[str], n_gpus: int, span: tuple[float, float], interval: float
) -> Course:
    bins = series.bins_of_samples(rows, *span, interval, MOST_INSTANTS)
    values = {name: over_gpus(series.from_samples(rows, [name], n_gpus, bins)[name].values) for name in known}
    return Course(bins.start, bins.width, values, n_gpus)
