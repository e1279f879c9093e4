"""Rules about errors: what the driver reported of the GPUs themselves."""

import re
from collections import Counter

from gssr.gpu_errors import meaning
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import Job
from gssr.model.verdicts.table import XID, Found, Rule, Threshold, rule, told
from gssr.store.format.rows import Event

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


@rule(
    "warning", "{some} reported an error: {what}",
    (Threshold("errors", 1, "the driver reports at least this many errors of one GPU (XID, ECC)", XID, least=1.0),),
    "Tell the operators which GPU of which node it was, with the number; nvidia-smi -q and dmesg on the node say more.",
    needs=(),
)  # fmt: skip
def gpu_errors(job: Job, rule: Rule) -> Found | None:
    """XIDs and memory errors: critical where the GPU, its memory or its links are at fault."""
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
    return Found(
        {"some": some, "what": meaning(worst[0][1].message).what},
        tuple(_told(job, gpu, event) for gpu, event in worst[:_MOST]),
        "critical" if broken else rule.severity,
        (min(times), max(times)),
        gpus,
        advice=advice,
    )


def _told(job: Job, gpu: int, event: Event) -> Finding:
    evidence = job.evidence
    since = evidence.run.started_at if evidence.run.started_at is not None else evidence.start
    when = f"{words.duration(max(event.time - since, 0.0))} after the start"
    return told(
        event.kind, event.time - since, f"{words.place(evidence.gpus[gpu])}: {meaning(event.message).what}, {when}"
    )
