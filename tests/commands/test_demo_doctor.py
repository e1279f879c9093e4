"""The commands that need nothing: demo and doctor."""

import os
import subprocess
import sys
from pathlib import Path

from gssr.backends import BACKENDS

GSSR = [sys.executable, "-m", "gssr"]


def gssr(*words: str, cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run([*GSSR, *words], cwd=cwd, capture_output=True, text=True, timeout=60)


def test_demo_ends_with_the_page_and_leaves_nothing(tmp_path):
    done = gssr("demo", "-m", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("GSSR score=0.")
    assert os.listdir(tmp_path) == []


def test_demo_keeps_the_recording_where_it_is_wanted(tmp_path):
    assert gssr("demo", "-m", "0.5", "--scenario", "idle:2", "-o", "demo.sql", cwd=tmp_path).returncode == 0
    assert os.listdir(tmp_path) == ["demo.sql"]
    again = gssr("demo", "-m", "0.5", "-o", "demo.sql", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, "gssr: -o demo.sql: exists: choose another name\n")


def test_demo_says_what_it_does_not_know(tmp_path):
    done = gssr("demo", "--scenario", "nonsense", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("gssr: --scenario: ") and "nonsense" in done.stderr
    assert gssr("demo", "-m", "0", cwd=tmp_path).returncode == 2


def test_doctor_speaks_of_every_backend_and_of_the_folder(tmp_path):
    done = gssr("doctor", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    for kind in BACKENDS:
        assert f"backend {kind.name}" in done.stdout
    assert "journal mode" in done.stdout and "GPUs" in done.stdout
