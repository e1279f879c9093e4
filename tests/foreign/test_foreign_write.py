"""What files say is in the recording that is made of them: rows, GPUs, runs, and what is uncertain."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

import gssr
from gssr.foreign.series import ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note
from gssr.foreign.write import Cursor, RunFrom, write
from gssr.store.format.sample_arrays import Samples
from gssr.store.write.writer import Writer

START = 1_700_000_000.5


def series(n: int, n_gpus: int, start: float = START, late: bool = False, **known) -> ForeignSeries:
    """``n`` ticks, a second apart, piece by piece of one tick; ``late``: the last GPU and ``power_usage`` come half way."""

    def pieces():
        for tick in range(n):
            here = n_gpus - (late and tick < n // 2)
            while len(found.gpus) < here:
                found.gpus.append(ForeignGpu(device_index=len(found.gpus)))
            gpu = np.arange(here)
            values = {"sm_active": (gpu + tick % 7) / 20, "energy": 1e5 + 300.0 * tick + gpu}
            values["sm_active"] = np.where((gpu == 0) & (tick == 3), np.nan, values["sm_active"])
            if not late or tick >= n // 2:
                values["power_usage"] = np.full(here, 300.0)
            yield Samples(gpu, np.full(here, start + tick) + 0.001 * gpu, values)
        found.notes.append(Note("one column was unknown"))

    found = ForeignSeries("dcgmi-dmon", pieces(), **known)
    return found


def called(file: str, stem: str, found: ForeignSeries) -> ForeignSeries:
    found.file, found.stem = file, stem
    return found


def rows(path: Path, sql: str) -> list:
    return sqlite3.connect(path).execute(sql).fetchall()


def test_rows_and_gpus_that_come_late_are_there_and_the_rest_is_said(tmp_path):
    path = tmp_path / "a.sql"
    assert write(str(path), [called("dmon.log", "dmon", series(100, 3, late=True))], ImportHints())[:2] == (250, 1)
    run = gssr.open(path)[0]
    assert run.state == "completed" and run.metadata["exit_code"] is None and run.label == "dmon.log"
    assert run.metadata["sampling_ms"] == 1000 and run.metadata["backends"] == ["import:dcgmi-dmon"]
    assert run.gpus.device_index.tolist() == [0, 1, 2] and run.gpus.node.isna().all()
    samples = run.samples(["sm_active", "power_usage"])
    assert samples.groupby("gpu").size().tolist() == [100, 100, 50]
    assert samples.power_usage.isna().sum() == 100 and samples.sm_active.isna().sum() == 1
    assert list(run.events.message) == ["one column was unknown"]
    assert "one column was unknown" in run.analysis.notes
    (mean,) = rows(path, "SELECT avg(sm_active) FROM samples")[0]
    assert run.statistics().loc["sm_active", "mean"] == pytest.approx(mean)


def test_series_that_overlap_are_nodes_of_one_run_and_others_runs(tmp_path):
    path, begins = tmp_path / "a.sql", (START, START + 50, START + 500)
    named = [called(f"n{at}.log", f"n{at}", series(100, 2, begin)) for at, begin in enumerate(begins)]
    assert write(str(path), named, ImportHints())[:2] == (600, 2)
    first, second = gssr.open(path)
    assert first.gpus.node.tolist() == ["n0", "n0", "n1", "n1"] and second.gpus.node.tolist() == ["n2", "n2"]
    assert first.duration == pytest.approx(149.001) and first.metadata["n_nodes"] == 2


def test_the_same_gpu_of_two_files_is_taken_once_and_ranks_are_processes(tmp_path):
    known = [series(20, 1) for _ in range(3)]
    for rank, each in enumerate(known):
        each.gpus += [ForeignGpu("node", rank if rank < 2 else 1, rank=rank)]
    write(
        str(tmp_path / "a.sql"),
        [called(f"{at}", f"{at}", own) for at, own in enumerate(known)],
        ImportHints(host="node"),
    )
    run = gssr.open(tmp_path / "a.sql")[0]
    assert len(run.gpus) == 2 and run.metadata["world_size"] == 2
    assert "2: GPU 1 of node is in 1 as well, and only that is taken" in run.analysis.notes
    assert run.analysis.ranks_missing == ()


def test_jobs_are_runs_of_their_own(tmp_path):
    known = [series(20, 1, job_id=str(job), label=f"j{job}") for job in range(2)]
    write(str(tmp_path / "a.sql"), [called("a", "a", each) for each in known], ImportHints())
    assert sorted((run.label, run.metadata["job_id"]) for run in gssr.open(tmp_path / "a.sql")) == [
        ("j0", "0"), ("j1", "1")
    ]  # fmt: skip


def test_what_can_be_no_row_is_left_out_and_said(tmp_path):
    def pieces():
        for times in ([START + 1000, np.nan, -1.0, START], [START + 5000], [START + 2000]):
            found = np.array(times)
            yield Samples(np.zeros(len(found), np.int64), found, {"sm_active": np.full(len(found), 1e300)})

    named = called("x.log", "x", ForeignSeries("dcgmi-dmon", pieces(), [ForeignGpu(device_index=0)]))
    assert write(str(tmp_path / "a.sql"), [named], ImportHints()).n_rows == 4
    said = gssr.open(tmp_path / "a.sql")[0].events.message.tolist()
    assert said == ["x.log: 2 rows that have no time that a run can have are left out"]
    assert rows(tmp_path / "a.sql", "SELECT count(*), count(sm_active) FROM samples") == [(4, 0)]


def test_without_rows_there_is_no_recording(tmp_path):
    empty = ForeignSeries("dcgmi-dmon", iter(()), notes=[Note("no column is known")])
    with pytest.raises(ForeignError, match=r"x\.log: holds no samples: no column is known"):
        write(str(tmp_path / "a.sql"), [called("x.log", "x", empty)], ImportHints())
    full = called("y.log", "y", series(20, 1))
    assert write(str(tmp_path / "b.sql"), [called("x.log", "x", empty), full], ImportHints()).problems


def test_what_is_followed_is_the_same_recording(tmp_path):
    write(str(tmp_path / "a.sql"), [called("dmon.log", "dmon", series(100, 3, late=True))], ImportHints())
    run = RunFrom(Writer(str(tmp_path / "b.sql")), ImportHints())
    cursor = Cursor(called("dmon.log", "dmon", series(100, 3, late=True)), None)
    while cursor.head is not None:
        now = float(cursor.head.time[-1])
        run.take(cursor)
        run.write_what_came(now)
        cursor.advance()
        if run.n_rows == 40:
            assert gssr.open(tmp_path / "b.sql")[0].state == "running"
    run.finish()
    whole, followed = (gssr.open(tmp_path / name)[0] for name in ("a.sql", "b.sql"))
    assert followed.state == "completed" and followed.samples().equals(whole.samples())
    assert followed.events.equals(whole.events) and followed.metadata["n_gpus"] == 3
    for name in ("rollup", "sketch"):
        keys = [rows(tmp_path / file, f"SELECT gpu, bucket FROM {name} ORDER BY 1, 2") for file in ("a.sql", "b.sql")]
        assert keys[0] == keys[1]
