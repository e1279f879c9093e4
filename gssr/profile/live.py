"""``--live``: the live screen beside a job, and what the job prints while it is up.

The screen is a process of its own, in our process group, and has the terminal; the workload prints into a pty, which a
third process copies to NAME.log (gssr.profile.copier). None of them is waited for while the workload runs.
"""

import os
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from gssr.launch import Place
from gssr.profile.copier import Copier
from gssr.profile.detach import call_process, keep_only
from gssr.profile.log import Log, last_lines
from gssr.profile.stderr import Relay, hold_back, release, say
from gssr.profile.terminal import SavedModes, is_pipe
from gssr.profile.workload import FORWARDED
from gssr.render.pane import pane_height

REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
"""Signals that the screen may ask to send to the workload, in the order of their force."""
DRAWN = 0
"""What the screen says, beside those, once it draws."""

_LEAVING = 1.0  # s, from the SIGTERM to the SIGKILL for the screen
_COPIERS = 3  # at most, one after another


class Beside(NamedTuple):
    """What the screen's process is told: the recording and the run in it, the log and the byte at which this run's output
    begins, the descriptor at which lines for the user arrive and where the supervisor's end shows, and the one that takes
    requests, a byte each: one of REQUESTS, or DRAWN."""

    recording: str
    run_id: str
    log: str
    log_start: int
    notices: int
    requests: int


Show = Callable[[Beside], int]
"""Draws the screen until its user leaves: 0; anything else is a failure."""


def why_no_screen(place: Place) -> str | None:
    """Why there can be no live screen here; None when there can."""
    streams = (sys.__stdin__, sys.__stderr__)
    if any(stream is None or not stream.isatty() for stream in streams) or os.environ.get("TERM", "dumb") == "dumb":
        return "no terminal"
    if place.parallel:
        return "several ranks share this terminal"
    if is_pipe(1):
        return "standard output goes to another program, which may need the terminal"
    try:
        in_front = os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        in_front = False
    return None if in_front else "in the background"


