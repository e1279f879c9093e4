"""Rules about what limits the GPUs while they work: memory, arithmetic, or too little to do."""

import numpy as np

from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.found import Found, finding, told
from gssr.model.verdicts.job import CLEARLY, Job
from gssr.model.verdicts.table import Rule

_PIPES = {
    "tensor_active": "tensor cores",
    "fp64_active": "FP64 pipe",
    "fp32_active": "FP32 pipe",
    "fp16_active": "FP16 pipe",
}
_MOVED = ("read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes")
_MUCH = 1e8
"""From this rate on, B/s, a node's disks or network may hold up its GPUs."""
_SHORT = 5.0
"""Bins of up to so many seconds show when GPUs wait for data."""


def small_kernels(job: Job, rule: Rule) -> Found | None:
    """The engine is busy, few SMs are."""
    engine, sm = job.at_work("gr_engine_active"), job.at_work("sm_active")
    if engine < rule.at("gr_engine_active") or not sm < rule.at("sm_active"):
        return None
    return _found(
        job, rule, {},
        finding("sm_active", sm, "at work", rule, "sm_active", above=False),
        finding("gr_engine_active", engine, "", rule, "gr_engine_active"),
    )._replace(bins=job.working)  # fmt: skip


def gaps(job: Job, rule: Rule) -> Found | None:
    """Engine and SMs are equally little active: nothing runs in between."""
    engine, sm = job.at_work("gr_engine_active"), job.at_work("sm_active")
    if not (sm < rule.at("sm_active") and rule.at("idle") <= engine < rule.at("gr_engine_active")):
        return None
    if sm < rule.at("ratio") * engine:
        return None
    found = _found(
        job, rule, {"gap": words.percent(1 - engine)},
        finding("sm_active", sm, "at work", rule, "sm_active", above=False),
        finding("gr_engine_active", engine, "", rule, "gr_engine_active", above=False), *_gaps_seen(job),
    )  # fmt: skip
    return found._replace(severity=rule.graded(1 - engine), bins=job.working)


def _gaps_seen(job: Job) -> list[Finding]:
    """Whether the gaps last for seconds, as the shortest bins show. Where these are too long to tell: what the nodes' disks
    and network move all the while, which the GPUs may wait for."""
    finest = min(job.looks, key=lambda look: look.evidence.width)
    width, engine = finest.evidence.width, finest.at_work("gr_engine_active")
    if engine >= max(job.common("gaps"), CLEARLY * job.at_work("gr_engine_active")):
        text = f"{words.percent(engine)} while it works, looked at closer: the gaps last for seconds"
        return [told("gr_engine_active", engine, text)]
    host = job.evidence.host
    rates = {name: float(np.nanmean(host[name])) for name in _MOVED if name in host and np.isfinite(host[name]).any()}
    name = max(rates, key=lambda each: rates[each], default=None)
    if width <= _SHORT or name is None or rates[name] < _MUCH:
        return []
    text = f"{words.label(name)} {words.amount(rates[name], name)} per node: whether the GPUs wait for it can't be told"
    return [told(name, rates[name], f"{text} in bins of {words.duration(width)}")]


def memory_peak(job: Job, rule: Rule) -> Found | None:
    """The memory can't do more."""
    dram = job.at_work("dram_active")
    if not dram >= rule.at("dram_active"):
        return None
    return _found(
        job, rule, {"dram": words.percent(dram)}, finding("dram_active", dram, "at work", rule, "dram_active"),
        *_bandwidth(job, dram),
    )  # fmt: skip


def memory_bound(job: Job, rule: Rule) -> Found | None:
    """The memory is busier than what computes."""
    dram, sm = job.at_work("dram_active"), job.at_work("sm_active")
    if not dram >= rule.at("dram_active"):
        return None
    pipes = [job.at_work(name) for name in _PIPES]
    busiest = max((value for value in pipes if np.isfinite(value)), default=np.nan)
    if not (sm < rule.at("sm_active") or dram - busiest >= rule.at("pipes")):
        return None
    return _found(
        job, rule, {"dram": words.percent(dram)}, finding("dram_active", dram, "at work", rule, "dram_active"),
        finding("sm_active", sm), *_bandwidth(job, dram),
    )  # fmt: skip


def _bandwidth(job: Job, dram: float) -> list[Finding]:
    """What the activity amounts to, where the peak is known."""
    if job.evidence.peaks is None:
        return []
    rate = dram * job.evidence.peaks.memory_bandwidth
    return [told("dram_active", dram, f"about {words.amount(rate, 'pcie_rx_bytes')} of memory traffic a GPU")]


def compute_bound(job: Job, rule: Rule) -> Found | None:
    """One pipe is busy most of the time."""
    sm = job.at_work("sm_active")
    over = {name: job.at_work(name) for name in _PIPES if job.at_work(name) >= rule.at(name)}
    if not over or not sm >= rule.at("sm_active"):
        return None
    name = max(over, key=lambda each: over[each])
    return _found(
        job, rule, {"pipe": _PIPES[name], "value": words.percent(over[name])},
        finding(name, over[name], "at work", rule, name), finding("sm_active", sm, "", rule, "sm_active"),
    )  # fmt: skip


def fp64(job: Job, rule: Rule) -> Found | None:
    """FP64 does the work."""
    sm = job.at_work("sm_active")
    values = {name: job.at_work(name) for name in ("fp64_active", "tensor_dfma_active")}
    name = max(values, key=lambda each: np.nan_to_num(values[each]))
    if not (values[name] >= rule.at("fp64_active") and sm >= rule.at("sm_active")):
        return None
    peaks = job.evidence.peaks
    narrow = peaks is not None and peaks.fp64 < rule.at("narrow") * peaks.fp32
    what = ", and this GPU has few units for it" if narrow else ""
    evidence = [
        finding(name, values[name], "at work", rule, "fp64_active"),
        finding("sm_active", sm, "", rule, "sm_active"),
    ]
    if narrow and peaks is not None:
        share = peaks.fp64 / peaks.fp32
        evidence.append(
            told("fp64_peak", share, f"FP64 peak {words.percent(share)} of the FP32 peak", rule.at("narrow"))
        )
    found = _found(job, rule, {"value": words.percent(values[name]), "what": what}, *evidence)
    return found._replace(severity="warning") if narrow else found


def tensor_unused(job: Job, rule: Rule) -> Found | None:
    """FP32 or FP16 arithmetic that tensor cores might do."""
    sm, tensor = job.at_work("sm_active"), job.at_work("tensor_active")
    plain = job.at_work("fp32_active") + np.nan_to_num(job.at_work("fp16_active"))
    if not (sm >= rule.at("sm_active") and tensor < rule.at("tensor_active") and plain >= rule.at("fp32_active")):
        return None
    return _found(
        job, rule, {}, finding("tensor_active", tensor, "at work", rule, "tensor_active", above=False),
        finding("fp32_active", plain, "(with FP16)", rule, "fp32_active"),
    )  # fmt: skip


def little_arithmetic(job: Job, rule: Rule) -> Found | None:
    """Busy SMs, idle pipes."""
    sm, flop = job.at_work("sm_active"), job.at_work("flop_active")
    if not (sm >= rule.at("sm_active") and flop < rule.at("flop_active")):
        return None
    return _found(
        job, rule, {"value": words.percent(flop)}, finding("flop_active", flop, "at work", rule, "flop_active", above=False),
        finding("sm_active", sm, "", rule, "sm_active"),
    )  # fmt: skip


def _found(job: Job, rule: Rule, title: dict[str, str], *evidence: Finding) -> Found:
    return Found(title, evidence, rule.severity, job.span)
