"""What ``gssr analyze`` costs of a run all of whose ranks were traced, of which nothing is there but their digests."""

import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, run
from benchmarks.table import Figure
from tests.fakes.traces.beside import START, Truth

CPU, MEMORY = 4.0, 300.0
"""What digests add, s; and all of it, MB."""
SECONDS, BEGIN, END = 120, 40.0, 60.0


def measure(ranks: int = 1000) -> Iterator[Figure]:
    """Once each."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        recording = Path(name) / "run.sql"
        run((PYTHON, "-m", "benchmarks.digests", name, str(ranks)))
        alone = run((*GSSR, "analyze", recording))
        run((PYTHON, "-m", "benchmarks.digests", name, str(ranks), "copy"))
        digested = run((*GSSR, "analyze", recording))
        case = f"analyze, {ranks:,} ranks of {SECONDS} s"
        yield Figure(f"{case}: CPU", alone.cpu, "s")
        yield Figure(f"{case}, all of them traced: more CPU", digested.cpu - alone.cpu, "s", CPU)
        yield Figure(f"{case}: peak resident memory", alone.rss / MB, "MB")
        yield Figure(f"{case}, all of them traced: peak resident memory", digested.rss / MB, "MB", MEMORY)


def make(folder: Path, ranks: int) -> None:
    """A recording, and the trace of its first rank in ``run.traces``."""
    truth = Truth(ranks=ranks, seconds=SECONDS, nodes=max(ranks // 8, 1))
    truth.record(folder / "run.sql")
    (folder / "run.traces").mkdir()
    truth.trace(folder / "run.traces" / "rank0.json", 0, BEGIN, END)


def copy(folder: Path, ranks: int) -> None:
    """Digest that trace; and have all ranks say the same, a little later each."""
    run((*GSSR, "merge", folder / "run.sql", "--attach", folder / "run.traces" / "rank0.json", "--digest"))
    shutil.rmtree(folder / "run.traces")
    truth = Truth(ranks=ranks, nodes=max(ranks // 8, 1))
    with closing(sqlite3.connect(folder / "run.sql")) as connection, connection:
        ((run_id, size, text),) = connection.execute("SELECT run_id, size, digest FROM traces").fetchall()
        found = json.loads(text)
        for rank in range(1, ranks):
            own = [[truth.node(rank), rank, truth.uuid(rank)]]
            digest = json.dumps(found | {"rank": rank, "gpus_of": own, "start": found["start"] + rank * 1e-4})
            row = (run_id, truth.node(rank), rank, f"rank{rank}.json", "kineto", size, START, digest)
            connection.execute(
                "INSERT INTO traces (run_id, node, rank, path, format, size, mtime, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )


if __name__ == "__main__":
    (copy if sys.argv[3:] else make)(Path(sys.argv[1]), int(sys.argv[2]))
