"""Both runs over each other: the mean of all GPUs, from the time at which they are aligned."""

import numpy as np

from gssr.model.live.alignment import origins, shares_columns
from gssr.model.live.live_result import Result
from gssr.render import clock
from gssr.render.clock import Tick
from gssr.render.columns import average_into_columns
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import metric_of
from gssr.report.live.band_chart import GUTTER, canvas_rows, scale_labels
from gssr.report.live.metric_scales import full_scale
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View

_LOOKS: tuple[tuple[str, Role], ...] = (("A", "neutral"), ("B", "outlier"))
_LETTERS = (0.25, 0.75)
"""The places along its curve at which a run has its letter."""


class Curves(RowsPanel):
    """Drawn by plotext as on the page; each curve carries the letter of its run."""

    other: Result | None = None

    def show_both(self, one: Result, other: Result, view: View) -> None:
        """Draw the mean of these two runs over each other from now on, with the view's alignment; ``one`` is A,
        ``other`` is B."""
        self.other = other
        zeros = origins(one, other, view.align)
        at = "their starts" if view.align == "start" else "where they begin to work"
        if zeros[0][1]:
            at = " and ".join(dict.fromkeys(name for _, name in zeros if name))
        self.border_title = f"{metric_of(one.grid.metric).label}, mean of all {one.noun}s, A and B over each other"
        self.border_subtitle = f"aligned at {at}"
        self.show(one, view)

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw both curves in one chart; a waiting line instead while the two have no columns in common, or if there
        are fewer than 4 lines."""
        other = self.other
        if other is None or not shares_columns(result, other) or height < 4:
            waiting: Row = (Span("waiting for the same columns of both runs", "dim"),)
            return [waiting][:height]
        from gssr.report.plotext_chart import band_chart  # takes a tenth of a second to import

        n = max(width - GUTTER - 1, 1)
        name = result.grid.metric
        full = max(full_scale(result, name), full_scale(other, name))
        length = max(min(frame.last, frame.grid.end) - frame.grid.start for frame in (result, other))
        grid = result.grid
        begin = round((grid.start - origins(result, other, self.view.align)[0][0]) / grid.width) * grid.width
        tall = canvas_rows(height, is_timed=True)
        labels = scale_labels(full, name, tall)
        ticks = [
            Tick((tick.at - begin) / max(length, 1e-9) * (n - 1), tick.label)
            for tick in clock.time_ticks(begin, begin + length, n)
        ]
        nothing = np.full(n, np.nan)
        drawn: list[list[Row]] = []
        for frame in (result, other):
            own = frame.grid
            values = average_into_columns(
                frame.space.mean / full, own.start, own.width, own.start, own.start + length, n
            )
            drawn.append(band_chart(values, nothing, nothing, labels, ticks, GUTTER, tall, self.glyphs))
        return _over(drawn[0], drawn[1], GUTTER + 1)[:height]


def _over(below: list[Row], above: list[Row], axis: int) -> list[Row]:
    """Lay the chart ``above`` over ``below``, which has the same axes, each curve with its letter (A below, B above)
    and role.

    The first ``axis`` cells of each line (the scale) and the last two lines (the time axis) are those of ``below``. If
    one chart is empty, returns the other.
    """
    if not below or not above:
        return below or above
    n = len(below) - 2
    texts = [["".join(span.text for span in row) for row in rows] for rows in (below, above)]
    width = max(len(line) for lines in texts for line in lines)
    cells = [[line.ljust(width)[axis:] for line in lines[:n]] for lines in texts]
    letters: dict[tuple[int, int], int] = {}
    for run, lines in enumerate(cells):
        for where in _LETTERS:
            x = int(where * (width - axis - 1)) + 2 * run
            y = next((y for y in range(n) if lines[y][x] != " "), None)
            if y is not None:
                letters[y, x] = run
    rows: list[Row] = []
    for y in range(n):
        spans = [Span(texts[0][y].ljust(width)[:axis], "dim")]
        for x, (low, high) in enumerate(zip(cells[0][y], cells[1][y], strict=True)):
            run = letters.get((y, x), 1 if high != " " else 0)
            char = _LOOKS[run][0] if (y, x) in letters else high if high != " " else low
            role: Role = "value" if (y, x) in letters else _LOOKS[run][1] if char != " " else "plain"
            if spans[-1].role == role:
                spans[-1] = Span(spans[-1].text + char, role)
            else:
                spans.append(Span(char, role))
        rows.append(tuple(spans))
    return [*rows, *below[n:]]
