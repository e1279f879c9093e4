"""The terminal of a job that runs in a process group of its own: who has it, and in which modes."""

from __future__ import annotations

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
        """Find the controlling terminal, if there is one.

        ``wanted``: the workload is to have the terminal from its start, if it is our standard input; else only once it
        demands it.
        """
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
        """Tell whether there is a controlling terminal."""
        return self._fd >= 0

    def holder(self) -> int:
        """Return the process group in the foreground; -1 when that can't be known."""
        return _foreground(self._fd)

    def reserve(self) -> int:
        """Prepare to give the terminal to a workload that is about to start; its modes are remembered.

        Returns the descriptor with which the workload's process takes the foreground; -1 if it shall not have it.
        """
        if not self._wanted or self.holder() != self.group:
            return -1
        self._modes = self._read_modes()
        self.lent = True
        return self._fd

    def lend(self, group: int, demanded: bool = False) -> bool:
        """Put the workload's ``group`` in the foreground, with the terminal's modes as it left them.

        Done only if our group is in the foreground now and the workload is to have the terminal: because that was
        wanted from the start, or is or was ``demanded``. Returns whether it was done.
        """
        if self._fd < 0 or not (self._wanted or demanded) or self.holder() != self.group:
            return False
        self._wanted = True
        self._modes = self._read_modes()
        self._write_modes(self._workload_modes)
        self.lent = self._put_in_front(group)
        return self.lent

    def take_back(self) -> None:
        """Put our own group in the foreground again and restore the modes. Does nothing if the terminal is not lent.

        Where a shell has the terminal by now, it keeps it.
        """
        if not self.lent:
            return
        self.lent = False
        if self.holder() in _shells() - {self.group}:
            return  # a shell stopped us behind our back (SIGSTOP) and has the terminal itself
        self._workload_modes = self._read_modes()
        self._put_in_front(self.group)
        self._write_modes(self._modes)

    def _put_in_front(self, group: int) -> bool:
        """Put a process group in the foreground; False if that fails."""
        try:
            os.tcsetpgrp(self._fd, group)
        except OSError:
            return False
        return True

    def _read_modes(self) -> _Modes | None:
        return read_modes(self._fd)

    def _write_modes(self, modes: _Modes | None) -> None:
        _write_modes(self._fd, modes)


_LEAVE_SCREEN = (
    b"\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?2048l"  # synchronised output, bracketed paste, line wrap, sizes in band
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l"  # the mouse, the focus
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[0m"  # the keyboard, the other screen, the cursor, colours
)
"""Undoes what Textual's driver asks a terminal for."""


def put_back_modes(modes: _Modes | None, drawn: bool) -> None:
    """Restore the modes of the terminal on stdin (as ``read_modes`` told them), which a full-screen program could not put
    back, if our group is in the foreground. Never raises.

    ``drawn``: something has taken the whole screen, which is left first.
    """
    if drawn:
        put(_LEAVE_SCREEN)
    if _foreground(0) == os.getpgrp():  # else whoever is in front has modes of his own
        _write_modes(0, modes)


def read_modes(fd: int) -> _Modes | None:
    """Return the modes of the terminal ``fd``; None if it is none."""
    try:
        return termios.tcgetattr(fd)
    except (OSError, termios.error):
        return None


def _write_modes(fd: int, modes: _Modes | None) -> None:
    """Set the modes of the terminal ``fd``; nothing if ``modes`` is None, or the terminal is gone."""
    if modes is None:
        return
    try:
        termios.tcsetattr(fd, termios.TCSANOW, modes)  # TCSADRAIN would wait for a terminal held by Ctrl-S
    except (OSError, termios.error):
        pass


def leave(code: int) -> NoReturn:
    """Exit at once with ``code``, the workload's exit code: the last thing a supervising process does. Never returns.

    When the workload ended by Ctrl-C at a terminal (130), this process dies of SIGINT: only then does a shell end the
    loop or the script around it.
    """
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
    """Return the foreground process group of our controlling terminal ``fd``; -1 if it is none."""
    try:
        return os.tcgetpgrp(fd) if fd >= 0 else -1
    except OSError:
        return -1


def _controlling_terminal() -> int:
    """Open our controlling terminal; -1 if there is none."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def is_pipe(fd: int) -> bool:
    """Tell whether a descriptor is a pipe or a socket: it leads to another program. False if it is closed."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)  # some shells make their pipes of sockets


def _shells() -> set[int]:
    """Return the process groups of the session's leader and of our parent."""
    groups = {os.getsid(0)}
    try:
        groups.add(os.getpgid(os.getppid()))
    except OSError:
        pass  # the parent has just ended
    return groups
