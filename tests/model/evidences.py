"""Evidence made by hand: a healthy training job, and what is changed of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gssr.model.evidence.evidence import Evidence
from gssr.model.results import Means, nodes_of
from gssr.model.statistics.gpu_time_counts import FLAGS
from gssr.peaks import peaks_of
from gssr.store.format.rows import Event, Gpu, RunRow

START = 1_780_000_200.0
GIB = float(1 << 30)
HEALTHY: dict[str, float] = {
    "gpu_utilization": 1.0, "memory_copy_utilization": 0.3, "gr_engine_active": 0.93, "sm_active": 0.82,
    "sm_occupancy": 0.34, "tensor_active": 0.48, "tensor_dfma_active": 0.0, "fp64_active": 0.0, "fp32_active": 0.11,
    "fp16_active": 0.03, "dram_active": 0.41, "pcie_tx_bytes": 0.4e9, "pcie_rx_bytes": 0.8e9, "nvlink_tx_bytes": 50e9,
    "nvlink_rx_bytes": 50e9, "power_usage": 600.0, "temperature": 60.0, "sm_clock": 1980.0, "memory_used": 61 * GIB,
}  # fmt: skip
HOST = {"cpu_utilization": 0.3, "read_bytes": 5e6, "write_bytes": 1e6, "net_rx_bytes": 2e6, "net_tx_bytes": 2e6}
WORKLOAD = {"cpu": 4.0, "n_processes": 9.0}


def evidence(
    n_gpus: int = 8,
    n: int = 300,
    state: str = "completed",
    without: tuple[str, ...] = (),
    flags: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
    gpus: Mapping[str, Any] | None = None,
    noise: float = 0.01,
    width: float = 1.0,
    **values: Any,
) -> Evidence:
    """Bins of ``width`` seconds; ``values`` by metric: anything that fits [n_gpus, n]. The metrics named by ``without``
    were not measured; ``flags``: shares of the samples [n_gpus]; every four GPUs are a node."""
    random = np.random.default_rng(1)
    wobble = 1 + noise * random.standard_normal((n_gpus, n))
    wanted: dict[str, Any] = {name: value for name, value in {**HEALTHY, **values}.items() if name not in without}
    series = {
        name: (np.broadcast_to(np.asarray(value, float), (n_gpus, n)) * wobble).astype(np.float32)
        for name, value in wanted.items()
    }
    parts = ("fp64_active", "fp32_active", "fp16_active", "tensor_active")
    if series.keys() >= set(parts) and "flop_active" not in without:
        series["flop_active"] = sum((series[part] for part in parts), np.zeros((n_gpus, n), np.float32))
    shares = {} if "clock_event_reasons" in without else {name: np.zeros(n_gpus) for name in FLAGS}
    for name, share in (flags or {}).items():
        shares[name] = np.broadcast_to(np.asarray(share, float), n_gpus)
    known = [np.isfinite(grid) for grid in series.values()]
    rows = np.array([each.sum(axis=1) for each in known] + [np.full(n_gpus, n)] * len(shares), float)
    total = [np.where(each, grid, 0).sum(axis=1) for each, grid in zip(known, series.values(), strict=True)]
    means = Means(
        (*series, *shares),
        START,
        START + n * width,
        rows,
        np.array([*total, *(n * share for share in shares.values())]),
    )
    usual: dict[str, Any] = {
        "gpu": 0, "run_id": "r", "rank": None, "name": "NVIDIA H100 80GB HBM3", "memory_total": int(79.6 * GIB),
        "power_limit": 700.0, "sm_count": 132, "max_sm_clock": 1980, "compute_capability": "9.0", "driver_version": "1",
        "backend": "synthetic", "mig": None, **(gpus or {}),
    }  # fmt: skip
    devices = tuple(
        Gpu(**{**usual, "gpu": i, "node": f"n{i // 4}", "device_index": i % 4, "uuid": f"GPU-{i}"})
        for i in range(n_gpus)
    )
    run = RunRow(
        **{
            **dict.fromkeys(RunRow._fields),
            "run_id": "r",
            "command": ("x",),
            "state": state,
            "sampling_ms": 1e3 * width,
        }
    )
    times = START + width * np.arange(n)
    nodes, node_of = nodes_of(devices)
    return Evidence(
        run=run, state=state, start=START, end=START + n * width, interval=width, gpus=devices,
        positions=np.arange(n_gpus), nodes=nodes, node_of=node_of, times=times, width=width, series=series, means=means,
        greatest={name: np.fmax.reduce(grid, axis=1).astype(float) for name, grid in series.items()},
        n_rows=np.full(n_gpus, n),
        host=_over_time({**HOST, **(host or {})}, n), workload=_over_time({**WORKLOAD, **(workload or {})}, n),
        peaks=peaks_of(devices[0].name) if devices else None, events=(Event(START, None, None, None, "start", ""),),
    )  # fmt: skip


def _over_time(values: Mapping[str, Any], n: int) -> dict[str, Any]:
    """What is None was not measured."""
    return {name: np.broadcast_to(np.asarray(value, float), n) for name, value in values.items() if value is not None}


def during(n: int, first: int, last: int, inside: float, outside: float = 1.0) -> Any:
    """[n]: ``inside`` from ``first`` up to ``last``, else ``outside``."""
    values = np.full(n, outside)
    values[first:last] = inside
    return values


def scaled(factor: Any, *without: str) -> dict[str, Any]:
    """The healthy activities and rates times ``factor`` (anything that fits [n_gpus, n])."""
    kept = ("temperature", "sm_clock", "memory_used", "power_usage", *without)
    return {name: value * np.asarray(factor, float) for name, value in HEALTHY.items() if name not in kept}
