"""The recipes of docs/recipes.md run as they stand, on a real cluster; the GPUs are synthetic."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import Cluster, wait_for

from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording

pytestmark = pytest.mark.xdist_group("slurm")

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
_TORCHRUN = """\
import os, subprocess, sys
own = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
command = sys.argv[sys.argv.index("--no-python") + 1 :]
nodes, each, node = int(own["nnodes"]), int(own["nproc-per-node"]), int(os.environ["SLURM_NODEID"])
assert own["rdzv-endpoint"] == "node1:29500"
workers = []
for local in range(each):
    told = {"RANK": node * each + local, "LOCAL_RANK": local, "WORLD_SIZE": nodes * each, "LOCAL_WORLD_SIZE": each,
            "GROUP_RANK": node, "GROUP_WORLD_SIZE": nodes, "TORCHELASTIC_RUN_ID": own["rdzv-id"],
            "TORCHELASTIC_RESTART_COUNT": 0}
    workers.append(subprocess.Popen(command, env=os.environ | {name: str(value) for name, value in told.items()}))
sys.exit(max([worker.wait() for worker in workers]))
"""
"""What torchrun does to those it starts, without PyTorch."""


def scripts(section: str) -> list[str]:
    """The shell scripts below a heading of the page."""
    _, _, below = PAGE.partition(f"\n## {section}\n")
    return re.findall(r"^```bash\n(.*?)^```$", below.partition("\n## ")[0], re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a job runs, with all the programs that the recipes name."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "train.py").write_text("import time; time.sleep(1.5)")
    (tmp_path / "prepare.py").write_text("import time; time.sleep(0.5)")
    programs = {
        tmp_path / "solver": "#!/bin/sh\nsleep 1.5\n",
        tools / "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        tools / "torchrun": f"#!{sys.executable}\n{_TORCHRUN}",
        # The pages leave the backend to the machine, which here has no GPU.
        tools / "gssr": f'#!/bin/sh\n[ "$1" = profile ] && shift && set -- profile --backend synthetic -t 100 "$@"\n'
        f'exec {sys.executable} -m gssr "$@"\n',
    }
    for path, text in programs.items():
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


@pytest.fixture
def cluster(slurm: Cluster, folder: Path) -> Cluster:
    """The cluster, with those programs in front."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    path = {"PATH": f"{folder / 'tools'}:{slurm.environ['PATH']}"}
    return slurm._replace(environ=slurm.environ | path | allowed)


def only_run(folder: Path) -> RunReader:
    """Of the one recording in the folder, which was merged."""
    (recording,) = folder.glob("*.sql")
    assert not Path(f"{recording}.d").exists()
    (reader,) = open_recording(recording).runs
    return reader


def look_at(reader: RunReader, ranks: int, gpus: int) -> None:
    """Everybody ended well, and each GPU was sampled by one."""
    assert reader.state == "completed"
    assert [process.rank for process in reader.processes] == list(range(ranks))
    assert len({(gpu.node, gpu.uuid) for gpu in reader.gpus}) == len(reader.gpus) == gpus
    assert {gpu.node for gpu in reader.gpus} == {"node1", "node2"}
    assert set(reader.samples([]).gpu) == set(range(gpus))


def test_a_batch_job_is_recorded_and_its_log_ends_with_the_page(cluster: Cluster, folder: Path) -> None:
    job, _ = scripts("A batch job")
    log = cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    look_at(only_run(folder), 8, 8)
    assert log.splitlines()[-1].startswith("GSSR score=") and "gpus=8" in log


def test_steps_of_a_job_add_to_one_file(cluster: Cluster, folder: Path) -> None:
    _, job = scripts("A batch job")
    cluster.sbatch(job.removeprefix("#!/bin/bash\n"), cwd=folder)
    (recording,) = folder.glob("*.sql")
    assert [run.run.label for run in open_recording(recording).runs] == ["preparation", "training"]


