"""Time: when was it not used? Every GPU over time, the share of states, what happened when; of a trace every interval."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from gssr.model.live.live_result import Query, Result
from gssr.model.live.watched_trace import MOST_COUNTERS
from gssr.tui.keys import key
from gssr.tui.shared.search_line import SearchLine, SearchPane
from gssr.tui.shared.wall import gpus_shown, lines_of
from gssr.tui.time.details import Details
from gssr.tui.time.event_axis import EventAxis
from gssr.tui.time.states import States
from gssr.tui.time.timeline import TimePanel, columns_in
from gssr.tui.time.trace_lanes import TraceLanes
from gssr.tui.time.trace_lines import TraceLines
from gssr.tui.time.tracks import Tracks
from gssr.tui.time.wall import TimeWall
from gssr.tui.time.window import in_cells_of_time
from gssr.tui.view import View

_NO_TRACE = "This run has no trace; gssr tui --attach TRACE lays one over it."
_MOST_DETAILS = 12
_WALL = 0.65
"""The wall's share of the rows that it and the states have together."""
_LEAST_STATES = 3


class TimePane(SearchPane):
    """Show when the GPUs were not used: panels over one axis of time."""

    screen_name = "time"
    _shown: type[TimePanel] | None = None
    """The kind of timeline that was in sight last."""
    BINDINGS: ClassVar[list[BindingType]] = [
        key(
            "v",
            "level",
            "Level",
            "to the traces of the run, and through their levels: GPUs, streams, threads, processes",
        ),
        key("slash", "seek", "Search", "of a trace: look for a name; f and F go to the next and the one before"),
        key("i", "app.only", "Only", "of a trace: only some intervals: name=nccl  takes>1ms  size>1MB", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Lay out, from above: who, what for, what was measured beside, when, and all about the cursor."""
        yield TimeWall(id="time-wall", classes="panel leads-to-gpu")
        yield TraceLines(id="time-lines", classes="panel")
        yield TraceLanes(id="time-lanes", classes="panel")
        yield States(id="time-states", classes="panel")
        yield Tracks(id="time-tracks", classes="panel")
        yield EventAxis(id="time-axis", classes="panel")
        yield Details(id="time-details", classes="panel")
        yield SearchLine("a part of a name, or a pattern with * and ?", id="time-search")

    def columns(self, width: int) -> int:
        """The columns that the timelines have."""
        return columns_in(width)

    def asks(self, query: Query) -> Query:
        """Add to the query what this screen needs: metrics of the nodes beside those of GPUs, or of a trace its lines
        in columns as wide as a cell."""
        result = self._result()
        if query.level is None and result is not None and result.run is not None and result.part is None:
            return replace(query, beside=True)
        return self._of_trace(query)

    def _result(self) -> Result | None:
        results = self.app.results
        return results[0] if results else None

    def _of_trace(self, query: Query) -> Query:
        """Add to the query as many lines of a trace as can be in sight, and columns as wide as a cell."""
        room = max(self.query_one(TraceLines).content_size.height, self.app.size.height // 2)
        return replace(in_cells_of_time(query), rows=2 * room + MOST_COUNTERS)

    def show(self, results: Sequence[Result], view: View) -> None:
        """Draw the first result: the wall for a recording, for a trace its lines, or its tracks if a selection is
        opened. The focus moves along with the kind of timeline."""
        result = results[0]
        shown = TimeWall if result.part is None else TraceLanes if view.opened else TraceLines
        before = self.screen.focused
        for kind in (TimeWall, TraceLines, TraceLanes):
            self.query_one(kind).display = kind is shown
        if result.part is None:
            self._fit(result)
        else:
            self.query_one(Details).display = True
            self.query_one(States).display = result.part.trace.sources[0].format != "memory"
            for panel in (Details, States):
                for rule in ("height", "max_height"):
                    self.query_one(panel).styles.clear_rule(rule)
        for widget in (shown, States, Tracks, EventAxis, Details):
            self.query_one(widget).show(result, view)
        if isinstance(before, TimeWall | TraceLines | TraceLanes) and not isinstance(before, shown):
            self.screen.set_focus(self.query_one(shown))
        if shown is not self._shown:
            self._shown = shown
            self.call_after_refresh(self._keep_focus)

    def _keep_focus(self) -> None:
        """Focus the timeline in sight where hiding the one before it has taken the focus away."""
        if self.screen.focused is None and self.app.view.screen == self.screen_name:
            self.focus_content()

    def on_resize(self) -> None:
        """Share the rows anew; nothing before the first result, or for a trace."""
        result = self._result()
        if result is not None and result.part is None:
            self._fit(result)

    def _fit(self, result: Result) -> None:
        """Give the details the rows that they need, the wall as many whole rows for each GPU as there is room for, and the
        states the rest. On a short terminal the details appear once a time or a range is chosen."""
        wall, details, axis = self.query_one(TimeWall), self.query_one(Details), self.query_one(EventAxis)
        if self.screen.maximized is not None:
            return
        short = self.screen.has_class("-short")
        details.display = not short or self.app.view.cursor is not None or details.marked is not None
        details.styles.height = 3 if short else min(Details.rows_needed(result, self.size.width), _MOST_DETAILS) + 1
        tracks = Tracks.rows_of(result)
        taken = sum(
            int(panel.styles.height.value) for panel in (axis, details) if panel.display and panel.styles.height
        )
        taken += tracks + 1 if tracks else 0
        room = self.size.height - taken
        most = max(min(round(_WALL * room), room - _LEAST_STATES - 1), 1)
        lines = lines_of(result, gpus_shown(result, self.app.view), most, wall.in_colour)
        wall.styles.height = lines[-1].top + lines[-1].height + 1 if lines else most

    # What the panels want

    def on_time_panel_marked(self, event: TimePanel.Marked) -> None:
        """Show the marked stretch on all panels, and in the details what took the time in it, once it is no longer
        being dragged."""
        event.stop()
        for panel in self.query(TimePanel):
            panel.marked = event.stretch
            panel.refresh()
        details, result = self.query_one(Details), self._result()
        if not event.dragging and result is not None:
            details.marked = event.stretch
            if result.part is None:
                self._fit(result)
            details.show(result, self.app.view)

    def let_go(self) -> bool:
        """End the search for a name, or if there is none, unmark the selected range. Returns False, having done
        nothing, if there is neither."""
        if super().let_go():
            return True
        if self.app.view.name:
            self.search("")
            return True
        if self.query_one(Details).marked is not None:
            self.post_message(TimePanel.Marked(None))
            return True
        return False

    def focus_content(self) -> None:
        """Focus the timeline that is shown; nothing while the pane is being left, when none is."""
        shown = next((panel for panel in self.query(TimePanel) if panel.display), None)
        if shown is not None:
            self.screen.set_focus(shown)

    def action_level(self) -> None:
        """Show the next level of the trace (GPUs, streams, threads, processes), or from a recording go to its traces;
        a notice if it has none."""
        result = self._result()
        if result is not None and result.part is None and not result.traced:
            self.notify(_NO_TRACE)
        else:
            self.app.action_move("level")

    # Search

    def action_seek(self) -> None:
        """Show the line in which a name is typed, and give it the focus; a notice instead if no trace is shown."""
        result = self._result()
        if result is None or result.part is None:
            self.notify(
                _NO_TRACE
                if result is None or not result.traced
                else "Names are of traces: v goes to those of this run."
            )
            return
        self.query_one(SearchLine).open(self.app.view.name)

    def search(self, text: str) -> None:
        """Look for a name, so that its intervals are counted."""
        self.app.change_view(replace(self.app.view, name=text))

    def take(self, line: Input, text: str) -> None:
        """Look for the typed name and go to its next interval after the cursor; the line is hidden."""
        line.display = False
        self.focus_content()
        self.search(text)
        self.query_one(TraceLanes).action_find(1)
