"""A recording that grows on shared storage whose hosts' caches are not coherent: what a reader on one host sees of what a
writer on another writes. Two mounts of the tests' FUSE filesystem stand for the hosts."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import CACHE, ENVIRONMENT, PYTHON, ROOT
from benchmarks.table import Figure
from gssr.metrics import NAMES
from gssr.store.read.follow import Follower
from gssr.store.read.open import RecordingError
from gssr.store.write.writer import COMMIT_SECONDS, Writer

GPUS = 8
BEGIN, STEP = 1_700_000_000.0, 0.125  # s; so that sums of steps are exact
WHEN = {"on opening": (), "on other attributes": ("--trust",)}
"""When a host drops what it has cached of a file, and the option of the filesystem for that."""

_MOUNT = ROOT / "tests" / "fakes" / "fuse" / "mount.py"
_PACE = 0.04
"""Seconds between two commits: a dozen times as often as a real recording's."""
_AT_LEAST = 3.0
"""Seconds that a reader polls for, however few polls are asked for: longer than any host believes what it has cached."""
_AT_MOST, _FEWEST = 60.0, 10
"""On a busy machine: so long the first row is waited for, s, and so many commits there are in any case."""
_COLUMNS = ("sm_active", "dram_active", "power_usage")


class Polled(NamedTuple):
    """What a reader saw: ``torn`` polls handed out rows that were never written like that, ``failed`` ones raised an error,
    ``empty`` ones brought nothing new."""

    polls: int
    rows: int
    torn: int
    failed: int
    empty: int


def measure(polls: int = 10_000) -> Iterator[Figure]:
    """Needs /dev/fuse and the right to mount in a namespace of its own. Raises RuntimeError when that is not to be had."""
    for when, options in WHEN.items():
        polled, commits, whole = between_hosts(polls, options)
        case = f"shared, dropped {when}"
        yield Figure(f"{case}: polls", polled.polls, "polls")
        yield Figure(f"{case}: commits meanwhile", commits, "commits")
        yield Figure(f"{case}: rows seen", polled.rows, "rows")
        yield Figure(f"{case}: torn", polled.torn, "polls", 0)
        yield Figure(f"{case}: failed", polled.failed, "polls", 0)
        yield Figure(f"{case}: recording whole at the end", float(whole), "yes or no", 1, at_least=True)


def between_hosts(polls: int, options: Sequence[str] = ()) -> tuple[Polled, int, bool]:
    """Write on one host, and poll on another one so often at least; what that one saw, how many transactions there were, and
    whether the recording holds exactly what was written. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        disk = Path(name) / "disk"
        disk.mkdir()
        writer = _on_a_host(Path(name) / "one", disk, options, "write")
        reader = _on_a_host(Path(name) / "other", disk, options, "read", str(polls))
        answer, problem = reader.communicate()
        (disk / "stop").touch()
        written, problem_of_writer = writer.communicate(timeout=60)
        if reader.returncode or writer.returncode:
            raise RuntimeError(f"no two mounts: {problem or problem_of_writer}")
        ticks, commits = json.loads(written)
        return Polled(*json.loads(answer)), commits, _is_whole(disk / "run.sql", ticks)


def _on_a_host(mountpoint: Path, disk: Path, options: Sequence[str], *words: str) -> subprocess.Popen[str]:
    mountpoint.mkdir()
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = [PYTHON, _MOUNT, disk, mountpoint, *options, "--"]
    command = [
        "unshare",
        *rights,
        "--mount",
        *mount,
        PYTHON,
        "-m",
        "benchmarks.shared",
        words[0],
        mountpoint,
        *words[1:],
    ]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True)


def _values(tick: int, gpu: int) -> list[float]:
    """One row's; each tells of which tick and GPU it is."""
    return [(tick * GPUS + gpu) % 9973 + column / 64 for column in range(len(NAMES))]


def _write(folder: Path) -> None:
    """A recording that grows until there is a file called ``stop``, as fast as can be, but for some commits in any case;
    prints how many ticks and commits."""
    writer = Writer(str(folder / "run.sql"))
    run = {"run_id": "r", "started_at": BEGIN, "sampling_ms": STEP * 1000, "state": "running"}
    writer.begin(run, {"rank": 0, "node": "one", "hostname": "another-host", "state": "running"})
    writer.add_gpus([{"device_index": gpu, "uuid": f"GPU-{gpu}"} for gpu in range(GPUS)], NAMES, STEP)
    tick = commits = 0
    while commits < _FEWEST or not (folder / "stop").exists():
        for _ in range(round(COMMIT_SECONDS / STEP)):
            when = BEGIN + tick * STEP
            writer.add([(gpu, when, *_values(tick, gpu)) for gpu in range(GPUS)])
            tick += 1
        writer.tick(when)
        commits += 1
        time.sleep(_PACE)
    writer.finish(when, 0, "completed", when)
    print(json.dumps([tick, commits]))


def _read(folder: Path, polls: int) -> None:
    """Follow it; prints what was seen."""
    follower = Follower(str(folder / "run.sql"), _COLUMNS)
    while not (folder / "run.sql").exists() or follower.poll().run is None:
        time.sleep(0.05)
    follower = Follower(str(folder / "run.sql"), _COLUMNS)
    n = rows = torn = failed = empty = 0
    until, latest = time.monotonic() + _AT_LEAST, time.monotonic() + _AT_MOST
    while n < polls or time.monotonic() < until or (not rows and time.monotonic() < latest):
        n += 1
        try:
            news = follower.poll()
        except RecordingError as error:
            print(error, file=sys.stderr)
            failed += 1
            continue
        torn += any(row != _expected(rows + number) for number, row in enumerate(news.rows))
        rows += len(news.rows)
        empty += not news.rows
    print(json.dumps(Polled(n, rows, torn, failed, empty)))


def _expected(number: int) -> tuple[Any, ...]:
    tick, gpu = divmod(number, GPUS)
    values = dict(zip(NAMES, _values(tick, gpu), strict=True))
    return (gpu, BEGIN + tick * STEP, *(values[name] for name in _COLUMNS))


def _is_whole(path: Path, ticks: int) -> bool:
    """Whether the file is sound, and holds exactly what was written."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = connection.execute(f"SELECT gpu, time, {', '.join(_COLUMNS)} FROM samples ORDER BY rowid")
        n = 0
        for number, row in enumerate(found):
            sound = sound and row == _expected(number)
            n += 1
    return sound and n == ticks * GPUS


if __name__ == "__main__":
    if sys.argv[1] == "write":
        _write(Path(sys.argv[2]))
    else:
        _read(Path(sys.argv[2]), int(sys.argv[3]))
