"""What the map says in words: its title and legend, and what is under the cursor.

The same map by the other metrics, small: in which of them does a GPU differ?
"""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.cached import once
from gssr.model.findings.outlier_gpus import outlier_gpus
from gssr.model.live.attention import attention, culprits
from gssr.model.live.frame import Frame
from gssr.model.statistics.grid import fold
from gssr.render.cells import as_many, cell_width, clean, clip, fit, pad
from gssr.render.columns import marked, strip
from gssr.render.marks import Marks, blank, code, marks
from gssr.render.roles import RAMP, Row, Span, one_row, text_of
from gssr.render.scale import NONE, count, fixed, metric_of, number, plural, quantity, scale_text, unit_of
from gssr.render.table import rule
from gssr.tui.axis import age_text, full_scale, gpus_text, shown_metrics, window_text
from gssr.tui.screens.map_layout import Sight, status_rows
from gssr.tui.view import Scene

_LEAST_STRIP = 12
_COUNTS = 34
"""Cells of the last row left of the strip."""
_MOST_NUMBERS = 8


def strip_cells(width: int) -> int:
    """Columns of time beside the counts of the last row."""
    return max(width - _COUNTS, _LEAST_STRIP)


def title(scene: Scene, seen: Sight) -> Row:
    """What is shown, and what the marks mean."""
    frame, layout = scene.frame, seen.layout
    legend = _legend(scene, seen)
    metric = metric_of(frame.grid.metric)
    pieces = [
        (Span(f"{metric.label}, mean", "title"),),
        (Span(window_text(frame)),),
    ]
    if scene.view.selection or len(layout.gpus) < frame.n_gpus:
        pieces.insert(1, (Span(_which(scene, seen), "value"),))
    line = as_many(pieces, scene.width - cell_width(text_of(legend)) - 2)
    space = scene.width - cell_width(text_of(line)) - cell_width(text_of(legend))
    return clip((*line, Span(" " * max(space, 0)), *legend), scene.width)


def _which(scene: Scene, seen: Sight) -> str:
    if scene.view.filter and not seen.problem:
        return f"{len(seen.layout.gpus):,} of {count(len(scene.looked_at()), 'GPU')} pass {clean(scene.view.filter)}"
    return gpus_text(scene)


def _legend(scene: Scene, seen: Sight) -> Row:
    levels = scene.glyphs.levels
    full = full_scale(scene.frame, scene.frame.grid.metric)
    metric = metric_of(scene.frame.grid.metric)
    steps = ((0.0, RAMP[0]), (0.5, RAMP[2]), (1.0, RAMP[4])) if scene.width >= 60 else ((0.0, RAMP[0]), (1.0, RAMP[4]))
    pieces: list[Row] = []
    for fraction, role in steps:
        mark = levels[min(int(fraction * len(levels)), len(levels) - 1)]
        text = scale_text(metric, full) if fraction == 1 else f"{fraction * full * unit_of(metric).factor:g}"
        pieces.append((Span(mark, role), Span(f" {text}", "dim")))
    pieces.append((Span("!", "outlier"), Span(" outlier", "dim")))
    if seen.layout.nodes:
        nodes = count(seen.layout.nodes, "node")
        pieces.insert(0, (Span(f"1 cell {nodes}", "dim"),))
        if scene.width >= 100:
            pieces.append((Span(levels[3], "low2"), Span(" one below half", "dim")))
    if scene.width >= 90:
        pieces.append((Span("blank", "dim"), Span(" no samples", "dim")))
    return one_row(pieces, "  ")


def status(scene: Scene, seen: Sight) -> list[Row]:
    """What is under the cursor: the GPU, its node, the job; then how many need a look, and the GPU over time."""
    if not len(seen.layout.gpus):
        return [clip((Span("no GPU passes the filter: / changes it, Esc lets go of it", "outlier"),), scene.width)]
    rows = [clip(_here(scene, seen), scene.width), clip(_counts(scene, seen), scene.width)]
    if seen.problem:
        rows[-1] = (Span(fit(seen.problem, scene.width, scene.glyphs.ellipsis), "outlier"),)
    return rows[: status_rows(scene.height)]


