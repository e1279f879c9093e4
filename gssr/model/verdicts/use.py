"""Rules about whether, and from when to when, the GPUs are used at all."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.evidence.evidence import over_gpus
from gssr.model.verdicts import words
from gssr.model.verdicts.found import Found, finding, group, positions, told, whole
from gssr.model.verdicts.job import Job, stretches
from gssr.model.verdicts.table import Rule

_COMPLETED = ("completed",)


def gpus_unused(job: Job, rule: Rule) -> Found | None:
    """k of n GPUs do nothing."""
    unused = positions(job.known & ~job.used)
    if not unused or job.evidence.seconds < rule.at("seconds"):
        return None
    own = job.activity[list(unused)]
    busy = float((own >= job.common("idle")).sum() / max(np.isfinite(own).sum(), 1))
    hours = len(unused) * job.evidence.seconds / 3600
    evidence = (
        finding("share", busy, "of the time with any activity", job.table.common, "unused", above=False),
        told("gpu_hours", hours, f"{hours:.2g} GPU-hours"),
    )
    found = {**group(job, unused), "ever": "never"}
    if len(unused) == job.evidence.n_gpus > 1:
        found |= {"some": f"None of the {job.evidence.n_gpus} GPUs", "were": "was", "ever": "ever"}
    return Found(found, evidence, rule.severity, whole(job), unused)


def start_up(job: Job, rule: Rule) -> Found | None:
    """The whole job begins late."""
    return _idle_end(job, rule, job.evidence.start, job.span[0])


def tear_down(job: Job, rule: Rule) -> Found | None:
    """The whole job stops working before it ends."""
    return _idle_end(job, rule, job.span[1], job.evidence.end)


def _idle_end(job: Job, rule: Rule, start: float, end: float) -> Found | None:
    share = (end - start) / job.evidence.seconds if job.evidence.seconds > 0 else 0.0
    if not np.isfinite(job.level) or share < rule.at("share") or end - start < rule.at("seconds"):
        return None
    hours = job.evidence.n_gpus * (end - start) / 3600
    evidence = (
        finding("share", share, "of the time", rule, "share"),
        told("gpu_hours", hours, f"{hours:.2g} GPU-hours"),
    )
    times = job.evidence.times
    bins = (times >= start - job.evidence.width / 2) & (times < end)
    found = {"idle": words.duration(end - start), "share": words.percent(share)}
    return Found(found, evidence, rule.graded(share), (start, end), (), bins)


def late_start(job: Job, rule: Rule) -> Found | None:
    """Some GPUs begin after the others."""
    begin = job.own_span[0]
    return _not_together(job, rule, begin, _at_share(begin, 0.25), "late")


def early_end(job: Job, rule: Rule) -> Found | None:
    """Some GPUs stop before the others."""
    end = job.own_span[1]
    return _not_together(job, rule, end, _at_share(end, 0.75), "early")


def _at_share(values: Floats, share: float) -> float:
    """A quartile of what is not NaN: one of the values."""
    known = np.sort(values[np.isfinite(values)])
    return float(known[round(share * (len(known) - 1))]) if len(known) else np.nan


def _not_together(job: Job, rule: Rule, edge: Floats, usual: float, word: str) -> Found | None:
    """GPUs whose begin or end of work, ``edge`` [n_gpus], is far from that of the quarter that begins first or ends last."""
    apart = edge - usual if word == "late" else usual - edge
    least = max(rule.at("share") * job.evidence.seconds, rule.at("seconds"), 2 * job.evidence.width)
    which = positions(np.nan_to_num(apart) >= least)
    if not which or not _idler_meanwhile(job, edge, usual, which):
        return None
    seconds = float(np.median(apart[list(which)]))
    share = seconds / job.evidence.seconds
    evidence = (
        finding("seconds", seconds, "apart from the others", rule, "seconds"),
        finding("share", share, "of the time", rule, "share"),
    )
    own = float(np.median(edge[list(which)]))
    span = (min(usual, own), max(usual, own))
    found = {**group(job, which), word: words.duration(seconds)}
    return Found(found, evidence, rule.severity, span, which)


def _idler_meanwhile(job: Job, edge: Floats, usual: float, which: tuple[int, ...]) -> bool:
    """Whether these GPUs did less than half of what the others did between the ``usual`` begin (end) and their own: where
    all work in fits and starts, begins differ by chance."""
    times, width = job.evidence.times, job.evidence.width
    own = edge[list(which)]
    first, last = np.minimum(own, usual)[:, None], np.maximum(own, usual)[:, None]
    between = (times >= first - width / 2) & (times + width <= last + width / 2)
    rest = np.setdiff1d(np.flatnonzero(job.used), which)
    others = np.broadcast_to(over_gpus(job.activity[rest]), between.shape)
    mine = job.activity[list(which)]
    both = between & np.isfinite(mine) & np.isfinite(others)
    return bool(mine[both].sum() < job.common("working") * others[both].sum())


def hang(job: Job, rule: Rule) -> Found | None:
    """Everything is idle up to the end of a job that has not completed."""
    evidence = job.evidence
    if evidence.state in _COMPLETED or not np.isfinite(job.level):
        return None
    busy = job.mean >= max(job.common("idle"), job.common("paused") * job.level)
    busy &= ~job.spinning
    active = np.flatnonzero(busy)
    last = float(np.nanmax(evidence.last_time)) if np.isfinite(evidence.last_time).any() else evidence.end
    if not len(active):
        return None
    since = float(evidence.times[active[-1]]) + evidence.width
    idle = min(last, evidence.end) - since
    before = ~(job.mean[: active[-1] + 1] >= job.common("working") * job.level)
    pauses = [end - first for first, end in stretches(before) if first > active[0]]
    longest = max(pauses, default=0) * evidence.width
    if idle < max(rule.at("seconds"), rule.at("longest") * longest):
        return None
    findings = [finding("seconds", idle, "without work", rule, "seconds")]
    alive = evidence.workload.get("n_processes")
    if alive is not None and np.isfinite(alive).any():
        running = float(alive[np.isfinite(alive)][-1])
        findings.append(told("n_processes", running, f"{running:.0f} processes of a rank still there"))
    bins = evidence.times >= since - evidence.width / 2
    return Found({"idle": words.duration(idle)}, tuple(findings), rule.severity, (since, evidence.end), (), bins)


def low_use(job: Job, rule: Rule) -> Found | None:
    """Little activity, whatever the reason."""
    lead = job.lead
    value = job.over(lead, job.steady) if lead else None
    threshold = "sm_active" if lead == "sm_active" else "gpu_utilization"
    if lead is None or value is None or value >= rule.at(threshold):
        return None
    found = {"value": words.percent(value), "lead": words.label(lead)}
    evidence = (finding(lead, value, "at work", rule, threshold, above=False),)
    return Found(found, evidence, rule.graded(1 - value), job.span, (), _lowering(job, rule.at(threshold)))


def _lowering(job: Job, least: float) -> Flags:
    """[n_bins]: the steady bins without which the others' mean would reach ``least``, the lowest first: what explains
    these explains the low use."""
    at = np.flatnonzero(job.steady & np.isfinite(job.mean))
    order = at[np.argsort(job.mean[at], kind="stable")]
    rest = np.cumsum(job.mean[order][::-1])[::-1] / np.arange(len(order), 0, -1)
    bins = np.zeros(len(job.mean), bool)
    bins[order[rest < least]] = True
    return bins
