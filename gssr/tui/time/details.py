"""Below the timelines: what all metrics say at the cursor; of a trace the interval under it, and which names took the time
of the selected range (Vampir's function summary of a part of the timeline)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gssr.model.live.live_result import Result, TracePart
from gssr.model.live.nodes import host_means
from gssr.render.cells import clean, fit, pad
from gssr.render.clock import exact
from gssr.render.columns import bar
from gssr.render.function_names import distinct_names
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import NONE, metric_of, percent, quantity
from gssr.render.states import OF_TRACE
from gssr.report.live.interval import interval_rows
from gssr.report.live.metric_scales import full_scale, shown_metrics
from gssr.report.live.time_cells import Cells
from gssr.report.live.times_of_run import at_text
from gssr.traces.timeline import Kind
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.time.event_axis import event_at
from gssr.tui.time.timeline import Stretch
from gssr.tui.time.window import cells_over
from gssr.tui.trace.cursor import NS, picked, rows_looked_at
from gssr.tui.view import Scene, View

_BESIDE = ("host:cpu_utilization", "host:read_bytes", "host:net_rx_bytes", "host:write_bytes", "host:net_tx_bytes",
           "host:fabric_rx_bytes", "host:fabric_tx_bytes")  # fmt: skip
"""Metrics of the nodes that stand beside those of GPUs, the ones that loading data needs first."""
_TABLE = 4
"""Rows from which the table stands below the interval."""
_NO_TIME = (Kind.MARK, Kind.GPU_RANGE)
"""Kinds that take no time: a range on a GPU lasts from its first kernel to its last, which have names of their own."""


_VALUE = 10
_CELL, _WIDE_CELL, _WORDS = 26, 48, 100
"""Cells of a metric, and from so many cells of width on, where it has its whole name."""


def _per_row(width: int) -> int:
    """Return how many metrics stand side by side in so many cells."""
    return max(width // (_WIDE_CELL if width >= _WORDS else _CELL), 1)


def _names(result: Result, means: Mapping[str, float | None]) -> list[str]:
    """The metrics that were measured, and beside those of GPUs what of the nodes has a mean."""
    beside = () if result.by_node else (name for name in _BESIDE if means.get(name) is not None)
    return list(dict.fromkeys([*shown_metrics(result), *beside]))


class NameUse(NamedTuple):
    """A name in a stretch of time: how often it was there, for how long together in the stretch (``total``), and how long
    it takes on average, the parts outside of the stretch included (``mean``); both ns."""

    name: str
    category: int
    n: int
    total: int
    mean: float


class Details(RowsPanel):
    """The panel. ``marked``: the range that is selected, None for what is in sight."""

    marked: Stretch | None = None

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on, and name in the border what is shown."""
        super().show(result, view)
        cells = self._cells(result)
        part = result.part
        if part is not None:
            place = picked(Scene(result, None, self.view))
            low, high = self.marked or (max(cells.start, result.first), min(cells.end, result.last))
            own = "selected range" if self.marked else "in sight"
            took = f"{own}: {exact(high - low)} from {at_text(result, low)}"
            name = "" if place < 0 else clean(part.trace.names[int(part.trace.intervals.name[place])])
            room = max(self.app.size.width - len(took) - 12, 8)
            self.entitle(fit(name, room, self.glyphs.ellipsis) if name else "what takes the time", took)
            return
        at = None if view.cursor is None else cells.at(view.cursor)
        if view.cursor is None or at is None:
            self.entitle("all metrics: mean of the window", "left, right or a click: the time cursor")
            return
        said = event_at(result, cells, view.cursor)
        self.entitle(f"all metrics at {at_text(result, cells.time(at))}", said)

    @staticmethod
    def rows_needed(result: Result, width: int) -> int:
        """Return how many rows the bars of all measured metrics take at ``width`` cells."""
        return -(-len(_names(result, host_means(result.host))) // _per_row(width))

    def _cells(self, result: Result) -> Cells:
        """Return the columns of time in sight, as many as the result's grid has."""
        grid = result.grid if result.part is None or result.part.columns is None else result.part.columns
        return cells_over(result, max(grid.n, 1))

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the bars of all metrics; of a trace the interval under the cursor and below it, if there are _TABLE
        rows left, which names took the time."""
        part, view = result.part, self.view
        if part is None:
            if view.cursor is None:
                chosen = np.array(view.selection, np.int64) if view.selection else None
                means = {**host_means(result.host), **result.window.overall(chosen)}
            else:
                means = dict(result.moment)
            return self._metrics(result, means, width, height)
        place = picked(Scene(result, None, self.view))
        rows = interval_rows(result, part, place, width, self.glyphs) if place >= 0 else []
        if height - len(rows) < _TABLE and rows:
            return rows[:height]
        return [*rows, *self._table(result, part, width, height - len(rows))][:height]

    def _metrics(self, result: Result, means: Mapping[str, float | None], width: int, height: int) -> list[Row]:
        """Draw a bar for each metric by its mean in ``means`` (None: unknown), in columns, as many as fit; metrics of
        the nodes come last."""
        n = _per_row(width)
        size = width // n
        names = _names(result, means)[: n * height]
        tall = -(-len(names) // n)
        bar_size = min(max(size // 4, 5), 16)
        label = max(size - bar_size - _VALUE - 4, 1)  # in a terminal of one column, too
        rows: list[Row] = [()] * tall
        for at, name in enumerate(names):
            metric, value = metric_of(name), means.get(name)
            words = metric.label if len(metric.label) <= label or width >= _WORDS else metric.short
            filled = bar(None if value is None else value / full_scale(result, name), bar_size, self.glyphs)
            role: Role = "value" if name == result.grid.metric else "dim"
            own: Row = (
                Span(f" {fit(words, label, self.glyphs.ellipsis):<{label}}", role),
                Span(f"{quantity(value, metric, NONE):>{_VALUE}} ", "value"), *pad(filled, bar_size), Span("  "),
            )  # fmt: skip
            rows[at % tall] = (*rows[at % tall], *own)
        return rows

    def _table(self, result: Result, part: TracePart, width: int, height: int) -> list[Row]:
        """Draw the names that took the time in the marked range, or in the window without one, the longest first; a
        line that says so if there are none."""
        cells = self._cells(result)
        low, high = self.marked or (max(cells.start, result.first), min(cells.end, result.last))
        used = names_in(result, part, self.view, low, high)
        most = max((each.total for each in used), default=1)
        share_size = max(min(width // 5, 30), 12)
        where = "selected" if self.marked else "in sight"
        head = f"  {where:>10} {'count':>9} {'mean':>10}  {'share of all':<{share_size}} name"
        rows: list[Row] = [(Span(head[:width], "dim"),)]
        every = sum(each.total for each in used)
        shown = used[: max(height - 1, 0)]
        room = max(width - 36 - share_size, 1)
        for each, name in zip(
            shown, distinct_names([each.name for each in shown], room, self.glyphs.ellipsis), strict=True
        ):
            role: Role = OF_TRACE[each.category].role
            filled = max(round(each.total / most * (share_size - 8)), 1)
            share = percent(each.total / every if every else None)
            text = f"  {exact(each.total / NS):>10} {each.n:>9,} {exact(each.mean / NS):>10}  "
            drawn = self.glyphs.bar * filled + " " * (share_size - 8 - filled)
            rows.append((Span(text), Span(drawn, role), Span(f"{share:>8} "), Span(name)))
        if not used:
            rows.append((Span("  nothing in this range", "dim"),))
        return rows


def names_in(result: Result, part: TracePart, view: View, low: float, high: float) -> list[NameUse]:
    """Sum the time that each name took between ``low`` and ``high`` (s) on the tracks that are looked at, the longest
    first. Intervals count with the part inside, in the mean with their whole length; nested ones count each. Marks do not
    count, nor do annotations on GPUs. Empty if there are none."""
    own = part.trace.intervals
    begin, end = round(low * NS), round(high * NS)
    if view.opened and part.lanes is not None:
        places = part.lanes.places
        places = places[np.searchsorted(own.start[places], begin - int(own.length.max(initial=0))) :]
    else:
        first = int(np.searchsorted(own.start, begin - int(own.length.max(initial=0))))
        last = int(np.searchsorted(own.start, end))
        places = first + np.flatnonzero(rows_looked_at(result, view)[part.level.owner_of[own.track[first:last]]])
    start, stop = own.start[places], own.start[places] + own.length[places]
    inside = (stop > begin) & (start < end) & ~np.isin(own.kind[places], _NO_TIME)
    places, time = places[inside], np.minimum(stop[inside], end) - np.maximum(start[inside], begin)
    if not len(places):
        return []
    ids, at = np.unique(own.name[places], return_inverse=True)
    total, n = np.bincount(at, time), np.bincount(at)
    mean = np.bincount(at, own.length[places]) / n
    sample = places[np.unique(at, return_index=True)[1]]
    order = np.argsort(-total, kind="stable")
    return [
        NameUse(part.trace.names[int(ids[k])], int(own.category[sample[k]]), int(n[k]), int(total[k]), float(mean[k]))
        for k in order.tolist()
    ]
