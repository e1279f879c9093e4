"""The rows of the small tables as Python sees them: runs, processes, GPUs, events, and what they say together."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from gssr.launch import shown_job
from gssr.store.format.limits import MOST_RANKS

_LONGEST = 60
"""So long are lists of ranks at most, in characters."""


_STATE_ORDER = ("running", "lost", "timeout", "killed", "failed", "completed")


class Run(NamedTuple):
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

    @property
    def shown_job(self) -> str | None:
        """The job's id as its scheduler shows it: see gssr.launch."""
        return shown_job(self.job_id, self.array_job_id, self.array_task_id)

    def is_in_array_of(self, other: "Run") -> bool:
        """Whether both are tasks of one array of jobs."""
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
    """Processes of one name and user that were on GPUs: ``n`` of them on ``n_gpus`` GPUs, first and last seen at ``start``
    and ``end`` (unix s). ``memory_used`` (bytes): the most that one of them had on a GPU. None is unknown."""

    name: str | None
    user: str | None
    n: int
    n_gpus: int
    memory_used: int | None
    start: float
    end: float


SILENT_SECONDS = 12.0
"""A GPU is looked at every 10 s at least: so long after the last look nobody knows what runs on it."""


class GpuLook(NamedTuple):
    """All processes that were on a GPU (a position in the run) at a time, as far as they are recorded."""

    gpu: int
    time: float
    processes: tuple[GpuProcess, ...]


class Merged(NamedTuple):
    """One row of ``merged``: a rank's file that is part of this one."""

    shard: str
    run_id: str
    first_rowid: int | None
    last_rowid: int | None


class AttachedTrace(NamedTuple):
    """One row of ``traces``: ``size`` in bytes, ``mtime`` in unix s, ``zero`` (its begin) in unix ns, ``clock_error`` in
    s."""

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


def one_row_a_trace(rows: Iterable[AttachedTrace]) -> list[AttachedTrace]:
    """By rank and path, without those that several ranks have listed: the row stays that knows its node."""
    found: dict[tuple[str, str], AttachedTrace] = {}
    for row in rows:
        key = row.run_id, row.path
        if key not in found or (found[key].node is None and row.node is not None):
            found[key] = row
    return sorted(found.values(), key=lambda row: (row.rank is None, row.rank or 0, row.path))


def gpu_order(gpu: Gpu) -> tuple[str, int, str]:
    """Sorting key: node, device index, UUID."""
    return (gpu.node or "", -1 if gpu.device_index is None else gpu.device_index, gpu.uuid or "")


def one_run(runs: Sequence[Run]) -> Run:
    """One run from the rows its ranks wrote into their own files: first start, last end, the exit code of the rank that
    failed first, worst state (``state`` of each must have been derived before)."""
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
    """The exit code of a run whose ranks ended at these times (unix s) with these exit codes: that of the first to fail, the
    highest where several failed at once; 0 where none did, None where that of any is unknown."""
    ends = list(ends)
    failed = [(math.inf if time is None else time, -code) for time, code in ends if code]
    return -min(failed)[1] if failed else 0 if ends and all(code == 0 for _, code in ends) else None


def missing_ranks(world_size: int | None, ranks: Iterable[int]) -> tuple[int, ...] | None:
    """The ranks of a run that are not among those that are there, in order; None where nobody knows how many it has, or a
    number stands there that no run has."""
    if world_size is None or not 0 < world_size <= MOST_RANKS:
        return None
    return tuple(sorted(set(range(world_size)).difference(ranks)))


def without_ranks(missing: Sequence[int], world_size: int | None) -> str:
    """The same as the part of a sentence."""
    return f"{len(missing):,} of {world_size:,} ranks: {_some(ranges(missing))}"


def ranges(numbers: Iterable[int]) -> str:
    """0, 1, 2, 5 as ``0-2, 5``."""
    found = sorted(set(numbers))
    runs = [[number for _, number in group] for _, group in groupby(enumerate(found), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _some(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: text.rindex(",", 0, _LONGEST)] + " and more"


def shared_gpu(gpus: Sequence[Gpu]) -> Gpu:
    """One GPU from the rows of the ranks that list it: its rank is unknown when they are several. Its key is the first
    one's."""
    ranks = {gpu.rank for gpu in gpus}
    return gpus[0]._replace(rank=gpus[0].rank if len(ranks) == 1 else None)


class Thinned(NamedTuple):
    """One row of ``thinned``."""

    run_id: str
    rank: int
    keep: str
    end_time: float | None
    first_rowid: int | None
    last_rowid: int | None
