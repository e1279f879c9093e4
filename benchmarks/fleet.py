"""What looking into many recordings costs: their page, their verdicts, their export, and a question in SQL."""

import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, Cost, median, run
from benchmarks.table import Figure
from gssr.arrays import Floats
from gssr.backends.synthetic.bulk import generate
from gssr.model.fleet.bad_nodes import against_others, effects
from gssr.model.fleet.history import change
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
        page = (*GSSR, "fleet", "--no-index", folder / "recordings")
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
        generate(str(path), job, GPUS, hours, 1.0, host=True)
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


TINY = 100_000
SECOND_LOOK_S = 3.0


def second_look(recordings: int = TINY) -> Iterator[Figure]:
    """``gssr fleet`` again on recordings of a GPU, each with an id of its own, and an index."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder, index = Path(name) / "recordings", Path(name) / "index"
        _tiny(folder, recordings)
        page = (*GSSR, "fleet", folder, "--index", index)
        run(page)
        cost = median(run(page) for _ in range(3))
        what = f"fleet, second look at {recordings:,} recordings of a GPU"
        yield Figure(f"{what}: wall", cost.wall, "s", SECOND_LOOK_S)
        yield Figure(f"{what}: CPU", cost.cpu, "s")
        yield Figure(f"{what}: resident", cost.rss / MB, "MB")
        yield Figure("its index, a recording", index.stat().st_size / recordings, "B")


def _tiny(folder: Path, recordings: int) -> None:
    """One recording under many ids, last written long ago: what is young is not kept."""
    first, own = folder / "0.sql", "run-000000"
    folder.mkdir()
    generate(str(first), "train", 1, 1 / 60, 2.0)
    with closing(sqlite3.connect(first, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        for table, columns in TABLES.items():
            if "run_id" in (column.name for column in columns):
                connection.execute(f"UPDATE {table} SET run_id = ?", (own,))
        connection.execute("PRAGMA page_size=512")
        connection.execute("VACUUM")
    whole = first.read_bytes()
    for number in range(recordings):
        path = folder / f"{number // 1000:03d}" / f"{number}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(whole.replace(own.encode(), b"run-%06d" % number))
        os.utime(path, (1e9, 1e9))
    first.unlink()


def simulated_nodes(fleets: int = 1000) -> Iterator[Figure]:
    """Fleets of 50 nodes that differ by 1-2 %, one of them 8 % slow, with 20-200 jobs; a fifth of these has a straggler of
    its own, a tenth a rank with more work."""
    chance = np.random.default_rng(1)
    right = wrong = often = found_often = 0
    for _ in range(fleets):
        own, bad = chance.normal(0, chance.uniform(0.01, 0.02), 50), int(chance.integers(50))
        own[bad] += np.log(0.92)
        seen: dict[str, list[float]] = {}
        for _ in range(int(chance.integers(20, 201))):
            n = int(chance.choice([3, 4, 4, 8, 8, 16]))
            nodes = chance.choice(50, n, replace=False)
            logs = own[nodes] + chance.normal(0, chance.uniform(0.005, 0.04), n) + chance.normal(0, 0.5)
            if chance.random() < 0.2:
                logs[chance.integers(n)] += np.log(chance.uniform(0.6, 0.95))
            if chance.random() < 0.1:
                logs[0] += np.log(1.1)
            for node, value in zip(nodes, against_others(np.exp(logs)).tolist(), strict=True):
                seen.setdefault(str(node), []).append(value)
        told = {node for node, effect in effects(seen).items() if effect.apart and effect.median < 0}
        right, wrong = right + (str(bad) in told), wrong + len(told - {str(bad)})
        if len(seen.get(str(bad), ())) >= 20:
            often, found_often = often + 1, found_often + (str(bad) in told)
    yield Figure("bad nodes told that are it, of nodes told", 100 * right / max(right + wrong, 1), "%")
    yield Figure("bad nodes found with 20 jobs or more", 100 * found_often / max(often, 1), "%")
    yield Figure("bad nodes found of all, with any number of jobs", 100 * right / fleets, "%")


def simulated_histories(series: int = 1000) -> Iterator[Figure]:
    """Runs that scatter by 1-4 % and drift by up to 2 %, of which one in twenty is 5-25 % lower."""
    chance = np.random.default_rng(0)

    def runs(n: int, scatter: float) -> tuple[Floats, bool]:
        values = chance.normal(0, scatter, n) + np.linspace(0, chance.uniform(-0.02, 0.02), n)
        strange = chance.random(n) < 0.05
        values[strange] += np.log(chance.uniform(0.75, 0.95, int(strange.sum())))
        return values, bool(strange[-1])

    for scatter, n_since in ((0.01, 3), (0.02, 12), (0.03, 25), (0.04, 50)):
        false = looks = 0
        while looks < series:
            values, is_strange = runs(int(chance.choice([6, 8, 12, 21, 41, 81])), scatter)
            if not is_strange:  # such a run is told with reason
                found = change(values)
                looks, false = looks + 1, false + (found is not None and found[1] < 0)
        yield Figure(f"histories, scatter {scatter:.0%}: said to be lower and are not", 100 * false / series, "%", 2.0)
        n_found = 0
        for _ in range(series // 4):
            values, _ = runs(40 + n_since, scatter)
            values[-n_since:] += np.log(0.95)
            found = change(values)
            n_found += found is not None and found[1] < 0
        yield Figure(
            f"histories, scatter {scatter:.0%}: 5 % lower for {n_since} runs, found", 100 * n_found / (series // 4), "%"
        )
