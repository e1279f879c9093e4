"""What the PDF draws: along time, GPU by GPU, and under the roofline. Pictures take the room there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gssr.model.results import Analysis, Series
from gssr.render.scale import metric_of
from gssr.report.breakdown import breakdown_remarks
from gssr.report.breakdown_drawing import BreakdownDrawing, breakdown_drawing
from gssr.report.content import along_time, compared_by, nodes_drawn, uneven_texts
from gssr.report.page import imbalance_text, time_axis
from gssr.report.pdf.sheet import BODY, DIM, MARGIN, SMALL, TALL, WIDE, Sheet
from gssr.report.phases import letters, roofline_points
from gssr.report.png.figure import time_labels
from gssr.report.png.png import CAVEAT, band, histogram_of_means, means_in_order, roofline
from gssr.report.png.png_breakdown import draw_bar, draw_legend, draw_shares_over_time, legend_lines
from gssr.report.png.png_over_time import COLOURS, gpu_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEFT, _RIGHT = MARGIN + 0.35, WIDE - MARGIN
_GAP = 0.55
"""Between two pictures side by side."""
_LEAST_FOR_HISTOGRAM = 5
_LEAST_LETTERED = 0.015
_LEAD, _LEAD_AROUND = (0.9, 2.1), 0.85
_SMALL, _SMALL_AROUND = (0.75, 1.2), 0.55
_MEANS, _MEANS_AROUND = (1.1, 2.3), 0.85
_MAP_AROUND = 1.0
_ROOFLINE, _ROOFLINE_AROUND = (1.5, 3.0), 0.85
_BAR, _SHARES, _SHARES_AROUND = 0.32, 1.5, 0.85
"""Inches: how tall a picture is at least and at best, and what its title and its axis take."""
_LEGEND = 7.0
"""Points: the longest label with its share and its GPU time is then half as wide as the page."""
_LONGEST_PLACE, _LABEL = 20, 0.13
"""Characters that a GPU's name has left of a picture, and inches that its line takes."""
_TICKS = 40
"""Characters of the labels of half a page's axis."""


def draw_breakdown(sheet: Sheet, analysis: Analysis) -> None:
    """Draw where the GPU time went: the bar, its legend, and the shares along time; nothing if it was not accounted
    for."""
    drawing = breakdown_drawing(analysis)
    if drawing is None or analysis.judgement.breakdown is None:
        return
    remarks = breakdown_remarks(analysis.judgement.breakdown)
    legend = SMALL.line * (legend_lines(drawing) + len(remarks))
    tall = BODY.line + _BAR + legend + _SHARES + _SHARES_AROUND
    sheet.heading("Where does the GPU time go?", tall)
    sheet.write(drawing.headline, BODY)
    draw_bar_and_legend(sheet, drawing, remarks)
    draw_shares_over_time(panel_of(sheet, _LEFT, _RIGHT, sheet.y + 0.3, _SHARES), analysis, drawing)
    sheet.y += _SHARES + _SHARES_AROUND


def draw_bar_and_legend(sheet: Sheet, drawing: BreakdownDrawing, remarks: list[str]) -> None:
    """Draw the bar that adds up to 100 %, and below it its legend and these remarks."""
    legend = SMALL.line * (legend_lines(drawing) + len(remarks))
    draw_bar(panel_of(sheet, MARGIN, _RIGHT, sheet.y + 0.04, _BAR), drawing)
    sheet.y += _BAR + 0.1
    draw_legend(panel_of(sheet, MARGIN, _RIGHT, sheet.y, legend), drawing, _LEGEND, remarks)
    sheet.y += legend


def draw_along_time(sheet: Sheet, analysis: Analysis) -> None:
    """Draw the leading metric across the page, the phases above it, the others in two columns. Needs a metric with
    values."""
    strip = 0.3 if analysis.judgement.phases else 0.0
    sheet.heading("When were the GPUs not used?", strip + _LEAD[0] + _LEAD_AROUND)
    first, *others = [analysis.series[name] for name in along_time(analysis)]
    if analysis.judgement.phases:
        _phases(panel_of(sheet, _LEFT, _RIGHT, sheet.y + 0.1, 0.2), analysis)
        sheet.y += strip
    tall = min(_LEAD[1], sheet.room - _LEAD_AROUND)
    panel = panel_of(sheet, _LEFT, _RIGHT, sheet.y + 0.25, tall)
    band(panel, analysis, first, legend=False)
    if len(analysis.gpus) > 1:
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22 / tall), ncols=4, frameon=False, fontsize=7)
    sheet.y += tall + _LEAD_AROUND
    _in_two_columns(sheet, analysis, others)


