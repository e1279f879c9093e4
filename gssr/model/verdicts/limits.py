"""Rules about what limits the GPUs while they work: memory, arithmetic, too little to do; and how full their memory is."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.evidence.gather import MOVED, MUCH
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import CLEARLY, Job, group, positions, whole
from gssr.model.verdicts.table import (
    CSCS,
    DCGM,
    JOBSTATS,
    KEMPNER,
    LEAD,
    OURS,
    TRACEML,
    Found,
    Rule,
    Threshold,
    Unknown,
    finding,
    rule,
    told,
)

_PIPES = {
    "tensor_active": "tensor cores",
    "fp64_active": "FP64 pipe",
    "fp32_active": "FP32 pipe",
    "fp16_active": "FP16 pipe",
}
_SHORT = 5.0
"""Bins of up to so many seconds show when GPUs wait for data."""


@rule(
    "warning", "The GPUs are busy, but few of their SMs are: small kernels",
    (
        Threshold("gr_engine_active", 0.4, "the engine is active at least this share of the time", KEMPNER),
        Threshold("sm_active", 0.25, "and SM activity is below this", KEMPNER),
    ),
    "Give each kernel more to do: larger batches or blocks, fused kernels, CUDA graphs; or share the GPU (MPS).",
    needs=(("gr_engine_active",), ("sm_active",)), explains=("low_occupancy", "gaps", "low_use"),
)  # fmt: skip
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


@rule(
    "warning", "Memory pages move to and fro: {link} carries {rate} both ways while the SMs wait for it",
    (
        Threshold("load", 0.1, "PCIe (on Grace: C2C) carries at least this share of its bandwidth in each direction, ..."),
        Threshold("bandwidth", 25e9, "... which is taken to be this where it is unknown", least=1.0),
        Threshold("sm_active", 0.6, "SM activity is at least this"),
        Threshold("flop_active", 0.06, "and the arithmetic pipes' activities sum up to less than this"),
    ),
    "Unified memory seems not to fit the GPU: prefetch it (cudaMemPrefetchAsync), advise where it lies (cudaMemAdvise), or "
    "cut the problem so that it fits; nsys profile --cuda-um-gpu-page-faults=true counts the faults.",
    needs=(("sm_active",), ("flop_active",), ("pcie_rx_bytes", "c2c_rx_bytes"), ("pcie_tx_bytes", "c2c_tx_bytes")),
    explains=("little_arithmetic", "low_occupancy", "memory_bound"),
)  # fmt: skip
def unified_memory(job: Job, rule: Rule) -> Found | None:
    """Kernels wait for pages that are copied to and fro."""
    peaks = job.evidence.peaks
    full = (peaks.pcie_bandwidth if peaks else None) or rule.at("bandwidth")
    sm, flop = job.at_work("sm_active"), job.at_work("flop_active")
    rate = min(job.at_work("pcie_rx_bytes"), job.at_work("pcie_tx_bytes"))
    by_c2c = min(job.at_work("c2c_rx_bytes"), job.at_work("c2c_tx_bytes"))
    link = "PCIe"
    if by_c2c > rate:  # on Grace
        rate, full, link = by_c2c, (peaks.c2c_bandwidth if peaks else None) or full, "C2C"
    if not (rate >= rule.at("load") * full and sm >= rule.at("sm_active") and flop < rule.at("flop_active")):
        return None
    return _found(
        job, rule, {"rate": words.amount(rate, "pcie_rx_bytes"), "link": link},
        told("pcie_rx_bytes", rate, f"{words.percent(rate / full)} of {link}'s bandwidth", rule.at("load") * full),
        finding("flop_active", flop, "at work", rule, "flop_active", above=False),
        finding("sm_active", sm, "", rule, "sm_active"),
    )  # fmt: skip


@rule(
    "warning", "The GPUs are busy with few warps: occupancy {occupancy}, SM activity {sm}",
    (
        Threshold("gr_engine_active", 0.8, "the engine is active at least this share of the time, ..."),
        Threshold("sm_active", 0.6, "... SM activity is below this, ..."),
        Threshold("sm_occupancy", 0.15, "... occupancy below this"),
        Threshold("dram_active", 0.4, "and DRAM is less active than this"),
    ),
    "Start more threads per kernel (a larger grid, larger batches), or let kernels run side by side (streams, MPS); Nsight "
    "Compute's launch statistics of the longest kernel show what limits its occupancy.",
    needs=(("gr_engine_active",), ("sm_active",), ("sm_occupancy",)), explains=("little_arithmetic", "low_use"),
)  # fmt: skip
def low_occupancy(job: Job, rule: Rule) -> Found | None:
    """Kernels that run all the time and fill neither the SMs nor their warps."""
    engine, sm, warps = (job.at_work(name) for name in ("gr_engine_active", "sm_active", "sm_occupancy"))
    if not (engine >= rule.at("gr_engine_active") and sm < rule.at("sm_active") and warps < rule.at("sm_occupancy")):
        return None
    if job.at_work("dram_active") >= rule.at("dram_active"):
        return None
    found = {"occupancy": words.percent(warps), "sm": words.percent(sm)}
    return _found(
        job, rule, found,
        finding("sm_occupancy", warps, "at work", rule, "sm_occupancy", above=False),
        finding("sm_active", sm, "", rule, "sm_active", above=False),
        finding("gr_engine_active", engine, "", rule, "gr_engine_active"),
    )._replace(bins=job.working)  # fmt: skip


@rule(
    "warning", "Busy by utilization ({utilization}), but at {power}: few SMs are at work",
    (
        Threshold("gpu_utilization", 0.8, "GPU utilization is at least this, and nothing better was measured"),
        Threshold("power", 0.33, "power is below this share of its limit"),
        Threshold("memory_copy_utilization", 0.25, "and memory is copied, or DRAM active, for less than this share"),
        Threshold("effort", 0.65, "or power is below this share of their highest: who waits half the time draws 0.6 of it"),
    ),
    "Utilization counts the time in which any kernel runs, however small: small kernels, or kernels that wait for other "
    "GPUs. Record with DCGM, or on Hopper and newer with GPM (gssr doctor says what is there): SM activity tells which.",
    needs=(("gpu_utilization",), ("power_usage",)), explains=("low_use",),
)  # fmt: skip
def low_power(job: Job, rule: Rule) -> Found | None:
    """What NVML alone shows of kernels that hardly use the GPU."""
    if job.lead != "gpu_utilization":
        return None
    limits = [gpu.power_limit for gpu in job.evidence.gpus if gpu.power_limit]
    if not limits:
        raise Unknown("the power limit is unknown")
    used, power = job.at_work("gpu_utilization"), job.at_work("power_usage") / float(np.median(limits))
    if not used >= rule.at("gpu_utilization"):
        return None
    utilized = job.evidence.series["gpu_utilization"]
    busy = job.comparable & (utilized >= rule.at("gpu_utilization"))
    effort = float(job.activity[busy].sum() / utilized[busy].sum()) if busy.any() else np.nan
    said, name = f"{words.percent(power)} of the power limit", "power"
    moved = np.fmax(job.at_work("memory_copy_utilization"), job.at_work("dram_active"))
    if not power < rule.at(name) or moved >= rule.at("memory_copy_utilization"):
        power, said, name = effort, f"{words.percent(effort)} of the power that these GPUs draw at their best", "effort"
    if not power < rule.at(name):
        return None
    found = {"utilization": words.percent(used), "power": said}
    return _found(
        job, rule, found, finding("gpu_utilization", used, "at work", rule, "gpu_utilization"),
        told("power_usage", power, f"{said} (below {words.percent(rule.at(name))})", rule.at(name)),
    )  # fmt: skip


@rule(
    "warning", "The GPUs idle between kernels: {gap} of the time nothing runs",
    (
        Threshold("sm_active", 0.65, "SM activity is below this"),
        Threshold("gr_engine_active", 0.75, "and so is the engine's activity below this"),
        Threshold("idle", 0.05, "but above this", OURS),
        Threshold("ratio", 0.5, "SM activity is at least this share of the engine's: kernels that run fill the GPU"),
        Threshold("critical", 0.75, "from this share of time without a kernel on it is critical"),
    ),
    "Look for the host's part of a step (data loading, launches from Python, synchronisation, .item() and printing) in "
    "a trace: nsys profile --trace=cuda,nvtx,osrt -o step PROGRAM on one rank, or torch.profiler; then gssr analyze it.",
    needs=(("gr_engine_active", "gpu_utilization"),), explains=("low_use",),
)  # fmt: skip
def gaps(job: Job, rule: Rule) -> Found | None:
    """Engine and SMs are equally little active: nothing runs in between. By NVML alone: no kernel in so much of the time."""
    if not job.evidence.has("gr_engine_active", "sm_active"):
        used = job.over("gpu_utilization", job.steady)
        if used is None or not rule.at("idle") <= used < rule.at("gr_engine_active"):
            return None
        own = finding("gpu_utilization", used, "", rule, "gr_engine_active", above=False)
        found = _found(job, rule, {"gap": words.percent(1 - used)}, own)
        return found._replace(severity=rule.graded(1 - used), bins=job.steady, lost=job.idle)
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
    return found._replace(severity=rule.graded(1 - engine), bins=job.working, lost=job.idle)


def _gaps_seen(job: Job) -> list[Finding]:
    """Whether the gaps last for seconds, as the shortest bins show. Where these are too long to tell: what the nodes' disks
    and network move all the while, which the GPUs may wait for."""
    finest = min(job.looks, key=lambda look: look.evidence.width)
    width, engine = finest.evidence.width, finest.at_work("gr_engine_active")
    if engine >= max(job.common("gaps"), CLEARLY * job.at_work("gr_engine_active")):
        text = f"{words.percent(engine)} while it works, looked at closer: the gaps last for seconds"
        return [told("gr_engine_active", engine, text)]
    host = job.evidence.host
    rates = {name: float(np.nanmean(host[name])) for name in MOVED if name in host and np.isfinite(host[name]).any()}
    name = max(rates, key=lambda each: rates[each], default=None)
    if width <= _SHORT or name is None or rates[name] < MUCH:
        return []
    text = f"{words.label(name)} {words.amount(rates[name], name)} per node: whether the GPUs wait for it can't be told"
    return [told(name, rates[name], f"{text} in bins of {words.duration(width)}")]


@rule(
    "info", "The device memory works at its practical peak ({dram})",
    (Threshold("dram_active", 0.7, "DRAM is active at least this much; the practical peak is about 0.8", DCGM),),
    "The GPU is saturated in bandwidth: only fewer bytes make it faster (fused kernels, lower precision, better reuse).",
    needs=(("dram_active",),), explains=("compute_bound", "memory_bound", "tensor_unused", "little_arithmetic", "low_use"),
)  # fmt: skip
def memory_peak(job: Job, rule: Rule) -> Found | None:
    """The memory can't do more."""
    dram = job.at_work("dram_active")
    if not dram >= rule.at("dram_active"):
        return None
    return _found(
        job, rule, {"dram": words.percent(dram)}, finding("dram_active", dram, "at work", rule, "dram_active"),
        *_bandwidth(job, dram),
    )  # fmt: skip


