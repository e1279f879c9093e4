"""The checks on a real GPU, without one: on made-up recordings and on stand-ins for driver, nvidia-smi and PyTorch."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.on_gpu import __main__ as entry
from benchmarks.on_gpu import calls, checks, measure, phases, smi
from benchmarks.on_gpu.job import Job
from benchmarks.on_gpu.phases import Phase
from benchmarks.on_gpu.recorded import Recorded, read
from gssr.backends import driver
from gssr.backends.base import UnusableError
from gssr.metrics import NAMES
from gssr.peaks import peaks_of

pytestmark = pytest.mark.slow  # nothing of GSSR is tested here, but what measures it
ROOT = Path(__file__).parent.parent.parent
FAKES = Path(__file__).parent.parent / "fakes"
H100 = "NVIDIA H100 80GB HBM3"


def recorded(seconds: float = 10.0, name: str = H100, **values: float) -> Recorded:
    """A recording from 0 s on, every 0.1 s; what isn't named is missing, and so is the first of sm_active."""
    time_ = np.arange(0, seconds, 0.1)
    columns = {metric: np.full(len(time_), values.get(metric, np.nan)) for metric in NAMES}
    columns["sm_active"][0] = np.nan
    return Recorded(SimpleNamespace(name=name, backend="gpm"), time_, columns, 0.1)


def matmul(share: float) -> Phase:
    """10 s at that share of an H100's peak."""
    peak = peaks_of(H100)
    assert peak is not None
    return Phase("matmul", 0.0, 10.0, flops=10 * share * peak.tensor)


@pytest.mark.parametrize(("seen", "passed"), [(0.80, True), (0.95, True), (0.5, False), (1.4, False)])
def test_tensor_activity_is_held_against_the_products_that_were_done(seen, passed):
    (check,) = checks.tensor(recorded(tensor_active=seen, sm_clock=1755), [matmul(0.8), Phase("idle", 10, 20)])
    assert check.passed is passed
    assert "792 TFLOP/s at 1755 MHz = 0.800 of H100 SXM5's peak" in check.expected


def test_what_was_not_measured_or_has_no_known_peak_neither_passes_nor_fails():
    (check,) = checks.tensor(recorded(), [matmul(0.8)])
    assert (check.seen, check.passed, check.verdict) == ("not measured", None, "info")
    (check,) = checks.tensor(recorded(name="NVIDIA H100 FAKE", tensor_active=0.8), [matmul(0.8)])
    assert check.passed is None and "no peak known of NVIDIA H100 FAKE" in check.expected


def test_memory_traffic_is_held_against_the_bytes_that_were_moved():
    copy = Phase("copy", 0.0, 10.0, memory_bytes=10 * 3.0e12)
    assert [check.passed for check in checks.dram(recorded(dram_active=0.92), [copy])] == [True]
    assert [check.passed for check in checks.dram(recorded(dram_active=0.45), [copy])] == [False], "a factor of two"


def test_pcie_is_held_against_copies_in_its_own_direction():
    down = Phase("down", 0.0, 10.0, down_bytes=10 * 50e9)
    assert [c.passed for c in checks.links(recorded(pcie_rx_bytes=54e9, pcie_tx_bytes=1e9), [down])] == [True]
    (swapped,) = checks.links(recorded(pcie_rx_bytes=1e9, pcie_tx_bytes=54e9), [down])
    assert swapped.passed is False and "0.02 times" in swapped.seen


def test_energy_is_the_powers_integral():
    rows = recorded(power_usage=500.0)
    rows.values["energy"][:] = 1e6 + 500.0 * rows.time
    assert checks.energy(rows).passed
    rows.values["energy"][:] = 1e6 + 600.0 * rows.time
    assert checks.energy(rows).passed is False
    assert checks.energy(recorded()).passed is None


def test_spacing_says_what_came_and_what_did_not():
    rows = recorded(sm_active=0.5)
    assert checks.spacing(rows).passed
    rows.values["sm_active"][10::10] = np.nan
    check = checks.spacing(rows)
    assert check.passed is False and "max 200.0 ms; 9.1 % without" in check.seen
    assert checks.spacing(recorded(seconds=0.2)).passed is None


