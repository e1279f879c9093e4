"""Rules about clocks: who is slowed down, and by what."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.gpu_vendors import AMD, maker_of
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.awaited_gpus import find_awaited_gpus
from gssr.model.verdicts.job import JobEvidence, finite, group, median, positions, whole
from gssr.model.verdicts.table import (
    CRITICAL_COST,
    KEMPNER,
    LEAD,
    LEAST_TOLD,
    NVML,
    Rule,
    RuleMatch,
    Threshold,
    finding,
    finding_in_words,
    register_rule,
)

_REASONS = ("hw_thermal", "sw_thermal", "power_brake", "hw_slowdown", "sw_power_cap")
"""The clock event reasons that say why a clock is low."""
_NEAR_LIMIT = 0.9
"""A GPU that draws this share of its power limit while it works is held down by it."""
_LOW_LIMIT = (
    "The limit was set lower than the model is sold with: ask the operators whether that is meant. This shows both limits: "
    "nvidia-smi -q -d POWER"
)
_ALL_ARE_HOT = (
    "Tell the operators which nodes these are. All GPUs of the job are hot, so it may be the cooling of the nodes or of the "
    "room rather than one card."
)


@register_rule(
    "warning", "{some} {were} slowed down by heat{cost}",
    (
        Threshold("share", 0.05, "heat lowers the clock (by hardware or driver) in at least this share of samples,"),
        Threshold("celsius", 95.0, "or the GPU is this hot in at least that share of the time,", KEMPNER),
        Threshold("celsius_a100", 93.0, "or, if it is an A100, this hot", KEMPNER),
        Threshold("celsius_amd", 100.0, "or, on AMD, this hot at its hotspot: MI210 and MI300A slow down there"),
        CRITICAL_COST,
    ),
    "Tell the operators which node and GPU it is (cooling, dust, a failed fan), and leave it out until it is mended.",
    needs=(("hw_thermal", "sw_thermal", "temperature"),),
)  # fmt: skip
def throttled_thermal(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that heat slowed down: a flag says so, or the GPU was as hot as its model may get, in a large enough
    share of the samples. None if there are none."""
    peaks, evidence = job.evidence.peaks, job.evidence
    is_a100, is_amd = peaks is not None and peaks.model.startswith("A100"), maker_of(evidence.gpus) == AMD
    limit = rule.at("celsius_a100" if is_a100 else "celsius_amd" if is_amd else "celsius")
    shares, what = _flagged(job, "hw_thermal", "sw_thermal")
    celsius = evidence.series.get("temperature", np.zeros((evidence.n_gpus, 0)))
    hot = (celsius >= limit).sum(axis=1) / np.maximum(np.isfinite(celsius).sum(axis=1), 1)
    if hot.max(initial=0.0) > shares.max(initial=0.0):
        shares, what = hot, "of the time too hot"
    found = _held_down(job, rule, shares, what)
    if found is not None and len(found.gpus) == job.used.sum() > 1:
        found = found._replace(advice=_ALL_ARE_HOT)
    hottest = evidence.greatest.get("temperature")
    if found is None or hottest is None or not np.isfinite(hottest[list(found.gpus)]).any():
        return found
    celsius_there = float(np.nanmax(hottest[list(found.gpus)]))
    up_to = finding_in_words("temperature", celsius_there, f"up to {celsius_there:.0f} °C")
    return found._replace(findings=(found.findings[0], up_to, *found.findings[1:]))


