"""Telling kernels that compute nothing where SM activity was not measured, as by dcgm-exporter's default fields.

A collective that waits keeps neither tensor cores nor memory busy, and draws little power. If a job's matrix products keep
the tensor cores busy for T of their time and the memory for D, and its other kernels the memory for M, then activities t and
d of tensor cores and memory leave 1 - t/T - (d - D t/T)/M of the kernels' time to those that do neither. The job's busiest
bins show T, D and M. That such kernels wait, and no other pipe is busy with them, power shows; or links show that they
transfer.

Where every sample mixes whole steps the pipes never change. Power may be that of a moment even so: then it is at either of
two levels, that of work and that of waiting, and how often it is at the lower one is the share of the time.
"""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.account.activity import AT_WORK, CLEARLY, Activity
from gssr.model.account.compare_gpus import CERTAIN, NOISE
from gssr.model.account.link_traffic import gpu_link_bytes, least_link_rate
from gssr.model.evidence.evidence import Evidence

WAITING_POWER = 0.65
"""While its kernels only wait, a GPU draws less than this share of its power at work: in simulations 0.25 to 0.55, and 0.75
for kernels that memory limits."""
MOST_AT_LEVELS = 0.5
"""Power is said to be at two levels if at least this share of its values is near one of them. Of evenly spread values a
fifth would be, of normally distributed ones a sixth."""
SAME_CLOCK = 0.9
"""A clock below this share of the usual one slows a GPU down by more than boost clocks differ, and lowers its power."""
SAMPLES_OF_POWER = 8
"""A sample of power may be from one moment, in any part of a step. This many samples are needed to tell the power at work
from the power while kernels wait."""


def find_quiet_kernels(evidence: Evidence, activity: Activity, cells: Flags) -> Floats:
    """Find how long kernels ran that compute nothing: shares of bins [n_gpus, n_bins], at most ``activity.active``. All 0
    where no pipe was measured, or power does not fall with them. ``cells`` [n_gpus, n_bins]: those that tell ratios."""
    tensor = _of_level_at_work(evidence, activity, "tensor_active", cells)
    memory = _of_level_at_work(evidence, activity, "dram_active", cells) / _relative_clock(evidence)
    products = np.minimum(np.nan_to_num(tensor), 1.0)
    others = np.maximum(np.nan_to_num(memory) - products * _memory_of_products(evidence, tensor, memory), 0.0)
    quiet = np.where(np.isfinite(tensor) | np.isfinite(memory), np.clip(1 - products - others, 0.0, 1.0), 0.0)
    quiet[quiet < NOISE] = 0.0
    power = _of_level_at_work(evidence, activity, "power_usage", cells)
    is_waiting = _draws_little_power(power, quiet, cells) or _are_carried_by_links(evidence, quiet, cells)
    by_pipes = activity.active * (quiet if is_waiting else 0.0)
    # Where even the busiest bins are mixtures the pipes' levels are too low, and what they leave is too little.
    by_power = activity.active * _at_lower_level(evidence, activity, "power_usage")
    return by_pipes if float(by_pipes.sum()) >= float(by_power.sum()) else by_power


def _at_lower_level(evidence: Evidence, activity: Activity, name: str) -> Floats:
    """Estimate for which share (0-1) of the kernels' time a metric is at the lower one of two levels: [n_gpus, 1], the same
    in all bins; 0 where there is one level, or it is not that of a moment. GPUs that differ by chance have the same share.

    Moments in which it changes lie between the levels, as many on either side of the middle. All moments count, however
    active: activity may be that of a part of the interval."""
    found = np.zeros((evidence.n_gpus, 1))
    values = evidence.series.get(name)
    if values is None or evidence.width > 2 * evidence.interval:  # bins of many moments are at neither level
        return found
    clocks = evidence.series.get("sm_clock", np.ones_like(values))
    inside = activity.is_measured & activity.is_used[:, None] & ~(activity.is_startup | activity.is_end)
    active = activity.active
    if evidence.width > evidence.interval:  # of two moments the mean and the higher one are known
        upper = evidence.upper_levels[name]
        values, clocks = np.hstack((upper, 2 * values - upper)), np.hstack((clocks, clocks))
        inside, active = np.hstack((inside, inside)), np.hstack((active, active))
    for own in _by_model(evidence):
        known = inside & np.isfinite(values) & np.isfinite(clocks) & own[:, None]
        levels = _two_levels(np.sort(values[known]))
        if levels is None:
            continue
        # A GPU that is never at the upper level doesn't change between them: it draws less for a reason of its own.
        changes = (known & (values >= sum(levels) / 2)).sum(axis=1) > NOISE * known.sum(axis=1)
        known &= changes[:, None]
        levels = _two_levels(np.sort(values[known]))
        if levels is None:
            continue
        is_low = known & (values < sum(levels) / 2)
        if float(clocks[is_low].mean()) < SAME_CLOCK * float(clocks[known & ~is_low].mean()):
            continue
        n, mean = np.maximum(known.sum(axis=1), 1), float(is_low[known].mean())
        # GPUs of a node are read in one moment, and in step: together they tell no more than one.
        n_moments = int(known.any(axis=0).sum()) * len(np.unique(evidence.node_of[own]))
        of_one, of_all = (CERTAIN * np.sqrt(mean * (1 - mean) / each) for each in (n, n_moments))
        share = is_low.sum(axis=1) / n
        differs = np.abs(share - mean) > of_one
        share = np.where(differs, share, mean)
        share_active = np.where(known, active, 0.0).sum(axis=1) / n  # idle moments are at the lower level, too
        quiet = np.clip((share + share_active - 1) / np.maximum(share_active, 1e-9), 0.0, 1.0)
        is_certain = known.any(axis=1) & (quiet > np.where(differs, of_one, of_all))
        found[own, 0] = np.where(is_certain, quiet, 0.0)[own]
    return found


