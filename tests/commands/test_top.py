"""``gssr top``: a node as it is now, as a table, and without a trace afterwards."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import forked
import pytest

from gssr.commands import top as top_module
from gssr.metrics import NAMES
from gssr.profile import monitor as monitor_module
from gssr.profile.monitor import Monitor, monitor
from gssr.store.format.rows import Gpu
from gssr.store.read.newest import GpuNow, NodesNow
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
SYNTHETIC = ("--backend", "synthetic:train:3", "-t", "100")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where recordings of the moment are made: nothing may be left there. No settings of whoever runs the tests."""
    folder = tmp_path / "room"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return folder


def top(*words: str, environ: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "gssr", "top", *words]
    variables = os.environ | (environ or {})
    return subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )


def n_rows(path: str) -> int:
    try:
        return open_recording(path).runs[-1].n_rows
    except (RecordingError, OSError):
        return 0


def test_once_is_one_table_in_a_pipe(room: Path) -> None:
    done = top("--once", *SYNTHETIC)
    assert (done.returncode, done.stderr) == (0, "")
    title, *lines = done.stdout.splitlines()
    assert title.split() == ["GPU", "util", "%", "SM", "%", "tensor", "%", "DRAM", "%", "memory", "GiB", "power", "W",
                             "°C", "MHz", "processes"]  # fmt: skip
    node = os.uname().nodename
    assert [line.split()[0] for line in lines[:3]] == [f"{node}:{gpu}" for gpu in range(3)]
    assert all(re.search(r" \d+\.\d/80\.0 +\d+/700 +\d+ +\d+  -$", line) for line in lines[:3])
    assert lines[3] == "3 GPUs (Synthetic H100), by synthetic" and lines[4].startswith(f"{node}:  CPU ")
    assert all(len(line) <= 120 and "\x1b" not in line for line in done.stdout.splitlines())
    assert not os.listdir(room)


def test_json_and_csv_hold_all_of_the_drivers_gpus(room: Path, tmp_path: Path, fake_driver) -> None:
    (tmp_path / "processes").write_text(f"1 0 {os.getpid()} 512 40 c\n1 0 1 1024 10 b\n")
    environ = fake_driver.environ(gpus=2, not_supported=100, processes=tmp_path / "processes")
    found = json.loads(top("--json", "-t", "200", "--gpus", "1", environ=environ).stdout)
    assert found["schema"] == "gssr.top/1" and abs(found["time"] - time.time()) < PATIENCE
    (gpu,) = found["gpus"]
    assert set(NAMES) < set(gpu) and gpu["device_index"] == 1 and gpu["gpu"] == f"{found['node']}:1"
    assert 0 < gpu["sm_active"] <= 1 and gpu["c2c_tx_bytes"] is None and isinstance(gpu["memory_used"], int)
    first, second = gpu["processes"]
    assert (first["pid"], first["memory_used"]) == (1, 1 << 30) and second["pid"] == os.getpid()
    assert second["name"] == Path("/proc/self/comm").read_text().strip() and second["user"]
    assert 0 <= found["host"]["cpu_utilization"] <= 1
    rows = list(csv.DictReader(io.StringIO(top("--csv", "-t", "200", environ=environ).stdout)))
    assert [row["device_index"] for row in rows] == ["0", "1"]
    assert float(rows[0]["sm_active"]) > 0 and rows[0]["c2c_tx_bytes"] == ""
    assert [row["processes"] for row in rows] == ["0", "2"]
    table = top("--once", "-t", "200", environ=environ).stdout.splitlines()
    assert table[0].endswith("processes") and table[1].endswith(" none") and table[2].endswith(" 1 +1"), table
    assert not os.listdir(room)


def test_before_hopper_what_is_not_measured_is_a_dash(room: Path, fake_driver) -> None:
    done = top("--once", "-t", "100", environ=fake_driver.environ(gpus=1, arch=7, gpm=0))
    line = done.stdout.splitlines()[1]
    assert done.returncode == 0 and re.match(r"\S+:0 +\d+\.\d +- +- +- ", line), done.stdout
    assert "gpm not used" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not os.listdir(room)


