"""Which GPUs differ: each GPU's mean over time, against the others."""

from collections.abc import Sequence
from functools import partial
from statistics import median

import numpy as np

from gssr.metrics import Metric
from gssr.model.results import Analysis
from gssr.model.statistics.balance import histogram
from gssr.render.bar import bar
from gssr.render.cells import cell_width, clean, clip, fit, wrap
from gssr.render.glyphs import Glyphs, glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import count, fixed, metric_of, number, percent, quantity, unit_of
from gssr.render.strip import strip
from gssr.render.table import Cell, Column, table
from gssr.report.axes import full_scale, time_axis
from gssr.report.options import KEY_METRICS, Options, lead
from gssr.report.page import compared, imbalance_text, remark, section, strip_legend
from gssr.report.unevenness import costs, groups

ALL_GPUS = 16
"""Up to this many GPUs all are shown; beyond, the extremes."""
EXTREMES = 5
_LEAST_FOR_HISTOGRAM = 5
_NAMED = 2
"""Up to this many GPUs in a bin of the histogram are named."""
_COUNT, _LEAST_NAME = 6, 8
"""Cells for the count of a bin, and the fewest in which names are worth it."""
_OUTLIER = 0.8
"""A GPU whose mean is below this share of the median GPU's is marked with ``!`` (a threshold of our own)."""


def load_balancing(analysis: Analysis, options: Options) -> list[Row]:
    """The part of the page that says which GPUs differ."""
    width, marks = options.width, glyphs(options.ascii)
    name = lead(compared(analysis), options)
    about = f"means over time of each GPU's {metric_of(name).label}" if name else ""
    rows = section("Which GPUs differ?", width, marks, about)
    if name is None:
        rows.append(clip((Span("nothing to compare: " + ("no samples" if analysis.gpus else "no GPU")),), width))
        return rows
    metric, many = metric_of(name), len(analysis.gpus)
    rows += remark(imbalance_text(analysis, name), width, "plain", label="imbalance")
    if many > 1:
        rows += remark("1 - mean/max of the GPUs' means; 0 % is even", width)
    rows += costs(analysis, options)
    if many >= _LEAST_FOR_HISTOGRAM and options.verbosity != "low":
        rows += [(), *_histogram(analysis, metric, width, marks)]
    rows += _gpus(analysis, metric, options, marks)
    if options.verbosity != "low":
        rows += groups(analysis, options)
    if many > 1 and options.verbosity != "low":
        rows += _others(analysis, metric, options, marks)
    return rows


