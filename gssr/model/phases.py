"""A run cut into phases, from the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gssr.model.evidence import Evidence
from gssr.model.verdict import Verdict

Kind = Literal["start-up", "steady", "recurring", "idle", "tail"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a run. ``start`` and ``end`` in unix s; ``share`` of the window's GPU-hours; ``score`` and ``means`` over
    it, None where unknown; ``verdicts`` are those that hold in it."""

    kind: Kind
    start: float
    end: float
    share: float
    score: float | None
    means: Mapping[str, float | None]
    verdicts: tuple[Verdict, ...] = ()


def phases(evidence: Evidence) -> tuple[Phase, ...]:
    """The phases of a window in the order of time."""
    return ()
