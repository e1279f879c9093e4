"""What imbalance costs, and of what kind it is: of some GPUs, over their time means and column by column of time.

How uneven the GPUs of a job were, as pages, pictures and JSON show it: what it cost, on which nodes and at which places,
and which GPUs behave alike.
"""

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.metrics import BY_NAME, DETECTION_METRICS, SCORE_INPUTS
from gssr.model.account.activity import IDLE_ACTIVITY
from gssr.model.evidence.evidence import Evidence
from gssr.model.findings.similar_gpus import bands
from gssr.model.results import Alike, Grid, Groups, Imbalance, Means, Series, Unevenness, over_space
from gssr.model.statistics.balance import full_scale, imbalance, outliers
from gssr.model.statistics.grid import coarser
from gssr.score import score_of_means
from gssr.store.format.rows import Gpu

WORST_SECONDS = 60.0
BEHIND = 0.8
"""A GPU is behind in a column of time where it is below this share of the median GPU (a threshold of our own)."""


def imbalance_between(
    gpus: Ints, means: Floats, values: Floats, space: Series, full: float, window: tuple[float, float]
) -> Imbalance:
    """Work out what the imbalance between some GPUs costs, over the whole window and column by column of time.

    Args:
        gpus: positions [n] of the GPUs.
        means: each one's mean over the window [n].
        values: each one's values in columns of time [n, n_columns], NaN without samples.
        space: these values over the GPUs, column by column.
        full: the metric's full scale.
        window: begin and end of the window, unix s.
    """
    n = space.n_gpus.astype(np.float64)
    busiest = np.where(space.high > 0, space.high, np.nan)
    over_time = np.maximum(1.0 - space.mean / busiest, 0.0)
    could = np.nan_to_num(n * busiest)
    left = np.nan_to_num(n * busiest * over_time)
    worst, worst_column = _worst(left, could, max(round(WORST_SECONDS / space.width), 1))
    any_behind, behind_most, n_behind = _how_often_behind(values, space.p50, full)
    low, high = _means_outside(means, full)
    return Imbalance(
        gpus=gpus,
        means=means,
        space=space,
        over_time=over_time,
        spread=space.p95 - space.p05,
        of_means=imbalance(means),
        resolved=float(left.sum() / could.sum()) if could.sum() > 0 else None,
        gpu_hours=len(gpus) * max(window[1] - window[0], 0.0) / 3600,
        worst=worst,
        worst_start=max(space.start + worst_column * space.width, window[0]),
        low=low,
        high=high,
        behind_any=any_behind,
        behind_most=behind_most,
        n_behind=n_behind,
    )


def _means_outside(means: Floats, full: float) -> tuple[Ints, Ints]:
    """Return the places in ``means`` [n] of those that are not like the others: those below the median and those above
    it, the farthest first; both empty if there are none."""
    apart = np.flatnonzero(outliers(means, full))
    if not len(apart):
        return apart, apart
    above = means[apart] - float(np.nanmedian(means))
    order = np.argsort(-np.abs(above), kind="stable")
    apart, above = apart[order], above[order]
    return apart[above < 0], apart[above > 0]


def _worst(left: Floats, could: Floats, columns: int) -> tuple[float | None, int]:
    """Return the imbalance of the ``columns`` neighbouring columns in which most was lost, and the index of the first
    of them; (None, 0) if nothing was lost.

    ``left`` and ``could`` [n_columns]: the use that was missed, and what there would have been had all GPUs done what
    the busiest did.
    """
    columns = min(columns, len(left))
    lost = np.convolve(left, np.ones(columns), "valid")
    whole = np.convolve(could, np.ones(columns), "valid")
    if not len(lost) or not lost.max() > 0:
        return None, 0
    at = int(np.argmax(lost))
    return float(lost[at] / whole[at]), at


def behind(values: Floats, median: Floats, full: float, share: float = BEHIND) -> tuple[Flags, Flags]:
    """Tell which GPUs are behind, [n_gpus, n_columns], and which columns count as working, [n_columns].

    A GPU is behind if its value is below ``share`` of the ``median`` [n_columns] in a working column: one in which the
    median is above IDLE_ACTIVITY of ``full``. In other columns, and without samples (NaN), nobody is behind.
    """
    working = median > IDLE_ACTIVITY * full
    late: Flags = values < np.where(working, share * median, -np.inf)  # NaN is never behind
    return late, working


def _how_often_behind(values: Floats, median: Floats, full: float) -> tuple[float, float, int]:
    """Return the share of working columns in which any GPU is behind, the share in which the GPU is that is behind
    most often, and how many GPUs ever are behind. ``values`` [n_gpus, n_columns] and their ``median`` [n_columns] are
    as in ``behind``. All 0 if no column is working."""
    late, working = behind(values, median, full)
    n_working = int(working.sum())
    if not n_working or not len(values):
        return 0.0, 0.0, 0
    each = late.sum(axis=1)
    return float(late.any(axis=0).sum() / n_working), float(each.max() / n_working), int((each > 0).sum())


def score_of_medians(means: Means, gpus: Ints) -> float | None:
    """Return the score of the medians of these GPUs' means, input by input, or None if it can't be known. ``gpus``:
    positions."""
    medians: dict[str, float | None] = {}
    for name in SCORE_INPUTS:
        own = means.per_gpu(name, gpus)
        known = own[np.isfinite(own)]
        medians[name] = float(np.median(known)) if len(known) else None
    return score_of_means(medians)


