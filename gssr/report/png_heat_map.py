"""A picture of every GPU along time."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from gssr.metrics import Metric
from gssr.model.results import Analysis
from gssr.render.scale import metric_of, unit_of
from gssr.report.axes import full_scale, time_axis
from gssr.report.heat_map import heat_map
from gssr.report.options import Options, lead
from gssr.report.page import compared
from gssr.report.png_frame import BLANK, FAINT, LONGEST_PLACE, NothingToDrawError, picture, place_of, time_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEATMAP_COLUMNS = 600
_MAP_LABELS = 40
_ROW, _LOWEST, _HIGHEST = 0.18, 2.4, 11.0
"""Inches: of a GPU, and of the map."""


def heat_map_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw the leading metric of every GPU along time as a map of colours. Raises NothingToDrawError, OSError."""
    name = lead(compared(analysis), Options())
    if name is None or name not in analysis.gpu_series:
        raise NothingToDrawError.of(analysis)
    tall = min(max(_ROW * len(analysis.gpus), _LOWEST), _HIGHEST)
    with picture(analysis, [tall], file, "Which GPU did what when?") as (figure, panels):
        gpu_map(figure, panels[0], analysis, metric_of(name))
        time_labels(panels[0], analysis)


def gpu_map(
    figure: Figure, panel: Axes, analysis: Analysis, metric: Metric, labels: int = _MAP_LABELS, most: int = LONGEST_PLACE
) -> None:  # fmt: skip
    """Every GPU, or the lowest of some neighbours, along time as a row of colours; grey where it has no samples. At most so
    many ``labels`` of at most so many characters."""
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
    rows = range(0, len(analysis.gpus), _label_step(analysis, labels))
    panel.set_yticks(list(rows), [place_of(analysis.gpus[i], most) for i in rows], fontsize=7)
    panel.grid(False)
    panel.set_title(f"{metric.label} of each GPU along time")
    panel.set_title("grey: no samples", loc="right", fontweight="normal", fontsize=9, color=FAINT)


def _label_step(analysis: Analysis, labels: int) -> int:
    """Every how manieth GPU is named: few enough to read, and whole nodes where nodes are alike."""
    step = -(-len(analysis.gpus) // labels)
    per_node, rest = divmod(len(analysis.gpus), max(analysis.n_nodes, 1))
    return step if step == 1 or rest else -(-step // per_node) * per_node
