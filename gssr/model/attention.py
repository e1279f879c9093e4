"""Which GPUs need a look, and why: the letters ``g``, ``!`` and ``t`` of every screen."""

from typing import NamedTuple

import numpy as np

from gssr.model.analysis import Floats
from gssr.model.balance import scale_limit
from gssr.model.frame import Frame
from gssr.model.once import once
from gssr.model.outliers import Flags, outliers
from gssr.store.schema import GAP_INTERVALS

STALE_SECONDS = 2.0
"""A GPU is stale after max(2.5 sampling intervals, 2 s) without a sample."""


class Attention(NamedTuple):
    """[n_gpus] each: ``outlier``: the GPU's mean of the window is not like the others' (gssr.model.outliers); ``age``:
    seconds since its last sample where that is too long ago, infinity where the window has none, else 0; ``throttled``: its
    clocks are held down at the window's right edge."""

    outlier: Flags
    age: Floats
    throttled: Flags

    def letters(self, gpu: int) -> str:
        """``g`` for a gap, ``!`` for an outlier, ``t`` for throttled: those that apply."""
        pairs = (("g", self.age[gpu] > 0), ("!", self.outlier[gpu]), ("t", self.throttled[gpu]))
        return "".join(letter for letter, applies in pairs if applies)

    def any(self) -> Flags:
        """[n_gpus]: True where a letter applies."""
        found: Flags = self.outlier | (self.age > 0) | self.throttled
        return found


@once
def attention(frame: Frame) -> Attention:
    """The GPUs of a frame that need a look, by the metric of its grid."""
    name = frame.grid.metric
    means = frame.window.per_gpu(name)
    full = scale_limit(frame.gpus, name) or float(np.nanmax(means, initial=0.0))
    found = outliers(means, full)
    return Attention(found, _age(frame), _throttled(frame))


def _age(frame: Frame) -> Floats:
    grid = frame.grid
    patience = max(GAP_INTERVALS * frame.sampling_seconds, STALE_SECONDS)
    last = frame.last_time
    if not frame.following:  # what the window knew
        known = np.isfinite(grid.values)
        column = grid.n - 1 - np.argmax(known[:, ::-1], axis=1)
        last = np.minimum(np.where(known.any(axis=1), grid.start + (column + 1) * grid.width, np.nan), frame.last_time)
    age = frame.now - last
    return np.where(np.isnan(age), np.inf, np.where(age > patience, age, 0.0))


def _throttled(frame: Frame) -> Flags:
    """An event names a GPU by node and by its key in the file that holds it; one that fits several GPUs names none."""
    flags = np.zeros(frame.n_gpus, bool)
    changes = [event for event in frame.events if event.kind in ("throttle_begin", "throttle_end")]
    for event in changes:
        if event.gpu is None or event.time > frame.now:
            continue
        named = [i for i, gpu in enumerate(frame.gpus) if gpu.gpu == event.gpu and gpu.node == event.node]
        if len(named) > 1:
            named = [i for i in named if frame.gpus[i].rank == event.rank]
        if len(named) == 1:
            flags[named[0]] = event.kind == "throttle_begin"
    return flags
