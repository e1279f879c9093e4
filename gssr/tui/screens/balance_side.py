"""Beside and below Balance's histogram: the imbalance over time, the GPUs' spread, the lowest nodes, the places in them."""

from functools import partial

import numpy as np

from gssr.arrays import Floats
from gssr.model.live.attention import by_index, by_node
from gssr.model.results import Imbalance
from gssr.model.statistics.balance import outliers
from gssr.model.statistics.grid import fold
from gssr.render.area import area
from gssr.render.bar import bar
from gssr.render.cells import cell_width, clean, clip, fit, flow, pad
from gssr.render.fan import fan
from gssr.render.roles import Row, Span
from gssr.render.scale import count, metric_of, number, percent, quantity
from gssr.tui.axis import GUTTER, framed, full_scale, seconds_text, time_labels
from gssr.tui.view import Scene


def charts(scene: Scene, found: Imbalance, cells: int, room: int) -> list[Row]:
    """The imbalance over time, and below it the GPUs' spread, on one axis of time."""
    height = max((room - 3) // 2, 1)
    rows = over_time(scene, found, cells, height)
    if room - len(rows) >= 3:
        rows = [*rows[:-1], *_spread(scene, found, cells, room - len(rows) - 1), rows[-1]]
    return rows


def over_time(scene: Scene, found: Imbalance, cells: int, height: int) -> list[Row]:
    """A title, a chart ``height`` rows high, and the axis of time."""
    frame = scene.frame
    folded = fold(frame.grid, found.over_time, cells)
    at = None if scene.view.cursor is None else folded.column(scene.view.cursor)
    text = f"imbalance over time, 1 column = {seconds_text(folded.width)}"
    if at is not None:
        text = f"imbalance at the cursor: {percent(_or_none(folded.values[at]))}"
    chart = area(folded.values.tolist(), height, scene.glyphs, cursor=at)
    axis: Row = (Span(" " * GUTTER + time_labels(frame, folded, cells), "dim"),)
    title: Row = (Span(fit(text, cells + GUTTER, scene.glyphs.ellipsis), "dim"),)
    return [title, *framed(chart, 1.0, "sm_active", scene.glyphs), axis]


def _spread(scene: Scene, found: Imbalance, cells: int, room: int) -> list[Row]:
    """Title and chart: the GPUs' median in the band from their 5th to their 95th percentile, and the lowest GPU."""
    frame = scene.frame
    metric = metric_of(frame.grid.metric)
    full = full_scale(frame, metric.name)
    space = found.space
    known = found.spread[np.isfinite(found.spread)]
    mean = float(known.mean()) if len(known) else None
    marks = "o median, _ lowest" if scene.glyphs.levels.isascii() else "⠒ median, ⠄ lowest"
    text = f"p95-p05 {quantity(mean, metric)}; {marks}"
    folded = fold(frame.grid, np.stack((space.p50, space.p05, space.p95, space.low)) / full, cells)
    line, low, high, floor = folded.values[0], folded.low[1], folded.high[2], folded.low[3]
    at = None if scene.view.cursor is None else folded.column(scene.view.cursor)
    chart = fan(line, low, high, room - 1, scene.glyphs, floor, at)
    title: Row = (Span(fit(text, cells + GUTTER, scene.glyphs.ellipsis), "dim"),)
    return [title, *framed(chart, full, metric.name, scene.glyphs)]


def _or_none(value: float) -> float | None:
    return value if value == value else None


def lowest(scene: Scene, found: Imbalance, width: int, room: int) -> list[Row]:
    """The nodes with the lowest means; of one node its GPUs."""
    frame = scene.frame
    nodes = by_node(found, frame)
    if len(nodes.keys) > 1:
        title, keys, means = f"lowest of {count(len(nodes.keys), 'node')}", nodes.keys, nodes.means
        name = [frame.nodes[key] for key in keys[np.argsort(means, kind="stable")[:room]].tolist()]
    else:
        known = np.flatnonzero(np.isfinite(found.means))
        title, keys, means = f"lowest of {count(len(known), 'GPU')}", found.gpus[known], found.means[known]
        name = [frame.place(key) for key in keys[np.argsort(means, kind="stable")[:room]].tolist()]
    lowest = np.sort(means, kind="stable")[:room]
    return _ranked(scene, title, name, lowest, means, width, room)


def places(scene: Scene, found: Imbalance, width: int, room: int) -> list[Row]:
    """The means by the GPUs' place in their node, in the order of places."""
    groups = by_index(found, scene.frame)
    n_nodes = int(np.count_nonzero(np.bincount(scene.frame.node_of[found.gpus])))
    if len(groups.keys) < 2 or n_nodes < 2:
        return []
    title = f"by GPU index in the node, mean over {count(n_nodes, 'node')}"
    if len(groups.keys) > room - 1:
        metric = metric_of(scene.frame.grid.metric)
        pieces: list[Row] = [
            (Span(f"{key} ", "dim"), Span(number(mean, metric), "value"))
            for key, mean in zip(groups.keys.tolist(), groups.means.tolist(), strict=True)
        ]
        return [(Span(title, "dim"),), *flow(pieces, width, scene.glyphs.ellipsis)[: room - 1]]
    return _ranked(scene, title, [str(key) for key in groups.keys.tolist()], groups.means, groups.means, width, room)


def _ranked(
    scene: Scene, title: str, names: list[str], means: Floats, all_means: Floats, width: int, room: int
) -> list[Row]:  # fmt: skip
    """A title, and a name, a mean and a bar on each line; ``!`` where the mean is not like all of them."""
    metric = metric_of(scene.frame.grid.metric)
    full = full_scale(scene.frame, metric.name)
    flags = outliers(np.concatenate((all_means, means)), full)[len(all_means) :]
    size = min(max((cell_width(clean(name)) for name in names), default=0), max(width // 2, 1))
    draw_bar = partial(bar, glyphs=scene.glyphs)
    rows: list[Row] = [(Span(fit(title, width, scene.glyphs.ellipsis), "dim"),)]
    for name, mean, apart in zip(names, means.tolist(), flags.tolist(), strict=False):
        text = f"{number(mean, metric):>7} "
        rows.append(
            (
                Span("! " if apart else "  ", "outlier"),
                *pad((Span(fit(name, size, scene.glyphs.ellipsis)),), size),
                Span(text, "value"),
                *draw_bar(mean / full, max(min(width - size - len(text) - 2, 60), 0)),
            )
        )
    return [clip(row, width) for row in rows[:room]]
