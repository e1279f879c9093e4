"""The metrics of the job as gauges, in whole words: what they are now, and on average."""

import numpy as np

from gssr.arrays import Ints
from gssr.metrics import DETECTION_METRICS
from gssr.model.live.live_result import Result
from gssr.render.cells import clip, fit
from gssr.render.columns import bar
from gssr.render.roles import RAMP, Role, Row, Span
from gssr.render.scale import NONE, metric_of, quantity
from gssr.report.live.metric_scales import full_scale, shown_metrics
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import gpus_looked_at

_LEAST_BAR = 6
_VALUE = 10
_LABEL = 14
"""Cells for a name, where there is a bar beside it."""
_SHORTER = (
    (" pipe active", " pipe"), ("Graphics engine", "Engine"), ("Memory copy utilization", "Memory copy"),
    (" utilization", " util."), (" received", " in"), (" sent", " out"), ("Memory temperature", "Memory temp."),
    (" active", ""), ("SM occupancy", "Occupancy"), ("Temperature", "Temp."), (" communication", " comm."),
)  # fmt: skip
"""Words that can be left out of a metric's name where there is little room."""
_TWO_FROM = 50
"""Cells from which the mean stands beside what is now."""


class Gauges(RowsPanel):
    """Every metric that was measured, the most telling first."""

    def name_border(self, result: Result) -> None:
        """Say whether these are the newest values or means."""
        self.border_title = "now" if result.is_live else "mean of the window"

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw a line for each metric with its newest value of a live run, and beside it the mean of the window if
        there is room; of an ended run only the mean. Only of the GPUs that are selected, if any are."""
        result, gpus = gpus_looked_at(result, self.view)
        means = result.window.overall(gpus)
        now = _newest(result, gpus) if result.is_live else means
        names = shown_metrics(result)
        two = result.is_live and width >= _TWO_FROM
        room = width - _VALUE - (_VALUE + 1) * two - 1
        most = room if room < _LEAST_BAR + _LABEL else max(room // 2, _LABEL)
        labels = [_in_words(name, most) for name in names[:height]]
        size = min(max(map(len, labels), default=0), most)
        size_of_bar = room - size - 1 if room - size > _LEAST_BAR else 0  # a blank parts it from the value
        rows: list[Row] = []
        for name, label in zip(names, labels, strict=False):
            metric, value = metric_of(name), now.get(name)
            weight: Role = "value" if name == result.grid.metric else "plain"
            row: Row = (Span(f"{fit(label, size, self.glyphs.ellipsis):<{size}} ", weight),)
            fraction = None if value is None else min(max(value / full_scale(result, name), 0.0), 1.0)
            is_load = fraction is not None and name in DETECTION_METRICS  # little is bad
            role: Role = RAMP[round((fraction or 0.0) * (len(RAMP) - 1))] if is_load else "neutral"
            row = (*row, *bar(fraction, size_of_bar, self.glyphs, role))
            place = width - size - 1 - size_of_bar - (_VALUE + 1) * two
            row = (*row, Span(f"{quantity(value, metric, NONE):>{place}}", weight))
            if two:
                row = (*row, Span(f" {quantity(means.get(name), metric, NONE):>{_VALUE}}", "dim"))
            rows.append(clip(row, width))
        return rows


def _newest(result: Result, gpus: Ints | None) -> dict[str, float | None]:
    """Average the newest value of each metric over these GPUs (positions; None: all), by metric; None if it is unknown
    for all of them."""
    names = result.whole.names
    values = np.array([result.lately(name) for name in names]).reshape(len(names), -1)
    values = values if gpus is None else values[:, gpus]
    known = np.isfinite(values)
    sums, counts = np.where(known, values, 0.0).sum(axis=1).tolist(), known.sum(axis=1).tolist()
    return {name: sums[at] / counts[at] if counts[at] else None for at, name in enumerate(names)}


def _in_words(name: str, room: int) -> str:
    """Name a metric in at most ``room`` cells: its label, else its label without the words of _SHORTER, else its short
    name, which may be longer."""
    metric = metric_of(name)
    label = metric.label
    for long, short in _SHORTER:
        if len(label) > room:
            label = label.replace(long, short)
    return label if len(label) <= room else metric.short
