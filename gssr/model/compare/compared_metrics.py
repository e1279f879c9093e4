"""Which metrics of two runs are compared, and in which order."""

from collections.abc import Mapping

from gssr.metrics import OF_NODES, OF_TRACES

METRICS = (
    "gr_engine_active", "gpu_utilization", "sm_active", "sm_occupancy", "tensor_active", "fp64_active", "fp32_active",
    "fp16_active", "integer_active", "flop_active", "dram_active", "memory_copy_utilization", "pcie_rx_bytes",
    "pcie_tx_bytes", "c2c_rx_bytes", "c2c_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes", "sm_clock", "power_usage",
    "temperature", "memory_temperature", "memory_used",
)  # fmt: skip
"""What is compared, in the order of explaining: is it busy, with what, what moves, what holds it back."""
_STANDS_IN = {"gpu_utilization": "gr_engine_active"}
"""Metrics that say less of the same, and the better ones."""


def measured_metrics(*parts: Mapping[str, float | None]) -> tuple[str, ...]:
    """Return the metrics that any of the parts has a mean of, in the order of METRICS, then those of nodes and of
    traces. Those of _STANDS_IN are only there if the better one is missing."""
    known = {name for part in parts for name, value in part.items() if value is not None}
    return tuple(
        name for name in (*METRICS, *OF_NODES, *OF_TRACES) if name in known and _STANDS_IN.get(name) not in known
    )
