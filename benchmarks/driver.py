"""What the sampler costs that asks NVIDIA's driver: eight GPUs by GPM, on the tests' stand-in for the driver."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import CACHE, ENVIRONMENT, ROOT
from benchmarks.sampler import watch
from benchmarks.table import Figure

GPUS, HERTZ = 8, 10.0
LIMIT_CPU, LIMIT_MEMORY = 0.7, 30.0
"""% of a core, MB."""


def measure(seconds: float = 20.0, windows: int = 3, warm_up: float = 5.0) -> Iterator[Figure]:
    """As the sampler's figures, after building the stand-in (needs gcc). Raises RuntimeError when that fails."""
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
