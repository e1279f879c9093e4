"""Rules about what the GPUs wait for: input and output, transfers, other GPUs, the CPU."""

from collections.abc import Callable
from functools import wraps

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.evidence.gather import BRIEF, SPARSE
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import BUSY, CLEARLY, SPINNING, Job, stretches
from gssr.model.verdicts.table import KEMPNER, LEAD, NSYS_AI, Found, Rule, Threshold, finding, rule, told

_READS = {
    "read_bytes": "read from their disks",
    "write_bytes": "write to their disks",
    "net_rx_bytes": "receive over the network",
    "net_tx_bytes": "send over the network",
}
_SENT, _LATE = ("write_bytes", "net_tx_bytes"), 1.0
"""What leaves a node, which waits end with, as those for checkpoints: a row tells the rate of the second before it. What is
read in that second may be read ahead for the work after the wait."""
_C2C = ("c2c_rx_bytes", "c2c_tx_bytes")
_PCIE = ("pcie_rx_bytes", "pcie_tx_bytes")
_DIRECTIONS = {"rx": "to the GPUs", "tx": "from the GPUs"}
_COMPUTING, _USUAL = 0.8, 0.88
"""SM activity beside the engine's, of kernels that compute: at least, and as is usual."""
_MANY, _LOWER = 0.2, 0.85
_ALIKE = 0.6
_FEWEST = 2
"""GPUs that can exchange anything."""
_ALL = 0.9
"""Glimpses of so much of the time leave nothing out that is worth telling."""
_FEWEST_BINS = 10
"""Fewer make no line."""
_SWING = 0.03
"""The engine's activity differs by this (standard deviation) where that is no mere noise."""
_HARDLY = 4.0
"""Times as much makes the rest of what a link carries hardly anything."""
_RESOLVED = 3
"""Waits of so many bins are seen whole."""
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
    "info", "The GPUs wait {long} while the nodes {what}",
    (
        Threshold("rate", 100e6, "disk or network of a node moves at least this much while the GPUs wait"),
        Threshold("more", 1.5, "and this many times what they move while the GPUs work"),
        Threshold("share", 0.02, "that is at least this share of the time"),
        Threshold("warning", 0.05, "from this share on it is a warning"),
        Threshold("one", 5.0, "or one node does, and that is this many times what all move on average while the GPUs work"),
        Threshold("unseen", 0.12, "waits shorter than any sample: the engine idles for this share, and this much is moved"),
        Threshold("correlation", 0.6, "waits shorter than a sample: activity falls with the seconds of such rates"),
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
        late = _LATE if name in _SENT else 0.0
        busy = _whole_waits(job, rate, max(rule.at("rate"), rule.at("more") * usual), max(rule.at("rate"), usual), late)
        one = max(rule.at("rate") / max(len(job.evidence.nodes), 1), rule.at("one") * usual)
        busy |= _whole_waits(job, rate, one, one / 2, late)
        share = job.share(busy)
        if share >= rule.at("share") and (best is None or share > best[0]):
            best = share, name, busy, _mean(rate, busy), usual
    within = _within_bins(job, rule) or _all_along(job, rule)
    if within is not None and (best is None or within[0] > CLEARLY * best[0]):
        return within[1]
    if best is None:
        return None
    share, name, busy, rate_then, usual = best
    evidence = (
        finding(name, rate_then, "per node meanwhile", rule, "rate"),
        told(name, usual, f"{words.amount(usual, name)} while the GPUs work"),
        finding("share", share, "of the time", rule, "share"),
    )
    found = {"what": _READS[name], "long": _long(job, share)}
    lost = share
    if not job.by_power:  # which lags behind: bins in which a wait begins or ends
        edges = np.zeros(len(busy), bool)
        edges[1:] |= busy[:-1]
        edges[:-1] |= busy[1:]
        edges &= ~busy & job.steady
        lost += job.share(np.where(edges, job.lacks, 0.0))
    if busy.sum() < _RESOLVED * len(stretches(busy)):  # many more hide within bins of work
        lost = max(lost, job.idle)
    return Found(found, evidence, rule.graded(share), job.around(busy), (), busy, lost=lost)


def _within_bins(job: Job, rule: Rule) -> tuple[float, Found] | None:
    """Waits shorter than the GPUs' samples, of nodes that were sampled each second: the more of its seconds a bin
    spends with such rates, the less active are the GPUs in it. What is lost: the line through both, less what it is
    without any."""
    best: tuple[float, str, Floats, float] | None = None
    for name, moving in job.evidence.moving.items():
        at = job.steady & np.isfinite(moving) & np.isfinite(job.mean)
        without, slope, correlation = _line(moving[at], job.mean[at])
        share = min(-slope * float(moving[at].mean()) / without, 1.0) if without > 0 else 0.0
        if correlation <= -rule.at("correlation") and share >= rule.at("share") and (best is None or share > best[0]):
            best = share, name, np.where(at, -slope / without * moving, 0.0), correlation
    if best is None:
        return None
    share, name, lost, correlation = best
    evidence = (
        told(
            "correlation", correlation, f"correlation of that with activity {correlation:.2f}", -rule.at("correlation")
        ),
        finding("share", share, "of the time", rule, "share"),
    )
    found = {"what": _READS[name], "long": _long(job, share)}
    bins = np.clip(np.divide(lost, job.lacks, out=np.zeros(len(lost)), where=job.lacks > 0), 0.0, 1.0)
    return share, Found(found, evidence, rule.graded(share), job.around(lost > 0), (), bins, lost=share)


def _line(x: Floats, y: Floats) -> tuple[float, float, float]:
    """The line through values y [n] over x [n]: its height at 0, its slope, and their correlation; NaN of few or alike."""
    if len(x) < _FEWEST_BINS or not x.std() > 0 or not y.std() > 0:
        return np.nan, np.nan, np.nan
    slope, height = np.polyfit(x, y, 1).tolist()
    return height, slope, float(np.corrcoef(x, y)[0, 1])


def _all_along(job: Job, rule: Rule) -> tuple[float, Found] | None:
    """Waits shorter than samples, of the GPUs or of the nodes, or between samples that are far apart: the engine is idle for
    a part of the time, and disks or network are busy all along."""
    width = job.evidence.width
    if width > max(1.5 * job.evidence.interval, BRIEF):
        return None  # samples tell more than these bins
    weight = _between_kernels(job)
    for first, end in stretches(job.waiting) if job.evidence.interval < SPARSE else ():
        if (end - first) * width > BRIEF:  # others are over before the nodes' next row
            weight[first:end] = 0.0
    share = min(job.share(weight), job.idle)
    means = {name: _mean(job.evidence.host.get(name), weight > 0) for name in _READS if (weight > 0).any()}
    name = max(means, key=lambda each: np.nan_to_num(means[each]), default="")
    if not name or not means[name] >= rule.at("rate") or share < rule.at("unseen"):
        return None
    evidence = (
        finding(name, means[name], "per node throughout", rule, "rate"),
        told(
            "gr_engine_active", 1 - share, f"the engine is idle for {words.percent(share)} of the time between kernels"
        ),
        finding("share", share, "of the time", rule, "share"),
    )
    found = {"what": f"{_READS[name]} throughout", "long": _long(job, share)}
    return share, Found(found, evidence, rule.graded(share), job.around(weight > 0), (), weight, lost=share)


def _whole_waits(job: Job, rate: Floats, high: float, usual: float, late: float) -> Flags:
    """[n_bins]: waits in which ``rate`` is ``high`` in some bin and not below ``usual`` on average, from begin to end: rates
    waver, and are sampled once a second. ``late``: up to so many s after its end a wait's rate is told."""
    bins = np.zeros(len(rate), bool)
    rest = round(late / job.evidence.width)
    for first, end in stretches(job.waiting):
        own = rate[first : end + rest]
        known = own[np.isfinite(own)]
        bins[first:end] = len(known) > 0 and bool(known.max() >= high and known.mean() >= usual)
    return bins


@rule(
    "warning", "Communication is not hidden: {what}",
    (
        Threshold("gr_engine_active", 0.9, "kernels of collectives spin: the engines of several GPUs are this active ..."),
        Threshold("sm_share", 0.65, "... while SM activity is below this share of it, ..."),
        Threshold("dram_active", 0.5, "... DRAM is less active than this ..."),
        Threshold("arithmetic", 0.5, "... and the arithmetic pipes' activities sum up to less than this"),
        Threshold("link", 0.02, "meanwhile NVLink carries this share of its bandwidth (that of one direction), ..."),
        Threshold("fabric", 2e9, "... or a GPU's share of the fabric, or its PCIe, both ways, this (where measured)"),
        Threshold("fewest", 0.08, "SM activity is at least this share of the engine's: collectives take some SMs"),
        Threshold("load", 0.15, "or NVLink carries this share ..."),
        Threshold("bandwidth", 300e9, "... of its bandwidth, which is taken to be this where it is unknown ...", least=1.0),
        Threshold("more", 1.1, "... and this many times what it carries while the GPUs work, while they wait"),
        Threshold("busy", 0.3, "or all SMs take part: NVLink carries this share ..."),
        Threshold("flop_active", 0.35, "... while the pipes' activities sum up to less than this"),
        Threshold("share", 0.1, "for at least this share of the time", NSYS_AI),
        Threshold("by_look", 0.2, "or this, where only kernels' look tells it"),
        Threshold("critical", 0.25, "from this share of the time on it is critical"),
    ),
    "Overlap communication with computation (bucketed gradients, streams), send less or less often (larger batches, "
    "gradient accumulation), keep heavy exchange within a node. Which collectives: nsys profile --trace=cuda,nvtx on one "
    "rank, or torch.profiler, then gssr analyze TRACE.",
    needs=(LEAD, ("nvlink_tx_bytes", "nvlink_rx_bytes", "gr_engine_active")),
    explains=("recurring_dips", "pauses", "small_kernels", "low_occupancy", "gaps",
              "little_arithmetic", "memory_bound", "low_use"),
)  # fmt: skip
@_seen
def communication_bound(job: Job, rule: Rule) -> Found | None:
    """The GPUs run kernels that move data and wait for those of other GPUs, or NVLink is busy while they wait. In steps
    shorter than a bin, bins hold both work and collectives: of these counts the share that their SMs lack."""
    if job.used.sum() < _FEWEST:
        return None
    peaks = job.evidence.peaks
    full = (peaks.nvlink_bandwidth if peaks else None) or rule.at("bandwidth")
    link = np.fmax(job.in_time("nvlink_tx_bytes"), job.in_time("nvlink_rx_bytes"))
    usual = float(np.nan_to_num(_mean(link, job.working & ~job.waiting)))
    flop = job.in_time("flop_active")
    little = ~(flop >= rule.at("flop_active"))
    waits = job.waiting & (link >= max(rule.at("load") * full, rule.at("more") * usual))
    spins, exposed = _collectives(job, rule, link >= rule.at("link") * full)
    steady = _mean(link, job.steady)
    whole = steady >= rule.at("busy") * full and _mean(flop, job.steady) < rule.at("flop_active")
    every = job.steady & little if whole else np.zeros(len(link), bool)
    weight = np.where(waits, 1.0, np.where(spins, exposed, np.where(every, np.nan_to_num(link / full), 0.0)))
    share = job.share(np.where(job.steady, weight, 0.0))
    bins = waits | spins | every
    if share < rule.at("share" if job.share(waits | every) >= rule.at("share") else "by_look"):
        return None
    own = _mean(link, bins)
    engine, sm = _mean(job.in_time("gr_engine_active"), bins), _mean(job.in_time("sm_active"), bins)
    carried = f"NVLink carries {words.amount(own, 'nvlink_tx_bytes')} a GPU" if own >= rule.at("link") * full else ""
    if spins.any() and np.isfinite(engine) and np.isfinite(sm):
        what = f"the engines are {words.percent(engine)} busy, {words.percent(sm)} of the SMs are"
        what = f"{_long(job, share)} by its look: {what}" + (f", and {carried}" if carried else "")
    else:
        what = f"the GPUs wait {_long(job, share)} while {carried or 'the links are busy'}"
    numbers = []
    if np.isfinite(own):
        text = f"NVLink at {words.percent(own / full)} of its bandwidth meanwhile"
        numbers.append(told("nvlink_tx_bytes", own, text, rule.at("link") * full))
    if np.isfinite(engine) and np.isfinite(sm) and engine > 0:
        text = f"SM activity is {words.percent(sm / engine)} of the engine's"
        numbers.append(told("sm_active", sm, text, rule.at("sm_share") * engine))
    numbers.append(finding("share", share, "of the time", rule, "share"))
    likely = np.where(waits, 1.0, _exposed(job, _USUAL) if spins.any() else 0.0)
    lost = None if every.any() else job.share(np.where(job.steady, likely, 0.0))
    return Found({"what": what}, tuple(numbers), rule.graded(share), job.around(bins), (), bins, lost=lost)


def _collectives(job: Job, rule: Rule, linked: Flags) -> tuple[Flags, Floats]:
    """[n_bins] each: where the engines are busy as with collectives' kernels, and what part of the time these take."""
    ratio, evidence = _of_the_engine(job), job.evidence
    spins = job.steady & (job.in_time("gr_engine_active") >= rule.at("gr_engine_active"))
    spins &= (ratio < rule.at("sm_share")) & (ratio >= rule.at("fewest"))
    spins &= ~(job.in_time("dram_active") >= rule.at("dram_active"))
    spins &= ~(job.in_time("flop_active") >= rule.at("arithmetic"))
    nothing = np.full(len(ratio), np.nan)
    fabric = np.minimum(*(evidence.host.get(name, nothing) for name in ("fabric_rx_bytes", "fabric_tx_bytes")))
    fabric = fabric * max(len(evidence.nodes), 1) / evidence.n_gpus  # a GPU's share
    host = np.minimum(*(job.in_time(name) for name in _PCIE))
    seen = linked | (fabric >= rule.at("fabric")) | (host >= rule.at("fabric"))
    measured = np.isfinite(job.in_time("nvlink_tx_bytes")) | np.isfinite(fabric) | np.isfinite(host)
    quiet = job.steady & measured & ~seen & np.isfinite(ratio)
    if quiet.sum() >= _MANY * job.steady.sum():  # where nothing is sent: are the SMs as idle there, it is the kernels
        spins &= ratio < _LOWER * float(np.median(ratio[quiet]))
    return spins & (seen | ~measured), _exposed(job, _COMPUTING)


def _exposed(job: Job, computing: float) -> Floats:
    """[n_bins]: what part of the time collectives' kernels take: those that compute keep the SMs as busy beside the engine
    as in the best tenth of the bins, or this ``computing``."""
    ratio = _of_the_engine(job)
    known = ratio[job.steady & np.isfinite(ratio)]
    best = max(computing, float(np.percentile(known, 90))) if len(known) else computing
    return np.asarray(np.nan_to_num(np.clip((best - ratio) / (best - SPINNING), 0.0, 1.0)), np.float64)


def _of_the_engine(job: Job) -> Floats:
    """[n_bins]: SM activity as a share of the engine's; NaN where no kernel runs, or one of them was not measured."""
    engine, sm = job.in_time("gr_engine_active"), job.in_time("sm_active")
    return np.asarray(np.divide(sm, engine, out=np.full(len(sm), np.nan), where=engine > 0), np.float64)


def _through_adapters(job: Job) -> Flags:
    """[n_bins]: where PCIe carries as much one way as the other beside a busy engine, in a job on several nodes: that goes
    to and from network adapters, and is no copy of the host's."""
    one, other, engine = (job.in_time(name) for name in (*_PCIE, "gr_engine_active"))
    both = np.minimum(one, other) >= _ALIKE * np.maximum(one, other)
    return np.asarray(both & (engine >= BUSY), bool) if len(job.evidence.nodes) > 1 else np.zeros(len(one), bool)


@rule(
    "info", "The GPUs wait {long} while {link} carries {rate}",
    (
        Threshold("rate", 1e9, "a GPU moves at least this much over PCIe (on Grace: C2C) while the GPUs wait", KEMPNER),
        Threshold("load", 0.05, "and this share of the link's bandwidth, where that is known: less holds nothing up"),
        Threshold("bandwidth", 450e9, "C2C's is taken to be this where it is unknown, as on every Grace Hopper", least=1.0),
        Threshold("more", 1.25, "and this many times what it carries at work, in waits that samples show"),
        Threshold("correlation", 0.6, "or, in waits shorter than a sample, the more the less active the engine is"),
        Threshold("copy", 0.4, "or this much of the time goes to memory copies (no C2C, no PCIe counters)", KEMPNER),
        Threshold("share", 0.02, "that is at least this share of the time"),
        Threshold("warning", 0.05, "from this share on it is a warning"),
        Threshold("critical", 0.25, "from this share on it is critical"),
    ),
    "Copy less and earlier: pinned memory, asynchronous copies beside the computation, data that stays on the GPU.",
    needs=(LEAD, (*_PCIE, *_C2C, "memory_copy_utilization")), explains=("cpu_starved", "pauses", "gaps", "low_use"),
)  # fmt: skip
@_seen
def transfer_bound(job: Job, rule: Rule) -> Found | None:
    """The link to the host is busy while the GPUs wait."""
    on_grace = job.evidence.has("c2c_rx_bytes") and (job.evidence.mean("c2c_rx_bytes") or 0.0) > 0
    link, names = ("C2C", _C2C) if on_grace else ("PCIe", _PCIE)
    rates = {name: job.in_time(name) for name in names if job.evidence.has(name)}
    if not rates:
        copies = job.in_time("memory_copy_utilization")
        busy = job.waiting & (
            copies >= max(rule.at("copy"), CLEARLY * np.nan_to_num(_mean(copies, job.working & ~job.waiting)))
        )
        weight = busy.astype(np.float64)
        found = {"link": "the memory", "rate": "copies"}
        numbers = [finding("memory_copy_utilization", _mean(copies, busy), "meanwhile", rule, "copy")]
    else:
        greatest = np.fmax.reduce(list(rates.values()))
        peaks = job.evidence.peaks
        full = (peaks.c2c_bandwidth if on_grace else peaks.pcie_bandwidth) if peaks else None
        full = full or (rule.at("bandwidth") if on_grace else 0.0)
        weight = _between_kernels(job)
        carried, rises = _carried_between_kernels(job, greatest, rule)
        if rises:
            weight = np.where(job.waiting, weight, 0.0)
        usual = np.nan_to_num(_mean(greatest, job.working & ~job.waiting))
        least = np.where(job.waiting, rule.at("more") * usual, 0.0)  # bins of work hold their waits themselves
        least = np.zeros(len(least)) if carried else np.maximum(least, max(rule.at("rate"), rule.at("load") * full))
        busy = (weight > 0) & (greatest >= least) & ~_through_adapters(job)
        weight = np.where(busy, weight, 0.0)
        means = {name: _mean(rate, busy) for name, rate in rates.items()}
        name = max(means, key=lambda each: np.nan_to_num(means[each]))
        own = carried or means[name]
        found = {"link": link, "rate": f"{words.amount(own, name)} {_DIRECTIONS[name.split('_')[1]]}"}
        numbers = [finding(name, own, "per GPU meanwhile", rule, "rate")]
    share = job.share(weight)
    if share < rule.at("share"):
        return None
    numbers += _activity_in(job, busy)
    numbers.append(finding("share", share, "of the time", rule, "share"))
    found["long"] = _long(job, share)
    return Found(found, tuple(numbers), rule.graded(share), job.around(busy), (), busy, lost=min(share, job.idle))


def _activity_in(job: Job, waits: Flags) -> list[Finding]:
    """How active the GPUs are in these waits; where all are shorter than a bin, how active the engine is beside them."""
    whole = waits & job.waiting
    if whole.any() and job.lead:
        lead = _mean(job.mean, whole)
        return [told(job.lead, lead, f"{job.lead_label} {words.percent(lead)} meanwhile")]
    name = _engine_of(job)
    engine = _mean(job.in_time(name), waits)
    text = f"{words.label(name)} {words.percent(engine)}: each wait is shorter than a sample"
    return [told(name, engine, text)] if np.isfinite(engine) else []


def _carried_between_kernels(job: Job, rate: Floats, rule: Rule) -> tuple[float, bool]:
    """What a link carries (B/s) while no kernel runs, where waits are shorter than samples: as the line through its ``rate``
    over the engine's activity tells. 0 where that shows no such waits: hardly anything is left where kernels run all the
    time, nor less than nothing. And whether it carries the more the more active the engine is: it is not waited for."""
    engine = job.in_time("gr_engine_active")
    at = job.working & ~job.waiting & np.isfinite(rate) & np.isfinite(engine)
    if not at.any() or np.mean(engine[at]) >= job.common("gaps"):
        return 0.0, False  # waits shorter than a bin are rare
    idle, slope, correlation = _line(engine[at], rate[at])
    shown = correlation <= -rule.at("correlation") and idle >= max(rule.at("rate"), _HARDLY * abs(idle + slope))
    return idle if shown else 0.0, correlation >= rule.at("correlation") and bool(engine[at].std() >= _SWING)


@rule(
    "warning", "The GPUs wait {long} for the CPU: {what}",
    (
        Threshold("share", 0.1, "the GPUs wait for at least this share of the time"),
        Threshold("cores_low", 0.85, "meanwhile each rank keeps at least this many cores busy ..."),
        Threshold("cores_high", 1.2, "... and at most this many: one, or ..."),
        Threshold("node", 0.9, "... the node's cores are busy to this share"),
        Threshold("gr_engine_active", 0.7, "where the engine is as active as this no GPU waits for the CPU"),
        Threshold("critical", 0.5, "from this share of the time on it is critical"),
    ),
    "Use more worker processes for loading and preparing data, or move it to the GPU; check that each rank has more "
    "than one core (#SBATCH --cpus-per-task=8; srun --cpu-bind=verbose says which).",
    needs=(LEAD, ("workload_cpu", "cpu_utilization")), explains=("gaps", "pauses", "recurring_dips", "low_use"),
    delays=("imbalance", "straggler"),
)  # fmt: skip
@_seen
def cpu_starved(job: Job, rule: Rule) -> Found | None:
    """One core, or all of the node's, are busy while the GPUs wait."""
    weight = np.where(job.in_time("gr_engine_active") >= rule.at("gr_engine_active"), 0.0, _between_kernels(job))
    between = weight > 0
    node = _mean(job.evidence.host.get("cpu_utilization"), between)
    all_busy = node >= rule.at("node")
    # A rank that launches kernels, or spins for their end, keeps one core busy as well: short gaps are no sign of a loader,
    # nor are any where it is not known whether a kernel runs.
    bins = between if all_busy else between & job.waiting
    share = job.share(np.where(bins, weight, 0.0))
    cores, at_work = (_mean(job.evidence.workload.get("cpu"), each) for each in (bins, job.working & ~bins))
    if share < rule.at("share"):
        return None
    if all_busy:
        what = "all cores of the nodes are busy"
        found = finding("cpu_utilization", node, "meanwhile", rule, "node")
    elif CLEARLY * cores < at_work:
        return None  # cores rest meanwhile: the GPUs don't wait for them
    elif rule.at("cores_low") <= cores <= rule.at("cores_high") and job.evidence.has("gr_engine_active"):
        what = "each rank keeps just one core busy"
        found = told("workload_cpu", cores, f"{words.counted(cores, 'core')} busy per rank", rule.at("cores_high"))
    else:
        return None
    evidence = (found, finding("share", share, "of the time the GPUs wait", rule, "share"))
    said = {"what": what, "long": _long(job, share)}
    return Found(said, evidence, rule.graded(share), job.around(bins), (), bins, lost=job.idle)


def _between_kernels(job: Job) -> Floats:
    """[n_bins]: what part (0-1) of each bin the job waits: all of those in which it does little; of others, where its waits
    are shorter than a bin, what the engine is idle."""
    name = _engine_of(job)
    engine = job.in_time(name)
    short = job.at_work(name) < job.common("gaps")
    within = np.where(job.working & short, np.clip(np.nan_to_num(1 - engine), 0.0, 1.0), 0.0)
    return np.where(job.waiting & ~(engine >= BUSY), 1.0, within)


def _engine_of(job: Job) -> str:
    """The metric that tells whether a kernel runs."""
    return "gr_engine_active" if job.evidence.has("gr_engine_active") else "gpu_utilization"


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
