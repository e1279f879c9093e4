"""What the live screen costs: CPU and bytes of a frame, how soon it shows data, and what other programs cost beside it."""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import driver
from benchmarks.peers import exporter, install, peers
from benchmarks.processes import CACHE, GSSR, PYTHON, run, spawn
from benchmarks.table import Figure
from benchmarks.terminal import Terminal, on_terminal

SCREENS = (1, 2, 3, 4)
SIZES = ((80, 24), (120, 40))
HERTZ = 2.0
UPDATE = b"\x1b[?2026h"
"""Comes before each update of the screen."""
LEAST_UPDATES, PATIENCE = 8, 60.0
"""Watched are at least so many updates, if they come within so many seconds."""
READER = ("gssr-producer", "gssr-judge")
"""The threads that read and judge; all others draw."""
SHOWS_DATA = rb"score"
LIMITS_MS = {8: 10.0, 64: 10.0, 1024: 10.0, 10_000: 15.0}
LIMIT_FULL, LIMIT_TICK, LIMIT_DRAWING = 16e3, 3e3, 3.0
LIMIT_SHARE, LIMIT_RATE = 1.5, 1.5e3
LIMITS_SLOW = {(80, 24): (2.0, 3e3), (120, 40): (None, None), (160, 48): (5.0, 8e3)}
"""Seconds and bytes until the whole first screen is there, by its size."""
SLOW_RATE = 2000.0  # bytes a second
LIMIT_SAID, QUIET, LIMIT_START = 2.0, 1.5, 1.5
EMPTY = """from textual.app import App
from textual.widgets import Static
class Empty(App):
    BINDINGS = [("q", "quit", "")]
    def compose(self):
        yield Static(" score ")
Empty(ansi_color=True).run()
"""
LIMITS_FIRST = {"16": 400.0, "1,024": 700.0}


class Cost(NamedTuple):
    """Over a while: seconds on the clock, CPU seconds drawing and reading, bytes written, and in how many updates."""

    passed: float
    drawing: float
    reading: float
    written: int
    updates: int


def measure(
    gpus: Sequence[int] = (8, 64, 1024, 10_000), seconds: float = 6.0, settle: float = 4.0, repeats: int = 5
) -> Iterator[Figure]:
    """Everything that was promised of it."""
    yield from slow_line()
    yield from starting(repeats)
    yield from first_frames(repeats)
    for n in gpus:
        with tempfile.TemporaryDirectory(dir=CACHE) as folder, growing(Path(folder), n) as path:
            for size in SIZES:
                yield from frames(path, n, size, seconds, settle)
    yield from beside_others(2.5 * seconds, settle)


def frames(path: Path, gpus: int, size: tuple[int, int], seconds: float, settle: float) -> Iterator[Figure]:
    """CPU and bytes of the screens on a recording that grows, twice a second."""
    columns, rows = size
    with on_terminal((*GSSR, "tui", "--hz", f"{HERTZ:g}", path), columns, rows) as terminal:
        terminal.read_until(SHOWS_DATA)
        for screen in SCREENS:
            terminal.press(str(screen))
            terminal.read_for(settle + gpus / 1000)  # what the screen asks for is read
            cost = _watched(terminal, seconds, LEAST_UPDATES)
            full = _full_frame(terminal, columns, rows)
            n = max(cost.updates, 1)
            case = f"live, {gpus:,} GPUs, {columns}x{rows}, screen {screen}"
            main = (columns, rows) == (120, 40)
            yield Figure(
                f"{case}: drawing a frame, CPU", cost.drawing / n * 1e3, "ms", LIMITS_MS.get(gpus) if main else None
            )
            many = main and gpus == 10_000
            share = 100 * cost.drawing / cost.passed
            yield Figure(f"{case}: drawing, CPU", share, "% of a core", LIMIT_DRAWING if many else None)
            yield Figure(f"{case}: reading, CPU", 100 * cost.reading / cost.passed, "% of a core")
            yield Figure(f"{case}: a full frame", full, "bytes", LIMIT_FULL if main else None)
            yield Figure(f"{case}: a tick", cost.written / n, "bytes", LIMIT_TICK if main else None)
            yield Figure(f"{case}: ticks", cost.updates / cost.passed, "a second")


