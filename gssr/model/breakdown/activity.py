"""What the account starts from: in which bins each GPU was measured, how active it was, and when the job worked."""

from dataclasses import dataclass

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.evidence.evidence import Evidence

ENGINE_METRICS = ("gr_engine_active", "gpu_utilization", "sm_active")
"""Whether a kernel runs, best first: utilization counts a moment as active if one ran within the driver's window."""
IDLE_ACTIVITY = 0.02
"""Below this engine activity a GPU does nothing: drivers and monitors wake an unused GPU for as much."""
UNUSED_SHARE = 0.02
"""A GPU that is active in less than this share of its time is unused (Princeton jobstats counts 0 %; creating a context and
copying a model onto it takes seconds)."""
WORKING_SHARE = 0.25
"""The job's work begins when a GPU is for the first time as active as this share of its own usual level: setting up a
library's context stays below it."""


@dataclass(frozen=True)
class Activity:
    """``active`` [n_gpus, n_bins]: the share of each bin in which kernels run; 0 where it is not known. ``is_known`` [n_gpus,
    n_bins]. ``seconds`` [n_gpus, n_bins]: how much of the window lies in each bin. ``is_used`` [n_gpus]. ``is_startup``,
    ``is_end`` [n_bins]: before the first work of any GPU, and after the last. ``density`` [n_gpus, n_bins]: how much of the
    GPU its kernels use while they run, as a share of the densest work of the job; NaN where it is not known."""

    active: Floats
    is_known: Flags
    seconds: Floats
    is_used: Flags
    is_startup: Flags
    is_end: Flags
    engine: str


def measure_activity(evidence: Evidence) -> Activity:
    shape = evidence.n_gpus, len(evidence.times)
    active = np.full(shape, np.nan)
    engine = ""
    for name in ENGINE_METRICS:  # of each GPU one alone: they differ by more than noise
        if name in evidence.series:
            known = np.isfinite(evidence.series[name]).any(axis=1) & ~np.isfinite(active).any(axis=1)
            engine = engine or name
            active[known] = evidence.series[name][known]
    if "sm_active" in evidence.series:  # an SM is only active while the engine is
        active = np.where(np.isfinite(active), np.fmax(active, np.minimum(evidence.series["sm_active"], 1.0)), active)
    active = _with_missing_values(active, evidence)
    active = _without_short_holes(np.clip(active, 0.0, 1.0), evidence)
    is_known = np.isfinite(active)
    active = np.where(is_known, active, 0.0)
    begins = np.maximum(evidence.times, evidence.start)
    ends = np.minimum(evidence.times + evidence.width, evidence.end)
    seconds = np.broadcast_to(np.maximum(ends - begins, 0.0), shape)
    is_used = _is_used(active, is_known)
    is_startup, is_end = _outside_work(active, is_known, is_used)
    return Activity(active, is_known, seconds, is_used, is_startup, is_end, engine)


def _is_used(active: Floats, is_known: Flags) -> Flags:
    n_active = (active >= IDLE_ACTIVITY).sum(axis=1)
    return np.asarray((n_active > UNUSED_SHARE * is_known.sum(axis=1)), bool)


def _with_missing_values(active: Floats, evidence: Evidence) -> Floats:
    """Give cells in which a GPU has samples, but not of this metric, the value of its cell before (or after)."""
    has_rows = np.logical_or.reduce([np.isfinite(values) for values in evidence.series.values()])
    holes = has_rows & ~np.isfinite(active) & np.isfinite(active).any(axis=1, keepdims=True)
    if not holes.any():
        return active
    at = np.broadcast_to(np.arange(active.shape[1]), active.shape)
    last = np.maximum.accumulate(np.where(np.isfinite(active), at, -1), axis=1)
    first = np.argmax(np.isfinite(active), axis=1)[:, None]
    return np.where(holes, np.take_along_axis(active, np.where(last >= 0, last, first), axis=1), active)


def _without_short_holes(active: Floats, evidence: Evidence) -> Floats:
    """Give bins that no sample fell into the value before or after, where they are too short for a gap."""
    most = int(2.5 * evidence.interval / evidence.width)
    filled = active
    for _ in range(max(most, 1) if evidence.width < 2.5 * evidence.interval else 0):
        before = np.concatenate((np.full((len(filled), 1), np.nan), filled[:, :-1]), axis=1)
        after = np.concatenate((filled[:, 1:], np.full((len(filled), 1), np.nan)), axis=1)
        filled = np.where(np.isfinite(filled), filled, np.where(np.isfinite(before), before, after))
    return filled


def _outside_work(active: Floats, is_known: Flags, is_used: Flags) -> tuple[Flags, Flags]:
    """Which bins [n_bins] lie before the first work of any GPU, and which after the last."""
    n_bins = active.shape[1]
    if not is_used.any():
        return np.zeros(n_bins, bool), np.zeros(n_bins, bool)
    used = np.where(is_known, active, np.nan)[is_used]
    level = np.nanpercentile(used, 75, axis=1, keepdims=True)
    works = (np.nan_to_num(used) >= np.maximum(WORKING_SHARE * level, IDLE_ACTIVITY)).any(axis=0)
    at = np.flatnonzero(works)
    if not len(at):
        return np.zeros(n_bins, bool), np.zeros(n_bins, bool)
    bins = np.arange(n_bins)
    return bins < at[0], bins > at[-1]
