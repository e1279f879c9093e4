"""Recordings that list very much in few bytes: GPUs that were never sampled, or hardly, and runs; and what reading each of
them takes, in memory and time, against the limits of docs/security.md."""

import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from benchmarks.processes import CACHE, GSSR, MB, PYTHON, Cost, run
from benchmarks.table import Figure
from benchmarks.terminal import on_terminal
from gssr.store.write.create import create
from tests.fuzz.readers.seeds import START, record

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


def nodes(path: Path) -> None:
    """The same, each in a node of its own."""
    record(path, "r", n_ticks=1800)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _insert(connection, [], _gpus("r", 1000, 131_000, each=1), [])


def once(path: Path, n: int = 100_000) -> None:
    """So many GPUs with one sample each, all over an hour."""
    rows = ((gpu, START + gpu / n * HOUR, 0.5, 0.25, 300.0) for gpu in range(n))
    _ended(path, ["r"], _gpus("r", 0, n), rows)


def runs(path: Path, n: int = 4_000, gpus: int = 1, ticks: int = 20) -> None:
    """So many runs."""
    names = [f"run{number}" for number in range(n)]
    listing = (gpu for number, name in enumerate(names) for gpu in _gpus(name, number * gpus, gpus))
    rows = (
        (number * gpus, START + number * HOUR + tick, 0.5, 0.25, 300.0) for number in range(n) for tick in range(ticks)
    )
    _ended(path, names, listing, rows)


def sampled(path: Path, n: int = 10_000) -> None:
    """No hostile one: so many GPUs, sampled once a second for an hour. 6 GB."""
    words = ("-m", "gssr.backends.synthetic", "train", "--gpus", str(n), "--hours", "1", "-t", "1000", "-o", path)
    run((PYTHON, *words))


SAMPLED_NAME = "10,000 GPUs sampled"
FILES: dict[str, Callable[[Path], None]] = {
    "131,000 GPUs listed": listed,
    "131,000 nodes listed": nodes,
    "100,000 GPUs sampled once": once,
    "4,000 runs": runs,
    "4,000 runs of 32 GPUs": partial(runs, gpus=32, ticks=4),
    SAMPLED_NAME: sampled,
}
READ, DRAWN, SAMPLED = 300.0, 400.0, 500.0
"""MB that may be taken: of a file of up to 20 MB by pages and tables, and by what is drawn with further libraries; of
``sampled``."""
_PAGES = {
    "analyze": ("analyze", "{file}"),
    "analyze --json": ("analyze", "--json", "{file}"),
    "compare": ("compare", "{file}", "{file}"),
    "report.html": ("analyze", "--report", "{out}/report.html", "{file}"),
    "export --format csv": ("export", "--format", "csv", "-o", "{out}/csv", "{file}"),
    "export --format openmetrics": ("export", "--format", "openmetrics", "-o", "{out}/all.txt", "{file}"),
    "fleet": ("fleet", "{file}"),
}
_DRAWINGS = {
    "analyze --png": ("analyze", "--png", "{out}", "{file}"),
    "report.pdf": ("analyze", "--report", "{out}/report.pdf", "{file}"),
    "export": ("export", "-o", "{out}/parquet", "{file}"),
}
_REFUSED = ("report.html", "analyze --png", "report.pdf")
"""Of very many runs, in a sentence."""
_PATIENCE = 600.0


def measure(names: Sequence[str] = tuple(FILES)) -> Iterator[Figure]:
    """Peak memory and CPU of every command on each of these files, and of the first look of the screen."""
    CACHE.mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            path = Path(folder) / "a.sql"
            FILES[name](path)
            yield Figure(f"{name}: file", path.stat().st_size / MB, "MB")
            for command, words in (_PAGES | _DRAWINGS).items():
                many = "runs" in name
                if name == SAMPLED_NAME and command == "export --format csv":  # 13 GB of text
                    words = (*words, "--tables", "runs,gpus,summary,gpu_summary,statistics,verdicts")
                given = [word.format(file=path, out=folder) for word in words]
                if many and command in _REFUSED:
                    yield Figure(f"{name}: {command}: refused", float(_is_refused(given)), "")
                    continue
                cost = run((*GSSR, *given))
                limit = SAMPLED if name == SAMPLED_NAME else DRAWN if command in _DRAWINGS else READ
                yield from _figures(f"{name}: {command}", cost, limit)
            yield from _figures(
                f"{name}: first look of tui", _first_look(path), SAMPLED if name == SAMPLED_NAME else DRAWN
            )


def _figures(case: str, cost: Cost, limit: float) -> Iterator[Figure]:
    yield Figure(f"{case}: peak memory", cost.rss / MB, "MB", limit)
    yield Figure(f"{case}: CPU", cost.cpu, "s")


def _is_refused(words: Sequence[str]) -> bool:
    """Whether a command fails, as it says in a sentence."""
    with suppress(RuntimeError):
        run((*GSSR, *words))
        return False
    return True


def _first_look(path: Path) -> Cost:
    with on_terminal((*GSSR, "tui", path), 160, 50) as terminal:
        wall = terminal.read_until(rb"\d GPU", _PATIENCE)
        terminal.read_for(3.0)
        status = Path(f"/proc/{terminal.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmHWM:\s+(\d+)", status)
        assert found is not None
        return Cost(wall, sum(terminal.cpu().values()), float(found[1]) * 1024)
