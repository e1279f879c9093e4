"""``gssr profile`` on a driver whose values are known: what is stored, what is lost, and what a broken driver does."""

import os
import sqlite3
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gssr.backends.gpm import PROFILED
from gssr.store.reader import open_recording

GSSR = [sys.executable, "-m", "gssr"]


def record(cwd: Path, environ: dict[str, str], *words: str, interval: int = 200) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*GSSR, "profile", "-t", str(interval), "-o", "a.sql", *words],
        cwd=cwd, env=environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def run_of(folder: Path):
    return open_recording(folder / "a.sql").runs[0]


def count(folder: Path, table: str) -> int:
    """Rows that are committed."""
    try:
        with sqlite3.connect(f"file:{folder}/a.sql?mode=ro", uri=True) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.Error:
        return 0  # not begun yet


def wait_until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def messages(reader) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in reader.events:
        found.setdefault(event.kind, []).append(event.message)
    return found


def columns(folder: Path, *names: str) -> dict[int, np.ndarray]:
    """By GPU, rows of (time, column, ...)."""
    with sqlite3.connect(folder / "a.sql") as connection:
        rows = connection.execute(f"SELECT gpu, time, {', '.join(names)} FROM samples ORDER BY gpu, time").fetchall()
    table = np.array(rows, dtype=float)
    return {int(gpu): table[table[:, 0] == gpu, 1:] for gpu in np.unique(table[:, 0])}


def test_every_stored_mean_is_the_drivers(tmp_path, fake_driver):
    done = record(tmp_path, fake_driver.environ(gpus=8), "--backend", "gpm", "--", "sh", "-c", "sleep 4; exit 3")
    assert done.returncode == 3
    assert done.stderr.startswith("gssr: GSSR score=0.") and "gpus=8 gaps=0" in done.stderr
    series = columns(tmp_path, *[metric.name for metric in PROFILED])
    assert sorted(series) == list(range(8))
    for gpu, rows in series.items():
        assert len(rows) >= 19
        for before, row in pairwise(rows):
            exact = [
                fake_driver.expected(gpu, metric.gpm, before[0], row[0]) * metric.gpm_factor for metric in PROFILED
            ]
            # Some come near zero, where the least shift in time is many per cent: there 1 % of their mean, 0.01, counts.
            assert row[1:] == pytest.approx(exact, rel=0.01, abs=1e-4)
        span = rows[0, 0], rows[-1, 0]
        whole = [fake_driver.expected(gpu, metric.gpm, *span) * metric.gpm_factor for metric in PROFILED]
        seconds = np.diff(rows[:, 0])  # a busy machine's ticks are not all alike
        assert seconds @ rows[1:, 1:] / seconds.sum() == pytest.approx(whole, rel=0.002)


def test_a_gpu_lost_in_mid_run_leaves_the_others_complete(tmp_path, fake_driver):
    begin = time.time() + 2.5
    environ = fake_driver.environ(gpus=8, lost=f"5:{begin}:{begin + 1000}")
    done = record(tmp_path, environ, "--backend", "gpm", "--", "sh", "-c", "sleep 5; exit 7")
    assert done.returncode == 7
    reader = run_of(tmp_path)
    ((lost),) = messages(reader)["gpu_lost"]
    assert "GPU is lost" in lost and "gssr: GPU 5: " in done.stderr
    series = columns(tmp_path, "sm_active")
    end = max(rows[-1, 0] for rows in series.values())
    for gpu, rows in series.items():
        if gpu == 5:
            assert 0 < begin - rows[-1, 0] < 0.5
        else:
            assert len(rows) >= 24 and end - rows[-1, 0] < 0.1
            assert np.diff(rows[:, 0]).max() < 0.5 and not np.isnan(rows[1:, 1]).any()


def test_a_gpu_that_is_back_has_a_gap_and_two_events(tmp_path, fake_driver):
    begin = time.time() + 1.5
    environ = fake_driver.environ(gpus=2, lost=f"1:{begin}:{begin + 2}")
    assert record(tmp_path, environ, "--backend", "gpm", "--", "sleep", "8").returncode == 0
    reader = run_of(tmp_path)
    assert [event.kind for event in reader.events if event.gpu is not None] == ["gpu_lost", "gpu_back"]
    rows = columns(tmp_path, "sm_active", "power_usage")[1]
    steps = np.diff(rows[:, 0])
    assert (steps > 2).sum() == 1 and rows[-1, 0] > begin + 5
    back = rows[int(steps.argmax()) + 1]
    assert np.isnan(back[1]) and back[2] > 0  # no mean over a time in which nobody counted


