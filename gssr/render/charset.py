"""Rows in the characters that the terminal can draw."""

from gssr.render.cells import cell_width, cleaned
from gssr.render.glyphs import TO_ASCII, Glyphs
from gssr.render.roles import Row, Span


def drawable(row: Row, glyphs: Glyphs) -> Row:
    """The row, clean; for a set of ASCII glyphs with a stand-in of as many cells for every other character."""
    row = cleaned(row)
    if not glyphs.levels.isascii():
        return row
    return tuple(Span(in_ascii(span.text), span.role) for span in row)


def in_ascii(text: str) -> str:
    """Text in ASCII, with a stand-in of as many cells for every other character; ``?`` for each cell without one."""
    if text.isascii():
        return text
    text = text.replace("°C", "C ").translate(TO_ASCII)
    return "".join(char if char.isascii() else "?" * cell_width(char) for char in text)
