"""What is recorded of arrays, of steps without GPUs and of ranks whose nodes share no disk, on a real cluster."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gssr.store.read.recording import open_recording
from tests.conftest import FakeDriver

pytestmark = pytest.mark.xdist_group("slurm")

PROFILE = "gssr profile --backend synthetic:train:2 -t 100"


def test_a_step_and_a_component_without_gpus_record_none(slurm, fake_driver: FakeDriver, tmp_path: Path) -> None:
    profile = f"env LD_LIBRARY_PATH={fake_driver.library.parent} gssr profile -t 100 --no-summary"
    script = f"srun -n1 --gres=none {profile} -o none.sql -- true\nsrun -n1 {profile} -o four.sql -- true\n"
    log = slurm.sbatch(script, "-N1", "--gres=gpu:4", cwd=tmp_path)
    assert "no GPU is sampled: the launcher gives this process no GPU" in log
    components = "#SBATCH -N1 -n1 --gres=gpu:2\n#SBATCH hetjob\n#SBATCH -N1 -n1\n"
    slurm.sbatch(f"{components}srun --het-group=0,1 {profile} -o het.sql -- true\n", cwd=tmp_path)
    n_gpus = {name: len(open_recording(tmp_path / f"{name}.sql").runs[0].gpus) for name in ("none", "four", "het")}
    assert n_gpus == {"none": 0, "four": 4, "het": 2}


def test_of_a_job_without_gpus_on_a_node_that_hides_none_a_note_says_whose_they_may_be(
    slurm, fake_driver: FakeDriver, tmp_path: Path
) -> None:
    library = f"LD_LIBRARY_PATH={fake_driver.library.parent}"
    slurm.srun("-n1", "env", library, "gssr", "profile", "--no-summary", "-o", "a.sql", "--", "true", cwd=tmp_path)
    assert len(open_recording(tmp_path / "a.sql").runs[0].gpus) > 0
    page = slurm.run("gssr", "analyze", "--width", "200", "a.sql", cwd=tmp_path).stdout
    assert "all GPUs of the node are recorded, others' as well" in page


@pytest.fixture
def own() -> Iterator[Path]:
    """A folder's name on a disk that nodes may have of their own."""
    folder = Path(tempfile.mkdtemp(prefix="disk-of-nodes-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def test_what_one_nodes_own_disk_was_left_with_tears_no_job_and_the_end_says_how_to_merge(
    slurm, own: Path, tmp_path: Path
) -> None:
    are_private = len(set(slurm.srun("-wnode[1-2]", "-N2", "readlink", "/proc/self/ns/mnt"))) == 2
    slurm.srun("-wnode[1-2]", "-N2", "mkdir", "-p", str(own))
    left = f"cd {own} && {PROFILE} --no-summary -o run.sql -- true"
    slurm.srun("-wnode2", "-n1", "env", "SLURM_STEP_NUM_TASKS=2", "bash", "-c", left)  # one of two ranks: not merged
    ranks = f"cd {own} && {PROFILE} -o run.sql -- sh -c 'echo ran; exit $SLURM_PROCID'"
    step = ("srun", "-wnode[1-2]", "-N2", "--ntasks-per-node=2", "bash", "-c", ranks)
    done = slurm.run(*step, cwd=tmp_path, check=False)
    assert done.returncode == 3 and done.stdout == "ran\n" * 4, done.stderr
    assert done.stderr.count("holds another run: this one is added to it") == (1 if are_private else 2)
    assert done.stderr.count("2 of 4 ranks; other nodes keep theirs on their own disks") == (2 if are_private else 0)
    (tmp_path / "all").mkdir()
    for node in ("node1", "node2"):  # into one folder
        slurm.srun(f"-w{node}", "-n1", "cp", "-r", f"{own}/.", f"{tmp_path}/all")
    slurm.run("gssr", "merge", "all/run.sql", cwd=tmp_path)
    with closing(sqlite3.connect(tmp_path / "all" / "run.sql")) as connection:
        n_ranks = connection.execute("SELECT count(*) FROM processes GROUP BY run_id ORDER BY 1").fetchall()
    assert n_ranks == [(1,), (4,)]
