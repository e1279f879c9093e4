"""How late the sampler's ticks come when a job keeps every core busy."""

import os
from collections.abc import Iterator

from benchmarks.processes import PYTHON, spawn
from benchmarks.sampler import watch
from benchmarks.table import Figure

LIMIT_MS = 10.0
PER_CORE = 2
_SPIN = "while True: pass"


def measure(seconds: float = 10.0, windows: int = 3, warm_up: float = 5.0) -> Iterator[Figure]:
    """Eight GPUs at 10 Hz, beside two busy processes for each core."""
    n = PER_CORE * len(os.sched_getaffinity(0))
    pids = [spawn((PYTHON, "-c", _SPIN)) for _ in range(n)]
    try:
        case = f"busy, 8 GPUs, 10 Hz, {n} busy processes"
        for figure in watch(case, "synthetic:train:8", 10.0, seconds, windows, warm_up):
            limited = figure.what.endswith("p99")
            yield figure._replace(limit=LIMIT_MS) if limited else figure
    finally:
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
