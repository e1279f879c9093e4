"""Splitting the time in which kernels run: into work of several kinds, communication, small kernels, lower clocks."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.account.activity import Activity
from gssr.model.account.link_traffic import transferring_share
from gssr.model.account.sparse_kernels import SMALL_SM, find_sparse_kernels
from gssr.model.evidence.evidence import Evidence

ONE_WARP_PER_SCHEDULER = 0.0625
"""Occupancy of an SM that holds one warp for each of its four schedulers, of the 64 that it can hold."""
TYPICAL_ACTIVITY = {"working.tensor": 0.25, "working.fp64": 0.2, "working.memory": 0.5}
"""The activity of tensor cores, FP64 pipe and DRAM from which on they are what the work is about (KempnerPulse's classes:
0.15 to 0.5, 0.2, 0.5): of several the one that is furthest above."""


def split_active_time(evidence: Evidence, activity: Activity) -> dict[str, Floats]:
    """Split the time in which kernels run. Returns shares [n_gpus, n_bins] of each bin by category, which add up to
    ``activity.active``."""
    sparse, are_small_work = find_sparse_kernels(evidence, activity)
    has_others = int(activity.is_used.sum()) > 1
    communication = sparse if has_others and not are_small_work else np.zeros_like(sparse)
    few_sms, work = sparse - communication, activity.active - sparse
    transferring = transferring_share(evidence, activity, communication, work)
    few_warps = work * _idle_schedulers(evidence)
    work = work - few_warps
    slowed = work * _lost_to_clocks(evidence)
    work = work - slowed
    found = {
        "communication.transferring": transferring,
        "communication.waiting": communication - transferring,
        "working.few_sms": few_sms + few_warps,
        "working.slowed": slowed,
    }
    running = np.maximum(activity.active - communication, 0.05)
    for name, part in _kinds_of_work(evidence, running).items():
        found[name] = work * part
    return found


def _idle_schedulers(evidence: Evidence) -> Floats:
    """Estimate the share (0-1) of the work's time [n_gpus, n_bins] that is lost because SMs hold fewer warps than
    schedulers; 0 where that is not known."""
    sm, warps = evidence.series.get("sm_active"), evidence.series.get("sm_occupancy")
    if sm is None or warps is None:
        return np.zeros((evidence.n_gpus, len(evidence.times)))
    per_sm = np.where(sm > SMALL_SM, warps / np.maximum(sm, 1e-9), np.nan)
    lost = np.clip(1 - per_sm / ONE_WARP_PER_SCHEDULER, 0.0, 1.0)
    return np.asarray(np.nan_to_num(lost), np.float64)


def _lost_to_clocks(evidence: Evidence) -> Floats:
    """Estimate the share (0-1) of the work's time [n_gpus, n_bins] that the highest clock of the model would save; 0
    where a clock is unknown."""
    clocks = evidence.series.get("sm_clock")
    if clocks is None:
        return np.zeros((evidence.n_gpus, len(evidence.times)))
    highest = np.array([gpu.max_sm_clock or np.nan for gpu in evidence.gpus], np.float64)[:, None]
    return np.asarray(np.nan_to_num(np.clip(1 - clocks / highest, 0.0, 1.0)), np.float64)


def _kinds_of_work(evidence: Evidence, running: Floats) -> dict[str, Floats]:
    """Split the work of each GPU in each bin by what its kernels are about.

    ``running`` [n_gpus, n_bins]: the share of the bin in which kernels run. Returns shares (0-1) of the work
    [n_gpus, n_bins] by category, which add up to 1.
    """
    import os
    def while_running(name: str) -> Floats:
        values = evidence.series.get(name)
        return np.zeros(running.shape) if values is None else np.asarray(np.nan_to_num(values) / running, np.float64)

    tensor_fp64 = while_running("tensor_dfma_active")
    memory = while_running("dram_active")
    measured = {
        "working.tensor": np.maximum(while_running("tensor_active") - tensor_fp64, 0.0),
        "working.fp64": while_running("fp64_active") + tensor_fp64,
        "working.memory": memory,
    }
    V = os.environ.get("V", "1")
    if V == "1":
        above = [measured[name] / typical for name, typical in TYPICAL_ACTIVITY.items()]
        kind = np.argmax([np.ones(running.shape), *above], axis=0)
        return {name: np.where(kind == n, 1.0, 0.0) for n, name in enumerate(("working.other", *TYPICAL_ACTIVITY))}
    rest = np.ones(running.shape)
    found = {}
    for name in ("working.tensor", "working.fp64"):
        own = measured[name]
        cells = (running > 0.3) & np.isfinite(own)
        level = float(np.percentile(own[cells], 95)) if cells.any() else 0.0
        if level < TYPICAL_ACTIVITY[name]:
            found[name] = np.zeros(running.shape)
            continue
        pure = cells & (own >= 0.9 * level)
        found[name] = np.minimum(rest, own / level)
        rest = rest - found[name]
        memory = np.maximum(memory - found[name] * float(np.median(memory[pure])), 0.0)
    is_memory = memory >= TYPICAL_ACTIVITY["working.memory"] * np.maximum(rest, 0.05)
    found["working.memory"] = np.where(is_memory, rest, 0.0)
    found["working.other"] = rest - found["working.memory"]
    return found
