"""A line across the page that says what follows."""

from gssr.render.cells import cell_width, clip, fit
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span, text_of


def rule(
    title: str, width: int, glyphs: Glyphs, about: Row = (), right: Row = (), role: Role = "heading"
) -> Row:  # fmt: skip
    """``── title  about ─────── right ─`` in exactly ``width`` cells. What does not fit is left out: ``about`` first, then
    ``right``; at last the title is cut."""
    line: Row = (Span(glyphs.rule + " ", "dim"), Span(fit(title, max(width - 2, 0), glyphs.ellipsis), role))
    end: Row = (Span(" "), *right, Span(" " + glyphs.rule, "dim")) if right else ()
    if cell_width(text_of(line)) + cell_width(text_of(end)) + 2 > width:
        end = ()
    for piece in about:
        if cell_width(text_of(line)) + 2 + cell_width(piece.text) + cell_width(text_of(end)) + 2 <= width:
            line = (*line, Span("  "), piece)
    room = width - cell_width(text_of(line)) - cell_width(text_of(end)) - 1
    if room > 0:
        line = (*line, Span(" "), Span(glyphs.rule * room, "dim"))
    elif room == 0:
        line = (*line, Span(" "))
    return clip((*line, *end), width)
