"""Copies what the workload prints from its pty to the log, and from there to the terminal when it is asked to.

It is a process of its own: a filesystem that hangs, a full disk or a flood of output holds up neither the supervisor nor
the signals it passes on, and the workload can go on printing when the supervisor is gone. The terminal is given what stands
in the log, at the speed at which it takes it: the workload never waits for a terminal, and nothing is kept in memory.

NAME.log beside NAME.sql: what the workload prints under --live.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from errno import EPERM
from typing import NamedTuple, NoReturn

from gssr.profile.detach import let_go
from gssr.profile.request import UsageError
from gssr.store.disk import FILE, PLANTED, is_planted
from gssr.store.read.open import log_of


class Log(NamedTuple):
    """An open log: what this run prints begins at the byte ``start`` of the file. ``aside``: where the file is until it
    takes the place of an earlier run's log; None when it is at its place."""

    path: str
    fd: int
    start: int
    aside: str | None = None

    def take_place(self) -> None:
        """Replace what an earlier run printed, now that the workload runs. Never raises."""
        if self.aside is not None:
            try:
                os.rename(self.aside, os.path.realpath(self.path))
            except OSError:
                pass

    def forget(self) -> None:
        """Delete the log if it has not taken its place. Never raises."""
        if self.aside is not None:
            try:
                os.unlink(self.aside)
            except OSError:
                pass


def check_log(recording: str, ours: bool) -> None:
    """Check whether --live may write the log ``NAME.log`` beside the recording ``NAME.sql``.

    ``ours``: what stands there belongs to a recording that is overwritten or added to; else it may be somebody's own
    file. Raises UsageError where something stands there that is not ours, or that is no file of this user's own.
    """
    path = log_of(recording)
    if not os.path.lexists(path) or (os.path.isfile(path) and ours and not is_planted(path)):
        return
    raise UsageError(f"{path}: exists, and --live would keep the output there: choose another name with -o")


def open_log(recording: str, anew: bool) -> Log:
    """Open the log of a recording for appending and reading, and create it where it is missing.

    ``anew``: what an earlier run printed goes once the workload runs: the log is written under another name until
    ``take_place``. Raises OSError, also for what is not a regular file or was planted by somebody else.
    """
    path = log_of(recording)
    mode = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
    if anew and os.path.isfile(path):
        aside = f"{os.path.realpath(path)}.{os.getpid()}"
        return Log(path, os.open(aside, mode | os.O_EXCL, FILE), 0, aside)
    if is_planted(path):
        raise PermissionError(EPERM, PLANTED, path)
    fd = os.open(path, mode, FILE)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OSError(0, "is not a file", path)
    return Log(path, fd, status.st_size)


_LAST = 1 << 16  # bytes


def last_lines(log: Log, n: int) -> int:
    """Find the byte of the log at which its last ``n`` lines begin, but at most 64 KiB before its end and not before
    this run's own output. Raises OSError."""
    end = os.fstat(log.fd).st_size
    begin = max(end - _LAST, log.start)
    lines = os.pread(log.fd, end - begin, begin).split(b"\n")
    if lines[-1] == b"":
        n += 1
    if len(lines) > n:
        return end - len(b"\n".join(lines[len(lines) - n :]))
    # What was cut out begins in the middle of a line.
    return begin if begin == log.start or len(lines) == 1 else begin + len(lines[0]) + 1


PATIENCE = 5.0
"""Seconds a terminal may take nothing in the end, before it counts as stuck."""

_CHUNK = 1 << 18  # bytes read before they are written
_SHOWN_AT_ONCE = 1 << 14
_LONGEST_DRAIN = 1.0  # s, when others than the workload print on and on
_NEVER = -1


class OutputCopier:
    """The process, as the supervisor sees it. ``terminal``: the descriptor of the terminal to show the output on."""

    def __init__(self, master: int, log: Log, terminal: int) -> None:
        """Fork the process. ``master`` is the workload's pty, non-blocking; ``terminal`` the descriptor of the
        terminal to show the output on. Raises OSError."""
        inbox, self._out = os.pipe()
        self.fd, outbox = os.pipe()
        """Where its lines for the user arrive; at its end everything has been copied that the workload printed."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _run(master, log, inbox, outbox, terminal)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(inbox)
        os.close(outbox)
        os.set_blocking(self._out, False)
        os.set_blocking(self.fd, False)

    def show(self, begin: int) -> None:
        """Have everything from the log's byte ``begin`` on shown on the terminal. Never raises, and never waits."""
        self._tell(b"show %d\n" % begin)

    def hide(self) -> None:
        """Have nothing more shown on the terminal. Never raises, and never waits."""
        self._tell(b"show %d\n" % _NEVER)

    def end(self) -> None:
        """Tell the process that the workload has ended: it copies what is left, and ``fd`` comes to its end. Does not
        wait for that."""
        self._tell(b"end\n")

    def _tell(self, line: bytes) -> None:
        """Send a line to the process; nothing if it is gone or stuck."""
        try:
            os.write(self._out, line)
        except OSError:
            pass  # it is gone, or stuck


def _run(master: int, log: Log, inbox: int, outbox: int, terminal: int) -> NoReturn:
    """Be the copying process: let go of all that is the job's, copy until nobody can print any more, and exit.
    ``master``: the workload's pty; ``inbox`` and ``outbox``: pipes from and to the supervisor; ``terminal``: where
    output is shown."""
    try:
        own = _reopened(terminal)
        master, fd, inbox, outbox, own = let_go(master, log.fd, inbox, outbox, own, name="gssr-output")
        _Copying(master, Log(log.path, fd, log.start), inbox, outbox, own).run()
    finally:
        os._exit(0)


