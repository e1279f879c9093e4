"""What gssr.launch finds out inside real Slurm jobs."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("slurm")

TELL = (
    "import json; from gssr import launch; "
    "print(json.dumps(launch.where_am_i()._asdict() | {'visible': len(launch.gpu_ids() or ())}))"
)
COMMAND = (sys.executable, "-c", TELL)


def places(lines: list[str]) -> list[dict[str, Any]]:
    return sorted((json.loads(line) for line in lines), key=lambda place: place["rank"])


def test_every_task_of_a_step_knows_its_place(slurm) -> None:
    found = places(slurm.srun("-wnode[1-2]", "--ntasks-per-node=2", *COMMAND))
    assert [place["launcher"] for place in found] == ["slurm"] * 4
    assert [(p["rank"], p["local_rank"], p["node"]) for p in found] == [
        (0, 0, "node1"), (1, 1, "node1"), (2, 0, "node2"), (3, 1, "node2"),
    ]  # fmt: skip
    assert {(p["world_size"], p["local_size"], p["n_nodes"]) for p in found} == {(4, 2, 2)}
    assert len({p["run_id"] for p in found}) == 1
    assert found[0]["run_id"] == f"{found[0]['cluster']}-{found[0]['job_id']}.0"


def test_a_cyclic_layout_does_not_mix_up_local_ranks(slurm) -> None:
    found = places(slurm.srun("-wnode[1-2]", "--ntasks-per-node=2", "--distribution=cyclic", *COMMAND))
    assert [(p["node"], p["local_rank"]) for p in found] == [("node1", 0), ("node2", 0), ("node1", 1), ("node2", 1)]


def test_each_task_counts_the_gpus_it_was_given(slurm) -> None:
    one_each = places(slurm.srun("-N2", "--ntasks-per-node=2", "--gpus-per-task=1", *COMMAND))
    assert [p["visible"] for p in one_each] == [1] * 4
    shared = places(slurm.srun("-N2", "--ntasks-per-node=2", "--gres=gpu:4", *COMMAND))
    assert [p["visible"] for p in shared] == [4] * 4


def test_a_batch_script_is_alone_and_its_steps_are_not(slurm, tmp_path: Path) -> None:
    tell = shlex.join(COMMAND)
    script = f"{tell}\nsrun -n1 -N1 --gpus-per-task=1 {tell}\nsrun {tell}\n"
    output = slurm.sbatch(script, "-N2", "--ntasks-per-node=1", "--gres=gpu:3", cwd=tmp_path)
    alone, single, *both = (json.loads(line) for line in output.splitlines())

    job = f"{alone['cluster']}-{alone['job_id']}"
    assert (alone["launcher"], alone["world_size"], alone["n_nodes"], alone["step_id"]) == ("alone", 1, 1, None)
    assert alone["run_id"].startswith(f"{job}-2")
    assert (single["launcher"], single["world_size"], single["run_id"]) == ("slurm", 1, f"{job}.0")
    assert [(p["world_size"], p["run_id"]) for p in both] == [(2, f"{job}.1")] * 2
    # the job's own list of GPUs is not a step's
    assert [p["visible"] for p in (alone, single, *both)] == [3, 1, 3, 3]


def test_a_salloc_shell_is_alone_inside_its_job(slurm) -> None:
    [place] = places(slurm.run("salloc", "--quiet", "-N2", *COMMAND).stdout.splitlines())
    assert (place["launcher"], place["world_size"]) == ("alone", 1)
    assert place["job_id"]


def test_an_array_task_has_a_job_id_of_its_own(slurm, tmp_path: Path) -> None:
    place = json.loads(slurm.sbatch(shlex.join(COMMAND), "--array=5", cwd=tmp_path))
    assert place["array_task_id"] == "5"
    assert place["array_job_id"]
