"""The one widget: rows of text on the whole terminal, of which only what changed is sent."""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gssr.render.cells import cell_width, clip
from gssr.render.roles import Role, Row, text_of


class Canvas(Widget, can_focus=True):
    """Shows rows of spans, each as wide as the widget. ``styles_of`` gives a role's look."""

    def __init__(
        self, look: dict[Role, Style], clicked: Callable[[int, int], None], typed: Callable[[str], bool]
    ) -> None:
        super().__init__()
        self._typed = typed
        self._look = look
        self._clicked = clicked
        self._rows: list[Row] = []
        self._strips: list[Strip] = []

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows instead; what is the same as before is not drawn again."""
        rows = list(rows)
        changed: list[Region] = []
        for y, row in enumerate(rows):
            if y >= len(self._rows):
                changed.append(Region(0, y, self.size.width, 1))
            elif row != self._rows[y]:
                first, last = _difference(self._rows[y], row)
                changed.append(Region(first, y, last - first, 1))
        strips = [
            self._strips[y] if y < len(self._rows) and row == self._rows[y] else self._strip(row)
            for y, row in enumerate(rows)
        ]
        shorter = len(rows) < len(self._rows)
        self._rows, self._strips = rows, strips
        if shorter:
            self.refresh()
        elif changed:
            self.refresh(*changed)

    def rows(self) -> list[Row]:
        """What is shown."""
        return list(self._rows)

    def _strip(self, row: Row) -> Strip:
        segments = [Segment(span.text, self._look[span.role]) for span in row]
        return Strip(segments, sum(cell_width(span.text) for span in row))

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


def _difference(old: Row, new: Row) -> tuple[int, int]:
    """The first cell that differs, and the one after the last: wide characters and styles included."""
    before, after = _cells(old), _cells(new)
    width = max(len(before), len(after))
    before += [("", None)] * (width - len(before))
    after += [("", None)] * (width - len(after))
    differs = [x for x in range(width) if before[x] != after[x]]
    return (differs[0], differs[-1] + 1) if differs else (0, width)


def _cells(row: Row) -> list[tuple[str, Role | None]]:
    if text_of(row).isascii():
        return [(char, span.role) for span in row for char in span.text]
    cells: list[tuple[str, Role | None]] = []
    for span in row:
        for char in span.text:
            cells += [(char, span.role)] * cell_width(char)
    return cells


def text_rows(rows: Sequence[Row], width: int) -> str:
    """The rows as plain text."""
    return "\n".join(text_of(clip(row, width)).rstrip() for row in rows) + "\n"