def _here(scene: Scene, seen: Sight) -> Row:
    frame = scene.frame
    metric = metric_of(frame.grid.metric)
    members = seen.layout.members(seen.cell)
    gpu = seen.gpu(scene.view.gpu)
    means = frame.window.per_gpu(metric.name)
    found = attention(frame)
    name = clean(frame.place(gpu))
    here = [Span("> ", "dim"), Span(name, "value"), Span(f" {quantity(float(means[gpu]), metric)}", "value")]
    letters = found.letters(gpu)
    if letters:
        here.append(Span(f" {letters}", "gap" if letters == "g" else "outlier"))
    if found.age[gpu] > 0:
        here.append(Span(f" silent {age_text(float(found.age[gpu]))}", "gap"))
    pieces: list[Row] = [tuple(here)]
    node = frame.on_node(int(frame.node_of[gpu]))
    if seen.layout.nodes > 1:
        pieces.append(
            (
                Span(
                    f"{count(len(members), 'GPU')}, mean {_mean(means[members], scene)}: {_numbers(means[members], scene)}"
                ),
            )
        )
    if len(node) > 1:
        pieces.append((Span("node ", "dim"), Span(_numbers(means[node], scene))))
    pieces.append((Span("node mean ", "dim"), Span(_mean(means[node], scene))))
    looked_at = scene.looked_at()
    job = frame.window.overall(looked_at if scene.view.selection else None).get(metric.name)
    whole = "selection" if scene.view.selection else "job"
    pieces.append((Span(f"{whole} mean ", "dim"), Span(quantity(job, metric))))
    if scene.width >= 100:
        pieces.append((Span("Enter: the node's GPUs", "dim"),))
    return as_many(pieces, scene.width)


def _mean(values: Floats, scene: Scene) -> str:
    known = values[np.isfinite(values)]
    return number(float(known.mean()) if len(known) else None, metric_of(scene.frame.grid.metric))


def _numbers(values: Floats, scene: Scene) -> str:
    """The values of GPUs without decimals, or how far they reach."""
    metric = metric_of(scene.frame.grid.metric)
    if len(values) <= _MOST_NUMBERS:
        return " ".join(fixed(float(value) * unit_of(metric).factor, 0) for value in values)
    known = values[np.isfinite(values)]
    if not len(known):
        return NONE
    return f"{number(float(known.min()), metric)} to {number(float(known.max()), metric)}"


def _counts(scene: Scene, seen: Sight) -> Row:
    frame = scene.frame
    found = attention(frame)
    gpus = seen.layout.gpus
    n_out, n_silent = int(found.outlier[gpus].sum()), int((found.age[gpus] > 0).sum())
    n_held = int(found.throttled[gpus].sum())
    pieces: list[Row] = [(Span(f"! {count(n_out, 'outlier')}", "outlier" if n_out else "dim"),)]
    if n_silent:
        pieces.append((Span(f"g {n_silent:,} silent", "gap"),))
    if n_held:
        pieces.append((Span(f"t {n_held:,} throttled", "outlier"),))
    if n_out or n_silent or n_held:
        pieces.append((Span("n next", "dim"),))
    line = pad(as_many(pieces, _COUNTS - 1), _COUNTS)
    gpu = seen.gpu(scene.view.gpu)
    grid = frame.grid
    folded = fold(grid, grid.values[gpu] / full_scale(frame, grid.metric), scene.width - _COUNTS, frame.last)
    cursor = None if scene.view.cursor is None else folded.column(scene.view.cursor)
    return (*line, *marked(strip(folded.values.tolist(), scene.glyphs), cursor))


_LABEL, _VALUE = 8, 10
_HEAD = _LABEL + _VALUE + 2
"""Cells of a metric's name and mean, beside its marks or above them."""
_LEAST_WIDTH = 38
_MARGIN = 2
LEAST_ROWS = 3


def metric_rows(scene: Scene, seen: Sight, height: int) -> list[Row]:
    """At most ``height`` rows: a small map of each metric, those that fit, the most telling first."""
    frame, layout = scene.frame, seen.layout
    names = tuple(name for name in shown_metrics(frame) if name != frame.grid.metric)
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
    rows = [rule(f"the same {plural(frame.noun)} by other metrics", scene.width, scene.glyphs)]
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
    blamed = culprits(frame)
    return [outlier_gpus(name, frame.window.per_gpu(name), full_scale(frame, name), blamed) for name in names]


def _panels(
    scene: Scene, seen: Sight, names: tuple[str, ...], odd: list[Flags], size: int, height: int, across: int, gap: int
) -> list[list[Row]]:
    """A small map of each metric, all in the same places."""
    frame, layout = scene.frame, seen.layout
    gpus, window = layout.gpus, scene.frame.window
    values = np.array([window.per_gpu(name, gpus) / full_scale(frame, name) for name in names])
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
