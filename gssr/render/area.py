"""Filled columns over time on a fixed axis, several rows high."""

from collections.abc import Sequence
from itertools import groupby

from gssr.render.glyphs import CLAMPED, MISSING, TOLERANCE, Glyphs, level
from gssr.render.roles import Role, Row, Span


def area(
    fractions: Sequence[float], height: int, glyphs: Glyphs, role: Role = "series", cursor: int | None = None
) -> list[Row]:
    """``height`` rows of one cell per column, filled from below up to its fraction of the full scale: zero is the lowest
    mark, NaN is blank, above the full scale ends in ``^``. The column ``cursor`` is marked from top to bottom."""
    columns = [_column(fraction, height, glyphs) for fraction in fractions]
    rows: list[Row] = []
    for y in range(height):
        cells: list[tuple[str, Role]] = []
        for x, column in enumerate(columns):
            mark = column[y]
            cells.append((mark, "cursor" if x == cursor else "outlier" if mark == CLAMPED else role))
        grouped = groupby(cells, key=lambda cell: cell[1])
        rows.append(tuple(Span("".join(mark for mark, _ in own), name) for name, own in grouped))
    return rows


def _column(fraction: float, height: int, glyphs: Glyphs) -> str:
    """One column's marks from the top down."""
    if fraction != fraction:
        return MISSING * height
    if fraction > 1 + TOLERANCE:
        return CLAMPED + glyphs.full * (height - 1)
    filled = min(max(fraction, 0.0), 1.0) * height
    full = min(int(filled), height)
    rest = filled - full
    if full == height:
        return glyphs.full * height
    tip = level(rest, glyphs.levels) if rest > 0 or full == 0 else ""
    return MISSING * (height - full - len(tip)) + tip + glyphs.full * full
