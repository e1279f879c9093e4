"""A running cluster: real Slurm daemons on this machine."""

import getpass
import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.waiting import until

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
N_NODES, N_GPUS = 4, 4
# srun says so where the step before has not given its nodes back yet, which a busy machine takes a moment to do
WAITING = re.compile(r"srun: (Job \d+ step creation (temporarily|still) disabled|Step created for )")


class Cluster(NamedTuple):
    """A running cluster of ``N_NODES`` nodes (node1, node2, ...) with ``N_GPUS`` fake GPUs each."""

    directory: Path
    environ: dict[str, str]

    def run(
        self, *command: str | Path, cwd: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of Slurm's commands, or any other, with this cluster in its environment; at most 60 s."""
        done = subprocess.run(command, env=self.environ, cwd=cwd, text=True, capture_output=True, timeout=60)
        if check and done.returncode:
            raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
        return done

    def srun(self, *arguments: str, cwd: Path | None = None) -> list[str]:
        """The lines that a step of its own printed, in no order."""
        return self.run("srun", "--quiet", *arguments, cwd=cwd).stdout.splitlines()

    def start(self, *command: str | Path, cwd: Path) -> subprocess.Popen[str]:
        """Starts a command in this cluster."""
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.environ, cwd=cwd, text=True, stdout=pipe, stderr=pipe)

    def wait_for_end(self, job: str) -> None:
        """Returns when a job is gone."""
        try:
            until(lambda: not self.run("squeue", "--noheader", "--jobs", job).stdout)
        except AssertionError as error:
            raise AssertionError(f"job {job} does not end:\n{self.state()}") from error

    def clear(self) -> None:
        """Let the next test begin on an idle cluster: jobs that are left are cancelled, nodes taken out are taken back."""
        self.run("scancel", "--user", getpass.getuser(), check=False)
        with suppress(AssertionError):  # the next one will say that it waits
            until(self._is_idle)

    def _is_idle(self) -> bool:
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %t").stdout.splitlines()
        states = dict(line.split() for line in lines)
        for node, state in states.items():
            if state.startswith(("down", "drain", "drng")):
                self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        return set(states.values()) == {"idle"}

    def state(self) -> str:
        """What there is to know of a cluster that hangs."""
        questions = ("squeue --long", "sinfo --long --Node", "sinfo -R")
        told = [self.run(*words.split(), check=False).stdout for words in questions]
        logs = [(path, path.read_text(errors="replace")) for path in sorted(self.directory.glob("log/*.log"))]
        return "\n".join([*told, *(f"{path.name}:\n" + "\n".join(text.splitlines()[-40:]) for path, text in logs)])

    def job_of(self, name: str) -> str:
        """The id of the running job of this name, once there is one."""
        query = ("squeue", "--noheader", "--name", name, "--states", "RUNNING", "--format", "%A")
        return until(lambda: self.run(*query).stdout.strip())

    def sbatch(self, script: str, *options: str, cwd: Path) -> str:
        """What a batch script wrote, once its job has ended, without how its steps waited for each other."""
        (cwd / "job.sh").write_text("#!/bin/bash\n" + script)
        job = self.run("sbatch", "--parsable", "--output=%j.out", *options, "job.sh", cwd=cwd).stdout.strip()
        self.wait_for_end(job)
        lines = (cwd / f"{job}.out").read_text().splitlines(keepends=True)
        return "".join(line for line in lines if not WAITING.match(line))


def kinds_of_nodes() -> list[str]:
    """What root allows here: nodes with host names of their own, and those with /dev/shm, locks and pids of their own."""
    if os.geteuid() != 0:
        return ["shared"]
    kinds = {"named": ["--uts"], "private": ["--uts", "--mount", "--pid", "--fork", "--mount-proc"]}
    done = {kind: subprocess.run(["unshare", *own, "true"], capture_output=True) for kind, own in kinds.items()}
    return [kind for kind in kinds if not done[kind].returncode] or ["shared"]
