"""Precision and recall of the verdicts on the labelled jobs."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.processes import CACHE
from benchmarks.table import Figure
from benchmarks.truth import drawn
from benchmarks.truth.jobs import JOBS, Labelled
from benchmarks.truth.recording import write
from gssr.model.analyze import analyze
from gssr.model.evidence.evidence import METRICS
from gssr.model.evidence.gather import evidence_names, gather
from gssr.model.results import Verdict
from gssr.model.statistics import series
from gssr.model.statistics.gpu_time_counts import MOST_BINS, count_rollups
from gssr.model.verdicts import judge as verdicts_of
from gssr.model.window import extent
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.window_edges import ALL_TIME

LEAST_PRECISION, LEAST_RECALL = 0.95, 0.9
LONG_SECONDS, LONG_INTERVAL, LONG_GPUS = 3600, 2.0, 8
"""What a long job lasts and how often it is sampled, s; smaller ones are always judged from short bins."""

Given = Callable[[RunReader], Iterable[Verdict]]
"""The verdicts that are given of a run."""


class Outcome(NamedTuple):
    """What was said of a job: ``found`` of what had to be, ``missed`` (alternatives joined by ``|``), ``false`` alarms."""

    name: str
    found: frozenset[str]
    missed: frozenset[str]
    false: frozenset[str]


def as_analyzed(reader: RunReader) -> Iterable[Verdict]:
    """Those of ``gssr analyze``."""
    return analyze(reader).verdicts


def as_large(reader: RunReader) -> Iterable[Verdict]:
    """As if it had so many GPUs that it is judged from rollups of a minute."""
    positions, interval = np.arange(len(reader.gpus)), reader.sampling_seconds
    names = [name for name in evidence_names(reader) if name in METRICS]
    bins = series.bins_of_buckets(extent(reader), max(interval, LEVELS[1] / 2), MOST_BINS)
    counted = count_rollups(reader, names, positions, bins, ALL_TIME)
    return verdicts_of(gather(reader, positions, counted=counted)).verdicts


def as_rows(reader: RunReader) -> Iterable[Verdict]:
    """As if it had so few GPUs that it is judged from its rows."""
    rows = reader.samples(evidence_names(reader))
    return verdicts_of(gather(reader, np.arange(len(reader.gpus)), rows=rows)).verdicts


def codes_of(labelled: Labelled, folder: str | Path, *given: Given) -> list[frozenset[str]]:
    """The codes of the verdicts that are given of the job, in each of these ways; its recording is written into ``folder``
    and deleted again."""
    path = Path(folder) / "job.sql"
    write(str(path), labelled.name, labelled.job(), labelled.counters, labelled.host)
    try:
        reader = open_recording(path).runs[0]
        return [frozenset(verdict.code for verdict in each(reader)) for each in given]
    finally:
        path.unlink()


def judge(labelled: Labelled, codes: frozenset[str]) -> Outcome:
    """Hold the codes that were given against the job's labels."""
    missed = frozenset(wanted for wanted in labelled.must if not codes & set(wanted.split("|")))
    wanted = frozenset(code for each in labelled.must for code in each.split("|"))
    return Outcome(labelled.name, codes & wanted, missed, codes - wanted - labelled.may)


def outcomes(jobs: Iterable[Labelled], *given: Given) -> Iterator[list[Outcome]]:
    """Make and record each job, and judge it in each of these ways."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        for labelled in jobs:
            yield [judge(labelled, codes) for codes in codes_of(labelled, folder, *given)]


def measure_half(held_out: bool = False) -> Iterator[Figure]:
    """Of one half of the jobs."""
    title = "truth, held out" if held_out else "truth"
    yield from measure(title, [labelled for labelled in JOBS if labelled.held_out == held_out])


def measure_drawn() -> Iterator[Figure]:
    """Of jobs drawn by chance."""
    yield from measure("truth, drawn", drawn.jobs())


def measure_long() -> Iterator[Figure]:
    """Of all of them that have some GPUs, each stretched to an hour: verdicts must not depend on how long a job lasts."""
    every = [labelled for labelled in (*JOBS, *drawn.jobs()) if labelled.nodes * labelled.per_node >= LONG_GPUS]
    jobs = [labelled._replace(seconds=LONG_SECONDS, interval=LONG_INTERVAL) for labelled in every]
    yield from measure("truth, long", jobs, {"as large": as_large, "from rows": as_rows})


def measure(title: str, jobs: Sequence[Labelled], ways: Mapping[str, Given] | None = None) -> Iterator[Figure]:
    """What was missed or wrong, job by job; precision and recall of each code, and of all; in each of the ``ways`` to judge
    a job, by what they are called."""
    ways = ways or {"": as_analyzed}
    titles = [f"{title}, {way}" if way else title for way in ways]
    tallies = [(Counter[str](), Counter[str](), Counter[str]()) for _ in ways]
    for each in outcomes(jobs, *ways.values()):
        for own, (found, missed, false), outcome in zip(titles, tallies, each, strict=True):
            found.update(outcome.found)
            missed.update(outcome.missed)
            false.update(outcome.false)
            for code in sorted(outcome.missed):
                yield Figure(f"{own}: {outcome.name!r} lacks {code}", 1, "missed")
            for code in sorted(outcome.false):
                yield Figure(f"{own}: {outcome.name!r} has {code}", 1, "false alarm")
    for own, (found, missed, false) in zip(titles, tallies, strict=True):
        for code in sorted({*found, *missed, *false}):
            yield from _rates(f"{own}, {code}", found[code], missed[code], false[code])
        yield Figure(f"{own}: jobs", len(jobs), "jobs")
        least = LEAST_PRECISION, LEAST_RECALL
        yield from _rates(f"{own}, all", found.total(), missed.total(), false.total(), least)


def _rates(
    title: str, found: int, missed: int, false: int, least: tuple[float | None, float | None] = (None, None)
) -> Iterator[Figure]:
    """Those that can be told; the counts behind them are their unit."""
    for name, wrong, limit in (("precision", false, least[0]), ("recall", missed, least[1])):
        if found + wrong:
            rate = found / (found + wrong)
            yield Figure(f"{title}: {name}", rate, f"{found} of {found + wrong}", limit, at_least=True)
