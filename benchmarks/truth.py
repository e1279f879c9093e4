"""How often the account of GPU time and its verdicts are right, on simulated jobs whose books are known.

Two simulators of different hands: ``truth`` runs the one that the account was developed on (tests/fakes/jobs), and
``truth-unseen`` the one that examines it (tests/fakes/unseen_jobs), whose author had seen neither the code nor its
thresholds nor what the other draws, and who simulates programs in place of drawing phases.
Seeds are drawn from GSSR_EXAM_SEED, so that a new one gives jobs that nobody has seen.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from benchmarks.table import Figure
from gssr.arrays import Ints
from gssr.model.account.book import account_for
from gssr.model.breakdown.categories import BRANCHES, CATEGORIES
from gssr.model.breakdown.result import Breakdown
from gssr.model.evidence.gather import evidence_names, gather
from gssr.model.results import Verdict
from gssr.model.statistics.gpu_time_counts import bins_to_count, count_rollups
from gssr.model.verdicts import judge_window
from gssr.model.window import extent
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import ALL_TIME, Window

JOBS_VARIABLE, JOBS, HEALTHY_JOBS = "GSSR_EXAM_JOBS", 300, 300
SEED_VARIABLE = "GSSR_EXAM_SEED"
"""Environment variables: how many jobs with a planted cause (and as many healthy ones), and what draws the seeds."""
BLAMES = ("warning", "critical")
NEAR_HOURS = 0.25
"""GPU-hours are right within this share of the books'."""
INVARIANT = 40
"""So many jobs are looked at in halves and by rollups as well."""


class BookedJob(Protocol):
    """A simulated job with its truth. ``planted``: by cause the codes that name it; ``allowed``: codes of what follows;
    ``shares``: the books, by category; ``lost_gpu_hours``: what the first cause costs, None if nobody can know."""

    seed: int
    kind: str
    view: str
    planted: tuple[frozenset[str], ...]
    allowed: frozenset[str]
    shares: Mapping[str, float]
    lost_gpu_hours: float | None

    def write(self, path: str) -> None:
        """Write the recording."""


Comparable = Callable[[Mapping[str, float], str], Mapping[str, float]]
"""Merges the leaves of shares that a view can't tell apart."""


@dataclass
class Tally:
    """What came out, job by job."""

    branch_errors: list[float] = field(default_factory=list)
    leaf_errors: list[float] = field(default_factory=list)
    n_warnings: int = 0
    n_false: int = 0
    n_planted: int = 0
    n_named: int = 0
    n_sick: int = 0
    n_first: int = 0
    n_silent: int = 0
    n_only_unexplained: int = 0
    n_healthy: int = 0
    n_blamed: int = 0
    hours: list[bool] = field(default_factory=list)

    def add(self, job: BookedJob, shares: Mapping[str, float], verdicts: tuple[Verdict, ...], same: Comparable) -> None:
        """Hold what was said of a job against its books."""
        true, found = same(job.shares, job.view), same(shares, job.view)
        self.leaf_errors.append(max(abs(true[name] - found[name]) for name in true))
        self.branch_errors.append(max(abs(_branch(true, each) - _branch(found, each)) for each in BRANCHES))
        codes = [verdict.code for verdict in verdicts]
        warned = [verdict.code for verdict in verdicts if verdict.severity in BLAMES]
        true_codes = job.allowed.union(*job.planted)
        if not job.planted and not job.allowed:
            self.n_healthy += 1
            self.n_blamed += bool(warned)
        self.n_warnings += len(warned)
        self.n_false += sum(code not in true_codes for code in warned)
        if job.planted:
            self.n_sick += 1
            self.n_planted += len(job.planted)
            self.n_named += sum(any(code in cause for code in codes) for cause in job.planted)
            first = (warned or codes)[:1]
            self.n_first += any(code in cause for cause in job.planted for code in first)
            self.n_silent += not codes
            self.n_only_unexplained += bool(warned) and set(warned) <= {"unexplained"}
            own = next((each for each in verdicts if each.code in job.planted[0] and each.gpu_hours is not None), None)
            if own is not None and own.gpu_hours is not None and job.lost_gpu_hours:
                self.hours.append(abs(own.gpu_hours - job.lost_gpu_hours) <= NEAR_HOURS * job.lost_gpu_hours)

    def figures(self, title: str) -> Iterator[Figure]:
        """The figures that are promised, and how many jobs they are of."""
        n = len(self.branch_errors)
        branch, leaf = np.array(self.branch_errors), np.array(self.leaf_errors)
        yield Figure(f"{title}: jobs", n, "jobs")
        if n:
            yield _at_least(f"{title}: top level within 0.05", float((branch <= 0.05).mean()), 0.92)
            yield _at_least(f"{title}: top level within 0.10", float((branch <= 0.10).mean()), 0.97)
            yield _at_least(f"{title}: leaves within 0.10", float((leaf <= 0.10).mean()), 0.85)
        if self.n_warnings:
            yield _at_least(f"{title}: precision", 1 - self.n_false / self.n_warnings, 0.95)
        if self.n_sick:
            yield _at_least(f"{title}: recall", self.n_named / self.n_planted, 0.92)
            yield _at_least(f"{title}: first verdict is the cause", self.n_first / self.n_sick, 0.85)
            yield Figure(f"{title}: sick jobs with silence", self.n_silent / self.n_sick, "ratio", 0.02)
            only = self.n_only_unexplained / self.n_sick
            yield Figure(f"{title}: sick jobs, only unexplained", only, "ratio", 0.10)
        if self.n_healthy:
            yield Figure(f"{title}: healthy jobs warned about", self.n_blamed / self.n_healthy, "ratio", 0.01)
        if self.hours:
            yield _at_least(f"{title}: GPU-hours within a quarter", float(np.mean(self.hours)), 0.9)


