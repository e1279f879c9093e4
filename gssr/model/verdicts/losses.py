"""Verdicts on GPU time that is lost, each read from the account of where it went (gssr.model.breakdown).

A rule here asks for the share of one category. It never looks at the idle time as a whole, so no two of them claim the same
second. What a sentence says of rates holds on average over the time that it claims.
"""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.account.active_time import ONE_WARP_PER_SCHEDULER
from gssr.model.account.activity import does_something
from gssr.model.account.compare_gpus import LONG_SAMPLES
from gssr.model.account.idle_time import BUSY_CORES, MOVED_BYTES
from gssr.model.account.late_gpus import LateGpus
from gssr.model.account.link_traffic import is_nvlink_quiet
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.awaited_gpus import find_awaited_gpus, waits_by_node, who_waits_least
from gssr.model.verdicts.job import JobEvidence, group, holds, stretches
from gssr.model.verdicts.table import (
    CRITICAL,
    LEAD,
    LEAST_TOLD,
    Rule,
    RuleMatch,
    Threshold,
    finding,
    finding_in_words,
    register_rule,
)

_WRITTEN = ("write_bytes", "net_tx_bytes", "fabric_tx_bytes")
_MOVED = ("read_bytes", "net_rx_bytes", "fabric_rx_bytes", *_WRITTEN)
_READ_AHEAD = "Read ahead in more workers, or stage files to node-local storage."
_WRITE_LESS = "Write checkpoints and output less often, in the background, or to node-local storage first."
_COPIED = ("pcie_rx_bytes", "pcie_tx_bytes", "c2c_rx_bytes", "c2c_tx_bytes")
_COPY_LESS_BACK = (
    "The GPUs send: copy results, checkpoints and logs to the host less often (.cpu(), .item() wait), to pinned memory and "
    "beside the computation (non_blocking=True, streams)."
)
_READ_FROM = {"read_bytes": "from its disks", "net_rx_bytes": "from the network"}
_LINKS = ("nvlink_tx_bytes", "pcie_tx_bytes")
_RESTARTED = 0.3
"""A program that has less than this share of its usual memory in use has just begun."""
_NO_CORE = 0.1
"""A rank that keeps less than this of a core busy leaves the node's CPUs to others."""
_CLOCKS = ("throttled_thermal", "throttled_power_brake", "throttled_hardware", "slow_clock")
"""The verdicts that tell of GPUs at lower clocks, and what others wait for them."""
TRACE_ADVICE = "Trace one step of one rank"
_TRACE = (
    f"{TRACE_ADVICE}, with torch.profiler or: nsys profile --trace=cuda,nvtx,osrt --export=sqlite -o step PROGRAM; then: "
    "gssr analyze TRACE"
)


_CRITICAL = Threshold("critical", CRITICAL, "from this share on it is critical")
_GUESS = Threshold(
    "guess", 0.1, "where the cause is a guess, as of samples further apart than 5 s, it is a warning from this share on",
    "healthy jobs of three simulators are given such causes for up to 7 %",
)  # fmt: skip


def _loss(*names: str) -> tuple[Threshold, ...]:
    """The thresholds of a loss: from which share on it is told, where that is less than what healthy jobs lose; a warning;
    and critical."""
    own = [CATEGORIES[POSITIONS[name]] for name in names]
    source = next((category.source for category in own if category.source), "")
    ordinary = max(category.ordinary for category in own)
    what = " and ".join(name.replace("_", " ").replace(".", ", ") for name in names)
    what = f"{what}: at least this share of the GPU time"
    if ordinary <= LEAST_TOLD:
        return Threshold("warning", ordinary, what, source or "ours"), _CRITICAL
    told = Threshold("share", LEAST_TOLD, what)
    return told, Threshold("warning", ordinary, "from this share on it is a warning", source or "ours"), _CRITICAL


