"""Pictures of an analysis, with matplotlib: along time, and GPU by GPU.

matplotlib takes a second to import and keeps its settings in global state. It is imported when a picture is made, drawn on
without its window system, and its settings are put back.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gssr.metrics import Metric
from gssr.model.analysis import Analysis, Floats
from gssr.model.balance import histogram
from gssr.render.cells import clean, fit
from gssr.render.clock import duration, ticks
from gssr.render.scale import UNKNOWN, fixed, metric_of, percent, unit_of
from gssr.report.axes import full_scale, time_axis
from gssr.report.options import Options, lead
from gssr.report.page import compared, drawn, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 130
_WIDTH = 10.0
_INK, _FAINT, _BLUE, _ORANGE, _BLANK = "#222222", "#8a8a8a", "#2a6f97", "#d1495b", "#e9e9e9"
_STYLE: Any = {
    "font.size": 9.5,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "image.cmap": "cividis",
}
_HEATMAP_COLUMNS = 600
_FEW = 4
"""Up to this many GPUs are drawn as lines, more as a map."""
_NAMED = 24
"""Up to this many GPUs are named beside their bars; of more, the lowest and the highest."""
_MAP_LABELS = 40
_TALLEST = 14.0
_MOST_MARKS, _MARK_TEXTS, _MARK_LENGTH = 200, 50, 20
"""The user's marks: so many are drawn, so many texts have room beside each other, of so many characters."""


def time_series_png(analysis: Analysis, path: str | os.PathLike[str]) -> None:
    """Draw every series of the analysis along time, one small picture below the other: the mean over the GPUs, and shaded
    from the lowest to the highest. Raises OSError when ``path`` can't be written."""
    first = lead(drawn(analysis), Options())
    names = sorted(drawn(analysis), key=lambda name: name != first)
    heights = [2.2, *[1.25] * (len(names) - 1)] if names else [2.2]
    with _picture(analysis, heights, path, "When were the GPUs not used?") as (figure, panels):
        if not names:
            _nothing(panels[0], "no samples")
        for panel, name in zip(panels, names, strict=False):
            _band(panel, analysis, name, legend=name == first)
        for panel in panels[:-1]:
            panel.tick_params(labelbottom=False)
        _time(panels[-1], analysis)
        _user_marks(panels, analysis)
        figure.align_ylabels(panels)


def load_balancing_png(analysis: Analysis, path: str | os.PathLike[str]) -> None:
    """Draw each GPU's time mean of the leading metric, how many GPUs have which, and every GPU along time: lines for up to 4
    GPUs, a map of GPU by time beyond. Raises OSError when ``path`` can't be written."""
    name = lead(compared(analysis), Options())
    many = len(analysis.gpus)
    top = 2.2 if many > _FEW else 0.4 + 0.4 * max(many, 1)
    heights = [top, min(max(0.16 * many, 2.2), 7.0)] if name in analysis.gpu_series else [top]
    with _picture(analysis, heights, path, "Which GPUs differ?", split=many > _FEW) as (figure, panels):
        if name is None:
            for panel in panels:
                _nothing(panel, "no samples" if many else "no GPU")
            return
        metric = metric_of(name)
        _means(panels[0], analysis, metric)
        if many > _FEW:
            _histogram(panels[1], analysis, metric)
        if name in analysis.gpu_series:
            (_map if many > _FEW else _lines)(figure, panels[-1], analysis, metric)
            _time(panels[-1], analysis)


