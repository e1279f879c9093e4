"""Rules about clocks: who is slowed down, and by what."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.gpu_vendors import AMD, maker_of
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.evidence.evidence import over_gpus
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.awaited_gpus import AwaitedGpus, find_awaited_gpus
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

_REASONS = {
    "hw_thermal": "too hot, the hardware lowers its clocks",
    "sw_thermal": "too hot, the driver lowers its clocks",
    "power_brake": "the power brake",
    "hw_slowdown": "a hardware slowdown",
    "sw_power_cap": "the power limit",
}
"""In the order of telling."""
_NEAR_LIMIT = 0.9
"""A GPU that draws this share of its power limit on average is held down by it."""
_LOW_LIMIT = (
    "The limit was set lower than the model is sold with: ask the operators whether that is meant. This shows both: "
    "nvidia-smi -q -d POWER"
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
    hot = np.full(evidence.n_gpus, np.nan)
    if "temperature" in evidence.series:
        celsius = evidence.series["temperature"]
        n = np.isfinite(celsius).sum(axis=1)
        hot = np.divide((celsius >= limit).sum(axis=1), n, out=hot, where=n > 0)
    return _held_down(job, rule, ("hw_thermal", "sw_thermal"), hot, "of the time too hot")


@register_rule(
    "warning", "{some} {were} slowed down by the power brake{cost}",
    (Threshold("share", 0.05, "the external power brake is on in at least this share of samples", NVML), CRITICAL_COST),
    "Tell the operators: the node's power supply asks the GPUs to slow down.",
    needs=(("power_brake",),),
)  # fmt: skip
def throttled_power_brake(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that the external power brake slowed down."""
    return _held_down(job, rule, ("power_brake",))


