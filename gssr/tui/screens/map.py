"""Map: where the GPUs are, node by node, each by its mean of the window."""

from dataclasses import replace

import numpy as np

from gssr.arrays import Ints
from gssr.render.roles import Row
from gssr.tui.cursor import moved
from gssr.tui.screens.map_cells import cell_rows
from gssr.tui.screens.map_layout import TITLE, Sight, sight
from gssr.tui.screens.map_metrics import metric_rows
from gssr.tui.screens.map_text import status, strip_cells, title
from gssr.tui.view import Scene, View


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
