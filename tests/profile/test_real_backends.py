"""``gssr profile`` on a driver whose values are known: what is stored, what is lost, and what a broken driver does."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gssr.backends.gpm import PROFILED
from gssr.store.read.recording import open_recording
from tests.waiting import UNTIL_GO, until

GSSR = [sys.executable, "-m", "gssr"]


def run_of(folder: Path):
    return open_recording(folder / "a.sql").runs[0]


def count(folder: Path, table: str) -> int:
    """Rows that are committed."""
    try:
        with sqlite3.connect(f"file:{folder}/a.sql?mode=ro", uri=True) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.Error:
        return 0  # not begun yet


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


@pytest.fixture
def started(tmp_path):
    """Starts recordings whose workload runs until there is a file ``go``, and ends them with the test."""
    running = []

    def start(environ: dict[str, str], *words: str, code: int = 0, interval: int = 200) -> subprocess.Popen[str]:
        script = f"{UNTIL_GO}; echo done; exit {code}"
        command = [*GSSR, "profile", "-t", str(interval), "-o", "a.sql", *words, "-w", script]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=pipe, stderr=pipe, text=True))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def fewest(folder: Path, gpus: int, since: float = 0.0) -> int:
    """How many samples there are by now of the GPU of ``gpus`` that has the fewest, taken after ``since``."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/a.sql?mode=ro", uri=True)) as connection:
            query = "SELECT count(*) FROM samples WHERE time > ? GROUP BY gpu"
            counts = [n for (n,) in connection.execute(query, (since,))]
    except sqlite3.Error:
        return 0
    return min(counts) if len(counts) == gpus else 0


def is_answered(folder: Path) -> bool:
    """Whether it is known by now what the driver offers."""
    return count(folder, "events WHERE kind = 'backend'") > 0


def ended(folder: Path, process: subprocess.Popen[str]) -> tuple[int, str]:
    """Let a recording end; its exit code and what it said."""
    (folder / "go").touch()
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def test_every_stored_mean_is_the_drivers(tmp_path, fake_driver, started):
    process = started(fake_driver.environ(gpus=8), "--backend", "gpm", code=3)
    until(lambda: fewest(tmp_path, 8) >= 20, "samples")
    code, said = ended(tmp_path, process)
    assert code == 3 and said.startswith("gssr: GSSR score=0.") and "gpus=8 gaps=" in said
    series = columns(tmp_path, *[metric.name for metric in PROFILED])
    assert sorted(series) == list(range(8))
    for gpu, rows in series.items():
        off = []
        for before, row in pairwise(rows):
            exact = [
                fake_driver.expected(gpu, metric.gpm, before[0], row[0]) * metric.gpm_factor for metric in PROFILED
            ]
            # Some come near zero, where the least shift in time is many per cent: there 1 % of their mean, 0.01, counts.
            off.append(row[1:] != pytest.approx(exact, rel=0.01, abs=1e-4))
        assert sum(off) <= len(off) / 4  # where the machine stood still between a sample and its time
        span = rows[0, 0], rows[-1, 0]
        whole = [fake_driver.expected(gpu, metric.gpm, *span) * metric.gpm_factor for metric in PROFILED]
        seconds = np.diff(rows[:, 0])  # a busy machine's ticks are not all alike
        near = 0.02 if any(off) else 0.002
        # As above: of what comes near zero, the same share of the mean 0.01 counts.
        assert seconds @ rows[1:, 1:] / seconds.sum() == pytest.approx(whole, rel=near, abs=near * 0.01)


def test_a_gpu_lost_in_mid_run_leaves_the_others_complete(tmp_path, fake_driver, started):
    process = started(fake_driver.environ(gpus=8, command=tmp_path / "command"), "--backend", "gpm", code=7)
    until(lambda: fewest(tmp_path, 8) >= 5, "samples of all")
    replace(tmp_path / "command", "lose 5")
    lost = time.time()
    until(lambda: fewest_of_others(tmp_path, 5, lost) >= 8, "samples of the others")
    code, said = ended(tmp_path, process)
    reader = run_of(tmp_path)
    ((message),) = messages(reader)["gpu_lost"]
    assert code == 7 and "GPU is lost" in message and "gssr: GPU 5: " in said
    series = columns(tmp_path, "sm_active")
    end = max(rows[-1, 0] for rows in series.values())
    lengths = [len(rows) for gpu, rows in series.items() if gpu != 5]
    assert max(lengths) - min(lengths) <= 1
    for gpu, rows in series.items():
        if gpu == 5:
            assert rows[-1, 0] < lost + 0.01
        else:
            assert end - rows[-1, 0] < 0.2 and np.isnan(rows[1:, 1]).sum() <= len(rows) / 4


def fewest_of_others(folder: Path, lost: int, since: float) -> int:
    """As ``fewest``, of all GPUs but one."""
    series = columns(folder, "sm_active")
    return min((int((rows[:, 0] > since).sum()) for gpu, rows in series.items() if gpu != lost), default=0)


