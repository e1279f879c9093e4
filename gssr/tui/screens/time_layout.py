"""How the rows and columns of Time are shared: what matters most first."""

from typing import NamedTuple

from gssr.tui.bars import ORDER, per_row

_NARROW, _WIDE = 60, 100
_MOST_TALL = 16
"""Rows that a line of the timeline is drawn with at most."""
_MOST_SUMMARY = 10


class Room(NamedTuple):
    """Rows of each part, 0 where there is no room for it: the ``title``, the ``head`` of the columns with the events, the
    ``lines`` of the timeline, the ``summary``, the time ``axis``, and the ``panel`` of the cursor. ``left``: cells before
    the columns of time."""

    left: int
    title: int
    head: int
    lines: int
    summary: int
    axis: int
    panel: int


def room(width: int, height: int) -> Room:
    """The parts of a box."""
    left = 14 if width < _NARROW else 24 if width < _WIDE else 36
    title, axis = int(height >= 4), int(height >= 6)
    head = int(height >= 10)
    summary = 0 if height < 7 else 1 if height < 10 else 2 if height < 14 else max(height // 8, 3)
    panel = 0 if height < 8 else 1 if height < 14 else 1 + min(height // 6, -(-len(ORDER) // per_row(width)))
    lines = max(height - title - axis - head - summary - panel, 1)
    return Room(left, title, head, lines, min(summary, _MOST_SUMMARY), axis, panel)


class Shares(NamedTuple):
    """``tall``: rows of each line of the timeline, its gap included; ``gap``: rows between two; ``shown``: how many lines
    there is room for; ``summary``: rows of the summary, which takes what is left."""

    tall: int
    gap: int
    shown: int
    summary: int


def share(parts: Room, n_lines: int) -> Shares:
    """How ``n_lines`` lines of the timeline share its rows with the summary."""
    n = max(n_lines, 1)
    tall = min(max(parts.lines // n, 1), _MOST_TALL)
    shown = min(parts.lines // tall, n)
    spare = parts.lines - shown * tall
    return Shares(tall, int(tall >= 4), shown, min(parts.summary + spare, max(_MOST_SUMMARY, parts.summary)))
