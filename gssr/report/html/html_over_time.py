"""When were the GPUs not used: the metrics along time with their bands, the phases, and every GPU along time.

Cells of a map as a picture with a palette: one byte per cell, its index into a ramp of colours.
"""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.metrics import OF_NODES, Metric
from gssr.model.results import Analysis, Series
from gssr.render.cells import clean
from gssr.render.clock import duration, event_text, event_time
from gssr.render.scale import count, fixed, metric_of, percent, scale_text, unit_of
from gssr.report import chart_texts
from gssr.report.content import along_time, compared_by, mean_text, nodes_drawn
from gssr.report.html.markup import (
    TALL,
    WIDE,
    Markup,
    area,
    axis_labels,
    coordinate,
    fragment,
    grid,
    level_labels,
    share,
    stairs,
    svg,
    tag,
    time_marks,
)
from gssr.report.load_balancing import outliers_of
from gssr.report.over_time import HeatMap, heat_map, named_rows, row_name, short_place
from gssr.report.page import events, full_scale, time_axis
from gssr.report.phases import letters

_MOST_MARKS = 100
_MOST_CELLS = 200_000
"""Of a map: each takes up to a byte and a third of the file."""
_ROW_LABELS, _ROW_LABEL = 8, 20
"""So many rows of a map are named, in so many characters."""
_LEAST_LETTERED, _LEAST_NAMED = 0.02, 0.14
"""Shares of the width that a phase needs for its letter, and for its name."""


def charts(analysis: Analysis) -> Markup:
    """Draw a chart for each metric, the leading one first and larger; one sentence without samples. All are whole
    without a script."""
    names = along_time(analysis)
    if not names:
        return tag("p", "Nothing to draw: no samples.", class_="dim")
    return fragment(
        _phases(analysis),
        _chart(analysis, analysis.series[names[0]], "chart lead"),
        tag("div", *(_chart(analysis, analysis.series[name], "chart") for name in names[1:]), class_="charts"),
    )


def charts_of_nodes(analysis: Analysis) -> Markup:
    """Draw a chart for each metric of the nodes; empty if there are none."""
    found = [_chart(analysis, analysis.node_series[name], "chart") for name in nodes_drawn(analysis)]
    return tag("div", *found, class_="charts") if found else Markup()


def chart_data(analysis: Analysis) -> dict[str, Any]:
    """Return what the page's script says at a time, by metric: values in the shown unit, null where there is none."""
    axis = time_axis(analysis)
    found = {}
    drawn = {name: analysis.series[name] for name in along_time(analysis)}
    for name, series in (drawn | {name: analysis.node_series[name] for name in nodes_drawn(analysis)}).items():
        metric = metric_of(name)
        found[name] = {
            "start": round(series.start - axis.origin, 6), "width": series.width, "unit": unit_of(metric).name,
            "mean": _numbers(series.mean, metric), "low": _numbers(series.low, metric),
            "high": _numbers(series.high, metric), "decimals": unit_of(metric).decimals,
            "several": _members(analysis, series) > 1,
        }  # fmt: skip
    return found


def _numbers(values: Floats, metric: Metric) -> list[float | None]:
    unit = unit_of(metric)
    return [float(fixed(value, unit.decimals)) if value == value else None for value in (unit.factor * values).tolist()]


def _members(analysis: Analysis, series: Series) -> int:
    """How many GPUs, or nodes, it is the mean of."""
    return int(series.n_gpus.max(initial=0)) if series.metric in OF_NODES else len(analysis.gpus)


def time_edges(analysis: Analysis, series: Series) -> Floats:
    """Return the edges of a series' bins [n + 1] as shares of the width (0-1), none beyond the window."""
    axis = time_axis(analysis)
    times = series.start + series.width * np.arange(len(series.mean) + 1)
    return np.asarray(np.clip((times - axis.begin) / (axis.end - axis.begin), 0.0, 1.0), np.float64)


