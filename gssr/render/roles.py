"""Roles of drawn text and how each looks.

A drawing says what a piece of text is (its role), never how it looks. Whoever shows it looks the role up here: the page as
SGR parameters, the live view as a rich style. Hue never carries meaning alone: whatever is coloured also says it in words,
by height or by a letter.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

Role = Literal["plain", "title", "heading", "dim", "value", "series", "band", "good", "bad", "outlier", "gap"]


class Span(NamedTuple):
    """A piece of one line, and its role."""

    text: str
    role: Role = "plain"


Row: TypeAlias = tuple[Span, ...]
"""One line, left to right."""


class Look(NamedTuple):
    """How a role looks: ``sgr`` parameters of an ANSI escape ("" for none), ``rich`` the same as a rich style."""

    sgr: str
    rich: str


ROLES: dict[Role, Look] = {
    "plain": Look("", ""),
    "title": Look("1", "bold"),
    "heading": Look("1", "bold"),
    "dim": Look("2", "dim"),
    "value": Look("1", "bold"),
    "series": Look("36", "cyan"),
    "band": Look("2;36", "dim cyan"),
    "good": Look("32", "green"),
    "bad": Look("31", "red"),
    "outlier": Look("1;33", "bold yellow"),
    "gap": Look("35", "magenta"),
}


def text_of(row: Row) -> str:
    """The row's text without its roles."""
    return "".join(span.text for span in row)


def joined(pieces: Sequence[Row], separator: str = " ") -> Row:
    """The pieces on one line, plain ``separator`` between them."""
    line: list[Span] = []
    for index, piece in enumerate(pieces):
        if index:
            line.append(Span(separator))
        line.extend(piece)
    return tuple(line)
