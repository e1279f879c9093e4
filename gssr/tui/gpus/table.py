"""The table of GPUs: one line each, of which only those in sight are drawn, with the history at the right."""

from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gssr.arrays import Ints
from gssr.model.live.attention import attention
from gssr.model.live.frame import Frame
from gssr.render.cells import fit
from gssr.tui.axis import age_text
from gssr.tui.gpus.columns import CLASS, MEAN, NAME, NOW, Column, columns_of, usual
from gssr.tui.keys import key
from gssr.tui.order import passing
from gssr.tui.shared.history import history_rows
from gssr.tui.shared.panel import LineDrawing
from gssr.tui.shared.timed import Cells, axis_row, cells_of, fractions, in_cells
from gssr.tui.steady_order import SteadyOrders
from gssr.tui.view import View

_MARK = 2
_HEAD = 1
_LEAST_HISTORY = 8
_MOST_TALL = 4
"""Rows that a GPU takes at most, where there are few."""


class GpuTable(LineDrawing, ScrollView, can_focus=True):
    """All GPUs that pass the filter, in an order that holds still until the reader sorts."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "cursor(-1)", "Up", "the GPU above", show=False),
        key("down,j", "cursor(1)", "Down", "the GPU below", show=False),
        key("pageup", "page(-1)", "Page up", "a page up", show=False),
        key("pagedown", "page(1)", "Page down", "a page down", show=False),
        key("home,g", "cursor(-1000000)", "First", "the first GPU", show=False),
        key("end,G", "cursor(1000000)", "Last", "the last GPU", show=False),
        key("s", "sort", "Sort", "sort by the next column; a click on a head sorts by it"),
        key("r", "reverse", "Reverse", "sort the other way round"),
        key("n", "outlier(1)", "Next outlier", "the next GPU that is not like the rest", show=False),
        key("N", "outlier(-1)", "Previous outlier", "the previous GPU that is not like the rest", show=False),
        key("enter", "open", "Look at it", "look at this GPU alone on all screens", show=False),
    ]

    class Pointed(Message):
        """The cursor is on this GPU now."""

        def __init__(self, gpu: int) -> None:
            super().__init__()
            self.gpu = gpu

    class Opened(Message):
        """Somebody wants to look at this GPU alone."""

        def __init__(self, gpu: int) -> None:
            super().__init__()
            self.gpu = gpu

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.result: Frame | None = None
        self.order: Ints = np.zeros(0, np.int64)
        self.gpu = -1
        """The position of the GPU under the cursor."""
        self.sort = NAME
        self.descending = False
        self.chosen: list[str] | None = None
        """The columns that the reader chose; None for those that fit."""
        self.problem = ""
        self._view = View()
        self._steady = SteadyOrders()
        self._history: tuple[object, Cells, int] | None = None
        self._bars: tuple[tuple[object, ...], list[list[Segment]]] | None = None
        """The history of the GPU drawn last, which may take several lines."""
        self._hovered = -1

    # What is shown

    def show(self, result: Frame, view: View) -> None:
        """Draw from this result; the cursor stays on its GPU."""
        self.result, self._view, self._history = result, view, None
        self._arrange()

    def _arrange(self) -> None:
        """Filter and sort anew."""
        result = self.result
        if result is None:
            return
        gpus = np.array(self._view.selection or range(result.n_gpus), np.int64)
        gpus = gpus[gpus < result.n_gpus]
        n, self.problem = len(gpus), ""
        try:
            gpus = gpus[passing(result, self._view.filter)[gpus]]
        except ValueError as error:
            self.problem = str(error)
        every = columns_of(result)
        self.sort = self.sort if self.sort in every else NAME
        column = every[self.sort]
        if self.sort == NAME:
            self.order = gpus[::-1] if self.descending else gpus
        else:
            values = column.values(result)[gpus]
            question = (self.sort, self.descending, self._view.filter)
            ranked = self._steady.steady(result, question, gpus, -values if self.descending else values, column.full)
            self.order = gpus[ranked]
        if self.gpu not in self.order and len(self.order):
            outliers = attention(result).unlike()
            self._point(int(next((gpu for gpu in self.order if outliers[gpu]), self.order[0])))
        self.virtual_size = Size(self.size.width, len(self.order) * self.tall + _HEAD)
        self.border_title = f"{result.noun}s"
        hits = f"{len(self.order):,} of {n:,} pass {self._view.filter}, " if self._view.filter else ""
        self.border_subtitle = f"{hits}by {column.title}{', most first' if self.descending else ''}"
        self.refresh()

    @property
    def tall(self) -> int:
        """Rows that a GPU takes: more than one where all fit."""
        return max(min((self.size.height - _HEAD) // max(len(self.order), 1), _MOST_TALL), 1)

    def on_resize(self) -> None:
        """Other columns, other heights."""
        self._arrange()

    def shown_columns(self) -> list[Column]:
        """The columns in sight; that which is sorted by is always there."""
        assert self.result is not None
        every = columns_of(self.result)
        names = [name for name in (self.chosen or usual(self.result, self.content_size.width)) if name in every]
        if self.sort not in names:
            names = [*names[:1], self.sort, *names[1:]]
        return [every[name] for name in dict.fromkeys((NAME, *names))]

    def _widths(self) -> list[tuple[Column, int, int]]:
        """Columns with where they begin and end."""
        assert self.result is not None
        x, found = _MARK, []
        names = max((len(self.result.place(int(gpu))) for gpu in self.order[:200]), default=4)
        for column in self.shown_columns():
            size = min(max(names, len(column.title)), 24) if column.key == NAME else column.width
            found.append((column, x, x + size))
            x += size + 1
        return found

    def draw_line(self, y: int) -> Strip:
        """The head, or one GPU."""
        width, result = self.size.width, self.result
        if result is None:
            return Strip.blank(width)
        if y == 0:
            return self._head(result, width)
        at, part = divmod(y - _HEAD + self.scroll_offset.y, self.tall)
        if at >= len(self.order):
            text = self.problem or (f"no {result.noun} passes the filter" if not len(self.order) and y == 1 else "")
            return Strip([Segment(text, self.palette.style("outlier"))]).adjust_cell_length(width)
        return self._line(result, int(self.order[at]), width, part)

    def _cells(self, result: Frame, width: int) -> tuple[Cells, int]:
        """The cells of the history, and where it begins."""
        begin = self._widths()[-1][2] + 1
        key = (id(result), width, begin)
        if self._history is None or self._history[0] != key:
            self._history = key, cells_of(result, max(width - begin, 0)), begin
        return self._history[1], self._history[2]

    def _head(self, result: Frame, width: int) -> Strip:
        segments, x = [], 0
        for column, begin, end in self._widths():
            segments.append(Segment(" " * (begin - x)))
            title = column.title if not column.unit or len(column.title) + len(column.unit) >= end - begin else (
                f"{column.title} {column.unit}"
            )  # fmt: skip
            arrow = (
                ("v" if self.descending else "^") if self.glyphs.levels.isascii() else "▾" if self.descending else "▴"
            )
            on = column.key == self.sort
            left = column.key in (NAME, CLASS)
            if on:
                title = f"{title[: end - begin - 1]}{arrow}" if left or len(title) >= end - begin else f"{title}{arrow}"
            text = f"{title:<{end - begin}}" if left else f"{title:>{end - begin}}"
            segments.append(Segment(text[: end - begin], self.palette.style("heading" if on else "dim")))
            x = end
        cells, begin = self._cells(result, width)
        if cells.n >= _LEAST_HISTORY:
            segments.append(Segment(" " * (begin - x)))
            segments += list(self.strip_of(axis_row(result, cells), cells.n))
        return Strip(segments).adjust_cell_length(width)

    def _line(self, result: Frame, gpu: int, width: int, part: int) -> Strip:
        found, palette = attention(result), self.palette
        letters = found.letters(gpu)
        mark = ("!" if self.glyphs.levels.isascii() else "▲") if "!" in letters else letters[:1]
        segments, x = [Segment(f"{mark:<{_MARK}}", palette.style("outlier" if mark else "plain"))], _MARK
        for column, begin, end in self._widths():
            segments.append(Segment(" " * (begin - x)))
            size, text = end - begin, column.text(result, gpu)
            if column.key == NAME:
                role = "outlier" if "!" in letters else "title"
                segments.append(Segment(f"{fit(text, size, self.glyphs.ellipsis, 'end'):<{size}}", palette.style(role)))  # type: ignore[arg-type]
            elif column.key == CLASS:
                segments.append(Segment(f"{text[:size]:<{size}}", palette.style("dim")))
            else:
                style = palette.style("plain")
                if column.key == NOW and found.age[gpu] > 0:
                    text, style = age_text(float(found.age[gpu])), palette.missing
                elif column.key in (NOW, MEAN) and column.full:
                    value = float(column.values(result)[gpu])
                    style = palette.load(value / column.full) if value == value else style
                segments.append(Segment(f"{text:>{size}}", style))
            x = end
        strip = Strip(segments) if part == (self.tall - 1) // 2 else Strip.blank(x)
        if gpu == self.gpu:
            strip = strip.apply_style(palette.cursor if self.has_focus else Style(bold=True) + palette.cursor)
        elif gpu == self._hovered:
            strip = strip.apply_style(Style(bold=True))
        cells, begin = self._cells(result, width)
        if cells.n < _LEAST_HISTORY:
            return strip.adjust_cell_length(width)
        key = (result, gpu, cells, self.tall, palette.theme)
        if self._bars is not None and self._bars[0][0] is result and self._bars[0][1:] == key[1:]:
            return Strip([*strip, Segment(" " * (begin - x)), *self._bars[1][part]]).adjust_cell_length(width)
        values = fractions(result, in_cells(result, result.grid.values[gpu], cells))
        known_from = max(cells.at(result.first) or 0, 0) if cells.start < result.first else 0
        rows = history_rows(values, self.tall, palette, self.glyphs, known_from)
        self._bars = key, rows
        return Strip([*strip, Segment(" " * (begin - x)), *rows[part]]).adjust_cell_length(width)

    # Keys and the mouse

    def _point(self, gpu: int) -> None:
        if gpu != self.gpu:
            self.gpu = gpu
            self.post_message(self.Pointed(gpu))

    def _at(self) -> int:
        found = np.flatnonzero(self.order == self.gpu)
        return int(found[0]) if len(found) else 0

    def point_at(self, gpu: int) -> None:
        """Put the cursor on a GPU, and have it in sight."""
        self._point(gpu)
        at, room = self._at() * self.tall, max(self.size.height - _HEAD, 1)
        top = self.scroll_offset.y
        wanted = min(max(top, at - room + self.tall), at)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False)
        self.refresh()

    def action_cursor(self, step: int) -> None:
        """Some lines up or down."""
        if len(self.order):
            self.point_at(int(self.order[min(max(self._at() + step, 0), len(self.order) - 1)]))

    def action_page(self, step: int) -> None:
        """A page up or down."""
        self.action_cursor(step * max((self.size.height - _HEAD) // self.tall - 1, 1))

    def sort_by(self, name: str) -> None:
        """Sort by a column; again the other way round. Numbers begin with the least, which is what one looks for."""
        self.descending = not self.descending if name == self.sort else False
        self.sort = name
        self._arrange()
        self.point_at(self.gpu)

    def action_sort(self) -> None:
        """Sort by the next column in sight."""
        if self.result is not None:
            names = [column.key for column in self.shown_columns()]
            self.descending = False
            self.sort_by(names[(names.index(self.sort) + 1) % len(names)])

    def action_reverse(self) -> None:
        """The other way round."""
        self.sort_by(self.sort)

    def action_outlier(self, step: int) -> None:
        """The next GPU that is not like the rest."""
        if self.result is None or not len(self.order):
            return
        marked = np.flatnonzero(attention(self.result).unlike()[self.order])
        if not len(marked):
            self.notify("No GPU is unlike the rest.")
            return
        at = self._at()
        after = marked[marked > at] if step > 0 else marked[marked < at][::-1]
        self.point_at(int(self.order[after[0] if len(after) else marked[0 if step > 0 else -1]]))

    def action_open(self) -> None:
        """Look at this GPU alone."""
        self.post_message(self.Opened(self.gpu))

    def on_click(self, event: events.Click) -> None:
        """A head sorts, a line takes the cursor."""
        offset = event.get_content_offset(self)
        if offset is None or self.result is None:
            return
        if offset.y == 0:
            for column, begin, end in self._widths():
                if begin - 1 <= offset.x < end:
                    self.sort_by(column.key)
            return
        at = (offset.y - _HEAD + self.scroll_offset.y) // self.tall
        if at < len(self.order):
            self.point_at(int(self.order[at]))
            if event.chain == 2:
                self.action_open()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say what a head means."""
        offset = event.get_content_offset(self)
        if offset is None or self.result is None or offset.y:
            self.tooltip = None
            return
        found = next((column for column, begin, end in self._widths() if begin - 1 <= offset.x < end), None)
        self.tooltip = f"{found.help}; a click sorts" if found else None
