"""A picture of a run's phases."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, BinaryIO

from gssr.model.results import Analysis, Kind
from gssr.render.clock import duration
from gssr.render.scale import fixed, metric_of, percent, unit_of
from gssr.report.axes import time_axis
from gssr.report.options import Options, lead
from gssr.report.page import drawn
from gssr.report.phases import letters, what
from gssr.report.png_frame import BLUE, INK, NothingToDrawError, edges_of, picture, time_labels, value_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: dict[Kind, str] = {
    "start-up": "#e9c46a", "steady": "#7fb8ad", "recurring": "#8fa8d3", "idle": "#d9d9d9", "tail": "#e8a87c",
}  # fmt: skip
_LINE = 0.24
"""Inches of a line of text."""
_CELLS = 132
_NARROW = 0.035
"""A phase that takes a smaller share of the axis is named by its letter alone."""


def phases_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw the leading metric along time with the phases behind it, their scores, and what each was. Raises
    NothingToDrawError, OSError."""
    name = lead(drawn(analysis), Options())
    if name is None:
        raise NothingToDrawError.of(analysis)
    if not analysis.phases:
        raise NothingToDrawError("no phases were found")
    texts = _texts(analysis)
    heights = [2.4, 1.2, _LINE * (sum(len(text) for text in texts) + 1)]
    with picture(analysis, heights, file, "What did it do when?") as (_, panels):
        series, metric = analysis.series[name], metric_of(name)
        edges = edges_of(analysis, series.start, series.width, len(series.mean))
        panels[0].stairs(unit_of(metric).factor * series.mean, edges, baseline=None, color=BLUE, linewidth=1.3)
        value_axis(panels[0], analysis, metric)
        panels[0].set_title(f"{metric.label}, mean over GPUs", pad=16)
        _behind(panels[0], analysis, named=True)
        _scores(panels[1], analysis)
        for panel in panels[:2]:
            time_labels(panel, analysis)
        panels[0].tick_params(labelbottom=False)
        panels[0].set_xlabel("")
        _words(panels[2], analysis, texts)


def _behind(panel: Axes, analysis: Analysis, named: bool = False) -> None:
    """The phases as colours behind a panel."""
    axis = time_axis(analysis)
    for letter, phase in zip(letters(analysis), analysis.phases, strict=True):
        start, end = phase.start - axis.origin, phase.end - axis.origin
        panel.axvspan(start, end, color=COLOURS[phase.kind], alpha=0.45, linewidth=0, zorder=0)
        if named:
            wide = (end - start) / (axis.end - axis.begin) >= 3 * _NARROW
            text = f"{letter} {phase.kind}" if wide else letter
            panel.annotate(
                text, ((start + end) / 2, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3),
                textcoords="offset points", ha="center", va="bottom", fontsize=8.5, color=INK,
            )  # fmt: skip


def _scores(panel: Axes, analysis: Analysis) -> None:
    axis = time_axis(analysis)
    _behind(panel, analysis)
    for phase in analysis.phases:
        start, end = phase.start - axis.origin, phase.end - axis.origin
        if phase.score is None:
            continue
        panel.hlines(phase.score, start, end, color=INK, linewidth=2.0)
        if (end - start) / (axis.end - axis.begin) >= _NARROW:
            above = phase.score < 0.8
            panel.annotate(
                fixed(phase.score, 3), ((start + end) / 2, phase.score), xytext=(0, 3 if above else -3),
                textcoords="offset points", ha="center", va="bottom" if above else "top", fontsize=8.5, color=INK,
            )  # fmt: skip
    panel.set_ylim(0, 1)
    panel.set_ylabel("score")
    panel.set_title("Score of each phase")


def _texts(analysis: Analysis) -> list[list[str]]:
    """What each phase was, in lines."""
    found = []
    for letter, phase in zip(letters(analysis), analysis.phases, strict=True):
        text = f"{phase.kind}, {duration(phase.seconds)}, {percent(phase.share)} of the GPU-hours"
        found.append(textwrap.wrap(f"{letter}  {text}: {what(phase)}", _CELLS, subsequent_indent="    "))
    return found


def _words(panel: Axes, analysis: Analysis, texts: list[list[str]]) -> None:
    panel.set_axis_off()
    lines, at = sum(len(text) for text in texts), 0
    for phase, text in zip(analysis.phases, texts, strict=True):
        y = 1 - (at + 0.5) / (lines + 1)
        panel.plot([0.004], [y], marker="s", markersize=8, color=COLOURS[phase.kind], transform=panel.transAxes)
        for number, line in enumerate(text):
            panel.text(
                0.016, 1 - (at + number + 0.5) / (lines + 1), line, transform=panel.transAxes, va="center", fontsize=9,
                color=INK, parse_math=False,
            )  # fmt: skip
        at += len(text)
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
