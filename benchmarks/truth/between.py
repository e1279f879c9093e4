"""Causes that set some GPUs apart from the others."""

from collections.abc import Sequence

import numpy as np

from benchmarks.truth.cause import Cause, cause
from benchmarks.truth.job import Job
from benchmarks.truth.levels import IDLE, LOADING, SPINNING
from benchmarks.truth.timeline import cycle, spans


def unused(gpus: Sequence[int]) -> Cause:
    """No rank ever uses these GPUs."""

    def spoil(job: Job) -> None:
        own = np.array(gpus)
        job.do(IDLE, 1.0, own)
        job.reach_memory(0.006, own)
        job.cores[:, own] = 0.0

    return cause(spoil, "gpus_unused", blurs=False)


def late(nodes: Sequence[int], share: float) -> Cause:
    """These nodes get their image late: their ranks, which work on their own, begin after ``share`` of the time."""

    def spoil(job: Job) -> None:
        job.do(LOADING, job.when(spans([(0.0, share * job.seconds)])), job.gpus_of(nodes))

    return cause(spoil, "late_start", "imbalance", blurs=False)


def early(gpus: Sequence[int], share: float) -> Cause:
    """These ranks have the smaller pieces, and are through ``share`` of the time before the end."""

    def spoil(job: Job) -> None:
        job.do(IDLE, job.when(spans([((1 - share) * job.seconds, job.seconds)])), np.array(gpus))
        job.cores[int((1 - share) * job.seconds) :, np.array(gpus)] = 0.0

    return cause(spoil, "early_end", "imbalance", blurs=False)


def uneven_domains(least: float) -> Cause:
    """The pieces differ: from the first GPU's to the last one's they shrink to ``least``; who is through early waits
    (asleep) for the next step."""

    def spoil(job: Job) -> None:
        work = np.linspace(1.0, least, job.n_gpus)
        job.do(IDLE, np.broadcast_to(1 - work, job.clock.shape))

    return cause(spoil, "imbalance")


def crowded_node(node: int, most: float) -> Cause:
    """The first pieces are larger than all others: everyone else spins in a collective until ``node`` is through."""

    def spoil(job: Job) -> None:
        job.do(SPINNING, 1 - 1 / most, job.others(job.gpus_of([node])))

    return cause(spoil, "imbalance|straggler", "little_arithmetic")


def lagging(gpu: int, ratio: float) -> Cause:
    """One rank gets its data late in every step, and does ``ratio`` of what the others do; they need not wait for it."""

    def spoil(job: Job) -> None:
        job.do(IDLE, 1 - ratio, np.array([gpu]))

    return cause(spoil, "straggler", "imbalance", blurs=False)


def in_turns(hold: float, left: float) -> Cause:
    """For ``hold`` seconds each, one GPU after the other waits for its data and does ``left`` of its work."""

    def spoil(job: Job) -> None:
        for gpu, during in enumerate(cycle(job.random, job.seconds, hold * job.n_gpus, [1 / job.n_gpus] * job.n_gpus)):
            job.do(IDLE, (1 - left) * job.when(during), np.array([gpu]))

    return cause(spoil, "rotating_stragglers", blurs=False)


def in_turns_nodes(hold: float, left: float) -> Cause:
    """The same by nodes, in a job where all others wait in a collective's kernel meanwhile."""

    def spoil(job: Job) -> None:
        turns = cycle(job.random, job.seconds, hold * job.n_nodes, [1 / job.n_nodes] * job.n_nodes)
        for node, during in enumerate(turns):
            own, share = job.gpus_of([node]), (1 - left) * job.when(during)
            job.do(IDLE, share, own)
            job.do(SPINNING, share, job.others(own))

    return cause(spoil, "rotating_stragglers")


def lost(gpu: int, first: float, last: float) -> Cause:
    """Not the job's fault: between these shares of the time nothing was recorded of a GPU."""

    def spoil(job: Job) -> None:
        at = job.edges[1:] / job.seconds
        job.absent[(at > first) & (at < last), gpu] = True

    return cause(spoil, "", blurs=False)