@contextmanager
def _picture(
    analysis: Analysis, heights: list[float], path: str | os.PathLike[str], question: str, split: bool = False
) -> Generator[tuple[Figure, list[Axes]], None, None]:
    """A figure of panels one below the other, its first row split in two on request; written to ``path`` at the end."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        head = 0.85
        tall = min(sum(heights) + 0.42 * len(heights) + head + 0.3, _TALLEST)
        layout = ConstrainedLayoutEngine(rect=(0.005, 0.01, 0.99, 1 - head / tall - 0.01), hspace=0.06)
        figure = Figure(figsize=(_WIDTH, tall), dpi=_DPI, layout=layout, facecolor="white")
        FigureCanvasAgg(figure)
        figure.text(0.012, 1 - 0.28 / tall, question, fontsize=14, fontweight="bold", color=_INK, va="center")
        figure.text(
            0.012, 1 - 0.58 / tall, _subtitle(analysis), fontsize=9, color=_FAINT, va="center", parse_math=False
        )
        grid = figure.add_gridspec(len(heights), 2 if split else 1, height_ratios=heights)
        panels = [figure.add_subplot(grid[0, column]) for column in range(2 if split else 1)]
        panels += [figure.add_subplot(grid[row, :]) for row in range(1, len(heights))]
        yield figure, panels
        figure.savefig(path, format="png", metadata={"Software": None})


def _subtitle(analysis: Analysis) -> str:
    run = analysis.run
    pieces = [clean(run.label or run.run_id)]
    if run.job_id:
        pieces.append(f"job {clean(run.job_id)}")
    pieces.append(place(analysis))
    pieces.append(duration(analysis.window.duration))
    pieces.append(f"score {fixed(analysis.score, 3, UNKNOWN)}")
    balance = analysis.balance.get("sm_active")
    if balance and balance.imbalance is not None:
        pieces.append(f"imbalance of SM active {percent(balance.imbalance)}")
    return "   |   ".join(pieces)


def _nothing(panel: Axes, why: str) -> None:
    panel.text(0.5, 0.5, f"nothing to draw: {why}", transform=panel.transAxes, ha="center", va="center", color=_FAINT)
    panel.set_xticks([])
    panel.set_yticks([])


def _time(panel: Axes, analysis: Analysis) -> None:
    """Label the time axis; it is in seconds from the run's start."""
    axis = time_axis(analysis)
    marks = ticks(axis.begin - axis.origin, axis.end - axis.origin, 90)
    panel.set_xticks([tick.at for tick in marks], [tick.label for tick in marks])
    panel.set_xlim(axis.begin - axis.origin, axis.end - axis.origin)
    panel.set_xlabel("time since the start")


def _bins(analysis: Analysis, start: float, width: float, n: int) -> Floats:
    """The edges [n + 1] of a series' bins, seconds from the run's start."""
    return start - time_axis(analysis).origin + width * np.arange(n + 1, dtype=np.float64)


def _value_axis(panel: Axes, analysis: Analysis, metric: Metric, horizontal: bool = False) -> None:
    full, unit = full_scale(analysis, metric) * unit_of(metric).factor, unit_of(metric).name
    label = f"{metric.label} ({unit})"
    if horizontal:
        panel.set_xlim(0, full)
        panel.set_xlabel(label)
    else:
        panel.set_ylim(0, full)
        panel.set_ylabel(unit)


def _band(panel: Axes, analysis: Analysis, name: str, legend: bool) -> None:
    """One series: its mean as a step line, its band shaded; bins without samples stay empty."""
    series, metric = analysis.series[name], metric_of(name)
    factor = unit_of(metric).factor
    edges = _bins(analysis, series.start, series.width, len(series.mean))
    if len(analysis.gpus) > 1:
        low, high = factor * series.low, factor * series.high
        panel.stairs(
            high, edges, baseline=low, fill=True, color=_BLUE, alpha=0.22, linewidth=0, label="lowest to highest GPU"
        )
    panel.stairs(factor * series.mean, edges, baseline=None, color=_BLUE, linewidth=1.3, label="mean over GPUs")
    _value_axis(panel, analysis, metric)
    statistics = analysis.metrics.get(name)
    panel.set_title(metric.label)
    if statistics is not None and statistics.mean is not None:
        overall = factor * statistics.mean
        panel.axhline(overall, color=_ORANGE, linewidth=0.9, linestyle=(0, (4, 3)), label="mean over GPUs and time")
        text = f"mean {fixed(overall, unit_of(metric).decimals)} {unit_of(metric).name}"
        panel.set_title(text, loc="right", fontweight="normal", fontsize=9, color=_ORANGE)
    if legend:
        panel.legend(
            loc="lower right", bbox_to_anchor=(0.86, 0.99), ncols=3, frameon=False, fontsize=8, borderaxespad=0.1
        )
    panel.set_xlim(edges[0], edges[-1])
    _time(panel, analysis)
    panel.set_xlabel("")


def _user_marks(panels: list[Axes], analysis: Analysis) -> None:
    """A thin line through all panels at each of the user's marks; in the first panel their texts, as many as don't touch."""
    axis = time_axis(analysis)
    marks = [event for event in analysis.events if event.kind == "mark" and axis.begin <= event.time <= axis.end]
    free = axis.begin
    for event in marks[:_MOST_MARKS]:
        at = event.time - axis.origin
        for panel in panels:
            panel.axvline(at, color=_FAINT, linewidth=0.7, alpha=0.8)
        if event.time >= free:
            text = fit(event.message, _MARK_LENGTH, "...")
            panels[0].annotate(
                text, (at, 1.0), xycoords=("data", "axes fraction"), xytext=(2, -3), textcoords="offset points",
                rotation=90, ha="left", va="top", fontsize=7, color=_INK, parse_math=False, annotation_clip=True,
            )  # fmt: skip
            free = event.time + (axis.end - axis.begin) / _MARK_TEXTS


