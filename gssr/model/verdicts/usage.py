"""Rules about whether, and from when to when, the GPUs are used at all."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.evidence.evidence import over_gpus
from gssr.model.verdicts import words
from gssr.model.verdicts.job import Job, group, positions, stretches, whole
from gssr.model.verdicts.table import CSCS, LEAD, Found, Rule, Threshold, finding, rule, told

_COMPLETED = ("completed",)


@rule(
    "critical", "{some} {were} {ever} used",
    (Threshold("seconds", 20.0, "a GPU is unused (as above) in a job of at least so many seconds"),),
    "Ask for fewer GPUs, or let the program use all it gets: check the ranks per node, CUDA_VISIBLE_DEVICES and the "
    "launcher's GPU binding.",
    needs=(LEAD,),
    explains=("imbalance", "straggler", "rotating_stragglers", "memory_unused", "low_use", "tear_down", "start_up"),
)  # fmt: skip
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


@rule(
    "critical", "Nothing has happened for the last {idle}: the job looks hung",
    (
        Threshold("seconds", 120.0, "all GPUs are idle at the end for at least so long, and the job has not completed"),
        Threshold("longest", 2.0, "that is so many times the longest pause before"),
    ),
    "Look at the last lines of its output and at one process of it (py-spy dump, gdb): a rank that died or a collective "
    "that not all ranks entered. Stop the job if it does not go on.",
    needs=(LEAD,), explains=("tear_down", "pauses", "slow_down", "low_use", "early_end", "cpu_starved"),
)  # fmt: skip
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


@rule(
    "info", "The first {idle} ({share} of the time) went by before the GPUs worked",
    (
        Threshold("share", 0.05, "at least this share of the time passes before the GPUs work"),
        Threshold("seconds", 5.0, "and at least so many seconds"),
        Threshold("warning", 0.2, "from this share on it is a warning"),
        Threshold("critical", 0.5, "from this share on it is critical", CSCS),
    ),
    "Stage data and environments to node-local storage, cache compiled kernels, and do preparation that needs no GPU in "
    "a job of its own.",
    needs=(LEAD,), explains=("low_use",),
)  # fmt: skip
def start_up(job: Job, rule: Rule) -> Found | None:
    """The whole job begins late."""
    return _idle_end(job, rule, job.evidence.start, job.span[0])


@rule(
    "info", "The GPUs did nothing in the last {idle} ({share} of the time)",
    (
        Threshold("share", 0.05, "the GPUs do nothing in at least this share of the time, at its end"),
        Threshold("seconds", 5.0, "and for at least so many seconds"),
        Threshold("warning", 0.2, "from this share on it is a warning"),
        Threshold("critical", 0.5, "from this share on it is critical"),
    ),
    "Let the job end when its work is done; move what needs no GPU (output, evaluation on the CPU) to a job of its own.",
    needs=(LEAD,), explains=("low_use",),
)  # fmt: skip
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


@rule(
    "warning", "{some} began to work {late} after the others",
    (
        Threshold(
            "share", 0.05, "a GPU begins later than the first quarter of them by at least this share of the time"
        ),
        Threshold("seconds", 5.0, "and by at least so many seconds"),
    ),
    "See what these nodes did meanwhile: a slow file system, an image being pulled, a rank waiting for its data.",
    needs=(LEAD,),
)  # fmt: skip
def late_start(job: Job, rule: Rule) -> Found | None:
    """Some GPUs begin after the others."""
    begin = job.own_span[0]
    return _not_together(job, rule, begin, _at_share(begin, 0.25), "late")


@rule(
    "warning", "{some} stopped working {early} before the others",
    (
        Threshold(
            "share", 0.05, "a GPU stops earlier than the last quarter of them by at least this share of the time"
        ),
        Threshold("seconds", 5.0, "and by at least so many seconds"),
    ),
    "Look for a rank that died, or share the work out in smaller pieces so that all end together.",
    needs=(LEAD,),
)  # fmt: skip
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