def _two_levels(values: Floats) -> tuple[float, float] | None:
    """Return the two levels that ``values``, rising, are at; None where they are not at two, or the lower one is none of
    waiting."""
    if len(values) < SAMPLES_OF_POWER:
        return None
    n_low = np.arange(1, len(values))
    sums = np.cumsum(values, dtype=np.float64)
    low, high = sums[:-1] / n_low, (sums[-1] - sums[:-1]) / (len(values) - n_low)
    at = int(np.argmax(n_low * (len(values) - n_low) * (high - low) ** 2)) + 1  # what parts the values best
    levels = float(np.median(values[:at])), float(np.median(values[at:]))
    is_near = np.min(np.abs(values[:, None] - levels), axis=1) <= CLEARLY * (levels[1] - levels[0])
    return levels if float(is_near.mean()) >= MOST_AT_LEVELS and levels[0] < WAITING_POWER * levels[1] else None


def rate_at_work(evidence: Evidence, name: str, rate: Floats) -> Floats:
    """Estimate how high a metric is while the program computes: [n_gpus, n_bins]; NaN where ``rate`` is.

    ``rate`` [n_gpus, n_bins] is the metric per share of the bin in which kernels run. A bin of several samples mixes work
    with waiting: its higher samples are nearer to the level at work."""
    if name not in evidence.upper_levels:
        return rate
    return np.where(np.isfinite(rate), np.fmax(rate, evidence.upper_levels[name]), np.nan)


def _of_level_at_work(evidence: Evidence, activity: Activity, name: str, cells: Flags) -> Floats:
    """Divide a metric of the evidence, while kernels run, by its level at work: that of the GPU of the same model whose
    level is highest. ``cells`` [n_gpus, n_bins]: those that tell ratios. Returns [n_gpus, n_bins]; NaN outside of
    ``cells``, where the metric is unknown, and for models whose level is 0."""
    found = np.full(cells.shape, np.nan)
    if name not in evidence.series:
        return found
    rate = np.where(cells, evidence.series[name] / np.maximum(activity.active, 1e-9), np.nan)
    at_work = rate_at_work(evidence, name, rate)
    for own in _by_model(evidence):
        levels = [
            float(np.percentile(row[np.isfinite(row)], AT_WORK)) for row in at_work[own] if np.isfinite(row).any()
        ]
        if levels and (level := max(levels)) > 0:
            found[own] = rate[own] / level
    return found


def _relative_clock(evidence: Evidence) -> Floats:
    """Divide the SM clock by the model's highest one [n_gpus, n_bins], since kernels move as much less at a lower clock; 1
    where a clock is not known."""
    if "sm_clock" not in evidence.series:
        return np.ones((evidence.n_gpus, len(evidence.times)))
    highest = np.array([gpu.max_sm_clock or np.nan for gpu in evidence.gpus], np.float64)[:, None]
    clock = np.nan_to_num(evidence.series["sm_clock"] / highest, nan=1.0)
    return np.clip(clock, 0.1, 1.0)


def _memory_of_products(evidence: Evidence, tensor: Floats, memory: Floats) -> Floats:
    """Estimate how active the memory is in matrix products, as a share of its level: [n_gpus, 1], the same for all GPUs of a
    model. ``tensor`` and ``memory`` [n_gpus, n_bins]: both as shares of their level. The bins that hold most of such
    products show it: of long bins none need hold hardly anything else."""
    found = np.zeros((len(tensor), 1))
    for own in _by_model(evidence):
        known = np.isfinite(tensor[own]) & np.isfinite(memory[own])
        products, moved = tensor[own][known], memory[own][known]
        if len(products) and products.max() > 0:
            most = (products >= float(np.percentile(products, AT_WORK))) & (products > 0)
            found[own] = float(np.median(moved[most] / products[most]))
    return found


def _by_model(evidence: Evidence) -> list[Flags]:
    """Return for each model of GPU in the job which GPUs are of it [n_gpus]. GPUs without a name count as one model."""
    models = np.array([gpu.name or "" for gpu in evidence.gpus])
    return [np.asarray(models == model, bool) for model in dict.fromkeys(models.tolist())]


def _draws_little_power(power: Floats, quiet: Floats, cells: Flags) -> bool:
    """Tell whether GPUs draw little while kernels are quiet: their mean is as far below the level at work as it takes if
    they draw WAITING_POWER of it then. When they do so is not asked: power may be that of a moment, of a step's any part.
    ``power`` [n_gpus, n_bins]: as a share of its level. False where it is not known."""
    known = cells & np.isfinite(power)
    if known.sum() < SAMPLES_OF_POWER:
        return False
    return 1 - float(power[known].mean()) >= (1 - WAITING_POWER) * float(quiet[known].mean()) > 0


def _are_carried_by_links(evidence: Evidence, quiet: Floats, cells: Flags) -> bool:
    """Tell whether links carry what collectives do, and more the more of a bin's kernels are quiet."""
    shares, rates = quiet[cells], gpu_link_bytes(evidence)[cells]
    if len(shares) < SAMPLES_OF_POWER or not (shares.std() > 0 and rates.std() > 0):
        return False
    correlation = float(np.corrcoef(shares, rates)[0, 1])
    is_certain = correlation > CERTAIN / np.sqrt(len(shares))
    return is_certain and correlation * float(rates.std() / shares.std()) >= least_link_rate(evidence)
