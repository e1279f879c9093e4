"""--trace nsys: whatever nsys does, the command's output, exit code and signals are its own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gssr.store.read.recording import open_recording
from tests.forked import gssr

PATIENCE = 60.0
QUICK = ("--no-summary", "--backend", "synthetic:train:1", "-t", "100", "-o", "run.sql")
NSYS = Path(__file__).parents[1] / "fakes" / "nsys"
WORK = "echo out; echo err >&2; cat; exit 4"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    shutil.copy(NSYS, tmp_path / "bin" / "nsys")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def reports(path: Path) -> list[str]:
    return sorted(os.listdir(path / "run.traces"))


@pytest.mark.parametrize("mode", ["", "swallows code", "forks", "fails", "dies"])
def test_output_and_exit_code_are_the_commands(path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("MODE", mode)
    done = gssr("profile", *QUICK, "--trace", "nsys:5", "--", "sh", "-c", WORK, cwd=path)
    said = [line for line in done.stderr.splitlines() if line.startswith("gssr: --trace nsys: ")]
    assert (done.returncode, done.stdout) == (4, "out\n")
    assert [line for line in done.stderr.splitlines() if line not in said] == ["err"]
    assert len(said) == (mode in ("fails", "dies"))
    assert reports(path) == (["nsys.rank0.log"] if said else ["nsys.rank0.nsys-rep", "nsys.rank0.sqlite"])
    (reader,) = open_recording(path / "run.sql").runs
    assert (reader.run.exit_code, reader.run.state) == (4, "failed")
    words = (path / "bin" / "said").read_text().split()
    assert {"--trace=cuda,nvtx,osrt", "--export=sqlite", "--duration=5", "--kill=none"} <= set(words)


def test_arguments_arrive_as_they_are_and_without_nsys_it_is_one_line(path: Path) -> None:
    odd = ["a b", "", "*", "-o", "--output=x", "\n", "%q{HOME}", "\udcff"]
    show = "import sys; print(ascii(sys.argv[1:]))"
    words = ("profile", *QUICK, "--trace", "nsys", "--", sys.executable, "-c", show, *odd)
    done = gssr(*words, cwd=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{odd!a}\n", "")
    (path / "bin" / "nsys").unlink()
    (path / "run.sql").unlink()
    done = gssr(*words, cwd=path)
    expected = "gssr: --trace nsys: nsys is not found on PATH: the command runs without it\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{odd!a}\n", expected)


@pytest.mark.parametrize(("command", "code"), [("nosuchthing", 127), ("/etc/passwd", 126)])
def test_what_cannot_be_executed_is_said_once(path: Path, command: str, code: int) -> None:
    done = gssr("profile", *QUICK, "--trace", "nsys", "--", command, cwd=path)
    assert done.returncode == code and done.stderr.count("\n") == 1 and command in done.stderr


@pytest.mark.parametrize("mode", ["swallows hangs", "forks", "stuck"])
def test_signals_arrive_once_and_nobody_waits_for_an_nsys_that_hangs(path: Path, mode: str) -> None:
    work = (
        "import os, signal, sys, time\n"
        "heard = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))\n"
        "print('ready', flush=True)\n"
        "while not heard: time.sleep(0.01)\n"
        "time.sleep(0.3); print(len(heard), flush=True)\n"
        "signal.pause()\n"
    )
    begin = (
        "import sys, gssr.profile.nsys as nsys\n"
        "nsys.START_SECONDS, nsys.TOLD_SECONDS, nsys._LAST_WORDS = (0.5 if 'stuck' in sys.argv[1] else 60), 0.3, 0.1\n"
        "sys.argv[:2] = ['gssr']\n"
        "from gssr.__main__ import run\nrun()\n"
    )
    words = ["profile", *QUICK, "--trace", "nsys", "--", sys.executable, "-c", work]
    process = subprocess.Popen(
        [sys.executable, "-c", begin, mode, *words], cwd=path, env=os.environ | {"MODE": mode},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "1\n"
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "") and time.monotonic() - began < PATIENCE / 2
    said = {"swallows hangs": "takes too long to write its report", "forks": "", "stuck": "has not begun the command"}
    assert said[mode] in err and err.count("\n") == bool(said[mode])
    (reader,) = open_recording(path / "run.sql").runs
    assert (reader.run.exit_code, reader.run.state) == (128 + signal.SIGTERM, "killed")


def test_a_signal_that_nsys_swallows_before_the_command_is_begun_still_arrives(path: Path) -> None:
    words = ["profile", *QUICK, "--trace", "nsys", "--", "sleep", "60"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gssr", *words], cwd=path, env=os.environ | {"MODE": "swallows slow"}
    )  # fmt: skip
    until = time.monotonic() + PATIENCE
    while not (path / "slow").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=PATIENCE / 2) == 128 + signal.SIGTERM


@pytest.mark.parametrize("trace", ["ncu", "nsys:", "nsys:0", "nsys:x", "nsys:-1", ""])
def test_what_is_no_tool_is_a_sentence(tmp_path: Path, trace: str) -> None:
    done = gssr("profile", "--trace", trace, "--", "touch", "it", cwd=tmp_path)
    assert done.returncode == 2 and "is not nsys or nsys:SECONDS" in done.stderr and os.listdir(tmp_path) == []