@register_rule(
    "warning", "{some} {were} slowed down by {their} hardware{cost}",
    (Threshold("share", 0.05, "the hardware lowers the clock in at least this share of samples", NVML), CRITICAL_COST),
    "Tell the operators: the cause is heat, the power brake or the power supply. This says which: nvidia-smi -q -d "
    "PERFORMANCE",
    needs=(("hw_slowdown",),),
)  # fmt: skip
def throttled_hardware(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that the hardware slowed down for a reason that no other rule tells."""
    return _held_down(job, rule, ("hw_slowdown",))


@register_rule(
    "info", "{some} {were} held down by the power limit{cost}",
    (
        Threshold("share", 0.2, "the power limit holds the clock down in at least this share of samples, or, where that was "
                  "not recorded, the GPU draws what its limit allows in at least this share of its work,"),
        Threshold("lost", LEAST_TOLD, "and, where clocks are known, at least this share of the GPU time is lost to it"),
        Threshold("clock", 0.7, "it is a warning where the SM clock is below this share of the highest, ..."),
        Threshold("limit", 0.9, "... or the power limit below this share of what the model is sold with"),
    ),
    "Busy GPUs reach their power limit. If it was set lower than the model allows, ask the operators whether that is meant. "
    "This shows both: nvidia-smi -q -d POWER",
    needs=(("sw_power_cap", "power_usage"),),
)  # fmt: skip
def power_capped(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that the power limit held down: usual for a busy GPU, and a warning only where it holds them far down or
    was set low. Where reasons were not recorded, those match that lose time to a low clock while they draw what the limit
    allows."""
    is_told, knows_clocks = job.evidence.has("sw_power_cap"), job.evidence.has("sm_clock")
    if not (is_told or knows_clocks):
        return None
    near = None if is_told else _near_limit(job)
    found = _held_down(
        job, rule, ("sw_power_cap",), near, "of the work near the power limit (reasons were not recorded)"
    )
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
        found = found._replace(findings=(*found.findings, finding_in_words("power_limit", low, text)))
    clock = _relative_clock(job, found.gpus)
    if np.isfinite(clock):
        if clock < rule.at("clock"):
            found = found.warning()._replace(lost=None)
        text = f"SM clock at {words.percent(clock)} of the highest"
        found = found._replace(findings=(*found.findings, finding_in_words("sm_clock", clock, text, rule.at("clock"))))
    return found


def _near_limit(job: JobEvidence) -> Floats:
    """Compute in which share of its work each GPU [n_gpus] draws at least _NEAR_LIMIT of its power limit; 0 where it draws
    less on average, NaN where that is not known."""
    if "power_usage" not in job.evidence.series:
        return np.full(job.evidence.n_gpus, np.nan)
    limits = np.array([gpu.power_limit or np.nan for gpu in job.evidence.gpus], np.float64)
    draw = job.evidence.series["power_usage"]
    cells = job.at_work_cells & np.isfinite(draw) & np.isfinite(limits)[:, None]
    near = over_gpus(np.where(cells, draw >= _NEAR_LIMIT * limits[:, None], np.nan).T)
    return np.where(job.per_gpu_at_work("power_usage") < _NEAR_LIMIT * limits, 0.0, near)


def _held_down(
    job: JobEvidence, rule: Rule, flags: tuple[str, ...], other: Floats | None = None, what_other: str = ""
) -> RuleMatch | None:
    """Match GPUs of which one of these flags was set in at least the rule's share of samples. ``other`` [n_gpus]: the
    share of time in which something else says so (NaN is unknown), and ``what_other`` what that is; used in place of the
    flags if its greatest is greater. None where it holds of no GPU."""
    shares = np.fmax.reduce([job.evidence.means.per_gpu(flag) for flag in flags])
    what = f"of the samples say so ({' or '.join(flags)})"
    if other is not None and np.nan_to_num(other).max(initial=0.0) > np.nan_to_num(shares).max(initial=0.0):
        shares, what = other, what_other
    chosen = np.nan_to_num(shares) >= rule.at("share")
    if rule.code == "throttled_hardware":  # which is set beside its causes
        for cause in ("hw_thermal", "sw_thermal", "power_brake"):
            chosen &= ~(np.nan_to_num(job.evidence.means.per_gpu(cause)) >= rule.at("share"))
    which = positions(chosen)
    if not which:
        return None
    share = float(np.mean(shares[list(which)]))
    evidence = [finding("share", share, what, rule, "share")]
    hottest = job.evidence.greatest.get("temperature")
    if "thermal" in rule.code and hottest is not None and np.isfinite(hottest[list(which)]).any():
        celsius = float(np.nanmax(hottest[list(which)]))
        evidence.append(finding_in_words("temperature", celsius, f"up to {celsius:.0f} °C"))
    if rule.code != "power_capped":  # which tells it beside its threshold
        evidence += _describe_clock(job, which)
    lost = _slowed(job, which)
    title = {**group(job, which), "their": "its" if len(which) == 1 else "their", "cost": _cost(job, which)}
    return RuleMatch(title, tuple(evidence), rule.graded(lost), whole(job), which, lost=lost)


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


def _cost(job: JobEvidence, which: tuple[int, ...]) -> str:
    """Make the end of a title that says what the lower clocks of these GPUs (positions) cost: the time that others wait
    for them, if the account shows that it is they who are waited for, else the time that they lose themselves. "" below
    LEAST_TOLD of the GPU time."""
    awaited = _awaited_for_clocks(job, which)
    if awaited is not None and awaited.share >= LEAST_TOLD:
        them = "it" if len(awaited.gpus) == 1 else "them"
        return f"; {words.percent(awaited.share)} of the GPU time is lost waiting for {them}"
    own = _lost_themselves(job, which)
    return f"; {words.percent(own)} of the GPU time is lost to it" if own >= LEAST_TOLD else ""


def _lost_themselves(job: JobEvidence, which: tuple[int, ...]) -> float:
    """Compute the share of all GPU time that these GPUs lose to lower clocks."""
    breakdown = job.breakdown
    return float(breakdown.by_gpu[list(which), POSITIONS["working.slowed"]].sum()) / max(breakdown.gpu_seconds, 1e-9)


def _awaited_for_clocks(job: JobEvidence, which: tuple[int, ...]) -> AwaitedGpus | None:
    """Find whom the others wait for, if these are among the GPUs ``which`` and run at lower clocks than the others; else
    None."""
    awaited = find_awaited_gpus(job)
    return awaited if awaited is not None and awaited.reason == "clocks" and set(awaited.gpus) <= set(which) else None


def _slowed(job: JobEvidence, which: tuple[int, ...]) -> float:
    """Compute the share of all GPU time that these GPUs lose to lower clocks and, if they are waited for because of
    these, that others wait for them."""
    awaited = _awaited_for_clocks(job, which)
    return _lost_themselves(job, which) + (awaited.share if awaited is not None else 0.0)


def _relative_clock(job: JobEvidence, gpus: tuple[int, ...]) -> float:
    """Find the median over these GPUs of the SM clock at work, as a share of the highest; NaN when unknown."""
    clocks = job.clocks_at_work
    shares = [clocks[gpu] / limit for gpu in gpus if (limit := job.evidence.gpus[gpu].max_sm_clock)]
    return median(np.array(shares, np.float64))


def _clocks(job: JobEvidence) -> tuple[Floats, Floats]:
    """Compute the SM clock of each GPU while it works: in MHz, and as a share of the median GPU's of the same model,
    because what another model does at its clock can't be compared. Both [n_gpus], NaN where unknown."""
    clocks = job.clocks_at_work
    clocks = np.where(clocks > 0, clocks, np.nan)
    models = [gpu.name for gpu in job.evidence.gpus]
    usual = {model: median(clocks[[model == each for each in models]]) for model in dict.fromkeys(models)}
    return clocks, clocks / np.array([usual[model] for model in models])


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
    clocks, pace = _clocks(job)
    most = np.array([gpu.max_sm_clock or np.nan for gpu in job.evidence.gpus], np.float64)
    below = np.fmin(pace, clocks / most)
    slow = (below < rule.at("clock")) & ~_has_reason(job, pace < rule.at("clock"))
    which = positions(slow)
    if not which:
        return None
    own, share = float(clocks[slow].mean()), float(below[slow].mean())
    of_what = "the others'" if pace[slow].mean() <= share + 0.02 else "the highest"
    text = f"SM clock {own:,.0f} MHz, {words.percent(share)} of {of_what}"
    evidence = (finding_in_words("sm_clock", own, text, rule.at("clock") * own / share),)
    lost = _slowed(job, which)
    title = {**group(job, which), "cost": _cost(job, which)}
    return RuleMatch(title, evidence, rule.graded(lost), job.span, which, lost=lost)


def _has_reason(job: JobEvidence, are_slower: Flags) -> Flags:
    """Tell for which GPUs the samples give a reason for a lower clock: a throttle reason, or a draw near the power limit.

    ``are_slower`` [n_gpus]: only what holds for these more than for the others counts as a reason. Returns [n_gpus].
    """
    known = [np.nan_to_num(job.evidence.means.per_gpu(flag)) for flag in _REASONS if job.evidence.has(flag)]
    usual = [median(share[~are_slower]) if (~are_slower).any() else 0.0 for share in known]
    more = [share - np.where(are_slower, np.nan_to_num(other), 0.0) for share, other in zip(known, usual, strict=True)]
    found = np.fmax.reduce(more) >= 0.05 if more else np.zeros(job.evidence.n_gpus, bool)
    if job.evidence.has("power_usage"):  # held down by the limit, where the driver does not say so
        limits = np.array([gpu.power_limit or np.nan for gpu in job.evidence.gpus], np.float64)
        draw = job.per_gpu_at_work("power_usage")
        draw = np.where(np.isfinite(draw), draw, median(draw))  # of a card with two dies only the first tells its power
        found = found | (draw >= _NEAR_LIMIT * limits)
    return np.asarray(found, bool)
