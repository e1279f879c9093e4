"""What the runs of many recordings add up to: by user, account, job, node, GPU model, week, state, cause and the like.

Reading the figures of many recordings is a map over them (gssr/workers.py). What can't be read is told and never stops the
rest.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.fleet.allocations import Allocated
from gssr.model.fleet.bad_nodes import BadNode, bad_nodes
from gssr.model.fleet.figures import COMMON, GpuFigures, RunFigures, read_figures
from gssr.model.fleet.index import ENDED, digest, rows_of, runs_in_index
from gssr.model.statistics.aggregate import sum_known
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import RuleTable
from gssr.model.window import extent
from gssr.store.index import Index, Rows, state
from gssr.store.liveness import silent_seconds
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.workers import HERE, Workers

UNKNOWN = "unknown"
N_BINS = 10
"""Of the distribution of scores."""


class RunGroup(NamedTuple):
    """Runs, or GPUs of runs, that have something in common: sums over them, in h and J; None where no run knows.

    ``score`` is the mean of their scores by GPU-hours, over the ``scored_gpu_hours``, so that ``wasted_gpu_hours`` =
    ``scored_gpu_hours`` (1 - ``score``). ``unused_gpu_hours`` are those of GPUs that were never used, ``idle_gpu_hours`` all
    in which a GPU did nothing; ``imbalance_gpu_hours`` are known of whole runs alone. A group by cause has hours alone: all
    of a loss are wasted, and its ``scored_gpu_hours`` are None."""

    key: str
    n_runs: int
    gpu_hours: float
    scored_gpu_hours: float | None
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


def week_of(unix_time: float | None) -> str:
    """Return the ISO week of a unix time, in UTC: ``2026-W47``; UNKNOWN for None, NaN, and times no calendar has."""
    if unix_time is None or not math.isfinite(unix_time):
        return UNKNOWN
    try:
        year, week, _ = datetime.fromtimestamp(unix_time, UTC).isocalendar()
    except (ValueError, OverflowError, OSError):  # a clock that never was
        return UNKNOWN
    return f"{year}-W{week:02d}"


def job_of(run: RunFigures) -> str:
    """Return the launcher's job, with its cluster if that is known; for a run without one, the run's id."""
    if run.shown_job is None:
        return run.run_id
    return f"{run.cluster}/{run.shown_job}" if run.cluster else run.shown_job


NO_ARRAY = "no array"
"""What runs outside of an array of jobs go by, where they are grouped by array."""


def array_of(run: RunFigures) -> str:
    """Return the id of the array of jobs that the run's job is a task of, with its cluster if that is known."""
    if run.array_job_id is None:
        return NO_ARRAY
    return f"{run.cluster}/{run.array_job_id}" if run.cluster else run.array_job_id


def name_of(run: RunFigures) -> str | None:
    """Return what its user knows a run by: its label, else the job's name, else what it runs; None if it has none."""
    return run.label or run.job_name or run.program


_Portion = tuple[str, int, RunFigures | GpuFigures]
"""What a run adds to a group: the key of the group, which run of all it is (its number), and the figures, which are the
run's or one of its GPUs'."""
_Divide = Callable[[Sequence[RunFigures]], list[_Portion]]


def _of_runs(key: Callable[[RunFigures], str | None]) -> _Divide:
    """Return a function that divides runs into groups by a run's ``key`` (None is UNKNOWN)."""
    return lambda runs: [(key(run) or UNKNOWN, number, run) for number, run in enumerate(runs)]


def _of_gpus(key: Callable[[GpuFigures], str | None]) -> _Divide:
    """Return how to divide runs by GPU, by this key (None is UNKNOWN); each GPU counts with its own figures."""
    return lambda runs: [(key(gpu) or UNKNOWN, number, gpu) for number, run in enumerate(runs) for gpu in run.gpus]


