"""The recipes of docs/recipes.md, docs/sites.md and docs/start.md run as they stand, on a real cluster; the GPUs are
synthetic."""

import base64
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import Cluster, kinds_of_nodes

from gssr.backends.synthetic.bulk import generate
from gssr.store.read.recording import RunReader, open_recording
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("slurm")

DOCS = Path(__file__).parents[2] / "docs"
_LAST_LINE = "exit 0\n"
"""Of the prolog's and the epilogs' scripts."""
_TORCHRUN = """\
import os, subprocess, sys
own = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
own_program = "--no-python" in sys.argv
command = sys.argv[sys.argv.index("--no-python") + 1 :] if own_program else ["python", sys.argv[-1]]
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
_SAVES_WHEN_TOLD = """\
import os, signal, sys, time
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
attempt = os.environ.get("SLURM_RESTART_COUNT", "0")
open(f"begun-{attempt}.{os.environ['SLURM_PROCID']}", "w").close()
until = time.monotonic() + (60 if attempt == "0" else 0.5)
while time.monotonic() < until and not told:
    time.sleep(0.1)
time.sleep(0.5)
sys.exit(85 if told else 0)
"""
"""A program that saves its state on SIGUSR1, and is through with its work when it is started again."""


def scripts(section: str, page: str = "recipes.md", language: str = "bash") -> list[str]:
    """The shell scripts below a heading of a page."""
    _, _, below = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {section}\n")
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", below.partition("\n## ")[0], re.MULTILINE | re.DOTALL)


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
        tools / "gssr": f"#!/bin/sh\nexport PYTHONPATH={DOCS.parent}\n"
        '[ "$1" = profile ] && shift && set -- profile --backend synthetic -t 100 "$@"\n'
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


def look_at(reader: RunReader, ranks: int, gpus: int, state: str = "completed") -> None:
    """Everybody ended like this, and each GPU was sampled by one."""
    assert reader.state == state
    assert [process.rank for process in reader.processes] == list(range(ranks))
    assert len({(gpu.node, gpu.uuid) for gpu in reader.gpus}) == len(reader.gpus) == gpus
    assert {gpu.node for gpu in reader.gpus} == {"node1", "node2"}
    assert set(reader.samples([]).gpu) == set(range(gpus))


def test_a_batch_job_is_recorded_and_its_log_ends_with_the_page(cluster: Cluster, folder: Path) -> None:
    job, _ = scripts("A batch job")
    log = cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    look_at(only_run(folder), 8, 8)
    assert log.splitlines()[-1].startswith("GSSR score=") and "gpus=8" in log


@pytest.mark.slow
@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_a_job_at_its_time_limit_is_merged(cluster: Cluster, folder: Path) -> None:
    (folder / "train.py").write_text("import time; time.sleep(60)")
    (folder / "job.sh").write_text(scripts("A batch job")[0])
    number = cluster.run("sbatch", "--parsable", "--output=log", "job.sh", cwd=folder).stdout.strip()
    until(lambda: len(list(folder.glob("*.sql.d/*.sql"))) == 8)
    cluster.run("scontrol", "update", f"jobid={number}", "EndTime=now+1")
    cluster.wait_for_end(number)
    look_at(only_run(folder), 8, 8, state="killed")
    log = (folder / "log").read_text()  # with the page, unless that took more than 2 s
    assert "gssr: recorded into " in log and "merging took too long" not in log


def test_steps_of_a_job_add_to_one_file(cluster: Cluster, folder: Path) -> None:
    _, job = scripts("A batch job")
    cluster.sbatch(job.removeprefix("#!/bin/bash\n"), cwd=folder)
    (recording,) = folder.glob("*.sql")
    assert [run.run.label for run in open_recording(recording).runs] == ["preparation", "training"]


def test_the_tasks_of_an_array_are_runs_of_one_recording(cluster: Cluster, folder: Path) -> None:
    job, look = scripts("An array of jobs")
    cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--array=0-3", cwd=folder)
    (recording,) = folder.glob("*.sql")
    runs = open_recording(recording).runs
    assert sorted((run.run.label, run.state, len(run.processes), len(run.gpus)) for run in runs) == [
        (f"seed {task}", "completed", 4, 4) for task in range(4)
    ]
    shown = cluster.run("bash", "-ec", look, cwd=folder).stdout
    assert re.search(r"^GSSR fleet runs=4 .*^GSSR  seed 3 .*job \d+_3 ", shown, re.MULTILINE | re.DOTALL), shown


def test_components_of_a_heterogeneous_job_are_one_run(cluster: Cluster, folder: Path) -> None:
    (job,) = scripts("A heterogeneous job")
    log = cluster.sbatch(job.removeprefix("#!/bin/bash\n"), cwd=folder)
    reader = only_run(folder)
    assert (reader.state, [process.rank for process in reader.processes]) == ("completed", list(range(6)))
    assert len({process.node for process in reader.processes}) == 2
    assert {gpu.node for gpu in reader.gpus} == {reader.processes[0].node}  # the other component has none
    assert log.splitlines()[-1].startswith("GSSR score=") and "gpus=4" in log


@pytest.mark.slow
@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_a_requeued_job_adds_a_run_and_its_program_may_ask_for_that(cluster: Cluster, folder: Path) -> None:
    (folder / "train.py").write_text(_SAVES_WHEN_TOLD)
    (job,) = scripts("A job that is requeued")
    (folder / "job.sh").write_text(job)
    number = cluster.run("sbatch", "--parsable", "--output=log", "job.sh", cwd=folder).stdout.strip()
    until(lambda: len(list(folder.glob("begun-0.*"))) == 8)
    cluster.run("scancel", "--signal=USR1", number)  # what Slurm does 300 s before the limit

    def is_gone() -> bool:
        return set(cluster.run("sinfo", "--noheader", "--format=%t").stdout.split()) == {"idle"}

    until(is_gone, "the first attempt to end")
    # Not in two minutes, but in no case within the second in which the nodes have ended the first attempt: until
    # that second is over they refuse the job ("Job credential revoked"), and Slurm gives it up.
    cluster.run("scontrol", "update", f"jobid={number}", "starttime=now+3")
    until(lambda: any(folder.glob("begun-1.*")), "the second attempt")
    cluster.wait_for_end(number)
    (recording,) = folder.glob("*.sql")
    runs = open_recording(recording).runs
    assert [(run.state, run.run.exit_code, len(run.processes)) for run in runs] == [
        ("failed", 85, 8),
        ("completed", 0, 8),
    ]
    assert "JobState=COMPLETED" in cluster.run("scontrol", "show", "job", number).stdout


@pytest.mark.parametrize("slurm", kinds_of_nodes()[1:], indirect=True)
def test_files_of_nodes_that_share_no_folder_are_collected(cluster: Cluster, folder: Path) -> None:
    (job,) = scripts("Folders that nodes do not share")
    own = job.replace("/tmp/", "/dev/shm/")  # which each node has for itself here
    log = cluster.sbatch(own.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    reader = only_run(folder)
    look_at(reader, 8, 8)
    said = re.findall(r"^gssr: recorded into /dev/shm/(run_\d+\.sql\.d) on (node\d): 4 of 8 ranks", log, re.MULTILINE)
    assert sorted(node for _, node in said) == ["node1", "node2"]
    left = cluster.srun("--nodelist=node[1-2]", "--ntasks-per-node=1", "ls", "/dev/shm")
    assert not [name for name in left if name.startswith("run_")]
    assert not list(folder.glob("*.traces"))


@pytest.mark.parametrize("which", [0, 1], ids=["mpirun", "pmi2"])
def test_mpi_ranks_are_recorded_on_all_nodes(cluster: Cluster, folder: Path, which: int, requires) -> None:
    requires("mpirun", package="openmpi-bin")
    job = scripts("MPI inside Slurm")[which]
    log = cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    look_at(only_run(folder), 8, 8)
    assert log.splitlines()[-1].startswith("GSSR score=") and log.count("How well used?") == 1


def test_a_solvers_page_comes_once_and_only_in_the_file_for_stderr(cluster: Cluster, folder: Path) -> None:
    (job,) = scripts("A solver with MPI", "start.md")
    log = cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    look_at(only_run(folder), 8, 8)
    (errors,) = folder.glob("solver_*.err")
    page = errors.read_text(encoding="utf-8")
    assert page.splitlines()[-1].startswith("GSSR score=") and page.count("How well used?") == 1
    assert log == ""


def test_workers_of_torchrun_are_recorded_on_all_nodes(cluster: Cluster, folder: Path) -> None:
    (job,) = scripts("torchrun on several nodes")
    cluster.sbatch(job.removeprefix("#!/bin/bash\n"), "--nodelist=node[1-2]", cwd=folder)
    reader = only_run(folder)
    look_at(reader, 8, 8)
    assert reader.run.launcher == "torchrun"


@pytest.fixture
def sites_srun(cluster: Cluster, folder: Path) -> Cluster:
    """The cluster, with the ``srun`` of docs/sites.md in front of Slurm's."""
    (text,) = scripts("Every GPU step", "sites.md")
    wrapper = folder / "tools" / "srun"
    wrapper.write_text(with_paths_of(folder, text))
    wrapper.chmod(0o755)
    assert shutil.which("srun", path=cluster.environ["PATH"]) == str(wrapper)
    return cluster


