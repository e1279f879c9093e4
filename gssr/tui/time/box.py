"""A box of cells that rows are put into, and lines are drawn over: from a launch to its kernel, from send to receive."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

_LINES, _LINES_ASCII = "│─╲╱", "|-\\/"
_HEADS, _HEADS_ASCII = "▾▴", "v^"
ON_BLOCKS = Style(color="#0e1217", bold=True)
"""Text on the colours of states, which are all of middle lightness."""


class Box:
    """``height`` rows of ``width`` cells, blank at first; what lies outside is cut off."""

    def __init__(self, width: int, height: int, ascii_only: bool) -> None:
        self.width, self.height, self._ascii = width, height, ascii_only
        self._cells: list[list[tuple[str, Style]]] = [[(" ", Style.null())] * width for _ in range(height)]

    def put(self, y: int, x: int, segments: Iterable[Segment]) -> None:
        """Put text of narrow characters into row ``y``, from column ``x`` on; cells outside the box are left out."""
        if not 0 <= y < self.height:
            return
        row = self._cells[y]
        for text, style, _ in segments:
            for char in text:
                if 0 <= x < self.width:
                    row[x] = char, style or Style.null()
                x += 1

    def line(self, x: int, y: int, to_x: int, to_y: int, style: Style, left: int = 0) -> None:
        """Draw a line from one cell to another, with an arrow head at its end unless both are in one row.

        It has the colour of ``style`` on what is there already. Its first cell stays as it is, and so do cells left of
        column ``left`` or outside the box.
        """
        steps = max(abs(to_x - x), abs(to_y - y))
        lines = _LINES_ASCII if self._ascii else _LINES
        heads = _HEADS_ASCII if self._ascii else _HEADS
        before = x
        for step in range(1, steps + 1):
            at_x, at_y = x + round((to_x - x) * step / steps), y + round((to_y - y) * step / steps)
            past_y = y + round((to_y - y) * (step - 1) / steps)
            dx, dy = at_x - before, at_y - past_y
            char = lines[0] if not dx else lines[1] if not dy else lines[2] if (dx > 0) == (dy > 0) else lines[3]
            before = at_x
            if step == steps and to_y != y:
                char = heads[0] if to_y > y else heads[1]
            if 0 <= at_y < self.height and left <= at_x < self.width:
                below = self._cells[at_y][at_x]
                self._cells[at_y][at_x] = char, _over(below, style)

    def strips(self) -> list[Strip]:
        """Return the rows, each a strip of ``width`` cells."""
        return [
            Strip([Segment("".join(map(itemgetter(0), cells)), style) for style, cells in groupby(row, itemgetter(1))])
            for row in self._cells
        ]


def _over(below: tuple[str, Style], style: Style) -> Style:
    """Return the style of a line drawn over the cell ``below``: the line's colour on that cell's background, or for a
    filled block on the block's own colour. A style that is not bold is drawn dark on such backgrounds."""
    char, look = below
    ground = look.color if char in "█▇▆▅#" else look.bgcolor
    return Style(color=style.color if ground is None or style.bold else ON_BLOCKS.color, bgcolor=ground, bold=True)