BY: dict[str, _Divide] = {
    "user": _of_runs(lambda run: run.user),
    "account": _of_runs(lambda run: run.account),
    "partition": _of_runs(lambda run: run.partition),
    "label": _of_runs(lambda run: run.label),
    "command": _of_runs(lambda run: run.program),
    "job": _of_runs(job_of),
    "array": _of_runs(array_of),
    "node": _of_gpus(lambda gpu: gpu.node),
    "model": _of_gpus(lambda gpu: gpu.name),
    "gpu": _of_gpus(lambda gpu: gpu.name),
    "week": _of_runs(lambda run: week_of(run.started_at)),
    "state": _of_runs(lambda run: run.state),
}
"""What runs can be grouped by, besides by cause. By node and by GPU model, each GPU counts with its own score. The model was
called gpu."""
CAUSE, ALIAS_OF_CAUSE = "cause", "verdict"
"""By what the GPU-hours went to; it was called by verdict."""
COMPUTING = "computing"
"""What the hours of work that is no loss are called: they are one group."""
LEAST_SHARE_OF_CAUSE = 0.005
"""A run counts among the runs of a cause from this share of its GPU time on: as much as its own page shows. So it does in
the view by_cause of the database (gssr.convert.fleet_database)."""

SORTS: dict[str, tuple[str, bool]] = {
    "wasted": ("wasted_gpu_hours", True), "lost": ("wasted_gpu_hours", True),
    "idle": ("idle_gpu_hours", True), "unused": ("unused_gpu_hours", True),
    "uneven": ("imbalance_gpu_hours", True), "throttled": ("throttled_gpu_hours", True), "hours": ("gpu_hours", True),
    "energy": ("energy_j", True), "wasted-energy": ("wasted_energy_j", True), "score": ("score", False),
    "runs": ("n_runs", True), "name": ("key", False),
}  # fmt: skip
"""What groups can be sorted by: a field, and whether the greatest comes first. Lost is what groups by cause have wasted."""


BADLY_BALANCED = 0.1
"""A run whose imbalance is at least this is badly balanced: ranks of healthy runs differ by a few percent."""


def is_by_cause(by: str | None) -> bool:
    """Tell whether this groups runs by cause, for which the runs must have been judged."""
    return by in (CAUSE, ALIAS_OF_CAUSE)


def groups(runs: Sequence[RunFigures], by: str, sort: str = "wasted") -> list[RunGroup]:
    """Group the runs by one of BY, by CAUSE or its alias, sorted by one of SORTS. The name decides between equals, and
    groups for which that is unknown come last."""
    field, falling = SORTS[sort]
    divided = _group_by_cause(runs) if is_by_cause(by) else _summed(BY[by](runs))
    found = sorted(divided, key=lambda group: group.key)
    known = [group for group in found if getattr(group, field) is not None]
    known.sort(key=lambda group: getattr(group, field), reverse=falling)
    return known + [group for group in found if getattr(group, field) is None]


def hours_by_category(runs: Sequence[RunFigures]) -> dict[str, float] | None:
    """Add up the GPU-hours of runs by the category that they were booked in, by its name. None if no run was judged."""
    judged = [run.hours_by_category for run in runs if run.hours_by_category is not None]
    if not judged:
        return None
    return {each.name: math.fsum(hours) for each, hours in zip(CATEGORIES, zip(*judged, strict=True), strict=True)}


def lost_gpu_hours(runs: Sequence[RunFigures]) -> float | None:
    """Add up the GPU-hours of runs in which a GPU could have worked, by every cause. None if no run was judged."""
    hours = hours_by_category(runs)
    return None if hours is None else math.fsum(hours[each.name] for each in CATEGORIES if each.is_loss)


def _group_by_cause(runs: Sequence[RunFigures]) -> list[RunGroup]:
    """Divide the GPU-hours of the runs that were judged into groups: what was lost, by category, the computing, and the
    time outside the work.

    They add up to all hours; groups without any are left out. A run counts among a group's runs if the group has at
    least LEAST_SHARE_OF_CAUSE of its hours. All hours of a loss are wasted, of the others none; the score and energy of
    a run can't be divided so, and are None.
    """
    keys = [COMPUTING if each.branch == "working" and not each.is_loss else each.name for each in CATEGORIES]
    is_loss = {key: each.is_loss for key, each in zip(keys, CATEGORIES, strict=True)}
    hours, n_runs = dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 0)
    for run in runs:
        own = dict.fromkeys(keys, 0.0)
        for key, value in zip(keys, run.hours_by_category or (), strict=False):
            own[key] += value
        for key, value in own.items():
            hours[key] += value
            n_runs[key] += value > 0 and value >= LEAST_SHARE_OF_CAUSE * run.gpu_hours
    return [
        RunGroup(key, n_runs[key], own, None, None, own if is_loss[key] else 0.0, *[None] * 6)
        for key, own in hours.items()
        if own > 0
    ]


