"""What the runs of many recordings add up to: by user, label, command, job, node, GPU model, week or verdict.

Reading the figures of many recordings, by several processes where there are many of them. What can't be read is told and
never stops the rest.
"""

import math
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import NamedTuple

from gssr.model.fleet.figures import GpuFigures, RunFigures, figures
from gssr.model.statistics.aggregate import total
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Table
from gssr.model.window import extent
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording

UNKNOWN = "unknown"
N_BINS = 10
"""Of the distribution of scores."""


class Portion(NamedTuple):
    """What a run adds to a group: ``share`` of the ``figures`` of the run, or of one of its GPUs."""

    run: RunFigures
    figures: RunFigures | GpuFigures
    share: float = 1.0


class Group(NamedTuple):
    """Runs, or GPUs of runs, that have something in common: sums over them, in h and J; None where no run knows.

    ``score`` is the mean of their scores by GPU-hours, over the ``scored_gpu_hours``, so that ``wasted_gpu_hours`` =
    ``scored_gpu_hours`` (1 - ``score``). ``unused_gpu_hours`` are those of GPUs that were never used, ``idle_gpu_hours`` all
    in which a GPU did nothing; ``imbalance_gpu_hours`` are known of whole runs alone."""

    key: str
    n_runs: int
    gpu_hours: float
    scored_gpu_hours: float
    score: float | None
    wasted_gpu_hours: float | None
    idle_gpu_hours: float | None
    unused_gpu_hours: float | None
    imbalance_gpu_hours: float | None
    throttled_gpu_hours: float | None
    energy_j: float | None
    wasted_energy_j: float | None


class NodeHealth(NamedTuple):
    """A node over the runs it took part in. It is slow in a run in which heat or hardware slows down one of its GPUs, or
    one runs at a slower clock than the run's median GPU (the thresholds are those of the rules). ``devices``: the drivers'
    indices of those GPUs, the most frequent first; ``throttled``: the node's share of GPU-hours slowed down;
    ``lowest_clock``: the least mean clock of a GPU relative to the median GPU. None is unknown."""

    node: str
    n_runs: int
    n_slow: int
    gpu_hours: float
    devices: tuple[int, ...]
    throttled: float | None
    lowest_clock: float | None


class ScoreBin(NamedTuple):
    """Runs with ``low`` <= score < ``high``; both None: with an unknown score."""

    low: float | None
    high: float | None
    n_runs: int
    gpu_hours: float


def week_of(time: float | None) -> str:
    """The ISO week of a unix time, in UTC: ``2026-W47``."""
    if time is None or not math.isfinite(time):
        return UNKNOWN
    try:
        year, week, _ = datetime.fromtimestamp(time, UTC).isocalendar()
    except (ValueError, OverflowError, OSError):  # a clock that never was
        return UNKNOWN
    return f"{year}-W{week:02d}"


def job_of(run: RunFigures) -> str:
    """The launcher's job, with its cluster where that is known; of a run without one, the run itself."""
    if run.job_id is None:
        return run.run_id
    return f"{run.cluster}/{run.job_id}" if run.cluster else run.job_id


def _of_runs(key: Callable[[RunFigures], str | None]) -> Callable[[RunFigures], Iterator[tuple[str, Portion]]]:
    def portions(run: RunFigures) -> Iterator[tuple[str, Portion]]:
        yield key(run) or UNKNOWN, Portion(run, run)

    return portions


def _of_gpus(key: Callable[[GpuFigures], str | None]) -> Callable[[RunFigures], Iterator[tuple[str, Portion]]]:
    def portions(run: RunFigures) -> Iterator[tuple[str, Portion]]:
        for gpu in run.gpus:
            yield key(gpu) or UNKNOWN, Portion(run, gpu)

    return portions


def _of_verdicts(run: RunFigures) -> Iterator[tuple[str, Portion]]:
    codes: dict[str, float] = {}
    for verdict in run.verdicts or ():
        share = len(verdict.gpus) / run.n_gpus if verdict.gpus and run.n_gpus else 1.0
        codes[verdict.code] = max(share, codes.get(verdict.code, 0.0))
    for code, share in (codes or {"none": 1.0}).items():
        yield code, Portion(run, run, share)


BY: dict[str, Callable[[RunFigures], Iterator[tuple[str, Portion]]]] = {
    "user": _of_runs(lambda run: run.user),
    "label": _of_runs(lambda run: run.label),
    "command": _of_runs(lambda run: run.program),
    "job": _of_runs(job_of),
    "node": _of_gpus(lambda gpu: gpu.node),
    "gpu": _of_gpus(lambda gpu: gpu.name),
    "week": _of_runs(lambda run: week_of(run.started_at)),
    "verdict": _of_verdicts,
}
"""What runs can be grouped by. By node and by GPU model, each GPU counts with its own score; by verdict, a run counts once
for each of its verdicts, with the GPUs concerned."""
NEEDS_VERDICTS = "verdict"

