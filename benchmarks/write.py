"""What it costs to write one GPU-sample: all metrics of one GPU at one tick."""

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.processes import CACHE, PYTHON, run
from benchmarks.table import Figure
from gssr.backends.base import Row
from gssr.backends.synthetic import SyntheticBackend
from gssr.store.format.rollup import Rollups
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.write.writer import COMMIT_SECONDS, Writer

HERTZ = 10
BLOCK_SECONDS = 10
START = 1_700_000_400.0


def measure(cases: Sequence[tuple[int, int]] = ((8, 600), (64, 600), (1024, 60)), repeats: int = 3) -> Iterator[Figure]:
    """``cases`` lists numbers of GPUs and seconds of recording at 10 Hz. Every pass is a process of its own, of which only
    the writing is timed."""
    for gpus, seconds in cases:
        passes = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                output = Path(folder) / "figures"
                run((PYTHON, "-m", "benchmarks.write", str(gpus), str(seconds), folder), output)
                passes.append([float(word) for word in output.read_text().split()])
        whole, rollups, size = (statistics.median(column) for column in zip(*passes, strict=True))
        case = f"write, {gpus:,} GPUs, {seconds} s at {HERTZ} Hz"
        yield Figure(f"{case}: CPU per GPU-sample", whole, "µs")
        yield Figure(f"{case}: of which rollups", rollups, "µs")
        yield Figure(f"{case}: file per GPU-sample", size, "bytes")


def _one(gpus: int, seconds: int, folder: Path) -> tuple[float, float, float]:
    """µs to write and µs to roll up a GPU-sample, and its bytes in the file, its share of all the rest in it included."""
    backend = SyntheticBackend("train", gpus, "node", start=START)
    rollups = Rollups(GAP_INTERVALS / HERTZ, backend.measures)
    written = rolled = n = 0
    path = folder / "run.sql"
    writer = Writer(str(path))
    writer.begin({"run_id": "run", "state": "running"}, {"rank": 0, "node": "node", "state": "running"})
    described = [device._asdict() | {"backend": backend.name} for device in backend.gpus]
    writer.add_gpus(described, backend.measures, 1 / HERTZ)
    for block in range(0, seconds, BLOCK_SECONDS):
        times = [START + block + tick / HERTZ for tick in range(BLOCK_SECONDS * HERTZ)]
        ticks = [(time, backend.sample(time)) for time in times]
        gc.collect()
        gc.freeze()  # as in the sampler
        gc.disable()
        began = time.process_time_ns()
        _write(writer, ticks)
        between = time.process_time_ns()
        _roll_up(rollups, ticks, n)
        rolled += time.process_time_ns() - between
        written += between - began
        gc.enable()
        gc.unfreeze()
        n += gpus * len(ticks)
    began = time.process_time_ns()
    writer.finish(START + seconds, 0, "completed", START + seconds)
    written += time.process_time_ns() - began
    return written / n / 1e3, rolled / n / 1e3, path.stat().st_size / n


def _write(writer: Writer, ticks: Sequence[tuple[float, Sequence[Row]]]) -> None:
    for now, rows in ticks:
        writer.add(rows)
        writer.tick(now)


def _roll_up(rollups: Rollups, ticks: Sequence[tuple[float, Sequence[Row]]], n: int) -> None:
    """What the writer does with the same rows to keep its rollups, packing and storing them apart."""
    rowid = n + 1
    for tick, (_, rows) in enumerate(ticks):
        for gpu, row in enumerate(rows):
            rollups.add(rowid, gpu, row)
            rowid += 1
        if not tick % (COMMIT_SECONDS * HERTZ):
            rollups.take()


if __name__ == "__main__":
    print(*_one(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