def test_a_sites_srun_records_every_step_of_a_job_with_gpus(sites_srun: Cluster, folder: Path) -> None:
    steps = """srun -N 2 --ntasks-per-node=2 --gres gpu:2 -l -J 'first step' python train.py
srun -n1 -N1 -- sh -c 'exit 7'
echo "code $?"
srun -n1 -N1 python -c 'import sys; print(sys.argv[1:]); sys.exit(5)' 'two words' '*'
echo "code $?"
GSSR_RECORD=no srun -n1 -N1 true
for task in 1 2; do srun -n1 -N1 --exact --gres=gpu:1 python train.py & done; wait
ls
"""
    log = sites_srun.sbatch(steps, "--nodes=2", "--ntasks-per-node=2", "--gres=gpu:2", cwd=folder)
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


@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_a_sites_srun_runs_what_it_does_not_know_as_slurms_own_does(sites_srun: Cluster, folder: Path) -> None:
    (folder / "programs.conf").write_text("0-1 echo program %t\n")
    known = ["--label --ntasks 2 --cpu-bind none -J nm", "-n1 --cpu-bind=none -u", "-K -B1:1:1 --mpi=none -n1 --"]
    other = ["-n1 -lu", "-n1 --comment x", "-n1 --no-such x", "-n1 --time", "-n1 --export=ALL,A=b"]
    other += ["-n2 --multi-prog programs.conf", f"-n1 --bcast={folder}/copy"]
    both = [f"srun {options} /bin/echo {number} 'a b'" for number, options in enumerate((*known, *other))]
    each = "\n".join(f"{command} 2>&1 | sort; echo code ${{PIPESTATUS[0]}}; echo ---" for command in both)
    steps = f"run() {{\n{each}\n}}\nrun; export GSSR_RECORD=no; echo ===; run\n"
    log = sites_srun.sbatch(steps, "-n2", "--gres=gpu:1", cwd=folder)
    wrapped, plain = (half.split("---\n") for half in log.split("===\n"))
    assert wrapped == plain and len(plain) == len(both) + 1
    (recording,) = folder.glob("*.sql")
    assert {run.run.command[1] for run in open_recording(recording).runs} == set(map(str, range(len(known))))