def _means(panel: Axes, analysis: Analysis, metric: Metric) -> None:
    """The GPUs' means, sorted; a GPU without samples has none."""
    factor = unit_of(metric).factor
    found = sorted((mean, -i) for i, gpu in enumerate(analysis.gpus) if (mean := gpu.mean.get(metric.name)) is not None)
    values = factor * np.array([mean for mean, _ in found])
    panel.barh(np.arange(len(values)), values, height=0.8 if len(values) <= _NAMED else 1.0, color=_BLUE, alpha=0.85)
    if len(values) > 1:
        panel.axvline(float(np.median(values)), color=_ORANGE, linewidth=1.0, linestyle=(0, (4, 3)), label="median GPU")
        panel.legend(loc="lower right", frameon=False, fontsize=8)
    _value_axis(panel, analysis, metric, horizontal=True)
    panel.set_ylim(-0.6, len(values) - 0.4)
    places = [clean(analysis.gpus[-i].place) for _, i in found]
    shown = (
        range(len(places)) if len(places) <= _NAMED else [0, 1, 2, len(places) - 3, len(places) - 2, len(places) - 1]
    )
    if len(places) > 3 * _NAMED:
        shown = [0, len(places) - 1]
    panel.set_yticks(list(shown), [places[i] for i in shown], fontsize=8 if len(places) <= 12 else 6.5)
    panel.grid(False, axis="y")
    panel.set_title("Mean over time of each GPU")


def _histogram(panel: Axes, analysis: Analysis, metric: Metric) -> None:
    from matplotlib.ticker import MaxNLocator

    found, factor = histogram(metric, analysis.gpus), unit_of(metric).factor
    edges = factor * found.edges
    panel.stairs(found.counts, edges, fill=True, color=_BLUE, alpha=0.85)
    for left, right, n in zip(edges[:-1], edges[1:], found.counts.tolist(), strict=True):
        if n:
            panel.text((left + right) / 2, n, str(n), ha="center", va="bottom", fontsize=8, color=_INK)
    panel.set_ylim(0, max(int(found.counts.max()), 1) * 1.15)
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlim(edges[0], edges[-1])
    panel.set_xlabel(f"{metric.label} ({unit_of(metric).name})")
    panel.set_ylabel("GPUs")
    panel.set_title("How many GPUs have which mean")
    panel.grid(False, axis="x")


def _map(figure: Figure, panel: Axes, analysis: Analysis, metric: Metric) -> None:
    """Every GPU along time as a row of colours; grey where it has no samples."""
    series, factor = analysis.gpu_series[metric.name], unit_of(metric).factor
    axis = time_axis(analysis)
    n = min(max(series.values.shape[1], 1), _HEATMAP_COLUMNS)
    values = factor * axis.columns(series.values, series.start, series.width, n)
    panel.set_facecolor(_BLANK)
    picture = panel.imshow(
        np.ma.masked_invalid(values), aspect="auto", interpolation="nearest", vmin=0,
        vmax=full_scale(analysis, metric) * factor,
        extent=(axis.begin - axis.origin, axis.end - axis.origin, len(analysis.gpus) - 0.5, -0.5),
    )  # fmt: skip
    figure.colorbar(picture, ax=panel, pad=0.01, aspect=30, label=f"{metric.label} ({unit_of(metric).name})")
    rows = range(0, len(analysis.gpus), _label_step(analysis))
    panel.set_yticks(list(rows), [clean(analysis.gpus[i].place) for i in rows], fontsize=7)
    panel.grid(False)
    panel.set_title(f"{metric.label} of each GPU along time")
    panel.set_title("grey: no samples", loc="right", fontweight="normal", fontsize=9, color=_FAINT)


def _label_step(analysis: Analysis) -> int:
    """Every how manieth GPU is named: few enough to read, and whole nodes where nodes are alike."""
    step = -(-len(analysis.gpus) // _MAP_LABELS)
    per_node, rest = divmod(len(analysis.gpus), max(analysis.n_nodes, 1))
    return step if step == 1 or rest else -(-step // per_node) * per_node


def _lines(_: Figure, panel: Axes, analysis: Analysis, metric: Metric) -> None:
    """A line per GPU."""
    series, factor = analysis.gpu_series[metric.name], unit_of(metric).factor
    edges = _bins(analysis, series.start, series.width, series.values.shape[1])
    for gpu, values in zip(analysis.gpus, factor * series.values, strict=True):
        panel.step(
            edges, np.append(values, values[-1:]), where="post", linewidth=1.1, alpha=0.9, label=clean(gpu.place)
        )
    _value_axis(panel, analysis, metric)
    # Above the panel: GPUs that are well used have their lines where a legend would lie.
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, frameon=False, fontsize=8, ncols=4)
    panel.set_title(f"{metric.label} of each GPU along time")
