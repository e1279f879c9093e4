"""The energy that GPUs used in a window: one rule for pages, JSON, screens, comparisons and fleets."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.peaks import peaks_of
from gssr.store.format.rows import Gpu

ENERGY_METRICS = ("energy", "power_usage")

TWO_DIES = ("MI250", "MI250X")
"""Cards whose two dies are a GPU each, of which the first tells the power and the energy of both (docs/amd.md)."""


def joules_by_gpu(counted: Floats, power: Floats, seconds: Floats) -> Floats:
    """Work out the energy that each GPU used between its first and its last sample [n_gpus], J: what its energy counter says
    (``counted``), where that is known, else its mean ``power`` (W) times these ``seconds``. NaN is unknown, in and out."""
    return np.where(np.isfinite(counted), counted, power * seconds)


def total_joules(joules: Floats, n_rows: Ints, gpus: Sequence[Gpu]) -> float | None:
    """Add up what these GPUs used [n_gpus], J. GPUs with fewer than two samples (``n_rows`` [n_gpus]) were looked at
    for no time and don't count.

    Returns None where no GPU has two samples, and where the energy of one that has is unknown: a sum without it would
    say too little. A second die whose energy the first one tells is no such GPU.
    """
    known = np.isfinite(joules)
    counted, unknown = known & (n_rows > 1), ~known & (n_rows > 1)
    if not counted.any() or (unknown.any() and (unknown & ~_told_by_other_die(known, gpus)).any()):
        return None
    return float(joules[counted].sum())


def describe_energy(joules: Floats, counted: Floats, n_rows: Ints, total: float | None) -> str | None:
    """Say in a sentence what the energy of a run rests on, where that is not the counters of all GPUs.

    Args:
        joules: What each GPU used [n_gpus], J, by its counter or by its power; NaN where unknown.
        counted: What each GPU used by its counter alone [n_gpus], J; NaN where it has none.
        n_rows: The number of samples of each GPU [n_gpus].
        total: The result of ``total_joules``.

    None if counters tell all of it, and if nothing is known of any GPU.
    """
    lasted = n_rows > 1
    n_lasted, n_known = int(lasted.sum()), int((lasted & np.isfinite(joules)).sum())
    n_by_power = int((lasted & np.isfinite(joules) & ~np.isfinite(counted)).sum())
    if total is None:
        few = f"{n_lasted - n_known} of {n_lasted} GPUs"
        return f"energy is unknown: of {few} neither the counter nor power was measured" if n_known else None
    if not n_by_power:
        return None
    rule = "mean power times the time from the first sample to the last"
    if n_by_power == n_lasted:
        return f"no energy counter was measured: energy is {rule}"
    return f"the energy counter of {n_by_power} of {n_lasted} GPUs was not measured: their energy is {rule}"


def _told_by_other_die(known: Flags, gpus: Sequence[Gpu]) -> Flags:
    """Flag the GPUs [n_gpus] whose energy is part of that of the other die of their card: dies of models with two dies a
    card whose neighbour by the driver's index is there and ``known`` [n_gpus]."""
    found = np.zeros(len(gpus), bool)
    models = {name: peaks.model for name in {gpu.name for gpu in gpus} if (peaks := peaks_of(name)) is not None}
    dies = {(gpu.node, gpu.device_index): at for at, gpu in enumerate(gpus) if models.get(gpu.name) in TWO_DIES}
    for (node, index), at in dies.items():
        other = None if index is None else dies.get((node, index ^ 1))
        found[at] = other is not None and bool(known[other])
    return found
