"""What merging costs: the files of 256 ranks against the plainest SQL that copies them."""

import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, Cost, median, run
from benchmarks.table import Figure
from gssr.metrics import NAMES
from gssr.store.format.schema import GPU_KEYS_PER_RANK, INDEXES, TABLES

GPUS = 8
HERTZ = 10
LIMIT_MICROSECONDS, LIMIT_MB = 0.5, 30.0
_ANOTHER = "another"
_INDEX = "CREATE INDEX samples_gpu_time ON samples (gpu, time)"


def measure(ranks: int = 256, minutes: float = 10.0, repeats: int = 3) -> Iterator[Figure]:
    """The plain copy and the merge by turns; the merge into a file that holds another run once. Raises RuntimeError when the
    content is not the same."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        ranks_in(folder, ranks, minutes)
        plain, merged = list[Cost](), list[Cost]()
        for _ in range(repeats):
            (folder / "plain.sql").unlink(missing_ok=True)
            plain.append(run((PYTHON, "-m", "benchmarks.merge", str(folder))))
            merged.append(run((*GSSR, "merge", to_merge(folder))))
        rows = content(folder / "plain.sql")
        if rows != content(folder / "run.sql"):
            raise RuntimeError("the merged file holds something else than the ranks' files")
        n = sum(row[1] for row in rows)
        case = f"merge, {ranks} x {GPUS} GPUs, {n:,} samples"
        for what, cost in (("plain SQL", median(plain)), ("gssr merge", median(merged))):
            yield Figure(f"{case}: {what}, wall clock", cost.wall, "s")
            yield Figure(f"{case}: {what}, CPU", cost.cpu, "s")
        yield Figure("merge, gssr merge: CPU per sample", median(merged).cpu / n * 1e6, "µs", LIMIT_MICROSECONDS)
        yield Figure("merge, gssr merge: peak resident memory", median(merged).rss / MB, "MB", LIMIT_MB)
        yield Figure("merge, an index on samples (gpu, time) above it: CPU", _index(folder / "plain.sql"), "s")
        another = run((*GSSR, "merge", to_merge(folder, beside=True)))
        yield Figure("merge, into a file that holds another run: CPU per sample", another.cpu / n * 1e6, "µs")


def ranks_in(folder: Path, ranks: int, minutes: float) -> None:
    """The ranks' files, in ``ranks``: one that was recorded, copied, with the keys, UUIDs and nodes of each."""
    one = folder / "one.sql"
    options = ("--host", "--gpus", str(GPUS), "--hours", f"{minutes / 60:g}", "-t", f"{1000 / HERTZ:g}", "-o", one)
    run((PYTHON, "-m", "gssr.backends.synthetic", "train", *options))
    (folder / "ranks").mkdir()
    for rank in range(ranks):
        path = folder / "ranks" / f"node{rank}.{rank}.run.sql"
        shutil.copyfile(one, path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("BEGIN")
            for table, columns in TABLES.items():
                names = [column.name for column in columns]
                if "gpu" in names:
                    connection.execute(f"UPDATE {table} SET gpu = gpu + {rank * GPU_KEYS_PER_RANK}")
                if "rank" in names:
                    connection.execute(f"UPDATE {table} SET rank = {rank}")
                if "node" in names:
                    connection.execute(f"UPDATE {table} SET node = 'node{rank}'")
            connection.execute(f"UPDATE gpus SET uuid = uuid || {rank}")
            connection.execute("COMMIT")


def to_merge(folder: Path, beside: bool = False) -> Path:
    """A recording of the ranks' files, which stay: what is deleted are links. ``beside``: another run is there already."""
    target = folder / "run.sql"
    target.unlink(missing_ok=True)
    shutil.rmtree(folder / "run.sql.d", ignore_errors=True)
    (folder / "run.sql.d").mkdir()
    for path in (folder / "ranks").iterdir():
        os.link(path, folder / "run.sql.d" / path.name)
    if beside:
        shutil.copyfile(folder / "one.sql", target)
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            for table in ("runs", "processes", "gpus"):
                connection.execute(f"UPDATE {table} SET run_id = '{_ANOTHER}'")
    return target


def _plain(folder: Path) -> None:
    """Copy all tables of all ranks' files with the plainest SQL there is."""
    with closing(sqlite3.connect(folder / "plain.sql", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        tables = [table for table in TABLES if table != "runs"]
        with closing(sqlite3.connect(folder / "one.sql")) as one:
            for (statement,) in one.execute("SELECT sql FROM sqlite_master WHERE type = 'table'"):
                connection.execute(statement)
        for statement in INDEXES:
            connection.execute(statement)
        for path in sorted((folder / "ranks").iterdir()):
            connection.execute("ATTACH ? AS shard", (str(path),))
            connection.execute("BEGIN")
            for table in tables:
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM shard.{table}")
            connection.execute("COMMIT")
            connection.execute("DETACH shard")
    descriptor = os.open(folder / "plain.sql", os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _index(path: Path) -> float:
    """CPU seconds to make the index."""
    with closing(sqlite3.connect(path)) as connection:
        began = time.process_time()
        connection.execute(_INDEX)
        connection.commit()
        took = time.process_time() - began
        connection.execute("DROP INDEX samples_gpu_time")
        return took


def content(path: Path) -> list[tuple[object, ...]]:
    """Per GPU: UUID, number of samples, and of each column how many values it has and what they add up to."""
    sums = ", ".join(f"count(s.{name}), total(s.{name})" for name in ("time", *NAMES))
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        query = f"SELECT g.uuid, count(*), {sums} FROM samples s JOIN gpus g USING (gpu) WHERE run_id != ? GROUP BY gpu"
        return sorted(connection.execute(query, (_ANOTHER,)))


if __name__ == "__main__":
    _plain(Path(sys.argv[1]))
