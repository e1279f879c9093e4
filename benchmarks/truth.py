"""How often the verdicts are right: simulated jobs with known causes (tests/fakes/jobs), judged as by ``gssr analyze``."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from benchmarks.table import Figure
from gssr.model.evidence.evidence import METRICS
from gssr.model.evidence.gather import evidence_names, gather
from gssr.model.results import Verdict
from gssr.model.statistics import series
from gssr.model.statistics.gpu_time_counts import MOST_BINS, count_rollups
from gssr.model.verdicts import judge
from gssr.model.window import extent
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.window_edges import ALL_TIME
from tests.fakes.jobs.draw import draw, half
from tests.fakes.jobs.exam import Result, examine, measure
from tests.fakes.jobs.labels import Job

JOBS_VARIABLE, JOBS = "GSSR_EXAM_JOBS", 1_000
"""Environment variable with the number of jobs that are drawn, and as many healthy ones; and that without it."""
LEAST_PRECISION, LEAST_RECALL, MOST_BLAMED = 0.95, 0.9, 0.01
"""Of all, and the share of healthy jobs that may be warned about."""
OFTEN, CODE_PRECISION, CODE_RECALL = 30, 0.9, 0.8
"""Of each code that had to be said so many times."""
LONG_JOBS, LONG_SECONDS, LONG_GPUS = 60, 3600.0, 16
"""So many jobs are stretched to so long, s: of few GPUs, which are sampled each second, to be judged in minutes."""


def measure_half(which: int = 1) -> Iterator[Figure]:
    """Of the jobs of one half, and as many healthy ones."""
    title, n = "truth" if which == 1 else "truth, held out", int(os.environ.get(JOBS_VARIABLE, JOBS))
    drawn = measure(n=n, which=which)
    yield from figures(title, drawn)
    blamed, healthy = np.add(
        drawn.healthy_blamed(), measure(n=n, which=which, is_healthy=True).healthy_blamed()
    ).tolist()
    yield Figure(f"{title}: healthy jobs warned about", blamed / healthy, f"{blamed} of {healthy}", MOST_BLAMED)


def measure_long() -> Iterator[Figure]:
    """Of jobs of the first half, each stretched to an hour: verdicts must not depend on how long a job lasts, nor on whether
    its rows or its rollups are read."""
    for title, way in (("as large", as_large), ("from rows", as_rows)):
        yield from figures(f"truth, long, {title}", examine(islice(long_jobs(), LONG_JOBS), way))


def long_jobs() -> Iterator[Job]:
    """Those of the first half that have few GPUs and are sampled each second, stretched."""
    for job in map(draw, half(1, JOBS)):
        if len(job.plan.gpus) <= LONG_GPUS and job.sampling.interval == 1.0:
            yield stretched(job)


def stretched(job: Job, seconds: float = LONG_SECONDS) -> Job:
    """The job with as many steps as take about so long; causes keep their own lengths."""
    return replace(job, plan=replace(job.plan, seconds=seconds).lasting())


def as_large(path: str) -> set[tuple[str, str]]:
    """What is said of a recording as if it had so many GPUs that it is judged from rollups of a minute."""
    reader, positions = _run(path)
    names = [name for name in evidence_names(reader) if name in METRICS]
    bins = series.bins_of_buckets(extent(reader), max(reader.sampling_seconds, LEVELS[1] / 2), MOST_BINS)
    counted = count_rollups(reader, names, positions, bins, ALL_TIME)
    return _said(judge(gather(reader, positions, counted=counted)).verdicts)


def as_rows(path: str) -> set[tuple[str, str]]:
    """The same as if it had so few that it is judged from its rows."""
    reader, positions = _run(path)
    return _said(judge(gather(reader, positions, rows=reader.samples(evidence_names(reader)))).verdicts)


def _run(path: str) -> tuple[RunReader, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    reader = open_recording(path).runs[0]
    return reader, np.arange(len(reader.gpus))


def _said(verdicts: Iterable[Verdict]) -> set[tuple[str, str]]:
    return {(verdict.code, verdict.severity) for verdict in verdicts}


def figures(title: str, result: Result) -> Iterator[Figure]:
    """What was missed or wrong, job by job; precision and recall of each code, and of all."""
    for answer in result.answers:
        job = f"{answer.job.seed} {answer.job.name} {answer.job.sampling.name}"
        for code in sorted(answer.missed):
            yield Figure(f"{title}: {job} lacks {code}", 1, "missed")
        for code in sorted(answer.false):
            yield Figure(f"{title}: {job} has {code}", 1, "false alarm")
    for code, (said, false, must, missed) in result.codes().items():
        least = (CODE_PRECISION, CODE_RECALL) if must >= OFTEN else (None, None)
        yield from _rates(f"{title}, {code}", (said, false), (must, missed), least)
    yield Figure(f"{title}: jobs", len(result.answers), "jobs")
    yield Figure(f"{title}, all: precision", result.precision(), "ratio", LEAST_PRECISION, at_least=True)
    yield Figure(f"{title}, all: recall", result.recall(), "ratio", LEAST_RECALL, at_least=True)


def _rates(
    title: str, said: tuple[int, int], wanted: tuple[int, int], least: tuple[float | None, float | None]
) -> Iterator[Figure]:
    """Those that can be told; the counts behind them are their unit."""
    for name, (of, wrong), limit in (("precision", said, least[0]), ("recall", wanted, least[1])):
        if of:
            yield Figure(f"{title}: {name}", 1 - wrong / of, f"{of - wrong} of {of}", limit, at_least=True)
