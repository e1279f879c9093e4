"""A job as the rules see it: the account of its GPU time, and what was measured while it worked."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.metrics import DETECTION_METRICS
from gssr.model.account.active_time import clock_at_work
from gssr.model.account.activity import AT_WORK, MOSTLY, WORKING_SHARE, does_something
from gssr.model.account.book import GpuTimeAccount, account_for
from gssr.model.account.compare_gpus import LONG_SAMPLES, are_read_together
from gssr.model.account.late_gpus import FEW_GPUS, LateGpus, find_late_gpus
from gssr.model.account.quiet_kernels import SAME_CLOCK
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.breakdown.result import Breakdown, positions_of
from gssr.model.evidence.evidence import Evidence, over_gpus
from gssr.model.evidence.gather import MOVED
from gssr.model.verdicts import words
from gssr.model.verdicts.table import REGISTERED, RuleTable

FEWEST_FOR_CAUSES = 64
"""A rate counts as correlated with idle time from CERTAIN / sqrt(n) on (gssr.model.account.compare_gpus): with fewer than 64
samples from 0.5 on, which causes that are mixed with others seldom reach. Then chance decides which cause is seen."""
_STOPPED = 0.35
"""GPUs have stopped working where less than this share of the usual work is done: the rest of a bin in which they stop."""
_SPINNING_POWER = 0.5
"""GPUs whose kernels only wait for others draw less than this share of what they draw at work (simulated: 0.25 to 0.4)."""
_QUIET_BYTES = 5e7
"""A node that moves more than this (B/s) after the last work is still reading or writing: it does not hang."""
_ENDED_BADLY = ("running", "lost", "failed", "killed", "timeout")


def has_few_samples(seconds: float, interval: float) -> bool:
    """Tell whether a window of this many seconds, sampled every ``interval`` s, holds fewer than FEWEST_FOR_CAUSES samples
    of a GPU. False of samples further apart than LONG_SAMPLES, of which causes are a guess however many there are."""
    return interval <= LONG_SAMPLES and seconds < FEWEST_FOR_CAUSES * interval


@dataclass(frozen=True)
class JobEvidence:
    """The evidence with what several rules need, each computed once and only when it is asked for. Arrays over time are
    [n_bins], over GPUs [n_gpus]; NaN is unknown."""

    evidence: Evidence
    table: RuleTable

    @cached_property
    def account(self) -> GpuTimeAccount:
        """The account of the GPU time: each second of each GPU booked into one category."""
        return account_for(self.evidence)

    @property
    def breakdown(self) -> Breakdown:
        """The breakdown of the GPU time into categories."""
        return self.account.breakdown

    @cached_property
    def lead(self) -> str | None:
        """The best of the metrics that tell work from waiting, of those that were measured; None without any."""
        return next((name for name in DETECTION_METRICS if self.evidence.has(name)), None)

    @cached_property
    def known(self) -> Flags:
        """Flags the GPUs that have samples [n_gpus]."""
        return np.asarray(self.account.activity.is_known.any(axis=1), bool)

    @property
    def used(self) -> Flags:
        """Flags the GPUs that did something [n_gpus]."""
        return self.account.activity.is_used

    def did_something(self, which: tuple[int, ...], since: float = -np.inf) -> bool:
        """Tell whether any of these GPUs (positions) ran kernels in a bin that begins at ``since`` (unix s) or later."""
        active = self.account.activity.active[list(which)][:, self.breakdown.times >= since]
        return bool(does_something(active).any())

    @cached_property
    def steady(self) -> Flags:
        """Flags the bins [n_bins] from the first work of any GPU to the last; all of them where none works."""
        activity = self.account.activity
        return ~(activity.is_startup | activity.is_end)

    @cached_property
    def span(self) -> tuple[float, float]:
        """The time in which the job works, (start, end) in unix s: without what is before its work begins and after it
        ends. All of the evidence's time if there is nothing else."""
        at = np.flatnonzero(self.steady)
        if not len(at):
            return self.evidence.start, self.evidence.end
        times, width = self.breakdown.times, self.breakdown.width
        return max(float(times[at[0]]), self.evidence.start), min(float(times[at[-1]]) + width, self.evidence.end)

    @cached_property
    def last_work(self) -> float:
        """The time at which GPUs last computed, unix s; the window's start if they never did."""
        works = self.breakdown.share_over_time("working") * ~self.spins_by_power
        usual = float(np.percentile(works, AT_WORK)) if len(works) else 0.0
        does = works >= max(_STOPPED * usual, 0.02)
        does[1:] &= does[:-1]  # a single bin may be the first values of counters that were blank before
        at = np.flatnonzero(does)
        return float(self.breakdown.times[at[-1]]) + self.breakdown.width if len(at) else self.evidence.start

    @cached_property
    def spins_by_power(self) -> Flags:
        """Flags the bins [n_bins] in which the GPUs draw so little power that their kernels do no work. All False where
        SM activity was measured, which tells more, or power was not."""
        power = self.in_time("power_usage")
        if self.evidence.has("sm_active") or not np.isfinite(power).any():
            return np.zeros(len(power), bool)
        return np.asarray(np.nan_to_num(power, nan=np.inf) < _SPINNING_POWER * np.nanpercentile(power, AT_WORK), bool)

    @cached_property
    def is_hanging(self) -> bool:
        """True if a job that did not complete has stopped working, and moves no data either."""
        if self.evidence.state not in _ENDED_BADLY or not self.used.any():
            return False
        late = self.breakdown.times >= self.last_work
        works = np.nan_to_num(self.account.working * ~self.spins_by_power)[self.used][:, late]
        if late.any() and (works.mean(axis=1) >= _STOPPED).any():
            return False  # a GPU works on alone; one that was lost does not
        moved = [self.evidence.host[name][late] for name in MOVED if name in self.evidence.host]
        rates = np.array([np.nanmedian(each) for each in moved if np.isfinite(each).any()])
        return bool(late.any() and rates.sum() < _QUIET_BYTES)

    @cached_property
    def at_work_cells(self) -> Flags:
        """Flags the bins [n_gpus, n_bins] in which a used GPU is at work."""
        activity = self.account.activity
        active = np.where(activity.is_known & self.steady, activity.active, 0.0)
        busiest = (
            np.percentile(active, AT_WORK, axis=1, keepdims=True) if active.shape[1] else np.zeros((len(active), 1))
        )
        return np.asarray((active >= WORKING_SHARE * busiest) & (active > 0) & self.used[:, None], bool)

    @cached_property
    def late_gpus(self) -> LateGpus | None:
        """The GPUs that the others wait for; None where nobody waits, or nothing tells, and of some GPUs of a job, which may
        wait for any of the others. Where the account shows no GPU, the few that run at lower clocks are taken for those
        waited for (inferred)."""
        if self.evidence.of_job is not None:
            return None
        found = find_late_gpus(self.account, self.evidence.node_of, are_read_together(self.evidence))
        if (found is None or not found.gpus) and 0 < len(self.slowed_gpus) <= FEW_GPUS * self.used.sum():
            share = self.breakdown.share("idle.imbalance") + self.breakdown.share("communication.waiting")
            return LateGpus("straggler", tuple(sorted(self.slowed_gpus)), share)
        return found

    @cached_property
    def is_late_for_files(self) -> bool:
        """True if the GPUs that are waited for idle meanwhile for files or the network, longer than the others do."""
        late = self.late_gpus
        if late is None or not late.gpus:
            return False
        waits = self.breakdown.shares_by_gpu[:, POSITIONS["idle.input_output"]]
        others = self.used & ~np.isin(np.arange(len(waits)), late.gpus)
        longer = waits[list(late.gpus)].mean() - (waits[others].mean() if others.any() else 0.0)
        return bool(longer >= MOSTLY * late.share)

    @cached_property
    def clocks_at_work(self) -> Floats:
        """The mean SM clock of each GPU while it works, MHz [n_gpus]; NaN where it is unknown."""
        clocks = clock_at_work(self.evidence, self.account.activity)
        if clocks is None:
            return np.full(self.evidence.n_gpus, np.nan)
        return over_gpus(np.where(self.at_work_cells, clocks, np.nan).T)

    @cached_property
    def relative_clocks(self) -> Floats:
        """``clocks_at_work`` as shares of the median GPU's of the same model [n_gpus], because what another model does at
        its clock can't be compared; NaN where unknown."""
        models, model_of = np.unique([gpu.name or "" for gpu in self.evidence.gpus], return_inverse=True)
        usual = np.array([median(self.clocks_at_work[model_of == model]) for model in range(len(models))])[model_of]
        pace = np.divide(self.clocks_at_work, usual, out=np.full(len(usual), np.nan), where=usual > 0)
        return np.asarray(pace, np.float64)

    @cached_property
    def slowed_gpus(self) -> set[int]:
        """Positions of the GPUs whose clocks, at work, are clearly lower than the median GPU's of the same model."""
        return set(np.flatnonzero(self.relative_clocks < SAME_CLOCK).tolist())

    @cached_property
    def waits_by_gpu(self) -> Floats:
        """The share of its time that each used GPU waits for others [n_gpus]; NaN for unused ones."""
        at = [position for name in ("idle.imbalance", "communication.waiting") for position in positions_of(name)]
        return np.where(self.used, self.breakdown.shares_by_gpu[:, at].sum(axis=1), np.nan)

    def over(self, metric: str, bins: Flags) -> float | None:
        """Average a metric over the used GPUs and these bins (flags [n_bins]); None without samples."""
        if metric not in self.evidence.series:
            return None
        cells = self.evidence.series[metric][np.ix_(self.used, bins)]
        known = np.isfinite(cells)
        return float(cells[known].mean(dtype=np.float64)) if known.any() else None

    def at_work(self, metric: str) -> float:
        """Average a metric over ``at_work_cells``; NaN without samples."""
        if metric not in self.evidence.series:
            return np.nan
        cells = self.evidence.series[metric][self.at_work_cells]
        known = np.isfinite(cells)
        return float(cells[known].mean(dtype=np.float64)) if known.any() else np.nan

    def per_gpu_at_work(self, metric: str) -> Floats:
        """Average a metric over each GPU's ``at_work_cells`` [n_gpus]; NaN without samples."""
        if metric not in self.evidence.series:
            return np.full(self.evidence.n_gpus, np.nan)
        return over_gpus(np.where(self.at_work_cells, self.evidence.series[metric], np.nan).T)

    def in_time(self, metric: str) -> Floats:
        """Average a metric over the used GPUs, bin by bin [n_bins]; NaN where there are no samples."""
        if metric not in self.evidence.series or not self.used.any():
            return np.full(len(self.evidence.times), np.nan)
        return over_gpus(self.evidence.series[metric][self.used])


