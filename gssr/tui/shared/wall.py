"""The wall: every GPU of the job over time, in colour. Of very many it shows nodes, or neighbouring nodes together."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from rich.segment import Segment
from textual import events
from textual.strip import Strip

from gssr.arrays import Floats, Ints
from gssr.model.evidence.evidence import over_gpus
from gssr.model.live.live_result import Result
from gssr.render.cells import clean, fit
from gssr.render.roles import Role
from gssr.render.scale import count, metric_of, number
from gssr.report.live.marked_gpus import culprit_mark, legend_of_culprits
from gssr.report.live.time_cells import Cells, axis_row, cells_of, fractions, in_cells, known_from, value_text
from gssr.report.live.times_of_run import at_text, width_text
from gssr.tui.shared.history import history_rows, pair_row
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.panel import Panel
from gssr.tui.view import View, selection_of

MOST_ROWS = 4
"""Rows that a line takes at most: more say no more."""
VALUE = 6
"""Cells of a mean, before the two that part it from the name and the course."""
_LEAST_CELLS = 8


class WallLine(NamedTuple):
    """One line of the wall: its name, the positions of its GPUs, and where it begins and how many rows it takes. ``paired``:
    its GPUs, or parts of them, are shown two a row."""

    name: str
    members: Ints
    top: int
    height: int
    paired: bool = False


class WallDrawing(NamedTuple):
    """All rows of a wall, its lines, and the time of its cells."""

    strips: list[Strip]
    lines: list[WallLine]
    cells: Cells


def gpus_shown(result: Result, view: View) -> Ints:
    """Positions of the GPUs that are selected, else of all."""
    selection = selection_of(result, view)
    gpus = np.array(selection, np.int64) if selection else np.arange(result.n_gpus)
    return gpus[gpus < result.n_gpus]


def lines_of(result: Result, gpus: Ints, height: int, in_colour: bool) -> list[WallLine]:
    """Choose the lines of the wall, so that all of these GPUs (positions) fit in ``height`` rows: a line for each GPU;
    else the GPUs of a node two a row, if colours can tell (``in_colour``); else nodes; else neighbouring nodes (or
    GPUs of one node) together."""
    n = len(gpus)
    if n <= height:
        size = min(height // max(n, 1), MOST_ROWS)
        return [WallLine(result.place(int(gpu)), np.array([gpu]), at * size, size) for at, gpu in enumerate(gpus)]
    node_of = result.node_of[gpus]
    numbers = np.unique(node_of).tolist()
    names, nodes = [result.nodes[node] for node in numbers], [gpus[node_of == node] for node in numbers]
    pairs = [-(-len(node) // 2) for node in nodes]
    if in_colour and sum(pairs) <= height and not result.by_node:
        tops = np.concatenate(([0], np.cumsum(pairs)))
        return [WallLine(names[at], node, int(tops[at]), pairs[at], True) for at, node in enumerate(nodes)]
    together = -(-len(nodes) // max(height, 1)) if len(nodes) > 1 else -(-n // max(height, 1))
    if len(nodes) <= 1:
        parts = [gpus[first : first + together] for first in range(0, n, together)]
        return [WallLine(_name_of(result, part), part, at, 1) for at, part in enumerate(parts)]
    size = min(height // len(nodes), MOST_ROWS) if together == 1 else 1
    if in_colour and together == 1 and not result.by_node:
        return [WallLine(names[at], node, at * size, size, True) for at, node in enumerate(nodes)]
    found = []
    for at, first in enumerate(range(0, len(nodes), together)):
        own = nodes[first : first + together]
        name = names[first] if len(own) == 1 else f"{names[first]} +{len(own) - 1}"
        found.append(WallLine(name, np.concatenate(own), at * size, size))
    return found


def _name_of(result: Result, members: Ints) -> str:
    """Name neighbouring GPUs by the first, and say how many more there are."""
    first = result.place(int(members[0]))
    return first if len(members) == 1 else f"{first} +{len(members) - 1}"


def parts_of(members: Ints, n: int) -> list[Ints]:
    """Divide GPUs into at most ``n`` parts of neighbours, none of them empty."""
    return [part for part in np.array_split(members, min(n, len(members))) if len(part)]


def lowest_of(result: Result, gpus: Ints, height: int) -> list[WallLine]:
    """Choose the GPUs of lowest mean, a line each, as many as ``height``; those without samples come last."""
    means = result.window.per_gpu(result.grid.metric)[gpus]
    found = gpus[np.argsort(means, kind="stable")[: max(height, 0)]]
    return [WallLine(result.place(int(gpu)), np.array([gpu]), at, 1) for at, gpu in enumerate(found)]


class Wall(Panel):
    """Every GPU over time, or where there is little room the ``lowest``. A click picks a GPU; the mouse over it says which,
    when and how much. ``axis``: the times stand below it."""

    lowest = False
    axis = True
    only: Ints | None = None
    """Positions of the only GPUs to be shown; None: of those that are selected, else all."""
    seen: WallDrawing | None = None
    """What was drawn last; None before there was anything to draw."""

    def cells(self, result: Result) -> int:
        """Cells of time that fit beside the names."""
        return max(self.content_size.width - self.offset_of(result), _LEAST_CELLS)

    def offset_of(self, result: Result) -> int:
        """Cells that names and means take."""
        return self._label(result) + VALUE + 2

    def _label(self, result: Result) -> int:
        """Return how many cells the longest name takes, and a blank; at most a quarter of the width."""
        longest = max((len(result.place(gpu)) for gpu in range(min(result.n_gpus, 64))), default=4)
        if len(result.nodes) > self.content_size.height:  # neighbouring nodes share a line
            longest = max(longest, max(map(len, result.nodes[:64])) + len(" +99"))
        elif (
            len(result.nodes) == 1
            and not self.lowest
            and result.n_gpus > self.content_size.height
            and not self.in_colour
        ):
            longest += len(" +9")  # neighbouring GPUs do
        return min(longest, max(self.content_size.width // 4, 8)) + 1

    def name_border(self, result: Result) -> None:
        """Name in the border what is shown, the metric, and how long a cell is."""
        if self.lowest:
            self.border_title = f"lowest {result.noun}s"
        else:
            selection = selection_of(result, self.view)
            which = f"every {result.noun}" if not selection else count(len(selection), result.noun)
            if self.only is not None:
                n = count(len(gpus_shown(result, self.view)), result.noun)
                which = f"{len(self.only):,} of {n} pass {clean(self.view.filter)}: each"
            legend = legend_of_culprits(result)
            mark = culprit_mark(self.glyphs.levels.isascii())
            self.border_title = f"{which} over time{f'   {mark} {legend}' if legend else ''}"
        width = cells_of(result, self.cells(result)).width
        self.border_subtitle = f"{metric_of(result.grid.metric).label}, {width_text(width)} a cell"

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """The names, the means, and the cells of time."""
        result = self.result
        self.seen = None if result is None or not result.n_gpus else self._draw(result, width, height)
        return [] if self.seen is None else self.seen.strips[:height]

    @property
    def in_colour(self) -> bool:
        """True where colour alone can tell a load."""
        return not self.palette.colourless and not self.glyphs.levels.isascii()

    def _draw(self, result: Result, width: int, height: int) -> WallDrawing:
        """Draw all lines with marks, names and means, and below them the times if ``axis``."""
        palette, glyphs = self.palette, self.glyphs
        room = height - self.axis
        gpus = gpus_shown(result, self.view) if self.only is None else self.only
        lines = lowest_of(result, gpus, room) if self.lowest else lines_of(result, gpus, room, self.in_colour)
        cells = cells_of(result, self.cells(result))
        values = fractions(result, in_cells(result, result.grid.values, cells))
        marked, culprits = result.unlike.copy(), np.zeros(result.n_gpus, bool)
        culprits[list(result.singled_out)] = True
        if culprits.any():
            marked = culprits
        metric = metric_of(result.grid.metric)
        means = result.window.per_gpu(result.grid.metric)
        label = self._label(result)
        strips: list[Strip] = []
        for line in lines:
            are_blamed = culprits[line.members]
            apart = bool(are_blamed.any()) or 2 * int(marked[line.members].sum()) > len(line.members)
            known = means[line.members]
            known = known[np.isfinite(known)]
            mean = float(known.mean()) if len(known) else float("nan")
            role: Role = "plain" if not apart else "bad" if are_blamed.any() else "outlier"
            style = palette.style(role)  # names as plain as means: each change of colour is sent
            name = fit(clean(line.name), label - 1, glyphs.ellipsis, "end")
            mark = culprit_mark(glyphs.levels.isascii()) if apart else " "
            # The GPUs of a paired line are two a row: the mark stands beside the row of a culprit, else beside the name.
            named_row = line.height // 2 - (line.height % 2 == 0)
            at_rows: Collection[int] = {named_row}
            if line.paired and are_blamed.any():
                parts = parts_of(line.members, 2 * line.height)
                at_rows = {at // 2 for at, part in enumerate(parts) if culprits[part].any()}
            head = [
                Segment(f"{name:<{label}}", style),
                Segment(f"{number(mean, metric):>{VALUE}} ", palette.style("value" if apart else "plain")),
            ]
            for y, row in enumerate(self._rows(values, line, known_from(result, cells), cells.rolls)):
                beside = Segment(mark if y in at_rows else " ", style)
                first = head if y == named_row else [Segment(" " * (label + VALUE + 1))]
                strips.append(Strip([beside, *first, *row]).adjust_cell_length(width))
        if self.axis:
            axis = self.strip_of(axis_row(result, cells), width - label - VALUE - 2)
            strips.append(Strip([Segment(" " * (label + VALUE + 2)), *axis]).adjust_cell_length(width))
        return WallDrawing(strips, lines, cells)

    def _rows(self, values: Floats, line: WallLine, first_known: int, rolls: bool) -> list[list[Segment]]:
        """Draw the course of one line over the cells; of several GPUs their mean, or of a paired line two parts in
        each row."""
        if not line.paired:
            own = values[line.members]
            mean = own[0] if len(own) == 1 else over_gpus(own)
            return history_rows(mean, line.height, self.palette, self.glyphs, first_known, rolls)
        parts = parts_of(line.members, 2 * line.height)
        halves = (
            [values[part].mean(axis=0) for part in parts]
            if len(parts) < len(line.members)
            else list(values[line.members])
        )
        halves += [halves[-1]] * (2 * line.height - len(halves))
        return [pair_row(halves[at], halves[at + 1], self.palette, first_known) for at in range(0, len(halves), 2)]

    def _at(self, x: int, y: int) -> tuple[int, int] | None:
        """Return the GPU (position; of a part of several its first) and the cell of time under the mouse, or None if
        there is none."""
        if self.result is None or self.seen is None:
            return None
        _, lines, cells = self.seen
        line = next((each for each in lines if each.top <= y < each.top + each.height), None)
        cell = x - self._label(self.result) - VALUE - 2
        if line is None or not 0 <= cell < cells.n:
            return None
        parts = parts_of(line.members, 2 * line.height)
        at = min(2 * (y - line.top), len(parts) - 1) if line.paired else 0
        return int(parts[at][0] if line.paired else line.members[0]), cell

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say in a tooltip which GPU and time are under the mouse, and the value there."""
        offset = event.get_content_offset(self)
        found = None if offset is None else self._at(offset.x, offset.y)
        if found is None or self.result is None or self.seen is None:
            self.tooltip = None
            return
        gpu, cell = found
        time = self.seen.cells.time(cell)
        value = float(self.result.grid.values[gpu, self.result.grid.column(time)])
        self.tooltip = (
            f"{clean(self.result.place(gpu))} at {at_text(self.result, time)}: {value_text(self.result, value)}"
        )

    def on_click(self, event: events.Click) -> None:
        """Post Opened with the GPU under the mouse, if there is one."""
        offset = event.get_content_offset(self)
        found = None if offset is None else self._at(offset.x, offset.y)
        if found is not None:
            self.post_message(Opened(self, found[0]))
