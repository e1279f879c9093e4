"""What the account starts from: in which bins each GPU was measured, how active it was, and when the job worked."""

from dataclasses import dataclass, replace

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.evidence.evidence import Evidence
from gssr.model.percentiles import known_percentiles
from gssr.store.format.schema import GAP_INTERVALS

ENGINE_METRICS = ("gr_engine_active", "gpu_utilization", "sm_active")
"""The metrics that say whether a kernel runs, the best first. GPU utilization is coarser than the others: it counts a whole
moment as busy if any kernel ran during it."""
IDLE_ACTIVITY = 0.02
"""Up to this activity a GPU counts as idle: monitors alone make an unused GPU as active as this."""
UNUSED_SHARE = 0.02
"""A GPU is unused if it does something in less than this share of its time. (Princeton jobstats counts 0 %; but creating a
library's context on a GPU takes a second.)"""
WORKING_SHARE = 0.5
"""A GPU is at work in a bin in which it is at least this share as active as at its own level of work; the job's work begins
with the first such bin."""
_ROUNDED = 1e-6
"""Added to a limit before values are compared with it: samples are stored in 32 bits, in which 2 % is 0.01999999955, and
their means in 64."""
CLEARLY = 0.1
"""A smaller share of a time than this may be noise of the counters."""
MOSTLY = 0.7
"""A cause is named if it holds for at least this share of the time, or accounts for at least this share of a loss."""
AT_WORK = 90
"""This percentile of the activity in a GPU's bins is its level of work: single spikes don't move it."""


@dataclass(frozen=True)
class Activity:
    """How active the GPUs of a window were, bin by bin.

    ``active`` [n_gpus, n_bins]: the share of each bin in which kernels run; 0 where ``is_known`` [n_gpus, n_bins] is False.
    ``is_measured`` [n_gpus, n_bins]: known from a sample of its own, not from one nearby.
    ``seconds`` [n_gpus, n_bins]: how much of the window lies in each bin. ``is_used`` [n_gpus]: the GPU did something.
    ``is_startup`` and ``is_end`` [n_bins]: before the first work of any GPU, and after the last. These three are judged on
    the whole run, whatever the window is: a pause at its edge is a pause all the same. ``engine``: the metric that
    told of most GPUs; empty if nothing was measured.
    """

    active: Floats
    is_known: Flags
    is_measured: Flags
    seconds: Floats
    is_used: Flags
    is_startup: Flags
    is_end: Flags
    engine: str

    def of_gpus(self, places: Ints) -> "Activity":
        """Cut out the activity of the GPUs at these places [n], in their order; start-up and end stay those of all."""
        return replace(
            self,
            active=self.active[places],
            is_known=self.is_known[places],
            is_measured=self.is_measured[places],
            seconds=self.seconds[places],
            is_used=self.is_used[places],
        )

    def of_bins(self, bins: slice) -> "Activity":
        """Cut out the activity in these bins. Start-up, end and which GPUs are used stay as the whole window tells them."""
        return replace(
            self,
            active=self.active[:, bins],
            is_known=self.is_known[:, bins],
            is_measured=self.is_measured[:, bins],
            seconds=self.seconds[:, bins],
            is_startup=self.is_startup[bins],
            is_end=self.is_end[bins],
        )


def does_something(active: Floats) -> Flags:
    """Tell bins in which a GPU does something by the share of each in which kernels run."""
    return np.asarray(active > IDLE_ACTIVITY + _ROUNDED, bool)


def measure_activity(evidence: Evidence) -> Activity:
    """Measure in which share of each bin of a window each GPU runs kernels, and when the job's work begins and ends."""
    shape = evidence.n_gpus, len(evidence.times)
    active, engine = np.full(shape, np.nan), ""
    for name in ENGINE_METRICS:  # one for each GPU: they differ by more than noise
        if name in evidence.series:
            engine = engine or name
            lacks = ~np.isfinite(active).any(axis=1)
            active[lacks] = evidence.series[name][lacks]
    if "sm_active" in evidence.series:  # an SM is active only while the engine is
        active = np.where(np.isfinite(active), np.fmax(active, evidence.series["sm_active"]), np.nan)
    is_measured = np.isfinite(active)
    active = _without_short_holes(_with_missing_values(np.clip(active, 0.0, 1.0), evidence), evidence)
    is_known = np.isfinite(active)
    active = np.where(is_known, active, 0.0)
    begins = np.maximum(evidence.times, evidence.start)
    ends = np.minimum(evidence.times + evidence.width, evidence.end)
    seconds = np.broadcast_to(np.maximum(ends - begins, 0.0), shape)
    if evidence.whole_run is None:
        is_used = does_something(active).sum(axis=1) > UNUSED_SHARE * is_known.sum(axis=1)
        outside = _outside_work(active, is_known, is_used)
    else:
        of_run = measure_activity(evidence.whole_run)
        is_used = of_run.is_used
        outside = _outside_work_of_run(_outside_work(active, is_known, is_used), of_run, evidence.whole_run, evidence)
    return Activity(active, is_known, is_measured, seconds, is_used, *outside, engine)