def _chart(analysis: Analysis, series: Series, class_: str) -> Markup:
    """Draw one series with its bands, as a figure with this CSS class."""
    name, metric, full = series.metric, metric_of(series.metric), full_scale(analysis, metric_of(series.metric))
    edges, marks = time_edges(analysis, series), time_marks(analysis)
    members = _members(analysis, series)
    paths = [tag("path", class_="line", d=stairs(edges, series.mean / full))]
    if members > 1:
        paths.insert(0, tag("path", class_="band", d=area(edges, series.low / full, series.high / full)))
    if members > 2 and name in analysis.gpu_series:
        paths.insert(1, tag("path", class_="inner", d=area(edges, series.p05 / full, series.p95 / full)))
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("b", metric.label),
            tag("output", mean_text(analysis, name), aria_live="off"),
        ),
        tag(
            "div",
            level_labels(scale_text(metric, full), scale_text(metric, full / 2), "0"),
            svg(
                chart_texts.course(analysis, series, count(members, "node" if name in OF_NODES else "GPU")),
                grid([mark.at for mark in marks]), *paths, *_marks(analysis),
            ),
            axis_labels(marks),
            class_="plot",
        ),
        class_=class_, data_metric=name,
    )  # fmt: skip


def _marks(analysis: Analysis) -> list[Markup]:
    """Draw a line for each event within the window, at most for _MOST_MARKS events."""
    axis = time_axis(analysis)
    lines = []
    for event in events(analysis)[:_MOST_MARKS]:
        at = (event.time - axis.begin) / (axis.end - axis.begin)
        if 0 <= at <= 1:
            text = f"{event_time(event.time - axis.origin, axis.end - axis.origin)}  {event_text(event)}"
            lines.append(tag("path", tag("title", text), class_="event", d=f"M{coordinate(WIDE * at)} 0V{TALL:g}"))
    return lines


def _phases(analysis: Analysis) -> Markup:
    """Draw the phases as a strip above the charts; empty without phases."""
    axis, pieces = time_axis(analysis), []
    span = axis.end - axis.begin
    for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True):
        left, right = (min(max((time - axis.begin) / span, 0.0), 1.0) for time in (phase.start, phase.end))
        text = f"{letter} {phase.kind}, {duration(phase.seconds)}, {percent(phase.share)} of the GPU-hours"
        inside = [tag("title", text), tag("rect", x="0", width="100%", height="100%")]
        if right - left >= _LEAST_LETTERED:
            name = [tag("tspan", f" {phase.kind}", class_="minor")] if right - left >= _LEAST_NAMED else []
            inside.append(tag("text", letter, *name, x=4, y=13))
        pieces.append(
            tag("svg", *inside, x=share(left), width=share(right - left), class_=phase.kind, aria_hidden="true")
        )
    if not pieces:
        return Markup()
    strip = tag("svg", *pieces, class_="strip", role="img", aria_label=chart_texts.phases(analysis))
    return tag("div", level_labels("phases"), strip, class_="plot phases")


def map_of_gpus(analysis: Analysis) -> Markup:
    """Draw every GPU along time as a picture, or nothing if there is no series of GPUs. The page's script draws it
    anew for the room there is, so that no cell's minimum is lost."""
    name = compared_by(analysis)
    if name is None or name not in analysis.gpu_series or not len(analysis.gpus):
        return Markup()
    metric, series = metric_of(name), analysis.gpu_series[name]
    found, full, marks = heat_map(series, analysis.n_nodes), full_scale(analysis, metric), time_marks(analysis)
    values, together = _of_the_window(analysis, found, series.start, series.width)
    picture = base64.b64encode(png(indices(values, full))).decode()
    about = f"{count(found.each, 'GPU')} a row, the lowest of them" if found.each > 1 else "a row per GPU"
    if together > 1:
        about += f", the lowest of {together} bins a column"
    return tag(
        "figure",
        tag("figcaption", tag("b", f"{metric.label} of each GPU over time"), tag("output", about, aria_live="off")),
        tag(
            "div",
            _row_labels(analysis, found, metric),
            tag("div", tag("img", src=f"data:image/png;base64,{picture}", alt=""),
                class_="cells", role="img", aria_label=clean(chart_texts.map_of_gpus(analysis, metric))),
            axis_labels(marks),
            class_="plot",
        ),
        _key(metric, full),
        class_=f"chart map {_height(len(found.first))}",
    )  # fmt: skip


