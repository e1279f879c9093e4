"""The commands that need nothing: demo and doctor."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from gssr.backends import BACKENDS

GSSR = [sys.executable, "-m", "gssr"]


def gssr(*words: str, cwd: Path, **settings) -> subprocess.CompletedProcess:
    return subprocess.run([*GSSR, *words], cwd=cwd, capture_output=True, text=True, timeout=60, **settings)


def diagnosis(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    """Doctor's findings about GPUs and backends: what was looked at, and verdict, details and cure in one text."""
    done = gssr("doctor", cwd=tmp_path, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout.replace("\n     ", " ")
    found = [line.split(None, 1) for line in text.splitlines()]
    lines = {}
    for verdict, rest in found:
        what = " ".join(rest.split()[: 2 if rest.startswith("backend") else 1])
        lines[what] = f"{verdict} {' '.join(rest[len(what) :].split())}"
    return lines


def test_demo_ends_with_the_page_and_leaves_nothing(tmp_path):
    done = gssr("demo", "-m", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("GSSR score=0.")
    assert os.listdir(tmp_path) == []


def test_demo_advises_no_command_on_what_is_gone_with_it(tmp_path):
    page = " ".join(gssr("demo", "-m", "6", "--scenario", "imbalanced:4", cwd=tmp_path).stdout.split())
    assert "This shows which GPUs do most: $ gssr analyze --terminal -plb FILE" in page


def test_demo_keeps_the_recording_where_it_is_wanted(tmp_path):
    assert gssr("demo", "-m", "0.5", "--scenario", "idle:2", "-o", "demo.sql", cwd=tmp_path).returncode == 0
    assert os.listdir(tmp_path) == ["demo.sql"]
    again = gssr("demo", "-m", "0.5", "-o", "demo.sql", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, "gssr: -o demo.sql: exists: choose another name\n")


def test_demo_says_what_it_does_not_know(tmp_path):
    done = gssr("demo", "--scenario", "nonsense", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("gssr: --scenario: ") and "nonsense" in done.stderr
    assert gssr("demo", "-m", "0", cwd=tmp_path).returncode == 2


def test_doctor_speaks_of_a_folder_that_is_gone(tmp_path):
    words = [sys.executable, "-P", "-m", "gssr", "doctor"]
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    found = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        ["bash", "-c", script, "-", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, env=found
    )
    assert done.returncode == 0 and "is gone: No such file or directory" in done.stdout


def test_doctor_speaks_of_every_backend_and_of_the_folder(tmp_path):
    done = gssr("doctor", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    for kind in BACKENDS:
        assert f"backend {kind.name}" in done.stdout
    assert "journal mode" in done.stdout and "GPUs" in done.stdout


def test_doctor_without_a_driver_says_where_to_run(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").touch()  # in the way of any real one
    found = diagnosis(tmp_path, dict(os.environ) | {"LD_LIBRARY_PATH": str(tmp_path)})
    assert found["GPUs"].startswith("no NVIDIA's driver can't be used")
    assert found["GPUs"].endswith(
        "-> run on a node with NVIDIA GPUs and their driver; if it is there, name its folder in LD_LIBRARY_PATH"
    )
    assert found["backend gpm"] == found["backend nvml"] == "no needs NVIDIA's driver: see GPUs"
    assert found["backend dcgm"].startswith("no ")
    assert found["backend dcgm"].endswith("-> make NVIDIA's driver work first: see GPUs above"), (
        "an engine alone helps nobody"
    )
    assert found["backend auto"].endswith("here: host metrics only")
    assert found["backend synthetic"].startswith("ok ")


def test_doctor_with_bindings_but_no_engine_says_what_to_start(tmp_path, fake_driver):
    bindings = Path(__file__).parent.parent / "fakes" / "dcgm" / "bindings4"
    environ = fake_driver.environ(gpus=2) | {"DCGM_BINDINGS": str(bindings), "DCGM_HOST": f"unix://{tmp_path}/none"}
    found = diagnosis(tmp_path, environ)
    assert found["backend dcgm"] == (
        f"no no hostengine answers on unix://{tmp_path}/none -> start nv-hostengine there, or unset DCGM_HOST"
    )
    assert found["backend auto"].endswith("here: gpm")


def test_doctor_speaks_of_a_pythonhome_before_it_ends_a_job(tmp_path):
    done = gssr("doctor", cwd=tmp_path, env=os.environ | {"PYTHONHOME": sys.base_prefix, "COLUMNS": "300"})
    note, cure = [line for line in done.stdout.splitlines() if "PYTHONHOME" in line]
    assert note.startswith("note") and f"gssr profile -- env PYTHONHOME={sys.base_prefix} COMMAND" in cure
    assert "PYTHONHOME" not in gssr("doctor", cwd=tmp_path).stdout


def test_doctor_folds_its_lines_on_a_terminal_only(tmp_path):
    """A terminal of 60 columns; a pipe has a line for each finding."""
    (tmp_path / "libnvidia-ml.so.1").touch()
    environ = dict(os.environ) | {"LD_LIBRARY_PATH": str(tmp_path), "TERM": "dumb"}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with subprocess.Popen([*GSSR, "doctor"], cwd=tmp_path, env=environ, stdout=slave, stdin=slave) as process:
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 1 << 16):
                shown += piece
        except OSError:
            pass  # how a terminal ends
        os.close(master)
    assert process.returncode == 0
    lines = shown.decode().splitlines()
    assert max(len(line) for line in lines if "/" not in line) <= 60, "all but paths, which are not broken"
    piped = gssr("doctor", cwd=tmp_path, env=environ).stdout
    assert " ".join(shown.decode().split()) == " ".join(piped.split())


def test_doctor_on_hopper_finds_gpm(tmp_path, fake_driver):
    found = diagnosis(tmp_path, fake_driver.environ(gpus=8) | {"CUDA_VISIBLE_DEVICES": "0,1"})
    assert found["GPUs"] == "ok 8 GPUs (NVIDIA H100 FAKE), driver 550.54.15; the launcher gives this process 0, 1"
    assert found["backend gpm"] == "ok profiling metrics of 8 GPUs, without a daemon"
    assert found["backend nvml"].startswith("ok ") and "no score" in found["backend nvml"]
    assert found["backend auto"].endswith("here: gpm")


def test_doctor_explains_what_can_not_be_profiled(tmp_path, fake_driver):
    found = diagnosis(tmp_path, fake_driver.environ(gpm=0, arch=7))
    assert found["backend gpm"].startswith("no no GPU here has it: that takes Hopper or newer -> use DCGM")
    assert found["backend auto"].endswith("here: nvml")
    found = diagnosis(tmp_path, fake_driver.environ(no_permission=1))
    assert (
        "only administrators" in found["backend gpm"]
        and "NVreg_RestrictProfilingToAdminUsers=0" in found["backend gpm"]
    )


def test_doctor_survives_a_driver_that_crashes(tmp_path, fake_driver):
    (tmp_path / "command").write_text("crash")
    found = diagnosis(tmp_path, fake_driver.environ(command=tmp_path / "command"))
    assert found["GPUs"].startswith("no a driver library crashed with signal 11")
    assert found["backend synthetic"].startswith("ok ")
