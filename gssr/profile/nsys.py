"""``gssr profile --trace nsys``: the command runs under Nsight Systems, and nobody else notices.

Between nsys and the command is a second supervisor (gssr.profile.nsys_child). By a socket it gets our standard streams,
and how signals were handled when we were started; it says when the command has begun and with which exit code it has
ended, and passes on the signals that we send to it alone. So nsys may swallow signals, exit with a code of its own,
print what it likes, or hang when it writes its report: the command's output, its exit code and its signals are as
without it. Where nsys ends before it has begun the command, that runs without."""

from __future__ import annotations

import array
import os
import signal
import struct
import sys
import time
from collections.abc import Sequence

from gssr.marks import ENVIRONMENT as MARKS
from gssr.module_path import PACKAGE
from gssr.profile.nsys_child import begin_message
from gssr.profile.request import UsageError
from gssr.profile.sampling.say_once import say_for_all
from gssr.profile.stderr import say
from gssr.profile.supervise import FINISH_SECONDS, GRACE, Recorder, Supervisor, supervise
from gssr.profile.workload import ENDING, start
from gssr.store.disk import FILE

START_SECONDS = 60.0
"""If nsys has not begun the command by then, it is ended, and the command runs without it."""
REPORT_SECONDS = 300.0
"""How long nsys may take for its report once the command has ended."""
TOLD_SECONDS = 10.0
"""The same where a signal has asked for the end: who sent it will not wait."""

_LAST_WORDS = 2.0
_PATIENCE = 0.2
_REPORTS = (".nsys-rep", ".sqlite")
_CHILD = (
    f"import sys; sys.path[:] = [{PACKAGE!r}, *filter(None, sys.path)]; "
    "from gssr.module_path import put_python_library_first as begin; begin(); "
    "from gssr.profile.nsys_child import run; run()"
)
"""The program of the second supervisor. Nothing in the user's folder is imported, nor anything on the user's PYTHONPATH in
place of what it needs."""
_OPTIONS = ("--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--export=sqlite", "--wait=primary")


def seconds_of(trace: str) -> float | None:
    """Parse --trace, ``nsys`` or ``nsys:SECONDS``, into how many seconds are traced; None: all of the run.

    Raises UsageError, also for less than 1 s or more than 1e6 s.
    """
    word, _, seconds = trace.partition(":")
    try:
        found = float(seconds) if seconds else None
    except ValueError:
        found = 0.0
    if word != "nsys" or trace.endswith(":") or (found is not None and not 1 <= found <= 1e6):
        raise UsageError(f"--trace: {trace!r} is not nsys or nsys:SECONDS, such as nsys:30")
    return found


def supervise_traced(
    argv: Sequence[str],
    recorder: Recorder,
    max_runtime: float | None,
    trace: str,
    folder: str | None,
    rank: int,
) -> int:
    """Run the command under nsys and record it; return the exit code to exit with, as gssr.profile.supervise.supervise
    does.

    Where nsys is not found or has no place to write, that is said and the command runs without it.

    Args:
        argv: The command and its arguments.
        recorder: Is told what happens.
        max_runtime: So many s after its start the command gets SIGTERM; None: never.
        trace: The value of --trace, which is valid.
        folder: The folder for the report; None: there is none.
        rank: The rank, which is part of the report's name.
    """
    nsys, marks = _program("nsys"), os.environ.get(MARKS)
    if nsys is None:
        why = "nsys is not found on PATH"
    elif folder is None or marks is None:
        why = f"there is no folder for {'its report' if folder is None else 'a socket'}"
    else:
        report = _unused(os.path.join(folder, f"nsys.rank{rank}"))
        traced = TracedSupervisor(recorder, max_runtime, nsys, seconds_of(trace), report, marks)
        return traced.run(argv, FINISH_SECONDS)
    say_for_all(f"--trace nsys: {why}: the command runs without it")
    return supervise(argv, recorder, max_runtime)


def _program(name: str) -> str | None:
    """Find an executable on PATH; None if there is none."""
    for place in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(place, name)
        if place and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _unused(stem: str) -> str:
    """Return a path without ending, ``stem`` or ``stem-2``, ..., for which there is no report yet."""
    name, number = stem, 1
    while any(os.path.lexists(name + ending) for ending in _REPORTS):
        number += 1
        name = f"{stem}-{number}"
    return name


