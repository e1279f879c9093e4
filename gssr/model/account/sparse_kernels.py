"""Telling dense kernels from sparse ones: those that use few SMs, as collectives do, and small kernels.

A sample is a mean over an interval in which kernels of several kinds ran one after the other. If the job's dense kernels
keep a share ``dense`` of the SMs busy and its sparse ones ``COLLECTIVE_SM``, then an engine activity e and an SM activity s
tell how long sparse kernels ran: (dense e - s) / (dense - COLLECTIVE_SM). The job's own densest bins show ``dense``.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.account.activity import Activity
from gssr.model.account.compare_gpus import mean_of_groups
from gssr.model.account.link_traffic import NVLINK, gpu_link_bytes
from gssr.model.evidence.evidence import Evidence, over_gpus

COLLECTIVE_SM = 0.16
"""SM activity per engine activity of a collective: NCCL's kernels occupy up to 24 of an H100's 132 SMs."""
DENSE_SM = 0.85
"""The same of dense work where no bin shows any: long samples mix all of a step. Grids of many blocks reach 0.85 to 0.97."""
MIXED_SM = 0.7
"""If not even the densest bins reach this, all bins are mixtures, or all kernels are small."""
SMALL_SM = 0.25
"""Kernels that keep fewer SMs than this busy use few (KempnerPulse)."""
FEWEST_SM = 0.05
"""A collective keeps more SMs busy than this; a job that never does runs small kernels."""
STEADY_SPREAD = 0.1
"""If the SM activity per engine activity of nine tenths of the bins lies this close together, one kind of kernel runs."""
COLLECTIVE_POWER = 0.2
"""The power of a GPU that spins, above its idle draw, as a share of what it draws at work (simulated: 0.17 to 0.24)."""
COLLECTIVE_MEMORY = 0.2
"""Collectives keep the GPU's memory busy for up to this share of their time, while they transfer."""
NO_ARITHMETIC = 0.008
"""The sum of the pipes' activities below which kernels do no arithmetic."""
LINK_BYTES = 3e9
"""Collectives move at least so many bytes a second while they transfer: slower links than 25 Gbit/s join no GPUs."""
QUIET_SHARE = 0.02
"""Links that never carry more than this share of it, on average over the time of sparse kernels, join no GPUs."""
LINK_SHARE = 0.3
"""A collective on all SMs (in-switch reductions) fills at least this share of NVLink while no pipe computes."""
SM_NOISE, POWER_NOISE = 0.03, 0.15
"""A smaller share of sparse kernels may be noise: of the counters; of power, which trails by up to a second."""
_NEARLY_ALL = 0.8
"""From this share of the active time on sparse kernels are looked at alone."""
POWER_SPREAD = 0.15
"""GPUs of one model draw powers at the same work that differ by up to this share (eight of a node that all train at 100 %:
371 to 424 W)."""
_CLEARLY_ACTIVE = 0.3
"""Ratios to the engine's activity are taken in bins in which it is at least this."""
_POWER_SECONDS, _SNAPSHOTS = 5.0, 8
"""Power and activity are compared over so many seconds, and over so many samples where each is a snapshot."""
_IDLE_POWER = 0.13
"""Idle GPUs draw at most this share of their power limit, by their makers' figures 8 to 13 %."""


class SparseKernels(NamedTuple):
    """``share`` [n_gpus, n_bins]: of each bin, in which sparse kernels run. ``are_small_work``: they are small kernels of
    the program itself, not collectives."""

    share: Floats
    are_small_work: bool


def find_sparse_kernels(evidence: Evidence, activity: Activity) -> SparseKernels:
    """Find how long kernels ran that use few SMs, by SM activity, else by power; none where neither was measured."""
    cells = activity.is_measured & activity.is_used[:, None] & (activity.active > _CLEARLY_ACTIVE)
    nothing = SparseKernels(np.zeros_like(activity.active), False)
    if not cells.any():
        return nothing
    if "sm_active" in evidence.series and "gr_engine_active" in evidence.series:
        found = _by_sm_activity(evidence, activity, cells)
    elif "power_usage" in evidence.series:
        found = SparseKernels(_by_power(evidence, activity, cells), False)
    else:
        return nothing
    if found.are_small_work:
        return found
    by_others = np.maximum(_memory_busy(evidence) - COLLECTIVE_MEMORY * activity.active, 0.0) / (1 - COLLECTIVE_MEMORY)
    share = np.minimum(found.share, np.maximum(activity.active - by_others, 0.0))
    if _nobody_communicates(evidence, activity, share):
        return SparseKernels(share, True) if "sm_active" in evidence.series else nothing
    return SparseKernels(share, False)


