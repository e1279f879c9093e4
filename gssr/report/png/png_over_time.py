"""A picture of every GPU along time.

A picture of a run's phases.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from gssr.metrics import Metric, best_measured
from gssr.model.results import Analysis, Kind
from gssr.render.cells import clean
from gssr.render.clock import duration
from gssr.render.scale import fixed, metric_of, percent, unit_of
from gssr.report.load_balancing import outliers_of
from gssr.report.over_time import heat_map, named_rows
from gssr.report.page import compared, drawn, full_scale, time_axis
from gssr.report.phases import letters, phase_text
from gssr.report.png.figure import (
    BLANK,
    BLUE,
    FAINT,
    INK,
    LONGEST_PLACE,
    NothingToDrawError,
    color_names,
    draw_steps,
    edges_of,
    new_picture,
    place_of,
    time_labels,
    value_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_HEATMAP_COLUMNS = 600
_MAP_LABELS = 40
_ROW, _LOWEST, _HIGHEST = 0.18, 2.4, 11.0
"""Inches: of a GPU, and of the map."""


def heat_map_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw the leading metric of every GPU along time as a map of colours. Raises NothingToDrawError, OSError."""
    name = best_measured(compared(analysis))
    if name is None or name not in analysis.gpu_series:
        raise NothingToDrawError.of(analysis)
    tall = min(max(_ROW * len(analysis.gpus), _LOWEST), _HIGHEST)
    with new_picture(analysis, [tall], file, "Which GPU did what when?") as (figure, panels):
        gpu_map(figure, panels[0], analysis, metric_of(name))
        time_labels(panels[0], analysis)


def gpu_map(
    figure: Figure, panel: Axes, analysis: Analysis, metric: Metric, labels: int = _MAP_LABELS, most: int = LONGEST_PLACE
) -> None:  # fmt: skip
    """Draw every GPU, or the lowest of some neighbours, along time as a row of colours; grey where it has no samples.
    At most ``labels`` GPUs are named, in at most ``most`` characters."""
    series, factor = analysis.gpu_series[metric.name], unit_of(metric).factor
    axis, found = time_axis(analysis), heat_map(analysis.gpu_series[metric.name], analysis.n_nodes)
    n = min(max(series.values.shape[1], 1), _HEATMAP_COLUMNS)
    values = factor * axis.columns(found.values, series.start, series.width, n)
    panel.set_facecolor(BLANK)
    picture = panel.imshow(
        np.ma.masked_invalid(values), aspect="auto", interpolation="none", vmin=0,
        vmax=full_scale(analysis, metric) * factor,
        extent=(axis.begin - axis.origin, axis.end - axis.origin, found.each * len(values) - 0.5, -0.5),
    )  # fmt: skip
    figure.colorbar(picture, ax=panel, pad=0.01, aspect=30, label=f"{metric.label} ({unit_of(metric).name})")
    outliers = outliers_of(analysis, metric)
    rows = named_rows(len(analysis.gpus), _label_step(analysis, labels), outliers)
    names = ["! " * (i in outliers) + place_of(analysis.gpus[i], most) for i in rows]
    panel.set_yticks(rows, names, fontsize=7)
    color_names(panel, [number for number, i in enumerate(rows) if i in outliers])
    panel.grid(False)
    panel.set_title(f"{metric.label} of each GPU over time")
    panel.set_title("grey: no samples", loc="right", fontweight="normal", fontsize=9, color=FAINT)


def _label_step(analysis: Analysis, labels: int) -> int:
    """Return every how many GPUs one is named, so that there are at most about ``labels`` names: whole nodes if all
    nodes have as many GPUs."""
    step = -(-len(analysis.gpus) // labels)
    per_node, rest = divmod(len(analysis.gpus), max(analysis.n_nodes, 1))
    return step if step == 1 or rest else -(-step // per_node) * per_node


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
    NothingToDrawError, also without phases, and OSError."""
    name = best_measured(drawn(analysis))
    if name is None:
        raise NothingToDrawError.of(analysis)
    if not analysis.judgement.phases:
        raise NothingToDrawError("no phases were found")
    texts = _texts(analysis)
    scored = any(phase.score is not None for phase in analysis.judgement.phases)
    heights = [2.4, *([1.2] if scored else []), _LINE * (sum(len(text) for text in texts) + 1)]
    with new_picture(analysis, heights, file, "What did it do when?") as (_, panels):
        series, metric = analysis.series[name], metric_of(name)
        edges = edges_of(analysis, series.start, series.width, len(series.mean))
        draw_steps(panels[0], edges, unit_of(metric).factor * series.mean, color=BLUE, linewidth=1.3)
        value_axis(panels[0], analysis, metric)
        panels[0].set_title(f"{metric.label}, mean over GPUs", pad=16)
        _behind(panels[0], analysis, named=True)
        if scored:
            _scores(panels[1], analysis)
        for panel in panels[:-1]:
            time_labels(panel, analysis)
        if scored:
            panels[0].tick_params(labelbottom=False)
            panels[0].set_xlabel("")
        _words(panels[-1], analysis, texts)


def _behind(panel: Axes, analysis: Analysis, named: bool = False) -> None:
    """Draw the phases as colours behind a panel, with their names above it if ``named``."""
    axis = time_axis(analysis)
    for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True):
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
    """Draw the score of each phase that has one."""
    axis = time_axis(analysis)
    _behind(panel, analysis)
    for phase in analysis.judgement.phases:
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
    """Say for each phase what it was, in lines."""
    found = []
    for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True):
        text = f"{phase.kind}, {duration(phase.seconds)}, {percent(phase.share)} of the GPU-hours"
        found.append(textwrap.wrap(f"{letter}  {text}: {clean(phase_text(phase))}", _CELLS, subsequent_indent="    "))
    return found


def _words(panel: Axes, analysis: Analysis, texts: list[list[str]]) -> None:
    """Write what each phase was, beside its colour."""
    panel.set_axis_off()
    lines, at = sum(len(text) for text in texts), 0
    for phase, text in zip(analysis.judgement.phases, texts, strict=True):
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
