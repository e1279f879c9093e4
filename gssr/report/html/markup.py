"""HTML put together so that text can't become markup: whatever isn't Markup is cleaned (gssr.render.cells) and escaped."""

import html
import json
import re
from typing import Any

from gssr.render.cells import clean, harmless

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
