"""Taking away what is on screen: as text, as a picture, as numbers.

What is seen is read from Textual's own SVG, which is its only public account of the screen.
"""

import csv
import io
import re
from html import unescape
from itertools import groupby

from gssr.model.live.live_result import Result
from gssr.render.cells import cell_width, clean
from gssr.report.png.cells import FOREGROUND, Ink, Picture, to_png, to_svg
from gssr.store.output_file import Access, output_file

_CELL_WIDTH, _LINE_HEIGHT = 12.2, 24.4
"""The size of a cell in Textual's SVG."""
_STYLE = re.compile(r"\.([\w-]+-r\d+) \{([^}]*)\}")
_FILL = re.compile(r"fill: ?(#[0-9a-fA-F]{6})")
_RECT = re.compile(r'<rect fill="(#[0-9a-fA-F]{6})" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"')
_LINE = re.compile(r'-line-0">\s*<rect x="0" y="[\d.]+" width="([\d.]+)"')
_TEXT = re.compile(
    r'<text class="([\w-]+)" x="([\d.]+)" y="[\d.]+" textLength="[\d.]+" '
    r'clip-path="url\(#[\w-]+?-line-(\d+)\)">([^<]*)</text>'
)


def picture_of(svg: str) -> Picture:
    """Read what Textual's SVG of the screen shows, as rows of pieces; a picture without rows if nothing is found in
    it."""
    looks: dict[str, Ink] = {}
    for name, style in _STYLE.findall(svg):
        fill = _FILL.search(style)
        looks[name] = Ink(fill[1] if fill else FOREGROUND, None, "bold" in style, "underline" in style)
    texts, backs = [], []
    for name, x, line, text in _TEXT.findall(svg):
        texts.append((int(line), round(float(x) / _CELL_WIDTH), unescape(text).replace("\xa0", " "), looks[name]))
    for fill, x, y, width in _RECT.findall(svg):
        first = round(float(x) / _CELL_WIDTH)
        backs.append((int(float(y) // _LINE_HEIGHT), first, first + round(float(width) / _CELL_WIDTH), fill))
    height = max((line for line, *_ in (*texts, *backs)), default=-1) + 1
    line_width = _LINE.search(svg)
    width = round(float(line_width[1]) / _CELL_WIDTH) if line_width else 0
    nothing = Ink(FOREGROUND, None, False, False)
    cells = [[(" ", nothing)] * width for _ in range(height)]
    for line, first, end, fill in backs:
        for x in range(first, min(end, width)):
            cells[line][x] = (" ", nothing._replace(back=fill))
    for line, x, text, look in texts:
        for char in text:
            size = cell_width(char)
            if x < width:
                cells[line][x] = (char, look._replace(back=cells[line][x][1].back))
                if size == 2 and x + 1 < width:
                    cells[line][x + 1] = ("", look)
            x += size
    rows = [
        [("".join(char for char, _ in own), look) for look, own in groupby(row, lambda cell: cell[1])] for row in cells
    ]
    return Picture(rows, width)


ENDINGS = (".svg", ".png", ".txt", ".csv")


def export(seen: Picture, frame: Result, path: str, access: Access) -> None:
    """Write what is on screen to a new file, as its name's ending says: ``.txt``, ``.png``, ``.svg``, or ``.csv`` for
    the numbers behind it (see ``to_csv``).

    Raises ValueError, with a sentence, for another ending; OSError if it can't be written or is there already.
    """
    ending = next((ending for ending in ENDINGS if path.endswith(ending)), None)
    if ending is None:
        raise ValueError(f"{path}: the name must end in {', '.join(ENDINGS)}")
    with output_file(path, access, new=True) as file:  # what is there is never overwritten
        if ending == ".png":
            to_png(seen.rows, seen.width, file)
        else:
            text = (
                to_svg(seen.rows, seen.width)
                if ending == ".svg"
                else seen.text()
                if ending == ".txt"
                else to_csv(frame)
            )
            file.write(text.encode())


def to_csv(frame: Result) -> str:
    """Write the window as CSV, a line for each column of time: unix time and seconds since the run's start of its left
    edge, then each GPU's mean of the metric there in its stored unit. A cell is empty if there is no sample."""
    grid, lines = frame.grid, io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["time", "seconds", *(f"{grid.metric} {clean(frame.place(gpu))}" for gpu in range(frame.n_gpus))])
    for column in range(grid.n):
        at = grid.start + column * grid.width
        values = grid.values[:, column].tolist()
        writer.writerow([f"{at:.3f}", f"{at - frame.first:.3f}", *("" if v != v else repr(v) for v in values)])
    return lines.getvalue()
