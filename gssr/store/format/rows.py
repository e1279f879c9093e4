"""The rows of the small tables as Python sees them: runs, processes, GPUs, events, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from gssr.launch import shown_job
from gssr.store.format.limits import MOST_RANKS

_LONGEST = 60
"""So long are lists of ranks at most, in characters."""
TOP_COMMAND = ("gssr", "top")
"""The command of a recording that ``gssr top`` made of whoever works on the GPUs."""

_STATE_ORDER = ("running", "lost", "timeout", "killed", "failed", "completed")


class RunRow(NamedTuple):
    """One row of ``runs``; None where NULL. ``command`` is the list of arguments."""

    run_id: str
    label: str | None
    command: tuple[str, ...]
    job_id: str | None
    step_id: str | None
    launcher: str | None
    cluster: str | None
    user: str | None
    started_at: float | None
    ended_at: float | None
    sampling_ms: float | None
    exit_code: int | None
    state: str
    world_size: int | None
    n_nodes: int | None
    gssr_version: str | None
    array_job_id: str | None = None
    array_task_id: str | None = None
    job_name: str | None = None
    account: str | None = None
    partition: str | None = None

    @property
    def shown_job(self) -> str | None:
        """The job's id as its scheduler shows it (see gssr.launch.shown_job), None without a job."""
        return shown_job(self.job_id, self.array_job_id, self.array_task_id)

    @property
    def is_from_top(self) -> bool:
        """Tell whether ``gssr top`` made the recording: what it shows may have begun long before it."""
        return self.command == TOP_COMMAND

    def is_in_array_of(self, other: RunRow) -> bool:
        """Tell whether both runs are tasks of one array of jobs."""
        own = (self.cluster, self.array_job_id)
        return self.array_job_id is not None and own == (other.cluster, other.array_job_id)


class Process(NamedTuple):
    """One row of ``processes``."""

    run_id: str
    rank: int
    local_rank: int | None
    node: str | None
    hostname: str | None
    pid: int | None
    pid_start: int | None
    boot_id: str | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    state: str | None
    clock_offset: float | None
    clock_error: float | None
    booted_at: float | None = None
    n_cores: float | None = None


class Gpu(NamedTuple):
    """One row of ``gpus``."""

    gpu: int
    run_id: str
    node: str | None
    rank: int | None
    device_index: int | None
    uuid: str | None
    name: str | None
    memory_total: int | None
    power_limit: float | None
    sm_count: int | None
    max_sm_clock: int | None
    compute_capability: str | None
    driver_version: str | None
    backend: str | None
    mig: str | None


class Event(NamedTuple):
    """One row of ``events``."""

    time: float
    node: str | None
    gpu: int | None
    rank: int | None
    kind: str
    message: str


class GpuProcess(NamedTuple):
    """A process on a GPU, from ``gpu_processes``: ``gpu`` is its position in the run. ``memory_used`` in bytes,
    ``sm_utilization`` 0-1; None is unknown."""

    gpu: int
    time: float
    pid: int | None
    name: str | None
    user: str | None
    memory_used: int | None
    sm_utilization: float | None


class GpuProcesses(NamedTuple):
    """Processes of one name and user that were on GPUs. ``n``: how many, on ``n_gpus`` GPUs; ``memory_used``: the most
    that one of them had on a GPU, bytes; ``start`` and ``end``: when they were first and last seen, unix s. None is
    unknown."""

    name: str | None
    user: str | None
    n: int
    n_gpus: int
    memory_used: int | None
    start: float
    end: float


SILENT_SECONDS = 12.0
"""A GPU is looked at every 10 s at least: so long after the last look nobody knows what runs on it."""


class Merged(NamedTuple):
    """One row of ``merged``: a rank's file that is part of this one."""

    shard: str
    run_id: str
    first_rowid: int | None
    last_rowid: int | None


