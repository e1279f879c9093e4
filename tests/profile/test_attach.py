"""``--attach-job`` records beside a job until it is told that the job is over, and runs nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from supervised import ROOT

from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording
from tests.waiting import until


def start(folder: Path, *options: str, **environ: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "gssr", "profile", "--attach-job", "--backend", "synthetic:train:2", "-t", "50"]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "SLURM_JOB_ID": "12"} | environ
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, "-o", "a.sql", *options], cwd=folder, env=variables, text=True, stdout=pipe, stderr=pipe
    )


def recorded(folder: Path) -> RunReader:
    (reader,) = open_recording(folder / "a.sql").runs
    return reader


def samples_come(folder: Path) -> bool:
    try:
        return recorded(folder).n_rows > 10
    except RecordingError:
        return False


def sampler_of(folder: Path) -> int:
    (process,) = recorded(folder).processes
    assert process.pid is not None
    return process.pid


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_asks_for_the_end_completes_the_recording(tmp_path: Path, sig: signal.Signals) -> None:
    monitor = start(tmp_path)
    until(lambda: samples_come(tmp_path), "samples")
    monitor.send_signal(signal.SIGCONT)
    time.sleep(0.2)
    assert monitor.poll() is None  # which Slurm sends together with SIGTERM
    told = time.time()
    monitor.send_signal(sig)
    out, said = monitor.communicate(timeout=60)
    assert (monitor.returncode, out) == (0, "") and "recorded into" in said
    reader = recorded(tmp_path)
    assert (reader.state, reader.run.exit_code, reader.run.job_id) == ("completed", None, "12")
    assert reader.last_time is not None and reader.last_time > told - 0.15  # one is taken when it is told
    messages = {event.message for event in reader.events}
    assert {f"{sig.name}: the end of the recording was asked for", "the recording ended"} <= messages


def test_the_launcher_of_the_job_is_not_taken_from_what_tells_recorders_their_place(tmp_path: Path) -> None:
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "n1"}
    monitor = start(tmp_path, "-m", "1", **place)
    assert monitor.wait(timeout=60) == 0
    monitor.communicate()
    assert recorded(tmp_path).run.launcher is None


def test_after_max_runtime_the_recording_is_complete(tmp_path: Path) -> None:
    began = time.monotonic()
    monitor = start(tmp_path, "-m", "1", "--no-summary")
    assert monitor.communicate(timeout=60) == ("", "") and monitor.returncode == 0
    assert time.monotonic() - began < 30
    assert recorded(tmp_path).state == "completed"


def test_a_monitor_whose_sampler_is_gone_ends_and_says_so(tmp_path: Path) -> None:
    monitor = start(tmp_path)
    until(lambda: samples_come(tmp_path), "samples")
    os.kill(sampler_of(tmp_path), signal.SIGKILL)
    _out, said = monitor.communicate(timeout=60)
    assert monitor.returncode == 1 and "the sampler was killed by signal 9" in said


def test_a_recording_outlives_a_killed_monitor_by_nothing(tmp_path: Path) -> None:
    monitor = start(tmp_path)
    until(lambda: samples_come(tmp_path), "samples")
    monitor.kill()
    monitor.communicate(timeout=60)
    until(lambda: recorded(tmp_path).state == "killed", "the end")


@pytest.mark.parametrize(
    ("words", "environ", "why"),
    [
        (("--", "true"), {}, "runs no command"),
        (("--live",), {}, "gssr tui FILE"),
        ((), {"SLURM_JOB_ID": ""}, "this is no job"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(tmp_path: Path, words, environ: dict[str, str], why: str) -> None:
    monitor = start(tmp_path, *words, **environ)
    _out, said = monitor.communicate(timeout=60)
    assert monitor.returncode == 2 and why in said and len(said.splitlines()) == 1
    assert not os.listdir(tmp_path)
