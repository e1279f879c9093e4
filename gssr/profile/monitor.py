"""``gssr top``: records a node as it is now, whoever works on it, into a private folder that is gone with who looks at it;
or many hosts, into one recording; or, on such a host, sends lines and records nothing.

It takes nothing away from who works on the GPUs: no engine of DCGM is started, and no profiling counters are taken that
somebody else may need.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EPERM
from typing import TYPE_CHECKING, NoReturn

from gssr import launch
from gssr.profile.recorder import SamplerProcess
from gssr.profile.request import ProfileRequest, UsageError
from gssr.profile.sampling.plan import Plan
from gssr.profile.session import plan_of
from gssr.store.format.rows import TOP_COMMAND
from gssr.store.read.private_copy import PRIVATE, private_folder

if TYPE_CHECKING:
    from gssr.profile.hosts.collector import CollectorProcess
    from gssr.profile.hosts.reach import Channel
    from gssr.store.host_states import JobState

MOST_BYTES = 64_000_000
"""Of the recording: some hours of 8 GPUs, at one sample a second (gssr profile --dry-run)."""
_END_SECONDS = 3.0
"""So long the sampler may take to give back what it holds."""
_NOWHERE = "/proc/self/lines"
"""No file can be there, nor is one made."""
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Monitor:
    """A process that records into ``path`` until ``close``. Whenever ``fd`` can be read, ``lines`` has something to
    say."""

    def __init__(self, path: str, recorder: SamplerProcess | CollectorProcess) -> None:
        self.path = path
        self._recorder = recorder
        self.fd = self._recorder.fd
        self._unread = b""

    def lines(self) -> list[str] | None:
        """Return what the sampler has said since the last call, maybe nothing; None once it has ended. Never waits."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return []
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines] if data else None

    def close(self) -> None:
        """End the sampler, and wait up to _END_SECONDS until it has given back what it holds; then it is killed. Never
        raises."""
        pid, self._recorder.pid = self._recorder.pid, None
        if pid is None:
            return
        deadline, told = time.monotonic() + _END_SECONDS, False
        try:
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if not told:
                    told = True
                    self._recorder.ended(0, "completed", time.time())
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.005)
        except OSError:
            pass  # somebody else has reaped it


@contextmanager
def monitor(sampling_ms: float, backend: str, hurried: bool = False) -> Iterator[Monitor]:
    """Record this node, with samples ``sampling_ms`` apart from the backend of that name; ``hurried``: each can be read at
    once. Raises UsageError, OSError."""
    with _run_monitor(lambda path: SamplerProcess(_plan(path, sampling_ms, backend, hurried))) as own:
        yield own


@contextmanager
def monitor_hosts(
    channels: Sequence[Channel], job: JobState | None, sampling_ms: float, hurried: bool = False
) -> Iterator[Monitor]:
    """Record many hosts, which are reached through ``channels`` and asked to sample every ``sampling_ms`` milliseconds.
    ``job``: whose nodes they are, None for hosts as such. ``hurried``: samples can be read at once. Raises OSError."""
    from gssr.profile.hosts.collector import CollectorPlan, CollectorProcess

    seconds = sampling_ms / 1000
    with _run_monitor(lambda path: CollectorProcess(CollectorPlan(path, channels, job, seconds, hurried))) as own:
        yield own


@contextmanager
def _run_monitor(start: Callable[[str], SamplerProcess | CollectorProcess]) -> Iterator[Monitor]:
    """Record into a private folder, and yield the monitor of it; afterwards the recorder is ended and the folder
    removed. ``start`` begins to record into the path that it is given. Raises OSError."""
    with private_folder("top", _parent()) as folder:
        path = os.path.join(folder, PRIVATE)
        own = Monitor(path, start(path))
        try:
            yield own
        finally:
            own.close()


def check_sampling(sampling_ms: float, backend: str) -> None:
    """Raise UsageError for a sampling interval or a backend that no host would take."""
    _plan(_NOWHERE, sampling_ms, backend, hurried=True)


def send_lines(sampling_ms: float, backend: str) -> NoReturn:
    """Sample this node and send lines on stdout, until stdin ends or nobody reads them. In a step of Slurm only the
    step's GPUs are sampled, else all that the driver shows. Raises UsageError."""
    from gssr.profile.sampling.sampler import run_sampler

    for each in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(each, signal.SIG_DFL)
    plan = _plan(_NOWHERE, sampling_ms, backend, hurried=True)
    visible = launch.gpu_ids() if launch.gpu_ids_are_slurms() else None
    run_sampler(plan._replace(lines_to=1, most_bytes=None, visible_gpus=visible), 0, 2)


def _plan(path: str, sampling_ms: float, backend: str, hurried: bool) -> Plan:
    """Plan to record this node into ``path``. ``backend``: the name of one that takes nothing from others; of auto and
    dcgm the variant that does not is used. Raises UsageError."""
    if backend == "dcgm:pause":
        raise UsageError("--backend: dcgm:pause takes the counters from everybody on this node: it is for gssr profile")
    backend = f"{backend}:beside" if backend in ("auto", "dcgm") else backend
    request = ProfileRequest(
        [*TOP_COMMAND], path.replace("%", "%%"), "top", sampling_ms, backend=backend, keep="10s", summary=False,
        attach=True, processes="all",
    )  # fmt: skip
    plan = plan_of(request, launch.where_am_i({}), make=False)  # nobody's rank, and on all GPUs that the driver shows
    return plan._replace(visible_gpus=None, most_bytes=MOST_BYTES, hurried=hurried)


def _parent() -> str:
    """Return the folder in which the private folder is made: $XDG_RUNTIME_DIR, else where temporary files are.

    Raises PermissionError where others could put something else in its place.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and _is_safe(runtime, alone=True):
        return runtime
    import tempfile

    parent = tempfile.gettempdir()
    if not _is_safe(parent):
        raise PermissionError(EPERM, "others could replace what is in it: name a folder of your own in TMPDIR", parent)
    return parent


def _is_safe(folder: str, alone: bool = False) -> bool:
    """Tell whether nobody but this user and root can remove or replace what the user makes in a folder.

    ``alone``: moreover nobody else can look into it. False if the folder is not there.
    """
    try:
        status = os.stat(folder)
    except OSError:
        return False
    if alone:
        return status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700 and os.access(folder, os.W_OK)
    return status.st_uid in (0, os.geteuid()) and (not status.st_mode & _OTHERS or bool(status.st_mode & stat.S_ISVTX))
