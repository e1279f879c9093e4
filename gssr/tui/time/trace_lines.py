"""The rows of a trace over time (GPUs, streams, threads, processes), in the colours of what they do, and the messages
between them as lines: the master timeline of Vampir. Rows that spend their time alike can stand as one bar each (its
process summary).

After Knüpfer and others, The Vampir Performance Analysis Tool-Set, 2008.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gssr.arrays import Floats, Ints
from gssr.model.live.live_result import GridLines, Result, TracePart
from gssr.model.traces.flows import message_flows
from gssr.render.cells import fit_apart
from gssr.render.columns import average_into_columns, split_row
from gssr.render.roles import Span
from gssr.render.scale import count, metric_of, number, unit_of
from gssr.render.shares import most_of
from gssr.render.states import OF_TRACE
from gssr.report.live.marked_gpus import mark_of
from gssr.report.live.metric_scales import full_scale
from gssr.report.live.time_cells import Cells
from gssr.tui.keys import key
from gssr.tui.shared.history import history_rows
from gssr.tui.time.box import Box
from gssr.tui.time.stacked import stacked
from gssr.tui.time.trace_rows import Sight, TraceRows, flows_text
from gssr.tui.trace.cursor import NS

_VALUE = 7


class TraceLines(TraceRows):
    """The lines, the one under the cursor, and what they open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("enter", "open", "Tracks", "open this line: its tracks, with every interval in its place"),
        key("l", "open_all", "All tracks", "open all lines: the tracks of everything that is looked at", show=False),
        key("u", "app.move('group')", "Group", "similar lines as one, then those alike as bars, then each line alone"),
    ]  # fmt: skip

    MOST_TALL = 6

    def entitle_rows(self, result: Result, part: TracePart) -> None:
        """Name what is shown, how many messages there are, and the levels there are besides."""
        levels = ", ".join("GPUs" if name == "gpus" else name for name in part.levels)
        if part.line_split is not None:
            title = f"process summary: {result.noun} time by what it is for, those alike together"
        else:
            label = metric_of(result.grid.metric).label
            unit = unit_of(metric_of(result.grid.metric)).name
            title = f"every {result.noun} over time: {label}, {unit}".rstrip(", ")
        self.entitle(title, self._about_flows, f"v: {levels}" if "," in levels else "")

    def n_rows(self, result: Result) -> int | None:
        """Count the lines."""
        return None if result.timeline is None else len(result.timeline.members)

    def overlaid(self, strip: Strip, result: Result) -> Strip:
        """The time cursor on a line; bars of time together have none."""
        is_over_time = result.part is None or result.part.line_split is None
        return super().overlaid(strip, result) if is_over_time else strip

    def draw_rows(self, result: Result, part: TracePart, sight: Sight) -> list[Strip]:
        """Draw the lines in sight with names and values, what each does over time, and messages between them. Sets
        what the title says of the messages."""
        lines, (width, height) = result.timeline, self.content_size
        assert lines is not None
        gutter, cells, tall = self.left, self.cells_in_sight(result), sight.tall
        box = Box(width, height, self.glyphs.levels.isascii())
        in_marks = self.palette.colourless or self.glyphs.levels.isascii()
        grid = part.columns or result.grid
        names = self._names(result, [lines.members[at] for at in range(sight.top, sight.top + sight.shown)])
        full = full_scale(result, result.grid.metric)
        for at in range(sight.top, sight.top + sight.shown):
            y = (at - sight.top) * tall
            self._put_name(box, y + (tall - 1) // 2, result, lines, at, cells, names[at - sight.top])
            if part.line_split is not None:
                rows = self._bar(part.line_split[at], width - gutter, tall, in_marks)
            elif part.split is not None and result.grid.metric == "busy":
                split = np.asarray(part.split[at].T)
                shares = average_into_columns(split, grid.start, grid.width, cells.start, cells.end, cells.n)
                rows = self._states(shares, tall, in_marks)
            else:
                mean = average_into_columns(
                    lines.mean[at : at + 1] / full, grid.start, grid.width, cells.start, cells.end, cells.n
                )
                rows = history_rows(mean[0], tall, self.palette, self.glyphs)
            for dy, row in enumerate(rows):
                box.put(y + dy, gutter, row)
        self._about_flows = self._draw_messages(box, part, lines, cells, sight)
        return box.strips()

    def _states(self, shares: Floats, tall: int, in_marks: bool) -> list[list[Segment]]:
        """Draw the shares of the categories [n_categories, n_cells] in ``tall`` rows, stacked.

        In a single row the category with the largest share is drawn, as high as all shares together. The topmost part
        stays free, so that lines can be told apart.
        """
        if tall > 1:
            free = 1 / tall if in_marks else 0.5 / tall
            return stacked(shares * (1 - free), tall, OF_TRACE, self.palette, in_marks)
        most = most_of(shares.T).tolist()
        total = np.clip(np.nan_to_num(shares).sum(axis=0), 0.0, 1.0)
        levels = self.glyphs.levels[:-1]
        steps = np.clip(np.ceil(total * len(levels)).astype(int) - 1, 0, len(levels) - 1).tolist()
        found = []
        for state, step in zip(most, steps, strict=True):
            char = " " if state < 0 else OF_TRACE[state].mark if in_marks else levels[step]
            found.append(Segment(char, self.palette.style(OF_TRACE[state].role) if state >= 0 else None))
        return [found]

    def _bar(self, shares: Floats, width: int, tall: int, in_marks: bool) -> list[list[Segment]]:
        """Draw one bar whose parts are the ``shares`` [n_categories] of all time, and the rest idle, ``width`` cells
        wide; one row less than ``tall``, at least one."""
        bar = split_row(shares, ((state.mark if in_marks else "█", state.role) for state in OF_TRACE), width)
        rest = Span(self.glyphs.track * (width - sum(len(span.text) for span in bar)), "track")
        return [[Segment(span.text, self.palette.style(span.role)) for span in (*bar, rest)]] * max(tall - 1, 1)

    def _names(self, result: Result, lines: Sequence[Ints]) -> list[str]:
        """Name lines by the first of their rows (positions), and say how many more each stands for, in as many cells as
        there are for it."""
        more = [f" +{len(members) - 1:,}" if len(members) > 1 else "" for members in lines]
        room = max(self.left - 3 - _VALUE - max(map(len, more), default=0), 1)
        names = fit_apart([result.place(int(members[0])) for members in lines], room, self.glyphs.ellipsis, "end")
        return [name + others for name, others in zip(names, more, strict=True)]

    def _put_name(
        self, box: Box, y: int, result: Result, lines: GridLines, at: int, cells: Cells, name: str
    ) -> None:  # fmt: skip
        """Put the ``name`` and the value of line ``at`` into row ``y``, marked if a row of it is singled out or unlike the
        rest: the value at the time cursor, or without one the mean over the window."""
        members, metric = lines.members[at], metric_of(result.grid.metric)
        cell = None if self.view.cursor is None else cells.at(self.view.cursor)
        part = result.part
        value = float("nan")
        if cell is not None and part is not None:
            grid = part.columns or result.grid
            value = float(lines.mean[at, min(max(grid.column(cells.time(cell)), 0), lines.mean.shape[1] - 1)])
        else:
            means = result.window.per_gpu(metric.name, members)
            value = float(np.nanmean(means)) if np.isfinite(means).any() else value
        room = self.left - 3 - _VALUE
        marks = [mark_of(result, row, self.glyphs.levels.isascii()) for row in members.tolist()]
        mark, role = min(marks, key=lambda each: ("bad", "outlier", "plain").index(each[1]))
        here = at == self.row_of(len(lines.members))
        pieces = [
            Segment(f"{'>' if here else ' '}{mark or ' '}", self.palette.style("value")),
            self.name_segment(name, room, self.palette.style(role), here),
            Segment(f"{number(value, metric):>{_VALUE}} ", self.palette.style("value")),
        ]
        box.put(y, 0, pieces)

    def _draw_messages(self, box: Box, part: TracePart, lines: GridLines, cells: Cells, sight: Sight) -> str:
        """Draw the messages between lines if they are few enough. Returns what is to be said of them; "" if there are
        none, or in the process summary."""
        if part.line_split is not None or part.trace.messages is None:
            return ""
        line_of_owner = np.full(len(part.level.gpus) + 1, -1)
        for at, members in enumerate(lines.members):
            line_of_owner[members] = at
        line_of = line_of_owner[part.level.owner_of]
        found, n = message_flows(part.trace, line_of, round(cells.start * NS), round(cells.end * NS))
        for flow in found:
            self.draw_flow(box, flow, cells, sight, self.palette.style("plain"), middle=True)
        return flows_text(n, len(found), "message")

    # Keys and the mouse

    def action_open(self) -> None:
        """Open the line under the cursor: its tracks, or if it stands for several rows, first a line for each of them.
        Esc comes back."""
        result = self.result
        if result is None or result.timeline is None or not len(result.timeline.members):
            return
        line = self.row_of(len(result.timeline.members))
        members = result.timeline.members[line]
        one = len(members) == 1
        name = (
            result.place(int(members[0]))
            if one
            else f"{count(len(members), result.noun)} from {result.place(int(members[0]))}"
        )
        self.change_view(
            self.view.down(opened=one, selection=tuple(members.tolist()), selected=name, row=0, top=0)
        )  # fmt: skip

    def action_open_all(self) -> None:
        """All tracks."""
        self.change_view(self.view.down(opened=True, row=0, top=0))

    def on_click(self, event: events.Click) -> None:
        """Open a line by a double click or a click on its name; if the cursor is on another line, only move it there."""
        event.prevent_default()
        offset, line, timeline = (
            event.get_content_offset(self),
            self.row_under(event),
            self.result and self.result.timeline,
        )
        if offset is None or line is None or not timeline or not (event.chain == 2 or offset.x < self.left):
            return
        if line == self.row_of(len(timeline.members)):
            self.action_open()
        else:
            self.change_view(replace(self.view, row=line))
