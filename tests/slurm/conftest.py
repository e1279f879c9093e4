"""The cluster of the multi-node tests, started once."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import HERE, N_GPUS, N_NODES, ROOT, Cluster, kinds_of_nodes

*_OTHERS, _MOST_OF_THEIR_OWN = kinds_of_nodes()
_KINDS = [_MOST_OF_THEIR_OWN, *(pytest.param(kind, marks=pytest.mark.slow) for kind in _OTHERS)]


@pytest.fixture(scope="session", params=_KINDS)
def slurm(request: pytest.FixtureRequest, requires) -> Iterator[Cluster]:
    """The cluster. Its nodes are this machine: same clock, same files but for /dev/shm, each with what ``kinds_of_nodes``
    says of its own. ``gssr`` can be imported in its jobs and is on their PATH where it is installed."""
    requires("srun", "slurmctld", "slurmd", "munged", package="slurm-wlm munge")
    # Not pytest's own temporary folder: the path of a unix socket must be short.
    directory = Path(tempfile.mkdtemp(prefix="gssr-slurm."))
    start = [HERE / "start-slurm.sh", "-n", str(N_NODES), "-g", str(N_GPUS), "-d", directory]
    start += {"shared": [], "named": ["-H"], "private": ["-P"]}[request.param]
    try:
        done = subprocess.run(start, text=True, capture_output=True, timeout=90)
        assert done.returncode == 0, f"the cluster does not start: {done.stderr}"
        environ = dict(os.environ) | {
            "SLURM_CONF": str(directory / "slurm.conf"),
            "GSSR_SLURM_DIR": str(directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": str(ROOT),
        }
        yield Cluster(directory, environ)
    finally:
        subprocess.run([HERE / "stop-slurm.sh", directory], capture_output=True, timeout=90)


@pytest.fixture(autouse=True)
def left_idle(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test leaves behind on the cluster holds up none of those after it."""
    cluster = request.getfixturevalue("slurm") if "slurm" in request.fixturenames else None
    yield
    if cluster is not None:
        cluster.clear()
