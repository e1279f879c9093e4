"""Map: where the GPUs are, node by node, each by its mean of the window.

The cells of the map: marks, or tiles with numbers where there is room for them.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.live.attention import attention
from gssr.render.cells import cell_width, clean, fit
from gssr.render.marks import Marks, bars, blank, code, marks
from gssr.render.roles import Role, Row
from gssr.render.scale import NONE, fixed, metric_of, unit_of
from gssr.tui.axis import full_scale
from gssr.tui.screens.map_layout import TITLE, MapLayout, Sight, sight
from gssr.tui.screens.map_words import metric_rows, status, strip_cells, title
from gssr.tui.view import Scene, View, moved


def columns(view: View, width: int, height: int) -> int:
    """Columns of time wanted: for the strip of the GPU under the cursor."""
    del view, height
    return strip_cells(width)


def draw(scene: Scene) -> list[Row]:
    """The title with its legend, the map, and what is under the cursor."""
    seen = sight(scene)
    below = status(scene, seen)
    rows = [title(scene, seen), *cell_rows(scene, seen)][: max(scene.height - len(below), 0)]
    rows += metric_rows(scene, seen, scene.height - len(below) - len(rows))
    rows += [()] * (scene.height - len(below) - len(rows))
    return [*rows, *below][: scene.height]


def move(scene: Scene, dx: int, dy: int) -> View:
    """The cursor goes on by cells, across nodes, and up and down by lines."""
    seen = sight(scene)
    layout, cell = seen.layout, seen.cell
    if not len(layout.gpus):
        return scene.view
    if dy:
        line = moved(int(layout.line[cell]), dy, seen.lines, layout.n_lines)
        there = np.flatnonzero(layout.line == line)
        cell = int(there[np.argmin(np.abs(layout.x[there] - layout.x[cell]))])
    return _on(scene.view, seen, min(max(cell + dx, 0), len(layout.first) - 1))


def enter(scene: Scene) -> View | None:
    """The GPUs of the node under the cursor, or of the nodes."""
    seen = sight(scene)
    if not len(seen.layout.gpus):
        return None
    frame, layout = scene.frame, seen.layout
    nodes = np.unique(frame.node_of[layout.members(seen.cell)])
    members: Ints = layout.gpus[np.isin(frame.node_of[layout.gpus], nodes)]
    name = frame.nodes[int(nodes[0])]
    if len(nodes) > 1:
        name += f" to {frame.nodes[int(nodes[-1])]}"
    gpu = scene.view.gpu if scene.view.gpu in members else int(members[0])
    return scene.view.down(screen="gpus", selection=tuple(members.tolist()), selected=name, gpu=gpu, row=0, top=0)


def click(scene: Scene, x: int, y: int) -> View | None:
    """The cell under the mouse; if it is under the cursor already, its node."""
    seen = sight(scene)
    layout = seen.layout
    line = seen.top + (y - TITLE) // layout.height
    found = np.flatnonzero((layout.line == line) & (layout.x <= x) & (x < layout.x + layout.width))
    if y < TITLE or line >= seen.top + seen.lines or not len(found):
        return None
    cell = int(found[0])
    return enter(scene) if cell == seen.cell else _on(scene.view, seen, cell)


def _on(view: View, seen: Sight, cell: int) -> View:
    """The cursor on this cell: on the GPU that it had before, if that is one of the cell's."""
    members = seen.layout.members(cell)
    gpu = view.gpu if view.gpu in members else int(members[0])
    return replace(view, gpu=gpu, top=seen.at(cell).top)


class _Cells(NamedTuple):
    """The cells in sight, [n] each: which, the ``gpu`` that each begins with, their ``line`` (from the first in sight) and
    ``x``, means and minima as fractions of the full scale (NaN: blank), and whether one of its GPUs is an outlier."""

    cell: Ints
    gpu: Ints
    line: Ints
    x: Ints
    mean: Floats
    low: Floats
    marked: Flags


def shown_values(scene: Scene, gpus: Ints) -> Floats:
    """[n]: the GPUs' means of the window; NaN where nothing is known, or of a living run nothing new."""
    frame = scene.frame
    values: Floats = frame.window.per_gpu(frame.grid.metric, gpus)
    if frame.state == "live":
        values = np.where(attention(frame).age[gpus] > 0, np.nan, values)
    return values


def cell_rows(scene: Scene, seen: Sight) -> list[Row]:
    """The lines in sight."""
    layout = seen.layout
    if not len(layout.gpus):
        return []
    cells = _in_sight(scene, seen)
    box = blank(min(seen.lines, layout.n_lines - seen.top) * layout.height, scene.width)
    if layout.tiled:
        _draw_tiles(scene, seen, cells, box)
    else:
        _draw_marks(scene, seen, cells, box)
    return box.rows()


