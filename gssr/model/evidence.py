"""What rules and phases look at: a job's GPUs and nodes over time, gathered once, from raw rows where there are few and from
rollups otherwise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS
from gssr.model import series
from gssr.model.aggregate import chosen, filtered
from gssr.model.analysis import Floats
from gssr.model.frame import Ints, Means, nodes_of
from gssr.model.window import extent
from gssr.peaks import Peaks, peaks_of
from gssr.store.layout import FIELDS
from gssr.store.reader import Buckets, Event, Gpu, Run, RunReader, Samples
from gssr.store.schema import LEVELS

Float32s = NDArray[np.float32]

METRICS = (
    "gpu_utilization", "memory_copy_utilization", "gr_engine_active", "sm_active", "sm_occupancy", "tensor_active",
    "tensor_dfma_active", "fp64_active", "fp32_active", "fp16_active", "dram_active", "pcie_tx_bytes", "pcie_rx_bytes",
    "nvlink_tx_bytes", "nvlink_rx_bytes", "c2c_tx_bytes", "c2c_rx_bytes", "power_usage", "temperature", "sm_clock",
    "memory_used", "flop_active",
)  # fmt: skip
"""What is gathered as series; derived ones last."""
FLAGS = tuple(name for _, name, _ in CLOCK_EVENT_REASONS)
_BITS = "clock_event_reasons"

MOST_BINS = 720
"""Of the series GPU by GPU."""
MOST_INSTANTS = 4_000
"""Bins of the course."""
MOST_ROWS = 200_000
"""A window of up to this many rows is gathered from them."""
MOST_VECTORS, FEWEST_BINS = 100_000, 20
"""A coarser rollup is read when the finer one has more than so many buckets, if that leaves enough bins."""
FEW_GPUS = 16
"""So many GPUs, spread over all, stand for them where the course is read finer than the series."""


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
) -> Evidence:
    """The evidence of some GPUs of a run (their ``positions``) in start <= time < end, unix s (None: as far as the run
    goes). ``rows``: the raw rows of these GPUs in this window, where they were read already, numbered from 0 within
    ``positions``.

    1,024 GPUs sampled at 10 Hz for an hour take some tenths of a second."""
    first, last = extent(reader)
    begin, finish = first if start is None else start, last if end is None else end
    found = evidence_names(reader)
    names = tuple(name for name in found if name != _BITS)
    if rows is None and reader.n_rows <= MOST_ROWS:
        read = reader.samples(found, filtered(reader, positions), start, end)
        rows = Samples(chosen(read.gpu, positions, len(reader.gpus)), read.time, read.values)
    interval = reader.sampling_seconds or 1.0
    course: Course | None
    if rows is not None:
        counted, course = _from_rows(rows, names, len(positions), begin, finish, interval)
    else:
        counted, course = _from_rollups(reader, names, positions, (begin, finish), (start, end), interval)
    bins = counted.bins
    gpus = tuple(reader.gpus[position] for position in positions.tolist())
    nodes, node_of = nodes_of(gpus)
    known = [name for name in names if counted.n[name].any()]
    grids = {name: _quotient(counted.total[name], counted.n[name]) for name in known}
    return Evidence(
        run=reader.run,
        state=reader.state,
        start=begin,
        end=finish,
        interval=interval,
        gpus=gpus,
        positions=positions,
        nodes=nodes,
        node_of=node_of,
        times=np.asarray(bins.start + bins.width * np.arange(bins.n), np.float64),
        width=bins.width,
        series=grids,
        means=_means(counted, known, begin, finish),
        least={name: counted.least[name] for name in known},
        greatest={name: counted.greatest[name] for name in known},
        n_rows=counted.n_rows,
        first_time=counted.first_time,
        last_time=counted.last_time,
        course=course or Course(bins.start, bins.width, {name: over_gpus(grids[name]) for name in known}, len(gpus)),
        host=reader.use_over_time("host_samples", start, end, bins.start, bins.width, bins.n),
        workload=reader.use_over_time("workload_samples", start, end, bins.start, bins.width, bins.n),
        peaks=_peaks(gpus),
        events=reader.events,
    )


def evidence_names(reader: RunReader) -> tuple[str, ...]:
    """What is gathered of a run: those of METRICS that its files can give, and the clock event reasons."""
    stored = set(reader.metrics)
    names = (name for name in (*METRICS, _BITS) if stored >= set(BY_NAME[name].parts or (name,)))
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


def _means(counted: "_Counted", known: Sequence[str], start: float, end: float) -> Means:
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


class _Counted:
    """Counts and sums in cells of GPU and bin."""

    def __init__(self, names: tuple[str, ...], n_gpus: int, bins: series.Bins) -> None:
        self.bins = bins
        shape = (n_gpus, bins.n)
        self.n = {name: np.zeros(shape, np.float32) for name in names}
        self.total = {name: np.zeros(shape) for name in names}
        self.least = {name: np.full(n_gpus, np.nan) for name in names}
        self.greatest = {name: np.full(n_gpus, np.nan) for name in names}
        self.flags = np.zeros((1 + len(FLAGS), n_gpus))
        """Samples with flags, then those with each of them set."""
        self.n_rows = np.zeros(n_gpus, np.int64)
        self.first_time = np.full(n_gpus, np.nan)
        self.last_time = np.full(n_gpus, np.nan)


def _from_rows(
    rows: Samples, names: tuple[str, ...], n_gpus: int, start: float, end: float, interval: float
) -> tuple[_Counted, Course]:
    counted = _Counted(names, n_gpus, series.bins_of_samples(rows, start, end, interval, MOST_BINS))
    bins, gpu = counted.bins, rows.gpu
    cell = gpu * bins.n + bins.holding(rows.time)
    fine = series.bins_of_samples(rows, start, end, interval, MOST_INSTANTS)
    fine_cell = gpu * fine.n + fine.holding(rows.time)
    values = {}
    for name in names:
        column = rows.values[name]
        known = np.isfinite(column)
        column, own, size = column[known], gpu[known], n_gpus * bins.n
        counted.n[name] += np.bincount(cell[known], minlength=size).reshape(-1, bins.n)
        counted.total[name] += np.bincount(cell[known], column, size).reshape(-1, bins.n)
        np.fmin.at(counted.least[name], own, column)
        np.fmax.at(counted.greatest[name], own, column)
        n = np.bincount(fine_cell[known], minlength=n_gpus * fine.n)
        total = np.bincount(fine_cell[known], column, n_gpus * fine.n)
        grid = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0).reshape(-1, fine.n)
        values[name] = over_gpus(grid)
    if _BITS in rows.values:
        known = np.isfinite(rows.values[_BITS])
        flags, own = rows.values[_BITS][known].astype(np.int64), gpu[known]
        counted.flags[0] = np.bincount(own, minlength=n_gpus)
        for number, (bit, _, _) in enumerate(CLOCK_EVENT_REASONS, 1):
            counted.flags[number] = np.bincount(own[(flags & bit) != 0], minlength=n_gpus)
    counted.n_rows += np.bincount(gpu, minlength=n_gpus)
    np.fmin.at(counted.first_time, gpu, rows.time)
    np.fmax.at(counted.last_time, gpu, rows.time)
    return counted, Course(
        fine.start, fine.width, {name: values[name] for name in names if counted.n[name].any()}, n_gpus
    )


def _from_rollups(
    reader: RunReader,
    names: tuple[str, ...],
    positions: Ints,
    span: tuple[float, float],
    window: tuple[float | None, float | None],
    interval: float,
) -> tuple[_Counted, Course | None]:
    n_gpus, seconds = len(positions), span[1] - span[0]
    level = LEVELS[0]
    for coarser in LEVELS[1:]:
        if n_gpus * seconds / level > MOST_VECTORS and seconds / coarser >= FEWEST_BINS:
            level = coarser
    bins = series.bins_of_buckets(*span, max(interval, level / 2), MOST_BINS)
    counted = _Counted(names, n_gpus, bins)
    for buckets in series.slices_of_buckets(reader, (*names, _BITS), positions, bins, *window):
        _count(counted, buckets, chosen(buckets.gpu, positions, len(reader.gpus)))
    instants = series.bins_of_buckets(*span, interval, MOST_INSTANTS)
    if instants.width >= bins.width:
        return counted, None
    few = positions[:: max(1, math.ceil(n_gpus / FEW_GPUS))]
    found = series.from_buckets(reader, names, few, instants, *window)
    values = {name: over_gpus(found[name].values) for name in names if counted.n[name].any()}
    return counted, Course(instants.start, instants.width, values, len(few))


def _count(counted: _Counted, buckets: Buckets, gpu: Ints) -> None:
    """Add the buckets of ``gpu`` [n]."""
    bins, vectors = counted.bins, buckets.vectors
    cell, size = gpu * bins.n + bins.holding(buckets.start), counted.n_rows.size * bins.n
    counted.n_rows += np.bincount(gpu, vectors[:, 0], counted.n_rows.size).astype(np.int64)
    np.fmin.at(counted.first_time, gpu, vectors[:, 2])
    np.fmax.at(counted.last_time, gpu, vectors[:, 3])
    for block in buckets.layout.blocks:
        name, at = block.metric.name, block.start
        if name == _BITS:
            for number, field in enumerate(("n", *FLAGS)):
                column = vectors[:, at + FIELDS["bits"].index(field)]
                counted.flags[number] += np.bincount(gpu, column, counted.n_rows.size)
            continue
        counted.n[name] += np.bincount(cell, vectors[:, at], size).reshape(-1, bins.n)
        counted.total[name] += np.bincount(cell, vectors[:, at + 1], size).reshape(-1, bins.n)
        np.fmin.at(counted.least[name], gpu, vectors[:, at + 3])
        np.fmax.at(counted.greatest[name], gpu, vectors[:, at + 4])
