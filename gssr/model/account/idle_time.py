"""Splitting the time in which no kernel runs, by what moved or worked in its place.

Causes claim idle time one after another, the most direct first, each only in bins in which it is seen, and never more than
is left. What nobody claims is the gap between kernels in bins in which some run, else unexplained.
"""

from statistics import NormalDist

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.account.activity import CLEARLY, Activity, does_something
from gssr.model.account.compare_gpus import CERTAIN, COUNTER_NOISE, longer_than_others, while_others_work
from gssr.model.account.link_traffic import (
    FABRIC,
    LEAST_BYTES,
    MIXED_SPREAD,
    host_link_bytes,
    one_way_bytes,
    weighted_median,
)
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.evidence.evidence import Evidence
from gssr.model.evidence.gather import MOVED
from gssr.model.percentiles import known_percentiles

MOVED_BYTES = 5e7
"""If a node's disks and network move fewer bytes a second than this, nobody waits for them: neighbours and monitors use them
as well."""
MORE_WHEN_IDLE = 1.3
"""A rate is a cause if it is at least this many times higher while GPUs are idle than while they work. In samples that mix
both, the two rates are read from the line through the rate over the idle time, if the two are correlated beyond chance."""
_OUTLIERS = 0.05
"""This share of the values at either end is cut back before a rate is compared with idle time: a few samples, such as those
in which a checkpoint is written, say nothing about the others."""
BUSY_CORES = 1.5
"""A rank whose processes keep more cores busy than this computes on the CPU: waiting for a GPU in a loop keeps one core
busy."""
BUSY = 0.9
"""Cores count as busy if this share of them is: the one core of a rank, all cores that a rank may use, or all cores of a
node."""
LONGEST_GAP = 0.003
"""Gaps between kernels are shorter than this (s): a launch takes microseconds, the host's part of a short step a few
milliseconds. Longer ones are waits within a step."""
ORDINARY_REST = CATEGORIES[POSITIONS["idle.unexplained"]].ordinary
"""Healthy jobs have this share of idle time without a cause. If there is more, a host that is always busy counts as the
cause."""
_LOW = 0.1, 0.3
"""Healthy jobs have this share of idle time without a cause. Above it, a host that is always busy counts as the cause."""
_APART = NormalDist().inv_cdf(_LOW[1]) - NormalDist().inv_cdf(_LOW[0])


