"""A sheet of A4 paper that text is written on from top to bottom, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gssr.render.cells import clean
from gssr.report.png.figure import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

WIDE, TALL = 8.27, 11.69
"""A4 in inches, as all lengths here."""
MARGIN, BOTTOM = 0.65, 0.75
_POINTS = 72.0
_HINTED = 1.02
"""Letters of a PDF are a little wider than measured on a grid of pixels."""
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
    """One page; ``y`` is how far down it is written. Nothing here wraps to the next page: ask ``room`` first."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure: Figure = Figure(figsize=(WIDE, TALL), dpi=200, facecolor="white")
        self._renderer: RendererAgg = FigureCanvasAgg(self.figure).get_renderer()  # type: ignore[no-untyped-call]
        self._widths: dict[tuple[str, Font], float] = {}
        self.y = MARGIN

    @property
    def room(self) -> float:
        """What is left above the foot."""
        return TALL - BOTTOM - self.y

    def width(self, text: str, font: Font) -> float:
        """How wide a text is: the sum of its words, each measured once."""
        text = clean(text)
        blank = self._word(" ", font)
        words = text.split(" ")
        return sum(self._word(word, font) for word in words if word) + blank * (len(words) - 1)

    def _word(self, text: str, font: Font) -> float:
        if (text, font) in self._widths:
            return self._widths[text, font]
        from matplotlib.font_manager import FontProperties

        properties = FontProperties(family=font.family, size=font.size, weight="bold" if font.bold else "normal")
        pixels: float = self._renderer.get_text_width_height_descent(text, properties, ismath=False)[0]  # type: ignore[no-untyped-call]
        self._widths[text, font] = pixels / self.figure.dpi * _HINTED
        return self._widths[text, font]

    def lines(self, text: str, font: Font, width: float) -> list[str]:
        """The text in lines no wider than ``width``; a word that is wider is broken."""
        lines, line = [], ""
        for word in clean(text).split(" "):
            longer = f"{line} {word}" if line else word
            if self.width(longer, font) <= width:
                line = longer
                continue
            if line:
                lines.append(line)
            while self.width(word, font) > width and len(word) > 1:
                n = max(1, int(len(word) * width / self.width(word, font)) - 1)
                lines.append(word[:n])
                word = word[n:]
            line = word
        return [*lines, line]

    def put(self, text: str, font: Font, x: float, y: float, align: str = "left") -> None:
        """One line whose top is at ``y``."""
        style: dict[str, Any] = {"fontsize": font.size, "color": font.color, "family": font.family}
        self.figure.text(
            x / WIDE, 1 - (y + 0.95 * font.size / _POINTS) / TALL, clean(text), ha=align, va="baseline",
            fontweight="bold" if font.bold else "normal", parse_math=False, **style,
        )  # fmt: skip

    def write(self, text: str, font: Font, indent: float = 0.0, most: int | None = None) -> None:
        """A paragraph; of more than ``most`` lines the rest is left out."""
        lines = self.lines(text, font, WIDE - 2 * MARGIN - indent)
        if most is not None and len(lines) > most:
            lines = [*lines[: most - 1], lines[most - 1] + " …"]
        for line in lines:
            self.put(line, font, MARGIN + indent, self.y)
            self.y += font.line

    def tall(self, text: str, font: Font, indent: float = 0.0) -> float:
        """How tall that would be."""
        return len(self.lines(text, font, WIDE - 2 * MARGIN - indent)) * font.line

    def heading(self, text: str) -> None:
        """A title over what follows, and a rule under it."""
        self.put(text, HEADING, MARGIN, self.y)
        self.y += HEADING.line + 0.02
        self.rule()
        self.y += 0.08

    def rule(self, x: float = MARGIN, width: float = WIDE - 2 * MARGIN, color: str = "#dddddd") -> None:
        """A line across."""
        self.bar(x, width, 0.008, color)

    def bar(self, x: float, width: float, tall: float, color: str) -> None:
        """A filled box whose top is here."""
        from matplotlib.patches import Rectangle

        corner, size = (x / WIDE, 1 - (self.y + tall) / TALL), (width / WIDE, tall / TALL)
        self.figure.add_artist(Rectangle(corner, *size, transform=self.figure.transFigure, color=color, linewidth=0))

    def row(self, cells: Sequence[str], edges: Sequence[float], n_text: int, font: Font) -> None:
        """Cells in columns: ``edges`` are where texts begin (the first ``n_text``) and where numbers end."""
        for i, (cell, edge) in enumerate(zip(cells, edges, strict=True)):
            self.put(cell, font, edge, self.y, "left" if i < n_text else "right")
        self.y += font.line + 0.03
