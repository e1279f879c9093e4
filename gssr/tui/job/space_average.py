"""The space average over time: the mean of the GPUs looked at, and the band from the lowest to the highest of them."""

import sys
from dataclasses import replace

import numpy as np
from textual.timer import Timer

from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result
from gssr.model.results import Series, over_space
from gssr.render.cells import clean
from gssr.render.roles import Row
from gssr.render.scale import metric_of
from gssr.report.live.band_chart import GUTTER, metric_band
from gssr.report.live.time_cells import value_text
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.shared.wall import gpus_shown
from gssr.tui.view import View, selection_of

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
        metric, gpus = metric_of(result.grid.metric), gpus_shown(result, self.view)
        space = _over_gpus_shown(result, self.view)
        known = space.mean[np.isfinite(space.mean)]
        now = f"{value_text(result, float(known[-1]))} now" if result.is_live and len(known) else ""
        means = result.window.per_gpu(result.grid.metric)[gpus]
        if not now and np.isfinite(means).any():
            now = f"mean {value_text(result, float(np.nanmean(means)))}"
        whose = "all" if len(gpus) == result.n_gpus else f"{len(gpus):,} of {result.n_gpus:,}"
        several = f"mean of {whose} {result.noun}s, lowest to highest"
        self.border_title = f"{metric.label}: {several if len(gpus) != 1 else clean(result.place(int(gpus[0])))}"
        self.border_subtitle = now

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the chart with its axis. Empty until plotext is imported, which this call puts off to the next moment."""
        if _ADAPTER not in sys.modules:
            if self._first_chart is None:
                self._first_chart = self.set_timer(_AFTER_FIRST_PICTURE_SECONDS, self._draw_first)
            return []
        space = _over_gpus_shown(result, self.view)
        return metric_band(
            result, space.mean, space.low, space.high, width, height, self.glyphs, self.axis_at, timed_from=_TIMED
        )

    def _draw_first(self) -> None:
        """Draw the first chart of this process."""
        import gssr.report.plotext_chart  # noqa: F401

        self.refresh()


@once
def _over_gpus_shown(result: Result, view: View) -> Series:
    """Summarize the grid over the GPUs that are selected, else over all."""
    if not selection_of(result, view):
        return result.space
    return over_space(replace(result.grid, values=result.grid.values[gpus_shown(result, view)]))
