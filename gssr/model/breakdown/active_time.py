"""Splitting the time in which kernels run: into work, communication, small kernels and time lost to low clocks.

Samples are means over an interval in which kernels of several kinds ran one after the other: what is measured is a mixture.
Collectives spin on few SMs and do hardly any arithmetic; the job's own densest bins show how its work looks.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.breakdown.activity import Activity
from gssr.model.breakdown.over_gpus import excess, smoothed
from gssr.model.evidence.evidence import Evidence

COLLECTIVE_SM = 0.16
"""SM active per engine active of a collective: NCCL runs up to 24 of 132 SMs' worth of channels."""
DENSE_SM = 0.85
"""SM active per engine active of dense work, where no bin of the job shows any (long samples mix all of a step)."""
MIXED_SM = 0.7
"""Where not even the densest bins reach this, all bins are taken for mixtures."""
FEWEST_SM = 0.05
"""A collective takes more of the SMs than this; a job that never takes more runs small kernels."""
SMALL_SM = 0.25
"""Kernels on fewer SMs than this use few (KempnerPulse)."""
COLLECTIVE_POWER = 0.2
"""Power above the idle draw of a GPU that spins, as a share of that of one at work."""
ONE_WARP_PER_SCHEDULER = 0.0625
"""Occupancy of an SM that holds one warp for each of its four schedulers, of 64 in all."""
LINK_BYTES = 3e9
"""Collectives move at least so many bytes a second while they transfer."""
NO_ARITHMETIC = 0.008
"""Share of the pipes' peak below which kernels do no arithmetic."""
POWER_NOISE = 0.15
"""The same for power, which trails by up to a second and differs with the data that is multiplied."""
LEAST_SPARSE = 0.03
"""A smaller share of sparse kernels is within the noise of the counters."""


class _Sparse(NamedTuple):
    share: Floats
    is_small_work: Flags


def split_active_time(evidence: Evidence, activity: Activity) -> dict[str, Floats]:
    """Shares [n_gpus, n_bins] of each bin by category; they add up to ``activity.active``."""
    active = activity.active
    sparse, only_small = _sparse_time(evidence, activity)
    several = int(activity.is_used.sum()) > 1
    links = _link_bytes(evidence)
    communication = sparse if several and not only_small else np.zeros_like(active)
    few = sparse - communication
    work = active - sparse
    idle_schedulers = work * _idle_schedulers(evidence)
    few = few + idle_schedulers
    work = work - idle_schedulers
    links = _exposed(links, work, active, activity)
    transferring = np.minimum(communication, _transfer_time(evidence, links, communication, activity))
    transferring = transferring * _least_share(transferring, communication, activity)
    clock = _clock_share(evidence)
    slowed = work * (1 - clock)
    found = {
        "communication.transferring": transferring,
        "communication.waiting": communication - transferring,
        "working.few_sms": few,
        "working.slowed": slowed,
    }
    for name, is_kind in _kinds_of_work(evidence, activity).items():
        found[name] = np.where(is_kind, work - slowed, 0.0)
    return found


