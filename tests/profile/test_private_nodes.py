"""Several nodes as they really are: pids, /dev/shm, locks, caches and clocks of their own. Nothing is shared but the folder
of the recording, and that as a network filesystem would share it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import gssr
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording
from tests.waiting import UNTIL_GO, until

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
def start(tmp_path: Path, skew: Path) -> Iterator[Node]:
    """Starts the ranks of a node, ``in_turn`` each when there is a file ``next``; each runs a shell script beside GPUs that
    they share."""
    disk = tmp_path / "disk"
    disk.mkdir()
    started: list[subprocess.Popen[str]] = []

    def begin(
        number: int, workload: str, fuse: bool = False, seconds_ahead: float = 0.0, in_turn: bool = False
    ) -> subprocess.Popen[str]:
        folder = tmp_path / f"node{number}" if fuse else disk
        folder.mkdir(exist_ok=True)
        mount = [sys.executable, str(MOUNT), str(disk), str(folder), "--"] if fuse else []
        profile = f"{sys.executable} -m gssr profile --backend synthetic -t 100 -o run.sql -w '{workload}'"
        ranks = " ".join(str(number * RANKS + local) for local in range(RANKS))
        script = f"""hostname node{number}; mount -t tmpfs shm /dev/shm; cd {folder}
for rank in {ranks}; do
  SLURM_PROCID=$rank SLURM_LOCALID=$((rank % {RANKS})) LD_PRELOAD={skew} {profile} & pids="$pids $!"
  {"until [ -e next ]; do sleep 0.05; done" if in_turn else ""}
