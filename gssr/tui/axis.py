"""What all screens share in words: the full scale of a metric, times, the window that is looked at, and which metrics are
shown, the most telling first."""

import math

import numpy as np

from gssr.metrics import OF_NODES, OF_OWN, best_measured
from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.model.statistics.balance import scale_limit
from gssr.render import clock
from gssr.render.cells import clean
from gssr.render.clock import duration, exact
from gssr.render.scale import fixed, metric_of, nice_above, unit_of
from gssr.store.format.rows import Event

GUTTER = 5
"""Cells left of a chart: a label of four, and the axis."""


def full_scale(frame: Frame, name: str) -> float:
    """The value that fills a metric's axis, in its stored unit: the catalogue's or the GPUs' own limit; of nodes'
    rates a round number above the greatest of the run; where nothing is known one above all means."""
    limit = scale_limit(frame.gpus, name)
    if limit:
        return limit
    return nice_above(
        frame.greatest.get(name) or float(np.nanmax(frame.whole.per_gpu(name), initial=0.0)), metric_of(name)
    )


def y_label(fraction: float, full: float, name: str) -> str:
    """The value at this fraction of the full scale, without its unit: at most four cells."""
    return fixed(fraction * full * unit_of(metric_of(name)).factor, 0)[:4]


_SMALL, _SMALLER = 0.0099, 0.00099


def seconds_text(seconds: float) -> str:
    """A round length of time as short as it goes: ``0.2 s``, ``10 s``, ``5 min``, ``2 h``, ``1 d``."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size and math.isclose(seconds / size, round(seconds / size)):
            return f"{round(seconds / size)} {name}"
    if seconds < _SMALL:
        return f"{seconds * 1e3:g} ms" if seconds >= _SMALLER else f"{seconds * 1e6:g} µs"
    return f"{seconds:g} s" if seconds < 600 else clock.duration(seconds)


def width_text(seconds: float) -> str:
    """How long a cell is, in two digits."""
    return seconds_text(float(f"{seconds:.2g}"))


def age_text(seconds: float) -> str:
    """How old something is in at most four cells: ``11s``, ``12m``, ``3h``, ``2d``; ``-`` when there was never anything."""
    if not math.isfinite(seconds):
        return "-"
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= (2 if size == 60 else 1) * size:
            return f"{int(seconds // size)}{name}"
    return f"{int(seconds)}s"


def is_growing(frame: Frame) -> bool:
    """Whether the recording may still grow, so that its axis goes on."""
    return frame.part is None and frame.state not in ("ended", "lost")


def at_text(frame: Frame, time: float) -> str:
    """A time (unix s) as the axis counts it. Of the column in which a run begins it is that of its first sample."""
    time = max(time - (frame.first if frame.since is None else frame.since), 0.0)
    if frame.part is not None:
        return clock.moment(time, 0.0, min(frame.grid.width, 0.01))
    return clock.moment(time, max(frame.last - frame.first, 3600.0))


def event_text(frame: Frame, time: float) -> str:
    """The time (unix s) of an event: ``before`` for what was before the first sample."""
    return clock.BEFORE if round(time - frame.first) < 0 else at_text(frame, time)


@once
def _places(frame: Frame) -> dict[int, str]:
    gpus = frame.of_gpus or frame
    return {} if gpus.by_node else {gpu.gpu: gpus.place(position) for position, gpu in enumerate(gpus.gpus)}


def told(frame: Frame, event: Event) -> str:
    """An event in words: where, of a GPU which one, and what."""
    where = event.node if event.gpu is None else _places(frame).get(event.gpu, event.node)
    return clean(f"{where}: {clock.told(event)}" if where else clock.told(event))


def is_whole(frame: Frame) -> bool:
    """True where the window holds the whole run."""
    return frame.window.start <= frame.first and frame.window.end >= frame.last


def lasting(frame: Frame, seconds: float) -> str:
    """A length of time, of a trace in three digits."""
    return duration(seconds) if frame.part is None else exact(seconds)


def window_text(frame: Frame) -> str:
    """``whole run, 10 min 0 s``, ``last 5 min`` of a run that lives, or the times between which the window lies."""
    if frame.is_live and frame.query.span is not None:
        return f"last {seconds_text(frame.query.span)}"
    if is_whole(frame) and frame.since is not None:
        return f"all traced, {lasting(frame, frame.last - frame.first)}"
    if is_whole(frame):
        return f"whole run, {lasting(frame, frame.last - frame.first)}"
    start, end = max(frame.window.start, frame.first), min(frame.window.end, frame.last)
    return f"{at_text(frame, start)} to {at_text(frame, end)}"


ORDER: tuple[str, ...] = (
    "sm_active", "sm_occupancy", "tensor_active", "flop_active", "dram_active", "power_usage", "memory_used",
    "pcie_rx_bytes", "nvlink_rx_bytes", "pcie_tx_bytes", "nvlink_tx_bytes", "gr_engine_active", "gpu_utilization",
    "fp32_active", "fp16_active", "fp64_active", "sm_clock", "temperature", "memory_copy_utilization", "c2c_rx_bytes",
    "c2c_tx_bytes", "tensor_hmma_active", "integer_active", "memory_temperature", "tensor_imma_active",
    "tensor_dfma_active",
)  # fmt: skip
_BESIDE = ("power_usage", "memory_used", "memory_copy_utilization")
"""What comes next where another metric stands for SM activity."""


def shown_metrics(frame: Frame) -> list[str]:
    """The metrics that have a bar: those that were measured, the most telling first."""
    if frame.part is not None:
        return [name for name in frame.whole.names if ":" not in name or name.startswith(OF_OWN)]
    measured = frame.whole.measured()
    first = best_measured(measured)
    order = ORDER if first in (None, ORDER[0]) else dict.fromkeys((first, *_BESIDE, *ORDER))
    return [name for name in dict.fromkeys((*order, *OF_NODES)) if name in measured]
