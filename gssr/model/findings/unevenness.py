"""How uneven the GPUs of a job were, as pages, pictures and JSON show it: what it cost, on which nodes and at which places,
and which GPUs behave alike."""

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME
from gssr.model.evidence.evidence import Evidence
from gssr.model.findings.imbalance import grouped_by_index, grouped_by_node, imbalance_between, score_of_medians
from gssr.model.findings.similar_gpus import bands
from gssr.model.results import Alike, Unevenness, over_space
from gssr.model.statistics.balance import full_scale, outliers
from gssr.model.statistics.grid import coarser
from gssr.model.window import DETECTION_METRICS

MOST_BANDS = 8
"""Bands of similar GPUs; more could not be kept apart."""
MOST_COLUMNS = 120
"""Of imbalance over time: in narrow columns the busiest GPU is the one with the luckiest noise."""


def unevenness(evidence: Evidence) -> Unevenness | None:
    """How uneven the GPUs are; None where there are no two GPUs with samples to compare."""
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
    found = imbalance_between(
        gpus, means, values, over_space(values), full, (evidence.start, evidence.end), start, width
    )
    return Unevenness(
        metric=metric,
        start=start,
        width=width,
        imbalance=found,
        energy_lost=_energy_lost(evidence, values, found.space.high, step),
        score_as_median=score_of_medians(evidence.means, gpus),
        nodes=evidence.nodes,
        by_node=grouped_by_node(found, evidence),
        by_index=grouped_by_index(found, evidence),
        alike=_alike(fine, means, full),
    )


def _energy_lost(evidence: Evidence, values: Floats, high: Floats, step: int) -> float | None:
    if "power_usage" not in evidence.series:
        return None
    power = coarser(evidence.series["power_usage"].astype(np.float64), step)
    begins = evidence.times[::step]
    seconds = np.minimum(begins + step * evidence.width, evidence.end) - np.maximum(begins, evidence.start)
    share = np.where(high > 0, 1.0 - values / np.where(high > 0, high, 1.0), 0.0)
    lost = power * share * np.maximum(seconds, 0.0)
    return float(np.nansum(lost)) if np.isfinite(lost).any() else None


def _alike(values: Floats, means: Floats, full: float) -> tuple[Alike, ...]:
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
