"""What jobs compute when nothing is wrong, and what is true of them even then."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.truth.job import MB, Job
from benchmarks.truth.levels import (
    CHEMISTRY,
    COLLECTIVE,
    CONVOLUTION,
    DECODING,
    FULL_PRECISION,
    GRAPH,
    IDLE,
    LINPACK,
    LOADING,
    PREFILL,
    SMALL_KERNELS,
    SPARSE,
    STENCIL,
    TRANSFORMER,
    Level,
)
from benchmarks.truth.timeline import cycle, spans


class Work(NamedTuple):
    """A kind of program. ``must``: codes of verdicts that are true of it and worth saying; ``may``: those that may be said.
    ``step``: seconds; ``parts``: what a step consists of, and the share of it each part takes."""

    step: float
    parts: tuple[tuple[Level, float], ...]
    must: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    beside: Callable[[Job], None] | None = None

    def fill(self, job: Job) -> None:
        """All GPUs do it from the beginning to the end, but for some seconds at either."""
        timelines = cycle(job.random, job.seconds, self.step, [share for _, share in self.parts])
        for (level, _), timeline in zip(self.parts, timelines, strict=True):
            job.activity += np.array(level)[:, None, None] * job.when(timeline)[:, None]
        if self.beside is not None:
            self.beside(job)
        begin, end = spans([(0.0, 0.015 * job.seconds)]), spans([(0.995 * job.seconds, job.seconds)])
        job.do(LOADING, job.when(begin))
        job.do(IDLE, job.when(end))
        job.disk_read += 200 * MB * job.when_host(begin)[:, None]
        job.grown = np.interp(job.edges[1:], [0.0, 0.01 * job.seconds, 0.03 * job.seconds], [0.02, 0.25, 1.0])


def _one_core_each(job: Job) -> None:
    """An MPI program: each rank's process turns in its library's loop whenever it waits."""
    job.cores[:] = 1.0
    job.cpu[:] = job.per_node / 64


def _requests(job: Job) -> None:
    """Requests come as they like: the batch is now larger, now smaller."""
    times = (job.edges[1:] + job.edges[:-1]) / 2
    slow = np.zeros(len(times))
    for period in job.seconds * np.array([0.9, 0.37, 0.17, 0.071]):
        slow += np.sin(2 * np.pi * (times / period + job.random.random())) / 4
    own = 0.04 * job.random.standard_normal((len(times), job.n_gpus))
    load = np.clip(0.86 + 0.13 * slow[:, None] + own, 0.5, 1.0)
    job.activity *= load


def _work(
    step: float, *parts: tuple[Level, float], must: str = "", may: str = "", beside: Callable[[Job], None] | None = None
) -> Work:
    return Work(step, parts, frozenset(must.split()), frozenset(may.split()), beside)


TRAINING = _work(0.8, (TRANSFORMER, 0.95), (COLLECTIVE, 0.05), must="compute_bound")
VISION = _work(0.3, (CONVOLUTION, 0.94), (COLLECTIVE, 0.04), (IDLE, 0.02), may="memory_bound")
PLAIN_TRAINING = _work(0.5, (FULL_PRECISION, 0.94), (COLLECTIVE, 0.06), must="tensor_unused", may="compute_bound")
STENCIL_CODE = _work(
    0.05, (STENCIL, 0.98), (COLLECTIVE, 0.02), must="memory_peak", may="fp64 memory_bound", beside=_one_core_each
)
SOLVER = _work(0.2, (SPARSE, 0.96), (COLLECTIVE, 0.04), must="memory_bound", may="fp64", beside=_one_core_each)
QUANTUM_CHEMISTRY = _work(4.0, (CHEMISTRY, 0.97), (IDLE, 0.03), must="compute_bound fp64", beside=_one_core_each)
DENSE_ALGEBRA = _work(
    2.0, (LINPACK, 0.98), (COLLECTIVE, 0.02), must="compute_bound fp64", may="power_capped", beside=_one_core_each
)
INFERENCE = _work(0.9, (DECODING, 0.85), (PREFILL, 0.12), (IDLE, 0.03), may="memory_bound", beside=_requests)
OFFLINE_INFERENCE = _work(0.9, (DECODING, 0.95), (PREFILL, 0.05), must="memory_bound")
GRAPH_ANALYSIS = _work(0.7, (GRAPH, 0.98), (IDLE, 0.02), must="little_arithmetic")
TINY_MODEL = _work(0.02, (SMALL_KERNELS, 1.0), must="small_kernels")
