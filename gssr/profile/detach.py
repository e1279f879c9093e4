"""How the sampler's process lets go of the job it was forked in."""

import os
import signal
from collections.abc import Iterable

_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGPIPE",
            "SIGALRM", "SIGURG", "SIGXCPU")  # fmt: skip


def let_go(inbox: int, outbox: int) -> tuple[int, int]:
    """Let go of everything of the job's: its terminal and signals, its pipes (whose readers wait for their end). Only the
    two descriptors are kept; their new numbers are returned."""
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.setpgid(0, 0)
    except OSError:
        pass
    inbox, outbox = os.dup(inbox), os.dup(outbox)  # out of the way of 3 and 4
    os.dup2(inbox, 3)
    os.dup2(outbox, 4)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in _descriptors():
        if fd > 4:
            os.closerange(fd, fd + 1)  # which minds none that is closed
    try:
        with open("/proc/self/comm", "w") as stream:
            stream.write("gssr-sampler")
    except OSError:
        pass
    return 3, 4


def _descriptors() -> Iterable[int]:
    """Those that are open; not all there may be, which are a billion in some containers."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return range(os.sysconf("SC_OPEN_MAX"))
