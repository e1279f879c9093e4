"""What watching a job of very many ranks costs: looks at their live blocks, and opening all of their files."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import CACHE, PYTHON, spawn
from benchmarks.table import Figure
from gssr.model.crowd import LOOK_SECONDS
from gssr.model.frame import Query
from gssr.model.watch import Watch

SHARDS, MINUTES = 1000, 10
LIMIT_SHARE = 3.0
MEMORY = "/dev/shm"
"""A thousand writers on one machine's disk would wait for each other."""


def measure(per_shard: tuple[int, ...] = (1, 4), looks: int = 8) -> Iterator[Figure]:
    """Of 1,000 files with as many GPUs each, which another process goes on writing."""
    for gpus in per_shard:
        with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else CACHE) as folder:
            path = Path(folder) / "run.sql"
            pid = spawn((PYTHON, "-m", "benchmarks.grow_shards", path, str(SHARDS), str(gpus), str(60 * MINUTES)))
            try:
                while not (Path(folder) / "ready").exists():
                    time.sleep(0.1)
                yield from _watched(path, gpus, looks)
            finally:
                os.kill(pid, 9)
                os.waitpid(pid, 0)


def _watched(path: Path, gpus: int, looks: int) -> Iterator[Figure]:
    case = f"follow, {SHARDS:,} files of {gpus} GPU{'s' * (gpus > 1)}"
    query = Query(columns=60)
    watch = Watch(str(path))
    began = time.thread_time()
    frame = watch.look(query)
    yield Figure(f"{case}: opening them, CPU", time.thread_time() - began, "s")
    assert frame.n_gpus == SHARDS * gpus, frame.problem
    watch.look(query)
    used, rows = 0.0, frame.n_rows
    for _ in range(looks):
        time.sleep(LOOK_SECONDS)
        began = time.thread_time()
        frame = watch.look(query)
        used += time.thread_time() - began
    assert frame.state == "live" and frame.n_rows > rows, frame
    yield Figure(f"{case}: a look, CPU", used / looks * 1e3, "ms")
    yield Figure(f"{case}: CPU", 100 * used / (looks * LOOK_SECONDS), "% of a core", LIMIT_SHARE)
    watch.close()
