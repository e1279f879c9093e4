"""Whom the others wait for: read from the account, not from a rule of its own.

In a job in step the GPU that waits least while the others wait is the one that is late. Who that is may stay the same, or
change; GPUs may work in turn; or some may begin late or end early.
"""

from dataclasses import dataclass

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.breakdown.account import Account

WAITS_CLEARLY = 0.1
"""A bin counts as one in which GPUs wait if they do so for this share of it on average: less is noise of the counters."""
WAITS_LITTLE = 0.5
"""A GPU is late in a bin if it waits less than this share of what all wait there on average."""
ALWAYS_LATE = 0.7
"""The same GPUs are late if they are so in this share of the time in which others wait; chance changes who is late."""
FEW_GPUS = 0.2
"""Up to this share of the GPUs are stragglers; where more are late the load is uneven."""
UNEVEN = 0.25
"""GPUs whose waits differ by this share of their mean, over the whole window, have unequal shares of the work."""
TURN_SHARE = 0.2
"""Groups that take turns hold at least this share of the GPUs: one late GPU is none."""


@dataclass(frozen=True)
class LateGpus:
    """``code``: the verdict's. ``gpus``: positions of those that are late; empty where they change. ``share``: of all GPU time,
    what the others wait for them. ``is_waiting`` [n_bins]: when."""

    code: str
    gpus: tuple[int, ...]
    share: float
    is_waiting: Flags


def find_late_gpus(account: Account, node_of: Ints, interval: float) -> LateGpus | None:
    """Find whom the GPUs of a job wait for. Returns None where nobody waits, or nothing tells the GPUs apart."""
    activity, breakdown = account.activity, account.breakdown
    used = np.flatnonzero(activity.is_used)
    if len(used) < 2:
        return None
    inside = ~(activity.is_startup | activity.is_end)
    waits = np.where(inside, account.waiting[used], np.nan)
    n_together = max(1, int(np.ceil(max(2.0, interval) / breakdown.width)))
    waits = _in_groups(waits, n_together)
    weight = np.nan_to_num(_mean(waits))
    busy = weight >= WAITS_CLEARLY
    if not busy.any():
        return None
    share = breakdown.share("idle.imbalance") + breakdown.share("communication.waiting")
    is_late = np.nan_to_num(waits, nan=np.inf) < WAITS_LITTLE * weight
    how_often = (is_late[:, busy] * weight[busy]).sum(axis=1) / weight[busy].sum()
    is_waiting = np.repeat(busy, n_together)[: len(breakdown.times)]
    late = how_often >= ALWAYS_LATE
    if late.any():
        gpus = tuple(used[late].tolist())
        nodes = np.unique(node_of[used[late]])
        n_nodes = len(np.unique(node_of[used]))
        if (
            n_nodes > 2
            and len(nodes) <= max(FEW_GPUS * n_nodes, 1)
            and all(
                (how_often[node_of[used] == node] >= ALWAYS_LATE).all() and (node_of[used] == node).sum() > 1
                for node in nodes
            )
        ):
            return LateGpus("slow_node", gpus, share, is_waiting)
        code = "straggler" if late.sum() <= max(1, FEW_GPUS * len(used)) else "imbalance"
        return LateGpus(code, gpus if code == "straggler" else (), share, is_waiting)
    by_gpu = _mean(np.where(busy, waits, np.nan).T)
    n_late = is_late[:, busy].mean(axis=0)
    if float(np.median(n_late)) == 0.0:  # all wait alike: nothing tells who is late
        spread = float(np.nanmax(by_gpu) - np.nanmin(by_gpu))
        return (
            LateGpus("imbalance", (), share, is_waiting)
            if spread > max(WAITS_CLEARLY, 0.5 * float(np.nanmean(by_gpu)))
            else None
        )
    usual = float(np.nanmean(by_gpu))
    if float(np.nanstd(by_gpu)) > UNEVEN * usual:
        return LateGpus("imbalance", (), share, is_waiting)
    whole = np.nan_to_num(waits[:, busy])
    apart = ((whole > 0.8) | (whole < 0.2)).mean()
    if float(np.median(n_late)) >= TURN_SHARE and apart > 0.7:
        return LateGpus("taking_turns", (), share, is_waiting)
    return LateGpus("rotating_stragglers", (), share, is_waiting)


def _mean(values: Floats) -> Floats:
    """[n]: the mean over the first axis of values that are known; NaN where none is."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    return np.divide(
        np.where(known, values, 0.0).sum(axis=0), count, out=np.full(values.shape[1], np.nan), where=count > 0
    )


def _in_groups(values: Floats, n: int) -> Floats:
    """[len(values), n_groups]: the means over ``n`` bins each."""
    if n == 1:
        return values
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % n)), constant_values=np.nan)
    return np.stack([_mean(row.reshape(-1, n).T) for row in padded])


def working_spans(account: Account) -> tuple[Floats, Floats]:
    """[n_gpus] each: when each GPU begins to work and when it ends, unix s; NaN where it never works."""
    active = np.where(account.activity.is_known, account.activity.active, 0.0)
    n = np.maximum((active > 0).sum(axis=1, keepdims=True), 1)
    level = active.sum(axis=1, keepdims=True) / n
    works = (active >= np.maximum(0.5 * level, 0.02)) & account.activity.is_used[:, None]
    some = works.any(axis=1)
    first, last = np.argmax(works, axis=1), works.shape[1] - 1 - np.argmax(works[:, ::-1], axis=1)
    times = account.breakdown.times
    return np.where(some, times[first], np.nan), np.where(some, times[last] + account.breakdown.width, np.nan)
