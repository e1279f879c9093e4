"""Rows for recordings: who is sampled when, and random values with holes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gssr.metrics import METRICS
from gssr.store.read.recording import RunReader

Record = Callable[..., RunReader]
"""The fixture ``record``: arrays in, a run's reader out."""
T0 = 1_780_000_200.0
"""Unix time at which buckets of every level begin."""


def ticks(n_gpus: int, n: int, interval: float = 0.1, start: float = T0) -> tuple[Any, Any]:
    """GPU and time of n rows of each of n_gpus GPUs, tick by tick."""
    return np.tile(np.arange(n_gpus), n), np.repeat(start + interval * np.arange(n), n_gpus)


def random_values(n: int, seed: int, missing: float) -> dict[str, Any]:
    """n values of every metric, each missing (NaN) with this probability."""
    random = np.random.default_rng(seed)
    scales = {"1": 1.0, "B/s": 3e11, "W": 700.0, "J": 1e6, "°C": 90.0, "MHz": 2000.0, "B": 8e10, "bits": 512.0}
    values = {}
    for metric in METRICS:
        column = random.random(n) * scales[metric.unit]
        if metric.integral:
            column = np.floor(column)
        values[metric.name] = np.where(random.random(n) < missing, np.nan, column)
    return values
