"""What the screen asks of the recordings: one query for the view and the pane in sight."""

from collections.abc import Sequence
from dataclasses import replace

from gssr.model.live.live_result import Query, Result
from gssr.model.statistics.grid import MOST_ROWS
from gssr.model.verdicts.table import RuleTable
from gssr.report.live.gpu_filter import only_of
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.view import View

ROLLING_WIDTHS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds of a cell while a run grows: the least that its sampling fills."""


def query_of(view: View, pane: ScreenPane, width: int, result: Result | None, table: RuleTable) -> Query:
    """Return the query for what the view and its pane need.

    Args:
        view: what is looked at.
        pane: the screen in sight.
        width: cells of the terminal.
        result: the newest result, None before the first.
        table: the rules that judge.
    """
    columns = max(pane.columns(width), 1)
    query = replace(view.query(columns), causes=None if view.speed else table, only=only_of(view.filter))
    query = pane.asks(query)
    if result is not None and result.is_live and view.lately and view.end is None and not view.speed:
        cell = rolling_width(result, columns)
        query = replace(query, span=columns * cell, width=cell)
    return query


def queries_of_all(
    query: Query, view: View, results: Sequence[Result], n_recordings: int, other: int
) -> tuple[Query | None, ...]:
    """Return the query of each recording: None of those out of sight. On Compare both runs are asked for, with aligned
    columns; ``other`` is the index of the second."""
    queries = [query] + [None] * (n_recordings - 1)
    if view.screen == "compare" and n_recordings > 1:
        from gssr.model.live.alignment import aligned

        first, second = (*results[:2], None, None)[:2]
        queries[0], queries[other] = aligned(query, view.align, first, second)
    return tuple(queries)


def rolling_width(result: Result, columns: int) -> float:
    """Return the seconds of a column while the newest ones roll in: the least of ROLLING_WIDTHS that the sampling
    fills. At least 10 s, a rollup's length, if so many columns can't be read row by row in time."""
    least = next(
        (width for width in ROLLING_WIDTHS if width >= result.sampling_seconds * (1 - 1e-9)), ROLLING_WIDTHS[-1]
    )
    rows = result.n_gpus * columns * least / max(result.sampling_seconds, 1e-3)
    return least if rows <= MOST_ROWS and result.reread is None else max(least, 10.0)
