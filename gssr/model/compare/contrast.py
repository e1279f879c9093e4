"""One part of a run against another, metric by metric: GPUs against all GPUs, or a stretch of time against the whole run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME, THROTTLES
from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.model.results import Grid, Means
from gssr.model.window import ACTIVE_SHARE, IDLE

Kind = Literal["gpus", "moment", "window"]

METRICS = (
    "gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "fp64_active", "fp32_active", "fp16_active",
    "integer_active", "flop_active", "dram_active", "memory_copy_utilization", "pcie_rx_bytes", "pcie_tx_bytes",
    "c2c_rx_bytes", "c2c_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes", "sm_clock", "power_usage", "temperature",
    "memory_temperature", "memory_used",
)  # fmt: skip
"""What is compared, in the order of explaining: is it busy, with what, what moves, what holds it back."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One part against another. ``kind``: "gpus": some GPUs against all of them in the same window; "moment": the cursor's
    column, "window": the window, against the whole run. ``gpus``: positions of the part's GPUs.

    ``own`` and ``job``: each metric's mean over all samples of the part, and of what it is compared with, None where it has
    none; THROTTLES among them, as shares of samples. ``own_series`` and ``job_series`` [n_columns] are the grid's metric
    over time: the mean of the part's GPUs and the median GPU of all. ``own_start`` and ``job_start``: where these begin to
    work, unix s, None where they never do, or the window can't say: in the first column above IDLE of the full scale and
    above ACTIVE_SHARE of the 95th percentile of the median GPU.
    """

    kind: Kind
    gpus: Ints
    own: Mapping[str, float | None]
    job: Mapping[str, float | None]
    own_series: Floats
    job_series: Floats
    own_start: float | None
    job_start: float | None
    seconds: float
    """How long the window is."""

    @property
    def late(self) -> float | None:
        """How much later than the job the part begins to work, as a share of the window; None when it can't be known."""
        if self.own_start is None or self.job_start is None or self.seconds <= 0:
            return None
        return (self.own_start - self.job_start) / self.seconds


@once
def contrast(frame: Frame, selection: tuple[int, ...], cursor: float | None, full: float) -> Contrast:
    """What to compare: the selection with all GPUs; else the moment under the cursor with the whole run; else the window
    with the whole run; else, when the window is the whole run, the GPU with the lowest mean with all GPUs. ``full`` is the
    full scale of the grid's metric."""
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
    job = frame.space.p50
    active = max(IDLE * full, ACTIVE_SHARE * float(np.nanpercentile(job, 95))) if np.isfinite(job).any() else np.inf
    ratio = frame.grid.metric in BY_NAME and BY_NAME[frame.grid.metric].unit == "1"
    can_tell = ratio and whole
    own_start = _start(frame.grid, series, active) if can_tell else None
    job_start = _start(frame.grid, job, active) if can_tell else None
    return Contrast(
        "gpus", gpus, frame.window.overall(gpus), frame.window.overall(), series, job, own_start, job_start,
        _seconds(frame),
    )  # fmt: skip


def _in_time(frame: Frame, kind: Kind, own: Mapping[str, float | None]) -> Contrast:
    series = frame.space.mean
    everyone = np.arange(frame.n_gpus)
    return Contrast(kind, everyone, own, frame.whole.overall(), series, series, None, None, _seconds(frame))


def _seconds(frame: Frame) -> float:
    return min(frame.window.end, frame.last) - max(frame.window.start, frame.first)


def _start(grid: Grid, values: Floats, active: float) -> float | None:
    above = np.flatnonzero(values >= active)
    return grid.start + int(above[0]) * grid.width if len(above) else None


def lowest(means: Means, metric: str) -> tuple[int, ...]:
    """The GPU with the lowest mean of a metric; none when no GPU has samples of it."""
    own = means.per_gpu(metric)
    return (int(np.nanargmin(own)),) if np.isfinite(own).any() else ()


@dataclass(frozen=True, slots=True)
class Line:
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


def line(metric: str, own: float | None, job: float | None, full: float) -> Line:
    """A metric's two values beside each other; see Line."""
    if own is None or job is None or full <= 0:
        return Line(metric, own, job, full, None, None, False)
    points = (own - job) / full
    ratio = own / job if job >= 0.01 * full else None
    relative = abs(own - job) >= LARGE_RATIO * abs(job) and abs(points) >= LEAST_POINTS
    return Line(metric, own, job, full, points, ratio, abs(points) >= LARGE_POINTS or relative)


def measured(found: Contrast) -> tuple[str, ...]:
    """The metrics that either part has samples of, in the order of METRICS; of THROTTLES those that were ever set."""
    throttles = tuple(name for name in THROTTLES if (found.own.get(name) or 0) + (found.job.get(name) or 0) > 0)
    present = (name for name in METRICS if found.own.get(name) is not None or found.job.get(name) is not None)
    return (*present, *throttles)