def _of_the_window(analysis: Analysis, found: HeatMap, start: float, width: float) -> tuple[Floats, int]:
    """Return the map's values [n_rows, n] in bins that begin and end with the axis, and how many bins are joined in
    one (the least of them), which is 1 unless there were too many cells."""
    axis, bins = time_axis(analysis), found.values.shape[1]
    n = max(1, round((axis.end - axis.begin) / width))
    centres = axis.begin + (np.arange(n) + 0.5) * (axis.end - axis.begin) / n
    values = found.values[:, np.clip(((centres - start) // width).astype(np.int64), 0, bins - 1)]
    together = -(-values.size // _MOST_CELLS)
    if together > 1:
        first = np.linspace(0, n, -(-n // together), endpoint=False).astype(np.int64)
        values = np.fmin.reduceat(values, first, axis=1)
    return values, together


def _height(rows: int) -> str:
    """How tall the map is drawn: a class of the style sheet."""
    return "few" if rows <= 8 else "some" if rows <= 64 else "many"


def _row_labels(analysis: Analysis, found: HeatMap, metric: Metric) -> Markup:
    """Draw names beside the rows of a map of GPUs, as many as there is room for; "! " stands before rows with
    outliers."""
    rows = len(found.first)
    step = max(1, -(-rows // _ROW_LABELS))
    outliers = {i // found.each for i in outliers_of(analysis, metric)}
    names = {
        row: "! " * (row in outliers) + short_place(analysis.gpus[found.first[row]].place, _ROW_LABEL)
        for row in named_rows(rows, step, outliers)
    }
    labels = [
        tag(
            "text",
            name,
            x="100%",
            y=share((row + 0.5) / rows),
            dy="0.35em",
            text_anchor="end",
            class_="apart" if row in outliers else None,
        )
        for row, name in names.items()
    ]
    return tag(
        "div", tag("span", max(names.values(), key=len)), tag("svg", *labels), class_="names", aria_hidden="true"
    )


def _key(metric: Metric, full: float) -> Markup:
    """Draw what the colours of the map mean."""
    ramp = base64.b64encode(png(np.arange(STEPS, dtype=np.uint8)[None, :])).decode()
    picture = tag("img", src=f"data:image/png;base64,{ramp}", alt="")
    return tag(
        "p",
        "0 ",
        picture,
        tag("span", scale_text(metric, full)),
        tag("span", class_="blank"),
        tag("span", "no sample"),
        class_="key", aria_hidden="true",
    )  # fmt: skip


def map_data(analysis: Analysis) -> dict[str, Any] | None:
    """Return what the page's script says of a cell of the map, or None without a map."""
    name = compared_by(analysis)
    if name is None or name not in analysis.gpu_series or not len(analysis.gpus):
        return None
    found, metric = heat_map(analysis.gpu_series[name], analysis.n_nodes), metric_of(name)
    unit = unit_of(metric)
    series = analysis.gpu_series[name]
    _, together = _of_the_window(analysis, found, series.start, series.width)
    return {
        "rows": [row_name(analysis, found, row) for row in range(len(found.first))], "unit": unit.name,
        "full": full_scale(analysis, metric) * unit.factor, "decimals": unit.decimals, "steps": STEPS, "blank": BLANK,
        "lowest": max(found.each, together) > 1,
    }  # fmt: skip


STEPS = 250
"""Colours from nothing to the full scale: a step is 0.4 % of it."""
BLANK = 255
"""The index of a cell without a sample, which is transparent."""
_CIVIDIS = ("00224e", "1a386f", "434e6c", "61656f", "7d7c78", "9b9476", "bcae6c", "dec958", "fee838")
"""Nine equal steps of cividis, which reads alike for all kinds of colour vision. Source: Nuñez, Anderton and Renslow, PLOS
ONE 13(7), 2018."""


def indices(values: Floats, full: float) -> NDArray[np.uint8]:
    """Return each of ``values`` as an index into the ramp: 0 to STEPS - 1 up to ``full`` and beyond, BLANK for NaN."""
    known = np.isfinite(values)
    steps = np.clip(np.round(np.where(known, values, 0.0) / full * (STEPS - 1)), 0, STEPS - 1)
    return np.where(known, steps, BLANK).astype(np.uint8)


def png(cells: NDArray[np.uint8]) -> bytes:
    """Return the bytes of a PNG file of ``cells`` [rows, columns] (at least 1 × 1), which are indices into the
    palette."""
    from PIL import Image

    picture = Image.fromarray(cells)
    picture.putpalette(_palette())  # which makes one of grey values one of indices
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True, transparency=BLANK)
    return file.getvalue()


def _palette() -> bytes:
    """Return the 256 colours of the palette, three bytes each; those beyond STEPS are black."""
    anchors = np.array([list(bytes.fromhex(color)) for color in _CIVIDIS], np.float64)
    at = np.linspace(0, len(anchors) - 1, STEPS)
    ramp = np.stack([np.interp(at, np.arange(len(anchors)), anchors[:, part]) for part in range(3)], axis=1)
    colors = np.zeros((256, 3), np.uint8)
    colors[:STEPS] = np.round(ramp).astype(np.uint8)
    return colors.tobytes()
