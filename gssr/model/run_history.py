"""What is known of a run beside earlier ones: gssr.model.fleet.history finds it out."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Standing:
    """How a number of a run stands against ``n`` earlier runs, those before the change: ``usual`` is their median,
    ``change`` what it differs by as a share of that. ``since`` (unix s): when the first of the ``n_since`` runs
    began that differ so, this one the last of them; None of what is as usual. Of too few nothing is
    known but ``n``."""

    kind: Literal["too few", "as usual", "lower", "higher"]
    n: int
    usual: float | None
    change: float | None
    since: float | None
    n_since: int


@dataclass(frozen=True, slots=True)
class History:
    """How a run stands against ``n_runs`` earlier ones of its label and size: its ``score``, and how long a ``step`` took;
    None where that is unknown of the run."""

    n_runs: int
    score: Standing | None
    step: Standing | None
