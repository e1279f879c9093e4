"""Pods are told by the names that the kernel and the kubelet leave on a node, laid out here as they lay them out."""

import os
from pathlib import Path

import pytest

from gssr.backends.base import Device
from gssr.backends.pods import Pod, PodNames
from gssr.metrics import NAMES
from gssr.profile.sampling.textfile import Textfile

OURS, OTHER = "3f" * 32, "a0" * 32
TRAIN = Pod("research", "training-0", "train")
CGROUPS = {
    "containerd, cgroup v2": f"0::/kubepods.slice/kubepods-pod1234_5678.slice/cri-containerd-{OURS}.scope\n",
    "CRI-O": f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12.slice/crio-{OURS}.scope\n",
    "Docker, cgroup v1": f"12:memory:/kubepods/burstable/pod12/{OURS}\n11:cpu:/kubepods/burstable/pod12/{OURS}\n",
    "seen from a control group of its own": f"0::/../../kubepods-pod12.slice/cri-containerd-{OURS}.scope\n",
    "a container in the container": f"0::/kubepods/pod12/{OTHER}/docker/{OURS}\n",
}


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Process 7 in a container whose log is there."""
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "proc" / "7" / "cgroup").write_text(CGROUPS["containerd, cgroup v2"])
    os.symlink("/gone", tmp_path / "logs" / f"training-0_research_train-{OURS}.log")
    os.symlink("/gone", tmp_path / "logs" / "something else.log")
    return tmp_path


def names(node: Path) -> PodNames:
    return PodNames(str(node / "proc"), str(node / "logs"))


@pytest.mark.parametrize("cgroup", CGROUPS.values(), ids=CGROUPS)
def test_a_process_belongs_to_the_pod_of_its_container(node: Path, cgroup: str) -> None:
    (node / "proc" / "7" / "cgroup").write_text(cgroup)
    assert names(node).pod_of(7, 0.0) == TRAIN


def test_what_can_not_be_known_is_none(node: Path) -> None:
    (node / "proc" / "8").mkdir()
    (node / "proc" / "8" / "cgroup").write_text("0::/user.slice/session-1.scope\n")
    known = names(node)
    assert known.pod_of(8, 0.0) is known.pod_of(9, 0.0) is None
    assert PodNames(str(node / "proc"), str(node / "nowhere")).pod_of(7, 0.0) is None


def test_a_container_that_starts_later_is_found(node: Path) -> None:
    log = node / "logs" / f"training-0_research_train-{OURS}.log"
    log.unlink()
    known = names(node)
    assert known.pod_of(7, 0.0) is None
    log.symlink_to("/gone")
    assert known.pod_of(7, 1.0) is None  # the folder is not listed at every look
    assert known.pod_of(7, 20.0) == TRAIN


def test_the_pods_of_a_gpu_are_published_and_go_when_they_leave_it(tmp_path: Path) -> None:
    file = Textfile(str(tmp_path), "node1", None, None, print)
    file.add_gpus([Device(0, "GPU-1")], ["sm_active"], 1.0)
    file.see_pods(0, [TRAIN, Pod("serving", "llm", 'a"b'), TRAIN])
    file.see_pods(5, [TRAIN])
    file.add([(0, 1000.0, *[0.5] * len(NAMES))])
    file.tick(1000.0)
    (path,) = tmp_path.glob("*.prom")
    told = [line for line in path.read_text().splitlines() if line.startswith("gssr_pod_info")]
    of_gpu = 'node="node1",gpu="0",uuid="GPU-1"'
    assert told == [
        f'gssr_pod_info{{{of_gpu},namespace="research",pod="training-0",container="train"}} 1',
        f'gssr_pod_info{{{of_gpu},namespace="serving",pod="llm",container="a\\"b"}} 1',
    ]
    file.see_pods(0, [])
    file.tick(2000.0)
    assert "gssr_pod_info" not in path.read_text()