def _with_missing_values(active: Floats, evidence: Evidence) -> Floats:
    """Give cells in which a GPU has samples, but not of this metric, the value of its cell before, or of its first one."""
    has_samples = np.zeros(active.shape, bool)
    for values in evidence.series.values():
        has_samples |= np.isfinite(values)
    known = np.isfinite(active)
    holes = has_samples & ~known & known.any(axis=1, keepdims=True)
    if not holes.any():
        return active
    bins = np.broadcast_to(np.arange(active.shape[1]), active.shape)
    last = np.maximum.accumulate(np.where(known, bins, -1), axis=1)
    first = np.argmax(known, axis=1)[:, None]
    return np.where(holes, np.take_along_axis(active, np.where(last >= 0, last, first), axis=1), active)


def _without_short_holes(active: Floats, evidence: Evidence) -> Floats:
    """Give bins [n_gpus, n_bins] without a sample the value of the nearest one with a value, if the hole that they are part
    of is no longer than GAP_INTERVALS sampling intervals; nobody knows what went on in a longer one."""
    known, bins = np.isfinite(active), np.arange(active.shape[1])
    last = np.maximum.accumulate(np.where(known, bins, -1), axis=1)
    following = np.minimum.accumulate(np.where(known, bins, len(bins))[:, ::-1], axis=1)[:, ::-1]
    is_short = ~known & (following - last - 1 <= int(GAP_INTERVALS * evidence.interval / evidence.width))
    is_before = (last >= 0) & ((bins - last <= following - bins) | (following == len(bins)))
    nearest = np.minimum(np.where(is_before, last, following), len(bins) - 1)
    return np.where(is_short, np.take_along_axis(active, nearest, axis=1), active)


def _outside_work(active: Floats, is_known: Flags, is_used: Flags) -> tuple[Flags, Flags]:
    """Flag the bins [n_bins] before the first work of any used GPU, and those after the last. No bin is flagged where no
    GPU works. ``active`` [n_gpus, n_bins]: the share of each bin in which kernels run; ``is_known`` [n_gpus, n_bins]:
    where that is known; ``is_used`` [n_gpus]."""
    bins = np.arange(active.shape[1])
    used, known = active[is_used], is_known[is_used]
    (at_work,) = known_percentiles(np.where(known, used, np.nan).T, (AT_WORK / 100,))
    works = known & does_something(used) & (used >= WORKING_SHARE * np.nan_to_num(at_work)[:, None])
    at = np.flatnonzero(works.any(axis=0))
    if not len(at):
        return np.zeros(len(bins), bool), np.zeros(len(bins), bool)
    return bins < at[0], bins > at[-1]


def _outside_work_of_run(
    by_window: tuple[Flags, Flags], of_run: Activity, run: Evidence, window: Evidence
) -> tuple[Flags, Flags]:
    """Flag the bins [n_bins] of a window that lie before the first work of the whole ``run``, and those after the last.
    Within the run's own bins of first and last work, which are longer, the flags ``by_window`` alone tell."""
    inside = np.flatnonzero(~(of_run.is_startup | of_run.is_end))
    first_work, last_work = run.times[inside[0]], run.times[inside[-1]] + run.width
    begins, ends = window.times, window.times + window.width
    is_startup = (ends <= first_work) | (by_window[0] & (begins < first_work + run.width))
    is_end = (begins >= last_work) | (by_window[1] & (ends > last_work - run.width))
    return np.asarray(is_startup, bool), np.asarray(is_end, bool)
