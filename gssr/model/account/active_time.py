"""Splitting the time in which kernels run: into work of several kinds, communication, small kernels, lower clocks."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.account.activity import Activity
from gssr.model.account.link_traffic import transferring_share
from gssr.model.account.sparse_kernels import SMALL_SM, find_sparse_kernels
from gssr.model.evidence.evidence import Evidence

ONE_WARP_PER_SCHEDULER = 0.0625
"""Occupancy of an SM that holds one warp for each of its four schedulers, of the 64 that it can hold."""
MEMORY_BOUND, COMPUTE_BOUND = 0.75, 0.25
"""DRAM activity of kernels that memory limits (0.6 to 0.9), and of those that compute (0.1 to 0.45): a mixture of both is
in between."""
TYPICAL_ACTIVITY = {"working.tensor": 0.25, "working.fp64": 0.2}
"""The activity of tensor cores and FP64 pipe from which on they are what the rest is about (KempnerPulse's classes: 0.15 to
0.5, 0.2): of several the one that is furthest above."""


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
    found["working.memory"] = work * _memory_bound_part(evidence, running)
    rest = work - found["working.memory"]
    kind = _kinds_of_work(evidence, np.maximum(rest, 0.05))
    for number, name in enumerate(("working.other", *TYPICAL_ACTIVITY)):
        found[name] = np.where(kind == number, rest, 0.0)
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


def _memory_bound_part(evidence: Evidence, running: Floats) -> Floats:
    """Estimate the share (0-1) of the work's time [n_gpus, n_bins] in kernels that memory limits; 0 where memory
    activity was not measured. ``running``: the share of each bin in which any kernel runs."""
    busy = evidence.series.get("dram_active")
    if busy is None:
        return np.zeros(running.shape)
    part = (np.nan_to_num(busy) / running - COMPUTE_BOUND) / (MEMORY_BOUND - COMPUTE_BOUND)
    return np.asarray(np.clip(part, 0.0, 1.0), np.float64)


def _kinds_of_work(evidence: Evidence, running: Floats) -> Floats:
    """Classify the work of each GPU in each bin by the pipe that is busiest compared with its typical activity.

    ``running`` [n_gpus, n_bins]: the share of the bin in which kernels run. Returns [n_gpus, n_bins]: 1 and above is the
    position in TYPICAL_ACTIVITY plus 1, 0 is other work.
    """

    def while_running(name: str) -> Floats:
        values = evidence.series.get(name)
        return np.zeros(running.shape) if values is None else np.asarray(np.nan_to_num(values) / running, np.float64)

    tensor_fp64 = while_running("tensor_dfma_active")
    measured = {
        "working.tensor": np.maximum(while_running("tensor_active") - tensor_fp64, 0.0),
        "working.fp64": while_running("fp64_active") + tensor_fp64,
    }
    above = [measured[name] / typical for name, typical in TYPICAL_ACTIVITY.items()]
    return np.asarray(np.argmax([np.ones(running.shape), *above], axis=0), np.float64)
