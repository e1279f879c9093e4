"""Where on the map each GPU is drawn: node by node, nodes side by side, and as large as there is room for.

A cell of the map is a tile with a number for few GPUs, one mark each for many, and a mark for whole nodes for more than fit.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.cached import once
from gssr.render.cells import cell_width
from gssr.tui.order import passing
from gssr.tui.view import Scene

TILES = ((12, 8), (10, 7), (9, 6), (8, 6), (8, 5), (7, 5), (7, 4), (6, 4), (6, 3), (5, 3), (5, 2))
"""Widths and heights of a tile, the last cell and the last row of which are its gap and its number; the largest that fits
is taken."""
DENSITIES = ("auto", "nodes apart", "nodes together", "a mark per node")
"""What ``density`` cycles through."""
_BETWEEN_TILES = 2
_MOST_NAME = 16
TITLE = 1
"""Rows above the map."""
_EVEN = 4
"""Nodes side by side are a multiple of this where that fits: their numbers are easier to find."""


class MapLayout(NamedTuple):
    """``gpus`` [n]: positions, ascending. Cells hold GPUs that follow each other: cell c those from ``first[c]`` on.
    ``line`` and ``x`` [n_cells]: where each begins, lines counted from the top of the whole map. A line is ``height`` rows
    high, a cell ``width`` wide. ``block`` [n]: which node, counted among those shown. ``label``: cells left of the map for
    the name of a line's first node; 0 where names stand above. ``gap``: cells between nodes. ``nodes``: how many nodes go
    into one cell, 0 where a cell is a GPU."""

    gpus: Ints
    first: Ints
    line: Ints
    x: Ints
    block: Ints
    width: int
    height: int
    label: int
    gap: int
    nodes: int

    @property
    def n_lines(self) -> int:
        """Lines of the whole map."""
        return int(self.line[-1]) + 1 if len(self.line) else 0

    @property
    def tiled(self) -> bool:
        """True where cells are tiles with numbers."""
        return self.height > 1

    def cell_of(self, gpu: int) -> int:
        """The cell of a GPU; the first one for a GPU that is not shown."""
        at = int(np.searchsorted(self.gpus, gpu))
        if at >= len(self.gpus) or self.gpus[at] != gpu:
            at = 0
        return int(np.searchsorted(self.first, at, side="right")) - 1

    def members(self, cell: int) -> Ints:
        """Positions of the GPUs of a cell."""
        end = self.first[cell + 1] if cell + 1 < len(self.first) else len(self.gpus)
        return self.gpus[self.first[cell] : end]


def lay_out(gpus: Ints, node_of: Ints, name_width: int, width: int, height: int, density: int) -> MapLayout:
    """The map of these GPUs (positions, ascending; ``node_of`` [n] their nodes) in a box of ``width`` × ``height``. Only
    what ``density`` asks for may be higher than the box. ``name_width``: cells for a node's name."""
    starts = np.flatnonzero(np.diff(node_of, prepend=-1))
    sizes = np.diff(starts, append=len(node_of))
    block = np.repeat(np.arange(len(starts)), sizes)
    within = np.arange(len(gpus)) - starts[block] if len(gpus) else block
    most = int(sizes.max(initial=1))
    label = name_width + 2
    asked = DENSITIES[density % len(DENSITIES)]
    if asked == "auto" and len(gpus):
        tiled = _tiles(gpus, block, within, most, len(starts), name_width, width, height)
        if tiled is not None:
            return tiled
    room = max(width - label, 1)
    for name, gap in (("nodes apart", 1), ("nodes together", 0)):
        if asked not in ("auto", name):
            continue
        side = max((room + gap) // (most + gap), 1)
        across = min(most, room)
        deep = -(-most // across)
        if deep == 1 and side > _EVEN and -(-len(starts) // (side - side % _EVEN)) <= height:
            side -= side % _EVEN
        if asked == name or -(-len(starts) // side) * deep <= height:
            line = block // side * deep + within // across
            x = label + block % side * (most + gap) + within % across
            return MapLayout(gpus, np.arange(len(gpus)), line, x, block, 1, 1, label, gap, 0)
    nodes = 1
    while asked == "auto" and -(-len(starts) // nodes) > room * max(height, 1):
        nodes *= 2
    cells = -(-len(starts) // nodes)
    at = np.arange(cells)
    return MapLayout(gpus, starts[::nodes], at // room, label + at % room, block, 1, 1, label, 0, nodes)


def _tiles(
    gpus: Ints, block: Ints, within: Ints, most: int, n_blocks: int, name_width: int, width: int, height: int
) -> MapLayout | None:
    for tile_width, tile_height in TILES:
        size = max(most * tile_width, name_width + 2)
        side = (width - 1 + _BETWEEN_TILES) // (size + _BETWEEN_TILES)
        if side < 1 or -(-n_blocks // side) * (tile_height + 1) > height:
            continue
        side = -(-n_blocks // -(-n_blocks // side))
        x = 1 + block % side * (size + _BETWEEN_TILES) + within * tile_width
        return MapLayout(
            gpus, np.arange(len(gpus)), block // side, x, block, tile_width, tile_height + 1, 0, _BETWEEN_TILES, 0
        )
    return None


class Sight(NamedTuple):
    """A layout, and what is in sight of it: ``lines`` lines from ``top`` on. ``cell`` is under the cursor. ``problem``: what
    is wrong with the filter, which then hides nothing."""

    layout: MapLayout
    top: int
    lines: int
    cell: int
    problem: str

    def gpu(self, chosen: int) -> int:
        """The GPU under the cursor that is told of: the one ``chosen``, if it is there."""
        members = self.layout.members(self.cell)
        return chosen if chosen in members else int(members[0])

    def at(self, cell: int) -> "Sight":
        """With the cursor on another cell, and that in sight."""
        line = int(self.layout.line[cell])
        top = min(max(self.top, line - self.lines + 1), line)
        return self._replace(cell=cell, top=min(max(top, 0), max(self.layout.n_lines - self.lines, 0)))


def status_rows(height: int) -> int:
    """Rows below the map."""
    return 2 if height >= 12 else 1


@once
def _longest(nodes: tuple[str, ...]) -> int:
    return max((cell_width(node) for node in nodes), default=1)


def sight(scene: Scene) -> Sight:
    """What the map shows of the selection's GPUs that pass the filter."""
    frame, view = scene.frame, scene.view
    gpus, problem = np.sort(scene.looked_at(), kind="stable"), ""
    if view.filter:
        try:
            gpus = gpus[passing(frame, view.filter)[gpus]]
        except ValueError as error:
            problem = str(error)
    room = max(scene.height - TITLE - status_rows(scene.height), 1)
    name = min(_longest(frame.nodes), _MOST_NAME, max(scene.width // 4, 1))
    layout = lay_out(gpus, frame.node_of[gpus], name, scene.width, room, view.density)
    found = Sight(layout, view.top, max(room // layout.height, 1), 0, problem)
    return found.at(layout.cell_of(view.gpu)) if len(gpus) else found
