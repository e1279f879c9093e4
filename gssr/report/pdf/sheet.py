"""A4 paper that text is written on from top to bottom, page after page, with matplotlib."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

from gssr.render.cells import clean
from gssr.report.png.figure import FAINT, INK, figure_style
from gssr.version import __version__

if TYPE_CHECKING:
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

WIDE, TALL = 8.27, 11.69
"""A4 in inches, as all lengths here."""
MARGIN, BOTTOM = 0.65, 0.75
_POINTS = 72.0
_DPI = 200
_HINTED = 1.02
"""Letters of a PDF are a little wider than measured on a grid of pixels."""
_ABOVE = 0.12
"""What is left above a title."""
_LEADING = 1.32
"""Lines' distance in font sizes."""


@dataclass(frozen=True, slots=True)
class Font:
    """``size`` in points."""

    size: float
    color: str = INK
    bold: bool = False
    family: str = "DejaVu Sans"

    @property
    def line(self) -> float:
        """The distance from one line to the next."""
        return self.size * _LEADING / _POINTS


BODY, SMALL, DIM = Font(9.0), Font(8.0), Font(8.0, FAINT)
HEADING, LABEL = Font(12.0, bold=True), Font(9.0, bold=True)


class Sheet:
    """Pages; ``figure`` is the last one, and ``y`` how far down it is written. Text goes on on the next page; before what
    must stay together ``need`` its height."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figures: list[Figure] = []
        self._begin()
        canvas = FigureCanvasAgg(Figure(figsize=(1, 1), dpi=_DPI))
        self._renderer: RendererAgg = canvas.get_renderer()  # type: ignore[no-untyped-call]
        self._widths: dict[tuple[str, Font], float] = {}

    def _begin(self) -> None:
        """Begin a new page."""
        from matplotlib.figure import Figure

        self.figure: Figure = Figure(figsize=(WIDE, TALL), dpi=_DPI, facecolor="white")
        self.figures.append(self.figure)
        self.y = MARGIN

    def need(self, tall: float) -> bool:
        """Begin a page if less than ``tall`` inches are left, and return whether one was begun. On an empty page none
        is, however tall it is."""
        if tall <= self.room or self.y == MARGIN:
            return False
        self._begin()
        return True

    def of_room(self, least: float, best: float) -> float:
        """Return how tall something may be that is to be ``best`` and at least ``least`` inches: what is left, or on a
        new page if that is too little."""
        self.need(least)
        return min(best, self.room)

    @property
    def room(self) -> float:
        """What is left above the foot."""
        return TALL - BOTTOM - self.y

    def width(self, text: str, font: Font) -> float:
        """Return how wide a text is, in inches: the sum of its words, each measured once."""
        text = clean(text)
        blank = self._word(" ", font)
        words = text.split(" ")
        return sum(self._word(word, font) for word in words if word) + blank * (len(words) - 1)

    def _word(self, text: str, font: Font) -> float:
        """Measure a word, in inches, once for each font."""
        if (text, font) in self._widths:
            return self._widths[text, font]
        from matplotlib.font_manager import FontProperties

        properties = FontProperties(family=font.family, size=font.size, weight="bold" if font.bold else "normal")
        pixels: float = self._renderer.get_text_width_height_descent(text, properties, ismath=False)[0]  # type: ignore[no-untyped-call]
        self._widths[text, font] = pixels / _DPI * _HINTED
        return self._widths[text, font]

    def lines(self, text: str, font: Font, width: float) -> list[str]:
        """Break a text into lines no wider than ``width`` inches; a wider word is broken. One empty line for an empty
        text."""
        lines, line, taken = [], "", 0.0
        blank = self._word(" ", font)
        for word in clean(text).split(" "):
            wide = self._word(word, font) if word else 0.0
            if line and taken + blank + wide <= width:
                line, taken = f"{line} {word}", taken + blank + wide
                continue
            if line:
                lines.append(line)
            while wide > width and len(word) > 1:
                n = max(1, int(len(word) * width / wide) - 1)
                lines.append(word[:n])
                word = word[n:]
                wide = self._word(word, font)
            line, taken = word, wide
        return [*lines, line]

    def put(self, text: str, font: Font, x: float, y: float, align: str = "left") -> None:
        """Put one line with its top at ``y``, at ``x`` inches from the left (its right end with ``align`` "right"), on
        the last page."""
        style: dict[str, Any] = {"fontsize": font.size, "color": font.color, "family": font.family}
        self.figure.text(
            x / WIDE, 1 - (y + 0.95 * font.size / _POINTS) / TALL, clean(text), ha=align, va="baseline",
            fontweight="bold" if font.bold else "normal", parse_math=False, **style,
        )  # fmt: skip

    def write(self, text: str, font: Font, indent: float = 0.0, most: int | None = None) -> None:
        """Write a paragraph at ``y``, wrapped, on to further pages as needed.

        ``most``: the lines that it may have, the rest is left out; None: no limit. No page begins or ends with one
        line of several.
        """
        lines = self.lines(text, font, WIDE - 2 * MARGIN - indent)
        if most is not None and len(lines) > most:
            lines = [*lines[: most - 1], lines[most - 1] + " …"]
        for left, line in zip(range(len(lines), 0, -1), lines, strict=True):
            self.need(font.line * (2 if left == len(lines) > 1 or left == 2 else 1))
            self.put(line, font, MARGIN + indent, self.y)
            self.y += font.line

    def tall(self, text: str, font: Font, indent: float = 0.0) -> float:
        """How tall that would be."""
        return len(self.lines(text, font, WIDE - 2 * MARGIN - indent)) * font.line

    def heading(self, text: str, below: float) -> None:
        """Write a title with a rule under it, on a page that also has room for the first ``below`` inches of what
        follows."""
        if self.y > MARGIN:
            self.y += _ABOVE
        self.need(HEADING.line + 0.1 + below)
        self.put(text, HEADING, MARGIN, self.y)
        self.y += HEADING.line + 0.02
        self.rule()
        self.y += 0.08

    def rule(self, x: float = MARGIN, width: float = WIDE - 2 * MARGIN, color: str = "#dddddd") -> None:
        """A line across."""
        self.bar(x, width, 0.008, color)

    def bar(self, x: float, width: float, tall: float, color: str) -> None:
        """Draw a filled box at ``x`` from the left, ``tall`` high, whose top is at ``y`` of the sheet; lengths in
        inches."""
        from matplotlib.patches import Rectangle

        corner, size = (x / WIDE, 1 - (self.y + tall) / TALL), (width / WIDE, tall / TALL)
        self.figure.add_artist(Rectangle(corner, *size, transform=self.figure.transFigure, color=color, linewidth=0))

    def row(self, cells: Sequence[str], edges: Sequence[float], n_text: int, font: Font) -> None:
        """Write cells in columns, and move down by a line. ``edges`` are where texts begin (the first ``n_text``) and
        where numbers end, in inches."""
        for i, (cell, edge) in enumerate(zip(cells, edges, strict=True)):
            self.put(cell, font, edge, self.y, "left" if i < n_text else "right")
        self.y += font.line + 0.03


def write_pdf(name: str, sheets: Iterable[tuple[str, Sheet]], file: BinaryIO) -> None:
    """Write these sheets, (foot, sheet), one after the other, each with its own page numbers; ``name`` is the
    document's.

    The sheets are made while this runs, in the style of the PDF. The same sheets give the same bytes. Raises OSError.
    """
    import matplotlib
    from matplotlib.backends.backend_pdf import PdfPages

    # Letters as Type 3 take a fifth less time for a report than TrueType (42), which fontTools would cut to those in use;
    # before matplotlib 3.11 nobody could search for those beyond Latin-1.
    font_type = 3 if matplotlib.__version_info__ >= (3, 11) else 42
    about = {"Title": name, "Creator": f"GSSR {__version__}", "Producer": None, "CreationDate": None}
    made = BytesIO()  # matplotlib breaks where a write fails
    style = figure_style(font_size=8.0, axes_titlesize=9.0, pdf_fonttype=font_type)
    collects = gc.isenabled()
    gc.disable()  # the first sheet's figures are all in use: looking for garbage takes a twelfth of a report's time
    try:
        with style, PdfPages(made, metadata=about) as pdf:
            for foot, sheet in sheets:
                for number, figure in enumerate(sheet.figures, 1):
                    sheet.figure = figure
                    sheet.put(foot, DIM, MARGIN, TALL - 0.5)
                    of = f"GSSR {__version__}, page {number} of {len(sheet.figures)}"
                    sheet.put(of, DIM, WIDE - MARGIN, TALL - 0.5, "right")
                    pdf.savefig(figure)
                if collects:
                    gc.enable()
    finally:
        if collects:
            gc.enable()
    file.write(made.getbuffer())
