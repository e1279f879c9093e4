"""Gathering the evidence of a job: from raw rows where there are few and from rollups otherwise."""

from dataclasses import replace

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME, DETECTION_METRICS
from gssr.model.evidence.evidence import METRICS, Evidence, evidence_of
from gssr.model.statistics import series
from gssr.model.statistics.aggregate import filtered, numbers_within
from gssr.model.statistics.gpu_time_counts import (
    BITS,
    MOST_BINS,
    WindowCounts,
    bins_to_count,
    count_rollups,
    count_rows,
    most_bins,
)
from gssr.model.window import extent
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

MOST_ROWS = 200_000
"""A window of up to this many rows is gathered from them."""
MOVED = ("read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes")
MOST_OF_NODES = 100_000
"""Nodes times bins for which it is kept what each node moved: some megabytes."""
USE = {
    HOST: ("cpu_utilization", "read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes",
           "fabric_rx_bytes", "fabric_tx_bytes"),
    WORKLOAD: ("cpu", "n_processes"),
}  # fmt: skip
"""What of the nodes and the workload's processes is gathered."""


def gather(
    reader: RunReader,
    positions: Ints,
    window: Window = ALL_TIME,
    rows: Samples | None = None,
    counted: WindowCounts | None = None,
) -> Evidence:
    """Gather the evidence of some GPUs of a run in a window.

    Args:
        positions: of the GPUs in the run.
        window: unix s; the whole run by default.
        rows: the raw rows of these GPUs in the window, if they were read already, with GPUs numbered from 0 within
            ``positions``.
        counted: the sums of their rollups (gssr.model.statistics.gpu_time_counts.count_rollups), if those were read
            already.

    Few rows are read if neither is given and there are few; else rollups are. 1,024 GPUs sampled at 10 Hz for an hour
    take some tenths of a second.
    """
    span = window.close_at(*extent(reader))
    found = evidence_names(reader)
    names = tuple(name for name in found if name != BITS)
    if rows is None and counted is None:
        rows = few_rows(reader, positions, window)
    interval = reader.sampling_seconds or 1.0
    if rows is not None:
        most = most_bins(len(positions), len(rows.time), MOST_BINS)
        bins = series.bins_of_samples(rows, span, interval, most)
        counted = count_rows(rows, names, len(positions), bins)
    elif counted is None:
        bins = bins_to_count(len(positions), reader.n_rows, span, interval)
        counted = count_rollups(reader, names, positions, bins, window)
    known = [name for name in names if name in counted.cells.n]
    evidence = evidence_of(reader, positions, span, interval, counted, known)
    bins = series.Bins(float(evidence.times[0]), evidence.width, len(evidence.times))
    return replace(
        evidence,
        host=reader.use_over_time(HOST, window, bins, USE[HOST]),
        workload=reader.use_over_time(WORKLOAD, window, bins, USE[WORKLOAD]),
        by_node=_by_node(evidence, reader, window, bins),
        n_cores=_cores_of_a_rank(reader),
        whole_run=_whole_run(reader, positions, span, interval),
    )


def _whole_run(reader: RunReader, positions: Ints, span: Window, interval: float) -> Evidence | None:
    """Gather the evidence of the whole run that judging a part of it needs: the metrics that tell work from waiting, in
    bins of about the run's length. ``positions`` are those of the GPUs, ``interval`` is that of sampling, s. None if
    ``span`` leaves out less than a bucket (10 s) at both ends of the run."""
    whole = extent(reader)
    if span.start - whole.start < LEVELS[0] and whole.end - span.end < LEVELS[0]:
        return None
    names = [name for name in evidence_names(reader) if name in DETECTION_METRICS]
    bins = bins_to_count(len(positions), reader.n_rows, whole, interval)
    counted = count_rollups(reader, names, positions, bins, ALL_TIME)
    known = [name for name in names if name in counted.cells.n]
    return evidence_of(reader, positions, whole, interval, counted, known)


def _cores_of_a_rank(reader: RunReader) -> float | None:
    """Return how many cores a rank may keep busy, the mean over the ranks for which that was recorded; None if for none."""
    known = [process.n_cores for process in reader.processes if process.n_cores is not None]
    return sum(known) / len(known) if known else None


def _by_node(evidence: Evidence, reader: RunReader, window: Window, bins: series.Bins) -> dict[str, Floats]:
    """Compute what the nodes of the evidence moved: for each metric of MOVED with samples the means [n_nodes, n_bins],
    NaN in bins without samples. {} for a single node, or if nodes times bins are too many."""
    if not 1 < len(evidence.nodes) <= MOST_OF_NODES / bins.n:
        return {}
    own = reader.nodes_over_time(window, bins, MOVED)
    nothing = np.zeros((bins.n, len(MOVED), 2))
    sums = np.stack([own.get(node, nothing) for node in evidence.nodes])
    count = sums[..., 0]
    means = np.divide(sums[..., 1], count, out=np.full(count.shape, np.nan), where=count > 0)
    return {name: means[:, :, column] for column, name in enumerate(MOVED) if count[:, :, column].any()}


def few_rows(reader: RunReader, positions: Ints, window: Window) -> Samples | None:
    """Read the raw rows of these GPUs in a window, with GPUs numbered from 0 within ``positions``. None if the run has
    too many."""
    if not reader.has_rows(MOST_ROWS, window):
        return None
    read = reader.samples(evidence_names(reader), filtered(reader, positions), window)
    return Samples(numbers_within(read.gpu, positions, len(reader.gpus)), read.time, read.values)


def evidence_names(reader: RunReader) -> tuple[str, ...]:
    """Return the metrics that are gathered of a run: those of METRICS that its files can give, and the clock event
    reasons."""
    stored = set(reader.metrics)
    names = (name for name in (*METRICS, BITS) if stored >= set(BY_NAME[name].parts or (name,)))
    return tuple(names)
