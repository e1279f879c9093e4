"""Rows of coloured text as a picture, PNG or SVG: each cell exactly where a terminal has it.

Blocks, braille and frames are painted as rectangles and dots, not taken from a font: fonts leave seams between them, or lack
them.
"""

import os
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from gssr.render.cells import cell_width

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

BACKGROUND, FOREGROUND = "#0e1217", "#d6dce6"
_BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_QUADRANTS = {"▖": (2,), "▗": (3,), "▘": (0,), "▙": (0, 2, 3), "▚": (0, 3), "▛": (0, 1, 2), "▜": (0, 1, 3), "▝": (1,),
              "▞": (1, 2), "▟": (1, 2, 3)}  # fmt: skip
"""Which quarters of its cell a character fills: the upper two, then the lower two."""
_QUARTERS = ((0, 0, 0.5, 0.5), (0.5, 0, 1, 0.5), (0, 0.5, 0.5, 1), (0.5, 0.5, 1, 1))

_ARMS = {
    "lr": "─━", "ud": "│┃", "rd": "┌╭┏", "ld": "┐╮┓", "ur": "└╰┗", "ul": "┘╯┛", "urd": "├┣", "uld": "┤┫", "lrd": "┬┳",
    "ulr": "┴┻", "ulrd": "┼╋", "l": "╴╸", "u": "╵╹", "r": "╶╺", "d": "╷╻",
}  # fmt: skip
"""Which ways (left, right, up, down) the lines of these characters go from the middle of their cell."""
_FRAMES = {char: arms for arms, chars in _ARMS.items() for char in chars}
_HEAVY = "━┃┏┓┗┛┣┫┳┻╋╸╹╺╻"

Box = tuple[float, float, float, float]


class Ink(NamedTuple):
    """How a piece of text is painted."""

    front: str
    back: str | None
    bold: bool
    underline: bool


Piece = tuple[str, Ink]
"""Text of one look."""


class Picture(NamedTuple):
    """The screen as it is seen: rows of pieces, each row ``width`` cells."""

    rows: list[list[Piece]]
    width: int

    def text(self) -> str:
        """As plain text, a newline after each row."""
        return "".join("".join(text for text, _ in row).rstrip() + "\n" for row in self.rows)


def boxes(char: str) -> list[Box] | None:
    """Return a block, a braille character or a piece of a frame as boxes in the unit cell (left, top, right, bottom; 0 at
    the top), or None for any other character."""
    code = ord(char)
    if 0x2581 <= code <= 0x2588:
        return [(0, 1 - (code - 0x2580) / 8, 1, 1)]
    if 0x2589 <= code <= 0x258F:
        return [(0, 0, (0x2590 - code) / 8, 1)]
    if char in _QUADRANTS:
        return [_QUARTERS[quarter] for quarter in _QUADRANTS[char]]
    if char == "▀":
        return [(0, 0, 1, 0.5)]
    if char == "▐":
        return [(0.5, 0, 1, 1)]
    if 0x2800 <= code <= 0x28FF:
        bits = code - 0x2800
        return [
            (0.14 + 0.5 * x, 0.06 + 0.25 * y, 0.36 + 0.5 * x, 0.18 + 0.25 * y)
            for y, pair in enumerate(_BRAILLE_BITS)
            for x, bit in enumerate(pair)
            if bits & bit
        ]
    if char in _FRAMES:
        left, right = (0.375, 0.625) if char in _HEAVY else (0.5, 0.625)  # whole pixels of a cell of 8 by 17
        top, bottom = (8 / 17, 10 / 17) if char in _HEAVY else (8 / 17, 9 / 17)
        ways = {"l": (0, top, right, bottom), "r": (left, top, 1, bottom), "u": (left, 0, right, bottom),
                "d": (left, top, right, 1)}  # fmt: skip
        return [ways[way] for way in _FRAMES[char]]
    return None


