"""The part of a frame's timeline that is in sight."""

from typing import NamedTuple

import numpy as np

from gssr.model.live.attention import attention
from gssr.model.live.frame import Frame, Timeline
from gssr.model.statistics.grid import Folded, fold
from gssr.render.cells import clean
from gssr.render.clock import moment
from gssr.tui.axis import full_scale
from gssr.tui.screens.time_layout import Room, Shares, room, share
from gssr.tui.view import Scene


class Part(NamedTuple):
    """``timeline``, and its lines from ``top`` on as far as ``shares`` has room. ``columns``: means of the lines as
    fractions of the full scale, ``low`` their minima, ``busy`` the shares of busy, medium and idle GPUs, all [lines or 3,
    n_columns]. ``cursor``: the column under the time cursor, None without one; ``line``: the line under the other cursor.
    ``room``: how the box is shared."""

    timeline: Timeline
    shares: Shares
    top: int
    line: int
    columns: Folded
    low: np.ndarray
    busy: np.ndarray
    cursor: int | None
    room: Room

    def lines(self) -> range:
        """The lines in sight."""
        return range(self.top, min(self.top + self.shares.shown, len(self.timeline.members)))

    def at(self, frame: Frame) -> str:
        """When the column under the time cursor begins, as the axis counts it."""
        assert self.cursor is not None
        time = self.columns.start + self.cursor * self.columns.width
        return moment(time - frame.first, frame.last - frame.first, self.columns.width)

    def name(self, frame: Frame, line: int) -> str:
        """What a line is called elsewhere: ``band A``, ``nid000001:0``, ``nid000001:0 to nid000002:3``."""
        members = self.timeline.members[line]
        if self.timeline.names:
            return f"band {self.timeline.names[line]}"
        first, last = clean(frame.place(int(members[0]))), clean(frame.place(int(members[-1])))
        return first if len(members) == 1 else f"{first} to {last}"

    def letter(self, frame: Frame, line: int) -> str:
        """``!`` where a GPU of the line is an outlier, else ``g`` where one is silent, else ""."""
        found, members = attention(frame), self.timeline.members[line]
        return "!" if found.outlier[members].any() else "g" if (found.age[members] > 0).any() else ""


def part_of(scene: Scene) -> Part | None:
    """What is in sight; None when the frame has no timeline yet."""
    frame, view = scene.frame, scene.view
    timeline = frame.timeline
    if timeline is None:
        return None
    parts = room(scene.width, scene.height)
    n = len(timeline.members)
    shares = share(parts, n)
    line = min(max(view.row, 0), max(n - 1, 0))
    top = min(max(view.top, line - shares.shown + 1, 0), line, max(n - shares.shown, 0))
    cells = max(scene.width - parts.left, 1)
    full = full_scale(frame, frame.grid.metric)
    columns = fold(frame.grid, timeline.mean / full, cells)
    low, busy = timeline.low / full, timeline.shares
    if columns.factor > 1:
        low, busy = _lowest(low, frame, columns), fold(frame.grid, busy, cells).values
    cursor = None if view.cursor is None else columns.column(view.cursor)
    return Part(timeline, shares, top, line, columns, low, busy, cursor, parts)


def _lowest(low: np.ndarray, frame: Frame, columns: Folded) -> np.ndarray:
    """The minima of columns that went together."""
    grid = frame.grid
    begins = np.round((columns.start + np.arange(columns.n) * columns.width - grid.start) / grid.width).astype(np.int64)
    found: np.ndarray = np.fmin.reduceat(low, np.maximum(begins, 0), axis=1)
    return found
