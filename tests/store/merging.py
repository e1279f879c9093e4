"""Files of ranks to merge, what they hold, and merges that are killed at a chosen moment."""

import json
import math
import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from sample_rows import START, STEP, rows_of

from gssr.metrics import NAMES
from gssr.model.analyze import Options, analyze
from gssr.report.json_document import to_json
from gssr.store import merge as package
from gssr.store.format.schema import ENDED_SUFFIX, RANKS_MISSING
from gssr.store.merge import merge
from gssr.store.merge.lock import Lock
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer

RUN = "c-1.0"


def record(
    recording: Path,
    rank: int,
    n_gpus: int = 2,
    n_ticks: int = 60,
    run_id: str = RUN,
    begin: float = 0.0,
    node: str | None = None,
    uuids: list[str] | None = None,
    sampled: dict[int, tuple[int, int]] | None = None,
    lost: bool = False,
    code: int = 0,
    world_size: int | None = 4,
) -> Path:
    """One rank's file of the recording ``NAME.sql``. ``uuids`` are the GPUs it lists; ``sampled`` the places of those that
    it samples, with the ticks at which it begins and ends (None: all of them, always)."""
    folder = Path(f"{recording}.d")
    folder.mkdir(exist_ok=True)
    if lost:
        pid = os.fork()
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
            return next(folder.glob(f"*.{rank}.{run_id}.sql"))
    node = node or f"node{rank // 2}"
    uuids = [f"GPU-{node}-{rank}-{place}" for place in range(n_gpus)] if uuids is None else uuids
    path = folder / f"{node}.{rank}.{run_id}.sql"
    writer = Writer(str(path))
    run = {"run_id": run_id, "started_at": START + begin + rank / 100, "sampling_ms": STEP * 1000, "state": "running"}
    process = {"rank": rank, "node": node, "hostname": "elsewhere", "state": "running"}
    writer.begin(run | {"world_size": world_size, "command": '["train"]'}, process)
    writer.add_gpus([{"device_index": rank * 8 + place, "uuid": uuid} for place, uuid in enumerate(uuids)], NAMES, STEP)
    for gpu, time, *values in rows_of(n_ticks, len(uuids), seed=rank):
        begins, ends = (0, n_ticks) if sampled is None else sampled.get(gpu, (0, 0))
        if begins <= (time - START) // STEP < ends:
            writer.add([(gpu, time + begin, *values)])
        writer.tick(time + begin)
    end = START + begin + n_ticks * STEP
    writer.event(START + begin, "start", "the command was started")
    writer.add_host(end, [0.5, 1.0, 10, 20, 0.0, 0.0, 0.0, float(rank), 0.0, float(rank)])
    writer.add_workload(end, [1.0, 1000 + rank, 3])
    writer.event(end, "backend", f"rank {rank} of {run_id}", 0 if uuids else None)
    for gpu in range(len(uuids)):
        writer.add_processes(gpu, end, [(100 + rank, "python", "me", rank << 20, 0.5)] * gpu)
    if lost:
        writer.commit(end)
        for written in folder.glob(f"{path.name}*"):
            os.utime(written, (START, START))
        os._exit(0)  # without SQLite tidying up
    else:
        assert writer.finish(end, code, "failed" if code else "completed", end)
    return path


def leave_signs(recording: Path, run_id: str, n_ranks: int) -> None:
    """Say that these ranks are through, as each does after its end."""
    for rank in range(n_ranks):
        Path(f"{recording}.d", f"{rank}.{run_id}{ENDED_SUFFIX}").touch()


def files(recording: Path) -> list[Path]:
    """What there is of a recording."""
    return [path for path in (recording, *sorted(Path(f"{recording}.d").glob("*.sql"))) if path.exists()]


