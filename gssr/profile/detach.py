"""How a process that is forked from the supervisor lets go of the job it was forked in."""

import os
import signal
from collections.abc import Callable, Sequence
from fcntl import F_DUPFD, fcntl

_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGPIPE",
            "SIGALRM", "SIGURG", "SIGXCPU")  # fmt: skip


def let_go(*kept: int, name: str = "gssr-sampler") -> tuple[int, ...]:
    """Let go, in a forked process, of everything that is the job's: its terminal, signals, process group and open
    files.

    Its pipes must close, because their readers wait for the end. Signals are ignored from here on, the standard
    streams lead to /dev/null. ``name`` is what ``ps -A`` shows.

    Args:
        kept: descriptors that stay open.

    Returns:
        The new numbers of these descriptors, in their order: 3, 4, ...
    """
    signal.set_wakeup_fd(-1)
    for ignored in _IGNORED:
        signal.signal(getattr(signal, ignored), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.setpgid(0, 0)
    except OSError:
        pass
    first = 3
    aside = [fcntl(fd, F_DUPFD, first + len(kept)) for fd in kept]  # out of the way of those they become
    for fd, copy in enumerate(aside, first):
        os.dup2(copy, fd)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    numbers = tuple(range(first, first + len(kept)))
    keep_only(*numbers)
    call_process(name)
    return numbers


def in_child(work: Callable[[], None], name: str) -> int:
    """Fork a process that lets go of the job, calls ``work`` and ends, whatever comes of it. ``name`` is what ``ps
    -A`` shows.

    Returns its process id, which the caller reaps. Raises OSError when it can't be forked.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # no handler must run in the child
    try:
        pid = os.fork()
        if pid == 0:
            try:
                let_go(name=name)
                work()
            finally:
                os._exit(0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def keep_only(*kept: int) -> None:
    """Close every open descriptor but 0, 1, 2 and ``kept``."""
    for fd in open_descriptors():
        if fd > 2 and fd not in kept:
            os.closerange(fd, fd + 1)  # which minds none that is closed


def call_process(name: str) -> None:
    """Let ``ps -A`` show this name for the process. Never raises."""
    try:
        with open("/proc/self/comm", "w") as stream:
            stream.write(name)
    except OSError:
        pass


def open_descriptors() -> Sequence[int]:
    """List the descriptors that are open. Where the kernel does not tell, these are all numbers that there may be: a
    billion in some containers."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return range(os.sysconf("SC_OPEN_MAX"))
