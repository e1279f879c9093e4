"""Whom the GPUs of a job wait for, and what these do meanwhile: said only where the GPUs' own numbers show both."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.account.activity import MOSTLY
from gssr.model.account.late_gpus import LATE_CODES, WAITS_LITTLE
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import positions_of
from gssr.model.results import LeadingLoss, Verdict
from gssr.model.verdicts import words
from gssr.model.verdicts.job import JobEvidence, finite

WAITS = ("idle.imbalance", "communication.waiting")
"""The categories of the time in which GPUs wait for other GPUs."""
_SLOWED_BY = {
    "throttled_thermal": "because of heat",
    "throttled_power_brake": "because of the power brake",
    "throttled_hardware": "because the hardware slows the GPUs down",
    "power_capped": "because of the power limit",
    "slow_clock": "for a reason that was not recorded",
}
"""What lowers clocks, by the rule that tells of it."""


class AwaitedGpus(NamedTuple):
    """GPUs (positions ``gpus``) that the others wait for, and wait themselves clearly less than these. ``who`` names them,
    ``share`` (0-1) of the GPU time is spent waiting for them. ``why`` completes "lost waiting for gpu7, ..."; empty where
    the numbers show no reason. ``reason``: "clocks", "files", "work", "idle", or empty as ``why``."""

    gpus: tuple[int, ...]
    who: str
    share: float
    why: str
    reason: str

    @property
    def clause(self) -> str:
        """Name them with the reason."""
        return f"{self.who}, {self.why}" if self.why else self.who


def find_awaited_gpus(job: JobEvidence) -> AwaitedGpus | None:
    """Find the GPUs that the others wait for, how much GPU time that costs, and why. None if nobody is late, or the late
    ones wait nearly as much as the others."""
    late = job.late_gpus
    if late is None:
        return None
    gpus, waits = late.gpus, job.waits_by_gpu
    others = _others(job, gpus)
    own, usual = finite(waits[list(gpus)]), finite(waits[others])
    if not len(own) or not len(usual) or not own.max() < WAITS_LITTLE * usual.mean():
        return None
    reason, why = _reason(job, gpus, others)
    return AwaitedGpus(gpus, words.named(job.evidence.gpus, gpus), late.share, why, reason)


def _others(job: JobEvidence, gpus: Sequence[int]) -> list[int]:
    """List the positions of the used GPUs that are not among ``gpus``."""
    return [int(at) for at in np.flatnonzero(job.used) if at not in gpus]


def _reason(job: JobEvidence, gpus: tuple[int, ...], others: list[int]) -> tuple[str, str]:
    """Say in a clause by what the GPUs that are waited for differ from the others: (reason, clause), as in AwaitedGpus."""
    is_one = len(gpus) == 1
    rest = "the other" if len(others) == 1 else "the others"
    if set(gpus) <= job.slowed_gpus:
        clocks = job.clocks_at_work
        own, usual = (float(finite(clocks[which]).mean()) for which in (list(gpus), others))
        whose = "the other's" if len(others) == 1 else "the others'"
        noun = "SM clock is" if is_one else "SM clocks are"
        return "clocks", f"whose {noun} {own:,.0f}, {whose} {usual:,.0f} MHz"
    if job.is_late_for_files:
        return "files", f"which {'waits' if is_one else 'wait'} for files or the network meanwhile"
    shares = job.breakdown.shares_by_gpu
    waits = positions_of("communication.waiting") + positions_of("idle.imbalance")
    least = MOSTLY * _difference(shares, waits, others, list(gpus))
    its = "its" if is_one else "their"
    for reason, verb, places in (
        ("work", "works" if is_one else "work", positions_of("working")),
        (
            "idle",
            "is idle itself" if is_one else "are idle themselves",
            [at for at in positions_of("idle") if at not in waits],
        ),
    ):
        if _difference(shares, places, list(gpus), others) >= least:
            own, usual = (float(shares[which][:, places].sum(axis=1).mean()) for which in (list(gpus), others))
            return reason, f"which {verb} {words.percent(own)} of {its} time, {rest} {words.percent(usual)}"
    return "", ""


def _difference(shares: Floats, places: list[int], some: list[int], others: list[int]) -> float:
    """Compute by how much the mean share of these categories (positions ``places``) is greater for ``some`` GPUs than for
    ``others``; ``shares`` [n_gpus, n_categories]."""
    own = shares[:, places].sum(axis=1)
    return float(own[some].mean() - own[others].mean())


def waits_by_node(job: JobEvidence) -> tuple[tuple[str, float], tuple[str, float]] | None:
    """Find the node whose GPUs wait least, and the one whose GPUs wait most, each with the mean share of its GPUs'
    time.

    Returns None unless every GPU of the first waits less than every GPU of the second, and both have several: otherwise
    it is single GPUs that differ.
    """
    waits: dict[str, list[float]] = {}
    for gpu, share in zip(job.evidence.gpus, job.waits_by_gpu.tolist(), strict=True):
        if np.isfinite(share):
            waits.setdefault(gpu.node or "?", []).append(share)
    if len(waits) < 2:
        return None
    means = sorted((float(np.mean(shares)), node) for node, shares in waits.items())
    (least, low), (most, high) = means[0], means[-1]
    if min(len(waits[low]), len(waits[high])) < 2 or max(waits[low]) >= min(waits[high]):
        return None
    return (low, least), (high, most)


def who_waits_least(job: JobEvidence) -> tuple[str, tuple[int, ...]]:
    """Find the node all of whose GPUs wait least, else the one GPU that does. Returns its name in a sentence, and the
    positions of its GPUs whose waits are known. Some GPU's have to be."""
    gpus, waits = job.evidence.gpus, job.waits_by_gpu
    nodes = waits_by_node(job)
    if nodes is None:
        least = int(np.nanargmin(waits))
        return words.gpu_label(gpus[least]), (least,)
    (node, _), _ = nodes
    return words.node_label(node), tuple(
        at for at, gpu in enumerate(gpus) if (gpu.node or "?") == node and np.isfinite(waits[at])
    )


