"""The account of GPU time: every second of every allocated GPU is booked into one category.

Each step divides time that the step before left over, so the shares of any GPU and of any bin add up to 1, whatever the
samples are. What can't be told stays ``idle.unexplained``.
"""

from dataclasses import dataclass

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.account.active_time import split_active_time
from gssr.model.account.activity import CLEARLY, Activity, measure_activity
from gssr.model.account.idle_time import split_idle_time
from gssr.model.account.other_work import name_other_work
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown, Confidence
from gssr.model.evidence.evidence import Evidence, excerpt
from gssr.store.read.time_window import Window

_CAUSES = ("idle.input_output", "idle.copies", "idle.host", "idle.imbalance")
"""Their time stays unexplained where its share differs by more than half of itself, and of CLEARLY, between every other bin
and the rest: it is too unstable to be told."""


@dataclass(frozen=True)
class GpuTimeAccount:
    """The breakdown of a window and what it was made from. ``working``, ``idling`` and ``spinning`` [n_gpus, n_bins] are the
    shares of each bin in which a GPU computes, and in which it waits for other GPUs, idle or in a communication kernel; NaN
    where it was not measured."""

    breakdown: Breakdown
    activity: Activity
    working: Floats
    idling: Floats
    spinning: Floats


class _Book:
    """GPU-seconds by category, booked GPU by bin and added up at once: all cells of all categories are too many to keep.

    ``by_gpu`` [n_gpus, n_categories] and ``over_time`` [n_bins, n_categories] are those of all GPUs, ``of_some``
    [n_bins, n_categories] those of the GPUs at ``places`` alone."""

    def __init__(self, n_gpus: int, n_bins: int, places: Ints) -> None:
        self._places = places
        self.by_gpu = np.zeros((n_gpus, len(CATEGORIES)))
        self.over_time = np.zeros((n_bins, len(CATEGORIES)))
        self.of_some = np.zeros((n_bins, len(CATEGORIES)))

    def add(self, name: str, seconds: Floats) -> None:
        """Book seconds [n_gpus, n_bins]."""
        self.by_gpu[:, POSITIONS[name]] += seconds.sum(axis=1)
        self.over_time[:, POSITIONS[name]] += seconds.sum(axis=0)
        self.of_some[:, POSITIONS[name]] += seconds[self._places].sum(axis=0)

    def move(self, name: str, to: str) -> None:
        """Book what one category holds into another."""
        for seconds in (self.by_gpu, self.over_time, self.of_some):
            seconds[:, POSITIONS[to]] += seconds[:, POSITIONS[name]]
            seconds[:, POSITIONS[name]] = 0.0


def _error(over_time: Floats) -> Floats:
    """Compute half the difference of the shares in even and in odd bins, by category [n_categories]; 0 where one half holds
    nothing. ``over_time`` [n_bins, n_categories]: seconds."""
    halves = [over_time[first::2].sum(axis=0) for first in (0, 1)]
    if not all(half.sum() > 0 for half in halves):
        return np.zeros(len(CATEGORIES))
    even, odd = (half / half.sum() for half in halves)
    return np.asarray(np.abs(even - odd) / 2, np.float64)


def account_for(evidence: Evidence) -> GpuTimeAccount:
    """Book every second of every GPU of a window into one category. A cause of idle time that differs too much between
    even and odd bins is booked as unexplained. Returns the breakdown, the activity, and the shares of each bin [n_gpus,
    n_bins] in which GPUs work, idle for others and spin for others: NaN where a GPU is not known or not used.

    Where the evidence is that of some GPUs of a job, all of the job is booked, and the account of these GPUs is cut out:
    what a GPU waits for is seen in the others."""
    job = evidence.of_job or evidence
    places = np.searchsorted(job.positions, evidence.positions)
    activity = measure_activity(job)
    book, working, idling, spinning, guesses = _book_bins(job, activity, places)
    by_halves = _error_of_halves(job, activity, places, book.of_some)
    error, total = _error(book.over_time), max(float(book.by_gpu.sum()), 1e-9)
    for name in _CAUSES:
        own = float(book.by_gpu[:, POSITIONS[name]].sum()) / total
        if error[POSITIONS[name]] > max(CLEARLY, own) / 2:
            # Another run may be told it as the cause.
            by_halves[[POSITIONS[name], POSITIONS["idle.unexplained"]]] += own
            book.move(name, "idle.unexplained")
    breakdown = Breakdown(
        book.by_gpu[places], book.of_some, evidence.nodes, evidence.node_of, evidence.times, evidence.width,
        max(evidence.interval, evidence.width), np.maximum(_error(book.of_some), by_halves),
        tuple(_confidence(each.name, job, guesses) for each in CATEGORIES), {"working.other": name_other_work(evidence)},
    )  # fmt: skip
    cells = activity.is_known & activity.is_used[:, None]
    shares = (np.where(cells, each, np.nan)[places] for each in (working, idling, spinning))
    return GpuTimeAccount(breakdown, activity.of_gpus(places), *shares)


