"""A table of names: it sorts by every column and searches."""

from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual.binding import BindingType

from gssr.model.traces.part import fits_name
from gssr.render.cells import clean
from gssr.render.function_names import distinct_names
from gssr.render.scale import count
from gssr.report.live.call_tables import ABOUT, Values, cell_text, columns_of, role_of
from gssr.report.live.times_of_run import in_part
from gssr.tui.keys import key
from gssr.tui.shared.line_table import MARK, Heading, LineTable

_EVERY_COLUMN = 1 << 30
"""Cells of width at which no column is left out."""
_BAR, _NAME = "", "name"
_MOST_BAR = 24
"""Cells of the bar of share at most; it is an eighth of the width."""
_LEAST_BAR = 6


class CallTable(LineTable):
    """The names that pass the search, in the order of a column."""

    BINDINGS: ClassVar[list[BindingType]] = [key("enter", "open", "Over time", "this name over time")]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)
        self.values: Values = {}
        self.name_of_table = ""
        self.sought = ""
        self._part = ""
        self._sizes: dict[str, int] = {}
        """Cells of each column, as many as its longest value so far needed: columns only grow."""
        self._cut_names: tuple[object, list[str]] | None = None

    def show_table(self, name: str, values: Values, sought: str, part: str) -> None:
        """Show the rows of the table ``name`` whose names hold ``sought`` ("" for all); ``part`` says which part of the
        trace they are of ("" for all of it).

        The cursor stays on its name. Another table begins at the first row, in the order of its first column.
        """
        held = self._name_under_cursor() if name == self.name_of_table else ""
        if name != self.name_of_table:
            self.sort, self.descending, self._sizes, self.at = "", True, {}, 0
            self.is_cursor_placed = False
        self.name_of_table, self.values, self.sought, self._part = name, values, sought, part
        self._sort_items(held)

    def _name_under_cursor(self) -> str:
        return str(self.values["name"][self.item]) if self.item >= 0 else ""

    def sort_items(self) -> None:
        """Search and sort anew."""
        self._sort_items(self._name_under_cursor())

    def _sort_items(self, held: str) -> None:
        """Search and sort, set the titles, and put the cursor on the row whose name is ``held`` ("" for none). Do
        nothing without values. Unknown values count as the least."""
        if not self.values:
            return
        names = self.values["name"]
        rows = np.arange(len(names))
        if self.sought:
            rows = rows[fits_name(names, (self.sought,))]
        columns = {each.key: each for each in columns_of(self.values, _EVERY_COLUMN)}
        self.sort = self.sort if self.sort in columns else next(iter(columns))
        if self.sort == _NAME:
            order = np.array(sorted(range(len(rows)), key=lambda row: str(names[rows[row]]).lower()), np.int64)
            order = order[::-1] if self.descending else order
        else:
            values = np.array([np.nan if each is None else each for each in self.values[self.sort]], np.float64)
            order = np.argsort(-np.nan_to_num(values, nan=-np.inf)[rows], kind="stable")
            order = order if self.descending else order[::-1]
        every = count(len(names), "name")
        hits = f"{len(rows):,} of {every} hold {self.sought}" if self.sought else every
        base = ", shares of all these" if "share" in columns else ""
        self.border_title = in_part(f"{ABOUT[self.name_of_table]}, {hits}{base}", self._part)
        other_way = self.descending != self.descends_at_first(self.sort)
        way = "" if not other_way else ", last first" if self.sort == _NAME else ", least first"
        self.border_subtitle = f"by {columns[self.sort].title}{way}"
        self.set_order(rows[order], next((row for row in rows[order].tolist() if held and names[row] == held), -1))

    def descends_at_first(self, column: str) -> bool:
        """Numbers begin with the most, names with the first."""
        return column != _NAME

    @property
    def nothing(self) -> str:
        """What is said where no name is shown."""
        return "  no name passes; / changes what is looked for, Esc removes it"

    def place_columns(self) -> list[Heading]:
        """Lay out the columns that fit, from left to right, the bar of share before the names.

        The column that is sorted by is always among them. Empty without values.
        """
        if not self.values:
            return []
        x, width, found = MARK, self.size.width, []
        shown = columns_of(self.values, width)
        if self.sort not in [each.key for each in shown]:
            shown.insert(0, next(each for each in columns_of(self.values, _EVERY_COLUMN) if each.key == self.sort))
        rows = self._rows_in_sight()
        for column in shown:
            if column.key == _NAME:
                bar = min(width // 8, _MOST_BAR) if "share" in self.values else 0
                if bar >= _LEAST_BAR:
                    found.append(Heading(_BAR, "", x, x + bar))
                    x += bar + 1
                found.append(Heading(_NAME, column.title, x, max(width, x + 1), column.help, is_words=True))
                break
            longest = max((len(cell_text(column.key, self.values[column.key][row])) for row in rows), default=0)
            size = max(longest, len(column.title) + 1, self._sizes.get(column.key, 0))
            self._sizes[column.key] = size
            found.append(Heading(column.key, column.title, x, x + size, column.help))
            x += size + 1
        return found

    def _rows_in_sight(self) -> list[int]:
        """Return the rows in sight, as indices into the table's values, from the top."""
        top = self.scroll_offset.y
        found: list[int] = self.order[top : top + max(self.size.height, 1)].tolist()
        return found

    def cell(self, heading: Heading, item: int) -> list[Segment]:
        """Draw one cell: a number, the bar of share, or a name. ``item`` is an index into the table's values."""
        style, role, size = self.palette.style, role_of(self.values, item), heading.end - heading.begin
        if heading.key == _BAR:
            shares = np.asarray(self.values["share"], np.float64)
            share, most = float(shares[item]), float(np.nanmax(shares))
            filled = round(share / most * size) if most > 0 and share == share else 0
            look = style("neutral" if role == "plain" else role)
            return [Segment(self.glyphs.bar * filled, look), Segment(" " * (size - filled))]
        if heading.key == _NAME:
            has_bar = any(each.key == _BAR for each in self.headings())
            return [Segment(heading.align(self._name_in(size, item)), style("plain" if has_bar else role))]
        look = style("value" if heading.key == self.sort else "plain")
        return [Segment(heading.align(cell_text(heading.key, self.values[heading.key][item])), look)]

    def _name_in(self, room: int, item: int) -> str:
        """Cut the name of ``item``, which must be in sight, to ``room`` cells, so that the names in sight can still be
        told apart."""
        rows = self._rows_in_sight()
        state = (id(self.order), self.scroll_offset.y, len(rows), room)
        if self._cut_names is None or self._cut_names[0] != state:
            names = [clean(str(self.values["name"][row])) for row in rows]
            self._cut_names = state, distinct_names(names, room, self.glyphs.ellipsis)
        return self._cut_names[1][rows.index(item)]
