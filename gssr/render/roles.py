"""Roles of drawn text and how each looks.

A drawing says what a piece of text is (its role), never how it looks. Whoever shows it looks the role up here: the page as
SGR parameters, the live view as a rich style. Hue never carries meaning alone: whatever is coloured also says it in words,
by height or by a letter.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Role = Literal[
    "plain", "title", "heading", "dim", "value", "neutral", "series", "band", "fill", "track", "good", "bad",
    "outlier", "gap",
    "ramp0", "ramp1", "ramp2", "ramp3", "ramp4", "low0", "low1", "low2", "low3", "low4", "cursor", "picked",
    "compute", "network", "copy", "sync", "launch", "range", "io", "other",
    "working1", "working2", "working3", "working4", "working5", "working6", "communication1", "communication2",
    "idle1", "idle2", "idle3", "idle4", "idle5", "idle6", "outside1", "outside2", "outside3", "outside4",
]  # fmt: skip


class Span(NamedTuple):
    """A piece of one line, and its role."""

    text: str
    role: Role = "plain"


Row = tuple[Span, ...]
"""One line, left to right."""


class RoleLook(NamedTuple):
    """How a role looks: ``sgr`` parameters of an ANSI escape ("" for none), ``rich`` the same as a rich style."""

    sgr: str
    rich: str


ROLES: dict[Role, RoleLook] = {
    "plain": RoleLook("", ""),
    "title": RoleLook("1", "bold"),
    "heading": RoleLook("1", "bold"),
    "dim": RoleLook("2", "dim"),
    "value": RoleLook("1", "bold"),
    "neutral": RoleLook("38;5;110", "color(110)"),
    "series": RoleLook("38;5;110", "color(110)"),
    "band": RoleLook("38;5;240", "color(240)"),
    "fill": RoleLook("38;5;235", "color(235)"),
    "track": RoleLook("38;5;238", "color(238)"),
    "good": RoleLook("32", "green"),
    "bad": RoleLook("1;31", "bold red"),
    "outlier": RoleLook("1;33", "bold yellow"),
    "gap": RoleLook("35", "magenta"),
    "ramp0": RoleLook("38;5;239", "color(239)"),
    "ramp1": RoleLook("38;5;60", "color(60)"),
    "ramp2": RoleLook("38;5;67", "color(67)"),
    "ramp3": RoleLook("38;5;74", "color(74)"),
    "ramp4": RoleLook("38;5;110", "color(110)"),
    "low0": RoleLook("4;38;5;239", "underline color(239)"),
    "low1": RoleLook("4;38;5;60", "underline color(60)"),
    "low2": RoleLook("4;38;5;67", "underline color(67)"),
    "low3": RoleLook("4;38;5;74", "underline color(74)"),
    "low4": RoleLook("4;38;5;110", "underline color(110)"),
    "cursor": RoleLook("7", "reverse"),
    "picked": RoleLook("1;7", "bold reverse"),
    "compute": RoleLook("32", "green"),
    "network": RoleLook("34", "blue"),
    "copy": RoleLook("35", "magenta"),
    "sync": RoleLook("33", "yellow"),
    "launch": RoleLook("36", "cyan"),
    "range": RoleLook("37", "white"),
    "io": RoleLook("31", "red"),
    "other": RoleLook("2", "dim"),
    "working1": RoleLook("38;5;29", "color(29)"),
    "working2": RoleLook("38;5;36", "color(36)"),
    "working3": RoleLook("38;5;71", "color(71)"),
    "working4": RoleLook("38;5;151", "color(151)"),
    "working5": RoleLook("38;5;185", "color(185)"),
    "working6": RoleLook("38;5;172", "color(172)"),
    "communication1": RoleLook("38;5;26", "color(26)"),
    "communication2": RoleLook("38;5;140", "color(140)"),
    "idle1": RoleLook("38;5;218", "color(218)"),
    "idle2": RoleLook("38;5;163", "color(163)"),
    "idle3": RoleLook("38;5;196", "color(196)"),
    "idle4": RoleLook("38;5;216", "color(216)"),
    "idle5": RoleLook("38;5;161", "color(161)"),
    "idle6": RoleLook("38;5;138", "color(138)"),
    "outside1": RoleLook("38;5;67", "color(67)"),
    "outside2": RoleLook("38;5;145", "color(145)"),
    "outside3": RoleLook("38;5;241", "color(241)"),
    "outside4": RoleLook("38;5;252", "color(252)"),
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
    """Join the pieces on one line, with a plain ``separator`` between them."""
    line: list[Span] = []
    for index, piece in enumerate(pieces):
        if index:
            line.append(Span(separator))
        line.extend(piece)
    return tuple(line)
