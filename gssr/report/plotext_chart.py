"""The one place that knows plotext: a time series with its band, as rows.

plotext keeps its figure, its theme and its size limits in global state: all of it is reset before and after each chart. Its
colours are not used; the rows carry roles like every other drawing.
"""

from collections.abc import Sequence

import numpy as np
import plotext
from numpy.typing import NDArray

from gssr.render.clock import Tick
from gssr.render.columns import unbroken
from gssr.render.glyphs import TO_ASCII, Glyphs
from gssr.render.roles import Role, Row, Span

Floats = NDArray[np.float64]

LEAST_COLUMNS = 8
"""A canvas narrower than this is not drawn."""


def band_chart(
    mean: Floats, low: Floats, high: Floats, y_labels: Sequence[str], x_ticks: Sequence[Tick], gutter: int, height: int,
    glyphs: Glyphs,
) -> list[Row]:  # fmt: skip
    """A chart of ``height`` + 2 lines (one less without ``x_ticks``): ``gutter`` cells for the labels, one for the axis, one
    per column.

    ``mean``, ``low`` and ``high`` [columns] are fractions of the full scale: the line, and the ends of the band. A column
    of NaN stays empty and breaks the line; what is beyond the scale is drawn at its edge. ``y_labels`` are set at equal
    distances from bottom to top, ``x_ticks`` at columns (``at``, counted from 0). Fewer than 8 columns give no lines.
    """
    n, tall = len(mean), height + 1 + bool(x_ticks)
    if n < LEAST_COLUMNS:
        return []
    figure = plotext.figure
    figure.clear.all()
    plotext.terminal.limit(False, False)
    try:
        figure.theme("colorless")
        figure.plot_size(gutter + 1 + n, tall)
        figure.axes(active=False, side=1)
        y, x = figure.ruler("y"), figure.ruler("x")
        y.lim(0, 1)
        y.ticks(np.linspace(0, 1, len(y_labels)).tolist(), [label.rjust(gutter) for label in y_labels])
        x.lim(0, n - 1)
        x.ticks([tick.at for tick in x_ticks], [tick.label for tick in x_ticks])
        xs, ys = _area(low, high, height)
        if xs:
            figure.draw(figure.signal(xs, ys, marker=glyphs.band))
        for first, last in unbroken(mean):
            values = np.clip(mean[first:last], 0.0, 1.0)
            figure.draw(figure.signal(list(range(first, last)), values.tolist(), marker=glyphs.line).lines())
        text = figure.build().string(colorless=True)
    finally:
        figure.clear.all()
        plotext.terminal.limit(True, True)
    if glyphs.band.isascii():
        text = text.translate(TO_ASCII)
    lines = text.split("\n")[:tall]
    return [_row(line, gutter + 1 if i < height else len(line), glyphs.band) for i, line in enumerate(lines)]


def _area(low: Floats, high: Floats, height: int) -> tuple[list[int], list[float]]:
    """The centres of all cells between low and high: column by column, bottom to top."""
    xs: list[int] = []
    ys: list[float] = []
    for column, (bottom, top) in enumerate(zip(low, high, strict=True)):
        if np.isfinite(bottom) and np.isfinite(top):
            ends = [round(min(max(float(value), 0.0), 1.0) * (height - 1)) for value in (bottom, top)]
            for cell in range(ends[0], ends[1] + 1):
                xs.append(column)
                ys.append(cell / (height - 1))
    return xs, ys


def _row(line: str, axis: int, band: str) -> Row:
    """The line with roles: the axis up to cell ``axis``, then band, line and blanks."""
    spans = [Span(line[:axis], "dim")]
    for char in line[axis:]:
        role: Role = "plain" if char == " " else "band" if char == band else "series"
        if spans[-1].role == role:
            spans[-1] = Span(spans[-1].text + char, role)
        else:
            spans.append(Span(char, role))
    return tuple(spans)
