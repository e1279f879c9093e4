"""How many cores a batch system or a container lets each rank's processes keep busy, as a recorder reads it at their start.

Sites differ: a share of the node for each GPU, all of the node for everybody, what was asked for, or what one gets who asks
for nothing; with two hardware threads a core counts twice. Programs run within what they got, some on all of it.
"""

from collections.abc import Mapping

import numpy as np

from tests.fakes.unseen_jobs.draft import Draft
from tests.fakes.unseen_jobs.work import RATES

OLD_RECORDERS, DEAF_NODES = 0.15, 0.02
"""Shares of jobs whose recorders don't know of such cores: all of them, or that of one node."""
_SITES = {"share": 0.24, "whole_node": 0.16, "asked": 0.26, "default": 0.14, "container": 0.15, "leftover": 0.05}
_QUOTAS = (0.5, 1.5, 2.0, 2.5, 3.5, 3.92, 4.0, 6.0, 7.5, 7.91, 8.0, 12.0, 15.5, 16.0, 24.0, 31.0, 48.0)


def most_busy(job: Draft) -> float:
    """Return the most cores that a process of the job ever keeps busy."""
    cores = job.timeline.rate_table()[:, RATES.index("cores")]
    found = np.zeros(job.n)
    for block in job.timeline.blocks:
        is_done = block.seconds.max(axis=0) > 0
        found = np.maximum(found, (is_done * cores[list(block.works)][:, None]).max(axis=0))
    return float(np.bincount(job.process_of, found).max())


def granted_cores(job: Draft, seed: int) -> Mapping[int, float | None]:
    """Return the cores of each rank, None where no recorder wrote them. They come from a stream of random numbers of their
    own: nothing else of a job depends on them."""
    rng = np.random.default_rng([seed, 79])
    is_old, need = bool(rng.random() < OLD_RECORDERS), most_busy(job)
    ranks = [int(rank) for rank in np.unique(job.process_of)]
    if job.given_cores is not None:
        # Where the start of such a job keeps more cores busy than its story has, an old recorder wrote it.
        is_old = need > job.given_cores
    if job.view == "imported" or is_old or need > job.machine.cores:
        return dict.fromkeys(ranks)
    found: dict[int, float | None] = {**_of_site(job, ranks, need, rng)}
    if rng.random() < DEAF_NODES:
        node = int(rng.integers(job.machine.n_nodes))
        found |= {rank: None for rank in ranks if job.machine.node_of[rank] == node}
    return found


def _of_site(job: Draft, ranks: list[int], need: float, rng: np.random.Generator) -> dict[int, float]:
    """Draw a site, and return what it gives to each rank; a site that gives too little lets ranks see the whole node."""
    machine, model = job.machine, job.machine.model
    if job.given_cores is not None:
        return dict.fromkeys(ranks, job.given_cores)
    if job.takes_all_cores:
        shared = bool(rng.random() < 0.5)
        return dict.fromkeys(ranks, float(machine.cores if shared else machine.cores // machine.per_node))
    site = str(rng.choice(list(_SITES), p=list(_SITES.values())))
    threads = 2 if rng.random() < 0.2 else 1
    whole, least = float(machine.cores), float(np.ceil(need))
    if site == "leftover":  # what other jobs left of each node
        return {rank: float(rng.integers(int(least), machine.cores + 1)) for rank in ranks}
    if site == "share":
        slots = machine.per_node if model.has_c2c else max(*model.per_node, machine.per_node)
        of_gpu = machine.cores // slots
        of_gpu -= int(of_gpu >= 4 and rng.random() < 0.3)  # one of them is the operating system's
        of_gpu //= int(rng.choice((1, 1, 1, 1, 2)))  # tasks that are bound to one thread of each core
        cores = float(of_gpu * (job.n // len(ranks)))
    elif site == "asked":
        cores = (least + float(rng.choice((0, 0, 0, 0, 1, 2)))) * threads
    elif site == "default":
        cores = float(threads if threads >= need else 2)
    elif site == "container":
        enough = [quota for quota in _QUOTAS if quota >= need] or [whole]
        cores = enough[0] if rng.random() < 0.5 else float(rng.choice(enough))
    else:
        cores = whole
    return dict.fromkeys(ranks, min(cores, whole) if cores >= need else whole)
