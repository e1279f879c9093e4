"""What the sampler costs that reads AMD's GPUs: eight MI300X, whose files a stand-in writes anew ten times a second."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import ENVIRONMENT
from benchmarks.sampler import watch
from benchmarks.table import Figure
from tests.fakes.amd.gpus import MI300X, full_node
from tests.fakes.amd.tree import Live, Tree

GPUS, HERTZ = 8, 10.0
LIMIT_CPU, LIMIT_MEMORY = 0.5, 22.0
"""% of a core, MB."""
MEMORY = Path("/dev/shm")
"""Like sysfs, no disk."""


def measure(seconds: float = 20.0, windows: int = 3, warm_up: float = 5.0) -> Iterator[Figure]:
    """As the sampler's figures."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        tree = Tree(Path(folder), full_node(MI300X, GPUS, "1.8"))
        environment = ENVIRONMENT | {"GSSR_AMD_ROOT": str(tree.root)}
        with Live(tree, 1 / HERTZ):
            case = f"amd, {GPUS} MI300X, {HERTZ:g} Hz"
            yield from watch(case, "amd", HERTZ, seconds, windows, warm_up, LIMIT_CPU, LIMIT_MEMORY, environment)
