"""The same map by the other metrics, small: in which of them does a GPU differ?"""

import numpy as np

from gssr.arrays import Flags
from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.model.statistics.balance import outliers
from gssr.render.cells import clip, pad
from gssr.render.marks import Marks, blank, code, marks
from gssr.render.roles import Row
from gssr.render.rule import rule
from gssr.render.scale import metric_of, quantity
from gssr.tui.axis import full_scale
from gssr.tui.bars import shown_metrics
from gssr.tui.screens.map_layout import Sight
from gssr.tui.view import Scene

_LABEL, _VALUE = 8, 10
_HEAD = _LABEL + _VALUE + 2
"""Cells of a metric's name and mean, beside its marks or above them."""
_LEAST_WIDTH = 38
_MARGIN = 2
LEAST_ROWS = 3


def metric_rows(scene: Scene, seen: Sight, height: int) -> list[Row]:
    """At most ``height`` rows: a small map of each metric, those that fit, the most telling first."""
    frame, layout = scene.frame, seen.layout
    counts = dict(zip(frame.whole.names, frame.whole.n.sum(axis=1).tolist(), strict=True))
    names = tuple(name for name in shown_metrics(frame) if counts.get(name) and name != frame.grid.metric)
    if height < LEAST_ROWS or not names or not len(layout.gpus):
        return []
    n_blocks, most = int(layout.block[-1]) + 1, int(np.bincount(layout.block).max())
    beside, across, deep, gap = _arrangement(scene.width, height - 1, n_blocks, most, len(names))
    if not across:
        return []
    size = scene.width // beside
    tall = deep + (0 if _is_inline(deep, n_blocks, across) and _HEAD + across * (most + gap) <= size else 1)
    names = names[: beside * ((height - 1) // tall)]
    flags = _odd(frame, names)
    rows = [rule("the same GPUs by other metrics", scene.width, scene.glyphs)]
    panels = _panels(scene, seen, names, flags, size, tall, across, gap)
    per_column = -(-len(names) // beside)
    for y in range(per_column):
        rows += [
            clip(tuple(span for line in lines for span in pad(line, size)), scene.width)
            for lines in zip(*panels[y::per_column], strict=True)
        ]
    return rows


def _is_inline(deep: int, n_blocks: int, across: int) -> bool:
    return deep == 1 and n_blocks <= across


def _arrangement(width: int, height: int, n_blocks: int, most: int, n_metrics: int) -> tuple[int, int, int, int]:
    """How many maps beside each other, nodes across each, lines of each, and cells between nodes: so that most maps can
    be seen. No nodes across where none fits."""
    best = (0, 1, 0, 0, 0)
    for gap in (1, 0):
        for beside in range(1, max(width // _LEAST_WIDTH, 1) + 1):
            size = width // beside - _MARGIN
            inline = _HEAD + n_blocks * (most + gap) <= size
            across = n_blocks if inline else (size + gap) // (most + gap)
            if not across:
                continue
            deep = -(-n_blocks // across)
            seen = min(beside * (height // (deep if inline else deep + 1)), n_metrics)
            if seen > best[0]:
                best = (seen, beside, across, deep, gap)
    return best[1:]


@once
def _odd(frame: Frame, names: tuple[str, ...]) -> list[Flags]:
    """[n_gpus] for each metric: the outliers."""
    return [outliers(frame.window.per_gpu(name), full_scale(frame, name)) for name in names]


def _panels(
    scene: Scene, seen: Sight, names: tuple[str, ...], odd: list[Flags], size: int, height: int, across: int, gap: int
) -> list[list[Row]]:
    """A small map of each metric, all in the same places."""
    frame, layout = scene.frame, seen.layout
    gpus, window = layout.gpus, scene.frame.window
    values = np.array([window.per_gpu(name)[gpus] / full_scale(frame, name) for name in names])
    flags = np.array(odd)[:, gpus]
    most = int(np.bincount(layout.block).max())
    starts = np.flatnonzero(np.diff(layout.block, prepend=-1))
    within = np.arange(len(gpus)) - starts[layout.block]
    below = 1 if _HEAD + across * (most + gap) > size or height > 1 else 0
    x = layout.block % across * (most + gap) + within + (1 if below else _HEAD)
    line = layout.block // across + below
    fits = (x < size) & (line < height)
    found = marks(values, scene.glyphs)
    found.codes[flags & np.isfinite(values)] = code("outlier")
    box = blank(len(names), height, size)
    box.chars[:, line[fits], x[fits]], box.codes[:, line[fits], x[fits]] = found.chars[:, fits], found.codes[:, fits]
    means = window.overall(gpus if len(gpus) < frame.n_gpus else None)
    for index, name in enumerate(names):
        metric = metric_of(name)
        own = Marks(box.chars[index], box.codes[index])
        _head(own, metric.short, quantity(means.get(name), metric), bool(flags[index].any()))
    rows = Marks(box.chars.reshape(-1, size), box.codes.reshape(-1, size)).rows()
    return [rows[top : top + height] for top in range(0, len(rows), height)]


def _head(box: Marks, label: str, value: str, marked: bool) -> None:
    if marked:
        box.write(0, 0, "!", "outlier")
    box.write(0, 1, label[: _LABEL - 1], "outlier" if marked else "plain")
    box.write(0, 1 + _LABEL, f"{value[:_VALUE]:>{_VALUE}}", "value")
