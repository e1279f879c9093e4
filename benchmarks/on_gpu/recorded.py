"""One GPU's rows of a recording, as arrays, and their means over stretches of time."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gssr.metrics import NAMES
from gssr.store.read.recording import open_recording

Floats = Any
"""An array of float64."""


class Recorded(NamedTuple):
    """Times (unix s, ascending) and by metric its values, NaN where missing. ``gpu`` is the recording's row of it,
    ``sampling_seconds`` the interval that was asked for."""

    gpu: Any
    time: Floats
    values: dict[str, Floats]
    sampling_seconds: float

    def mean(self, metric: str, begin: float, end: float) -> float | None:
        """The mean of what was measured in that stretch; None when nothing was."""
        chosen = self.values[metric][(self.time > begin) & (self.time <= end)]
        chosen = chosen[~np.isnan(chosen)]
        return float(chosen.mean()) if len(chosen) else None


def read(path: Path) -> Recorded:
    """The first GPU of the last run. Raises ValueError when there is none."""
    run = open_recording(path).runs[-1]
    if not run.gpus:
        raise ValueError(f"{path}: no GPU was recorded")
    rows = run.samples(list(NAMES))
    mine = rows.gpu == 0
    order = np.argsort(rows.time[mine], kind="stable")
    values = {name: rows.values[name][mine][order].astype(float) for name in NAMES}
    return Recorded(run.gpus[0], rows.time[mine][order], values, run.sampling_seconds)