def to_svg(rows: Sequence[Sequence[Piece]], width: int) -> str:
    """Draw the rows as one SVG document of ``width`` × len(rows) cells, each 10 × 20."""
    w, h = 10, 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * w} {len(rows) * h}" '
        f'font-family="\'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="16">',
        f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>',
    ]
    for y, row in enumerate(rows):
        x = 0
        for text, colors in row:
            size = cell_width(text)
            if colors.back:
                out.append(f'<rect x="{x * w}" y="{y * h}" width="{size * w}" height="{h}" fill="{colors.back}"/>')
            out += _svg_span(text, x, y, w, h, colors)
            x += size
    return "\n".join([*out, "</svg>"]) + "\n"


def _svg_span(text: str, x: int, y: int, w: int, h: int, colors: Ink) -> list[str]:
    """Draw a piece that begins in cell (``x``, ``y``), with cells of ``w`` × ``h``: blocks as one path, letters as one
    text. Returns the elements."""
    out: list[str] = []
    path = ""
    letters: list[tuple[int, str]] = []
    for char in text:
        found = boxes(char)
        if found is None and char != " ":
            letters.append((x, char))
        for left, top, right, bottom in found or ():
            a, b = (x + left) * w, (y + top) * h
            path += f"M{a:g} {b:g}h{(right - left) * w:g}v{(bottom - top) * h:g}h{-(right - left) * w:g}z"
        x += cell_width(char)
    if path:
        out.append(f'<path d="{path}" fill="{colors.front}"/>')
    if letters:
        at = " ".join(f"{position * w}" for position, _ in letters)
        bold = ' font-weight="bold"' if colors.bold else ""
        line = ' text-decoration="underline"' if colors.underline else ""
        chars = escape("".join(char for _, char in letters))
        out.append(f'<text x="{at}" y="{y * h + 15}" fill="{colors.front}"{bold}{line}>{chars}</text>')
    return out


def to_png(rows: Sequence[Sequence[Piece]], width: int, file: BinaryIO, scale: int = 2) -> None:
    """Write the rows as a PNG to ``file``, with cells of 8 × 17 pixels times ``scale``. Raises OSError."""
    from matplotlib import get_data_path
    from PIL import Image, ImageDraw, ImageFont

    w, h = 8 * scale, 17 * scale
    image = Image.new("RGB", (width * w, len(rows) * h), BACKGROUND)
    draw = ImageDraw.Draw(image)
    fonts = os.path.join(get_data_path(), "fonts", "ttf")
    plain = ImageFont.truetype(os.path.join(fonts, "DejaVuSansMono.ttf"), round(13.2 * scale))
    bold = ImageFont.truetype(os.path.join(fonts, "DejaVuSansMono-Bold.ttf"), round(13.2 * scale))
    for y, row in enumerate(rows):
        x = 0
        for text, colors in row:
            size = cell_width(text)
            if colors.back:
                draw.rectangle((x * w, y * h, (x + size) * w - 1, (y + 1) * h - 1), colors.back)
            for char in text:
                _paint(draw, char, (x * w, y * h, w, h), colors, bold if colors.bold else plain)
                x += cell_width(char)
            if colors.underline and size:
                draw.rectangle(((x - size) * w, (y + 1) * h - scale, x * w - 1, (y + 1) * h - 1), colors.front)
    # a third of the bytes, and no difference to be seen: other methods mix the hues that are rare
    few = image.quantize(colors=128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True)


def _paint(draw: "ImageDraw", char: str, cell: tuple[int, int, int, int], colors: Ink, font: "FreeTypeFont") -> None:
    """Paint a character into ``cell`` (left, top, width, height in pixels): blocks as rectangles, all others by the
    font."""
    x, y, w, h = cell
    found = boxes(char)
    if found is None:
        if char != " ":
            draw.text((x, y + h * 0.06), char, colors.front, font)
        return
    for left, top, right, bottom in found:
        draw.rectangle(
            (x + round(left * w), y + round(top * h), x + round(right * w) - 1, y + round(bottom * h) - 1), colors.front
        )
