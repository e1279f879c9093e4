"""A picture of where the GPU time went: the bar that adds up to 100 %, its legend, and the shares along time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from gssr.model.results import Analysis
from gssr.render.cells import fit
from gssr.render.scale import percent
from gssr.report.breakdown import breakdown_remarks
from gssr.report.breakdown_drawing import BreakdownDrawing, breakdown_drawing
from gssr.report.page import time_axis
from gssr.report.png.figure import FAINT, INK, NothingToDrawError, draw_steps, new_picture, time_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR, _OVER_TIME = 0.5, 2.6
_LINE = 0.24
"""Inches: of the bar, of the shares along time, and of a line of the legend."""
_TITLE = 108
"""Characters of the sentence that the picture has room for in letters of 10 points; a longer one has smaller letters."""
_LEAST_WRITTEN = 0.05
"""Share of the bar that a part needs for its percentage."""


def breakdown_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw where the GPU time went. Raises NothingToDrawError, OSError."""
    drawing = breakdown_drawing(analysis)
    if drawing is None or analysis.judgement.breakdown is None:
        why = NothingToDrawError("the GPU time was not accounted for")
        raise why if analysis.n_samples else NothingToDrawError.of(analysis)
    remarks = breakdown_remarks(analysis.judgement.breakdown)
    lines = legend_lines(drawing) + len(remarks)
    with new_picture(analysis, [_BAR, _LINE * lines, _OVER_TIME], file, "Where does the GPU time go?") as (_, panels):
        draw_bar(panels[0], drawing)
        text = fit(drawing.headline, 2 * _TITLE, "…")  # names may be long
        panels[0].set_title(text, fontsize=10 * min(_TITLE / len(text), 1.0))
        draw_legend(panels[1], drawing, 9.0, remarks)
        draw_shares_over_time(panels[2], analysis, drawing)


def draw_bar(panel: Axes, drawing: BreakdownDrawing) -> None:
    """Draw the bar that adds up to 100 %, with the percentages that there is room for."""
    for each in drawing.categories:
        panel.barh(0, each.share, left=each.start, height=1.0, color=each.colour, linewidth=0)
        if each.share >= _LEAST_WRITTEN:
            middle = (each.start + each.end) / 2
            panel.text(middle, 0, percent(each.share), ha="center", va="center", fontsize=9, color=each.text_colour)
    panel.set(xlim=(0, 1), ylim=(-0.5, 0.5))
    panel.set_axis_off()


def legend_lines(drawing: BreakdownDrawing) -> int:
    """How many lines the legend takes, in two columns."""
    return -(-len(drawing.named) // 2)


def draw_legend(panel: Axes, drawing: BreakdownDrawing, size: float, remarks: list[str]) -> None:
    """Draw each named category with its share and GPU time, in two columns of letters of ``size`` points; ``remarks``
    below."""
    panel.set(xlim=(0, 1), ylim=(0, 1))
    panel.set_axis_off()
    of_column = legend_lines(drawing)
    n = of_column + len(remarks)
    style: Any = {"textcoords": "offset points", "va": "center_baseline", "fontsize": size, "color": INK}
    for number, each in enumerate(drawing.named):
        column, line = divmod(number, of_column)
        at = 0.5 * column, 1 - (line + 0.5) / n
        panel.annotate("■", at, xytext=(0, 0), **(style | {"color": each.colour, "fontsize": 1.3 * size}))
        panel.annotate(percent(each.share), at, xytext=(6.0 * size, 0), ha="right", fontweight="bold", **style)
        label = panel.annotate(each.label, at, xytext=(6.8 * size, 0), **style)
        about = style | {"color": FAINT, "fontsize": size - 1, "va": "center"}
        panel.annotate(each.about, (1.0, 0.5), xycoords=label, xytext=(0.7 * size, 0), **about)
    for line, text in enumerate(remarks, of_column):
        panel.text(0, 1 - (line + 0.5) / n, text, va="center_baseline", fontsize=size - 0.5, color=FAINT)


def draw_shares_over_time(panel: Axes, analysis: Analysis, drawing: BreakdownDrawing) -> None:
    """Draw the shares along time, stacked in the order of the bar."""
    edges = drawing.edges - time_axis(analysis).origin
    for each in drawing.categories:
        draw_steps(panel, edges, 100 * each.top, 100 * each.bottom, color=each.colour, linewidth=0.2)
    panel.set(ylim=(0, 100), ylabel="%")
    panel.set_title("Shares of the GPU time over time")
    panel.grid(False)
    time_labels(panel, analysis)
