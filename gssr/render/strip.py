"""Strips: one mark per time column on a fixed axis, on one line."""

from collections.abc import Iterable

from gssr.render.glyphs import CLAMPED, Glyphs, level
from gssr.render.roles import Role, Row, Span


def strip(fractions: Iterable[float | None], glyphs: Glyphs, role: Role = "series") -> Row:
    """One cell per value, a fraction of the full scale: zero is the lowest mark, None and NaN are blank, above the full
    scale is ``^`` with the role ``outlier``."""
    spans: list[Span] = []
    for mark in (level(fraction, glyphs.levels) for fraction in fractions):
        kind: Role = "outlier" if mark == CLAMPED else role
        if spans and spans[-1].role == kind:
            spans[-1] = Span(spans[-1].text + mark, kind)
        else:
            spans.append(Span(mark, kind))
    return tuple(spans)
