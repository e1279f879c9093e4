"""Who sends to whom: a line for each sender, a column for each receiver (Vampir's communication matrix). Ranks or nodes, of
many of them neighbours together."""

from typing import ClassVar

import numpy as np
from textual.binding import BindingType

from gssr.arrays import Floats
from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result
from gssr.model.traces.messages import Exchange, Matrix, matrix_of
from gssr.render.cells import clip, flow
from gssr.render.glyphs import drawable
from gssr.render.matrix import MEASURES, Measure, amount, least_width, legend, matrix
from gssr.render.roles import Row, Span
from gssr.render.scale import count
from gssr.report.live.call_tables import ABOUT
from gssr.report.live.times_of_run import in_part, part_text
from gssr.tui.keys import key
from gssr.tui.shared.line_table import TO_THE_END
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View

_FOOT = 5
_LEAST = 4


@once
def folded(exchange: Exchange, by_node: bool, width: int, height: int) -> Matrix:
    """Build the communication matrix of ranks, or of nodes with ``by_node``, with as many labels as fit.

    ``width`` and ``height`` are cells. Neighbours are merged until the matrix fits; it never has fewer than _LEAST
    labels if there are that many ends, even if these are too wide.
    """
    most = max(height - 1 - _FOOT, _LEAST)
    found = matrix_of(exchange, by_node, most)
    while len(found.labels) > _LEAST and least_width(len(found.labels), found.labels) > width:
        most -= max(most // 8, 1)
        found = matrix_of(exchange, by_node, most)
    return found


def values_of(found: Matrix, measure: Measure) -> Floats:
    """Return the values [senders, receivers] of the matrix that a measure shows: bytes, messages or bytes per second,
    and for every other measure the time under way."""
    if measure.name == "bytes per second":
        return found.rate()
    column = {"bytes": found.size, "messages": found.n}.get(measure.name, found.time)
    return column.astype(np.float64)


class MessageMatrix(RowsPanel):
    """The matrix, what its marks mean, and the line under the cursor in words."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "line(-1)", "Up", "the sender above", show=False),
        key("down,j", "line(1)", "Down", "the sender below", show=False),
        key("home", f"line(-{TO_THE_END})", "First", "the first sender", show=False),
        key("end", f"line({TO_THE_END})", "Last", "the last sender", show=False),
        key("s", "measure", "Measure", "another measure: bytes, messages, time under way, bytes per second"),
    ]
    table = "messages"
    _measure = 0
    _line = 0

    def show_table(self, table: str, result: Result, view: View) -> None:
        """Show ranks (``table`` "messages") or nodes ("nodes"), and the totals in the border; without an exchange the
        titles stay as they were."""
        self.table = table
        self.show(result, view)
        exchange = self._exchange
        if exchange is not None:
            total = f"{count(int(exchange.count.sum()), 'message')}, {amount(float(exchange.size.sum()), MEASURES[0])}"
            self.border_title = in_part(f"{ABOUT[table]}, {MEASURES[self._measure].name}", part_text(result))
            self.border_subtitle = total

    @property
    def _exchange(self) -> Exchange | None:
        """What was sent between ranks; None before the trace is analysed."""
        part = None if self.result is None else self.result.part
        return None if part is None or part.analysis is None else part.analysis.exchange

    def _folded(self) -> Matrix | None:
        """Return the matrix in the size of the panel, or None if the trace has no messages or is not analysed yet."""
        width, height = self.content_size
        exchange = self._exchange
        return None if exchange is None else folded(exchange, self.table == "nodes", width, height)

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the matrix, the line under the cursor in words, and the legend; no rows where there are no messages.
        ``width`` and ``height`` are cells; ``result`` is not used, as the exchange comes from the result shown last."""
        del result
        found, marks = self._folded(), self.glyphs
        if found is None:
            return []
        measure = MEASURES[self._measure]
        values = values_of(found, measure)
        picked = min(self._line, len(found.labels) - 1)
        rows = matrix(values, found.labels, measure, width, marks, picked)
        end = [(), _in_words(found, measure, values, picked)]
        end += flow([(Span("lines send, columns receive:", "dim"),), *legend(measure, marks)], width, marks.ellipsis)
        rows = [*rows[: max(height - len(end), 2)], *end][:height]
        return [drawable(clip(row, width), marks) for row in rows]

    def _draw_anew(self) -> None:
        """Draw the same table anew, as the measure or the cursor has changed."""
        if self.result is not None:
            self.show_table(self.table, self.result, self.view)

    def action_line(self, step: int) -> None:
        """Move the cursor ``step`` senders down (up if negative); do nothing without a matrix."""
        found = self._folded()
        if found is not None:
            last = max(len(found.labels) - 1, 0)
            self._line = min(max(min(self._line, last) + step, 0), last)
            self._draw_anew()

    def action_measure(self) -> None:
        """Show the next measure of MEASURES, after the last one the first."""
        self._measure = (self._measure + 1) % len(MEASURES)
        self._draw_anew()


def _in_words(found: Matrix, measure: Measure, values: Floats, at: int) -> Row:
    """Describe one sender: how much it sends, to whom most, and how much it receives.

    ``values`` [senders, receivers] are those of ``measure``; ``at`` is the sender's index, -1 if there is none. Says
    so where it sends nothing.
    """
    if at < 0 or not found.n[at].any():
        return (Span(f"  {found.labels[at]} sends nothing" if at >= 0 else "  nobody sends anything", "dim"),)
    sent = found.size[at].sum()
    most = int(np.nanargmax(np.where(np.isfinite(values[at]), values[at], -1)))
    text = (
        f"  {found.labels[at]} sends {amount(float(sent), MEASURES[0])} in {count(int(found.n[at].sum()), 'message')}"
    )
    received = amount(float(found.size[:, at].sum()), MEASURES[0])
    largest = f"; most to {found.labels[most]}: {amount(float(values[at, most]), measure)}; receives {received}"
    return (Span(text, "value"), Span(largest))
