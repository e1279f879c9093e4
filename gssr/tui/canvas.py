"""The one widget: rows of text on the whole terminal, of which only what changed is sent.

Which cells of a row differ from those before: only these need to be sent.

Less lightness where it would cost too much: it only repeats what height says, and every change of it is sent.

Where rows change their lightness so often that a whole terminal would take more than MOST_BYTES a cell, those rows get
one lightness.

How roles look: the user's own 16 colours, or none.
"""

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gssr.arrays import Ints
from gssr.render.cells import cell_width
from gssr.render.roles import RAMP, RAMP_LOW, ROLES, Role, Row, Span, text_of

MOST_KEPT = 4
"""So many cells that did not change are sent again rather than skipped: moving the cursor costs as much."""
_NUMBER = {role: number for number, role in enumerate(ROLES)}


def cells_of(row: Row) -> Ints:
    """[width]: one number for each cell's character and role; a wide character's second cell has none of its own."""
    text = text_of(row)
    sizes = [len(span.text) for span in row]
    if cell_width(text) != len(text):
        text = "".join(char + "\0" * (cell_width(char) - 1) for char in text)
        sizes = [cell_width(span.text) for span in row]
    characters = np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.int64)
    return characters + (np.repeat([_NUMBER[span.role] for span in row], sizes).astype(np.int64) << 32)


def changed_spans(before: Ints, after: Ints) -> list[tuple[int, int]]:
    """(first cell, the one after the last) of what to send again, left to right; all of a row whose width changed."""
    if len(before) != len(after):
        return [(0, max(len(before), len(after)))]
    differs = np.flatnonzero(before != after)
    if not len(differs):
        return []
    cuts = np.flatnonzero(np.diff(differs) > MOST_KEPT + 1) + 1
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(differs, cuts)]


MOST_BYTES = 16_000 / (120 * 40)
_CHANGE = 13
"""What changing the colour takes, bytes."""
_MANY = 8
"""Rows with more changes of lightness than this are made calm."""
_CALM: dict[Role, Role] = {
    **dict.fromkeys(RAMP, RAMP[3]),
    **dict.fromkeys(RAMP_LOW, RAMP_LOW[3]),
}


def bytes_of(row: Row) -> int:
    """About what it takes to send a row."""
    return len(text_of(row).encode()) + _CHANGE * _changes(row)


def _changes(row: Row) -> int:
    return sum(span.role in _CALM for span in row)


def too_much(total: int, cells: int, before: bool) -> bool:
    """Whether ``total`` bytes for so many cells call for calm; ``before``: they did already, and do so a little longer."""
    return total > cells * MOST_BYTES * (0.8 if before else 1.0)


def calmed(row: Row) -> Row:
    """The row with one lightness, if it has many."""
    if _changes(row) <= _MANY:
        return row
    return merged(tuple(Span(span.text, _CALM.get(span.role, span.role)) for span in row))


def merged(row: Row) -> Row:
    """The row with neighbours of the same role in one span."""
    if all(one.role != other.role for one, other in pairwise(row)):
        return row
    return tuple(
        Span("".join(span.text for span in spans), role) for role, spans in groupby(row, lambda span: span.role)
    )


def looks(colors: int) -> dict[Role, Style]:
    """A style for each role on a terminal of so many colours (0: none)."""
    found = {}
    for role, look in ROLES.items():
        style = Style.parse(look.rich or "none")
        few = not colors or (colors < 256 and role in RAMP + RAMP_LOW)
        found[role] = style.without_color if few else style
    return found


class Canvas(Widget, can_focus=True):
    """Shows rows of spans, each as wide as the widget. ``look`` gives a role's style."""

    def __init__(
        self, look: dict[Role, Style], clicked: Callable[[int, int], None], typed: Callable[[str], bool]
    ) -> None:
        super().__init__()
        self._typed = typed
        self._look = look
        self._clicked = clicked
        self._rows: list[Row] = []
        self._strips: list[Strip] = []
        self._cells: list[Ints] = []
        self._bytes: list[int] = []
        self._calm = False

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows instead; what is the same as before is not drawn again."""
        rows, before = list(rows), self._calm
        same = [y < len(self._rows) and row == self._rows[y] for y, row in enumerate(rows)]
        sizes = [self._bytes[y] if same[y] else bytes_of(row) for y, row in enumerate(rows)]
        calm = too_much(sum(sizes), self.size.width * self.size.height, before)
        changed: list[Region] = []
        strips, cells = [], []
        for y, row in enumerate(rows):
            if same[y] and calm == before:
                strips.append(self._strips[y])
                cells.append(self._cells[y])
                continue
            drawn = calmed(row) if calm else merged(row)
            cells.append(cells_of(drawn))
            strips.append(Strip([Segment(span.text, self._look[span.role]) for span in drawn], len(cells[y])))
            spans = changed_spans(self._cells[y], cells[y]) if y < len(self._cells) else [(0, self.size.width)]
            changed += [Region(first, y, last - first, 1) for first, last in spans]
        shorter = len(rows) < len(self._rows)
        self._rows, self._bytes, self._calm, self._strips, self._cells = rows, sizes, calm, strips, cells
        if shorter:
            self.refresh()
        elif changed:
            self.refresh(*changed)

    def rows(self) -> list[Row]:
        """What is shown."""
        return list(self._rows)

    def render_line(self, y: int) -> Strip:
        """One line, for Textual."""
        width = self.size.width
        strip = self._strips[y] if y < len(self._strips) else Strip([], 0)
        return strip.adjust_cell_length(width, Style.null())

    def on_key(self, event: events.Key) -> None:
        """Tell which key it was; what is taken there is no key for anybody else."""
        if self._typed(event.key):
            event.stop()

    def on_click(self, event: events.Click) -> None:
        """Tell where the mouse was pressed."""
        self._clicked(event.x, event.y)
