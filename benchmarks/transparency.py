"""What a command's user notices of ``gssr profile`` around it: output, exit code and time, with and without, of random
commands; output and exit code also with ``--trace-when low``, and under an nsys that is none of the kind ones."""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, PYTHON, ROOT
from benchmarks.table import Figure

LIMIT_MS = 80.0
LOOP_SECONDS = 2.2
"""Long enough for a trace to be asked for and made; without ``gssr profile`` there is nothing to wait for."""
FATAL = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
_PATIENCE = 120.0

_COMMAND = """
import json, os, resource, sys, time
began = time.monotonic()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
plan = json.load(open(sys.argv[1]))
if plan["loop"] and "GSSR_TRACES" in os.environ:
    sys.path.append(plan["path"])
    from tests.fakes import torch_profiler
    sys.modules.update(torch_profiler.module())
    from gssr.api import torch_trace
    torch_trace.LOOK_SECONDS, torch_trace.LEAD_SECONDS = 0.01, 0.05
    with torch_trace.torch_trace(active=2, on_demand=True) as trace:
        while time.monotonic() < began + plan["loop"]:
            time.sleep(0.005)
            trace.step()
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


def measure(runs: int = 200, seed: int = 0, traced: int = 200) -> Iterator[Figure]:
    """Each command is run with and without, in random order; ``traced`` more of them while they are traced."""
    differ, above, within = [], [], []
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        for number in range(seed, seed + runs):
            rng = random.Random(number)
            folder = Path(name) / str(number)
            folder.mkdir()
            plan = folder / "plan.json"
            plan.write_text(json.dumps(drawn(rng) | {"loop": 0}))
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

    yield from _traced(traced, seed)


def _traced(runs: int, seed: int) -> Iterator[Figure]:
    """Loops that are traced on demand while they run, and commands under an unkind nsys."""
    differ: dict[str, list[int]] = {"on demand": [], "nsys": []}
    n_traces = dict.fromkeys(differ, 0)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        programs = Path(name) / "bin"
        programs.mkdir()
        shutil.copy(ROOT / "tests" / "fakes" / "nsys", programs)
        for number in range(seed, seed + runs):
            for way, found in differ.items():
                rng = random.Random(f"{way} {number}")
                folder = Path(name) / f"{way} {number}"
                folder.mkdir()
                loop = LOOP_SECONDS if way == "on demand" else 0
                (folder / "plan.json").write_text(json.dumps(drawn(rng) | {"loop": loop, "path": str(ROOT)}))
                options = ("--trace-when", "low:1:1s") if loop else ("--trace", "nsys")
                profile = (
                    *GSSR,
                    "profile",
                    "--no-summary",
                    "--backend",
                    "synthetic:idle:2",
                    "-t",
                    "100",
                    *options,
                    "-o",
                )
                mode = {
                    "MODE": rng.choice(("", "code", "swallows", "forks")),
                    "PATH": f"{programs}:{os.environ['PATH']}",
                }
                bare = _run((), folder, together=False)
                around = _run((*profile, folder / "run.sql", "--"), folder, False, ENVIRONMENT | mode)
                if bare[:3] != around[:3]:
                    found.append(number)
                n_traces[way] += len(list(folder.glob("run.traces/*")))
                shutil.rmtree(folder)
    for way, found in differ.items():
        if found:
            print(f"transparency: {way}: not the same: {', '.join(map(str, found))}", flush=True)
        yield Figure(f"transparency: traced, {way}: files that were made in {runs} runs", n_traces[way], "files")
        yield Figure(f"transparency: traced, {way}: output or exit code not the same", len(found), "commands", 0)


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


def _run(
    around: tuple[str | Path, ...], folder: Path, together: bool, environment: Mapping[str, str] = ENVIRONMENT
) -> Noticed:
    """``together``: both streams go into one pipe, where their order can be told."""
    command = [*around, PYTHON, "-E", "-S", "-c", _COMMAND, folder / "plan.json", folder / "own"]
    began = time.perf_counter()
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
        timeout=_PATIENCE,
    )
    wall = time.perf_counter() - began
    code = 128 - done.returncode if done.returncode < 0 else done.returncode
    return Noticed(done.stdout, done.stderr or b"", code, wall, float((folder / "own").read_text()))


def _interpreter() -> float:
    """The wall clock of starting the interpreter that GSSR runs in, and nothing else, s."""
    times = []
    for _ in range(15):
        began = time.perf_counter()
        subprocess.run((PYTHON, "-c", "pass"), env=ENVIRONMENT, check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)
