"""A table of names: one line each, of which only those in sight are drawn; it sorts by every column and searches."""

from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gssr.arrays import Ints
from gssr.model.traces.part import named
from gssr.render.cells import clean
from gssr.render.function_names import distinct_names
from gssr.render.scale import count
from gssr.tui.calls.tables import ABOUT, Column, Values, cell_text, columns_of, role_of
from gssr.tui.keys import key
from gssr.tui.shared.panel import LineDrawing

_HEAD = 1
_MARK = 2
_BAR = 24
"""Cells of the bar of share at most; it is an eighth of the width."""
_LEAST_BAR = 6


class CallTable(LineDrawing, ScrollView, can_focus=True):
    """The names that pass, in the order of a column."""

    HELP = (
        "**What took the time, by name.** Vampir calls it *function summary*; the next sub-tabs hold its "
        "*communication matrix view*, *I/O summary* and *call tree*."
    )

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "cursor(-1)", "Up", "the name above", show=False),
        key("down,j", "cursor(1)", "Down", "the name below", show=False),
        key("pageup", "page(-1)", "Page up", "a page up", show=False),
        key("pagedown", "page(1)", "Page down", "a page down", show=False),
        key("home,g", "cursor(-1000000000)", "First", "the first name", show=False),
        key("end,G", "cursor(1000000000)", "Last", "the last name", show=False),
        key("s", "sort", "Sort", "sort by the next column; a click on a head sorts by it"),
        key("r", "reverse", "Reverse", "sort the other way round"),
        key("enter", "open", "Over time", "this name over time"),
    ]

    class Pointed(Message):
        """The cursor is on this row of the table now, -1 for none."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    class Opened(Message):
        """Somebody wants to see this name over time."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.values: Values = {}
        self.name_of_table = ""
        self.order: Ints = np.zeros(0, np.int64)
        self.at = 0
        """The line under the cursor."""
        self.sort = ""
        self.reverse = False
        self.sought = ""
        self._sizes: dict[str, int] = {}
        self._cut: tuple[object, list[str]] | None = None

    def tell(self, name: str, values: Values, sought: str) -> None:
        """Show this table; the cursor stays on its name."""
        held = self._held() if name == self.name_of_table else ""
        if name != self.name_of_table:
            self.sort, self.reverse, self._sizes, self.at = "", False, {}, 0
        self.name_of_table, self.values, self.sought = name, values, sought
        self._arrange(held)

    def _held(self) -> str:
        return str(self.values["name"][self.order[self.at]]) if self.at < len(self.order) else ""

    def _arrange(self, held: str = "") -> None:
        """Search and sort anew."""
        if not self.values:
            return
        names = self.values["name"]
        rows = np.arange(len(names))
        if self.sought:
            rows = rows[named(names, (self.sought,))]
        columns = columns_of(self.values, 1 << 30)
        self.sort = self.sort if self.sort in [each.key for each in columns] else columns[0].key
        if self.sort == "name":
            order = np.array(sorted(range(len(rows)), key=lambda row: str(names[rows[row]]).lower()), np.int64)
        else:
            values = np.array([np.nan if each is None else each for each in self.values[self.sort]], np.float64)
            order = np.argsort(-np.nan_to_num(values, nan=-np.inf)[rows], kind="stable")
        self.order = rows[order[::-1] if self.reverse else order]
        if held:
            self.at = next((at for at, row in enumerate(self.order.tolist()) if names[row] == held), 0)
        self.at = min(max(self.at, 0), max(len(self.order) - 1, 0))
        self.virtual_size = Size(self.size.width, len(self.order) + _HEAD)
        every = count(len(names), "name")
        hits = f"{len(self.order):,} of {every} hold {self.sought}" if self.sought else every
        title = next(each.title for each in columns if each.key == self.sort)
        self.border_title = f"{ABOUT[self.name_of_table]}, {hits}"
        self.border_subtitle = f"by {title}{', least first' if self.reverse else ''}"
        self.post_message(self.Pointed(int(self.order[self.at]) if len(self.order) else -1))
        self.refresh()

    def on_resize(self) -> None:
        """Other columns."""
        self._arrange()

    # Drawing

    def _columns(self) -> list[tuple[Column, int, int]]:
        """The columns in sight with where each begins and ends, one blank at least between two; that which is sorted by is
        always there."""
        x, found = _MARK, []
        shown = columns_of(self.values, self.size.width)
        if self.sort not in [each.key for each in shown]:
            shown.insert(0, next(each for each in columns_of(self.values, 1 << 30) if each.key == self.sort))
        top = self.scroll_offset.y
        sight = self.order[top : top + max(self.size.height, 1)].tolist()
        for column in shown:
            if column.key == "name":
                found.append((column, x + self._bar_size() + 1, self.size.width))
                break
            longest = max((len(cell_text(column.key, self.values[column.key][row])) for row in sight), default=0)
            size = max(longest, len(column.title) + 1, self._sizes.get(column.key, 0))
            self._sizes[column.key] = size
            found.append((column, x, x + size))
            x += size + 1
        return found

    def _bar_size(self) -> int:
        size = min(self.size.width // 8, _BAR)
        return size if "share" in self.values and size >= _LEAST_BAR else 0

    def draw_line(self, y: int) -> Strip:
        """The head, or one name."""
        width = self.size.width
        if not self.values:
            return Strip.blank(width)
        if y == 0:
            return self._head(width)
        at = y - _HEAD + self.scroll_offset.y
        if at >= len(self.order):
            text = (
                "  no name passes; / changes what is looked for, Esc removes it"
                if not len(self.order) and y == 1
                else ""
            )
            return Strip([Segment(text, self.palette.style("dim"))]).adjust_cell_length(width)
        return self._line(at, width)

    def _head(self, width: int) -> Strip:
        segments, x = [], 0
        arrows = "v^" if self.glyphs.levels.isascii() else "▾▴"
        for column, begin, end in self._columns():
            segments.append(Segment(" " * (begin - x)))
            on = column.key == self.sort
            title = f"{column.title}{arrows[self.reverse]}" if on else column.title
            text = f"{title:<{max(end - begin, 0)}}" if column.key == "name" else f"{title:>{end - begin}}"
            segments.append(Segment(text, self.palette.style("heading" if on else "dim")))
            x = end
        return Strip(segments).adjust_cell_length(width)

    def _line(self, at: int, width: int) -> Strip:
        row = int(self.order[at])
        role = role_of(self.values, row)
        segments, x = [Segment(" " * _MARK)], _MARK
        for column, begin, end in self._columns():
            if column.key != "name":
                segments.append(Segment(" " * (begin - x)))
                text = cell_text(column.key, self.values[column.key][row])
                look = self.palette.style("value" if column.key == self.sort else "plain")
                segments.append(Segment(f"{text:>{end - begin}}", look))
                x = end
                continue
            size = self._bar_size()
            if size:
                shares = np.asarray(self.values["share"], np.float64)
                share, most = float(shares[row]), float(np.nanmax(shares))
                filled = round(share / most * size) if most > 0 and share == share else 0
                segments.append(Segment(" " * (begin - size - 1 - x)))
                ink = self.palette.style("neutral" if role == "plain" else role)
                segments.append(Segment(self.glyphs.bar * filled, ink))
                segments.append(Segment(" " * (size - filled + 1)))
            else:
                segments.append(Segment(" " * (begin - x)))
            room = max(end - begin, 1)
            text = self._names(room)[at - self.scroll_offset.y]
            segments.append(Segment(text, self.palette.style("plain" if size else role)))
        strip = Strip(segments).adjust_cell_length(width)
        if at == self.at:
            mark = Strip([Segment("> ", self.palette.style("value"))])
            strip = Strip.join([mark, strip.crop(_MARK)]).apply_style(self.palette.cursor)
        return strip

    def _names(self, room: int) -> list[str]:
        """The names in sight, cut so that they can still be told apart."""
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        key = (id(self.order), top, height, room)
        if self._cut is None or self._cut[0] != key:
            names = [clean(str(self.values["name"][row])) for row in self.order[top : top + height].tolist()]
            self._cut = key, distinct_names(names, room, self.glyphs.ellipsis)
        return self._cut[1]

    # Keys and the mouse

    def point_at(self, at: int) -> None:
        """Put the cursor on a line, and have it in sight."""
        if not len(self.order):
            return
        self.at = min(max(at, 0), len(self.order) - 1)
        room, top = max(self.size.height - _HEAD, 1), self.scroll_offset.y
        wanted = min(max(top, self.at - room + 1), self.at)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False)
        self.post_message(self.Pointed(int(self.order[self.at])))
        self.refresh()

    def action_cursor(self, step: int) -> None:
        """Some lines up or down."""
        self.point_at(self.at + step)

    def action_page(self, step: int) -> None:
        """A page up or down."""
        self.action_cursor(step * max(self.size.height - _HEAD - 1, 1))

    def sort_by(self, name: str) -> None:
        """Sort by a column, the most first; again the other way round."""
        held = self._held()
        self.reverse = not self.reverse if name == self.sort else False
        self.sort = name
        self._arrange(held)
        self.point_at(self.at)

    def action_sort(self) -> None:
        """Sort by the next column in sight."""
        if self.values:
            names = [column.key for column, _, _ in self._columns()]
            self.reverse = False
            self.sort_by(names[(names.index(self.sort) + 1) % len(names)])

    def action_reverse(self) -> None:
        """The other way round."""
        if self.values:
            self.sort_by(self.sort)

    def action_open(self) -> None:
        """This name over time."""
        if len(self.order):
            self.post_message(self.Opened(int(self.order[self.at])))

    def on_click(self, event: events.Click) -> None:
        """A head sorts, a line takes the cursor."""
        offset = event.get_content_offset(self)
        if offset is None or not self.values:
            return
        if offset.y == 0:
            found = [column for column, begin, end in self._columns() if begin - 1 <= offset.x < end]
            if found:
                self.sort_by(found[0].key)
            return
        at = offset.y - _HEAD + self.scroll_offset.y
        if at < len(self.order):
            self.point_at(at)
            if event.chain == 2:
                self.action_open()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say what a head means, and a name in full."""
        offset = event.get_content_offset(self)
        self.tooltip = None
        if offset is None or not self.values:
            return
        if offset.y == 0:
            found = next((column for column, begin, end in self._columns() if begin - 1 <= offset.x < end), None)
            self.tooltip = f"{found.help}; a click sorts" if found else None
