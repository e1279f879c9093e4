"""The live screen's process: whether there can be one here, what it is told, and how it lets go of the job."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from gssr.launch import LaunchPlace
from gssr.profile.detach import call_process, keep_only
from gssr.profile.stderr import put
from gssr.profile.terminal import is_pipe
from gssr.profile.workload import FORWARDED

REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
"""Signals that the screen may ask to send to the workload, in the order of their force."""
DRAWN, OVER, USED = 0, 1, 3
"""What the screen says, beside those: it draws; it shows the end of the run, of all its ranks; its user has pressed a key or
moved the mouse since."""


class ScreenArguments(NamedTuple):
    """What the screen's process is told: the recording and the run in it, the log and the byte at which this run's output
    begins, the descriptor at which lines for the user arrive and where the supervisor's end shows, and the one that takes
    requests, a byte each: one of REQUESTS, or DRAWN, OVER, USED."""

    recording: str
    run_id: str
    log: str
    log_start: int
    notices: int
    requests: int


Show = Callable[[ScreenArguments], int]
"""Draws the screen until its user leaves: 0; anything else is a failure."""


def why_no_screen(place: LaunchPlace) -> str | None:
    """Return why there can be no live screen here, as words for a sentence; None when there can."""
    streams = (sys.__stdin__, sys.__stderr__)
    if any(stream is None or not stream.isatty() for stream in streams) or os.environ.get("TERM", "dumb") == "dumb":
        return "no terminal"
    if place.parallel and place.launcher != "slurm" and place.local_size != 1:
        return "several ranks share this terminal"  # srun gives it to the first one only
    if is_pipe(1):
        return "standard output goes to another program, which may need the terminal"
    try:
        in_front = os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        in_front = False
    return None if in_front else "in the background"


def become_screen(show: Show, beside: ScreenArguments) -> NoReturn:
    """Be the screen's process, in the forked child: let go of all that is the job's but the terminal, draw, and exit.
    Never returns."""
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
        put(f"gssr: an error in the live screen: {error!r}\n".encode("utf-8", "backslashreplace"))
        if os.environ.get("GSSR_DEBUG"):
            import traceback

            put(traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)
