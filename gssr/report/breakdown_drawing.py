"""Where the GPU time went, as one drawing: a bar that adds up to 100 %, its legend, and the shares along time.

PNG, HTML and PDF draw it from here, so that they agree.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import Breakdown, Confidence
from gssr.model.results import Analysis
from gssr.render.breakdown import LOOKS, headline
from gssr.render.clock import duration
from gssr.render.scale import percent
from gssr.report.content import BINS
from gssr.report.page import time_axis

_LEAST_IN_THE_BAR = 0.001
"""A category with this share has about a pixel of the bar, and is named."""
_LEAST_IN_A_COLUMN = 0.1
"""A category with this share of the GPU time of a moment is seen there, and named, however rare it is."""


class DrawnCategory(NamedTuple):
    """A category's part of the drawing.

    ``text_colour`` is black or white, whichever reads better on ``colour``. ``start`` and ``end`` say where it lies in the
    bar, in shares of the bar's length; ``bottom`` and ``top`` [n_columns] where it lies in each column of time, NaN in a
    column without GPU time. ``is_named``: whether the legend names it; the parts of the others can't be seen.
    """

    label: str
    colour: str
    text_colour: str
    share: float
    error: float
    gpu_seconds: float
    known_by: Confidence
    start: float
    end: float
    bottom: Floats
    top: Floats
    is_named: bool

    @property
    def text(self) -> str:
        """Its label and its share."""
        return f"{self.label}: {percent(self.share)}"

    @property
    def about(self) -> str:
        """What else is known of it: the GPU time, and by what it is known."""
        return f"{duration(self.gpu_seconds)}, {self.known_by}"


class BreakdownDrawing(NamedTuple):
    """The drawing: its ``headline``, the ``categories`` that have any time, in the order of the bar, and the ``edges``
    [n_columns + 1] of the columns of time, unix s."""

    headline: str
    categories: tuple[DrawnCategory, ...]
    edges: Floats

    @property
    def named(self) -> list[DrawnCategory]:
        """The categories of the legend."""
        return [each for each in self.categories if each.is_named]


def breakdown_drawing(analysis: Analysis) -> BreakdownDrawing | None:
    """Lay out the drawing of a run, or return None if its GPU time was not accounted for."""
    breakdown = analysis.judgement.breakdown
    if breakdown is None or not breakdown.gpu_seconds > 0:
        return None
    shares, seconds = breakdown.shares, breakdown.by_gpu.sum(axis=0)
    columns, edges = _columns(breakdown)
    ends, tops = np.cumsum(shares), np.cumsum(columns, axis=1)
    drawn = []
    for at, each in enumerate(CATEGORIES):
        if not shares[at] > 0:
            continue
        look, of_time = LOOKS[each.name], columns[:, at]
        is_seen = bool(shares[at] >= _LEAST_IN_THE_BAR) or bool((of_time >= _LEAST_IN_A_COLUMN).any())
        drawn.append(
            DrawnCategory(
                breakdown.label(at), look.colour, _text_colour_on(look.colour), float(shares[at]),
                float(breakdown.error[at]), float(seconds[at]), breakdown.confidence[at],
                float(ends[at] - shares[at]), float(ends[at]),
                tops[:, at] - of_time, tops[:, at], is_seen,
            )
        )  # fmt: skip
    axis = time_axis(analysis)
    return BreakdownDrawing(
        headline(breakdown, analysis.judgement.leading_loss), tuple(drawn), np.clip(edges, axis.begin, axis.end)
    )


def _columns(breakdown: Breakdown) -> tuple[Floats, Floats]:
    """Return the shares [n_columns, n_categories] with neighbouring bins joined into at most BINS columns, NaN in a
    column without GPU time; and the columns' edges [n_columns + 1], unix s."""
    n = len(breakdown.times)
    together = -(-n // BINS)
    first = np.arange(0, n, together)
    seconds = np.add.reduceat(breakdown.over_time, first, axis=0)
    total = seconds.sum(axis=1, keepdims=True)
    shares = np.divide(seconds, total, out=np.full(seconds.shape, np.nan), where=total > 0)
    return shares, np.append(breakdown.times[first], breakdown.times[-1] + breakdown.width)


def _text_colour_on(colour: str) -> str:
    """Return black or white, whichever has more contrast on ``colour`` (as "#rrggbb"). Source: WCAG 2.2, relative
    luminance and contrast ratio."""
    parts = np.array(list(bytes.fromhex(colour.removeprefix("#")))) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ (0.2126, 0.7152, 0.0722))
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"