def _book_bins(job: Evidence, activity: Activity, places: Ints) -> tuple[_Book, Floats, Floats, Floats, set[str]]:
    """Book every second of all GPUs of a job in the bins of its evidence. ``places``: the GPUs whose bins the book keeps
    apart. Returns the book; the shares of each bin [n_gpus, n_bins] in which GPUs work, idle for others and spin for
    others; and the names of those causes of idle time that are guesses."""
    seconds = activity.seconds
    n_gpus, n_bins = seconds.shape
    book = _Book(n_gpus, n_bins, places)
    working, idling, spinning = (np.zeros(seconds.shape) for _ in range(3))
    known = np.where(activity.is_known, seconds, 0.0)
    book.add("unmeasured", seconds - known)
    used = np.where(activity.is_used[:, None], known, 0.0)
    book.add("unused", known - used)
    outside = activity.is_startup | activity.is_end
    for name, bins in (("startup", activity.is_startup), ("end", activity.is_end)):
        book.add(name, np.where(bins, used * (1 - activity.active), 0.0))
    for name, share in split_active_time(job, activity).items():
        book.add(name, used * share)
        if name.startswith("working."):
            working += share
        elif name == "communication.waiting":
            spinning = share
    idle_shares, guesses = split_idle_time(job, activity, spinning)
    for name, share in idle_shares.items():
        book.add(name, np.where(outside, 0.0, used * share))
        if name == "idle.imbalance":
            idling = np.where(outside, 0.0, share)
    return book, working, idling, spinning, guesses


def _error_of_halves(job: Evidence, activity: Activity, places: Ints, over_time: Floats) -> Floats:
    """Book each half of the window by itself, and compute by how much that differs from the book of the whole in the same
    bins, as a share of all time by category [n_categories]: which cause a wait has is decided by all bins together, and
    few bins decide otherwise by chance. 0 in a window of one bin. ``over_time`` [n_bins, n_categories]: the whole's seconds
    of the GPUs at ``places``."""
    error = np.zeros(len(CATEGORIES))
    middle = float(job.times[len(job.times) // 2])
    if not job.start < middle < job.end:
        return error
    for part in (Window(job.start, middle), Window(middle, job.end)):
        half = excerpt(job, part)
        if half is None:
            continue
        first = int(np.searchsorted(job.times, half.times[0]))
        bins = slice(first, first + len(half.times))
        book, *_ = _book_bins(half, activity.of_bins(bins), places)
        error += np.abs(book.of_some.sum(axis=0) - over_time[bins].sum(axis=0))
    return np.asarray(error / max(float(over_time.sum()), 1e-9), np.float64)


def _confidence(name: str, evidence: Evidence, guesses: set[str]) -> Confidence:
    """Say how well a category is known from what this recording holds: "measured", "inferred" or "guess", as those causes
    of idle time are that ``guesses`` names."""
    series = evidence.series
    if name in ("unmeasured", "unused", "startup", "end", "working.slowed"):
        return "measured"
    if name in ("idle.between_kernels", "idle.unexplained"):
        return "measured" if "gr_engine_active" in series else "inferred"
    if name.startswith("idle."):
        return "guess" if name in guesses or "gr_engine_active" not in series else "inferred"
    return "inferred" if "sm_active" in series else "guess"
