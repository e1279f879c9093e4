"""What becomes of a recording whose sampler died: it can't say so itself, so the supervisor adds events to it.

A process of its own writes each, so that neither a damaged file nor a filesystem that hangs can hold up the supervisor.
"""

import os
import signal
import time
from collections.abc import Sequence

from gssr.profile.detach import keep_only

PATIENCE = 1.0
"""Seconds the supervisor waits in the end for what is still being written."""
MOST = 8
"""Events added to one recording."""

_INSERT = (
    "INSERT INTO events (run_id, node, rank, time, kind, message) SELECT ?, ?, ?, ?, ?, ? "
    "WHERE EXISTS (SELECT 1 FROM runs WHERE run_id = ?)"
)
"""Not into a file that holds other runs only: then ours was refused."""


class Afterword:
    """Adds events to the recording at ``path``, as that rank of that run. Never raises."""

    def __init__(self, path: str, run_id: str, rank: int, node: str) -> None:
        self._path = path
        self._columns = (run_id, node, rank)
        self._writers: list[int] = []

    def add(self, kind: str, message: str) -> None:
        """Add an event of now; at most MOST of them."""
        if len(self._writers) >= MOST:
            return
        now = time.time()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                self._write((now, kind, message))
            self._writers.append(pid)
        except OSError:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def finish(self) -> None:
        """Wait a moment for what was added: whoever started us may end everything once we are gone."""
        deadline = time.monotonic() + PATIENCE
        while self._writers and time.monotonic() < deadline:
            self._writers = [pid for pid in self._writers if _runs(pid)]
            time.sleep(0.005)

    def _write(self, event: Sequence[str | float]) -> None:
        """In the child, which lets go of everything of the job's first; never returns."""
        try:
            signal.set_wakeup_fd(-1)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            keep_only()
            import sqlite3

            connection = sqlite3.connect(f"file:{_quoted(self._path)}?mode=rw", uri=True, timeout=PATIENCE)
            with connection:
                connection.execute(_INSERT, (*self._columns, *event, self._columns[0]))
            connection.close()
        finally:
            os._exit(0)


def _runs(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _quoted(path: str) -> str:
    """A path as part of a URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