done
code=0; for pid in $pids; do wait $pid || code=$?; done; exit $code"""
        own = {
            "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(2 * RANKS), "SLURM_STEP_GPUS": "0,1",
            "SLURM_STEP_NUM_NODES": "2", "SLURMD_NODENAME": f"node{number}", "SKEW_SECONDS": str(seconds_ahead),
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        pipe = subprocess.PIPE
        command = [*rights(), *mount, "bash", "-c", script]
        started.append(subprocess.Popen(command, env=os.environ | own, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield begin
    for node in started:
        if node.poll() is None:  # the test has failed
            node.kill()
            node.communicate()


def ended(nodes: list[subprocess.Popen[str]]) -> str:
    """What they said, once all have ended."""
    said = [node.communicate(timeout=60)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0] * len(nodes), said
    return "".join(said)


def only_run(folder: Path, said: str) -> RunReader:
    """The run, once its ranks have ended and have ``said`` this."""
    left = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
    assert left == ["go", "run.sql"], said
    (reader,) = open_recording(folder / "run.sql").runs
    return reader


def running(folder: Path) -> RunReader | None:
    """The run while it is recorded; None as long as there is none."""
    try:
        return open_recording(folder / "run.sql").runs[0]
    except (RecordingError, IndexError):
        return None


def n_ticks(folder: Path) -> list[int]:
    """How many samples there are of each GPU by now."""
    reader = running(folder)
    return [] if reader is None else np.bincount(reader.samples([]).gpu, minlength=len(reader.gpus)).tolist()


def unexplained(reader: RunReader) -> list[float]:
    """The holes, s, between samples that come neither of a sampler that was held up, as it says itself, nor of a change of
    hands, nor stand at the very end."""
    samples, found = reader.samples([]), []
    said = [event.time for event in reader.events if event.kind == "gap" or "from now on" in event.message]
    for gpu in range(len(reader.gpus)):
        times = np.sort(samples.time[samples.gpu == gpu])
        for before, after in pairwise(times[:-1]):
            if after - before > 0.26 and not any(before < when <= after + 0.01 for when in said):
                found.append(after - before)
    return found


@pytest.mark.parametrize("fuse", [False, True], ids=["local", "incoherent"])
def test_nodes_that_share_nothing_but_a_folder_leave_one_recording(start: Node, tmp_path: Path, fuse: bool) -> None:
    disk = tmp_path / "disk"
    nodes = [start(number, UNTIL_GO, fuse) for number in range(2)]
    until(lambda: len(ticks := n_ticks(disk)) == 4 and min(ticks) >= 16, "samples of all GPUs")
    (disk / "go").touch()
    said = ended(nodes)
    reader = only_run(disk, said)
    assert said.count("How well used?") == 1 and "gpus=4 gaps=" in said, said
    assert not unexplained(reader)
    assert (reader.state, len(reader.processes)) == ("completed", 4)
    assert [(gpu.node, gpu.device_index) for gpu in reader.gpus] == [
        (f"node{n}", index) for n in (0, 1) for index in (0, 1)
    ]
    samples = reader.samples([])
    for gpu in range(4):
        ticks = np.diff(np.sort(samples.time[samples.gpu == gpu]))
        assert len(ticks) >= 15 and ticks.min() > 0.04  # half an interval, even where one rank took over from another


def test_a_rank_that_is_killed_on_its_node_is_taken_over_there(start: Node, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    kill = "[ $SLURM_PROCID = 2 ] && [ -e kill ] && kill -9 $PPID $(pgrep -P $PPID gssr-sampler)"
    script = f"until [ -e go ]; do {kill}; sleep 0.05; done"
    nodes = [start(number, script, fuse=True, in_turn=True) for number in range(2)]
    until(lambda: len(ticks := n_ticks(disk)) == 4 and min(ticks) >= 2, "samples by the first rank of each node")
    (disk / "next").touch()
    until(lambda: all(is_beside(disk, rank) for rank in (1, 3)), "the other ranks")
    (disk / "kill").touch()
    until(lambda: ("node1", 3) in taken_over(running(disk)), "the other rank to take over")
    before = sum(until(lambda: n_ticks(disk), "the samples so far"))
    until(lambda: sum(n_ticks(disk)) >= before + 4 * 5, "samples by that rank")
    told = time.time()
    (disk / "go").touch()
    for node in nodes:
        node.communicate(timeout=60)
    (reader,) = open_recording(tmp_path / "disk" / "run.sql").runs
    states = [process.state for process in reader.processes]
    assert states.pop(2) in ("running", "lost")  # nobody recorded its end; which, depends on how long ago that was
    assert states == ["completed"] * 3
    samples = reader.samples([])
    for gpu in range(4):
        times = np.sort(samples.time[samples.gpu == gpu])
        assert times[-1] > told - 0.2 and np.diff(times).max() < 20


def is_beside(folder: Path, rank: int) -> bool:
    """Whether this rank knows by now which GPUs there are."""
    reader = running(folder)
    return reader is not None and any(event.rank == rank and event.kind == "backend" for event in reader.events)


def taken_over(reader: RunReader | None) -> list[tuple[str | None, int | None]]:
    """Where, and by which rank, GPUs were taken over."""
    events = reader.events if reader is not None else ()
    return [(event.node, event.rank) for event in events if "sampled by this rank from now on" in event.message]


def test_a_clock_that_is_wrong_is_measured_and_told(start: Node, tmp_path: Path) -> None:
    began = time.time()
    nodes = [start(0, UNTIL_GO), start(1, UNTIL_GO, seconds_ahead=120.0)]
    until(lambda: len(n_ticks(tmp_path / "disk")) == 4 and min(n_ticks(tmp_path / "disk")) >= 10, "samples of all GPUs")
    (tmp_path / "disk" / "go").touch()
    reader = only_run(tmp_path / "disk", ended(nodes))
    measured = {process.node: process for process in reader.processes if process.clock_offset is not None}
    for node, ahead in (("node0", 0.0), ("node1", 120.0)):
        assert measured[node].clock_offset == pytest.approx(ahead, abs=max(0.1, measured[node].clock_error or 0.0))
    samples = reader.samples([])
    begins = {gpu.node: samples.time[samples.gpu == at].min() - began for at, gpu in enumerate(reader.gpus)}
    # All by the run's clock: files keep what each node's own clock said, and reading corrects it.
    assert all(0 < begin < 60 for begin in begins.values()) and set(begins) == {"node0", "node1"}
    assert not unexplained(reader)
    said = subprocess.run(
        [sys.executable, "-m", "gssr", "analyze", tmp_path / "disk" / "run.sql"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=60,
    )  # fmt: skip
    assert "clocks" in said.stdout and "120" in said.stdout, said.stdout
    times = [np.sort(samples.time[samples.gpu == gpu]) for gpu in range(4)]
    holes = sum((np.diff(own) > 0.25).sum() for own in times)  # where the machine stood still
    assert gssr.analyze(reader).n_gaps == reader.buckets(level=600).vectors[:, 1].sum() == holes
