"""The space average over time: the mean of all GPUs, and the band from the lowest to the highest of them."""

import numpy as np

from gssr.model.live.frame import Frame
from gssr.render import clock
from gssr.render.clock import Tick
from gssr.render.roles import RAMP, Row, Span
from gssr.render.scale import metric_of, scale_text
from gssr.tui.axis import full_scale, y_label
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.shared.timed import cells_of, fractions, in_cells, value_text
from gssr.tui.view import View

GUTTER = 4
"""Cells left of the axis, where nothing else says so."""
_TALL = 9
"""Rows from which a quarter of the scale has a label of its own."""
_TIMED = 7
"""Rows from which the times stand under the chart."""


class SpaceAverage(RowsPanel):
    """A chart of one metric, drawn by plotext as on the page. ``axis_at``: cells left of its axis; as many as the names of a
    wall below it take, so that both have the same times in the same columns."""

    axis_at = GUTTER

    def show(self, result: Frame, view: View) -> None:
        """See Panel."""
        super().show(result, view)
        metric = metric_of(result.grid.metric)
        known = result.space.mean[np.isfinite(result.space.mean)]
        now = f"{value_text(result, float(known[-1]))} now" if result.is_live and len(known) else ""
        means = result.window.per_gpu(result.grid.metric)
        if not now and np.isfinite(means).any():
            now = f"mean {value_text(result, float(np.nanmean(means)))}"
        self.border_title = f"{metric.label}: mean of all {result.noun}s, lowest to highest"
        self.border_subtitle = now

    def rows(self, result: Frame, width: int, height: int) -> list[Row]:
        """The chart, its axis below."""
        from gssr.report.plotext_chart import band_chart  # takes a tenth of a second to import

        gutter = self.axis_at
        cells = cells_of(result, max(width - gutter - 1, 1))
        space = result.space
        mean, low, high = (
            fractions(result, in_cells(result, values, cells)) for values in (space.mean, space.low, space.high)
        )
        full, name = full_scale(result, result.grid.metric), result.grid.metric
        timed = height >= _TIMED
        tall = height - 2 * timed
        if tall < 2:
            return []
        steps = (0.0, 0.25, 0.5, 0.75, 1.0) if tall >= _TALL else (0.0, 0.5, 1.0) if tall >= 3 else (0.0, 1.0)
        labels = [y_label(step, full, name) for step in steps]
        whole = scale_text(metric_of(name), full)
        labels[-1] = whole if len(whole) <= gutter else labels[-1]
        rows = band_chart(mean, low, high, labels, _ticks(result, cells) if timed else (), gutter, tall, self.glyphs)
        return [_coloured(row, mean.tolist(), gutter + 1) for row in rows[:height]]


def _ticks(result: Frame, cells: object) -> list[Tick]:
    """Times at cells, since the run's first sample, or of what rolls how long ago."""
    start, end, n, rolls = cells.start, cells.end, cells.n, cells.rolls  # type: ignore[attr-defined]
    zero = end if rolls else result.first if result.since is None else result.since
    span = max(end - start, 1e-9)
    found = clock.ticks(start - zero, end - zero, n)
    ticks = [Tick((tick.at + zero - start) / span * (n - 1), tick.label) for tick in found]
    return [*(tick for tick in ticks if tick.at < n - 4), Tick(n - 2.0, "now")] if rolls else ticks


def _coloured(row: Row, mean: list[float], gutter: int) -> Row:
    """The line in the colour of its load."""
    spans: list[Span] = []
    at = 0
    for span in row:
        if span.role == "series":
            for offset, char in enumerate(span.text):
                value = mean[min(max(at + offset - gutter, 0), len(mean) - 1)]
                step = 0 if value != value else min(max(int(value * len(RAMP)), 0), len(RAMP) - 1)
                role = RAMP[step]
                if spans and spans[-1].role == role:
                    spans[-1] = Span(spans[-1].text + char, role)
                else:
                    spans.append(Span(char, role))
        else:
            spans.append(span)
        at += len(span.text)
    return tuple(spans)
