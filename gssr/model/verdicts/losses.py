"""Verdicts on GPU time that is lost, each read from the account of where it went (gssr.model.breakdown).

A rule here asks for the share of one category. It never looks at the idle time as a whole, so no two of them claim the same
second. What a sentence says of rates holds on average over the time that it claims.
"""

from collections.abc import Mapping

import numpy as np

from gssr.arrays import Floats
from gssr.model.account.active_time import ONE_WARP_PER_SCHEDULER
from gssr.model.account.activity import does_something
from gssr.model.account.compare_gpus import LONG_SAMPLES
from gssr.model.account.idle_time import BUSY_CORES, MORE_WHEN_IDLE, MOVED_BYTES
from gssr.model.account.link_traffic import is_nvlink_quiet
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.awaited_gpus import find_awaited_gpus, who_waits_least
from gssr.model.verdicts.job import JobEvidence, has_few_samples, holds, stretches
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
_STARTS_ANEW = (
    "The GPUs' memory is nearly empty meanwhile: the program starts anew each time. Its log may say why it ended before "
    "(out of memory?). Or keep it running between pieces of work."
)
_COPIED = ("pcie_rx_bytes", "pcie_tx_bytes", "c2c_rx_bytes", "c2c_tx_bytes")
_BOTH_WAYS = 0.25
"""From this share of the waiting on a direction of copies has advice of its own: less would not save a quarter of it."""
_COPY_LESS_BACK = (
    "send: copy results, checkpoints and logs to the host less often (in PyTorch .cpu() and .item() wait for it), to pinned "
    "memory and beside the computation."
)
_READ_FROM = {"read_bytes": "from its disks", "net_rx_bytes": "from the network"}
_PREPARE_AHEAD = (
    "If each step waits for its data: prepare it with more cores (under Slurm --cpus-per-task) or on the GPU, read ahead in "
    "more workers, stage files to node-local storage."
)
_LINKS = ("nvlink_tx_bytes", "pcie_tx_bytes")
_RESTARTED = 0.3
"""A program that has less than this share of its usual memory in use has just begun."""
_NO_CORE = 0.1
"""A rank that keeps less than this of a core busy leaves the node's CPUs to others."""
_ALL_CORES_BUSY = (
    "All cores that the job may use are busy: more workers would not help. Move work to the GPU, or ask for more cores "
    "(under Slurm --cpus-per-task)."
)
_CLOCKS = ("throttled_thermal", "throttled_power_brake", "throttled_hardware", "slow_clock")
"""The verdicts that tell of GPUs at lower clocks, and what others wait for them."""
TRACE_ADVICE = "Trace one step of one rank"
_TRACE = (
    f"{TRACE_ADVICE}, with torch.profiler or: nsys profile --trace=cuda,nvtx,osrt --export=sqlite -o step PROGRAM; then: "
    "gssr analyze TRACE"
)


_CRITICAL = Threshold("critical", CRITICAL, "from this share on it is critical")
_GUESS = Threshold(
    "guess", 0.1, "if the cause is a guess (as where all samples are alike), it is a warning from this share on",
    "up to 7 % of the time of simulated healthy jobs is put down to such causes",
)  # fmt: skip


def _loss(*names: str) -> tuple[Threshold, ...]:
    """The thresholds of a loss of these categories: from which share on it is told, from which it is a warning (above what
    healthy jobs lose to them), and from which critical."""
    own = [CATEGORIES[POSITIONS[name]] for name in names]
    source = next((category.source for category in own if category.source), "ours")
    what = " and ".join(f"`{name}`" for name in names) + (" together take" if len(names) > 1 else " takes")
    return (
        Threshold("share", LEAST_TOLD, f"{what} at least this share of the GPU time"),
        Threshold("warning", max(category.ordinary for category in own), "from this share on it is a warning", source),
        _CRITICAL,
    )


def _lost(job: JobEvidence, rule: Rule, category: str, text: str, *findings: Finding, title: Mapping[str, str] = {},
          advice: str = "") -> RuleMatch | None:  # fmt: skip
    """Make the match of a rule about the time of one ``category``: see ``_graded``."""
    is_guess = job.breakdown.confidence[POSITIONS[category]] == "guess"
    share = job.breakdown.share(category)
    return _graded(job, rule, share, text, *findings, title=title, advice=advice, is_guess=is_guess)