@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_one_recorder_a_node_is_enough_for_torchrun(cluster: Cluster, folder: Path) -> None:
    (job,) = scripts("A torchrun job on four nodes", "start.md")
    log = cluster.sbatch(job.removeprefix("#!/bin/bash\n"), cwd=folder)
    reader = only_run(folder)
    assert (reader.state, len(reader.processes), len(reader.gpus)) == ("completed", 4, 16)
    assert log.splitlines()[-1].startswith("GSSR score=") and "gpus=16" in log


def with_paths_of(folder: Path, script: str) -> str:
    """A script of docs/sites.md with other places than a site's: of the nodes here all have the same /run."""
    places = {
        "/opt/gssr/tools": str(folder / "tools"),
        "/shared/gssr": str(folder / "shared"),
        "/run/gssr.": f"{folder}/$SLURMD_NODENAME.",
        "/local/gssr": f"{folder}/$SLURMD_NODENAME.local",
    }
    for place, ours in places.items():
        script = script.replace(place, ours)
    return script


@pytest.fixture
def recorded_everywhere(cluster: Cluster, folder: Path) -> Iterator[Cluster]:
    """The cluster with the prolog and the epilogs of docs/sites.md."""
    if os.geteuid() != 0:
        pytest.skip("on this machine we are not root: Slurm's prolog runs as root")
    prolog, epilog = scripts("Every GPU job", "sites.md")
    page, summarize, keep = scripts("A job's page, and its score in Slurm", "sites.md")
    (lines,) = scripts("Every GPU job", "sites.md", "text")
    (same,) = scripts("Every job of a cluster", "start.md", "text")
    assert [line.strip() for line in same.splitlines()] == lines.splitlines()
    (after,) = scripts("A job's page, and its score in Slurm", "sites.md", "text")[:1]
    page, epilog = (
        f"{text.removesuffix(_LAST_LINE)}{more}{_LAST_LINE}" for text, more in ((page, summarize), (epilog, keep))
    )
    database = folder / "tools" / "sacctmgr"  # the cluster has none
    database.write_text(f'#!/bin/sh\necho "$@" >>{folder}/database.txt\n')
    database.chmod(0o755)
    epilog = epilog.replace("sacctmgr", str(database))
    with run_by_slurm(cluster, folder, lines + after, {"prolog": prolog, "epilog": epilog, "task-epilog": page}):
        yield cluster


