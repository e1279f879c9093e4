"""HTML put together so that text can't become markup: whatever isn't Markup is cleaned (gssr.render.cells) and escaped.

Tables of the report.

Paths of SVG drawings, and the axes that all drawings along time share.
"""

import html
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gssr.arrays import Floats
from gssr.model.results import Analysis
from gssr.render.cells import clean, harmless
from gssr.render.clock import Tick, time_ticks
from gssr.render.columns import unbroken
from gssr.report.content import ContentTable
from gssr.report.page import time_axis

_UNIT = re.compile(r"(?<=\d) (?=(?:\S{1,4}|\S?FLOP/\S)(?:[ ,;:.)]|$))")
_VOID = frozenset(("meta", "br", "img", "link"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """Build an element. Children are text, cleaned and escaped, unless they are Markup.

    In the names of attributes ``_`` stands for ``-`` and is dropped at the end (``class_``); None and False leave an
    attribute out, True gives one without a value.
    """
    words = [name]
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(written)
        elif value is not None and value is not False:
            text = coordinate(value) if isinstance(value, int | float) else value
            words.append(f'{written}="{html.escape(harmless(text))}"')
    opening = f"<{' '.join(words)}>"
    return Markup(opening if name in _VOID else f"{opening}{fragment(*children)}</{name}>")


def fragment(*children: str) -> Markup:
    """Join children; what is not Markup is cleaned and escaped."""
    return Markup(
        "".join(child if isinstance(child, Markup) else html.escape(clean(child), quote=False) for child in children)
    )


def coordinate(value: float, decimals: int = 2) -> str:
    """Write a number for a drawing with at most ``decimals`` decimals, without zeros at its end."""
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def share(value: float) -> str:
    """A share of a width or a height as its percentage."""
    return f"{coordinate(100 * value)}%"


def sentence(text: str) -> Markup:
    """Text whose numbers stay on one line with their units."""
    return Markup(_UNIT.sub("\u00a0", fragment(text)))


def data(value: Any) -> Markup:
    """Build a block of JSON for the page's script. What could end it or be read as markup is escaped. Raises
    ValueError for NaN, which must be None already."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" class="data">{text}</script>')


def drawn_table(table: ContentTable, about: str) -> Markup:
    """Draw a table, with room to scroll if it is wider than the page; ``about``: what it holds, for who hears it."""

    def class_of(column: int) -> str | None:
        return "n" if column >= table.n_text else None

    head = [
        tag("th", text, scope="col", class_=class_of(i)) if text else tag("td") for i, text in enumerate(table.head)
    ]
    rows = []
    for number, row in enumerate(table.rows):
        below = table.below[number] if table.below else ""
        cells = [tag("td", text, class_=class_of(i)) for i, text in enumerate(row[1:], 1)]
        rows.append(tag("tr", tag("th", row[0], scope="row"), *cells, class_="told" if below else None))
        if below:
            rows.append(
                tag("tr", tag("td"), tag("td", tag("div", sentence(below)), colspan=len(row) - 1), class_="below")
            )
    return scrolling(tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)), about)


def scrolling(child: Markup, about: str) -> Markup:
    """What may be wider than the page, with room to scroll, by the keyboard too; ``about``: what it is, for who hears it."""
    return tag("div", child, class_="scroll", role="region", tabindex=0, aria_label=about)


WIDE, TALL = 1000.0, 100.0
"""The coordinates of every drawing, which stretch to whatever room there is."""
_TICKS_WIDTH = 56
"""Labels for an axis of so many characters; where there is less room, half of them are left out."""


def stairs(edges: Floats, heights: Floats) -> str:
    """Return a path along ``heights`` [n] (shares of the full scale) between ``edges`` [n + 1] (shares of the width);
    it breaks where a height is NaN."""
    return "".join("M" + _steps(edges[first : last + 1], heights[first:last])[1:] for first, last in unbroken(heights))


def area(edges: Floats, low: Floats, high: Floats) -> str:
    """Return the path around the area from ``low`` to ``high`` [n] between ``edges`` [n + 1], all shares; it breaks
    where either is NaN."""
    return "".join(
        "M" + _steps(edges[first : last + 1], high[first:last])[1:]
        + _steps(edges[first : last + 1][::-1], low[first:last][::-1]) + "Z"
        for first, last in unbroken(low + high)
    )  # fmt: skip


def _steps(edges: Floats, heights: Floats) -> str:
    """Return the part of a path that is level at each height, beginning with a line to the first.

    ``edges`` [n + 1] and ``heights`` [n] are fractions of width and height; heights beyond the scale are at its edge.
    """
    xs, ys = WIDE * edges, TALL * (1 - np.clip(heights, 0.0, 1.0))
    words: list[str] = []
    before = ""
    for left, right, y in zip(xs[:-1].tolist(), xs[1:].tolist(), ys.tolist(), strict=True):
        at = coordinate(y, 1)
        if not words:
            words.append(f"L{coordinate(left, 1)} {at}")
        elif at != before:
            words.append(f"V{at}")
        words.append(f"H{coordinate(right, 1)}")
        before = at
    return "".join(words)


def svg(words: str, *children: str) -> Markup:
    """Build a drawing in the coordinates WIDE × TALL that fills the room it is given. ``words``: what it says, for who
    can't see it."""
    return tag(
        "svg", *children, viewBox=f"0 0 {WIDE:g} {TALL:g}", preserveAspectRatio="none", class_="area", role="img",
        aria_label=clean(words),
    )  # fmt: skip


def grid(at: Sequence[float]) -> Markup:
    """Draw lines at a quarter, a half and three quarters of the height, and at these shares of the width."""
    lines = [f"M0 {coordinate(TALL * level)}H{WIDE:g}" for level in (0.0, 0.25, 0.5, 0.75)]
    lines += [f"M{coordinate(WIDE * place)} 0V{TALL:g}" for place in at if 0 < place < 1]
    return tag("path", class_="grid", d="".join(lines))


def time_marks(analysis: Analysis) -> list[Tick]:
    """Return the labels of the time axis, each with its share of the width (0-1)."""
    axis = time_axis(analysis)
    begin, span = axis.begin - axis.origin, axis.end - axis.begin
    return [Tick((tick.at - begin) / span, tick.label) for tick in time_ticks(begin, begin + span, _TICKS_WIDTH)]


def axis_labels(marks: Sequence[Tick]) -> Markup:
    """Draw the labels below a drawing; every other one is hidden on a narrow page."""
    return tag("svg", *(
        tag("text", mark.label, x=share(mark.at), y=13, class_="minor" if i % 2 else None, text_anchor=_anchor(mark.at))
        for i, mark in enumerate(marks)
    ), class_="x", aria_hidden="true")  # fmt: skip


def _anchor(at: float) -> str:
    return "start" if at < 0.03 else "end" if at > 0.97 else "middle"


def level_labels(*labels: str) -> Markup:
    """The labels left of a drawing, from top to bottom at equal distances."""
    return tag("div", *(tag("span", label) for label in labels), class_="y", aria_hidden="true")