def _graded(job: JobEvidence, rule: Rule, share: float, text: str, *findings: Finding,
            title: Mapping[str, str] = {}, gpus: tuple[int, ...] = (), advice: str = "",
            is_guess: bool = False) -> RuleMatch | None:  # fmt: skip
    """Make the match of a rule about a loss, with a severity that follows from its ``share`` of the GPU time (0-1).

    Args:
        job: The evidence.
        rule: The rule, whose thresholds "share", "warning", "critical" and, if the cause is a guess, "guess" count.
        share: The share of the GPU time that is lost.
        text: Completes "12 % of the GPU time".
        findings: Further evidence.
        title: Words that fill the rule's title, beside "share".
        gpus: Positions of the GPUs that the match is about; () for all.
        advice: Takes the place of the rule's advice; "" leaves that.
        is_guess: The cause is a guess.

    None below the least share that is told.
    """
    least = min(rule.at("share"), rule.at("warning"))
    if not 0 < share >= least:
        return None
    is_guess = is_guess and any(threshold.name == "guess" for threshold in rule.thresholds)
    usual = max(rule.at("warning"), rule.at("guess") if is_guess else 0.0)
    severity, limit, counts = rule.graded(share), usual, f"reported from {words.percent(usual)} on"
    if share < usual:
        severity, limit = "info", least
        counts = f"{'a guess: ' if is_guess else ''}up to {words.percent(usual)} is usual in healthy jobs"
    elif has_few_samples(
        job.evidence.seconds, job.evidence.interval
    ):  # another run of the same job may be given another cause
        severity, counts = "info", "of too few samples to be sure of the cause"
    shown = finding_in_words("share", share, f"{words.percent(share)} of the GPU time {text} ({counts})", limit)
    filled = {"share": words.percent(share), **title}
    return RuleMatch(filled, (shown, *findings), severity, job.span, gpus, advice, share)


def _rates(job: JobEvidence, name: str, metrics: tuple[str, ...]) -> list[Finding]:
    """Make a finding of the one metric that moved most in the time of the category ``name``: its mean then and over the
    whole window, or that both are the same. Metrics that moved clearly more then than on average come before all others. []
    if nothing moved then, or none of the ``metrics`` was measured."""
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
        is_more = there >= MORE_WHEN_IDLE * mean
        if best is None or (is_more, there) > best[:2]:
            best = is_more, there, finding_in_words(metric, there, text)
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
    category = "idle.input_output"
    share, bins = job.breakdown.share(category), job.breakdown.share_over_time(category)
    more = _rates(job, category, _MOVED)
    advice = "" if not more else _WRITE_LESS if more[0].metric in _WRITTEN else _READ_AHEAD
    memory, at_work = _mean_then(job.in_time("memory_used"), bins), job.at_work("memory_used")
    if memory is not None and memory < _RESTARTED * at_work:
        text = f"{words.amount(memory, 'memory_used')} of memory in use then"
        more, advice = [*more, finding_in_words("memory_used", memory, text)], _STARTS_ANEW
    gpus: tuple[int, ...] = ()
    others = ""
    if job.is_late_for_files and job.late_gpus is not None:
        share, gpus = share + job.late_gpus.share, job.late_gpus.gpus
        who = words.named(job.evidence.gpus, gpus)
        others = f", {words.percent(job.late_gpus.share)} by GPUs that wait for {who}"
    is_guess = job.breakdown.confidence[POSITIONS[category]] == "guess"
    title = {"others": others}
    return _graded(job, rule, share, "idle meanwhile", *more, title=title, gpus=gpus, advice=advice, is_guess=is_guess)


