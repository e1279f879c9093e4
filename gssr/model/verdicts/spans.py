"""Verdicts on when GPUs work: those that begin late, end early or do nothing; the job's own begin and end; hangs; whether it
grows slower."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.account.activity import IDLE_ACTIVITY, does_something
from gssr.model.account.late_gpus import FEW_GPUS, working_spans
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.evidence.evidence import Evidence, over_gpus
from gssr.model.verdicts import words
from gssr.model.verdicts.job import JobEvidence, finite, group, holds, kendall, median, positions, stretches
from gssr.model.verdicts.table import (
    CRITICAL_COST,
    CSCS,
    LEAD,
    Rule,
    RuleMatch,
    Threshold,
    finding,
    finding_in_words,
    register_rule,
)

_GOING_ON = ("running", "lost")


@register_rule(
    "warning", "{some} {were} first seen at work {late} after the others",
    (
        Threshold("share", 0.05, "a GPU begins later than the first of them by at least this share of the time"),
        Threshold("seconds", 5.0, "and by at least this many seconds"),
        CRITICAL_COST,
    ),
    "See what these nodes did meanwhile: a slow file system, an image being pulled, a rank waiting for its data.",
    needs=(LEAD,),
)  # fmt: skip
def late_start(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that begin to work after the others. Before what was seen, as ``gssr top`` or a part of the time sees it,
    they may have worked."""
    begin = working_spans(job.account)[0]
    return _not_together(job, rule, begin, float(np.min(finite(begin), initial=np.inf)), "late")


