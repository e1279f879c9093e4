"""A series of any number of bins drawn into a number of columns.

Filled columns over time on a fixed axis, several rows high.

Horizontal bars, whole ones and split ones.

Strips: one mark per time column on a fixed axis, on one line.

The difference of two strips, column by column.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from gssr.arrays import Floats
from gssr.render.glyphs import CLAMPED, MISSING, TOLERANCE, Glyphs, level
from gssr.render.roles import Role, Row, Span, text_of


def area(fractions: Sequence[float], height: int, glyphs: Glyphs) -> list[Row]:
    """Draw ``height`` rows of one cell for each column, filled from below up to its fraction of the full scale,
    faintly below its end. Zero is the lowest mark, NaN is blank, above the full scale ends in ``^``."""
    columns = [_column(fraction, height, glyphs) for fraction in fractions]
    rows: list[Row] = []
    for y in range(height):
        cells: list[tuple[str, Role]] = []
        for column in columns:
            mark = column[y]
            below = y > 0 and column[y - 1] != MISSING
            look: Role = "outlier" if mark == CLAMPED else "fill" if below else "series"
            cells.append((mark, look))
        grouped = groupby(cells, key=lambda cell: cell[1])
        rows.append(tuple(Span("".join(mark for mark, _ in own), name) for name, own in grouped))
    return rows


def _column(fraction: float, height: int, glyphs: Glyphs) -> str:
    """Return the marks of one column of ``height`` cells from the top down, as ``area`` draws it."""
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


def split_row(shares: Sequence[float] | Floats, looks: Iterable[tuple[str, Role]], width: int) -> Row:
    """Draw a bar of at most ``width`` cells whose parts have these shares of it (0-1; NaN: none), each with its mark
    and role of ``looks``, which are as many as shares. Ends of parts are rounded to cells, so a small part may have
    none. What the shares lack to 1 is not drawn."""
    cells = np.diff(np.rint(np.cumsum(np.nan_to_num(shares)) * width).astype(int), prepend=0).tolist()
    return tuple(Span(mark * n, role) for (mark, role), n in zip(looks, cells, strict=True) if n > 0)


def bar(fraction: float | None, width: int, glyphs: Glyphs, role: Role = "series") -> Row:
    """Draw a bar of exactly ``width`` cells on a fixed axis: ``fraction`` of it filled, the rest the track. Zero is
    all track, a missing value (None, NaN) all blank, and above the full scale ends in ``^``. Empty without room."""
    if width < 1:
        return ()
    if fraction is None or fraction != fraction:
        return (Span(" " * width),)
    if fraction > 1 + TOLERANCE:
        return _spans((glyphs.bar * (width - 1), role), (CLAMPED, "outlier"))
    filled = length(fraction, width, glyphs)
    return _spans((filled, role), (glyphs.track * (width - len(filled)), "track"))


def length(fraction: float, width: int, glyphs: Glyphs) -> str:
    """Draw the filled cells of a bar alone, without its track: at most ``width``, with a half cell at the end if the
    set of glyphs has one. A ``fraction`` above 0 always shows, and one above 1 is full."""
    steps = 1 + bool(glyphs.half)
    filled = min(max(round(fraction * width * steps), 1 if fraction > 0 else 0), width * steps)
    full, part = divmod(filled, steps)
    return glyphs.bar * full + glyphs.half * part


def _spans(*pieces: tuple[str, Role]) -> Row:
    return tuple(Span(text, role) for text, role in pieces if text)


def strip(fractions: Iterable[float | None], glyphs: Glyphs) -> Row:
    """Draw one cell for each value, a fraction of the full scale: zero is the lowest mark, None and NaN are blank,
    above the full scale is ``^`` with the role ``outlier``."""
    spans: list[Span] = []
    for mark in (level(fraction, glyphs.levels) for fraction in fractions):
        kind: Role = "outlier" if mark == CLAMPED else "series"
        if spans and spans[-1].role == kind:
            spans[-1] = Span(spans[-1].text + mark, kind)
        else:
            spans.append(Span(mark, kind))
    return tuple(spans)


def marked(row: Row, cell: int | None) -> Row:
    """Return ``row``, whose characters take one cell each, with the cell of this index in the role "cursor". None or a
    cell outside the row changes nothing."""
    if cell is None or not 0 <= cell < len(text_of(row)):
        return row
    spans: list[Span] = []
    at = 0
    for span in row:
        inside = cell - at
        if 0 <= inside < len(span.text):
            pieces = (
                Span(span.text[:inside], span.role),
                Span(span.text[inside], "cursor"),
                Span(span.text[inside + 1 :], span.role),
            )
            spans += [piece for piece in pieces if piece.text]
        else:
            spans.append(span)
        at += len(span.text)
    return tuple(spans)


SAME = 0.02
"""Differences up to this share of the full scale don't count."""
_ROLES: dict[str, Role] = {"=": "dim", "-": "outlier", "+": "value", MISSING: "plain"}


def difference_strip(fractions: Iterable[float]) -> Row:
    """Draw one cell for each difference, a fraction of the full scale: ``=`` within SAME of 0, ``-`` below, ``+``
    above; NaN is blank."""
    marks = (
        MISSING if fraction != fraction else "=" if abs(fraction) <= SAME else "-" if fraction < 0 else "+"
        for fraction in fractions
    )  # fmt: skip
    return tuple(Span("".join(own), _ROLES[mark]) for mark, own in groupby(marks))


_SLIVER = 1e-6
"""A bin that covers less than this share of a column is rounding, not data."""


def average_into_columns(values: Floats, start: float, width: float, begin: float, end: float, n: int) -> Floats:
    """Average ``values`` [..., bins], bins of ``width`` seconds from ``start``, into ``n`` equal columns from
    ``begin`` to ``end``: [..., n].

    Each column is the mean of the bins it overlaps, weighted by the overlap; NaN if no bin with a value overlaps it,
    and only then.
    """
    bins = values.shape[-1]
    if n < 1 or bins == 0 or not end > begin:
        return np.full((*values.shape[:-1], max(n, 0)), np.nan)
    size = (end - begin) / n
    left = begin + size * np.arange(n)
    edge = start + width * np.arange(bins)
    overlap = np.minimum(left[:, None] + size, edge + width) - np.maximum(left[:, None], edge)
    overlap[overlap < _SLIVER * min(size, width)] = 0.0
    known = np.isfinite(values)
    weight = known @ overlap.T
    mean: Floats = np.where(known, values, 0.0) @ overlap.T
    np.divide(mean, weight, out=mean, where=weight > 0)
    mean[weight <= 0] = np.nan
    return mean


def unbroken(values: Floats) -> list[tuple[int, int]]:
    """Return [first, last) of each unbroken run of finite ``values`` [n]."""
    known = np.concatenate([[False], np.isfinite(values), [False]])
    edges = np.flatnonzero(known[1:] != known[:-1])
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


_SAME_STEP = 0.8
"""A load this many steps away from the cell before it still has its colour or height; half a step would be exact."""


def steady_steps(levels: Sequence[float]) -> list[int]:
    """Round loads, counted in steps of colour or height, to whole steps: one that wavers about the border of two steps keeps
    that of the cell before it, because each change is sent to the terminal. Missing ones (NaN) become 0.

    Not for cells that roll: with the first of them, on which all others rest, the colours of a whole row would change.
    """
    found, last = [], math.nan
    for load in levels:
        if not abs(load - last) <= _SAME_STEP:
            last = round(load) if load == load else math.nan
        found.append(0 if last != last else int(last))
    return found
