"""How the rows and columns of Time are shared: what matters most first."""

from typing import NamedTuple

from gssr.tui.bars import ORDER, per_row

_NARROW, _WIDE = 60, 100
NARROW, MEDIUM, WIDE = (14, 5), (24, 7), (36, 7)
"""Cells before the columns of time, and of them for the value."""
_MOST_TALL = 16
"""Rows that a line of the timeline is drawn with at most."""
_MOST_SUMMARY = 10


class Room(NamedTuple):
    """Rows of each part, 0 where there is no room for it: the ``title``, the ``head`` of the columns with the events, the
    ``lines`` of the timeline, a ``rule``, the ``summary``, the time ``axis``, and the ``panel`` of the cursor. ``left``:
    cells before the columns of time, the last ``value`` and a blank of them for a line's value."""

    left: int
    value: int
    title: int
    head: int
    lines: int
    rule: int
    summary: int
    axis: int
    panel: int


def room(width: int, height: int) -> Room:
    """The parts of a box."""
    left, value = NARROW if width < _NARROW else MEDIUM if width < _WIDE else WIDE
    title, axis = int(height >= 4), int(height >= 6)
    head = int(height >= 10)
    summary = 0 if height < 7 else 1 if height < 10 else 2 if height < 14 else max(height // 8, 3)
    panel = 0 if height < 8 else 1 if height < 14 else 1 + min(height // 6, -(-len(ORDER) // per_row(width)))
    rule = int(height >= 16)
    lines = max(height - title - axis - head - rule - summary - panel, 1)
    return Room(left, value, title, head, lines, rule, min(summary, _MOST_SUMMARY), axis, panel)


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