@rule(
    "info", "Compute-bound: on the {pipe}, active {value} of the time",
    (
        Threshold("tensor_active", 0.5, "the tensor cores are active at least this share of the time", KEMPNER),
        Threshold("fp64_active", 0.5, "or the FP64 pipe is"),
        Threshold("fp32_active", 0.6, "or the FP32 pipe"),
        Threshold("fp16_active", 0.6, "or the FP16 pipe"),
        Threshold("sm_active", 0.6, "and SM activity is at least this", KEMPNER),
    ),
    "That is what the GPU is for: only less or cheaper arithmetic makes it faster.",
    needs=(("sm_active",), ("tensor_active", "fp64_active", "fp32_active", "fp16_active")),
    explains=("memory_bound", "low_use"),
)  # fmt: skip
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


@rule(
    "info", "Memory-bound: the device memory is busier ({dram}) than the SMs' pipes",
    (
        Threshold("dram_active", 0.5, "DRAM is active at least this share of the time", KEMPNER),
        Threshold("sm_active", 0.5, "while SM activity is below this, or ...", KEMPNER),
        Threshold("pipes", 0.1, "... while it is more active than the busiest arithmetic pipe by at least this"),
    ),
    "Move fewer bytes: fuse kernels, reuse what is in registers and shared memory, store in lower precision, check that "
    "access is coalesced.",
    needs=(("dram_active",), ("sm_active",)), explains=("little_arithmetic", "low_use"),
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


@rule(
    "info", "FP64 arithmetic ({value}){what}",
    (
        Threshold("fp64_active", 0.2, "the FP64 pipe or the tensor cores' FP64 is active at least this much", KEMPNER),
        Threshold("sm_active", 0.5, "and SM activity is at least this", KEMPNER),
        Threshold("narrow", 0.1, "a warning on a GPU whose FP64 peak is below this share of its FP32 peak"),
    ),
    "See whether parts would do in FP32, or in matrix products that the FP64 tensor cores take.",
    needs=(("fp64_active", "tensor_dfma_active"), ("sm_active",)), explains=("tensor_unused",),
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


@rule(
    "info", "The tensor cores are unused: FP32 and FP16 arithmetic does the work",
    (
        Threshold("sm_active", 0.5, "SM activity is at least this"),
        Threshold("tensor_active", 0.05, "the tensor cores are active less than this"),
        Threshold("fp32_active", 0.2, "and the FP32 and FP16 pipes together at least this much"),
    ),
    "If these are matrix products, use mixed precision (torch.autocast, TF32: torch.set_float32_matmul_precision) and "
    "sizes that are multiples of 8.",
    needs=(("sm_active",), ("tensor_active",), ("fp32_active",)), explains=("little_arithmetic",),
)  # fmt: skip
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


@rule(
    "info", "The SMs are busy, but do little arithmetic ({value})",
    (
        Threshold("sm_active", 0.5, "SM activity is at least this"),
        Threshold("flop_active", 0.125, "and the arithmetic pipes' activities sum up to less than this", CSCS),
    ),
    "Profile one kernel (Nsight Compute): waits for memory or for other GPUs inside kernels, integer or index work, or "
    "occupancy too low to hide latency.",
    needs=(("sm_active",), ("flop_active",)), explains=("low_use",),
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


@rule(
    "warning", "The GPUs are little used ({value} of {lead}), and no rule says why",
    (
        Threshold("sm_active", 0.5, "SM activity is below this, or, where that was not measured, ...", DCGM),
        Threshold("gpu_utilization", 0.5, "... GPU utilization (or the engine's activity) is below this", JOBSTATS),
        Threshold("critical", 0.85, "it is critical from this share of unused activity on", JOBSTATS),
    ),
    "gssr analyze -pts FILE shows its course over time; then look at one step in a trace: nsys profile "
    "--trace=cuda,nvtx,osrt -o step PROGRAM, then gssr analyze it.",
    needs=(LEAD,),
)  # fmt: skip
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


@rule(
    "info", "{some} had {share} of the memory in use",
    (
        Threshold("share", 0.92, "at its peak a GPU's memory is used by at least this share", TRACEML),
        Threshold("warning", 0.97, "from this share on it is a warning", TRACEML),
    ),
    "The next larger batch may fail: watch for out-of-memory errors. Frameworks reserve memory ahead, so used need not "
    "be needed.",
    needs=(("memory_used",),),
)  # fmt: skip
def memory_full(job: Job, rule: Rule) -> Found | None:
    """Hardly any is left."""
    shares = _peaks(job)
    which = positions(np.nan_to_num(shares) >= rule.at("share"))
    if not which:
        return None
    share = float(np.nanmax(shares))
    bound = rule.at("share")
    evidence = (
        told("memory_used", share, f"{words.percent(share)} at its peak (at least {words.percent(bound)})", bound),
    )
    found = {**group(job, which), "share": words.percent(share)}
    return Found(found, evidence, rule.graded(share), whole(job), which)


@rule(
    "info", "Never more than {share} of the memory was in use",
    (Threshold("share", 0.5, "at its peak no GPU's memory is used by this share", TRACEML),),
    "There is room for a larger batch or problem; or a smaller GPU, or a share of one (MIG), would do.",
    needs=(("memory_used",),),
)  # fmt: skip
def memory_unused(job: Job, rule: Rule) -> Found | None:
    """Most of it was never used."""
    shares = _peaks(job)[job.used]
    if not np.isfinite(shares).any():
        return None
    share, bound = float(np.nanmax(shares)), rule.at("share")
    if share >= bound:
        return None
    evidence = (
        told("memory_used", share, f"{words.percent(share)} at its peak (below {words.percent(bound)})", bound),
    )
    return Found({"share": words.percent(share)}, evidence, rule.severity, whole(job))


def _peaks(job: Job) -> Floats:
    """[n_gpus]: the most that was in use, as a share of the memory there is."""
    totals = np.array([gpu.memory_total or np.nan for gpu in job.evidence.gpus], np.float64)
    if not np.isfinite(totals).any():
        raise Unknown("how much memory these GPUs have is unknown")
    return np.asarray(job.evidence.greatest["memory_used"] / totals, np.float64)