def split_idle_time(evidence: Evidence, activity: Activity, spinning: Floats) -> tuple[dict[str, Floats], set[str]]:
    """Split the time in which no kernel runs. ``spinning`` [n_gpus, n_bins]: the shares of each bin in which GPUs wait in
    communication kernels.

    Returns shares [n_gpus, n_bins] of each bin by category, which add up to 1 - ``activity.active``; and which of the
    causes are guesses: all if no sample tells waits from work, and one that is as busy while GPUs work as while they idle.
    """
    idle = np.asarray(1 - activity.active, np.float64)
    inside = np.asarray(activity.is_known & activity.is_used[:, None] & ~(activity.is_startup | activity.is_end), bool)
    left = idle
    found: dict[str, Floats] = {}

    def claim(name: str, seconds: Floats) -> None:
        nonlocal left
        found[name] = np.minimum(left, seconds)
        left = left - found[name]

    runs_kernels = does_something(activity.active)
    is_measured = inside & activity.is_measured
    in_turn = while_others_work(idle, is_measured)
    if in_turn is None:
        gaps = _between_kernels(idle, is_measured & runs_kernels, evidence.width)
        # GPUs wait for those that work meanwhile: one that idles while the others spin is the one that these wait for.
        waits = (longer_than_others(each, is_measured, evidence) for each in (idle, idle + spinning))
        for_others = np.minimum(*waits)
    else:  # what looks like a short gap in every bin is another GPU's turn
        gaps, for_others = np.zeros_like(idle), in_turn
    cores = _held_a_second(evidence, evidence.workload.get("cpu"))
    all_busy = _held_a_second(evidence, evidence.host.get("cpu_utilization")) >= BUSY
    own_busy = np.zeros(len(evidence.times), bool)
    if evidence.n_cores is not None and evidence.n_cores >= BUSY_CORES:  # one is busy with any synchronisation
        own_busy = cores >= BUSY * evidence.n_cores
    n_processes = _held_a_second(evidence, evidence.workload.get("n_processes"))
    when_idle, at_work = (_rate_at(share, cores, idle, inside) for share in (1.0, 0.0))
    computes = all_busy | own_busy | (when_idle >= np.maximum(n_processes / 2, BUSY_CORES))
    leaves_no_core = all_busy | own_busy | (computes & (when_idle >= MORE_WHEN_IDLE * at_work))
    files = _waiting_for_files(evidence, idle, inside) + _explained_part(
        _files_over_fabric(evidence), idle, inside, MOVED_BYTES
    )
    # What all GPUs idle in every bin is no wait for files or for one another; what some idle beyond it may be. While all
    # cores are busy it may be theirs. Nobody waits for files while processes compute more than at work: who does leaves a
    # core idle.
    common = np.where(inside & runs_kernels & ~all_busy, _least_of_used(gaps, activity), 0.0)
    claim("idle.input_output", np.where(leaves_no_core, 0.0, np.minimum(np.maximum(left - common, 0.0), idle * files)))
    claim("idle.copies", idle * _copying_part(evidence, idle, inside))
    claim("idle.between_kernels", common)
    claim("idle.imbalance", for_others)
    claim("idle.host", np.where(computes, left, 0.0))
    own = np.minimum(left, np.maximum(gaps - common, 0.0))
    found["idle.between_kernels"], left = found["idle.between_kernels"] + own, left - own
    # A host that never rests, neither while kernels run nor while none does, holds them up all the time.
    needs_a_cause = not gaps.any() and inside.any() and float(left[inside].mean()) > ORDINARY_REST
    is_held_up = ~runs_kernels | needs_a_cause
    streams = _streaming(evidence, idle, inside) & is_held_up & ~computes
    # A rank that mostly waits for others in MPI polls, and keeps its core busy all the same.
    holds_up = (when_idle >= BUSY) & is_held_up & ~streams & ~(found["idle.imbalance"] > left)
    found["idle.input_output"] = found["idle.input_output"] + np.where(streams, left, 0.0)
    found["idle.host"] = found["idle.host"] + np.where(holds_up, left, 0.0)
    found["idle.unexplained"] = np.where(streams | holds_up, 0.0, left)
    guesses = {"idle.input_output", "idle.copies", "idle.host"} if _is_mixed(idle, inside) else set()
    for name, all_the_while in (("idle.input_output", streams), ("idle.host", holds_up)):
        if 2 * float(left[all_the_while].sum()) > float(found[name].sum()):
            guesses.add(name)
    return found, guesses


def _is_mixed(idle: Floats, inside: Flags) -> bool:
    """Tell whether all samples mix work and waits alike, so that none shows what goes with either. ``idle`` and ``inside``
    [n_gpus, n_bins]: the idle share of each bin, and the cells that count."""
    return not inside.any() or float(np.ptp(np.percentile(idle[inside], (5, 95)))) <= MIXED_SPREAD


def _streaming(evidence: Evidence, idle: Floats, inside: Flags) -> Flags:
    """Flag the cells [n_gpus, n_bins] in which disks or network of the GPU's node move much all the time, as they do
    while GPUs work: at least twice MOVED_BYTES in the median bin of work, and in the idle part of this bin. ``idle`` and
    ``inside`` [n_gpus, n_bins]: the idle share of each bin, and the cells that count."""
    moved, group_of = _moved(evidence)
    streams = np.zeros(moved.shape, bool)
    for group, rate in enumerate(moved):
        of = group_of == group
        while_working = rate[inside[of].any(axis=0)]
        if len(while_working) and float(np.median(while_working)) >= 2 * MOVED_BYTES:
            streams[group] = _rate_at(1.0, rate, idle[of], inside[of]) >= 2 * MOVED_BYTES
    return np.asarray(streams[group_of], bool)


def _between_kernels(idle: Floats, inside: Flags, width: float) -> Floats:
    """Find the idle time in gaps between kernels: at most these shares of each bin [n_gpus, n_bins].

    Many short gaps are as long together in every bin; few long ones are not. If a bin of ``width`` s holds n gaps that are
    about equally likely at any time, their sum varies by 1/sqrt(n) of itself, so the usual length of one is the bin's
    length times the variance over the mean. It is taken from the bins that idle least, so that other waits, which come on
    top, do not count. ``inside``: the cells in which kernels run.
    """
    low, usual = known_percentiles(np.where(inside, idle, np.nan).T, _LOW)
    spread = (usual - low) / _APART
    are_short = width * np.maximum(spread**2 - COUNTER_NOISE**2, 0.0) <= LONGEST_GAP * usual
    most = np.where(are_short, usual + 3 * np.maximum(spread, COUNTER_NOISE), 0.0)
    return np.where(inside, most[:, None], 0.0)