def test_older_gpus_get_nvml_and_an_unknown_score(tmp_path, fake_driver):
    done = record(tmp_path, fake_driver.environ(gpus=2, gpm=0, arch=7), "--", "sleep", "1.5")
    assert done.returncode == 0
    first, *_, result, _where = done.stderr.splitlines()
    assert first.startswith("gssr: nvml: the score will be unknown, its inputs are not measured; dcgm not used: ")
    assert result == "gssr: GSSR score=unknown imbalance=unknown gpus=2 gaps=0"
    reader = run_of(tmp_path)
    (backend,) = messages(reader)["backend"]
    assert backend.startswith("nvml: 2 GPUs; not measured: ") and "SM active" in backend
    assert "dcgm not used: " in backend and "gpm not used: no GPU here has it: that takes Hopper or newer" in backend
    rows = columns(tmp_path, "sm_active", "tensor_active", "gpu_utilization", "power_usage")
    assert np.isnan(rows[0][:, 1:3]).all() and (rows[0][:, 3:] > 0).all()
    page = subprocess.run([*GSSR, "analyze", "a.sql"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert page.returncode == 0 and "score=unknown" in page.stdout


def test_auto_takes_gpm_on_hopper_and_says_why_not_dcgm(tmp_path, fake_driver):
    assert record(tmp_path, fake_driver.environ(gpus=2), "--", "sleep", "0.5").returncode == 0
    (backend,) = messages(run_of(tmp_path))["backend"]
    assert backend.startswith("gpm: 2 GPUs; dcgm not used: ")
    assert [gpu.backend for gpu in run_of(tmp_path).gpus] == ["gpm", "gpm"]


def test_mig_instances_are_gpus_of_their_own(tmp_path, fake_driver):
    environ = fake_driver.environ(gpus=2, mig="0:3")
    assert record(tmp_path, environ, "--backend", "gpm", "--", "sleep", "1.5").returncode == 0
    gpus = run_of(tmp_path).gpus
    assert [(gpu.device_index, gpu.mig is not None) for gpu in gpus] == [(0, True)] * 3 + [(1, False)]
    assert len({gpu.uuid for gpu in gpus}) == 4
    rows = columns(tmp_path, "sm_active", "memory_used", "power_usage")
    for gpu, instance in ((0, 1), (1, 2), (2, 3)):
        for before, row in pairwise(rows[gpu][1:]):
            exact = fake_driver.expected(0, 2, before[0], row[0], instance) / 100
            assert row[1] == pytest.approx(exact, rel=0.01) and row[2] > 0 and np.isnan(row[3])


def test_gpus_are_the_launchers_and_chosen_by_uuid(tmp_path, fake_driver):
    environ = fake_driver.environ(gpus=4) | {"CUDA_VISIBLE_DEVICES": "GPU-fa4e0000-0000-4000-8000-000000000003,1"}
    assert record(tmp_path, environ, "--backend", "gpm", "--", "true").returncode == 0
    assert [gpu.device_index for gpu in run_of(tmp_path).gpus] == [1, 2]
    done = record(
        tmp_path, fake_driver.environ(gpus=4), "-f", "--backend", "nvml", "--gpus",
        "GPU-fa4e0000-0000-4000-8000-000000000004", "--", "true",
    )  # fmt: skip
    assert done.returncode == 0
    assert [gpu.device_index for gpu in run_of(tmp_path).gpus] == [3]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"no_permission": 1}, "gpm: the driver lets only administrators profile; the administrator can set"),
        ({"gpm": 0}, "gpm: no GPU here has it: that takes Hopper or newer; use DCGM, or --backend nvml"),
        ({"gpus": 0}, "NVIDIA's driver shows this process no GPU"),
    ],
)
def test_what_a_backend_can_not_do_is_one_line_and_the_workload_runs(tmp_path, fake_driver, settings, expected):
    done = record(tmp_path, fake_driver.environ(**settings), "--backend", "gpm", "--", "sh", "-c", "echo ran; exit 5")
    assert (done.returncode, done.stdout) == (5, "ran\n")
    assert done.stderr.splitlines()[0].startswith(f"gssr: no GPU is sampled: {expected}")
    assert run_of(tmp_path).run.exit_code == 5