def _histogram(analysis: Analysis, metric: Metric, width: int, marks: Glyphs) -> list[Row]:
    """How many GPUs have which mean: a line per bin from the highest that holds any to the lowest, and who is in it."""
    from gssr.report.plotext_chart import histogram_chart  # a page without a drawing needs no plotext

    found, unit = histogram(metric, analysis.gpus), unit_of(metric)
    title = clip((Span("number of GPUs", "heading"), Span(f" by mean {metric.label}, {unit.name}", "dim")), width)
    shown = [edge * unit.factor for edge in found.edges.tolist()]
    decimals = 0 if all(abs(edge - round(edge)) < 1e-6 for edge in shown) else unit.decimals
    edges = [fixed(edge, decimals) for edge in shown]
    held = np.flatnonzero(found.counts)
    bins = range(int(held[-1]), int(held[0]) - 1, -1) if len(held) else range(0)
    size = max(map(len, edges))
    indent = "  " if width >= 40 else ""
    labels = [f"{indent}{edges[i]:>{size}} - {edges[i + 1]:>{size}}" for i in bins]
    counts = [int(found.counts[i]) for i in bins]
    names = [
        ", ".join(clean(analysis.gpus[i].place) for i in members) if len(members) <= _NAMED else ""
        for members in (found.members[i] for i in bins)
    ]
    spare = width - len(indent) - 2 * size - 4 - _COUNT
    tail = min(max(map(cell_width, names), default=0), spare // 2)
    tail = tail + 2 if tail >= _LEAST_NAME else 0
    bars = histogram_chart(labels, counts, spare - tail, marks) or [(Span(f"{label} "),) for label in labels]
    rows = []
    for drawn, n, name in zip(bars, counts, names, strict=True):
        about = Span(fit(f"  {name}", tail, marks.ellipsis), "dim")
        rows.append(clip((*drawn, Span(f"{n:>{_COUNT}}", "plain" if n else "dim"), about), width))
    return [title, *rows]


def _gpus(analysis: Analysis, metric: Metric, options: Options, marks: Glyphs) -> list[Row]:
    """Each GPU, or the lowest and the highest few, with its course over time."""
    apart = behind(analysis, metric)
    rows: list[Row] = []
    for title, group in listed(analysis, metric):
        rows += [(), *_group(analysis, metric, title, group, apart, options, marks)]
    if metric.name in analysis.gpu_series and options.width >= 60:
        rows += wrap(strip_legend(metric, full_scale(analysis, metric), marks), options.width, role="dim")
    if apart:
        rows += wrap(f"! {behind_text(analysis, metric)}", options.width, role="outlier")
    silent = len(analysis.gpus) - len(_means(analysis, metric))
    if silent:
        rows += wrap(f"{count(silent, 'GPU')} without samples of {metric.label}", options.width, role="gap")
    return rows


def listed(analysis: Analysis, metric: Metric) -> list[tuple[str, Sequence[int]]]:
    """The GPUs that are listed one by one, as positions under titles: all of them, or the lowest and the highest few."""
    if len(analysis.gpus) <= ALL_GPUS:
        return [("all GPUs", range(len(analysis.gpus)))]
    means = _means(analysis, metric)
    ranked = sorted(means, key=lambda i: (means[i], i))
    low = ranked[:EXTREMES]
    high = ranked[len(low) :][-EXTREMES:][::-1]
    return [(f"lowest {len(low)}", low), (f"highest {len(high)}", high)]


def behind(analysis: Analysis, metric: Metric) -> frozenset[int]:
    """The positions of the GPUs whose mean is far below the median GPU's."""
    means = _means(analysis, metric)
    bound = _OUTLIER * median(means.values()) if len(means) > 1 else 0.0
    return frozenset(i for i, mean in means.items() if mean < bound)


def behind_text(analysis: Analysis, metric: Metric) -> str:
    """How many these are, and below what."""
    middle = quantity(median(_means(analysis, metric).values()), metric)
    n = len(behind(analysis, metric))
    return f"{count(n, 'GPU')} below {percent(_OUTLIER)} of the median GPU's {middle}"


def _means(analysis: Analysis, metric: Metric) -> dict[int, float]:
    """The mean over time of each GPU that has one, by position."""
    return {i: mean for i, gpu in enumerate(analysis.gpus) if (mean := gpu.mean.get(metric.name)) is not None}


def _group(
    analysis: Analysis, metric: Metric, title: str, group: Sequence[int], apart: frozenset[int], options: Options,
    marks: Glyphs,
) -> list[Row]:  # fmt: skip
    full = full_scale(analysis, metric)
    head = [
        Column(title, keep="end"),
        Column(unit_of(metric).name, "right"),
        Column("", drop=3, least=8, most=12),
        Column("score", "right", drop=1),
        Column("", drop=2, least=10, most=240),
    ]
    lines: list[list[Cell]] = []
    for i in group:
        gpu = analysis.gpus[i]
        mean = gpu.mean.get(metric.name)
        role: Role = "outlier" if i in apart else "plain"
        lines.append([
            (Span("! " if i in apart else "  ", "outlier"), Span(clean(gpu.place), role)),
            (Span(number(mean, metric), "value"),),
            partial(bar, None if mean is None else mean / full, glyphs=marks),
            fixed(gpu.score, 3),
            partial(_course, analysis, metric, i, full, marks),
        ])  # fmt: skip
    if metric.name in analysis.gpu_series:
        lines.append(["", "", "", "", lambda room: (Span(time_axis(analysis).text(room), "dim"),)])
    return table(head, lines, options.width, marks, gap=2)


def _course(analysis: Analysis, metric: Metric, position: int, full: float, marks: Glyphs, room: int) -> Row:
    """One GPU over time, ``room`` cells wide; empty where its series was not kept."""
    series = analysis.gpu_series.get(metric.name)
    if series is None:
        return ()
    values = time_axis(analysis).columns(series.values[position], series.start, series.width, room)
    return strip((values / full).tolist(), marks)


def _others(analysis: Analysis, metric: Metric, options: Options, marks: Glyphs) -> list[Row]:
    """The balance of the other metrics that say how evenly work is spread."""
    wanted = KEY_METRICS if options.verbosity == "medium" else tuple(analysis.balance)
    lines: list[list[Cell]] = []
    for name, balance in analysis.balance.items():
        asked = name in wanted or name in (options.metrics or ())
        if name == metric.name or not asked or balance.lowest is None or balance.highest is None:
            continue
        other = metric_of(name)
        low, high = balance.lowest, balance.highest
        lines.append([
            other.label,
            percent(balance.imbalance),
            quantity(low.mean.get(name), other), clean(low.place),
            quantity(high.mean.get(name), other), clean(high.place),
        ])  # fmt: skip
    if not lines:
        return []
    head = [
        Column("other metrics"),
        Column("imbalance", "right"),
        Column("lowest", "right", drop=1),
        Column("", drop=2, keep="end"),
        Column("highest", "right", drop=1),
        Column("", drop=2, keep="end"),
    ]
    return [(), *table(head, lines, options.width, marks, gap=2)]
