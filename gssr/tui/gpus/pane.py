"""GPUs: who differs? As a list, as a wall, or node by node; beside it all about the GPU under the cursor."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import ContentSwitcher

from gssr.model.live.live_result import Result
from gssr.report.live.gpu_columns import NAME, columns_of
from gssr.report.live.gpu_filter import select_passing
from gssr.tui.dialogs.choose import ChooseSeveral
from gssr.tui.gpus.inspector import Inspector
from gssr.tui.gpus.nodes import NodeTable
from gssr.tui.gpus.table import GpuTable
from gssr.tui.keys import key
from gssr.tui.shared.messages import Opened, Pointed
from gssr.tui.shared.search_line import SearchLine, SearchPane
from gssr.tui.shared.wall import Wall, gpus_shown
from gssr.tui.view import View

_VIEWS = ("gpu-table", "gpu-wall", "gpu-nodes")
_LEAST_ROWS_OF_BOTH = 12
"""On a lower screen the list stands alone: seven rows are its titles and five GPUs, and in less than five the inspector says
nothing that the list does not."""


class GpusPane(SearchPane):
    """Show which GPUs differ: a list, a wall or the nodes, and all about the GPU at the cursor."""

    screen_name = "gpus"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("slash", "seek", "Filter", "show only some GPUs: nid0012*  *:0  sm<30  user=ada (all words must match)"),
        key("v", "next_view", "View", "the next view: list, wall, nodes"),
        key("c", "columns", "Columns", "choose the columns of the table"),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the list or the wall, the inspector, and the line in which the filter is typed."""
        with Horizontal(id="gpus-body"):
            with ContentSwitcher(initial="gpu-table", id="gpu-views"):
                yield GpuTable(id="gpu-table", classes="panel")
                yield Wall(id="gpu-wall", classes="panel")
                yield NodeTable(id="gpu-nodes", classes="panel")
            yield Inspector(id="inspector", classes="panel")
        hint = "nid0012*   *:0   sm<30   user=ada   (several: and; Enter keeps, Esc lets go)"
        yield SearchLine(hint, id="gpu-filter")

    def show(self, results: Sequence[Result], view: View) -> None:
        """Draw the first result in the table, in the view in sight and in the inspector."""
        result = results[0]
        self.query_one(GpuTable).show(result, view)  # always: its cursor is the inspector's
        if self._view_in_sight == "gpu-wall":
            wall, of_view = self.query_one(Wall), gpus_shown(result, view)
            passing, problem = select_passing(result, of_view, view.filter)
            wall.only = passing if view.filter and not problem else None
            wall.show(result, view)
        elif self._view_in_sight == "gpu-nodes":
            self.query_one(NodeTable).show(result.of_gpus or result, view)
        self.query_one(Inspector).show(result, view)

    def on_resize(self) -> None:
        """Hide the inspector where it would take the list's rows."""
        self.query_one("#gpus-body").set_class(self.size.height < _LEAST_ROWS_OF_BOTH, "-low")

    @property
    def _view_in_sight(self) -> str:
        return self.query_one("#gpu-views", ContentSwitcher).current or _VIEWS[0]

    def point_at(self, gpu: int) -> None:
        """Put the cursor on a GPU."""
        self.query_one(GpuTable).point_at_item(gpu)

    @on(Pointed, "#gpu-table")
    def inspect_gpu(self, event: Pointed) -> None:
        """Tell all about the GPU under the cursor."""
        self.query_one(Inspector).inspect(event.item)

    @on(Opened, "#gpu-table")
    def look_at_gpu_alone(self, event: Opened) -> None:
        """Select the opened GPU on all screens and go to Job; Esc comes back."""
        name = self.app.results[0].place(event.item)
        self.app.go_to_screen(self.app.view.down(selection=(event.item,), selected=name, screen="job"))

    @on(Opened, "#gpu-wall")
    def point_at_gpu_of_wall(self, event: Opened) -> None:
        """Move the list's cursor, and with it the inspector, to a GPU that was clicked on the wall."""
        self.point_at(event.item)

    @on(Opened, "#gpu-nodes")
    def list_gpus_of_node(self, event: Opened) -> None:
        """Show the list of one node's GPUs, by typing the node's name into the filter."""
        result = self.app.results[0]
        self.query_one(SearchLine).open(f"{(result.of_gpus or result).nodes[event.item]}*")
        self.query_one("#gpu-views", ContentSwitcher).current = "gpu-table"
        self.query_one(GpuTable).focus()

    def action_next_view(self) -> None:
        """Show and focus the next view: list, wall, nodes."""
        name = _VIEWS[(_VIEWS.index(self._view_in_sight) + 1) % len(_VIEWS)]
        self.query_one("#gpu-views", ContentSwitcher).current = name
        self.query_one(f"#{name}").focus()
        self.app.show()

    def action_columns(self) -> None:
        """Open a dialog in which the table's columns are chosen; do nothing before the first result."""
        table = self.query_one(GpuTable)
        if table.result is None:
            return
        every = columns_of(table.result)
        shown = {column.key for column in table.shown_columns()}
        options = [(f"{each.help or each.title}", name, name in shown) for name, each in every.items() if name != NAME]

        def chosen(names: list[str] | None) -> None:
            if names is not None:
                table.chosen = [NAME, *names]
                table.sort_items()

        self.app.push_screen(ChooseSeveral("columns of the table", options), chosen)

    def search(self, text: str) -> None:
        """Show only the GPUs that pass this filter, such as ``nid0012* sm<30``; "" shows all."""
        self.app.filter_gpus(text)

    def focus_content(self) -> None:
        """Focus the table."""
        self.screen.set_focus(self.query_one(GpuTable))
