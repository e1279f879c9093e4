"""Rules about what limits the GPUs while they work: memory, arithmetic, too little to do; and how full their memory is."""

from dataclasses import replace

import numpy as np

from gssr.arrays import Floats
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import JobEvidence, group, holds, positions, whole
from gssr.model.verdicts.table import (
    CSCS,
    DCGM,
    KEMPNER,
    LEAD,
    TRACEML,
    Rule,
    RuleMatch,
    Threshold,
    Unknown,
    finding,
    finding_in_words,
    register_rule,
)

_PIPES = {
    "tensor_active": "tensor cores",
    "fp64_active": "FP64 pipe",
    "fp32_active": "FP32 pipe",
    "fp16_active": "FP16 pipe",
}
_AT_WORK = "while the GPUs work"
"""What a number is a mean of: the time in which GPUs work."""


def _hold_at_work(job: JobEvidence, rule: Rule, *names: str) -> list[Finding] | None:
    """Hold the means of these metrics, while the job works, against the rule's thresholds of the same names. Returns a
    finding for each of them; None unless all are met."""
    values = {name: job.at_work(name) for name in names}
    if not all(rule.threshold(name).is_met(value) for name, value in values.items()):
        return None
    return [
        finding(name, value, "" if at else _AT_WORK, rule.threshold(name))
        for at, (name, value) in enumerate(values.items())
    ]


def _match(job: JobEvidence, rule: Rule, findings: list[Finding], **title: str) -> RuleMatch:
    """Make the match of a rule on the time in which the job works. ``title``: the words that fill the rule's title."""
    return RuleMatch(title, tuple(findings), rule.severity, job.span)


