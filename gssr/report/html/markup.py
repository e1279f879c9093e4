"""HTML put together so that text can't become markup: whatever isn't Markup is cleaned (gssr.render.cells) and escaped.

Tables of the report.
"""

import html
import json
import re
from typing import Any

from gssr.render.cells import clean, harmless
from gssr.report.content import Table

_UNIT = re.compile(r"(?<=\d) (?=(?:\S{1,4}|\S?FLOP/\S)(?:[ ,;:.)]|$))")
_VOID = frozenset(("meta", "br", "img", "link"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element. Children are text unless they are Markup. In the names of attributes ``_`` stands for ``-`` and is dropped
    at the end (``class_``); None and False leave an attribute out, True gives one without a value."""
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
    """Children one after another."""
    return Markup(
        "".join(child if isinstance(child, Markup) else html.escape(clean(child), quote=False) for child in children)
    )


def coordinate(value: float) -> str:
    """A number for a drawing: no more than two decimals."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def share(value: float) -> str:
    """A share of a width or a height as its percentage."""
    return f"{coordinate(100 * value)}%"


def sentence(text: str) -> Markup:
    """Text whose numbers stay on one line with their units."""
    return Markup(_UNIT.sub("\u00a0", fragment(text)))


def data(value: Any) -> Markup:
    """A block of JSON for the page's script. What could end it or be read as markup is written as an escape; NaN must be
    null already."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" class="data">{text}</script>')


def drawn_table(table: Table) -> Markup:
    """A table, with room to scroll where it is wider than the page."""

    def class_of(column: int) -> str | None:
        return "n" if column >= table.n_text else None

    head = [tag("th", text, scope="col", class_=class_of(i)) for i, text in enumerate(table.head)]
    rows = []
    for number, row in enumerate(table.rows):
        below = table.below[number] if table.below else ""
        cells = [tag("td", text, class_=class_of(i)) for i, text in enumerate(row[1:], 1)]
        rows.append(tag("tr", tag("th", row[0], scope="row"), *cells, class_="told" if below else None))
        if below:
            rows.append(
                tag("tr", tag("td"), tag("td", tag("div", sentence(below)), colspan=len(row) - 1), class_="below")
            )
    return tag("div", tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)), class_="scroll")
