"""The space average over time: the mean of all GPUs, and the band from the lowest to the highest of them."""

import sys

import numpy as np
from textual.timer import Timer

from gssr.model.live.live_result import Result
from gssr.render.roles import Row
from gssr.render.scale import metric_of
from gssr.report.live.band_chart import GUTTER, metric_band
from gssr.report.live.time_cells import value_text
from gssr.tui.shared.panel import RowsPanel

_TIMED = 7
"""Rows from which the times stand under the chart."""
_ADAPTER = "gssr.report.plotext_chart"
_AFTER_FIRST_PICTURE_SECONDS = 0.05
"""Importing plotext takes as long as drawing all the rest: the numbers are shown first."""


class SpaceAverage(RowsPanel):
    """A chart of one metric, drawn by plotext as on the page. ``axis_at``: cells left of its axis; as many as the names of a
    wall below it take, so that both have the same times in the same columns."""

    axis_at = GUTTER
    _first_chart: Timer | None = None
    """What draws the first chart of this process, once it is due."""

    def name_border(self, result: Result) -> None:
        """Name the metric, and its newest mean, or the mean of the window."""
        metric = metric_of(result.grid.metric)
        known = result.space.mean[np.isfinite(result.space.mean)]
        now = f"{value_text(result, float(known[-1]))} now" if result.is_live and len(known) else ""
        means = result.window.per_gpu(result.grid.metric)
        if not now and np.isfinite(means).any():
            now = f"mean {value_text(result, float(np.nanmean(means)))}"
        self.border_title = f"{metric.label}: mean of all {result.noun}s, lowest to highest"
        self.border_subtitle = now

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the chart with its axis. Empty until plotext is imported, which this call puts off to the next moment."""
        if _ADAPTER not in sys.modules:
            if self._first_chart is None:
                self._first_chart = self.set_timer(_AFTER_FIRST_PICTURE_SECONDS, self._draw_first)
            return []
        space = result.space
        return metric_band(
            result, space.mean, space.low, space.high, width, height, self.glyphs, self.axis_at, timed_from=_TIMED
        )

    def _draw_first(self) -> None:
        """Draw the first chart of this process."""
        import gssr.report.plotext_chart  # noqa: F401

        self.refresh()
