"""Rules about errors: ranks that were lost or ran out of memory, what the driver reported of the GPUs themselves, and GPUs
that it had nothing more to say of."""

import math
import re
from collections import Counter

import numpy as np

from gssr.gpu_errors import meaning
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import JobEvidence
from gssr.model.verdicts.table import XID, Rule, RuleMatch, Threshold, finding_in_words, register_rule
from gssr.store.format.rank_ends import RANK_LOST
from gssr.store.format.rows import Event, ranges

_KINDS = ("xid", "ecc")
_LATE = 5.0
"""An error that ends a job is heard of so much, s, after its last sample at most."""
_MOST = 6
"""Errors that are told one by one."""
_NODES = 4
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PROGRAM = (
    "Commonly the program's own fault: compute-sanitizer finds where. If other programs fail on the same GPU as well, "
    "tell the operators."
)


@register_rule(
    "critical", "{who} lost, {when}",
    (Threshold("ranks", 1, "at least this many ranks stopped, and nobody recorded their end", least=1.0),),
    "The job's own log says whether the rank was killed or its node failed, and so does Slurm: sacct -j JOB "
    "--format=JobID,State,ExitCode,NodeList. Ranks that wait for it in a collective never go on: end the job, and leave "
    "out a node that failed.",
    needs=(),
)  # fmt: skip
def rank_lost(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match ranks whose recorder is gone without having recorded an end."""
    evidence = job.evidence
    losses = [event for event in evidence.events if event.kind == RANK_LOST]
    ranks = {event.rank for event in losses}
    if not losses or len(ranks) < rule.at("ranks"):
        return None
    gpus = tuple(place for place, gpu in enumerate(evidence.gpus) if gpu.rank is not None and gpu.rank in ranks)
    nodes = sorted({event.node for event in losses if event.node})
    where = f" on {nodes[0]}" if len(nodes) == 1 else f" on {len(nodes)} nodes" if nodes else ""
    numbers = ranges(rank for rank in ranks if rank is not None)
    first = min(event.time for event in losses)
    return RuleMatch(
        {
            "who": f"Rank {numbers}{where} was" if len(ranks) == 1 else f"{len(ranks):,} ranks{where} were",
            "when": _since_start(job, first),
        },
        tuple(
            finding_in_words("ranks", 1.0, f"{_place_of_rank(event)}: last heard of {_since_start(job, event.time)}")
            for event in losses[:_MOST]
        ),
        rule.severity,
        (first, max(evidence.end, first)),
        gpus,
    )


@register_rule(
    "critical", "{who} ran out of memory",
    (Threshold("ranks", 1, "at least this many ranks were killed because the node had no memory left", least=1.0),),
    "Ask for more memory (Slurm: --mem, --mem-per-gpu), or let the program keep less on the host: fewer workers that load "
    "data, smaller caches. It is the node's memory, not the GPU's.",
    needs=(),
)  # fmt: skip
def out_of_memory(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match commands that the kernel killed because their cgroup had no memory left."""
    evidence = job.evidence
    kills = [event for event in evidence.events if event.kind == "out_of_memory"]
    if not kills or len({event.rank for event in kills}) < rule.at("ranks"):
        return None
    ranks = {event.rank for event in kills}
    who = _place_of_rank(kills[0])
    return RuleMatch(
        {"who": who[:1].upper() + who[1:] if len(ranks) == 1 else f"{len(ranks):,} ranks"},
        tuple(
            finding_in_words("ranks", 1.0, f"{event.message}, {_since_start(job, event.time)}")
            for event in kills[:_MOST]
        ),
        rule.severity,
        (min(event.time for event in kills), max(evidence.end, max(event.time for event in kills))),
    )


def _place_of_rank(event: Event) -> str:
    where = f" on {event.node}" if event.node else ""
    return f"rank {event.rank}{where}" if event.rank is not None else f"a rank{where}"


@register_rule(
    "warning", "{some} reported an error: {what}",
    (Threshold("errors", 1, "the driver reports at least this many errors of one GPU (XID, ECC)", XID, least=1.0),),
    "Tell the operators which GPU of which node it was, with the number; nvidia-smi -q and dmesg on the node say more.",
    needs=(),
)  # fmt: skip
def gpu_errors(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match XIDs and memory errors of GPUs, each GPU's if they are as many as the threshold: critical where the GPU, its
    memory or its links are at fault."""
    evidence = job.evidence
    place = {gpu.gpu: position for position, gpu in enumerate(evidence.gpus)}
    errors = [
        (place[event.gpu], event)
        for event in evidence.events
        if event.kind in _KINDS and event.gpu in place and evidence.start <= event.time <= evidence.end + _LATE
    ]
    n = Counter(gpu for gpu, _ in errors)
    errors = [(gpu, event) for gpu, event in errors if n[gpu] >= rule.at("errors")]
    if not errors:
        return None
    broken = [(gpu, event) for gpu, event in errors if meaning(event.message).broken]
    worst = broken or errors
    gpus = tuple(sorted({gpu for gpu, _ in worst}))
    nodes = list(dict.fromkeys(node for gpu in gpus if (node := evidence.gpus[gpu].node)))
    times = [event.time for _, event in errors]
    advice = ""
    if broken and len(nodes) <= _NODES:
        named = nodes and all(map(_NAME.fullmatch, nodes))  # what may be typed into a shell
        which = f" (Slurm: --exclude={','.join(nodes)})" if named else ""
        advice = f"Results since then may be wrong or lost: run again without the node{which}. {rule.advice}"
    elif all(meaning(event.message).program for _, event in errors):
        advice = _PROGRAM
    some = words.some(evidence.gpus, gpus)
    return RuleMatch(
        {"some": some, "what": meaning(worst[0][1].message).what},
        tuple(_told(job, gpu, event) for gpu, event in worst[:_MOST]),
        "critical" if broken else rule.severity,
        (min(times), max(times)),
        gpus,
        advice=advice,
    )


def _told(job: JobEvidence, gpu: int, event: Event) -> Finding:
    """Say in a finding what an error was, and how long after the run's start it came."""
    evidence = job.evidence
    since = evidence.run.started_at if evidence.run.started_at is not None else evidence.start
    what = f"{words.gpu_label(evidence.gpus[gpu])}: {meaning(event.message).what}"
    return finding_in_words(event.kind, event.time - since, f"{what}, {_since_start(job, event.time)}")


@register_rule(
    "warning", "{some} did not answer for {away}",
    (Threshold("seconds", 1.0, "a GPU does not answer the driver for at least this many seconds in all"),),
    "On the node, dmesg (look for an XID, the driver's error number) and nvidia-smi -q say more. See whether the program "
    "went on. Tell the operators which GPU of which node it was; run again without the node if the GPU does not come back.",
    needs=(),
)  # fmt: skip
def gpu_lost(job: JobEvidence, rule: Rule) -> RuleMatch | None:
    """Match GPUs that were lost while they were sampled, for good or for a while, for at least the threshold in the
    window; never those that nobody sampled any more."""
    evidence, losses = job.evidence, _losses(job)
    away = {
        gpu: sum(min(back, evidence.end) - max(gone, evidence.start) for gone, back in times)
        for gpu, times in losses.items()
    }
    gpus = tuple(sorted(gpu for gpu, seconds in away.items() if seconds >= rule.at("seconds")))
    if not gpus:
        return None
    longest = words.duration(max(away[gpu] for gpu in gpus))
    first = min(losses[gpu][0][0] for gpu in gpus)
    last = max(losses[gpu][-1][1] for gpu in gpus)
    return RuleMatch(
        {"some": words.some(evidence.gpus, gpus), "away": longest if len(gpus) == 1 else f"up to {longest}"},
        tuple(_when_lost(job, gpu, losses[gpu], away[gpu]) for gpu in gpus[:_MOST]),
        rule.severity,
        (max(first, evidence.start), min(last, evidence.end)),
        gpus,
    )


def _losses(job: JobEvidence) -> dict[int, list[tuple[float, float]]]:
    """Find when GPUs were lost in the window, by position: (from, to), unix s, in the order of time; to infinity for
    good. GPUs that were not lost are left out."""
    evidence = job.evidence
    place = {gpu.gpu: position for position, gpu in enumerate(evidence.gpus)}
    found: dict[int, list[tuple[float, float]]] = {}
    gone: dict[int, float] = {}
    for event in sorted(evidence.events, key=lambda event: event.time):
        if event.gpu in place and event.kind == "gpu_lost":
            gone.setdefault(place[event.gpu], event.time)
        elif event.gpu in place and event.kind == "gpu_back" and place[event.gpu] in gone:
            found.setdefault(place[event.gpu], []).append((gone.pop(place[event.gpu]), event.time))
    for gpu, since in gone.items():
        found.setdefault(gpu, []).append((since, _sampled_again(job, gpu, since)))
    inside = {
        gpu: [(gone, back) for gone, back in times if gone < evidence.end and back > evidence.start]
        for gpu, times in found.items()
    }
    return {gpu: times for gpu, times in inside.items() if times}


def _sampled_again(job: JobEvidence, gpu: int, since: float) -> float:
    """Find when (unix s) a GPU has samples again after it was lost, infinity if never: by another rank, which says
    nothing of its coming back."""
    if job.lead is None:
        return math.inf
    times = job.evidence.times
    again = times[np.isfinite(job.evidence.series[job.lead][gpu]) & (times > since)]
    return float(again[0]) if len(again) else math.inf


def _when_lost(job: JobEvidence, gpu: int, times: list[tuple[float, float]], seconds: float) -> Finding:
    """Say in a finding when a GPU was lost, ``times``: (from, to) in unix s, to infinity for good, for ``seconds`` in
    all."""
    (first, back), (last, end) = times[0], times[-1]
    start = _since_start(job, first)
    if len(times) == 1:
        text = f"from {start} on" if back == math.inf else f"from {start} for {words.duration(back - first)}"
    else:
        text = f"{len(times)} times from {start} on"
        text += f", and never again from {_since_start(job, last)}" if end == math.inf else ""
    return finding_in_words("seconds", seconds, f"{words.gpu_label(job.evidence.gpus[gpu])}: {text}")


def _since_start(job: JobEvidence, time: float) -> str:
    """Say in words how long after the run's start a moment (unix s) is: ``11 s after the start``."""
    evidence = job.evidence
    since = evidence.run.started_at if evidence.run.started_at is not None else evidence.start
    return f"{words.duration(max(time - since, 0.0))} after the start"
