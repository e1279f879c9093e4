"""Pictures of an analysis: along time, and GPU by GPU.

A picture of the roofline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from gssr.metrics import Metric, best_measured
from gssr.model.results import Analysis, Series
from gssr.model.statistics.balance import histogram
from gssr.render.cells import fit
from gssr.render.roofline import FLOPS, INTENSITY, engineering, power_of_ten_text
from gssr.render.scale import fixed, metric_of, percent, unit_of
from gssr.report.load_balancing import outliers_of
from gssr.report.page import compared, drawn, time_axis
from gssr.report.phases import WHOLE, drawn_roofs, intensity_text, roofline_points
from gssr.report.png.figure import (
    BLUE,
    FAINT,
    INK,
    LONGEST_PLACE,
    ORANGE,
    NothingToDrawError,
    color_names,
    draw_steps,
    edges_of,
    new_picture,
    place_of,
    time_labels,
    value_axis,
)
from gssr.report.png.png_over_time import COLOURS, gpu_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_FEW = 4
"""Up to this many GPUs are drawn as lines, more as a map."""
_MOST_BARS = 4096
"""More GPUs than a picture has lines are drawn as one shape: each bar is an object of its own."""
_LINES = (BLUE, "#2d9c78", "#7a5195", "#8a8a8a")
"""Of up to _FEW GPUs that are like each other."""
_NAMED = 24
"""Up to this many GPUs are named beside their bars; of more, the lowest and the highest."""
_MOST_MARKS, _MARK_TEXTS, _MARK_LENGTH = 200, 50, 20
"""The user's marks: so many are drawn, so many texts have room beside each other, of so many characters."""


def time_series_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw every series of the analysis along time, one small picture below the other: the mean over the GPUs, and
    shaded from the lowest to the highest. Raises NothingToDrawError, OSError."""
    first = best_measured(drawn(analysis))
    names = sorted(drawn(analysis), key=lambda name: name != first)
    if not names:
        raise NothingToDrawError.of(analysis)
    heights = [2.2, *[1.25] * (len(names) - 1)]
    with new_picture(analysis, heights, file, "When were the GPUs not used?") as (figure, panels):
        for panel, name in zip(panels, names, strict=False):
            band(panel, analysis, analysis.series[name], legend=name == first)
        for panel in panels[:-1]:
            panel.tick_params(labelbottom=False)
        time_labels(panels[-1], analysis)
        _user_marks(panels, analysis)
        figure.align_ylabels(panels)


def load_balancing_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw each GPU's mean of the leading metric, how many GPUs have which, and every GPU along time: lines for up to
    _FEW GPUs, else a map. Raises NothingToDrawError, OSError."""
    name = best_measured(compared(analysis))
    many = len(analysis.gpus)
    if name is None:
        raise NothingToDrawError.of(analysis)
    top = 2.2 if many > _FEW else 0.4 + 0.4 * many
    heights = [top, min(max(0.16 * many, 2.2), 7.0)] if name in analysis.gpu_series else [top]
    with new_picture(analysis, heights, file, "Which GPUs differ?", split=many > _FEW) as (figure, panels):
        metric = metric_of(name)
        means_in_order(panels[0], analysis, metric)
        if many > _FEW:
            histogram_of_means(panels[1], analysis, metric)
        if name in analysis.gpu_series:
            if many > _FEW:
                gpu_map(figure, panels[-1], analysis, metric)
            else:
                lines(panels[-1], analysis, metric)
            time_labels(panels[-1], analysis)


def band(panel: Axes, analysis: Analysis, series: Series, legend: bool) -> None:
    """Draw one series: its mean as a step line, its bands shaded; bins without samples stay empty."""
    name, metric = series.metric, metric_of(series.metric)
    factor = unit_of(metric).factor
    edges = edges_of(analysis, series.start, series.width, len(series.mean))
    if int(series.n_gpus.max(initial=0)) > 1:
        low, high = factor * series.low, factor * series.high
        draw_steps(panel, edges, high, low, color=BLUE, alpha=0.16, label="lowest to highest GPU")
    if len(analysis.gpus) > 2 and name in analysis.gpu_series:
        middle = factor * series.p95, factor * series.p05
        draw_steps(panel, edges, *middle, color=BLUE, alpha=0.22, label="middle 90 % of them")
    draw_steps(panel, edges, factor * series.mean, color=BLUE, linewidth=1.3, label="mean over GPUs")
    value_axis(panel, analysis, metric)
    statistics = analysis.metrics.get(name)
    panel.set_title(metric.label)
    if statistics is not None and statistics.mean is not None:
        overall = factor * statistics.mean
        panel.axhline(overall, color=ORANGE, linewidth=0.9, linestyle=(0, (4, 3)), label="and over time")
        text = f"mean {fixed(overall, unit_of(metric).decimals)} {unit_of(metric).name}"
        panel.set_title(text, loc="right", fontweight="normal", fontsize=9, color=ORANGE)
    if legend:
        panel.legend(
            loc="lower right", bbox_to_anchor=(0.86, 0.99), ncols=4, frameon=False, fontsize=8, borderaxespad=0.1
        )
    panel.set_xlim(edges[0], edges[-1])
    time_labels(panel, analysis)
    panel.set_xlabel("")


