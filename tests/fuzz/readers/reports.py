"""Hostile reports of Nsight Systems: what is read of one is what plain SQLite reads, or less, and then that is said."""

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.nsys_report import OLD, TABLES, small_tables, write_report
from gssr.traces.nsys import read_lengths, read_nsys
from gssr.traces.timeline import Kind, Timeline, TraceError
from tests.fuzz.readers import Reader
from tests.fuzz.readers.hostile import corrupt

_LONGEST = 1 << 53
_KINDS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (Kind.KERNEL,),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (Kind.GRAPH,),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (Kind.MEMCPY,),
    "CUPTI_ACTIVITY_KIND_MEMSET": (Kind.MEMSET,),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (Kind.GPU_SYNC,),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (Kind.RUNTIME, Kind.DRIVER),
    "MPI_COLLECTIVES_EVENTS": (Kind.CPU_OP,),
    "OSRT_API": (Kind.OS,),
    "PROFILER_OVERHEAD": (Kind.OVERHEAD,),
}


@cache
def _sound(seed: int) -> bytes:
    rng = random.Random(seed)
    with TemporaryDirectory(prefix="gssr-seed-") as folder:
        path = Path(folder) / "run.sql"
        write_report(str(path), small_tables(rng), TABLES if seed % 2 else {**TABLES, **OLD})
        return path.read_bytes()


def check(timeline: Timeline) -> None:
    """Does it hold together? Raises AssertionError."""
    own = timeline.intervals
    assert all(len(column) == len(own) for column in (own.length, own.track, own.name, own.kind, own.link, own.size))
    if len(own):
        assert own.length.min() >= 0 and abs(own.start).max() < _LONGEST
        assert own.track.min() >= 0 and own.track.max() < len(timeline.tracks)
        assert own.name.min() >= 0 and own.name.max() < len(timeline.names)
        step = np.diff(own.start)
        assert (step >= 0).all() and ((step > 0) | (np.diff(own.length) <= 0)).all()
    for counter in timeline.counters:
        assert -1 <= counter.track < len(timeline.tracks) and (np.diff(counter.time) >= 0).all()
        assert np.isfinite(counter.value).all()


def _intervals(path: Path) -> dict[str, Counter[tuple[int, int]]] | None:
    """By table starts and lengths as plain SQLite reads them; None where it can't read them all."""
    found = {}
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        try:
            for table in _KINDS:
                kinds = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchall()
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] if kinds else []
                if kinds not in ([], [(b"table",)]):
                    return None
                listed = ",".join(name if name.encode() in columns else "NULL" for name in ("start", "end"))
                rows = connection.execute(f"SELECT {listed} FROM {table}").fetchall() if columns else []
                found[table] = Counter(
                    (start, end - start)
                    for start, end in rows
                    if type(start) is int
                    and type(end) is int
                    and -_LONGEST < start <= end < _LONGEST
                    and (start or end)
                )
        except (sqlite3.Error, MemoryError):  # of a row that says it is very long
            return None
    return found


def _beside(folder: Path) -> list[str]:
    """What lies there, but for what SQLite makes beside every database that has a write-ahead log."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(("-shm", "-wal")))


def _read(folder: Path, rng: random.Random) -> None:
    path = folder / "run.sql"
    path.write_bytes(_sound(rng.randrange(8)))
    corrupt(folder, rng)
    before = _beside(folder)
    try:
        timeline = read_nsys(str(path))
        alone = [Counter(part.intervals.length.tolist()) for part in read_lengths(str(path), (Kind.KERNEL,))]
    except TraceError as error:
        assert "\n" not in str(error) and "run.sql" in str(error)
        return
    finally:
        assert _beside(folder) == before
    check(timeline)
    told = _intervals(path)
    if told is None:
        return
    damaged = any("run.sql" in note for note in timeline.sources[0].notes)
    own = timeline.intervals
    for table, expected in told.items():
        chosen = np.isin(own.kind, _KINDS[table])
        found = Counter(zip(own.start[chosen].tolist(), own.length[chosen].tolist(), strict=True))
        assert found <= expected if damaged else found == expected, f"{table}: {len(found)} of {len(expected)}"
    lengths = Counter(own.length[own.kind == Kind.KERNEL].tolist())
    assert sum(alone, Counter()) == lengths or damaged, f"alone: {len(alone)} parts"


def _attempt(folder: Path, rng: random.Random) -> None:
    try:
        _read(folder, rng)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()


READERS = (Reader("nsys", _attempt),)
