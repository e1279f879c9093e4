"""Calls, of a trace: what took the time? By name, in a sub-tab for each kind of name."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static, Tab, Tabs

from gssr.metrics import OF_NAME
from gssr.model.live.live_result import Query, Result
from gssr.model.traces.longest import longest_interval
from gssr.render.cells import clean
from gssr.report.live.call_tables import ABOUT, LEVELS, MATRICES, TITLES, Values, tables_of
from gssr.report.live.times_of_run import cut_text
from gssr.tui.calls.matrix import MessageMatrix
from gssr.tui.calls.table import CallTable
from gssr.tui.calls.tree import CallPlaces, CallTreeTable
from gssr.tui.keys import key
from gssr.tui.shared.messages import Opened, Pointed
from gssr.tui.shared.search_line import SearchLine, SearchPane
from gssr.tui.time.timeline import columns_in
from gssr.tui.time.window import in_cells_of_time
from gssr.tui.trace.cursor import fitted, opened_at
from gssr.tui.view import View

_TREE = "calltree"
_NO_TIME = "This has no time of its own."
_NOT_ON_TIME = {"collectives": _NO_TIME, "hlo": "Time shows kernels, not categories of operations.",
                "holders": "Time shows how much a GPU held, not for what."}  # fmt: skip
"""Tables whose rows Time can't show, and why."""
_TAB = "calls-of-"
_LEAST_FOR_PLACES = 18
"""Rows of the screen from which the call under the cursor is shown rank by rank."""


