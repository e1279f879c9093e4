"""How runs on different numbers of GPUs compare with the smallest of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from gssr.model.results import Analysis


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One run among several, and how it compares with the run on the fewest GPUs.

    Attributes:
        analysis: The run.
        n_gpus: The GPUs that it had.
        speedup: How many times as fast as the smallest run it ended.
        same_work: Efficiency if both runs did the same work: the smallest run's GPU time, divided by this run's. 1 is ideal.
        same_work_per_gpu: Efficiency if each GPU had the same work in both: the smallest run's duration, divided by this
            run's. 1 is ideal.
    """

    analysis: Analysis
    n_gpus: int
    speedup: float
    same_work: float
    same_work_per_gpu: float


def scaling_rows(analyses: Sequence[Analysis]) -> tuple[ScalingRow, ...]:
    """Compare runs with the one on the fewest GPUs (of several such, the shortest). Returns them by their number of GPUs;
    none if all runs that completed had the same number."""
    complete = [run for run in analyses if run.state == "completed" and run.gpus and run.window.duration > 0]
    if len({len(run.gpus) for run in complete}) < 2:
        return ()
    complete.sort(key=lambda run: (len(run.gpus), run.window.duration))
    first = complete[0]
    rows = []
    for run in complete:
        speedup = first.window.duration / run.window.duration
        rows.append(ScalingRow(run, len(run.gpus), speedup, speedup * len(first.gpus) / len(run.gpus), speedup))
    return tuple(rows)