def _user_marks(panels: list[Axes], analysis: Analysis) -> None:
    """Draw a thin line through all panels at each of the user's marks, and in the first panel as many of their texts
    as don't touch."""
    axis = time_axis(analysis)
    marks = [event for event in analysis.events if event.kind == "mark" and axis.begin <= event.time <= axis.end]
    free = axis.begin
    for event in marks[:_MOST_MARKS]:
        at = event.time - axis.origin
        for panel in panels:
            panel.axvline(at, color=FAINT, linewidth=0.7, alpha=0.8)
        if event.time >= free:
            text = fit(event.message, _MARK_LENGTH, "...")
            panels[0].annotate(
                text, (at, 1.0), xycoords=("data", "axes fraction"), xytext=(2, -3), textcoords="offset points",
                rotation=90, ha="left", va="top", fontsize=7, color=INK, parse_math=False, annotation_clip=True,
            )  # fmt: skip
            free = event.time + (axis.end - axis.begin) / _MARK_TEXTS


def means_in_order(panel: Axes, analysis: Analysis, metric: Metric, most: int = LONGEST_PLACE) -> None:
    """Draw the GPUs' means, sorted, with labels of at most ``most`` characters; a GPU without samples has no bar."""
    factor = unit_of(metric).factor
    found = sorted((mean, -i) for i, gpu in enumerate(analysis.gpus) if (mean := gpu.mean.get(metric.name)) is not None)
    values = factor * np.array([mean for mean, _ in found])
    outliers = outliers_of(analysis, metric)
    apart = np.array([-position in outliers for _, position in found], bool)
    for mine, color in ((~apart, BLUE), (apart, ORANGE)):
        at = np.flatnonzero(mine)
        if len(values) <= _MOST_BARS:
            panel.barh(at, values[at], height=0.8 if len(values) <= _NAMED else 1.0, color=color, alpha=0.85)
        elif len(at):
            edges = np.arange(len(values) + 1) - 0.5
            own = np.where(mine, values, np.nan)
            panel.stairs(own, edges, orientation="horizontal", fill=True, color=color, alpha=0.85)
    if len(values) > 1:
        panel.axvline(float(np.median(values)), color=INK, linewidth=1.0, linestyle=(0, (4, 3)), label="their median")
        _legend_above(panel)
    value_axis(panel, analysis, metric, horizontal=True)
    panel.set_ylim(-0.6, len(values) - 0.4)
    shown = range(len(found)) if len(found) <= _NAMED else [0, len(found) - 1]
    places = [_marked(place_of(analysis.gpus[-found[i][1]], most), apart[i]) for i in shown]
    panel.set_yticks(list(shown), places, fontsize=8 if len(found) <= 12 else 6.5)
    color_names(panel, [i for i, at in enumerate(shown) if apart[at]])
    panel.grid(False, axis="y")
    panel.set_title("Each GPU's mean")


def histogram_of_means(panel: Axes, analysis: Analysis, metric: Metric) -> None:
    """Draw how many GPUs have which mean, those unlike the rest in another colour."""
    from matplotlib.ticker import MaxNLocator

    found, factor = histogram(metric, analysis.gpus), unit_of(metric).factor
    edges, outliers = factor * found.edges, outliers_of(analysis, metric)
    panel.stairs(found.counts, edges, fill=True, color=BLUE, alpha=0.85)
    apart = np.array([len(outliers.intersection(members)) for members in found.members])
    if apart.any():
        panel.stairs(apart, edges, fill=True, color=ORANGE)
    for left, right, n in zip(edges[:-1], edges[1:], found.counts.tolist(), strict=True):
        if n:
            panel.text((left + right) / 2, n, str(n), ha="center", va="bottom", fontsize=8, color=INK)
    panel.set_ylim(0, max(int(found.counts.max()), 1) * 1.15)
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlim(edges[0], edges[-1])
    panel.set_xlabel(f"{metric.label} ({unit_of(metric).name})")
    panel.set_ylabel("GPUs")
    panel.set_title("How many GPUs have which mean")
    panel.grid(False, axis="x")


