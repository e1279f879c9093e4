"""Causes that make all GPUs wait in each step: for data, the CPU, links, or their own launches."""

import numpy as np

from benchmarks.truth.cause import Cause, cause
from benchmarks.truth.job import GB, MB, Job
from benchmarks.truth.levels import COLLECTIVE, IDLE, STREAMING, Level
from benchmarks.truth.timeline import Timeline, cycle, spans


def _part(job: Job, period: float, share: float, jitter: float = 0.1) -> Timeline:
    return cycle(job.random, job.seconds, period, [1 - share, share], jitter)[1]


def reading(period: float, share: float, network: bool = False, rate: float = 2.2 * GB) -> Cause:
    """In each ``period`` the loaders can't keep up for ``share`` of it: the disks (or the file server's network) give all
    they can, the CPUs have little to do."""

    def spoil(job: Job) -> None:
        waiting = _part(job, period, share, 0.2)
        job.do(IDLE, job.when(waiting))
        busy = job.when_host(waiting)[:, None]
        source = job.received if network else job.disk_read
        source += rate * (0.45 + 0.55 * busy)
        job.cores += busy * (0.9 - job.cores) * 0.6

    return cause(spoil, "io_wait", "recurring_dips gaps")


def reading_at_times(n: int, length: float) -> Cause:
    """``n`` times a new shard of the data is read from the disks, for ``length`` seconds each."""

    def spoil(job: Job) -> None:
        room = job.seconds * 0.88 - n * length * 1.2
        at = job.seconds * 0.06 + np.sort(job.random.random(n)) * room + np.arange(n) * length * 1.2
        during = spans([(begin, begin + length) for begin in at.tolist()])
        job.do(IDLE, job.when(during))
        job.disk_read += 2.8 * GB * job.when_host(during)[:, None]

    return cause(spoil, "io_wait", "pauses recurring_dips")


def one_core(period: float, share: float) -> Cause:
    """Each rank prepares its batches in the one process that also launches the kernels."""

    def spoil(job: Job) -> None:
        job.do(IDLE, job.when(_part(job, period, share)))
        job.cores[:] = 1.0
        job.cpu[:] = job.per_node / 64

    return cause(spoil, "cpu_starved", "gaps")


def all_cores(period: float, share: float) -> Cause:
    """The loaders take all cores of the node, and still are not fast enough."""

    def spoil(job: Job) -> None:
        job.do(IDLE, job.when(_part(job, period, share)))
        job.cpu[:] = 0.97
        job.cores[:] = 62 / job.per_node

    return cause(spoil, "cpu_starved", "gaps")


def launches(share: float, period: float = 0.04) -> Cause:
    """Between kernels the host synchronises and prints, ``share`` of the time; loaders have cores enough beside it."""

    def spoil(job: Job) -> None:
        job.do(IDLE, job.when(_part(job, period, share)))
        job.cores[:] = 4.5

    return cause(spoil, "gaps")


def copies(share: float, level: Level = STREAMING) -> Cause:
    """For ``share`` of each step data is copied between the host and the GPU, and nothing runs beside it."""

    def spoil(job: Job) -> None:
        job.do(level, job.when(_part(job, 0.5, share)))
        job.cpu += 0.03
        job.disk_read += 20 * MB

    return cause(spoil, "transfer_bound")


def exchanges(share: float) -> Cause:
    """For ``share`` of each step GPUs exchange gradients or fields over NVLink, and nothing runs beside it."""

    def spoil(job: Job) -> None:
        job.do(COLLECTIVE, job.when(_part(job, 0.6, share)))

    return cause(spoil, "communication_bound")


def takes(share: float) -> Cause:
    """It takes ``share`` of the memory; must be said where that is nearly all, or little."""

    def spoil(job: Job) -> None:
        job.reach_memory(share)

    return cause(spoil, "memory_full" if share > 0.95 else "memory_unused" if share < 0.4 else "", blurs=False)
