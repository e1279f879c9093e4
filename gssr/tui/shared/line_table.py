"""A table drawn on Textual's Line API: of very many lines only those in sight are drawn.

It has a cursor, and sorts by every column: by keys, and by a click on the column's head.
"""

from typing import ClassVar, NamedTuple

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gssr.arrays import Ints
from gssr.render.roles import Role
from gssr.tui.keys import key
from gssr.tui.shared.messages import Opened, Pointed
from gssr.tui.shared.panel import LineDrawing

HEAD = 1
"""Rows that the heads of the columns take."""
MARK = 2
"""Cells before the first column, for the mark of a line."""
TO_THE_END = 1_000_000_000
"""Lines: no table has as many."""


class Heading(NamedTuple):
    """A column where it stands: its title takes the cells from ``begin`` to before ``end``.

    ``key`` names it for sorting; empty where nothing can be sorted by it. Words stand at the left of their column, numbers
    at the right. ``help`` is the tooltip of the head.
    """

    key: str
    title: str
    begin: int
    end: int
    help: str = ""
    is_words: bool = False

    def align(self, text: str) -> str:
        """Fill a text up to the column's width."""
        size = max(self.end - self.begin, 0)
        return f"{text:<{size}}" if self.is_words else f"{text:>{size}}"


class LineTable(LineDrawing, ScrollView, can_focus=True):
    """One line for each of the items in ``order``, below a line of heads.

    A subclass says which columns are in sight (``place_columns``), what stands in them (``cell``) and right of them
    (``tail``), and puts its items in order (``sort_items``, which ends with ``set_order``).
    """

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "cursor(-1)", "Up", "the line above", show=False),
        key("down,j", "cursor(1)", "Down", "the line below", show=False),
        key("pageup", "page(-1)", "Page up", "a page up", show=False),
        key("pagedown", "page(1)", "Page down", "a page down", show=False),
        key("home,g", f"cursor(-{TO_THE_END})", "First", "the first line", show=False),
        key("end,G", f"cursor({TO_THE_END})", "Last", "the last line", show=False),
        key("s", "sort", "Sort", "sort by the next column; a click on a head sorts by it"),
        key("r", "reverse", "Reverse", "sort the other way round"),
    ]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.order: Ints = np.zeros(0, np.int64)
        """The items in the order of their lines."""
        self.at = 0
        """The line under the cursor."""
        self.sort = ""
        """The key of the column that is sorted by."""
        self.descending = False
        self.is_cursor_placed = False
        """True once the cursor was put on a line; until then it stays on the first one when the lines are sorted."""
        self._headings: tuple[object, list[Heading]] | None = None

    # What a subclass says

    def place_columns(self) -> list[Heading]:
        """Choose the columns in sight and their places; none before there is anything to show."""
        raise NotImplementedError

    def sort_items(self) -> None:
        """Choose and sort the items anew."""
        raise NotImplementedError

    def cell(self, heading: Heading, item: int) -> list[Segment]:
        """Draw what stands in a column for an item, exactly as wide as the column."""
        raise NotImplementedError

    def tail(self, item: int, part: int) -> list[Segment]:  # noqa: ARG002 - for subclasses
        """Draw what stands right of the columns in row ``part`` (0: the topmost) of an item's line; the cursor does
        not colour it. Nothing unless a subclass does."""
        return []

    def head_tail(self) -> list[Segment]:
        """What stands right of the heads."""
        return []

    def mark(self, item: int) -> tuple[str, Role]:  # noqa: ARG002 - for subclasses
        """One character before an item's line, empty for none, and its role."""
        return "", "plain"

    def descends_at_first(self, column: str) -> bool:  # noqa: ARG002 - for subclasses
        """Tell whether a column that is chosen to sort by begins with the most."""
        return False

    @property
    def nothing(self) -> str:
        """What is said where no item is shown."""
        return ""

    @property
    def tall(self) -> int:
        """Rows that a line takes."""
        return 1

    # Items and the cursor

    @property
    def item(self) -> int:
        """The item under the cursor, -1 where there is none."""
        return int(self.order[self.at]) if self.at < len(self.order) else -1

    def headings(self) -> list[Heading]:
        """Return the columns in sight, placed anew if the size or the scrolling has changed."""
        state = (self.size, self.scroll_offset.y)
        if self._headings is None or self._headings[0] != state:
            self._headings = state, self.place_columns()
        return self._headings[1]

    def set_order(self, order: Ints, item: int) -> None:
        """Show these items from now on and post Pointed. The cursor stays on ``item`` if it is among them, else on its
        line, held within those there are. It is scrolled into sight where it comes to another item."""
        before = self.item
        self.order, self._headings = order, None
        found = np.flatnonzero(order == item)
        self.at = int(found[0]) if len(found) else min(self.at, max(len(order) - 1, 0))
        self.virtual_size = Size(self.size.width, len(order) * self.tall + HEAD)
        self.post_message(Pointed(self, self.item))
        self.draw_changes()
        if self.item != before:
            self.call_after_refresh(self._scroll_to_cursor)

    def on_resize(self) -> None:
        """Fit the columns to the new width, and keep the cursor in sight."""
        self.sort_items()
        self._scroll_to_cursor()

    def point_at(self, at: int) -> None:
        """Put the cursor on line ``at``, held within those there are, scroll it into sight and post Pointed; do
        nothing without lines."""
        if not len(self.order):
            return
        self.is_cursor_placed = True
        self.at = min(max(at, 0), len(self.order) - 1)
        self._scroll_to_cursor()
        self.post_message(Pointed(self, self.item))
        self.draw_changes()

    def _scroll_to_cursor(self) -> None:
        row, room, top = self.at * self.tall, max(self.size.height - HEAD, 1), self.scroll_offset.y
        wanted = min(max(top, row - room + self.tall), row)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False)

    def point_at_item(self, item: int) -> None:
        """Put the cursor on an item, if it is shown."""
        found = np.flatnonzero(self.order == item)
        if len(found):
            self.point_at(int(found[0]))

    def sort_by(self, column: str) -> None:
        """Sort by a column (its key); if the table is sorted by it already, the other way round. The cursor stays on its
        item if it was put there, else on the first line."""
        self.descending = not self.descending if column == self.sort else self.descends_at_first(column)
        self.sort = column
        was_placed = self.is_cursor_placed
        self.sort_items()
        self.point_at(self.at if was_placed else 0)
        self.is_cursor_placed = was_placed

    # Drawing

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """Draw what is in sight: the heads, and the rows of the items' lines, or ``nothing`` where there are no items.
        Blank before there are columns."""
        headings, tall = self.headings(), self.tall
        if not headings:
            return []
        rows = [[*self._heads(headings), *self.head_tail()]]
        first = self.scroll_offset.y
        for at, part in (divmod(row, tall) for row in range(first, first + height - HEAD)):
            if at < len(self.order):
                item = int(self.order[at])
                line = self._cells(headings, item, at == self.at, part == (tall - 1) // 2)
                rows.append([*line, *self.tail(item, part)])
        if not len(self.order):
            rows.append([Segment(self.nothing, self.palette.style("outlier"))])
        return [Strip(row).adjust_cell_length(width) for row in rows]

    def _heads(self, headings: list[Heading]) -> list[Segment]:
        """Draw the titles of the columns, with an arrow at the one that is sorted by."""
        arrow = ("^v" if self.glyphs.levels.isascii() else "▴▾")[self.descending]
        segments, x = [], 0
        for heading in headings:
            size, sorts = heading.end - heading.begin, bool(heading.key) and heading.key == self.sort
            title = f"{heading.title[: max(size - 1, 0)]}{arrow}" if sorts else heading.title[:size]
            segments.append(Segment(" " * (heading.begin - x)))
            segments.append(Segment(heading.align(title), self.palette.style("heading" if sorts else "dim")))
            x = heading.end
        return segments

    def _cells(self, headings: list[Heading], item: int, is_under_cursor: bool, has_text: bool) -> Strip:
        """Draw the mark and the cells of an item's line; only the background in a row that ``has_text`` is False for."""
        if has_text:
            mark, role = self.mark(item)
            mark = mark or (">" if is_under_cursor else "")
            segments, x = [Segment(f"{mark:<{MARK}}", self.palette.style(role))], MARK
            for heading in headings:
                segments.append(Segment(" " * (heading.begin - x)))
                segments += self.cell(heading, item)
                x = heading.end
            strip = Strip(segments)
        else:
            strip = Strip.blank(headings[-1].end)
        return strip.apply_style(self.palette.cursor) if is_under_cursor else strip

    # Keys and the mouse

    def action_cursor(self, step: int) -> None:
        """Move the cursor by some lines."""
        self.point_at(self.at + step)

    def action_page(self, step: int) -> None:
        """Move the cursor by pages."""
        self.point_at(self.at + step * max((self.size.height - HEAD) // self.tall - 1, 1))

    def action_sort(self) -> None:
        """Sort by the next column in sight that can be sorted by."""
        keys = [heading.key for heading in self.headings() if heading.key]
        if keys:
            self.sort_by(keys[(keys.index(self.sort) + 1) % len(keys)])

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self.sort_by(self.sort)

    def action_open(self) -> None:
        """Tell the pane that the user wants to see all about the item under the cursor."""
        if self.item >= 0:
            self.post_message(Opened(self, self.item))

    def _heading_at(self, x: int) -> Heading | None:
        return next((each for each in self.headings() if each.key and each.begin - 1 <= x < each.end), None)

    def on_click(self, event: events.Click) -> None:
        """Sort by the head under the mouse, or put the cursor on the line there; a double click opens it."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < HEAD:
            heading = self._heading_at(offset.x)
            if heading is not None:
                self.sort_by(heading.key)
            return
        at = (offset.y - HEAD + self.scroll_offset.y) // self.tall
        if at < len(self.order):
            self.click_line(at, event)

    def click_line(self, at: int, event: events.Click) -> None:
        """Do what a click on the line ``at`` (0: the topmost of all lines, in sight or not) does."""
        self.point_at(at)
        if event.chain == 2:
            self.action_open()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say in a tooltip what the head under the mouse means."""
        offset = event.get_content_offset(self)
        heading = self._heading_at(offset.x) if offset is not None and offset.y < HEAD else None
        self.tooltip = f"{heading.help}; a click sorts" if heading is not None else None
