"""Splitting the time in which no kernel runs, by what moved or worked in its place."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.breakdown.activity import Activity
from gssr.model.breakdown.over_gpus import excess
from gssr.model.evidence.evidence import Evidence

COPY_BYTES = 3e9
IO_BYTES = 5e7


def split_idle_time(evidence: Evidence, activity: Activity) -> dict[str, Floats]:
    """Shares [n_gpus, n_bins] of each bin by category; they add up to 1 - ``activity.active``."""
    idle = 1 - activity.active
    inside = activity.is_known & activity.is_used[:, None] & ~(activity.is_startup | activity.is_end)[None, :]
    weights = np.where(inside, 1.0, 0.0)
    left = idle
    found = {}

    def claim(name: str, share: Floats) -> None:
        nonlocal left
        own = np.minimum(left, idle * share)
        found[name] = found.get(name, 0.0) + own
        left = left - own

    moved = sum(
        (
            np.nan_to_num(evidence.host[name])
            for name in ("read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes")
            if name in evidence.host
        ),
        np.zeros(len(evidence.times)),
    )
    claim("idle.input_output", _intensity(np.broadcast_to(moved, idle.shape), idle, weights, IO_BYTES))
    copied = _host_link_bytes(evidence)
    intensity = _intensity(copied, idle, weights, COPY_BYTES)
    if evidence.peaks is not None and not intensity.any():
        peak = evidence.peaks.c2c_bandwidth or evidence.peaks.pcie_bandwidth
        steady = copied / (0.8 * peak)
        if float((steady * weights).sum() / max(weights.sum(), 1)) > 0.1:
            intensity = np.clip(steady / np.maximum(idle, 1e-9), 0.0, 1.0)
    claim("idle.copies", intensity)
    own = np.minimum(left, excess(idle, inside, evidence, snapshots=activity.engine == "gpu_utilization"))
    found["idle.imbalance"] = own
    left = left - own
    partly = activity.active >= 0.05
    saturated = np.zeros(len(evidence.times), bool)
    if "cpu_utilization" in evidence.host:
        saturated = _held(evidence, evidence.host["cpu_utilization"]) >= 0.9
    cores = _held(evidence, evidence.workload["cpu"]) if "cpu" in evidence.workload else np.zeros(len(evidence.times))
    host = saturated[None, :] | (~partly & (cores >= 0.9)[None, :])
    if "cpu" in evidence.workload:
        claim("idle.host", np.maximum(host, _intensity(np.broadcast_to(cores, idle.shape), idle, weights, 1.5)))
    else:
        claim("idle.host", host * 1.0)
    found["idle.between_kernels"] = np.where(partly, left, 0.0)
    found["idle.unexplained"] = np.where(partly, 0.0, left)
    return found


def _intensity(rate: Floats, idle: Floats, weights: Floats, least: float) -> Floats:
    """How much (0-1) of the idle time of each bin a rate explains: none if it is no higher than while the GPUs work."""
    w_idle, w_active = weights * idle, weights * (1 - idle)
    total_idle, total_active = w_idle.sum(), w_active.sum()
    if total_idle <= 0:
        return np.zeros_like(idle)
    at_idle = (w_idle * rate).sum() / total_idle
    at_work = (w_active * rate).sum() / total_active if total_active > 0 else 0.0
    if at_idle < least / 10:
        return np.zeros_like(idle)
    r, i = rate[weights > 0], idle[weights > 0]
    correlated = False
    if r.std() > 0 and i.std() > 0 and len(r) > 8:
        corr = np.corrcoef(r, i)[0, 1]
        n = min(len(r), weights.shape[1])
        correlated = corr > max(0.3, 4 / np.sqrt(n))
    if at_idle < 1.3 * at_work and not correlated:
        return np.zeros_like(idle)
    order = np.argsort(r)
    mass = np.cumsum((i * r)[order])
    high = r[order][np.searchsorted(mass, 0.5 * mass[-1])] if mass[-1] > 0 else 0.0
    busy = (1 - i) > np.quantile(1 - i, 0.75) - 1e-9
    base = float(np.median(r[busy])) if busy.any() else 0.0
    base = min(base, 0.5 * high)
    return np.clip((rate - base) / max(high - base, 1e-9), 0.0, 1.0)


def _host_link_bytes(evidence: Evidence) -> Floats:
    series = evidence.series
    total = np.zeros((evidence.n_gpus, len(evidence.times)))
    for name in ("pcie_tx_bytes", "pcie_rx_bytes", "c2c_tx_bytes", "c2c_rx_bytes"):
        if name in series:
            total = total + np.nan_to_num(series[name])
    per_node = max(evidence.n_gpus / max(len(evidence.nodes), 1), 1)
    for name in ("fabric_rx_bytes", "fabric_tx_bytes"):
        if name in evidence.host:
            total = total - _held(evidence, evidence.host[name])[None, :] / per_node
    return np.maximum(total, 0.0)


def _held(evidence: Evidence, values: Floats) -> Floats:
    """Values of the nodes [n_bins] in bins shorter than a second: a row tells of the second before its time. 0 where unknown."""
    n = int(np.ceil(1.0 / evidence.width))
    found = values
    for _ in range(n - 1):
        found = np.where(np.isfinite(found), found, np.append(found[1:], np.nan))
    return np.nan_to_num(found)
