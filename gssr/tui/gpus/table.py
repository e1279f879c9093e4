"""The table of GPUs: one line each, with the history at the right."""

from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual.binding import BindingType

from gssr.arrays import Floats
from gssr.model.live.live_result import Result
from gssr.render.cells import fit
from gssr.render.roles import Role
from gssr.report.live.gpu_columns import CLASS, MEAN, NAME, NOW, GpuColumn, columns_of, usual
from gssr.report.live.gpu_filter import select_passing
from gssr.report.live.marked_gpus import legend_of_marks, mark_of
from gssr.report.live.times_of_run import age_text
from gssr.tui.gpus.history_table import HistoryTable
from gssr.tui.keys import key
from gssr.tui.shared.line_table import MARK, Heading
from gssr.tui.shared.wall import gpus_shown
from gssr.tui.view import View

_LONGEST_NAME = 24


class GpuTable(HistoryTable):
    """All GPUs that pass the filter, in an order that holds still until the reader sorts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key(
            "n",
            "marked(1)",
            "Next marked",
            "the next GPU with a mark: one that the others wait for, or unlike the rest",
            show=False,
        ),
        key("N", "marked(-1)", "Previous marked", "the previous GPU with a mark", show=False),
        key("enter", "open", "Look at it", "look at this GPU alone on all screens", show=False),
    ]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)
        self.sort = NAME
        self.chosen: list[str] | None = None
        """The columns that the reader chose; None for those that fit."""
        self.problem = ""
        """A sentence about a filter that is none; empty for a good one."""
        self._view = View()

    def show(self, result: Result, view: View) -> None:
        """Draw from this result; the cursor stays on its GPU."""
        self.result, self._view = result, view
        self.sort_items()

    def sort_items(self) -> None:
        """Filter and sort the GPUs anew and set the titles; do nothing before the first result.

        A filter that can't be understood leaves all GPUs in and its reason in ``problem``. If the GPU under the cursor
        is gone, the cursor goes to the first one that is not like the rest, or else to the first.
        """
        result = self.result
        if result is None:
            return
        gpus = gpus_shown(result, self._view)
        n = len(gpus)
        gpus, self.problem = select_passing(result, gpus, self._view.filter)
        every = columns_of(result)
        self.sort = self.sort if self.sort in every else NAME
        column = every[self.sort]
        if self.sort == NAME:
            order = gpus[::-1] if self.descending else gpus
        else:
            order = self.sort_steadily(result, gpus, column.values(result)[gpus], column.full, self._view.filter)
        item = self.item
        if item not in order and len(order):
            unlike = result.marked[order]
            item = int(order[unlike.argmax()])
            self.is_cursor_placed = bool(unlike.any())
        legend = legend_of_marks(result, self.glyphs.levels.isascii())
        self.border_title = f"{result.noun}s   {legend}".rstrip()
        hits = f"{len(order):,} of {n:,} pass {self._view.filter}, " if self._view.filter else ""
        self.border_subtitle = f"{hits}by {column.title}{', most first' if self.descending else ''}"
        self.set_order(order, item)

    @property
    def nothing(self) -> str:
        """What is said where no GPU is shown."""
        if self.problem or self.result is None:
            return self.problem
        text = self._view.filter
        whole = f"; a name counts as a whole: *{text}* finds a part of one" if text.isalnum() else ""
        return f"no {self.result.noun} passes the filter{whole}"

    def shown_columns(self) -> list[GpuColumn]:
        """List the columns that the user has chosen, or else the usual ones for this width. The name is always the first,
        and the one that is sorted by always among them. Empty before the first result."""
        if self.result is None:
            return []
        every = columns_of(self.result)
        names = [name for name in (self.chosen or usual(self.result, self.content_size.width)) if name in every]
        if self.sort not in names:
            names = [*names[:1], self.sort, *names[1:]]
        return [every[name] for name in dict.fromkeys((NAME, *names))]

    def place_columns(self) -> list[Heading]:
        """Lay out the columns in sight from left to right; empty before the first result."""
        if self.result is None:
            return []
        x, found = MARK, []
        names = max((len(self.result.place(int(gpu))) for gpu in self.order[:200]), default=4)
        for column in self.shown_columns():
            size = min(max(names, len(column.title)), _LONGEST_NAME) if column.key == NAME else column.width
            with_unit = f"{column.title} {column.unit}".rstrip()
            has_room = len(with_unit) + (column.key == self.sort) <= size  # the one that is sorted by has an arrow
            title = with_unit if has_room else column.title
            found.append(Heading(column.key, title, x, x + size, column.help, column.key in (NAME, CLASS)))
            x += size + 1
        return found

    def mark(self, item: int) -> tuple[str, Role]:
        """Return the mark of a GPU (``item``, its position) that is singled out or not like the rest, has a gap, or whose
        clocks were held down, "" for any other, and its role."""
        assert self.result is not None
        mark, role = mark_of(self.result, item, self.glyphs.levels.isascii())
        return (mark, role) if mark else (self.result.letters(item)[:1], "outlier")

    def cell(self, heading: Heading, item: int) -> list[Segment]:
        """Draw one cell of a GPU (``item``, its position): a name, a word or a number. The newest value is replaced by
        its age if the GPU's last sample is old."""
        assert self.result is not None
        result, palette = self.result, self.palette
        column, size = columns_of(result)[heading.key], heading.end - heading.begin
        text, style = column.text(result, item), palette.style("plain")
        age = float(result.age[item])
        if column.key == NAME:
            text = fit(text, size, self.glyphs.ellipsis, "end")
            mark, role = mark_of(result, item, self.glyphs.levels.isascii())
            style = palette.style(role if mark else "title")
        elif column.key == CLASS:
            text, style = text[:size], palette.style("dim")
        elif column.key == NOW and age > 0:
            text, style = age_text(age), palette.missing
        elif column.key in (NOW, MEAN) and column.full:
            value = float(column.values(result)[item])
            style = palette.load(value / column.full) if value == value else style
        return [Segment(heading.align(text), style)]

    def course(self, result: Result, item: int) -> Floats:
        """The GPU's own values."""
        values: Floats = result.grid.values[item]
        return values

    def action_marked(self, step: int) -> None:
        """Move the cursor to the next (``step`` 1) or previous (-1) GPU that has a mark, around the ends; a notice if
        there is none."""
        if self.result is None or not len(self.order):
            return
        culprits = np.isin(self.order, list(self.result.singled_out))
        marked = np.flatnonzero(self.result.marked[self.order] | culprits)
        if not len(marked):
            self.notify("No GPU has a mark.")
            return
        after = marked[marked > self.at] if step > 0 else marked[marked < self.at][::-1]
        self.point_at(int(after[0] if len(after) else marked[0 if step > 0 else -1]))