def _at_least(what: str, value: float, limit: float) -> Figure:
    return Figure(what, value, "ratio", limit, at_least=True)


def _branch(shares: Mapping[str, float], branch: str) -> float:
    return sum(share for name, share in shares.items() if name.partition(".")[0] == branch)


def measure_developed() -> Iterator[Figure]:
    """Of the simulator that the account was developed on."""
    from tests.fakes.jobs.booked import booked_job, comparable

    yield from _measure("truth", booked_job, comparable)


def measure_unseen() -> Iterator[Figure]:
    """Of a second simulator, written by a hand that has not seen the account, its thresholds or the jobs of the first:
    programs are simulated, and who waits for whom follows from what each rank does."""
    from tests.fakes.unseen_jobs import comparable, unseen_job

    yield from _measure("unseen", unseen_job, comparable)


def _measure(title: str, make: Callable[..., BookedJob], same: Comparable) -> Iterator[Figure]:
    n = int(os.environ.get(JOBS_VARIABLE, JOBS))
    seeds = np.random.default_rng((int(os.environ.get(SEED_VARIABLE, "1")), 20)).integers(1 << 20, 1 << 31, 2 * n)
    whole, by_view, apart = Tally(), dict[str, Tally](), list[float]()
    for number, seed in enumerate(seeds.tolist()):
        job = make(seed, healthy=number >= n)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "job.sql")
            job.write(path)
            reader = open_recording(path).runs[0]
            positions = np.arange(len(reader.gpus))
            judgement = judge_window(reader, positions)
            if number < INVARIANT and judgement.breakdown is not None:
                apart.append(_invariance(reader, positions, judgement.breakdown))
        if judgement.breakdown is None:
            yield Figure(f"{title}: {seed} {job.kind} has no breakdown", 1, "missed")
            continue
        for tally in (whole, by_view.setdefault(job.view, Tally())):
            tally.add(job, shares_of(judgement.breakdown), judgement.verdicts, same)
        yield from _wrong(title, job, judgement.verdicts)
    yield from whole.figures(title)
    for view, tally in sorted(by_view.items()):
        yield from tally.figures(f"{title}, {view}")
    if apart:
        yield _at_least(
            f"{title}: top level the same by rollups, halves (0.03)", float(np.mean(np.array(apart) <= 0.03)), 1.0
        )


def shares_of(breakdown: Breakdown) -> dict[str, float]:
    """The shares by category's name."""
    return {each.name: float(share) for each, share in zip(CATEGORIES, breakdown.shares, strict=True)}


def _wrong(title: str, job: BookedJob, verdicts: tuple[Verdict, ...]) -> Iterator[Figure]:
    """What was missed and what is false, for who wants to see the job: GSSR_EXAM_SHOW=1."""
    if not os.environ.get("GSSR_EXAM_SHOW"):
        return
    warned = [each.code for each in verdicts if each.severity in BLAMES]
    codes = {each.code for each in verdicts}
    for code in warned:
        if code not in job.allowed.union(*job.planted):
            yield Figure(f"{title}: {job.seed} {job.kind} {job.view} has {code}", 1, "false")
    for cause in job.planted:
        if not codes & cause:
            yield Figure(
                f"{title}: {job.seed} {job.kind} {job.view} lacks {'|'.join(sorted(cause))}, has {warned}", 1, "missed"
            )


def _invariance(reader: RunReader, positions: Ints, whole: Breakdown) -> float:
    """The largest difference of a top-level share, between start-up and end, if rollups of 10 s are read instead of what
    was read, or both halves of the window apart."""
    span = extent(reader)
    others = []
    names = evidence_names(reader)
    if span.seconds > 20 * LEVELS[0]:
        bins = bins_to_count(len(positions), reader.n_rows, span, reader.sampling_seconds or 1.0)
        counted = count_rollups(reader, names, positions, bins, ALL_TIME)
        others.append(_inner(account_for(gather(reader, positions, counted=counted)).breakdown.by_gpu.sum(axis=0)))
    middle = (span.start + span.end) / 2
    halves = [
        account_for(gather(reader, positions, window)).breakdown.by_gpu.sum(axis=0)
        for window in (Window(span.start, middle), Window(middle, span.end))
    ]
    others.append(_inner(halves[0] + halves[1]))
    own = _inner(whole.by_gpu.sum(axis=0))
    return max(float(np.abs(own - other).max()) for other in others)


def _inner(seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Shares of the branches that are judged in any window: of idle, communication and working time."""
    by_branch = np.array(
        [
            sum(seconds[at] for at, each in enumerate(CATEGORIES) if each.branch == name)
            for name in ("idle", "communication", "working")
        ]
    )
    return by_branch / max(by_branch.sum(), 1e-9)