def _in_sight(scene: Scene, seen: Sight) -> _Cells:
    layout = seen.layout
    inside = (layout.line >= seen.top) & (layout.line < seen.top + seen.lines) & (layout.x < scene.width)
    cell = np.flatnonzero(inside)
    ends = np.append(layout.first[1:], len(layout.gpus))[cell]
    begin, end = int(layout.first[cell[0]]), int(ends[-1])
    gpus = layout.gpus[begin:end]
    values = shown_values(scene, gpus) / full_scale(scene.frame, scene.frame.grid.metric)
    marked = attention(scene.frame).outlier[gpus] & np.isfinite(values)
    starts = layout.first[cell] - begin
    known = np.isfinite(values)
    n = np.add.reduceat(known, starts, dtype=np.float64)
    total = np.add.reduceat(np.where(known, values, 0.0), starts)
    return _Cells(
        cell,
        gpus[starts],
        layout.line[cell] - seen.top,
        layout.x[cell],
        np.divide(total, n, out=np.full(len(starts), np.nan), where=n > 0),
        np.fmin.reduceat(values, starts),
        np.logical_or.reduceat(marked, starts),
    )


def _name(scene: Scene, gpu: int, width: int) -> str:
    """The name of a GPU's node, in characters of one cell."""
    name = fit(clean(scene.frame.nodes[int(scene.frame.node_of[gpu])]), width, scene.glyphs.ellipsis, "end")
    return name if name.isascii() else "".join(char if cell_width(char) == 1 else "?" for char in name)


def _draw_marks(scene: Scene, seen: Sight, cells: _Cells, box: Marks) -> None:
    layout = seen.layout
    found = marks(cells.mean, scene.glyphs, cells.low if layout.nodes else None)
    found.codes[cells.marked] = code("outlier")
    box.chars[cells.line, cells.x], box.codes[cells.line, cells.x] = found.chars, found.codes
    for head in np.flatnonzero(np.diff(cells.line, prepend=-1)).tolist():
        before = int(cells.cell[head]) - 1
        if layout.nodes or before < 0 or _block(layout, before) != _block(layout, before + 1):
            name = _name(scene, int(cells.gpu[head]), layout.label - 2)
            box.write(int(cells.line[head]), 1, name, "dim")
    _exclaim(layout, cells, box)
    here = cells.cell == seen.cell
    box.codes[cells.line[here], cells.x[here]] = code("cursor")


def _block(layout: MapLayout, cell: int) -> int:
    return int(layout.block[layout.first[cell]])


def _exclaim(layout: MapLayout, cells: _Cells, box: Marks) -> None:
    """``!`` before each node that holds an outlier; where nodes touch, at the beginning of the line."""
    marked = np.flatnonzero(cells.marked)
    line, x = cells.line[marked], np.zeros(len(marked), np.int64)
    if layout.gap:
        block = layout.block[layout.first[cells.cell]]
        head = np.searchsorted(block, block[marked])  # a node's first cell in sight, of its line where it takes several
        same = cells.line[head] == line
        x = np.where(same, cells.x[head], layout.label) - 1
    box.chars[line, x], box.codes[line, x] = "!", code("outlier")


# Tiles


def _draw_tiles(scene: Scene, seen: Sight, cells: _Cells, box: Marks) -> None:
    layout = seen.layout
    bar, wide = layout.height - 2, layout.width - 1
    found = bars(cells.mean, bar, scene.glyphs)
    found.codes[:, cells.marked] = code("outlier")
    top = cells.line * layout.height
    for y in range(bar):
        for dx in range(wide):
            x = cells.x + dx
            fits = x < scene.width
            box.chars[top[fits] + 1 + y, x[fits]] = found.chars[y, fits]
            box.codes[top[fits] + 1 + y, x[fits]] = found.codes[y, fits]
    metric = metric_of(scene.frame.grid.metric)
    unit, full = unit_of(metric), full_scale(scene.frame, metric.name)
    decimals = 0 if full * unit.factor > 10 else unit.decimals
    block = layout.block[layout.first[cells.cell]]
    for i, (line, x) in enumerate(zip(top.tolist(), cells.x.tolist(), strict=True)):
        value = float(cells.mean[i])
        text = fixed(value * full * unit.factor, decimals) if np.isfinite(value) else NONE
        role: Role = "outlier" if cells.marked[i] else "plain"
        text = f"!{text}" if cells.marked[i] else text
        if cells.cell[i] == seen.cell:
            text, role = text.center(wide), "cursor"
        box.write(line + layout.height - 1, x, text[:wide].center(wide), role)
        if i == 0 or block[i] != block[i - 1]:
            same = block == block[i]
            room = int(cells.x[same].max()) + layout.width - x
            name = _name(scene, int(cells.gpu[i]), max(room, layout.width) if room > 0 else wide)
            box.write(line, x, name, "outlier" if cells.marked[same].any() else "dim")
