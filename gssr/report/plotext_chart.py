"""The one place that knows plotext: a time series with its band, and a histogram, as rows.

plotext keeps its figure, its theme and its size limits in global state: all of it is reset before and after each chart. Its
colours are not used; the rows carry roles like every other drawing.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from gssr.arrays import Floats
from gssr.render.clock import Tick
from gssr.render.columns import length, unbroken
from gssr.render.glyphs import TO_ASCII, Glyphs
from gssr.render.roles import Role, Row, Span

LEAST_COLUMNS = 8
"""A canvas narrower than this is not drawn."""
MANUAL = "plotext._doc.doc"
_LEFT_OUT: dict[str, Any] = {
    MANUAL: SimpleNamespace(docs=None), "plotext._tests.run": SimpleNamespace(test=lambda: None), "PIL": None,
}  # fmt: skip
"""What plotext imports for its interactive manual (``plotext.doc``), its own tests and images, of 6.1. A later version that
has none of these names is imported whole."""


def _import_plotext() -> Any:
    """Import plotext without what nobody needs here, which is most of the import's time. Returns the module."""
    left_out = {name: found for name, found in _LEFT_OUT.items() if name not in sys.modules}
    sys.modules.update(left_out)
    try:
        import plotext
    finally:
        for name in left_out:
            del sys.modules[name]
    return plotext


plotext = _import_plotext()


def band_chart(
    mean: Floats, low: Floats, high: Floats, y_labels: Sequence[str], x_ticks: Sequence[Tick], gutter: int, height: int,
    glyphs: Glyphs, roles: Sequence[Role] = (),
) -> list[Row]:  # fmt: skip
    """A chart of ``height`` + 2 lines (one less without ``x_ticks``): ``gutter`` cells for the labels, one for the axis, one
    per column.

    ``mean``, ``low`` and ``high`` [columns] are fractions of the full scale: the line, and the ends of the band. A column
    of NaN stays empty and breaks the line; what is beyond the scale is drawn at its edge. ``y_labels`` are set at equal
    distances from bottom to top, ``x_ticks`` at columns (``at``, counted from 0). ``roles`` [height]: those of the line
    by its height, from the bottom up, by default a series'. Fewer than 8 columns give no lines.
    """
    n, tall = len(mean), height + 1 + bool(x_ticks)
    if n < LEAST_COLUMNS:
        return []
    with _figure(gutter + 1 + n, tall) as figure:
        y, x = figure.ruler("y"), figure.ruler("x")
        y.lim(0, 1)
        labels = _on_rows(y_labels, height)
        y.ticks(np.linspace(0, 1, len(labels)).tolist(), [label.rjust(gutter) for label in labels])
        x.lim(0, n - 1)
        x.ticks([tick.at for tick in x_ticks], [tick.label for tick in x_ticks])
        for first, last in unbroken(mean):
            values = np.clip(mean[first:last], 0.0, 1.0)
            figure.draw(figure.signal(list(range(first, last)), values.tolist(), marker=glyphs.line).lines())
        lines = _lines(figure, glyphs)[:tall]
    known = np.isfinite(low) & np.isfinite(high)
    bottom, top = (np.floor(np.clip(np.where(known, end, 0.0), 0.0, 1.0) * (height - 1) + 0.5) for end in (low, high))
    rows = []
    for cell, line in zip(range(height - 1, -1, -1), lines, strict=False):
        cells = np.array(list(line[gutter + 1 :].ljust(n)))
        cells[(cells == " ") & known & (bottom <= cell) & (cell <= top)] = glyphs.band
        drawn = line[: gutter + 1] + "".join(cells.tolist())
        rows.append(_row(drawn, gutter + 1, glyphs.band, roles[cell] if roles else "series"))
    return [*rows, *((Span(line, "dim"),) for line in lines[height:])]


def _on_rows(labels: Sequence[str], height: int) -> Sequence[str]:
    """Keep every n-th of the labels of a scale, the first and the last among them, so that each has a row to itself."""
    parts = len(labels) - 1
    return next(
        labels[::n] for n in range(1, parts + 1) if parts % n == 0 and ((height - 1) % (parts // n) == 0 or n == parts)
    )


def histogram_chart(labels: Sequence[str], counts: Sequence[int], columns: int, glyphs: Glyphs) -> list[Row]:
    """Draw a line for each bin, in the order given: its label, the axis, and a bar of at most ``columns`` cells, which
    the greatest count fills.

    ``labels`` [bins] are equally long; a count above 0 always shows. No rows without bins or for fewer than
    LEAST_COLUMNS columns.
    """
    n, most = len(counts), max(counts, default=0)
    if columns < LEAST_COLUMNS or not n:
        return []
    gutter = max(map(len, labels))
    with _figure(gutter + 1 + columns, n + 1) as figure:  # the last line is the axis
        y, x = figure.ruler("y"), figure.ruler("x")
        y.lim(0, max(n - 1, 1))
        y.ticks(list(range(n)), list(labels)[::-1])
        x.lim(0, columns - 1)
        x.ticks([], [])
        cells: dict[str, tuple[list[int], list[int]]] = {}
        for at, count in enumerate(counts):
            for column, char in enumerate(length(count / most, columns, glyphs) if count else ""):
                xs, ys = cells.setdefault(char, ([], []))
                xs.append(column)
                ys.append(n - 1 - at)
        for char, (xs, ys) in cells.items():
            figure.draw(figure.signal(xs, ys, marker=char))
        lines = _lines(figure, glyphs)[:n]
    return [_row(line, gutter + 1, glyphs.band) for line in lines]


@contextmanager
def _figure(width: int, height: int) -> Iterator[Any]:
    """Yield plotext's figure, empty, of so many cells, with an axis at its left; it is empty again afterwards."""
    figure = plotext.figure
    figure.clear.all()
    plotext.terminal.limit(False, False)
    try:
        figure.theme("colorless")
        figure.plot_size(width, height)
        figure.axes(active=False, side=1)
        yield figure
    finally:
        figure.clear.all()
        plotext.terminal.limit(True, True)


def _lines(figure: Any, glyphs: Glyphs) -> list[str]:
    text: str = figure.build().string(colorless=True)
    return (text.translate(TO_ASCII) if glyphs.band.isascii() else text).split("\n")


def _row(line: str, axis: int, band: str, curve: Role = "series") -> Row:
    """Return the line with roles: the axis up to cell ``axis``, then band, ``curve`` and blanks."""
    pieces = re.findall(f" +|{re.escape(band)}+|[^ {re.escape(band)}]+", line[axis:])
    roles: dict[str, Role] = {" ": "plain", band: "band"}
    return (Span(line[:axis], "dim"), *(Span(piece, roles.get(piece[0], curve)) for piece in pieces))
