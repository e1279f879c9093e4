"""When not: the GPUs averaged over space, along time.

Every GPU along time in a bounded number of rows.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.metrics import Metric, best_measured
from gssr.model.results import Analysis, Grid, Series
from gssr.render.cells import clean, clip, fit, pad
from gssr.render.clock import LEGEND, in_columns, timed
from gssr.render.columns import strip
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import count, metric_of, number, scale_text, unit_of
from gssr.report.page import PageOptions, drawn, events, full_scale, happened, section, time_axis

_GUTTER = 18
_NARROW_GUTTER = 7
_CHARTS = {"low": (), "medium": (), "high": ("tensor_active", "dram_active", "power_usage")}
"""What is drawn as a chart beside the leading metric; everything else gets a line."""
_HEIGHT = 11
_EVENTS = {"low": 0, "medium": 8, "high": 40}


def time_series(analysis: Analysis, options: PageOptions) -> list[Row]:
    """The part of the page that says when the GPUs were not used."""
    from gssr.report.plotext_chart import LEAST_COLUMNS  # it takes a tenth of a second to import

    width, marks = options.width, glyph_set(options.ascii)
    rows = section("When not?", width, marks, "averages over the GPUs, over time")
    names = drawn(analysis)
    name = best_measured(names, options.metrics or ())
    gutter = _GUTTER if width >= 60 else _NARROW_GUTTER
    room = width - gutter - 1
    if name is None or room < LEAST_COLUMNS:
        rows.append(clip((Span("nothing to draw: no samples" if name is None else "too narrow to draw"),), width))
        return rows
    charts = [name, *(other for other in _CHARTS[options.verbosity] if other in names and other != name)]
    for i, chart in enumerate(charts):
        rows += [()] if i else []
        rows += _chart(analysis, analysis.series[chart], width, gutter, room, marks)
    lines = [other for other in names if other not in charts]
    if lines and options.verbosity != "low":
        rows += _strips(analysis, lines, width, gutter, room, marks)
    if events(analysis):
        rows += _when_events(analysis, width, gutter, room)
    rows += _events(analysis, options)
    return rows


def _chart(analysis: Analysis, series: Series, width: int, gutter: int, room: int, marks: Glyphs) -> list[Row]:
    from gssr.report.plotext_chart import band_chart

    metric = metric_of(series.metric)
    full = full_scale(analysis, metric)
    axis = time_axis(analysis)
    mean, low, high = (
        axis.columns(values, series.start, series.width, room) / full
        for values in (series.mean, series.low, series.high)
    )
    title, band = f"{metric.label}, mean", ""
    if len(analysis.gpus) > 1:
        title += f" over {count(len(analysis.gpus), 'GPU')}"
        band = f"  {marks.band * 3} lowest to highest GPU"
    labels = ["0", scale_text(metric, full / 2), scale_text(metric, full)]
    return [
        clip((Span(title, "heading"), Span(band, "dim")), width),
        *band_chart(mean, low, high, labels, axis.ticks(room), gutter, _HEIGHT, marks),
    ]


def _strips(analysis: Analysis, names: list[str], width: int, gutter: int, room: int, marks: Glyphs) -> list[Row]:
    """One line per metric, in the columns of the chart above."""
    axis = time_axis(analysis)
    rows: list[Row] = []
    for name in names:
        series, metric = analysis.series[name], metric_of(name)
        values = axis.columns(series.mean, series.start, series.width, room)
        fractions = (values / full_scale(analysis, metric)).tolist()
        rows.append(clip((*_legend(analysis, metric, gutter, marks), Span(" "), *strip(fractions, marks)), width))
    return [(), *rows]


def _legend(analysis: Analysis, metric: Metric, gutter: int, marks: Glyphs) -> Row:
    """The metric's short name, and its mean where there is room."""
    if gutter < _GUTTER:
        return pad((Span(fit(metric.short, gutter, marks.ellipsis)),), gutter)
    statistics = analysis.metrics.get(metric.name)
    mean = number(statistics.mean if statistics else None, metric)
    unit = unit_of(metric).name
    return (Span(f"{metric.short:<7}"), Span(f"{mean:>6} {unit:<4}", "dim"))


def _when_events(analysis: Analysis, width: int, gutter: int, room: int) -> list[Row]:
    """What happened, as letters in the columns of the chart above."""
    axis = time_axis(analysis)
    found = in_columns(*timed(events(analysis)), axis.begin, (axis.end - axis.begin) / room, room)
    cells = [Span(*found.get(column, (" ", "plain"))) for column in range(room)]
    name = f"{'events':<{gutter}} "
    return [clip((Span(name), *cells), width), clip((Span(" " * len(name) + LEGEND, "dim"),), width)]


def _events(analysis: Analysis, options: PageOptions) -> list[Row]:
    """What happened while it ran, oldest first."""
    most = _EVENTS[options.verbosity]
    n, told = len(events(analysis)), happened(analysis, most)
    if not told:
        return []
    width, marks = options.width, glyph_set(options.ascii)
    rows: list[Row] = [(), (Span("events", "heading"),)]
    for at, text in told:
        rows.append(clip((Span(f"{at:>10}  ", "dim"), Span(fit(text, width - 12, marks.ellipsis))), width))
    if n > len(told):
        rows.append(clip((Span(f"{'':>10}  and {count(n - len(told), 'more event')}", "dim"),), width))
    return rows


MOST_ROWS = 1024
"""More GPUs share rows; a screen has no more lines."""


def named_rows(rows: int, step: int, apart: Collection[int]) -> list[int]:
    """Which of so many rows have their name beside them where there is room for every ``step``-th: those that are ``apart``
    first, and the others where they are not too near to one of these."""
    kept: list[int] = []
    for row in sorted(apart):
        if not kept or row - kept[-1] >= step:
            kept.append(row)
    others = (row for row in range(0, rows, step) if all(abs(row - own) >= step for own in kept))
    return sorted([*kept, *others])


class HeatMap(NamedTuple):
    """``values`` [n_rows, n_bins], the least of the row's GPUs in each bin, NaN where none has a sample. ``first`` [n_rows]
    is the position of each row's first GPU, ``each`` how many share a row (the last may have fewer)."""

    values: Floats
    first: NDArray[np.int64]
    each: int


def heat_map(series: Grid, n_nodes: int) -> HeatMap:
    """The series of all GPUs; of more than MOST_ROWS, neighbours in one row, whole nodes where nodes are alike. The least of
    them stays: a GPU that waits must not vanish among those that work."""
    n = len(series.values)
    each = max(-(-n // MOST_ROWS), 1)
    per_node, rest = divmod(n, max(n_nodes, 1))
    if each > 1 and per_node and not rest:
        each = -(-each // per_node) * per_node
    first = np.arange(0, n, each)
    return HeatMap(np.fmin.reduceat(series.values, first, axis=0) if n else series.values, first, each)


def short_place(place: str, most: int) -> str:
    """``node:index`` in at most so many characters: without the node's domain where it is longer, then from its end."""
    if len(place) > most:
        node, colon, index = place.rpartition(":")
        place = f"{node.partition('.')[0]}{colon}{index}"
    return fit(place, most, "…", keep="end")


def row_name(analysis: Analysis, found: HeatMap, row: int) -> str:
    """The GPU, or the first and the last GPU, of a row."""
    first = int(found.first[row])
    last = min(first + found.each, len(analysis.gpus)) - 1
    places = [clean(analysis.gpus[gpu].place) for gpu in dict.fromkeys((first, last))]
    return " to ".join(places)