def test_a_node_without_a_gpu_is_said_in_a_sentence_and_shown(room: Path) -> None:
    done = top("--once", "--backend", "gpm")
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and "no GPU is sampled" in done.stderr
    assert done.stdout.startswith(f"{os.uname().nodename}:  CPU ")
    assert json.loads(top("--json", "--backend", "gpm").stdout)["gpus"] == []
    assert not os.listdir(room)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "gssr top --once"),
        (("--json", "--csv"), "one of them"),
        (("--once", "-t", "0"), "--sampling-time"),
        (("--once", "--backend", "dcgm:pause"), "is for gssr profile"),
        (("--once", "--backend", "dgcm"), "unknown backend"),
        (("--once", "--screen", "gpu"), "did you mean gpus"),
        (("--once", "--screen", "calls"), "a screen of traces"),
        (("--once", "--metric", "tensr_active"), "did you mean tensor_active"),
        (("--once", "--window", "5x"), "no length of time"),
        (("--once", "--gpus", ","), "no GPU named"),
        (("--once", *SYNTHETIC, "--gpus", "7"), "it has"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(room: Path, words: tuple[str, ...], why: str) -> None:
    done = forked.gssr("top", *words, cwd=room.parent)
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr and len(done.stderr.splitlines()) == 1
    assert not os.listdir(room)


def test_two_at_once_have_nothing_in_common(room: Path) -> None:
    with monitor(100.0, "synthetic:train:1") as one:
        with monitor(100.0, "synthetic:train:2") as other:
            assert one.path != other.path and len(os.listdir(room)) == 2
            assert all(stat.S_IMODE(os.stat(os.path.dirname(own.path)).st_mode) == 0o700 for own in (one, other))
            until(lambda: n_rows(one.path) > 2 and n_rows(other.path) > 2, "samples")
        before = n_rows(one.path)
        until(lambda: n_rows(one.path) > before, "samples after the other's end")
    assert not os.listdir(room)


@pytest.mark.usefixtures("room")
def test_who_is_in_a_hurry_gets_the_host_with_each_sample_at_once() -> None:
    with monitor(200.0, "synthetic:train:1", hurried=True) as own:

        def n_host() -> int:
            with contextlib.closing(sqlite3.connect(f"file:{own.path}?mode=ro", uri=True)) as connection:
                return int(connection.execute("SELECT count(cpu_utilization) FROM host_samples").fetchone()[0])

        until(lambda: n_rows(own.path) >= 1 and n_host() >= 2, "the host's samples")
        assert n_rows(own.path) < 8, "once a second would be ten samples"


@pytest.mark.parametrize(
    ("backend", "n", "sm_active", "told"),
    [("nvml", 1, None, False), ("nvml", 2, None, True), ("gpm", 2, 0.5, True), ("dcgm", 2, None, False),
     ("dcgm", 2, 0.5, True), ("dcgm", 3, None, True)],
)  # fmt: skip
def test_two_readings_are_enough_but_for_dcgms_profiling(backend: str, n: int, sm_active: float, told: bool) -> None:
    unknown = dict.fromkeys(Gpu._fields) | {"gpu": 0, "run_id": "r", "node": "n", "backend": backend}
    gpu = GpuNow(Gpu(**unknown), 1.0, n, {"sm_active": sm_active}, None)
    assert top_module._all_told(NodesNow(1.0, [gpu], {"n": {}})) is told


ALONE = """
import sys, time
from gssr.profile.monitor import monitor
with monitor(50.0, "synthetic:train:2") as own:
    print(own.path, own._recorder.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def alone() -> "Iterator[subprocess.Popen[str]]":
    """Another process with a monitor, which prints its path and its sampler's pid."""
    process = subprocess.Popen([sys.executable, "-c", ALONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def test_a_killed_ones_sampler_leaves_nothing(room: Path, alone: "subprocess.Popen[str]") -> None:
    assert alone.stdout is not None
    path = alone.stdout.readline().split()[0]
    until(lambda: n_rows(path) > 2, "samples")
    alone.kill()
    until(lambda: not os.listdir(room), "the end")


def test_what_a_killed_one_leaves_the_next_removes_and_nothing_else(room: Path, alone: "subprocess.Popen[str]") -> None:
    assert alone.stdout is not None
    path, sampler = alone.stdout.readline().split()
    until(lambda: n_rows(path) > 2, "samples")
    with monitor(100.0, "synthetic:train:1"):
        assert os.path.exists(path), "of a process that is still there"
    alone.kill()
    os.kill(int(sampler), signal.SIGKILL)
    alone.wait()
    own = room / "gssr-top-results"
    own.mkdir(mode=0o700)
    (own / "mine").touch()
    (room / "gssr-top-link").symlink_to(own)
    assert os.path.exists(path)
    with monitor(100.0, "synthetic:train:1") as there:
        assert sorted(os.listdir(room)) == sorted(
            ["gssr-top-results", "gssr-top-link", os.path.basename(os.path.dirname(there.path))]
        )
    assert os.listdir(own) == ["mine"]


def test_a_recording_that_is_full_is_begun_anew(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "MOST_BYTES", 400_000)
    with monitor(10.0, "synthetic:train:8") as own:
        most, said = 0, []

        def two_are_full() -> bool:
            nonlocal most
            said.extend(own.lines() or [])
            with contextlib.suppress(FileNotFoundError):
                most = max(most, os.path.getsize(own.path))
            return len(said) >= 2

        until(two_are_full, "two full recordings")
        assert most < 1_500_000 and all("forgotten" in line for line in said)
        until(lambda: n_rows(own.path) > 8, "samples again")
    assert not os.listdir(room)


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777])
def test_a_runtime_folder_that_others_share_is_not_used(
    room: Path, tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.chmod(mode)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monitor(100.0, "synthetic:train:1") as own:
        assert Path(own.path).parents[1] == tmp_path


def test_a_temporary_folder_in_which_others_could_replace_it_is_refused(room: Path, tmp_path: Path) -> None:
    room.rmdir()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)  # and not sticky
    done = top("--once", *SYNTHETIC, environ={"TMPDIR": str(shared)})
    assert done.returncode == 1 and f"{shared}: others could replace" in done.stderr and "TMPDIR" in done.stderr
    assert not os.listdir(shared)


def test_a_sampler_that_is_stuck_is_not_waited_for(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "_END_SECONDS", 0.2)
    with monitor(100.0, "synthetic:train:1") as own:
        until(lambda: n_rows(own.path) > 0, "samples")
        assert isinstance(own, Monitor) and own._recorder.pid is not None
        os.kill(own._recorder.pid, signal.SIGSTOP)
    assert not os.listdir(room)
