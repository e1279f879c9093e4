"""How evenly GPUs ran, from their time means.

Which values are not like the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats
from gssr.metrics import BY_NAME, Metric, metric_named
from gssr.model.frame_cache import once
from gssr.model.results import Balance, GpuSummary
from gssr.store.format.rows import Gpu

HISTOGRAM_BINS = 10


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many GPUs have their time mean of a metric in each of k bins: ``edges`` [k + 1] in the metric's unit, ``counts``
    [k], ``members`` the positions of the GPUs in each bin. A mean beyond the scale counts in the bin at its end."""

    metric: str
    edges: Floats
    counts: NDArray[np.int64]
    members: tuple[tuple[int, ...], ...]


def has_balance(metric: Metric) -> bool:
    """Tell whether it says something to compare GPUs by their means of the metric: not of counters and bit fields."""
    return metric.kind in ("gauge", "rate")


def balance(metric: str, gpus: Sequence[GpuSummary]) -> Balance:
    """Find the imbalance of one metric over GPUs, and the GPUs with the lowest and the highest mean; of equal ones the
    first. Those without samples of it don't count; all fields are None where no GPU has samples."""
    known = [(mean, gpu) for gpu in gpus if (mean := gpu.mean.get(metric)) is not None]
    if not known:
        return Balance(None, None, None)
    means = np.array([mean for mean, _ in known])
    lowest, highest = int(np.argmin(means)), int(np.argmax(means))
    return Balance(imbalance(means), known[lowest][1], known[highest][1])


def imbalance(means: Floats) -> float | None:
    """Compute 1 - mean/max of the GPUs' means [n] (NaN: none; negative ones count as 0), 0 when all are equal; None when
    there is none or the max is not above 0."""
    means = means[np.isfinite(means)]
    if not len(means) or not means.max() > 0:
        return None
    if means.min() == means.max():
        return 0.0  # the mean of equal numbers may be off in its last digit
    return float(1.0 - (np.maximum(means, 0.0) / means.max()).mean())  # divided first: sums of huge means overflow


def full_scale(metric: Metric, gpus: Sequence[GpuSummary | Gpu]) -> float | None:
    """Find the value, in the metric's unit, that fills an axis for these GPUs; None where neither the metric nor a GPU
    says it."""
    if not isinstance(metric.full_scale, str):
        return metric.full_scale or None
    limits = [limit for gpu in gpus if (limit := getattr(gpu, metric.full_scale)) is not None]
    return max(limits, default=None)


def scale_limit(gpus: tuple[Gpu, ...], name: str) -> float | None:
    """Find the value that fills the axis of the metric of this name for the GPUs of a run; None where no GPU says it,
    and of an unknown metric."""
    metric = metric_named(name)
    if metric is None:
        return None
    return _greatest(gpus, name) if isinstance(metric.full_scale, str) else metric.full_scale or None


@once
def _greatest(gpus: tuple[Gpu, ...], name: str) -> float | None:
    """Return the ``full_scale`` of the metric of this name, worked out once for the same GPUs."""
    return full_scale(BY_NAME[name], gpus)


def histogram(metric: Metric, gpus: Sequence[GpuSummary]) -> Histogram:
    """Count the GPUs by their means of a metric, in bins of a tenth of its full scale; where nobody knows that, of the
    highest mean. GPUs without samples are in no bin."""
    means = [gpu.mean.get(metric.name) for gpu in gpus]
    return histogram_of(metric.name, np.array(means, np.float64), full_scale(metric, gpus), HISTOGRAM_BINS)


def histogram_of(name: str, means: Floats, scale: float | None, n_bins: int) -> Histogram:
    """Count GPUs by their means [n] (NaN: in no bin) in ``n_bins`` equal bins from 0 to ``scale``; to the highest mean
    where that is None."""
    members = np.flatnonzero(np.isfinite(means))
    full = scale or float(means[members].max(initial=0.0)) or 1.0
    edges = full * np.arange(n_bins + 1) / n_bins
    bins = np.clip(np.searchsorted(edges, means[members], side="right") - 1, 0, n_bins - 1)
    inside = tuple(tuple(members[bins == k].tolist()) for k in range(n_bins))
    return Histogram(name, edges, np.bincount(bins, minlength=n_bins), inside)


Z = 3.5
"""The modified z-score above which a value is an outlier. Source: Iglewicz and Hoaglin, How to Detect and Handle Outliers
(1993), as in the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17."""
_NORMAL = 0.6745
"""The median absolute deviation of a normal distribution of standard deviation 1."""
LEAST_SHARE = 0.05
"""Nothing that is nearer to the median than this share of the full scale is an outlier, however alike the others are (a
threshold of our own)."""
FEWEST = 3
"""Of fewer values none can be told from the rest."""


def outliers(values: Floats, full: float) -> Flags:
    """Flag the values [n] that are unlike the rest: 0.6745 × |value - median| / MAD exceeds 3.5, where MAD is the
    median of |value - median|, and the value is at least a twentieth of ``full`` (the axis' full scale, in the values'
    unit) from the median.

    NaN is never one; of fewer than FEWEST known values none is.
    """
    known = np.isfinite(values)
    if known.sum() < FEWEST:
        return np.zeros(len(values), bool)
    distance = np.abs(values - np.median(values[known]))
    spread = float(np.median(distance[known]))
    found: Flags = known & (distance >= max(LEAST_SHARE * full, 1e-12)) & (_NORMAL * distance > Z * spread)
    return found
