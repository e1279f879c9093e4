"""Strips: one mark per time column on a fixed axis, on one line."""

from collections.abc import Iterable

from gssr.render.glyphs import CLAMPED, Glyphs, level
from gssr.render.roles import Role, Row, Span, text_of


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


def marked(row: Row, cell: int | None) -> Row:
    """``row``, whose characters take one cell each, with one cell under the cursor; None or a cell outside changes
    nothing."""
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
