"""Which stretch of time a timeline shows: zoomed, moved along, or taken as it was dragged. Pure functions of a view."""

from dataclasses import replace

from gssr.model.findings.notes import FINEST
from gssr.model.live.live_result import Query, Result
from gssr.report.live.time_cells import Cells, cells_of
from gssr.tui.view import View

_LEAST_SAMPLES = 8
"""Samples of a recording that a window holds at least."""
_ALL = 0.999
"""From this share of the run on a window is the whole run."""


def cells_over(result: Result, n: int) -> Cells:
    """Return the ``n`` cells of time that a timeline shows; of a trace never more than its grid has columns."""
    grid = None if result.part is None else result.part.columns or result.grid
    if grid is None:
        return cells_of(result, n)
    return Cells(grid.start, grid.end, min(grid.n, n), False)


def cells_wanted(result: Result, view: View, n: int) -> Cells:
    """The time that ``n`` cells show of the window that the view asks for, which the result may not have yet."""
    cells = cells_over(result, n)
    if view.span is None and (cells.rolls or (result.query.span is None and view.end == result.query.end)):
        return cells
    end = result.last if view.end is None else view.end
    return Cells(end - (view.span or result.last - result.first), end, cells.n, False)


def in_cells_of_time(query: Query) -> Query:
    """Return the query of a trace in which the columns are as wide as the cells of Time, so that whoever asks for the same
    view has the same window."""
    from gssr.model.live.watched_trace import FINEST as FINEST_OF_TRACES  # readers of traces take long to import

    return query if query.span is None else replace(query, width=max(query.span / query.columns, FINEST_OF_TRACES))


def least_span(result: Result, start: float, n: int) -> float:
    """Seconds that ``n`` cells from ``start`` on show at least: a few samples, or a few sums where these are kept alone."""
    if result.part is not None:
        from gssr.model.live.watched_trace import FINEST as FINEST_OF_TRACES  # readers of traces take long to import

        return FINEST_OF_TRACES * max(n, 1)
    interval = max(result.sampling_seconds, FINEST if start < result.thinned else 0.0)
    return max(_LEAST_SAMPLES * interval, 1e-3)


def framed(result: Result, view: View, start: float, end: float, n: int) -> View:
    """Return the view of the time from ``start`` to ``end`` (seconds as the result counts), held within the run and at
    least as long as ``n`` cells can show. Nearly all of the run becomes the whole run."""
    first, last = result.first, result.last
    span = max(end - start, least_span(result, start, n))
    middle = (start + end) / 2
    start, end = middle - span / 2, middle + span / 2
    if span >= _ALL * (last - first):
        return replace(view, span=None, end=None, speed=0.0, lately=False)
    end = min(max(end, first + span), last)
    return replace(view, span=span, end=None if end >= last else end, speed=0.0, lately=False)


def zoomed(result: Result, view: View, factor: float, cells: Cells, centre: float | None = None) -> View:
    """Return the view of ``factor`` times as much time as ``cells`` show.

    ``centre``, a time as in ``cells``, stays where it is; None: the time cursor. If that is not in sight, the middle
    stays.
    """
    if centre is None:
        centre = view.cursor
    if centre is None or not cells.start <= centre <= cells.end:
        centre = (cells.start + cells.end) / 2
    start, end = (centre + factor * (edge - centre) for edge in (cells.start, cells.end))
    return framed(result, view, start, end, cells.n)


def panned(result: Result, view: View, share: float, cells: Cells) -> View:
    """Return the view moved by ``share`` of what ``cells`` show (negative: earlier), held within the run."""
    by = share * (cells.end - cells.start)
    by = min(max(by, result.first - cells.start), result.last - cells.end)
    return framed(result, view, cells.start + by, cells.end + by, cells.n)


def scrubbed(result: Result, view: View, steps: int, cells: Cells) -> View:
    """Return the view with the time cursor ``steps`` cells further (negative: back), held within the run. Without a
    cursor it enters from the end it moves away from. If it leaves the window, the window moves along."""
    at = None if view.cursor is None else cells.at(view.cursor)
    cell = (cells.n if steps < 0 else -1) + steps if at is None else at + steps
    time = min(max(cells.time(cell), result.first), result.last)
    moved = replace(view, cursor=time, place=-1)
    if 0 <= cell < cells.n or not result.first < time < result.last:
        return moved
    return panned(result, moved, (cell - (cells.n - 1 if cell > 0 else 0)) / cells.n, cells)
