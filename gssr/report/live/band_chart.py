"""A line over time with its band, drawn by plotext as on the page, in the colours of load."""

from collections.abc import Sequence

from gssr.arrays import Floats
from gssr.model.live.live_result import Result
from gssr.render import clock
from gssr.render.clock import Tick
from gssr.render.glyphs import Glyphs
from gssr.render.roles import RAMP, Role, Row
from gssr.render.scale import metric_of, scale_text
from gssr.report.live.metric_scales import full_scale, y_label
from gssr.report.live.time_cells import Cells, cells_of, in_cells

GUTTER = 4
"""Cells left of the axis, where nothing else says so."""
_TIMED = 4
"""Rows from which the times stand under the chart."""
_ODD_FROM = 6
"""Rows from which one can be left blank."""
TALL = 9
"""Rows from which a quarter of the scale has a label of its own."""


def chart_cells(result: Result, width: int, gutter: int = GUTTER) -> Cells:
    """The cells of time right of a chart's axis."""
    return cells_of(result, max(width - gutter - 1, 1))


def scale_labels(full: float, name: str, height: int, gutter: int = GUTTER) -> list[str]:
    """Label the scale of a metric from 0 to ``full``, as finely as a chart is high, from the lowest label up.

    The topmost has the unit if that fits into ``gutter`` cells.
    """
    steps = (0.0, 0.25, 0.5, 0.75, 1.0) if height >= TALL else (0.0, 0.5, 1.0)
    labels = [y_label(step, full, name) for step in steps]
    whole = scale_text(metric_of(name), full)
    return [*labels[:-1], whole if len(whole) <= gutter else labels[-1]]


def canvas_rows(height: int, is_timed: bool) -> int:
    """The rows between the top of a chart and its axis of times: from six on an odd number, so that one is in the middle."""
    rows = height - 2 * is_timed
    return rows - 1 if rows >= _ODD_FROM and rows % 2 == 0 else rows


def metric_band(
    result: Result, line: Floats, low: Floats, high: Floats, width: int, height: int, glyphs: Glyphs, gutter: int = GUTTER,
    timed_from: int = _TIMED,
) -> list[Row]:  # fmt: skip
    """Draw a line and its band on the full scale of the grid's metric.

    ``line``, ``low`` and ``high`` hold a value for each column of the grid (NaN: unknown), in the metric's stored
    unit. See draw_band.
    """
    full, name = full_scale(result, result.grid.metric), result.grid.metric
    labels = scale_labels(full, name, canvas_rows(height, height >= timed_from), gutter)
    values = (line / full, low / full, high / full)
    return draw_band(result, values, labels, RAMP, width, height, glyphs, gutter, timed_from)


def draw_band(
    result: Result, values: tuple[Floats, Floats, Floats], labels: Sequence[str], ramp: Sequence[Role], width: int,
    height: int, glyphs: Glyphs, gutter: int = GUTTER, timed_from: int = _TIMED,
) -> list[Row]:  # fmt: skip
    """Draw a line with its band, all fractions of the axis (0-1), [columns of the grid]; the higher a cell, the further
    along ``ramp`` is its colour.

    ``labels`` stand at the axis from the bottom up, in ``gutter`` cells. From ``timed_from`` rows on the times stand
    below. Empty if there are fewer than two rows for the chart.
    """
    from gssr.report.plotext_chart import band_chart  # takes a tenth of a second to import

    is_timed = height >= timed_from
    tall = canvas_rows(height, is_timed)
    if tall < 2:
        return []
    cells = chart_cells(result, width, gutter)
    line, low, high = (in_cells(result, each, cells) for each in values)
    ticks, roles = _ticks(result, cells) if is_timed else (), [ramp[row * len(ramp) // tall] for row in range(tall)]
    return band_chart(line, low, high, labels, ticks, gutter, tall, glyphs, roles)[:height]


def _ticks(result: Result, cells: Cells) -> list[Tick]:
    """Return the labels of the times at their cells: since the run's first sample, or while it rolls how long ago."""
    zero = cells.end if cells.rolls else result.first if result.since is None else result.since
    span = max(cells.end - cells.start, 1e-9)
    found = clock.time_ticks(cells.start - zero, cells.end - zero, cells.n)
    ticks = [Tick((tick.at + zero - cells.start) / span * (cells.n - 1), tick.label) for tick in found]
    return [*(tick for tick in ticks if tick.at < cells.n - 4), Tick(cells.n - 2.0, "now")] if cells.rolls else ticks
