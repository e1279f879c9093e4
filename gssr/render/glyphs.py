"""The characters that drawings are made of, each one cell wide: a set for UTF-8 and one for pure ASCII.

Height or density grows with the value. Zero is the lowest mark, missing is blank, a value above the full scale is ``^``.

Rows in the characters that the terminal can draw.
"""

from __future__ import annotations

from typing import NamedTuple

from gssr.render.cells import cell_width, cleaned
from gssr.render.roles import Row, Span

MISSING = " "
CLAMPED = "^"
TOLERANCE = 0.005
"""How far above the full scale a value may be and still be drawn as full: counters round."""


class Glyphs(NamedTuple):
    """One set. ``levels`` is the ramp of a strip, lowest first. ``full`` fills an area; ``bar`` a bar, ``half`` is half a
    cell of it (may be empty), ``track`` its unfilled rest. ``band`` fills between the lowest and the highest of a
    chart whose ``line`` is a plotext marker. ``rule`` and ``heavy`` draw lines across the page, ``cursor`` one down it.
    ``shares`` fills areas from most to least, the second also what lies between a minimum and a mean."""

    levels: str
    full: str
    bar: str
    half: str
    track: str
    band: str
    line: str
    rule: str
    heavy: str
    bullet: str
    ellipsis: str
    cursor: str
    shares: str


UTF8 = Glyphs("▁▂▃▄▅▆▇█", "█", "━", "╸", "─", "░", "hd", "─", "═", "•", "…", "│", "█▒░")
ASCII = Glyphs(".:-=+*#%@", "#", "=", "", "-", ".", "*", "-", "=", "*", "..", "|", "#+.")

TO_ASCII = str.maketrans(
    {"─": "-", "│": "|", "└": "+", "┤": "+", "┬": "+", "┼": "+", "°": " ", "µ": "u", "…": "~", "–": "-", "×": "x"}
    | {"↑": "^", "↓": "v", "←": "<", "→": ">"}
)
"""Stand-ins of one cell each for the few other characters that pages hold."""


def glyph_set(ascii_only: bool) -> Glyphs:
    """The set to draw with."""
    return ASCII if ascii_only else UTF8


def step(fraction: float, steps: int) -> int:
    """Return which of ``steps`` equal parts of the full scale a fraction lies in: 0 for zero and below, ``steps`` - 1
    for full."""
    return min(max(int(fraction * steps), 0), steps - 1)


def level(fraction: float | None, levels: str) -> str:
    """Return the mark for one value, a fraction of the full scale: MISSING for None and NaN, CLAMPED above the full
    scale."""
    if fraction is None or fraction != fraction:
        return MISSING
    if fraction > 1 + TOLERANCE:
        return CLAMPED
    return levels[step(fraction, len(levels))]


def drawable(row: Row, glyphs: Glyphs) -> Row:
    """Return the row, clean; with ASCII glyphs every other character has a stand-in of as many cells."""
    row = cleaned(row)
    if not glyphs.levels.isascii():
        return row
    return tuple(Span(in_ascii(span.text), span.role) for span in row)


def in_ascii(text: str) -> str:
    """Return text in ASCII, with a stand-in of as many cells for every other character; ``?`` for each cell without
    one."""
    if text.isascii():
        return text
    text = text.replace("°C", "C ").replace("± ", "+-").translate(TO_ASCII)
    return "".join(char if char.isascii() else "?" * cell_width(char) for char in text)