def lines(panel: Axes, analysis: Analysis, metric: Metric) -> None:
    """Draw a line for each GPU, for at most _FEW."""
    series, factor = analysis.gpu_series[metric.name], unit_of(metric).factor
    edges = edges_of(analysis, series.start, series.width, series.values.shape[1])
    outliers, colors = outliers_of(analysis, metric), iter(_LINES)
    for i, values in enumerate(factor * series.values):
        last = np.append(values, values[-1:])
        color, name = ORANGE if i in outliers else next(colors), _marked(place_of(analysis.gpus[i]), i in outliers)
        panel.step(edges, last, where="post", linewidth=1.1, alpha=0.9, color=color, label=name)
    value_axis(panel, analysis, metric)
    _legend_above(panel)
    panel.set_title(f"{metric.label} of each GPU over time")


def _legend_above(panel: Axes) -> None:
    """Above the panel: GPUs that are well used have their lines and bars where a legend would lie."""
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, frameon=False, fontsize=8, ncols=4)


def _marked(name: str, apart: bool) -> str:
    """A GPU's name, with a sign where its colour says that it is unlike the rest."""
    return f"! {name}" if apart else name


CAVEAT = "upper bounds: pipe activities x peaks, DRAM activity x peak bandwidth"


def roofline_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw where the run and its phases lie under the roofline of their GPUs. Raises NothingToDrawError, OSError."""
    if analysis.judgement.peaks is None or not roofline_points(analysis):
        why = analysis.judgement.place if isinstance(analysis.judgement.place, str) else "it was not looked at"
        raise NothingToDrawError(why)
    with new_picture(analysis, [5.2], file, "What bounds it?") as (_, panels):
        roofline(panels[0], analysis)
        panels[0].set_title(CAVEAT, loc="right", fontweight="normal", fontsize=9, color=FAINT)


def roofline(panel: Axes, analysis: Analysis) -> None:
    """Draw where the run and its phases lie into empty axes. Needs peaks and at least one place (``roofline_points``)."""
    peaks, found = analysis.judgement.peaks, roofline_points(analysis)
    assert peaks is not None
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(10.0 ** INTENSITY[0], 10.0 ** INTENSITY[1])
    panel.set_ylim(10.0 ** FLOPS[0], 10.0 ** FLOPS[1])
    panel.set_yticks([10.0**power for power in range(FLOPS[0], FLOPS[1] + 1)])
    panel.set_yticklabels([power_of_ten_text(power) for power in range(FLOPS[0], FLOPS[1] + 1)])
    panel.set_xticks([10.0**power for power in range(INTENSITY[0], INTENSITY[1] + 1)])
    panel.set_xticklabels([f"{10.0**power:,g}" for power in range(INTENSITY[0], INTENSITY[1] + 1)])
    panel.minorticks_off()
    panel.set_xlabel("arithmetic intensity (FLOP/B)")
    panel.set_ylabel("FLOP/s of a GPU")
    panel.set_title(f"{peaks.model}: at most this many FLOP/s")
    bandwidth = peaks.memory_bandwidth
    for number, (label, peak) in enumerate(drawn_roofs(peaks, analysis)):
        ridge = peak / bandwidth
        xs = np.array([10.0 ** INTENSITY[0] if number == 0 else ridge, ridge, 10.0 ** INTENSITY[1]])
        panel.plot(xs, np.minimum(xs * bandwidth, peak), color=BLUE, linewidth=1.8 if number == 0 else 1.0)
        panel.annotate(
            f"{label}: {engineering(peak)}FLOP/s", (10.0 ** INTENSITY[1], peak), xytext=(-4, 3),
            textcoords="offset points", ha="right", va="bottom", fontsize=8.5, color=INK,
        )  # fmt: skip
    panel.annotate(
        f"memory: {engineering(bandwidth)}B/s", (0.3, 0.3 * bandwidth), xytext=(8, -2),
        textcoords="offset points", ha="left", va="top", fontsize=8.5, color=INK,
    )  # fmt: skip
    for mark, name, place in found:
        kind = next((kind for kind in COLOURS if kind == name), None)
        colour = COLOURS[kind] if kind else ORANGE
        x, y = _inside(place.intensity, INTENSITY), _inside(place.flops, FLOPS)
        title = name if mark == WHOLE else f"{mark} {name}"
        text = f"{title}: {intensity_text(place)}, {percent(place.of_roof)} of its roof"
        panel.plot(
            [x], [y], marker="*" if mark == WHOLE else "o", markersize=13 if mark == WHOLE else 9, color=colour,
            markeredgecolor=INK, linestyle="none", label=text,
        )  # fmt: skip
        if mark != WHOLE:
            panel.annotate(mark, (x, y), xytext=(6, -6), textcoords="offset points", va="top", fontsize=9, color=INK)
    panel.legend(loc="upper left", frameon=False, fontsize=8.5)  # above the roof, where no place can be


def _inside(value: float, decades: tuple[int, int]) -> float:
    """The value, or the end of the axis that it lies beyond."""
    return float(min(max(value, 10.0 ** decades[0]), 10.0 ** decades[1]))
