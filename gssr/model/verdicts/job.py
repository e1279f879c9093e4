"""A job as the rules see it: which GPUs were used, when it worked, when it waited, and what was measured meanwhile."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.makers import AMD, maker_of
from gssr.metrics import DETECTION_METRICS
from gssr.model.evidence.evidence import Evidence, over_gpus
from gssr.model.verdicts import words
from gssr.model.verdicts.table import Table
from gssr.model.window import average_of, warm_up_and_tear_down

CLEARLY = 1.25
"""So many times as much shows more than noise does, where the same is looked at twice."""
_AT_REST = 0.15
"""Of its power limit a GPU draws about so much when it does nothing."""
_LEAST_SPAN = 0.35
"""Where GPUs draw little even at work, differences smaller than this share of the limit would count for much."""
_KNOWN = 0.25
"""Where fewer values are there than this share, columns of time are no longer for it."""
SPINNING = 0.12
"""SM activity of a GPU that waits in a collective: NCCL's kernels run on few SMs."""
BUSY = 0.9
"""Where the engine is as active as this a kernel runs, and if it spins it waits for nothing of the host's."""
_HIGH = 95.0
"""The percentile that stands for the highest activity: single spikes don't move it."""


@dataclass(frozen=True)
class Job:
    """The evidence with what several rules need, each computed once and only when it is asked for. Arrays over time are
    [n_bins], over GPUs [n_gpus]; NaN is unknown."""

    evidence: Evidence
    table: Table
    whole: "Job | None" = None
    """The job of which this one is but glimpses."""

    def common(self, name: str) -> float:
        """A threshold that rules share."""
        return self.table.common.at(name)

    @cached_property
    def closer(self) -> "Job":
        """Some of its GPUs in shorter bins, for rules about what is soon over; this one where its bins are short."""
        return self if self.evidence.closer is None else Job(self.evidence.closer, self.table)

    @cached_property
    def looks(self) -> "tuple[Job, ...]":
        """What shows waits, however soon they are over: ``closer``, and the glimpses where there are any."""
        glimpses = self.evidence.glimpses
        return (self.closer, *(() if glimpses is None else (Job(glimpses, self.table, self),)))

    @cached_property
    def lead(self) -> str | None:
        """What tells work from waiting: the best of DETECTION_METRICS that shows any; of a job that does nothing the best
        that was measured. A kernel on one SM is work, and SM activity shows none."""
        measured = [name for name in DETECTION_METRICS if self.evidence.has(name)]
        return next((name for name in measured if self._does(name).any()), measured[0] if measured else None)

    def _does(self, metric: str) -> Flags:
        """[n_gpus]: those of which the metric shows some activity in more than a very small share of the time."""
        values = self.evidence.series.get(metric)
        if values is None:
            return np.zeros(self.evidence.n_gpus, bool)
        busy = (values >= self.common("idle")).sum(axis=1)  # NaN never is
        return np.asarray((busy >= self.common("unused") * np.isfinite(values).sum(axis=1)) & (busy > 0), bool)

    @cached_property
    def activity(self) -> Floats:
        """[n_gpus, n_bins] of the leading metric."""
        if self.lead is None:
            return np.full((self.evidence.n_gpus, len(self.evidence.times)), np.nan)
        own = np.asarray(self.evidence.series[self.lead], np.float64)
        return own * self._effort(self.power) if self.by_power else own

    @cached_property
    def power(self) -> Floats:
        """[n_gpus, n_bins] in W. Of the second die of a card, for which its driver tells none, the first one's, which is the
        card's (AMD's MI250X)."""
        gpus, own = self.evidence.gpus, np.array(self.evidence.series["power_usage"], np.float64)
        known = np.asarray(np.isfinite(own).any(axis=1), bool)
        for at in np.flatnonzero(known[:-1] & ~known[1:]) + 1:
            first, second = gpus[at - 1], gpus[at]
            alike = (first.node, first.name) == (second.node, second.name) and maker_of((second,)) == AMD
            if alike and first.device_index is not None and second.device_index == first.device_index + 1:
                own[at] = own[at - 1]
        return own

    @property
    def by_power(self) -> bool:
        """Whether activity is utilization times power: a kernel that spins counts as much as any in utilization alone."""
        return self.lead == "gpu_utilization" and self.evidence.has("power_usage")

    @property
    def lead_label(self) -> str:
        """What activity is called in a sentence."""
        return "GPU utilization by power" if self.by_power else words.label(self.lead or "")

    def _effort(self, power: Floats) -> Floats:
        """Power (W) [n_gpus, ...] as a share (0-1) of what GPUs of the model draw at work, above what they draw at rest."""
        models = np.unique([gpu.name or "" for gpu in self.evidence.gpus], return_inverse=True)[1]
        all_power = np.where(self.used[:, None], self.power, np.nan)
        effort = np.full(power.shape, np.nan)
        for model in range(int(models.max(initial=-1)) + 1):
            of = models == model
            limit = median(
                np.array([gpu.power_limit or np.nan for gpu, own in zip(self.evidence.gpus, of, strict=True) if own])
            )
            known = all_power[of][np.isfinite(all_power[of])]
            if len(known):
                top = float(np.percentile(known, _HIGH))
                rest = float(np.fmin(known.min(), _AT_REST * (limit if np.isfinite(limit) else top)))
                span = max(top - rest, _LEAST_SPAN * (limit if np.isfinite(limit) else top))
                effort[of] = np.clip(1 - (top - power[of]) / span, 0.0, 1.0)
        return np.asarray(np.where(np.isfinite(effort), effort, 1.0), np.float64)

    @cached_property
    def known(self) -> Flags:
        """[n_gpus]: those with samples."""
        if self.lead is None:
            return np.zeros(self.evidence.n_gpus, bool)
        return np.asarray(np.isfinite(self.evidence.series[self.lead]).any(axis=1), bool)

    @cached_property
    def used(self) -> Flags:
        """[n_gpus]: those that did anything in more than a very small share of the time, by whatever was measured of it."""
        return np.asarray(self.known & np.logical_or.reduce([self._does(name) for name in DETECTION_METRICS]), bool)

    @cached_property
    def mean(self) -> Floats:
        """[n_bins] of the leading metric over the GPUs that were used."""
        return over_gpus(self.activity[self.used])

    @cached_property
    def level(self) -> float:
        """The working level: the median of the bins above half of the highest activity; NaN of a job that never works. That
        of glimpses is not below that of the whole: they may hold nothing but waits."""
        own = level_of(self.mean, self.common("working"), self.common("idle"))
        return own if self.whole is None else float(np.fmax(own, self.whole.level))

    @cached_property
    def span(self) -> tuple[float, float]:
        """When the job works: without the time before its work begins and after it ends, unix s."""
        if self.whole is not None:
            return self.whole.span
        evidence = self.evidence
        if not np.isfinite(self.level):
            return evidence.start, evidence.end
        average = average_of(float(evidence.times[0]), evidence.width, self.mean)
        leading, trailing = warm_up_and_tear_down(average, evidence.window)
        return evidence.start + leading, evidence.end - trailing

    @cached_property
    def steady(self) -> Flags:
        """[n_bins]: bins that lie within the span; of a very short one those that touch it."""
        times, width = self.evidence.times, self.evidence.width
        inside: Flags = np.asarray(
            (times >= self.span[0] - width / 2) & (times + width <= self.span[1] + width / 2), bool
        )
        touched = (times + width > self.span[0]) & (times < self.span[1])
        return inside if inside.any() else np.asarray(touched, bool)

    @cached_property
    def still(self) -> Flags:
        """[n_gpus, n_bins]: cells in which nothing is computed or moved, whatever kernels run: as DRAM and the arithmetic
        pipes tell; where they were not measured, as power and memory copies (or DRAM) do beside those of the job at work."""
        series, shape = self.evidence.series, self.activity.shape
        if "dram_active" in series and "flop_active" in series:
            return np.asarray(
                (series["dram_active"] < 2 * self.common("still")) & (series["flop_active"] < self.common("still")),
                bool,
            )
        if not self.by_power:
            return np.zeros(shape, bool)
        copies, dram = (series.get(name, np.nan) for name in ("memory_copy_utilization", "dram_active"))
        moved = np.where(np.isfinite(copies), copies, dram)
        limits = np.array([gpu.power_limit or np.nan for gpu in self.evidence.gpus], np.float64)[:, None]
        top = np.fmax(np.nan_to_num(self.power).max(axis=1, keepdims=True), 0.6 * limits)
        return np.asarray((moved < 2 * self.common("still")) & (self.power < self.common("drawn") * top), bool)

    @cached_property
    def spinning(self) -> Flags:
        """[n_bins]: where SMs are active and neither compute nor move anything, in a job that does so at other times."""
        measured = self.still | ~np.isfinite(self.activity)
        spins = measured[self.used].all(axis=0) if self.used.any() else np.zeros(len(self.mean), bool)
        return np.asarray(spins & bool((~spins).any()), bool)

    @cached_property
    def gpu_levels(self) -> Floats:
        """[n_gpus]: each GPU's own working level; NaN of one that never works."""
        return levels_of(self.activity, self.common("working"), self.common("idle"))

    @cached_property
    def alive(self) -> Flags:
        """[n_gpus, n_bins]: cells in which a GPU does more than pause or spin."""
        least = self.common("paused") * self.gpu_levels
        reached = self.activity >= np.fmax(self.common("idle"), np.nan_to_num(least))[:, None]
        return np.asarray(reached & ~self.still & self.used[:, None], bool)

    @cached_property
    def working(self) -> Flags:
        """[n_bins]: of the steady ones those in which the job works."""
        return np.asarray(self.steady & (self.mean >= self.common("working") * self.level) & ~self.spinning, bool)

    @cached_property
    def waiting(self) -> Flags:
        """[n_bins]: of the steady ones those in which it waits."""
        least = max(self.common("working") * self.level, self.common("low")) if np.isfinite(self.level) else 0.0
        return np.asarray(self.steady & (self.mean < least), bool)

    @cached_property
    def own_span(self) -> tuple[Floats, Floats]:
        """[n_gpus] each: when each GPU begins to work and when it ends, unix s; NaN where it never does. It works where it
        reaches half of its own working level in three of five bins."""
        times, width = self.evidence.times, self.evidence.width
        reached = (self.activity >= self.common("working") * self.gpu_levels[:, None]) & self.used[:, None]
        at, back = _holding(reached), _holding(reached[:, ::-1])
        known = at.any(axis=1) & back.any(axis=1)
        begin = np.where(known, times[np.argmax(at, axis=1)], np.nan)
        end = np.where(known, times[len(times) - 1 - np.argmax(back, axis=1)] + width, np.nan)
        return begin, end

    @cached_property
    def comparable(self) -> Flags:
        """[n_gpus, n_bins]: cells of used GPUs in the steady part, each between the GPU's own begin and end of work."""
        begin, end = self.own_span
        times, width = self.evidence.times, self.evidence.width
        own = (times >= begin[:, None] - width / 2) & (times + width <= end[:, None] + width / 2)
        return np.asarray(self.steady & own & np.isfinite(self.activity), bool)

    @cached_property
    def gpu_means(self) -> Floats:
        """[n_gpus]: each used GPU's mean of the leading metric while it is at work, waits included; else NaN."""
        cells = self.comparable
        n = cells.sum(axis=1)
        total = np.where(cells, self.activity, 0.0).sum(axis=1)
        return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0), np.float64)

    @cached_property
    def gpu_errors(self) -> Floats:
        """[n_gpus]: the standard error of each of ``gpu_means`` from how it differs from the others bin by bin: few samples,
        each of another part of a step, differ by chance. 0 where bins are too few to tell."""
        own = np.where(self.comparable, self.activity, np.nan)
        apart = own - over_gpus(own)
        n = np.isfinite(apart).sum(axis=1)
        apart -= over_gpus(apart.T)[:, None]
        variance = float(np.nansum(apart**2)) / max(float(np.maximum(n - 1, 0).sum()), 1.0)
        return np.asarray(np.sqrt(variance / np.maximum(n, 1)), np.float64)

    def in_course(self) -> Floats:
        """[n_instants]: the leading metric over the course."""
        course = self.evidence.course
        own = course.values[self.lead] if self.lead else np.empty(0)
        if not self.by_power or not self.used.any():
            return own
        power = np.repeat(course.values["power_usage"][None], self.evidence.n_gpus, axis=0)
        return own * over_gpus(self._effort(power)[self.used])

    def over(self, metric: str, bins: Flags) -> float | None:
        """The mean of a metric over the used GPUs and these bins; None without samples."""
        if metric not in self.evidence.series:
            return None
        cells = self.evidence.series[metric][np.ix_(self.used, bins)]
        known = np.isfinite(cells)
        return float(cells[known].mean(dtype=np.float64)) if known.any() else None

    def at_work(self, metric: str) -> float:
        """The mean of a metric over the bins in which the job works, each used GPU's from its own begin to its own end; NaN
        without samples."""
        if metric not in self.evidence.series:
            return np.nan
        cells = self.evidence.series[metric][self.comparable & self.working & self.used[:, None]]
        known = np.isfinite(cells)
        return float(cells[known].mean(dtype=np.float64)) if known.any() else np.nan

    def per_gpu(self, metric: str, bins: Flags) -> Floats:
        """[n_gpus]: each GPU's mean of a metric over these bins; NaN without samples."""
        if metric not in self.evidence.series:
            return np.full(self.evidence.n_gpus, np.nan)
        cells = self.evidence.series[metric][:, bins]
        return over_gpus(cells.T)

    def in_time(self, metric: str) -> Floats:
        """[n_bins]: the mean of a metric over the used GPUs."""
        if metric not in self.evidence.series:
            return np.full(len(self.evidence.times), np.nan)
        return over_gpus(self.evidence.series[metric][self.used])

    def share(self, bins: Flags | Floats) -> float:
        """These bins [n_bins], or of each this part (0-1), as a share of the window's with samples."""
        known = np.isfinite(self.mean)
        return float(bins[known].sum() / known.sum()) if known.any() else 0.0

    @cached_property
    def lacks(self) -> Floats:
        """[n_bins]: what part (0-1) of the work of the working level is not done in each bin; 0 where nothing is known."""
        if not np.isfinite(self.level):
            return np.zeros(len(self.mean))
        return np.clip(np.nan_to_num(1 - self.mean / self.level), 0.0, 1.0)

    def lost_in(self, times: Floats, width: float) -> Floats:
        """[n_bins]: what part (0-1) of the work that each bin lacks to the working level is lost in the stretches that begin
        at ``times`` (unix s) and are ``width`` s long, if nothing is done in these."""
        evidence = self.evidence
        at = np.floor((times - evidence.times[0]) / evidence.width + 1e-6).astype(np.int64)
        n = np.bincount(np.clip(at, 0, len(evidence.times) - 1), minlength=len(evidence.times))
        taken = n * width / evidence.width
        most = np.maximum(taken, self.lacks)
        return np.asarray(np.divide(taken, most, out=np.zeros(len(taken)), where=most > 0), np.float64)

    @cached_property
    def idle(self) -> float:
        """The share of the window in which no kernel runs, while the job works."""
        name = "gr_engine_active" if self.evidence.has("gr_engine_active") else "gpu_utilization"
        return self.share(np.where(self.steady, np.nan_to_num(1 - self.in_time(name)), 0.0))

    def spins(self, bins: Flags) -> float:
        """SM activity of GPUs that wait for others in these bins: that of spinning kernels, or nothing."""
        return SPINNING if median(self.per_gpu("gr_engine_active", bins)[self.used]) >= BUSY else 0.0

    def lost_to(self, slow: tuple[int, ...] = (), values: Floats | None = None) -> float | None:
        """Which share (0-1) of their time GPUs wait for the busiest of each moment, or of all time where values are missing,
        by SM activity ``values`` [n used GPUs, n_columns]. As much would be saved for those that are ``slow``, which don't
        wait. None where SM activity was not measured: nothing else tells how long kernels spin."""
        if self.lead != "sm_active":
            return None
        values = np.where(self.comparable, self.activity, np.nan)[self.used] if values is None else values
        n, least, lost = int(self.used.sum()), self.spins(self.steady), 0.0
        for own in (values, self.gpu_means[self.used, None]):
            top = np.nanmax(own, axis=0, initial=0.0)
            at = top > 2 * least
            if at.any():
                lost = max(lost, float(np.mean((top[at] - over_gpus(own[:, at])) / (top[at] - least))))
        return lost * n / max(n - len(slow), 1)

    def seen_in(self, look: "Job", bins: Flags) -> Flags | Floats:
        """[n_bins]: what part (0-1) of the work that each bin lacks is lost in ``bins`` [n] of one of ``looks``. Glimpses
        stand for the whole: the same part of what is lost to waits in them is so everywhere."""
        if look is self:
            return bins
        if look.whole is None:
            return self.lost_in(look.evidence.times[bins], look.evidence.width)
        lost = look.waiting | bins
        return np.where(self.steady, bins.sum() / max(lost.sum(), 1), 0.0)

    def columns(self, seconds: float) -> Floats:
        """[n used GPUs, n_columns]: the leading metric in the steady part, in columns of at least ``seconds``, and of more
        where values are missing: of a step's samples some are high and some are low, and few of them tell little."""
        own = np.where(self.comparable, self.activity, np.nan)[self.used][:, self.steady]
        known = max(float(np.isfinite(own).mean()) if own.size else 1.0, _KNOWN)
        factor = max(1, int(np.ceil(seconds / self.evidence.width / known**2 - 1e-6)))
        n = own.shape[1] // factor
        parts = own[:, : n * factor].reshape(len(own) * n, factor)
        return over_gpus(parts.T).reshape(len(own), n)

    def around(self, bins: Flags) -> tuple[float, float]:
        """From the first to the last of these bins, within the window, unix s."""
        at = np.flatnonzero(bins)
        evidence = self.evidence
        if not len(at):
            return evidence.start, evidence.end
        begin, end = float(evidence.times[at[0]]), float(evidence.times[at[-1]]) + evidence.width
        return max(begin, evidence.start), min(end, evidence.end)


