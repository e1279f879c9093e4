"""Which GPUs are unlike the rest: those that pages, pictures and screens mark with ``!``."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.metrics import DETECTION_METRICS
from gssr.model.account.late_gpus import FEW_GPUS
from gssr.model.results import Verdict
from gssr.model.statistics.balance import outliers


def culprits(verdicts: Sequence[Verdict], n_gpus: int) -> tuple[int, ...]:
    """Return the positions of the GPUs that the worst verdict (not an info) blames; empty if it blames none, or more
    than FEW_GPUS of the ``n_gpus`` GPUs."""
    blaming = verdict_on_few(verdicts, n_gpus)
    return () if blaming is None else blaming.gpus


def verdict_on_few(verdicts: Sequence[Verdict], n_gpus: int) -> Verdict | None:
    """Return the worst verdict (not an info) that names GPUs, if these are at most FEW_GPUS of the ``n_gpus`` GPUs, else
    None."""
    blaming = next((verdict for verdict in verdicts if verdict.gpus and verdict.severity != "info"), None)
    return None if blaming is None or len(blaming.gpus) > max(FEW_GPUS * n_gpus, 1) else blaming


def outlier_gpus(metric: str, means: Floats, full: float, blamed: Sequence[int]) -> Flags:
    """Tell which GPUs are to be marked as unlike the rest, [n_gpus].

    In a metric that tells work from waiting these are the ``blamed`` ones (positions, of ``culprits``), if there are
    any; else those whose mean is not like the others' (gssr.model.statistics.balance). ``means`` [n_gpus] and
    ``full``, what fills their axis, are in the metric's unit.
    """
    if len(blamed) and metric in DETECTION_METRICS:
        return np.isin(np.arange(len(means)), blamed)
    return outliers(means, full)
