"""``gssr`` as its user calls it, many times over: a process of its own each time, which finds all modules loaded."""

import io
import os
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import NoReturn

LONGEST = 60.0  # s

_LOADED = ("gssr.commands.analyze", "gssr.commands.compare", "gssr.model.analyze", "gssr.report.comparison",
           "gssr.report.json_document", "gssr.report.png.png", "gssr.report.terminal", "matplotlib.backends.backend_agg",
           "matplotlib.figure")  # fmt: skip
"""What most calls would import, each for itself."""


def gssr(*words: str, cwd: Path) -> CompletedProcess[str]:
    """What ``gssr`` with these words printed, and its exit code. It is forked from this process: importing takes longer
    than most of what is asked of it. What depends on how an interpreter starts (environment, imports) needs a new one."""
    for name in _LOADED:
        import_module(name)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            _become_gssr(words, cwd, out.fileno(), err.fileno())
        until = time.monotonic() + LONGEST
        while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise TimeoutExpired(["gssr", *words], LONGEST)
            time.sleep(0.002)
        printed = []
        for stream in (out, err):
            stream.seek(0)
            printed.append(stream.read().decode())
    return CompletedProcess(["gssr", *words], os.waitstatus_to_exitcode(ended[1]), *printed)


def _become_gssr(words: tuple[str, ...], cwd: Path, out: int, err: int) -> NoReturn:
    """In the child: as a new interpreter would begin, with nothing to read."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(cwd)
        null = os.open(os.devnull, os.O_RDONLY)
        for descriptor, place in ((null, 0), (out, 1), (err, 2)):
            os.dup2(descriptor, place)
        sys.argv = ["gssr", *words]
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
        from gssr.cli import run

        run()
    finally:
        os._exit(99)