def draw_nodes(sheet: Sheet, analysis: Analysis) -> None:
    """Draw what the nodes did along time; nothing if it is not known."""
    _in_two_columns(sheet, analysis, [analysis.node_series[name] for name in nodes_drawn(analysis)])


def _in_two_columns(sheet: Sheet, analysis: Analysis, drawn: list[Series]) -> None:
    """Draw these series, two beside each other."""
    half = (_RIGHT - _LEFT - _GAP) / 2
    for row in range(0, len(drawn), 2):
        tall = sheet.of_room(_SMALL[0] + _SMALL_AROUND, _SMALL[1] + _SMALL_AROUND) - _SMALL_AROUND
        for column, series in enumerate(drawn[row : row + 2]):
            left = _LEFT + column * (half + _GAP)
            panel = panel_of(sheet, left, left + half, sheet.y + 0.22, tall)
            band(panel, analysis, series, legend=False)
            time_labels(panel, analysis, _TICKS)
            panel.set_xlabel("")
        sheet.y += tall + _SMALL_AROUND


def draw_balance(sheet: Sheet, analysis: Analysis) -> None:
    """Draw the GPUs' means in order, how many have which, and every GPU along time; nothing if nothing was measured."""
    name = compared_by(analysis)
    if name is None:
        return
    sheet.heading("Which GPUs differ?", 0.5 + _MEANS[0] + _MEANS_AROUND)
    metric = metric_of(name)
    for text in [f"Imbalance {imbalance_text(analysis, name)}.", *uneven_texts(analysis)]:
        sheet.write(text, SMALL)
    left = _LEFT + 0.55
    many = len(analysis.gpus) >= _LEAST_FOR_HISTOGRAM
    middle = (left + _RIGHT) / 2 if many else _RIGHT
    best = _MEANS[1] if many else 0.5 + 0.3 * len(analysis.gpus)
    tall = sheet.of_room(min(_MEANS[0], best) + _MEANS_AROUND, best + _MEANS_AROUND) - _MEANS_AROUND
    means_in_order(panel_of(sheet, left, middle - 0.2, sheet.y + 0.35, tall), analysis, metric, _LONGEST_PLACE)
    if many:
        histogram_of_means(panel_of(sheet, middle + 0.4, _RIGHT, sheet.y + 0.35, tall), analysis, metric)
    sheet.y += tall + _MEANS_AROUND
    if name in analysis.gpu_series:
        best = min(max(0.3 * len(analysis.gpus), 1.2), 5.0)
        tall = sheet.of_room(min(best, 1.2) + _MAP_AROUND, best + _MAP_AROUND) - _MAP_AROUND
        panel = panel_of(sheet, left, _RIGHT, sheet.y + 0.3, tall)
        gpu_map(sheet.figure, panel, analysis, metric, max(int(tall / _LABEL), 1), _LONGEST_PLACE)
        time_labels(panel, analysis)
        sheet.y += tall + _MAP_AROUND


def draw_roofline(sheet: Sheet, analysis: Analysis) -> None:
    """Draw what bounds the work; nothing if that is not known."""
    if analysis.judgement.peaks is None or not roofline_points(analysis):
        return
    sheet.heading("What bounds it?", DIM.line + _ROOFLINE[0] + _ROOFLINE_AROUND)
    sheet.write(f"{CAVEAT[0].upper()}{CAVEAT[1:]}.", DIM)
    tall = min(_ROOFLINE[1], sheet.room - _ROOFLINE_AROUND)
    roofline(panel_of(sheet, _LEFT + 0.55, _RIGHT, sheet.y + 0.3, tall), analysis)
    sheet.y += tall + _ROOFLINE_AROUND


def panel_of(sheet: Sheet, left: float, right: float, top: float, tall: float) -> Axes:
    """A new picture on the last page; inches from its left and its top."""
    """Axes in a box, in inches from the left and the top."""
    return sheet.figure.add_axes((left / WIDE, 1 - (top + tall) / TALL, (right - left) / WIDE, tall / TALL))


def _phases(panel: Axes, analysis: Analysis) -> None:
    """Draw a strip of the phases with their letters."""
    axis = time_axis(analysis)
    for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True):
        begin, end = max(phase.start, axis.begin), min(phase.end, axis.end)
        panel.axvspan(begin - axis.origin, end - axis.origin, color=COLOURS[phase.kind], linewidth=0)
        if end - begin > _LEAST_LETTERED * (axis.end - axis.begin):
            middle = (begin + end) / 2 - axis.origin
            panel.text(middle, 0.5, letter, ha="center", va="center_baseline", fontsize=8, fontweight="bold")
    panel.set_xlim(axis.begin - axis.origin, axis.end - axis.origin)
    panel.set_axis_off()
    panel.set_title("phases", fontsize=7, fontweight="normal", loc="left", pad=2)
