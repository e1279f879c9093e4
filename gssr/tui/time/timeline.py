"""What every panel over time has: the same columns as the others, a cursor through all of them, zoom and scrub by keys
and by the mouse."""

from dataclasses import replace
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from gssr.model.live.live_result import Result
from gssr.report.live.time_cells import Cells
from gssr.report.live.times_of_run import at_text, width_text
from gssr.tui.keys import ZOOM_IN, ZOOM_OUT, key
from gssr.tui.shared.panel import Panel
from gssr.tui.time.window import cells_over, cells_wanted, framed, panned, scrubbed, zoomed
from gssr.tui.view import View

_GUTTERS = ((60, 14), (100, 24), (1 << 30, 36))
"""Below so many cells of width so many stand before the columns of time."""
_AROUND = 1
"""Cells of a panel's padding (time.tcss)."""
_CLICK = 1
"""A drag over no more cells than these is a click."""
Stretch = tuple[float, float]


def gutter_of(width: int) -> int:
    """Cells before the columns of time, the same in every panel: names and values stand there."""
    return next(cells for below, cells in _GUTTERS if width + _AROUND < below)


def columns_in(width: int) -> int:
    """Columns of time on a terminal so wide."""
    return max(width - _AROUND - gutter_of(width - _AROUND), 1)


