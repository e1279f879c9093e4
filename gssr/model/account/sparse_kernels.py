"""Telling dense kernels from sparse ones: those that use few SMs, as collectives do, and small kernels.

A sample is a mean over an interval in which kernels of several kinds ran one after the other. If the job's dense kernels
keep a share ``dense`` of the SMs busy and its sparse ones ``COLLECTIVE_SM``, then an engine activity e and an SM activity s
tell how long sparse kernels ran: (dense e - s) / (dense - COLLECTIVE_SM). The job's own densest bins show ``dense``.
"""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.account.activity import CLEARLY, Activity
from gssr.model.account.link_traffic import gpu_link_bytes, least_link_rate
from gssr.model.account.quiet_kernels import find_quiet_kernels, rate_at_work
from gssr.model.evidence.evidence import Evidence
from gssr.model.percentiles import known_percentiles

COLLECTIVE_SM = 0.16
"""SM activity divided by engine activity while a collective runs: NCCL's kernels occupy up to 24 of an H100's 132 SMs."""
DENSE_SM = 0.85
"""SM activity divided by engine activity in dense work, used if no bin shows it because long samples mix all parts of a
step. Kernels of many blocks reach 0.85 to 0.97."""
MIXED_SM = 0.7
"""If not even the densest bins reach this SM activity per engine activity, all bins are mixtures, or all kernels are
small."""
SMALL_SM = 0.25
"""Kernels that keep less than this share of the SMs busy use few SMs (KempnerPulse)."""
LINK_SHARE = 0.3
"""A collective that runs on all SMs (because switches do the reduction) fills at least this share of NVLink while no pipe
computes."""


def find_sparse_kernels(evidence: Evidence, activity: Activity) -> tuple[Floats, bool]:
    """Find which share of each bin kernels ran in that use few SMs; where SM activity was not measured, kernels that
    compute nothing. Returns the shares [n_gpus, n_bins], and whether they are small kernels of the program itself, not
    collectives. All shares are 0 where the engine's activity was not measured, as with NVML alone.

    Power alone does not tell: kernels that memory limits draw less than others too.
    """
    cells = activity.is_measured & activity.is_used[:, None] & (activity.active > CLEARLY)
    nothing = np.zeros_like(activity.active), False
    if not cells.any():
        return nothing
    if "gr_engine_active" not in evidence.series:
        return nothing
    if "sm_active" not in evidence.series:
        return find_quiet_kernels(evidence, activity, cells), False
    return _by_sm_activity(evidence, activity, cells)


def _by_sm_activity(evidence: Evidence, activity: Activity, cells: Flags) -> tuple[Floats, bool]:
    """Find how long kernels ran that use few SMs, from SM activity. ``cells`` [n_gpus, n_bins]: those that tell how many SMs
    are busy while kernels run. Returns the same as ``find_sparse_kernels``."""
    active, has_others = activity.active, int(activity.is_used.sum()) > 1
    measured = np.clip(np.where(cells, evidence.series["sm_active"] / np.maximum(active, 1e-9), np.nan), 0.0, 1.0)
    known = measured[np.isfinite(measured)]
    if not len(known):
        return np.zeros_like(active), False
    ratio = _with_usual_values(measured)
    at_work = np.minimum(rate_at_work(evidence, "sm_active", measured), 1.0)
    dense = _densest(at_work, at_work[np.isfinite(at_work)])
    if dense < CLEARLY:  # less than a collective keeps busy
        return active, True
    if dense < SMALL_SM:  # nothing but sparse kernels: collectives do no arithmetic
        flops = evidence.series.get("flop_active")
        busy = CLEARLY * float(np.nanmean(evidence.series["sm_active"]))
        waits = flops is not None and np.isfinite(flops).any() and float(np.nanmean(flops)) < busy
        return active, not waits
    if dense < DENSE_SM:  # even the densest bins may be mixtures: they are where links carry what collectives would
        sparse = _unmixed(active, ratio, DENSE_SM, COLLECTIVE_SM)
        densest = cells & (ratio >= float(np.percentile(known, 90)))
        links = float(gpu_link_bytes(evidence)[densest].mean())
        is_carried = links >= least_link_rate(evidence) * float(sparse[densest].mean())
        if is_carried and has_others:
            dense = DENSE_SM
        elif dense < MIXED_SM:
            return sparse, True
    if not has_others:  # kernels as dense as DENSE_SM are not small, even if this GPU's others are denser
        return _unmixed(active, ratio, min(dense, DENSE_SM), COLLECTIVE_SM), True
    sparse = _unmixed(active, ratio, dense, COLLECTIVE_SM)
    return np.maximum(sparse, _collectives_on_all_sms(evidence, active, cells)), False


def _densest(measured: Floats, known: Floats) -> float:
    """Find the SM activity per engine activity of the job's dense kernels. ``measured`` [n_gpus, n_bins]: this ratio,
    NaN where it is unknown; ``known`` [n]: its values that are known, at least one.

    It is what is usual in the denser half of the bins of the densest GPUs, for whom others may wait, if that is dense;
    otherwise the densest bins show it. One GPU of hundreds may be the only one that works while all others wait for it:
    then it is that of the densest GPU in half of the bins.
    """
    dense = float(np.percentile(known, 99))
    if dense >= MIXED_SM:
        (usual,) = known_percentiles(measured.T, (0.75,))
        return max(float(np.percentile(usual[np.isfinite(usual)], 95)), min(dense, DENSE_SM))
    in_bin = np.nan_to_num(measured).max(axis=0)
    busiest = float(np.median(in_bin[in_bin > 0])) if in_bin.any() else 0.0
    return busiest if busiest >= MIXED_SM else dense


def _unmixed(active: Floats, ratio: Floats, dense: float | Floats, sparse: float | Floats) -> Floats:
    """Estimate the share of each bin that kernels of the ratio ``sparse`` take, if all others are of the ratio
    ``dense``."""
    return np.asarray(active * np.clip((dense - ratio) / np.maximum(dense - sparse, 1e-9), 0.0, 1.0), np.float64)


def _collectives_on_all_sms(evidence: Evidence, active: Floats, cells: Flags) -> Floats:
    """Estimate the share of each bin [n_gpus, n_bins] in which links are busy and no pipe computes: collectives that
    keep all SMs busy. ``active``: the share in which kernels run; ``cells``: those bins that tell ratios; both [n_gpus,
    n_bins]. 0 where that was not measured."""
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
    """Give cells without a value the median of their GPU, or that of the median GPU if it has none; 0 if no GPU has any."""
    (usual,) = known_percentiles(values.T, (0.5,))
    of_all = float(np.nanmedian(usual)) if np.isfinite(usual).any() else 0.0
    return np.where(np.isfinite(values), values, np.nan_to_num(usual, nan=of_all)[:, None])