@pytest.mark.parametrize("which", [0, 1], ids=["mpirun", "pmi2"])
def test_mpi_ranks_are_recorded_on_all_nodes(cluster: Cluster, folder: Path, which: int, requires) -> None:
    requires("mpirun", package="openmpi-bin")
    job = scripts("MPI inside Slurm")[which]
    log = cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    look_at(only_run(folder), 8, 8)
    assert log.splitlines()[-1].startswith("GSSR score=") and log.count("How well used?") == 1


def test_workers_of_torchrun_are_recorded_on_all_nodes(cluster: Cluster, folder: Path) -> None:
    (job,) = scripts("torchrun on several nodes")
    cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    reader = only_run(folder)
    look_at(reader, 8, 8)
    assert reader.run.launcher == "torchrun"


def test_a_sites_srun_records_every_step_of_a_job_with_gpus(cluster: Cluster, folder: Path) -> None:
    (text,) = scripts("For sites: every GPU step")
    wrapper = folder / "tools" / "srun"
    wrapper.write_text(text)
    wrapper.chmod(0o755)
    assert subprocess.run(["which", "srun"], env=cluster.environ, capture_output=True, text=True).stdout.strip() == str(
        wrapper
    )
    steps = """srun -N 2 --ntasks-per-node=2 --gres gpu:2 -l -J 'first step' python train.py
srun -n1 -N1 -- sh -c 'exit 7'
echo "code $?"
srun -n1 -N1 python -c 'import sys; print(sys.argv[1:]); sys.exit(5)' 'two words' '*'
echo "code $?"
GSSR_RECORD=no srun -n1 -N1 true
for task in 1 2; do srun -n1 -N1 --exact --gres=gpu:1 python train.py & done; wait
ls
"""
    log = cluster.sbatch(steps, "--nodes=2", "--ntasks-per-node=2", "--gres=gpu:2", cwd=folder)
    assert "tools" in log.split() and "job.sh" in log.split() and ".sql.d" not in log
    assert "['two words', '*']" in log and re.findall(r"^code (\d)", log, re.MULTILINE) == ["7", "5"]
    (recording,) = folder.glob("*.sql")
    runs = open_recording(recording).runs
    assert sorted((run.run.step_id, run.state, run.run.exit_code) for run in runs) == [
        ("0", "completed", 0),
        ("2", "failed", 5),
        *((step, "completed", 0) for step in ("4", "5")),  # at the same time
    ]
    assert len(runs[0].processes) == 4 and len(runs[0].gpus) == 4
    assert runs[0].run.command == ("python", "train.py")


def test_a_prolog_records_a_node_until_its_epilog(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("on this machine we are not root: Slurm's prolog runs as root")
    prolog, epilog = scripts("For sites: every GPU job")
    own = {
        "SLURM_JOB_ID": f"9{os.getpid()}", "SLURM_JOB_USER": "root", "SLURM_JOB_GPUS": "0,2", "SLURMD_NODENAME": "node1",
        "GSSR_FOLDER": str(folder / "shared"), "GSSR": str(folder / "tools" / "gssr"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    began = time.monotonic()
    subprocess.run(["bash", "-c", prolog], env=os.environ | own, check=True, timeout=60)
    assert time.monotonic() - began < 30  # it does not wait for the end of the recording
    recording = folder / "shared" / own["SLURM_JOB_ID"] / "node1.sql"

    def state() -> str | None:
        try:
            return open_recording(recording).runs[0].state
        except (RecordingError, IndexError):
            return None

    wait_for(lambda: state() == "running" and open_recording(recording).runs[0].n_rows >= 10)
    subprocess.run(["bash", "-c", epilog], env=os.environ | own, check=True, timeout=60)
    wait_for(lambda: state() != "running")
    (reader,) = open_recording(recording).runs
    assert (reader.state, [gpu.device_index for gpu in reader.gpus]) == ("completed", [0, 2])
    assert reader.n_rows >= 10
