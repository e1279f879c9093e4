"""Tracks level by level: every interval where it lies, with its name, and lines from a launch to its kernel and from a send
to its receive."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gssr.model.live.live_result import Result, TracePart
from gssr.model.traces.flows import flow_between, launch_flows, message_flows, partner
from gssr.model.traces.nesting import Lanes
from gssr.render.cells import clean, fit, fit_apart
from gssr.render.function_names import short_name
from gssr.render.glyphs import in_ascii
from gssr.render.scale import count
from gssr.render.states import OF_TRACE
from gssr.report.live.time_cells import Cells
from gssr.tui.keys import key
from gssr.tui.time.box import ON_BLOCKS, Box
from gssr.tui.time.trace_rows import Sight, TraceRows, flows_text
from gssr.tui.trace.cursor import NS, cause, find, find_on_line, fitted, interval_under, intervals_sought
from gssr.tui.view import Scene, View

_LEAST_NAME = 3
"""Cells that an interval's name needs."""


class TraceLanes(TraceRows):
    """The lanes, and the interval under the cursor, which is picked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("f", "find(1)", "Next", "the next interval of the name that is looked for, or under the cursor"),
        key("F", "find(-1)", "Previous", "the previous interval of that name", show=False),
        key("full_stop", "find_on_line(1)", "Next on line", "the next interval on the cursor's line", show=False),
        key("comma", "find_on_line(-1)", "Previous on line", "the previous interval on the cursor's line", show=False),
        key("b", "cause", "Cause", "from work to its launch and back, from send to receive and back"),
        key("enter", "fit", "Fit", "the interval under the cursor fills the window", show=False),
    ]  # fmt: skip

    MOST_TALL = 3

    def entitle_rows(self, result: Result, part: TracePart) -> None:
        """Say what is opened, which of how many intervals of the sought name is under the cursor, and how many lines
        there are."""
        view = self.view
        n = 0 if part.lanes is None else len(np.unique(part.lanes.track))
        what = clean(view.selected) if view.selected else f"all {result.noun}s"
        found = intervals_sought(result, view) if view.name else None
        sought = ""
        if found is not None:
            here = self.picked()
            at = int(np.searchsorted(found, here)) if here >= 0 else -1
            number = at + 1 if 0 <= at < len(found) and found[at] == here else 0
            sought = f"{clean(view.name)}: {number or '-'} of {len(found):,}"
        self.entitle(f"{what}: {count(n, 'track')}, Esc closes", sought, self._about_flows)

    def picked(self) -> int:
        """Return the interval under the cursor, as an index into the trace's intervals; -1 if there is none."""
        if self.result is None or self.result.part is None or self.result.part.lanes is None:
            return -1
        return interval_under(self.result, self.row_of(len(self.result.part.lanes.track)), self.view.cursor)

    def n_rows(self, result: Result) -> int | None:
        """Count the lanes of the tracks that are looked at."""
        lanes = None if result.part is None else result.part.lanes
        return None if lanes is None else len(lanes.track)

    def draw_rows(self, result: Result, part: TracePart, sight: Sight) -> list[Strip]:
        """Draw the lanes in sight with names and intervals, and lines between intervals that belong together. Sets
        what the title says of these lines."""
        lanes = part.lanes
        assert lanes is not None
        width, height = self.content_size
        cells, gutter = self.cells_in_sight(result), self.left
        box = Box(width, height, self.glyphs.levels.isascii())
        n = lanes.item.shape[1]
        column = np.minimum(np.arange(cells.n) * n // max(cells.n, 1), n - 1)
        picked = self.picked()
        in_sight = range(sight.top, sight.top + sight.shown)
        names = fit_apart([_name(part, lanes, lane) for lane in in_sight], self.left - 3, self.glyphs.ellipsis)
        for lane, lane_name in zip(in_sight, names, strict=True):
            y = (lane - sight.top) * sight.tall
            self._put_name(box, y, lanes, lane, lane_name)
            items, share = lanes.item[lane][column], lanes.share[lane][column]
            edges = np.flatnonzero(np.diff(items, prepend=-2)).tolist()
            for begin, end in zip(edges, [*edges[1:], cells.n], strict=True):
                item = int(items[begin])
                if item >= 0:
                    for dy, row in enumerate(
                        self._interval(part, item, share[begin:end].tolist(), sight.tall, item == picked)
                    ):
                        box.put(y + dy, gutter + begin, row)
        self._about_flows = self._draw_flows(box, part, lanes, picked, cells, sight)
        return box.strips()

    def _interval(
        self, part: TracePart, item: int, shares: list[float], tall: int, picked: bool
    ) -> list[list[Segment]]:  # fmt: skip
        """Draw an interval (``item``: index into the trace's intervals) in ``tall`` rows of ``len(shares)`` cells.

        Where there is room its name stands on its colour; else the height of each cell says which share (0-1) of it is
        filled. Without colours it is drawn in its category's letter; ``picked`` is drawn reversed.
        """
        own = part.trace.intervals
        state = OF_TRACE[int(own.category[item])]
        style = self.palette.style(state.role)
        n = len(shares)
        in_marks = self.palette.colourless or self.glyphs.levels.isascii()
        name = in_ascii(short_name(part.trace.names[int(own.name[item])])) if n >= _LEAST_NAME else ""
        edge = "" if n < _LEAST_NAME else "|" if in_marks else "▏"  # also room for the end of a line from the launch
        if picked:
            look = Style(reverse=True, bold=True)
            return [[Segment(f"{edge}{name}".ljust(n)[:n], look)], *[[Segment(" " * n, look)]] * (tall - 1)]
        if in_marks:
            below = [[Segment(state.mark * n, style)]] * (tall - 1)
            return [[Segment(f"{edge}{name[: n - 1]}".ljust(n, state.mark)[:n], style)], *below]
        if n >= _LEAST_NAME:
            ground = ON_BLOCKS + Style(bgcolor=style.color)
            below = [[Segment(edge.ljust(n), ground)]] * (tall - 1)
            return [[Segment(f"{edge}{fit(name, n - 1, ''):<{n - 1}}", ground)], *below]
        levels = self.glyphs.levels
        eighths = [max(round(share * tall * len(levels)), 1) for share in shares]
        rows = []
        for row in range(tall - 1, -1, -1):
            filled = [min(max(each - row * len(levels), 0), len(levels)) for each in eighths]
            rows.append([Segment(levels[each - 1] if each else " ", style if each else None) for each in filled])
        return rows

    def _put_name(self, box: Box, y: int, lanes: Lanes, lane: int, name: str) -> None:
        """Put a lane's name into row ``y``."""
        here = lane == self.row_of(len(lanes.track))
        mark = Segment("> " if here else "  ", self.palette.style("value"))
        style = self.palette.style("plain" if _is_first(lanes, lane) else "dim")
        box.put(y, 0, [mark, self.name_segment(name, self.left - 3, style, here)])

    def _draw_flows(
        self, box: Box, part: TracePart, lanes: Lanes, picked: int, cells: Cells, sight: Sight
    ) -> str:  # fmt: skip
        """Draw lines from launches to their work and from sends to receives, where they are few enough, and always
        that of the interval under the cursor (``picked``, -1 for none). Returns what is to be said of them, "" for
        none."""
        begin, end = round(cells.start * NS), round(cells.end * NS)
        launches, n = launch_flows(part.trace, lanes, begin, end)
        line_of = np.full(len(part.trace.tracks), -1)
        for lane in range(len(lanes.track) - 1, -1, -1):
            line_of[lanes.track[lane]] = lane
        messages, n_messages = message_flows(part.trace, line_of, begin, end)
        faint, bright = self.palette.style("dim"), self.palette.style("heading")
        for flow in (*launches, *messages):
            self.draw_flow(box, flow, cells, sight, faint)
        other = partner(part.trace, picked) if picked >= 0 else -1
        if other >= 0 and np.isin(other, lanes.places):
            first, second = sorted((picked, other))  # places ascend by time
            self.draw_flow(box, flow_between(part.trace, lanes, first, second), cells, sight, bright)
        texts = (flows_text(n, len(launches), "launched kernel"), flows_text(n_messages, len(messages), "message"))
        return ", ".join(filter(None, texts))

    # Keys and the mouse

    def action_find(self, step: int) -> None:
        """Go to the next (``step`` 1) or previous (-1) interval of the name that is looked for; a notice if there is
        none."""
        self._go(find(step), "No more of that name that way, or no name is chosen.")

    def action_find_on_line(self, step: int) -> None:
        """Go to the next (``step`` 1) or previous (-1) interval on the cursor's line; a notice if there is none."""
        self._go(find_on_line(step), "No more intervals on this line that way; up and down go to another line.")

    def _go(self, move: Callable[[Scene], View], if_nowhere: str) -> None:
        """Change the view by a move, or say this where it leads nowhere."""
        scene = self.app.scene()
        if scene is not None:
            view = move(scene)
            if view == self.app.view:
                self.notify(if_nowhere)
            self.change_view(view)

    def action_cause(self) -> None:
        """Go from work to its launch or back, from one end of a message to the other."""
        scene = self.app.scene()
        if scene is not None:
            self.change_view(cause(scene))

    def action_fit(self) -> None:
        """Zoom so that the interval under the cursor fills the window, with a tenth of its length on either side; do
        nothing without one."""
        place, result = self.picked(), self.result
        if place >= 0 and result is not None and result.part is not None:
            self.change_view(fitted(result, result.part, self.view, place, self.cells_in_sight(result).n))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Name the interval under the mouse in a tooltip, unless a drag is under way."""
        offset, result, lane = event.get_content_offset(self), self.result, self.row_under(event)
        part = None if result is None else result.part
        if self._drag is not None or offset is None or result is None or part is None or part.lanes is None:
            return
        x, cells, lanes = offset.x - self.left, self.cells_in_sight(result), part.lanes
        if lane is None or not 0 <= x < cells.n:
            self.tooltip = None
            return
        n = lanes.item.shape[1]
        item = int(lanes.item[lane, min(x * n // cells.n, n - 1)])
        self.tooltip = None if item < 0 else clean(part.trace.names[int(part.trace.intervals.name[item])])


def _is_first(lanes: Lanes, lane: int) -> bool:
    """Tell whether a lane is the first one of its track."""
    return bool(lane == 0 or lanes.track[lane - 1] != lanes.track[lane])


def _name(part: TracePart, lanes: Lanes, lane: int) -> str:
    """Name a lane: the first one of a track as the track, those below "level N". The rank goes before it where several are
    shown."""
    if not _is_first(lanes, lane):
        return f"  level {int(lanes.level[lane])}"
    track = part.trace.tracks[int(lanes.track[lane])]
    name = track.label
    if track.rank is not None and str(track.rank) not in name and lanes.track[0] != lanes.track[-1]:
        ranks = {part.trace.tracks[at].rank for at in np.unique(lanes.track).tolist()}
        name = f"rank {track.rank} {name}" if len(ranks) > 1 else name
    return clean(name)