def _least_of_used(gaps: Floats, activity: Activity) -> float:
    """Find for each used GPU the greatest share of a bin that its gaps between kernels take, and return the least of
    these; 0 if no GPU is used. ``gaps`` [n_gpus, n_bins]."""
    most = gaps.max(axis=1)[activity.is_used] if gaps.shape[1] else np.zeros(0)
    return float(most.min()) if len(most) else 0.0


def _rate_at(share: float, rate: Floats, idle: Floats, inside: Flags) -> Floats:
    """Estimate a rate [n_bins] in the idle part of each bin (``share`` 1) or in that of work (0), from the line through
    the rate over the idle share of all bins. The rate itself is returned if the bins are too few or too much alike.
    ``idle`` and ``inside`` [n_gpus, n_bins]: the idle share, and the cells that count."""
    count = inside.sum(axis=0)
    mean = np.where(inside, idle, 0.0).sum(axis=0) / np.maximum(count, 1)
    known = count > 0
    if known.sum() < 8:
        return rate
    usual, waits = _without_outliers(rate[known]), _without_outliers(mean[known])
    variance = float(waits.var(ddof=1))
    slope = float(np.cov(usual, waits)[0, 1]) / variance if variance > 0 else 0.0
    return np.asarray(rate + slope * (share - mean), np.float64)


def _without_outliers(values: Floats) -> Floats:
    """Bring the _OUTLIERS at either end of values [n] to the least and the greatest of the others."""
    return np.asarray(np.clip(values, *np.quantile(values, (_OUTLIERS, 1 - _OUTLIERS))), np.float64)


def _explained_part(rate: Floats, idle: Floats, inside: Flags, least: float) -> Floats:
    """Estimate how much (0-1) of the idle time of each bin [n_gpus, n_bins] a rate explains. ``rate`` is one of all
    nodes [n_bins] or of each GPU [n_gpus, n_bins].

    A bin's idle time is explained as far as moving the bytes takes, at the rate that is usual in idle time. None is
    where the rate is as low as in the busiest bins; and none anywhere if the rate is hardly higher in idle time than at
    work, or below ``least`` on average over the idle time. ``inside`` [n_gpus, n_bins]: the cells that count.
    """
    if rate.ndim == 1:  # of the nodes: what their GPUs wait on average is held against it
        count = inside.sum(axis=0)
        mean = np.where(inside, idle, 0.0).sum(axis=0) / np.maximum(count, 1)
        return np.broadcast_to(_explained_part(rate[None], mean[None], count[None] > 0, least), idle.shape)
    own, waits = rate[inside], idle[inside]
    total = float(waits.sum())
    if not total > 0:
        return np.zeros_like(idle)
    when_idle = float(waits @ own) / total
    at_work = float((1 - waits) @ own) / max(float((1 - waits).sum()), 1e-9)
    if when_idle < least:
        return np.zeros_like(idle)
    if when_idle < MORE_WHEN_IDLE * at_work:  # all bins mix work and waits
        seconds = _idle_per_rate(own, waits, idle.shape[1]) * rate
        return np.asarray(np.clip(seconds / np.maximum(idle, 1e-9), 0.0, 1.0), np.float64)
    high = weighted_median(own, waits * own)
    busiest = waits <= np.quantile(waits, 0.25) + 1e-9
    base = min(float(np.median(own[busiest])), high / 2)
    # What is moved above the base takes so much of the bin at that rate; no more idle time is explained by it.
    seconds = np.maximum(rate - base, 0.0) / max(high - base, 1e-9)
    return np.asarray(np.clip(seconds / np.maximum(idle, 1e-9), 0.0, 1.0), np.float64)


def _idle_per_rate(rate: Floats, idle: Floats, n_bins: int) -> float:
    """Estimate by how much a bin's idle share rises with a rate, from the line through both; 0 if they don't clearly rise
    together. Both are values of cells [n]. Cells of a bin are no independent ones: only ``n_bins`` are."""
    if len(rate) < 8:
        return 0.0
    rate, idle = _without_outliers(rate), _without_outliers(idle)
    if rate.std() == 0 or idle.std() == 0:
        return 0.0
    correlation = float(np.corrcoef(rate, idle)[0, 1])
    if not correlation > CERTAIN / np.sqrt(min(len(rate), n_bins)):
        return 0.0
    slope = correlation * float(rate.std() / idle.std())
    at_work = float(rate.mean()) - slope * float(idle.mean())
    is_higher = at_work + slope >= MORE_WHEN_IDLE * max(at_work, 0.0)
    return correlation * float(idle.std() / rate.std()) if is_higher else 0.0


