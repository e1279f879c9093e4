"""Rules about what the GPUs wait for: input and output, transfers, other GPUs, the CPU."""

from collections.abc import Callable
from functools import wraps

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import CLEARLY, Job, stretches
from gssr.model.verdicts.table import DCGM, KEMPNER, LEAD, Found, Rule, Threshold, finding, rule, told

_READS = {
    "read_bytes": "read from their disks",
    "write_bytes": "write to their disks",
    "net_rx_bytes": "receive over the network",
    "net_tx_bytes": "send over the network",
}
_C2C = ("c2c_rx_bytes", "c2c_tx_bytes")
_PCIE = ("pcie_rx_bytes", "pcie_tx_bytes")
_DIRECTIONS = {"rx": "to the GPUs", "tx": "from the GPUs"}
_ALL = 0.9
"""Glimpses of so much of the time leave nothing out that is worth telling."""
Condition = Callable[[Job, Rule], Found | None]


def _seen(condition: Condition) -> Condition:
    """What the condition finds in the first of the job's looks, which sees all of the time, unless a later one shows it for
    clearly more of that."""

    @wraps(condition)
    def seen(job: Job, rule: Rule) -> Found | None:
        best: tuple[float, Job, Found, Flags] | None = None
        for look in job.looks:
            found = condition(look, rule)
            if found is None:
                continue
            bins = np.asarray(found.bins, bool)
            share = look.share(bins)
            if best is None or share > CLEARLY * best[0]:
                best = share, look, found, bins
        if best is None or best[1] is job:
            return None if best is None else best[2]
        _, look, found, bins = best
        findings = found.findings
        if look.whole is not None:
            found, findings = found._replace(span=job.span), (*findings, *_glimpsed(look))
        return found._replace(findings=findings, bins=job.seen_in(look, bins))

    return seen


def _glimpsed(look: Job) -> list[Finding]:
    """What glimpses leave out, where they do."""
    times, width = look.evidence.times, look.evidence.width
    n = 1 + int((np.diff(times) > 1.5 * width).sum())
    seconds = (len(times) - n + 1) * width
    if seconds >= _ALL * look.evidence.seconds:
        return []
    return [
        told("seconds", seconds, f"seen in {n} stretches of {words.duration(seconds / n)} that stand for all the time")
    ]


@rule(
    "warning", "The GPUs wait {long} while the nodes {what}",
    (
        Threshold("rate", 100e6, "disk or network of a node moves at least so much while the GPUs wait"),
        Threshold("more", 1.5, "and so many times what they move while the GPUs work"),
        Threshold("share", 0.02, "that is at least this share of the time"),
        Threshold("critical", 0.25, "from this share on it is critical"),
    ),
    "Read ahead in more workers, keep data in larger files or on node-local storage, and write checkpoints in the "
    "background.",
    needs=(LEAD, tuple(_READS)), explains=("transfer_bound", "cpu_starved", "pauses", "gaps", "low_use"),
)  # fmt: skip
@_seen
def io_wait(job: Job, rule: Rule) -> Found | None:
    """The nodes' disks or network are busy while the GPUs wait."""
    best: tuple[float, str, Flags, float, float] | None = None
    for name in _READS:
        if name not in job.evidence.host:
            continue
        rate = job.evidence.host[name]
        # Waits shorter than a bin hide in others, too: least in those of most work.
        usual = float(np.nan_to_num(_mean(rate, job.working & ~job.waiting & (job.mean >= job.level))))
        busy = _whole_waits(job, rate, max(rule.at("rate"), rule.at("more") * usual), max(rule.at("rate"), usual))
        share = job.share(busy)
        if share >= rule.at("share") and (best is None or share > best[0]):
            best = share, name, busy, _mean(rate, busy), usual
    if best is None:
        return None
    share, name, busy, rate_then, usual = best
    evidence = (
        finding(name, rate_then, "per node meanwhile", rule, "rate"),
        told(name, usual, f"{words.amount(usual, name)} while the GPUs work"),
        finding("share", share, "of the time", rule, "share"),
    )
    return Found(
        {"what": _READS[name], "long": _long(job, share)}, evidence, rule.graded(share), job.around(busy), (), busy
    )


