"""``gssr profile`` and ``gssr analyze`` inside real Slurm jobs."""

import time
from pathlib import Path

import numpy as np
import pytest

from gssr.backends.synthetic import device
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("slurm")


def test_every_rank_of_a_step_records_its_gpu_and_exit_codes_come_back(slurm, tmp_path: Path) -> None:
    workload = "[ $SLURM_PROCID = 2 ] || sleep 1; sleep 1; exit $SLURM_PROCID"
    command = f"gssr profile --backend synthetic -t 50 -o job.sql --wrap '{workload}'"
    done = slurm.run(
        "srun",
        "-wnode[1-2]",
        "--ntasks-per-node=2",
        "--gpus-per-task=1",
        "bash",
        "-c",
        command,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    (reader,) = open_recording(tmp_path / "job.sql").runs
    assert (reader.run.launcher, reader.run.world_size, reader.run.n_nodes) == ("slurm", 4, 2)
    assert (reader.state, reader.run.exit_code) == ("failed", 2)  # of the first rank to fail; srun's is the highest
    assert sorted({gpu.node for gpu in reader.gpus}) == ["node1", "node2"]
    assert len({gpu.uuid for gpu in reader.gpus}) == len(reader.gpus) == 4
    assert [(process.rank, process.exit_code) for process in reader.processes] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert all(reader.buckets(gpus=None).vectors[:, 0] >= 2)  # at its begin and at its end, and what came in between


def test_a_batch_job_records_under_its_job_id_and_its_log_ends_with_the_line(slurm, tmp_path: Path) -> None:
    script = "gssr profile --backend synthetic -t 50 -- sleep 1\necho workload=$?\ngssr analyze --terminal\n"
    output = slurm.sbatch(script, "-N1", "--gres=gpu:3", cwd=tmp_path)
    (recording,) = tmp_path.glob("gssr_*.sql")
    assert "workload=0\n" in output and "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80 or "recorded into" in output
    assert output.splitlines()[-1].startswith("GSSR score=0.") and "gpus=3" in output.splitlines()[-1]
    (reader,) = open_recording(recording).runs
    assert recording.name == f"gssr_{reader.run.job_id}.sql"


def n_rows(recording: Path) -> int:
    """Rows recorded so far; none while the file is not made yet."""
    try:
        return open_recording(recording).runs[0].n_rows
    except RecordingError:
        return 0


def test_a_cancelled_job_loses_nothing(slurm, tmp_path: Path) -> None:
    script = "srun -n1 gssr profile --backend synthetic:train:2 -t 50 -o a.sql -- sleep 60\n"
    (tmp_path / "job.sh").write_text("#!/bin/bash\n" + script)
    job = slurm.run("sbatch", "--parsable", "-N1", "-n1", "job.sh", cwd=tmp_path).stdout.strip()
    recording = tmp_path / "a.sql"
    until(lambda: n_rows(recording) > 40)
    cancelled = time.time()
    slurm.run("scancel", job)
    slurm.wait_for_end(job)
    (reader,) = open_recording(recording).runs
    assert (reader.state, reader.run.exit_code) == ("killed", 143)
    assert reader.last_time is not None and reader.last_time > cancelled - 1.0
    # Slurm signals the workload as well: it may have ended before there is anything to pass on.
    signals = {event.message for event in reader.events if event.kind == "signal"}
    assert signals <= {"SIGCONT passed on", "SIGTERM passed on"}


def test_two_steps_of_a_job_are_two_runs_of_one_file(slurm, tmp_path: Path) -> None:
    script = "".join(
        f"srun -n1 gssr profile --backend synthetic:idle:1 -a -o a.sql -l s{n} -- true\n" for n in range(2)
    )
    slurm.sbatch(script, "-N1", "-n1", cwd=tmp_path)
    readers = open_recording(tmp_path / "a.sql").runs
    assert [reader.run.label for reader in readers] == ["s0", "s1"]
    assert [reader.run.step_id for reader in readers] == ["0", "1"]
    assert [reader.state for reader in readers] == ["completed", "completed"]


def test_sixteen_ranks_of_four_nodes_record_a_gpu_each_and_no_tick_twice(slurm, tmp_path: Path) -> None:
    step = ("srun", "-N4", "--ntasks-per-node=4", "--gpus-per-task=1")
    tell = 'echo $SLURMD_NODENAME $SLURM_PROCID $SLURM_STEP_GPUS; sleep 3; exit "$SLURM_LOCALID"'
    options = ("--backend", "synthetic", "-t", "200", "-o", "my_workload.sql", "--wrap", tell)
    done = slurm.run(*step, "gssr", "profile", *options, cwd=tmp_path, check=False)
    assert done.returncode == 3
    told = sorted(tuple(line.split()) for line in done.stdout.splitlines())
    (reader,) = open_recording(tmp_path / "my_workload.sql").runs
    found = [(gpu.node, str(gpu.rank), str(gpu.device_index), gpu.uuid) for gpu in reader.gpus]
    assert sorted(found) == [(*place, device(place[0], int(place[2])).uuid) for place in told]
    assert [(process.node, process.rank, process.exit_code) for process in reader.processes] == [
        (f"node{rank // 4 + 1}", rank, rank % 4) for rank in range(16)
    ]
    samples = reader.samples([])
    for gpu in range(16):
        ticks = np.diff(np.sort(samples.time[samples.gpu == gpu]))
        assert len(ticks) >= 2 and (ticks > 0.09).all()
    held_up = [event for event in reader.events if event.kind == "gap"]
    assert held_up or reader.buckets(level=600).vectors[:, 1].sum() == 0  # gaps
    n_host = [use.n for use in reader.host_use().values()]
    assert max(n_host) <= 4 * (samples.time.max() - samples.time.min() + 3)  # by one rank of each node


def test_sixteen_ranks_say_in_one_line_what_all_have_to_say(slurm, tmp_path: Path) -> None:
    command = ("gssr", "profile", "--no-summary", "-o", "a.sql")
    options = ("--backend", "synthetic", "--trace", "nsys", "--", "true")
    not_traced = "--trace nsys: nsys is not found on PATH: the command runs without it"
    for step, code, said in (
        (("-N4", "--ntasks-per-node=4"), 0, not_traced),
        (("-N1", "--ntasks=16", "--overcommit"), 2, "-o a.sql: exists; "),
    ):
        done = slurm.run("srun", *step, *command, *options, cwd=tmp_path, check=False)
        (line,) = [line for line in done.stderr.splitlines() if not line.startswith("srun: ")]
        assert line.startswith(f"gssr: {said}") and done.returncode == code
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sql"]


def test_tasks_that_share_their_nodes_gpus_sample_each_once_to_the_end(slurm, tmp_path: Path) -> None:
    options = "--no-summary --backend synthetic -t 200 -o a.sql"
    command = f"gssr profile {options} --wrap 'sleep 2; [ $SLURM_LOCALID = 0 ] || sleep 2'"
    done = slurm.run(
        "srun", "--quiet", "-wnode[1-2]", "--ntasks-per-node=3", "--gres=gpu:4", "sh", "-c", command, cwd=tmp_path
    )
    assert done.stderr == ""
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert [(gpu.node, gpu.device_index, gpu.rank) for gpu in reader.gpus] == [
        (node, index, None) for node in ("node1", "node2") for index in range(4)
    ]
    samples = reader.samples([])
    ended = min(process.ended_at for process in reader.processes if process.local_rank)
    for gpu in range(8):
        times = np.sort(samples.time[samples.gpu == gpu])
        assert times[-1] > ended - 0.3 and np.diff(times).min() > 0.08 and np.diff(times).max() < 20
