"""The supervisor: runs the workload to its end, and stays out of its way.

One thread and one poll(). Signals wake it through ``signal.set_wakeup_fd``: the C handler writes the signal's number
into a pipe, so each one is seen once and in order, together with what the sampler has to say; sigtimedwait could not wait
for that as well, nor does poll mind the numbers of descriptors as select does. Nothing ticks: the workload's end is a
SIGCHLD.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Sequence
from math import ceil
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from gssr.profile.sampling.say_once import say_for_all, say_line_of_sampler
from gssr.profile.stderr import Relay, say
from gssr.profile.terminal import Terminal
from gssr.profile.workload import (
    ENDING,
    FORWARDED,
    SHELLS_KILLED,
    inherited,
    start,
    start_failure,
    wait_plainly,
)
from gssr.store.format.schema import RECORDING_STOPPED

if TYPE_CHECKING:
    from gssr.profile.live import Live

GRACE = 10.0
"""Seconds from the SIGTERM at --max-runtime to the SIGKILL."""
FINISH_SECONDS = 10.0
"""How long the sampler may take to finish the recording."""
SAID_WHY = 3
"""Exit status of a sampler that has itself printed why it ended."""

_GROUP_CHECK = 0.05  # s, between two looks whether an overdue workload's last process has gone
_INTERRUPTED_FINISH = 1.0  # s, what a signal leaves of finish_timeout: batch systems send SIGTERM twice
_LONGEST_WAIT = 86400.0  # s; poll() takes milliseconds in an int
_TERMINAL_WANTED = (signal.SIGTTIN, signal.SIGTTOU)


class Recorder(Protocol):
    """What the supervisor knows of the recording. None of these methods ever raises or blocks."""

    pid: int | None
    """The sampler's process id, a child of this process; None: nothing is recorded."""
    fd: int
    """Readable, non-blocking end of a pipe or socket with lines for the user from the sampler; -1 if none."""

    def started(self, pid: int, when: float) -> None:
        """The workload was started, as process ``pid`` at unix time ``when``. Not called if it can't be executed."""

    def event(self, kind: str, message: str) -> None:
        """Something happened; ``kind`` is one of gssr.store.format.schema.EVENT_KINDS."""

    def ended(self, exit_code: int, state: str, when: float) -> None:
        """The workload ended; ``state`` is completed, failed, timeout or killed."""


def supervise(
    argv: Sequence[str],
    recorder: Recorder,
    max_runtime: float | None = None,
    finish_timeout: float = FINISH_SECONDS,
    grace: float = GRACE,
    live: Live | None = None,
) -> int:
    """Run a command to its end and return the exit code to exit with.

    That is the command's own, 128 + n where signal n ended it, 127 when it is not found, 126 when it can't be
    executed. Signals in workload.FORWARDED that arrive from here on are passed on to it. They stay caught afterwards,
    so that none changes the exit code of a process that is about to exit. With ``live``, SIGHUP is not passed on but
    ends the screen, and the command has the terminal only once it demands it and the screen is gone.

    Args:
        argv: the command and its arguments.
        recorder: is told what happens.
        max_runtime: so many s after its start the command gets SIGTERM; None: never.
        finish_timeout: how many s the sampler may take to finish the recording after the end.
        grace: so many s after that SIGTERM the command gets SIGKILL.
        live: the screen, which stays up until its user leaves.
    """
    return Supervisor(recorder, max_runtime, grace, live).run(argv, finish_timeout)