def _reopened(terminal: int) -> int:
    """Open the terminal anew, with modes of its own, so that writing to it never waits. Returns the same descriptor where
    that is impossible."""
    try:
        return os.open(f"/proc/self/fd/{terminal}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return terminal


class _Copying:
    """The forked process's work: from the pty to the log, and from the log to the terminal."""

    def __init__(self, master: int, log: Log, inbox: int, outbox: int, terminal: int) -> None:
        """Take over the descriptors, which are this process's own."""
        self._master = master  # -1: nobody has the other end any more
        self._log = log
        self._inbox = inbox  # -1: the supervisor has gone, or has asked for the end
        self._outbox = outbox
        self._terminal = terminal
        self._unheard = b""
        self._shown = _NEVER  # the log's byte up to which the terminal was given everything
        self._failing = False

    def run(self) -> None:
        """Copy until nobody can print any more."""
        while self._master >= 0 or self._inbox >= 0:
            ready = self._wait(None)
            if self._master in ready:
                self._copy()
            if self._terminal in ready:
                self._show()
            if self._inbox in ready and self._ends():
                self._finish()

    def _wait(self, timeout: float | None) -> set[int]:
        """Wait, at most ``timeout`` seconds (None: for ever), until something can be done: output or a word of the
        supervisor can be read, or the terminal takes more of what it lacks of the log. Returns the descriptors that are
        ready."""
        poll = select.poll()
        for fd in (self._master, self._inbox):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        if self._lags():
            poll.register(self._terminal, select.POLLOUT)
        return {fd for fd, _ in poll.poll(None if timeout is None else timeout * 1000)}

    def _ends(self) -> bool:
        """Read and do what the supervisor says: show the log from a byte on, or stop showing it. Returns True if it asks
        for the end, or is gone; then the terminal is no longer written to."""
        data = os.read(self._inbox, 1 << 12)
        *lines, self._unheard = (self._unheard + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"show":
                self._shown = int(number)
            else:
                return True
        if not data:
            self._shown = _NEVER  # the supervisor is gone: the terminal is somebody else's
        return not data

    def _finish(self) -> None:
        """Copy and show what the workload has left behind, for a limited time, then close ``outbox``, so that the
        supervisor waits no longer."""
        deadline = time.monotonic() + _LONGEST_DRAIN
        while self._master >= 0 and self._master in self._wait(0) and time.monotonic() < deadline:
            self._copy()
        os.close(self._inbox)
        self._inbox = -1
        deadline = time.monotonic() + PATIENCE
        while self._lags() and time.monotonic() < deadline:
            ready = self._wait(deadline - time.monotonic())
            if self._master in ready:
                self._copy()
            if self._terminal in ready and self._show():
                deadline = time.monotonic() + PATIENCE
                self._say(b"")  # a sign of life
        self._shown = _NEVER
        os.close(self._outbox)
        self._outbox = -1

    def _copy(self) -> None:
        """Copy what can be read from the pty to the log, up to about _CHUNK bytes. Sets ``_master`` to -1 once nobody
        can print any more. What can't be written to the log is said once, and shown on the terminal instead."""
        pieces, size = [], 0
        try:
            while size < _CHUNK:
                piece = os.read(self._master, 1 << 16)
                size += len(piece)
                pieces.append(piece)
        except BlockingIOError:
            pass
        except OSError:  # EIO: the other end is closed for good
            os.close(self._master)
            self._master = -1
        data = memoryview(b"".join(pieces))
        try:
            while data:
                data = data[os.write(self._log.fd, data) :]
            self._failing = False
        except OSError as error:
            if not self._failing:
                why = f"{self._log.path}: can't be written: {error.strerror}; until it can, what is printed is not kept"
                self._say(why.encode("utf-8", "surrogateescape"))
            self._failing = True
            self._show_unkept(data)

    def _show_unkept(self, data: memoryview) -> None:
        """Write output that the log does not take to the terminal, after what the log holds; nothing if the terminal is
        to get no output now. The workload waits for a terminal here and only here, as it would without us, but for
        PATIENCE at a time."""
        poll = select.poll()
        poll.register(self._terminal, select.POLLOUT)
        while data and self._shown != _NEVER and poll.poll(PATIENCE * 1000):
            if self._lags():
                self._show()
                continue
            try:
                data = data[os.write(self._terminal, data[:_SHOWN_AT_ONCE]) :]
            except BlockingIOError:
                pass
            except OSError:
                self._shown = _NEVER

    def _lags(self) -> bool:
        """Tell whether the log holds something that the terminal is to be given."""
        if self._shown == _NEVER:
            return False
        size = os.fstat(self._log.fd).st_size
        self._shown = min(self._shown, size)  # somebody has emptied the log
        return self._shown < size

    def _show(self) -> bool:
        """Write the next piece of the log to the terminal, as much as it takes; False when it takes nothing."""
        try:
            written = os.write(self._terminal, os.pread(self._log.fd, _SHOWN_AT_ONCE, self._shown))
        except BlockingIOError:
            return False
        except OSError:  # it has gone
            self._shown = _NEVER
            return False
        self._shown += written
        return written > 0

    def _say(self, line: bytes) -> None:
        """Send a line for the user, which the supervisor prints."""
        try:
            os.write(self._outbox, line + b"\n")
        except OSError:
            pass
