"""What is known of a run beside earlier ones: gssr.model.fleet.history finds it out."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Standing:
    """How a number of a run stands against ``n`` earlier runs, those before the change. ``usual``: their median;
    ``change``: by which share of that the number differs. ``since`` (unix s): when the first of the ``n_since`` runs
    began that differ so, of which this run is the last; None of what is as usual. If they are too few, only ``n`` is
    known, and the others are None."""

    kind: Literal["too few", "as usual", "lower", "higher"]
    n: int
    usual: float | None
    change: float | None
    since: float | None
    n_since: int


@dataclass(frozen=True, slots=True)
class History:
    """How a run stands against ``n_runs`` earlier ones of its label and size: by its ``score``, and by how long a
    ``step`` took. Each is None where it is unknown of the run."""

    n_runs: int
    score: Standing | None
    step: Standing | None