def find_leading_loss(job: JobEvidence, verdicts: Sequence[Verdict]) -> LeadingLoss | None:
    """Say what the largest category of the account apart from useful work is due to, if that is a hang, lower clocks or
    waiting for GPUs and one of the ``verdicts`` tells of most of that time, or the account shows whom the GPUs wait for.
    Else None."""
    breakdown, told = job.breakdown, {verdict.code: verdict for verdict in verdicts}
    if breakdown.largest_loss is None:
        return None
    share = float(breakdown.shares[breakdown.largest_loss])
    if "hang" in told:
        lost, title = told["hang"].lost or 0.0, told["hang"].title
        return LeadingLoss(lost, f"lost: {title[:1].lower()}{title[1:]}") if lost >= MOSTLY * share else None
    name = CATEGORIES[breakdown.largest_loss].name
    if name == "working.slowed":
        seconds = breakdown.by_gpu[:, breakdown.largest_loss]
        for code, why in _SLOWED_BY.items():
            if code in told and seconds[list(told[code].gpus) or slice(None)].sum() >= MOSTLY * seconds.sum():
                return LeadingLoss(share, f"lost to lower clocks {why}")
    if name not in WAITS:
        return None
    awaited = find_awaited_gpus(job)
    if awaited is not None and awaited.share >= MOSTLY * share:
        return LeadingLoss(awaited.share, f"spent waiting for {awaited.clause}", awaited.gpus)
    for verdict in (told[code] for code in LATE_CODES if code in told):
        lost = verdict.lost or 0.0
        begin = f"{words.percent(lost)} of the GPU time is "
        if lost >= MOSTLY * share and verdict.title.startswith(begin):
            least = who_waits_least(job)[1] if verdict.code == "imbalance" else ()
            return LeadingLoss(lost, verdict.title.removeprefix(begin), least)
    return None
