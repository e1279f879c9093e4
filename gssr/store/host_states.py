"""How the hosts stand whose samples are gathered into one recording of the moment: a small file beside it, which is replaced
whenever something has changed."""

from __future__ import annotations

import json
import os
from typing import Literal, NamedTuple

HostWord = Literal["waiting", "live", "slow", "gone"]
"""waiting: nothing was heard yet; slow: nothing has come for a while, or more than is read; gone: nothing more will come."""
SUFFIX = ".hosts"


class HostState(NamedTuple):
    """A host. ``reason``: one sentence, "" for none; ``seconds``: since its last line, None if there was none yet;
    ``n_gpus``: that it has told; ``has_told``: all that it tells has come at least once; ``n_broken``: lines that could not
    be read; ``memory``: bytes in use and the limit of the cgroup that is nearest to it, None if not measured."""

    host: str
    word: HostWord
    reason: str
    seconds: float | None
    n_gpus: int
    has_told: bool
    n_broken: int
    memory: tuple[int, int] | None


class JobState(NamedTuple):
    """A job, as the scheduler describes it. ``ends_at``: unix s at which its time is over; None without a limit, or where
    that is unknown."""

    job_id: str
    user: str
    name: str
    ends_at: float | None


class HostStates(NamedTuple):
    """All hosts, and the job that they work on, if they were asked as a job's. ``n_idle``: GPUs that have been idle for
    at least ``idle_seconds``, by what was measured here; 0 if none was idle for long enough to be told."""

    hosts: tuple[HostState, ...]
    job: JobState | None
    n_idle: int
    idle_seconds: float


def write_states(recording: str, states: HostStates) -> None:
    """Replace the file beside a recording. Raises OSError."""
    path = f"{recording}{SUFFIX}"
    with open(f"{path}.new", "w", encoding="utf-8") as stream:
        stream.write(json.dumps(states))  # json.dump makes each word by itself
    os.rename(f"{path}.new", path)


def read_states(recording: str) -> HostStates | None:
    """Read the file beside a recording; None before there is one."""
    try:
        with open(f"{recording}{SUFFIX}", encoding="utf-8") as stream:
            hosts, job, n_idle, idle_seconds = json.load(stream)
    except (OSError, ValueError):
        return None
    return HostStates(
        tuple(HostState(*host) for host in hosts),
        None if job is None else JobState(*job),
        n_idle,
        idle_seconds,
    )


def remove_states(recording: str) -> None:
    """Remove the file beside a recording, if there is one. Raises OSError if it can't be removed."""
    try:
        os.unlink(f"{recording}{SUFFIX}")
    except FileNotFoundError:
        pass
