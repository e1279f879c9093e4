"""Paths of SVG drawings, and the axes that all drawings along time share."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Floats
from gssr.model.results import Analysis
from gssr.render.clock import Tick, ticks
from gssr.render.columns import unbroken
from gssr.report.html.markup import Markup, coordinate, share, tag
from gssr.report.page import time_axis

WIDE, TALL = 1000.0, 100.0
"""The coordinates of every drawing, which stretch to whatever room there is."""
_TICKS_WIDTH = 56
"""Labels for an axis of so many characters; where there is less room, half of them are left out."""


def stairs(edges: Floats, heights: Floats) -> str:
    """A path along ``heights`` [n] (shares of the full scale) between ``edges`` [n + 1] (shares of the width); it breaks
    where a height is NaN."""
    return "".join("M" + _steps(edges[first : last + 1], heights[first:last])[1:] for first, last in unbroken(heights))


def area(edges: Floats, low: Floats, high: Floats) -> str:
    """The path around what lies from ``low`` to ``high`` [n]."""
    return "".join(
        "M" + _steps(edges[first : last + 1], high[first:last])[1:]
        + _steps(edges[first : last + 1][::-1], low[first:last][::-1]) + "Z"
        for first, last in unbroken(low + high)
    )  # fmt: skip


def _steps(edges: Floats, heights: Floats) -> str:
    """Level at each height, a line to the first of them; heights beyond the scale are at its edge."""
    xs, ys = WIDE * edges, TALL * (1 - np.clip(heights, 0.0, 1.0))
    words: list[str] = []
    before = ""
    for left, right, y in zip(xs[:-1].tolist(), xs[1:].tolist(), ys.tolist(), strict=True):
        at = coordinate(y)
        if not words:
            words.append(f"L{coordinate(left)} {at}")
        elif at != before:
            words.append(f"V{at}")
        words.append(f"H{coordinate(right)}")
        before = at
    return "".join(words)


def svg(*children: str, tall: float = TALL, **attributes: str | float | bool | None) -> Markup:
    """A drawing in the coordinates WIDE × ``tall`` that fills the room it is given."""
    return tag("svg", *children, viewBox=f"0 0 {WIDE:g} {coordinate(tall)}", preserveAspectRatio="none", **attributes)


def grid(at: Sequence[float]) -> Markup:
    """Lines at a quarter, a half and three quarters of the height, and at these shares of the width."""
    lines = [f"M0 {coordinate(TALL * level)}H{WIDE:g}" for level in (0.0, 0.25, 0.5, 0.75)]
    lines += [f"M{coordinate(WIDE * place)} 0V{TALL:g}" for place in at if 0 < place < 1]
    return tag("path", class_="grid", d="".join(lines))


def time_marks(analysis: Analysis) -> list[Tick]:
    """The labels of the time axis at shares of its width."""
    axis = time_axis(analysis)
    begin, span = axis.begin - axis.origin, axis.end - axis.begin
    return [Tick((tick.at - begin) / span, tick.label) for tick in ticks(begin, begin + span, _TICKS_WIDTH)]


def axis_labels(marks: Sequence[Tick]) -> Markup:
    """The labels below a drawing; every other one gives way on a narrow page."""
    return tag("svg", *(
        tag("text", mark.label, x=share(mark.at), y=13, class_="minor" if i % 2 else None, text_anchor=_anchor(mark.at))
        for i, mark in enumerate(marks)
    ), class_="x")  # fmt: skip


def _anchor(at: float) -> str:
    return "start" if at < 0.03 else "end" if at > 0.97 else "middle"


def level_labels(*labels: str) -> Markup:
    """The labels left of a drawing, from top to bottom at equal distances."""
    return tag("div", *(tag("span", label) for label in labels), class_="y")
