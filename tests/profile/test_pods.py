"""Pods: containers with a host name, pids, /dev/shm and /tmp of their own, which know of each other only what their
controller sets in the environment, and share the folder of the recording."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from supervised import ROOT

from gssr.store.merge import merge
from gssr.store.read.recording import RunReader, open_recording

N = 3

OWN = ["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
SCRIPT = 'hostname "$0" && mount -t tmpfs shm /dev/shm && mount -t tmpfs tmp /run && TMPDIR=/run HOME=/run exec "$@"'


def indexed_job(index: int) -> dict[str, str]:
    return {"HOSTNAME": f"training-{index}", "JOB_COMPLETION_INDEX": str(index)}


def train_job(index: int) -> dict[str, str]:
    """Made of an Indexed Job; torchrun's own options are given beside."""
    own = {
        "PET_NNODES": str(N),
        "PET_NODE_RANK": str(index),
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "training-0",
    }
    return indexed_job(index) | own


def pytorch_job(index: int) -> dict[str, str]:
    """As its operator tells them since 1.7; before, there was no PET_."""
    own = {"RANK": str(index), "WORLD_SIZE": str(N), "MASTER_ADDR": "training-0", "MASTER_PORT": "23456"}
    return own | {"HOSTNAME": f"training-{index}", "PET_NODE_RANK": str(index), "PET_NNODES": str(N)}


def old_pytorch_job(index: int) -> dict[str, str]:
    return {name: value for name, value in pytorch_job(index).items() if not name.startswith("PET_")}


def mpi_job(index: int) -> dict[str, str]:
    """What mpirun, in another pod, tells each rank; here a worker has one slot."""
    own = {"OMPI_COMM_WORLD_RANK": str(index), "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": str(N)}
    return own | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMIX_NAMESPACE": "3394043905", "HOSTNAME": f"training-{index}"}


@pytest.fixture
def rights() -> list[str]:
    """The words before a command that is to run in a pod."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(["unshare", *user, *OWN, "sh", "-c", SCRIPT, "pod", "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"on this machine no namespaces can be made: {done.stderr}")
    return ["unshare", *user, *OWN]


def run(
    rights: Sequence[str], pods: Sequence[Mapping[str, str]], folder: Path, *words: str, code: int = 0
) -> list[str]:
    """What the pods said that run `gssr profile` together, and all end with this exit code."""
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic:train:2", "-o", str(folder / "a.sql")]
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    started = [
        subprocess.Popen(
            [*rights, "sh", "-c", SCRIPT, pod["HOSTNAME"], *command, *words],
            env=environ | pod, stderr=subprocess.PIPE, text=True,
        )
        for pod in pods
    ]  # fmt: skip
    said = [pod.communicate(timeout=60)[1] for pod in started]
    assert [pod.returncode for pod in started] == [code] * len(pods), said
    return said


def look_at(reader: RunReader) -> None:
    assert reader.state == "completed"
    places = [(f"training-{index}", index) for index in range(N)]
    assert [(process.node, process.rank) for process in reader.processes] == places
    assert [(gpu.node, gpu.rank) for gpu in reader.gpus] == [place for place in places for _ in range(2)]
    assert len({gpu.uuid for gpu in reader.gpus}) == 2 * N and set(reader.samples([]).gpu) == set(range(2 * N))


@pytest.mark.parametrize("controller", [train_job, pytorch_job, old_pytorch_job, mpi_job], ids=lambda it: it.__name__)
def test_pods_that_are_told_how_many_they_are_leave_one_recording(
    rights, tmp_path: Path, controller: Callable[[int], dict[str, str]]
) -> None:
    said = run(rights, [controller(index) for index in range(N)], tmp_path, "--", "sleep", "0.2")
    assert os.listdir(tmp_path) == ["a.sql"]
    assert sum("How well used?" in text for text in said) == 1
    (reader,) = open_recording(tmp_path / "a.sql").runs
    look_at(reader)


def test_pods_that_are_not_told_how_many_they_are_say_what_is_left_to_do(rights, tmp_path: Path) -> None:
    first, *others = run(rights, [indexed_job(index) for index in range(N)], tmp_path, "-a", "--", "sleep", "0.2")
    assert first == f"gssr: recorded into {tmp_path}/a.sql.d; when all ranks have ended: gssr merge {tmp_path}/a.sql\n"
    assert others == [""] * (N - 1)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    look_at(reader)
    run(rights, [indexed_job(1)], tmp_path, "-a", "-l", "again", "--", "true")  # it was started again
    merge(str(tmp_path / "a.sql"))
    assert os.listdir(tmp_path) == ["a.sql"]
    reader, again = open_recording(tmp_path / "a.sql").runs
    look_at(reader)
    assert again.run.label == "again" and [process.rank for process in again.processes] == [1]


def test_pods_that_fail_and_are_started_again_together_add_a_run_and_so_does_another_job_on_disks_of_their_own(
    rights, tmp_path: Path
) -> None:
    failing = ("--", "sh", "-c", "exit 7")
    run(rights, [indexed_job(index) for index in range(N)], tmp_path, *failing, code=7)
    other = [{"HOSTNAME": f"other-{index}", "JOB_COMPLETION_INDEX": str(index)} for index in range(2)]
    said = run(rights, other, tmp_path, "--", "true", code=0)
    assert all("holds another run: this one is added to it" in text for text in said)
    run(rights, [indexed_job(index) for index in (0, 2)], tmp_path, *failing, code=7)
    run(rights, [indexed_job(2)], tmp_path, "--", "sleep", "0.2")
    merge(str(tmp_path / "a.sql"))
    ranks = [[process.rank for process in reader.processes] for reader in open_recording(tmp_path / "a.sql").runs]
    assert ranks == [[0, 1, 2], [0, 1], [0, 2], [2]] and os.listdir(tmp_path) == ["a.sql"]
