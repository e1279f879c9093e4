"""What --dry-run says of a recording is what that recording becomes, and it leaves no trace."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from supervised import ROOT

from gssr.backends.synthetic import MEASURES
from gssr.backends.synthetic.bulk import generate
from gssr.metrics import NAMES
from gssr.profile.dry_run import Forecast, core_share
from gssr.store.write.thinning import KEEPS

NEAR = 0.25
"""Predicted sizes are within this of those that come about."""


def profile(folder, *arguments, environ=None) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "gssr", "profile", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    environment |= {"PYTHONPATH": str(ROOT)} | (environ or {})
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_the_predicted_size_is_that_of_a_real_recording(tmp_path):
    wanted = (NAMES, NAMES[:10], ("sm_active", "power_usage"))

    def record(number: int) -> subprocess.CompletedProcess:
        return profile(
            tmp_path, "--backend", "synthetic:train:8", "-t", "20", "--metrics", ",".join(wanted[number]), "-o",
            f"{number}.sql", "--no-summary", "--", "sleep", "6",
        )  # fmt: skip

    with ThreadPoolExecutor() as side_by_side:
        assert [(done.returncode, done.stderr) for done in side_by_side.map(record, range(3))] == [(0, "")] * 3
    for number, metrics in enumerate(wanted):
        path = tmp_path / f"{number}.sql"
        with closing(sqlite3.connect(path)) as connection:
            n, first, last = connection.execute("SELECT count(*), min(time), max(time) FROM samples").fetchone()
            (names,) = connection.execute("SELECT length(run_id) + length(node) FROM host_samples").fetchone()
        n_metrics = len(set(metrics) & set(MEASURES))
        forecast = Forecast(8, n_metrics, 8 * (last - first) / n, True, names)
        assert forecast.size("raw", last - first) == pytest.approx(path.stat().st_size, rel=NEAR), metrics


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("scenario", ["train", "imbalanced"])
def test_the_predicted_size_is_that_of_an_hour_however_it_is_kept(tmp_path, keep, scenario):
    generate(str(tmp_path / "a.sql"), scenario, 2, 1.0, 0.5, keep=keep)
    forecast = Forecast(2, len(MEASURES), 0.5, False, 0)
    beside = forecast.size(keep, 3600.0) - Forecast(0, 0, 0.5, False, 0).size(keep, 3600.0)
    size = (tmp_path / "a.sql").stat().st_size
    assert beside == pytest.approx(size, rel=NEAR)  # a generated recording has no host samples
    assert forecast.per_gpu(keep, 3600.0) == pytest.approx(size / 2, rel=NEAR)


def test_less_is_predicted_where_less_is_kept():
    forecast = Forecast(8, 25, 0.5, True, 20)
    for seconds in (3600.0, 86_400.0, 604_800.0):
        sizes = [forecast.size(keep, seconds) for keep in KEEPS]
        assert sizes == sorted(sizes, reverse=True)
    assert core_share(8, 0.1) == pytest.approx(0.0047, rel=NEAR)  # benchmarks/README.md


def test_nothing_is_started_or_written(tmp_path):
    done = profile(tmp_path, "--dry-run", "--backend", "synthetic:train:8", "--gpus", "0,3", "--", "touch", "trace")
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(tmp_path) == []
    for word in (
        "touch trace",
        "2 (Synthetic H100): 0, 3",
        f"{len(MEASURES)} of {len(NAMES)}",
        "500 ms",
        *KEEPS,
        "% of a core",
    ):
        assert word in done.stdout
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "16"}
    said = []
    for rank in ("0", "3"):
        environ = slurm | {"SLURM_PROCID": rank}
        done = profile(tmp_path, "--dry-run", "--backend", "synthetic", "-o", "a.sql", environ=environ)
        assert (done.returncode, done.stderr, os.listdir(tmp_path)) == (0, "", [])
        said.append(done.stdout)
    assert "rank 0 of 16" in said[0] and "a.sql.d/" in said[0] and said[1] == ""


def test_the_drivers_gpus_are_named_without_recording_them(tmp_path, fake_driver):
    environ = fake_driver.environ(gpus=2)
    done = profile(tmp_path, "--dry-run", "--", "true", environ=environ)
    assert (done.returncode, done.stderr, os.listdir(tmp_path)) == (0, "", [])
    assert "backend    gpm" in done.stdout and "dcgm not used: " in done.stdout
    assert "GPUs       2 (" in done.stdout
    done = profile(tmp_path, "--dry-run", "--backend", "nvml", "--gpus", "1", environ=environ)
    assert "backend    nvml" in done.stdout and "GPUs       1 (" in done.stdout and "SM active" in done.stdout


def test_what_would_be_refused_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    for arguments in (["-o", "notes.txt"], ["--metrics", "nonsense"], ["--backend", "nonsense"], ["-t", "0"]):
        done = profile(tmp_path, "--dry-run", *arguments, "--", "true")
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1


def test_without_a_gpu_the_host_is_what_is_recorded(tmp_path):
    done = profile(tmp_path, "--dry-run", "--backend", "nvml", environ={"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 0
    if "host metrics only" in done.stdout:
        assert "GPUs       none" in done.stdout
        assert "a GPU's hour" not in done.stdout