def _graded(job: JobEvidence, rule: Rule, share: float, text: str, title: dict[str, str], *more: Finding,
            gpus: tuple[int, ...] = (), bins: Floats | Flags | None = None,
            advice: str = "", cause: str = "") -> RuleMatch | None:  # fmt: skip
    """Make the match of a rule about a loss, with a severity that follows from its ``share`` of the GPU time (0-1).

    Args:
        job: The evidence.
        rule: The rule, whose thresholds "share", "warning" and "critical" count.
        share: The share of the GPU time that is lost.
        text: Completes "12 % of the GPU time".
        title: Words that fill the rule's title.
        more: Further evidence.
        gpus: Positions of the GPUs that the match is about; () for all.
        bins: Where in time the loss lies [n_bins]: its share of each bin, or flags; None: unknown.
        advice: Takes the place of the rule's advice; "" leaves that.
        cause: The category whose time this is, if the rule has a threshold for a cause that is a guess.

    None below the least share that is told.
    """
    least = min(threshold.value for threshold in rule.thresholds if threshold.name in ("share", "warning"))
    if not share >= least:
        return None
    severity = rule.graded(share)
    limit = least if severity == "info" else rule.at("warning")
    counts = f"reported from {words.percent(limit)} on"
    if severity == "info":
        counts = f"up to {words.percent(rule.at('warning'))} is usual in healthy jobs"
    elif cause and share < rule.at("guess") and job.breakdown.confidence[POSITIONS[cause]] == "guess":
        severity, limit = "info", least
        counts = f"a guess, and no warning below {words.percent(rule.at('guess'))}"
    shown = finding_in_words("share", share, f"{words.percent(share)} of the GPU time {text} ({counts})", limit)
    return RuleMatch(
        {"share": words.percent(share), **title},
        (shown, *more),
        severity,
        job.span,
        gpus,
        bins,
        advice,
        share,
    )


def _rates(job: JobEvidence, name: str, metrics: tuple[str, ...]) -> list[Finding]:
    """Make a finding of the one metric that moved most in the time of the category ``name``: its mean then and over the
    whole window, or that both are the same. Metrics that moved more then than on average come before all others. [] if
    nothing moved then, or none of the ``metrics`` was measured."""
    weight = job.breakdown.share_over_time(name)
    best: tuple[bool, float, Finding] | None = None
    for metric in metrics:
        rate = job.evidence.host.get(metric)
        per = " per node" if rate is not None else " per GPU"
        rate = job.in_time(metric) if rate is None else rate
        known = np.isfinite(rate)
        if not known.any() or not weight[known].any():
            continue
        there = float(weight[known] @ rate[known] / weight[known].sum())
        mean = float(rate[known].mean())
        there_in_words, mean_in_words = words.amount(there, metric), words.amount(mean, metric)
        when = "then, as on average" if there_in_words == mean_in_words else f"then, {mean_in_words} on average"
        text = f"{words.label(metric)} {there_in_words}{per} {when}"
        if best is None or (there > mean, there) > best[:2]:
            best = there > mean, there, finding_in_words(metric, there, text)
    return [best[2]] if best is not None and best[1] > 0 else []


