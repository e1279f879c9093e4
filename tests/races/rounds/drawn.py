"""What a round does: which jobs race for one name, from which launcher, when their ranks start, how they end."""

import random
from typing import NamedTuple

RANKS = 4
_SEVERAL = 3
KINDS = {
    "slurm-array": "tasks of a job array, in a real Slurm",
    "slurm-steps": "steps of one job, in a real Slurm",
    "step": "jobs or steps with Slurm's variables",
    "openmpi": "mpirun's variables",
    "mpich": "hydra's variables, which name no run",
    "torchrun": "torchrun's variables, with an id of the run or none",
    "kubernetes": "pods of indexed jobs, each with a host name of its own",
}
"""How the ranks are started and told who they are."""
_WEIGHTS = {"slurm-array": 3, "step": 2}
IN_SLURM = ("slurm-array", "slurm-steps")
ENDLESS = 60.0
"""How long the workload of a rank that is to be killed would last, s."""


class Rank(NamedTuple):
    """``delay``: s after the round's start. ``works``: how long its workload takes, s, in each attempt: there is a second
    one where a killed rank is started again. ``code``: the workload's exit code."""

    delay: float
    works: tuple[float, ...]
    code: int


class Job(NamedTuple):
    """``option``: ``-f``, ``-a`` or nothing."""

    option: str
    ranks: tuple[Rank, ...]


class Race(NamedTuple):
    """``named``: with ``-o``, the same for all; else each job takes the default name. ``earlier``: a recording of that name
    is there before. ``own_gpus``: each rank samples a GPU of its own; else all of a node share theirs. ``ids``: whether the
    launcher names its runs, where both are usual; of ``step``, whether the jobs are steps of one. ``killed``: job and rank
    of the one that gets SIGKILL, ``kill_after`` s after it was seen in its recording."""

    seed: int
    kind: str
    named: bool
    earlier: bool
    own_gpus: bool
    nodes: int
    ids: bool
    jobs: tuple[Job, ...]
    killed: tuple[int, int] | None
    kill_after: float
    pages: bool

    def label(self, job: int) -> str:
        """The label of a job's run, which no other one of any round has."""
        return f"{self.seed}-{job}"

    @property
    def in_array(self) -> bool:
        """Whether the jobs are tasks of one job array."""
        return self.kind == "slurm-array" or (self.kind == "step" and self.named and not self.ids)

    @property
    def refuses(self) -> bool:
        """Whether a job may be refused for what stands at its name: not the default name, not a task of an array, and not
        where its ranks are on several nodes, which need not have a disk in common."""
        return self.named and self.nodes == 1 and not self.in_array and self.kind != "kubernetes"

    def each_has(self, option: str) -> bool:
        """Whether these are three jobs or more with one ``-o``, all of them with this option."""
        return self.named and len(self.jobs) >= _SEVERAL and {job.option for job in self.jobs} == {option}

    @property
    def label_of_earlier(self) -> str:
        """The label of the run that was there before."""
        return f"{self.seed}-earlier"

    def device(self, job: int, rank: int) -> int:
        """The index of the GPU that only this rank samples."""
        return job * RANKS + rank

    def __str__(self) -> str:
        options = " ".join(job.option or "nothing" for job in self.jobs)
        special = "" if self.killed is None else ", one killed"
        before = ", a recording before" if self.earlier else ""
        return f"{self.kind}, {'one -o' if self.named else 'default name'}, {options}{special}{before}"


def drawn(seed: int) -> Race:
    """The round of this number."""
    rng = random.Random(seed)
    kind = rng.choices(list(KINDS), [_WEIGHTS.get(kind, 1) for kind in KINDS])[0]
    n_jobs = rng.randint(2, 4)
    named, options = _options(rng, n_jobs)
    named = named or kind == "kubernetes"  # pods without -o have no name in common: each records for itself
    special = rng.choice(("none", "none", "kill", "late"))
    if special == "late" and "-f" not in options[1:]:
        named, options[-1] = True, "-f"  # the other one, which ends meanwhile
    jobs = [_job(rng, number, options[number]) for number in range(n_jobs)]
    killed = None
    if special != "none":
        job, rank = 0 if special == "late" else rng.randrange(n_jobs), rng.randrange(RANKS)
        ranks = list(jobs[job].ranks)
        if special == "late":
            ranks[rank] = ranks[rank]._replace(works=(ranks[rank].works[0] + rng.uniform(1.5, 3.0),))
        else:
            again = kind == "kubernetes" and rng.random() < 0.7
            ranks[rank] = ranks[rank]._replace(works=(ENDLESS, *ranks[rank].works * again))
            killed = job, rank
        jobs[job] = jobs[job]._replace(ranks=tuple(ranks))
    return Race(
        seed=seed,
        kind=kind,
        named=named,
        earlier=named and rng.random() < (0.15 if "" in options else 0.3),
        own_gpus=rng.random() < 0.75,
        nodes=rng.choice((1, 1, 2)) if kind in (*IN_SLURM, "step") else 1,
        ids=rng.random() < 0.5,
        jobs=tuple(jobs),
        killed=killed,
        kill_after=rng.choice((0.0, rng.uniform(0.0, 1.0))),
        pages=rng.random() < 0.25,
    )


def _options(rng: random.Random, n_jobs: int) -> tuple[bool, list[str]]:
    """Whether with ``-o``, and what each job has beside it."""
    way = rng.choices(("nothing", "-f", "-a", "mixed", "default"), (5, 4, 3, 5, 3))[0]
    if way == "mixed":
        return True, [rng.choice(("", "-f", "-a")) for _ in range(n_jobs)]
    if way == "default":
        return False, [rng.choice(("", "-a"))] * n_jobs
    return True, [way if way.startswith("-") else ""] * n_jobs


def _job(rng: random.Random, number: int, option: str) -> Job:
    begin = rng.choice((0.0, rng.uniform(0.0, 0.2), rng.uniform(0.0, 1.5)))
    spread = rng.choice((0.0, 0.05, 0.3, 1.0))
    work, uneven = rng.uniform(0.2, 1.2), rng.choice((0.0, 0.5))
    failing = rng.random() < 0.8
    return Job(
        option,
        tuple(
            Rank(
                begin + rng.uniform(0.0, spread),
                (work + rng.uniform(0.0, uneven),),
                10 + 10 * number + rank if failing else 0,
            )
            for rank in range(RANKS)
        ),
    )
