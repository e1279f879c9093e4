"""Several nodes as they really are: pids, /dev/shm, locks, caches and clocks of their own. Nothing is shared but the folder
of the recording, and that as a network filesystem would share it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gssr
from gssr.store.reader import RunReader, open_recording

ROOT = Path(__file__).parents[2]
MOUNT = ROOT / "tests" / "fakes" / "fuse" / "mount.py"
RANKS = 2
"""Per node."""

pytestmark = pytest.mark.usefixtures("fuse")

Node = Callable[..., subprocess.Popen[str]]


def rights() -> list[str]:
    """The words before a command that is to have namespaces of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture(scope="session")
def skew(requires, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a process's clock wrong."""
    requires("gcc", package="gcc libc6-dev")
    library = tmp_path_factory.mktemp("skew") / "skew.so"
    source = ROOT / "tests" / "fakes" / "skew.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True, timeout=60)
    return library


@pytest.fixture
def start(tmp_path: Path, skew: Path) -> Node:
    """Starts the ranks of a node, so many seconds ``apart``; each runs a shell script beside GPUs that they share."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def begin(
        number: int, workload: str, fuse: bool = False, seconds_ahead: float = 0.0, apart: float = 0.0
    ) -> subprocess.Popen[str]:
        folder = tmp_path / f"node{number}" if fuse else disk
        folder.mkdir(exist_ok=True)
        mount = [sys.executable, str(MOUNT), str(disk), str(folder), "--"] if fuse else []
        profile = f"{sys.executable} -m gssr profile --backend synthetic -t 100 -o run.sql -w '{workload}'"
        ranks = " ".join(str(number * RANKS + local) for local in range(RANKS))
        script = f"""hostname node{number}; mount -t tmpfs shm /dev/shm; cd {folder}
for rank in {ranks}; do
  SLURM_PROCID=$rank SLURM_LOCALID=$((rank % {RANKS})) LD_PRELOAD={skew} {profile} & pids="$pids $!"
  sleep {apart}
done
code=0; for pid in $pids; do wait $pid || code=$?; done; exit $code"""
        own = {
            "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(2 * RANKS), "SLURM_STEP_GPUS": "0,1",
            "SLURM_STEP_NUM_NODES": "2", "SLURMD_NODENAME": f"node{number}", "SKEW_SECONDS": str(seconds_ahead),
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        pipe = subprocess.PIPE
        command = [*rights(), *mount, "bash", "-c", script]
        return subprocess.Popen(command, env=os.environ | own, stdout=pipe, stderr=pipe, text=True)

    return begin


def ended(nodes: list[subprocess.Popen[str]]) -> str:
    """What they said, once all have ended."""
    said = [node.communicate(timeout=60)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0] * len(nodes), said
    return "".join(said)


def only_run(folder: Path) -> RunReader:
    assert sorted(os.listdir(folder)) == ["run.sql"]
    (reader,) = open_recording(folder / "run.sql").runs
    return reader


@pytest.mark.parametrize("fuse", [False, True], ids=["local", "incoherent"])
def test_nodes_that_share_nothing_but_a_folder_leave_one_recording(start: Node, tmp_path: Path, fuse: bool) -> None:
    said = ended([start(number, "sleep 2", fuse) for number in range(2)])
    reader = only_run(tmp_path / "disk")
    assert said.count("How well used?") == 1 and "gpus=4 gaps=0" in said
    assert (reader.state, len(reader.processes)) == ("completed", 4)
    assert [(gpu.node, gpu.device_index) for gpu in reader.gpus] == [
        (f"node{n}", index) for n in (0, 1) for index in (0, 1)
    ]
    samples = reader.samples([])
    for gpu in range(4):
        ticks = np.diff(np.sort(samples.time[samples.gpu == gpu]))
        assert len(ticks) >= 15 and ticks.min() > 0.04  # half an interval, even where one rank took over from another


def test_a_rank_that_is_killed_on_its_node_is_taken_over_there(start: Node, tmp_path: Path) -> None:
    kill = "sleep 1; [ $SLURM_PROCID = 2 ] && kill -9 $PPID $(pgrep -P $PPID gssr-sampler); sleep 3"
    nodes = [start(number, kill, fuse=True, apart=0.4) for number in range(2)]
    for node in nodes:
        node.communicate(timeout=60)
    (reader,) = open_recording(tmp_path / "disk" / "run.sql").runs
    assert [process.state for process in reader.processes] == ["completed", "completed", "running", "completed"]
    taken = [(event.node, event.rank) for event in reader.events if "sampled by this rank from now on" in event.message]
    assert ("node1", 3) in taken
    samples = reader.samples([])
    for gpu in range(4):
        times = np.sort(samples.time[samples.gpu == gpu])
        assert times[-1] - times[0] > 3 and np.diff(times).max() < 1.7


def test_a_clock_that_is_wrong_is_measured_and_told(start: Node, tmp_path: Path) -> None:
    began = time.time()
    ended([start(0, "sleep 1.5"), start(1, "sleep 1.5", seconds_ahead=120.0)])
    reader = only_run(tmp_path / "disk")
    offset = {process.node: process.clock_offset for process in reader.processes if process.clock_offset is not None}
    assert offset == pytest.approx({"node0": 0.0, "node1": 120.0}, abs=0.1)
    samples = reader.samples([])
    begins = {gpu.node: samples.time[samples.gpu == at].min() - began for at, gpu in enumerate(reader.gpus)}
    assert (
        0 < begins["node0"] < 20 and 120 < begins["node1"] < 140
    )  # each by its own node's clock, as the job's logs are
    assert reader.buckets(level=600).vectors[:, 1].sum() == 0  # gaps
    said = subprocess.run(
        [sys.executable, "-m", "gssr", "analyze", tmp_path / "disk" / "run.sql"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=60,
    )  # fmt: skip
    assert "clocks" in said.stdout and "120" in said.stdout, said.stdout
    assert gssr.analyze(reader).n_gaps == 0