def _filled(values: Floats) -> Floats:
    """Give cells without a value their GPU's median; 0 where it has none."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual = np.nan_to_num(np.nanmedian(values, axis=1, keepdims=True))
    return np.where(np.isfinite(values), values, usual)


def _sparse_time(evidence: Evidence, activity: Activity) -> tuple[Floats, bool]:
    """The share of each bin in which kernels run that use few SMs."""
    active = activity.active
    counts = activity.is_known & activity.is_used[:, None] & (active > 0.3)
    if not counts.any():
        return np.zeros_like(active), False
    series = evidence.series
    if "sm_active" in series and "gr_engine_active" in series:
        raw = np.where(counts, series["sm_active"] / np.maximum(active, 1e-9), np.nan)
        ratio = np.clip(_filled(raw), 0.0, 1.0)
        known = np.clip(raw[np.isfinite(raw)], 0, 1)
        if not len(known):
            return np.zeros_like(active), False
        dense = float(np.percentile(known, 99))
        if dense < MIXED_SM:  # one GPU of hundreds may be the only one that works, all others wait for it
            in_bin = np.where(np.isfinite(raw), raw, 0.0).max(axis=0)
            busiest = float(np.percentile(in_bin[in_bin > 0], 50))
            dense = busiest if busiest >= MIXED_SM else dense
        if dense < FEWEST_SM:
            return active, True
        if dense < SMALL_SM:
            flops = series.get("flop_active")
            still = flops is not None and float(np.nanmean(flops)) < NO_ARITHMETIC
            return active, not still
        if dense < MIXED_SM:
            spread = float(np.percentile(known, 95) - np.percentile(known, 5))
            sparse = active * np.clip((DENSE_SM - ratio) / (DENSE_SM - COLLECTIVE_SM), 0.0, 1.0)
            moved = _link_bytes(evidence)
            if spread < 0.1 and moved.mean() < LINK_BYTES * sparse.mean():
                return sparse, True
            dense = DENSE_SM
        floor = COLLECTIVE_SM
        noise = LEAST_SPARSE
    elif "power_usage" in series:
        effort = _effort(evidence, activity)
        n = max(int(np.ceil(5.0 / evidence.width)), 1)
        if activity.engine == "gpu_utilization":
            n = max(n, int(np.ceil(8 * evidence.interval / evidence.width)) if evidence.interval > 1.5 else n)
        ratio = _filled(
            np.where(
                counts,
                smoothed(effort, n) / np.maximum(smoothed(np.where(activity.is_known, active, np.nan), n), 1e-2),
                np.nan,
            )
        )
        known = ratio[counts]
        dense = float(np.percentile(known, 90))
        floor = COLLECTIVE_POWER * dense
        noise = POWER_NOISE
        if "tensor_active" in series:
            tensor = _filled(np.where(counts, series["tensor_active"] / np.maximum(active, 1e-9), np.nan))
            top = float(np.percentile(tensor[counts], 95))
            if top > 0.1:
                ratio = np.maximum(ratio, dense * np.minimum(tensor / top, 1.0))
    else:
        return np.zeros_like(active), False
    sparse = active * np.clip((dense - ratio) / max(dense - floor, 1e-9), 0.0, 1.0)
    sparse = np.maximum(sparse, _moving_without_arithmetic(evidence, active, counts))
    return np.asarray(np.where(sparse < noise * active, 0.0, sparse), np.float64), False


def _moving_without_arithmetic(evidence: Evidence, active: Floats, counts: Flags) -> Floats:
    """Collectives that run on all SMs: links are busy and no pipe computes."""
    flops, peaks = evidence.series.get("flop_active"), evidence.peaks
    if flops is None or peaks is None or not peaks.nvlink_bandwidth:
        return np.zeros_like(active)
    ratio = _filled(np.where(counts, flops / np.maximum(active, 1e-9), np.nan))
    top = float(np.percentile(ratio[counts], 90))
    if top < 0.05:
        return np.zeros_like(active)
    share = active * np.clip((top - ratio) / top, 0.0, 1.0)
    links = _link_bytes(evidence)
    return np.where(links > 0.3 * peaks.nvlink_bandwidth * share, np.where(share > 0.1 * active, share, 0.0), 0.0)


def _effort(evidence: Evidence, activity: Activity) -> Floats:
    """Power [n_gpus, n_bins] above the idle draw as a share of the highest draw above it, of each model."""
    power = np.asarray(evidence.series["power_usage"], np.float64)
    models = np.unique([gpu.name or "" for gpu in evidence.gpus], return_inverse=True)[1]
    effort = np.ones(power.shape)
    for model in range(int(models.max(initial=-1)) + 1):
        of = models == model
        limits = [gpu.power_limit for gpu, own in zip(evidence.gpus, of, strict=True) if own and gpu.power_limit]
        known = power[of & activity.is_used]
        known = known[np.isfinite(known)]
        if not len(known):
            continue
        top = float(np.percentile(known, 99))
        rest = min(float(np.percentile(known, 1)), 0.13 * (float(np.median(limits)) if limits else top))
        effort[of] = np.clip((power[of] - rest) / max(top - rest, 1.0), 0.0, 1.0)
    return effort


def _link_bytes(evidence: Evidence) -> Floats:
    """Bytes a second between GPUs: NVLink, and PCIe for GPUs without, or of several nodes."""
    series = evidence.series
    total = np.zeros((evidence.n_gpus, len(evidence.times)))
    for name in ("nvlink_tx_bytes", "nvlink_rx_bytes"):
        if name in series:
            total = total + np.nan_to_num(series[name]) / 2
    if len(evidence.nodes) > 1 or not total.any():
        for name in ("pcie_tx_bytes", "pcie_rx_bytes"):
            if name in series:
                total = total + np.nan_to_num(series[name]) / 2
    return np.asarray(total, np.float64)


def _exposed(links: Floats, work: Floats, active: Floats, activity: Activity) -> Floats:
    """The traffic that is not that of work: what links carry in bins of nothing but work runs beside it."""
    inside = activity.is_known & (active > 0.3)
    if not inside.any():
        return links
    share = work[inside] / active[inside]
    if share.max() - share.min() < 0.3:
        return links
    pure = share >= np.percentile(share, 90)
    beside = float(np.median(links[inside][pure] / np.maximum(work[inside][pure], 0.05)))
    return np.maximum(links - beside * work, 0.0)


def _least_share(transferring: Floats, communication: Floats, activity: Activity) -> Floats:
    """How much of each GPU's transfers [n_gpus, 1] can be such: all take part in a collective, so none transfers for longer
    than the GPU that communicates least; what the others communicate longer, they wait for it."""
    inside = activity.is_known & activity.is_used[:, None]
    seconds = np.where(inside, activity.seconds, 0.0)
    total = np.maximum(seconds.sum(axis=1), 1e-9)
    communicates = (communication * seconds).sum(axis=1) / total
    transfers = (transferring * seconds).sum(axis=1) / total
    least = float(communicates[activity.is_used].min()) if activity.is_used.any() else 0.0
    return np.minimum(1.0, np.divide(least, transfers, out=np.ones(len(transfers)), where=transfers > 0))[:, None]


def _transfer_time(evidence: Evidence, links: Floats, communication: Floats, activity: Activity) -> Floats:
    """The share of each bin in which links move at the rate at which this job's collectives do."""
    if not any(
        name in evidence.series for name in ("nvlink_tx_bytes", "pcie_tx_bytes", "nvlink_rx_bytes", "pcie_rx_bytes")
    ):
        # Without counters of the links: waiting is by how much longer than the others a GPU communicates.
        inside = activity.is_known & activity.is_used[:, None]
        return communication - excess(communication, inside, evidence)
    busy = communication > 0.05
    if not busy.any():
        return np.zeros_like(links)
    rate = links[busy] / communication[busy]
    order = np.argsort(rate)
    mass = np.cumsum(links[busy][order])
    fast = rate[order][np.searchsorted(mass, 0.5 * mass[-1])] if mass[-1] > 0 else 0.0
    least = LINK_BYTES
    if evidence.peaks is not None and evidence.peaks.nvlink_bandwidth:
        least = max(least, 0.1 * evidence.peaks.nvlink_bandwidth)
    elif evidence.peaks is not None and len(evidence.nodes) == 1:
        least = max(least, 0.2 * evidence.peaks.pcie_bandwidth)
    return links / max(float(fast), least)


