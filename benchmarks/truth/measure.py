"""Precision and recall of the verdicts on the labelled jobs."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE
from benchmarks.table import Figure
from benchmarks.truth import drawn
from benchmarks.truth.jobs import JOBS, Labelled
from benchmarks.truth.recording import write
from gssr.model.analyze import analyze
from gssr.store.reader import open_recording

LEAST_PRECISION, LEAST_RECALL = 0.95, 0.9


class Outcome(NamedTuple):
    """What was said of a job: ``found`` of what had to be, ``missed`` (alternatives joined by ``|``), ``false`` alarms."""

    name: str
    found: frozenset[str]
    missed: frozenset[str]
    false: frozenset[str]


def codes_of(labelled: Labelled, folder: str | Path) -> frozenset[str]:
    """The codes of the verdicts that GSSR gives of the job; its recording is written into ``folder`` and deleted again."""
    path = Path(folder) / "job.sql"
    write(str(path), labelled.name, labelled.job(), labelled.counters, labelled.host)
    try:
        verdicts = analyze(open_recording(path).runs[0]).verdicts
    finally:
        path.unlink()
    return frozenset(verdict.code for verdict in verdicts)


def judge(labelled: Labelled, codes: frozenset[str]) -> Outcome:
    """Hold the codes that were given against the job's labels."""
    missed = frozenset(wanted for wanted in labelled.must if not codes & set(wanted.split("|")))
    wanted = frozenset(code for each in labelled.must for code in each.split("|"))
    return Outcome(labelled.name, codes & wanted, missed, codes - wanted - labelled.may)


def outcomes(jobs: Iterable[Labelled]) -> Iterator[Outcome]:
    """Make, record and judge each job."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        for labelled in jobs:
            yield judge(labelled, codes_of(labelled, folder))


def measure_half(held_out: bool = False) -> Iterator[Figure]:
    """Of one half of the jobs."""
    title = "truth, held out" if held_out else "truth"
    yield from measure(title, [labelled for labelled in JOBS if labelled.held_out == held_out])


def measure_drawn() -> Iterator[Figure]:
    """Of jobs drawn by chance."""
    yield from measure("truth, drawn", drawn.jobs())


def measure(title: str, jobs: Sequence[Labelled]) -> Iterator[Figure]:
    """What was missed or wrong, job by job; precision and recall of each code, and of all."""
    found, missed, false = Counter[str](), Counter[str](), Counter[str]()
    for outcome in outcomes(jobs):
        found.update(outcome.found)
        missed.update(outcome.missed)
        false.update(outcome.false)
        for code in sorted(outcome.missed):
            yield Figure(f"{title}: {outcome.name!r} lacks {code}", 1, "missed")
        for code in sorted(outcome.false):
            yield Figure(f"{title}: {outcome.name!r} has {code}", 1, "false alarm")
    for code in sorted({*found, *missed, *false}):
        yield from _rates(f"{title}, {code}", found[code], missed[code], false[code])
    yield Figure(f"{title}: jobs", len(jobs), "jobs")
    yield from _rates(f"{title}, all", found.total(), missed.total(), false.total(), (LEAST_PRECISION, LEAST_RECALL))


def _rates(
    title: str, found: int, missed: int, false: int, least: tuple[float | None, float | None] = (None, None)
) -> Iterator[Figure]:
    """Those that can be told; the counts behind them are their unit."""
    for name, wrong, limit in (("precision", false, least[0]), ("recall", missed, least[1])):
        if found + wrong:
            rate = found / (found + wrong)
            yield Figure(f"{title}: {name}", rate, f"{found} of {found + wrong}", limit, at_least=True)
