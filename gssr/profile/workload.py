"""Starting the workload, so that it finds everything as if GSSR were not there."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from errno import EACCES, EINVAL, ENOENT, ENOEXEC, ENOTDIR
from types import FrameType
from typing import NamedTuple, NoReturn

FORWARDED: tuple[signal.Signals, ...] = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGTSTP,
    # Ctrl-\ of a pipeline's terminal, and what else batch systems let a user choose as a warning of the time limit: not
    # passed on, they would end the supervisor and leave the workload unwatched, or get lost.
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGURG,
    signal.SIGXCPU,
)
"""Signals that are passed on to the workload."""

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Those that ask to end."""

SHELLS_KILLED = frozenset(
    128 + sig
    for sig in signal.valid_signals() - {signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGURG, signal.SIGWINCH}
    if sig < signal.SIGRTMIN
)
"""Exit codes by which a shell says that a signal ended what it ran. A batch system sends its signal to the shell and to that
at once, and which of them ends first is chance: it is the same end."""

_IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_CHANGED = (*FORWARDED, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU, *_IGNORED_BY_PYTHON)


class Inherited(NamedTuple):
    """What GSSR was started with and the workload gets back.

    ``ignored``: signals that were ignored; ``mask``: signals that were blocked; ``lc_ctype``: None, or in a tuple what
    LC_CTYPE was (None: not set) before Python set it, as it does in the C locale (PEP 538)."""

    ignored: frozenset[int]
    mask: frozenset[int]
    lc_ctype: tuple[bytes | None] | None


def inherited() -> Inherited:
    """Return what this process was started with, for the workload. To be called before any signal's handling is
    changed.

    SIGPIPE and SIGXFSZ count as not ignored: Python ignores them at its own start and forgets what was before.
    """
    ignored = {sig for sig in signal.valid_signals() if signal.getsignal(sig) == signal.SIG_IGN}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return Inherited(frozenset(ignored - _IGNORED_BY_PYTHON), frozenset(mask), _replaced_lc_ctype())


def _replaced_lc_ctype() -> tuple[bytes | None] | None:
    """Return in a tuple what LC_CTYPE was (None: not set) before Python set it; None if it did not, or that can't be
    known."""
    try:
        with open("/proc/self/environ", "rb") as file:  # the environment as it was at exec
            environment = file.read().split(b"\0")
    except OSError:
        return None
    before = next((entry[9:] for entry in environment if entry.startswith(b"LC_CTYPE=")), None)
    return None if before == os.environb.get(b"LC_CTYPE") else (before,)


def shell_command(text: str) -> list[str]:
    """The arguments that have the shell run ``text``, as ``sbatch --wrap`` does."""
    return ["/bin/sh", "-c", text]


def start(argv: Sequence[str], was: Inherited, tty: int, streams: Mapping[int, int]) -> tuple[int, int]:
    """Fork and execute ``argv`` in a process group of its own.

    To be called with all signals blocked: a handler must not run in the child.

    Args:
        argv: the command and its arguments.
        was: what the workload gets back.
        tty: a terminal whose foreground group the new group becomes before the workload runs; -1: none.
        streams: by standard stream, the descriptor that the workload gets in its place.

    Returns:
        (process id, descriptor). The descriptor is the readable, non-blocking end of a pipe. Its end without a byte
            says that the workload is executing; else it gives an errno in decimal that says why it can't. The caller
            closes it, and reaps the process in either case.

    Raises:
        OSError: there are no more processes or descriptors.
        ValueError: an argument can't be one.
    """
    arguments = [os.fsencode(argument) for argument in argv]
    if any(b"\0" in argument for argument in arguments):
        raise ValueError("a null byte in an argument")
    readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        pid = os.fork()
    except OSError:
        os.close(readable)
        os.close(writable)
        raise
    if pid == 0:
        _become(arguments, was, tty, streams, writable)
    os.close(writable)
    try:
        os.setpgid(pid, pid)  # the child does so too: whoever comes first, the group exists from here on
    except OSError:
        pass  # it has executed, or ended, already
    return pid, readable


