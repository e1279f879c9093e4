"""Gathering the evidence of a job: from raw rows where there are few and from rollups otherwise; of long and large jobs some
GPUs and some stretches of the time are looked at closer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME
from gssr.model.evidence.evidence import METRICS, Course, Evidence, evidence_of, over_gpus
from gssr.model.statistics import series
from gssr.model.statistics.aggregate import filtered, numbers_within
from gssr.model.statistics.gpu_time_counts import (
    BITS,
    MOST_BINS,
    Counted,
    bins_to_count,
    count_rollups,
    count_rows,
    most_bins,
    series_of_rows,
)
from gssr.model.window import extent
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader, Samples
from gssr.store.read.window_edges import ALL_TIME, Window

MOST_INSTANTS = 4_000
"""Bins of the course."""
MOST_ROWS = 200_000
"""A window of up to this many rows is gathered from them."""
CLOSE = LEVELS[0]
"""Where the series' bins are longer than this, s, some GPUs are looked at closer ..."""
FEW_GPUS, FEW_VECTORS = 16, 6_000
"""... so many at least, pairs of neighbours spread over all, and as many more as have so many of the finest rollups
together. Neighbours: of what GPUs of one node share (a host, a switch) two tell more than one, and a page of the file holds
both."""
BRIEF = 2.0
"""Where they are longer than this, s, stretches of the window are looked at in bins of a sample or few."""
WAITS = 0.05
"""They are looked for where the engine is idle for at least this share of the time in which the job works."""
MOST_USE = 20_000
"""Where nodes have more of the finest rollups, a twentieth of a second, what they do is read in the series' bins."""
SPARSE = 4.0
"""GPUs sampled less often than once in so many seconds may wait between two samples; nodes are sampled each second."""
MOST_SECONDS, MOSTLY = 40_000, 0.5
"""Of so many seconds at most, and where so many of them are known, it is looked at how much nodes move in each."""
MUCH = 1e8
"""From this rate on, B/s, a node's disks or network may hold up its GPUs."""
MOVED = ("read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes")
USE = {
    HOST: ("cpu_utilization", "read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes",
           "fabric_rx_bytes", "fabric_tx_bytes"),
    WORKLOAD: ("cpu", "n_processes"),
}  # fmt: skip
"""What of the nodes and the workload's processes is gathered."""
_BESIDE = (
    "sm_occupancy", "tensor_active", "tensor_dfma_active", "fp64_active", "fp32_active", "fp16_active", "temperature",
    "sm_clock", "memory_used",
)  # fmt: skip
"""What no rule looks at closer: it tells nothing of waits, nor of phases."""


def gather(
    reader: RunReader,
    positions: Ints,
    window: Window = ALL_TIME,
    rows: Samples | None = None,
    counted: Counted | None = None,
) -> Evidence:
    """The evidence of some GPUs of a run (their ``positions``) in a window. ``rows``: the raw rows of these GPUs in it,
    where they were read already, numbered from 0 within ``positions``; ``counted``: what their rollups add up to
    (gssr.model.statistics.gpu_time_counts.count_rollups), where those were.

    1,024 GPUs sampled at 10 Hz for an hour take some tenths of a second."""
    span = window.within(*extent(reader))
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
    places = _few(len(positions), span.seconds)
    few = positions[places]
    looked_at = [name for name in known if name not in _BESIDE]
    own = None if rows is None else _of_few(rows, places, len(positions), looked_at)
    closer = None
    if evidence.width > CLOSE:
        closer = _closer(reader, few, span, window, interval, own, looked_at)
        closer = closer if closer.width < evidence.width else None
    if closer is not None and len(evidence.nodes) * evidence.seconds / CLOSE <= MOST_USE:
        closer = _with_use(closer, reader, window)
    evidence = _with_use(evidence, reader, window, closer if closer and closer.host else None)
    return replace(
        evidence,
        course=_course_of_rows(rows, known, len(positions), span, interval) if rows else (closer or evidence).course,
        closer=closer,
        glimpses=_glimpsed(evidence, reader, few, own, looked_at)
        if evidence.host and _waits(closer or evidence)
        else None,
    )


def few_rows(reader: RunReader, positions: Ints, window: Window) -> Samples | None:
    """The raw rows of these GPUs in a window, numbered from 0 within ``positions``; None where they are too many."""
    if not reader.has_rows(MOST_ROWS, window):
        return None
    read = reader.samples(evidence_names(reader), filtered(reader, positions), window)
    return Samples(numbers_within(read.gpu, positions, len(reader.gpus)), read.time, read.values)


def _with_use(evidence: Evidence, reader: RunReader, window: Window, closer: Evidence | None = None) -> Evidence:
    """With what the nodes and the workload did meanwhile: from ``closer``, where that has it in shorter bins."""
    bins = series.Bins(float(evidence.times[0]), evidence.width, len(evidence.times))
    if closer is not None:
        at = bins.holding(closer.times)
        return replace(evidence, host=_folded(closer.host, at, bins.n), workload=_folded(closer.workload, at, bins.n))
    return replace(
        evidence,
        moving=_moving(reader, window, bins),
        host=reader.use_over_time(HOST, window, bins, USE[HOST]),
        workload=reader.use_over_time(WORKLOAD, window, bins, USE[WORKLOAD]),
    )