def _full_frame(terminal: Terminal, columns: int, rows: int) -> int:
    """The longest of the updates that are written when all has to be drawn: after the window was resized and back."""
    terminal.resize(columns - 1, rows)
    terminal.read_for(1.0)
    before = len(terminal.written)
    terminal.resize(columns, rows)
    terminal.read_for(1.0)
    return max(map(len, terminal.written[before:].split(UPDATE)))


def _watched(terminal: Terminal, seconds: float, least: int = 0) -> Cost:
    """For so long, and on until there were at ``least`` so many updates, or no more patience."""
    before, began, start = terminal.cpu(), time.perf_counter(), len(terminal.written)
    terminal.read_for(seconds)
    while (updates := terminal.written.count(UPDATE, start)) < least and time.perf_counter() < began + PATIENCE:
        terminal.read_for(seconds)
    after, passed = terminal.cpu(), time.perf_counter() - began
    used = {name: after[name] - before.get(name, 0.0) for name in after}
    reading = sum(used.pop(name, 0.0) for name in READER)
    return Cost(passed, sum(used.values()), reading, len(terminal.written) - start, updates)


@contextmanager
def growing(folder: Path, gpus: int) -> Iterator[Path]:
    """A recording that another process is writing, twice a second."""
    path = folder / "run.sql"
    pid = spawn((PYTHON, "-m", "benchmarks.grow", path, str(gpus), f"{HERTZ:g}", "60"))
    try:
        while not path.exists():
            time.sleep(0.05)
        time.sleep(1.0 + gpus / 400)  # while it writes its past
        yield path
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _recorded(name: str, *words: str) -> Path:
    path = CACHE / name
    if not path.exists():
        run((PYTHON, "-m", "gssr.backends.synthetic", *words, "-o", path))
    return path


def slow_line() -> Iterator[Figure]:
    """The first screen of an imbalanced job at the end of a line that carries so many bytes a second, and leaving it while
    another one is on its way."""
    path = _recorded("imbalanced.sql", "imbalanced", "--gpus", "8", "--hours", "0.1")
    for (columns, rows), (seconds, n_bytes) in LIMITS_SLOW.items():
        with on_terminal((*GSSR, "tui", path), columns, rows, rate=SLOW_RATE) as terminal:
            case = f"live, at {SLOW_RATE / 1e3:g} KB/s, {columns}x{rows}"
            said = terminal.read_until(b"(?s)ended.*of the GPU time")
            said = max(said, terminal.read_until(SHOWS_DATA))
            while time.monotonic() < terminal.began + terminal.newest + QUIET:
                terminal.read_some()
            yield Figure(f"{case}: title, verdict and score after", said, "s", LIMIT_SAID)
            yield Figure(f"{case}: the whole screen after", terminal.newest, "s", seconds)
            yield Figure(f"{case}: the whole screen", len(terminal.written), "bytes", n_bytes)
            terminal.press("2")
            terminal.read_for(0.5)
            yield Figure(f"{case}: q, while another screen comes", terminal.leave()[0], "s", 1.0)


def starting(repeats: int) -> Iterator[Figure]:
    """To start, show the first data and leave: beside a program of Textual that shows a line of text, by turns."""
    path = _recorded("imbalanced.sql", "imbalanced", "--gpus", "8", "--hours", "0.1")
    costs: dict[str, list[float]] = {"gssr tui": [], "an empty program": []}
    for turn in range(repeats + 1):
        for own, command in zip(costs.values(), ((*GSSR, "tui", path), (PYTHON, "-c", EMPTY)), strict=True):
            with on_terminal(command, 80, 24) as terminal:
                terminal.read_until(SHOWS_DATA)
                cpu = terminal.leave()[1]
                if turn:  # the first one fills the caches
                    own.append(cpu)
    tui, empty = (statistics.median(own) for own in costs.values())
    yield Figure("live, start and quit: CPU", tui * 1e3, "ms")
    yield Figure("live, start and quit of an empty program: CPU", empty * 1e3, "ms")
    yield Figure("live, start and quit: CPU, of the empty program's", tui / empty, "times", LIMIT_START)


