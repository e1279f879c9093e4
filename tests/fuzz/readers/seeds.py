"""Sound recordings that hostile ones are made of: small, and with everything in them that a recording can hold."""

import atexit
import os
import random
import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from gssr.metrics import NAMES
from gssr.store.merge import merge
from gssr.store.write.pending import Value
from gssr.store.write.writer import Writer

START = 1_700_000_003.0
STEP = 2.0


def _rows(n_ticks: int, n_gpus: int, rng: random.Random) -> list[tuple[Any, ...]]:
    return [
        (
            gpu,
            START + tick * STEP,
            *(tick * 100 if name == "energy" else rng.randrange(64) if name == "clock_event_reasons" else rng.random()
              for name in NAMES),
        )
        for tick in range(n_ticks)
        for gpu in range(n_gpus)
    ]  # fmt: skip


def record(
    path: Path, run_id: str, rank: int = 0, append: bool = False, ended: bool = True, n_ticks: int = 360
) -> Writer:
    """A rank of two GPUs that is sampled for ``n_ticks`` * STEP."""
    writer = Writer(str(path), append=append)
    run: dict[str, Value] = {
        "run_id": run_id,
        "started_at": START,
        "sampling_ms": 1000 * STEP,
        "state": "running",
        "world_size": 2,
    }
    run |= {"command": '["train", "--fast"]', "label": "a label", "job_id": "7", "user": "me", "gssr_version": "0.5"}
    process: dict[str, Value] = {
        "rank": rank,
        "node": f"n{rank}",
        "hostname": "elsewhere",
        "pid": 7,
        "boot_id": "b",
        "state": "running",
    }
    writer.begin(run, process | {"clock_offset": 0.1, "clock_error": 0.01})
    named: dict[str, Value] = {"name": "H100", "memory_total": 80 << 30, "power_limit": 700.0, "backend": "synthetic"}
    writer.add_gpus([{"device_index": i, "uuid": f"{run_id}-{rank}-{i}", **named} for i in range(2)], NAMES, STEP)
    for gpu, time, *values in _rows(n_ticks, 2, random.Random(rank)):
        writer.add([(gpu, time, *values)])
        writer.add_host(time, [0.5, 1.0, 10, 20, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0])
        writer.add_workload(time, [1.0, 1000, 3])
        writer.tick(time)
    end = START + n_ticks * STEP
    writer.event(end, "mark", "an event", 0)
    if ended:
        writer.finish(end, 0, "completed", end)
    else:
        writer.commit(end)
    return writer


@cache
def workshop() -> Path:
    """A folder for what hostile inputs are made of; it goes when the process ends."""
    folder = Path(mkdtemp(prefix="gssr-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def seeds() -> tuple[Path, ...]:
    """Folders, each with a recording ``run.sql`` or ``run.sql.d``."""
    folder = workshop() / "seeds"
    folder.mkdir()
    for name in ("ended", "killed", "journal", "ranks", "merged"):
        (folder / name).mkdir()
    record(folder / "ended" / "run.sql", "r1")
    record(folder / "ended" / "run.sql", "r2", append=True, n_ticks=40)
    writer = record(folder / "killed" / "open.sql", "r1", ended=False, n_ticks=80)
    for suffix in ("", "-wal"):
        shutil.copyfile(folder / "killed" / f"open.sql{suffix}", folder / "killed" / f"run.sql{suffix}")
    del writer
    for path in (folder / "killed").glob("open*"):
        path.unlink()
    record(folder / "journal" / "run.sql", "r1", n_ticks=80)
    _leave_journal(folder / "journal" / "run.sql")
    for name in ("ranks", "merged"):
        (folder / name / "run.sql.d").mkdir()
        for rank in range(2):
            record(folder / name / "run.sql.d" / f"n{rank}.{rank}.r1.sql", "r1", rank, n_ticks=60)
    merge(str(folder / "merged" / "run.sql"))
    return tuple(sorted(folder.iterdir()))


def _leave_journal(path: Path) -> None:
    """As a writer leaves it that is killed within a transaction."""
    pid = os.fork()
    if pid == 0:
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA cache_size=1")
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("UPDATE samples SET sm_active = 0.25")
                os._exit(0)
        finally:
            os._exit(1)
    os.waitpid(pid, 0)


def planted(folder: Path, rng: random.Random) -> Path:
    """A copy of one of them in the folder: the path to read."""
    seed = rng.choice(seeds())
    shutil.copytree(seed, folder, dirs_exist_ok=True)
    return folder / "run.sql"