@register_rule(
    "warning", "{share} of the GPU time is spent waiting for files or the network{others}",
    (*_loss("idle.input_output"), _GUESS),
    "Read ahead in more workers, stage files to node-local storage, write checkpoints less often or in the background.",
    needs=(LEAD, _MOVED),
)  # fmt: skip
def io_wait(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match a job that loses GPU time waiting for files or the network (``idle.input_output``), the time in which others
    wait for GPUs that are late because of files included; these GPUs are named. Returns None below the rule's share."""
    share = job.breakdown.share("idle.input_output")
    bins = job.breakdown.share_over_time("idle.input_output")
    more = _rates(job, "idle.input_output", _MOVED)
    advice = "" if not more else _WRITE_LESS if more[0].metric in _WRITTEN else _READ_AHEAD
    memory, at_work = _mean_then(job.in_time("memory_used"), bins), job.at_work("memory_used")
    if memory is not None and memory < _RESTARTED * at_work:
        more.append(
            finding_in_words("memory_used", memory, f"{words.amount(memory, 'memory_used')} of memory in use then")
        )
        advice = (
            "The GPUs' memory is nearly empty meanwhile: the program starts anew each time. Its log may say why it ended "
            "before (out of memory?). Or keep it running between pieces of work."
        )
    gpus: tuple[int, ...] = ()
    others = ""
    if job.is_late_for_files and job.late_gpus is not None:
        share += job.late_gpus.share
        gpus = job.late_gpus.gpus
        who = words.named(job.evidence.gpus, gpus)
        others = f", {words.percent(job.late_gpus.share)} by GPUs that wait for {who}"
    return _graded(
        job, rule, share, "idle meanwhile", {"others": others}, *more,
        gpus=gpus, bins=bins, advice=advice, cause="idle.input_output",
    )  # fmt: skip


@register_rule(
    "warning", "{share} of the GPU time is spent waiting for copies between host and GPU",
    (*_loss("idle.copies"), _GUESS),
    "Copy from pinned memory (pin_memory=True) and beside the computation (non_blocking=True, streams); keep on the GPU "
    "what is used again.",
    needs=(LEAD, _COPIED),
)  # fmt: skip
def transfer_bound(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time waiting for copies to or from the host (``idle.copies``). None below the least
    threshold."""
    share = job.breakdown.share("idle.copies")
    bins = job.breakdown.share_over_time("idle.copies")
    more = _rates(job, "idle.copies", _COPIED)
    advice = _COPY_LESS_BACK if more and more[0].metric.endswith("tx_bytes") else ""
    return _graded(job, rule, share, "idle meanwhile", {}, *more, bins=bins, advice=advice, cause="idle.copies")


@register_rule(
    "warning", "{share} of the GPU time is spent waiting for the CPU{whose}",
    (
        *_loss("idle.host"),
        _GUESS,
        Threshold("cores", 0.9, "all cores are busy: so much of the node's CPUs, or of the cores that a rank may use"),
    ),
    "Move the work to the GPU, or spread it over more cores (more worker processes, threads; under Slurm --cpus-per-task).",
    needs=(LEAD, ("cpu_utilization", "workload_cpu")),
)  # fmt: skip
def cpu_starved(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time waiting for the CPU (``idle.host``). None below the least threshold."""
    share = job.breakdown.share("idle.host")
    bins = job.breakdown.share_over_time("idle.host")
    more, advice, whose = [], "", ""
    used = _mean_then(job.evidence.host.get("cpu_utilization"), bins)
    if used is not None:
        more.append(finding_in_words("cpu_utilization", used, f"{words.percent(used)} of the node's CPUs busy then"))
        if used >= rule.at("cores"):
            advice = (
                "All cores are busy: more workers would not help. Move work to the GPU, or ask for more cores per GPU."
            )
    cores = _mean_then(job.evidence.workload.get("cpu"), bins)
    if cores is not None:
        allowed = job.evidence.n_cores
        text = f"{words.counted(cores, 'core')} busy per rank then"
        if allowed is not None:
            text += f", of {allowed:.3g} that it may use"
            if cores >= rule.at("cores") * allowed and not advice:
                advice = (
                    "Each rank keeps the cores that it may use busy: ask for more of them (under Slurm --cpus-per-task), or "
                    "move work to the GPU. More workers on as many cores would not help."
                )
        more.append(finding_in_words("workload_cpu", cores, text))
        if cores < _NO_CORE and used is not None and used >= rule.at("cores"):
            whose = ", which other processes of the node keep busy"
            advice = "The job itself hardly uses the CPU: see what else runs on the node, or ask for cores of its own."
    title = {"whose": whose}
    return _graded(job, rule, share, "idle meanwhile", title, *more, bins=bins, advice=advice, cause="idle.host")


def _mean_then(values: Floats | None, weight: Floats) -> float | None:
    """Average values [n_bins] weighted by ``weight`` [n_bins]; None where none is known then."""
    if values is None:
        return None
    known = np.isfinite(values)
    total = float(weight[known].sum())
    return float(weight[known] @ values[known] / total) if total > 0 else None


# Waiting for other GPUs


_JITTER = Threshold(
    "jitter", 0.08, "less waiting in communication than this is how steps vary", "simulated healthy jobs reach 8 %"
)
_ONE_IDLES = (
    "See what its rank does meanwhile that the others do not: output that only one rank writes, logging, preparing data. "
    "This shows where it is: py-spy dump --pid PID"
)


def _late(
    job: JobEvidence, rule: Rule, code: str, text: str = "waiting for other GPUs"
) -> tuple[LateGpus, RuleMatch] | None:
    """Match GPUs that wait for others, if ``code`` is the verdict on whom they wait for. Returns whom they wait for, and
    the match, whose evidence begins with the waiting, described by ``text``. None if it is another verdict, or another
    rule tells of the same time: a hang, GPUs at lower clocks, or GPUs that are late because of files."""
    late = job.late_gpus
    if (
        late is None
        or late.code != code
        or job.is_late_for_files
        or holds(job, "hang")
        or (_are_slowed(job, late) and any(holds(job, clock) for clock in _CLOCKS))
    ):
        return None  # what waits for GPUs at lower clocks, or for files, is told with these
    title = group(job, late.gpus) if late.gpus else {}
    title["who"] = words.named(job.evidence.gpus, late.gpus) if late.gpus else ""
    awaited = find_awaited_gpus(job)
    title["why"] = f", {awaited.why}" if awaited is not None and awaited.why else ""
    waits = np.asarray(np.where(late.is_waiting, job.waits_over_time, 0.0), np.float64)
    found = _graded(job, rule, late.share, text, title, *_least_waiting(job), gpus=late.gpus, bins=waits)
    return None if found is None else (late, found)


def _are_slowed(job: JobEvidence, late: LateGpus) -> bool:
    """Tell whether those that others wait for are GPUs at lower clocks."""
    awaited = find_awaited_gpus(job)
    return bool(late.gpus and set(late.gpus) <= job.slowed_gpus) or (awaited is not None and awaited.reason == "clocks")


def _is_jitter(job: JobEvidence, rule: Rule, late: LateGpus) -> bool:
    """Tell whether GPUs wait for each other no more than in any job in step, and hardly idle meanwhile."""
    return late.share < rule.at("jitter") and job.breakdown.share("idle.imbalance") < rule.at("warning")


def _least_waiting(job: JobEvidence) -> list[Finding]:
    """Say who waits least, and who most, as one finding; none where no GPU's waits are known."""
    waits = job.waits_by_gpu
    if not np.isfinite(waits).any():
        return []
    nodes = waits_by_node(job)
    if nodes is not None:
        (least_node, least), (most_node, most) = nodes
        shares = words.percent(least), words.percent(most)
        text = f"the GPUs of {least_node} wait {shares[0]} of their time, those of {most_node} {shares[1]}"
        models = [{gpu.name for gpu in job.evidence.gpus if gpu.node == node} for node in (least_node, most_node)]
        if all(len(model) == 1 for model in models) and models[0] != models[1]:
            text += f"; they are {models[0].pop()} and {models[1].pop()}"
        return [finding_in_words("share", least, text)]
    low, high = int(np.nanargmin(waits)), int(np.nanargmax(waits))
    gpus = [job.evidence.gpus[at] for at in (low, high)]
    names = [words.gpu_label(gpu) for gpu in gpus]
    least, most = (float(waits[at]) for at in (low, high))
    text = f"{names[0]} waits {words.percent(least)} of its time, {names[1]} {words.percent(most)} of its own"
    if gpus[0].name != gpus[1].name:
        text += f"; they are {gpus[0].name} and {gpus[1].name}"
    return [finding_in_words("share", least, text)]


@register_rule(
    "warning", "{share} of the GPU time is lost waiting for {who}{why}",
    _loss("idle.imbalance", "communication.waiting"),
    "See what differs there: more work, a slower clock or host, output that only one rank writes. This shows which GPUs "
    "do most: gssr analyze --terminal -plb FILE",
    needs=(LEAD,),
)  # fmt: skip
def straggler(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which one GPU or few wait least while all others wait for them. None if another rule tells of that
    time."""
    found = _late(job, rule, "straggler")
    if found is None:
        return None
    awaited = find_awaited_gpus(job)
    idles = awaited is not None and awaited.reason == "idle"
    return found[1]._replace(advice=_ONE_IDLES) if idles else found[1]


@register_rule(
    "warning", "{share} of the GPU time is lost waiting for {who}{why}",
    _loss("idle.imbalance", "communication.waiting"),
    "Leave the node out (#SBATCH --exclude) and tell the operators: every other GPU of a synchronous job waits for it.",
    needs=(LEAD,),
)  # fmt: skip
def slow_node(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which all GPUs of a node wait least while all others wait."""
    found = _late(job, rule, "slow_node")
    return found[1] if found else None


@register_rule(
    "warning", "{share} of the GPU time is lost because the load is uneven; {least} does the most",
    (*_loss("idle.imbalance", "communication.waiting"), _JITTER),
    "Share the work out evenly (domain decomposition, batch sizes, sequence lengths). This shows which GPUs do most: gssr "
    "analyze --terminal -plb FILE",
    needs=(LEAD,),
)  # fmt: skip
def imbalance(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs wait for each other, some always longer than others, so that no few GPUs can be blamed. None
    if the waiting may be jitter, or another rule tells of that time."""
    found = _late(job, rule, "imbalance")
    if found is None or _is_jitter(job, rule, found[0]):
        return None
    return found[1]._replace(words={**found[1].words, "least": who_waits_least(job)[0]})


@register_rule(
    "warning", "{share} of the GPU time is lost waiting for other GPUs; who is late changes",
    (
        *_loss("idle.imbalance", "communication.waiting"),
        _JITTER,
    ),
    "Let batches take equally long (sort by length, pad less, pack sequences), or let ranks run ahead of each other.",
    needs=(LEAD,),
)  # fmt: skip
def rotating_stragglers(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs wait for each other, for another one each time."""
    found = _late(job, rule, "rotating_stragglers")
    return None if found is None or _is_jitter(job, rule, found[0]) else found[1]


@register_rule(
    "warning", "The GPUs take turns: they wait for {share} of their time while others work",
    _loss("idle.imbalance", "communication.waiting"),
    "Let the stages overlap (asynchronous generation and training, more micro-batches in flight, another split of layers), "
    "or run them one after the other on all GPUs.",
    needs=(LEAD,),
)  # fmt: skip
def taking_turns(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which groups of GPUs work in turn while the others wait."""
    found = _late(job, rule, "taking_turns")
    return found[1] if found else None


@register_rule(
    "info", "{share} of the GPU time is spent on communication alone",
    (
        *_loss("communication.transferring"),
        Threshold("quiet", 0.5, "waiting is more than this share of it: links are quiet most of the time"),
    ),
    "Let the GPUs compute meanwhile, communicate less often (larger batches, gradient accumulation) or send less "
    "(sharding, lower precision). NCCL's log shows which links it takes.",
    needs=(LEAD,),
)  # fmt: skip
def communication_bound(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that spend GPU time in collectives: while these transfer and, if no GPU of the job is late, while they
    wait. None for a job that hangs, and below the least threshold."""
    breakdown = job.breakdown
    if holds(job, "hang"):
        return None  # they wait for good
    share = breakdown.share("communication.transferring")
    if job.late_gpus is None and job.evidence.of_job is None:
        share += breakdown.share("communication.waiting")
    bins = breakdown.share_over_time("communication")
    more = _rates(job, "communication.transferring", _LINKS)
    nvlink = job.over("nvlink_tx_bytes", job.steady)
    advice = ""
    if (
        more
        and more[0].metric == "pcie_tx_bytes"
        and nvlink is not None
        and is_nvlink_quiet(job.evidence)
        and len(job.evidence.nodes) == 1
    ):
        more.append(finding_in_words("nvlink_tx_bytes", nvlink, "NVLink carries nothing"))
        advice = "NCCL leaves NVLink unused: its log says why. See also nvidia-smi topo -m within the job."
    return _graded(job, rule, share, "in communication kernels", {}, *more, bins=bins, advice=advice)


@register_rule(
    "info", "{share} of the GPU time is idle in the gaps between kernels{host}",
    (
        *_loss("idle.between_kernels"),
        Threshold("bytes", MOVED_BYTES, "the title says what nodes read where it is at least so much, B/s, ..."),
        Threshold("cores", BUSY_CORES, "... or else how many cores are busy per rank, where it is at least this many"),
    ),
    f"The host launches short kernels too slowly, or waits for their results. Use larger batches, CUDA graphs, fewer "
    f"synchronisations (.item(), printing). {_TRACE}",
    needs=(("gr_engine_active", "gpu_utilization"),), aliases=("gaps",),
)  # fmt: skip
def launch_gaps(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time in gaps between kernels which are shorter than a sample (``idle.between_kernels``).
    None below the least threshold, and from half of the GPU time on, of which another rule tells."""
    share = job.breakdown.share("idle.between_kernels")
    if share >= 0.5:
        return None  # told as low_use
    bins = job.breakdown.share_over_time("idle.between_kernels")
    host, advice, more = _host_meanwhile(job, rule)
    text = "idle in samples that hold kernels too: gaps shorter than a sample"
    return _graded(job, rule, share, text, {"host": host}, *more, bins=bins, advice=advice)


def _host_meanwhile(job: JobEvidence, rule: Rule) -> tuple[str, str, list[Finding]]:
    """Find out what the host does while the job works: how many cores are busy for each rank, and what each node reads.
    Returns the end of a title, the advice, and a finding for each of the two that reaches the rule's threshold; ("", "",
    []) if neither does, or both are unknown."""
    host, cores = job.evidence.host, _mean_then(job.evidence.workload.get("cpu"), np.asarray(job.steady, float))
    rates = {name: _mean_then(host.get(name), np.asarray(job.steady, float)) for name in _READ_FROM}
    name = max(rates, key=lambda each: rates[each] or 0.0)
    rate = rates[name] or 0.0
    told: list[str] = []
    advice = ""
    more: list[Finding] = []
    if cores is not None and cores >= rule.at("cores"):
        told.append(f"{words.counted(cores, 'core')} per rank are busy")
        advice = (
            "If each step waits for its batch: prepare it with more cores (under Slurm --cpus-per-task), or on the GPU."
        )
        more.append(finding_in_words("workload_cpu", cores, f"{words.counted(cores, 'core')} busy per rank"))
    if rate >= rule.at("bytes"):
        text = f"{words.amount(rate, name)} per node {_READ_FROM[name]}"
        told.append(f"each node reads {words.amount(rate, name)} {_READ_FROM[name]}")
        advice = "If each step waits for its files: read ahead in more workers, stage them to node-local storage."
        more.append(finding_in_words(name, rate, text))
    if not told:
        return "", "", []
    both = "If each step waits for its data: prepare it with more cores, read ahead, stage files to node-local storage."
    advice = both if len(told) == 2 else advice
    return (
        f", while {' and '.join(told)}",
        f"{advice} If not: {rule.advice[:1].lower()}{rule.advice[1:]}",
        more,
    )


@register_rule(
    "warning", "The GPUs are little used: for {share} of their time nothing runs, between short pieces of work",
    (
        Threshold("warning", 0.5, "idle between kernels: at least this share of the GPU time"),
        Threshold("critical", 0.75, "from this share on it is critical"),
    ),
    f"Give the GPUs more to do at a time (larger batches, several processes per GPU with MPS), or ask for fewer. {_TRACE}",
    needs=(LEAD,),
)  # fmt: skip
def low_use(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which gaps between kernels are most of the time."""
    share = job.breakdown.share("idle.between_kernels")
    return _graded(job, rule, share, "idle", {}, bins=job.breakdown.share_over_time("idle.between_kernels"))


_PAUSED = (
    Threshold("warning", 0.05, "idle, unexplained: at least this share of the GPU time, all GPUs at once for seconds"),
    Threshold("critical", CRITICAL, "from this share on it is critical"),
)
_REGULAR = 0.15
"""Distances between pauses that differ by less than this share are a rhythm."""


@register_rule(
    "info", "{share} of the GPU time is lost, no cause found{form}",
    _loss("idle.unexplained"),
    f"The program's log may say what it did then (output, evaluation, compilation). {_TRACE}",
    needs=(LEAD,),
)  # fmt: skip
def unexplained(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match idle time for which no cause was found and which is no pause of all GPUs that ``pauses`` or
    ``recurring_dips`` is about. None if it takes less of the GPU time than the least threshold."""
    found = _find_pauses(job)
    is_told = bool(found) and (_period(found) is None or not _may_beat(job))
    return None if is_told else _unexplained(job, rule, "")


@register_rule(
    "warning", "The GPUs pause {times}, {longest} at most: {share} of the GPU time is lost, no cause found",
    _PAUSED,
    f"The program's log may say what it did then (output, evaluation, compilation). {_TRACE}",
    needs=(LEAD,),
)  # fmt: skip
def pauses(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs all do nothing together, once or several times, for no cause that was found, but without a
    regular period. None if there are no such pauses, if they come back with a period (``recurring_dips``), if most of
    the time lost for no cause lies outside of them, or if that takes less of the GPU time than the least threshold."""
    found = _find_pauses(job)
    if not found or _period(found) is not None:
        return None
    own = _unexplained(job, rule, "")
    lengths = [end - first for first, end in found]
    times = "once" if len(found) == 1 else f"{len(found)} times"
    return own and own._replace(words={**own.words, "times": times, "longest": words.duration(max(lengths))})


@register_rule(
    "warning", "Every {period} the GPUs pause for {length}: {share} of the GPU time is lost, no cause found",
    _PAUSED,
    "See what the program does at this rhythm (checkpoint, validation, data loading): do it less often, or in the "
    "background beside the computation.",
    needs=(LEAD,),
)  # fmt: skip
def recurring_dips(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs all do nothing together, again and again with the same period, for no cause that was found.
    None if there is no such period, if it may only be a beat of the steps with samples far apart, or if time lost for no
    cause takes less of the GPU time than the least threshold."""
    found = _find_pauses(job)
    period = _period(found)
    if period is None or _may_beat(job):
        return None
    own = _unexplained(job, rule, "")
    length = float(np.median([end - first for first, end in found]))
    return own and own._replace(words={**own.words, "period": words.duration(period), "length": words.duration(length)})


def _unexplained(job: JobEvidence, rule: Rule, form: str) -> RuleMatch | None:
    """Match idle time for which no cause was found (``idle.unexplained``), graded by its share of the GPU time. ``form``
    is put at the end of the rule's title. None below the least threshold."""
    share = job.breakdown.share("idle.unexplained")
    bins = job.breakdown.share_over_time("idle.unexplained")
    return _graded(job, rule, share, "idle, and nothing that was measured explains it", {"form": form}, bins=bins)


def _find_pauses(job: JobEvidence) -> list[tuple[float, float]]:
    """Find when, (start, end) in unix s, at least half of the GPU time was idle for no cause that was found, for at
    least two bins. Kernels that run for a few per cent of the time are work of a job that never does more, and no pause.

    Empty also if most of the time that is lost for no cause lies outside.
    """
    idle = (job.breakdown.share_over_time("idle.unexplained") >= 0.5) & job.steady
    if job.used.any():
        idle &= ~does_something(np.median(job.account.activity.active[job.used], axis=0))
    times, width = job.breakdown.times, job.breakdown.width
    found = [(float(times[first]), float(times[end - 1]) + width) for first, end in stretches(idle) if end - first >= 2]
    lost = job.breakdown.share("idle.unexplained") * job.evidence.seconds
    return found if sum(end - first for first, end in found) >= lost / 2 else []


def _may_beat(job: JobEvidence) -> bool:
    """Tell whether a rhythm may be the beat of steps with samples that each show a moment only."""
    return job.account.activity.engine == "gpu_utilization" or job.evidence.interval > LONG_SAMPLES


def _period(found: list[tuple[float, float]]) -> float | None:
    """Find the mean time from the start of one pause to that of the next, s, if these times are about the same.
    ``found``: each pause as (start, end) in unix s. None if they vary too much, and for fewer than four pauses."""
    if len(found) < 4:
        return None
    apart = np.diff([first for first, _ in found])
    return float(apart.mean()) if float(apart.std()) <= _REGULAR * float(apart.mean()) else None


_FEW_SMS = (
    *_loss("working.few_sms"),
    Threshold(
        "occupancy", ONE_WARP_PER_SCHEDULER, "warps per SM, of all that it holds: one for each of its four schedulers"
    ),
)


@register_rule(
    "warning", "{share} of the GPU time goes to kernels that use few of the GPU's processors (SMs)",
    _FEW_SMS,
    "Give each kernel more to do: larger batches or blocks, fused kernels, CUDA graphs; or share the GPU (MPS).",
    needs=(("gr_engine_active",), ("sm_active",)),
)  # fmt: skip
def small_kernels(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time in kernels which occupy few SMs (``working.few_sms``). None if too few warps are the
    reason (``low_occupancy``), and below the least threshold."""
    if _has_few_warps(job, rule.at("occupancy")):
        return None
    share = job.breakdown.share("working.few_sms")
    sm, engine = job.at_work("sm_active"), job.at_work("gr_engine_active")
    more = [finding("sm_active", sm, "while it works"), finding("gr_engine_active", engine)]
    return _graded(job, rule, share, "in them", {}, *more, bins=job.breakdown.share_over_time("working.few_sms"))


@register_rule(
    "warning", "{share} of the GPU time goes to kernels with too few threads: occupancy {occupancy}, SM activity {sm}",
    _FEW_SMS,
    "Start more threads per kernel (a larger grid, larger batches), or let kernels run side by side (streams, MPS); Nsight "
    "Compute's launch statistics of the longest kernel show what limits its occupancy.",
    needs=(("gr_engine_active",), ("sm_active",), ("sm_occupancy",)),
)  # fmt: skip
def low_occupancy(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time in kernels whose SMs, although busy, hold fewer warps than they have schedulers. None
    below the least threshold."""
    if not _has_few_warps(job, rule.at("occupancy")):
        return None
    share = job.breakdown.share("working.few_sms")
    title = {"occupancy": words.percent(job.at_work("sm_occupancy")), "sm": words.percent(job.at_work("sm_active"))}
    return _graded(job, rule, share, "", title, bins=job.breakdown.share_over_time("working.few_sms"))


def _has_few_warps(job: JobEvidence, least: float) -> bool:
    """Tell whether SMs, at work active for more than a quarter of the time, hold fewer warps meanwhile than ``least``, a
    share of the most they can hold."""
    warps, sm = job.at_work("sm_occupancy"), job.at_work("sm_active")
    return bool(sm > 0.25 and warps < least * sm)