@register_rule(
    "warning", "Memory pages seem to move back and forth: {link} carries {rate} both ways while the SMs wait for it",
    (
        Threshold("load", 0.1, "PCIe (on Grace: C2C) carries at least this share of its bandwidth in each direction, ..."),
        Threshold("bandwidth", 25e9, "... which is taken to be this (B/s) if it is unknown", least=1.0),
        Threshold("sm_active", 0.6, "SM activity is at least this"),
        Threshold("flop_active", 0.06, "and the arithmetic pipes' activities sum up to less than this", is_upper=True),
    ),
    "Unified memory seems not to fit into the GPU: prefetch it (cudaMemPrefetchAsync), say where it should lie "
    "(cudaMemAdvise), or make the problem smaller. This counts the page faults: nsys profile "
    "--cuda-um-gpu-page-faults=true PROGRAM",
    needs=(LEAD, ("pcie_rx_bytes", "c2c_rx_bytes"), ("pcie_tx_bytes", "c2c_tx_bytes")),
)  # fmt: skip
def unified_memory(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose kernels seem to wait for pages of unified memory that are copied to and fro: the link to the host
    is busy both ways while SMs wait. None if that is not so, or was not measured."""
    peaks = job.evidence.peaks
    full = (peaks.pcie_bandwidth if peaks else None) or rule.at("bandwidth")
    rate = min(job.at_work("pcie_rx_bytes"), job.at_work("pcie_tx_bytes"))
    by_c2c = min(job.at_work("c2c_rx_bytes"), job.at_work("c2c_tx_bytes"))
    link = "PCIe"
    if by_c2c > rate:  # on Grace
        rate, full, link = by_c2c, (peaks.c2c_bandwidth if peaks else None) or full, "C2C"
    arithmetic = _hold_at_work(job, rule, "flop_active", "sm_active")
    if arithmetic is None or not rate >= rule.at("load") * full:
        return None
    text = f"{words.percent(rate / full)} of {link}'s bandwidth"
    load = finding_in_words("pcie_rx_bytes", rate, text, rule.at("load") * full)
    return _match(job, rule, [load, *arithmetic], rate=words.amount(rate, "pcie_rx_bytes"), link=link)


@register_rule(
    "info", "While the GPUs work, kernels run {utilization} of the time, but at {power}: {meaning}",
    (
        Threshold("gpu_utilization", 0.8, "kernels run at least this share of the time; SM activity was not measured"),
        Threshold("power", 0.5, "power is below this share of its limit: kernels that use all of the GPU draw more",
                  is_upper=True),
        Threshold("few_sms", 0.33, "it is a warning below this share: the kernels seem to use little of the GPU"),
        Threshold("memory_copy_utilization", 0.25, "and memory is copied, or DRAM active, for less than this share"),
    ),
    "Utilization counts the time in which any kernel runs. These kernels may be small, or wait for other GPUs. SM activity "
    "tells which. Record it with DCGM (dcgm-exporter: add DCGM_FI_PROF_SM_ACTIVE), or on Hopper and newer with GPM (gssr "
    "doctor says what is there).",
    needs=(("gr_engine_active", "gpu_utilization"), ("power_usage",)),
)  # fmt: skip
def low_power(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose kernels run most of the time and yet draw little power, where SM activity was not measured. None
    where it was, and if kernels run less or memory is busy. Raises Unknown if no GPU's power limit is known."""
    if job.lead is None or job.lead == "sm_active":
        return None
    limits = [gpu.power_limit for gpu in job.evidence.gpus if gpu.power_limit]
    if not limits:
        raise Unknown("the power limit is unknown")
    used, power = job.at_work(job.lead), job.at_work("power_usage") / float(np.median(limits))
    moved = np.fmax(job.at_work("memory_copy_utilization"), job.at_work("dram_active"))
    busy, low = rule.threshold("gpu_utilization"), rule.threshold("power")
    if not (busy.is_met(used) and low.is_met(power)) or moved >= rule.at("memory_copy_utilization"):
        return None
    is_little = power < rule.at("few_sms")
    meaning = "they seem to use little of the GPU" if is_little else "what they do was not measured"
    said = f"{words.percent(power)} of the power limit"
    drawn = finding_in_words("power_usage", power, f"{said} (reported below {words.percent(low.value)})", low.value)
    findings = [finding(job.lead, used, _AT_WORK, busy), drawn]
    found = _match(job, rule, findings, utilization=words.percent(used), power=said, meaning=meaning)
    return found.warning() if is_little else found


@register_rule(
    "info", "The device memory works at its practical peak ({dram})",
    (Threshold("dram_active", 0.7, "DRAM is active at least this much; the practical peak is about 0.8", DCGM),),
    "The GPU moves as many bytes as it can: only fewer bytes make it faster (fused kernels, lower precision, better reuse).",
    needs=(("dram_active",),),
)  # fmt: skip
def memory_peak(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose device memory is about as busy as it can be while they work. None where DRAM activity is below the
    threshold, or unknown."""
    found = _hold_at_work(job, rule, "dram_active")
    if found is None:
        return None
    return _match(job, rule, [*found, *_memory_traffic(job)], dram=words.percent(found[0].value))


@register_rule(
    "info", "Compute-bound while the GPUs work: the {pipe} active {value} of that time",
    (
        Threshold("tensor_active", 0.5, "the tensor cores are active at least this share of the time", KEMPNER),
        Threshold("fp64_active", 0.5, "or the FP64 pipe is"),
        Threshold("fp32_active", 0.6, "or the FP32 pipe"),
        Threshold("fp16_active", 0.6, "or the FP16 pipe"),
        Threshold("sm_active", 0.6, "and SM activity is at least this", KEMPNER),
    ),
    "Less or cheaper arithmetic makes it faster, and so do kernels that keep this pipe active for more of the time.",
    needs=(("sm_active",), ("tensor_active", "fp64_active", "fp32_active", "fp16_active")),
)  # fmt: skip
def compute_bound(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose work keeps a pipe (tensor cores, FP64, FP32, FP16) busy from its threshold on, and SMs too. None
    where another rule says more: memory limits them, or tensor cores could do it."""
    busy = [name for name in _PIPES if rule.threshold(name).is_met(job.at_work(name))]
    if not busy or any(holds(job, code) for code in ("tensor_unused", "memory_bound", "memory_peak")):
        return None
    name = max(busy, key=job.at_work)
    found = _hold_at_work(job, rule, name, "sm_active")
    if found is None:
        return None
    pipe = f"{_PIPES[name]} {'are' if name == 'tensor_active' else 'is'}"
    return _match(job, rule, found, pipe=pipe, value=words.percent(found[0].value))


@register_rule(
    "info", "Memory-bound: the device memory is busier ({dram}) than the arithmetic units",
    (
        Threshold("dram_active", 0.5, "DRAM is active at least this share of the time", KEMPNER),
        Threshold("sm_active", 0.5, "while SM activity is below this, or ...", KEMPNER),
        Threshold("pipes", 0.1, "... while it is more active than the busiest arithmetic pipe by at least this"),
    ),
    "Move fewer bytes: fuse kernels, reuse what is in registers and shared memory, store in lower precision, check that "
    "access is coalesced.",
    needs=(("dram_active",), ("sm_active",)),
)  # fmt: skip
def memory_bound(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose device memory is busy from the threshold on, while SMs are not, or clearly more than any pipe. None
    where it is at its peak (``memory_peak``)."""
    found = _hold_at_work(job, rule, "dram_active")
    if found is None or holds(job, "memory_peak"):
        return None
    dram, sm = found[0].value, job.at_work("sm_active")
    busiest = max((value for name in _PIPES if np.isfinite(value := job.at_work(name))), default=np.nan)
    if not (sm < rule.at("sm_active") or dram - busiest >= rule.at("pipes")):
        return None
    return _match(job, rule, [*found, finding("sm_active", sm), *_memory_traffic(job)], dram=words.percent(dram))


def _memory_traffic(job: JobEvidence) -> list[Finding]:
    """Say what the DRAM activity amounts to, as one finding; none where the peak is unknown."""
    if job.evidence.peaks is None:
        return []
    dram = job.at_work("dram_active")
    rate = words.amount(dram * job.evidence.peaks.memory_bandwidth, "pcie_rx_bytes")
    return [finding_in_words("dram_active", dram, f"about {rate} of memory traffic a GPU")]


@register_rule(
    "info", "Computes in FP64: {pipe} active {value} of the time while the GPUs work{what}",
    (
        Threshold("fp64_active", 0.2, "the FP64 pipe or the tensor cores' FP64 is active at least this much", KEMPNER),
        Threshold("sm_active", 0.5, "and SM activity is at least this", KEMPNER),
        Threshold("narrow", 0.1, "it is a warning on a GPU whose FP64 peak is below this share of its FP32 peak"),
    ),
    "See whether parts could be computed in FP32, or as matrix products on the FP64 tensor cores.",
    needs=(("fp64_active", "tensor_dfma_active"), ("sm_active",)),
)  # fmt: skip
def fp64(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose work is done in FP64, by its pipe or by tensor cores. It is a warning on a GPU with few units for
    FP64."""
    pipes = {"fp64_active": "the FP64 pipe is", "tensor_dfma_active": "the tensor cores' FP64 part is"}
    name = max(pipes, key=lambda each: np.nan_to_num(job.at_work(each)))
    value, least, sms = job.at_work(name), rule.threshold("fp64_active"), _hold_at_work(job, rule, "sm_active")
    if sms is None or not least.is_met(value):
        return None
    findings, peaks = [finding(name, value, _AT_WORK, least), *sms], job.evidence.peaks
    title = {"pipe": pipes[name], "value": words.percent(value), "what": ""}
    if peaks is None or not peaks.fp64 < rule.at("narrow") * peaks.fp32:
        return _match(job, rule, findings, **title)
    share = peaks.fp64 / peaks.fp32
    text = f"FP64 peak {words.percent(share)} of the FP32 peak"
    findings.append(finding_in_words("fp64_peak", share, text, rule.at("narrow")))
    return _match(job, rule, findings, **title | {"what": ", and this GPU has few units for it"}).warning()


@register_rule(
    "info", "The tensor cores are unused: the {pipe} does the work",
    (
        Threshold("sm_active", 0.5, "SM activity is at least this"),
        Threshold("tensor_active", 0.05, "the tensor cores are active less than this", is_upper=True),
        Threshold("fp32_active", 0.2, "and the FP32 pipe is active at least this much, ..."),
        Threshold("fp16_active", 0.2, "... or the FP16 pipe"),
    ),
    "If these are matrix products, use mixed precision (torch.autocast, TF32: torch.set_float32_matmul_precision) and "
    "sizes that are multiples of 8.",
    needs=(("sm_active",), ("tensor_active",), ("fp32_active",)),
)  # fmt: skip
def tensor_unused(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose arithmetic is done in FP32 or FP16 by pipes other than the tensor cores, which might do it. None
    if these are used, or SMs do little arithmetic."""
    name = "fp16_active" if job.at_work("fp16_active") > job.at_work("fp32_active") else "fp32_active"
    found = _hold_at_work(job, rule, "tensor_active", name, "sm_active")
    return None if found is None else _match(job, rule, found, pipe=_PIPES[name])


@register_rule(
    "info", "The SMs are busy, but do little arithmetic ({value})",
    (
        Threshold("sm_active", 0.5, "SM activity is at least this"),
        Threshold("flop_active", 0.125, "and the arithmetic pipes' activities sum up to less than this", CSCS,
                  is_upper=True),
    ),
    "Profile one kernel (Nsight Compute). It may wait for memory or for other GPUs, do integer or index work, or have too "
    "few threads to hide the waits.",
    needs=(("sm_active",), ("flop_active",)),
)  # fmt: skip
def little_arithmetic(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose SMs are busy while hardly any floating-point arithmetic is done. None otherwise, and where either
    is unknown."""
    found = _hold_at_work(job, rule, "flop_active", "sm_active")
    return None if found is None else _match(job, rule, found, value=words.percent(found[0].value))


@register_rule(
    "info", "{some} had {share} of {their} memory in use",
    (
        Threshold("share", 0.92, "at the peak, at least this share of a GPU's memory is in use", TRACEML),
        Threshold("warning", 0.97, "from this share on it is a warning", TRACEML),
    ),
    "The next larger batch may fail: watch for out-of-memory errors. Frameworks reserve memory ahead, so not all that is "
    "in use need be needed.",
    needs=(("memory_used",),),
)  # fmt: skip
def memory_full(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that had hardly any memory left at their peak. Raises Unknown where no GPU's memory is known."""
    shares = _memory_peaks(job)
    which = positions(np.nan_to_num(shares) >= rule.at("share"))
    if not which:
        return None
    share = float(np.nanmax(shares))
    title = {**group(job, which), "share": words.percent(share), "their": "its" if len(which) == 1 else "their"}
    return RuleMatch(title, (_peak(share, rule),), rule.graded(share), whole(job), which)


@register_rule(
    "info", "Never more than {share} of a GPU's memory was in use",
    (Threshold("share", 0.5, "at the peak, less than this share of every GPU's memory is in use", TRACEML, is_upper=True),),
    "There is room for a larger batch or problem; or a smaller GPU, or a share of one (MIG), would do.",
    needs=(("memory_used",),),
)  # fmt: skip
def memory_unused(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match a job in which the peak of every used GPU's memory is below the rule's ``share`` of it; the match is about
    the whole job. Returns None where no used GPU's peak is known. Raises Unknown where no GPU's memory is known."""
    shares = _memory_peaks(job)[job.used]
    share = float(np.nanmax(shares)) if np.isfinite(shares).any() else np.nan
    if not rule.threshold("share").is_met(share):
        return None
    return RuleMatch({"share": words.percent(share)}, (_peak(share, rule),), rule.severity, whole(job))


def _peak(share: float, rule: Rule) -> Finding:
    """Make a finding of the most memory that a GPU had in use, as a share, beside the rule's threshold for it."""
    return replace(finding("share", share, "at its peak", rule.threshold("share")), metric="memory_used")


def _memory_peaks(job: JobEvidence) -> Floats:
    """Find the most memory that each GPU had in use, as a share of what it has [n_gpus]; NaN where unknown. Raises
    Unknown where no GPU's memory is known."""
    totals = np.array([gpu.memory_total or np.nan for gpu in job.evidence.gpus], np.float64)
    if not np.isfinite(totals).any():
        raise Unknown("how much memory these GPUs have is unknown")
    return np.asarray(job.evidence.greatest["memory_used"] / totals, np.float64)