@register_rule(
    "warning", "{some} {were} last seen at work {early} before the others",
    (
        Threshold("share", 0.05, "a GPU stops earlier than the last of them by at least this share of the time"),
        Threshold("seconds", 5.0, "and by at least this many seconds"),
        CRITICAL_COST,
    ),
    "Look for a rank that died, or share the work out in smaller pieces so that all end together.",
    needs=(LEAD,),
)  # fmt: skip
def early_end(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that stop working before the others."""
    end = working_spans(job.account)[1]
    return _not_together(job, rule, end, float(np.max(finite(end), initial=-np.inf)), "early")


_LEAST_LOST = 0.01
"""What costs less of the GPU time is no loss that anybody would look for."""


def _not_together(job: JobEvidence, rule: Rule, edge: Floats, outermost: float, word: str) -> RuleMatch | None:
    """Match GPUs that begin to work long after the first one, or end long before the last one.

    Args:
        job: The evidence.
        rule: The rule, with the thresholds "share" and "seconds".
        edge: When each GPU begins or ends to work [n_gpus], unix s; NaN if it never works.
        outermost: The first begin or the last end, unix s: the allocation waits from the one to the other.
        word: "late" or "early", the word of the title that is filled with the time.

    None if there are no such GPUs, if the loss is small, or if a hang or GPUs that take turns explain it. GPUs that were
    lost don't count.
    """
    apart = np.nan_to_num(np.abs(edge - outermost))
    least = max(rule.at("share") * job.evidence.seconds, rule.at("seconds"), 3.5 * job.evidence.width)
    lost = {event.gpu for event in job.evidence.events if event.kind == "gpu_lost"}
    outlasts = apart > _find_longest_pauses(job)  # else it may only be the turn of the others
    rests = _activity_between(job, edge, outermost) <= IDLE_ACTIVITY  # else it works on, if less than before
    which = tuple(at for at in positions((apart >= least) & outlasts & rests) if job.evidence.gpus[at].gpu not in lost)
    if not which or holds(job, "hang") or (job.late_gpus is not None and job.late_gpus.code == "taking_turns"):
        return None
    seconds = float(np.median(apart[list(which)]))
    share = float(apart[list(which)].sum()) / job.evidence.n_gpus / job.evidence.seconds
    if share < _LEAST_LOST:
        return None
    evidence = (
        finding("seconds", seconds, "apart from the others", rule.threshold("seconds")),
        finding_in_words("share", share, f"{words.percent(share)} of the GPU time lost by it"),
    )
    own = float(np.median(edge[list(which)]))
    return RuleMatch(
        {**group(job, which), word: words.duration(seconds)}, evidence, rule.graded(share),
        (min(outermost, own), max(outermost, own)), which, lost=share,
    )  # fmt: skip


def _activity_between(job: JobEvidence, edge: Floats, outermost: float) -> Floats:
    """Average for each GPU its activity in the bins between its own ``edge`` [n_gpus] and ``outermost`` (both unix s).
    Returns [n_gpus]; 0 where no bin lies between."""
    times = job.breakdown.times
    between = (times >= np.fmin(edge, outermost)[:, None]) & (times < np.fmax(edge, outermost)[:, None])
    active = np.where(between, job.account.activity.active, 0.0).sum(axis=1)
    return np.asarray(active / np.maximum(between.sum(axis=1), 1), np.float64)


def _find_longest_pauses(job: JobEvidence) -> Floats:
    """Find the longest time that each GPU idles without a break between its first work and its last, s [n_gpus]; 0 if it
    never works or never idles. A bin in which its activity is unknown is a break."""
    begins, ends = working_spans(job.account)
    times, width = job.breakdown.times, job.breakdown.width
    idles = ~does_something(job.account.activity.active) & job.account.activity.is_known
    longest = np.zeros(job.evidence.n_gpus)
    for gpu, (row, begin, end) in enumerate(zip(idles, begins, ends, strict=True)):
        pauses = stretches(row & (times >= begin) & (times < end))
        longest[gpu] = max((end - first for first, end in pauses), default=0) * width
    return longest


@register_rule(
    "critical", "{some} {were} {used}",
    (
        Threshold("seconds", 20.0, "in a job of at least this many seconds"),
        Threshold("memory", 1e9, "with more bytes in use on each than a driver takes, the program found them"),
    ),
    "Ask for fewer GPUs, or let the program use all it gets: check the ranks per node, CUDA_VISIBLE_DEVICES and the "
    "launcher's GPU binding: srun --gpus-per-task=1 nvidia-smi -L",
    needs=(LEAD,),
)  # fmt: skip
def gpus_unused(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that do nothing, or next to nothing, in the whole run. None for a job that is shorter than the
    threshold."""
    unused = positions(job.known & ~job.used)
    if not unused or job.evidence.seconds < rule.at("seconds"):
        return None
    share = job.breakdown.share("unused")
    evidence = [finding_in_words("share", share, f"{words.percent(share)} of the GPU time unused")]
    never, ever, hardly = _words_for_unused(job.evidence)
    title, n = {**group(job, unused), "used": never}, job.evidence.n_gpus
    advice = ""
    if len(unused) == n:
        advice = (
            "Is the program built for GPUs, and does it find them? Try within the job: nvidia-smi -L; and: python -c "
            "'import torch; print(torch.cuda.is_available())'. Work that needs no GPU runs as well on a node without."
        )
        if n > 1:
            title |= {"some": f"None of the {n} GPUs", "were": "was", "used": ever}
    if job.did_something(unused):
        title = {**group(job, unused), "used": hardly}
    greatest = job.evidence.greatest.get("memory_used")
    held = np.nan if greatest is None else float(greatest[list(unused)].min())
    if held >= rule.at("memory"):
        least, each = ("at least ", " on each") if len(unused) > 1 else ("", "")
        evidence.append(
            finding_in_words(
                "memory_used", held, f"at the peak {least}{words.amount(held, 'memory_used')} in use{each}"
            )
        )
        advice = (
            "The program found these GPUs, as the memory in use shows, and computes nothing on them: it may wait for its "
            "first step (py-spy dump --pid PID shows where), for requests, or compute on the CPU."
        )
    return RuleMatch(title, tuple(evidence), rule.severity, job.evidence.window, unused, advice=advice, lost=share)


def _words_for_unused(evidence: Evidence) -> tuple[str, str, str]:
    """Say that GPUs were not used, that none of them was, and that they did next to nothing. What ``gssr top`` has
    recorded may have begun before it: then only the recorded time is told of."""
    if not evidence.run.is_from_top:
        return "never used", "ever used", "hardly ever used"
    whole = evidence.whole_run or evidence
    within = f"used in the {words.duration(whole.seconds)} that gssr top recorded"
    return f"not {within}", within, f"hardly {within}"


@register_rule(
    "info", "On {some} kernels run for {own} of the time, on the others for {usual}",
    (
        Threshold("part", 0.5, "on a few GPUs kernels run for less than this share of the time in which they do on the "
                  "median GPU", is_upper=True),
        Threshold("usual", 0.5, "which is at least this share of its time between its first work and its last"),
    ),
    "See what their ranks do meanwhile: whether they get as much of the data as the others, or wait for the CPU or a file.",
    needs=(LEAD,),
)  # fmt: skip
def gpus_little_used(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match a few GPUs that work far less than the others between their own first work and last. None in a job in which
    GPUs are seen to wait for each other: then other verdicts tell which and why."""
    activity, times = job.account.activity, job.breakdown.times
    begins, ends = (edge[:, None] for edge in working_spans(job.account))
    inside = activity.is_known & activity.is_used[:, None] & (times >= begins) & (times < ends)
    active = over_gpus(np.where(inside, activity.active, np.nan).T)
    usual = median(active)
    which = positions(active < rule.at("part") * usual)
    if not 0 < len(which) <= max(FEW_GPUS * np.isfinite(active).sum(), 1) or not usual >= rule.at("usual"):
        return None
    if job.late_gpus is not None or holds(job, "hang"):
        return None
    own = float(np.mean(active[list(which)]))
    found = finding("part", own / usual, "of what is usual on the others", rule.threshold("part"))
    lost = float(job.breakdown.by_gpu[list(which), POSITIONS["idle.imbalance"]].sum()) / job.breakdown.gpu_seconds
    title = {**group(job, which), "own": words.percent(own), "usual": words.percent(usual)}
    return RuleMatch(title, (found,), rule.severity, job.span, which, lost=lost)


@register_rule(
    "info", "The first {idle} ({share} of the time) went by before the GPUs worked",
    (
        Threshold("share", 0.05, "at least this share of the time passes before the GPUs work", CSCS),
        Threshold("seconds", 5.0, "and at least this many seconds"),
    ),
    "Copy data and environments to node-local storage before, cache compiled kernels, and do preparation that needs no "
    "GPU in a job of its own.",
    needs=(LEAD,),
)  # fmt: skip
def start_up(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that begin to work late as a whole."""
    found = _match_time_outside_work(job, rule, job.evidence.start, job.span[0], "startup")
    if found is None or not job.evidence.run.is_from_top:
        return found
    return found._replace(words={**found.words, "idle": f"{found.words['idle']} that gssr top recorded"})


@register_rule(
    "info", "The GPUs did {what} in the last {idle} ({share} of the time)",
    (
        Threshold("share", 0.05, "the GPUs do nothing in at least this share of the time, at its end"),
        Threshold("seconds", 5.0, "and for at least this many seconds"),
    ),
    "Let the job end when its work is done; move what needs no GPU (output, evaluation on the CPU) to a job of its own.",
    needs=(LEAD,),
)  # fmt: skip
def tear_down(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs all stop working some time before the job ends. None if that is shorter than the thresholds,
    and for a job that hangs."""
    found = _match_time_outside_work(job, rule, job.span[1], job.evidence.end, "end")
    if found is None or holds(job, "hang"):
        return None
    what = "little" if job.did_something(positions(job.used), since=job.span[1]) else "nothing"
    found = found._replace(words={**found.words, "what": what})
    if job.evidence.state in _GOING_ON:
        advice = (
            "The job still runs: see the last lines of its output. It may wait for data, write a checkpoint, or hang."
        )
        return found._replace(advice=advice)
    return found


def _match_time_outside_work(job: JobEvidence, rule: Rule, start: float, end: float, category: str) -> RuleMatch | None:
    """Match a rule on the time before the first work or after the last, booked into ``category`` from ``start`` to ``end``
    (unix s). Returns None where it is too short or too small a share of the GPU time."""
    share = job.breakdown.share(category)
    if not 0 < share >= rule.at("share") or end - start < rule.at("seconds"):
        return None
    title = {"idle": words.duration(end - start), "share": words.percent(share)}
    evidence = (finding("share", share, "of the GPU time", rule.threshold("share")),)
    return RuleMatch(title, evidence, rule.severity, (start, end), lost=share)


_WHERE_RANKS_ARE = (
    "where the ranks are, on each node (gdb -p PID if it is not Python): py-spy dump --pid PID; NCCL's flight recorder "
    "(TORCH_NCCL_TRACE_BUFFER_SIZE) tells which rank did not join which collective."
)


@register_rule(
    "critical", "Nothing has been computed for the last {idle}{who}",
    (
        Threshold("seconds", 120.0, "no GPU of a job that still runs has worked for at least the last so many seconds, ..."),
        Threshold("ended", 60.0, "... or of a job that ended without completing, for the last so many"),
        Threshold("share", 0.1, "and for at least this share of the time"),
    ),
    f"Look {_WHERE_RANKS_ARE}",
    needs=(LEAD,),
)  # fmt: skip
def hang(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that do not complete, and whose GPUs idle or spin from some time on to the end. None if that is shorter
    than the thresholds."""
    since = job.last_work
    idle = job.evidence.end - since
    if not job.is_hanging or idle < rule.at("seconds" if job.evidence.state in _GOING_ON else "ended"):
        return None
    share = idle / job.evidence.seconds
    if not 0 < share >= rule.at("share"):
        return None
    late = job.breakdown.times >= since
    activity = job.account.activity
    known = activity.is_known[:, late]
    is_lost = job.used & (_row_means(known) < 0.5)
    engine = over_gpus(np.where(known & (job.used & ~is_lost)[:, None], activity.active[:, late], np.nan).T)
    idles, spins = engine < 0.1, engine >= 0.5
    which: tuple[int, ...] = ()
    who = ""
    if is_lost.any() and 2 * is_lost.sum() <= spins.sum():
        verb = "was" if is_lost.sum() == 1 else "were"
        who = f"; {words.named(job.evidence.gpus, positions(is_lost))} {verb} hardly measured meanwhile"
    elif idles.any() and spins.any() and 2 * idles.sum() <= spins.sum():
        which = positions(idles)
        verb = "is" if len(which) == 1 else "are"
        who = f"; {words.named(job.evidence.gpus, which)} {verb} idle while the others spin"
    found = [finding("seconds", idle, "without work", rule.threshold("ended"))]
    if spins.any():
        busy = float(np.nanmean(engine[spins]))
        still = f"kernels ran {words.percent(busy)} of it all the same, as collectives do that wait"
        found.append(finding_in_words("gr_engine_active", busy, still))
    return RuleMatch(
        {"idle": words.duration(idle), "who": who},
        tuple(found),
        rule.severity,
        (since, job.evidence.end),
        which,
        ""
        if job.evidence.state in _GOING_ON
        else f"Should it happen again, look, before you end the job, {_WHERE_RANKS_ARE}",
        share,
    )


_FEWEST_PARTS = 6
"""Of fewer parts in a row each lower than the one before, chance makes one in hundreds."""


def _row_means(values: Floats | Flags) -> Floats:
    return values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan)


@register_rule(
    "warning", "The job grows slower: the GPUs work for {first} of their time at its beginning, for {last} at its end",
    (
        Threshold("drop", 0.1, "from the first quarter to the last, the share of time at work falls by at least this"),
        Threshold("trend", 0.7, "and it falls steadily: Kendall's rank correlation with time is minus this or lower"),
        Threshold("parts", 12.0, "the correlation is computed from this many parts of the time", least=2.0),
    ),
    "Look for something that grows: a list of results, a fragmented heap, logs, files per folder; compare the time of "
    "a step at the beginning and the end.",
    needs=(LEAD,),
)  # fmt: skip
def slow_down(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which the share of the time that GPUs work falls steadily. None for a job that hangs, and if there
    are too few bins to tell."""
    inside = np.flatnonzero(job.steady)
    parts = min(int(rule.at("parts")), len(inside) // 2)
    if parts < _FEWEST_PARTS or job.is_hanging:
        return None
    begins, ends = working_spans(job.account)
    times = job.breakdown.times  # GPUs that begin late or end early don't slow the others down
    works = np.where((times >= begins[:, None]) & (times < ends[:, None]), job.account.working, np.nan)[job.used]
    mean = over_gpus(works)
    levels = np.array([np.mean(known) for part in np.array_split(inside, parts) if len(known := finite(mean[part]))])
    if len(levels) < _FEWEST_PARTS:
        return None
    parts = len(levels)
    quarter = max(parts // 4, 1)
    first, last = float(levels[:quarter].mean()), float(levels[-quarter:].mean())
    trend = kendall(levels)
    if first - last < rule.at("drop") or trend > -rule.at("trend"):
        return None
    title = {"first": words.percent(first), "last": words.percent(last)}
    evidence = (
        finding_in_words("share", last, f"{title['first']} at first, {title['last']} at last"),
        finding_in_words(
            "trend", trend, f"it falls steadily (rank correlation with time {trend:.2f})", -rule.at("trend")
        ),
    )
    return RuleMatch(title, evidence, rule.severity, job.span, lost=max(first - float(levels.mean()), 0.0))
