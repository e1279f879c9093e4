"""The axes that all drawings of one page share."""

from typing import NamedTuple

from gssr.arrays import Floats
from gssr.metrics import Metric
from gssr.model.results import Analysis
from gssr.model.statistics import balance
from gssr.render import clock
from gssr.render.columns import columns
from gssr.render.scale import nice_above


class TimeAxis(NamedTuple):
    """The window, unix s from ``begin`` to ``end``, labelled by the time since ``origin``."""

    begin: float
    end: float
    origin: float

    def columns(self, values: Floats, start: float, width: float, n: int) -> Floats:
        """A series' ``values`` [..., bins], ``width`` seconds each from ``start``, in ``n`` columns of the axis."""
        return columns(values, start, width, self.begin, self.end, n)

    def text(self, width: int) -> str:
        """The labels on one line."""
        return clock.axis_text(self.begin - self.origin, self.end - self.origin, width)

    def ticks(self, width: int) -> list[clock.Tick]:
        """The labels, at columns (from 0) of an axis that is ``width`` columns long."""
        begin, span = self.begin - self.origin, self.end - self.begin
        return [
            clock.Tick(min((tick.at - begin) / span * width, width - 1.0) if span > 0 else 0.0, tick.label)
            for tick in clock.ticks(begin, begin + span, width)
        ]


def time_axis(analysis: Analysis) -> TimeAxis:
    """The time axis of an analysis: its window, counted from the run's start. A window without length, as that of a single
    sample, is drawn one sampling interval long."""
    window, started = analysis.window, analysis.run.started_at
    end = window.end if window.end > window.start else window.start + (analysis.run.sampling_ms or 1000.0) / 1000.0
    return TimeAxis(window.start, end, window.start if started is None else started)


def full_scale(analysis: Analysis, metric: Metric) -> float:
    """The value that fills the metric's axis, in its stored unit: the catalogue's or the GPUs' own limit; where neither is
    known, a round number above all samples."""
    statistics = analysis.metrics.get(metric.name)
    return balance.full_scale(metric, analysis.gpus) or nice_above(statistics.max if statistics else None, metric)