class TestABrokenDriver:
    """It costs samples, never the workload, and what happened can be read."""

    @pytest.fixture
    def start(self, tmp_path, fake_driver):
        """Starts a run of some seconds whose driver obeys ``tmp_path / "command"``."""
        started = []

        def start_(seconds: float, code: int) -> subprocess.Popen:
            environ = fake_driver.environ(gpus=4, command=tmp_path / "command")
            script = f"sleep {seconds}; echo done; exit {code}"
            words = ["profile", "--backend", "gpm", "-t", "100", "-o", "a.sql", "--", "sh", "-c", script]
            started.append(
                subprocess.Popen(
                    [*GSSR, *words],
                    cwd=tmp_path,
                    env=environ,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            return started[-1]

        yield start_
        for process in started:
            process.kill()
            process.communicate()

    def test_a_crash_is_said_and_the_workload_goes_on(self, tmp_path, start):
        process = start(3, 9)
        time.sleep(1.5)
        (tmp_path / "command").write_text("crash")
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (9, "done\n")
        assert err == "gssr: recording stopped: the sampler was killed by signal 11; the workload runs on\n"
        reader = run_of(tmp_path)
        assert reader.state == "lost" and reader.n_rows > 4
        told = messages(reader)
        assert told["backend_lost"] == ["recording stopped: the sampler was killed by signal 11"]
        assert told["end"] == ["the workload ended: failed, exit code 9"]
        assert sum(bucket[0] for bucket in reader.buckets().vectors) == reader.n_rows

    def test_one_that_hangs_from_the_start_does_not_delay_the_end(self, tmp_path, start):
        (tmp_path / "command").write_text("hang")
        out, err = start(0, 3).communicate(timeout=40)
        assert out == "done\n"
        assert "gssr: no GPU is sampled: gpm, asked " in err
        assert "still being finished" not in err
        reader = run_of(tmp_path)
        assert (reader.state, reader.run.exit_code, reader.n_rows) == ("failed", 3, 0)
        assert "has not answered by the end of the workload" in messages(reader)["backend"][0]

    def test_one_that_is_slow_to_open_is_sampled_from_then_on_and_the_host_meanwhile(self, tmp_path, start):
        (tmp_path / "command").write_text("hang")
        process = start(60, 0)
        wait_until(lambda: count(tmp_path, "host_samples") >= 2)
        assert count(tmp_path, "samples") == 0
        os.remove(tmp_path / "command")
        wait_until(lambda: count(tmp_path, "samples") >= 8)
        process.terminate()
        _, err = process.communicate(timeout=40)
        assert "not answer" not in err
        assert [event.kind for event in run_of(tmp_path).events].count("backend") == 1

    def test_a_hang_is_said_and_everything_else_recorded(self, tmp_path, start):
        process = start(6, 4)
        time.sleep(1.5)
        (tmp_path / "command").write_text("hang 2")
        began = time.time()
        out, err = process.communicate(timeout=40)
        assert (process.returncode, out) == (4, "done\n")
        assert time.time() - began < 8
        assert "gssr: NVIDIA's driver has not answered for 3 s: it is not waited for\n" in err
        reader = run_of(tmp_path)
        assert (reader.state, reader.run.exit_code) == ("failed", 4)
        assert "NVIDIA's driver has not answered" in messages(reader)["backend_lost"][0]
        with sqlite3.connect(tmp_path / "a.sql") as connection:
            (last,) = connection.execute("SELECT max(time) FROM host_samples").fetchone()
        assert reader.run.ended_at - last < 2.5  # the host went on being recorded

    def test_one_that_answers_again_is_sampled_again(self, tmp_path, start):
        process = start(7, 0)
        time.sleep(1.5)
        (tmp_path / "command").write_text("hang")
        time.sleep(4)
        os.remove(tmp_path / "command")
        assert process.wait(timeout=30) == 0
        kinds = [event.kind for event in run_of(tmp_path).events if event.kind.startswith("backend_")]
        assert kinds == ["backend_lost", "backend_back"]
        for rows in columns(tmp_path, "sm_active").values():
            assert run_of(tmp_path).run.ended_at - rows[-1, 0] < 0.3
