"""What the charts of a report say, in words: for who can't see them."""

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import Metric
from gssr.model.results import Analysis, GpuSummary, Series
from gssr.model.statistics.balance import histogram
from gssr.peaks import Peaks
from gssr.render.clock import duration, moment
from gssr.render.roofline import engineering
from gssr.render.scale import count, fixed, metric_of, percent, quantity, unit_of
from gssr.report.breakdown_drawing import BreakdownDrawing
from gssr.report.load_balancing import outliers_of
from gssr.report.page import time_axis
from gssr.report.phases import bound_text, intensity_text, letters, roofline_points


def breakdown_shares(drawing: BreakdownDrawing) -> str:
    """Where the GPU time went."""
    return f"Shares of the GPU time: {', '.join(each.text for each in drawing.named)}"


def breakdown_over_time(drawing: BreakdownDrawing) -> str:
    """Say between which shares each named category's part of the GPU time moved."""
    told = []
    for each in drawing.named:
        shares = each.top - each.bottom
        told.append(f"{each.label} from {percent(float(np.nanmin(shares)))} to {percent(float(np.nanmax(shares)))}")
    return f"Shares of the GPU time over time: {', '.join(told)}"


def course(analysis: Analysis, series: Series, whose: str) -> str:
    """Say where along time a metric's mean is lowest and highest, and between what the GPUs lie; that there are no
    samples if so. ``whose``: what the mean is over, as ``8 GPUs``."""
    metric, axis = metric_of(series.metric), time_axis(analysis)

    def at(position: int) -> str:
        time = series.start + (position + 0.5) * series.width
        return moment(min(max(time, axis.begin), axis.end) - axis.origin, axis.end - axis.origin)

    if not np.isfinite(series.mean).any():
        return f"{metric.label} over time: no samples"
    low, high = int(np.nanargmin(series.mean)), int(np.nanargmax(series.mean))
    text = (
        f"{metric.label} over time, mean over {whose}: lowest {quantity(float(series.mean[low]), metric)} at {at(low)}, "
        f"highest {quantity(float(series.mean[high]), metric)} at {at(high)}"
    )
    least, most = float(np.nanmin(series.low)), float(np.nanmax(series.high))
    if int(series.n_gpus.max()) > 1:
        text += f"; each of them between {quantity(least, metric)} and {quantity(most, metric)}"
    empty = 1 - float(np.isfinite(series.mean).mean())
    return text + (f"; no samples in {percent(empty)} of the time" if empty > 0 else "")


def phases(analysis: Analysis) -> str:
    """Name the phases in the order of time, with letter, kind and length."""
    told = [
        f"{letter} {phase.kind} for {duration(phase.seconds)}"
        for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True)
    ]
    return f"Phases in order: {', '.join(told)}"


def in_order(analysis: Analysis, metric: Metric, order: list[int], means: Floats) -> str:
    """Say lowest, median and highest of ``means`` [n], which belong to the GPUs at the positions ``order``, the lowest
    first; and how many GPUs are unlike the rest. Needs at least one."""

    def told(gpu: GpuSummary, mean: float) -> str:
        return f"{gpu.place} {quantity(mean, metric)}"

    ends = (told(analysis.gpus[order[at]], float(means[at])) for at in (0, -1))
    apart = len(outliers_of(analysis, metric))
    return (
        f"Mean {metric.label} of {count(len(order), 'GPU')}: lowest {next(ends)}, median "
        f"{quantity(float(np.median(means)), metric)}, highest {next(ends)}"
        + (f"; {count(apart, 'GPU')} unlike the rest" if apart else "")
    )


def histogram_of_means(analysis: Analysis, metric: Metric) -> str:
    """Say how many GPUs have a mean in which bin, without empty bins."""
    found, unit = histogram(metric, analysis.gpus), unit_of(metric)
    edges = [fixed(edge * unit.factor, 0 if unit.name == "%" else unit.decimals) for edge in found.edges.tolist()]
    told = [
        f"{count(n, 'GPU')} from {first} to {last} {unit.name}"
        for n, first, last in zip(found.counts.tolist(), edges[:-1], edges[1:], strict=True)
        if n
    ]
    return f"Means of {metric.label}: {', '.join(told)}"


def map_of_gpus(analysis: Analysis, metric: Metric) -> str:
    """Say between what the values of all GPUs lie along time, and how much of it has no samples."""
    values = analysis.gpu_series[metric.name].values
    known = np.isfinite(values)
    if not known.any():
        return f"{metric.label} of each GPU over time: no samples"
    ends = quantity(float(np.nanmin(values)), metric), quantity(float(np.nanmax(values)), metric)
    empty = 1 - float(known.mean())
    return (
        f"{metric.label} of each of {count(len(values), 'GPU')} over time, a row each: from {ends[0]} to {ends[1]}"
        + (f"; no samples in {percent(empty)} of it" if empty > 0 else "")
    )


def roofline(analysis: Analysis, peaks: Peaks) -> str:
    """Say where the run and its phases lie under the roofline, and what bounds each."""
    told = [
        f"{name}: {intensity_text(place)}, {engineering(place.flops)}FLOP/s, {bound_text(place).partition(':')[0]}"
        for _, name, place in roofline_points(analysis)
    ]
    return f"Roofline of {peaks.model}, FLOP/s by FLOP/B, both logarithmic: {'; '.join(told)}"
