"""What the scheduler allocated, and how much of it was recorded: Slurm's accounting, as sacct prints it, joined with runs.

Every GPU-hour of a job is in one place: recorded, or before, between or after the job's recorded steps, or of GPUs beside
those that a step recorded, or of a job that was never recorded.
"""

import csv
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from gssr.model.fleet.figures import RunFigures

FIELDS = (
    "JobID", "JobIDRaw", "Cluster", "User", "Account", "Partition", "State", "Start", "End", "ElapsedRaw", "AllocTRES",
    "JobName",
)  # fmt: skip
"""What sacct is asked for. The name comes last, as it may hold the sign that separates the others."""
_NEEDED = ("JobID", "Start", "AllocTRES")
_GPUS = re.compile(r"gres/gpu(?::([^=,]+))?=(\d+)")
_TASK = re.compile(r"(\d+)_(\d+)")
_NO_TIME = ("", "unknown", "none", "n/a")
_LATEST = 10**11
"""Unix time beyond which nothing is one, s."""
_SLACK = 60.0
"""Seconds by which a node's clock may differ from that of Slurm's controller."""


class Allocation(NamedTuple):
    """A job with GPUs, from its start to its end (unix s; of one that runs, to now). ``job_id`` is the number that the job
    itself is told, ``shown`` what squeue shows: of a task of an array 123_4. None is unknown."""

    job_id: str
    shown: str
    cluster: str | None
    user: str | None
    account: str | None
    partition: str | None
    name: str | None
    state: str | None
    start: float
    end: float
    n_gpus: int

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that were allocated."""
        return self.n_gpus * (self.end - self.start) / 3600


class JobUse(NamedTuple):
    """The GPU-hours of an allocation by the place where they went, in h: they add up to ``allocation.gpu_hours``.
    ``recorded``: while a GPU was recorded; ``beside``: of the job's GPUs that were not, while others were; ``before``
    the first recorded step, ``between`` two, ``after`` the last one; ``never``: all, if no run was recorded."""

    allocation: Allocation
    n_runs: int
    recorded: float
    beside: float
    before: float
    between: float
    after: float
    never: float

    @property
    def unrecorded(self) -> float:
        """GPU-hours that were allocated and not recorded."""
        return self.beside + self.before + self.between + self.after + self.never


class Allocated(NamedTuple):
    """``jobs`` with GPUs, those with most unrecorded GPU-hours first; ``n_unreadable`` lines could not be read;
    ``n_without``: runs with a job of which the accounting has no allocation; ``since``: no job ended before (unix s), None
    for all jobs of a file."""

    jobs: tuple[JobUse, ...]
    n_unreadable: int
    n_without: int
    since: float | None = None


PLACES = ("recorded", "beside", "before", "between", "after", "never")
"""Where GPU-hours of an allocation can be: fields of JobUse, which add up to all."""


def hours_by_place(jobs: Sequence[JobUse]) -> dict[str, float]:
    """Add up the GPU-hours of jobs: ``gpu_hours``, and ``PLACE_gpu_hours`` for each of PLACES."""
    sums = {f"{name}_gpu_hours": math.fsum(getattr(use, name) for use in jobs) for name in PLACES}
    return {"gpu_hours": math.fsum(use.allocation.gpu_hours for use in jobs)} | sums


def read_sacct(lines: Iterable[str], now: float) -> tuple[list[Allocation], int]:
    """Read the jobs with GPUs from the output of ``sacct --parsable2`` (or ``--parsable``), or from a CSV of it, with a line
    of names. Steps, and jobs that have not begun, are left out. ``now``: the end of a job that runs, unix s. Returns also
    how many lines could not be read. Raises ValueError with a sentence for anything else."""
    rest = iter(lines)
    head = next((line for line in rest if line.strip()), "").lstrip("\ufeff").rstrip("\r\n")
    if "|" in head:
        end = "|" if head.endswith("|") else ""
        names = head.removesuffix(end).split("|")
        most = len(names) - 1 if names[-1].strip().lower() == "jobname" else -1
        lines = (line.rstrip("\r\n").removesuffix(end) for line in rest if line.strip())
        rows: Iterator[list[str]] = (line.split("|", most) for line in lines)
    else:
        names = next(csv.reader([head]), [])
        rows = (row for row in csv.reader(rest) if row)
    place = {name.strip().lower(): at for at, name in enumerate(names)}
    missing = [name for name in _NEEDED if name.lower() not in place]
    if missing or not place.keys() & {"end", "elapsedraw"}:
        lacks = ", ".join(missing) or "End or ElapsedRaw"
        raise ValueError(f"is no output of sacct --parsable2: its first line has no column {lacks}")
    found, n_unreadable = [], 0
    try:
        for row in rows:
            if len(row) != len(names):
                n_unreadable += 1
                continue
            own = {name: row[at].strip() for name, at in place.items()}
            try:
                job = _allocation(own, now)
            except (ValueError, OverflowError, OSError):
                n_unreadable += 1
                continue
            if job is not None:
                found.append(job)
    except csv.Error as error:
        raise ValueError(f"is no CSV: {error}") from None
    return found, n_unreadable


def _allocation(own: dict[str, str], now: float) -> Allocation | None:
    """Make the allocation of a job from a line of sacct: ``own``, its values by column, whose names are in small
    letters. None for a step, and for a job that has not begun or has no GPU. A job without an end ends at ``now`` (unix
    s), unless its length is known. Raises ValueError, OverflowError and OSError for what sacct never prints."""
    shown = own["jobid"]
    n_gpus, start = gpus_of(own["alloctres"]), _time(own["start"])
    if "." in shown or "[" in shown or not n_gpus or start is None:
        return None
    if not shown:
        raise ValueError("no job")
    end, elapsed = _time(own.get("end", "")), own.get("elapsedraw", "")
    if end is None:
        end = start + int(elapsed) if elapsed else now
    return Allocation(
        job_id=own.get("jobidraw") or shown,
        shown=shown,
        cluster=own.get("cluster") or None,
        user=own.get("user") or None,
        account=own.get("account") or None,
        partition=own.get("partition") or None,
        name=own.get("jobname") or None,
        state=own.get("state", "").split(" ")[0].lower() or None,
        start=start,
        end=max(start, end),
        n_gpus=n_gpus,
    )


def gpus_of(tres: str) -> int:
    """Return the number of GPUs in a text such as ``cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1``: the total, or where only
    the models are listed, their sum."""
    found = _GPUS.findall(tres)
    total = [int(n) for model, n in found if not model]
    return total[0] if total else sum(int(n) for _, n in found)


def _time(text: str) -> float | None:
    """Read a time: unix s, or a date and time in this machine's zone. None where sacct knows none."""
    if text.lower() in _NO_TIME:
        return None
    if not text.isdigit():
        return datetime.fromisoformat(text).timestamp()
    if int(text) > _LATEST:
        raise ValueError("no time of a job")
    return float(int(text))


