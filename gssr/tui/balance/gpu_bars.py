"""All GPUs by what they do, first those with a mark, then the lowest: a line each, with a bar and the median. Of more than
fit, one line above shows all of them together."""

from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual.binding import BindingType

from gssr.arrays import Floats
from gssr.model.live.live_result import Result
from gssr.render.cells import cell_width, clean, fit
from gssr.render.columns import length
from gssr.render.roles import Role
from gssr.render.scale import count, metric_of, number
from gssr.report.live.marked_gpus import are_marked, legend_of_marks, mark_of
from gssr.report.live.metric_scales import full_scale
from gssr.report.live.times_of_run import in_part, part_text
from gssr.tui.gpus.history_table import HistoryTable
from gssr.tui.keys import key
from gssr.tui.shared.history import history_rows
from gssr.tui.shared.line_table import HEAD, MARK, Heading
from gssr.tui.view import View

_NAME, _MEAN = "name", "mean"
_VALUE = 8


class GpuBars(HistoryTable):
    """The means of the window; the cursor begins on the first marked GPU, and stays on its GPU."""

    BINDINGS: ClassVar[list[BindingType]] = [key("enter", "open", "Look at it", "all about this GPU, on GPUs")]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)
        self.sort = _MEAN
        self._means: Floats = np.zeros(0)
        """[n_gpus], NaN without samples."""
        self._full, self._median = 1.0, float("nan")
        self._has_marked = False
        """Whether any GPU had a mark when the GPUs were sorted last."""

    def show(self, result: Result, _view: View) -> None:
        """Draw from this result from now on; while a run grows, the order only changes where a difference can be seen."""
        found = result.imbalance
        self.result, self._full = result, full_scale(result, result.grid.metric)
        self._means = np.full(result.n_gpus, np.nan)
        self._means[found.gpus] = found.means
        self._median = float(np.nanmedian(found.means)) if np.isfinite(found.means).any() else float("nan")
        metric = metric_of(result.grid.metric)
        title = in_part(f"{count(len(found.gpus), result.noun)} by mean {metric.label}", part_text(result))
        self.border_title = f"{title}   {legend_of_marks(result, self.glyphs.levels.isascii())}".rstrip()
        self.sort_items()

    def sort_items(self) -> None:
        """Sort the GPUs anew: by name, or by mean below those with a mark, which the sentence above is about. Do nothing
        before the first result."""
        if self.result is None:
            return
        gpus, item = np.sort(self.result.imbalance.gpus), self.item
        way = "by name"
        if self.sort == _MEAN:
            gpus = self.sort_steadily(self.result, gpus, self._means[gpus], self._full)
            marked = are_marked(self.result)[gpus]
            gpus = np.concatenate([gpus[marked], gpus[~marked]])
            if marked.any() and not self._has_marked and self.at == 0:  # marks come with the judgement, after the lines
                item = int(gpus[0])
            self._has_marked = bool(marked.any())
            end = ("lowest", "highest")[self.descending]
            way = f"the marked, then the {end} first" if marked.any() else f"the {end} first"
        elif self.descending:
            gpus = gpus[::-1]
        self.border_subtitle = way
        self.set_order(gpus, item)

    def place_columns(self) -> list[Heading]:
        """Lay out name and mean; empty before the first result."""
        if self.result is None:
            return []
        longest = max((cell_width(clean(self.result.place(int(gpu)))) for gpu in self.order[:200]), default=4)
        end = MARK + min(max(longest, 4), max(self.size.width // 3, 8))
        about = "mean of the window"
        return [
            Heading(_NAME, "GPU", MARK, end, "node and index", True),
            Heading(_MEAN, "mean", end, end + _VALUE, about),
        ]

    def mark(self, item: int) -> tuple[str, Role]:
        """Return the mark of a GPU (``item``, its position) that is singled out or not like the rest, and its role."""
        assert self.result is not None
        return mark_of(self.result, item, self.glyphs.levels.isascii())

    def cell(self, heading: Heading, item: int) -> list[Segment]:
        """Draw the name or the mean of a GPU (``item``, its position)."""
        assert self.result is not None
        size, mean = heading.end - heading.begin, float(self._means[item])
        if heading.key == _NAME:
            name = fit(clean(self.result.place(item)), size, self.glyphs.ellipsis, "end")
            return [Segment(heading.align(name), self.palette.style(self.mark(item)[1]))]
        text = number(None if mean != mean else mean, metric_of(self.result.grid.metric))
        return [Segment(heading.align(text), self.palette.style("value"))]

    @property
    def _room(self) -> int:
        """Cells right of the columns."""
        return self.size.width - self.headings()[-1].end - 1

    def head_tail(self) -> list[Segment]:
        """Draw all GPUs in the order of their lines as one row of bars, of many a cell for several; empty if all have a
        line in sight."""
        n, room = len(self.order), self._room
        if n <= self.size.height - HEAD or room < 1:
            return []
        means = self._means[self.order[np.arange(room) * n // room]] / self._full
        return [Segment(" "), *history_rows(means, 1, self.palette, self.glyphs)[0]]

    def tail(self, item: int, part: int) -> list[Segment]:
        """Draw the bar of a GPU with a tick at the median; of a line of several rows the last is blank."""
        room, tall, mean, glyphs = self._room, self.tall, float(self._means[item]), self.glyphs
        if room < 1 or (tall > 1 and part == tall - 1):
            return []
        filled = "" if mean != mean else length(min(max(mean / self._full, 0.0), 1.0), room, glyphs)
        if tall > 1:
            filled = filled.replace(glyphs.bar, glyphs.full).replace(glyphs.half or glyphs.bar, "▌")
        load = self.palette.missing if mean != mean else self.palette.load(mean / self._full)
        rest, track = (glyphs.track if tall == 1 else " ") * (room - len(filled)), self.palette.style("track")
        bar = [Segment(" "), Segment(filled, load)]
        tick = (
            min(int(self._median / self._full * room), room - 1) - len(filled) if self._median == self._median else -1
        )
        if 0 <= tick < len(rest):
            line = Segment("|" if glyphs.levels.isascii() else "┃", self.palette.style("dim"))
            return [*bar, Segment(rest[:tick], track), line, Segment(rest[tick + 1 :], track)]
        return [*bar, Segment(rest, track)]

    @property
    def nothing(self) -> str:
        """What is said where no GPU has samples."""
        return "nothing to compare in this window"