def replace(path: Path, text: str) -> None:
    """Write a file at once, so that nobody reads half of it."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def test_a_gpu_that_is_back_has_a_gap_and_two_events(tmp_path, fake_driver, started):
    process = started(fake_driver.environ(gpus=2, command=tmp_path / "command"), "--backend", "gpm")
    until(lambda: fewest(tmp_path, 2) >= 3, "samples of both")
    replace(tmp_path / "command", "lose 1")
    lost = time.time()
    until(lambda: fewest_of_others(tmp_path, 1, lost) >= 3, "samples of the other")
    (tmp_path / "command").unlink()
    until(lambda: fewest(tmp_path, 2, lost + 1) >= 5, "samples of both again")
    assert ended(tmp_path, process)[0] == 0
    reader = run_of(tmp_path)
    told = [event.kind for event in reader.events if event.gpu is not None]
    assert [kind for kind in told if kind != "xid"] == ["gpu_lost", "gpu_back"]
    rows = columns(tmp_path, "sm_active", "power_usage")[1]
    back = rows[rows[:, 0] > lost][0]
    assert back[0] - rows[rows[:, 0] <= lost][-1, 0] > 0.6
    assert np.isnan(back[1]) and back[2] > 0  # no mean over a time in which nobody counted


def test_older_gpus_get_nvml_and_an_unknown_score(tmp_path, fake_driver, started):
    process = started(fake_driver.environ(gpus=2, gpm=0, arch=7))
    until(lambda: fewest(tmp_path, 2) >= 2, "samples")
    code, said = ended(tmp_path, process)
    assert code == 0
    first, *_, result, _where = said.splitlines()
    assert first.startswith("gssr: nvml: the score will be unknown, its inputs are not measured; dcgm not used: ")
    assert result.startswith("gssr: GSSR score=unknown imbalance=unknown gpus=2 gaps=")
    reader = run_of(tmp_path)
    (backend,) = messages(reader)["backend"]
    assert backend.startswith("nvml: 2 GPUs; not measured: ") and "SM active" in backend
    assert "dcgm not used: " in backend and "gpm not used: no GPU here has it: that takes Hopper or newer" in backend
    rows = columns(tmp_path, "sm_active", "tensor_active", "gpu_utilization", "power_usage")
    assert np.isnan(rows[0][:, 1:3]).all() and (rows[0][:, 3:] > 0).all()
    page = subprocess.run([*GSSR, "analyze", "a.sql"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert page.returncode == 0 and "score=unknown" in page.stdout


def test_auto_takes_gpm_on_hopper_and_says_why_not_dcgm(tmp_path, fake_driver, started):
    process = started(fake_driver.environ(gpus=2))
    until(lambda: is_answered(tmp_path), "the driver")
    assert ended(tmp_path, process)[0] == 0
    (backend,) = messages(run_of(tmp_path))["backend"]
    assert backend.startswith("gpm: 2 GPUs; dcgm not used: ")
    assert [gpu.backend for gpu in run_of(tmp_path).gpus] == ["gpm", "gpm"]


def test_mig_instances_are_gpus_of_their_own(tmp_path, fake_driver, started):
    environ = fake_driver.environ(gpus=2, mig="0:3")
    process = started(environ, "--backend", "gpm")
    until(lambda: fewest(tmp_path, 4) >= 7, "samples")
    assert ended(tmp_path, process)[0] == 0
    gpus = run_of(tmp_path).gpus
    assert [(gpu.device_index, gpu.mig is not None) for gpu in gpus] == [(0, True)] * 3 + [(1, False)]
    assert len({gpu.uuid for gpu in gpus}) == 4
    rows = columns(tmp_path, "sm_active", "memory_used", "power_usage")
    for gpu, instance in ((0, 1), (1, 2), (2, 3)):
        off = 0
        for before, row in pairwise(rows[gpu][1:]):
            exact = fake_driver.expected(0, 2, before[0], row[0], instance) / 100
            off += row[1] != pytest.approx(exact, rel=0.01)
            assert row[2] > 0 and np.isnan(row[3])
        assert off <= len(rows[gpu]) / 4


@pytest.mark.parametrize(
    ("visible", "words", "chosen"),
    [
        ("GPU-fa4e0000-0000-4000-8000-000000000003,1", ("--backend", "gpm"), [1, 2]),
        ("", ("--backend", "nvml", "--gpus", "GPU-fa4e0000-0000-4000-8000-000000000004"), [3]),
    ],
)
def test_gpus_are_the_launchers_and_chosen_by_uuid(tmp_path, fake_driver, started, visible, words, chosen):
    environ = fake_driver.environ(gpus=4) | ({"CUDA_VISIBLE_DEVICES": visible} if visible else {})
    process = started(environ, *words)
    until(lambda: is_answered(tmp_path), "the driver")
    assert ended(tmp_path, process)[0] == 0
    assert [gpu.device_index for gpu in run_of(tmp_path).gpus] == chosen


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"no_permission": 1}, "gpm: the driver lets only administrators profile; the administrator can set"),
        ({"gpm": 0}, "gpm: no GPU here has it: that takes Hopper or newer; use DCGM, or --backend nvml"),
        ({"gpus": 0}, "NVIDIA's driver shows this process no GPU"),
    ],
)
def test_what_a_backend_can_not_do_is_one_line_and_the_workload_runs(
    tmp_path, fake_driver, started, settings, expected
):
    process = started(fake_driver.environ(**settings), "--backend", "gpm", code=5)
    until(lambda: is_answered(tmp_path), "the driver")
    code, said = ended(tmp_path, process)
    assert code == run_of(tmp_path).run.exit_code == 5
    assert said.splitlines()[0].startswith(f"gssr: no GPU is sampled: {expected}")


class TestABrokenDriver:
    """It costs samples, never the workload, and what happened can be read."""

    @pytest.fixture
    def start(self, tmp_path, fake_driver, started):
        """Starts a recording whose driver obeys ``tmp_path / "command"``."""

        def start_(code: int) -> subprocess.Popen[str]:
            environ = fake_driver.environ(gpus=4, command=tmp_path / "command")
            return started(environ, "--backend", "gpm", code=code, interval=100)

        return start_

    def test_a_crash_is_said_and_the_workload_goes_on(self, tmp_path, start):
        process = start(9)
        until(lambda: fewest(tmp_path, 4) >= 2, "samples")
        replace(tmp_path / "command", "crash")
        until(lambda: run_of(tmp_path).state == "lost", "the crash")
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (9, "done\n")
        assert err == "gssr: recording stopped: the sampler was killed by signal 11; the command runs on\n"
        until(lambda: "end" in messages(run_of(tmp_path)), "the last words, which are not waited for long")
        reader = run_of(tmp_path)
        assert reader.state == "lost" and reader.n_rows > 4
        told = messages(reader)
        assert told["backend_lost"] == ["recording stopped: the sampler was killed by signal 11"]
        assert told["end"] == ["the command ended: failed, exit code 9"]
        assert sum(bucket[0] for bucket in reader.buckets().vectors) == reader.n_rows

    def test_one_that_hangs_from_the_start_does_not_delay_the_end(self, tmp_path, start):
        (tmp_path / "command").write_text("hang")
        (tmp_path / "go").touch()
        out, err = start(3).communicate(timeout=60)
        assert out == "done\n"
        assert "gssr: no GPU is sampled: gpm, asked " in err
        assert "still being finished" not in err
        reader = run_of(tmp_path)
        assert (reader.state, reader.run.exit_code, reader.n_rows) == ("failed", 3, 0)
        assert "has not answered by the end of the command" in messages(reader)["backend"][0]

    def test_one_that_is_slow_to_open_is_sampled_from_then_on_and_the_host_meanwhile(self, tmp_path, start):
        (tmp_path / "command").write_text("hang")
        process = start(0)
        until(lambda: count(tmp_path, "host_samples") >= 2, "the host's samples")
        assert count(tmp_path, "samples") == 0
        os.remove(tmp_path / "command")
        until(lambda: count(tmp_path, "samples") >= 8, "samples")
        process.terminate()
        _, err = process.communicate(timeout=40)
        assert "not answer" not in err
        assert [event.kind for event in run_of(tmp_path).events].count("backend") == 1

    def test_a_hang_is_said_and_everything_else_recorded(self, tmp_path, start):
        process = start(4)
        until(lambda: fewest(tmp_path, 4) >= 2, "samples")
        replace(tmp_path / "command", "hang 2")
        until(lambda: "backend_lost" in messages(run_of(tmp_path)), "the hang to be noticed")
        n_host = count(tmp_path, "host_samples")
        until(lambda: count(tmp_path, "host_samples") >= n_host + 2, "the host to be recorded further on")
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (4, "done\n")
        assert "gssr: NVIDIA's driver has not answered for 3 s: it is not waited for\n" in err
        reader = run_of(tmp_path)
        assert (reader.state, reader.run.exit_code) == ("failed", 4)
        assert "NVIDIA's driver has not answered" in messages(reader)["backend_lost"][0]

    def test_one_that_answers_again_is_sampled_again(self, tmp_path, start):
        process = start(0)
        until(lambda: fewest(tmp_path, 4) >= 2, "samples")
        replace(tmp_path / "command", "hang")
        until(lambda: "backend_lost" in messages(run_of(tmp_path)), "the hang to be noticed")
        os.remove(tmp_path / "command")
        back = time.time()
        until(lambda: fewest(tmp_path, 4, back) >= 5, "samples again")
        assert ended(tmp_path, process)[0] == 0
        kinds = [event.kind for event in run_of(tmp_path).events if event.kind.startswith("backend_")]
        assert kinds == ["backend_lost", "backend_back"]
