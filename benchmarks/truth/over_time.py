"""Causes that all GPUs share, and that show in the course of the job: beginning, end, pauses, rhythm, decline."""

import numpy as np

from benchmarks.truth.cause import Cause, cause
from benchmarks.truth.job import GB, MB, Job
from benchmarks.truth.levels import DOWNLOADING, IDLE, LOADING, SPINNING
from benchmarks.truth.timeline import Timeline, cycle, spans


def start_up(share: float) -> Cause:
    """The first ``share`` of the time goes by with imports, compiling, preparing on one core of each rank."""

    def spoil(job: Job) -> None:
        first = spans([(0.0, share * job.seconds)])
        job.do(LOADING, job.when(first))
        during = job.when_host(first)[:, None]
        job.cores += during * (1.0 - job.cores)
        job.grown = np.interp(job.edges[1:], [0.0, share * job.seconds * 0.9, share * job.seconds], [0.01, 0.1, 1.0])

    return cause(spoil, "start_up", "cpu_starved", blurs=False)


def tear_down(share: float) -> Cause:
    """In the last ``share`` of the time the program tidies up and writes its tables, on the CPU."""

    def spoil(job: Job) -> None:
        last = spans([((1 - share) * job.seconds, job.seconds)])
        job.do(IDLE, job.when(last))
        during = job.when_host(last)[:, None]
        job.cores += during * (0.7 - job.cores)

    return cause(spoil, "tear_down", blurs=False)


def hang(at: float, spinning: bool = False) -> Cause:
    """At ``at`` of the time a rank dies: the others wait for it until the time limit, asleep or (``spinning``) inside a
    collective's kernel."""

    def spoil(job: Job) -> None:
        rest = spans([(at * job.seconds, job.seconds)])
        job.do(SPINNING if spinning else IDLE, job.when(rest))
        during = job.when_host(rest)[:, None]
        job.cores += during * ((1.0 if spinning else 0.02) - job.cores)
        job.cpu += during * (0.02 - job.cpu)
        for rate in (job.disk_read, job.disk_write, job.received, job.sent):
            rate *= 1 - 0.99 * during
        job.state, job.exit_code = "timeout", 143

    return cause(spoil, "hang", blurs=False)


def pauses(n: int, length: float) -> Cause:
    """``n`` times, at no rhythm, everything stops for about ``length`` seconds: a new shape is compiled, say."""

    def spoil(job: Job) -> None:
        room = job.seconds * 0.86 - n * length * 1.5
        at = job.seconds * 0.08 + np.sort(job.random.random(n)) * room + np.arange(n) * length * 1.5
        during = spans([(begin, begin + length * (0.7 + 0.5 * job.random.random())) for begin in at.tolist()])
        job.do(IDLE, job.when(during))

    return cause(spoil, "pauses", blurs=False)


def _rhythm(job: Job, period: float, length: float) -> Timeline:
    return cycle(job.random, job.seconds, period, [1 - length / period, length / period], 0.02)[1]


def checkpoints(period: float, length: float) -> Cause:
    """Every ``period`` seconds the state is copied to the host and written, for ``length`` seconds."""

    def spoil(job: Job) -> None:
        during = _rhythm(job, period, length)
        job.do(DOWNLOADING, job.when(during))
        job.disk_write += 1.6 * GB * job.when_host(during)[:, None]

    return cause(spoil, "recurring_dips", "io_wait transfer_bound", blurs=False)


def validation(period: float, length: float) -> Cause:
    """Every ``period`` seconds one process counts scores on the CPU, for ``length`` seconds: little else happens."""

    def spoil(job: Job) -> None:
        during = _rhythm(job, period, length)
        job.do(LOADING, job.when(during))

    return cause(spoil, "recurring_dips", "cpu_starved", blurs=False)


def decline(to: float) -> Cause:
    """The host's part of a step grows all the time, until only ``to`` of it is left for the GPUs."""

    def spoil(job: Job) -> None:
        times = (job.edges[1:] + job.edges[:-1]) / 2
        job.do(IDLE, (1 - to) * times / job.seconds)

    return cause(spoil, "slow_down", "gaps")


def leak() -> Cause:
    """Memory fills to the brim in the course of the job."""

    def spoil(job: Job) -> None:
        times = job.edges[1:] / job.seconds
        job.memory[:] = np.minimum(0.55 + 0.60 * times, 0.985)[:, None]

    return cause(spoil, "memory_full", blurs=False)


def busy_neighbours() -> Cause:
    """Nothing: the nodes' disks and network are busy with another job's files all the time."""

    def spoil(job: Job) -> None:
        job.disk_read += 150 * MB
        job.received += 250 * MB

    return cause(spoil, "", blurs=False)
