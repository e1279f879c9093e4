"""Watching a running job: a step of its own that records beside it, and the live screen of a step."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import ROOT

from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording

sys.path.insert(0, str(ROOT / "tests" / "profile"))
from live_terminal import LiveTerminal

from tests.waiting import until

pytestmark = pytest.mark.xdist_group("slurm")

GSSR = (sys.executable, "-m", "gssr", "profile", "--backend", "synthetic", "-t", "100")
MONITOR = "srun --quiet --overlap --ntasks-per-node=1 --gres=gpu:$SLURM_GPUS_ON_NODE"


def recorded(path: Path) -> RunReader:
    (reader,) = open_recording(path).runs
    return reader


def samples_come(path: Path, gpus: int) -> bool:
    try:
        return len(set(recorded(path).samples([]).gpu)) == gpus
    except RecordingError:
        return False


def test_a_monitor_step_records_the_whole_job_until_its_script_ends(slurm, tmp_path: Path) -> None:
    begun = "until [ $(ls a.sql.d | grep -c sql$) = 2 ]; do sleep 0.1; done 2>/dev/null"
    work = f"srun --overlap --ntasks-per-node=1 sh -c '{begun}; sleep 2; date +%s.%N'"
    script = f"{MONITOR} {' '.join(GSSR)} --attach-job -o a.sql &\n{work}\necho done\nexit 3\n"
    output = slurm.sbatch(script, "-N2", "--ntasks-per-node=1", "--gres=gpu:4", "--job-name=trained", cwd=tmp_path)
    assert "done\n" in output
    assert not (tmp_path / "a.sql.d").exists() or "is finished by: gssr merge" in output
    reader = recorded(tmp_path / "a.sql")
    assert (reader.state, reader.run.exit_code, reader.run.label) == ("completed", None, "trained")
    assert reader.run.command == () and not reader.workload_use()
    assert [(gpu.node, gpu.device_index) for gpu in reader.gpus] == [
        (node, index) for node in ("node1", "node2") for index in range(4)
    ]
    ended = max(float(line) for line in output.splitlines() if line.replace(".", "").isdigit())
    last = reader.samples([])
    assert min(last.time[last.gpu == gpu].max() for gpu in range(8)) > ended - 0.2
    messages = [event.message for event in reader.events if event.kind in ("start", "signal", "end")]
    assert f"recording beside job {reader.run.job_id}" in messages
    assert "SIGTERM: the end of the recording was asked for" in messages and "the recording ended" in messages


@pytest.mark.parametrize("how", ["scancel", "interrupt"])
def test_a_monitor_started_from_elsewhere_ends_with_the_job_or_when_it_is_told_to(slurm, tmp_path: Path, how) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\nsleep 60\n")
    job = slurm.run("sbatch", "--parsable", "-N2", "--gres=gpu:2", "--job-name=watched", "job.sh", cwd=tmp_path)
    slurm.job_of("watched")
    number = job.stdout.strip()
    place = (f"--jobid={number}", "-N2", "--overlap", "--ntasks-per-node=1", "--gres=gpu:2")
    monitor = slurm.start("srun", *place, *GSSR, "--attach-job", "-o", "a.sql", cwd=tmp_path)
    until(lambda: samples_come(tmp_path / "a.sql", 4))
    told = time.time()
    slurm.run("scancel", *(("--signal=INT", f"{number}.0") if how == "interrupt" else (number,)))
    _out, said = monitor.communicate(timeout=60)
    assert monitor.returncode == 0, said
    # Who is told to end merges for two seconds at most.
    assert ("GSSR score=" in said and "gpus=4" in said) or "is finished by: gssr merge" in said
    reader = recorded(tmp_path / "a.sql")
    assert {process.state for process in reader.processes} == {"completed"}
    assert reader.last_time is not None and reader.last_time > told - 0.2
    slurm.run("scancel", number)
    slurm.wait_for_end(number)


def test_the_first_rank_of_a_step_shows_the_screen_of_all(slurm, tmp_path: Path, monkeypatch) -> None:
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    step = ["srun", "--quiet", "-N2", "--ntasks-per-node=1", "--gpus-per-task=2", "--pty"]
    work = 'echo rank $SLURM_PROCID; sleep 4; exit "$SLURM_PROCID"'
    terminal = LiveTerminal(tmp_path, [*step, *GSSR, "--live", "-o", "x.sql", "--", "sh", "-c", work])
    try:
        terminal.on_screen()
        terminal.expect("on 2 nodes")
        terminal.expect("ended")
        terminal.type("q")
        assert terminal.code() == 1
    finally:
        terminal.close()
    assert terminal.log() == "rank 0\n"
    reader = recorded(tmp_path / "x.sql")
    assert [process.exit_code for process in reader.processes] == [0, 1] and len(reader.gpus) == 4


def test_without_a_terminal_the_first_rank_alone_prints_how_it_goes(slurm, tmp_path: Path) -> None:
    options = ("--live", "--status-every", "1s", "-o", "a.sql", "--", "sleep", "3")
    done: subprocess.CompletedProcess[str] = slurm.run(
        "srun",
        "--quiet",
        "-N2",
        "--ntasks-per-node=2",
        "--gpus-per-task=1",
        *GSSR,
        "--no-summary",
        *options,
        cwd=tmp_path,
    )
    lines = done.stderr.splitlines()
    assert [line for line in lines if "elapsed=" not in line] == ["gssr: no terminal: recording without a screen"]
    assert 1 <= len(lines) - 1 <= 30 and not done.stdout
