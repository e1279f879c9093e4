"""Time on the screen: how the columns of a result become cells of a widget.

While a run grows and nobody chose a window, a cell is one column (1 s) and the newest is at the right edge. Else the cells
share the window between them.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.live.live_result import Result
from gssr.render import clock
from gssr.render.columns import average_into_columns
from gssr.render.roles import Row, Span
from gssr.render.scale import metric_of, quantity
from gssr.report.live.metric_scales import full_scale


class Cells(NamedTuple):
    """``n`` cells of time from ``start`` to ``end`` (unix s)."""

    start: float
    end: float
    n: int
    rolls: bool

    @property
    def width(self) -> float:
        """Seconds of a cell."""
        return (self.end - self.start) / max(self.n, 1)

    def at(self, time: float) -> int | None:
        """The cell that holds a time; None for a time outside."""
        cell = int((time - self.start) / self.width) if self.end > self.start else -1
        return cell if 0 <= cell < self.n and time >= self.start else None

    def time(self, cell: int) -> float:
        """The middle of a cell."""
        return self.start + (cell + 0.5) * self.width


def cells_of(result: Result, n: int) -> Cells:
    """Return the cells that ``n`` cells of a widget show: the newest columns, one each, while the result rolls, else
    the window in ``n`` equal parts."""
    grid = result.grid
    if rolls(result):
        end = grid.start + (grid.column(result.last) + 1) * grid.width
        return Cells(end - n * grid.width, end, n, True)
    start, end = max(grid.start, result.first), min(grid.end, result.last)
    if (
        result.query.span is not None and result.query.end is not None
    ):  # columns are whole ones, a window is what was asked
        end = min(end, result.query.end)
        start = max(start, end - result.query.span)
    return Cells(start, end if end > start else start + grid.width, n, False)


def rolls(result: Result) -> bool:
    """Tell whether the newest column comes in at the right edge, one cell a column."""
    return result.is_live and result.query.width is not None


def in_cells(result: Result, values: Floats, cells: Cells) -> Floats:
    """Average ``values`` [..., columns of the result's grid] into the cells: [..., n_cells], NaN where nothing is
    known.

    While it rolls each cell is one column. If columns are as short as the sampling interval, a single missing column
    after a known one takes its value, as that is jitter.
    """
    grid = result.grid
    if not cells.rolls:
        return average_into_columns(values, grid.start, grid.width, cells.start, cells.end, cells.n)
    last = grid.column(result.last) + 1
    shown = values[..., max(last - cells.n, 0) : last]
    lacks = cells.n - shown.shape[-1]
    if lacks:
        shown = np.concatenate([np.full((*shown.shape[:-1], lacks), np.nan), shown], axis=-1)
    if grid.width < 2 * result.sampling_seconds * (1 + 1e-9):
        shown = _bridged(shown)
    return shown


def _bridged(values: Floats) -> Floats:
    """Fill single missing values (NaN) between two known ones, along the last axis, by the one before. The newest
    counts as between two if the one before it is known, as its sample may still come."""
    known = np.isfinite(values)
    single = np.isnan(values[..., 1:]) & known[..., :-1]
    single[..., :-1] &= known[..., 2:]  # of the newest nothing comes after it
    filled = values.copy()
    np.copyto(filled[..., 1:], values[..., :-1], where=single)
    return filled


def known_from(result: Result, cells: Cells) -> int:
    """Count the cells before the run's first sample, in which nothing can be missing."""
    return max(cells.at(result.first) or 0, 0) if cells.start < result.first else 0


def fractions(result: Result, values: Floats) -> Floats:
    """Values of the grid's metric as fractions of its full scale."""
    return values / full_scale(result, result.grid.metric)


def axis_row(result: Result, cells: Cells) -> Row:
    """Write the labels under the cells: times since the run's first sample, or while it rolls how long ago."""
    if cells.rolls:
        start, end = cells.start - cells.end, 0.0
        text = clock.axis_text(start, end, cells.n)
        return (Span(f"{text[: max(cells.n - 4, 0)]:<{max(cells.n - 4, 0)}} now"[: cells.n], "dim"),)
    since = result.first if result.since is None else result.since
    return (Span(clock.axis_text(cells.start - since, cells.end - since, cells.n), "dim"),)


def value_text(result: Result, value: float) -> str:
    """A value of the grid's metric with its unit."""
    return quantity(None if value != value else value, metric_of(result.grid.metric))