def _waiting_for_files(evidence: Evidence, idle: Floats, inside: Flags) -> Floats:
    """Estimate how much (0-1) of the idle time of each bin [n_gpus, n_bins] is explained by what the GPU's node moves,
    or by what all nodes move on average."""
    moved, group_of = _moved(evidence)
    waits, counts = np.zeros(moved.shape), np.zeros(moved.shape)
    np.add.at(waits, group_of, np.where(inside, idle, 0.0))
    np.add.at(counts, group_of, inside)
    part = _explained_part(moved, waits / np.maximum(counts, 1), counts > 0, MOVED_BYTES)
    return np.asarray(part[group_of], np.float64)


def _moved(evidence: Evidence) -> tuple[Floats, Ints]:
    """Add up what disks and network move, B/s. Returns [n_groups, n_bins] and the group of each GPU: its node, or a single
    one for the mean of all nodes where they are not known one by one."""
    if not evidence.by_node:
        return _rate_of_nodes(evidence, MOVED)[None], np.zeros(evidence.n_gpus, np.int64)
    moved = np.zeros((len(evidence.nodes), len(evidence.times)))
    for values in evidence.by_node.values():
        moved += [_held_a_second(evidence, row) for row in values]
    return moved, evidence.node_of


def _files_over_fabric(evidence: Evidence) -> Floats:
    """Find what a node's fabric carries to or from file servers on average, B/s [n_bins]: the nodes of a job together
    receive from each other as much as they send, so what they receive more, or less, comes from outside or goes there."""
    received, sent = (_rate_of_nodes(evidence, (name,)) for name in FABRIC)
    return np.abs(received - sent)


def _copying_part(evidence: Evidence, idle: Floats, inside: Flags) -> Floats:
    """Estimate how much (0-1) of the idle time of each bin [n_gpus, n_bins] copies between host and GPU explain."""
    copied = host_link_bytes(evidence, _rate_of_nodes(evidence, FABRIC))
    part = _explained_part(copied, idle, inside, CLEARLY * LEAST_BYTES)
    if part.any() or evidence.peaks is None:
        return part
    if len(evidence.nodes) > 1 and not any(name in evidence.host for name in FABRIC):
        # Nobody knows what goes through to network adapters: GPUs send each other as much as they receive.
        copied = np.minimum(copied, one_way_bytes(evidence))
    # Copies in every step of samples that mix whole steps never change: their bytes still bound how long they took.
    bandwidth = evidence.peaks.c2c_bandwidth or evidence.peaks.pcie_bandwidth
    seconds = copied / bandwidth
    if not inside.any():
        return part
    idles = float(idle[inside].mean())
    if not max(CLEARLY, idles / 2) <= float(seconds[inside].mean()) <= idles:
        return part  # copies that take longer than GPUs idle run beside kernels; those that take much less may as well
    if not _is_mixed(idle, inside):
        return part  # samples tell waits from work, and no more is copied in waits
    return np.asarray(np.clip(seconds / np.maximum(idle, 1e-9), 0.0, 1.0), np.float64)


def _rate_of_nodes(evidence: Evidence, names: tuple[str, ...]) -> Floats:
    """Add up what the nodes move on average, B/s [n_bins], over these columns; 0 where it is not known."""
    return np.asarray(sum(_held_a_second(evidence, evidence.host.get(name)) for name in names), np.float64)


def _held_a_second(evidence: Evidence, values: Floats | None) -> Floats:
    """Give bins shorter than a second the value of the row after them: it tells of the second before its time. 0 where
    nothing is known."""
    if values is None:
        return np.zeros(len(evidence.times))
    bins = np.arange(len(values))
    following = np.minimum.accumulate(np.where(np.isfinite(values), bins, len(values))[::-1])[::-1]
    is_near = (following < len(values)) & (following - bins < np.ceil(1.0 / evidence.width))
    return np.where(is_near, np.nan_to_num(values[np.minimum(following, len(values) - 1)]), 0.0)
