"""What it costs to start: ``gssr --help`` above the interpreter, and a whole ``gssr profile`` of nothing."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.processes import CACHE, GSSR, PYTHON, Cost, median, run
from benchmarks.table import Figure

LIMIT_PROFILE, LIMIT_HELP = 120.0, 50.0


def measure(repeats: int = 15) -> Iterator[Figure]:
    """CPU time, processes by turns so that what else the machine does hits all alike; the first turn does not count."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        profile = ("profile", "--backend", "synthetic:train:8", "-t", "100", "-f", "-o", Path(folder) / "run.sql")
        commands: dict[str, Sequence[str | Path]] = {
            "true": ("true",),
            "interpreter": (PYTHON, "-c", "pass"),
            "help": (*GSSR, "--help"),
            "profile": (*GSSR, *profile, "--", "true"),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for turn in range(repeats + 1):
            for name, command in commands.items():
                cost = run(command)
                if turn:
                    costs[name].append(cost)
    ms = {name: median(own).cpu * 1e3 for name, own in costs.items()}
    wall = {name: median(own).wall * 1e3 for name, own in costs.items()}
    yield Figure("start: bare interpreter, CPU", ms["interpreter"], "ms")
    yield Figure("start: gssr --help above a bare interpreter, CPU", ms["help"] - ms["interpreter"], "ms", LIMIT_HELP)
    yield Figure("start: gssr profile -- true above true, CPU", ms["profile"] - ms["true"], "ms", LIMIT_PROFILE)
    yield Figure("start: gssr profile -- true above true, wall clock", wall["profile"] - wall["true"], "ms")
