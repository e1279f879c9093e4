"""The rules for traces: what keeps the GPUs from working, what it costs, and what to do.

They stand in the order in which they are gone through: causes before what they explain. Six of them ask what the expert
rules of Nsight Systems ask, with its thresholds where it has some; the others are ours. Each counts as lost the time in
which a GPU did nothing, or nothing but that: what other work and other GPUs wait for it comes on top, which only the
critical path tells. A site changes them as it does the others
(gssr.model.verdicts.rules), under [traces.CODE].
"""

import re
import sys
from dataclasses import replace
from functools import partial

import numpy as np

from gssr.arrays import Floats
from gssr.gpu_vendors import AMD, NVIDIA, say
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.results import Finding, Severity
from gssr.model.traces import call_tree
from gssr.model.traces.idle import BRIEF, LAUNCH, LONG
from gssr.model.traces.lengths import NO_LENGTHS
from gssr.model.traces.trace_results import BINS, Gap, TraceAnalysis
from gssr.model.traces.waits import SHORT
from gssr.model.verdicts.table import (
    NSYS,
    OURS,
    REGISTERED,
    TRACES,
    Rule,
    RuleMatch,
    RuleTable,
    Threshold,
    Unknown,
    decide,
    finding_in_words,
    register_rule,
    rules_of,
)  # fmt: skip
from gssr.model.verdicts.words import percent, took

_NEEDS = {
    "kernels": "no time of a GPU's work is in the trace",
    "copies": "no copies are in the trace",
    "copy_work": "no copies are in the trace",
    "calls": "no calls of CUDA or HIP are in the trace",
    "launches": "the trace does not tell what launched the GPUs' work",
    "ranges": "no operators or ranges are in the trace",
    "communication": "no communication is in the trace",
    "steps": "no steps are marked in the trace",
    "pageable": "the trace does not tell which memory is pageable",
    "tree": "a GPU's work is judged, or no calls are in the trace",
}
"""What rules need, and what is said where it is missing."""
POP = "POP's efficiency metrics"
_SETS_UP = re.compile(r"P?MPI_(?:Init|Finalize)", re.IGNORECASE)
_SET_UP_TOLD = 0.01
"""From this share of all time on it is said that setting up MPI and taking it down is left out."""
_LONGEST_NAME = 60
"""Characters of a kernel's name in a sentence; names of matrix products have hundreds."""
_PARTS = 30
"""Parts of the run that are looked at one by one (nsys: gpu_time_util)."""


def judge_trace(trace: TraceAnalysis, table: RuleTable) -> TraceAnalysis:
    """Return the analysis with its verdicts, and with the rules that abstain."""
    table = _in_torch(table) if "torch" in trace.holds else table
    said = partial(say, AMD if _is_of_amd(trace) else NVIDIA)
    missing = partial(_missing, trace=trace)
    verdicts, abstentions = decide(table, trace, len(trace.gpus), missing, said=said)
    return replace(trace, verdicts=verdicts, abstentions=abstentions)


def _is_of_amd(trace: TraceAnalysis) -> bool:
    """Tell whether a trace is of AMD's GPUs: written by rocprofv3, or with calls of HIP and none of CUDA."""
    calls = trace.lengths.get("api", NO_LENGTHS).keys
    called = {name for name in ("hip", "cuda") if any(str(call).startswith(name) for call, *_ in calls)}
    return called == {"hip"} or {str(source.format) for source in trace.sources} <= {"rocpd", "rocprof"}


def _in_torch(table: RuleTable) -> RuleTable:
    """Add advice for PyTorch to the rules, except to those for which a site gives its own advice."""
    return table._replace(
        rules=tuple(
            rule._replace(advice=f"{rule.advice} {IN_TORCH[rule.code]}")
            if rule.code in IN_TORCH and rule.advice == REGISTERED[rule.code][0].advice
            else rule
            for rule in table.rules
        )
    )


def _missing(rule: Rule, trace: TraceAnalysis) -> str | None:
    """Say what a rule needs and the analysis lacks, and of which part of the trace that is; None if nothing is missing. If a
    file is damaged, every rule lacks what may be missing there: it looks like idle time, or like a late rank."""
    if trace.is_damaged:
        return "a file is cut off or damaged: some of what was done may be missing"
    missing = next((_NEEDS[name] for (name,) in rule.needs if name not in trace.holds), None)
    parts = ["what is selected"] * trace.selected + ["this window"] * (not trace.whole)
    return missing.replace("in the trace", "in " + " in ".join(parts)) if missing and parts else missing


def _span(trace: TraceAnalysis) -> tuple[float, float]:
    """Return the window that is looked at, (begin, end) in seconds from the trace's zero."""
    return trace.window[0] / 1e9, trace.window[1] / 1e9