class TimePanel(Panel):
    """A panel over time. ``marked``: the stretch that is selected, or is being dragged over."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("w", "app.move('zoom_in')", "Zoom in", ZOOM_IN),
        key("s", "app.move('zoom_out')", "Zoom out", ZOOM_OUT),
        key("a", "pan(-0.25)", "Back", "a quarter of the window back in time"),
        key("d", "pan(0.25)", "On", "a quarter of the window on in time"),
        key("left", "scrub(-1)", "Cursor back", "the time cursor one column back", show=False),
        key("right", "scrub(1)", "Cursor on", "the time cursor one column on", show=False),
        key("shift+left", "scrub(-10)", "Ten back", "the time cursor ten columns back", show=False),
        key("shift+right", "scrub(10)", "Ten on", "the time cursor ten columns on", show=False),
        key("home", "whole", "Whole run", "all of the run", show=False),
        key("r", "mark", "Range", "begin a range at the cursor; again: end it there, with a table of it below", show=False),
    ]  # fmt: skip

    class Marked(Message):
        """A stretch of time is selected, or none (None); ``dragging``: it still changes."""

        def __init__(self, stretch: Stretch | None, dragging: bool = False) -> None:
            super().__init__()
            self.stretch, self.dragging = stretch, dragging

    marked: Stretch | None = None
    _drag: int | None = None
    _mark: float | None = None

    @property
    def left(self) -> int:
        """Cells before the columns of time."""
        return gutter_of(self.room)

    @property
    def room(self) -> int:
        """Cells of width, also before the first layout."""
        return self.content_size.width or max(self.app.size.width - _AROUND, 1)

    def cells_in_sight(self, result: Result) -> Cells:
        """The cells of time."""
        return cells_over(result, max(self.room - self.left, 1))

    def cells_wanted(self, result: Result) -> Cells:
        """Return the cells of the window that the view asks for, which the result may not show yet."""
        return cells_wanted(result, self.view, max(self.room - self.left, 1))

    def on_resize(self) -> None:
        """Show the result again, whose cells and title depend on the width; nothing if there is none or the panel is
        hidden."""
        if self.result is not None and self.display:
            self.show(self.result, self.view)

    # Keys

    def change_view(self, view: View) -> None:
        """Change the app's view at once, so that a key that has come already goes on from there."""
        self.app.change_view(view)

    def action_pan(self, share: float) -> None:
        """Move the window by ``share`` of what is in sight: later, or earlier if negative."""
        if self.result is not None:
            self.change_view(panned(self.result, self.view, share, self.cells_wanted(self.result)))

    def action_scrub(self, steps: int) -> None:
        """Move the time cursor ``steps`` cells on, or back if negative."""
        if self.result is not None:
            self.change_view(scrubbed(self.result, self.view, steps, self.cells_wanted(self.result)))

    def action_whole(self) -> None:
        """All of the run."""
        self.change_view(replace(self.view, span=None, end=None, lately=False, speed=0.0))

    def action_mark(self) -> None:
        """Begin a range at the cursor; at the second call end it there, which posts Marked (with None if both are the
        same time). Without a cursor a notice asks for one."""
        cursor = self.view.cursor
        if cursor is None:
            self.notify("Put the cursor where the range begins: left, right, or a click.")
        elif self._mark is None:
            self._mark = cursor
            self.post_message(self.Marked((cursor, cursor)))
            self.notify("The range begins here; go to its end and press r again.")
        else:
            begin, self._mark = self._mark, None
            self.post_message(self.Marked((min(begin, cursor), max(begin, cursor)) if begin != cursor else None))

    # The mouse

    def _cell(self, event: events.MouseEvent) -> int | None:
        """Return the column of time under the mouse, which may be outside of them (negative in the gutter); None if
        the mouse is not on the panel's content."""
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        return offset.x - self.left

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a drag if the mouse is on the columns of time."""
        cell = self._cell(event)
        if self.result is not None and cell is not None and 0 <= cell < self.cells_in_sight(self.result).n:
            self._drag = cell
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Mark the stretch that is being dragged over."""
        if self._drag is not None and self.result is not None:
            stretch = self._dragged(event, self.result)
            self.post_message(self.Marked(stretch, dragging=True))

    def _dragged(self, event: events.MouseEvent, result: Result) -> Stretch | None:
        """Return the stretch (begin and end in the result's seconds) from where the drag began to the mouse; None if
        it is within one cell, which is a click."""
        cells = self.cells_in_sight(result)
        cell = min(max(event.x - self.left - (self.content_region.x - self.region.x), 0), cells.n - 1)
        assert self._drag is not None
        low, high = min(self._drag, cell), max(self._drag, cell)
        if high - low < _CLICK:
            return None
        return cells.start + low * cells.width, cells.start + (high + 1) * cells.width

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End a drag: zoom to the stretch, or with Shift or Ctrl select it. A click moves the time cursor instead, and
        unmarks what was selected."""
        if self._drag is None or self.result is None:
            return
        self.release_mouse()
        cells, stretch, begin = self.cells_in_sight(self.result), self._dragged(event, self.result), self._drag
        self._drag = None
        if stretch is None:
            self.post_message(self.Marked(None))
            time = min(max(cells.time(begin), self.result.first), self.result.last)
            self.change_view(self.clicked(replace(self.view, cursor=time, place=-1), event))
        elif event.shift or event.ctrl:
            self.post_message(self.Marked(stretch))
        else:
            self.post_message(self.Marked(None))
            self.change_view(framed(self.result, self.view, *stretch, cells.n))

    def clicked(self, view: View, event: events.MouseUp) -> View:
        """Return the view with what a click changes besides the time cursor."""
        del event
        return view

    def on_click(self, event: events.Click) -> None:
        """Keep the click from the wall below: the mouse going up has done all."""
        event.prevent_default()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """With Ctrl: zoom in where the mouse is."""
        self._zoom_at(event, 0.5)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """With Ctrl: zoom out."""
        self._zoom_at(event, 2.0)

    def _zoom_at(self, event: events.MouseEvent, factor: float) -> None:
        """Show ``factor`` times as much time around the mouse, if Ctrl is held; other scrolling is left to the panel."""
        cell = self._cell(event)
        if not event.ctrl or self.result is None or cell is None:
            return
        event.stop()
        cells = self.cells_in_sight(self.result)
        self.change_view(zoomed(self.result, self.view, factor, cells, cells.time(cell)))

    # Drawing

    def strips(self, result: Result, width: int, height: int) -> list[Strip]:
        """Draw at most ``height`` lines of ``width`` cells, without the time cursor."""
        raise NotImplementedError

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """The lines, the time cursor on them; none before the first result."""
        result = self.result
        if result is None or not height:
            return []
        return [self.overlaid(strip, result) for strip in self.strips(result, width, height)]

    def overlaid(self, strip: Strip, result: Result) -> Strip:
        """Return a drawn line with the selected stretch and the time cursor painted over it."""
        cells, gutter = self.cells_in_sight(result), self.left
        if self.marked is not None:
            low, high = (int((time - cells.start) / cells.width) for time in self.marked)
            low, high = min(max(low, 0), cells.n), min(max(high, 0), cells.n)
            strip = _painted(strip, gutter + low, gutter + max(high, low + 1), self.palette.cursor)
        at = None if self.view.cursor is None else cells.at(self.view.cursor)
        if at is not None:
            strip = _ruled(strip, gutter + at, self.glyphs.cursor, self.palette.cursor)
        return strip

    def title_of(self, cells: Cells, result: Result) -> str:
        """Say how long a cell is, and where the time cursor is if it is in sight."""
        text = f"{width_text(cells.width)} a cell"
        if self.view.cursor is not None and cells.at(self.view.cursor) is not None:
            text = f"cursor at {at_text(result, self.view.cursor)}, {text}"
        return text


def _painted(strip: Strip, begin: int, end: int, style: Style) -> Strip:
    """Return the strip with ``style`` applied to the cells from ``begin`` up to ``end``."""
    middle = Strip(Segment.apply_style(strip.crop(begin, end), post_style=style))
    return Strip.join([strip.crop(0, begin), middle, strip.crop(end)])


def _ruled(strip: Strip, x: int, char: str, style: Style) -> Strip:
    """Return the strip with ``char`` in cell ``x`` if that is blank, and ``style`` applied to it."""
    cell = strip.crop(x, x + 1)
    drawn = [Segment(char if not segment.text.strip() else segment.text, segment.style) for segment in cell]
    return Strip.join([strip.crop(0, x), Strip(Segment.apply_style(drawn, post_style=style)), strip.crop(x + 1)])
