"""Causes that lie in the hardware: heat, power, clocks."""

from collections.abc import Sequence

import numpy as np

from benchmarks.truth.cause import Cause, cause
from benchmarks.truth.job import Job
from benchmarks.truth.levels import IDLE, SPINNING
from benchmarks.truth.timeline import Timeline, cycle, spans

SETTING, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x2, 0x4, 0x8, 0x20, 0x40, 0x80
"""NVML's clock event reasons."""


def _throttled(job: Job, gpus: Sequence[int], factor: float, bits: int, during: Timeline, waiting: bool) -> None:
    """These GPUs at ``factor`` of their clock: as busy as before, with less to show for it. ``waiting``: the job goes in
    step, and the others wait for them."""
    own, when = np.array(gpus), job.when(during)
    job.run_slower(factor, bits, when, own)
    if waiting:
        job.do(SPINNING, (1 - factor) * when, job.others(own))


def _always(job: Job) -> Timeline:
    return spans([(0.0, job.seconds)])


def hot_node(node: int, factor: float, software: bool = False, chassis: bool = False) -> Cause:
    """A fan of ``node`` has failed, and all others wait for its GPUs. ``chassis``: its CPUs are too hot as well, launch
    kernels late, and leave its GPUs gaps."""

    def spoil(job: Job) -> None:
        bits = SW_THERMAL if software else HW_SLOWDOWN | HW_THERMAL
        from_heat = spans([(min(60.0, 0.08 * job.seconds), job.seconds)])
        own = job.gpus_of([node])
        _throttled(job, own.tolist(), factor, bits, from_heat, waiting=not chassis)
        if chassis:
            job.do(IDLE, (1 - factor) * job.when(from_heat), own)
            job.do(SPINNING, 0.6 * (1 - factor) * job.when(from_heat), job.others(own))

    return cause(spoil, "slow_node throttled_thermal", "imbalance straggler little_arithmetic")


def hot_gpus(gpus: Sequence[int], factor: float, share: float) -> Cause:
    """Single GPUs get too hot, again and again, ``share`` of the time; nobody waits for them."""

    def spoil(job: Job) -> None:
        during = cycle(job.random, job.seconds, 45.0, [1 - share, share], 0.2)[1]
        _throttled(job, gpus, factor, HW_SLOWDOWN | HW_THERMAL, during, False)

    return cause(spoil, "throttled_thermal", "slow_node straggler imbalance", blurs=False)


def braked_node(node: int, factor: float) -> Cause:
    """The power supply of ``node`` asks for less; the others wait."""

    def spoil(job: Job) -> None:
        _throttled(job, job.gpus_of([node]).tolist(), factor, HW_SLOWDOWN | POWER_BRAKE, _always(job), True)

    return cause(spoil, "slow_node throttled_power_brake", "imbalance straggler little_arithmetic")


def failing(gpus: Sequence[int], factor: float) -> Cause:
    """The board holds its clock down and doesn't say why; these ranks fall behind, the others go on."""

    def spoil(job: Job) -> None:
        _throttled(job, gpus, factor, HW_SLOWDOWN, _always(job), False)
        job.do(IDLE, 0.1, np.array(gpus))

    return cause(spoil, "throttled_hardware", "slow_node straggler imbalance", blurs=False)


def low_limit(watts: float) -> Cause:
    """The operators have lowered the power limit of all GPUs."""

    def spoil(job: Job) -> None:
        job.limit = watts

    return cause(spoil, "power_capped", blurs=False)


def low_limit_node(node: int, factor: float) -> Cause:
    """Only ``node`` has a lower power limit, and is slow for it; the others wait."""

    def spoil(job: Job) -> None:
        _throttled(job, job.gpus_of([node]).tolist(), factor, POWER_CAP, _always(job), True)

    return cause(spoil, "slow_node", "power_capped imbalance straggler little_arithmetic")


def left_set(gpus: Sequence[int], factor: float, waiting: bool = False, told: bool = False) -> Cause:
    """Somebody's application clocks were left set on these GPUs; ``told``: the driver gives the setting as a reason."""

    def spoil(job: Job) -> None:
        _throttled(job, gpus, factor, SETTING if told else 0, _always(job), waiting)

    return cause(spoil, "slow_clock|slow_node", "imbalance straggler little_arithmetic", blurs=waiting)
