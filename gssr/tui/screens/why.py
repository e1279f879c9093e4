"""Why: a part of the job against all of it, metric by metric, and what that reads as."""

from dataclasses import replace
from typing import NamedTuple

from gssr.metrics import BY_NAME, THROTTLES
from gssr.model.contrast import Contrast, Line, contrast, line, measured
from gssr.model.reading import reading
from gssr.render.area import area
from gssr.render.bar import bar
from gssr.render.cells import clip, fit, flow, pad
from gssr.render.charset import drawable
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import NONE, fixed, metric_of, number, scale_text, unit_of
from gssr.tui.axis import GUTTER, full_scale, seconds_text, time_labels
from gssr.tui.cursor import with_cursor
from gssr.tui.screens.why_text import heading, metric_named, readings
from gssr.tui.view import Scene, View

_LABELS = 120
"""From so many cells on metrics have their whole name, a ratio and a scale."""
_LEAST_BAR, _MOST_BAR = 4, 44
_STRIPS, _LEGEND = 15, 9
"""Rows from which the course over time is shown, and the legend."""


class _Sizes(NamedTuple):
    """Cells of the table's columns; ``bar`` 0 for none."""

    name: int
    value: int
    bar: int
    wide: bool


class _Plan(NamedTuple):
    """Rows above the table, its lines, and the rows at the bottom."""

    found: Contrast
    head: list[Row]
    lines: list[Line]
    foot: list[Row]


def columns(view: View, width: int, height: int) -> int:
    """Columns of time wanted."""
    return max(width - GUTTER, 1)