def first_frames(repeats: int) -> Iterator[Figure]:
    """How soon there is data on the screen, from the start of the program; of two finished recordings."""
    small = CACHE / "16gpus.sql"
    big = Path(os.environ.get("GSSR_BENCHMARK_BIG") or CACHE / "1024gpus.sql")
    for gpus, path, hours, ms in (("16", small, "0.1", "1000"), ("1,024", big, "1", "100")):
        if not path.exists():
            words = ("train", "--host", "--gpus", gpus.replace(",", ""), "--hours", hours, "-t", ms, "-o", path)
            run((PYTHON, "-m", "gssr.backends.synthetic", *words))
        walls, cpus = [], []
        for turn in range(repeats + 1):
            with on_terminal((*GSSR, "tui", path), 80, 24) as terminal:
                wall = terminal.read_until(SHOWS_DATA)
                if turn:  # the first one fills the caches
                    walls.append(wall)
                    cpus.append(sum(terminal.cpu().values()))
        case = f"live, first data of {gpus} GPUs, {hours} h, {ms} ms"
        yield Figure(f"{case}: wall clock", statistics.median(walls) * 1e3, "ms", LIMITS_FIRST[gpus])
        yield Figure(f"{case}: CPU", statistics.median(cpus) * 1e3, "ms")


def beside_others(seconds: float, settle: float) -> Iterator[Figure]:
    """Ours, kempnerpulse and nvitop by turns, each looking once a second at 8 and 16 GPUs."""
    missing = install()
    if missing:
        print(f"live: {missing}", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        if not missing:
            driver.build(folder)
        for gpus in (8, 16):
            for columns, rows in SIZES:
                yield from _ours(folder, gpus, columns, rows, seconds, settle)
                if missing:
                    continue
                with exporter(folder, gpus):
                    for peer in peers(folder, gpus):
                        with on_terminal(peer.command, columns, rows, peer.environment) as terminal:
                            terminal.read_until(peer.shows)
                            terminal.read_for(settle)
                            yield from _rates(peer.name, gpus, columns, rows, _watched(terminal, seconds), False)


def _ours(folder: Path, gpus: int, columns: int, rows: int, seconds: float, settle: float) -> Iterator[Figure]:
    path = folder / f"{gpus}-{columns}.sql"
    length = f"{settle + seconds + 5:g}"
    words = ("profile", "--backend", f"synthetic:train:{gpus}", "-t", "1000", "-o", path, "--", "sleep", length)
    recorder = spawn((*GSSR, *words))
    try:
        with on_terminal((*GSSR, "tui", "--hz", "1", path), columns, rows) as terminal:
            terminal.read_until(SHOWS_DATA)
            terminal.read_for(settle)
            cost = _watched(terminal, seconds)
    finally:
        os.waitpid(recorder, 0)
    yield from _rates("gssr tui", gpus, columns, rows, cost, gpus == 8 and columns == 80)


def _rates(name: str, gpus: int, columns: int, rows: int, cost: Cost, promised: bool) -> Iterator[Figure]:
    case = f"live, {name}, {gpus} GPUs, 1 Hz, {columns}x{rows}"
    share = 100 * (cost.drawing + cost.reading) / cost.passed
    yield Figure(f"{case}: CPU", share, "% of a core", LIMIT_SHARE if promised else None)
    yield Figure(f"{case}: written", cost.written / cost.passed, "bytes/s", LIMIT_RATE if promised else None)
