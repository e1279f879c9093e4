"""The call tree: it opens and closes branch by branch, sorts by every column, and searches; below it the call under the
cursor, rank by rank. Of a million calls only those in sight are drawn; Textual's Tree holds an object for each."""

from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import BindingType

from gssr.model.live.live_result import Result
from gssr.model.traces.call_tree import COMMUNICATION, CallTree, places_text, spread
from gssr.render.cells import clean, fit
from gssr.render.columns import area
from gssr.render.roles import Role, Row, Span
from gssr.report.live.call_outline import (
    COLUMNS,
    NAME,
    Outline,
    columns_of,
    metric_of_tree,
    numbers_of,
    outline_of,
    value_text,
)
from gssr.report.live.times_of_run import cut_text, in_part
from gssr.tui.keys import key
from gssr.tui.shared.line_table import MARK, Heading, LineTable
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View

_PARADIGM_ROLES: dict[str, Role] = {
    **dict.fromkeys(COMMUNICATION, "outlier"), **dict.fromkeys(("openmp", "pthread"), "gap"),
    **dict.fromkeys(("cuda", "hip", "opencl", "openacc", "kokkos"), "series"),
}  # fmt: skip
"""The program's own calls are plain."""
_MOST_CELLS_A_PLACE = 8


def tree_of(result: Result | None) -> CallTree | None:
    """Return the call tree of a result, or None if it has none or is not analysed yet."""
    part = None if result is None else result.part
    return None if part is None or part.analysis is None else part.analysis.tree