def _plan(scene: Scene) -> _Plan:
    frame = scene.frame
    found = contrast(frame, scene.view.selection, scene.view.cursor, full_scale(frame, frame.grid.metric))
    head = [heading(scene, found), *readings(scene, found, reading(found))]
    every = [line(found, name, 1.0 if name in THROTTLES else full_scale(frame, name)) for name in measured(found)]
    foot = _legend(scene, 0)
    room = scene.height - len(head) - len(foot) - 1
    if scene.height >= _STRIPS:
        n_strips = 2 if found.kind == "gpus" else 1
        spare = room - len(every) - 3
        foot = [*_course(scene, found, max(min(spare // n_strips, 5), 1)), *foot]
        room = scene.height - len(head) - len(foot) - 1
    lines = _largest(every, max(room, 0))
    if foot:
        foot[-1:] = _legend(scene, len(every) - len(lines))
    return _Plan(found, head, lines, foot)


def _largest(lines: list[Line], room: int) -> list[Line]:
    """As many as there is room for: those that differ most, in the order they have."""
    if len(lines) <= room:
        return lines
    ranked = sorted(range(len(lines)), key=lambda at: (not lines[at].large, -abs(lines[at].points or 0.0), at))
    return [lines[at] for at in sorted(ranked[:room])]


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    plan = _plan(scene)
    sizes = _sizes(scene.width)
    rows = [*plan.head, _titles(plan.found, sizes)]
    picked = min(scene.view.row, len(plan.lines) - 1)
    rows += [_line(scene, own, sizes, at == picked) for at, own in enumerate(plan.lines)]
    rows += [*[()] * (scene.height - len(rows) - len(plan.foot)), *plan.foot]
    return [drawable(clip(row, scene.width), scene.glyphs) for row in rows[: scene.height]]


# The table


def _sizes(width: int) -> _Sizes:
    wide = width >= _LABELS
    name, value = (31, 9) if wide else (13, 8) if width >= 60 else (12, 7)
    cells = (width - (2 + name + 2 * (value + 2) + 10 + (22 if wide else 0))) // 2
    return _Sizes(name, value, min(cells, _MOST_BAR) if cells >= _LEAST_BAR else 0, wide)


_SIDES = {"gpus": ("these", "all"), "moment": ("moment", "run"), "window": ("window", "run")}


def _titles(found: Contrast, sizes: _Sizes) -> Row:
    own, rest = _SIDES[found.kind]
    gap = sizes.bar + 1 if sizes.bar else 0
    text = f"  {'metric':<{sizes.name}}{own:>{sizes.value}} {'':<{gap}}{rest:>{sizes.value}} {'':<{gap}}"
    text += f"{'difference':>10}" + (f"{'ratio':>10}{'full scale':>12}" if sizes.wide else "")
    return (Span(text, "dim"),)


def _line(scene: Scene, own: Line, sizes: _Sizes, picked: bool) -> Row:
    metric = metric_named(own.metric)
    unit = unit_of(metric)
    name = f"{metric.label if sizes.wide else metric.short} {unit.name}"
    difference = NONE if own.points is None else f"{own.points * own.full * unit.factor:+.{unit.decimals}f}"
    mark: Role = "outlier" if own.large else "plain"
    row: Row = (
        Span(">" if picked else " "),
        Span("!" if own.large else " ", "outlier"),
        *pad((Span(fit(name, sizes.name, scene.glyphs.ellipsis), "cursor" if picked else mark),), sizes.name),
    )
    for value, role in ((own.own, "series"), (own.job, "band")):
        row = (*row, Span(f"{number(value, metric):>{sizes.value}} ", "value" if role == "series" else "plain"))
        if sizes.bar:
            filled = bar(None if value is None else value / own.full, sizes.bar, scene.glyphs, role)  # type: ignore[arg-type]
            row = (*row, *filled, Span(" "))
    row = (*row, Span(f"{difference:>10}", mark))
    if sizes.wide:
        row = (*row, Span(f"{'x ' + fixed(own.ratio, 2):>10}{scale_text(metric, own.full):>12}", "dim"))
    return row


# Below it


def _course(scene: Scene, found: Contrast, height: int) -> list[Row]:
    """The grid's metric over time: of the part and the median GPU; of a stretch of time all GPUs' mean."""
    frame = scene.frame
    metric = metric_of(frame.grid.metric)
    full = full_scale(frame, metric.name)
    cursor = scene.view.cursor
    at = frame.grid.column(cursor) if cursor is not None and frame.grid.start <= cursor < frame.grid.end else None
    pairs = [("these", found.own_series), ("all", found.job_series)] if found.kind == "gpus" else [
        ("all", found.own_series)
    ]  # fmt: skip
    what = "mean of these, median GPU of all" if found.kind == "gpus" else "mean of all GPUs"
    text = f"{metric.label} over time, {what}; 1 column = {seconds_text(frame.grid.width)}"
    rows: list[Row] = [(), (Span(fit(text, scene.width, scene.glyphs.ellipsis), "dim"),)]
    for name, values in pairs:
        chart = area((values / full).tolist(), height, scene.glyphs, "series" if name == "these" else "band", at)
        labels = [""] * (height - 1) + [name]
        rows += [(Span(f"{label:<{GUTTER}}", "dim"), *row) for label, row in zip(labels, chart, strict=True)]
    return [*rows, (Span(" " * GUTTER + time_labels(frame, frame.grid, scene.width - GUTTER), "dim"),)]


def _legend(scene: Scene, n_hidden: int) -> list[Row]:
    if scene.height < _LEGEND:
        return []
    texts = ["! 10 points of the scale, or a quarter, apart", "> cursor, Enter: over time"]
    if n_hidden:
        texts.insert(0, f"{n_hidden} that differ less are hidden")
    if scene.width >= _LABELS:
        texts += ["bars on the metric's full scale", "means over all samples of the GPUs", "blank: not measured"]
    return flow([(Span(text, "dim"),) for text in texts], scene.width, scene.glyphs.ellipsis, separator="   ")[:1]


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Up and down over the metrics; left and right through time."""
    if dx:
        return with_cursor(scene, dx)
    last = max(len(_plan(scene).lines) - 1, 0)
    return replace(scene.view, row=min(max(min(scene.view.row, last) + dy, 0), last))


def enter(scene: Scene) -> View | None:
    """The metric under the cursor over time."""
    lines = _plan(scene).lines
    name = lines[min(scene.view.row, len(lines) - 1)].metric if lines else ""
    return scene.view.down(screen="time", metric=name, row=0, top=0) if name in BY_NAME else None


def click(scene: Scene, x: int, y: int) -> View | None:
    """The metric under the mouse; when the cursor is on it already, it over time."""
    plan = _plan(scene)
    at = y - len(plan.head) - 1
    if not 0 <= at < len(plan.lines):
        return None
    return enter(scene) if at == min(scene.view.row, len(plan.lines) - 1) else replace(scene.view, row=at)
