"""However a job ends, each rank's recording holds all up to its last second and says how, and the exit code of ``srun`` is
what it would be without GSSR."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import HERE

from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("slurm")

STEP = ("srun", "-N4", "--ntasks-per-node=1", "--gpus-per-task=1")
PROFILE = (sys.executable, "-m", "gssr", "profile", "--backend", "synthetic", "-t", "100", "-o", "a.sql", "--")
MOST_LOST = 5.0
"""Seconds of samples that may be missing where a rank got SIGKILL: half a second, and as long as the machine stood still."""


def recorded(folder: Path) -> RunReader:
    (reader,) = open_recording(folder / "a.sql").runs
    return reader


def all_record(folder: Path, ranks: int = 4) -> bool:
    """Whether all ranks have samples by now."""
    try:
        return len(set(recorded(folder).samples([]).gpu)) == ranks
    except RecordingError:
        return False


def last_seconds(reader: RunReader) -> dict[str, float]:
    """Unix time of the last sample on each node."""
    samples = reader.samples([])
    return {str(gpu.node): samples.time[samples.gpu == index].max() for index, gpu in enumerate(reader.gpus)}


def both(slurm, folder: Path, workload: str, end: Callable[[subprocess.Popen[str], str], None]) -> tuple[int, float]:
    """Run a step without GSSR and one with it, and end each in the same way; the exit code, which must be the same, and
    when the second one was ended."""
    codes = []
    for name, words in (("bare", ()), ("profiled", PROFILE)):
        step = slurm.start(*STEP, f"--job-name={name}", *words, "sh", "-c", workload, cwd=folder)
        job = slurm.job_of(name)
        if words:
            until(lambda: all_record(folder))
            time.sleep(1.5)
        else:
            time.sleep(1.0)
        ended = time.time()
        end(step, job)
        said = step.communicate(timeout=60)
        codes.append(step.returncode)
        slurm.wait_for_end(job)
    assert codes[0] == codes[1], said
    return codes[1], ended


def test_a_cancelled_job_of_several_nodes_loses_nothing(slurm, tmp_path: Path) -> None:
    code, ended = both(slurm, tmp_path, "sleep 60", lambda _step, job: slurm.run("scancel", job))
    reader = recorded(tmp_path)
    assert (code, reader.state) == (143, "killed")
    assert [(process.state, process.exit_code) for process in reader.processes] == [("killed", 143)] * 4
    assert min(last_seconds(reader).values()) > ended - 0.2


@pytest.mark.slow
def test_what_does_not_heed_sigterm_is_recorded_until_its_sigkill(slurm, tmp_path: Path) -> None:
    def cancel(step: subprocess.Popen[str], job: str) -> None:
        slurm.run("scancel", job)
        step.wait(timeout=60)

    code, ended = both(slurm, tmp_path, "trap '' TERM; exec sleep 60", cancel)
    reader = recorded(tmp_path)
    assert code == 137
    assert min(last_seconds(reader).values()) > ended + 1.0  # Slurm's SIGKILL comes some seconds after its SIGTERM
    assert {process.state for process in reader.processes} == {"running"}  # as nobody could write how it ended


def test_when_srun_is_terminated_ranks_are_killed_at_once_and_lose_a_second_at_most(slurm, tmp_path: Path) -> None:
    code, ended = both(slurm, tmp_path, "sleep 60", lambda step, _job: step.send_signal(signal.SIGTERM))
    reader = recorded(tmp_path)
    assert code in (137, 143)
    lost = {node: ended - last for node, last in last_seconds(reader).items()}
    assert max(lost.values()) < MOST_LOST, lost


@pytest.mark.slow
def test_when_srun_is_killed_slurm_ends_the_ranks_which_lose_a_second_at_most(slurm, tmp_path: Path) -> None:
    code, ended = both(slurm, tmp_path, "sleep 60", lambda step, _job: step.kill())
    until(lambda: recorded(tmp_path).state != "running")
    reader = recorded(tmp_path)
    assert code == -signal.SIGKILL
    assert {process.exit_code for process in reader.processes} <= {143, 137, None}
    lost = {node: ended - last for node, last in last_seconds(reader).items()}
    assert len(lost) == 4 and max(lost.values()) < MOST_LOST, lost


def test_a_warning_reaches_every_rank_and_then_the_time_limit(slurm, tmp_path: Path) -> None:
    traps = """trap "touch usr1.$SLURM_PROCID" USR1; trap "exit 9" TERM"""
    script = f"""#!/bin/bash
#SBATCH --job-name=limited -N2 --ntasks-per-node=1 --gres=gpu:1 --time=5 --output=job.out
srun --quiet {" ".join(PROFILE)} sh -c '{traps}; while :; do sleep 0.1; done'
"""
    (tmp_path / "job.sh").write_text(script)
    job = slurm.run("sbatch", "--parsable", "job.sh", cwd=tmp_path).stdout.strip()
    until(lambda: all_record(tmp_path, 2))
    slurm.run("scancel", "--signal=USR1", job)  # what --signal=USR1@60 does
    until(lambda: len(list(tmp_path.glob("usr1.*"))) == 2)
    slurm.run("scontrol", "update", f"jobid={job}", "EndTime=now+1")
    slurm.wait_for_end(job)
    reader = recorded(tmp_path)
    assert (reader.state, {process.exit_code for process in reader.processes}) == ("failed", {9})
    events = [event for event in reader.events if event.kind == "signal" and event.rank == 1]
    assert "SIGUSR1 passed on" in {event.message for event in events}
    last = max(event.time for event in reader.events if event.kind == "end")
    assert min(last_seconds(reader).values()) > last - 0.2


def test_one_rank_fails_and_the_others_go_on(slurm, tmp_path: Path) -> None:
    workload = "sleep 2; [ $SLURM_PROCID = 2 ] && exit 7; sleep 2"
    code, _ended = both(slurm, tmp_path, workload, lambda _step, _job: None)
    reader = recorded(tmp_path)
    assert (code, reader.state, reader.run.exit_code) == (7, "failed", 7)
    assert [process.state for process in reader.processes] == ["completed", "completed", "failed", "completed"]
    length = {process.rank: process.ended_at - process.started_at for process in reader.processes}
    assert length.pop(2) < min(length.values()) and min(length.values()) >= 4


def test_a_node_is_lost_and_the_recording_holds_all_of_the_others(slurm, tmp_path: Path) -> None:
    def fail(_step: subprocess.Popen[str], _job: str) -> None:
        slurm.run(HERE / "node-slurm.sh", "fail", "node3")

    def fail_and_mend(step: subprocess.Popen[str], job: str) -> None:
        fail(step, job)
        slurm.wait_for_end(job)
        slurm.run(HERE / "node-slurm.sh", "start", "node3")

    code, ended = both(slurm, tmp_path, "sleep 60", fail_and_mend)
    reader = recorded(tmp_path)
    assert code != 0
    states = {process.node: (process.state, process.exit_code) for process in reader.processes}
    assert states == dict.fromkeys(("node1", "node2", "node4"), ("killed", 143)) | {"node3": ("running", None)}
    last = last_seconds(reader)
    assert last.pop("node3") > ended - MOST_LOST and min(last.values()) > ended - 0.2
