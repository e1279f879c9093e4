"""What the sampler costs that asks NVIDIA's driver or DCGM's hostengine: eight GPUs, on the tests' stand-ins for both. That
for DCGM costs its clients what the real library does: a round trip for each message, and 4 MiB that are filled for it."""

import json
import os
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, PYTHON, ROOT, spawn
from benchmarks.sampler import watch
from benchmarks.table import Figure

GPUS, HERTZ = 8, 10.0
LIMIT_CPU, LIMIT_MEMORY = 0.7, 30.0
"""% of a core, MB."""
DCGM_LIMITS = {10.0: 2.0, 2.0: 0.6}
"""Hz: % of a core; 2 Hz is what is sampled unless something else is asked for."""
LIMIT_BACK = 2.0
"""s, as docs/profile.md says."""
DCGM = ROOT / "tests" / "fakes" / "dcgm"


def measure(
    seconds: float = 20.0, windows: int = 3, warm_up: float = 5.0, restarts: int = 10, down: float = 3.0
) -> Iterator[Figure]:
    """As the sampler's figures, after building the stand-ins (needs gcc). Raises RuntimeError when that fails."""
    yield from _gpm(seconds, windows, warm_up)
    for major, hertz in ((4, 10.0), (3, 10.0), (4, 2.0)):
        yield from _dcgm(major, hertz, seconds, windows, warm_up)
    yield from _restarts(restarts, down)


def _dcgm(major: int, hertz: float, seconds: float, windows: int, warm_up: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        engine = _hostengine(Path(folder), major)
        try:
            case = f"driver, {GPUS} GPUs by DCGM {major}, {hertz:g} Hz"
            limit = DCGM_LIMITS[hertz]
            environment = _client(Path(folder), major)
            yield from watch(case, "dcgm", hertz, seconds, windows, warm_up, limit, environment=environment)
        finally:
            engine.kill()
            engine.wait()


def _hostengine(folder: Path, major: int) -> "subprocess.Popen[bytes]":
    """The stand-in's, which listens. Raises RuntimeError."""
    address, control = folder / "dcgm.sock", folder / "control.json"
    address.unlink(missing_ok=True)
    control.write_text(json.dumps({"major": major, "gpus": [f"GPU-{number}" for number in range(GPUS)]}))
    own = {"FAKEDCGM_CONTROL": str(control), "PYTHONPATH": str(DCGM)}
    engine = subprocess.Popen([PYTHON, "-m", "fakedcgm", address], env=ENVIRONMENT | own)
    while not address.exists():
        if engine.poll() is not None:
            raise RuntimeError("the stand-in for DCGM's hostengine can't be started")
        time.sleep(0.01)
    return engine


def _client(folder: Path, major: int) -> dict[str, str]:
    """The environment of who asks it."""
    return ENVIRONMENT | {
        "DCGM_HOST": f"unix://{folder / 'dcgm.sock'}",
        "DCGM_BINDINGS": str(DCGM / f"bindings{major}"),
    }


def _restarts(times: int, down: float) -> Iterator[Figure]:
    """How long after a hostengine that was killed listens again, ``down`` seconds later, the first sample with a
    profiling metric was taken, every 500 ms."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        path = Path(folder) / "run.sql"
        engine = _hostengine(Path(folder), 4)
        options = ("--backend", "dcgm", "-t", "500", "-o", path, "--no-summary")
        recorder = spawn((*GSSR, "profile", *options, "--", "sleep", "600"), environment=_client(Path(folder), 4))
        found = []
        try:
            _first_after(path, 0.0)
            for number in range(times):
                engine.kill()
                engine.wait()
                time.sleep(down + 0.137 * number)  # at every moment between two tries to connect
                engine = _hostengine(Path(folder), 4)
                began = time.time()
                found.append(_first_after(path, began) - began)
                time.sleep(down / 2)
        finally:
            os.kill(recorder, signal.SIGTERM)
            os.waitpid(recorder, 0)
            engine.kill()
            engine.wait()
    case = "driver, DCGM 4 started again, 2 Hz: until the first sample"
    yield Figure(f"{case}, median", statistics.median(found), "s")
    yield Figure(f"{case}, longest of {times}", max(found), "s", LIMIT_BACK)


def _first_after(path: Path, begin: float) -> float:
    """When the first profiling sample after ``begin`` was taken, unix s. Raises RuntimeError when none comes."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            query = "SELECT min(time) FROM samples WHERE sm_active IS NOT NULL AND time > ?"
            (found,) = connection.execute(query, (begin,)).fetchone()
            if found is not None:
                return float(found)
        time.sleep(0.05)
    raise RuntimeError("no sample came from the stand-in for DCGM's hostengine")


def _gpm(seconds: float, windows: int, warm_up: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        build(Path(folder))
        environment = ENVIRONMENT | {"LD_LIBRARY_PATH": folder, "FAKENVML_GPUS": str(GPUS)}
        case = f"driver, {GPUS} GPUs by GPM, {HERTZ:g} Hz"
        yield from watch(case, "gpm", HERTZ, seconds, windows, warm_up, LIMIT_CPU, LIMIT_MEMORY, environment)


def build(folder: Path) -> None:
    """Make the stand-in's libnvidia-ml.so.1 there. Raises RuntimeError."""
    sources = sorted((ROOT / "tests" / "fakes" / "nvml").glob("*.c"))
    library = folder / "libnvidia-ml.so.1"
    words = ["gcc", "-shared", "-fPIC", "-O2", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, *sources, "-lm"]
    try:
        subprocess.run(words, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"the stand-in for the driver can't be built: {error}") from None
