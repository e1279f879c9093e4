"""Node by node: how many GPUs each has, their mean, the one that does least, and the course of all of them together."""

import warnings
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual.binding import BindingType

from gssr.arrays import Floats, Ints
from gssr.model.live.live_result import Result
from gssr.render.cells import clean, fit
from gssr.render.roles import Role
from gssr.render.scale import count, metric_of, number
from gssr.report.live.gpu_filter import select_passing
from gssr.report.live.marked_gpus import legend_of_marks, mark_of
from gssr.report.live.metric_scales import full_scale
from gssr.tui.gpus.history_table import HistoryTable
from gssr.tui.keys import key
from gssr.tui.shared.line_table import MARK, Heading
from gssr.tui.shared.wall import gpus_shown
from gssr.tui.view import View

_COLUMNS = (
    ("node", "node", 0, "name of the node"),
    ("gpus", "GPUs", 5, "number of its GPUs"),
    ("mean", "mean", 7, "mean of its GPUs in the window"),
    ("lowest", "lowest", 16, "its GPU with the lowest mean"),
    ("least", "its mean", 9, "mean of its lowest GPU"),
)
"""Key, title, cells (0: as many as the names need) and what it means."""
_WORDS = ("node", "lowest")


class NodeTable(HistoryTable):
    """One line a node, by name until the reader sorts."""

    BINDINGS: ClassVar[list[BindingType]] = [key("enter", "open", "Its GPUs", "the list of this node's GPUs")]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)
        self.sort = "node"
        self._values: dict[str, Floats] = {}
        """[n_nodes] by the key of a column; of ``lowest`` the position of the GPU. NaN where no GPU has a mean."""
        self._gpus = np.empty(0, np.int64)
        """Positions of the GPUs that are looked at: those that are selected and pass the filter."""
        self._filter = ""

    def show(self, result: Result, view: View) -> None:
        """Draw from this result, of the GPUs that are selected and pass the filter; the cursor stays on its node."""
        self.result = result
        self._gpus, problem = select_passing(result, gpus_shown(result, view), view.filter)
        self._filter = "" if problem else view.filter
        n, node_of, means = len(result.nodes), result.node_of, result.window.per_gpu(result.grid.metric)
        known = np.sort(self._gpus[np.isfinite(means[self._gpus])])
        ranked = known[np.lexsort((means[known], node_of[known]))]  # node by node, its lowest first
        nodes, first = np.unique(node_of[ranked], return_index=True)
        self._values = {name: np.full(n, np.nan) for name, *_ in _COLUMNS}
        self._values["node"][:] = np.arange(n)
        self._values["gpus"][:] = np.bincount(node_of[self._gpus], minlength=n)
        self._values["lowest"][nodes], self._values["least"][nodes] = ranked[first], means[ranked[first]]
        sums, sizes = np.bincount(node_of[known], means[known]), np.bincount(node_of[known])
        self._values["mean"][nodes] = sums[nodes] / sizes[nodes]
        self.sort_items()

    def sort_items(self) -> None:
        """Sort the nodes anew and set the titles; do nothing before the first result."""
        if self.result is None:
            return
        nodes = np.unique(self.result.node_of[self._gpus])
        full = full_scale(self.result, self.result.grid.metric) if self.sort in ("mean", "least") else None
        order = self.sort_steadily(self.result, nodes, self._values[self.sort][nodes], full, self._filter)
        title = next(title for name, title, *_ in _COLUMNS if name == self.sort)
        legend = legend_of_marks(self.result, self.glyphs.levels.isascii())
        those = f" with GPUs that pass {clean(self._filter)}" if self._filter else ""
        self.border_title = f"{count(len(nodes), 'node')}{those}   {legend}".rstrip()
        self.border_subtitle = f"by {title}; {metric_of(self.result.grid.metric).label}"
        self.set_order(order, self.item)

    def place_columns(self) -> list[Heading]:
        """Lay out the columns, which all fit on every terminal that has this table; empty before the first result."""
        if self.result is None:
            return []
        longest = max((len(clean(name)) for name in self.result.nodes[:64]), default=4)
        names = min(max(longest, 4), max(self.size.width // 4, 8)) + 1
        x, found = MARK, []
        for name, title, size, about in _COLUMNS:
            end = x + (size or names)
            found.append(Heading(name, title, x, end, about, name in _WORDS))
            x = end + 2 * (name == "mean")
        return found

    def mark(self, item: int) -> tuple[str, Role]:
        """Return the mark of a node with a GPU that is singled out, or not like the rest, "" for any other node, and its
        role. ``item``: the node's index."""
        assert self.result is not None
        result, ascii_only = self.result, self.glyphs.levels.isascii()
        gpus = sorted(self._on_node(result, item).tolist(), key=lambda gpu: gpu not in result.singled_out)
        marks = (mark_of(result, gpu, ascii_only) for gpu in gpus)
        return next((mark for mark in marks if mark[0]), ("", "plain"))

    def cell(self, heading: Heading, item: int) -> list[Segment]:
        """Draw one cell of the node with the index ``item``: its name or that of its lowest GPU, a number, or a mean
        in the colour of its load."""
        assert self.result is not None
        result, size, style = self.result, heading.end - heading.begin, self.palette.style
        value, metric = float(self._values[heading.key][item]), metric_of(self.result.grid.metric)
        look = style("dim")
        if heading.key == "node":
            text, look = fit(result.nodes[item], size - 1, self.glyphs.ellipsis, "end"), style(self.mark(item)[1])
        elif heading.key == "gpus":
            text = f"{value:.0f}"
        elif value != value:
            text = "" if heading.key == "lowest" else number(None, metric)
        elif heading.key == "lowest":
            text = fit(result.place(int(value)), size, self.glyphs.ellipsis, "end")
        else:
            text, look = number(value, metric), self.palette.load(value / full_scale(result, metric.name))
        return [Segment(heading.align(text), look)]

    def course(self, result: Result, item: int) -> Floats:
        """Return the mean of the GPUs of a node (``item``, its index) that are looked at in each column of the grid; NaN
        where none has a value."""
        with warnings.catch_warnings():  # a column in which no GPU of the node has a value
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(np.nanmean(result.grid.values[self._on_node(result, item)], axis=0))

    def _on_node(self, result: Result, item: int) -> Ints:
        """Return the positions of the GPUs of a node (``item``, its index) that are looked at."""
        return np.intersect1d(result.on_node(item), self._gpus)

    @property
    def nothing(self) -> str:
        """Return what the empty table says: that the filter lets no GPU pass, or ""."""
        return "no GPU passes the filter" if self._filter else ""