def together(runs: Sequence[RunFigures]) -> RunGroup:
    """Add up all of the runs as one group, whose key is empty. Without runs its hours are 0 and all else is None."""
    found = _summed([("", number, run) for number, run in enumerate(runs)])
    return found[0] if found else RunGroup("", 0, 0.0, 0.0, *[None] * 8)


def without_runs(keys: Iterable[str]) -> list[RunGroup]:
    """Make groups of these keys that have no run, in the keys' order."""
    return [RunGroup(key, 0, 0.0, 0.0, *[None] * 8) for key in sorted(keys)]


_COMMON = tuple(column.name for column in COMMON)


def _summed(portions: Sequence[_Portion]) -> list[RunGroup]:
    """Add up the figures of the runs, or of their GPUs, in each group, in the order in which the groups first occur; []
    without any. What no run of a group knows is None; otherwise what is known is added up."""
    if not portions:
        return []
    places: dict[str, int] = {}
    group = np.array([places.setdefault(key, len(places)) for key, _, _ in portions], np.int64)
    run = np.array([number for _, number, _ in portions], np.int64)
    columns = _stack_figures([figures for _, _, figures in portions])
    scored = np.where(np.isfinite(columns["score"]), columns["gpu_hours"], 0.0)
    hours = columns["duration_s"] / 3600 if "duration_s" in columns else columns["gpu_hours"]
    columns["unused_gpu_hours"] = columns["unused"] * hours

    def per_group(values: Floats) -> list[float | None]:
        known = np.isfinite(values)
        sums = np.bincount(group, np.where(known, values, 0.0), len(places))
        n_known = np.bincount(group, known, len(places))
        return [own if n else None for own, n in zip(sums.tolist(), n_known.tolist(), strict=True)]

    sums = {name: per_group(values) for name, values in columns.items()}
    scored_hours = [own or 0.0 for own in per_group(scored)]
    n_all = int(run.max()) + 1
    n_runs = np.bincount(np.unique(group * n_all + run) // n_all, minlength=len(places)).tolist()
    imbalance = sums.get("imbalance_gpu_hours", [None] * len(places))
    return [
        RunGroup(
            key=key,
            n_runs=n_runs[at],
            gpu_hours=sums["gpu_hours"][at] or 0.0,
            scored_gpu_hours=scored_hours[at],
            score=1 - wasted / scored_hours[at] if wasted is not None and scored_hours[at] > 0 else None,
            wasted_gpu_hours=wasted,
            idle_gpu_hours=sums["idle_gpu_hours"][at],
            unused_gpu_hours=sums["unused_gpu_hours"][at],
            imbalance_gpu_hours=imbalance[at],
            throttled_gpu_hours=sums["throttled_gpu_hours"][at],
            energy_j=sums["energy_j"][at],
            wasted_energy_j=sums["wasted_energy_j"][at],
        )
        for key, at in places.items()
        for wasted in (sums["wasted_gpu_hours"][at],)
    ]


def _stack_figures(figures: Sequence[RunFigures | GpuFigures]) -> dict[str, Floats]:
    """Take the figures that are added up from runs or GPUs (at least one) and return them by name, float64[n]; NaN is
    unknown. "unused" is the number of GPUs that did nothing: of a GPU 1 or 0. "imbalance", "imbalance_gpu_hours" and
    "duration_s" are there of runs alone."""
    kind = type(figures[0])
    names = [*_COMMON, *(["unused_gpus", "imbalance", "imbalance_gpu_hours"] if kind is RunFigures else ["unused"])]
    first = kind._fields.index(names[0])
    whole = np.array([own[first : first + len(names)] for own in figures], np.float64)
    columns = dict(zip(names, whole.T, strict=True))
    if kind is RunFigures:
        columns["unused"] = columns.pop("unused_gpus")
        at = kind._fields.index("duration_s")
        columns["duration_s"] = np.array([own[at] for own in figures], np.float64)
    return columns


def unused_gpu_hours(run: RunFigures) -> float | None:
    """Return the GPU-hours of those of the run's GPUs that were never used; None where that can't be known."""
    return None if run.unused_gpus is None else run.unused_gpus * run.duration_s / 3600


def runs_with_most(runs: Iterable[RunFigures], sort: str) -> list[RunFigures]:
    """List the runs that have any of the GPU-hours that ``sort``, one of SORTS, names, those with most first."""
    field, _ = SORTS[sort]
    found = [run for run in runs if getattr(run, field)]
    return sorted(found, key=lambda run: (-float(getattr(run, field)), run.run_id))


def with_unused(runs: Iterable[RunFigures]) -> list[RunFigures]:
    """Find the runs that never used some of their GPUs. Those that held unused ones longest come first."""
    found = [run for run in runs if run.unused_gpus]
    return sorted(found, key=lambda run: (-(unused_gpu_hours(run) or 0.0), run.run_id))


def uneven(runs: Iterable[RunFigures]) -> list[RunFigures]:
    """List the badly balanced runs, from BADLY_BALANCED on, those that lost most GPU-hours first."""
    found = [run for run in runs if run.imbalance is not None and run.imbalance >= BADLY_BALANCED]
    return sorted(found, key=lambda run: (-(run.imbalance_gpu_hours or 0.0), run.run_id))


def scores(runs: Iterable[RunFigures]) -> list[ScoreBin]:
    """Count runs by their score, in N_BINS equal bins from 0 to 1. A last bin, if there are any, counts the runs whose score
    is unknown."""
    counts, hours = [0] * (N_BINS + 1), [0.0] * (N_BINS + 1)
    for run in runs:
        at = N_BINS if run.score is None else min(max(int(run.score * N_BINS), 0), N_BINS - 1)
        counts[at] += 1
        hours[at] += run.gpu_hours
    bins = [ScoreBin(at / N_BINS, (at + 1) / N_BINS, counts[at], hours[at]) for at in range(N_BINS)]
    return bins + ([ScoreBin(None, None, counts[-1], hours[-1])] if counts[-1] else [])


def slow_nodes(runs: Sequence[RunFigures]) -> list[NodeHealth]:
    """List the nodes of which a GPU was slow in any run, with how often. Those that were slow in most runs come first."""
    is_slow = _slowness()
    slow = {gpu.node for run in runs for gpu in run.gpus if gpu.node is not None and is_slow(gpu)}
    held: dict[str, list[list[GpuFigures]]] = {}
    for run in runs if slow else ():
        own: dict[str, list[GpuFigures]] = {}
        for gpu in run.gpus:
            if gpu.node in slow:
                own.setdefault(gpu.node or "", []).append(gpu)
        for node, gpus in own.items():
            held.setdefault(node, []).append(gpus)
    found = [_health(node, per_run, is_slow) for node, per_run in held.items()]
    return sorted(found, key=lambda each: (-each.n_slow, -each.gpu_hours, each.node))


def node_figures(run: RunFigures) -> list[dict[str, str | int | float | None]]:
    """Add up a run's GPUs by node: the node, ``n_gpus``, their hours as in GpuFigures, the ``lowest_clock`` of them, and
    ``is_slow``: 1 where one was slow, else 0. GPUs of which the node is unknown are left out. None is unknown."""
    is_slow = _slowness()
    nodes: dict[str, list[GpuFigures]] = {}
    for gpu in run.gpus:
        if gpu.node is not None:
            nodes.setdefault(gpu.node, []).append(gpu)
    return [
        {
            "node": node,
            "n_gpus": len(own),
            "gpu_hours": sum(gpu.gpu_hours for gpu in own),
            "wasted_gpu_hours": sum_known(gpu.wasted_gpu_hours for gpu in own),
            "idle_gpu_hours": sum_known(gpu.idle_gpu_hours for gpu in own),
            "throttled_gpu_hours": sum_known(gpu.throttled_gpu_hours for gpu in own),
            "lowest_clock": min((gpu.relative_clock for gpu in own if gpu.relative_clock is not None), default=None),
            "is_slow": int(any(map(is_slow, own))),
        }
        for node, own in nodes.items()
    ]


def nodes_apart(runs: Iterable[RunFigures]) -> list[BadNode]:
    """Find the nodes that are slow whoever runs there, by all runs of a launcher's jobs."""
    return bad_nodes((job_of(run), run) for run in runs)


def _health(node: str, per_run: Sequence[Sequence[GpuFigures]], is_slow: Callable[[GpuFigures], bool]) -> NodeHealth:
    """Describe a node from its GPUs in each run that it took part in.

    ``is_slow``: whether a GPU was slow in its run. What no GPU tells is None.
    """
    gpus = [gpu for own in per_run for gpu in own]
    often: dict[int, int] = {}
    for gpu in gpus:
        if is_slow(gpu) and gpu.device_index is not None:
            often[gpu.device_index] = often.get(gpu.device_index, 0) + 1
    throttled = [gpu for gpu in gpus if gpu.throttled_gpu_hours is not None]
    hours = sum(gpu.gpu_hours for gpu in throttled)
    return NodeHealth(
        node=node,
        n_runs=len(per_run),
        n_slow=sum(any(is_slow(gpu) for gpu in own) for own in per_run),
        gpu_hours=sum(gpu.gpu_hours for gpu in gpus),
        devices=tuple(sorted(often, key=lambda index: (-often[index], index))),
        throttled=sum(gpu.throttled_gpu_hours or 0.0 for gpu in throttled) / hours if hours > 0 else None,
        lowest_clock=min((gpu.relative_clock for gpu in gpus if gpu.relative_clock is not None), default=None),
    )


def _slowness() -> Callable[[GpuFigures], bool]:
    """Return what tells whether a GPU was slow, by the thresholds of the rules."""
    share, clock = TABLE.rule("throttled_thermal").at("share"), TABLE.rule("slow_clock").at("clock")

    def is_slow(gpu: GpuFigures) -> bool:
        """Tell whether a GPU was held down for much of its time, or ran at a lower clock than others of its model."""
        held_down = gpu.throttled_gpu_hours
        if held_down is not None and held_down >= share * gpu.gpu_hours > 0:
            return True
        return gpu.relative_clock is not None and gpu.relative_clock < clock and not gpu.unused

    return is_slow


PER_PROCESS = 25
"""Another process pays from so many recordings on."""
_KEPT_AT_ONCE = 500
"""Recordings: what was read is put into the index after so many, and at the end."""
_LONG_LOST = 86400.0
"""Seconds after which a run that is lost will hardly come back: it may be kept."""


class FleetRequest(NamedTuple):
    """What to read of every recording: runs that ended at ``since`` (unix s) or later, or go on, None for all; whether to
    judge them, and by which rules."""

    since: float | None = None
    verdicts: bool = False
    rules: RuleTable = TABLE


ALL = FleetRequest()


class Fleet(NamedTuple):
    """``runs``, each once, in the order of the recordings; how many recordings were looked into; sentences about what could
    not be read; ``copies``: recordings of which a run was read elsewhere already; ``n_earlier``: runs that are left out
    because they ended before FleetRequest.since; ``newest_earlier``: when the last of these ended (unix s), None without
    any; ``allocated``: what the scheduler allocated, None where nobody asked."""

    runs: tuple[RunFigures, ...]
    n_recordings: int
    unreadable: tuple[str, ...]
    copies: tuple[str, ...]
    n_earlier: int = 0
    allocated: Allocated | None = None
    newest_earlier: float | None = None


class _ReadRecording(NamedTuple):
    """``state``: of the recording before it was read, where the runs may be kept; ``earlier``: of the runs that were not
    read because they ended before FleetRequest.since, the ids, the starts as recorded, and when they ended (unix s)."""

    runs: list[RunFigures]
    problem: str | None
    state: str | None = None
    earlier: tuple[tuple[str, float | None, float], ...] = ()


def read_fleet(
    names: Sequence[str],
    request: FleetRequest = ALL,
    progress: Callable[[float], None] = lambda _: None,
    index: Index | None = None,
    workers: Workers = HERE,
) -> Fleet:
    """Read the figures of every run of these recordings; what can't be read is told and stops nothing.

    ``progress`` is called with the share done, 0-1. ``index`` (None: none): what it has is not read again, and what is
    read is put into it. ``workers``: who reads. A run found twice counts once.
    """
    runs: dict[tuple[str, float | None], RunFigures] = {}
    unreadable: list[str] = []
    copies: dict[str, None] = {}
    earlier: dict[tuple[str, float | None], float] = {}
    reads = _all(names, request, workers) if index is None else _with_index(names, request, index, workers)
    for done, (name, read) in enumerate(zip(names, reads, strict=True)):
        earlier.update({(run_id, started_at): ended for run_id, started_at, ended in read.earlier})
        for run in read.runs:
            if is_earlier(run.state, run.ended, request.since):
                earlier[run.run_id, run.started_at] = run.ended
                continue
            if runs.setdefault((run.run_id, run.started_at), run) is not run:
                copies[name] = None
        unreadable += [read.problem] if read.problem else []
        progress((done + 1) / len(names))
    newest = max(earlier.values(), default=None)
    return Fleet(
        tuple(runs.values()), len(names), tuple(unreadable), tuple(copies), len(earlier), newest_earlier=newest
    )


def without_earlier(found: Fleet, since: float) -> Fleet:
    """Leave out, and count, the runs that ended before ``since`` (unix s), where all runs were read."""
    earlier = [run.ended for run in found.runs if is_earlier(run.state, run.ended, since)]
    runs = tuple(run for run in found.runs if not is_earlier(run.state, run.ended, since))
    return found._replace(runs=runs, n_earlier=len(earlier), newest_earlier=max(earlier, default=None))


def _with_index(
    names: Sequence[str], request: FleetRequest, index: Index, workers: Workers
) -> Iterator[_ReadRecording]:
    """Yield what was read of each of these recordings, in their order. Those that the index has as they are now are
    taken from it; the others are read by ``workers``, all runs whenever they ended, and put into it."""
    rules = digest(request.rules)
    known = runs_in_index(index, index.known(names), rules if request.verdicts else None)
    reads = _all([name for name in names if name not in known], request._replace(since=None), workers)
    fresh: list[tuple[str, str, Rows]] = []
    for name in names:
        if name in known:
            yield _ReadRecording(known[name], None)
            continue
        read = next(reads)
        if read.state is not None:
            fresh.append((name, read.state, rows_of(read.runs, rules)))
        if len(fresh) >= _KEPT_AT_ONCE:
            index.keep(fresh)
            fresh.clear()
        yield read
    index.keep(fresh)


def _all(names: Sequence[str], request: FleetRequest, workers: Workers) -> Iterator[_ReadRecording]:
    """Yield what was read of each recording, in their order."""
    return workers.map(partial(_read_each, request=request), names, _unread, per_worker=PER_PROCESS)


def _read_each(names: Sequence[str], request: FleetRequest) -> Iterator[_ReadRecording]:
    return (_read(name, request) for name in names)


def _unread(name: str) -> _ReadRecording:
    """Return what is said of a recording that no worker has survived."""
    return _ReadRecording([], f"{name}: the process that read it died")


def _read(name: str, request: FleetRequest) -> _ReadRecording:
    """Read the runs of a recording that the request asks for. Never raises: what went wrong is told as its
    ``problem``."""
    runs: list[RunFigures] = []
    try:
        before = state(name)
        with closing(open_recording(name)) as recording:
            readers = [own for own in recording.runs if not is_earlier(own.state, extent(own)[1], request.since)]
            earlier = tuple(
                (own.run_id, own.run.started_at, extent(own)[1]) for own in recording.runs if own not in readers
            )
            runs += (read_figures(reader, name, request.verdicts, request.rules) for reader in readers)
            if recording.damage or not all(is_final(run.state, name) for run in runs):
                before = None
            return _ReadRecording(runs, recording.damage, before, earlier)
    except RecordingError as error:
        return _ReadRecording(runs, str(error))
    except OSError as error:
        return _ReadRecording(runs, f"{name}: can't be read: {error.strerror}")
    except Exception as error:  # one strange file among thousands
        return _ReadRecording(runs, f"{name}: can't be read: {error!r}")


def is_earlier(run_state: str, ended: float, since: float | None) -> bool:
    """Tell whether a run in this state had ended (unix s) before ``since``; no run has where that is None."""
    return since is not None and ended < since and run_state != "running"


def is_final(run_state: str, name: str) -> bool:
    """Tell whether a run in this state, of the recording ``name``, will not change: what was read of it may be kept."""
    return run_state in ENDED or (run_state == "lost" and silent_seconds(name, time.time()) > _LONG_LOST)
