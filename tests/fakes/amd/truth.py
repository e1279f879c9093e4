"""What simulated GPUs do, in closed form: values that change in steps, so that their sums over time are exact."""

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

TICK = 1000
"""The firmware looks a thousand times a second: its accumulators count in these."""
JOULE = 1 << 16
"""Counts of ``energy_accumulator``."""
KB = 1024
THROTTLERS = ("prochot", "ppt", "socket_thm", "vr_thm", "hbm_thm")


class Steps(NamedTuple):
    """A value over time, constant between steps: ``steps`` are (begin s, value) from 0 on; ``period``: it repeats."""

    steps: tuple[tuple[float, float], ...]
    period: float | None = None

    def at(self, time: float) -> float:
        """The value at ``time``."""
        time = time % self.period if self.period else time
        return [value for begin, value in self.steps if begin <= time][-1]

    def total(self, time: float) -> float:
        """Its integral from 0 to ``time``."""
        if self.period:
            rounds, rest = divmod(time, self.period)
            return rounds * self._total(self.period) + self._total(rest)
        return self._total(time)

    def mean(self, begin: float, end: float) -> float:
        """Over a time."""
        return (self.total(end) - self.total(begin)) / (end - begin)

    def _total(self, time: float) -> float:
        ends = [*self.steps, (float("inf"), 0.0)]
        return sum(value * (min(time, end) - begin) for (begin, value), (end, _) in pairwise(ends) if begin < time)


def always(value: float) -> Steps:
    """A value that never changes."""
    return Steps(((0.0, value),))


_NOTHING: Mapping[str, int] = MappingProxyType({})
_NEVER: Mapping[str, Steps] = MappingProxyType({})


class Truth(NamedTuple):
    """One GPU (a die of MI250X, a socket of MI300). Shares are 0-1. ``since``: what each accumulator had counted at 0, in
    its own unit, so that it may wrap; ``scale``: what a tick of full activity adds to those of activity. ``links``: over
    how many the traffic goes; the others are not there."""

    utilization: Steps = always(0.75)
    bandwidth: Steps = always(0.4)
    power: Steps = always(512.0)
    sent: Steps = always(48e6 * KB)
    received: Steps = always(16e6 * KB)
    clock: Steps = always(1900.0)
    hotspot: Steps = always(71.0)
    memory_temperature: Steps = always(58.0)
    memory: Steps = always(float(40 << 30))
    gtt: Steps = always(float(64 << 20))
    throttled: Mapping[str, Steps] = _NEVER
    links: int = 7
    since: Mapping[str, int] = _NOTHING
    scale: int = 100

    def counts(self, time: float) -> dict[str, int]:
        """All accumulators after ``time`` s: without ends, as wide as they get."""
        counts = {
            "accumulation_counter": round(time * TICK),
            "gfx_activity_acc": round(self.scale * self.utilization.total(time) * TICK),
            "mem_activity_acc": round(self.scale * self.bandwidth.total(time) * TICK),
            "energy_accumulator": round(self.power.total(time) * JOULE),
            "firmware_timestamp": round(time * 1e8),
            "system_clock_counter": round(time * 1e9),
        }
        for name in THROTTLERS:
            counts[f"{name}_residency_acc"] = (
                round(self.throttled[name].total(time) * TICK) if name in self.throttled else 0
            )
        return {name: count + self.since.get(name, 0) for name, count in counts.items()}

    def traffic(self, steps: Steps, time: float) -> list[int]:
        """KB of each link: unequal shares that add up."""
        total, n = round(steps.total(time) / KB), self.links
        parts = [total * (place + 1) // (n * (n + 1) // 2) for place in range(n - 1)]
        return [*parts, total - sum(parts)]
