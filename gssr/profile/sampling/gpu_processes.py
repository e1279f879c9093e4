"""Which of the processes on a GPU are recorded, and when.

The driver lists everybody's, by the ids that the node knows them by. The job's own are the descendants of the workloads of
the run's ranks on this node; beside a job (``--attach-job``) those whose environment holds the job's id. What is not known
to be the job's own is not recorded.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Optional

from gssr.backends.base import ProcessSnapshot, Running
from gssr.backends.kernel_files import contents
from gssr.backends.workload_processes import Stat, WorkloadSampler, stat_of
from gssr.launch import JOB_IDS
from gssr.profile.sampling.plan import Plan
from gssr.profile.sampling.sample_writer import SampleWriter
from gssr.store.write.writer import ProcessRow

WRITE_SECONDS = 10.0
"""What runs on a GPU is written so often where nothing changes: one that is silent for longer was not looked at."""
_EARLY = 0.5
_MEMORY_STEP = 1 / 16
"""Memory has changed that moved by so much of what was written last."""
_STRANGER_SECONDS = 5.0
"""Who is no process of the job's is looked at again after this long: a rank may only just have told its workload."""
_MOST_KNOWN = 4096
_GENERATIONS = 64
_ENVIRONMENT = 1 << 17
_FIRST_NAMESPACE = 0xEFFFFFFC
"""Inode of the namespace of process ids that the kernel begins with (Linux, include/linux/proc_ns.h)."""
_NO_SUCH_IDS = (
    "the driver's process ids are the host's, and unknown in this container: "
    "{} (the container would have to share the host's)"
)

Workloads = Callable[[], Iterable[tuple[int, int]]]
"""Process id and start of every workload of the run that runs on this node."""


class _Known(NamedTuple):
    """A process that was looked at: when it was started, whether it is the job's, whose it is, and until when this holds."""

    start: int
    own: bool
    user: str | None
    until: float


_Written = tuple[float, Mapping[int, Optional[int]]]
"""When a GPU's processes were last written, unix s, and their memory then, bytes by process id."""


