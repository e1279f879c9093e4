"""Which GPUs have a mark on screens, what the mark stands for, and which GPUs a verdict is about."""

from collections.abc import Sequence

from gssr.arrays import Flags
from gssr.model.account.late_gpus import LATE_CODES
from gssr.model.findings.outlier_gpus import verdict_on_few
from gssr.model.live.live_result import Result
from gssr.model.results import Verdict
from gssr.model.verdicts.words import named
from gssr.render.cells import clean
from gssr.render.roles import Role
from gssr.report.live.times_of_run import judged_part_text

_BECAUSE = {
    "early_end": "at work less long than the others", "late_start": "at work later than the others", "gpus_unused": "unused",
    "gpus_little_used": "kernels run far less than on the others",
    "throttled_thermal": "slowed down by heat", "throttled_power_brake": "slowed down by the power brake",
    "throttled_hardware": "slowed down by hardware", "slow_clock": "slower clock", "power_capped": "held by its power limit",
    "gpu_errors": "reported errors", "gpu_lost": "did not answer", "hang": "idle while the others spin",
    "memory_full": "memory nearly full", "straggler": "the others wait for it", "slow_node": "the others wait for it",
    "straggling_rank": "the others wait for it",
    "rank_lost": "its rank was lost", "io_wait": "the others wait for its files",
}  # fmt: skip
"""What the mark of the GPUs that a verdict is about stands for, by its code."""


def culprit_mark(ascii_only: bool) -> str:
    """The mark of GPUs that the judgement singles out, or where it singles out none, of those unlike the rest."""
    return "!" if ascii_only else "▲"


def _outlier_mark(ascii_only: bool) -> str:
    """The mark of GPUs that are only unlike the rest, where others are singled out."""
    return "~" if ascii_only else "△"


def mark_of(result: Result, gpu: int, ascii_only: bool) -> tuple[str, Role]:
    """Return the mark of the GPU at this position and its role; ("", "plain") for one that has none."""
    if gpu in result.singled_out:
        return culprit_mark(ascii_only), "bad"
    if result.unlike[gpu]:
        return (_outlier_mark if result.singled_out else culprit_mark)(ascii_only), "outlier"
    return "", "plain"


def are_marked(result: Result) -> Flags:
    """Flag the GPUs that have a mark, bool[n_gpus]."""
    marked = result.unlike.copy()
    marked[list(result.singled_out)] = True
    return marked


def mark_of_several(result: Result, gpus: Sequence[int], ascii_only: bool) -> tuple[str, Role]:
    """Return the mark of these GPUs (positions) together: that of one that is singled out, else of one unlike the rest, else
    none."""
    marks = [mark_of(result, gpu, ascii_only) for gpu in gpus]
    return next((mark for mark in marks if mark[1] == "bad"), max(marks, default=("", "plain")))


def legend_of_culprits(result: Result) -> str:
    """Say what the mark of the GPUs that are singled out stands for: that the others wait for them, or what the worst
    verdict says of them; else that they are unlike the rest; and that it is so in this window, where another part of the run
    may have others. Empty if no GPU has a mark."""
    text = _meaning_of_mark(result)
    return f"{text} in this window" if text and judged_part_text(result) else text


def _meaning_of_mark(result: Result) -> str:
    if result.awaited:
        if len(result.awaited) > 1:
            return "the others wait for these"
        if result.by_node:
            return "the others wait for it"
        return f"the others wait for {clean(named(result.gpus, result.awaited))}"
    if result.singled_out:
        verdicts = result.judgement.verdicts if result.judgement is not None else ()
        blaming = verdict_on_few(verdicts, len(result.looked_at))
        return _BECAUSE.get(blaming.code if blaming is not None else "", "the worst verdict is about these")
    return f"{result.noun}s unlike the rest" if result.unlike.any() else ""


def legend_of_marks(result: Result, ascii_only: bool) -> str:
    """Say what the marks of GPUs stand for, each after its mark; empty if no GPU has one."""
    culprits = legend_of_culprits(result)
    texts = [f"{culprit_mark(ascii_only)} {culprits}"] if culprits else []
    only_unlike = result.unlike.copy()
    only_unlike[list(result.singled_out)] = False
    if result.singled_out and only_unlike.any():
        texts.append(f"{_outlier_mark(ascii_only)} unlike the rest")
    return "   ".join(texts)


def gpus_of_verdict(result: Result, verdict: Verdict) -> tuple[int, ...]:
    """Return the positions of the GPUs that a verdict of this result is about; of one that says whom GPUs wait for, and
    names none for itself, those that wait least. Empty if it is about all of them."""
    found = result.of_looked_at(verdict.gpus)
    return found or (result.awaited if verdict.code in LATE_CODES else ())
