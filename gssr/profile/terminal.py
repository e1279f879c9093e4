"""The terminal of a job that runs in a process group of its own: who has it, and in which modes."""

import os
import signal
import stat
import sys
import termios
from typing import Any, NoReturn

from gssr.profile.stderr import put

_Modes = list[Any]  # as termios.tcgetattr gives it


class Terminal:
    """The controlling terminal, lent to the workload's process group and taken back.

    Nothing here raises, and nothing blocks: a terminal that has gone is as good as none. The caller ignores SIGTTOU."""

    def __init__(self, wanted: bool = True) -> None:
        """``wanted``: the workload is to have the terminal, not only once it demands it."""
        self.group = os.getpgrp()
        self.is_stdin = _foreground(0) >= 0
        """Standard input is the terminal, so the shell's job control is about this job."""
        self.lent = False
        self._fd = 0 if self.is_stdin else _controlling_terminal()
        # In `gssr profile -- cmd | less` the pager, which is in our group, needs the terminal more than cmd does.
        self._wanted = wanted and self.is_stdin and not is_pipe(1)
        self._modes: _Modes | None = None  # ours: those of before the loan
        self._workload_modes: _Modes | None = None

    @property
    def exists(self) -> bool:
        """There is a controlling terminal."""
        return self._fd >= 0

    def holder(self) -> int:
        """The process group in the foreground; -1 when that can't be known."""
        return _foreground(self._fd)

    def reserve(self) -> int:
        """For a workload that is about to start and shall have the terminal at once: remembers the modes and returns the
        descriptor with which its process takes the foreground; -1 if it shall not."""
        if not self._wanted or self.holder() != self.group:
            return -1
        self._modes = self._read_modes()
        self.lent = True
        return self._fd

    def lend(self, group: int, demanded: bool = False) -> bool:
        """Put the workload's ``group`` in the foreground, in the modes it left, if our group is there now and the workload
        is to have the terminal (from the first time it is ``demanded``, always). False if it was not done."""
        if self._fd < 0 or not (self._wanted or demanded) or self.holder() != self.group:
            return False
        self._wanted = True
        self._modes = self._read_modes()
        self._write_modes(self._workload_modes)
        self.lent = self._put_in_front(group)
        return self.lent

    def take_back(self) -> None:
        """Put our own group in the foreground again and restore the modes; nothing if the terminal is not lent."""
        if not self.lent:
            return
        self.lent = False
        if self.holder() in _shells() - {self.group}:
            return  # a shell stopped us behind our back (SIGSTOP) and has the terminal itself
        self._workload_modes = self._read_modes()
        self._put_in_front(self.group)
        self._write_modes(self._modes)

    def _put_in_front(self, group: int) -> bool:
        try:
            os.tcsetpgrp(self._fd, group)
        except OSError:
            return False
        return True

    def _read_modes(self) -> _Modes | None:
        return _read_modes(self._fd)

    def _write_modes(self, modes: _Modes | None) -> None:
        _write_modes(self._fd, modes)


_LEAVE_SCREEN = (
    b"\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?2048l"  # synchronised output, bracketed paste, line wrap, sizes in band
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l"  # the mouse, the focus
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[0m"  # the keyboard, the other screen, the cursor, colours
)
"""Undoes what Textual's driver asks a terminal for."""


class SavedModes:
    """The modes of the terminal on stdin as they are now, for when a full-screen program could not put them back."""

    def __init__(self) -> None:
        self._modes = _read_modes(0)

    def put_back(self, drawn: bool) -> None:
        """Put the terminal back in order; ``drawn``: something has taken the whole screen. Never raises."""
        if drawn:
            put(_LEAVE_SCREEN)
        if _foreground(0) == os.getpgrp():  # else whoever is in front has modes of his own
            _write_modes(0, self._modes)


def _read_modes(fd: int) -> _Modes | None:
    try:
        return termios.tcgetattr(fd)
    except (OSError, termios.error):
        return None


def _write_modes(fd: int, modes: _Modes | None) -> None:
    if modes is None:
        return
    try:
        termios.tcsetattr(fd, termios.TCSANOW, modes)  # TCSADRAIN would wait for a terminal held by Ctrl-S
    except (OSError, termios.error):
        pass


def leave(code: int) -> NoReturn:
    """Exit with ``code``, the workload's, at once: the last thing a supervising process does.

    When the workload ended by Ctrl-C at a terminal, that is by dying of SIGINT (``$?`` is 130 either way): only then does a
    shell end the loop or the script around it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # it was closed, or is broken
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if code == 128 + signal.SIGINT and _foreground(0) == os.getpgrp() and not ignored:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # While the workload had the terminal, Ctrl-C came to its group only, and a script that runs us waits for it.
        os.kill(os.getpid() if is_pipe(1) else 0, signal.SIGINT)
    os._exit(code)


def _foreground(fd: int) -> int:
    """The foreground group of our controlling terminal ``fd``; -1 if it is none."""
    try:
        return os.tcgetpgrp(fd) if fd >= 0 else -1
    except OSError:
        return -1


def _controlling_terminal() -> int:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def is_pipe(fd: int) -> bool:
    """Whether a descriptor leads to another program."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)  # some shells make their pipes of sockets


def _shells() -> set[int]:
    """The groups of the session's leader and of our parent."""
    groups = {os.getsid(0)}
    try:
        groups.add(os.getpgid(os.getppid()))
    except OSError:
        pass  # the parent has just ended
    return groups
