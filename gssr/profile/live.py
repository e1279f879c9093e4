"""``--live``: the live screen beside a job, and what the job prints while it is up.

The screen is a process of its own, in our process group, and has the terminal; the workload prints into a pty, which a
third process copies to NAME.log (gssr.profile.copier). None of them is waited for while the workload runs.
"""

from __future__ import annotations

import math
import os
import signal
import termios
import time
from collections.abc import Callable, Sequence

from gssr.profile.copier import Log, OutputCopier, last_lines
from gssr.profile.screen import DRAWN, OVER, REQUESTS, USED, ScreenArguments, Show, become_screen
from gssr.profile.stderr import Relay, hold_back, put, release, say
from gssr.profile.terminal import put_back_modes, read_modes
from gssr.profile.workload import ENDING
from gssr.render.output_pane import pane_height

_LEAVING = 1.0  # s, from the SIGTERM to the SIGKILL for the screen, and from there on as long again
_OUTPUT_PATIENCE = 10.0  # s without a sign of life, while the last output is copied
_COPIERS = 3  # at most, one after another
_COUNT_AGAIN = 4.0
"""Seconds after a key in which no countdown covers the footer, whose keys are perhaps wanted next."""


class Live:
    """The pty, the process that copies, and the screen. Only ``__init__`` raises (OSError)."""

    def __init__(self, show: Show, recording: str, run_id: str, log: Log, summary: bool, linger: float) -> None:
        """Open the pty and fork the process that copies from it. Raises OSError.

        Args:
            show: draws the screen, in a process of its own.
            recording: the path of the recording.
            run_id: the run that is shown.
            log: where the output goes.
            summary: say in the end where the output is.
            linger: how many seconds the screen stays after the run's end, or after the last key since.
        """
        self._show = show
        self._recording, self._run_id, self._log = recording, run_id, log
        self._terminal = 1 if os.isatty(1) else 2
        self._modes = read_modes(0)
        self._master, self._slave = os.openpty()
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        _pass_untouched(self._slave)
        os.set_blocking(self._master, False)
        self._size = (0, 0)
        self.resize(pane=True)
        self._copier = OutputCopier(self._master, log, self._terminal)
        self._copiers = 1
        self._lines = Relay(self._copier.fd)
        self._sign_of_life = time.monotonic()  # of the process that copies
        self._requests = -1  # where requests arrive
        self._asked: list[int] = []
        self._notices = -1
        self._screen = 0
        self._drawn = self._lost = self._given_back = False
        self._told = not summary
        self._linger = linger
        self._over_at = self._used_at = math.inf  # monotonic, s: when the run's end was shown, and the last key since
        self.left_by_itself = False
        """The screen was closed because nobody used it after the run's end."""

    @property
    def up(self) -> bool:
        """True while the screen's process runs."""
        return self._screen > 0

    def streams(self) -> dict[int, int]:
        """Return what the workload gets in place of those of its standard streams that are a terminal: no input, and
        the pty.

        The keys are the streams 0, 1, 2, the values the descriptors that replace them.
        """
        replaced = {0: self._null, 1: self._slave, 2: self._slave}
        return {fd: by for fd, by in replaced.items() if os.isatty(fd)}

    def workload_started(self) -> None:
        """Close what ``streams`` told, which the workload's process has now."""
        os.close(self._slave)
        os.close(self._null)

    def resize(self, pane: bool) -> bool:
        """Tell the pty how large the workload's part of the terminal is, and return whether that has changed.

        ``pane``: the part is the screen's pane for output, else the whole terminal.
        """
        before = self._size
        try:
            rows, columns = termios.tcgetwinsize(self._terminal)
            if pane and pane_height(rows):
                rows = pane_height(rows) - 1  # without its title
            self._size = (rows, columns)
            termios.tcsetwinsize(self._master, self._size)
        except (OSError, termios.error):
            pass  # the terminal has gone
        return self._size != before

    def descriptors(self) -> list[int]:
        """List where something may arrive, for poll()."""
        return [fd for fd in (self._requests, self._lines.fd) if fd >= 0]

    def begin(self) -> None:
        """Start the screen's process, now that the workload runs."""
        self._log.take_place()
        if self._lost:
            return
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            notices, self._notices, self._requests, requests = pipes
            os.set_blocking(self._notices, False)
            os.set_blocking(self._requests, False)
            beside = ScreenArguments(self._recording, self._run_id, self._log.path, self._log.start, notices, requests)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._screen = os.fork()
                if self._screen == 0:
                    become_screen(self._show, beside)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(notices)
            os.close(requests)
            hold_back(self.note)
        except OSError as error:
            for fd in pipes:
                os.close(fd)
            self._requests = self._notices = -1
            say(f"the live screen can't be started: {error.strerror}")
            self.give_back(running=True)

    def note(self, line: bytes) -> None:
        """Show a line on the screen; nothing if it is gone or stuck."""
        try:
            os.write(self._notices, line + b"\n")
        except OSError:
            pass

    def pump(self) -> None:
        """Take what the screen and the copying process have sent: lines are said, requests are kept for ``asked``.
        Never waits."""
        if self._lines.pump():
            self._sign_of_life = time.monotonic()
        if self._requests < 0:
            return
        try:
            data = os.read(self._requests, 64)
        except OSError:
            return
        self._drawn = self._drawn or DRAWN in data
        if OVER in data:
            self._over_at = self._used_at = time.monotonic()
        if USED in data and self._over_at < math.inf:
            self._used_at = time.monotonic()
        self._asked += [byte for byte in data if byte in REQUESTS]
        if not data:  # the screen is ending
            os.close(self._requests)
            self._requests = -1

    def asked(self) -> list[int]:
        """List the signals that the screen's user wants the workload to get, each told once."""
        asked, self._asked = self._asked, []
        return asked

    def follow(self, running: bool) -> bool:
        """Find out whether the screen or the copying process has ended, and see to that.

        ``running``: the workload still runs. Returns True once, when the screen has just ended: the output is on the
        terminal by then.
        """
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
        """Start the copying process anew if it was killed, a few times at most: else what the workload prints would
        get stuck."""
        if self._copier.pid <= 0:
            return
        status = _ended(self._copier.pid)
        if status is None:
            return
        self._copier.pid = 0
        if status < 0 and self._copiers < _COPIERS:  # killed: what the workload prints must not get stuck
            self._copiers += 1
            try:
                self._copier = OutputCopier(self._master, self._log, self._terminal)
            except OSError:
                return
            self._lines = Relay(self._copier.fd)
            if self._given_back and not self._lost:
                self._copier.show(os.fstat(self._log.fd).st_size)

    def give_back(self, running: bool) -> None:
        """Give the terminal back to the workload: from its last screenful on, everything that it prints is shown there."""
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
        """End the screen for good, because the terminal is gone or a signal says so. What the workload prints goes to
        the log only from now on, and what was held back of our own lines is said."""
        self._lost = True
        self._copier.hide()
        self.close_screen()
        release()

    def close_screen(self) -> None:
        """End the screen if it is up, by SIGTERM and then by SIGKILL; takes about 2 s at most."""
        if not self.up:
            return
        for sig in (signal.SIGTERM, signal.SIGKILL):
            _send(self._screen, sig)
            _send(self._screen, signal.SIGCONT)
            deadline = time.monotonic() + _LEAVING
            while time.monotonic() < deadline:
                if _ended(self._screen) is not None:
                    self._came_back(-1)
                    return
                time.sleep(0.005)
        self._came_back(-1)

    def _came_back(self, status: int) -> None:
        """Clean up after the screen's process, which has ended with ``status`` (-n: by signal n; not 0: it may have left
        the terminal as it was): take its last words, close its pipes, and put the terminal back into the state from
        before if it could not."""
        self._screen = 0
        self.pump()
        for fd in (self._requests, self._notices):
            if fd >= 0:
                os.close(fd)
        self._requests = self._notices = -1
        if status:
            put_back_modes(self._modes, drawn=self._drawn and status < 0)

    def workload_ended(self) -> None:
        """Hold back what we have to say, unless the screen is there: the workload's last output comes before it."""
        if not self.up:
            hold_back()

    def finish(self, wait: Callable[[float | None], list[int]], heard: Sequence[int], at_once: bool) -> None:
        """Leave the result on the screen until its user leaves or does not use it any more, then show what is left of
        the output.

        What was held back is said last. Never raises.

        Args:
            wait: sleeps until something happens or until that monotonic time; returns the signals that came.
            heard: signals that have come since the workload's end.
            at_once: close the screen without waiting for its user.
        """
        try:
            if at_once:
                self.close_screen()
            signals = heard
            while True:
                for sig in signals:
                    if sig == signal.SIGHUP:
                        self.lose()
                    elif sig in ENDING:
                        self.close_screen()
                again = self._count_down()
                self.follow(running=False)  # before each wait: its user may have left by now
                if not self.up:
                    break
                signals = wait(again)
            self.give_back(running=False)
            self._copier.end()
            self._sign_of_life = time.monotonic()
            while self._lines.fd >= 0 and time.monotonic() < self._sign_of_life + _OUTPUT_PATIENCE:
                if any(sig in ENDING for sig in wait(self._sign_of_life + _OUTPUT_PATIENCE)):
                    break
        except Exception as error:
            self.close_screen()
            say(f"an error in gssr: {error!r}")
        self._log.forget()
        size = os.fstat(self._log.fd).st_size
        printed = size > self._log.start
        if printed and self._given_back and os.pread(self._log.fd, 1, size - 1) != b"\n":
            put(b"\n")  # our lines begin as such
        release()
        if printed and not (self._told or self._lost):
            say(f"the output of the command is in {self._log.path}")

    def _count_down(self) -> float | None:
        """Close the screen if nobody has used it for long enough after the run's end, else say on it how many seconds
        are left. Returns when to call this again (monotonic s); None if there is no screen, or nothing is to be counted."""
        if not self.up or self._over_at == math.inf:
            return None
        now = time.monotonic()
        left = self._used_at + self._linger - now
        if left <= 0:
            self.left_by_itself = True
            self.close_screen()
            return None
        if self._used_at > self._over_at and now < self._used_at + min(_COUNT_AGAIN, self._linger / 2):
            return self._used_at + min(_COUNT_AGAIN, self._linger / 2)
        self.note(f"the job has ended; without a key this screen leaves in {math.ceil(left)} s; q leaves now".encode())
        return now + (left % 1 or 1.0)


def _pass_untouched(pty: int) -> None:
    """Set the pty so that the log holds what was printed, byte for byte; our terminal does the rest."""
    try:
        modes = termios.tcgetattr(pty)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(pty, termios.TCSANOW, modes)
    except termios.error:
        pass  # it holds a carriage return before each newline then


def _ended(pid: int) -> int | None:
    """Return the exit code of a child, -n for signal n; None while it runs."""
    try:
        pid, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has reaped it
        return 0
    return os.waitstatus_to_exitcode(status) if pid else None


def _send(pid: int, sig: int) -> None:
    """Send a signal to a process; nothing if it is gone."""
    try:
        os.kill(pid, sig)
    except OSError:
        pass