def _share(trace: TraceAnalysis, ns: int) -> float:
    """Divide a time (``ns``, added up over GPUs) by the time of all GPUs. Returns a share, 0-1."""
    return ns / max(trace.job_ns, 1)


def _lost(trace: TraceAnalysis, ns: int, what: str = "without what waits for it") -> Finding:
    """Say as a finding that ``ns`` of the GPUs' time are lost; ``what`` says what of it is counted."""
    share = _share(trace, ns)
    return finding_in_words("won", ns / 1e9, f"lost: {took(ns)} of the GPUs' time ({percent(share)}), {what}")


def _of_time(trace: TraceAnalysis, ns: int, rule: Rule, what: str) -> Finding:
    """Return a share of the GPUs' time as a finding, held against the rule's threshold "warning"."""
    share = _share(trace, ns)
    return finding_in_words(
        "share", share,
        f"{percent(share)} of the GPUs' time ({took(ns)}) {what} (reported from {percent(rule.at('warning'))} on)",
        rule.at("warning"),
    )  # fmt: skip


def _idle(trace: TraceAnalysis, name: str) -> int:
    """Add up, over all GPUs, the idle time (ns) in which the thing ``name`` went on; ``name`` is a field of
    gssr.model.traces.trace_results.Waits. GPUs whose trace does not tell count 0."""
    return sum(getattr(gpu.waits, name) or 0 for gpu in trace.gpus)


def _late(trace: TraceAnalysis, name: str) -> int:
    """Add up, over all GPUs, the idle time (ns) in which the host was late within a step and loaded no data, in gaps
    of the kind ``name``, a field of gssr.model.traces.trace_results.LateHost."""
    return sum(getattr(gpu.late_host, name) for gpu in trace.gpus)


def _waiting_ns(trace: TraceAnalysis) -> int | None:
    """Return the time of all GPUs in which they do nothing but wait for others in communication of all ranks (ns), as the
    breakdown has it. None if that can't be told, or GPUs wait in sends and receives as well."""
    breakdown = trace.breakdown
    waiting = POSITIONS["communication.waiting"]
    if breakdown is None or breakdown.confidence[waiting] == "guess" or any(gpu.exposed_p2p_ns for gpu in trace.gpus):
        return None
    return round(float(breakdown.by_gpu[:, waiting].sum()) * 1e9)


def _graded(trace: TraceAnalysis, ns: int, rule: Rule) -> Severity | None:
    """Tell how severe it is that so much time (ns) is lost; None below the threshold "warning"."""
    share = _share(trace, ns)
    return rule.graded(share) if ns > 0 and share >= rule.at("warning") else None


def _shares(what: str, warning: float, critical: float, source: str = OURS) -> tuple[Threshold, ...]:
    """Return the two limits of a rule on ``what``, as shares of the GPUs' time, 0-1."""
    return (
        Threshold("warning", warning, f"{what}, as a share of the GPUs' time", source),
        Threshold("critical", critical, "from this share on it is critical", source),
    )