def test_a_chip_to_chip_link_is_only_believed_beside_grace():
    assert checks.c2c(recorded()).seen == "200 NULL, 0 zero, 0 above" and checks.c2c(recorded()).passed
    assert checks.c2c(recorded(c2c_tx_bytes=0.0, c2c_rx_bytes=0.0)).seen == "0 NULL, 200 zero, 0 above"
    assert checks.c2c(recorded(c2c_tx_bytes=5e9)).passed is False
    assert checks.c2c(recorded(name="NVIDIA GH200 480GB", c2c_tx_bytes=5e9)).passed is None


def test_readings_count_only_where_the_gpu_is_steady():
    rows = recorded(power_usage=600.0, memory_used=40.0 * (1 << 30), gpu_utilization=1.0, temperature=60, sm_clock=1700)
    at_start, settled, training = (
        smi.Reading(begin, begin + 0.2, power, 40.0 * (1 << 30), 1.0, 60.0, 1700.0)
        for begin, power in ((0.1, 90.0), (5.0, 630.0), (15.0, 90.0))
    )
    found = list(checks.against_smi(rows, [matmul(0.8), Phase("training", 10, 20)], [at_start, settled, training]))
    assert [check.passed for check in found] == [True] * 5
    assert found[0].seen == "600.0 against 630.0 W, median difference 30.00, 1 readings"
    off = settled._replace(power_usage=800.0, memory_used=None)
    power, memory, *_ = checks.against_smi(rows, [matmul(0.8)], [off])
    assert (power.passed, memory.passed) == (False, False) and "no pair in 1 readings" in memory.seen


def test_busy_and_idle_are_told_apart():
    idle, busy = Phase("idle", 0.0, 10.0), matmul(0.8)
    assert [check.passed for check in checks.activity(recorded(sm_active=0.99), [busy])] == [True]
    assert [check.passed for check in checks.activity(recorded(sm_active=0.99), [idle])] == [False]


