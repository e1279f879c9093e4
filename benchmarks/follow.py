"""What watching a job of very many ranks costs: looks at their live blocks, opening all of their files, and the screen."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, GSSR, PYTHON, spawn
from benchmarks.table import Figure
from benchmarks.terminal import Terminal, on_terminal
from gssr.model.live.following import LOOK_SECONDS
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording

MEMORY = "/dev/shm"
"""A thousand writers on one machine's disk would wait for each other."""
SCREENS = "1234"
PRESSES = 24
SHOWS_DATA = rb"score"
OPENING_LOOKS = 10
"""The first score is shown before all files have been opened: what that costs is measured by itself."""


class Case(NamedTuple):
    """So many files of so many GPUs each, with so many minutes of the past. The limits: share of a core, %, for following,
    and with the screen (None: not looked at); and how long a key may wait for its effect, ms."""

    files: int
    gpus: int
    minutes: float
    limit: float
    with_screen: float | None = None
    limit_ms: float = 100.0


CASES = (Case(1000, 1, 10, 3.0), Case(1000, 4, 10, 3.0), Case(1250, 8, 2, 5.0, with_screen=10.0))


def measure(cases: Sequence[Case] = CASES, looks: int = 8) -> Iterator[Figure]:
    """Of files that another process goes on writing, twice a second."""
    for case in cases:
        with _growing(case) as path:
            yield from _watched(path, case, looks)
            if case.with_screen is not None:
                yield from _on_screen(path, case, looks)


@contextmanager
def _growing(case: Case) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else CACHE) as folder:
        path = Path(folder) / "run.sql"
        numbers = (case.files, case.gpus, 60 * case.minutes)
        pid = spawn((PYTHON, "-m", "benchmarks.grow_shards", path, *map(str, numbers)))
        try:
            while not (Path(folder) / "ready").exists():
                time.sleep(0.1)
            yield path
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def _called(case: Case) -> str:
    return f"follow, {case.files:,} files of {case.gpus} GPU{'s' * (case.gpus > 1)}"


def _watched(path: Path, case: Case, looks: int) -> Iterator[Figure]:
    query = Query(columns=60)
    watch = WatchedRecording(str(path))
    began = time.thread_time()
    frame = watch.look(query)
    yield Figure(f"{_called(case)}: opening them, CPU", time.thread_time() - began, "s")
    assert frame.n_gpus == case.files * case.gpus, frame.problem
    watch.look(query)
    used, rows = 0.0, frame.n_rows
    for _ in range(looks):
        time.sleep(LOOK_SECONDS)
        began = time.thread_time()
        frame = watch.look(query)
        used += time.thread_time() - began
    assert frame.state == "live" and frame.n_rows > rows, frame
    yield Figure(f"{_called(case)}: a look, CPU", used / looks * 1e3, "ms")
    yield Figure(f"{_called(case)}: CPU", 100 * used / (looks * LOOK_SECONDS), "% of a core", case.limit)
    watch.close()


def _on_screen(path: Path, case: Case, looks: int) -> Iterator[Figure]:
    """CPU of ``gssr tui`` on each screen, and how long a key waits while it is looked."""
    with on_terminal((*GSSR, "tui", path), 120, 40) as terminal:
        terminal.read_until(SHOWS_DATA, patience=60.0)
        terminal.read_for(OPENING_LOOKS * LOOK_SECONDS)
        for screen in SCREENS:
            terminal.press(screen)
            terminal.read_for(2 * LOOK_SECONDS)
            before, began = sum(terminal.cpu().values()), time.perf_counter()
            terminal.read_for(looks * LOOK_SECONDS)
            used, passed = sum(terminal.cpu().values()) - before, time.perf_counter() - began
            what = f"{_called(case)}: gssr tui, screen {screen}, CPU"
            yield Figure(what, 100 * used / passed, "% of a core", case.with_screen)
        yield Figure(f"{_called(case)}: a key waits at most", 1e3 * _waits(terminal), "ms", case.limit_ms)


def _waits(terminal: Terminal) -> float:
    """The longest that a key waited for something to be drawn, s: screens by turns, at moments all over a look."""
    longest = 0.0
    for press in range(PRESSES):
        terminal.read_for(LOOK_SECONDS * (0.37 * press % 1.0) + 0.1)
        before, began = len(terminal.written), time.perf_counter()
        terminal.press("12"[press % 2])
        while len(terminal.written) == before:
            terminal.read_some()
        longest = max(longest, time.perf_counter() - began)
    return longest
