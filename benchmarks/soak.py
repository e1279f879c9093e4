"""Hours of a recording in minutes: does anything that runs beside a job grow? The sampler's sleeps pass at once
(tests/fakes/skew.c); the live screen and a reader follow what it writes meanwhile."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, resident_bytes, spawn
from benchmarks.table import Figure
from benchmarks.terminal import Terminal
from tests.faults.tried.clocks import HOUR, SHARED_MEMORY, SUSPENDED, Clocks
from tests.faults.tried.job import Job
from tests.waiting import until

GPUS = 2
WARM_UP = 0.5
"""Share of the time after which nothing may grow any more."""
LIMIT_KB = {"sampler": 8.0, "follow": 8.0, "live screen": 50.0}
"""Growth of resident memory, kB per hour of the recording."""
LIMIT_LOG_MB = 16.0
_LOOKS = 60
_HOURS_BEFORE = 3.0
"""Hours that are recorded before the live screen opens, so that the first judgement already reads the recording with
several threads, and loads what that takes. The next judgement comes 10 s later at the earliest (gssr.model.live.judge)."""
_JUDGED = rb"of the GPU time"
"""What the live screen says once it has judged, and not before."""
_GIVES_BACK = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "32768", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""glibc returns what is freed, so that resident is what is kept, not the largest judgement so far (mallopt(3))."""


class Look(NamedTuple):
    """At one moment: hours recorded, resident bytes and open descriptors of each process, bytes of the recording and of
    the write-ahead log, other files in the folder."""

    hours: float
    memory: dict[str, float]
    descriptors: dict[str, int]
    size: int
    log: int
    others: frozenset[str]


def measure(hours: float = 168.0) -> Iterator[Figure]:
    """A sample of two GPUs a second for so many hours, in memory: waiting for a disk would take most of the time. Raises
    NotHereError where clocks can't be shifted."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else CACHE) as name:
        began = time.monotonic()
        looks = soaked(Path(name), hours)
        took = time.monotonic() - began
    warm = looks[round(WARM_UP * len(looks)) :]
    case = f"soak, {hours:g} h"
    yield Figure(f"{case}: took", took, "s")
    for process, limit in LIMIT_KB.items():
        memory = [look.memory[process] for look in warm]
        slope = slope_of([look.hours for look in warm], memory) / 1e3
        opened = max(look.descriptors[process] for look in warm) - min(look.descriptors[process] for look in warm)
        yield Figure(f"{case}: {process}, resident memory in the end", memory[-1] / MB, "MB")
        yield Figure(f"{case}: {process}, growth after the first {WARM_UP:.0%}", slope, "kB per hour", limit)
        yield Figure(f"{case}: {process}, descriptors more than at its least", opened, "descriptors", 2)
    seconds = (warm[-1].hours - warm[0].hours) * HOUR
    yield Figure(f"{case}: recording per GPU and sample", (warm[-1].size - warm[0].size) / seconds / GPUS, "bytes")
    yield Figure(f"{case}: write-ahead log at most", max(look.log for look in looks) / MB, "MB")
    yield Figure(f"{case}: write-ahead log in the end", looks[-1].log / MB, "MB", LIMIT_LOG_MB)
    others = frozenset[str]().union(*(look.others for look in looks))
    yield Figure(f"{case}: other files beside the recording", len(others), "files", 0)


def soaked(folder: Path, hours: float) -> list[Look]:
    """Record so many hours under the eyes of the live screen and a reader, and look at all of them now and then."""
    clocks, inside = Clocks(folder, fast=True), folder / "run"
    inside.mkdir()
    script = "until [ -e stop ]; do sleep 0.05; done"
    backend = f"synthetic:train:{GPUS}"
    looks = []
    with Job(inside, ["sh", "-c", script], backend=backend, ms=1000, environment=clocks.environment) as job:
        job.records()
        slow = {name: value for name, value in clocks.environment.items() if name != "SKEW_FAST"}
        slow |= _GIVES_BACK
        began = clocks[SUSPENDED]
        until(lambda: clocks[SUSPENDED] >= began + _HOURS_BEFORE * HOUR, f"{_HOURS_BEFORE:g} recorded hours")
        with _reader(job.path, slow) as reader, _screen(job.path, slow) as screen:
            pids = {"sampler": job.sampler(), "follow": reader, "live screen": screen.pid}
            screen.read_until(_JUDGED, 120.0)
            began = clocks[SUSPENDED]
            for number in range(1, _LOOKS + 1):
                while clocks[SUSPENDED] < began + hours * HOUR * number / _LOOKS:
                    screen.read_some(0.05)
                    if job.process.poll() is not None:
                        raise RuntimeError(f"the job has ended: {job.end().said}")
                looks.append(_look(clocks[SUSPENDED] / HOUR, pids, job.path))
        (inside / "stop").touch()
        job.end()
    return looks


def grown_memory(looks: list[Look], process: str) -> float:
    """Compare the least resident memory of the last quarter of the looks with that of the quarter before it.

    What a judgement needs while it lasts, and gives back, is not growth; what is kept is in the least as well.

    Returns bytes, negative where memory shrank."""
    n = len(looks) // 4
    last, before = looks[-n:], looks[-2 * n : -n]
    return min(look.memory[process] for look in last) - min(look.memory[process] for look in before)


def _look(hours: float, pids: dict[str, int], path: Path) -> Look:
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(path.parent)}
    known = {path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.stem}.traces", "out", "err"}
    return Look(
        hours,
        {process: resident_bytes(pid) for process, pid in pids.items()},
        {process: len(os.listdir(f"/proc/{pid}/fd")) for process, pid in pids.items()},
        sizes[path.name],
        sizes.get(f"{path.name}-wal", 0),
        frozenset(sizes) - known,
    )


@contextlib.contextmanager
def _reader(path: Path, environment: dict[str, str]) -> Iterator[int]:
    pid = spawn((PYTHON, "-m", "benchmarks.soak", path), environment=environment)
    try:
        yield pid
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@contextlib.contextmanager
def _screen(path: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    screen = Terminal((*GSSR, "tui", path), 100, 30, environment)
    try:
        yield screen
    finally:
        screen.close()


def slope_of(at: list[float], values: list[float]) -> float:
    """The slope of the straight line through the points, by least squares."""
    middle, mean = sum(at) / len(at), sum(values) / len(values)
    spread = sum((x - middle) ** 2 for x in at)
    return sum((x - middle) * (y - mean) for x, y in zip(at, values, strict=True)) / spread if spread else 0.0


def _follow(path: str) -> None:
    """Poll the recording ten times a second, and forget what comes."""
    from gssr.store.read.follow import Follower

    follower = Follower(path, ("sm_active", "power_usage"))
    while True:
        follower.poll()
        time.sleep(0.1)


if __name__ == "__main__":
    _follow(sys.argv[1])