@register_rule(
    "warning", "{some} {were} slowed down by the power brake{cost}",
    (Threshold("share", 0.05, "the external power brake is on in at least this share of samples", NVML), CRITICAL_COST),
    "Tell the operators: the node's power supply asks the GPUs to slow down.",
    needs=(("power_brake",),),
)  # fmt: skip
def throttled_power_brake(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that the external power brake slowed down."""
    return _held_down(job, rule, *_flagged(job, "power_brake"))


@register_rule(
    "warning", "{some} {were} slowed down by {their} hardware{cost}",
    (Threshold("share", 0.05, "the hardware lowers the clock in at least this share of samples", NVML), CRITICAL_COST),
    "Tell the operators: the cause is heat, the power brake or the power supply. This says which: nvidia-smi -q -d "
    "PERFORMANCE",
    needs=(("hw_slowdown",),),
)  # fmt: skip
def throttled_hardware(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that the hardware slowed down for a reason that no other rule tells."""
    shares, what = _flagged(job, "hw_slowdown")
    causes, _ = _flagged(job, "hw_thermal", "sw_thermal", "power_brake")  # beside which that flag is set, too
    return _held_down(job, rule, np.where(causes >= rule.at("share"), 0.0, shares), what)


@register_rule(
    "info", "{some} {were} held down by the power limit{cost}",
    (
        Threshold("share", 0.2, "the power limit holds the clock down in at least this share of samples, or, where that was "
                  "not recorded, the GPU draws at least 0.9 of its limit while it works,"),
        Threshold("lost", LEAST_TOLD, "and, where clocks are known, at least this share of the GPU time is lost to it"),
        Threshold("clock", 0.7, "it is a warning if the SM clock is below this share of the highest, ..."),
        Threshold("limit", 0.9, "... or the power limit is below this share of the model's default limit"),
    ),
    "Busy GPUs reach their power limit. If it was set lower than the model allows, ask the operators whether that is meant. "
    "This shows both limits: nvidia-smi -q -d POWER",
    needs=(("sw_power_cap", "power_usage"),),
)  # fmt: skip
def power_capped(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that the power limit held down: usual for a busy GPU, and a warning only where it holds them far down or
    was set low. Where reasons were not recorded, those match that lose time to a low clock while they draw what the limit
    allows."""
    is_told, knows_clocks = job.evidence.has("sw_power_cap"), job.evidence.has("sm_clock")
    if is_told:
        found = _held_down(job, rule, *_flagged(job, "sw_power_cap"))
    elif knows_clocks:
        draw = _draw_of_limit(job)
        near = np.where(draw >= _NEAR_LIMIT, draw, 0.0)
        found = _held_down(job, rule, near, "of the power limit drawn at work (the clocks' reasons were not recorded)")
    else:
        return None
    if found is None or (knows_clocks and (found.lost or 0.0) < rule.at("lost")):
        return None
    limits = [limit for gpu in found.gpus if (limit := job.evidence.gpus[gpu].power_limit) is not None]
    usual = job.evidence.peaks.power_limit if job.evidence.peaks is not None else None
    if limits:
        low, high = min(limits), max(limits)
        text = f"power limit {low:.0f} W" if low == high else f"power limits of {low:.0f} to {high:.0f} W"
        if usual is not None and low < rule.at("limit") * usual:
            found = found.warning()._replace(advice=_LOW_LIMIT)
            text += f", the model's own is {usual:.0f} W"
        found = found._replace(
            findings=(found.findings[0], finding_in_words("power_limit", low, text), *found.findings[1:])
        )
    highest = np.array([job.evidence.gpus[gpu].max_sm_clock or np.nan for gpu in found.gpus], np.float64)
    is_far_down = median(job.clocks_at_work[list(found.gpus)] / highest) < rule.at("clock")
    return found.warning()._replace(lost=None) if is_far_down else found


def _flagged(job: JobEvidence, *reasons: str) -> tuple[Floats, str]:
    """Find in which share of each GPU's samples one of these clock event reasons was set [n_gpus]; 0 where that was not
    recorded. And words for that share, without the reasons' names, which the page tells below its table."""
    shares = np.nan_to_num(np.fmax.reduce([job.evidence.means.per_gpu(reason) for reason in reasons]))
    return shares, "of the samples, as the driver says"


def _draw_of_limit(job: JobEvidence) -> Floats:
    """Compute the power that each GPU draws while it works, as a share of its limit [n_gpus]; NaN where unknown."""
    limits = np.array([gpu.power_limit or np.nan for gpu in job.evidence.gpus], np.float64)
    draw = job.per_gpu_at_work("power_usage")
    draw = np.where(np.isfinite(draw), draw, median(draw))  # of a card with two dies only the first tells its power
    return np.asarray(draw / limits, np.float64)


def _held_down(job: JobEvidence, rule: Rule, shares: Floats, what: str) -> RuleMatch | None:
    """Match GPUs whose share [n_gpus] reaches the rule's: of the samples, or of ``what`` else says that they are held down.
    None where none does."""
    which = positions(shares >= rule.at("share"))
    if not which:
        return None
    held = finding("share", float(np.mean(shares[list(which)])), what, rule.threshold("share"))
    lost, cost = _cost(job, which)
    title = {**group(job, which), "their": "its" if len(which) == 1 else "their", "cost": cost}
    return RuleMatch(title, (held, *_describe_clock(job, which)), rule.graded(lost), whole(job), which, lost=lost)


def _describe_clock(job: JobEvidence, which: tuple[int, ...]) -> list[Finding]:
    """Make a finding of the mean clock at which these GPUs work, beside that of the other used GPUs or else their
    model's highest clock. [] if it is unknown."""
    clocks = job.clocks_at_work
    own, others = (finite(clocks[at]) for at in (list(which), [at for at in positions(job.used) if at not in which]))
    highest = {job.evidence.gpus[gpu].max_sm_clock for gpu in which}
    if not len(own):
        return []
    text = f"SM clock {own.mean():,.0f} MHz at work"
    if len(others):
        text += f", the others' {others.mean():,.0f} MHz"
    elif len(highest) == 1 and (most := highest.pop()):
        text += f" of {most:,} MHz"
    return [finding_in_words("sm_clock", float(own.mean()), text)]


def _cost(job: JobEvidence, which: tuple[int, ...]) -> tuple[float, str]:
    """Compute the share of all GPU time that the lower clocks of these GPUs (positions) cost: what they lose themselves,
    and what others wait for them, if the account shows that it is they who are waited for. Returns it with the end of a
    title, which tells the waiting, or else the loss; "" below LEAST_TOLD of the GPU time."""
    breakdown, awaited = job.breakdown, find_awaited_gpus(job)
    own = float(breakdown.by_gpu[list(which), POSITIONS["working.slowed"]].sum()) / max(breakdown.gpu_seconds, 1e-9)
    waits = 0.0
    if awaited is not None and awaited.reason == "clocks" and set(awaited.gpus) <= set(which):
        waits = awaited.share
        if waits >= LEAST_TOLD:
            them = "it" if len(awaited.gpus) == 1 else "them"
            return own + waits, f"; {words.percent(waits)} of the GPU time is lost waiting for {them}"
    return own + waits, f"; {words.percent(own)} of the GPU time is lost to it" if own >= LEAST_TOLD else ""


@register_rule(
    "warning", "{some} ran at a slower clock, and no reason was recorded{cost}",
    (
        Threshold("clock", 0.9, "the SM clock, at work, is below this share of the median GPU's, or of its model's highest"),
        CRITICAL_COST,
    ),
    "Application clocks may have been left set. Compare this node with another: nvidia-smi -q -d CLOCK",
    needs=(("sm_clock",), LEAD),
)  # fmt: skip
def slow_clock(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that work at a lower clock than the median GPU of their model, or than their model's highest, although
    the samples give no reason for it. None if there are none."""
    highest = np.array([gpu.max_sm_clock or np.nan for gpu in job.evidence.gpus], np.float64)
    are_slower = job.relative_clocks < rule.at("clock")
    slow = (are_slower | (job.clocks_at_work < rule.at("clock") * highest)) & ~_has_reason(job, are_slower)
    which = positions(slow & (job.clocks_at_work > 0))
    if not which:
        return None
    lost, cost = _cost(job, which)
    title = {**group(job, which), "cost": cost}
    return RuleMatch(title, tuple(_describe_clock(job, which)), rule.graded(lost), job.span, which, lost=lost)


def _has_reason(job: JobEvidence, are_slower: Flags) -> Flags:
    """Tell for which GPUs the samples give a reason for a lower clock: a throttle reason, or a draw near the power limit.

    ``are_slower`` [n_gpus]: only what holds for these more than for the others counts as a reason. Returns [n_gpus].
    """
    found = _draw_of_limit(job) >= _NEAR_LIMIT  # held down by the limit, where the driver does not say so
    for reason in _REASONS:
        share, _ = _flagged(job, reason)
        usual = median(share[~are_slower]) if not are_slower.all() else 0.0
        found = found | (share - np.where(are_slower, usual, 0.0) >= 0.05)
    return np.asarray(found, bool)
