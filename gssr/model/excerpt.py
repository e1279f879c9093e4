"""A part of the evidence, cut out of what was gathered: without another look at the recording."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.model.evidence import Course, Evidence
from gssr.model.gpu_time_counts import Float32s
from gssr.model.results import Means

_NEAR = 1e-6
_ENOUGH = 0.5
"""Means come from all GPUs where whole bins cover at least this share of a part, else from the finer course."""


def means_between(evidence: Evidence, start: float, end: float) -> dict[str, float | None]:
    """Each metric's mean over GPUs and time in a part of the window (unix s); None without samples.

    Of the whole window it is that of all samples. Of a part it is the mean over the bins that lie in it, GPU by GPU; where
    a part is so short that these cover less than half of it, that of the course, which stands for some of the GPUs only.
    """
    if start <= evidence.start and end >= evidence.end:
        return {name: evidence.mean(name) for name in evidence.series}
    whole = _inside(evidence.times, evidence.width, start, end, evidence)
    if whole.sum() * evidence.width >= _ENOUGH * (end - start):
        return {name: _mean(values[:, whole]) for name, values in evidence.series.items()}
    course = evidence.course
    n = len(next(iter(course.values.values()), ()))
    times = np.asarray(course.start + course.width * np.arange(n), np.float64)
    inside = _inside(times, course.width, start, end, evidence)
    return {name: _mean(course.values[name][inside]) if name in course.values else None for name in evidence.series}


def excerpt(evidence: Evidence, start: float, end: float) -> Evidence | None:
    """The evidence of a part of the window (unix s): the bins whose middle lies in it; None where there is none.

    Each bin counts as one sample: ``least`` and ``greatest`` are of bins, clock event reasons are unknown, and GPUs have as
    many rows as bins with values.
    """
    middles = evidence.times + evidence.width / 2
    inside = (middles >= start) & (middles < end)
    if not inside.any():
        return None
    first, last = int(np.argmax(inside)), len(inside) - int(np.argmax(inside[::-1]))
    series = {name: values[:, first:last] for name, values in evidence.series.items()}
    times = evidence.times[first:last]
    n_rows = np.zeros(evidence.n_gpus, np.int64)
    for values in series.values():
        np.maximum(n_rows, np.isfinite(values).sum(axis=1), out=n_rows)
    silent = n_rows == 0
    return replace(
        evidence,
        start=start,
        end=end,
        times=times,
        series=series,
        means=_means(series, start, end, evidence.n_gpus),
        least={name: np.fmin.reduce(values, axis=1).astype(np.float64) for name, values in series.items()},
        greatest={name: np.fmax.reduce(values, axis=1).astype(np.float64) for name, values in series.items()},
        n_rows=n_rows,
        first_time=np.where(silent, np.nan, np.maximum(evidence.first_time, start)),
        last_time=np.where(silent, np.nan, np.minimum(evidence.last_time, end)),
        course=_course(evidence.course, start, end),
        host={name: values[first:last] for name, values in evidence.host.items()},
        workload={name: values[first:last] for name, values in evidence.workload.items()},
        events=tuple(event for event in evidence.events if start <= event.time < end),
        closer=excerpt(evidence.closer, start, end) if evidence.closer else None,
        glimpses=excerpt(evidence.glimpses, start, end) if evidence.glimpses else None,
    )


def _inside(times: Floats, width: float, start: float, end: float, evidence: Evidence) -> NDArray[np.bool_]:
    """Which bins lie in a part; those at the window's ends may reach beyond it."""
    low, high = np.maximum(times, evidence.start), np.minimum(times + width, evidence.end)
    return (low >= start - _NEAR) & (high <= end + _NEAR) & (high > low)


def _mean(values: Floats | Float32s) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean(dtype=np.float64)) if known.size else None


def _means(series: Mapping[str, Float32s], start: float, end: float, n_gpus: int) -> Means:
    known = [np.isfinite(values) for values in series.values()]
    n = [each.sum(axis=1, dtype=np.float64) for each in known]
    total = [
        np.where(each, values, 0).sum(axis=1, dtype=np.float64)
        for each, values in zip(known, series.values(), strict=True)
    ]
    shape = len(n), n_gpus
    return Means(tuple(series), start, end, np.reshape(n, shape), np.reshape(total, shape))


def _course(course: Course, start: float, end: float) -> Course:
    n = len(next(iter(course.values.values()), ()))
    first = min(max(round((start - course.start) / course.width), 0), n)
    last = max(min(round((end - course.start) / course.width), n), first)
    values = {name: series[first:last] for name, series in course.values.items()}
    return Course(course.start + first * course.width, course.width, values, course.n_gpus)