def _become(arguments: list[bytes], was: Inherited, tty: int, streams: Mapping[int, int], status: int) -> NoReturn:
    """Be the workload, in the child of ``start``, whose arguments these are: take the terminal and the streams, give
    back what was inherited, and execute. Never returns. If it can't be executed, the errno is written in decimal to the
    descriptor ``status``."""
    error = EINVAL
    try:
        os.setpgid(0, 0)
        if tty >= 0:
            try:
                os.tcsetpgrp(tty, os.getpid())  # SIGTTOU is blocked, so this can't stop us
            except OSError:
                pass
        for fd, by in streams.items():
            os.dup2(by, fd)
        _give_back(was)
        error = _execute(arguments)
    finally:
        try:
            os.write(status, b"%d" % error)
        finally:
            os._exit(127)


def _give_back(was: Inherited) -> None:
    """Restore the signals and LC_CTYPE with which this process was started, for a program that is executed next."""
    signal.set_wakeup_fd(-1)
    for sig in _CHANGED:
        signal.signal(sig, signal.SIG_IGN if sig in was.ignored else signal.SIG_DFL)
    if was.lc_ctype is not None:
        (before,) = was.lc_ctype
        if before is None:
            os.unsetenv(b"LC_CTYPE")
        else:
            os.putenv(b"LC_CTYPE", before)
    signal.pthread_sigmask(signal.SIG_SETMASK, was.mask)


def become(argv: Sequence[str]) -> tuple[int, str]:
    """Execute ``argv`` in place of this process, which then neither records nor supervises it.

    Returns only where it can't be executed: the exit code and one line that says why.
    """
    arguments = [os.fsencode(argument) for argument in argv]
    _give_back(inherited())
    return start_failure(argv[0], _execute(arguments))


def _execute(arguments: list[bytes]) -> int:
    """Execute a program as execvp(3) does, searching PATH; returns only if that fails, with the errno.

    Unlike ``os.execvp``, it gives a script without ``#!`` to the shell, as the shells do.
    """
    if not arguments or not arguments[0]:
        return ENOENT
    name = arguments[0]
    places = [name]
    if b"/" not in name:
        places = [os.path.join(folder, name) for folder in os.environb.get(b"PATH", b"/bin:/usr/bin").split(b":")]
    found = ENOENT
    for place in places:
        try:
            os.execv(place, arguments)
        except OSError as error:
            if error.errno == ENOEXEC:
                os.execv(b"/bin/sh", [b"/bin/sh", place, *arguments[1:]])
            if error.errno not in (ENOENT, ENOTDIR) and found == ENOENT:
                found = error.errno or EACCES
    return found


def start_failure(command: str, error: int) -> tuple[int, str]:
    """Return (exit code, one line) for a command that could not be executed: 127 when it is not found, else 126.

    ``error``: the errno.
    """
    shown = command if command and command.isprintable() else ascii(command)
    if error == ENOENT and "/" not in command:
        return 127, f"{shown}: command not found"
    if error == ENOENT and os.path.exists(command):
        return 127, f"{shown}: the interpreter that its first line names is not found"
    return 127 if error in (ENOENT, ENOTDIR) else 126, f"{shown}: {os.strerror(error)}"


def wait_plainly(pid: int) -> int:
    """Wait for the workload ``pid`` when its supervisor has failed, and return its wait status; 0 if somebody else has
    reaped it.

    Signals that are caught are passed on from their handlers, and that is all.
    """

    def pass_on(sig: int, _frame: FrameType | None) -> None:
        try:
            os.killpg(pid, sig)
        except OSError:
            pass

    for sig in FORWARDED:
        if callable(signal.getsignal(sig)):
            signal.signal(sig, pass_on)
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0