class TestOnTheStandIns:
    """The driver's, nvidia-smi's and PyTorch's."""

    @pytest.fixture
    def machine(self, fake_driver, tmp_path, monkeypatch):
        """An environment with one GPU that has all three."""
        smi_ = tmp_path / "bin" / "nvidia-smi"
        smi_.parent.mkdir()
        smi_.write_text(
            "#!/bin/sh\ncase $3 in *instant*) echo 'Field \"power.draw.instant\" is not a valid field'; exit 2 ;; "
            "*,*) echo '501.2, 40000, 90, 60, [N/A]' ;; *) echo 501.2 ;; esac\n"
        )
        smi_.chmod(0o755)
        fake_driver.load(monkeypatch, gpus=2)
        environ = fake_driver.environ(gpus=2)
        for name, value in {
            "PATH": f"{smi_.parent}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": environ["LD_LIBRARY_PATH"],
            "PYTHONPATH": str(FAKES / "torch"),
        }.items():
            monkeypatch.setenv(name, value)

    @pytest.mark.usefixtures("machine")
    def test_nvidia_smi_is_read_also_where_it_lacks_a_field(self):
        with smi.Watch("GPU-a", every=0.05) as watch:
            end = time.monotonic() + 60
            while len(watch.readings) < 2 and time.monotonic() < end:
                time.sleep(0.05)
        assert watch.power == "power.draw" and len(watch.readings) >= 2
        assert watch.readings[0][2:] == (501.2, 40000 * (1 << 20), 0.9, 60.0, None)

    @pytest.mark.usefixtures("machine")
    def test_every_group_of_calls_is_timed_and_every_field_read(self):
        driver.start()
        try:
            gpu = calls.gpu_of(measure.my_gpu().uuid)
            timed = [check.what for check in calls.costs(gpu, repeats=2)]
            told = {check.what: check.seen for check in calls.fields(gpu, seconds=0.1)}
        finally:
            driver.stop()
        assert "cost of nvmlDeviceGetMemoryInfo_v2" in timed and timed[-1] == "cost of GPM: sample and all metrics"
        assert "cost of field values: 186 (power_usage)" in timed
        assert told["field 186: power, instantaneous (mW)"].startswith("u32 ")
        assert "stamps 0.0" in told["field 197: PCIe sent (bytes)"]

    @pytest.mark.usefixtures("machine")
    def test_the_workloads_do_what_they_count(self):
        code = (
            "import sys; from benchmarks.on_gpu import stencil as s, training as t\n"
            "t.MATRIX, t.COPY_BYTES, t.HOST_BYTES, t.WIDTH, t.TOKENS = 16, 4096, 4096, 8, 4\n"
            "t.DATA_EVERY, t.DATA_SECONDS, s.CUBE_BYTES, s.SECONDS = 0.05, 0.01, 32768, 0.1\n"
            "t.PHASES = {name: (phase, 0.1) for name, (phase, _) in t.PHASES.items()}\n"
            "(s if sys.argv[1] == 'stencil' else t).main(sys.argv[2:])\n"
        )
        for name, counted in (("training", 5), ("stencil", 2)):
            path = Path(f"{os.environ['PATH'].partition(':')[0]}/{name}.phases")
            environ = dict(os.environ) | {"PYTHONPATH": f"{ROOT}:{FAKES / 'torch'}"}
            subprocess.run([sys.executable, "-c", code, name, str(path)], check=True, env=environ, timeout=60)
            done = phases.read(path)
            assert sum(any(phase[3:]) for phase in done) == counted and all(phase.seconds > 0.09 for phase in done)

    @pytest.mark.usefixtures("machine")
    def test_a_job_is_recorded_on_its_gpu_and_its_sampler_watched(self, tmp_path, monkeypatch):
        workload = tmp_path / "some_workload.py"
        workload.write_text(
            "import sys, time; from pathlib import Path; from benchmarks.on_gpu.phases import Phase, append\n"
            "begin = time.time(); time.sleep(3); append(Path(sys.argv[1]), Phase('training', begin, time.time()))\n"
            "time.sleep(1)\n"
        )
        monkeypatch.setattr("benchmarks.on_gpu.job.ROOT", tmp_path)
        monkeypatch.setattr("benchmarks.on_gpu.job._BEGUN", 0.5)
        (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
        (tmp_path / "gssr").symlink_to(ROOT / "gssr")
        uuid = measure.my_gpu().uuid
        with Job(tmp_path, "train", uuid, "some_workload") as job:
            cost = job.cost("training")
            assert job.wait() == 0
        assert cost is not None and 0 < cost[0] < 50 and 10 < cost[1] < 60
        rows = read(job.recording)
        assert rows.gpu.uuid == uuid and rows.gpu.backend == "gpm" and len(rows.time) >= 10
        (phase,) = job.phases()
        assert rows.mean("power_usage", phase.begin, phase.end) == pytest.approx(500, abs=151)
        assert checks.energy(rows).passed and checks.spacing(rows).passed is not None


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("torch", f"{sys.executable} has no torch: name a Python that has in PYTHON"),
        ("nvidia-smi", "this machine has no NVIDIA driver (nvidia-smi is missing): run it on one with a GPU"),
        ("GPU", "no GPU: "),
    ],
)
def test_without_a_gpu_it_says_in_one_line_what_is_missing(tmp_path, monkeypatch, capsys, lacking, said):
    there = {*entry.MODULES.values()} - {lacking}
    monkeypatch.setattr(entry, "find_spec", lambda name: name in there or None)
    monkeypatch.setattr(entry.shutil, "which", lambda name: None if name == lacking else name)
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    monkeypatch.setattr("gssr.backends.nvml.driver.start", no_driver)
    assert entry.main([str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"on_gpu: {said}") and told.count("\n") == 1
    assert not (tmp_path / "out").exists()


def no_driver() -> None:
    raise UnusableError("no driver", "")


def test_the_script_without_an_output_is_wrong_usage():
    done = subprocess.run(["bash", ROOT / "benchmarks" / "on_gpu.sh"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "OUTDIR" in done.stderr
