"""Thousands of values as marks at once: arrays of characters and roles, and rows made of them.

Each mark is one cell on a fixed axis: height by the value, lightness by its step of RAMP, underlined where the cell stands
for several GPUs of which one is below half of their mean. Zero is the lowest mark, missing is blank, above the full scale
is ``^``.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.render.glyphs import CLAMPED, MISSING, TOLERANCE, Glyphs
from gssr.render.roles import CATEGORIES, RAMP, RAMP_LOW, Role, Row, Span

Chars = NDArray[np.str_]
Codes = NDArray[np.int8]

_ROLES: tuple[Role, ...] = (
    *RAMP,
    *RAMP_LOW,
    "outlier",
    "plain",
    "cursor",
    "dim",
    "value",
    "gap",
    "series",
    "fill",
    "picked",
    *CATEGORIES,
)
_CODE: dict[Role, int] = {role: code for code, role in enumerate(_ROLES)}
_PLAIN = _CODE["plain"]
_INK = np.array([role in (*RAMP, "outlier", "plain", "series", "fill", *CATEGORIES) for role in _ROLES])
"""Roles that a blank looks the same in."""
LOW_SHARE, LOW_LEAST = 0.5, 0.05
"""A cell is underlined where its minimum is below this share of its mean, and that far from it (of the full scale)."""


def code(role: Role) -> int:
    """Return the number by which arrays of roles hold this role."""
    return _CODE[role]


class MarkGrid(NamedTuple):
    """Characters and the numbers of their roles (``code``), two arrays of one shape."""

    chars: Chars
    codes: Codes

    def write(self, line: int, x: int, text: str, role: Role = "plain") -> None:
        """Write text of narrow characters into this grid, which has two dimensions, on a line from column ``x`` on.
        What lies outside is cut off."""
        text = text[max(-x, 0) : max(self.chars.shape[1] - x, 0)]
        if text and 0 <= line < len(self.chars):
            x = max(x, 0)
            self.chars[line, x : x + len(text)] = list(text)
            self.codes[line, x : x + len(text)] = code(role)

    def rows(self) -> list[Row]:
        """Return a row for each line of a two-dimensional array; a blank goes with the marks before it, so that it
        breaks no span."""
        n_lines, width = self.chars.shape
        if not width:
            return [()] * n_lines
        cell = np.arange(width)
        seen = np.where((self.chars == MISSING) & (self.codes == _PLAIN), -1, cell)
        source = np.maximum.accumulate(seen, axis=1)
        looks = np.where(source >= 0, np.take_along_axis(self.codes, np.maximum(source, 0), axis=1), _PLAIN)
        looks = np.where((source == cell) | _INK[looks], looks, _PLAIN)
        changes = np.diff(looks, axis=1, prepend=-1) != 0
        line, begin = np.nonzero(changes)
        end = np.where(np.diff(line, append=-1) != 0, width, np.roll(begin, -1))
        kinds = looks[line, begin]
        texts = ["".join(chars) for chars in self.chars.tolist()]
        rows: list[list[Span]] = [[] for _ in range(n_lines)]
        for y, a, b, kind in zip(line.tolist(), begin.tolist(), end.tolist(), kinds.tolist(), strict=True):
            rows[y].append(Span(texts[y][a:b], _ROLES[kind]))
        return [tuple(spans) for spans in rows]


def blank(*shape: int) -> MarkGrid:
    """Make a grid of this shape in which all is blank."""
    return MarkGrid(np.full(shape, MISSING), np.full(shape, _PLAIN, np.int8))


def marks(fractions: Floats, glyphs: Glyphs, low: Floats | None = None) -> MarkGrid:
    """Return a grid of one mark for each fraction of the full scale, in the shape of ``fractions``; NaN is blank, above
    the full scale is ``^``. ``low``, of the same shape: the least of what each mark stands for; marks are underlined
    where it is far below the fraction. None: none is."""
    levels = np.array([*glyphs.levels, MISSING, CLAMPED])
    steps = len(glyphs.levels)
    known = np.isfinite(fractions)
    value = np.where(known, fractions, 0.0)
    at = np.clip((value * steps).astype(np.int64), 0, steps - 1)
    at[~known] = steps
    codes = np.clip((value * len(RAMP)).astype(np.int8), 0, len(RAMP) - 1)
    if low is not None:
        codes[known & (low < np.minimum(LOW_SHARE * value, value - LOW_LEAST))] += len(RAMP)
    codes[~known] = _PLAIN
    above = value > 1 + TOLERANCE
    at[above], codes[above] = steps + 1, code("outlier")
    return MarkGrid(levels[at], codes)


def bars(fractions: Floats, height: int, glyphs: Glyphs, low: Floats | None = None) -> MarkGrid:
    """Draw each fraction of the full scale as a column ``height`` rows high: [..., height, n] for fractions [..., n],
    the top row first, filled from below up to the fraction, and faintly below its end. NaN is blank, and above the full
    scale the top row is ``^``.

    ``low`` [..., n]: the least of what each column stands for. Above it columns are filled less densely, and they are
    underlined at the bottom as ``marks`` are. None: it is not known.
    """
    flat = marks(fractions, glyphs, low)
    below = np.arange(height)[::-1, None]
    known = np.isfinite(fractions)
    filled = np.clip(np.where(known, fractions, 0.0), 0.0, 1.0)[..., None, :] * height - below
    tips = np.array([*glyphs.levels])
    tip = np.clip((filled * len(tips)).astype(np.int64), 0, len(tips) - 1)
    chars = np.where(filled > 0, tips[tip], MISSING)
    full = filled >= 1 - 1e-9
    chars[full] = glyphs.full
    if low is not None:
        solid = np.where(np.isfinite(low), low, 0.0)[..., None, :] * height - below >= 0.5
        chars[full & ~solid] = glyphs.shares[1]
    chars[..., -1, :][known & (filled[..., -1, :] <= 0)] = glyphs.levels[0]
    chars[..., 0, :][flat.chars == CLAMPED] = CLAMPED
    shades = np.where(flat.codes < len(RAMP + RAMP_LOW), flat.codes % len(RAMP), flat.codes)
    codes = np.repeat(shades[..., None, :], height, axis=-2)
    codes[..., -1, :] = flat.codes
    ends = np.argmax(chars != MISSING, axis=-2)[..., None, :]
    codes[(np.arange(height)[:, None] > ends) & (codes < len(RAMP))] = code("fill")
    return MarkGrid(chars, codes)
