"""The imbalance over time: what waiting for each other would cost at each moment."""

import numpy as np

from gssr.model.live.attention import imbalance_of
from gssr.model.live.frame import Frame
from gssr.render.roles import RAMP, Row, Span
from gssr.render.scale import percent
from gssr.tui.axis import at_text, width_text
from gssr.tui.job.space_average import GUTTER, _ticks
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.shared.timed import cells_of, in_cells
from gssr.tui.view import View

_LABELS = ("0 %", "50 %", "100%")


class ImbalanceOverTime(RowsPanel):
    """1 - mean/max of all GPUs, column by column, drawn by plotext as on the page."""

    def show(self, result: Frame, view: View) -> None:
        """See Panel."""
        super().show(result, view)
        found = imbalance_of(result, view.selection)
        width = cells_of(result, max(self.content_size.width - GUTTER - 1, 1)).width
        self.border_title = f"imbalance over time, 1 column = {width_text(width)}"
        worst = found.worst is not None and result.part is None
        self.border_subtitle = (
            f"worst minute from {at_text(result, found.worst_start)}: {percent(found.worst)}" if worst else ""
        )

    def rows(self, result: Frame, width: int, height: int) -> list[Row]:
        """The chart and its times."""
        from gssr.report.plotext_chart import band_chart  # takes a tenth of a second to import

        cells = cells_of(result, max(width - GUTTER - 1, 1))
        values = in_cells(result, imbalance_of(result, self.view.selection).over_time, cells)
        if height < 4 or not np.isfinite(values).any():
            nothing: Row = (Span("nothing to compare in this window", "dim"),)
            return [nothing][:height]
        rows = band_chart(
            values, np.zeros(len(values)), values, _LABELS, _ticks(result, cells), GUTTER, height - 2, self.glyphs
        )
        return [_as_loss(row, values.tolist()) for row in rows[:height]]


def _as_loss(row: Row, values: list[float]) -> Row:
    """The line in the colour of what is left: red where much is lost."""
    spans: list[Span] = []
    at = 0
    for span in row:
        for offset, char in enumerate(span.text):
            role = span.role
            if role == "series":
                value = values[min(max(at + offset - GUTTER - 1, 0), len(values) - 1)]
                left = 1.0 if value != value else 1.0 - min(max(value, 0.0), 1.0)
                role = RAMP[min(int(left * len(RAMP)), len(RAMP) - 1)]
            if spans and spans[-1].role == role:
                spans[-1] = Span(spans[-1].text + char, role)
            else:
                spans.append(Span(char, role))
        at += len(span.text)
    return tuple(spans)
