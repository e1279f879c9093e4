"""One part of a run against another, metric by metric: GPUs against all GPUs, or a stretch of time against the whole run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import OF_NODES, OF_TRACES, THROTTLES
from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result
from gssr.model.results import Means

Kind = Literal["gpus", "moment", "window"]

METRICS = (
    "gr_engine_active", "gpu_utilization", "sm_active", "sm_occupancy", "tensor_active", "fp64_active", "fp32_active",
    "fp16_active", "integer_active", "flop_active", "dram_active", "memory_copy_utilization", "pcie_rx_bytes",
    "pcie_tx_bytes", "c2c_rx_bytes", "c2c_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes", "sm_clock", "power_usage",
    "temperature", "memory_temperature", "memory_used",
)  # fmt: skip
"""What is compared, in the order of explaining: is it busy, with what, what moves, what holds it back."""
_STANDS_IN = {"gpu_utilization": "gr_engine_active"}
"""Metrics that say less of the same, and the better ones."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One part against another. ``kind``: "gpus": some GPUs against all of them in the same window; "moment": the cursor's
    column, "window": the window, against the whole run. ``gpus``: positions of the part's GPUs.

    ``own`` and ``job``: each metric's mean over all samples of the part, and of what it is compared with, None where it has
    none; THROTTLES among them, as shares of samples. ``own_series`` and ``job_series`` [n_columns] are the grid's metric
    over time: the mean of the part's GPUs and the median GPU of all.
    """

    kind: Kind
    gpus: Ints
    own: Mapping[str, float | None]
    job: Mapping[str, float | None]
    own_series: Floats
    job_series: Floats


@once
def contrast(frame: Result, selection: tuple[int, ...], cursor: float | None) -> Contrast:
    """Compare a part of a run with the whole of it.

    That is the selection (positions) with all GPUs; without one the moment under the cursor (unix s, None: no cursor)
    with the whole run, else the window with the whole run. If the window is the whole run, it is the GPU with the
    lowest mean with all GPUs; no GPU if none has samples.
    """
    whole = frame.window.start <= frame.first and frame.window.end >= frame.last
    if not selection and cursor is not None and frame.moment:
        return _in_time(frame, "moment", frame.moment)
    if not selection and not whole:
        return _in_time(frame, "window", frame.window.overall())
    gpus = np.array(selection or lowest(frame.window, frame.grid.metric), np.int64)
    own = frame.grid.values[gpus]
    known = np.isfinite(own)
    n = known.sum(axis=0)
    series = np.divide(np.where(known, own, 0.0).sum(axis=0), n, out=np.full(frame.grid.n, np.nan), where=n > 0)
    return Contrast("gpus", gpus, frame.window.overall(gpus), frame.window.overall(), series, frame.space.p50)


def _in_time(frame: Result, kind: Kind, own: Mapping[str, float | None]) -> Contrast:
    """Compare a part of the time, in which the GPUs had these means, with the whole run."""
    series = frame.space.mean
    everyone = np.arange(frame.n_gpus)
    return Contrast(kind, everyone, own, frame.whole.overall(), series, series)


def lowest(means: Means, metric: str) -> tuple[int, ...]:
    """Find the GPU with the lowest mean of a metric. Returns its position in a tuple; () if no GPU has samples of it."""
    own = means.per_gpu(metric)
    return (int(np.nanargmin(own)),) if np.isfinite(own).any() else ()


@dataclass(frozen=True, slots=True)
class ContrastLine:
    """One metric of both sides, in its stored unit; ``full`` fills its axis. ``points``: the difference as a share of
    ``full``; ``ratio``: own / job, None where the job's is below a hundredth of the full scale. ``large``: worth a look."""

    metric: str
    own: float | None
    job: float | None
    full: float
    points: float | None
    ratio: float | None
    large: bool


LARGE_POINTS = 0.1
LARGE_RATIO, LEAST_POINTS = 0.25, 0.02
"""A difference is large from a tenth of the full scale on, or from a quarter of the job's value on where it is at least a
fiftieth of the full scale (thresholds of our own)."""


def line(metric: str, own: float | None, job: float | None, full: float) -> ContrastLine:
    """Put a metric's value of a part (``own``) beside that of the whole (``job``), None where unknown. ``full``: its
    full scale. Returns both with their difference in shares of the full scale, their ratio, and whether they differ
    clearly; without these if a value is unknown. The ratio is None as well if ``job`` is next to nothing."""
    if own is None or job is None or full <= 0:
        return ContrastLine(metric, own, job, full, None, None, False)
    points = (own - job) / full
    ratio = own / job if job >= 0.01 * full else None
    relative = abs(own - job) >= LARGE_RATIO * abs(job) and abs(points) >= LEAST_POINTS
    return ContrastLine(metric, own, job, full, points, ratio, abs(points) >= LARGE_POINTS or relative)


def measured(found: Contrast) -> tuple[str, ...]:
    """List the metrics of which either side has a mean, and those of THROTTLES that were ever set."""
    throttles = tuple(name for name in THROTTLES if (found.own.get(name) or 0) + (found.job.get(name) or 0) > 0)
    return (*measured_metrics(found.own, found.job), *throttles)


def measured_metrics(*parts: Mapping[str, float | None]) -> tuple[str, ...]:
    """Return the metrics that any of the parts has a mean of, in the order of METRICS, then those of nodes and of
    traces. Those of _STANDS_IN are only there if the better one is missing."""
    known = {name for part in parts for name, value in part.items() if value is not None}
    return tuple(
        name for name in (*METRICS, *OF_NODES, *OF_TRACES) if name in known and _STANDS_IN.get(name) not in known
    )
