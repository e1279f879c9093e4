"""Recordings that list very much in few bytes: GPUs that were never sampled, or hardly, and runs."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.fuzz.seeds import START, record
from gssr.store.create import create

Rows = Iterable[tuple[object, ...]]
HOUR = 3600.0
_MODEL = "NVIDIA H100 80GB HBM3"
_GPU = (
    "INSERT INTO gpus (gpu, run_id, node, rank, device_index, uuid, name, memory_total, backend) "
    f"VALUES (?, ?, ?, 0, ?, ?, '{_MODEL}', {80 << 30}, 'gpm')"
)
_ROW = "INSERT INTO samples (gpu, time, sm_active, sm_occupancy, power_usage) VALUES (?, ?, ?, ?, ?)"


def _ended(path: Path, run_ids: Sequence[str], gpus: Rows, rows: Rows) -> None:
    """A recording of runs that lasted an hour, one after the other, with these rows of ``gpus`` and of ``samples``, and
    without any rollup."""
    with closing(create(str(path))) as connection:
        _insert(connection, run_ids, gpus, rows)


def _insert(connection: sqlite3.Connection, run_ids: Sequence[str], gpus: Rows, rows: Rows) -> None:
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.execute("BEGIN")
    for number, run_id in enumerate(run_ids):
        begin = START + number * HOUR
        times = (begin, begin + HOUR)
        connection.execute(
            "INSERT INTO runs (run_id, started_at, ended_at, sampling_ms, state, exit_code) "
            "VALUES (?, ?, ?, 1000, 'completed', 0)",
            (run_id, *times),
        )
        connection.execute(
            "INSERT INTO processes (run_id, rank, node, started_at, ended_at, state) VALUES (?, 0, 'n', ?, ?, 'completed')",
            (run_id, *times),
        )
    connection.executemany(_GPU, gpus)
    connection.executemany(_ROW, rows)
    connection.execute("COMMIT")


def _gpus(run_id: str, first: int, n: int, each: int = 8) -> Rows:
    """``n`` GPUs, ``each`` of them in a node."""
    return ((first + gpu, run_id, f"n{gpu // each}", gpu % each, f"GPU-{first + gpu:032x}") for gpu in range(n))


def listed(path: Path, n: int = 131_000) -> None:
    """Two GPUs were sampled, so many are listed."""
    record(path, "r", n_ticks=1800)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _insert(connection, [], _gpus("r", 1000, n), [])


def nodes(path: Path, n: int = 131_000) -> None:
    """The same, each in a node of its own."""
    record(path, "r", n_ticks=1800)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _insert(connection, [], _gpus("r", 1000, n, each=1), [])


def once(path: Path, n: int = 100_000, each: int = 1) -> None:
    """So many GPUs with one sample each, or ``each``, all over an hour."""
    rows = ((gpu, START + (tick + gpu / n) * HOUR / each, 0.5, 0.25, 300.0) for tick in range(each) for gpu in range(n))
    _ended(path, ["r"], _gpus("r", 0, n), rows)


def runs(path: Path, n: int = 4_000, gpus: int = 1, ticks: int = 20) -> None:
    """So many runs."""
    names = [f"run{number}" for number in range(n)]
    listing = (gpu for number, name in enumerate(names) for gpu in _gpus(name, number * gpus, gpus))
    rows = (
        (number * gpus, START + number * HOUR + tick, 0.5, 0.25, 300.0) for number in range(n) for tick in range(ticks)
    )
    _ended(path, names, listing, rows)
