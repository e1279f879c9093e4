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
from gssr.render.cells import clean, clip, fit, pad, wrap
from gssr.render.clock import LEGEND, event_marks_by_column, event_times_and_ranks
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
    """Draw the part of the page that says when the GPUs were not used: a chart, a line for each other metric, and
    events. One sentence if there are no samples or no room."""
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
    """Draw a title and a chart of one metric with its band from the lowest to the highest GPU.

    ``gutter``: cells left of the axis, for labels; ``room``: cells for the time.
    """
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
    """Draw one line for each metric, in the columns of the chart above; ``gutter`` and ``room`` as in ``_chart``."""
    axis = time_axis(analysis)
    rows: list[Row] = []
    for name in names:
        series, metric = analysis.series[name], metric_of(name)
        values = axis.columns(series.mean, series.start, series.width, room)
        fractions = (values / full_scale(analysis, metric)).tolist()
        rows.append(clip((*_legend(analysis, metric, gutter, marks), Span(" "), *strip(fractions, marks)), width))
    return [(), *rows, *wrap(_short_names(names), width, role="dim")]


def _short_names(names: list[str]) -> str:
    """Say what the short names mean that are no word of the metric's name; "" if all are."""
    metrics = [metric_of(name) for name in names]
    return ", ".join(f"{each.short}: {each.label}" for each in metrics if each.short not in each.label.lower().split())


def _legend(analysis: Analysis, metric: Metric, gutter: int, marks: Glyphs) -> Row:
    """Write the metric's short name and, unless the gutter is narrow, its mean."""
    if gutter < _GUTTER:
        return pad((Span(fit(metric.short, gutter, marks.ellipsis)),), gutter)
    statistics = analysis.metrics.get(metric.name)
    mean = number(statistics.mean if statistics else None, metric)
    unit = unit_of(metric).name
    return (Span(f"{metric.short:<7}"), Span(f"{mean:>6} {unit:<4}", "dim"))


def _when_events(analysis: Analysis, width: int, gutter: int, room: int) -> list[Row]:
    """Draw what happened as letters in the columns of the chart above, and what they mean; ``gutter`` and ``room`` as
    in ``_chart``."""
    axis = time_axis(analysis)
    found = event_marks_by_column(
        *event_times_and_ranks(events(analysis)), axis.begin, (axis.end - axis.begin) / room, room
    )
    cells = [Span(*found.get(column, (" ", "plain"))) for column in range(room)]
    name = f"{'events':<{gutter}} "
    return [clip((Span(name), *cells), width), clip((Span(" " * len(name) + LEGEND, "dim"),), width)]


def _events(analysis: Analysis, options: PageOptions) -> list[Row]:
    """List what happened, oldest first, as many as the verbosity allows, and how many more there are; no rows if
    nothing did."""
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
    """Choose which of ``rows`` rows have their name beside them, at least ``step`` apart: those that are ``apart``
    first, then every ``step``-th that is not too near to one of these. Ascending."""
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
    """Return the series of all GPUs as rows. If there are more than MOST_ROWS GPUs, neighbours share one (whole nodes,
    if nodes are alike), which shows the least of them: a GPU that waits must not vanish among those that work."""
    n = len(series.values)
    each = max(-(-n // MOST_ROWS), 1)
    per_node, rest = divmod(n, max(n_nodes, 1))
    if each > 1 and per_node and not rest:
        each = -(-each // per_node) * per_node
    first = np.arange(0, n, each)
    return HeatMap(np.fmin.reduceat(series.values, first, axis=0) if n else series.values, first, each)


def short_place(place: str, most: int) -> str:
    """Shorten ``node:index`` to at most ``most`` characters: first the node's domain goes, then its beginning."""
    if len(place) > most:
        node, colon, index = place.rpartition(":")
        place = f"{node.partition('.')[0]}{colon}{index}"
    return fit(place, most, "…", keep="end")


def row_name(analysis: Analysis, found: HeatMap, row: int) -> str:
    """Name the GPU of a row, or the first and the last one."""
    first = int(found.first[row])
    last = min(first + found.each, len(analysis.gpus)) - 1
    places = [clean(analysis.gpus[gpu].place) for gpu in dict.fromkeys((first, last))]
    return " to ".join(places)
