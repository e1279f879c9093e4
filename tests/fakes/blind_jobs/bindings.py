"""The cores to which each rank's processes are bound, or that their container may use: what a recorder reads at the start.

Some sites give each GPU its part of the node, less what they keep for the operating system; some bind nothing; somebody
forgets to ask and gets a core, or one with its two threads; a container has a quota. Whatever a program does fits into it,
and a program that keeps all of it busy is not slowed down by that unless its kind says so.
"""

import numpy as np

from tests.fakes.blind_jobs.draft import Draft
from tests.fakes.blind_jobs.schedule import Timeline

UNWRITTEN, UNWRITTEN_ON_A_NODE = 0.15, 0.03
"""How often a recorder is too old to write them: that of a job, or of one of its nodes."""
QUOTAS = (1.0, 1.5, 2.5, 3.5, 3.9, 5.5, 7.2, 7.5, 10.0, 11.5, 15.8, 30.0)


def busiest(timeline: Timeline) -> float:
    """The most cores that any rank keeps busy at any time."""
    lasts = np.zeros(len(timeline.phases))
    np.maximum.at(lasts, timeline.phase_of, np.diff(timeline.edges, axis=1).max(axis=0))
    return float(timeline.figures("cores")[lasts > 0].max())


def bound_cores(job: Draft, timeline: Timeline, seed: int) -> list[float | None]:
    """The cores of each rank, None where they are not known. Its random numbers are drawn apart from all others."""
    rng = np.random.default_rng([seed, 307])
    need = busiest(timeline)
    unwritten = rng.random() < UNWRITTEN
    node_unwritten = int(rng.integers(job.n_nodes)) if rng.random() < UNWRITTEN_ON_A_NODE else -1
    if unwritten or not job.knows_host:
        return [None] * job.n_gpus
    found = _cores(job, need, rng)
    return [None if node == node_unwritten else cores for node, cores in zip(job.node_of, found, strict=True)]


def _cores(job: Draft, need: float, rng: np.random.Generator) -> list[float]:
    """Draw how the site binds ranks. A rank whose program needs more than that was bound to nothing."""
    if job.bound_to is not None:
        return [job.bound_to] * job.n_gpus
    whole = [float(model.cores) for model in job.models]
    how = rng.random()
    if job.fills_node:
        per_node = job.n_gpus / job.n_nodes
        return [cores / per_node for cores in whole] if how < 0.6 else whole
    found: list[float]
    if how < 0.28:
        kept = float(rng.choice((1.0, 1.0, 7 / 8)))
        found = [float(int(kept * model.cores / model.per_node)) for model in job.models]
    elif how < 0.46:
        found = whole
    elif how < 0.62:
        found = [float(rng.choice((1, 1, 2)))] * job.n_gpus
    elif how < 0.8:
        threads = int(rng.choice((1, 1, 2)))  # of a core, each counted
        found = [float(threads * np.ceil(need) + rng.choice((0, 0, 1)))] * job.n_gpus
    elif how < 0.95:
        enough = [quota for quota in QUOTAS if quota >= need] or [max(whole)]
        found = [enough[int(rng.integers(min(2, len(enough))))]] * job.n_gpus
    else:  # a scheduler that spreads what is free unevenly over its tasks
        found = [float(rng.integers(int(np.ceil(need)), int(most) + 1)) for most in whole]
    return [min(cores, most) if cores >= need else most for cores, most in zip(found, whole, strict=True)]