class TracedSupervisor(Supervisor):
    """Supervises nsys, and by way of it the command. ``report``: its path without an ending."""

    def __init__(
        self, recorder: Recorder, max_runtime: float | None, nsys: str, seconds: float | None, report: str, marks: str
    ) -> None:
        """``nsys``: the program; ``seconds``: how long to trace, None for all; ``marks``: the socket of the marks,
        beside which ours is made."""
        super().__init__(recorder, max_runtime, GRACE, None)
        self._nsys, self._seconds, self._report = nsys, seconds, report
        self._path = os.path.join(os.path.dirname(marks), "nsys")
        self._listener = self._talk = -1
        self._heard = b""
        self._nsys_child = self._command = 0  # process ids, once they are known
        self._code: int | None = None  # of the command, once it has ended
        self._traced = True
        self._nsys_runs, self._nsys_status = False, 0
        self._told = False
        self._early: list[int] = []
        self._start_by = 0.0

    def run(self, argv: Sequence[str], finish_timeout: float) -> int:
        """Run the command and then wait for nsys, which writes its report, but not for ever; return the command's exit
        code.

        Says so where there is no report in the end.
        """
        code = super().run(argv, finish_timeout)
        if self._nsys_runs:
            self._let_nsys_finish()
        if self._traced and os.path.lexists(self._log):
            if any(os.path.lexists(self._report + ending) for ending in _REPORTS):
                os.unlink(self._log)
            else:
                say_for_all(f"--trace nsys: there is no report; nsys said: {self._log}", "--trace nsys: no report")
        return code

    @property
    def _log(self) -> str:
        """The path of the file that gets what nsys prints; it is deleted if there is a report."""
        return f"{self._report}.log"

    def _start(self, argv: Sequence[str]) -> None:
        """Start nsys with the second supervisor as its program, which is to run the command. ``argv`` is the command
        with its arguments; nsys's own command line is made here.

        Nothing is waited for: whether nsys could be executed is found out later (``_follow_start``). If the socket,
        nsys's log or /dev/null cannot be opened, that is said and the command is started without nsys; nothing is raised
        then.
        """
        self._argv = argv
        try:
            self._listen()
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            log = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, FILE)
        except OSError as error:
            self._give_up(f"nsys can't be started: {error.strerror or error}")
            return
        limit = [] if self._seconds is None else [f"--duration={self._seconds:.0f}", "--kill=none"]
        output = f"--output={self._report.replace('%', '%%')}"
        program = [sys.executable, "-S", "-c", _CHILD, self._path]
        command = [self._nsys, "profile", *_OPTIONS, *limit, output, *program, *argv]
        self._start_by = time.monotonic() + START_SECONDS
        self._pid, self._starting = start(command, self._was, self._terminal.reserve(), {0: null, 1: log, 2: log})
        self._nsys_runs = True
        os.close(null)
        os.close(log)

    def _listen(self) -> None:
        """Open the socket at which the second supervisor is to call. Raises OSError."""
        from _socket import AF_UNIX, SOCK_NONBLOCK, SOCK_STREAM, socket

        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK)
        try:
            listener.bind(self._path)
            listener.listen(1)
        except OSError:
            listener.close()
            raise
        self._listener = listener.detach()

    def _descriptors(self) -> Sequence[int]:
        return (*super()._descriptors(), self._listener, self._talk)

    def _pump(self) -> None:
        """Pass on what every supervisor does; then accept the second supervisor's connection if it has come, and read what
        it has sent, without waiting for either."""
        super()._pump()
        if self._listener >= 0:
            self._accept()
        if self._talk >= 0:
            self._hear()

    def _accept(self) -> None:
        """Accept the connection of the second supervisor, and send it this process's open standard streams and the
        signals that were ignored or blocked when it began: with these it begins the command. The connection stays open
        for ``_hear``, and no other is accepted. Does nothing if no connection has come."""
        from _socket import SCM_RIGHTS, SO_PEERCRED, SOL_SOCKET, socket

        listener = socket(fileno=self._listener)
        try:
            fd, _ = listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        finally:
            listener.detach()
        self._stop_listening()
        talk = socket(fileno=fd)
        self._nsys_child = struct.unpack("3i", talk.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))[0]
        streams = [number for number in (0, 1, 2) if _is_open(number)]
        message = begin_message(streams, sorted(self._was.ignored), sorted(self._was.mask))
        talk.setblocking(True)
        try:
            passed = [(SOL_SOCKET, SCM_RIGHTS, array.array("i", streams))] if streams else []
            talk.sendmsg([message], passed)
        except OSError:
            pass  # it is gone already
        talk.setblocking(False)
        self._talk = talk.detach()

    def _stop_listening(self) -> None:
        """Close the socket for calls and remove its file; nothing if that is done."""
        if self._listener >= 0:
            os.close(self._listener)
            self._listener = -1
            try:
                os.unlink(self._path)
            except OSError:
                pass

    def _hear(self) -> None:
        """Read what the second supervisor says, without waiting: that the command has started (its process id is then
        told to the recorder, and signals that came before are passed on), and with which exit code it has ended (kept in
        ``_code``). If it is gone without having told that, the command counts as killed by SIGKILL."""
        try:
            data = os.read(self._talk, 1 << 12)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._heard += data
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            word, number = line.split()
            if word == b"started":
                self._command = int(number)
                self._recorder.started(self._command, self._began)
                for sig in self._early:
                    self._signal_group(sig)
            else:
                self._code = int(number)
        if not data:
            os.close(self._talk)
            self._talk = -1
            if self._code is None and self._command:
                self._code = 128 + signal.SIGKILL  # nothing else ends it without a word

    def _follow_start(self) -> None:
        """Find out whether nsys could be executed; if not, run the command without it."""
        if not self._traced:
            super()._follow_start()
        elif self._starting >= 0:
            try:
                error = os.read(self._starting, 16)
            except BlockingIOError:
                return
            os.close(self._starting)
            self._starting = -1
            if error:
                self._nsys_has_ended()
                self._nsys_runs = False
                self._give_up(f"nsys can't be executed: {os.strerror(int(error))}")

    def _follow_workload(self) -> None:
        """Find out whether nsys or the command has ended, and set ``_status`` once the command has.

        Where nsys ends or takes too long before it has begun the command, that runs without it.
        """
        if not self._traced:
            super()._follow_workload()
            return
        if self._nsys_runs:
            nsys = self._pid
            super()._follow_workload()
            if self._pid != nsys:
                self._status = None  # it could not be executed: what runs now has not ended
                return
            if self._status is not None:
                self._nsys_status, self._status, self._nsys_runs = self._status, None, False
                self._pump()  # something may just have been said
        if self._code is not None:
            self._status = self._code << 8
        elif not (self._nsys_runs or self._command or self._talk >= 0):
            self._follow_early_end()
        elif self._nsys_runs and not self._nsys_child and time.monotonic() >= self._start_by:
            self._end_nsys()
            self._give_up(f"nsys has not begun the command in {START_SECONDS:.0f} s")

    def _follow_early_end(self) -> None:
        """Run the command without nsys, which has ended before it began it; but if a signal has asked for the end, end
        with nsys's status."""
        if self._told or self._overdue:  # a signal that was for the command has ended nsys
            self._status, self._traced = self._nsys_status, False
            self._stop_listening()
            return
        code = os.waitstatus_to_exitcode(self._nsys_status)
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        self._give_up(f"nsys has ended {how} before it began the command, and said {self._log}")

    def _wait(self, deadline: float | None) -> list[int]:
        """Sleep until something happens or until ``deadline`` (monotonic s; None: never), but no longer than nsys may
        take to begin the command. Returns the signals that came."""
        if self._traced and not self._nsys_child and self._nsys_runs:
            deadline = self._start_by if deadline is None else min(deadline, self._start_by)
        return super()._wait(deadline)

    def _give_up(self, why: str) -> None:
        """Say why there is no trace, and run the command without nsys."""
        say_for_all(
            f"--trace nsys: {why}: the command runs without it", f"--trace nsys: {why.partition(', and said ')[0]}"
        )
        self._traced = False
        self._stop_listening()
        if self._talk >= 0:
            os.close(self._talk)  # the supervisor beneath nsys has nothing to run any more
            self._talk = -1
        self._terminal.take_back()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        super()._start(self._argv)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _signal_group(self, sig: int) -> str:
        """Send ``sig`` to the command by way of the second supervisor; return why that failed, or "".

        Before the command has begun, nsys gets it, and the command gets it once it has begun.
        """
        if not self._traced:
            return super()._signal_group(sig)
        if self._code is not None:
            return "it has ended"
        if not self._command or sig == signal.SIGCONT:
            failure = super()._signal_group(sig)  # whoever is to begin it
            if not self._command:
                self._early.append(sig)  # which may have been swallowed
                return failure
        try:
            if sig == signal.SIGKILL:
                os.killpg(self._command, sig)
            else:
                os.kill(self._nsys_child, sig)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _group(self) -> int:
        return self._command or self._pid

    def _pass_on(self, sig: int) -> None:
        self._told = self._told or self._asks_for_end(sig)
        super()._pass_on(sig)

    def _let_nsys_finish(self) -> None:
        """Wait until nsys has written its report, now that the command has ended; end nsys when it takes too long."""
        self._open_wake()
        ended = time.monotonic()
        deadline = ended + (TOLD_SECONDS if self._told else REPORT_SECONDS)
        while not self._nsys_has_ended():
            if time.monotonic() >= deadline:
                say("--trace nsys: nsys takes too long to write its report: it is ended")
                self._end_nsys()
                break
            if any(sig in ENDING for sig in self._wait(deadline)):
                deadline = min(deadline, time.monotonic() + TOLD_SECONDS)
        signal.set_wakeup_fd(-1)

    def _nsys_has_ended(self) -> bool:
        """Reap nsys if it has ended, and return whether it has."""
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def _end_nsys(self) -> None:
        """End nsys and its process group, by SIGTERM and then by SIGKILL; takes about 2 s at most."""
        self._nsys_runs = False
        for sig, seconds in ((signal.SIGTERM, _LAST_WORDS), (signal.SIGKILL, _PATIENCE)):
            try:
                os.killpg(self._pid, sig)
                os.killpg(self._pid, signal.SIGCONT)
            except OSError:
                pass
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                if self._nsys_has_ended():
                    return
                time.sleep(0.01)


def _is_open(descriptor: int) -> bool:
    """Tell whether a descriptor is open."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