def join(
    runs: Sequence[RunFigures], jobs: Sequence[Allocation], n_unreadable: int = 0
) -> tuple[Allocated, tuple[RunFigures, ...]]:
    """Find how much of each job was recorded by these runs. Returns also the runs, with what the accounting knows of
    their job where they don't: its name, account, partition and array, and how it ended."""
    by_id: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        for key in {job.job_id, job.shown}:
            by_id.setdefault(key, []).append(number)
    own: dict[int, list[RunFigures]] = {}
    told: list[RunFigures] = []
    n_without = 0
    for run in runs:
        chosen = _job_of(
            run, [(at, jobs[at]) for at in by_id.get(run.job_id or "", by_id.get(run.shown_job or "", []))]
        )
        if chosen is None:
            n_without += run.job_id is not None
            told.append(run)
        else:
            own.setdefault(chosen, []).append(run)
            told.append(_fill_in_names(run, jobs[chosen]))
    uses = [_use(job, own.get(at, [])) for at, job in enumerate(jobs)]
    uses.sort(key=lambda use: (-use.unrecorded, use.allocation.shown))
    return Allocated(tuple(uses), n_unreadable, n_without), tuple(told)


def _job_of(run: RunFigures, jobs: Sequence[tuple[int, Allocation]]) -> int | None:
    """Choose the allocation in which a run ran longest, of those with its number: a job that was requeued has several, and
    so have clusters. None if it ran in none of them."""
    best, longest = None, -_SLACK
    for number, job in jobs:
        if run.cluster and job.cluster and run.cluster != job.cluster:
            continue
        common = min(job.end, run.began + run.duration_s) - max(job.start, run.began)
        if common > longest:
            best, longest = number, common
    return best


def _fill_in_names(run: RunFigures, job: Allocation) -> RunFigures:
    """Return the run with what the accounting says of its job where the run doesn't: name, account and partition, and
    the array and the task if its job is one of an array. A run of a command has a state of its own; one without, which a
    prolog's recorder makes, says only how the recorder ended, and gets the job's."""
    task = _TASK.fullmatch(job.shown) if run.array_job_id is None else None
    return run._replace(
        state=job.state if run.program is None and job.state else run.state,
        job_name=run.job_name or job.name,
        account=run.account or job.account,
        partition=run.partition or job.partition,
        array_job_id=task[1] if task else run.array_job_id,
        array_task_id=task[2] if task else run.array_task_id,
    )


def _use(job: Allocation, runs: Sequence[RunFigures]) -> JobUse:
    """Go through the moments at which the recording of a GPU began or ended, and book the time between them."""
    changes = [(job.start, 0), (job.end, 0)]
    spans: dict[tuple[str | None, str | int | None], list[tuple[float, float]]] = {}
    for run in runs:
        span = max(run.began, job.start), min(run.began + run.duration_s, job.end)
        for gpu in run.gpus if span[0] < span[1] else ():
            spans.setdefault((gpu.node, gpu.uuid or gpu.device_index), []).append(span)
    for own in spans.values():
        for first, last in _merged(own):
            changes += [(first, 1), (last, -1)]
    if not spans:
        alone = job.gpu_hours
        return JobUse(job, len(runs), 0.0, 0.0, 0.0, 0.0, 0.0, alone)
    first = min(begin for own in spans.values() for begin, _ in own)
    last = max(end for own in spans.values() for _, end in own)
    recorded = beside = before = between = after = 0.0
    n_recorded = 0
    changes.sort()
    for (time, change), (then, _) in itertools.pairwise(changes):
        n_recorded += change
        hours, n = (then - time) / 3600, min(n_recorded, job.n_gpus)
        if n_recorded:
            recorded += hours * n
            beside += hours * (job.n_gpus - n)
        elif then <= first:
            before += hours * job.n_gpus
        elif time >= last:
            after += hours * job.n_gpus
        else:
            between += hours * job.n_gpus
    return JobUse(job, len(runs), recorded, beside, before, between, after, 0.0)


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans of one GPU that overlap: steps side by side may record it twice."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
