"""Roles of drawn text and how each looks.

A drawing says what a piece of text is (its role), never how it looks. Whoever shows it looks the role up here: the page as
SGR parameters, the live view as a rich style. Hue never carries meaning alone: whatever is coloured also says it in words,
by height or by a letter.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

Role = Literal[
    "plain", "title", "heading", "dim", "value", "series", "band", "good", "bad", "outlier", "gap",
    "ramp0", "ramp1", "ramp2", "ramp3", "ramp4", "low0", "low1", "low2", "low3", "low4", "cursor", "picked",
    "compute", "network", "copy", "sync", "launch", "range", "io", "other",
]  # fmt: skip


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
    "ramp0": Look("38;5;24", "color(24)"),
    "ramp1": Look("38;5;30", "color(30)"),
    "ramp2": Look("38;5;73", "color(73)"),
    "ramp3": Look("38;5;115", "color(115)"),
    "ramp4": Look("38;5;158", "color(158)"),
    "low0": Look("4;38;5;24", "underline color(24)"),
    "low1": Look("4;38;5;30", "underline color(30)"),
    "low2": Look("4;38;5;73", "underline color(73)"),
    "low3": Look("4;38;5;115", "underline color(115)"),
    "low4": Look("4;38;5;158", "underline color(158)"),
    "cursor": Look("7", "reverse"),
    "picked": Look("1;7", "bold reverse"),
    "compute": Look("32", "green"),
    "network": Look("34", "blue"),
    "copy": Look("35", "magenta"),
    "sync": Look("33", "yellow"),
    "launch": Look("36", "cyan"),
    "range": Look("37", "white"),
    "io": Look("31", "red"),
    "other": Look("2", "dim"),
}
RAMP: tuple[Role, ...] = ("ramp0", "ramp1", "ramp2", "ramp3", "ramp4")
"""Lightness for a fraction of the full scale, in five equal steps, dark to light; it only repeats what height says."""
RAMP_LOW: tuple[Role, ...] = ("low0", "low1", "low2", "low3", "low4")
"""The same for a cell that stands for several GPUs of which one is below half of their mean."""

CATEGORIES: tuple[Role, ...] = ("compute", "network", "copy", "sync", "launch", "range", "io", "other")
"""What an interval of a trace is for, in the order of gssr.traces.timeline.Category."""


def text_of(row: Row) -> str:
    """The row's text without its roles."""
    return "".join(span.text for span in row)


def one_row(pieces: Sequence[Row], separator: str = " ") -> Row:
    """The pieces on one line, plain ``separator`` between them."""
    line: list[Span] = []
    for index, piece in enumerate(pieces):
        if index:
            line.append(Span(separator))
        line.extend(piece)
    return tuple(line)
