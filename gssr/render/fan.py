"""A chart of one line with a band around it, one cell per column of time, on a fixed axis."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.render.glyphs import CLAMPED, TOLERANCE, Glyphs
from gssr.render.roles import Role, Row, Span

_Cells = NDArray[np.int64]

_DOTS = 4
"""Dots of a Braille cell, one above the other; it has two side by side."""
_BITS = np.array([[0x40, 0x80], [0x04, 0x20], [0x02, 0x10], [0x01, 0x08]])
"""The bit of each dot, from the lowest up, left and right. Source: Unicode standard, Braille patterns."""
_BRAILLE = 0x2800

_BLANK, _BAND, _FLOOR, _LINE, _APART, _OVER = range(6)
_ROLES: tuple[Role, ...] = ("plain", "band", "dim", "series", "outlier", "outlier")


def fan(
    line: Floats, low: Floats, high: Floats, height: int, glyphs: Glyphs, floor: Floats | None = None,
    cursor: int | None = None, apart: Floats | None = None,
) -> list[Row]:  # fmt: skip
    """Draw ``height`` rows of one cell for each column, the topmost first: a line, and a band from ``low`` to ``high``.

    Args:
        line: The line, a fraction of the full scale [columns], as all the others are; NaN leaves a gap in it.
        low: The lower end of the band; NaN for a column without one.
        high: Its upper end.
        height: The number of rows; zero is in the lowest.
        glyphs: The characters to draw with: Braille dots, or ASCII.
        floor: Single marks, for the least of something; None for none. The line hides them where it is in the same
            cell.
        cursor: The column to mark from top to bottom; None for none.
        apart: A second line, which stands out and hides all else where it runs; None for none.

    Where the line is above the full scale, there is a ``^`` in the top row. A column in which all is NaN stays blank.
    """
    n = len(line)
    if n == 0 or height < 1:
        return [()] * max(height, 0)
    draw = _characters if glyphs.levels.isascii() else _braille
    codes, roles = draw(line, low, high, height, floor, apart)
    over = np.flatnonzero(line > 1 + TOLERANCE)
    codes[0, over], roles[0, over] = ord(CLAMPED), _OVER
    return [_row(codes[y], roles[y], cursor) for y in range(height)]


def _row(codes: _Cells, roles: _Cells, cursor: int | None) -> Row:
    """Return a row of character codes and roles as spans, with the column ``cursor`` in a span of its own; None or one
    beyond the row: no cursor."""
    text = codes.astype("<u4").tobytes().decode("utf-32-le")
    edges = set((np.flatnonzero(np.diff(roles)) + 1).tolist()) | {0, len(text)}
    if cursor is not None and 0 <= cursor < len(text):
        edges |= {cursor, cursor + 1}
    bounds = sorted(edges)
    return tuple(Span(text[a:b], "cursor" if a == cursor else _ROLES[roles[a]]) for a, b in pairwise(bounds))


def _steps(values: Floats, steps: int) -> _Cells:
    """Return which of ``steps`` steps, counted from below, each fraction is on; -1 for NaN."""
    known = np.isfinite(values)
    found = np.floor(np.where(known, values, 0.0) * steps).astype(np.int64)
    return np.where(known, np.clip(found, 0, steps - 1), -1)


def _stroke(at: _Cells) -> tuple[_Cells, _Cells]:
    """Return the lowest and the highest step of the line in each column: from its own step it reaches up or down to
    next to the step of the column before. ``at``: the line's steps, -1 where it has none."""
    before = np.concatenate((at[:1], at[:-1]))
    before = np.where(before < 0, at, before)
    return np.where(before < at, before + 1, at), np.where(before > at, before - 1, at)


def _braille(
    line: Floats, low: Floats, high: Floats, height: int, floor: Floats | None, apart: Floats | None
) -> tuple[_Cells, _Cells]:  # fmt: skip
    """Draw the layers in Braille dots. Arguments as of ``fan``. A cell shows the dots of one layer alone: of ``apart``,
    else the line, else ``floor``, else the band.

    Returns character codes and indices in _ROLES, both [height, columns] with the topmost row first.
    """
    steps = height * _DOTS
    level = np.arange(steps)[:, None]
    first, last = _steps(low, steps), _steps(high, steps)
    inside = (level >= first) & (level <= last) & (first >= 0)
    checkered = np.stack((inside & (level % 2 == 0), inside & (level % 2 == 1)), axis=2)
    marks = np.zeros_like(checkered)
    if floor is not None:
        marks[:, :, 0] = level == _steps(floor, steps)
    layers = [(checkered, _BAND), (marks, _FLOOR), (_strokes(line, level), _LINE)]
    if apart is not None:
        layers.append((_strokes(apart, level), _APART))
    bits, roles = np.zeros((height, len(line)), np.int64), np.zeros((height, len(line)), np.int64)
    for dots, role in layers:
        layer = _cells(dots, height)
        drawn = layer > 0
        bits[drawn], roles[drawn] = layer[drawn], role
    return np.where(roles == _BLANK, ord(" "), _BRAILLE + bits), roles


def _strokes(line: Floats, level: _Cells) -> NDArray[np.bool_]:
    """Tell where a line has dots, [steps from below, columns, 2]."""
    at = _steps(line, len(level))
    bottom, top = _stroke(at)
    return np.stack(((level >= bottom) & (level <= top) & (at >= 0), level == at), axis=2)


def _cells(dots: NDArray[np.bool_], height: int) -> _Cells:
    """Return dots [steps from below, columns, 2] as bits of Braille cells [rows from above, columns]."""
    grouped = dots.reshape(height, _DOTS, dots.shape[1], 2)
    bits: _Cells = np.einsum("hdcs,ds->hc", grouped, _BITS)
    return bits[::-1].copy()


def _characters(
    line: Floats, low: Floats, high: Floats, height: int, floor: Floats | None, apart: Floats | None
) -> tuple[_Cells, _Cells]:  # fmt: skip
    """Draw the layers in ASCII, as ``_braille`` does in dots: the band as ``.``, ``floor`` as ``_``, the line as ``o``
    and ``apart`` as ``x``, with ``|`` where these two climb or fall. The later in this order hides the earlier in a
    cell.

    Returns character codes and indices in _ROLES, both [height, columns] with the topmost row first.
    """
    level = np.arange(height)[:, None]
    first, last = _steps(low, height), _steps(high, height)
    codes = np.full((height, len(line)), ord(" "), np.int64)
    roles = np.zeros_like(codes)
    layers = [
        ((level >= first) & (level <= last) & (first >= 0), ".", _BAND),
        (level == _steps(floor, height) if floor is not None else np.zeros(codes.shape, bool), "_", _FLOOR),
    ]
    for values, role in ((line, _LINE), (apart, _APART)):
        if values is not None:
            at = _steps(values, height)
            bottom, top = _stroke(at)
            layers.append(((level >= bottom) & (level <= top) & (at >= 0), "|", role))
            layers.append(((level == at) & (at >= 0), "o" if role == _LINE else "x", role))
    for drawn, mark, role in layers:
        codes[drawn], roles[drawn] = ord(mark), role
    return codes[::-1].copy(), roles[::-1].copy()
