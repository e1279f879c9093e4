"""Who sends to whom, of a trace: a view of Calls. Ranks or nodes, of many of them neighbours together."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.cached import once
from gssr.model.traces.messages import Exchange, Matrix, matrix_of
from gssr.render.cells import clip, flow
from gssr.render.glyphs import drawable
from gssr.render.matrix import MEASURES, Measure, amount, least_width, legend, matrix
from gssr.render.roles import Row, Span
from gssr.render.scale import count
from gssr.render.table import rule
from gssr.tui.axis import gpus_text, window_text
from gssr.tui.view import Scene

_HEAD, _FOOT = 2, 5
_LEAST = 4


@once
def folded(exchange: Exchange, by_node: bool, width: int, height: int) -> Matrix:
    """The matrix in as many lines as there is room for."""
    most = max(height - _HEAD - _FOOT, _LEAST)
    found = matrix_of(exchange, by_node, most)
    while len(found.labels) > _LEAST and least_width(len(found.labels), found.labels) > width:
        most -= max(most // 8, 1)
        found = matrix_of(exchange, by_node, most)
    return found


def values_of(found: Matrix, at: int) -> tuple[Measure, Floats]:
    """What is shown of it: the measure at a place, taken round and round."""
    measure = MEASURES[at % len(MEASURES)]
    if measure.name == "bytes per second":
        return measure, found.rate()
    column = {"bytes": found.size, "messages": found.n}.get(measure.name, found.time)
    return measure, column.astype(np.float64)


def draw(scene: Scene, exchange: Exchange, title: str, by_node: bool, foot: Row) -> list[Row]:
    """The matrix, what its marks mean, and the line under the cursor in words."""
    width, marks = scene.width, scene.glyphs
    found = folded(exchange, by_node, width, scene.height)
    measure, values = values_of(found, scene.view.column)
    picked = min(scene.view.row, len(found.labels) - 1)
    about = (Span(gpus_text(scene)), Span(window_text(scene.frame), "dim"))
    total = f"{count(int(exchange.count.sum()), 'message')}, {amount(float(exchange.size.sum()), MEASURES[0])}"
    rows = [rule(f"{title}: {measure.name}", width, marks, about, (Span(total, "dim"),))]
    rows += matrix(values, found.labels, measure, width, marks, picked)
    end = [(), _in_words(found, measure, values, picked)]
    end += flow([(Span("lines send, columns receive:", "dim"),), *legend(measure, marks)], width, marks.ellipsis)
    room = scene.height - 1
    rows = [*rows[: max(room - len(end), 2)], *end][:room]
    rows += [()] * (room - len(rows))
    return [drawable(clip(row, width), marks) for row in [*rows, foot]]


def _in_words(found: Matrix, measure: Measure, values: Floats, at: int) -> Row:
    if at < 0 or not found.n[at].any():
        return (Span(f"  {found.labels[at]} sends nothing" if at >= 0 else "  nobody sends anything", "dim"),)
    sent = found.size[at].sum()
    most = int(np.nanargmax(np.where(np.isfinite(values[at]), values[at], -1)))
    text = (
        f"  {found.labels[at]} sends {amount(float(sent), MEASURES[0])} in {count(int(found.n[at].sum()), 'message')}"
    )
    received = amount(float(found.size[:, at].sum()), MEASURES[0])
    largest = f"; most to {found.labels[most]}: {amount(float(values[at, most]), measure)}; receives {received}"
    return (Span(text, "value"), Span(largest))