class Live:
    """The pty, the process that copies, and the screen. Only ``__init__`` raises (OSError)."""

    def __init__(self, show: Show, recording: str, run_id: str, log: Log) -> None:
        self._show = show
        self._recording, self._run_id, self._log = recording, run_id, log
        self._terminal = 1 if os.isatty(1) else 2
        self._modes = SavedModes()
        self._master, self._slave = os.openpty()
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        modes = termios.tcgetattr(self._slave)
        modes[1] &= ~termios.OPOST  # the log holds what was printed, byte for byte; our terminal does the rest
        termios.tcsetattr(self._slave, termios.TCSANOW, modes)
        os.set_blocking(self._master, False)
        self.resize(pane=True)
        self._copier = Copier(self._master, log, self._terminal)
        self._copiers = 1
        self._lines = Relay(self._copier.fd)
        self._heard = -1  # where requests arrive
        self._notices = -1
        self._screen = 0
        self._drawn = self._lost = self._given_back = self._told = False

    @property
    def up(self) -> bool:
        """The screen is there."""
        return self._screen > 0

    @property
    def copying(self) -> bool:
        """There may be output of the workload that has not been copied yet."""
        return self._lines.fd >= 0

    def streams(self) -> dict[int, int]:
        """What the workload gets in place of its standard streams, where they are a terminal: no input, and the pty."""
        replaced = {0: self._null, 1: self._slave, 2: self._slave}
        return {fd: by for fd, by in replaced.items() if os.isatty(fd)}

    def workload_started(self) -> None:
        """Its process has what ``streams`` told."""
        os.close(self._slave)
        os.close(self._null)

    def resize(self, pane: bool) -> None:
        """Tell the pty how large the workload's part of the terminal is."""
        try:
            rows, columns = termios.tcgetwinsize(self._terminal)
            if pane and pane_height(rows):
                rows = pane_height(rows) - 1  # without its title
            termios.tcsetwinsize(self._master, (rows, columns))
        except (OSError, termios.error):
            pass  # the terminal has gone

    def descriptors(self) -> list[int]:
        """Where something may arrive, for poll()."""
        return [fd for fd in (self._heard, self._lines.fd) if fd >= 0]

    def begin(self) -> None:
        """Start the screen's process."""
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            notices, self._notices, self._heard, requests = pipes
            os.set_blocking(self._notices, False)
            os.set_blocking(self._heard, False)
            beside = Beside(self._recording, self._run_id, self._log.path, self._log.start, notices, requests)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._screen = os.fork()
                if self._screen == 0:
                    _become_screen(self._show, beside)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(notices)
            os.close(requests)
            hold_back(self.note)
        except OSError as error:
            for fd in pipes:
                os.close(fd)
            self._heard = self._notices = -1
            say(f"the live screen can't be started: {error.strerror}")
            self.give_back(running=True)

    def note(self, line: bytes) -> None:
        """Show a line on the screen."""
        try:
            os.write(self._notices, line + b"\n")
        except OSError:
            pass

    def pump(self) -> bool:
        """Say what the copying process has to say; whether it gave a sign of life."""
        return self._lines.pump()

    def heard(self) -> Iterator[int]:
        """The signals that the screen's user wants the workload to get."""
        self.pump()
        yield from (byte for byte in self._hear() if byte in REQUESTS)

    def _hear(self) -> bytes:
        try:
            data = os.read(self._heard, 64) if self._heard >= 0 else b""
        except OSError:
            return b""
        self._drawn = self._drawn or DRAWN in data
        return data

    def follow(self, running: bool) -> bool:
        """Look after our processes; True when the screen has just left, and what it hid is back. ``running``: the workload
        still is."""
        self._follow_copier()
        if not self.up:
            return False
        status = _ended(self._screen)
        if status is None:
            return False
        self._came_back(status)
        if status and not self._lost:
            how = f"was killed by signal {-status}" if status < 0 else f"failed with exit code {status}"
            say(f"the live screen {how}")
        self.give_back(running)
        return True

    def _follow_copier(self) -> None:
        if self._copier.pid <= 0:
            return
        status = _ended(self._copier.pid)
        if status is None:
            return
        self._copier.pid = 0
        if status < 0 and self._copiers < _COPIERS:  # killed: what the workload prints must not get stuck
            self._copiers += 1
            try:
                self._copier = Copier(self._master, self._log, self._terminal)
            except OSError:
                return
            self._lines = Relay(self._copier.fd)
            if self._given_back and not self._lost:
                self._copier.show(os.fstat(self._log.fd).st_size)

    def give_back(self, running: bool) -> None:
        """The terminal is the workload's again: from its last screenful on, everything that it prints is shown there."""
        if self._given_back or self._lost:
            return
        self._given_back = True
        self.resize(pane=False)
        if running:
            release()
            self._told = True
            say(f"the command runs on; all that it prints is in {self._log.path} as well")
        try:
            rows = termios.tcgetwinsize(self._terminal)[0] or 24
            self._copier.show(last_lines(self._log, max(rows - 2, 1)))
        except (OSError, termios.error):
            pass

    def lose(self) -> None:
        """The terminal is gone, or we are told so: the screen ends, and the output goes to the log only."""
        self._lost = True
        self._copier.hide()
        self.close_screen()
        release()

    def close_screen(self) -> None:
        """End the screen if it is there, also one that was stopped."""
        if not self.up:
            return
        status = None
        deadline = time.monotonic() + _LEAVING
        _send(self._screen, signal.SIGTERM)
        _send(self._screen, signal.SIGCONT)
        while status is None and time.monotonic() < deadline:
            status = _ended(self._screen)
            time.sleep(0.005)
        if status is None:
            _send(self._screen, signal.SIGKILL)
        self._came_back(-1)

    def _came_back(self, status: int) -> None:
        """The screen's process is gone; if it could not, put the terminal back into the state of before."""
        self._screen = 0
        self._hear()
        for fd in (self._heard, self._notices):
            os.close(fd)
        self._heard = self._notices = -1
        if status:
            self._modes.put_back(drawn=self._drawn and status < 0)

    def workload_ended(self) -> None:
        """Its last output comes before what we have to say."""
        if not self.up:
            hold_back()

    def end(self) -> None:
        """The screen is gone: have what is left of the workload's output copied."""
        self.give_back(running=False)
        self._copier.end()

    def close(self) -> None:
        """Say what was held back."""
        release()
        if not (self._told or self._lost) and os.fstat(self._log.fd).st_size > self._log.start:
            say(f"the output of the command is in {self._log.path}")


def _become_screen(show: Show, beside: Beside) -> NoReturn:
    """The screen's process: nothing of the job's but the terminal is left in it."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for sig in (*FORWARDED, signal.SIGCHLD, signal.SIGWINCH):
            signal.signal(sig, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # until it is a key like others, Ctrl-C is meant for the workload
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(2, 1)
        keep_only(beside.notices, beside.requests)
        call_process("gssr-screen")
        code = show(beside)
    except BaseException as error:
        if os.environ.get("GSSR_DEBUG"):
            raise
        os.write(2, f"gssr: an error in the live screen: {error!r}\r\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def _ended(pid: int) -> int | None:
    """The exit code of a child, -n for signal n; None while it runs."""
    try:
        pid, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has reaped it
        return 0
    return os.waitstatus_to_exitcode(status) if pid else None


def _send(pid: int, sig: int) -> None:
    try:
        os.kill(pid, sig)
    except OSError:
        pass
