"""The space average over time: the chart that Job leads with."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.model.results import Space, over_space
from gssr.model.statistics.grid import fold
from gssr.render.fan import fan
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row, Span
from gssr.render.rule import rule
from gssr.render.scale import fixed, metric_of, unit_of
from gssr.tui.axis import GUTTER, at_text, framed, full_scale, seconds_text, time_labels
from gssr.tui.scope import gpus_text
from gssr.tui.view import Scene

MANY = 64
"""Above so many GPUs the band is from the 5th to the 95th percentile around the median, not from the lowest to the highest
around the mean."""


@once
def space_of(frame: Frame, selection: tuple[int, ...]) -> Space:
    """The grid over the GPUs at these positions; over all without any."""
    if not selection:
        return frame.space
    return over_space(frame.grid.values[[gpu for gpu in selection if gpu < frame.n_gpus]])


def series_rows(scene: Scene, height: int, with_axis: bool = True) -> list[Row]:
    """``height`` rows as wide as the scene: a title with the legend, the chart, and (``with_axis``) the times."""
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    name = frame.grid.metric
    full = full_scale(frame, name)
    cells = max(scene.width - GUTTER, 1)
    many = len(scene.looked_at()) > MANY
    single = len(scene.looked_at()) == 1
    space = space_of(frame, view.selection)
    shown = (space.p50, space.p05, space.p95, space.low) if many else (space.mean, space.low, space.high, space.low)
    folded = fold(frame.grid, np.stack(shown) / full, cells)
    line, low, high, floor = folded.values[0], folded.low[1], folded.high[2], folded.low[3]
    nothing = np.full(folded.n, np.nan)
    cursor = None if view.cursor is None else folded.column(view.cursor)
    chart = fan(
        line, nothing if single else low, nothing if single else high, max(height - 1 - with_axis, 1), glyphs,
        floor if many else None, cursor,
    )  # fmt: skip
    step = seconds_text(folded.width)
    right = Span(f"1 column = {step}", "dim")
    if cursor is not None:
        at = at_text(frame, folded.start + cursor * folded.width)
        values = np.array([line[cursor], low[cursor], high[cursor]]) * full
        right = Span(f"{at} +{step}: {_values(values, name, single)}", "value")
    title = f"{metric_of(name).label}, {unit_of(metric_of(name)).name}".rstrip(", ")
    rows = [rule(title, scene.width, glyphs, (Span(gpus_text(scene)), *legend(many, single, glyphs)), (right,))]
    rows += framed(chart, full, name, glyphs)
    if with_axis and height > 2:
        rows.append((Span(" " * GUTTER), Span(time_labels(frame, folded, cells), "dim")))
    return rows[:height]


def legend(many: bool, single: bool, glyphs: Glyphs) -> tuple[Span, ...]:
    """What the marks of the chart mean."""
    ascii_only = glyphs.levels.isascii()
    line, band, dot = ("o", ".", "_") if ascii_only else ("⠒", "⢕", "⠄")
    if single:
        return ()
    if many:
        return Span(f"{line} p50", "series"), Span(f"{band} p05 to p95", "band"), Span(f"{dot} lowest", "dim")
    return Span(f"{line} mean", "series"), Span(f"{band} lowest to highest", "band")


def _values(values: Floats, name: str, single: bool) -> str:
    unit = unit_of(metric_of(name))
    line, low, high = (fixed(value * unit.factor, unit.decimals) for value in values.tolist())
    return line if single else f"{line} ({low} to {high})"
