"""What the lines of a trace over time, and the lanes of its tracks, have in common: rows of which some are in sight, and a
cursor on one of them."""

from dataclasses import replace
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gssr.model.live.live_result import Result, TracePart
from gssr.model.traces.flows import MOST_FLOWS, Flow
from gssr.render.cells import fit
from gssr.render.scale import count
from gssr.report.live.time_cells import Cells
from gssr.tui.keys import key
from gssr.tui.time.box import Box
from gssr.tui.time.timeline import TimePanel
from gssr.tui.trace.cursor import NS
from gssr.tui.view import View


class Sight(NamedTuple):
    """The rows in sight: ``tall`` rows of the terminal each, ``shown`` of them from the row ``top`` on."""

    tall: int
    shown: int
    top: int


class TraceRows(TimePanel):
    """Rows of a trace over time. A subclass says how many there are, and draws them."""

    MOST_TALL = 1
    """Rows of the terminal that a row has at most."""
    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "row(-1)", "Up", "the line above", show=False),
        key("down,j", "row(1)", "Down", "the line below", show=False),
        key("pageup", "page(-1)", "Page up", "a page up", show=False),
        key("pagedown", "page(1)", "Page down", "a page down", show=False),
    ]

    _about_flows = ""
    """What the title says of the lines between rows that were drawn last."""

    def n_rows(self, result: Result) -> int | None:
        """Count the rows; None before they are known."""
        raise NotImplementedError

    def draw_rows(self, result: Result, part: TracePart, sight: Sight) -> list[Strip]:
        """Draw the rows in sight."""
        raise NotImplementedError

    def row_of(self, n: int) -> int:
        """The row under the cursor, of ``n``."""
        return min(max(self.view.row, 0), max(n - 1, 0))

    def sight(self, n: int) -> Sight:
        """Choose which of ``n`` rows are in sight and how tall each is: as tall as fits, up to MOST_TALL, around the
        cursor."""
        height, n = max(self.content_size.height, 1), max(n, 1)
        tall = min(max(height // n, 1), self.MOST_TALL)
        shown, row = min(height // tall, n), self.row_of(n)
        return Sight(tall, shown, min(max(self.view.top, row - shown + 1, 0), row, n - shown))

    def entitle_rows(self, result: Result, part: TracePart) -> None:
        """Say in the border what is shown, once it is drawn."""
        raise NotImplementedError

    def strips(self, result: Result, width: int, _height: int) -> list[Strip]:
        """Draw all rows in sight, and entitle them. None without a trace; a waiting line before the rows are known."""
        part, n = result.part, self.n_rows(result)
        if part is None:
            return []
        strips = (
            [Strip([Segment(f"{'one moment':<{width}}")])] if n is None else self.draw_rows(result, part, self.sight(n))
        )
        self.entitle_rows(result, part)
        return strips

    def name_segment(self, text: str, room: int, style: Style, is_under_cursor: bool) -> Segment:
        """The name of a row in ``room`` cells."""
        look = style + self.palette.cursor if is_under_cursor and self.has_focus else style
        return Segment(f"{fit(text, room, self.glyphs.ellipsis):<{room}}", look)

    def draw_flow(self, box: Box, flow: Flow, cells: Cells, sight: Sight, style: Style, middle: bool = False) -> None:
        """Draw a line from a time in one row to a time in another, into the box; from and to the ``middle`` of the
        rows, else their top."""
        x, to_x = (self.left + int((time / NS - cells.start) / cells.width) for time in (flow.time, flow.to_time))
        y, to_y = (
            (row - sight.top) * sight.tall + (sight.tall // 2 if middle else 0) for row in (flow.line, flow.to_line)
        )
        box.line(x, y, to_x, to_y, style, self.left)

    # Keys and the mouse

    def action_row(self, step: int) -> None:
        """Move the cursor ``step`` rows down (up if negative); do nothing before the rows are known."""
        n = None if self.result is None else self.n_rows(self.result)
        if n is not None:
            self.change_view(replace(self.view, row=min(max(self.row_of(n) + step, 0), max(n - 1, 0))))

    def action_page(self, step: int) -> None:
        """Move the cursor by pages."""
        n = None if self.result is None else self.n_rows(self.result)
        self.action_row(step * max(self.sight(n or 0).shown - 1, 1))

    def row_under(self, event: events.MouseEvent) -> int | None:
        """Return the row under the mouse, or None if there is none."""
        offset = event.get_content_offset(self)
        n = None if self.result is None else self.n_rows(self.result)
        if offset is None or n is None:
            return None
        sight = self.sight(n)
        return sight.top + offset.y // sight.tall if offset.y // sight.tall < sight.shown else None

    def clicked(self, view: View, event: events.MouseUp) -> View:
        """Put the cursor on the row under the mouse, which stays where it is."""
        row, n = self.row_under(event), None if self.result is None else self.n_rows(self.result)
        return view if row is None or n is None else replace(view, row=row, top=self.sight(n).top)


def flows_text(n: int, n_drawn: int, noun: str) -> str:
    """Say how many (``n``) lines between rows there are, and that one must zoom in if not all were drawn; "" if there
    are none."""
    if not n:
        return ""
    return count(n, noun) if n <= n_drawn else f"{count(n, noun)}, drawn as lines up to {MOST_FLOWS}: zoom in"