@contextmanager
def run_by_slurm(cluster: Cluster, folder: Path, lines: str, texts: dict[str, str]) -> Iterator[None]:
    """Slurm with these lines of slurm.conf and the scripts that they name."""
    for name, text in texts.items():
        (folder / f"gssr-{name}").write_text(with_paths_of(folder, text))
        (folder / f"gssr-{name}").chmod(0o755)
    conf = cluster.directory / "slurm.conf"
    before = conf.read_text()
    try:
        conf.write_text(before + lines.replace("/etc/slurm", str(folder)))
        cluster.run("scontrol", "reconfigure")
        yield
    finally:
        conf.write_text(before)
        cluster.run("scontrol", "reconfigure")


@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_a_prolog_records_every_job_and_slurm_shows_its_score(recorded_everywhere: Cluster, folder: Path) -> None:
    cluster = recorded_everywhere
    analyze = f"{folder}/tools/gssr analyze {folder}/shared/$SLURM_JOB_ID/job.sql 2>/dev/null"
    recorded = (
        f"for _ in {{1..60}}; do {analyze} | grep -q '^GSSR score=0' && break; sleep 0.5; done\n"  # on a busy machine
    )
    steps = f"echo $SLURM_JOB_ID $SLURM_JOB_GPUS\nsleep 1\nsrun -n1 true\n{recorded}"
    job, gpus = cluster.sbatch(steps, "--gres=gpu:2", "--nodelist=node1", cwd=folder).split()
    shown = cluster.run("scontrol", "show", "job", job).stdout
    found = re.search(r" Comment=(GSSR .*)", shown)
    assert found, shown
    title, gpus_line, cause, score = found[1].strip().split(" | ")
    assert f"job {job}  still running" in title and gpus_line.startswith("2 GPUs on 1 node") and "GPU time" in cause
    assert re.fullmatch(r"GSSR score=0\.\d+ imbalance=\S+ gpus=2 gaps=\d+", score)
    page = (folder / "shared" / job / "page.txt").read_text()
    assert page.splitlines()[-1].startswith("GSSR score=") and "gpus=2" in page
    assert (folder / "shared" / job / "page.txt").stat().st_mode & 0o077 == 0
    until(lambda: open_recording(folder / "shared" / job / "job.sql").runs[0].state == "completed")
    (reader,) = open_recording(folder / "shared" / job / "job.sql").runs
    assert reader.run.job_id == job and reader.n_rows >= 10
    assert (reader.run.command, reader.run.exit_code) == ((), None)  # whose they are not
    assert ",".join(str(gpu.device_index) for gpu in reader.gpus) == gpus
    assert not list(folder.glob("*.pid"))
    (told,) = until(lambda: (folder / "database.txt").exists() and (folder / "database.txt").read_text().splitlines())
    words, _, summary = told.partition(" set AdminComment=JS1:")
    assert words == f"-i update job where jobid={job}"
    (node,) = json.loads(gzip.decompress(base64.b64decode(summary)))["nodes"].values()
    assert sorted(node["gpu_utilization"]) == sorted(gpus.split(",")) and node["cpus"] >= 1
    assert cluster.sbatch("sleep 0\n", cwd=folder) == ""  # without GPUs nothing is recorded
    assert [path.name for path in (folder / "shared").iterdir()] == [job]