def _nobody_communicates(evidence: Evidence, activity: Activity, sparse: Floats) -> bool:
    """Whether the links between GPUs are quiet, and kernels that would be waiting do arithmetic."""
    if not any(name in evidence.series for name in NVLINK):
        return False
    if not float(gpu_link_bytes(evidence).mean()) < QUIET_SHARE * LINK_BYTES * float(sparse.mean()):
        return False
    flops = evidence.series.get("flop_active", evidence.series.get("tensor_active"))
    if flops is None:
        return False
    alone = (sparse > _NEARLY_ALL * activity.active) & (activity.active > _CLEARLY_ACTIVE) & np.isfinite(flops)
    return not (alone.any() and float(flops[alone].mean()) < NO_ARITHMETIC)


def _memory_busy(evidence: Evidence) -> Floats:
    """[n_gpus, n_bins]: the share of time in which the GPU's memory was busy; 0 where it is not known."""
    name = "dram_active" if "dram_active" in evidence.series else "memory_copy_utilization"
    busy = evidence.series.get(name)
    return np.zeros((evidence.n_gpus, len(evidence.times))) if busy is None else np.nan_to_num(busy)


def _by_sm_activity(evidence: Evidence, activity: Activity, cells: Flags) -> SparseKernels:
    active = activity.active
    measured = np.clip(np.where(cells, evidence.series["sm_active"] / np.maximum(active, 1e-9), np.nan), 0.0, 1.0)
    known = measured[np.isfinite(measured)]
    if not len(known):
        return SparseKernels(np.zeros_like(active), False)
    ratio = _with_usual_values(measured)
    dense = _densest(measured, known)
    if dense < FEWEST_SM:
        return SparseKernels(active, True)
    if dense < SMALL_SM:  # nothing but sparse kernels: collectives do no arithmetic
        flops = evidence.series.get("flop_active")
        waits = flops is not None and float(np.nanmean(flops)) < NO_ARITHMETIC
        return SparseKernels(active, not waits)
    if dense < MIXED_SM:
        sparse = _unmixed(active, ratio, DENSE_SM, COLLECTIVE_SM)
        is_steady = float(np.percentile(known, 95) - np.percentile(known, 5)) < STEADY_SPREAD
        if is_steady and float(gpu_link_bytes(evidence).mean()) < LINK_BYTES * float(sparse.mean()):
            return SparseKernels(sparse, True)
        dense = DENSE_SM
    sparse = _unmixed(active, ratio, dense, COLLECTIVE_SM)
    sparse = np.maximum(sparse, _collectives_on_all_sms(evidence, active, cells))
    return SparseKernels(np.where(sparse < SM_NOISE * active, 0.0, sparse), False)


def _densest(measured: Floats, known: Floats) -> float:
    """The SM activity per engine activity of the job's dense kernels: what is usual in the denser half of the bins of the
    densest GPUs, for whom others may wait, if that is dense; else the densest bins show it. One GPU of hundreds may be the
    only one that works while all others wait for it: then it is that of the densest GPU in half of the bins."""
    dense = float(np.percentile(known, 99))
    if dense >= MIXED_SM:
        usual = [float(np.percentile(row[np.isfinite(row)], 75)) for row in measured if np.isfinite(row).any()]
        return max(float(np.percentile(usual, 95)), min(dense, DENSE_SM))
    in_bin = np.nan_to_num(measured).max(axis=0)
    busiest = float(np.median(in_bin[in_bin > 0])) if in_bin.any() else 0.0
    return busiest if busiest >= MIXED_SM else dense


def _unmixed(active: Floats, ratio: Floats, dense: float | Floats, sparse: float | Floats) -> Floats:
    """The share of each bin that kernels of the ratio ``sparse`` take, if all others are of the ratio ``dense``."""
    return np.asarray(active * np.clip((dense - ratio) / np.maximum(dense - sparse, 1e-9), 0.0, 1.0), np.float64)