SORTS: dict[str, tuple[str, bool]] = {
    "wasted": ("wasted_gpu_hours", True), "idle": ("idle_gpu_hours", True), "unused": ("unused_gpu_hours", True),
    "uneven": ("imbalance_gpu_hours", True), "throttled": ("throttled_gpu_hours", True), "hours": ("gpu_hours", True),
    "energy": ("energy_j", True), "wasted-energy": ("wasted_energy_j", True), "score": ("score", False),
    "runs": ("n_runs", True), "name": ("key", False),
}  # fmt: skip
"""What groups can be sorted by: a field, and whether the greatest comes first."""


def groups(runs: Iterable[RunFigures], by: str, sort: str = "wasted") -> list[Group]:
    """The runs grouped by one of BY, sorted by one of SORTS; of equals the name decides, and what is unknown comes last."""
    members: dict[str, list[Portion]] = {}
    for run in runs:
        for key, portion in BY[by](run):
            members.setdefault(key, []).append(portion)
    field, falling = SORTS[sort]
    found = [_group(key, portions) for key, portions in sorted(members.items())]
    known = [group for group in found if getattr(group, field) is not None]
    known.sort(key=lambda group: getattr(group, field), reverse=falling)
    return known + [group for group in found if getattr(group, field) is None]


def together(runs: Iterable[RunFigures]) -> Group:
    """All of them as one group."""
    return _group("", [Portion(run, run) for run in runs])


def _group(key: str, portions: Sequence[Portion]) -> Group:
    def summed(field: str) -> float | None:
        values = ((getattr(portion.figures, field, None), portion.share) for portion in portions)
        return total(None if value is None else value * share for value, share in values)

    wasted = summed("wasted_gpu_hours")
    scored = sum(each.figures.gpu_hours * each.share for each in portions if each.figures.score is not None)
    return Group(
        key=key,
        n_runs=len({(portion.run.run_id, portion.run.file) for portion in portions}),
        gpu_hours=summed("gpu_hours") or 0.0,
        scored_gpu_hours=scored,
        score=1 - wasted / scored if wasted is not None and scored > 0 else None,
        wasted_gpu_hours=wasted,
        idle_gpu_hours=summed("idle_gpu_hours"),
        unused_gpu_hours=total(_unused(portion) for portion in portions),
        imbalance_gpu_hours=summed("imbalance_gpu_hours"),
        throttled_gpu_hours=summed("throttled_gpu_hours"),
        energy_j=summed("energy_j"),
        wasted_energy_j=summed("wasted_energy_j"),
    )


def _unused(portion: Portion) -> float | None:
    own = portion.figures
    if isinstance(own, GpuFigures):
        return None if own.unused is None else own.unused * own.gpu_hours * portion.share
    hours = unused_gpu_hours(own)
    return None if hours is None else hours * portion.share


def unused_gpu_hours(run: RunFigures) -> float | None:
    """GPU-hours of the run's GPUs that were never used; None where that can't be known."""
    return None if run.unused_gpus is None else run.unused_gpus * run.duration_s / 3600


def with_unused(runs: Iterable[RunFigures]) -> list[RunFigures]:
    """Runs that never used some of their GPUs, those that held them longest first."""
    found = [run for run in runs if run.unused_gpus]
    return sorted(found, key=lambda run: (-(unused_gpu_hours(run) or 0.0), run.run_id))


def uneven(runs: Iterable[RunFigures]) -> list[RunFigures]:
    """Badly balanced runs, from the imbalance on that the rule of that name warns of; those that lost most GPU-hours
    first."""
    limit = TABLE.rule("imbalance").at("warning")
    found = [run for run in runs if run.imbalance is not None and run.imbalance >= limit]
    return sorted(found, key=lambda run: (-(run.imbalance_gpu_hours or 0.0), run.run_id))


def scores(runs: Iterable[RunFigures]) -> list[ScoreBin]:
    """How scores are distributed: N_BINS bins from 0 to 1 and, where there are any, the runs whose score is unknown."""
    counts, hours = [0] * (N_BINS + 1), [0.0] * (N_BINS + 1)
    for run in runs:
        at = N_BINS if run.score is None else min(max(int(run.score * N_BINS), 0), N_BINS - 1)
        counts[at] += 1
        hours[at] += run.gpu_hours
    bins = [ScoreBin(at / N_BINS, (at + 1) / N_BINS, counts[at], hours[at]) for at in range(N_BINS)]
    return bins + ([ScoreBin(None, None, counts[-1], hours[-1])] if counts[-1] else [])


def slow_nodes(runs: Iterable[RunFigures]) -> list[NodeHealth]:
    """Nodes that were slow in any run: those that were so most often first."""
    held: dict[str, list[list[GpuFigures]]] = {}
    for run in runs:
        own: dict[str, list[GpuFigures]] = {}
        for gpu in run.gpus:
            if gpu.node is not None:
                own.setdefault(gpu.node, []).append(gpu)
        for node, gpus in own.items():
            held.setdefault(node, []).append(gpus)
    found = [_health(node, per_run) for node, per_run in held.items()]
    return sorted((each for each in found if each.n_slow), key=lambda each: (-each.n_slow, -each.gpu_hours, each.node))


