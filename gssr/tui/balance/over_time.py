"""The imbalance over time: what waiting for each other would cost at each moment."""

import numpy as np

from gssr.model.live.live_result import Result
from gssr.render.roles import RAMP, Row, Span
from gssr.render.scale import percent
from gssr.report.live.band_chart import chart_cells, draw_band
from gssr.report.live.times_of_run import at_text, in_part, part_text, width_text
from gssr.tui.shared.panel import RowsPanel

_LABELS = ("0 %", "50 %", "100 %")
_GUTTER = 5


class ImbalanceOverTime(RowsPanel):
    """1 - mean/max of all GPUs, column by column, drawn by plotext as on the page."""

    def name_border(self, result: Result) -> None:
        """Say how long a cell is, and when the worst minute was, if there is one and no trace is shown."""
        cell = chart_cells(result, self.content_size.width, _GUTTER).width
        self.border_title = f"{in_part('imbalance over time', part_text(result))}, {width_text(cell)} a cell"
        found = result.unevenness.imbalance
        worst = found.worst is not None and result.part is None
        self.border_subtitle = (
            f"worst minute from {at_text(result, found.worst_start)}: {percent(found.worst)}" if worst else ""
        )

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """The chart and its times."""
        found = result.imbalance.over_time
        if height < 4 or not np.isfinite(found).any():
            nothing: Row = (Span("nothing to compare in this window", "dim"),)
            return [nothing][:height]
        values = (found, np.zeros_like(found), found)
        return draw_band(result, values, _LABELS, RAMP[::-1], width, height, self.glyphs, _GUTTER)  # red: much is lost
