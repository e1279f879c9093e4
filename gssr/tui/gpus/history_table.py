"""A table whose lines have a history at their right: what the tables of GPUs and of nodes have in common."""

from rich.segment import Segment

from gssr.arrays import Floats, Ints
from gssr.model.live.live_result import Result
from gssr.model.live.steady_order import SteadyOrders
from gssr.report.live.time_cells import Cells, axis_row, cells_of, fractions, in_cells, known_from
from gssr.tui.shared.history import history_rows
from gssr.tui.shared.line_table import HEAD, LineTable

_MOST_TALL = 6
"""Rows that an item takes at most, where there are few."""
_LEAST_CELLS = 8
"""Cells of time below which there is no history."""


class HistoryTable(LineTable):
    """A table of a result. A subclass says the ``course`` of an item over time."""

    result: Result | None = None

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)
        self._orders = SteadyOrders()
        self._bars: tuple[Result, tuple[object, ...], list[list[Segment]]] | None = None
        """The history of the item drawn last, which may take several rows, and what it was drawn from."""

    def course(self, result: Result, item: int) -> Floats:
        """Return an item's values of the grid's metric, one for each column of the grid; NaN where they are missing."""
        raise NotImplementedError

    @property
    def tall(self) -> int:
        """Rows that an item takes: more than one where all fit."""
        return max(min((self.size.height - HEAD) // max(len(self.order), 1), _MOST_TALL), 1)

    def sort_steadily(
        self, result: Result, items: Ints, values: Floats, full: float | None, about: object = ""
    ) -> Ints:
        """Return the items sorted by ``values`` [n_items], as ``self.descending`` says.

        While a run grows, their order only changes where the difference can be seen beside ``full``, what fills the
        axis (None: any difference counts). ``about``: what else the order depends on; if it changes, the items are
        sorted anew.
        """
        question = (self.sort, self.descending, about)
        signed = -values if self.descending else values
        return items[self._orders.steady(result, question, items, signed, full)]

    def _history_cells(self, result: Result) -> Cells | None:
        """Return the cells of time right of the columns; None if there is no room for any."""
        room = self.size.width - self.headings()[-1].end - 1
        return cells_of(result, room) if room >= _LEAST_CELLS else None

    def head_tail(self) -> list[Segment]:
        """Draw the times of the history; empty if there is no room for it or no result yet."""
        if self.result is None:
            return []
        cells = self._history_cells(self.result)
        return [] if cells is None else [Segment(" "), *self.strip_of(axis_row(self.result, cells), cells.n)]

    def tail(self, item: int, part: int) -> list[Segment]:
        """Draw row ``part`` (0: the topmost) of an item's history; empty if there is no room for it."""
        result = self.result
        cells = None if result is None else self._history_cells(result)
        if result is None or cells is None:
            return []
        key = (item, cells, self.tall, self.palette.theme)
        if self._bars is None or self._bars[0] is not result or self._bars[1] != key:
            values = fractions(result, in_cells(result, self.course(result, item), cells))
            self._bars = (
                result,
                key,
                history_rows(values, self.tall, self.palette, self.glyphs, known_from(result, cells)),
            )
        return [Segment(" "), *self._bars[2][part]]