def _health(node: str, per_run: Sequence[Sequence[GpuFigures]]) -> NodeHealth:
    gpus = [gpu for own in per_run for gpu in own]
    often: dict[int, int] = {}
    for gpu in gpus:
        if _is_slow(gpu) and gpu.device_index is not None:
            often[gpu.device_index] = often.get(gpu.device_index, 0) + 1
    throttled = [gpu for gpu in gpus if gpu.throttled_gpu_hours is not None]
    hours = sum(gpu.gpu_hours for gpu in throttled)
    return NodeHealth(
        node=node,
        n_runs=len(per_run),
        n_slow=sum(any(_is_slow(gpu) for gpu in own) for own in per_run),
        gpu_hours=sum(gpu.gpu_hours for gpu in gpus),
        devices=tuple(sorted(often, key=lambda index: (-often[index], index))),
        throttled=sum(gpu.throttled_gpu_hours or 0.0 for gpu in throttled) / hours if hours > 0 else None,
        lowest_clock=min((gpu.relative_clock for gpu in gpus if gpu.relative_clock is not None), default=None),
    )


def _is_slow(gpu: GpuFigures) -> bool:
    share, clock = TABLE.rule("throttled_thermal").at("share"), TABLE.rule("slow_clock").at("clock")
    held_down = gpu.throttled_gpu_hours is not None and gpu.throttled_gpu_hours >= share * gpu.gpu_hours > 0
    slower = not gpu.unused and gpu.relative_clock is not None and gpu.relative_clock < clock
    return held_down or slower


MOST_PROCESSES = 16
PER_PROCESS = 25
"""Another process pays from so many recordings on."""
_AT_ONCE = 8


class Request(NamedTuple):
    """What to read of every recording: runs that began at ``since`` (unix s) or later, None for all; whether to judge them,
    and by which rules."""

    since: float | None = None
    verdicts: bool = False
    rules: Table = TABLE


ALL = Request()


class Fleet(NamedTuple):
    """``runs``, each once, in the order of the recordings; how many recordings were looked into; sentences about what could
    not be read; ``copies``: recordings of which a run was read elsewhere already."""

    runs: tuple[RunFigures, ...]
    n_recordings: int
    unreadable: tuple[str, ...]
    copies: tuple[str, ...]


class _Read(NamedTuple):
    runs: list[RunFigures]
    problem: str | None


def read_fleet(
    names: Sequence[str], request: Request = ALL, progress: Callable[[float], None] = lambda _: None
) -> Fleet:
    """The figures of every run of these recordings. ``progress`` is told the share done, 0-1."""
    runs: dict[tuple[str, float | None], RunFigures] = {}
    unreadable: list[str] = []
    copies: dict[str, None] = {}
    for done, (name, read) in enumerate(zip(names, _all(names, request), strict=True)):
        for run in read.runs:
            if runs.setdefault((run.run_id, run.started_at), run) is not run:
                copies[name] = None
        unreadable += [read.problem] if read.problem else []
        progress((done + 1) / len(names))
    return Fleet(tuple(runs.values()), len(names), tuple(unreadable), tuple(copies))


def _all(names: Sequence[str], request: Request) -> Iterator[_Read]:
    """Of each recording, in their order."""
    n = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(names) // PER_PROCESS)
    done = 0
    try:
        if n > 1:
            with _pool(n) as pool:
                for read in pool.map(_read, names, [request] * len(names), chunksize=_AT_ONCE):
                    done += 1
                    yield read
        else:
            yield from (_read(name, request) for name in names)
            return
    except BrokenProcessPool:
        yield from _one_by_one(names[done:], request)


def _one_by_one(names: Sequence[str], request: Request) -> Iterator[_Read]:
    """The same where one of them kills the process that reads it."""
    for name in names:
        with _pool(1) as pool:
            try:
                read = pool.submit(_read, name, request).result()
            except BrokenProcessPool:
                read = _Read([], f"{name}: the process that read it died")
        yield read


def _pool(n: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(n, get_context("fork"), initializer=_leave_interrupts_to_the_parent)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read(name: str, request: Request) -> _Read:
    runs: list[RunFigures] = []
    try:
        with closing(open_recording(name)) as recording:
            readers = [own for own in recording.runs if request.since is None or extent(own)[0] >= request.since]
            runs += (figures(reader, name, request.verdicts, request.rules) for reader in readers)
            return _Read(runs, recording.damage)
    except RecordingError as error:
        return _Read(runs, str(error))
    except OSError as error:
        return _Read(runs, f"{name}: can't be read: {error.strerror}")
    except Exception as error:  # one strange file among thousands
        return _Read(runs, f"{name}: can't be read: {error!r}")
