"""Strips: one mark per time column on a fixed axis, on one line."""

from collections.abc import Iterable, Sequence

from gssr.render.glyphs import CLAMPED, Glyphs, braille, level
from gssr.render.roles import Role, Row, Span


def strip(fractions: Iterable[float | None], glyphs: Glyphs, role: Role = "series") -> Row:
    """One cell per value, a fraction of the full scale: zero is the lowest mark, None and NaN are blank, above the full
    scale is ``^`` with the role ``outlier``."""
    return _marked([level(fraction, glyphs.levels) for fraction in fractions], role)


def fine_strip(fractions: Sequence[float | None], role: Role = "series") -> Row:
    """As ``strip``, in braille: two values a cell, four heights each. An odd last value takes the left half."""
    pairs = [(fractions[i], fractions[i + 1] if i + 1 < len(fractions) else None) for i in range(0, len(fractions), 2)]
    return _marked([braille(left, right) for left, right in pairs], role)


def _marked(marks: Sequence[str], role: Role) -> Row:
    spans: list[Span] = []
    for mark in marks:
        kind: Role = "outlier" if mark == CLAMPED else role
        if spans and spans[-1].role == kind:
            spans[-1] = Span(spans[-1].text + mark, kind)
        else:
            spans.append(Span(mark, kind))
    return tuple(spans)