def content(paths: list[Path]) -> dict[str, list]:
    """Everything in these files that does not depend on which file it is in, table by table, sorted."""
    rows: dict[str, list] = {}
    for path in paths:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            gpus = {
                key: (run, node, uuid)
                for key, run, node, uuid in connection.execute("SELECT gpu, run_id, node, uuid FROM gpus")
            }
            for table in ("processes", "host_samples", "workload_samples"):
                rows.setdefault(table, []).extend(connection.execute(f"SELECT * FROM {table}"))
            for table in ("samples", "events", "process_gpus", "gpu_processes"):
                told = f"WHERE kind != '{RANKS_MISSING}'" if table == "events" else ""  # by the merge itself
                cursor = connection.execute(f"SELECT * FROM {table} {told}")
                place = [column[0] for column in cursor.description].index("gpu")
                found = [(*row[:place], gpus.get(row[place]), *row[place + 1 :]) for row in cursor]
                rows.setdefault(table, []).extend(found)
            rows.setdefault("gpus", []).extend(set(gpus.values()))
    rows["gpus"] = list(set(rows["gpus"]))
    return {table: sorted(found, key=repr) for table, found in rows.items()}


def json_of(recording: Path, exact: bool | None = None, keys: bool = True) -> list[dict]:
    """What ``gssr analyze --json`` prints of every run; without the ``keys`` of GPUs, which belong to the file."""
    opened = open_recording(recording)
    document = json.loads(to_json([analyze(run, Options(exact=exact)) for run in opened.runs]))
    assert opened.damage is None
    opened.close()
    for run in document["runs"]:  # what the merge itself tells is apart
        run["events"] = [event for event in run["events"] if event["kind"] != RANKS_MISSING]
    return [_without_keys(run) if not keys else run for run in document["runs"]]


def _without_keys(node: object) -> object:
    if isinstance(node, dict):
        return {
            name: _without_keys(value) for name, value in node.items() if name != "gpu" and not _are_keys(name, value)
        }
    return [_without_keys(value) for value in node] if isinstance(node, list) else node


def _are_keys(name: str, value: object) -> bool:
    """Those of the GPUs of a phase or a group; ``gpus`` of a run are objects."""
    return name == "gpus" and isinstance(value, list) and all(isinstance(key, int) for key in value)


def close_to(left: object, right: object) -> bool:
    """Equal, numbers to within rounding."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(close_to(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(close_to, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    return left == right


def rollups_are_those_of_the_rows(path: Path) -> None:
    """Every level, and each length of sketches, counts every sample of every GPU once; rollups' rowids are those of the
    bucket's rows."""
    from gssr.store.format.layout import LAYOUT
    from gssr.store.format.rollup import unpack_sketch, unpack_vector
    from gssr.store.format.schema import SKETCHES

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows: dict[tuple, list] = {}
        for rowid, gpu, time, value in connection.execute("SELECT rowid, gpu, time, sm_active FROM samples"):
            for level in (10, 60, 600):
                rows.setdefault((gpu, level, int(time // level) * level), []).append((rowid, value))
        buckets = connection.execute("SELECT gpu, level, bucket, first_rowid, last_rowid, data FROM rollup").fetchall()
        assert {row[:3] for row in buckets} == rows.keys()
        for gpu, level, bucket, first, last, data in buckets:
            own = rows[gpu, level, bucket]
            assert (first, last) == (own[0][0], own[-1][0])
            assert unpack_vector(data)[0] == len(own)
        place = LAYOUT.sketched.index("sm_active")
        for seconds, table in SKETCHES.items():
            found = {row[:2]: row[2] for row in connection.execute(f"SELECT gpu, bucket, data FROM {table}")}
            assert found.keys() == {(gpu, bucket) for gpu, level, bucket in rows if level == seconds}
            for (gpu, bucket), data in found.items():
                n = sum(value is not None for _, value in rows[gpu, seconds, bucket])
                assert unpack_sketch(data, seconds)[place].total() == n


def merge_killed_at(recording: Path, moment: int, **options) -> bool:
    """Merge in a process that is killed at this moment: a file is opened, linked, deleted, or SQLite has worked for a while.
    False when it ended before."""
    pid = os.fork()
    if pid == 0:
        count = 0

        def happened(*_: object) -> None:
            nonlocal count
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        def audit(event: str, _arguments: object) -> None:
            if event in ("open", "os.remove", "os.link", "os.rename", "os.rmdir", "os.utime", "sqlite3.connect"):
                happened()

        status = 1
        try:
            Lock.touch = happened  # type: ignore[method-assign]
            package.OPERATIONS = 2000
            sys.addaudithook(audit)
            merge(str(recording), **options)
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0
