"""How runs on different numbers of GPUs compare with the smallest of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gssr.model.results import Analysis

ScalingKind = Literal["strong", "weak"]
"""Strong: all runs did the same work. Weak: each GPU had the same work in all of them."""


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One run among several, and how it compares with the run on the fewest GPUs.

    Attributes:
        analysis: The run.
        speedup: How many times as fast as the smallest run it ended: the smallest run's duration, divided by this run's.
        efficiency: Of strong scaling the smallest run's GPU time, divided by this run's; of weak scaling its duration,
            divided by this run's. 1 is ideal. None if nobody said which of the two it is.
    """

    analysis: Analysis
    speedup: float
    efficiency: float | None


def scaling_rows(analyses: Sequence[Analysis], kind: ScalingKind | None) -> tuple[ScalingRow, ...]:
    """Compare runs with the one on the fewest GPUs (of several such, the shortest). Returns them by their number of GPUs;
    none if all runs that completed had the same number. ``kind``: None if it is not known what work the runs did."""
    complete = [run for run in analyses if run.state == "completed" and run.gpus and run.window.duration > 0]
    if len({len(run.gpus) for run in complete}) < 2:
        return ()
    complete.sort(key=lambda run: (len(run.gpus), run.window.duration))
    first = complete[0]
    rows = []
    for run in complete:
        speedup = first.window.duration / run.window.duration
        of_kind = {"strong": speedup * len(first.gpus) / len(run.gpus), "weak": speedup, None: None}
        rows.append(ScalingRow(run, speedup, of_kind[kind]))
    return tuple(rows)