def holds(job: JobEvidence, code: str) -> bool:
    """Tell whether the rule named ``code``, which says more, matches this job too. False if the table does not have it,
    or if one of the metrics that it needs was not measured on GPUs: so always for rules that need columns of the host or
    the workload."""
    rule = next((rule for rule in job.table.rules if rule.code == code), None)
    if rule is None or not all(any(job.evidence.has(name) for name in group) for group in rule.needs):
        return False
    return REGISTERED[code][1](job, rule) is not None


def stretches(bins: Flags) -> list[tuple[int, int]]:
    """Find runs of True in [n]: (first, end) of each, end exclusive."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], bins, [False])).astype(np.int8)))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def kendall(values: Floats) -> float:
    """Compute Kendall's rank correlation of values [n] with their order: -1 where each is lower than the one before; 0
    of fewer than two."""
    n = len(values)
    signs = np.sign(values[None, :] - values[:, None])
    return float(np.triu(signs, 1).sum() / (n * (n - 1) / 2)) if n > 1 else 0.0


def positions(chosen: Flags) -> tuple[int, ...]:
    """Return the indices at which ``chosen`` [n] is True, ascending."""
    return tuple(np.flatnonzero(chosen).tolist())


def group(job: JobEvidence, which: tuple[int, ...]) -> dict[str, str]:
    """Return the words ``some`` and ``were`` with which a title names the GPUs at these positions."""
    return {"some": words.some(job.evidence.gpus, which), "were": words.were(which)}


def whole(job: JobEvidence) -> tuple[float, float]:
    """Return begin and end of the window, unix s."""
    return job.evidence.start, job.evidence.end


def finite(values: Floats) -> Floats:
    """Return those of the values [n] that are neither NaN nor infinite."""
    return np.asarray(values[np.isfinite(values)], np.float64)


def median(values: Floats) -> float:
    """Compute the median of what is not NaN; NaN where nothing is."""
    known = finite(values)
    return float(np.median(known)) if len(known) else np.nan
