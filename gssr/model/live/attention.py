"""Which GPUs need a look, and why: the letters ``g``, ``!`` and ``t`` of every screen."""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.metrics import HELD_DOWN
from gssr.model.findings import outlier_gpus
from gssr.model.findings.imbalance import grouped_by_index, grouped_by_node, imbalance_between, score_of_medians
from gssr.model.frame_cache import once
from gssr.model.live.frame import STALE_SECONDS, Frame
from gssr.model.live.run_totals import SILENT_SECONDS
from gssr.model.results import Imbalance, over_space
from gssr.model.statistics.balance import scale_limit
from gssr.store.format.schema import GAP_INTERVALS

THROTTLED_SHARE = 0.1
"""A GPU counts as throttled when one of HELD_DOWN was set in at least this share of the window's samples (a threshold of our
own)."""


class Attention(NamedTuple):
    """[n_gpus] each. ``outlier``: it is unlike the rest in the window (gssr.model.findings.outlier_gpus).
    ``age``: seconds since its last sample where that is too long ago, infinity where the window has none, else 0.
    ``missing``: seconds of the window in which others had samples of the metric and it had none; not those before its first
    one, if it came soon. ``throttled``: its clocks were held down."""

    outlier: Flags
    age: Floats
    missing: Floats
    throttled: Flags

    def letters(self, gpu: int) -> str:
        """``g`` for a gap, ``!`` for an outlier, ``t`` for throttled: those that apply."""
        gap = self.age[gpu] > 0 or self.missing[gpu] > 0
        pairs = (("g", gap), ("!", self.outlier[gpu]), ("t", self.throttled[gpu]))
        return "".join(letter for letter, applies in pairs if applies)

    def unlike(self) -> Flags:
        """[n_gpus]: True where a letter applies that less than half of the GPUs have."""
        n = len(self.outlier)
        found = self.outlier.copy()
        for flags in ((self.age > 0) | (self.missing > 0), self.throttled):
            if 2 * flags.sum() < n:
                found |= flags
        return found


@once
def culprits(frame: Frame) -> tuple[int, ...]:
    """Positions of the GPUs that the worst verdict blames, if these are not most of those looked at."""
    found = frame.judgement.verdicts if frame.judgement is not None else ()
    looked_at = frame.query.gpus or tuple(range(frame.n_gpus))
    blamed = outlier_gpus.culprits(found, len(looked_at))
    return tuple(looked_at[at] for at in blamed if at < len(looked_at))


@once
def attention(frame: Frame) -> Attention:
    """The GPUs of a frame that need a look: those that the rules blame, else those that are not like the others by the
    metric of its grid."""
    name = frame.grid.metric
    means = frame.window.per_gpu(name)
    full = _full(frame, means)
    unlike = outlier_gpus.outlier_gpus(name, means, full, culprits(frame))
    if frame.part is not None or frame.by_node:  # a trace ends for each GPU when it does; nodes are read now and then
        nothing = np.zeros(frame.n_gpus)
        return Attention(unlike, nothing, nothing, np.zeros(frame.n_gpus, bool))
    known = np.isfinite(frame.grid.values)
    return Attention(unlike, _age(frame, known), _missing(frame, known), _throttled(frame))


def _age(frame: Frame, known: Flags) -> Floats:
    grid = frame.grid
    patience = max(GAP_INTERVALS * frame.sampling_seconds, STALE_SECONDS)
    last = frame.last_time
    if not frame.following:  # what was known then
        column = grid.n - 1 - np.argmax(known[:, ::-1], axis=1)
        last = np.minimum(np.where(known.any(axis=1), grid.start + (column + 1) * grid.width, np.nan), last)
    age = frame.now - last
    if frame.state == "live" and frame.now <= frame.first + SILENT_SECONDS:  # the first may still come
        age = np.nan_to_num(age)
    if frame.coming is not None:
        age = np.where(frame.coming, 0.0, age)
    return np.where(np.isnan(age), np.inf, np.where(age > patience, age, 0.0))


def _missing(frame: Frame, known: Flags) -> Floats:
    """In columns that are over: the newest may still fill. Ranks don't begin at once: before the first value of a GPU, if
    it comes within SILENT_SECONDS after the run's first sample, there is no gap."""
    if known.all():
        return np.zeros(frame.n_gpus)
    ends = np.arange(1, frame.grid.n + 1) * frame.grid.width + frame.grid.start
    some = np.isfinite(frame.space.mean) & (ends <= min(frame.grid.closed, frame.last))
    lacks = ~known & some
    if frame.first_time is not None:
        begin = np.where(np.isnan(frame.first_time), frame.now, frame.first_time)
        column = frame.grid.start + frame.grid.width * np.argmax(
            known, axis=1
        )  # of a rate the first sample has no value
        begin = np.fmax(begin, np.where(known.any(axis=1), column, begin))
        soon = begin <= frame.first + SILENT_SECONDS
        lacks &= ends > np.where(soon, begin, -np.inf)[:, None]
    return np.asarray(frame.grid.width * lacks.sum(axis=1), np.float64)


def _throttled(frame: Frame) -> Flags:
    found = np.zeros(frame.n_gpus, bool)
    for name in HELD_DOWN:
        found |= frame.window.per_gpu(name) >= THROTTLED_SHARE  # unknown is not throttled
    return found


def _full(frame: Frame, means: Floats) -> float:
    """What a GPU's mean of the grid's metric is held against."""
    name = frame.grid.metric
    return scale_limit(frame.gpus, name) or frame.greatest.get(name) or float(np.nanmax(means, initial=0.0))


Selection = tuple[int, ...]
"""Positions of the GPUs looked at; empty for all."""


@once
def imbalance_of(frame: Frame, selection: Selection) -> Imbalance:
    """The imbalance of the selected GPUs in the frame's window, by the metric of its grid."""
    grid = frame.grid
    gpus = np.array(selection, np.int64) if selection else np.arange(frame.n_gpus)
    values = grid.values[gpus] if selection else grid.values
    means = frame.window.per_gpu(grid.metric, gpus)
    full = _full(frame, means)
    window = max(frame.window.start, frame.first), min(frame.window.end, frame.last)
    space = over_space(values) if selection else frame.space
    return imbalance_between(gpus, means, values, space, full, window, grid.start, grid.width)


@once
def as_the_median(frame: Frame, selection: Selection) -> tuple[float | None, float | None]:
    """The score of these GPUs together in the window, and what it would be if every one of them ran like the median GPU.
    None where it can't be known."""
    gpus = np.array(selection, np.int64) if selection else np.arange(frame.n_gpus)
    return frame.window.score(gpus), score_of_medians(frame.window, gpus)


by_node, by_index = once(grouped_by_node), once(grouped_by_index)
"""The same of frames, of which the last ones are kept."""