class AttachedTrace(NamedTuple):
    """One row of ``traces``: ``size`` in bytes, ``mtime`` in unix s, ``zero`` (the trace's begin) in unix ns,
    ``clock_error`` in s, ``gpus`` and ``digest`` as JSON texts. None is unknown."""

    run_id: str
    node: str | None
    rank: int | None
    path: str
    format: str
    size: int
    mtime: float
    zero: int | None
    clock_error: float | None
    clock_origin: str | None
    gpus: str | None
    digest: str | None = None


def deduplicate_traces(rows: Iterable[AttachedTrace]) -> list[AttachedTrace]:
    """Keep one row for each run and trace file, sorted by rank and path. If several ranks have listed the same file,
    the row that knows its node is kept."""
    found: dict[tuple[str, str], AttachedTrace] = {}
    for row in rows:
        key = row.run_id, row.path
        if key not in found or (found[key].node is None and row.node is not None):
            found[key] = row
    return sorted(found.values(), key=lambda row: (row.rank is None, row.rank or 0, row.path))


def gpu_order(gpu: Gpu) -> tuple[str, int, str]:
    """Return the key by which GPUs are sorted: node, device index, UUID."""
    return (gpu.node or "", -1 if gpu.device_index is None else gpu.device_index, gpu.uuid or "")


def one_run(runs: Sequence[RunRow]) -> RunRow:
    """Make one run of the rows that its ranks wrote into their own files: first start, last end (None if any is
    unknown), the exit code of the rank that failed first, and the worst state. The rows' ``state`` must have been
    derived before; at least one row."""
    first = runs[0]
    starts = [run.started_at for run in runs if run.started_at is not None]
    ends = [run.ended_at for run in runs]
    return first._replace(
        started_at=min(starts, default=None),
        ended_at=None if None in ends else max(end for end in ends if end is not None),
        exit_code=first_failure((run.ended_at, run.exit_code) for run in runs),
        state=min((run.state for run in runs), key=_STATE_ORDER.index),
    )


def first_failure(ends: Iterable[tuple[float | None, int | None]]) -> int | None:
    """Return the exit code of a run whose ranks ended at these times (unix s) with these exit codes: that of the first
    to fail, the highest if several failed at once. 0 if none failed, None if none failed and some are unknown or there
    are none."""
    ends = list(ends)
    failed = [(math.inf if time is None else time, -code) for time, code in ends if code]
    return -min(failed)[1] if failed else 0 if ends and all(code == 0 for _, code in ends) else None


def missing_ranks(world_size: int | None, ranks: Iterable[int]) -> tuple[int, ...] | None:
    """Return the ranks of a run that are not among ``ranks``, ascending. None if it is not known how many there should
    be, or the number is impossible."""
    if world_size is None or not 0 < world_size <= MOST_RANKS:
        return None
    return tuple(sorted(set(range(world_size)).difference(ranks)))


def without_ranks(missing: Sequence[int], world_size: int | None) -> str:
    """Say which ranks are missing, as part of a sentence: "2 of 8 ranks: 3, 5"."""
    return f"{len(missing):,} of {world_size:,} ranks: {_some(ranges(missing))}"


def ranges(numbers: Iterable[int]) -> str:
    """Write numbers compactly: 0, 1, 2, 5 as ``0-2, 5``; "" for none."""
    found = sorted(set(numbers))
    runs = [[number for _, number in group] for _, group in groupby(enumerate(found), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _some(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: text.rindex(",", 0, _LONGEST)] + " and more"


def shared_gpu(gpus: Sequence[Gpu]) -> Gpu:
    """Make one GPU of the rows of the ranks that list it, with the key of the first. Its rank is None if they are
    several."""
    ranks = {gpu.rank for gpu in gpus}
    return gpus[0]._replace(rank=gpus[0].rank if len(ranks) == 1 else None)


class Thinned(NamedTuple):
    """One row of ``thinned``: ``end_time`` in unix s; None where NULL."""

    run_id: str
    rank: int
    keep: str
    end_time: float | None
    first_rowid: int | None
    last_rowid: int | None