def _moving(reader: RunReader, window: Window, bins: series.Bins) -> dict[str, Floats]:
    """``Evidence.moving``, where the bins are coarse because the GPUs were sampled so, and the nodes were each second."""
    n = int(bins.width)
    if (reader.sampling_seconds or 1.0) < SPARSE or bins.n * n > MOST_SECONDS:
        return {}
    seconds = series.Bins(bins.start, bins.width / n, bins.n * n)
    found = {}
    for name, rate in reader.use_over_time(HOST, window, seconds, MOVED).items():
        known = np.isfinite(rate)
        if known.mean() >= MOSTLY:
            much = known & (rate >= max(MUCH, float(np.median(rate[known]))))
            found[name] = _folded({name: np.where(known, much, np.nan)}, np.arange(len(rate)) // n, bins.n)[name]
    return found


def _folded(use: Mapping[str, Floats], at: Ints, n: int) -> dict[str, Floats]:
    """[n]: the means of the values [len(at)] of each bin that ``at`` names."""
    found = {}
    for name, values in use.items():
        known = np.isfinite(values)
        count = np.bincount(at[known], minlength=n)
        total = np.bincount(at[known], values[known], n)
        found[name] = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
    return found


def _few(n_gpus: int, seconds: float) -> Ints:
    """Which of so many GPUs are looked at closer in a window of so many seconds."""
    most = max(FEW_GPUS, int(FEW_VECTORS * LEVELS[0] / max(seconds, LEVELS[0])))
    if n_gpus <= most:
        return np.arange(n_gpus)
    first = np.linspace(0, n_gpus - 2, most // 2).astype(np.int64) // 2 * 2
    return (first[:, None] + np.arange(2)).reshape(-1)


def _of_few(rows: Samples, places: Ints, n_gpus: int, names: Sequence[str]) -> Samples:
    """The rows of the GPUs at these places, numbered anew."""
    gpu = numbers_within(rows.gpu, places, n_gpus)
    own = gpu >= 0
    return Samples(gpu[own], rows.time[own], {name: rows.values[name][own] for name in names})


def _closer(
    reader: RunReader,
    few: Ints,
    span: Window,
    window: Window,
    interval: float,
    rows: Samples | None,
    names: Sequence[str],
) -> Evidence:
    """Of some of the GPUs, in bins that may be as short as those of the course. ``rows``: theirs."""
    if rows is None:
        most = most_bins(len(few), reader.n_rows, MOST_INSTANTS)
        counted = count_rollups(reader, names, few, series.bins_of_buckets(span, interval, most), window)
    else:
        most = most_bins(len(few), len(rows.time), MOST_INSTANTS)
        counted = count_rows(rows, names, len(few), series.bins_of_samples(rows, span, interval, most))
    return evidence_of(reader, few, span, interval, counted, names)


def _waits(evidence: Evidence) -> bool:
    """Whether there may be waits within bins in which the job works; waits of whole bins are seen in these."""
    name = next((name for name in ("gr_engine_active", "gpu_utilization") if name in evidence.series), None)
    if name is None:
        return True
    active = evidence.over_space(name)
    active = active[np.isfinite(active)]  # of the few GPUs that are looked at closer none may have any
    at_work = active[active >= np.percentile(active, 95) / 2] if len(active) else active
    return not len(at_work) or bool(at_work.mean() <= 1 - WAITS)


def _glimpsed(
    evidence: Evidence, reader: RunReader, few: Ints, rows: Samples | None, names: Sequence[str]
) -> Evidence | None:
    """Of some of the GPUs, for some stretches of the window, in bins of a sample or few; None where those of the series are
    as short, or no stretches can be had. ``rows``: theirs."""
    from gssr.model.evidence.glimpses import glimpses, rows_in, stretches, those_in, use

    begins, seconds = stretches(reader, evidence.window)
    if evidence.width <= BRIEF or evidence.width <= evidence.interval or not len(begins) or not len(few):
        return None
    rows = rows_in(reader, few, names, begins, seconds) if rows is None else those_in(rows, names, begins, seconds)
    looks = glimpses(rows, begins, seconds, evidence.interval)
    if looks.width >= evidence.width:
        return None
    moved = Samples(rows.gpu, looks.moved(rows.time), rows.values)
    counted = count_rows(moved, names, len(few), looks.bins)
    found = evidence_of(reader, few, evidence.window, evidence.interval, counted, names)
    own = np.isin(evidence.positions, few)
    return replace(
        found,
        times=looks.times,
        first_time=evidence.first_time[own],
        last_time=evidence.last_time[own],
        course=evidence.course,
        host=use(reader, HOST, USE[HOST], looks),
        workload=use(reader, WORKLOAD, USE[WORKLOAD], looks),
    )


def evidence_names(reader: RunReader) -> tuple[str, ...]:
    """What is gathered of a run: those of METRICS that its files can give, and the clock event reasons."""
    stored = set(reader.metrics)
    names = (name for name in (*METRICS, BITS) if stored >= set(BY_NAME[name].parts or (name,)))
    return tuple(names)


def _course_of_rows(rows: Samples, known: Sequence[str], n_gpus: int, span: Window, interval: float) -> Course:
    bins = series.bins_of_samples(rows, span, interval, most_bins(n_gpus, len(rows.time), MOST_INSTANTS))
    values = {name: over_gpus(series_of_rows(rows, [name], n_gpus, bins)[name].values) for name in known}
    return Course(bins.start, bins.width, values, n_gpus)
