"""Judging a job by the rules, in their order."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gssr.arrays import Ints
from gssr.gpu_vendors import words_of
from gssr.metrics import BY_NAME
from gssr.model.evidence.evidence import Evidence, excerpt, of_some_gpus
from gssr.model.evidence.gather import few_rows, gather
from gssr.model.findings.imbalance import unevenness
from gssr.model.findings.phases import phases
from gssr.model.findings.steps import step_time
from gssr.model.results import Judgement, Phase, Verdict
from gssr.model.statistics.gpu_time_counts import FLAGS, WindowCounts
from gssr.model.statistics.roofline import place_under_roofline
from gssr.model.statistics.sources import RollupSource
from gssr.model.verdicts import words
from gssr.model.verdicts.awaited_gpus import find_leading_loss
from gssr.model.verdicts.job import JobEvidence
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Rule, RuleTable, decide
from gssr.model.window import MANY, looked_at, verdicts_in_all
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window


def judge_window(
    reader: RunReader,
    positions: Ints,
    window: Window = ALL_TIME,
    table: RuleTable = TABLE,
    places: Ints | None = None,
    rows: Samples | None = None,
    counted: WindowCounts | None = None,
    with_phases: bool = True,
    with_step: bool = True,
    with_phase_verdicts: bool = True,
) -> Judgement:
    """Judge a window of a run for some GPUs (their ``positions``): the same for whoever asks, page, screen or fleet. What
    they wait for is seen in the job's other GPUs, too, which are read for that.

    What was read of the window already need not be read again; None is read or chosen here.

    Args:
        table: The rules to judge by.
        places: Which of the ``positions`` are looked at (gssr.model.window.looked_at).
        rows: Raw rows of the GPUs at ``places``, as gssr.model.evidence.gather takes them.
        counted: What was counted of them, in place of rows.
        with_phases: Find the phases and judge each of them, and say how uneven the GPUs were: half of the time, which
            tables of many runs save.
        with_step: Look for the step that repeats.
        with_phase_verdicts: Judge each phase; else phases have no verdicts, which saves a third of the time.

    Returns GPUs numbered among ``positions``. Without samples there are no verdicts, and every rule abstains.
    """
    if places is None:
        places = np.arange(len(positions))
        if len(positions) > MANY:
            places = looked_at(RollupSource(reader, positions, 0).aggregate((), window, math.inf).n_rows)
    if len(positions) < len(reader.gpus):
        evidence = of_some_gpus(gather(reader, np.arange(len(reader.gpus)), window), positions[places])
    else:
        if rows is None and counted is None:
            rows = few_rows(reader, positions[places], window)
        evidence = gather(reader, positions[places], window, rows, counted)
    few = too_few(evidence)
    found = judge(evidence, table, few)
    parts = phases(evidence) if with_phases else ()
    found = replace(
        found,
        not_judged=few,
        step=step_time(reader, positions[places], window, rows) if with_step else None,
        phases=judge_phases(parts, evidence, found.verdicts, table) if with_phase_verdicts else parts,
        unevenness=unevenness(evidence) if with_phases else None,
        peaks=evidence.peaks,
        place=place_under_roofline({name: evidence.mean(name) for name in evidence.series}, evidence.peaks),
    )
    return found if len(places) == len(positions) else _in_all(found, places, len(positions))


def _in_all(found: Judgement, places: Ints, n_asked: int) -> Judgement:
    """Renumber the GPUs of a judgement, which was made of the GPUs at ``places`` alone, among all ``n_asked``. The
    others are added to the breakdown as not measured; ``leading_loss`` becomes None, as its share was of fewer GPUs."""
    whole = found.breakdown and found.breakdown.with_unmeasured_gpus(places, n_asked, found.end - found.start)
    return replace(
        found,
        verdicts=verdicts_in_all(found.verdicts, places),
        phases=tuple(replace(each, verdicts=verdicts_in_all(each.verdicts, places)) for each in found.phases),
        unevenness=found.unevenness and found.unevenness.numbered(places),
        breakdown=whole,
        leading_loss=None,  # its share is of the GPUs that were looked at
    )


FEWEST_SAMPLES = 5
"""Of fewer samples a GPU nothing is told but errors: they show no lasting level."""


def too_few(evidence: Evidence) -> str | None:
    """Say in a clause why samples are too few for a judgement; None where they are enough, or there are none."""
    n = int(evidence.n_rows.max(initial=0))
    return f"no GPU has more than {words.counted(n, 'sample')}" if 0 < n < FEWEST_SAMPLES else None


def judge(evidence: Evidence, table: RuleTable = TABLE, few: str | None = None) -> Judgement:
    """Judge gathered evidence. Returns verdicts, the worst first and otherwise in the order of the rules, and the rules
    that abstained: those that lack what they need, and where samples are too few (``few`` says why, see ``too_few``)
    those that need any.

    Where no GPU has samples, all rules abstain. Where none has more than one, there is no breakdown.
    """
    job = JobEvidence(evidence, table)
    said, gpu_hours = words_of(evidence.gpus), evidence.n_gpus * evidence.seconds / 3600
    no_samples = None if job.known.any() else "no GPU has samples"

    def missing(rule: Rule) -> str | None:
        return _missing(rule, evidence) or no_samples or (few if rule.needs else None)

    verdicts, abstentions = decide(table, job, evidence.n_gpus, missing, gpu_hours, said)
    if no_samples:
        return Judgement((), abstentions, evidence.start, evidence.end)
    leading = find_leading_loss(job, verdicts)
    leading = leading and replace(leading, text=said(leading.text))
    if int(evidence.n_rows.max(initial=0)) == 1:  # a mean says how much time was lost, but not when, nor on what
        return Judgement(verdicts, abstentions, evidence.start, evidence.end)
    return Judgement(verdicts, abstentions, evidence.start, evidence.end, breakdown=job.breakdown, leading_loss=leading)


def _missing(rule: Rule, evidence: Evidence) -> str | None:
    """Say in a clause what a rule needs and was not measured; None when nothing is missing."""
    for group in rule.needs:
        if not any(_measured(name, evidence) for name in group):
            names = list(dict.fromkeys(words.label(name) for name in group))
            return f"{' or '.join(names)} {'was' if len(names) == 1 else 'were'} not measured"
    return None


def _measured(name: str, evidence: Evidence) -> bool:
    """Tell whether a metric of the GPUs, or a column of the host or the workload, was measured."""
    if name in BY_NAME or name in FLAGS:
        return evidence.has(name)
    return name in evidence.host or name.removeprefix("workload_") in evidence.workload


AT_WORK = ("steady", "recurring")
WAITS = ("io_wait", "cpu_starved", "transfer_bound", "communication_bound")
"""What may be said of a phase in which the job does not work: what it waits for. That it waits is its name."""


def judge_phases(
    found: Sequence[Phase], evidence: Evidence, whole: tuple[Verdict, ...], rules: RuleTable
) -> tuple[Phase, ...]:
    """Judge each phase alone. Returns the phases with their verdicts; ``whole`` are the verdicts on all of the
    evidence, by the same rules.

    A phase is cut out of what was gathered: rules that need single samples or clock event reasons abstain in it. Of a
    phase in which the job does not work only what it waits for (WAITS) is told.
    """
    return tuple(replace(phase, verdicts=_of_phase(phase, evidence, whole, rules)) for phase in found)


def _of_phase(phase: Phase, evidence: Evidence, whole: tuple[Verdict, ...], rules: RuleTable) -> tuple[Verdict, ...]:
    """Judge a phase by the bins that lie in it. A phase that is all of the window has the verdicts ``whole``; of one in
    which the job does not work only WAITS are told."""
    if phase.start <= evidence.start and phase.end >= evidence.end:
        return whole
    part = excerpt(evidence, Window(phase.start, phase.end))
    found = judge(_as_part_of_run(part, evidence), rules).verdicts if part is not None else ()
    return found if phase.kind in AT_WORK else tuple(verdict for verdict in found if verdict.code in WAITS)


def _as_part_of_run(part: Evidence, evidence: Evidence) -> Evidence:
    """Let the account of a part know the evidence that it is a part of: what lies before the first work of the run, or after
    the last, is so in each of its parts."""
    job = (
        part.of_job and evidence.of_job and replace(part.of_job, whole_run=evidence.of_job.whole_run or evidence.of_job)
    )
    return replace(part, of_job=job, whole_run=evidence.whole_run or evidence)