def _whole_waits(job: Job, rate: Floats, high: float, usual: float) -> Flags:
    """[n_bins]: waits in which ``rate`` is ``high`` in some bin and not below ``usual`` on average, from begin to end: rates
    waver, and are sampled once a second."""
    bins = np.zeros(len(rate), bool)
    for first, end in stretches(job.waiting):
        own = rate[first:end]
        known = own[np.isfinite(own)]
        bins[first:end] = len(known) > 0 and bool(known.max() >= high and known.mean() >= usual)
    return bins


@rule(
    "warning", "The GPUs wait {long} while {link} carries {rate}",
    (
        Threshold("rate", 1e9, "a GPU moves at least so much over PCIe (on Grace: C2C) while the GPUs wait", KEMPNER),
        Threshold("load", 0.05, "and this share of the link's bandwidth, where that is known: less holds nothing up"),
        Threshold("copy", 0.4, "or so much of the time goes to memory copies (no C2C, no PCIe counters)", KEMPNER),
        Threshold("share", 0.02, "that is at least this share of the time"),
        Threshold("critical", 0.25, "from this share on it is critical"),
    ),
    "Copy less and earlier: pinned memory, asynchronous copies beside the computation, data that stays on the GPU.",
    needs=(LEAD, (*_PCIE, *_C2C, "memory_copy_utilization")), explains=("pauses", "gaps", "low_use"),
)  # fmt: skip
@_seen
def transfer_bound(job: Job, rule: Rule) -> Found | None:
    """The link to the host is busy while the GPUs wait."""
    on_grace = job.evidence.has("c2c_rx_bytes") and (job.evidence.mean("c2c_rx_bytes") or 0.0) > 0
    link, names = ("C2C", _C2C) if on_grace else ("PCIe", _PCIE)
    rates = {name: job.in_time(name) for name in names if job.evidence.has(name)}
    if not rates:
        copies = job.in_time("memory_copy_utilization")
        busy = job.waiting & (copies >= rule.at("copy"))
        found = {"link": "the memory", "rate": "copies"}
        numbers = [finding("memory_copy_utilization", _mean(copies, busy), "meanwhile", rule, "copy")]
    else:
        greatest = np.fmax.reduce(list(rates.values()))
        peaks = job.evidence.peaks
        full = (peaks.c2c_bandwidth if on_grace else peaks.pcie_bandwidth) if peaks else None
        busy = _between_kernels(job) & (greatest >= max(rule.at("rate"), rule.at("load") * (full or 0.0)))
        means = {name: _mean(rate, busy) for name, rate in rates.items()}
        name = max(means, key=lambda each: np.nan_to_num(means[each]))
        found = {"link": link, "rate": f"{words.amount(means[name], name)} {_DIRECTIONS[name.split('_')[1]]}"}
        numbers = [finding(name, means[name], "per GPU meanwhile", rule, "rate")]
    share = job.share(busy)
    if share < rule.at("share"):
        return None
    lead = _mean(job.mean, busy)
    if job.lead:
        numbers.append(told(job.lead, lead, f"{words.label(job.lead)} {words.percent(lead)} meanwhile"))
    numbers.append(finding("share", share, "of the time", rule, "share"))
    found["long"] = _long(job, share)
    return Found(found, tuple(numbers), rule.graded(share), job.around(busy), (), busy)