@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_a_prologs_recorders_on_all_nodes_make_one_recording(recorded_everywhere: Cluster, folder: Path) -> None:
    cluster = recorded_everywhere
    log = cluster.sbatch("echo $SLURM_JOB_ID\nsleep 1\n", "--gres=gpu:2", "--nodelist=node[2-4]", cwd=folder)
    job = folder / "shared" / log.strip()
    until(lambda: (job / "job.sql").exists() and not (job / "job.sql.d").exists())
    (reader,) = open_recording(job / "job.sql").runs
    assert (reader.state, [process.node for process in reader.processes]) == ("completed", ["node2", "node3", "node4"])
    assert [gpu.node for gpu in reader.gpus] == ["node2", "node2", "node3", "node3", "node4", "node4"]
    assert (job / "page.txt").read_text().splitlines()[1].startswith("6 GPUs on 3 nodes")


@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_what_a_thousand_nodes_record_on_their_own_disks_is_copied_at_the_end(cluster: Cluster, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("on this machine we are not root: Slurm's prolog runs as root")
    prolog, epilog = scripts("Every GPU job", "sites.md")
    (lines,) = scripts("Every GPU job", "sites.md", "text")
    start, copy, _ = scripts("A thousand nodes", "sites.md")
    page = scripts("A job's page, and its score in Slurm", "sites.md")[0]
    page = page.replace("folder=/shared/gssr/$SLURM_JOB_ID", "folder=/local/gssr/$SLURM_JOB_ID")  # as the section says
    (own_line,) = scripts("A job's page, and its score in Slurm", "sites.md", "text")[:1]
    head, _, rest = prolog.partition("folder=")
    nodes = rest.split("\n", 2)[2]  # without the folder and what makes it
    before, _, after = nodes.partition("RANK=")
    prolog = head + before + start + after.partition("2>&1 &\n")[2]
    (keep,) = scripts("What to keep, and how long", "sites.md")
    night = with_paths_of(folder, keep.partition("\ndone\n")[0] + "\ndone\n")
    epilog = epilog.rstrip().removesuffix("exit 0") + copy + "exit 0\n"
    with run_by_slurm(cluster, folder, lines + own_line, {"prolog": prolog, "epilog": epilog, "task-epilog": page}):
        log = cluster.sbatch("echo $SLURM_JOB_ID\nsleep 2\n", "--gres=gpu:2", "--nodelist=node[2-3]", cwd=folder)
        job = folder / "shared" / log.strip()
        until(lambda: len(list(job.glob("job.sql.d/node*.sql"))) == 2)
        until(lambda: not list(folder.glob("node*.local/*")))
    cluster.run("bash", "-ec", night)
    (reader,) = open_recording(job / "job.sql").runs
    assert (reader.state, reader.run.job_id, reader.keep) == ("completed", log.strip(), "10s")
    assert [gpu.node for gpu in reader.gpus] == ["node2", "node2", "node3", "node3"]
    assert reader.run.run_id.endswith("-prolog") and (job / "job.sql").stat().st_uid == os.geteuid()
    own_page = (job / "page.txt").read_text().splitlines()  # of the batch script's node alone
    assert own_page[1].startswith("2 GPUs on ") and own_page[-1].startswith("GSSR score=")
    assert " Comment=GSSR " in cluster.run("scontrol", "show", "job", job.name).stdout


def test_what_a_failed_node_has_left_is_copied_when_it_has_booted(folder: Path) -> None:
    """And nothing of a job that runs, whose recorder's number the prolog has written down."""
    if os.geteuid() != 0:
        pytest.skip("on this machine we are not root: it runs before slurmd, as root")
    *_, boot = scripts("A thousand nodes", "sites.md")
    environ = os.environ | {"SLURMD_NODENAME": "node7"}
    for job in ("5", "6"):
        (folder / "node7.local" / job).mkdir(parents=True)
        (folder / "node7.local" / job / "job.sql").write_text(job)
    (folder / "shared").mkdir()
    (folder / "node7.6.pid").touch()
    subprocess.run(["bash", "-c", with_paths_of(folder, boot)], env=environ, check=True, timeout=60)
    assert (folder / "shared" / "5" / "job.sql").read_text() == "5"
    assert [path.name for path in (folder / "node7.local").iterdir()] == ["6"]
    assert [path.name for path in (folder / "shared").iterdir()] == ["5"]


@pytest.mark.parametrize("slurm", kinds_of_nodes()[:1], indirect=True)
def test_a_job_one_of_whose_recorders_never_began_is_read_unmerged_and_merged_at_night(
    recorded_everywhere: Cluster, folder: Path
) -> None:
    cluster, gssr = recorded_everywhere, folder / "tools" / "gssr"
    gssr.write_text(gssr.read_text().replace("\n", '\n[ "$1 $SLURMD_NODENAME" = "profile node2" ] && exit 1\n', 1))
    log = cluster.sbatch("echo $SLURM_JOB_ID\nsleep 1\n", "--gres=gpu:1", "--nodelist=node[1-3]", cwd=folder)
    recording = folder / "shared" / log.strip() / "job.sql"
    until(lambda: open_recording(recording).runs[0].state == "completed")
    assert not recording.exists()
    (keep,) = scripts("What to keep, and how long", "sites.md")
    cluster.run("bash", "-ec", with_paths_of(folder, keep.partition("\ndone\n")[0] + "\ndone\n"))
    assert not Path(f"{recording}.d").exists()
    (reader,) = open_recording(recording).runs
    assert [gpu.node for gpu in reader.gpus] == ["node1", "node3"]


def test_a_night_appends_the_jobs_to_a_data_set(folder: Path) -> None:
    (night,) = scripts("All jobs in one data set", "sites.md")
    for job in ("1", "2"):
        (folder / "shared" / job).mkdir(parents=True)
        generate(str(folder / "shared" / job / "job.sql"), "idle", 2, 0.01, 0.5, seed=int(job))
        with sqlite3.connect(folder / "shared" / job / "job.sql") as connection:
            connection.execute("UPDATE runs SET run_id = ?", (job,))
    script = night.replace("/shared/gssr-dataset", str(folder / "set"))
    for said in ("2 runs exported", "0 runs exported, 2 were there already"):
        done = subprocess.run(["bash", "-c", with_paths_of(folder, script)], capture_output=True, text=True, check=True)
        assert done.stdout == f"{folder / 'set'}: {said}\n"
    assert len(list((folder / "set" / "runs").rglob("*.parquet"))) == 1


def test_every_quarter_of_an_hour_prometheus_gets_what_the_last_jobs_came_to(folder: Path) -> None:
    (script,) = (text for text in scripts("Prometheus", "sites.md") if text.startswith("#!"))
    (folder / "last").mkdir()
    script = with_paths_of(folder, script.replace("/run/gssr-textfile/support", str(folder / "last")))
    subprocess.run(["bash", "-ec", script], check=True, timeout=60)
    assert not list((folder / "last").iterdir())  # there was no job yet
    for job in ("1", "2"):
        (folder / "shared" / job).mkdir(parents=True)
        generate(str(folder / "shared" / job / "job.sql"), "idle", int(job), 0.01, 0.5)
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")
    (written,) = (folder / "last").iterdir()
    assert written.name == "last.prom" and written.read_text().count("gssr_last_run_info{") == 2


def test_a_sites_nights_end_in_a_mail_and_in_less(folder: Path) -> None:
    (mail,), (keep,) = scripts("A mail each night", "sites.md"), scripts("What to keep, and how long", "sites.md")
    begin = 1_700_000_400
    accounting = "JobID|JobIDRaw|User|State|Start|End|AllocTRES|JobName"
    programs = {
        "mail": '{ printf "%s\\n" "$@"; cat; } > sent.txt',
        "scontrol": 'echo "ClusterName             = alps"',
        "sacct": f"printf '{accounting}\\n70_3|77|ada|TIMEOUT|{begin}|{begin + 36}|gres/gpu=2|sweep\\n'",
    }
    for name, text in programs.items():
        (folder / "tools" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "tools" / name).chmod(0o755)
    for name in ("77", "2"):
        (folder / "shared" / "gssr" / name).mkdir(parents=True)
    path = {"PATH": f"{folder / 'tools'}:{os.environ['PATH']}"}
    recording = folder / "shared" / "gssr" / "77" / "job.sql"
    generate(str(recording), "idle", 2, 0.01, 0.5)
    with sqlite3.connect(recording) as connection:
        connection.execute("UPDATE runs SET job_id = '77', label = NULL, command = '[]'")
    script = f"{mail}\ntouch -d '100 days ago' shared/gssr/2\n{keep}\n{keep}"  # a night twice
    script = (
        script.replace("/shared/", "shared/")
        .replace("/opt/gssr/tools/", "")
        .replace("1d", "9999d").replace("2d", "9999d")  # a run of 2023
    )  # fmt: skip
    subprocess.run(["bash", "-ec", script], cwd=folder, env=os.environ | path, check=True, timeout=120)
    option, subject, to, *page = (folder / "sent.txt").read_text().splitlines()
    assert (option, to) == ("-s", "root") and re.fullmatch(rf"alps \d{{4}}-\d\d-\d\d: {re.escape(page[-1])}", subject)
    assert page[-1].startswith("GSSR fleet runs=1 ")
    assert max(map(len, page[:-1])) <= 72 and "\n".join(page).isascii()
    assert any("GPU-hours x (1 - score)" in line for line in page) and any(line.startswith("70_3 ") for line in page)
    assert [path.name for path in (folder / "shared" / "gssr").iterdir()] == ["77"]
    with sqlite3.connect(folder / "shared" / "gssr-fleet.db") as connection:
        rows = connection.execute("SELECT job, name, state, account FROM runs").fetchall()
    assert rows == [("70_3", "sweep", "timeout", None)]


def test_the_crontab_of_a_site_runs_the_scripts_of_the_page() -> None:
    (crontab,) = scripts("One crontab", "sites.md", "text")
    page = (DOCS / "sites.md").read_text(encoding="utf-8")
    named = re.findall(r"/etc/slurm/gssr-\w+", crontab)
    assert named == ["/etc/slurm/gssr-keep", "/etc/slurm/gssr-dataset", "/etc/slurm/gssr-mail"]
    for name in named:
        assert re.search(rf"`{name}`:\n\n```bash\n#!/bin/bash\n", page)


def test_the_summary_of_a_job_that_was_requeued_is_of_its_last_run(folder: Path) -> None:
    page = scripts("A job's page, and its score in Slurm", "sites.md")[0]
    summary = page[page.index("summary=") : page.index("[[ $summary")]
    record = "tools/gssr profile --no-summary -a -l {} -o job.sql -- sleep 1\n"
    script = f'gssr=tools/gssr folder=.\n{record.format("first")}{record.format("second")}{summary}echo "$summary"'
    done = subprocess.run(["bash", "-ec", script], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    title, gpus, cause, score = done.stdout.splitlines()
    assert "second" in title and " on 1 node" in gpus and "GPU time" in cause and score.startswith("GSSR score=")
