"""The supervisor's end of the recording: starts the sampler as a process of its own and tells it what happens.

The sampler is forked, not executed: it shares the interpreter's pages and needs no second start. Only it opens the
recording and loads drivers, so that whatever goes wrong there harms nothing here.

What becomes of a recording whose sampler died: it can't say so itself, so the supervisor adds events to it.

A process of its own writes each, so that neither a damaged file nor a filesystem that hangs can hold up the supervisor.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from gssr.marks import ENVIRONMENT
from gssr.profile.detach import in_child, let_go
from gssr.profile.sampling.marks import Ear, listen
from gssr.profile.sampling.plan import SEPARATOR, Plan
from gssr.profile.supervise import SAID_WHY

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
        """Add an event with the present time, in a process of its own; nothing after the first MOST of them."""
        if len(self._writers) >= MOST:
            return
        now = time.time()
        try:
            self._writers.append(in_child(lambda: self._write((now, kind, message)), "gssr-afterword"))
        except OSError:
            pass

    def finish(self) -> None:
        """Wait up to PATIENCE seconds until what was added is written: whoever started us may end everything once we
        are gone."""
        deadline = time.monotonic() + PATIENCE
        while self._writers and time.monotonic() < deadline:
            self._writers = [pid for pid in self._writers if _runs(pid)]
            time.sleep(0.005)

    def _write(self, event: Sequence[str | float]) -> None:
        """Write (time, kind, message) into the recording, in the child. Nothing if the recording holds no such run."""
        import sqlite3

        connection = sqlite3.connect(database(self._path), uri=True, timeout=PATIENCE)
        with connection:
            connection.execute(_INSERT, (*self._columns, *event, self._columns[0]))
        connection.close()


def _runs(pid: int) -> bool:
    """Tell whether a child still runs; it is reaped if it does not."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def database(path: str) -> str:
    """Make the URI of a recording that is there, to be written."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?mode=rw"


_ENDING = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


class SamplerProcess:
    """See gssr.profile.supervise.Recorder. Messages are lines on a pipe; a sampler that is gone or stuck is not waited
    for. ``told_to_end``: a signal has asked for the end of the workload. ``workload``: its process id, None unless it could
    be executed."""

    def __init__(self, plan: Plan) -> None:
        """Fork the sampler, and open the socket at which the workload's marks arrive, whose path goes into the
        environment. Raises OSError."""
        self._ear = listen()
        if self._ear is not None:
            os.environ[ENVIRONMENT] = self._ear.path  # which the workload inherits
        inbox, self._out = os.pipe()
        self.fd, outbox = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed when we were started
                stream.flush()
        # A batch system sends a signal to all processes of a step: none may end the sampler before it ignores them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid: int | None = os.fork()
            if self.pid == 0:
                _become_sampler(plan, inbox, outbox, self._ear)
        except OSError:
            if self._ear is not None:
                self._ear.close()
                self._ear.remove()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if self._ear is not None:
            self._ear.close()
        os.close(inbox)
        os.close(outbox)
        self.told_to_end = False
        self.workload: int | None = None
        run_id, rank, node = plan.run["run_id"], plan.process["rank"], plan.process["node"]
        self._afterword = Afterword(plan.path, str(run_id), int(rank or 0), str(node))
        os.set_blocking(self._out, False)
        os.set_blocking(self.fd, False)

    def started(self, pid: int, when: float) -> None:
        """Tell the sampler that the workload runs."""
        self.workload = pid
        self._tell("started", str(pid), repr(when))

    def event(self, kind: str, message: str) -> None:
        """Have something kept as an event."""
        self.told_to_end = self.told_to_end or (kind == "signal" and message.startswith(_ENDING))
        if not self._tell("event", kind, message):
            self._afterword.add(kind, message)

    def ended(self, exit_code: int, state: str, when: float) -> None:
        """Tell the sampler that the workload has ended; it finishes the recording and exits."""
        if not self._tell("ended", str(exit_code), state, repr(when)):
            self._afterword.add("end", f"the command ended: {state}, exit code {exit_code}")
            self._afterword.finish()
        if self._ear is not None:
            self._ear.remove()
        try:
            os.close(self._out)
        except OSError:
            pass

    def _tell(self, *words: str) -> bool:
        """Send a line. Returns False when the sampler is gone."""
        line = SEPARATOR.join(word.replace("\n", " ") for word in words) + "\n"
        try:
            os.write(self._out, line.encode("utf-8", "surrogateescape"))
        except BrokenPipeError:
            return False
        except OSError:
            pass  # it is stuck
        return True


def _become_sampler(plan: Plan, inbox: int, outbox: int, ear: Ear | None) -> NoReturn:
    """Run the sampler, in the child. Only here is it loaded: the workload, which is being started meanwhile, need not
    wait."""
    try:
        inbox, outbox, *marks = let_go(inbox, outbox, *([] if ear is None else [ear.fd]))
        from gssr.profile.sampling.sampler import run_sampler

        run_sampler(plan, inbox, outbox, None if ear is None else ear._replace(fd=marks[0]))
    except ImportError as error:  # of a Python without SQLite
        os.write(outbox, f"nothing is recorded: {error}\n".encode())
        os._exit(SAID_WHY)
    finally:
        os._exit(1)


class NoRecorder:
    """Stands in when nothing is recorded."""

    pid: int | None = None
    fd = -1
    told_to_end = False
    workload: int | None = None

    def started(self, pid: int, when: float) -> None:
        """Do nothing."""

    def event(self, kind: str, message: str) -> None:
        """Do nothing."""

    def ended(self, exit_code: int, state: str, when: float) -> None:
        """Do nothing."""