class GpuProcessLog:
    """Takes what was seen on the GPUs, and records what the plan asks for. ``say`` tells the user a line."""

    def __init__(self, plan: Plan, writer: SampleWriter, workloads: Workloads, say: Callable[[str], None]) -> None:
        """``workloads`` gives the run's workloads on this node; ``say`` gets a line for the user."""
        self._all = plan.processes == "all"
        self._writer, self._workloads, self._say = writer, workloads, say
        self._me = os.geteuid(), plan.run.get("user")
        self._job = _job_of(os.environ) if plan.attached else ()
        self._contained = _is_contained()
        self._told = False
        self._known: dict[int, _Known] = {}
        self._written: dict[int, _Written] = {}
        self._shares: dict[int, dict[int, list[float]]] = {}
        self.workload: WorkloadSampler | None = None
        """Knows processes of this rank's workload that others have adopted."""

    def keep(self, look: ProcessSnapshot, gpu: int, now: float) -> None:
        """Record what was seen on a GPU, a position in the writer's list.

        Only processes that the plan asks for are recorded, and only from time to time where nothing changes. ``now``:
        unix s.
        """
        stats = {running.pid: stat_of(running.pid) for running in look.running}
        hidden = self._contained and None in stats.values()
        if hidden:
            what = "names and users are left out" if self._all else "processes on the GPUs are not recorded"
            self._remark(now, _NO_SUCH_IDS.format(what))
            if not self._all:
                return
        rows = [
            row
            for running in look.running
            if (row := self._row(running, None if hidden else stats[running.pid], now)) is not None
        ]
        shares = self._shares.setdefault(gpu, {})
        for pid, _, _, _, share in rows:
            if pid is not None and share is not None:
                shares.setdefault(pid, []).append(share)
        memory = {pid: used for pid, _, _, used, _ in rows if pid is not None}
        if self._all or _is_due(self._written.get(gpu), look.time, memory):
            self._written[gpu] = look.time, memory
            self._writer.add_processes(gpu, look.time, [(*row[:4], _mean(shares.get(row[0] or 0))) for row in rows])
            shares.clear()

    def _row(self, running: Running, stat: Stat | None, now: float) -> ProcessRow | None:
        """Return a process as it is recorded; None if it is not to be.

        ``stat``: None: it is gone, or this user can't see it.
        """
        if stat is None:  # gone meanwhile, or not to be seen by this user
            return (running.pid, None, None, running.memory_used, running.sm_utilization) if self._all else None
        known = self._known.get(running.pid)
        if known is None or known.start != stat.start or now > known.until:
            own = self._is_own(running.pid, stat)
            until = now + _STRANGER_SECONDS if not own else float("inf")
            user = self._user(running.pid) if own or self._all else None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[running.pid] = _Known(stat.start, own, user, until)
        if not (known.own or self._all):
            return None
        name = stat.name.decode("utf-8", "backslashreplace")
        return running.pid, name, known.user, running.memory_used, running.sm_utilization

    def _is_own(self, pid: int, stat: Stat) -> bool:
        """Tell whether a process is the job's own: a descendant of a workload, or beside a job one whose environment
        holds the job's id."""
        if self._job:
            environment = contents(f"/proc/{pid}/environ", _ENVIRONMENT)
            return environment is not None and not set(self._job).isdisjoint(environment.split(b"\0"))
        workloads = dict(self._workloads())
        leads = {leader for leader, start in workloads.items() if (own := stat_of(leader)) and own.start == start}
        parent: Stat | None = stat
        for _ in range(_GENERATIONS):
            if parent is None:
                return False
            adopted = self.workload is not None and self.workload.holds(pid, parent.start)
            if adopted or pid in leads or parent.group in leads:
                return True
            pid = parent.parent
            parent = stat_of(pid) if pid > 1 else None
        return False

    def _user(self, pid: int) -> str | None:
        """Return the name of the process's user, the number where there is no name; None if the process is gone."""
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            return None
        me, name = self._me
        if uid == me and isinstance(name, str):
            return name
        try:
            return pwd.getpwuid(uid).pw_name
        except (KeyError, OSError):
            return str(uid)

    def _remark(self, now: float, text: str) -> None:
        """Record a remark and say it, but only the first one."""
        if not self._told:
            self._told = True
            self._writer.event(now, "backend", text)
            self._say(text)


def _is_due(before: _Written | None, time: float, memory: Mapping[int, int | None]) -> bool:
    """Tell whether a GPU's processes are to be written: others than before, much other memory, or WRITE_SECONDS have
    passed.

    ``before``: what was written last, None for nothing; ``memory``: bytes by process id.
    """
    if before is None:
        return True
    written_at, written = before
    if time - written_at >= WRITE_SECONDS - _EARLY or memory.keys() != written.keys():
        return True
    return any(_moved(written[pid], used) for pid, used in memory.items())


def _moved(before: int | None, after: int | None) -> bool:
    """Tell whether an amount of memory has changed enough to be written again; None is unknown."""
    if before is None or after is None:
        return before is not after
    return abs(after - before) > _MEMORY_STEP * before


def _mean(shares: list[float] | None) -> float | None:
    """Return the mean; None without values."""
    return sum(shares) / len(shares) if shares else None


def _job_of(environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return ``NAME=value`` of the variable that names the job, as in the environment of all its processes; empty
    outside a job."""
    named = (f"{name}={environ[name]}" for name in JOB_IDS if environ.get(name))
    return tuple(os.fsencode(text) for text in named)[:1]


def _is_contained() -> bool:
    """Tell whether this process is in a namespace of process ids other than the host's: then the driver may tell other
    ids."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino != _FIRST_NAMESPACE
    except OSError:
        return False
