"""Live screens and merges that are killed, ended or stopped, and a terminal that is closed."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.merge import content, ranks_in, to_merge
from benchmarks.processes import ENVIRONMENT, GSSR, child_called, run
from benchmarks.terminal import Terminal
from tests.faults.tried import Fault, Seen
from tests.faults.tried.job import (
    MOST_LOST,
    PATIENCE,
    Job,
    Steps,
    first_wrong,
    heed_signals,
    in_words,
    passed_on,
    recorded,
    seen,
    until,
    workshop,
)

ENTERS, LEAVES = b"\x1b[?1049h", b"\x1b[?1049l"
"""What switches a terminal to a full screen, and back."""
RANKS, MINUTES = 3, 0.5


def tui_ends(folder: Path, rng: random.Random) -> Seen:
    """On a recording that grows."""
    steps = Steps(rng.randint(40, 60), rng.choice((0, 7)))
    with Job(folder, ["sh", "-c", steps.script]) as job:
        job.records()
        with _on_terminal([*GSSR, "tui", str(job.path)]) as terminal:
            _read_for(terminal, rng.uniform(0.0, 2.0))
            how = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSTOP))
            with contextlib.suppress(ProcessLookupError):
                os.kill(terminal.pid, how)
            if how == signal.SIGSTOP:
                time.sleep(rng.uniform(0.0, 0.5))
                os.kill(terminal.pid, signal.SIGCONT)
                _read_for(terminal, 0.3)
                alive = os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            else:
                alive = not _read_to_the_end(terminal)
            drawn = bytes(terminal.written)
        ended = job.end()
        found = job.recorded()
        lost = max(0.0, found.hole(found.started_at, found.ended_at or 0.0) - job.interval - job.held_up)
        in_order = how in (signal.SIGKILL, signal.SIGSTOP) or drawn.rfind(LEAVES) >= drawn.rfind(ENTERS)
        return seen(
            ended,
            folder,
            lost,
            *passed_on(ended, steps),
            (alive == (how == signal.SIGSTOP), f"{how.name}: the screen {'runs on' if alive else 'has ended'}"),
            (in_order, f"{how.name} leaves the terminal in disorder"),
            (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        )


def live_screen_killed(folder: Path, rng: random.Random) -> Seen:
    """Under --live: the command runs on, its output is in the log, and the terminal is given back."""
    steps = Steps(rng.randint(40, 60), rng.choice((0, 7)))
    with _live(folder, steps) as terminal:
        screen = child_called("gssr-screen", terminal.pid, PATIENCE)
        _read_for(terminal, rng.uniform(0.0, 2.0))
        how = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV))
        with contextlib.suppress(ProcessLookupError):
            os.kill(screen, how)
        seen = _ends(folder, terminal, steps)
        drawn = bytes(terminal.written)
        in_order = drawn.rfind(LEAVES) >= drawn.rfind(ENTERS)
        return seen._replace(
            problem=seen.problem or (None if in_order else f"{how.name} leaves the terminal in disorder")
        )


def terminal_closed(folder: Path, rng: random.Random) -> Seen:
    """Under --live: the connection is lost."""
    steps = Steps(rng.randint(40, 60), rng.choice((0, 7)))
    with _live(folder, steps) as terminal:
        child_called("gssr-screen", terminal.pid, PATIENCE)
        _read_for(terminal, rng.uniform(0.0, 2.0))
        terminal.hang_up()
        return _ends(folder, terminal, steps, hung_up=True)


def merge_killed(folder: Path, rng: random.Random) -> Seen:
    template, rows = _ranks()
    shutil.copytree(template, folder / "ranks")
    target = to_merge(folder)
    kills = 0
    for _ in range(rng.randint(1, 5)):
        with subprocess.Popen((*GSSR, "merge", target), env=ENVIRONMENT, stdout=-3, stderr=-3) as merging:
            try:
                merging.wait(rng.uniform(0.0, 0.5))
            except subprocess.TimeoutExpired:
                merging.kill()
                kills += 1
        recorded(target if target.exists() else Path(f"{target}.d"))  # opens at any moment
        if not (folder / "run.sql.d").exists():
            break
    if (folder / "run.sql.d").exists():
        run((*GSSR, "merge", target))
    return Seen(
        0.0, "", None if content(target) == rows else f"after {kills} kills the merged file holds something else"
    )


@cache
def _ranks() -> tuple[Path, list[tuple[object, ...]]]:
    """The files of some ranks, and what the merged file holds."""
    folder = workshop() / "merge"
    folder.mkdir()
    ranks_in(folder, RANKS, MINUTES)
    target = to_merge(folder)
    run((*GSSR, "merge", target))
    return folder / "ranks", content(target)


@contextlib.contextmanager
def _live(folder: Path, steps: Steps) -> Iterator[Terminal]:
    command = [*GSSR, "profile", "--live", "--backend", "synthetic:train:2", "-t", "50", "-o", str(folder / "run.sql")]
    with _on_terminal([*command, "--", "sh", "-c", f"cd {folder}; {steps.script}"]) as terminal:
        yield terminal


@contextlib.contextmanager
def _on_terminal(command: list[str]) -> Iterator[Terminal]:
    heed_signals()
    terminal = Terminal(command, 80, 24)
    try:
        yield terminal
    finally:
        terminal.close()


def _read_for(terminal: Terminal, seconds: float) -> None:
    with contextlib.suppress(RuntimeError):  # it has ended
        terminal.read_for(seconds)


def _read_to_the_end(terminal: Terminal) -> bool:
    """Read until the program has ended; False if it never does."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            terminal.read_some()
        except RuntimeError:
            break
    until(lambda: os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), "the end of the program")
    return True


def _ends(folder: Path, terminal: Terminal, steps: Steps, hung_up: bool = False) -> Seen:
    """The command of a live screen runs to its end, and everything it printed is in the log."""
    if not hung_up:
        _read_to_the_end(terminal)
    until(lambda: os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), "the end")
    status = os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOWAIT)
    found = recorded(folder / "run.sql")
    log = (folder / "run.log").read_text().split("\n")
    told = [line.removeprefix("gssr: ") for line in terminal.written.decode(errors="replace").splitlines()
            if line.startswith("gssr: the live screen")]  # fmt: skip
    return Seen(
        None,
        in_words(told, folder),
        first_wrong(
            (status is not None and status.si_status == steps.code, f"exit code {status}"),
            (
                [line for line in log if line.startswith("line")] == steps.output.decode().split("\n")[:-1],
                "output is lost",
            ),
            (found.exit_code == steps.code, f"recorded exit code {found.exit_code}"),
        ),
    )


FAULTS = (
    Fault("tui-ends", "`gssr tui` gets SIGKILL, SIGTERM or SIGHUP, or is stopped and continued", tui_ends),
    Fault("live-screen-killed", "the screen of `--live` gets SIGKILL, SIGTERM or SIGSEGV", live_screen_killed),
    Fault("terminal-closed", "the terminal of `--live` is closed", terminal_closed),
    Fault("merge-killed", "`gssr merge` gets SIGKILL, up to five times", merge_killed),
)