def level_of(values: Floats, working: float, idle: float) -> float:
    """``levels_of`` of values [n]."""
    return float(levels_of(values[None], working, idle)[0])


def levels_of(values: Floats, working: float, idle: float) -> Floats:
    """[n]: the median of each row's values [n, m] above ``working`` times their 95th percentile (numpy's linear one); NaN
    where that is not above ``idle``."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)  # NaN last
    n = np.isfinite(ordered).sum(axis=1)
    rows, last = np.arange(len(ordered)), np.maximum(n - 1, 0)
    position = _HIGH / 100 * last
    below = position.astype(np.int64)
    low, top = ordered[rows, below], ordered[rows, np.minimum(below + 1, last)]
    high = low + (position - below) * (top - low)
    high = np.where(high > idle, high, ordered[rows, last])
    n_low = (ordered < working * high[:, None]).sum(axis=1)
    middle = np.minimum(n_low, last) + last  # twice the place of the median of the others
    median = (ordered[rows, middle // 2] + ordered[rows, (middle + 1) // 2]) / 2
    return np.asarray(np.where((n > 0) & (high > idle), median, np.nan), np.float64)


def stretches(bins: Flags) -> list[tuple[int, int]]:
    """Runs of True in [n]: (first, end) of each, end exclusive."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], bins, [False])).astype(np.int8)))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def _holding(reached: Flags) -> Flags:
    """True where a bin of [n, m] is reached and so are two of the four after it."""
    ahead = np.concatenate((reached, np.zeros((len(reached), 4), bool)), axis=1)
    enough = np.lib.stride_tricks.sliding_window_view(ahead, 5, axis=1).sum(axis=2) >= min(3, reached.shape[1])
    return np.asarray(reached & enough, bool)


def positions(chosen: Flags) -> tuple[int, ...]:
    """Where it is True."""
    return tuple(np.flatnonzero(chosen).tolist())


def group(job: Job, which: tuple[int, ...]) -> dict[str, str]:
    """The words ``some`` and ``were`` for these GPUs."""
    return {"some": words.some(job.evidence.gpus, which), "were": words.were(which)}


def whole(job: Job) -> tuple[float, float]:
    """The window."""
    return job.evidence.start, job.evidence.end


def median(values: Floats) -> float:
    """Of what is not NaN; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def medians(values: Floats) -> Floats:
    """Of each column of values [rows, columns] (NaN or finite) the same."""
    ordered, n = np.sort(values, axis=0), np.isfinite(values).sum(axis=0)  # NaN comes last
    columns = np.arange(values.shape[1])
    middle = ordered[np.maximum(n - 1, 0) // 2, columns] + ordered[np.minimum(n // 2, len(values) - 1), columns]
    return np.asarray(np.where(n > 0, middle / 2, np.nan), np.float64)
