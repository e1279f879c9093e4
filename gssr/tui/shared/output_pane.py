"""What the workload prints, below the screen."""

from textual.strip import Strip

from gssr.render.log_tail import log_tail
from gssr.render.roles import Row, Span
from gssr.tui.shared.panel import Panel


class OutputPane(Panel):
    """The end of the workload's output, as a terminal would show it."""

    path = ""
    tail: bytes | None = None

    def tell(self, path: str, tail: bytes | None) -> None:
        """Show the last bytes of the log at ``path``, or say that there is no such log (None). It is drawn anew only if
        they have changed."""
        if (path, tail) != (self.path, self.tail):
            self.path, self.tail = path, tail
            self.border_title, self.border_subtitle = "output", path
            self.refresh()

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """As many of its last lines as there is room for."""
        if not self.path:
            return []
        if self.tail is None:
            rows: tuple[Row, ...] = ((Span("no output was kept beside this recording", "dim"),),)
        else:
            rows = log_tail(self.tail, width, height, self.glyphs.levels.isascii())
        return [self.strip_of(row, width) for row in rows]
