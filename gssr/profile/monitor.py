"""``gssr top``: records a node as it is now, whoever works on it, into a private folder that is gone with who looks at it.

It takes nothing away from who works on the GPUs: no engine of DCGM is started, and no profiling counters are taken that
somebody else may need.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EPERM

from gssr import launch
from gssr.profile.recorder import SamplerProcess
from gssr.profile.request import ProfileRequest, UsageError
from gssr.profile.session import plan_of
from gssr.store.read.open import PRIVATE, private_folder

MOST_BYTES = 64_000_000
"""Of the recording: some hours of 8 GPUs, at one sample a second (gssr profile --dry-run)."""
_END_SECONDS = 3.0
"""So long the sampler may take to give back what it holds."""
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Monitor:
    """A sampler that records this node into ``path`` until ``close``. Whenever ``fd`` can be read, ``lines`` has something
    to say."""

    def __init__(self, folder: str, sampling_ms: float, backend: str, hurried: bool = False) -> None:
        """Start to record this node into ``folder``, one sample every ``sampling_ms`` milliseconds. ``backend`` is the
        name of one that takes nothing from others; of auto and dcgm the variant that does not is used. ``hurried``:
        samples can be read at once. Raises UsageError, OSError."""
        if backend == "dcgm:pause":
            raise UsageError(
                "--backend: dcgm:pause takes the counters from everybody on this node: it is for gssr profile"
            )
        backend = f"{backend}:beside" if backend in ("auto", "dcgm") else backend
        self.path = os.path.join(folder, PRIVATE)
        request = ProfileRequest(
            ["gssr", "top"], self.path.replace("%", "%%"), "top", sampling_ms, backend=backend, keep="10s", summary=False,
            attach=True, processes="all",
        )  # fmt: skip
        plan = plan_of(request, launch.where_am_i({}))  # nobody's rank, and on all GPUs that the driver shows
        plan = plan._replace(visible_gpus=None, most_bytes=MOST_BYTES, hurried=hurried)
        self._recorder = SamplerProcess(plan)
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
    with private_folder("top", _parent()) as folder:
        own = Monitor(folder, sampling_ms, backend, hurried)
        try:
            yield own
        finally:
            own.close()


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
