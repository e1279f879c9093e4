"""Taking away what is on screen: as text, as a picture, as numbers.

The screen as a picture: PNG and SVG, each cell exactly where a terminal has it.

Blocks and braille are painted as rectangles and dots, not taken from a font: fonts leave seams between them, or lack them.
"""

import csv
import io
import os
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from gssr.model.live.frame import Frame
from gssr.render.cells import cell_width, clean
from gssr.render.roles import ROLES, Role, Row, text_of
from gssr.store.output_file import Access, output_file

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont


_ANSI = (
    "#1e2127", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
    "#5c6370", "#ff7a85", "#b5e890", "#ffd68a", "#7cc4ff", "#dd8ff0", "#6fd3df", "#ffffff",
)  # fmt: skip
"""The 16 colours of a dark terminal."""
BACKGROUND, FOREGROUND = "#16181d", "#d7dae0"
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STEPS = (0, 95, 135, 175, 215, 255)
_DIM = 0.55
_BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

Box = tuple[float, float, float, float]


class Ink(NamedTuple):
    """How a role is painted."""

    front: str
    back: str | None
    bold: bool
    underline: bool


def ink(role: Role) -> Ink:
    """The colours of a role on a dark terminal of 256 colours."""
    front, back, bold, dim, underline = FOREGROUND, None, False, False, False
    words = ROLES[role].rich.split()
    reverse = "reverse" in words
    for position, word in enumerate(words):
        if word == "on":
            back = _color(words[position + 1])
        elif position and words[position - 1] == "on":
            continue
        elif word == "bold":
            bold = True
        elif word == "dim":
            dim = True
        elif word == "underline":
            underline = True
        elif word != "reverse":
            front = _color(word)
    if dim:
        front = _mixed(front, back or BACKGROUND)
    if reverse:
        front, back = back or BACKGROUND, front
    return Ink(front, back, bold, underline)


def _color(word: str) -> str:
    if word in _NAMES:
        return _ANSI[_NAMES.index(word)]
    number = int(word.removeprefix("color(").removesuffix(")")) if word.startswith("color(") else 7
    if number < 16:
        return _ANSI[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    number -= 16
    return "#" + "".join(f"{_STEPS[part]:02x}" for part in (number // 36, number // 6 % 6, number % 6))


def _mixed(front: str, back: str) -> str:
    pairs = ((int(front[i : i + 2], 16), int(back[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(_DIM * a + (1 - _DIM) * b):02x}" for a, b in pairs)


def boxes(char: str) -> list[Box] | None:
    """A block or braille character as boxes within the unit cell (left, top, right, bottom); None for all others."""
    code = ord(char)
    if 0x2581 <= code <= 0x2588:
        return [(0, 1 - (code - 0x2580) / 8, 1, 1)]
    if 0x2589 <= code <= 0x258F:
        return [(0, 0, (0x2590 - code) / 8, 1)]
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
    return None


def to_svg(rows: Sequence[Row], width: int) -> str:
    """The rows as one SVG document of ``width`` × len(rows) cells, each 10 × 20."""
    w, h = 10, 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * w} {len(rows) * h}" '
        f'font-family="\'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="16">',
        f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>',
    ]
    for y, row in enumerate(rows):
        x = 0
        for span in row:
            size, colors = cell_width(span.text), ink(span.role)
            if colors.back:
                out.append(f'<rect x="{x * w}" y="{y * h}" width="{size * w}" height="{h}" fill="{colors.back}"/>')
            out += _svg_span(span.text, x, y, w, h, colors)
            x += size
    return "\n".join([*out, "</svg>"]) + "\n"


def _svg_span(text: str, x: int, y: int, w: int, h: int, colors: Ink) -> list[str]:
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


def to_png(rows: Sequence[Row], width: int, file: BinaryIO, scale: int = 2) -> None:
    """Paint the rows as a PNG file, cells of 8 × 17 pixels times ``scale``. Raises OSError."""
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
        for span in row:
            size, colors = cell_width(span.text), ink(span.role)
            if colors.back:
                draw.rectangle((x * w, y * h, (x + size) * w - 1, (y + 1) * h - 1), colors.back)
            for char in span.text:
                _paint(draw, char, (x * w, y * h, w, h), colors, bold if colors.bold else plain)
                x += cell_width(char)
            if colors.underline and size:
                draw.rectangle(((x - size) * w, (y + 1) * h - scale, x * w - 1, (y + 1) * h - 1), colors.front)
    # a third of the bytes, and no difference to be seen: other methods mix the hues that are rare
    few = image.quantize(colors=128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True)


def _paint(draw: "ImageDraw", char: str, cell: tuple[int, int, int, int], colors: Ink, font: "FreeTypeFont") -> None:
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


ENDINGS = (".txt", ".png", ".svg", ".csv")


def to_text(rows: Sequence[Row]) -> str:
    """The rows as plain text, a newline after each."""
    return "".join(text_of(row).rstrip() + "\n" for row in rows)


def export(rows: Sequence[Row], width: int, frame: Frame, path: str, access: Access) -> None:
    """Write what is on screen to a new file, as what its name ends in: ``.txt``, ``.png``, ``.svg``, or ``.csv`` for the
    numbers behind it (see ``to_csv``). Raises ValueError, with a sentence, for another ending; OSError."""
    ending = next((ending for ending in ENDINGS if path.endswith(ending)), None)
    if ending is None:
        raise ValueError(f"{path}: the name must end in {', '.join(ENDINGS)}")
    with output_file(path, access, new=True) as file:  # what is there is never overwritten
        if ending == ".png":
            to_png(rows, width, file)
        else:
            text = to_svg(rows, width) if ending == ".svg" else to_text(rows) if ending == ".txt" else to_csv(frame)
            file.write(text.encode())


def to_csv(frame: Frame) -> str:
    """The window's columns of time, one line each: unix time and seconds since the run's start of the column's left edge,
    then each GPU's mean of the metric there, in the metric's stored unit; empty where there is no sample."""
    grid, lines = frame.grid, io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["time", "seconds", *(f"{grid.metric} {clean(frame.place(gpu))}" for gpu in range(frame.n_gpus))])
    for column in range(grid.n):
        at = grid.start + column * grid.width
        values = grid.values[:, column].tolist()
        writer.writerow([f"{at:.3f}", f"{at - frame.first:.3f}", *("" if v != v else repr(v) for v in values)])
    return lines.getvalue()
