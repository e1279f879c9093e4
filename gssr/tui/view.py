"""What the user looks at, and how: one value that every key press replaces by another. No Textual here."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.live.frame import Frame, Query
from gssr.render.glyphs import Glyphs
from gssr.tui.output import Output

ScreenName = Literal["job", "gpus", "map", "time", "balance", "why", "compare"]
Sort = Literal["place", "now", "mean", "p05", "p95"]
Alignment = Literal["start", "activity"]
Overlay = Literal["", "help", "events"]


@dataclass(frozen=True, slots=True)
class View:
    """Selection, time window and metric are shared by all screens.

    ``span`` s up to ``end`` (unix s) are looked at: None is the whole run, and the newest sample. ``cursor`` (unix s) is the
    time looked at, None for none. ``selection``: positions of the GPUs looked at, named ``selected``; empty is the whole
    job. ``gpu``: the position under the cursor of GPUs and Map, -1 before there is one; ``row``: the line under the cursor
    of the other screens. ``density`` cycles through what a screen can do about many GPUs, 0 is the screen's own choice.
    ``speed``: seconds of the recording a second while it is played, 0 when it is not. ``scroll``: the first line in sight of
    what lies over the screen (``overlay``). ``trail``: where Esc goes back to.
    """

    screen: ScreenName = "job"
    metric: str = "sm_active"
    span: float | None = None
    end: float | None = None
    cursor: float | None = None
    selection: tuple[int, ...] = ()
    selected: str = ""
    gpu: int = -1
    row: int = 0
    top: int = 0
    filter: str = ""
    sort: Sort = "mean"
    reverse: bool = False
    density: int = 0
    grouped: bool = True
    align: Alignment = "start"
    speed: float = 0.0
    overlay: Overlay = ""
    scroll: int = 0
    output: bool = False
    trail: tuple["View", ...] = ()

    def query(self, columns: int, rows: int = 0) -> Query:
        """What this view needs to know of the recording, in so many columns; ``rows`` of a timeline, 0 for none."""
        return Query(
            self.metric, self.span, self.end, columns, self.cursor,
            gpus=self.selection, rows=rows, grouped=self.grouped,
        )  # fmt: skip

    def down(self, **changes: object) -> "View":
        """One level down: Esc comes back to here."""
        return replace(self, trail=(*self.trail, self)[-20:], **changes)  # type: ignore[arg-type]


class Scene(NamedTuple):
    """What a screen is drawn from: a frame (``other``: of the recording it is compared with), a view, the ``width`` and
    ``height`` in cells that the drawing must fill and not exceed, and the marks to draw with. ``output``: what the workload
    has printed, where that is known. ``n_recordings``: how many there are to compare."""

    frame: Frame
    other: Frame | None
    view: View
    width: int
    height: int
    glyphs: Glyphs
    output: Output | None = None
    n_recordings: int = 1

    def looked_at(self) -> Ints:
        """Positions of the GPUs of the selection; of all without one. What the filter hides is not looked at elsewhere
        than in the lists that it filters."""
        n_gpus = self.frame.n_gpus
        if not self.view.selection:
            return np.arange(n_gpus)
        return np.array([gpu for gpu in self.view.selection if gpu < n_gpus], np.int64)

    def sized(self, width: int, height: int) -> "Scene":
        """The same in another box."""
        return self._replace(width=width, height=height)
