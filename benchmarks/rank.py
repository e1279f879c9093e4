"""What a rank costs whose GPUs another rank of its node samples: CPU time from start to end, memory beside its workload."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, MB, PYTHON, Cost, child_called, median, run, spawn
from benchmarks.processes import proportional_bytes as proportional
from benchmarks.table import Figure

LIMIT_CPU, LIMIT_MEMORY = 40.0, 15.0  # ms, MB

_STEP = {
    "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "10000", "SLURMD_NODENAME": "benchmark",
    "SLURM_STEP_GPUS": "0-7",
}  # fmt: skip


def measure(repeats: int = 15, warm_up: float = 3.0) -> Iterator[Figure]:
    """Rank 0 samples eight GPUs. Beside it other ranks run ``true``, by turns with a bare interpreter; then two run
    ``sleep``, and after ``warm_up`` seconds the memory of one is looked at."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        path = Path(folder) / "run.sql"
        profile = (*GSSR, "profile", "--backend", "synthetic", "-o", path, "--")
        sampling = spawn((*profile, "sleep", "600"), environment=_rank(0))
        try:
            child_called("gssr-sampler", sampling)
            time.sleep(1.0)
            bare, idle = list[Cost](), list[Cost]()
            for turn in range(repeats + 1):
                costs = run((PYTHON, "-c", "pass")), run((*profile, "true"), environment=_rank(1 + turn))
                if turn:
                    bare.append(costs[0])
                    idle.append(costs[1])
            ranks = [spawn((*profile, "sleep", "600"), environment=_rank(5000 + n)) for n in range(2)]
            try:
                samplers = [child_called("gssr-sampler", rank) for rank in ranks]
                time.sleep(warm_up)
                memory = proportional(ranks[0]) + proportional(samplers[0])
            finally:
                _end(ranks)
        finally:
            _end([sampling])
    yield Figure(
        "rank that samples nothing: CPU above a bare interpreter",
        (median(idle).cpu - median(bare).cpu) * 1e3,
        "ms",
        LIMIT_CPU,
    )
    yield Figure("rank that samples nothing: memory of its two processes", memory / MB, "MB", LIMIT_MEMORY)


def _rank(rank: int) -> dict[str, str]:
    return ENVIRONMENT | _STEP | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}


def _end(ranks: list[int]) -> None:
    for rank in ranks:
        os.kill(rank, 15)
    for rank in ranks:
        os.waitpid(rank, 0)
