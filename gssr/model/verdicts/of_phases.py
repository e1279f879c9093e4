"""What the rules say of each phase of a run."""

from collections.abc import Sequence
from dataclasses import replace

from gssr.model.evidence.evidence import Evidence, excerpt
from gssr.model.results import Phase, Verdict
from gssr.model.verdicts import judge
from gssr.model.verdicts.table import Table

AT_WORK = ("steady", "recurring")
WAITS = ("io_wait", "cpu_starved", "transfer_bound", "communication_bound")
"""What may be said of a phase in which the job does not work: what it waits for. That it waits is its name."""


def judged(found: Sequence[Phase], evidence: Evidence, whole: tuple[Verdict, ...], rules: Table) -> tuple[Phase, ...]:
    """The phases with what is found in each of them alone; ``whole`` are the verdicts on all of the evidence, by the same
    rules. In a phase, which is cut out of what was gathered, rules that need single samples or clock event reasons
    abstain."""
    return tuple(replace(phase, verdicts=_verdicts(phase, evidence, whole, rules)) for phase in found)


def _verdicts(phase: Phase, evidence: Evidence, whole: tuple[Verdict, ...], rules: Table) -> tuple[Verdict, ...]:
    if phase.start <= evidence.start and phase.end >= evidence.end:
        return whole
    part = excerpt(evidence, phase.start, phase.end)
    found = judge(part, rules).verdicts if part is not None else ()
    return found if phase.kind in AT_WORK else tuple(verdict for verdict in found if verdict.code in WAITS)
