"""Why: a part of the job against all of it, metric by metric, and what that reads as.

What Why says in words: what is compared, and what the comparison reads as, with the numbers that a rule used.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.metrics import BY_NAME, THROTTLES
from gssr.model.compare.contrast import Contrast, Line, contrast, line, measured
from gssr.model.compare.contrast_rules import Reading, Rule, reading
from gssr.model.live.frame import Frame
from gssr.model.statistics.grid import fold
from gssr.render.cells import clean, clip, fit, flow, wrap
from gssr.render.clock import duration
from gssr.render.columns import area
from gssr.render.glyphs import drawable
from gssr.render.roles import Row, Span
from gssr.render.scale import metric_of, quantity
from gssr.render.table import rule
from gssr.tui.axis import GUTTER, at_text, full_scale, gpus_text, seconds_text, time_labels, window_text
from gssr.tui.screens.pairs import chosen_metrics, metric_named, metric_row, sizes_for, titles
from gssr.tui.view import Scene, View, with_cursor

_WIDE = 120
_STRIPS, _LEGEND = 15, 9
"""Rows from which the course over time is shown, and the legend."""


_SIDES = {"gpus": ("these", "all"), "moment": ("moment", "run"), "window": ("window", "run")}


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
    head = [heading(scene, found), *readings(scene, found, reading(found, scene.table))]
    every = [line(name, found.own.get(name), found.job.get(name), _full(frame, name)) for name in measured(found)]
    foot = _legend(scene, 0)
    room = scene.height - len(head) - len(foot) - 1
    if scene.height >= _STRIPS:
        n_strips = 2 if found.kind == "gpus" else 1
        spare = room - len(every) - 3
        foot = [*_course(scene, found, max(min(spare // n_strips, 3), 1)), *foot]
        room = scene.height - len(head) - len(foot) - 1
    lines = chosen_metrics(every, room)
    if foot:
        foot[-1:] = _legend(scene, len(every) - len(lines))
    return _Plan(found, head, lines, foot)


def _full(frame: Frame, name: str) -> float:
    return 1.0 if name in THROTTLES else full_scale(frame, name)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    plan = _plan(scene)
    sizes = sizes_for(scene.width)
    rows = [*plan.head, titles(*_SIDES[plan.found.kind], "difference", sizes)]
    picked = min(scene.view.row, len(plan.lines) - 1)
    rows += [metric_row(own, sizes, at == picked, scene.glyphs) for at, own in enumerate(plan.lines)]
    rows += [*[()] * (scene.height - len(rows) - len(plan.foot)), *plan.foot]
    return [drawable(clip(row, scene.width), scene.glyphs) for row in rows[: scene.height]]


# Below it


def _course(scene: Scene, found: Contrast, height: int) -> list[Row]:
    """The grid's metric over time: of the part and the median GPU; of a stretch of time all GPUs' mean."""
    frame = scene.frame
    metric = metric_of(frame.grid.metric)
    full = full_scale(frame, metric.name)
    pairs = [("these", found.own_series), ("all", found.job_series)] if found.kind == "gpus" else [
        ("all", found.own_series)
    ]  # fmt: skip
    what = "mean of these, median GPU of all" if found.kind == "gpus" else "mean of all GPUs"
    folded = fold(frame.grid, np.stack([values for _, values in pairs]) / full, max(scene.width - GUTTER, 1))
    at = None if scene.view.cursor is None else folded.column(scene.view.cursor)
    text = f"{metric.label} over time, {what}; 1 column = {seconds_text(folded.width)}"
    rows: list[Row] = [(), (Span(fit(text, scene.width, scene.glyphs.ellipsis), "dim"),)]
    for (name, _), values in zip(pairs, folded.values.tolist(), strict=True):
        chart = area(values, height, scene.glyphs, "series" if name == "these" else "band", at)
        labels = [""] * (height - 1) + [name]
        rows += [(Span(f"{label:<{GUTTER}}", "dim"), *row) for label, row in zip(labels, chart, strict=True)]
    return [*rows, (Span(" " * GUTTER + time_labels(frame, folded, scene.width - GUTTER), "dim"),)]


def _legend(scene: Scene, n_hidden: int) -> list[Row]:
    if scene.height < _LEGEND:
        return []
    texts = ["! 10 points of the scale, or a quarter, apart", "> cursor, Enter: over time"]
    if n_hidden:
        texts.insert(0, f"{n_hidden} more are hidden")
    if scene.width >= _WIDE:
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


_SMALL, _TALL = 14, 20
"""Rows below which only the reading fits, and from which its source does too."""


def heading(scene: Scene, found: Contrast) -> Row:
    """What is compared with what."""
    frame = scene.frame
    rest = f"all {frame.n_gpus:,} GPUs" if frame.n_gpus != 1 else "itself"
    when = window_text(frame)
    if found.kind == "moment":
        grid = frame.grid
        start = grid.start + grid.column(scene.view.cursor or frame.first) * grid.width
        part = f"{at_text(frame, max(start, frame.first))} and {seconds_text(grid.width)} on"
        rest, when = "the whole run", "all GPUs"
    elif found.kind == "window":
        part, rest, when = when, "the whole run", "all GPUs"
    elif scene.view.selection:
        part = gpus_text(scene)
    elif len(found.gpus):
        part = f"lowest GPU {clean(frame.place(int(found.gpus[0])))}"
    else:
        part = "no GPU with samples"
    return rule(part, scene.width, scene.glyphs, (Span(f"against {rest}"), Span(when, "dim")))


def readings(scene: Scene, found: Contrast, read: Reading) -> list[Row]:
    """How the part differs and what it is like by itself, as far as there is room."""
    width, height = scene.width, scene.height
    if read.differs is None:
        rows = wrap("reads as: like what it is compared with, by every rule", width, rest="  ", role="value")
    else:
        text = f"reads as: {read.differs.reads} ({_numbers(scene, read.differs, found)})"
        lines = wrap(text, max(width - 2, 1), role="value")
        rows = [(Span("! ", "outlier") if y == 0 else Span("  "), *row) for y, row in enumerate(lines)]
    rows = _at_most(2 if height < _SMALL else 4, rows, scene)
    if height >= _SMALL and read.like is not None:
        text = f"by itself: {read.like.reads} ({_numbers(scene, read.like, found)})"
        rows += _at_most(2, wrap(text, width, rest="  "), scene)
    if height >= _TALL:
        used = dict.fromkeys(rule.source for rule in read if rule is not None)
        source = f"; by rules of: {', '.join(used)}" if used else ""
        rows.append((Span(fit(f"a reading by rule, not a verdict{source}", width, scene.glyphs.ellipsis), "dim"),))
    return rows


def _at_most(n: int, rows: list[Row], scene: Scene) -> list[Row]:
    """The first rows; where there are more, the last of them ends in an ellipsis."""
    if len(rows) <= n:
        return rows
    ellipsis = scene.glyphs.ellipsis
    return [*rows[: n - 1], (*clip(rows[n - 1], scene.width - len(ellipsis)), Span(ellipsis))]


def _numbers(scene: Scene, rule: Rule, found: Contrast) -> str:
    """What the rule looked at, each metric once: against the job's where it compares them."""
    compared = {condition.metric for condition in rule.conditions if condition.what != "own"}
    names = dict.fromkeys([condition.metric for condition in rule.conditions])
    shown = [(name, name in compared) for name in names]
    shown += [(name, True) for name in rule.shows if found.own.get(name) is not None]
    return ", ".join(_number(scene, name, found, against) for name, against in shown)


def _number(scene: Scene, name: str, found: Contrast, compared: bool) -> str:
    if name == "late":
        own, job = (
            "never" if start is None else at_text(scene.frame, max(start, scene.frame.first))
            for start in (found.own_start, found.job_start)
        )
        late = duration(None if found.late is None else found.late * found.seconds)
        return f"from {own} on, the median GPU from {job}: {late} later"
    metric = metric_named(name)
    own = quantity(found.own.get(metric.name), metric)
    return f"{metric.short} {own}" + (f" against {quantity(found.job.get(metric.name), metric)}" if compared else "")
