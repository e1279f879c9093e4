"""What a command's user notices of ``gssr profile`` around it: output, exit code and time, with and without, of random
commands."""

import json
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, PYTHON
from benchmarks.table import Figure

LIMIT_MS = 80.0
FATAL = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
_PATIENCE = 120.0

_COMMAND = """
import json, os, resource, sys, time
began = time.monotonic()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
plan = json.load(open(sys.argv[1]))
for stream, text, pause in plan["steps"]:
    data = bytes.fromhex(text)
    while data:
        data = data[os.write(stream, data):]
    time.sleep(pause)
with open(sys.argv[2], "w") as file:
    file.write(str(time.monotonic() - began))
if plan["signal"]:
    os.kill(os.getpid(), plan["signal"])
os._exit(plan["code"])
"""


class Noticed(NamedTuple):
    """``code``: as a shell tells it; ``wall``: from start to end, and ``own`` as the command itself sees it, both in s."""

    out: bytes
    err: bytes
    code: int
    wall: float
    own: float


def measure(runs: int = 200, seed: int = 0) -> Iterator[Figure]:
    """Each command is run with and without, in random order."""
    differ, above, within = [], [], []
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        for number in range(seed, seed + runs):
            rng = random.Random(number)
            folder = Path(name) / str(number)
            folder.mkdir()
            plan = folder / "plan.json"
            plan.write_text(json.dumps(drawn(rng)))
            profile = (*GSSR, "profile", "--no-summary", "--backend", "synthetic:train:8", "-t", "100", "-o")
            ways: dict[str, tuple[str | Path, ...]] = {"bare": (), "profiled": (*profile, folder / "run.sql", "--")}
            together = rng.random() < 0.5
            seen = {way: _run(ways[way], folder, together) for way in rng.sample(list(ways), 2)}
            bare, profiled = seen["bare"], seen["profiled"]
            if bare[:3] != profiled[:3]:
                differ.append(number)
            above.append(profiled.wall - bare.wall)
            within.append(profiled.own - bare.own)
    if differ:
        print(f"transparency: not the same: {', '.join(map(str, differ))}", flush=True)
    above.sort()
    yield Figure("transparency: commands run with and without", runs, "commands")
    yield Figure("transparency: output or exit code not the same", len(differ), "commands", 0)
    yield Figure("transparency: wall clock above, median", statistics.median(above) * 1e3, "ms", LIMIT_MS)
    yield Figure("transparency: wall clock above, p95", above[len(above) * 95 // 100] * 1e3, "ms")
    yield Figure("transparency: longer as the command itself sees it, median", statistics.median(within) * 1e3, "ms")
    yield Figure("transparency: wall clock of a bare interpreter, median", _interpreter() * 1e3, "ms")


def drawn(rng: random.Random) -> dict[str, object]:
    """What a command does: steps of (stream, bytes in hexadecimal digits, pause in s), then an exit code or a signal."""
    steps = []
    for _ in range(rng.randint(0, 25)):
        size = rng.choice((0, 1, 80, 1000, 20_000))
        data = rng.randbytes(size) if rng.random() < 0.5 else b"line\n" * (size // 5)
        steps.append((rng.choice((1, 1, 2)), data.hex(), rng.choice((0.0, 0.0, rng.uniform(0.0, 0.05)))))
    return {
        "steps": steps,
        "signal": int(rng.choice(FATAL)) if rng.random() < 0.3 else 0,
        "code": rng.choice((0, rng.randint(1, 255))),
    }


def _run(around: tuple[str | Path, ...], folder: Path, together: bool) -> Noticed:
    """``together``: both streams go into one pipe, where their order can be told."""
    command = [*around, PYTHON, "-E", "-S", "-c", _COMMAND, folder / "plan.json", folder / "own"]
    began = time.perf_counter()
    done = subprocess.run(
        command,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
        timeout=_PATIENCE,
    )
    wall = time.perf_counter() - began
    code = 128 - done.returncode if done.returncode < 0 else done.returncode
    return Noticed(done.stdout, done.stderr or b"", code, wall, float((folder / "own").read_text()))


def _interpreter(repeats: int = 15) -> float:
    """The wall clock of starting the interpreter that GSSR runs in, and nothing else, s."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run((PYTHON, "-c", "pass"), env=ENVIRONMENT, check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)
