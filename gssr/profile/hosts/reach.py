"""How hosts are reached: the command of each channel, and which hosts' lines come through it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gssr.module_path import PACKAGE, is_one_file
from gssr.profile.request import UsageError

MOST_HOSTS = 4096
_LONGEST_NAME = 253
"""Characters, of a name in DNS."""
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?P<host>[A-Za-z0-9_:][A-Za-z0-9_.:-]*)")
"""A host, perhaps with a user in front. Neither begins with "-": that would be an option."""
_MOST_HOSTFILE = 1 << 20

_SSH = (
    "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15", "-o", "LogLevel=ERROR",
    "-T", "-a", "-x", "--",
)  # fmt: skip
"""No questions, which would come to the screen; no terminal; nothing is forwarded."""
_SRUN = (
    "srun", "--overlap", "--ntasks-per-node=1", "--cpus-per-task=1", "--label", "--no-kill", "--wait=0",
    "--kill-on-bad-exit=0", "--mpi=none", "--chdir=/", "--job-name=gssr-top",
)  # fmt: skip
"""A step beside those of the job, whose tasks go on when one of them ends."""


class Channel(NamedTuple):
    """A command, and the ``hosts`` whose lines it prints. ``labelled``: before each line stands the number of its host
    and ": ", and nothing if the line is the command's own."""

    command: tuple[str, ...]
    hosts: tuple[str, ...]
    labelled: bool
    environ: Mapping[str, str]


def host_names(words: Iterable[str]) -> list[str]:
    """Check names of hosts, each perhaps with a user in front, and return each once. Raises UsageError for what can't be
    one, so that nothing but a name is ever handed to ssh."""
    found = dict.fromkeys(word.strip() for word in words if word.strip())
    for name in found:
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a host, as in node0001 or user@node0001")
    if not found:
        raise UsageError("no host is named")
    if len(found) > MOST_HOSTS:
        raise UsageError(f"{len(found):,} hosts are more than the {MOST_HOSTS:,} that one screen takes")
    return [*found]


def read_hostfile(path: str) -> list[str]:
    """Read the first word of each line of a file, without comments after "#". Raises UsageError if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read(_MOST_HOSTFILE + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if len(text) > _MOST_HOSTFILE:
        raise UsageError(f"{path}: is too large for a list of hosts")
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words[0] for words in lines if words]


def by_ssh(hosts: Sequence[str], gssr: str | None, options: Sequence[str]) -> list[Channel]:
    """Make a channel for each host. ``gssr``: the program there, None for that on its PATH. A host is shown by its name
    without the user."""
    command = shlex.join([gssr or "gssr", *options])
    shown = [host.rpartition("@")[2] for host in hosts]
    twice = {name for name in shown if shown.count(name) > 1} if len({*shown}) < len(shown) else ()
    return [
        Channel((*_SSH, host, command), (host if name in twice else name,), False, os.environ)
        for host, name in zip(hosts, shown)
    ]


def by_srun(
    job_id: str, nodes: Sequence[str], gpus: Sequence[str], gssr: str | None, options: Sequence[str]
) -> Channel:
    """Make one channel for nodes of a job: a step of its own. ``gpus``: srun's options that give it the job's GPUs on
    these nodes. ``gssr``: the program there; None for this one, which mostly lies on a file system that the nodes
    share."""
    own = [sys.executable, *([PACKAGE] if is_one_file() else ["-m", "gssr"])]
    program = own if gssr is None else [gssr]
    n = len(nodes)
    step = (f"--jobid={job_id}", f"--nodes={n}", f"--ntasks={n}", f"--nodelist={','.join(nodes)}", *gpus)
    return Channel((*_SRUN, *step, "--", *program, *options), tuple(nodes), True, without_job())


def without_job() -> dict[str, str]:
    """Return the environment without what Slurm says of the job that we may be in ourselves, which would count as
    options to srun."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SLURM_") or name in _OF_CLUSTER}


_OF_CLUSTER = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS")
