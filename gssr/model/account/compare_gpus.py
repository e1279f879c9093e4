"""Comparing GPUs at the same time: by how much each waits longer than the others.

GPUs of a node that are read in one moment can be compared bin by bin. Nodes are read at moments of their own, and so are
the GPUs of one if values are scraped or counters take turns: samples of the same steps show other parts of them, so single
samples differ by chance.
"""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.account.activity import CLEARLY
from gssr.model.evidence.evidence import Evidence

COUNTER_NOISE = 0.004
"""Counters of the same work differ by about this share of a bin from one sample to the next."""
NOISE = 0.03
"""A smaller share of a bin is within the noise of the counters."""
CERTAIN = 4.0
"""A difference of this many standard deviations is more than chance: the largest of hundreds of values reaches three."""
SCRAPED, COUNTERS_TAKE_TURNS = "prometheus", ("7.", "8.")
"""The backend of values that an exporter collected, and compute capabilities of GPUs whose counters are multiplexed."""
TOGETHER = 0.5
"""GPUs take turns if the sum of their waits varies by less than this share of what it would by chance. A difference between
GPUs lasts if its values in neighbouring bins are correlated by more than this."""
FINE_SECONDS = 1.0
"""GPUs are compared over bins of at least this many seconds: in shorter bins GPUs with the same work are idle at different
moments."""
LONG_SAMPLES = 5.0
"""Samples further apart than this (s) hold many steps of most programs: causes are then told from how the samples vary."""


def longer_than_others(waits: Floats, inside: Flags, evidence: Evidence) -> Floats:
    """Find by how much each GPU waits longer than those that wait least at the same time.

    ``waits`` are shares of bins [n_gpus, n_bins], ``inside`` the cells that count. Returns shares of bins, at most
    ``waits``.
    """
    fine = max(1, int(np.ceil(FINE_SECONDS / evidence.width)))
    known = mean_of_groups(np.where(inside, waits, np.nan), fine)
    n_nodes, together = len(evidence.nodes), are_read_together(evidence)
    longer, least = np.zeros_like(waits), np.full((n_nodes, waits.shape[1]), np.nan)
    for node in range(n_nodes):
        of = evidence.node_of == node
        if of.sum() > 1:
            longer[of] = _above_least(known[of]) if together else _beyond_chance(known[of], fine, evidence)
        least[node] = _least(known[of])
    if n_nodes > 1:
        longer += _beyond_chance(least, fine, evidence)[evidence.node_of]
    longer = np.where(inside, np.minimum(longer, waits), 0.0)
    return np.where(longer > NOISE, longer, 0.0)


def while_others_work(waits: Floats, inside: Flags) -> Floats | None:
    """Find how long each GPU waits while another one works, if they work one after another, in turns that may be shorter
    than a bin. Arguments and result are as in ``longer_than_others``; None where more than half of them work at a time,
    or there is too little to tell.

    What one of them works more another works less: their sum varies by less than that of GPUs that don't know of each
    other."""
    works = np.where(inside, 1 - waits, np.nan)
    known = works[inside.any(axis=1)]
    known = known[:, np.isfinite(known).all(axis=0)]
    together = known.sum(axis=0)
    if len(known) < 2 or len(together) < 8 or float(np.quantile(together, 0.95)) > (1 + CLEARLY) * len(known) / 2:
        return None
    alone = float(known.var(axis=1).sum())
    if not (alone > len(known) * COUNTER_NOISE**2 and float(together.var()) < TOGETHER * alone):
        return None
    of_others = np.nansum(works, axis=0) - np.nan_to_num(works)
    return np.where(inside, np.minimum(of_others, waits), 0.0)


def are_read_together(evidence: Evidence) -> bool:
    """Tell whether the counters of a node's GPUs are means of the same time. An exporter has collected a value up to an
    interval before it is scraped; before Hopper counters take turns, and each is of a part of its interval."""
    return all(
        gpu.backend != SCRAPED and not (gpu.compute_capability or "").startswith(COUNTERS_TAKE_TURNS)
        for gpu in evidence.gpus
    )


def _beyond_chance(waits: Floats, fine: int, evidence: Evidence) -> Floats:
    """Find by how much GPUs, or the least waiting ones of each node, wait longer than the others if each is read at
    moments of its own. ``waits`` are shares of bins [n, n_bins], alike in each group of ``fine`` bins; NaN is unknown.

    Every group is compared with the one that waits least in it if the differences last from one to the next or some wait
    while others don't. Otherwise the means over all bins are compared, and CERTAIN standard deviations of such a mean are
    subtracted, as the rest may be chance: a row that waits longer does so in the same share of all that it waits.

    Returns shares of bins [n, n_bins], never below 0, with 0 where nothing is known.
    """
    groups = waits[:, ::fine]
    if (evidence.interval <= LONG_SAMPLES and _lasts(_above_least(groups))) or _alternate(groups):
        return _above_least(waits)
    mean = mean_of_groups(waits, waits.shape[1])
    longer = _above_least(mean) - CERTAIN * _chance(groups) / np.sqrt(groups.shape[1])
    part = np.where(longer > NOISE, longer / np.maximum(mean, 1e-9), 0.0)
    return np.asarray(part * np.nan_to_num(waits), np.float64)


def _alternate(values: Floats) -> bool:
    """Tell whether some of the rows [n, n_bins] are high whenever others are low: then their mean varies less than that
    of independent ones, whose variance is the n-th part of a row's. False where there is too little to tell."""
    known = values[:, np.isfinite(values).all(axis=0)]
    if len(known) < 2 or known.shape[1] < 8:
        return False
    alone = float(known.var(axis=1).mean()) / len(known)
    return alone > NOISE**2 and float(known.mean(axis=0).var()) < TOGETHER * alone


def _lasts(values: Floats) -> bool:
    """Tell whether values [n, n_bins] are like those of the bin before. False of fewer than eight bins."""
    if values.shape[1] < 8:
        return False
    apart = values - values.mean(axis=1, keepdims=True)  # a difference that is always there tells nothing of the others
    spread = float((apart**2).sum())
    return spread > 0 and float((apart[:, 1:] * apart[:, :-1]).sum()) > TOGETHER * spread


def _least(values: Floats) -> Floats:
    """Find what the least waiting GPU waits in each bin [n_bins]; NaN where none is known."""
    least = np.where(np.isfinite(values), values, np.inf).min(axis=0)
    return np.where(np.isfinite(least), least, np.nan)


def _above_least(values: Floats) -> Floats:
    """Find by how much values [n, n_bins] are above the least of their bin; 0 where that is not known."""
    return np.nan_to_num(np.maximum(values - _least(values), 0.0))


def _chance(values: Floats) -> float:
    """Estimate by how much values [n, n_bins] differ from one bin to the next by chance, as a standard deviation; 0
    without neighbours."""
    steps = np.diff(values, axis=1)
    steps = steps[np.isfinite(steps)]
    return float(np.sqrt(np.mean(steps**2) / 2)) if len(steps) else 0.0


def mean_of_groups(values: Floats, n: int) -> Floats:
    """Give each bin of [rows, n_bins] the mean of its group of ``n`` bins; NaN where none of them is known."""
    if n <= 1:
        return values
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % n)), constant_values=np.nan)
    groups = padded.reshape(len(values), padded.shape[1] // n, n)
    known = np.isfinite(groups)
    count = known.sum(axis=2)
    total = np.where(known, groups, 0.0).sum(axis=2)
    mean = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return np.asarray(np.repeat(mean, n, axis=1)[:, : values.shape[1]], np.float64)
