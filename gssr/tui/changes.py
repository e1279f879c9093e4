"""Which cells of a row differ from those before, and sending these alone: bytes are what a slow connection has least of."""

import numpy as np
from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate

from gssr.model.frame import Ints
from gssr.render.cells import cell_width
from gssr.render.roles import ROLES, Row, text_of

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


class ExactUpdate(ChopsUpdate):
    """An update of the terminal that begins where the change does: Textual's own begins at the widget's left edge."""

    def __init__(self, update: ChopsUpdate) -> None:
        super().__init__(update.chops, update.spans, update.chop_ends)

    def render_segments(self, console: Console) -> str:
        """What to write to the terminal."""
        sequences: list[str] = []
        for y, first, last in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is not None and x < last and end > first:
                    sequences.append(Control.move_to(max(x, first), y).segment.text)
                    sequences.append(strip.crop(max(first - x, 0), min(end, last) - x).render(console))
        return "".join(sequences)
