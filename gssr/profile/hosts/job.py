"""What Slurm says of a running job: its nodes, and whose it is."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from gssr.profile.hosts.reach import without_job
from gssr.profile.request import UsageError
from gssr.render.cells import clean
from gssr.store.host_states import JobState

_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,10})?")
_SECONDS = 30.0
_FORMAT = "%A|%T|%u|%L|%N|%j"
"""The number, the state, the user, the time left, the nodes, and the name, which may hold anything."""
_ON_NODES = re.compile(r"^ *Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)", re.MULTILINE)
_GPUS = re.compile(r"\bgpu:(?:[^:(,]+:)?(\d+)")
_LEFT = re.compile(r"(?:(?P<days>\d+)-)?(?:(?:(?P<hours>\d+):)?(?P<minutes>\d+):)?(?P<seconds>\d+)")


class JobError(Exception):
    """A job that can't be looked at; the text is one sentence."""


class NodesOfJob(NamedTuple):
    """Nodes on which a job has equally many GPUs, in the order in which Slurm numbers its tasks, and the options by which
    a step gets these GPUs."""

    names: tuple[str, ...]
    gpus: tuple[str, ...]


class RunningJob(NamedTuple):
    """``job_id``: the number by which srun knows it."""

    job_id: str
    nodes: tuple[NodesOfJob, ...]
    state: JobState


def running_job(job_id: str) -> RunningJob:
    """Ask Slurm for a job. Raises UsageError for what is no job's id, and JobError if there is none that runs."""
    if not _JOB_ID.fullmatch(job_id):
        raise UsageError(f"--job: {job_id!r} is no job's id, such as 4711 or 4711_3")
    lines = _asked("squeue", f"--jobs={job_id}", "--noheader", f"--format={_FORMAT}").splitlines()
    if not lines:
        raise JobError(f"job {job_id} is over, or never was")
    if len(lines) > 1:
        raise JobError(f"job {job_id} is an array with {len(lines)} tasks in the queue: name one, as in {job_id}_0")
    number, state, user, left, nodes, name = lines[0].split("|", 5)
    if state != "RUNNING":
        raise JobError(f"job {job_id} is {clean(state.lower())}: only a running job's nodes can be asked")
    groups = _nodes_of(_asked("scontrol", "show", "job", "--details", number), _hostnames(nodes))
    seconds = seconds_left(left)
    ends_at = None if seconds is None else time.time() + seconds
    return RunningJob(number, groups, JobState(job_id, clean(user), clean(name), ends_at))


def _hostnames(nodes: str) -> tuple[str, ...]:
    return tuple(_asked("scontrol", "show", "hostnames", nodes).split())


def _nodes_of(details: str, every: Sequence[str]) -> tuple[NodesOfJob, ...]:
    """Group a job's nodes by their GPUs, as scontrol's details list these. Where they are not told, all nodes are one
    group, and Slurm gives the step what it gives by itself: often all GPUs, but of a job with --gpus-per-task those of
    one task."""
    n_of = {
        name: sum(int(n) for n in _GPUS.findall(gres))
        for nodes, gres in _ON_NODES.findall(details)
        for name in _hostnames(nodes)
    }
    if {*every} - {*n_of}:
        return (NodesOfJob(tuple(every), ()),)
    groups: dict[int, list[str]] = {}
    for name in every:
        groups.setdefault(n_of[name], []).append(name)
    of_job = "TresPerJob=" in details
    return tuple(NodesOfJob(tuple(names), _options(n, len(names), of_job)) for n, names in groups.items())


def _options(n_gpus: int, n_nodes: int, of_job: bool) -> tuple[str, ...]:
    """Return the options for a step with this many GPUs on each of so many nodes. ``of_job``: the job has asked for a
    number of GPUs in all (--gpus): Slurm then takes no --gres for a single node."""
    if not n_gpus:
        return ("--gres=none",)
    return (f"--gpus={n_gpus}",) if of_job and n_nodes == 1 else (f"--gres=gpu:{n_gpus}",)


def seconds_left(text: str) -> float | None:
    """Read a time as squeue writes it: [DAYS-][[HOURS:]MINUTES:]SECONDS; None for UNLIMITED, NOT_SET or INVALID."""
    found = _LEFT.fullmatch(text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.group("days", "hours", "minutes", "seconds"))
    return ((24.0 * days + hours) * 60 + minutes) * 60 + seconds


def _asked(*command: str) -> str:
    """Return what one of Slurm's commands prints. Raises JobError with what it says instead."""
    import subprocess  # here, because gssr top on one node needs none of this

    try:
        done = subprocess.run(
            command, env=without_job(), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise JobError(f"{command[0]} is not on the PATH: --job works where Slurm's commands do") from None
    except subprocess.TimeoutExpired:
        raise JobError(f"{command[0]} has not answered within {_SECONDS:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise JobError(clean(said[-1]) if said else f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout
