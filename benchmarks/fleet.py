"""What looking into many recordings costs: their page, their verdicts, their export, and a question in SQL."""

import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, Cost, median, run
from benchmarks.table import Figure
from gssr.backends.synthetic.bulk import Request, generate
from gssr.store.format.schema import TABLES

JOBS = ("train", "stencil", "idle", "imbalanced", "startup")
GPUS = 8
LIMIT_MS, LIMIT_MB = 10.0, 150.0
EXPORTED = "runs,gpus,summary,gpu_summary,verdicts,statistics"
QUESTION = """
import duckdb
files = "read_parquet('{folder}/{table}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
summary, runs = (files.format(folder={folder!r}, table=table) for table in ("summary", "runs"))
rows = duckdb.sql(
    f"SELECT r.user, sum(s.wasted_gpu_hours) FROM {{summary}} s JOIN {{runs}} r USING (run_id) GROUP BY r.user"
).fetchall()
assert len(rows) == 10, rows
"""


def measure(recordings: int = 1000, hours: float = 0.1, repeats: int = 3) -> Iterator[Figure]:
    """Whole processes on recordings of ``hours`` at 1 Hz, with the files in the page cache."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        make(folder / "recordings", recordings, hours)
        what = f"{recordings:,} recordings of {GPUS} GPUs, {hours:g} h at 1 Hz"
        page = (*GSSR, "fleet", folder / "recordings")
        run(page)
        cost = median(run(page) for _ in range(repeats))
        yield Figure(f"fleet, {what}: wall", cost.wall, "s")
        yield _cpu("fleet", cost, recordings)._replace(limit=LIMIT_MS)
        yield Figure("fleet: greatest process, resident", cost.rss / MB, "MB", LIMIT_MB)
        judged = run((*page, "--by", "verdict"))
        yield Figure("fleet --by verdict: wall", judged.wall, "s")
        yield _cpu("fleet --by verdict", judged, recordings)
        exported = folder / "exported"
        cost = run((*GSSR, "export", folder / "recordings", "-o", exported, "--tables", EXPORTED))
        yield _cpu("export without samples", cost, recordings)
        question = QUESTION.format(folder=str(exported), table="{table}")
        asked = median(run((PYTHON, "-c", question)) for _ in range(repeats))
        yield Figure("DuckDB, waste by user from that export: wall", asked.wall, "s")
        yield Figure("DuckDB: resident", asked.rss / MB, "MB")


def _cpu(what: str, cost: Cost, recordings: int) -> Figure:
    return Figure(f"{what}: CPU a recording", 1e3 * cost.cpu / recordings, "ms")


def make(folder: Path, recordings: int, hours: float) -> None:
    """Recordings of ten users: one of each of JOBS is generated, the others are copies under other names."""
    first = []
    for number, job in enumerate(JOBS):
        path = folder / f"user{number}" / f"{number}.sql"
        path.parent.mkdir(parents=True)
        generate(Request(str(path), job, GPUS, hours, 1.0, host=True))
        first.append(path)
    for number, original in zip(range(recordings), itertools.cycle(first), strict=False):
        path = folder / f"user{number % 10}" / f"{number}.sql"
        if number >= len(first):
            path.parent.mkdir(exist_ok=True)
            shutil.copyfile(original, path)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, columns in TABLES.items():
                if "run_id" in (column.name for column in columns):
                    connection.execute(f"UPDATE {table} SET run_id = ?", (f"run-{number}",))
            connection.execute("UPDATE runs SET user = ?, job_id = ?", (f"user{number % 10}", str(number)))
            connection.execute("UPDATE gpus SET node = ?", (f"node{number % 97}",))
