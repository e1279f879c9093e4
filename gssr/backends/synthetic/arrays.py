"""Scenarios evaluated on arrays: many times and GPUs at once, the same bits as live. Imports numpy."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.backends.synthetic.gpu import SyntheticJob, Traits, sample_values
from gssr.backends.synthetic.scenarios import Ops, Scenario
from gssr.metrics import BY_NAME

Column = NDArray[np.float64] | NDArray[np.int64]


ARRAYS = Ops(*cast(Any, (np.floor, np.minimum, np.maximum, np.where, np.any)))


def stack(gpus: Sequence[Traits]) -> Traits:
    """The traits of many GPUs as one Traits of arrays [n_gpus]."""
    return Traits(*cast(Any, np.array(gpus, dtype=np.float64).T.copy()))


def evaluate(
    scenario: Scenario, gpus: Traits, times: Floats, stretch: float = 1.0
) -> tuple[dict[str, Column], NDArray[np.bool_]]:
    """Evaluate a scenario for all GPUs (from ``stack``) at all ``times`` (s since the start). Samples are in the order
    of time: sample ``i`` is time ``i // n_gpus`` and GPU ``i % n_gpus``. ``stretch``: the scenario's own clock runs
    slower by this factor.

    Returns the columns [n_times * n_gpus] by metric name (NaN: missing there), and which samples exist at all.
    """
    t = times[:, np.newaxis]
    n_gpus = len(cast(Floats, gpus.share))
    shape = (len(times), n_gpus)
    now = SyntheticJob(scenario, stretch).at(ARRAYS, cast(float, t))
    table = {
        name: np.broadcast_to(np.asarray(value), shape)
        for name, value in sample_values(ARRAYS, now, gpus, cast(float, t)).items()
    }
    exists = np.ones(shape, dtype=np.bool_)
    position = np.arange(n_gpus)
    for hole in scenario.holes:
        during = np.asarray(hole.pulse.on(ARRAYS, cast(float, t)))
        hit = during & (position % hole.modulus == hole.remainder)
        if not hit.any():
            continue
        if not hole.metrics:
            exists &= ~hit
        for metric in hole.metrics:
            if metric in table:
                table[metric] = np.where(hit, np.nan, table[metric])
    return {name: _finish(column, BY_NAME[name].integral) for name, column in table.items()}, exists.ravel()


def _finish(column: NDArray[Any], integral: bool) -> Column:
    """Flatten a metric's values [n_times, n_gpus]: to int64 if it is ``integral`` and none is missing (NaN), else to
    float64."""
    flat = column.ravel()
    if integral and not (flat.dtype.kind == "f" and np.isnan(flat).any()):
        return flat.astype(np.int64)
    return cast(Floats, flat.astype(np.float64, copy=False))