def _by_power(evidence: Evidence, activity: Activity, cells: Flags) -> Floats:
    """The same by power: kernels that spin draw little. Where the tensor cores are as busy as ever, power tells nothing."""
    n = max(int(np.ceil(_POWER_SECONDS / evidence.width)), 1)
    if activity.engine == "gpu_utilization" and evidence.interval > 1.5:
        n = max(n, int(np.ceil(_SNAPSHOTS * evidence.interval / evidence.width)))
    known = np.where(activity.is_known, activity.active, np.nan)
    effort = mean_of_groups(_power_at_work(evidence, activity), n) / np.maximum(mean_of_groups(known, n), 1e-2)
    effort = np.where(cells, effort, np.nan)
    unknown = ~np.isfinite(effort).any(axis=1)
    if unknown.all():
        return np.zeros_like(effort)
    effort[unknown] = over_gpus(effort[~unknown])  # of a card with two dies only the first tells its power
    ratio = _with_usual_values(effort)
    most = float(np.percentile(ratio[cells], 90))
    own = np.array([np.percentile(row[of], 90) if of.any() else 0.0 for row, of in zip(ratio, cells, strict=True)])
    dense = np.where(own >= (1 - POWER_SPREAD) * most, own, most)[:, None]
    if "tensor_active" in evidence.series:
        tensor = np.where(cells, evidence.series["tensor_active"] / np.maximum(activity.active, 1e-9), np.nan)
        tensor = _with_usual_values(tensor)
        busiest = float(np.percentile(tensor[cells], 95))
        if busiest > 0.1:
            ratio = np.maximum(ratio, dense * np.minimum(tensor / busiest, 1.0))
    sparse = _unmixed(activity.active, ratio, dense, COLLECTIVE_POWER * dense)
    return np.where(sparse < POWER_NOISE * activity.active, 0.0, sparse)


def _power_at_work(evidence: Evidence, activity: Activity) -> Floats:
    """Power [n_gpus, n_bins] above the idle draw as a share (0-1) of the highest that the GPUs of the model draw above it;
    1 where no power of a model is known."""
    power = np.asarray(evidence.series["power_usage"], np.float64)
    names = [gpu.name or "" for gpu in evidence.gpus]
    shares = np.ones(power.shape)
    for model in set(names):
        of = np.array([name == model for name in names])
        known = power[of & activity.is_used]
        known = known[np.isfinite(known)]
        if len(known):
            limits = [gpu.power_limit for gpu, own in zip(evidence.gpus, of, strict=True) if own and gpu.power_limit]
            top = float(np.percentile(known, 99))
            rest = min(float(np.percentile(known, 1)), _IDLE_POWER * (float(np.median(limits)) if limits else top))
            shares[of] = np.clip((power[of] - rest) / max(top - rest, 1.0), 0.0, 1.0)
    return shares


def _collectives_on_all_sms(evidence: Evidence, active: Floats, cells: Flags) -> Floats:
    """The share of each bin in which links are busy and no pipe computes: collectives that keep all SMs busy."""
    flops, peaks = evidence.series.get("flop_active"), evidence.peaks
    if flops is None or peaks is None or not peaks.nvlink_bandwidth:
        return np.zeros_like(active)
    ratio = _with_usual_values(np.where(cells, flops / np.maximum(active, 1e-9), np.nan))
    most = float(np.percentile(ratio[cells], 90))
    if most < 0.05:  # the program's own kernels do next to no arithmetic either
        return np.zeros_like(active)
    share = _unmixed(active, ratio, most, 0.0)
    is_busy = gpu_link_bytes(evidence) > LINK_SHARE * peaks.nvlink_bandwidth * share
    return np.where(is_busy & (share > 0.1 * active), share, 0.0)


def _with_usual_values(values: Floats) -> Floats:
    """Give cells without a value the median of their GPU; 0 where it has none."""
    found = np.array(values)
    for row in found:
        known = np.isfinite(row)
        row[~known] = float(np.median(row[known])) if known.any() else 0.0
    return found
