"""The one widget: rows of text on the whole terminal, of which only what changed is sent."""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gssr.arrays import Ints
from gssr.render.roles import Role, Row
from gssr.tui.calm import bytes_of, calmed, merged, too_much
from gssr.tui.changes import cells_of, changed_spans


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
