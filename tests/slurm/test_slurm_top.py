"""``gssr top --job``: a job's nodes from a login node, by a step of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster import ROOT

from tests.tmux import Tmux
from tests.tmux import tmux as tmux  # the fixture
from tests.waiting import until, until_ended

sys.path.insert(0, str(ROOT / "tests" / "tui"))


pytestmark = pytest.mark.xdist_group("slurm")

TOP = (sys.executable, "-m", "gssr", "top", "--backend", "synthetic")


def submit(slurm, tmp_path: Path, *options: str) -> str:
    (tmp_path / "job.sh").write_text("#!/bin/bash\nsleep 300\n")
    slurm.run("sbatch", "--time=30", "--job-name=train 'me", *options, "job.sh", cwd=tmp_path)
    return str(slurm.job_of("train 'me"))


def steps(slurm) -> list[str]:
    lines = slurm.run("squeue", "--steps", "--noheader", "--format=%j").stdout.split()
    return [name for name in lines if name == "gssr-top"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            ("-N4", "--gres=gpu:2"),
            ["node1:0", "node1:1", "node2:0", "node2:1", "node3:0", "node3:1", "node4:0", "node4:1"],
        ),
        (("-N2", "--gpus-per-task=1", "--ntasks-per-node=2"), ["node1:0", "node1:1", "node2:0", "node2:1"]),
        (("-N2", "--gpus=4"), ["node1:0", "node1:1", "node1:2", "node2:0"]),
    ],
    ids=["each node", "each task", "in all"],
)
def test_once_all_of_the_jobs_gpus_are_there_and_no_others(slurm, tmp_path: Path, options, wanted) -> None:
    job = submit(slurm, tmp_path, *options)
    found: dict[str, Any] = json.loads(slurm.run(*TOP, "--once", "--json", f"--job={job}").stdout)
    assert [gpu["gpu"] for gpu in found["gpus"]] == wanted
    assert all(0 <= gpu["sm_active"] <= 1 for gpu in found["gpus"])
    assert {host["state"] for host in found["hosts"]} == {"live"} and not any(host["reason"] for host in found["hosts"])
    assert (found["job"]["job_id"], found["job"]["name"]) == (job, "train 'me") and found["job"]["user"]
    table = slurm.run(*TOP, "--once", "--job", job).stdout
    assert f"job {job}  train 'me of " in table and " min left" in table and "live" in table
    until(lambda: not steps(slurm), "the steps' end")


def test_jobs_that_do_not_run_are_said_in_a_sentence(slurm, tmp_path: Path) -> None:
    def said(job: str) -> str:
        done = slurm.run(*TOP, "--once", "--job", job, check=False)
        assert (done.returncode, done.stdout) == (1, "") and done.stderr.count("\n") == 1
        return str(done.stderr)

    assert "gssr: " in said("4242")
    (tmp_path / "job.sh").write_text("#!/bin/bash\n")
    job = slurm.run("sbatch", "--parsable", "--hold", "job.sh", cwd=tmp_path).stdout.strip()
    assert f"job {job} is pending" in said(job)


def test_the_screen_shows_the_job_a_lost_node_and_leaves_nothing(slurm, tmp_path: Path, tmux: Tmux) -> None:
    def node(what: str) -> None:
        line = [ROOT / "tests/slurm/node-slurm.sh", what, "node3", str(slurm.directory)]
        subprocess.run(line, check=True, capture_output=True, timeout=60)

    room = tmp_path / "room"
    room.mkdir(mode=0o700)
    names = ("SLURM_CONF", "GSSR_SLURM_DIR", "PATH", "PYTHONPATH")
    variables = {name: slurm.environ[name] for name in names} | {"XDG_RUNTIME_DIR": str(room)}
    job = submit(slurm, tmp_path, "-N4", "--gres=gpu:2", "--no-kill", "--no-requeue")
    tmux.start("--job", job, "-t", "200", command=TOP, size=(120, 40), **variables)
    tmux.shows(rf"(?s)8 GPUs.*job {job}  train 'me of \w+  \d+ min left  4 hosts:  \u25cf 4 live.*node4:1")
    assert len(steps(slurm)) == 1
    try:
        node("fail")
        tmux.shows(r"(?s)3 live  \u2717 1 gone.*\u2717 node3 gone: .*[Nn]ode failure")
    finally:
        node("start")
    tmux.press("q")
    until_ended(tmux.pid)
    assert not os.listdir(room)
    until(lambda: not steps(slurm), "the step's end")


@pytest.mark.parametrize("who", ["gssr", "srun"])
def test_whoever_is_killed_the_step_ends(slurm, tmp_path: Path, who: str) -> None:
    job = submit(slurm, tmp_path, "-N2", "--gres=gpu:1")

    top = slurm.start(sys.executable, "-c", GATHER, job, cwd=tmp_path)
    assert top.stdout is not None and top.stdout.readline() == "gathered\n"
    assert len(steps(slurm)) == 1
    if who == "gssr":
        top.kill()
    else:
        (srun,) = [pid for pid in below(top.pid) if Path(f"/proc/{pid}/comm").read_text() == "srun\n"][:1]
        os.kill(srun, 9)
    until(lambda: not steps(slurm), "the step's end")
    top.kill()
    top.communicate()


GATHER = """
import sys, time
from gssr.profile.hosts.job import running_job
from gssr.profile.hosts.reach import by_srun
from gssr.profile.monitor import monitor_hosts
from gssr.store.host_states import read_states
from tests.tmux import Tmux
from tests.tmux import tmux as tmux  # the fixture
from tests.waiting import until, until_ended
job = running_job(sys.argv[1])
words = ["top", "--lines", "--sampling-time=100", "--backend=synthetic"]
(nodes,) = job.nodes
with monitor_hosts([by_srun(job.job_id, nodes.names, nodes.gpus, None, words)], job.state, 100.0) as own:
    while (states := read_states(own.path)) is None or not all(host.has_told for host in states.hosts):
        time.sleep(0.05)
    print("gathered", flush=True)
    time.sleep(60)
"""


def below(pid: int) -> list[int]:
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for word in words for each in (int(word), *below(int(word)))]