def _idle_schedulers(evidence: Evidence) -> Floats:
    """The share of the work's time that is lost because SMs hold fewer warps than they have schedulers."""
    shape = evidence.n_gpus, len(evidence.times)
    sm, warps = evidence.series.get("sm_active"), evidence.series.get("sm_occupancy")
    if sm is None or warps is None:
        return np.zeros(shape)
    per_sm = np.where(sm > SMALL_SM, warps / np.maximum(sm, 1e-9), np.nan)
    lost = 1 - per_sm / ONE_WARP_PER_SCHEDULER
    return np.asarray(np.where(np.isfinite(lost), np.clip(lost, 0.0, 1.0), 0.0), np.float64)


def _clock_share(evidence: Evidence) -> Floats:
    shape = evidence.n_gpus, len(evidence.times)
    clocks = evidence.series.get("sm_clock")
    most = np.array([gpu.max_sm_clock or np.nan for gpu in evidence.gpus], np.float64)[:, None]
    if clocks is None:
        return np.ones(shape)
    share = clocks / most
    return np.asarray(np.where(np.isfinite(share), np.clip(share, 0.05, 1.0), 1.0), np.float64)


def _kinds_of_work(evidence: Evidence, activity: Activity) -> dict[str, Flags]:
    series = evidence.series
    shape = activity.active.shape
    per = np.maximum(activity.active, 0.05)

    def of(name: str) -> Floats:
        return np.nan_to_num(series[name]) / per if name in series else np.zeros(shape)

    dfma = of("tensor_dfma_active")
    rel = np.stack(
        [
            np.ones(shape),
            of("dram_active") / 0.6,
            np.maximum(of("tensor_active") - dfma, 0) / 0.25,
            (of("fp64_active") + dfma) / 0.2,
        ]
    )
    best = rel.argmax(axis=0)
    return {
        name: best == at
        for at, name in enumerate(("working.other", "working.memory", "working.tensor", "working.fp64"))
    }