class CallsPane(SearchPane):
    """Show what took the time: tables, the message matrix or the call tree of a trace."""

    screen_name = "calls"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("slash", "seek", "Search", "only the names that hold this; * and ? stand for anything"),
        key("l", "longest", "Longest", "the longest interval of this name: its track on Time, zoomed to it"),
        key("v", "next_table(1)", "Next table", "the next sub-tab: kernels, ranges, copies, messages, files, the tree"),
        key("V", "next_table(-1)", "Table before", "the sub-tab before", show=False),
        key("i", "app.only", "Only", "of a trace: only some intervals: name=nccl  takes>1ms  size>1MB", show=False),
    ]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self._table = ""
        self._sought = ""
        self._result: Result | None = None
        self._view = View()

    def compose(self) -> ComposeResult:
        """Lay out the sub-tabs, what the chosen one holds, and below it the full name."""
        yield Tabs(*(Tab(title, id=f"{_TAB}{name}") for name, title in TITLES.items()), id="calls-tabs")
        yield Static("", id="calls-nothing", markup=False)
        yield CallTable(id="calls-table", classes="panel")
        yield MessageMatrix(id="calls-matrix", classes="panel")
        yield CallTreeTable(id="calls-tree", classes="panel")
        yield CallPlaces(id="calls-places", classes="panel")
        yield Static("", id="calls-name", classes="panel", markup=False)
        yield SearchLine("a part of a name, or a pattern with * and ?", id="calls-search")

    def on_mount(self) -> None:
        """Leave the focus to the tables, and say what the line below them is."""
        self.query_one("#calls-tabs", Tabs).can_focus = False  # v goes through them; the keys are the table's
        self.query_one("#calls-name").border_title = "full name"

    def columns(self, width: int) -> int:
        """Return as many columns of time as Time has, so that both look at the same window."""
        return columns_in(width)

    def asks(self, query: Query) -> Query:
        """Add what this screen needs to the app's query."""
        return replace(in_cells_of_time(query), tables=True)

    def show(self, results: Sequence[Result], view: View) -> None:
        """Draw these results."""
        self._result, self._view = results[0], view
        self._show()

    def _tables(self) -> dict[str, Values]:
        """Return the tables that hold anything by name, or nothing before the trace is analysed."""
        part = None if self._result is None else self._result.part
        return {} if part is None or part.analysis is None else tables_of(part.analysis)

    def _show(self) -> None:
        """Show the chosen sub-tab, or a sentence where there is nothing; do nothing before the first result.

        A table chosen earlier that this window lacks gives way to the first one there is. The focus moves along if its
        widget is hidden.
        """
        result, tables = self._result, self._tables()
        if result is None:
            return
        tabs = self.query_one("#calls-tabs", Tabs)
        for name in TITLES:
            (tabs.show if name in tables else tabs.hide)(f"{_TAB}{name}")
        if tables and self._table not in tables:
            self._table = next(iter(tables))  # what was chosen in another window may not be in this one
        if tables and tabs.active != f"{_TAB}{self._table}":
            tabs.active = f"{_TAB}{self._table}"
        known = result.part is not None and result.part.analysis is not None
        nothing = self.query_one("#calls-nothing", Static)
        nothing.display = not tables
        text = (
            "Nothing was traced in this window: w shows another one." if known else "counting the calls of this window"
        )
        nothing.update(text)
        kind = "" if not tables else self._table if self._table in (*MATRICES, _TREE) else "table"
        table, matrix, tree = self.query_one(CallTable), self.query_one(MessageMatrix), self.query_one(CallTreeTable)
        focused = self.screen.focused in (table, matrix, tree)
        table.display, matrix.display, tree.display = kind == "table", kind in MATRICES, kind == _TREE
        self.query_one(CallPlaces).display = kind == _TREE and self.size.height >= _LEAST_FOR_PLACES
        self.query_one("#calls-name").display = bool(tables) and kind not in MATRICES
        if kind == "table":
            of_part = "" if self._table == "holders" else cut_text(result)  # the peak may be outside of the window
            table.show_table(self._table, tables[self._table], self._sought, of_part)
        elif kind in MATRICES:
            matrix.show_table(self._table, result, self._view)
        elif kind == _TREE:
            tree.show_tree(result, self._view, self._sought)
        if focused and self.screen.focused is not None and not self.screen.focused.display:
            self.focus_content()

    def focus_content(self) -> None:
        """Focus the table, matrix or tree that is shown."""
        for panel in self.query("#calls-table, #calls-matrix, #calls-tree"):
            if panel.display:
                self.screen.set_focus(panel)

    # Sub-tabs

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Show the table of a sub-tab that was clicked."""
        event.stop()
        name = (event.tab.id or "").removeprefix(_TAB)
        if name in self._tables() and name != self._table:
            self.choose(name)

    def choose(self, name: str) -> None:
        """Show the table ``name`` (a key of TITLES) and give it the focus. If it is empty, the first one that is not
        is shown."""
        self._table = name
        self._show()
        self.focus_content()

    def want(self, name: str) -> None:
        """Show the table ``name`` if it holds anything, without moving the focus. If the trace is not analysed yet, it
        is shown as soon as it is."""
        self._table = name
        self._show()

    def action_next_table(self, step: int) -> None:
        """Show the sub-tab ``step`` further (1 or -1) among those that hold anything, around the ends; do nothing if
        none does."""
        names = list(self._tables())
        if names:
            self.choose(names[(names.index(self._table) + step) % len(names)])

    @property
    def offered(self) -> dict[str, str]:
        """The tables that there are, and what they are about."""
        return {name: ABOUT[name] for name in self._tables()}

    # The cursor

    @on(Pointed, "#calls-table, #calls-tree")
    def show_full_name(self, event: Pointed) -> None:
        """Show the full name of the row under the cursor, "" without one; in the tree also this call's values rank by
        rank."""
        values, tree = self._tables().get(self._table), self.query_one(CallTreeTable)
        known = values is not None and 0 <= event.item < len(values["name"])
        name = "" if values is None or not known else clean(str(values["name"][event.item]))
        self.query_one("#calls-name", Static).update(name)
        if event.control is tree and self._result is not None:
            self.query_one(CallPlaces).show_call(self._result, self._view, tree)

    @on(Opened, "#calls-table, #calls-tree")
    def show_over_time(self, event: Opened) -> None:
        """Go to Time, with the name of the opened row as its metric; Esc comes back. Copies show all copies."""
        name, part = self._named_interval(event.item), None if self._result is None else self._result.part
        if part is None or not name:
            return
        view = self._view
        level = LEVELS.get(self._table, "threads")
        level = level if level in part.levels else part.level.name
        kept = level == part.level.name
        copies = self._table == "copies"
        self.app.go_to_screen(
            view.down(
                screen="time", metric="copy" if copies else OF_NAME + name, name="" if copies else name, level=level, row=0,
                top=0, selection=view.selection if kept else (), selected=view.selected if kept else "",
            )
        )  # fmt: skip

    def _named_interval(self, row: int) -> str:
        """Return the name by which the intervals of a table's row are called. Profiles and some tables have no times: "",
        and a notice says so; "" as well without a name."""
        values = self._tables().get(self._table)
        part = None if self._result is None else self._result.part
        if (
            part is None
            or values is None
            or part.trace.profile is not None
            or self._table in (*_NOT_ON_TIME, *MATRICES)
        ):
            profile = part is not None and part.trace.profile is not None
            self.notify("A profile tells no times." if profile else _NOT_ON_TIME.get(self._table, _NO_TIME))
            return ""
        return str(values["call" if self._table == "io" else "name"][row] or "") if row >= 0 else ""

    def action_longest(self) -> None:
        """Go to the longest interval of the name under the cursor, on Time, where its track is opened and the window is
        zoomed to it; Esc comes back. A notice if there is none."""
        table = self.query_one(CallTreeTable if self._table == _TREE else CallTable)
        name, scene = self._named_interval(table.item), self.app.scene()
        part = None if scene is None else scene.frame.part
        if scene is None or part is None or part.analysis is None or not name:
            return
        frame, below = scene.frame, scene._replace(view=scene.view.down(screen="time"))  # Esc comes back
        tracks = part.level.tracks_with_host(frame.query.gpus)
        place = longest_interval(part.trace, part.analysis.window, tracks, self._table, name)
        view = opened_at(below, part, place) if place >= 0 else below.view
        if view == below.view:
            self.notify("Nothing of this name has a time of its own.")
            return
        sought = part.trace.names[int(part.trace.intervals.name[place])]
        view = fitted(frame, part, replace(view, name=sought), place, columns_in(self.app.size.width))
        self.app.go_to_screen(view)

    def search(self, text: str) -> None:
        """Show only the names that hold this text; "" shows all."""
        self._sought = text
        self._show()
