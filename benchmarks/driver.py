"""What the sampler costs that asks NVIDIA's driver or DCGM's hostengine: eight GPUs, on the tests' stand-ins for both. That
for DCGM costs its clients what the real library does: a round trip for each message, and 4 MiB that are filled for it."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import CACHE, ENVIRONMENT, PYTHON, ROOT
from benchmarks.sampler import watch
from benchmarks.table import Figure

GPUS, HERTZ = 8, 10.0
LIMIT_CPU, LIMIT_MEMORY = 0.7, 30.0
"""% of a core, MB."""
DCGM_LIMITS = {10.0: 2.0, 2.0: 0.6}
"""Hz: % of a core; 2 Hz is what is sampled unless something else is asked for."""
DCGM = ROOT / "tests" / "fakes" / "dcgm"


def measure(seconds: float = 20.0, windows: int = 3, warm_up: float = 5.0) -> Iterator[Figure]:
    """As the sampler's figures, after building the stand-ins (needs gcc). Raises RuntimeError when that fails."""
    yield from _gpm(seconds, windows, warm_up)
    for major, hertz in ((4, 10.0), (3, 10.0), (4, 2.0)):
        yield from _dcgm(major, hertz, seconds, windows, warm_up)


def _dcgm(major: int, hertz: float, seconds: float, windows: int, warm_up: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        address, control = Path(folder) / "dcgm.sock", Path(folder) / "control.json"
        control.write_text(json.dumps({"major": major, "gpus": [f"GPU-{number}" for number in range(GPUS)]}))
        own = {"FAKEDCGM_CONTROL": str(control), "PYTHONPATH": str(DCGM)}
        engine = subprocess.Popen([PYTHON, "-m", "fakedcgm", address], env=ENVIRONMENT | own)
        try:
            while not address.exists():
                if engine.poll() is not None:
                    raise RuntimeError("the stand-in for DCGM's hostengine can't be started")
                time.sleep(0.05)
            environment = ENVIRONMENT | {
                "DCGM_HOST": f"unix://{address}",
                "DCGM_BINDINGS": str(DCGM / f"bindings{major}"),
            }
            case = f"driver, {GPUS} GPUs by DCGM {major}, {hertz:g} Hz"
            limit = DCGM_LIMITS[hertz]
            yield from watch(case, "dcgm", hertz, seconds, windows, warm_up, limit, environment=environment)
        finally:
            engine.kill()
            engine.wait()


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
