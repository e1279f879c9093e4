"""The supervisor's end of the recording: starts the sampler as a process of its own and tells it what happens.

The sampler is forked, not executed: it shares the interpreter's pages and needs no second start. Only it opens the
recording and loads drivers, so that whatever goes wrong there harms nothing here.
"""

import os
import sys
from typing import NoReturn

from gssr.marks import ENVIRONMENT
from gssr.profile.afterword import Afterword
from gssr.profile.detach import let_go
from gssr.profile.marks import Ear, listen
from gssr.profile.plan import SEPARATOR, Plan

_ENDING = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


class Recorder:
    """See gssr.profile.supervise.Recorder. Messages are lines on a pipe; a sampler that is gone or stuck is not waited
    for. ``told_to_end``: a signal has asked for the end of the workload. ``ran``: the workload could be executed."""

    def __init__(self, plan: Plan) -> None:
        """Fork the sampler. Raises OSError when that is impossible."""
        self._ear = listen()
        if self._ear is not None:
            os.environ[ENVIRONMENT] = self._ear.path  # which the workload inherits
        inbox, self._out = os.pipe()
        self.fd, outbox = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed when we were started
                stream.flush()
        try:
            self.pid: int | None = os.fork()
        except OSError:
            if self._ear is not None:
                self._ear.close()
                self._ear.remove()
            raise
        if self.pid == 0:
            _become_sampler(plan, inbox, outbox, self._ear)
        if self._ear is not None:
            self._ear.close()
        os.close(inbox)
        os.close(outbox)
        self.told_to_end = self.ran = False
        run_id, rank, node = plan.run["run_id"], plan.process["rank"], plan.process["node"]
        self._afterword = Afterword(plan.path, str(run_id), int(rank or 0), str(node))
        os.set_blocking(self._out, False)
        os.set_blocking(self.fd, False)

    def started(self, pid: int, when: float) -> None:
        """The workload runs."""
        self.ran = True
        self._tell("started", str(pid), repr(when))

    def event(self, kind: str, message: str) -> None:
        """Something to keep as an event."""
        self.told_to_end = self.told_to_end or (kind == "signal" and message.startswith(_ENDING))
        if not self._tell("event", kind, message):
            self._afterword.add(kind, message)

    def ended(self, exit_code: int, state: str, when: float) -> None:
        """The workload has ended; the sampler finishes the recording and exits."""
        if not self._tell("ended", str(exit_code), state, repr(when)):
            self._afterword.add("end", f"the workload ended: {state}, exit code {exit_code}")
            self._afterword.finish()
        if self._ear is not None:
            self._ear.remove()
        try:
            os.close(self._out)
        except OSError:
            pass

    def _tell(self, *words: str) -> bool:
        """False when the sampler is gone."""
        line = SEPARATOR.join(word.replace("\n", " ") for word in words) + "\n"
        try:
            os.write(self._out, line.encode("utf-8", "surrogateescape"))
        except BrokenPipeError:
            return False
        except OSError:
            pass  # it is stuck
        return True


def _become_sampler(plan: Plan, inbox: int, outbox: int, ear: Ear | None) -> NoReturn:
    """The child's side. Only here is the sampler loaded: the workload, which is being started meanwhile, need not wait."""
    try:
        inbox, outbox, *marks = let_go(inbox, outbox, *([] if ear is None else [ear.fd]))
        from gssr.profile.sampler import run_sampler

        run_sampler(plan, inbox, outbox, None if ear is None else ear._replace(fd=marks[0]))
    finally:
        os._exit(1)


class NoRecorder:
    """Stands in when nothing is recorded."""

    pid: int | None = None
    fd = -1
    told_to_end = ran = False

    def started(self, pid: int, when: float) -> None:
        """Nothing."""

    def event(self, kind: str, message: str) -> None:
        """Nothing."""

    def ended(self, exit_code: int, state: str, when: float) -> None:
        """Nothing."""
