"""Splitting the time in which kernels run: into work of several kinds, communication, small kernels, lower clocks."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.gpu_vendors import AMD, maker_of
from gssr.model.account.activity import Activity
from gssr.model.account.link_traffic import transferring_share
from gssr.model.account.sparse_kernels import SMALL_SM, find_sparse_kernels
from gssr.model.evidence.evidence import Evidence

ONE_WARP_PER_SCHEDULER = 0.0625
"""The occupancy of an SM that holds one warp for each of its four schedulers, of the 64 warps that it can hold."""
TYPICAL_ACTIVITY = {"working.tensor": 0.25, "working.fp64": 0.2, "working.memory": 0.5}
"""Work is of one of these kinds from this activity of the tensor cores, the FP64 pipe or DRAM on (KempnerPulse's classes:
0.15 to 0.5, 0.2, 0.5). If several reach theirs, it is of the kind that is furthest above."""


def split_active_time(evidence: Evidence, activity: Activity) -> dict[str, Floats]:
    """Split the time in which kernels run. Returns shares [n_gpus, n_bins] of each bin by category, which add up to
    ``activity.active``."""
    sparse, are_small_work = find_sparse_kernels(evidence, activity)
    has_others = int(activity.is_used.sum()) > 1
    communication = sparse if has_others and not are_small_work else np.zeros_like(sparse)
    few_sms, work = sparse - communication, activity.active - sparse
    transferring = transferring_share(evidence, activity, communication)
    kinds = _kinds_of_work(evidence, np.maximum(activity.active - communication, 0.05))
    few_warps = work * np.where(kinds["working.other"] > 0, _has_few_warps(evidence), 0.0)
    work = work - few_warps
    slowed = work * _lost_to_clocks(evidence, activity)
    work = work - slowed
    found = {
        "communication.transferring": transferring,
        "communication.waiting": communication - transferring,
        "working.few_sms": few_sms + few_warps,
        "working.slowed": slowed,
    }
    for name, part in kinds.items():
        found[name] = work * part
    return found


def _has_few_warps(evidence: Evidence) -> Flags:
    """Tell in which bins [n_gpus, n_bins] SMs hold fewer warps than they have schedulers; False where that is not known.
    Few suffice to kernels that keep a pipe busy."""
    sm, warps = evidence.series.get("sm_active"), evidence.series.get("sm_occupancy")
    if sm is None or warps is None:
        return np.zeros((evidence.n_gpus, len(evidence.times)), bool)
    return np.asarray((sm > SMALL_SM) & (warps < ONE_WARP_PER_SCHEDULER * sm), bool)


def clock_at_work(evidence: Evidence, activity: Activity) -> Floats | None:
    """Return the SM clock while kernels run, MHz [n_gpus, n_bins], NaN where it is unknown; None if no clock was measured.

    AMD's GPUs lower their clock as soon as no kernel runs. A bin may hold such rests for as long as it idles, so the clock
    at work is what they can have been at most: up to the highest one, the mean over the bin's active share."""
    clocks = evidence.series.get("sm_clock")
    if clocks is None or maker_of(evidence.gpus) != AMD:
        return None if clocks is None else np.asarray(clocks, np.float64)
    possible = np.divide(clocks, activity.active, out=np.full(clocks.shape, np.nan), where=activity.active > 0)
    highest = np.array([gpu.max_sm_clock or np.inf for gpu in evidence.gpus], np.float64)[:, None]
    return np.asarray(np.minimum(possible, highest), np.float64)


def _lost_to_clocks(evidence: Evidence, activity: Activity) -> Floats:
    """Estimate the share (0-1) of the work's time [n_gpus, n_bins] that the highest clock of the model would save; 0
    where a clock is unknown."""
    clocks = clock_at_work(evidence, activity)
    if clocks is None:
        return np.zeros((evidence.n_gpus, len(evidence.times)))
    highest = np.array([gpu.max_sm_clock or np.nan for gpu in evidence.gpus], np.float64)[:, None]
    return np.asarray(np.nan_to_num(np.clip(1 - clocks / highest, 0.0, 1.0)), np.float64)


def _kinds_of_work(evidence: Evidence, running: Floats) -> dict[str, Floats]:
    """Tell what the work of each GPU in each bin is about: the pipe that is busiest compared with its typical activity.

    ``running`` [n_gpus, n_bins]: the share of the bin in which kernels run. Returns by category 1 where its pipe is the
    busiest, else 0 [n_gpus, n_bins]; other work where no pipe is.
    """

    def while_running(name: str) -> Floats:
        values = evidence.series.get(name)
        return np.zeros(running.shape) if values is None else np.asarray(np.nan_to_num(values) / running, np.float64)

    tensor_fp64 = while_running("tensor_dfma_active")
    measured = {
        "working.tensor": np.maximum(while_running("tensor_active") - tensor_fp64, 0.0),
        "working.fp64": while_running("fp64_active") + tensor_fp64,
        "working.memory": while_running("dram_active"),
    }
    above = [measured[name] / typical for name, typical in TYPICAL_ACTIVITY.items()]
    kind = np.argmax([np.ones(running.shape), *above], axis=0)
    names = ("working.other", *TYPICAL_ACTIVITY)
    return {name: np.where(kind == number, 1.0, 0.0) for number, name in enumerate(names)}
