"""How runs on different numbers of GPUs compare with the smallest of them."""

from collections.abc import Sequence
from typing import Literal

from gssr.model.results import Analysis

ScalingKind = Literal["strong", "weak"]
"""Strong: all runs did the same work. Weak: each GPU had the same work in all of them."""


def scaling_runs(analyses: Sequence[Analysis]) -> list[Analysis]:
    """List the runs that completed by their number of GPUs, of several on as many the shortest first: the others are
    compared with the first. [] if all of them had the same number."""
    complete = [run for run in analyses if run.state == "completed" and run.gpus and run.window.duration > 0]
    if len({len(run.gpus) for run in complete}) < 2:
        return []
    return sorted(complete, key=lambda run: (len(run.gpus), run.window.duration))


def speedup_of(run: Analysis, smallest: Analysis) -> float:
    """Return how many times as fast as the smallest run this one ended."""
    return smallest.window.duration / run.window.duration


def efficiency_of(run: Analysis, smallest: Analysis, kind: ScalingKind) -> float:
    """Return the efficiency of a run, 1 is ideal: of strong scaling the smallest run's GPU time, divided by this run's; of
    weak scaling its duration, divided by this run's."""
    speedup = speedup_of(run, smallest)
    return speedup if kind == "weak" else speedup * len(smallest.gpus) / len(run.gpus)
