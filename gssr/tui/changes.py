"""Which cells of a row differ from those before: only these need to be sent."""

import numpy as np

from gssr.arrays import Ints
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
