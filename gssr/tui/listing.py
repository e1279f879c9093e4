"""How GPUs is laid out: which GPUs in which rows, one, several or a whole chart to each."""

from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.tui.order import Order, ordered
from gssr.tui.view import Scene

Mode = Literal["rows", "columns", "detail"]

STRIP = 12
"""The least cells of a strip where several GPUs share a row."""
LEAST_COLUMN = 26
MOST_COLUMNS = 6
FEW = 4
"""Up to so many GPUs have a chart each."""
_LEAST_BLOCK = 5
_HEAD, _FOOT = 2, 2
_LEAST_HEIGHT = 12
"""A lower box has no line about the GPU under the cursor and no legend."""


class Listing(NamedTuple):
    """``across`` GPUs share a row; ``room`` rows are for GPUs (all of them together in mode ``detail``); the first row shown
    is number ``top`` of all. ``at``: which of the order's GPUs is under the cursor, -1 when there is none."""

    order: Order
    mode: Mode
    across: int
    room: int
    top: int
    at: int

    @property
    def gpu(self) -> int:
        """The position of the GPU under the cursor, -1 when there is none."""
        return int(self.order.gpus[self.at]) if self.at >= 0 else -1

    @property
    def visible(self) -> Ints:
        """Positions of the GPUs in sight, in their order."""
        if self.mode == "detail":
            return self.order.gpus
        return self.order.gpus[self.top * self.across : (self.top + self.room) * self.across]


def foot(height: int) -> int:
    """Rows under the list: about the GPU under the cursor, and the legend."""
    return _FOOT if height >= _LEAST_HEIGHT else 0


def most_across(width: int) -> int:
    """How many GPUs can share a row of so many cells."""
    return min(max(width // LEAST_COLUMN, 1), MOST_COLUMNS)


def listing(scene: Scene) -> Listing:
    """The list as it is shown: as few GPUs in a row as let all of them be seen, or as ``density`` says. The GPU under the
    cursor is in sight; the first one where the cursor's is not shown."""
    view, height = scene.view, scene.height
    order = ordered(scene)
    n = len(order.gpus)
    under = np.flatnonzero(order.gpus == view.gpu)
    at = int(under[0]) if len(under) else 0 if n else -1
    charted = 0 < n <= FEW and height - 2 >= n * _LEAST_BLOCK
    most = most_across(scene.width)
    choice = view.density % (most + 1)
    if choice == 0 and charted:
        return Listing(order, "detail", 1, height - 1, 0, at)
    room = max(height - _HEAD - foot(height), 1)
    across = choice or next((k for k in range(1, most) if k * room >= n), most)
    row, n_rows = max(at, 0) // across, -(-n // across)
    top = min(max(view.top, row - room + 1), row, max(n_rows - room, 0))
    return Listing(order, "rows" if across == 1 else "columns", across, room, max(top, 0), at)
