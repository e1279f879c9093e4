"""What the workload prints, below the screen."""

from textual.strip import Strip

from gssr.render.log_tail import log_tail
from gssr.render.roles import Row, Span
from gssr.store.read.log_file import Output
from gssr.tui.shared.panel import Panel


class OutputPane(Panel):
    """The end of the workload's output, as a terminal would show it."""

    output: Output | None = None

    def tell(self, output: Output) -> None:
        """Show this output, drawn anew only if it has changed."""
        if output != self.output:
            self.output = output
            self.border_title, self.border_subtitle = "output", output.path
            self.refresh()

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """As many of its last lines as there is room for."""
        if self.output is None:
            return []
        if self.output.tail is None:
            rows: tuple[Row, ...] = ((Span("no output was kept beside this recording", "dim"),),)
        else:
            rows = log_tail(self.output.tail, width, height, self.glyphs.levels.isascii())
        return [self.strip_of(row, width) for row in rows]
