"""A few GPUs in detail: each with the course of the metric and bars of all others."""

import numpy as np

from gssr.model.live.attention import attention
from gssr.model.statistics.grid import fold
from gssr.render.cells import clip, fit
from gssr.render.fan import fan
from gssr.render.roles import Role, Row, Span
from gssr.render.rule import rule
from gssr.render.scale import metric_of, quantity
from gssr.tui.axis import GUTTER, at_text, framed, full_scale, seconds_text, time_labels
from gssr.tui.bars import metric_bars, rows_needed
from gssr.tui.gpu_rows import LETTERS, gap_texts, mean_of, newest_title
from gssr.tui.listing import Listing
from gssr.tui.order import values_at
from gssr.tui.view import Scene

_LEAST_CHART = 3


def charts_of(scene: Scene, shown: Listing) -> list[Row]:
    """A block for each GPU: its title, bars of its means of the window, its chart; times under the last."""
    frame, gpus = scene.frame, shown.visible.tolist()
    ends = block_ends(shown)
    rows: list[Row] = []
    for gpu, begin, end in zip(gpus, [0, *ends], ends, strict=False):
        rows += _block(scene, gpu, end - begin, gpu == shown.gpu)
    folded = fold(frame.grid, frame.grid.values[0], max(scene.width - GUTTER, 1))
    times: Row = (Span(" " * GUTTER), Span(time_labels(frame, folded, folded.n), "dim"))
    return [clip(row, scene.width) for row in (*rows, times)]


def chart_of(scene: Scene, gpu: int, height: int) -> list[Row]:
    """``height`` rows about one GPU: its title, bars, its chart, and the times."""
    frame = scene.frame
    folded = fold(frame.grid, frame.grid.values[gpu], max(scene.width - GUTTER, 1))
    times: Row = (Span(" " * GUTTER), Span(time_labels(frame, folded, folded.n), "dim"))
    return [clip(row, scene.width) for row in (*_block(scene, gpu, height - 1, False), times)]


def block_ends(shown: Listing) -> list[int]:
    """The row after the last one of each GPU's block."""
    n = len(shown.order.gpus)
    return [(shown.room - 1) * (y + 1) // n for y in range(n)]


def _block(scene: Scene, gpu: int, height: int, under: bool) -> list[Row]:
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    name = frame.grid.metric
    full = full_scale(frame, name)
    folded = fold(frame.grid, frame.grid.values[gpu] / full, max(scene.width - GUTTER, 1))
    at = None if view.cursor is None else folded.column(view.cursor)
    spare = height - 1 - _LEAST_CHART
    n_bars = min(max(spare * 2 // 3, min(spare, 1)), rows_needed(frame, scene.width))
    nothing = np.full(folded.n, np.nan)
    chart = fan(folded.values, nothing, nothing, max(height - 1 - n_bars, 1), glyphs, cursor=at)
    means = frame.window.overall(np.array([gpu]))
    rows = [_chart_title(scene, gpu, folded.width, under)]
    rows += metric_bars(frame, means, scene.width, n_bars, glyphs, name) if n_bars else []
    return (rows + framed(chart, full, name, glyphs))[:height]


def _chart_title(scene: Scene, gpu: int, width: float, under: bool) -> Row:
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    metric = metric_of(frame.grid.metric)
    letters = attention(frame).letters(gpu)
    now = float(values_at(frame, view.cursor)[gpu])
    step = seconds_text(width)
    when = newest_title(scene)
    if view.cursor is not None:
        begin = frame.grid.start + frame.grid.column(view.cursor) * frame.grid.width
        when = f"at {at_text(frame, begin)} +{seconds_text(frame.grid.width)}"
    about = [Span(letter, LETTERS[letter]) for letter in letters]
    about += [Span(text, "gap") for text in gap_texts(frame, gpu)]
    about += [
        Span(f"{metric.label}: mean {quantity(mean_of(frame, gpu), metric)}"),
        Span(f"{when} {quantity(now, metric)}"),
    ]
    product = frame.gpus[gpu].name
    if product:
        about.append(Span(fit(product, 24, glyphs.ellipsis), "dim"))
    role: Role = "cursor" if under else "heading"
    right = (Span(f"1 column = {step}", "dim"),)
    return rule(frame.place(gpu), scene.width, glyphs, tuple(about), right, role)
