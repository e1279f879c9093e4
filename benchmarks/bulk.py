"""How long the bulk generator takes for 1,024 GPUs x 1 h x 10 Hz: 37 million samples with rollups, through the store."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import CACHE, MB, PYTHON, run
from benchmarks.table import Figure

LIMIT_SECONDS = 180.0
BYTES_PER_SAMPLE = 250
"""More than a sample and its share of the rollups takes: what must be free on the disk."""


def measure(gpus: int = 1024, hours: float = 1.0, interval_ms: float = 100.0) -> Iterator[Figure]:
    """The command of the documentation, once; the file is deleted afterwards. Raises RuntimeError on too full a disk."""
    n = gpus * round(hours * 3600e3 / interval_ms)
    needed, free = n * BYTES_PER_SAMPLE, shutil.disk_usage(CACHE).free
    if free < needed:
        raise RuntimeError(f"{CACHE}: needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        path = Path(folder) / "bulk.sql"
        options = ("--host", "--gpus", str(gpus), "--hours", f"{hours:g}", "-t", f"{interval_ms:g}", "-o", path)
        cost = run((PYTHON, "-m", "gssr.backends.synthetic", "train", *options))
        size = os.path.getsize(path)
    case = f"bulk, {n:,} GPU-samples of {gpus:,} GPUs"
    yield Figure(f"{case}: wall clock", cost.wall, "s", LIMIT_SECONDS)
    yield Figure(f"{case}: CPU", cost.cpu, "s")
    yield Figure(f"{case}: CPU per GPU-sample", cost.cpu / n * 1e6, "µs")
    yield Figure(f"{case}: peak resident memory", cost.rss / MB, "MB")
    yield Figure(f"{case}: file", size / 1e9, "GB")
