"""``gssr profile`` and ``gssr analyze`` inside real Slurm jobs."""

from pathlib import Path

import numpy as np
import pytest

from gssr.backends.synthetic import device
from gssr.store.read.recording import open_recording

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