def device_indices(gpus: tuple[Gpu, ...]) -> Ints:
    """Return the driver's index of each GPU in its node [n_gpus], -1 if it is unknown."""
    return np.array([-1 if gpu.device_index is None else gpu.device_index for gpu in gpus], np.int64)


def grouped_by_node(found: Imbalance, node_of: Ints) -> Groups:
    """Group the GPUs by their node, whose number is ``node_of`` [n_gpus]. ``keys`` are these numbers, and ``below`` is
    against the mean of all these GPUs."""
    return _group_gpus(node_of[found.gpus], np.zeros(len(found.gpus), np.int64), found.means)


def grouped_by_index(found: Imbalance, gpus: tuple[Gpu, ...], node_of: Ints) -> Groups:
    """Group the GPUs by the driver's index within their node, whose number is ``node_of`` [n_gpus]. ``keys`` are these
    indices (-1: unknown), and ``below`` is against the mean of the GPU's node."""
    return _group_gpus(device_indices(gpus)[found.gpus], node_of[found.gpus], found.means)


def _group_gpus(key: Ints, within: Ints, means: Floats) -> Groups:
    """Group the GPUs' ``means`` [n] by ``key`` [n] (from -1 on). ``below`` of the result is against the mean of all GPUs
    with the same ``within`` [n]. GPUs whose mean is NaN are left out, and so are groups that have no others."""
    known = np.isfinite(means)
    key, within, means = key[known] + 1, within[known], means[known]
    around = np.bincount(within, means) / np.maximum(np.bincount(within), 1)
    below = around[within] - means
    n = np.bincount(key)
    there = np.flatnonzero(n)
    sums = (np.bincount(key, values)[there] / n[there] for values in (means, below, below > 0))
    return Groups(there - 1, *sums)


MOST_BANDS = 8
"""Bands of similar GPUs; more could not be kept apart."""
MOST_COLUMNS = 120
"""Of imbalance over time: in narrow columns the busiest GPU is the one with the luckiest noise."""


def unevenness(evidence: Evidence) -> Unevenness | None:
    """Describe how uneven the GPUs are in the first metric of DETECTION_METRICS that was measured, or return None if
    fewer than two GPUs have samples of it."""
    metric = next((name for name in DETECTION_METRICS if evidence.has(name)), None)
    if metric is None:
        return None
    means = evidence.means.per_gpu(metric)
    if np.isfinite(means).sum() < 2:
        return None
    fine = evidence.series[metric].astype(np.float64)
    step = max(-(-len(evidence.times) // MOST_COLUMNS), 1)
    values, width = coarser(fine, step), step * evidence.width
    full = full_scale(BY_NAME[metric], evidence.gpus) or float(np.nanmax(means))
    gpus = np.arange(evidence.n_gpus)
    start = float(evidence.times[0])
    space = over_space(Grid(metric, start, width, values))
    found = imbalance_between(gpus, means, values, space, full, (evidence.start, evidence.end))
    return Unevenness(
        metric=metric,
        start=start,
        width=width,
        imbalance=found,
        energy_lost=_energy_lost(evidence, values, found.space.high, step),
        score_as_median=score_of_medians(evidence.means, gpus),
        nodes=evidence.nodes,
        by_node=grouped_by_node(found, evidence.node_of),
        by_index=grouped_by_index(found, evidence.gpus, evidence.node_of),
        alike=_alike(fine, means, full),
    )


def _energy_lost(evidence: Evidence, values: Floats, high: Floats, step: int) -> float | None:
    """Return the energy (J) that GPUs took in the share of time in which they did less than the busiest (``high``
    [n_columns]), or None if power was not measured. ``values`` [n_gpus, n_columns]: columns of ``step`` bins of the
    evidence."""
    if "power_usage" not in evidence.series:
        return None
    power = coarser(evidence.series["power_usage"].astype(np.float64), step)
    begins = evidence.times[::step]
    seconds = np.minimum(begins + step * evidence.width, evidence.end) - np.maximum(begins, evidence.start)
    share = np.where(high > 0, 1.0 - values / np.where(high > 0, high, 1.0), 0.0)
    lost = power * share * np.maximum(seconds, 0.0)
    return float(np.nansum(lost)) if np.isfinite(lost).any() else None


def _alike(values: Floats, means: Floats, full: float) -> tuple[Alike, ...]:
    """Group GPUs that behave alike over time, by ``values`` [n_gpus, n_bins]; those without a mean in ``means``
    [n_gpus] are left out. Needs at least one GPU with values."""
    known = np.flatnonzero(np.isfinite(means))
    filled = np.flatnonzero(np.isfinite(values).any(axis=0))
    own = values[known, filled[0] : filled[-1] + 1]
    apart = outliers(means, full)[known]
    found = bands(own, full, apart, MOST_BANDS)

    def band(number: int) -> Alike:
        members: Ints = known[found.members(number)]
        mean = float(means[members].mean())
        return Alike(found.names[number], tuple(members.tolist()), mean, bool(apart[found.owner == number].any()))

    return tuple(band(number) for number in range(len(found.names)))