@register_rule(
    "warning", "The GPUs wait for data: idle for {lost} while the next batch is loaded",
    _shares("idle while data is loaded", 0.02, 0.2),
    "Load ahead in other processes, into pinned memory; decode and augment once, beforehand; keep the data on fast, local "
    "storage.",
    needs=(("kernels",), ("ranges",)), explains=("gpu_gaps", "low_utilization"),
)  # fmt: skip
def loader_waits(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if GPUs are idle while the program loads data."""
    return _while_idle(trace, rule, "loader", "idle while data was loaded")


def _while_idle(trace: TraceAnalysis, rule: Rule, name: str, what: str) -> RuleMatch | None:
    """Match if the GPUs were idle for long while something else went on. ``name`` is the field of Waits that counts that
    time, and ``what`` describes it. None below the threshold "warning"."""
    lost = _idle(trace, name)
    severity = _graded(trace, lost, rule)
    if severity is None:
        return None
    evidence = (_of_time(trace, lost, rule, what), *_longest_gap(trace), _lost(trace, lost))
    return RuleMatch({"lost": percent(_share(trace, lost))}, evidence, severity, _span(trace))


def _at(trace: TraceAnalysis, time_ns: int) -> str:
    """Format a time as pages and axes show it, in seconds or milliseconds: ``time_ns`` (ns from the trace's zero) less
    where the axis begins to count."""
    seconds = (time_ns - trace.axis_ns) / 1e9
    return f"{seconds:.6g} s" if abs(seconds) >= 1 else f"{seconds * 1e3:.6g} ms"


def _is_told(gap: Gap) -> bool:
    """Tell whether it is known what the program did in the gap."""
    return any((gap.call, gap.range, gap.python))


def _gap(trace: TraceAnalysis, gap: Gap) -> str:
    """Say how long a gap is and when, what came after it, and what the program did in its middle."""
    doing = gap.python or gap.range or gap.call
    after = gap.after if len(gap.after) <= _LONGEST_NAME else f"{gap.after[: _LONGEST_NAME - 1]}…"
    meanwhile = f", in {doing}" if doing else ""
    return f"{took(gap.length_ns)} at {_at(trace, gap.start_ns)}, before {after}{meanwhile}"


def _longest_gap(trace: TraceAnalysis) -> tuple[Finding, ...]:
    """Return the longest gap that the host caused, with what it did, as a tuple of one finding; an empty one if there
    is none."""
    gap = next((gap for gap in trace.gaps if gap.cause == "host"), None)
    if gap is None:
        return ()
    doing = gap.python or gap.range or gap.call
    at = f"longest gap {took(gap.length_ns)} at {_at(trace, gap.start_ns)}"
    return (finding_in_words("gap", gap.length_ns / 1e9, f"{at}{f', in {doing}' if doing else ''}"),)


@register_rule(
    "warning", "{who} is late: it spends {own} in communication, {others}",
    (
        Threshold("warning", 0.05, "the rank's share of time in communication is less than the others' median by this much"),
        Threshold("critical", 0.25, "from this difference on it is critical"),
    ),
    "The rank that comes last to a collective waits least in it: look for more work, a slower GPU or a slower loader on "
    "this rank. Its kernels beside another's: gssr analyze --csv kernels_by_rank FILE",
    needs=(("kernels",), ("communication",)),
)  # fmt: skip
def straggling_rank(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if one GPU spends clearly less time in communication than the others, so that they seem to wait for it. None
    if the difference to the median of the others is below the threshold. Raises Unknown for a single GPU."""
    if len(trace.gpus) < 2:
        raise Unknown("there is one GPU")
    spent = np.array([gpu.communication_ns for gpu in trace.gpus], np.float64)
    least = int(spent.argmin())
    middle = float(np.median(np.delete(spent, least)))
    gpu = trace.gpus[least]
    late = (middle - spent[least]) / max(gpu.span_ns, 1)
    if late <= 0 or late < rule.at("warning"):
        return None
    others = f"the other rank {took(middle)}" if len(spent) == 2 else f"the others {took(middle)} in the median"
    words = {"who": gpu.place, "own": took(spent[least]), "others": others}
    wait, of_that = (
        _waiting_ns(trace),
        "in which ranks wait in communication for the last one, without what makes it late",
    )
    if wait is None:
        exposed = np.array([each.exposed_communication_ns for each in trace.gpus], np.float64)
        wait = int(
            np.minimum(np.maximum(spent - spent[least], 0), exposed).sum()
        )  # what computation hides costs nothing
        of_that = "by which the others communicate longer and nothing hides it, without what makes this rank late"
    evidence = (
        finding_in_words(
            "late",
            late,
            f"the difference is {percent(late)} of its time (reported from {percent(rule.at('warning'))} on)",
            rule.at("warning"),
        ),
        _lost(trace, wait, of_that),
    )
    return RuleMatch(words, evidence, rule.graded(late), _span(trace), (least,))


@register_rule(
    "warning", "Between steps the GPUs are idle for {lost}",
    _shares("idle between two steps, while no data is loaded", 0.02, 0.2),
    "See what runs between the steps (logging, checkpoints, results that are fetched, validation): do it less often, later, "
    "or in another thread.",
    needs=(("kernels",), ("steps",)), explains=("gpu_gaps",),
)  # fmt: skip
def empty_between_steps(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if GPUs are idle after a step and before the next, while no data is loaded."""
    return _while_idle(trace, rule, "between_steps", "idle between steps, and no data was loaded")


@register_rule(
    "warning", "The program waits for the GPUs {count} times, once for every {each} launches; then the GPUs wait for it",
    (
        Threshold("per_launch", 0.05, "there are at least this many waiting calls for each launch"),
        Threshold("calls", 20, "and at least this many in all"),
        *_shares("idle after such calls, until the host launches the next work", 0.1, 0.4),
    ),
    "Find the line that fetches results at each step, or waits without need; keep results on the GPU and fetch them rarely.",
    needs=(("kernels",), ("calls",), ("launches",)), explains=("blocking_calls",),
)  # fmt: skip
def sync_storm(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if many calls wait for the GPU and it is then idle for long, until the host launches the next work. None if
    there are few such calls, in all or for each launch, or little idle time."""
    n, launches, lost = trace.calls["blocked"].n, trace.launches.n, _late(trace, "after_waits")
    severity = _graded(trace, lost, rule)
    if severity is None or n < rule.at("calls") or n < rule.at("per_launch") * launches:
        return None
    each = launches / max(n, 1)
    per = rule.at("per_launch")
    evidence = (
        finding_in_words(
            "per_launch",
            n / max(launches, 1),
            f"{n:,} such calls, {launches:,} launch{'' if launches == 1 else 'es'} (reported from {percent(per)} on)",
            per,
        ),
        _of_time(trace, lost, rule, "idle after such calls, until the host launched the next work"),
        _lost(trace, lost),
    )
    return RuleMatch({"count": f"{n:,}", "each": f"{each:.3g}"}, evidence, severity, _span(trace))


@register_rule(
    "info", "For {share} of the GPUs' time threads wait for them, in {calls}",
    (Threshold("warning", 0.1, "with a thread in a call that waits, as a share of the GPUs' time", NSYS),),
    "A thread in such a call launches nothing: wait later, or only for an event of the one stream that matters. A call at "
    "the end of a step, or while the GPU is busy, costs nothing.",
    needs=(("kernels",), ("calls",)),
)  # fmt: skip
def blocking_calls(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if threads spend long in calls that wait for the GPU, such as cudaDeviceSynchronize (nsys: cuda_api_sync)."""
    n, waited_ns, lost = trace.calls["blocked"].n, sum(gpu.waited_for_ns for gpu in trace.gpus), _idle(trace, "blocked")
    share = _share(trace, waited_ns)
    if share < rule.at("warning"):
        return None
    what = "with at least one thread of the processes that use them in such a call"
    evidence = (_of_time(trace, waited_ns, rule, what), _lost(trace, lost, "idle meanwhile"))
    words = {"share": percent(share), "calls": f"{n:,} call{'' if n == 1 else 's'}"}
    return RuleMatch(words, evidence, rule.severity, _span(trace))


@register_rule(
    "warning", "Asynchronous copies from or to pageable memory take {time}, {count} in all",
    _shares("in such copies", 0.005, 0.1, NSYS),
    "Pageable memory is copied twice, and the call waits: pin it (cudaMallocHost, cudaHostRegister).",
    needs=(("kernels",), ("pageable",)), explains=("exposed_copies",),
)  # fmt: skip
def pageable_copies(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if copies by cudaMemcpyAsync use memory that is not pinned (nsys: cuda_memcpy_async)."""
    return _copies(trace, rule, "pageable", None)


@register_rule(
    "warning", "Copies that make their thread wait take {time}, {count} in all",
    _shares("in such copies", 0.005, 0.1, NSYS),
    "Use cudaMemcpyAsync on a stream of its own with pinned memory.",
    needs=(("kernels",), ("copies",), ("launches",)), explains=("exposed_copies",),
)  # fmt: skip
def sync_copies(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if copies by cudaMemcpy take long, but not those within a GPU and small ones onto it (nsys:
    cuda_memcpy_sync)."""
    return _copies(trace, rule, "sync_copy", "sync_copy")


@register_rule(
    "info", "{count} fills of memory (cudaMemset) make their thread wait; they take {time}",
    _shares("in such fills", 0.001, 0.1, NSYS),
    "Use cudaMemsetAsync.",
    needs=(("kernels",), ("copies",), ("launches",)),
)  # fmt: skip
def sync_memsets(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if sets by cudaMemset take long (nsys: cuda_memset_sync)."""
    return _copies(trace, rule, "sync_memset", "sync_memset")


def _bytes(n: int) -> str:
    """Say a number of bytes, small ones whole."""
    return f"{n / 1e6:,.6g} MB" if n >= 100_000 else f"{n:,} bytes"


def _copies(trace: TraceAnalysis, rule: Rule, name: str, waits: str | None) -> RuleMatch | None:
    """Match if the copies or sets of this name in ``trace.calls`` cost much time. ``waits``: the field of Waits with
    the idle time in their calls, None if there is none."""
    found = trace.calls[name]
    lost = max(_idle(trace, waits) if waits else 0, min(found.gpu_ns, sum(gpu.exposed_copy_ns for gpu in trace.gpus)))
    severity = _graded(trace, max(found.gpu_ns, lost), rule)
    if severity is None or not found.n:
        return None
    moved = _bytes(found.n_bytes) if found.n_sized == found.n else "an unknown size"
    evidence = (
        _of_time(trace, max(found.gpu_ns, lost), rule, f"for {moved}"),
        _lost(
            trace,
            lost,
            "if nothing had to wait for the copies, neither before the first kernel nor in their calls",
        ),
    )
    return RuleMatch({"count": f"{found.n:,}", "time": took(found.total_ns)}, evidence, severity, _span(trace))


@register_rule(
    "warning", "Copies are not hidden: for {lost} of the time the GPUs do nothing else",
    _shares("in copies and fills of memory, and neither computation nor communication meanwhile", 0.1, 0.3),
    "Copy the next part on a stream of its own, from pinned memory, while this one is computed; keep on the GPU what is "
    "used again, and copy less (smaller types, nothing twice).",
    needs=(("kernels",), ("copy_work",)),
)  # fmt: skip
def exposed_copies(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if GPUs spend long in copies and sets without computing or communicating at the same time."""
    lost = sum(gpu.exposed_copy_ns for gpu in trace.gpus)
    severity = _graded(trace, lost, rule)
    if severity is None:
        return None
    evidence = (
        _of_time(trace, lost, rule, "in nothing but copies, also before the first kernel and after the last"),
        _lost(trace, lost, "without what waits for them"),
    )
    return RuleMatch({"lost": percent(_share(trace, lost))}, evidence, severity, _span(trace))


_SHORT_SHARE = 0.5
"""From this share of short kernels on, launching them takes the host as long as running them takes the GPU."""


def _n_single_short(trace: TraceAnalysis) -> int:
    """Count the short kernels that no graph launched."""
    return trace.calls["short"].n - trace.calls["graph"].n


@register_rule(
    "warning", "{share} of the kernels are short and launched one by one; the GPUs wait {lost} of the time for the next",
    (
        Threshold("short", _SHORT_SHARE, f"at least this share of the kernels takes less than {took(SHORT)}"),
        *_shares("idle because a launch is late or takes its time", 0.1, 0.4),
    ),
    "Launch them together: CUDA graphs, fused kernels, larger batches.",
    needs=(("kernels",), ("launches",)), explains=("low_utilization",),
)  # fmt: skip
def short_kernels(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if most kernels are short and launched one by one, and the GPUs are idle for long because launches are late.
    A graph would launch them at once."""
    n, single = sum(gpu.n_kernels for gpu in trace.gpus), _n_single_short(trace)
    share, lost = single / max(n, 1), _late(trace, "brief") + trace.idle["launch"][1]
    severity = _graded(trace, lost, rule)
    if severity is None or share < rule.at("short"):
        return None
    evidence = (
        finding_in_words(
            "short",
            share,
            f"{single:,} of {n:,} kernels below {took(SHORT)} (reported from {percent(rule.at('short'))} on)",
            rule.at("short"),
        ),
        _of_time(
            trace,
            lost,
            rule,
            f"idle: waiting for the CPU for less than {took(BRIEF)} at a time, or in gaps below {took(LAUNCH)}",
        ),
        _lost(trace, lost),
    )
    words = {"share": percent(share), "lost": percent(_share(trace, lost))}
    return RuleMatch(words, evidence, severity, _span(trace), advice=_CAPTURED if "captures" in trace.holds else "")


_CAPTURED = (
    "The program captures CUDA graphs here: look at a later part of it, where it launches them (--from, --steps), or "
    "trace one."
)


@register_rule(
    "warning", "Communication is not hidden: for {lost} of the time the GPUs do nothing else",
    _shares("in communication of all ranks, and no computation meanwhile", 0.1, 0.3),
    "Overlap it: communicate on a stream of its own while the next part is computed; send less, or less often (compression, "
    "larger batches).",
    needs=(("kernels",), ("communication",)),
)  # fmt: skip
def exposed_communication(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if GPUs spend long in communication of all ranks without computing at the same time. Sends and receives
    between two ranks don't count."""
    lost = sum(gpu.exposed_communication_ns - gpu.exposed_p2p_ns for gpu in trace.gpus)
    severity = _graded(trace, lost, rule)
    if severity is None:
        return None
    hidden = 1 - lost / max(sum(gpu.communication_ns for gpu in trace.gpus), 1)
    waits = min(_waiting_ns(trace) or 0, lost)
    but = f"the waits for the last rank ({took(waits)}) and " if waits else ""
    evidence = (
        _of_time(trace, lost, rule, "in nothing but communication"),
        finding_in_words("overlap", hidden, f"{percent(hidden)} of the communication lies under computation"),
        _lost(trace, lost - waits, f"without {but}what waits for it"),
    )
    return RuleMatch({"lost": percent(_share(trace, lost))}, evidence, severity, _span(trace))


@register_rule(
    "warning", "The GPUs wait for one another: for {lost} of the time they only send to or receive from a neighbour",
    _shares("in sends and receives, and neither computation nor communication of all ranks meanwhile", 0.1, 0.3),
    "Such a kernel spins until the other side is there: these are mostly a pipeline's bubbles. Use more micro-batches for "
    "each step, an interleaved schedule, and stages of equal work.",
    needs=(("kernels",), ("communication",)),
)  # fmt: skip
def pipeline_bubbles(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if GPUs spend long in sends to and receives from another rank, while they neither compute nor communicate
    otherwise."""
    lost = sum(gpu.exposed_p2p_ns for gpu in trace.gpus)
    severity = _graded(trace, lost, rule)
    if severity is None:
        return None
    evidence = [_of_time(trace, lost, rule, "in nothing but sends and receives")]
    if len(trace.gpus) > 1:
        waits = np.array([gpu.exposed_p2p_ns for gpu in trace.gpus], np.float64)
        least, most = trace.gpus[int(waits.argmin())], trace.gpus[int(waits.argmax())]
        text = f"{most.place} longest ({took(waits.max())}), {least.place} shortest ({took(waits.min())})"
        evidence.append(finding_in_words("p2p", float(waits.max() / 1e9), text))
    evidence.append(_lost(trace, lost))
    return RuleMatch({"lost": percent(_share(trace, lost))}, tuple(evidence), severity, _span(trace))


@register_rule(
    "warning", "The GPUs work one after another: {at_once} of {all} at a time, while any works",
    _shares("by which the time would be shorter if they worked at once", 0.1, 0.3),
    "Let them work at the same time: give each a part of every batch, or send micro-batches through the stages as through "
    "a pipeline.",
    needs=(("kernels",),), explains=("low_utilization",),
)  # fmt: skip
def gpus_in_turn(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if GPUs work one after another: the time in which any works is clearly longer than the busiest one works.
    Raises Unknown for a single GPU."""
    if len(trace.gpus) < 2:
        raise Unknown("there is one GPU")
    extent = trace.extent or (0, 0)
    busy = np.array([gpu.shares_between(gpu.busy_over_time, *extent, BINS) for gpu in trace.gpus])
    any_busy = float(busy.max(axis=0).mean())  # at least: what takes turns within a bin is not seen
    lost = int((any_busy - float(busy.mean(axis=1).max())) * trace.span_ns)
    severity = _graded(trace, lost, rule)
    if severity is None:
        return None
    at_once = float(busy.mean()) * len(trace.gpus) / any_busy
    evidence = (
        finding_in_words("any", any_busy, f"some GPU is busy for {percent(any_busy)} of the time, the busiest for "
             f"{percent(float(busy.mean(axis=1).max()))}"),
        _of_time(trace, lost, rule, "others work in turn"),
        _lost(trace, lost, "that in which any works, less that in which the busiest does"),
    )  # fmt: skip
    return RuleMatch({"at_once": f"{at_once:.2g}", "all": f"{len(trace.gpus):,}"}, evidence, severity, _span(trace))


_LATE_FOR_UNTOLD = (
    "The screen Time (gssr tui) shows what the program's threads did meanwhile, as far as they were traced: do it ahead, in "
    "another thread or process, or less often. This lists the gaps: gssr analyze --csv gaps FILE"
)
_UNTOLD = (
    "See what the program did meanwhile (start-up, checkpoint, validation, loading): the screen Time (gssr tui) shows its "
    "threads, as far as they were traced. This lists the gaps: gssr analyze --csv gaps FILE"
)


@register_rule(
    "warning", "The GPUs are idle for {time} in {gaps} of at least {least}",
    (Threshold("seconds", 0.5, "a gap is at least this many seconds long", NSYS),),
    "See what the program did meanwhile (start-up, checkpoint, validation, loading). This lists the gaps, with the call in "
    "the middle of each: gssr analyze --csv gaps FILE",
    needs=(("kernels",),),
)  # fmt: skip
def gpu_gaps(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if there are gaps of at least the threshold's length in which a GPU does nothing (nsys: gpu_gaps)."""
    least = rule.at("seconds") * 1e9
    gaps = [gap for gap in trace.gaps if gap.length_ns >= least]
    if not gaps:
        return None
    lost, first = sum(gap.length_ns for gap in gaps), gaps[0]
    evidence = (
        finding_in_words(
            "gap", first.length_ns / 1e9, f"the longest {_gap(trace, first)} (reported from {took(least)} on)",
            rule.at("seconds"),
        ),
        _lost(trace, lost, "in these gaps, without what waits for their end"),
    )  # fmt: skip
    span = (min(gap.start_ns for gap in gaps) / 1e9, max(gap.start_ns + gap.length_ns for gap in gaps) / 1e9)
    words = {"time": took(lost), "gaps": f"{len(gaps):,} gap{'s' * (len(gaps) > 1)}", "least": took(least)}
    return RuleMatch(words, evidence, rule.severity, span, advice="" if any(map(_is_told, gaps)) else _UNTOLD)


@register_rule(
    "warning", "The GPUs wait for the CPU: idle for {lost} before the next work is launched",
    _shares(f"idle because it waits for the CPU (for {took(BRIEF)} or more at a time if most kernels are short)", 0.1, 0.4),
    "See what the program did meanwhile, and do it ahead, in another thread or process, or less often. This lists the gaps, "
    "with the call in the middle of each: gssr analyze --csv gaps FILE",
    needs=(("kernels",), ("launches",)), explains=("low_utilization",),
)  # fmt: skip
def late_launches(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if GPUs are idle for long because the host is late with the next work, within steps and not loading data, in
    gaps that no call that waits for them began. What short_kernels tells of does not count, nor do the gaps that gpu_gaps
    names."""
    is_of_short = _n_single_short(trace) >= _SHORT_SHARE * sum(gpu.n_kernels for gpu in trace.gpus)
    lost = _late(trace, "longer") + (0 if is_of_short else _late(trace, "brief"))
    severity = _graded(trace, lost, rule)
    if severity is None:
        return None
    long_enough = f" for {took(BRIEF)} or more at a time" if is_of_short else ""
    what = f"idle: waiting for the CPU{long_enough}, neither loading data nor between steps, in gaps below {took(LONG)}"
    gaps = [gap for gap in trace.gaps if gap.cause == "host" and gap.length_ns < LONG]
    evidence = (
        _of_time(trace, lost, rule, what),
        *(finding_in_words("gap", gap.length_ns / 1e9, f"the longest {_gap(trace, gap)}") for gap in gaps[:1]),
        _lost(trace, lost),
    )
    advice = "" if any(map(_is_told, gaps)) else _LATE_FOR_UNTOLD
    return RuleMatch({"lost": percent(_share(trace, lost))}, evidence, severity, _span(trace), advice=advice)


@register_rule(
    "info", "For {share} of the time, {parts} of {all} slices, GPUs are busy for less than {least}",
    (Threshold("busy", 0.5, "a GPU is busy for less than this share of a thirtieth of the time", NSYS),),
    "The screen Time (gssr tui) shows when. This lists the causes of idle time: gssr analyze --csv idle FILE",
    needs=(("kernels",),),
)  # fmt: skip
def low_utilization(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if any GPU is busy for less than the threshold in any of the equal parts of the window (nsys:
    gpu_time_util)."""
    extent = trace.extent or (0, 0)
    busy = np.concatenate([gpu.shares_between(gpu.busy_over_time, *extent, _PARTS) for gpu in trace.gpus])
    low = busy < rule.at("busy")
    if not low.any():
        return None
    evidence = (
        finding_in_words(
            "busy",
            float(busy.min()),
            f"the least busy {percent(float(busy.min()))} (reported below {percent(rule.at('busy'))})",
            rule.at("busy"),
        ),
        finding_in_words("busy", float(busy.mean()), f"{percent(float(busy.mean()))} over all"),
    )
    words = {
        "share": percent(float(low.mean())),
        "parts": f"{int(low.sum()):,}",
        "all": f"{len(busy):,}",
        "least": percent(rule.at("busy")),
    }
    return RuleMatch(words, evidence, rule.severity, _span(trace))


@register_rule(
    "warning", "The ranks have unequal work: {who} computes for {most}, the mean rank for {mean}; the others wait for it",
    (
        Threshold("warning", 0.2, "the ranks' times outside communication are this uneven, 1 - mean / highest", POP),
        Threshold("critical", 0.5, "from this imbalance on it is critical"),
        Threshold("communication", 0.05, "and at least this share of all time is spent in communication"),
    ),
    "Divide the work anew (domain decomposition, batch sizes), or see why this rank is slower. The functions in which the "
    "ranks differ: gssr analyze --csv functions FILE",
    needs=(("tree",),), explains=("communication_share",),
)  # fmt: skip
def uneven_ranks(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if the ranks spend unequal time outside communication, and a good part of all time in it, where the others
    wait. Raises Unknown for a single rank."""
    tree, spent, rest = _communication(trace)
    if not tree.by_rank:
        raise Unknown("there is one rank")
    found = call_tree.spread(rest[None])
    late, share = float(found.imbalance[0]), float(spent.sum() / max((spent + rest).sum(), 1))
    if late < rule.at("warning") or share < rule.at("communication"):
        return None
    words = {"who": tree.called(int(found.most[0])), "most": took(rest.max()), "mean": took(rest.mean())}
    evidence = (
        finding_in_words(
            "imbalance",
            late,
            f"1 - mean/max {percent(late)} (reported from {percent(rule.at('warning'))} on)",
            rule.at("warning"),
        ),
        finding_in_words(
            "communication",
            share,
            f"{percent(share)} of all time in communication, on {tree.called(int(spent.argmin()))} "
            f"least: {took(spent.min())}",
            rule.at("communication"),
        ),
    )
    return RuleMatch(words, evidence, rule.graded(late), _span(trace))


def _communication(trace: TraceAnalysis) -> tuple[call_tree.CallTree, Floats, Floats]:
    """Return the tree, and the ns in communication and outside it, both [n_places]; what sets communication up and
    takes it down counts as neither. Needs a tree."""
    tree = trace.tree
    assert tree is not None
    exclusive = np.nan_to_num(tree.values(call_tree.TIME).exclusive)
    communicates = np.array([each in call_tree.COMMUNICATION for each in tree.paradigm], np.bool_)
    sets_up = np.array([_SETS_UP.match(name) is not None for name in tree.names], np.bool_)
    return tree, exclusive[communicates & ~sets_up].sum(axis=0), exclusive[~communicates].sum(axis=0)


@register_rule(
    "warning", "{share} of the time{where} goes into communication",
    (
        Threshold("warning", 0.2, "in communication, as a share of the time of all ranks", POP),
        Threshold("critical", 0.5, "from this share on it is critical"),
    ),
    "If it is waiting in collectives, the work before them is uneven. Otherwise send fewer and larger messages, compute "
    "during non-blocking calls, use fewer ranks with more threads, or a larger problem for this many ranks. Which calls "
    "take the time: gssr analyze --csv functions FILE",
    needs=(("tree",),),
)  # fmt: skip
def communication_share(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match call trees in which MPI, SHMEM or another paradigm of communication takes much of the ranks' time."""
    tree, spent, rest = _communication(trace)
    all_ns = float((spent + rest).sum())
    share = float(spent.sum() / max(all_ns, 1))
    if share < rule.at("warning"):
        return None
    flat = call_tree.flat_profile(tree)
    exclusive = np.nansum(flat.values(call_tree.TIME).exclusive, axis=1).tolist()
    set_up = sum(own for name, own in zip(flat.names, exclusive, strict=True) if _SETS_UP.match(name))
    where = " outside MPI_Init and MPI_Finalize" if set_up >= _SET_UP_TOLD * (all_ns + set_up) else ""
    top = next(
        at for at, paradigm in enumerate(flat.paradigm)
        if paradigm in call_tree.COMMUNICATION and not _SETS_UP.match(flat.names[at])
    )  # fmt: skip
    own = exclusive[top]
    evidence = (
        finding_in_words(
            "share",
            share,
            f"{took(spent.sum())} of {took(all_ns)} (reported from {percent(rule.at('warning'))} on)",
            rule.at("warning"),
        ),
        finding_in_words("most", own / 1e9, f"most in {flat.names[top]}: {took(own)}"),
    )
    return RuleMatch({"share": percent(share), "where": where}, evidence, rule.graded(share), _span(trace))


@register_rule(
    "warning", "{share} of the time goes into OpenMP itself: barriers, locks, the runtime",
    (
        Threshold("warning", 0.1, "in OpenMP itself, not in the program's blocks, as a share of the time of all threads"),
        Threshold("critical", 0.3, "from this share on it is critical"),
    ),
    "For loops whose parts differ use schedule(dynamic) or (guided); for short loops fewer threads, or one parallel region "
    "around several loops; nowait where nothing depends on the barrier.",
    needs=(("tree",),),
)  # fmt: skip
def openmp_waits(trace: TraceAnalysis, rule: Rule) -> RuleMatch | None:
    """Match if threads spend much of their time in OpenMP itself: at barriers, in locks, in the runtime. Raises Unknown
    without OpenMP."""
    assert trace.tree is not None
    times = call_tree.by_paradigm(trace.tree)
    if "openmp" not in times:
        raise Unknown("no OpenMP is in the profile")
    share = float(times["openmp"].sum() / max(sum(float(time.sum()) for time in times.values()), 1))
    if share < rule.at("warning"):
        return None
    lost = took(times["openmp"].sum())
    evidence = (
        finding_in_words(
            "share",
            share,
            f"{lost} of all threads (reported from {percent(rule.at('warning'))} on)",
            rule.at("warning"),
        ),
    )
    return RuleMatch({"share": percent(share)}, evidence, rule.graded(share), _span(trace))


IN_TORCH = {
    "loader_waits": "In PyTorch: DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True, pin_memory=True).",
    "empty_between_steps": "In PyTorch: .item() waits for a result; copy with non_blocking=True.",
    "sync_storm": "In PyTorch these are .item(), .cpu(), print of a tensor, torch.cuda.synchronize(), nonzero(); "
    "torch.cuda.set_sync_debug_mode('warn') names the lines.",
    "pageable_copies": "In PyTorch: DataLoader(pin_memory=True) or tensor.pin_memory(), then copy with non_blocking=True.",
    "sync_copies": "In PyTorch: tensor.to(device, non_blocking=True).",
    "short_kernels": "In PyTorch: torch.compile(mode='reduce-overhead'), torch.cuda.graphs, optimizers with fused=True.",
    "exposed_communication": "In PyTorch: DistributedDataParallel's buckets (bucket_cap_mb), FSDP's prefetch, no_sync() "
    "while gradients accumulate.",
    "pipeline_bubbles": "In PyTorch: the schedules Interleaved1F1B and ZBVZeroBubble of torch.distributed.pipelining.",
}
"""What is added to the advice for programs in PyTorch."""

TABLE = RuleTable(rules_of(sys.modules[__name__]), TRACES)
