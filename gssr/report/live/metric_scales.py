"""Which metrics a screen shows, and what fills the axis of each."""

import numpy as np

from gssr.metrics import BY_NAME, OF_NODES, OF_OWN, best_measured
from gssr.model.live.live_result import Result
from gssr.model.statistics.balance import scale_limit
from gssr.render.scale import fixed, metric_of, nice_above, unit_of

ORDER: tuple[str, ...] = (
    "sm_active", "sm_occupancy", "tensor_active", "flop_active", "dram_active", "power_usage", "memory_used",
    "pcie_rx_bytes", "nvlink_rx_bytes", "pcie_tx_bytes", "nvlink_tx_bytes", "gr_engine_active", "gpu_utilization",
    "fp32_active", "fp16_active", "fp64_active", "sm_clock", "temperature", "memory_copy_utilization", "c2c_rx_bytes",
    "c2c_tx_bytes", "tensor_hmma_active", "integer_active", "memory_temperature", "tensor_imma_active",
    "tensor_dfma_active",
)  # fmt: skip
"""The metrics that tell most, first."""
_OTHERS = tuple(
    name for name, metric in BY_NAME.items() if name not in ORDER and metric.kind not in ("counter", "bits")
)
"""What comes after them: the rest of the catalogue, but what has no value of a moment."""
_LABEL = 4
"""Cells of a value at an axis."""
_AFTER_THE_FIRST = ("power_usage", "memory_used", "memory_copy_utilization")
"""What comes next where another metric stands for SM activity."""


def full_scale(frame: Result, name: str) -> float:
    """Return the value that fills a metric's axis, in its stored unit: the catalogue's or the GPUs' own limit, else a
    round number above the greatest value of the run that is known, or above all means."""
    limit = scale_limit(frame.gpus, name)
    if limit:
        return limit
    return nice_above(
        frame.greatest.get(name) or float(np.nanmax(frame.whole.per_gpu(name), initial=0.0)), metric_of(name)
    )


def y_label(fraction: float, full: float, name: str) -> str:
    """The value at this fraction of the full scale, without its unit: at most four cells, with the decimals that it needs
    and that there is room for."""
    value = fraction * full * unit_of(metric_of(name)).factor
    exact = next(
        (text for text in (fixed(value, 0), fixed(value, 1)) if float(text) == round(value, 2)), fixed(value, 2)
    )
    return exact if len(exact) <= _LABEL else fixed(value, 0)[:_LABEL]


def shown_metrics(frame: Result) -> list[str]:
    """List the metrics that have a bar: those that were measured, the most telling first. Of a trace its general ones
    (without a colon) and the user's own."""
    if frame.part is not None:
        return [name for name in frame.whole.names if ":" not in name or name.startswith(OF_OWN)]
    measured = frame.whole.measured()
    first = best_measured(measured)
    order = ORDER if first in (None, ORDER[0]) else dict.fromkeys((first, *_AFTER_THE_FIRST, *ORDER))
    return [name for name in dict.fromkeys((*order, *_OTHERS, *OF_NODES)) if name in measured]
