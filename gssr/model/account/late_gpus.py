"""Whom the others wait for: read from the account, not from a rule of its own.

In a job in step the GPU that waits least while the others wait is the one that is late. Who that is may stay the same or
change, or groups of GPUs may work in turn.
"""

from dataclasses import dataclass

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.account.activity import CLEARLY, IDLE_ACTIVITY, MOSTLY
from gssr.model.account.book import GpuTimeAccount
from gssr.model.account.compare_gpus import while_others_work
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.evidence.evidence import over_gpus

ORDINARY_WAITS = CATEGORIES[POSITIONS["idle.imbalance"]].ordinary
WAITS_LITTLE = 0.5
"""A GPU is late in a bin if it waits less than this share of what all GPUs wait there on average. Some GPUs are always the
late ones only if the others are late in no more than this share of the time."""
FEW_GPUS = 0.34
"""Up to this share of the GPUs, or of the nodes, count as an exception; if more of them differ, they don't."""
UNEVEN = 0.25
"""The work is unevenly shared if the GPUs' waits over the whole window scatter by more than this share of their mean."""
LATE_CODES = ("straggler", "slow_node", "imbalance", "rotating_stragglers", "taking_turns")
"""The work is unevenly shared if the GPUs' waits over the whole window scatter by more than this share of their mean."""


@dataclass(frozen=True)
class LateGpus:
    """GPUs that others wait for. ``code``: the verdict that this is, such as "straggler". ``gpus``: their positions; empty
    if they change, or are many. ``share`` (0-1): of all GPU time, what the others wait."""

    code: str
    gpus: tuple[int, ...]
    share: float


def find_late_gpus(account: GpuTimeAccount, node_of: Ints, together: bool) -> LateGpus | None:
    """Find whom the GPUs of a job wait for. Returns None if nobody waits, or all wait alike, so that nobody is late.

    ``node_of`` [n_gpus] numbers the nodes. ``together``: GPUs are read in one moment; otherwise samples of the same steps
    show each GPU at another part of them, and nobody need be late who waits less in one."""
    activity, breakdown = account.activity, account.breakdown
    used = np.flatnonzero(activity.is_used)
    if len(used) < 2:
        return None
    begins, ends = working_spans(account)
    times = breakdown.times  # what lies before a GPU's own work, or after it, is that of late_start and early_end
    inside = (times >= begins[:, None]) & (times < ends[:, None]) & ~(activity.is_startup | activity.is_end)
    waits = np.where(inside, account.idling + account.spinning, np.nan)[used]
    weight = np.nan_to_num(over_gpus(waits))
    busy = weight >= ORDINARY_WAITS
    if not busy.any():
        return None
    is_late = np.nan_to_num(waits, nan=np.inf) < WAITS_LITTLE * weight
    how_often = (is_late[:, busy] * weight[busy]).sum(axis=1) / weight[busy].sum()
    late = np.asarray(how_often >= MOSTLY, bool)
    idles, spins = (
        float(np.nansum(np.where(inside, cells, 0.0) * activity.seconds)) / max(breakdown.gpu_seconds, 1e-9)
        for cells in (account.idling, account.spinning)
    )
    idles, spins = min(idles, breakdown.share("idle.imbalance")), min(spins, breakdown.share("communication.waiting"))
    share = idles + spins
    by_gpu = over_gpus(waits.T)
    if late.any() and not late.all() and float(how_often[~late].mean()) <= WAITS_LITTLE:
        others = by_gpu[~late]
        is_even = float(np.nanstd(others)) <= UNEVEN * float(np.nanmean(others))
        code = _code_of_late_ones(late, node_of[used]) if is_even else "imbalance"
        return LateGpus(code, () if code == "imbalance" else tuple(used[late].tolist()), share)
    if while_others_work(np.asarray(1 - activity.active, np.float64), inside & activity.is_measured) is not None:
        return LateGpus("taking_turns", (), share)
    usual = float(np.nanmean(by_gpu))
    are_some_late = float(np.median(is_late[:, busy].mean(axis=0))) > 0
    is_clear = are_some_late or float(np.nanmax(by_gpu) - np.nanmin(by_gpu)) > CLEARLY
    if is_clear and float(np.nanstd(by_gpu)) > UNEVEN * usual:
        return LateGpus("imbalance", (), share)
    if not (are_some_late and together) and idles <= spins:  # nobody waits clearly less than the others
        return None
    cells = np.nan_to_num(waits[:, busy])
    is_whole = ((cells > MOSTLY) | (cells < 1 - MOSTLY)).mean() > MOSTLY  # stragglers are late by parts of a bin
    in_turn = are_some_late and is_whole and busy.mean() >= MOSTLY and usual >= 1 - MOSTLY
    return LateGpus("taking_turns" if in_turn else "rotating_stragglers", (), share)


def _code_of_late_ones(late: Flags, node_of: Ints) -> str:
    """Name the verdict if the same GPUs are always late. ``late`` and ``node_of``: of the used GPUs, whether each is
    late and the number of its node."""
    nodes, n_gpus = np.unique(node_of, return_counts=True)
    of_late, n_late = np.unique(node_of[late], return_counts=True)
    whole = n_late == n_gpus[np.isin(nodes, of_late)]
    if len(nodes) > 2 and len(of_late) <= max(FEW_GPUS * len(nodes), 1) and whole.all() and (n_late > 1).all():
        return "slow_node"
    return "straggler" if late.sum() <= max(1, FEW_GPUS * len(late)) else "imbalance"


def working_spans(account: GpuTimeAccount) -> tuple[Floats, Floats]:
    """Find when each GPU begins to work and when it ends: unix s [n_gpus] each, NaN if it never works. A GPU works if it is
    at least half as active as it is on average in the bins in which it does anything."""
    activity, times = account.activity, account.breakdown.times
    n = np.maximum((activity.active > 0).sum(axis=1, keepdims=True), 1)
    least = np.maximum(activity.active.sum(axis=1, keepdims=True) / n / 2, IDLE_ACTIVITY)
    works = activity.is_known & (activity.active >= least) & activity.is_used[:, None]
    some = works.any(axis=1)
    first, last = np.argmax(works, axis=1), works.shape[1] - 1 - np.argmax(works[:, ::-1], axis=1)
    return np.where(some, times[first], np.nan), np.where(some, times[last] + account.breakdown.width, np.nan)