@rule(
    "warning", "The GPUs wait {long} while NVLink carries {rate} a GPU",
    (
        Threshold("load", 0.15, "NVLink carries at least this share of its bandwidth (that of one direction) ..."),
        Threshold("bandwidth", 300e9, "... which is taken to be this where it is unknown", least=1.0),
        Threshold("more", 1.1, "and so many times what it carries while the GPUs work, or they never do"),
        Threshold("share", 0.05, "while the GPUs wait, for at least this share of the time"),
        Threshold("busy", 0.4, "or it carries this share of its bandwidth all the time ..."),
        Threshold("arithmetic", 0.25, "... while the arithmetic pipes' activities sum up to less than this"),
        Threshold("sm_active", 0.5, "or the first share all the time while SM activity is below this ...", DCGM),
        Threshold(
            "gr_engine_active", 0.8, "... and the engine is active at least this much: in kernels that move data"
        ),
        Threshold("critical", 0.25, "from this share of the time on it is critical"),
    ),
    "Overlap communication with computation (bucketed gradients, streams), send less or less often (larger batches, "
    "gradient accumulation), keep heavy exchange within a node.",
    needs=(LEAD, ("nvlink_tx_bytes", "nvlink_rx_bytes")),
    explains=("cpu_starved", "pauses", "gaps", "little_arithmetic", "low_use"),
)  # fmt: skip
@_seen
def communication_bound(job: Job, rule: Rule) -> Found | None:
    """NVLink is busy while the GPUs wait, or all the time while they compute little: in steps shorter than a bin."""
    peaks = job.evidence.peaks
    full = (peaks.nvlink_bandwidth if peaks else None) or rule.at("bandwidth")
    rates = [job.in_time(name) for name in ("nvlink_tx_bytes", "nvlink_rx_bytes") if job.evidence.has(name)]
    if not rates:
        return None
    rate = np.fmax.reduce(rates)
    usual = float(np.nan_to_num(_mean(rate, job.working & ~job.waiting)))
    busy = job.waiting & (rate >= max(rule.at("load") * full, rule.at("more") * usual))
    share = job.share(busy)
    arithmetic = job.over("flop_active", job.steady)
    steady = _mean(rate, job.steady)
    little = arithmetic is not None and steady >= rule.at("busy") * full and arithmetic < rule.at("arithmetic")
    moving = job.at_work("sm_active") < rule.at("sm_active") and job.at_work("gr_engine_active") >= rule.at(
        "gr_engine_active"
    )
    if little or (moving and steady >= rule.at("load") * full):
        busy, share = job.steady, job.share(job.steady)
    if share < rule.at("share"):
        return None
    own = _mean(rate, busy)
    load = own / full
    evidence = (
        told(
            "nvlink_tx_bytes",
            own,
            f"NVLink at {words.percent(load)} of its bandwidth meanwhile",
            rule.at("load") * full,
        ),
        finding("share", share, "of the time", rule, "share"),
    )
    found = {"rate": words.amount(own, "nvlink_tx_bytes"), "long": _long(job, share)}
    return Found(found, evidence, rule.graded(share), job.around(busy), (), busy)


@rule(
    "warning", "The GPUs wait {long} for the CPU: {what}",
    (
        Threshold("share", 0.1, "the GPUs wait for at least this share of the time"),
        Threshold("cores_low", 0.85, "meanwhile each rank keeps at least so many cores busy ..."),
        Threshold("cores_high", 1.2, "... and at most so many: one, or ..."),
        Threshold("node", 0.9, "... the node's cores are busy to this share"),
        Threshold("critical", 0.5, "from this share of the time on it is critical"),
    ),
    "Use more worker processes for loading and preparing data, or move it to the GPU; check that the job's CPU binding "
    "gives each rank more than one core.",
    needs=(LEAD, ("workload_cpu", "cpu_utilization")), explains=("gaps", "pauses", "low_use"),
)  # fmt: skip
@_seen
def cpu_starved(job: Job, rule: Rule) -> Found | None:
    """One core, or all of the node's, are busy while the GPUs wait."""
    bins = _between_kernels(job)
    share = job.share(bins)
    if share < rule.at("share"):
        return None
    cores = _mean(job.evidence.workload.get("cpu"), bins)
    node = _mean(job.evidence.host.get("cpu_utilization"), bins)
    if node >= rule.at("node"):
        what = "all cores of the nodes are busy"
        found = finding("cpu_utilization", node, "meanwhile", rule, "node")
    elif rule.at("cores_low") <= cores <= rule.at("cores_high"):
        what = "each rank keeps just one core busy"
        found = told("workload_cpu", cores, f"{cores:.2g} cores busy per rank", rule.at("cores_high"))
    else:
        return None
    evidence = (found, finding("share", share, "of the time the GPUs wait", rule, "share"))
    return Found({"what": what, "long": _long(job, share)}, evidence, rule.graded(share), job.around(bins), (), bins)


def _between_kernels(job: Job) -> Flags:
    """[n_bins]: when the job waits; all the time, where that is shorter than a bin and shows as a little active engine."""
    engine = job.over("gr_engine_active", job.working) if job.working.any() else None
    short = engine is not None and engine < job.common("gaps")
    return job.waiting | job.working if short else job.waiting


def _long(job: Job, share: float) -> str:
    """A share of the time with how long that is."""
    return f"{words.percent(share)} of the time ({words.duration(share * job.evidence.seconds)})"


def _mean(values: Floats | None, bins: Flags) -> float:
    """NaN without any."""
    if values is None:
        return np.nan
    own = values[bins]
    known = own[np.isfinite(own)]
    return float(known.mean()) if len(known) else np.nan