@register_rule(
    "warning", "{share} of the GPU time is spent waiting for copies between host and GPU",
    (*_loss("idle.copies"), _GUESS),
    "Copy from pinned memory and beside the computation (PyTorch: pin_memory=True, non_blocking=True; CUDA, HIP: "
    "cudaMallocHost, hipHostMalloc, streams; OpenACC: async); keep on the GPU what is used again (OpenACC: acc data).",
    needs=(LEAD, _COPIED),
)  # fmt: skip
def transfer_bound(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time waiting for copies to or from the host (``idle.copies``). None below the least
    threshold."""
    more = _rates(job, "idle.copies", _COPIED)
    sent, advice = _share_sent(job), ""
    if sent > 1 - _BOTH_WAYS:
        advice = f"The GPUs {_COPY_LESS_BACK}"
    elif sent >= _BOTH_WAYS:
        text = f"in {words.percent(sent)} of that time the GPUs send more than they receive"
        more, advice = [*more, finding_in_words("sent", sent, text)], f"{rule.advice} The GPUs also {_COPY_LESS_BACK}"
    return _lost(job, rule, "idle.copies", "idle meanwhile", *more, advice=advice)


def _share_sent(job: JobEvidence) -> float:
    """Compute in which share (0-1) of the time spent waiting for copies the GPUs send more to the host than they receive; 0
    where they never wait."""
    weight = job.breakdown.share_over_time("idle.copies")
    moved = [np.nan_to_num(job.in_time(metric)) for metric in _COPIED]
    sends = moved[1] + moved[3] > moved[0] + moved[2]
    return float(weight[sends].sum() / weight.sum()) if weight.any() else 0.0


@register_rule(
    "warning", "{share} of the GPU time is spent waiting for the CPU{whose}",
    (
        *_loss("idle.host"),
        _GUESS,
        Threshold("cores", 0.9, "all cores are busy if this share of the node's cores is, or of those that a rank may use"),
    ),
    "Move the work to the GPU, or spread it over more cores (more worker processes, threads; under Slurm --cpus-per-task).",
    needs=(LEAD, ("cpu_utilization", "workload_cpu")),
)  # fmt: skip
def cpu_starved(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time waiting for the CPU (``idle.host``). None below the least threshold."""
    bins = job.breakdown.share_over_time("idle.host")
    used = _mean_then(job.evidence.host.get("cpu_utilization"), bins)
    cores = _mean_then(job.evidence.workload.get("cpu"), bins)
    allowed = job.evidence.n_cores
    more = []
    if used is not None:
        more.append(finding_in_words("cpu_utilization", used, f"{words.percent(used)} of the node's CPUs busy then"))
    if cores is not None:
        of_how_many = "" if allowed is None else f", of {allowed:.3g} that it may use"
        text = f"{words.counted(cores, 'core')} busy per rank then{of_how_many}"
        more.append(finding_in_words("workload_cpu", cores, text))
    is_full = used is not None and used >= rule.at("cores")
    advice, whose = "", ""
    if is_full and cores is not None and cores < _NO_CORE:
        whose = ", which other processes of the node keep busy"
        advice = "The job itself hardly uses the CPU: see what else runs on the node, or ask for cores of its own."
    elif is_full or (cores is not None and allowed is not None and cores >= rule.at("cores") * allowed):
        advice = _ALL_CORES_BUSY
    return _lost(job, rule, "idle.host", "idle meanwhile", *more, title={"whose": whose}, advice=advice)


def _mean_then(values: Floats | None, weight: Floats) -> float | None:
    """Average values [n_bins] weighted by ``weight`` [n_bins]; None where none is known then."""
    if values is None:
        return None
    known = np.isfinite(values)
    total = float(weight[known].sum())
    return float(weight[known] @ values[known] / total) if total > 0 else None


# Waiting for other GPUs


_JITTER = Threshold(
    "jitter",
    0.08,
    "less waiting in communication than this is ordinary scatter of the steps",
    "simulated healthy jobs reach 8 %",
)
_ONE_IDLES = (
    "See what its rank does meanwhile that the others do not: output that only one rank writes, logging, preparing data. "
    "This shows where it is: py-spy dump --pid PID"
)


def _match_late_gpus(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that wait for others, if this ``rule`` is the verdict on whom they wait for. None if it is another one, or
    another rule tells of the same time: a hang, GPUs at lower clocks, or GPUs that are late because of files; and if the
    waiting may be jitter."""
    late, awaited = job.late_gpus, find_awaited_gpus(job)
    if late is None or late.code != rule.code or job.is_late_for_files or holds(job, "hang"):
        return None
    if late.gpus and set(late.gpus) <= job.slowed_gpus and any(holds(job, clock) for clock in _CLOCKS):
        return None
    jitter = next((threshold.value for threshold in rule.thresholds if threshold.name == "jitter"), 0.0)
    if late.share < jitter and job.breakdown.share("idle.imbalance") < rule.at("warning"):
        return None
    who = words.named(job.evidence.gpus, late.gpus) if late.gpus else who_waits_least(job)[0]
    title = {"who": who, "why": f", {awaited.why}" if awaited is not None and awaited.why else ""}
    is_idle = rule.code == "straggler" and awaited is not None and awaited.reason == "idle"
    return _graded(
        job, rule, late.share, "waiting for other GPUs", *_least_waiting(job),
        title=title, gpus=late.gpus, advice=_ONE_IDLES if is_idle else "",
    )  # fmt: skip


def _least_waiting(job: JobEvidence) -> list[Finding]:
    """Say which GPU waits least, and which most, as one finding; none where no GPU's waits are known."""
    waits = np.round(job.waits_by_gpu, 3)  # a thousandth of the time is no wait that anybody would look for
    if not np.isfinite(waits).any():
        return []
    low, high = int(np.nanargmin(waits)), int(np.nanargmax(waits))
    least, most = (job.evidence.gpus[at] for at in (low, high))
    text = (
        f"{words.gpu_label(least)} waits {words.percent(float(waits[low]))} of its time, {words.gpu_label(most)} "
        f"{words.percent(float(waits[high]))}"
    )
    if least.name != most.name:
        text += f"; they are {least.name} and {most.name}"
    return [finding_in_words("share", float(waits[low]), text)]


@register_rule(
    "warning", "{share} of the GPU time is lost waiting for {who}{why}",
    _loss("idle.imbalance", "communication.waiting"),
    "See what differs there: more work, a slower clock or host, output that only one rank writes. This shows which GPUs "
    "do most: gssr analyze --terminal -plb FILE",
    needs=(LEAD,),
)  # fmt: skip
def straggler(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which one GPU or few wait least while all others wait for them."""
    return _match_late_gpus(job, rule)


@register_rule(
    "warning", "{share} of the GPU time is lost waiting for {who}{why}",
    _loss("idle.imbalance", "communication.waiting"),
    "Leave the node out (#SBATCH --exclude) and tell the operators: every other GPU of a synchronous job waits for it.",
    needs=(LEAD,),
)  # fmt: skip
def slow_node(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which all GPUs of a node wait least while all others wait."""
    return _match_late_gpus(job, rule)


@register_rule(
    "warning", "{share} of the GPU time is lost because the load is uneven; {who} does the most",
    (*_loss("idle.imbalance", "communication.waiting"), _JITTER),
    "Share the work out evenly (domain decomposition, batch sizes, sequence lengths). This shows which GPUs do most: gssr "
    "analyze --terminal -plb FILE",
    needs=(LEAD,),
)  # fmt: skip
def imbalance(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs wait for each other, some always longer than others, so that no few GPUs can be blamed."""
    return _match_late_gpus(job, rule)


@register_rule(
    "warning", "{share} of the GPU time is lost waiting for other GPUs; who is late changes",
    (*_loss("idle.imbalance", "communication.waiting"), _JITTER),
    "Let batches take equally long (sort by length, pad less, pack sequences), or let ranks run ahead of each other.",
    needs=(LEAD,),
)  # fmt: skip
def rotating_stragglers(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs wait for each other, for another one each time."""
    return _match_late_gpus(job, rule)


@register_rule(
    "warning", "The GPUs take turns: they wait for {share} of their time while others work",
    _loss("idle.imbalance", "communication.waiting"),
    "Let the stages overlap (asynchronous generation and training, more micro-batches in flight, another split of layers), "
    "or run them one after the other on all GPUs.",
    needs=(LEAD,),
)  # fmt: skip
def taking_turns(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which groups of GPUs work in turn while the others wait."""
    return _match_late_gpus(job, rule)


@register_rule(
    "info", "{share} of the GPU time is spent on communication alone",
    _loss("communication.transferring"),
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
    return _graded(job, rule, share, "in communication kernels", *more, advice=advice)


@register_rule(
    "info", "{share} of the GPU time is idle in the gaps between kernels{host}",
    (
        *_loss("idle.between_kernels"),
        Threshold("bytes", MOVED_BYTES, "the title says how much nodes read if they read at least this many B/s, ..."),
        Threshold("cores", BUSY_CORES, "... or else how many cores are busy per rank, if at least this many are"),
    ),
    f"The host launches short kernels too slowly, or waits for their results. Use larger batches, CUDA graphs, fewer "
    f"synchronisations (.item(), printing). {_TRACE}",
    needs=(("gr_engine_active", "gpu_utilization"),), aliases=("gaps",),
)  # fmt: skip
def launch_gaps(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs that lose GPU time in gaps between kernels which are shorter than a sample (``idle.between_kernels``).
    None below the least threshold, and from half of the GPU time on, of which another rule tells."""
    if job.breakdown.share("idle.between_kernels") >= 0.5:
        return None  # told as low_use
    at_work = np.asarray(job.steady, np.float64)
    cores = _mean_then(job.evidence.workload.get("cpu"), at_work) or 0.0
    name = max(_READ_FROM, key=lambda each: _mean_then(job.evidence.host.get(each), at_work) or 0.0)
    rate = _mean_then(job.evidence.host.get(name), at_work) or 0.0
    clauses, more = [], []
    if cores >= rule.at("cores"):
        busy = words.counted(cores, "core")
        clauses.append(f"{busy} per rank are busy")
        more.append(finding_in_words("workload_cpu", cores, f"{busy} busy per rank"))
    if rate >= rule.at("bytes"):
        read = words.amount(rate, name)
        clauses.append(f"each node reads {read} {_READ_FROM[name]}")
        more.append(finding_in_words(name, rate, f"{read} per node {_READ_FROM[name]}"))
    host = f", while {' and '.join(clauses)}" if clauses else ""
    advice = f"{_PREPARE_AHEAD} If not: {rule.advice[:1].lower()}{rule.advice[1:]}" if clauses else ""
    text = "idle in samples that hold kernels too: gaps shorter than a sample"
    return _lost(job, rule, "idle.between_kernels", text, *more, title={"host": host}, advice=advice)


@register_rule(
    "warning", "The GPUs are little used: for {share} of their time nothing runs, between short pieces of work",
    (
        Threshold("share", 0.5, "`idle.between_kernels` takes at least this share of the GPU time"),
        Threshold("warning", 0.5, "from this share on it is a warning"),
        Threshold("critical", 0.75, "from this share on it is critical"),
    ),
    f"Give the GPUs more to do at a time (larger batches, several processes per GPU with MPS), or ask for fewer. {_TRACE}",
    needs=(LEAD,),
)  # fmt: skip
def low_use(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs in which gaps between kernels are most of the time."""
    return _lost(job, rule, "idle.between_kernels", "idle")


_SHORT_SAMPLES = 0.1
"""Samples further apart than this (s) could be nearer: DCGM and GPM renew their values so often."""
_SAMPLE_FINER = (
    "This share is uncertain: samples at a shorter interval may tell its cause. Record again with: gssr profile -t 100 -- "
    "PROGRAM."
)
_PAUSED = (
    Threshold(
        "share",
        0.05,
        "`idle.unexplained` takes at least this share of the GPU time, all GPUs pausing together for seconds",
    ),
    Threshold("warning", 0.05, "from this share on it is a warning"),
    _CRITICAL,
)
_REGULAR = 0.15
"""Distances between pauses that differ by less than this share are a rhythm."""


@register_rule(
    "info", "{share} of the GPU time is lost, no cause found",
    _loss("idle.unexplained"),
    f"The program's log may say what it did then (output, evaluation, compilation). {_TRACE}",
    needs=(LEAD,),
)  # fmt: skip
def unexplained(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match idle time for which no cause was found and which is no pause of all GPUs that ``pauses`` or
    ``recurring_dips`` is about. None if it takes less of the GPU time than the least threshold. Where the share scatters
    much and samples could be shorter, the advice begins with that."""
    found, at = _match_unexplained(job, rule), POSITIONS["idle.unexplained"]
    scatters = job.breakdown.error[at] >= job.breakdown.shares[at] / 2
    if found is None or not scatters or job.evidence.interval <= _SHORT_SAMPLES:
        return found
    return found._replace(advice=f"{_SAMPLE_FINER} {rule.advice}")


@register_rule(
    "warning", "The GPUs pause {times}, {longest} at most: {share} of the GPU time is lost, no cause found",
    _PAUSED,
    f"The program's log may say what it did then (output, evaluation, compilation). {_TRACE}",
    needs=(LEAD,),
)  # fmt: skip
def pauses(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs all do nothing together, once or several times, for no cause that was found, and without a
    regular period."""
    return _match_unexplained(job, rule)


@register_rule(
    "warning", "Every {period} the GPUs pause for {length}: {share} of the GPU time is lost, no cause found",
    _PAUSED,
    "See what the program does at this rhythm (checkpoint, validation, data loading): do it less often, or in the "
    "background beside the computation.",
    needs=(LEAD,),
)  # fmt: skip
def recurring_dips(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match jobs whose GPUs all do nothing together, again and again with the same period, for no cause that was found."""
    return _match_unexplained(job, rule)


def _match_unexplained(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match idle time for which no cause was found, if this ``rule`` is the verdict on the form that it has. None below the
    least threshold."""
    code, title = _form_of_unexplained(job)
    if code != rule.code:
        return None
    return _lost(job, rule, "idle.unexplained", "idle, and nothing that was measured explains it", title=title)


def _form_of_unexplained(job: JobEvidence) -> tuple[str, dict[str, str]]:
    """Find the form in which GPUs idle for no cause that was found. Returns the code of the verdict on it, and the words of
    its title.

    They pause if at least half of the GPU time is so for at least two bins, and most of that time lies in such pauses.
    Kernels that run for a few per cent of the time are work of a job that never does more, and no pause.
    """
    idle = (job.breakdown.share_over_time("idle.unexplained") >= 0.5) & job.steady
    if job.used.any():
        idle &= ~does_something(np.median(job.account.activity.active[job.used], axis=0))
    idles = np.array([pause for pause in stretches(idle) if pause[1] - pause[0] >= 2], np.float64).reshape(-1, 2)
    lengths = (idles[:, 1] - idles[:, 0]) * job.breakdown.width
    if not len(idles) or lengths.sum() < job.breakdown.share("idle.unexplained") * job.evidence.seconds / 2:
        return "unexplained", {}
    apart = np.diff(idles[:, 0]) * job.breakdown.width
    if len(idles) < 4 or apart.std() > _REGULAR * apart.mean():
        times = "once" if len(idles) == 1 else f"{len(idles)} times"
        return "pauses", {"times": times, "longest": words.duration(float(lengths.max()))}
    if job.account.activity.engine == "gpu_utilization" or job.evidence.interval > LONG_SAMPLES:
        return "unexplained", {}  # it may be the beat of steps with samples that each show a moment only
    period, length = float(apart.mean()), float(np.median(lengths))
    return "recurring_dips", {"period": words.duration(period), "length": words.duration(length)}


_FEW_SMS = (
    *_loss("working.few_sms"),
    Threshold(
        "occupancy",
        ONE_WARP_PER_SCHEDULER,
        "threads are too few below this occupancy, which is one warp for each of an SM's four schedulers",
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
    more = [finding(name, job.at_work(name), "while the GPUs work") for name in ("sm_active", "gr_engine_active")]
    return _lost(job, rule, "working.few_sms", "in them", *more)


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
    title = {"occupancy": words.percent(job.at_work("sm_occupancy")), "sm": words.percent(job.at_work("sm_active"))}
    return _lost(job, rule, "working.few_sms", "in them", title=title)


def _has_few_warps(job: JobEvidence, least: float) -> bool:
    """Tell whether SMs, at work active for more than a quarter of the time, hold fewer warps meanwhile than ``least``, a
    share of the most they can hold."""
    warps, sm = job.at_work("sm_occupancy"), job.at_work("sm_active")
    return bool(sm > 0.25 and warps < least * sm)
