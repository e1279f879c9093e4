"""The numbers by which two runs are compared, as page and screen list them: what each is called, its unit, its change."""

from typing import NamedTuple

from gssr.gpu_vendors import say, spoken
from gssr.model.compare.comparison import Comparison, FigureChange
from gssr.render.scale import Unit, fixed, metric_of, signed, unit_of

_TOTALS: dict[str, tuple[str, Unit]] = {
    "score": ("score", Unit("", 1.0, 3)),
    "imbalance": ("imbalance, SM active", Unit("%", 100.0, 1)),
    "duration_s": ("duration", Unit("s", 1.0, 1)),
    "gpu_hours": ("GPU-hours", Unit("", 1.0, 3)),
    "energy_j": ("energy", Unit("kJ", 1e-3, 2)),
}
"""What totals are called, and how they are shown."""


class ComparedFigure(NamedTuple):
    """A number of two runs: its label, how its values are shown, and its change."""

    label: str
    unit: Unit
    change: FigureChange


def compared_figures(comparison: Comparison) -> dict[str, ComparedFigure]:
    """List the totals, then the metrics that either run has, by their names."""
    found = {
        name: ComparedFigure(say(spoken(), label), unit, comparison.totals[name])
        for name, (label, unit) in _TOTALS.items()
    }
    for name, change in comparison.metrics.items():
        metric = metric_of(name)
        found[name] = ComparedFigure(metric.label, unit_of(metric), change)
    return found


def figure_text(unit: Unit, value: float | None, with_sign: bool = False) -> str:
    """Write a number of this unit, which stands beside it; NONE for None."""
    return (signed if with_sign else fixed)(None if value is None else value * unit.factor, unit.decimals)
