"""What the user looks at, and how: one value that every key press replaces by another. No Textual here."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.live.live_result import Query, Result

if TYPE_CHECKING:
    from gssr.model.live.alignment import Alignment
    from gssr.model.traces.levels import LevelName

ScreenName = Literal["job", "gpus", "time", "balance", "why", "compare", "calls"]
TITLES: dict[ScreenName, str] = {
    "job": "Job", "gpus": "GPUs", "time": "Time", "balance": "Balance", "why": "Why", "compare": "Compare", "calls": "Calls",
}  # fmt: skip
"""The screens, in their order."""
OF_TRACES: frozenset[ScreenName] = frozenset({"calls"})


@dataclass(frozen=True, slots=True)
class View:
    """Selection, time window and ``metric`` (empty: the best that was measured) are shared by all screens.

    ``span`` s up to ``end`` (unix s) are looked at: None is the whole run, and the newest sample; ``lately``: nobody
    chose a window, so that the newest columns of a run that grows roll in at the right edge. ``cursor`` (unix s) is the
    time looked at, None for none. ``selection``: positions of the GPUs looked at, named ``selected``; empty is the whole
    job. ``row``: the line under the cursor of a trace's timeline; ``note``: which verdict Why is about.
    ``speed``: seconds of the recording a second while it is played, 0 when it is not. ``trail``: where Esc goes back to. Of
    traces only: ``level``: what is looked at as GPUs; ``opened``: Time shows what is selected track by track; ``name``: what
    is looked for on Time; ``alike``: Time shows bands of rows that spend their time alike; ``place``: the interval of which
    Why tells all, -1 for the one at the cursor.
    """

    screen: ScreenName = "job"
    metric: str = ""
    span: float | None = None
    lately: bool = True
    end: float | None = None
    cursor: float | None = None
    selection: tuple[int, ...] = ()
    selected: str = ""
    row: int = 0
    note: int = 0
    top: int = 0
    filter: str = ""
    grouped: bool = True
    alike: bool = False
    align: "Alignment" = "start"
    speed: float = 0.0
    level: "LevelName | None" = None
    opened: bool = False
    name: str = ""
    place: int = -1
    trail: tuple["View", ...] = ()

    def query(self, columns: int, rows: int = 0) -> Query:
        """Return the query for what this view needs, in ``columns`` of time, with ``rows`` of a timeline (0: none)."""
        return Query(
            self.metric, self.span, self.end, columns, self.cursor,
            gpus=self.selection, rows=rows, grouped=self.grouped, level=self.level, opened=self.opened,
            tables=self.screen in ("calls", "compare"), alike=self.alike, around=self.screen == "why", place=self.place,
            compared=self.screen == "balance",
        )  # fmt: skip

    def down(self, **changes: object) -> "View":
        """Return the view with these changes, one level down: Esc comes back to this one."""
        return replace(self, trail=(*self.trail, self)[-20:], **changes)  # type: ignore[arg-type]


class Scene(NamedTuple):
    """What a move starts from: the newest frame (``other``: of the recording it is compared with), and the view."""

    frame: Result
    other: Result | None
    view: View


def selection_of(result: Result, view: View) -> tuple[int, ...]:
    """Return the positions of the GPUs (of a trace also streams, threads ...) to show: those selected, of which in a trace
    the filter leaves some. () stands for all."""
    return view.selection if result.part is None else result.query.gpus


def gpus_looked_at(result: Result, view: View) -> tuple[Result, Ints | None]:
    """Return the result of the GPUs, also if nodes are shown, and the positions of those to show; None for all."""
    gpus = result.of_gpus or result
    selection = selection_of(gpus, view) if gpus is result else gpus.query.gpus
    return gpus, np.array(selection, np.int64) if selection else None


def inside(frame: Result, end: float, span: float) -> float | None:
    """Limit a right edge (unix s) so that a window of ``span`` s holds something of the run. Returns None, the newest
    sample, if it is at the end or beyond."""
    if end >= frame.last:
        return None
    return max(end, min(frame.first + span, frame.last))
