"""Node by node: how many GPUs each has, their mean, the one that does least, and the course of all of them together."""

import warnings
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from gssr.model.live.attention import attention
from gssr.model.live.frame import Frame
from gssr.render.cells import clean, fit
from gssr.render.scale import count, metric_of, number
from gssr.tui.axis import full_scale
from gssr.tui.keys import key
from gssr.tui.shared.history import history_rows
from gssr.tui.shared.panel import Panel
from gssr.tui.shared.timed import axis_row, cells_of, fractions, in_cells
from gssr.tui.view import View

_HEAD = 1
_GPUS, _VALUE, _LOWEST = 5, 7, 16
_LEAST_HISTORY = 8


class Nodes(Panel):
    """One line a node, in the order of their names; the line under the cursor stays in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "cursor(-1)", "Up", "the node above", show=False),
        key("down,j", "cursor(1)", "Down", "the node below", show=False),
        key("pageup", "cursor(-20)", "Page up", "a page up", show=False),
        key("pagedown", "cursor(20)", "Page down", "a page down", show=False),
        key("home,g", "cursor(-1000000)", "First", "the first node", show=False),
        key("end,G", "cursor(1000000)", "Last", "the last node", show=False),
        key("enter", "open", "Its GPUs", "the list of this node's GPUs"),
    ]

    class Opened(Message):
        """Somebody wants to see the GPUs of this node."""

        def __init__(self, node: str) -> None:
            super().__init__()
            self.node = node

    at = 0
    """The number of the node under the cursor."""
    _top = 0

    def show(self, result: Frame, view: View) -> None:
        """See Panel."""
        self.at = min(self.at, max(len(result.nodes) - 1, 0))
        self.border_title = count(len(result.nodes), "node")
        self.border_subtitle = f"by name; {metric_of(result.grid.metric).label}"
        super().show(result, view)

    def _shown(self) -> int:
        return max(self.content_size.height - _HEAD, 1)

    def draw_line(self, y: int) -> Strip:
        """The head, or one node."""
        width, result = self.content_size.width, self.result
        if result is None:
            return Strip.blank(width)
        longest = max((len(clean(name)) for name in result.nodes[:64]), default=4)
        size = min(max(longest, 4), max(width // 4, 8))
        begin = 2 + size + _GPUS + _VALUE + 2 + _LOWEST + _VALUE
        cells = cells_of(result, max(width - begin - 1, 0))
        if y == 0:
            text = f"  {'node':<{size}}{'GPUs':>{_GPUS}}{'mean':>{_VALUE}}  {'lowest':<{_LOWEST}}{'':>{_VALUE}} "
            axis = self.strip_of(axis_row(result, cells), cells.n) if cells.n >= _LEAST_HISTORY else Strip([])
            return Strip([Segment(text, self.palette.style("dim")), *axis]).adjust_cell_length(width)
        node = y - _HEAD + self._top
        if node >= len(result.nodes):
            return Strip.blank(width)
        members = result.on_node(node)
        means = result.window.per_gpu(result.grid.metric)[members]
        known = np.isfinite(means)
        metric, full = metric_of(result.grid.metric), full_scale(result, result.grid.metric)
        mean = float(means[known].mean()) if known.any() else float("nan")
        least = int(np.nanargmin(means)) if known.any() else -1
        apart = bool(attention(result).outlier[members].any())
        mark = ("!" if self.glyphs.levels.isascii() else "▲") if apart else " "
        style, load = self.palette.style, self.palette.load
        lowest = clean(result.place(int(members[least]))) if least >= 0 else ""
        value = f"{number(float(means[least]), metric):>{_VALUE}}" if least >= 0 else " " * _VALUE
        name = fit(clean(result.nodes[node]), size, self.glyphs.ellipsis, "end")
        segments = [
            Segment(f"{mark} {name:<{size}}", style("outlier" if apart else "plain")),
            Segment(f"{len(members):>{_GPUS}}", style("dim")),
            Segment(
                f"{number(None if mean != mean else mean, metric):>{_VALUE}}", load(mean / full if mean == mean else 0)
            ),
            Segment(f"  {fit(lowest, _LOWEST, self.glyphs.ellipsis, 'end'):<{_LOWEST}}", style("dim")),
            Segment(f"{value} ", load(float(means[least]) / full) if least >= 0 else style("dim")),
        ]
        strip = Strip(segments)
        if node == self.at:
            strip = strip.apply_style(self.palette.cursor)
        if cells.n < _LEAST_HISTORY:
            return strip.adjust_cell_length(width)
        with warnings.catch_warnings():  # a column in which no GPU of the node has a value
            warnings.simplefilter("ignore", RuntimeWarning)
            course = np.nanmean(fractions(result, in_cells(result, result.grid.values[members], cells)), axis=0)
        known_from = max(cells.at(result.first) or 0, 0) if cells.start < result.first else 0
        row = history_rows(course, 1, self.palette, self.glyphs, known_from)[0]
        return Strip([*strip, *row]).adjust_cell_length(width)

    def action_cursor(self, step: int) -> None:
        """Some lines up or down."""
        if self.result is not None:
            self.at = min(max(self.at + step, 0), max(len(self.result.nodes) - 1, 0))
            self._top = min(max(self._top, self.at - self._shown() + 1), self.at)
            self.refresh()

    def action_open(self) -> None:
        """The list of its GPUs."""
        if self.result is not None and self.result.nodes:
            self.post_message(self.Opened(self.result.nodes[self.at]))

    def on_mouse_scroll_down(self) -> None:
        """Further down."""
        self.action_cursor(3)

    def on_mouse_scroll_up(self) -> None:
        """Further up."""
        self.action_cursor(-3)

    def on_click(self, event: events.Click) -> None:
        """The cursor goes there; a double click opens."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y >= _HEAD:
            self.action_cursor(offset.y - _HEAD + self._top - self.at)
            if event.chain == 2:
                self.action_open()