class Attendant:
    """Waits beside a job: for signals, which wake it, and for what the sampler has to say."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._sampler = recorder.pid
        self._relay = Relay(recorder.fd, say_line_of_sampler)
        self._wake = -1  # where signals are read
        self._no_result = recorder.pid is None  # there is nothing, or not all, to be seen on a live screen

    def _catch(self, signals: Iterable[int]) -> None:
        """Catch these signals, and the ends of children, from now on; ``_wait`` returns them."""
        for sig in (*signals, signal.SIGCHLD):  # an ignored SIGCHLD would lose the exit code
            signal.signal(sig, _caught)

    def _open_wake(self) -> None:
        """Open the pipe that gets the number of each caught signal."""
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def _wait(self, deadline: float | None) -> list[int]:
        """Sleep until something happens or the monotonic time ``deadline`` (None: no limit), and return the signals
        that came.

        What the sampler says meanwhile is printed.
        """
        poll = select.poll()
        for fd in (self._wake, self._relay.fd, *self._descriptors()):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        left = _LONGEST_WAIT if deadline is None else min(max(deadline - time.monotonic(), 0.0), _LONGEST_WAIT)
        ready = [fd for fd, _ in poll.poll(None if deadline is None else ceil(left * 1000))]
        if self._relay.fd in ready:
            self._relay.pump()
        self._pump()
        return self._signals()

    def _descriptors(self) -> Sequence[int]:
        """List further descriptors to wait for; -1 stands for none."""
        return ()

    def _pump(self) -> None:
        """Take what has arrived at ``_descriptors``. Never waits."""

    def _signals(self) -> list[int]:
        """Return the signals that came since the last call, in their order, without SIGCHLD."""
        try:
            return [sig for sig in os.read(self._wake, 1 << 16) if sig != signal.SIGCHLD]
        except OSError:
            return []

    def _follow_sampler(self, meanwhile: str = "") -> None:
        """Print the last words of the sampler if it has ended, or say how it ended if it failed without a word.

        ``meanwhile`` is added to that.
        """
        if self._sampler is None:
            return
        try:
            pid, status = os.waitpid(self._sampler, os.WNOHANG)
        except ChildProcessError:  # somebody else has reaped it
            pid, status = self._sampler, 0
        if pid == 0:
            return
        self._sampler = None
        while self._relay.pump():
            pass
        code = os.waitstatus_to_exitcode(status)
        self._no_result = code != 0
        if code not in (0, SAID_WHY):
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            say(f"{RECORDING_STOPPED}{how}{meanwhile}")
            self._recorder.event("backend_lost", f"{RECORDING_STOPPED}{how}")

    def _asks_for_end(self, sig: int) -> bool:
        """Tell whether a signal asks for the end: who sent it will not wait for long."""
        return sig in ENDING

    def _finish(self, timeout: float) -> list[int]:
        """Wait up to ``timeout`` seconds for the sampler to end, which knows that the workload has; return the signals
        that came.

        A signal that asks for the end shortens that. Where the time is over, the sampler goes on alone, which is said.
        """
        ended = time.monotonic()
        deadline = ended + timeout
        heard: list[int] = []
        self._follow_sampler()
        while self._sampler is not None:
            if time.monotonic() >= deadline:
                say(f"the recording is still being finished, by process {self._sampler}")
                break
            signals = self._wait(deadline)
            if any(self._asks_for_end(sig) for sig in signals):
                deadline = min(deadline, ended + _INTERRUPTED_FINISH)
            heard += signals
            self._follow_sampler()
        return heard


class Supervisor(Attendant):
    """Runs the workload: see ``supervise``."""

    def __init__(self, recorder: Recorder, max_runtime: float | None, grace: float, live: Live | None) -> None:
        """Prepare to run a command. Starts nothing.

        Args:
            recorder: Is told what happens.
            max_runtime: So many s after its start the command gets SIGTERM; None: never.
            grace: So many s after that SIGTERM the command gets SIGKILL.
            live: The screen, which stays up until its user leaves; None: there is none.
        """
        super().__init__(recorder)
        self._live = live
        self._terminal = Terminal(wanted=live is None)
        self._max_runtime = max_runtime
        self._grace = grace
        self._pid = 0
        self._began = 0.0  # unix time, s
        self._starting = -1  # where the news of the exec comes from, until they have come
        self._start_error = 0  # errno
        self._status: int | None = None  # of the workload, once it has ended
        self._deadline: float | None = None  # monotonic, s: of max_runtime, then of the grace
        self._overdue = False
        self._asked_to_stop = False  # by a SIGTSTP of our own
        self._stopped_by = 0  # the signal, while the workload is stopped
        self._asked_to_end = False  # by a signal from elsewhere than the live screen

    def run(self, argv: Sequence[str], finish_timeout: float) -> int:
        """Run the command ``argv`` to its end, tell the recorder, and return the exit code to exit with: the command's
        own, 128 + n where signal n ended it, 127 when it is not found, 126 when it can't be executed.
        ``finish_timeout``: how many seconds the sampler may take to finish the recording afterwards. Signals stay caught
        when it returns."""
        was = self._was = inherited()
        caught = {sig for sig in FORWARDED if sig not in was.ignored}
        if self._live is not None:
            caught.add(signal.SIGWINCH)
        mask = was.mask - caught - {signal.SIGCHLD}
        self._may_stop = signal.SIGTSTP in caught
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._catch(caught)
        for sig in _TERMINAL_WANTED:
            signal.signal(sig, signal.SIG_IGN)
        self._began = time.time()
        try:
            self._open_wake()
            self._start(argv)
        except (OSError, ValueError) as error:
            say(f"the command can't be started: {error}")
        if self._live is not None:
            self._live.workload_started()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code, state = self._watch_safely(argv) if self._pid else (126, "failed")
        self._terminal.take_back()
        if self._live is not None:
            self._live.workload_ended()
        heard: list[int] = []
        try:
            self._recorder.ended(code, state, time.time())
            heard = self._finish(finish_timeout)
        except Exception as error:
            say(f"an error in gssr: {error!r}; the recording may lack its end")
        if self._live is not None:
            self._live.finish(self._wait, heard, at_once=self._no_result or self._asked_to_end)
        signal.set_wakeup_fd(-1)
        return code

    def _start(self, argv: Sequence[str]) -> None:
        """Start the workload: sets ``_pid`` and ``_starting``. Raises OSError and ValueError."""
        streams = self._live.streams() if self._live is not None else {}
        self._pid, self._starting = start(argv, self._was, self._terminal.reserve(), streams)

    def _watch_safely(self, argv: Sequence[str]) -> tuple[int, str]:
        """Watch the started workload to its end, whatever goes wrong on our side; return its exit code and state."""
        try:
            self._watch()
        except Exception as error:
            say(f"an error in gssr: {error!r}; the command runs on")
            if self._status is None:
                self._status = wait_plainly(self._pid)
        if self._start_error:
            code, line = start_failure(argv[0] if argv else "", self._start_error)
            say_for_all(line)
            return code, "failed"
        code = os.waitstatus_to_exitcode(self._status or 0)
        state = "killed" if code < 0 or code in SHELLS_KILLED else "failed" if code else "completed"
        return (128 - code if code < 0 else code), ("timeout" if self._overdue else state)

    def _watch(self) -> None:
        """Watch until the workload has ended, which sets ``_status``."""
        if self._max_runtime is not None:
            self._deadline = time.monotonic() + self._max_runtime
        while True:
            self._follow_sampler("; the command runs on")
            self._follow_workload()
            self._follow_start()
            self._follow_live()
            if self._status is not None and not self._group_lingers():
                return
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._overrun()
            for sig in self._wait(self._deadline if self._status is None else time.monotonic() + _GROUP_CHECK):
                self._pass_on(sig)

    def _group_lingers(self) -> bool:
        """Tell whether the first process has ended in the grace of --max-runtime while others of its group still run."""
        if not self._overdue or self._deadline is None:
            return False
        try:
            os.killpg(self._group(), 0)
        except OSError:
            return False
        return True

    def _group(self) -> int:
        """Return the process group of the workload."""
        return self._pid

    def _follow_start(self) -> None:
        """Find out whether the command could be executed: then tell the recorder and begin the live screen, else keep
        the errno."""
        if self._starting < 0:
            return
        try:
            answer = os.read(self._starting, 16)
        except BlockingIOError:
            return
        os.close(self._starting)
        self._starting = -1
        self._start_error = int(answer or b"0")
        if not self._start_error:
            self._recorder.started(self._pid, self._began)
            if self._live is not None:
                self._live.begin()

    def _follow_workload(self) -> None:
        """Find out whether the workload has ended, stopped or continued: keep its status, or see to its stop."""
        while self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                return
            self._follow_start()  # first, so that nothing ends or stops that was not seen to start
            if os.WIFCONTINUED(status):
                self._stopped_by = 0
            elif os.WIFSTOPPED(status):
                self._stopped_by = os.WSTOPSIG(status)
                self._follow_stop(self._stopped_by)
            else:
                self._status = status

    def _follow_stop(self, by: int) -> None:
        """See to a workload that the signal ``by`` has stopped: give it the terminal if it wants that; else, under job
        control, stop too."""
        terminal = self._terminal
        if self._live is not None and self._live.up:
            if by in _TERMINAL_WANTED:
                self._live.note(b"the command waits for the terminal: q gives it")
            return
        if by in _TERMINAL_WANTED and (terminal.holder() == self._pid or terminal.lend(self._pid, demanded=True)):
            self._signal_group(signal.SIGCONT)
            return
        asked, self._asked_to_stop = self._asked_to_stop, False
        # Where the terminal is not our stdin (ranks of a local mpirun) only what stops whole jobs is followed.
        is_about_the_job = terminal.is_stdin or terminal.lent or asked or by in _TERMINAL_WANTED
        if not (terminal.exists and self._may_stop and is_about_the_job):
            return
        terminal.take_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # The terminal signals whole groups; when the signal came to us, the others of our group have had it as well.
        os.kill(os.getpid() if asked else 0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _caught)
        signals = self._signals()  # continued: SIGCONT is among them
        for sig in signals:
            self._pass_on(sig)
        if signal.SIGCONT not in signals and by == signal.SIGTSTP:
            # Ours is an orphaned group, which no shell would continue: Ctrl-Z stops none, so not the workload either.
            terminal.lend(self._pid)
            self._signal_group(signal.SIGCONT)

    def _pass_on(self, sig: int) -> None:
        """Pass a signal that came to us on to the workload, with what it means for the terminal and the live screen."""
        if self._live is not None:
            if sig == signal.SIGHUP:
                self._recorder.event("signal", "not passed on: SIGHUP; the command runs on without a terminal")
                self._live.lose()
                return
            if sig in (signal.SIGWINCH, signal.SIGCONT) and self._live.resize(pane=self._live.up):
                self._signal_group(signal.SIGWINCH)
            if sig == signal.SIGWINCH:
                return
            self._asked_to_end = self._asked_to_end or self._asks_for_end(sig)
        if sig == signal.SIGCONT:
            self._terminal.lend(self._pid)
        if sig in (signal.SIGCONT, signal.SIGTSTP):
            self._asked_to_stop = sig == signal.SIGTSTP
        self._send(sig)

    def _send(self, sig: int) -> None:
        """Send a signal to the workload, and keep that as an event."""
        failure = self._signal_group(sig)
        name = signal.Signals(sig).name
        self._recorder.event("signal", f"{name} could not be passed on: {failure}" if failure else f"{name} passed on")

    def _signal_group(self, sig: int) -> str:
        """Send ``sig`` to the workload's process group; return why that failed, or ""."""
        try:
            os.killpg(self._pid, sig)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _overrun(self) -> None:
        """Send SIGTERM when max_runtime is over, and SIGKILL when the grace after that is over too."""
        if self._overdue:
            self._signal_group(signal.SIGKILL)
            self._recorder.event("timeout", f"SIGKILL sent {self._grace:g} s after SIGTERM")
            self._deadline = None
            return
        self._overdue = True
        self._deadline = time.monotonic() + self._grace
        self._signal_group(signal.SIGTERM)
        self._signal_group(signal.SIGCONT)  # stopped processes get it as well
        self._recorder.event("timeout", f"SIGTERM sent after the {self._max_runtime:g} s of --max-runtime")
        say_for_all(f"--max-runtime of {self._max_runtime:g} s reached: the command is being ended", running=True)

    def _asks_for_end(self, sig: int) -> bool:
        """Tell whether a signal asks for the end. Under the live screen SIGHUP does not: the terminal leaves the job,
        which runs on."""
        return super()._asks_for_end(sig) and not (sig == signal.SIGHUP and self._live is not None)

    def _descriptors(self) -> Sequence[int]:
        return (self._starting, *(self._live.descriptors() if self._live is not None else ()))

    def _pump(self) -> None:
        if self._live is not None:
            self._live.pump()

    def _follow_live(self) -> None:
        """Do what the live screen's user asks for; once he has left, let the workload have the terminal."""
        live = self._live
        if live is None:
            return
        for sig in live.asked():
            if self._status is None:
                self._send(sig)
                self._signal_group(signal.SIGCONT)  # it may wait for the terminal
        if live.follow(running=self._status is None) and self._status is None:
            self._signal_group(signal.SIGWINCH)  # it has the whole terminal from here on
            if self._stopped_by:
                self._follow_stop(self._stopped_by)


def _caught(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: the handler of all caught signals. What matters is the byte in the pipe of ``_open_wake``."""
