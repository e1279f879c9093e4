"""The pages of the PDF that hold pictures: along time, and GPU by GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gssr.model.results import Analysis
from gssr.render.scale import metric_of
from gssr.report.content import along_time, compared_by, uneven_texts
from gssr.report.page import imbalance_text, time_axis
from gssr.report.pdf.sheet import DIM, MARGIN, SMALL, TALL, WIDE, Sheet
from gssr.report.phases import letters, places
from gssr.report.png.figure import time_labels
from gssr.report.png.over_time import COLOURS, gpu_map
from gssr.report.png.png import CAVEAT, band, histogram_of_means, means_in_order, roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEFT, _RIGHT = MARGIN + 0.35, WIDE - MARGIN
_GAP = 0.55
"""Between two pictures side by side."""
_LEAST_FOR_HISTOGRAM = 5
_LEAST_LETTERED = 0.015
COURSE = 2.5
_ROOFLINE = 3.3
_LONGEST_PLACE, _LABEL = 20, 0.13
"""Characters that a GPU's name has left of a picture, and inches that its line takes."""
_TICKS = 40
"""Characters of the labels of half a page's axis."""


def along_time_page(analysis: Analysis) -> Sheet:
    """The leading metric across the page, the phases above it, the others in two columns."""
    sheet = Sheet()
    sheet.heading("When were the GPUs not used?")
    names = along_time(analysis)
    _lead(sheet, analysis, names[0], 2.1)
    half = (_RIGHT - _LEFT - _GAP) / 2
    tall = min(1.35, sheet.room / max(-(-(len(names) - 1) // 2), 1) - 0.6)
    for i, name in enumerate(names[1:]):
        left = _LEFT + i % 2 * (half + _GAP)
        panel = _panel(sheet, left, left + half, sheet.y + 0.25 + i // 2 * (tall + 0.6), tall)
        band(panel, analysis, name, legend=False)
        time_labels(panel, analysis, _TICKS)
        panel.set_xlabel("")
    return sheet


def course(sheet: Sheet, analysis: Analysis) -> None:
    """The leading metric at the foot of another page; it takes COURSE inches."""
    sheet.heading("Over time")
    _lead(sheet, analysis, along_time(analysis)[0], 1.1)


def _lead(sheet: Sheet, analysis: Analysis, name: str, tall: float) -> None:
    """One metric across the page, the phases above it."""
    if analysis.phases:
        _phases(_panel(sheet, _LEFT, _RIGHT, sheet.y + 0.1, 0.2), analysis)
        sheet.y += 0.3
    panel = _panel(sheet, _LEFT, _RIGHT, sheet.y + 0.3, tall)
    band(panel, analysis, name, legend=False)
    if len(analysis.gpus) > 1:
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25 / tall), ncols=4, frameon=False, fontsize=7)
    sheet.y += tall + 0.95


def balance_page(analysis: Analysis) -> Sheet:
    """The GPUs' means in order, how many have which, and every GPU along time; and what bounds them."""
    sheet = Sheet()
    kept = _ROOFLINE if analysis.peaks is not None and places(analysis) else 0.0
    sheet.heading("Which GPUs differ?")
    name = compared_by(analysis)
    if name is None:
        return sheet
    metric = metric_of(name)
    for text in [f"Imbalance {imbalance_text(analysis, name)}.", *uneven_texts(analysis)]:
        sheet.write(text, SMALL)
    left, top = _LEFT + 0.55, sheet.y + 0.35
    many = len(analysis.gpus) >= _LEAST_FOR_HISTOGRAM
    middle = (left + _RIGHT) / 2 if many else _RIGHT
    means_in_order(_panel(sheet, left, middle - 0.2, top, 2.3), analysis, metric, _LONGEST_PLACE)
    if many:
        histogram_of_means(_panel(sheet, middle + 0.4, _RIGHT, top, 2.3), analysis, metric)
    sheet.y = top + 3.15
    if name in analysis.gpu_series:
        tall = min(max(0.3 * len(analysis.gpus), 1.2), sheet.room - 0.5 - kept)
        panel = _panel(sheet, left, _RIGHT, sheet.y, tall)
        gpu_map(sheet.figure, panel, analysis, metric, max(int(tall / _LABEL), 1), _LONGEST_PLACE)
        time_labels(panel, analysis)
        sheet.y += tall + 0.65
    if kept:
        sheet.heading("What bounds it?")
        sheet.write(f"{CAVEAT[0].upper()}{CAVEAT[1:]}.", DIM)
        roofline(_panel(sheet, left, _RIGHT, sheet.y + 0.3, kept - 1.2), analysis)
    return sheet


def _panel(sheet: Sheet, left: float, right: float, top: float, tall: float) -> Axes:
    """Axes in a box, in inches from the left and the top."""
    return sheet.figure.add_axes((left / WIDE, 1 - (top + tall) / TALL, (right - left) / WIDE, tall / TALL))


def _phases(panel: Axes, analysis: Analysis) -> None:
    """A strip of the phases with their letters."""
    axis = time_axis(analysis)
    for letter, phase in zip(letters(analysis), analysis.phases, strict=True):
        begin, end = max(phase.start, axis.begin), min(phase.end, axis.end)
        panel.axvspan(begin - axis.origin, end - axis.origin, color=COLOURS[phase.kind], linewidth=0)
        if end - begin > _LEAST_LETTERED * (axis.end - axis.begin):
            middle = (begin + end) / 2 - axis.origin
            panel.text(middle, 0.5, letter, ha="center", va="center_baseline", fontsize=8, fontweight="bold")
    panel.set_xlim(axis.begin - axis.origin, axis.end - axis.origin)
    panel.set_axis_off()
    panel.set_title("phases", fontsize=7, fontweight="normal", loc="left", pad=2)