class CallTreeTable(LineTable):
    """The calls in sight; an item is a node of the tree."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("right", "open_branch", "Open", "open the call under the cursor", show=False),
        key("left", "close_branch", "Close", "close it, or go to its caller", show=False),
        key("enter", "open", "Open", "open or close it; of a call that calls nothing: it over time"),
    ]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)
        self.sort, self.descending = COLUMNS[0].key, True
        self.metric = ""
        self._tree: CallTree | None = None
        self._sought = self._part = ""
        self._toggled: frozenset[int] = frozenset()
        """Paths of the calls that the reader opened or closed."""

    def show_tree(self, result: Result, view: View, sought: str) -> None:
        """Show the call tree of a result, by the metric of the tree that the view's stands for; only calls whose names
        hold ``sought`` and their callers, all if it is ""."""
        self._tree, self._sought, self._part = tree_of(result), sought, cut_text(result)
        if self._tree is not None:
            self.metric = metric_of_tree(self._tree, view.metric)
            self.sort_items()

    def outline(self) -> Outline | None:
        """Return the calls in sight in their order, or None before there is a tree."""
        if self._tree is None:
            return None
        return outline_of(self._tree, self.metric, self.sort, self.descending, self._sought, self._toggled)

    @property
    def _unit(self) -> str:
        """The unit of the metric that is shown."""
        assert self._tree is not None
        return next(each.unit for each in self._tree.metrics if each.name == self.metric)

    def sort_items(self) -> None:
        """List and sort the calls anew and set the title; do nothing before there is a tree."""
        tree, shown = self._tree, self.outline()
        if tree is None or shown is None:
            return
        n = len(shown.nodes) if shown.found is None else len(shown.found)
        unit = "" if self._unit in ("ns", "") else f" ({clean(self._unit)})"
        counted = f"{n:,} of {len(tree):,} {'calls' if shown.found is None else 'found'}"
        title = f"call tree: {clean(self.metric)}{unit}, {places_text(tree)}, {counted}"
        self.border_title = in_part(title, self._part)
        self.set_order(shown.nodes, self.item)

    def descends_at_first(self, column: str) -> bool:
        """Numbers begin with the most, names with the first."""
        return column != NAME

    @property
    def nothing(self) -> str:
        """What is said where no call is shown."""
        return "  no call passes; / changes what is looked for, Esc removes it"

    def place_columns(self) -> list[Heading]:
        """Lay out the columns of numbers that fit, and behind them the names; empty before there is a tree."""
        if self._tree is None:
            return []
        x, found = MARK, []
        for column in columns_of(self._tree):
            if self.size.width >= column.least:
                found.append(Heading(column.key, column.title, x, x + column.size, column.help))
                x += column.size
        return [*found, Heading(NAME, "call", x + 2, max(self.size.width, x + 3), "what is called", is_words=True)]

    def cell(self, heading: Heading, item: int) -> list[Segment]:
        """Draw one cell: a number, or a name indented by its depth, with + or - if it calls anything. ``item`` is an
        index into the tree's nodes."""
        tree, shown = self._tree, self.outline()
        assert tree is not None and shown is not None
        if heading.key != NAME:
            value = float(numbers_of(tree, self.metric)[heading.key][item])
            return [Segment(heading.align(value_text(heading.key, value, self._unit)), self.palette.style("plain"))]
        leads_to_found = shown.found is not None and item not in shown.found
        role = "dim" if leads_to_found else _PARADIGM_ROLES.get(tree.paradigm[item], "plain")
        sign = " " if item not in shown.callees else "-" if shown.is_open(item) else "+"
        indent = min(int(tree.depth[item]), max(self.size.width // 8, 4))
        room = max(heading.end - heading.begin - indent - 2, 1)
        text = f"{' ' * indent}{sign} {fit(tree.names[item], room, self.glyphs.ellipsis)}"
        return [Segment(heading.align(text), self.palette.style(role))]

    # Branches

    def _toggle(self, node: int) -> bool:
        """Open a closed call or close an open one. Returns False, having done nothing, if the node calls nothing or a
        name is looked for."""
        shown = self.outline()
        if shown is None or node not in shown.callees or shown.found is not None:
            return False
        self._toggled ^= {shown.paths[node]}
        self.sort_items()
        return True

    def action_open_branch(self) -> None:
        """Open the call under the cursor."""
        shown = self.outline()
        if shown is not None and self.item >= 0 and not shown.is_open(self.item):
            self._toggle(self.item)

    def action_close_branch(self) -> None:
        """Close the call under the cursor; if it is closed or calls nothing, go to its caller."""
        shown = self.outline()
        if self._tree is None or shown is None or self.item < 0:
            return
        if not (shown.is_open(self.item) and self._toggle(self.item)):
            self.point_at_item(int(self._tree.parent[self.item]))

    def action_open(self) -> None:
        """Open or close the call; one that calls nothing is shown over time."""
        if self.item >= 0 and not self._toggle(self.item):
            self.post_message(Opened(self, self.item))

    def click_line(self, at: int, event: events.Click) -> None:
        """Put the cursor on a line; if it is there already, open or close the call."""
        del event
        if at == self.at:
            self.action_open()
        else:
            self.point_at(at)


class CallPlaces(RowsPanel):
    """One call's value on each rank or thread, as bars."""

    def show_call(self, result: Result, view: View, table: CallTreeTable) -> None:
        """Show, rank by rank, the values of the call under the cursor of ``table``: its own values if the table is
        sorted by these, else with all that it calls. Empty if there is no call under the cursor."""
        tree, node = tree_of(result), table.item
        self._values = np.zeros(0)
        if tree is not None and 0 <= node < len(tree):
            exclusive = table.sort == "exclusive"
            values = tree.values(table.metric)
            self._values = (values.exclusive if exclusive else values.inclusive)[node]
            unit = next(each.unit for each in tree.metrics if each.name == table.metric)
            self.border_title = (
                f"{clean(tree.names[node])}: {'own, ' if exclusive else ''}{self._spread_text(tree, unit)}"
            )
        self.show(result, view)

    def _spread_text(self, tree: CallTree, unit: str) -> str:
        """Say on which places the call has its most and its least, and its imbalance; only over how many places if
        these can't be compared."""
        found = spread(self._values[None])
        if len(self._values) < 2 or found.most[0] < 0:
            return f"over {places_text(tree)}"
        most, least = (clean(tree.called(int(at))) for at in (found.most[0], np.nanargmin(self._values)))
        return (
            f"most {value_text('', float(found.greatest[0]), unit)} on {most}, "
            f"least {value_text('', float(found.least[0]), unit)} on {least}, "
            f"imbalance {value_text('imbalance', float(found.imbalance[0]), unit)}"
        )

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw a bar for each place, and below them the names of the first and the last. If there are more places than
        cells, each bar is the greatest of its neighbours. No rows without values or in fewer than two lines."""
        tree, n = tree_of(result), len(self._values)
        if tree is None or not n or height < 2:
            return []
        edges = np.linspace(0, n, min(width, n) + 1).astype(int)
        cells_a_place = max(min(width // n, _MOST_CELLS_A_PLACE), 1)
        top = max(float(np.nan_to_num(self._values).max(initial=0.0)), 1e-300)
        bars = np.repeat(np.fmax.reduceat(self._values, edges[:-1]) / top, cells_a_place)
        first, last = clean(tree.called(0)), clean(tree.called(n - 1)) if n > 1 else ""
        gap = " " * max(len(bars) - len(first) - len(last), 1)
        return [*area(bars.tolist(), height - 1, self.glyphs), (Span(f"{first}{gap}{last}", "dim"),)]
