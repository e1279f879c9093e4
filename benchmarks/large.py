"""``gssr analyze`` of 1,024 GPUs x 1 h x 10 Hz (37 million GPU-samples), from rollups and from every sample, and of parts of
it."""

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.analyze import read_once, recording
from benchmarks.processes import GSSR, MB, median, run
from benchmarks.table import Figure

SECONDS, MEGABYTES, EXACT_SECONDS = 1.0, 100.0, 40.0
WINDOWS = {
    "of 35 minutes": ("--from", "7:13", "--to", "41:47"),
    "of 5 minutes": ("--from", "20:00", "--to", "25:00"),
    "of one GPU": ("--gpus", "5"),
}
"""Parts of it: the first two cut histograms of ten minutes, the first also those of minutes."""


def measure(repeats: int = 3) -> Iterator[Figure]:
    """Each as a process of its own, the file in the page cache as far as it fits."""
    path = Path(os.environ.get("GSSR_BENCHMARK_BIG") or recording(1024, 1, 100))
    case = "large, 1,024 GPUs x 1 h x 10 Hz"
    read_once(path)
    yield Figure(f"{case}: recording", path.stat().st_size / MB, "MB")
    page = median(run((*GSSR, "analyze", path)) for _ in range(repeats))
    yield Figure(f"{case}: gssr analyze: wall clock", page.wall, "s", SECONDS)
    yield Figure(f"{case}: gssr analyze: CPU", page.cpu, "s")
    yield Figure(f"{case}: gssr analyze: peak memory", page.rss / MB, "MB", MEGABYTES)
    for title, words in WINDOWS.items():
        part = median(run((*GSSR, "analyze", *words, path)) for _ in range(repeats))
        yield Figure(f"{case}: gssr analyze {title}: wall clock", part.wall, "s")
        yield Figure(f"{case}: gssr analyze {title}: CPU", part.cpu, "s")
        yield Figure(f"{case}: gssr analyze {title}: peak memory", part.rss / MB, "MB")
    exact = run((*GSSR, "analyze", "--exact", path))
    yield Figure(f"{case}: gssr analyze --exact: wall clock", exact.wall, "s", EXACT_SECONDS)
    yield Figure(f"{case}: gssr analyze --exact: peak memory", exact.rss / MB, "MB")
