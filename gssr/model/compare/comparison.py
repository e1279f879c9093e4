"""Two runs against each other: what changed, and whether it is more than noise.

The yardstick of noise. Of a metric, and of the score in the same way, let x and y be the time means of a run's and another's
GPUs, and d the ten differences between the two runs' space averages, tenth by tenth of each run. Then

    noise = 2 sqrt(g^2 + t^2),   t = std(d) / sqrt(10)

that is two standard errors of the difference of the runs' means: ``t`` for the spread over time, from batch means that are
paired, so that a start-up that both runs have is no noise; ``g`` for the spread between GPUs, by the median absolute
deviation in place of the standard deviation so that a straggler is no noise. Where n GPUs of the one run stand for n of the
other (gssr.model.compare.pairs), what differs between them is no noise either, nor is a change by the same share of all:

    g = f(n) 1.4826 MAD(y - x - r (x + y)) / sqrt(n),   r = sum(y - x) / sum(x + y)

with f(n) against the chance of few. Else, and where it is less and there are fewer pairs than ENOUGH_PAIRS,
g^2 = g_A^2 + g_B^2, each 1.4826 MAD / sqrt(n GPUs) of a run's own means.
Differences of less than LEAST_SHARE of the first run's value, or LEAST_POINTS of the full scale, count as noise in any case.

The noise of a category's share of the GPU time is ``2 t`` and the errors of both shares. These say how far each share
differs if half of a run is judged by itself: the spread over time can't know that all of a run's waits were given another
cause by chance. Start-up, end and time not measured come once in a run, so tenths say nothing of how they vary: see
ONCE_A_RUN.

Sources: Rousseeuw and Croux, Alternatives to the Median Absolute Deviation (1993), for 1.4826; Law, Simulation Modeling and
Analysis, 5th ed. (2015), 9.5.3 and 10.2.1, for batch means and paired differences; Cochran, Sampling Techniques, 3rd ed.
(1977), chapter 6, for the spread about a ratio. The least differences, f and the choice of tenths are our own. What varies
from run to run only, such as the nodes that a job gets, no two runs can tell.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME, DETECTION_METRICS, SCORE_INPUTS
from gssr.model.analyze import Options, analyze
from gssr.model.breakdown.categories import CATEGORIES, TimeCategory
from gssr.model.breakdown.result import Breakdown
from gssr.model.compare.compared_metrics import METRICS, measured_metrics
from gssr.model.compare.pairs import By, pairs
from gssr.model.evidence.evidence import over_gpus
from gssr.model.results import SEVERITIES, Analysis, AnalysisWindow, Grid, Kind, Phase, Series, Verdict
from gssr.model.statistics.balance import full_scale, imbalance
from gssr.model.verdicts.job import FEWEST_FOR_CAUSES, has_few_samples
from gssr.model.verdicts.table import RuleTable
from gssr.score import score_of_means
from gssr.store.format.rows import RunRow
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

Outcome = Literal["better", "worse", "higher", "lower", "within noise", "unknown"]
Turn = Literal["milder", "worse", "same"]


BETTER: Mapping[str, int] = {
    "score": 1, "imbalance": -1, "duration_s": -1, "gpu_hours": -1, "energy_j": -1, "sm_active": 1, "sm_occupancy": 1,
    "flop_active": 1, "gr_engine_active": 1, "gpu_utilization": 1,
}  # fmt: skip
"""Where more is better (1) and where less is (-1). Of everything else it depends on the job."""
TENTHS, FEWEST_TENTHS = 10, 5
LEAST_SHARE, LEAST_POINTS = 0.01, 0.005
LEAST_TOTAL_SHARE = 0.02
LEAST_CHANGE_OF_USE = 0.02
"""Two runs differ in how they use their GPUs from so much of the score, or of the full scale of the best metric of use, on
(a threshold of our own)."""
LEAST_TOLD = 0.01
"""Of a verdict that both runs have: a cost that differs by less of the GPUs' time is the same, as most shares are told in
whole percent; and so is any other number that differs by less than this share of the first (limits of our own)."""
ONE_A_RUN = ("duration_s", "gpu_hours", "energy_j")
"""Each is one number of a run, and nothing in it says how far it varies: LEAST_TOTAL_SHARE of it is its noise."""
BESIDE_WORK = ("startup", "end")
"""The job holds its GPUs before and after its work, too."""
ONCE_A_RUN = (*BESIDE_WORK, "unmeasured")
EDGE_SECONDS = 1.0
"""Each of ONCE_A_RUN may differ by as much in two runs of a job: on a busy machine sampling begins up to a second sooner or
later after the command. Or by GAP_INTERVALS samples, if that is longer: shorter holes are none. A limit of our own."""
_MAD_TO_STD = 1.4826
_OF_FEW: Mapping[int, float] = {2: 6.6, 3: 9.9, 4: 3.0, 5: 2.8, 6: 2.0, 7: 1.9, 8: 1.65, 9: 1.6}
"""The median absolute deviation of a few numbers is often much too small. Times this, or 1 + 4 / n of more, two standard
errors from it are exceeded by the means of normal numbers once in 22 times, as those of many are (by our own simulation)."""
ENOUGH_PAIRS = 4
"""Fewer say so little of their own spread that noise is at most what it is without pairs (a limit of our own)."""
_BINS = 240
_BALANCED = "sm_active"

KINDS: tuple[Kind, ...] = ("start-up", "steady", "recurring", "idle", "tail")


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One number of both runs, ``a`` and ``b``, in its stored unit; None where unknown. ``difference`` = b - a, ``relative``
    = difference / a (None where a is 0); ``noise``: differences up to this say nothing, None where it can't be known.
    ``outcome`` is b's, compared with a."""

    name: str
    a: float | None
    b: float | None
    difference: float | None
    relative: float | None
    noise: float | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class CategoryChange:
    """The shares (0-1) of the GPU time that a category has in both runs. ``error``: differences up to this say nothing, None
    where it can't be known."""

    category: TimeCategory
    before: float
    after: float
    error: float | None

    @property
    def change(self) -> float:
        """The difference of the shares, after less before: negative where the category has shrunk."""
        return self.after - self.before

    @property
    def is_certain(self) -> bool:
        """True if the share changed by more than its error, and by enough to be worth a word."""
        return self.error is not None and abs(self.change) > max(self.error, LEAST_TOLD)

    @property
    def is_no_work(self) -> bool:
        """True for what GPU time is better not spent on: losses, and the time before and after the work."""
        return self.category.is_loss or self.category.name in BESIDE_WORK

    def outcome(self, use: int) -> Outcome:
        """Judge the change: less time without work is better, unless ``use`` (``change_of_use``) says the opposite."""
        if self.error is None:
            return "unknown"
        if not self.is_certain:
            return "within noise"
        return outcome_of_change(self.change, -1 if self.is_no_work else 0, use)

    @property
    def figure(self) -> FigureChange:
        """The same change as that of a number of both runs, by which conditions judge."""
        noise = None if self.error is None else max(self.error, LEAST_TOLD)
        outcome: Outcome = "unknown" if noise is None else "within noise"
        if self.is_certain:
            outcome = "higher" if self.change > 0 else "lower"
        relative = self.change / self.before if self.before else None
        return FigureChange(self.category.name, self.before, self.after, self.change, relative, noise, outcome)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``b`` compared with ``a``. ``totals``: the score, the imbalance of SM activity, duration, GPU-hours and energy, in the
    order of BETTER; ``metrics``: those that either run has samples of, in the order of METRICS.
    ``phases``: by kind, those of a and those of b. Verdicts are told apart by their codes: ``gained`` b alone
    has, ``lost`` a alone, ``kept`` both (as b has them, and in ``kept_before`` as a has them). ``notes`` say in what else
    the two differ. ``paired_by``: what told which GPU of a is compared with which of b, None where there are no pairs.
    ``breakdown``: how the shares of the GPU time changed, a change for each category; empty where a run has none.
    ``use``: whether b uses its GPUs more than a (``change_of_use``)."""

    a: Analysis
    b: Analysis
    totals: dict[str, FigureChange]
    metrics: dict[str, FigureChange]
    phases: dict[Kind, tuple[list[Phase], list[Phase]]]
    gained: tuple[Verdict, ...]
    lost: tuple[Verdict, ...]
    kept: tuple[Verdict, ...]
    notes: tuple[str, ...]
    paired_by: By | None
    kept_before: tuple[Verdict, ...]
    breakdown: tuple[CategoryChange, ...] = ()
    use: int = 0

    @property
    def score(self) -> FigureChange:
        """The change of the score."""
        return self.totals["score"]

    def change_of(self, name: str) -> FigureChange | None:
        """Return the change of a total, of a metric, or of the share of a category of the GPU time ("idle.copies"); None
        if it is not known of both runs."""
        shares = (each.figure for each in self.breakdown if each.category.name == name)
        return self.totals.get(name) or self.metrics.get(name) or next(shares, None)


OPTIONS = Options(series=tuple(dict.fromkeys((*METRICS, *SCORE_INPUTS))), bins=_BINS)
"""What to ask gssr.model.analyze for, of runs that are to be compared."""


def compare(a: Analysis, b: Analysis, letter: str = "B") -> Comparison:
    """Compare run ``b`` with run ``a``, both analysed with OPTIONS: scores, metrics, phases, verdicts and the breakdown of
    the GPU time. The result's notes call them A and ``letter``."""
    means = [{name: own.mean for name, own in run.metrics.items()} for run in (a, b)]
    use = change_of_use((a.score, b.score), means[0], means[1])
    of_a, of_b = a.judgement.verdicts, b.judgement.verdicts
    codes = [{verdict.code for verdict in verdicts} for verdicts in (of_a, of_b)]
    by, partners = pairs(a.gpus, b.gpus) or (None, None)
    kept = tuple(verdict for verdict in of_b if verdict.code in codes[0])
    before = {verdict.code: verdict for verdict in of_a}
    return Comparison(
        a=a,
        b=b,
        totals=_totals(a, b, partners, use),
        metrics={name: _compare_metric(name, a, b, partners) for name in measured_metrics(*means)},
        phases=_phases(a, b),
        gained=tuple(verdict for verdict in of_b if verdict.code not in codes[0] and _is_comparable(verdict, a, b)),
        lost=tuple(verdict for verdict in of_a if verdict.code not in codes[1] and _is_comparable(verdict, a, b)),
        kept=kept,
        notes=tuple(_notes(a, b, letter)),
        paired_by=by,
        kept_before=tuple(before[verdict.code] for verdict in kept),
        breakdown=category_changes(a.judgement.breakdown, b.judgement.breakdown),
        use=use,
    )


def _is_comparable(verdict: Verdict, a: Analysis, b: Analysis) -> bool:
    """Tell whether it says anything that only one of two runs has a verdict: not if it is about lost time and either run has
    too few samples to be sure of its cause."""
    return verdict.lost is None or not any(_has_few_samples(run) for run in (a, b))


def _has_few_samples(run: Analysis) -> bool:
    """Tell whether a run has too few samples to be sure of the causes of lost time; False if its interval is unknown."""
    return bool(run.run.sampling_ms) and has_few_samples(run.window.duration, (run.run.sampling_ms or 0.0) / 1000)


def change_of_use(
    scores: Sequence[float | None], means: Mapping[str, float | None], other_means: Mapping[str, float | None]
) -> int:
    """Tell whether the second run uses its GPUs clearly more than the first (1), clearly less (-1), or neither or nobody
    knows (0): by the ``scores`` of both, or without one by the best metric of use of which both have a mean.

    A run whose GPUs do less is not better for taking less time, energy or idle time.
    """
    used = list(scores)
    if None in used:
        of_both = (name for name in DETECTION_METRICS if None not in (means.get(name), other_means.get(name)))
        best = next(of_both, "")
        used = [means.get(best), other_means.get(best)]
    a, b = used
    if a is None or b is None or abs(b - a) <= LEAST_CHANGE_OF_USE:
        return 0
    return 1 if b > a else -1


def is_same_job(a: RunRow, b: RunRow) -> bool:
    """Tell whether both are runs of the same command with the same label: only then a score says which is better."""
    return (a.command, a.label) == (b.command, b.label)


def outcome_of_change(difference: float, better: int, use: int) -> Outcome:
    """Judge a change that is more than noise: "better" or "worse" if more of the number is ``better`` (1) or worse (-1),
    "higher" or "lower" if neither (0), or if the ``use`` of the GPUs (``change_of_use``) says the opposite."""
    sign = better * (1 if difference > 0 else -1)
    if not sign or sign == -use:
        return "higher" if difference > 0 else "lower"
    return "better" if sign > 0 else "worse"


def category_changes(before: Breakdown | None, after: Breakdown | None) -> tuple[CategoryChange, ...]:
    """Compare the share of the GPU time that each category has in two runs. Returns a change for each category, in their
    order; () if either run has no samples."""
    if before is None or after is None or not (before.gpu_seconds > 0 and after.gpu_seconds > 0):
        return ()
    tenths = [_tenths_of_categories(each) for each in (before, after)]
    found = []
    for at, category in enumerate(CATEGORIES):
        along = _along(tenths[0][:, at], tenths[1][:, at])
        error = None if along is None else 2.0 * math.sqrt(along) + float(np.nan_to_num(before.error + after.error)[at])
        if category.name in ONCE_A_RUN:
            error = max(max(EDGE_SECONDS, GAP_INTERVALS * run.resolution) / _length(run) for run in (before, after))
        found.append(CategoryChange(category, float(before.shares[at]), float(after.shares[at]), error))
    return tuple(found)


def _length(breakdown: Breakdown) -> float:
    """Return how many seconds the bins of a breakdown last."""
    return len(breakdown.times) * breakdown.width


def _tenths_of_categories(breakdown: Breakdown) -> Floats:
    """Return the share of each category in each tenth of the breakdown's bins [10, n_categories], NaN in a tenth without
    one."""
    start, length = float(breakdown.times[0]), _length(breakdown)
    tenth = _tenth_of(
        start, breakdown.width, len(breakdown.times), AnalysisWindow(start, start + length, 0.0, 0.0, True)
    )
    seconds = np.zeros((TENTHS, len(CATEGORIES)))
    np.add.at(seconds, tenth, breakdown.over_time)
    total = seconds.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(seconds, total, out=np.full(seconds.shape, np.nan), where=total > 0), np.float64)


def turned(before: Verdict, now: Verdict) -> Turn:
    """Compare what a verdict that both runs have costs, as a share of the GPUs' time. Returns "worse", "milder" or "same".

    If that is unknown, it is judged by the first number that both held against the same threshold, as far as it is beyond
    that; else by its severity.
    """
    costs = (before.lost, now.lost)
    if costs[0] is not None and costs[1] is not None:
        return _turn(costs[1] - costs[0], LEAST_TOLD)
    held = {(each.metric, each.threshold): each.value for each in before.evidence}
    for each in now.evidence:
        value = held.get((each.metric, each.threshold))
        if value is not None and each.threshold is not None:
            return _turn(abs(each.value - each.threshold) - abs(value - each.threshold), LEAST_TOLD * abs(value))
    return _turn(SEVERITIES.index(before.severity) - SEVERITIES.index(now.severity), 0)


def _turn(more: float, least: float) -> Turn:
    """Say how a cost has changed that grew by ``more``: not at all ("same") if it is no more than ``least`` either way."""
    return "worse" if more > least else "milder" if more < -least else "same"


def analyze_to_compare(reader: RunReader, rules: RuleTable, window: Window = ALL_TIME) -> Analysis:
    """Analyse a window of a run, by default all of it, for ``compare``: by OPTIONS and ``rules``, without what no comparison
    looks at, most series of single GPUs, and who is like whom. Raises ValueError if the run has nothing in the window."""
    edges = (edge if math.isfinite(edge) else None for edge in window)
    start, end = edges
    analysis = analyze(reader, replace(OPTIONS, rules=rules, start=start, end=end))
    kept = {name: own for name, own in analysis.gpu_series.items() if name == _BALANCED}
    return replace(analysis, gpu_series=kept, judgement=replace(analysis.judgement, unevenness=None))


def judged(name: str, a: float | None, b: float | None, noise: float | None, use: int = 0) -> FigureChange:
    """Compare a number of two runs (``a``, ``b``; None: unknown). The outcome is "within noise" up to a difference of
    ``noise``; beyond it as ``outcome_of_change`` says, by BETTER and ``use``; "unknown" if a value or the noise is
    None."""
    if a is None or b is None:
        return FigureChange(name, a, b, None, None, noise, "unknown")
    difference = b - a
    outcome: Outcome = "unknown"
    if noise is not None and abs(difference) <= noise:
        outcome = "within noise"
    elif noise is not None:
        outcome = outcome_of_change(difference, BETTER.get(name, 0), use)
    return FigureChange(name, a, b, difference, difference / a if a else None, noise, outcome)


def _totals(a: Analysis, b: Analysis, partners: list[int] | None, use: int) -> dict[str, FigureChange]:
    """Compare score, imbalance, duration, GPU-hours and energy, by name.

    ``partners`` [n of a]: the position in b of the GPU that belongs to each of a, None if they can't be paired. ``use``: see
    ``change_of_use``. The last three are only judged of whole runs that ended in the same way. The score of another job
    (``is_same_job``) is only higher or lower.
    """
    one, other = (_array(gpu.score for gpu in run.gpus) for run in (a, b))
    between = _between(one, other, partners)
    noise = _joined(between, _tenths_of_score(a, b))
    codes = {run.run.exit_code for run in (a, b)}
    if a.state == "completed":
        codes.discard(None)  # of what was not started here: that it completed is enough
    both_ended = a.state == b.state and len(codes) < 2 and a.state not in ("running", "lost")
    are_whole = a.window.whole and b.window.whole
    score = judged("score", a.score, b.score, None if noise is None else max(noise, LEAST_POINTS))
    if score.outcome in ("better", "worse") and not is_same_job(a.run, b.run):
        score = replace(score, outcome="higher" if score.outcome == "better" else "lower")
    found = {
        "score": score,
        "imbalance": judged("imbalance", a.imbalance, b.imbalance, _noise_of_imbalance(a, b), use),
    }
    values = {
        "duration_s": (a.window.duration, b.window.duration),
        "gpu_hours": (a.gpu_hours, b.gpu_hours),
        "energy_j": (a.energy_j, b.energy_j),
    }
    for name, (first, second) in values.items():
        least = LEAST_TOTAL_SHARE * abs(first) if first is not None and both_ended and are_whole else None
        found[name] = judged(name, first, second, least, use)
    return found


def _compare_metric(name: str, a: Analysis, b: Analysis, partners: list[int] | None) -> FigureChange:
    """Compare the means of a metric in both runs. ``partners``: as of ``_totals``."""
    runs = (a, b)
    means = [run.metrics[name].mean if name in run.metrics else None for run in runs]
    one, other = (_array(gpu.mean.get(name) for gpu in run.gpus) for run in runs)
    between = _between(one, other, partners)
    along = _along(*(_tenths(run.series.get(name), run.window) for run in runs))
    noise = _joined(between, along)
    if noise is not None:
        full = max((full_scale(BY_NAME[name], run.gpus) or 0.0 for run in runs), default=0.0)
        noise = max(noise, LEAST_SHARE * abs(means[0] or 0.0), LEAST_POINTS * full)
    return judged(name, means[0], means[1], noise)


def _array(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _between(one: Floats, other: Floats, partners: list[int] | None) -> list[float | None]:
    """Return the variances that the GPUs' means [n] of both runs add to the noise; None for a run with fewer than two.

    If GPUs are paired and each has a mean in both runs or in none, there is one, of the differences; else one for each
    run. Of fewer pairs than ENOUGH_PAIRS the lesser of the two counts.
    """
    alone = [_spread(one), _spread(other)]
    if partners is None:
        return alone
    other = other[partners]
    known = np.isfinite(one)
    n = int(known.sum())
    if n < 2 or not np.array_equal(known, np.isfinite(other)):
        return alone
    apart, level = (other - one)[known], (one + other)[known]
    common = apart.sum() / level.sum() if level.sum() > 0 else 0.0
    together = [_spread(apart - common * level, _OF_FEW.get(n, 1 + 4 / n))]
    return min(together, alone, key=lambda each: sum(filter(None, each))) if n < ENOUGH_PAIRS else together


def _spread(values: Floats, factor: float = 1.0) -> float | None:
    """Return the variance of the mean of values [n], one for each GPU, from ``factor`` times the spread between them;
    None for fewer than two."""
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return None
    std = factor * _MAD_TO_STD * float(np.median(np.abs(values - np.median(values))))
    return std**2 / len(values)


def _along(one: Floats, other: Floats) -> float | None:
    """Return the variance of the mean of the differences between two runs' tenths [10]; None if fewer than
    FEWEST_TENTHS are known."""
    apart = other - one
    apart = apart[np.isfinite(apart)]
    return float(np.var(apart, ddof=1)) / len(apart) if len(apart) >= FEWEST_TENTHS else None


def _joined(between: Sequence[float | None], along: float | None) -> float | None:
    """Compute two standard errors of the difference between two runs. ``between``: the variances that come of the GPUs
    of each run, None for a run with a single GPU; ``along``: the variance over time, None if unknown. Returns None if
    ``along`` is None and any of ``between`` is, as that is too little to go by."""
    known = [variance for variance in between if variance is not None]
    if along is None and len(known) < len(between):
        return None
    return 2.0 * math.sqrt(sum(known) + (along or 0.0))


def _tenth_of(start: float, width: float, n: int, window: AnalysisWindow) -> Ints:
    """Return which tenth of the window (0-9) each of ``n`` bins is in by its middle [n]; bins of ``width`` s from
    ``start`` (unix s)."""
    middle = start + width * (np.arange(n) + 0.5) - window.start
    return np.clip((TENTHS * middle / max(window.duration, 1e-9)).astype(np.int64), 0, TENTHS - 1)


def _tenths(series: Series | None, window: AnalysisWindow) -> Floats:
    """Return the mean of a series in each tenth of the window [10], NaN without samples or series (None). Each GPU
    with a value counts alike."""
    if series is None:
        return np.full(TENTHS, np.nan)
    tenth = _tenth_of(series.start, series.width, len(series.mean), window)
    weights = np.where(np.isfinite(series.mean), series.n_gpus, 0)
    values = np.nan_to_num(series.mean) * weights
    n = np.bincount(tenth, weights, TENTHS)
    found: Floats = np.divide(np.bincount(tenth, values, TENTHS), n, out=np.full(TENTHS, np.nan), where=n > 0)
    return found


def _tenths_of_score(a: Analysis, b: Analysis) -> float | None:
    """Compute the score of both runs in each tenth of their windows, and return the variance of the mean of the
    differences; None if it is known in fewer than FEWEST_TENTHS tenths of both."""
    scores = []
    for run in (a, b):
        inputs = {name: _tenths(run.series.get(name), run.window) for name in SCORE_INPUTS}
        found = [score_of_means({name: float(own[at]) for name, own in inputs.items()}) for at in range(TENTHS)]
        scores.append(np.array([np.nan if score is None else score for score in found]))
    return _along(scores[0], scores[1])


def _noise_of_imbalance(a: Analysis, b: Analysis) -> float | None:
    """Return the noise of the imbalance, from that of both runs in their tenths; None if too few tenths are known."""
    found = [_imbalances(run.gpu_series.get(_BALANCED), run.window) for run in (a, b)]
    noise = _joined([None], _along(found[0], found[1]))
    return None if noise is None else max(noise, LEAST_SHARE)


def _imbalances(series: Grid | None, window: AnalysisWindow) -> Floats:
    """Return the imbalance of the GPUs in each tenth of the window [10], NaN if it is unknown; all NaN without a
    series or with one GPU."""
    found = np.full(TENTHS, np.nan)
    if series is None or len(series.values) < 2:
        return found
    tenth = _tenth_of(series.start, series.width, series.values.shape[1], window)
    for at in range(TENTHS):
        own = series.values[:, tenth == at]
        value = imbalance(over_gpus(own.T))
        found[at] = np.nan if value is None else value
    return found


def _phases(a: Analysis, b: Analysis) -> dict[Kind, tuple[list[Phase], list[Phase]]]:
    """Sort both runs' phases by kind: (of a, of b). Kinds that neither has are left out."""
    found: dict[Kind, tuple[list[Phase], list[Phase]]] = {kind: ([], []) for kind in KINDS}
    for at, run in enumerate((a, b)):
        for phase in run.judgement.phases:
            found[phase.kind][at].append(phase)
    return {kind: pair for kind, pair in found.items() if any(pair)}


def score_of_phases(phases: Sequence[Phase]) -> float | None:
    """Score some phases, at least one, together: the score of several is that of their mean inputs by time. None if it
    is unknown."""

    def mean(name: str) -> float | None:
        """Return the mean of a metric over the phases, weighted by their time; None where it is known of none."""
        values = ((phase.means.get(name), phase.seconds) for phase in phases)
        known = [(value, length) for value, length in values if value is not None]
        whole = sum(length for _, length in known)
        return sum(value * length for value, length in known) / whole if whole > 0 else None

    return phases[0].score if len(phases) == 1 else score_of_means({name: mean(name) for name in SCORE_INPUTS})


_SAME: tuple[tuple[str, Callable[[Analysis], object]], ...] = (
    ("GPU model", lambda run: ", ".join(sorted({gpu.name or "unknown" for gpu in run.gpus})) or "none"),
    ("number of GPUs", lambda run: len(run.gpus)),
    ("number of nodes", lambda run: run.n_nodes),
    ("backend", lambda run: run.backend or "none"),
    ("sampling interval", lambda run: "unknown" if run.run.sampling_ms is None else f"{run.run.sampling_ms:g} ms"),
    ("exit code", lambda run: "none" if run.run.exit_code is None else run.run.exit_code),
)
"""What should be the same of runs that are compared, and is worth a word where it isn't."""


def _notes(a: Analysis, b: Analysis, letter: str) -> list[str]:
    """List sentences on what is not the same in both runs and makes them hard to compare; empty if nothing is."""
    found = [f"not the same {name}: {of(a)} in A, {of(b)} in {letter}" for name, of in _SAME if of(a) != of(b)]
    if a.run.sampling_ms != b.run.sampling_ms:
        found.append(
            "samples at other intervals may see more or less of short events: record both runs at one interval"
        )
    if a.run.command != b.run.command:
        found.append(
            f"not the same command in A and {letter}: durations, GPU-hours and energy compare only if both did the same work"
        )
    if any(_has_few_samples(run) for run in (a, b)):
        found.append(
            f"too few samples to compare causes: fewer than {FEWEST_FOR_CAUSES} of each GPU, so verdicts on lost time that "
            "only one run has are left out"
        )
    if not is_same_job(a.run, b.run):
        told = {"command": (a.run.command, b.run.command), "label": (a.run.label, b.run.label)}
        differ = " and ".join(name for name, (first, second) in told.items() if first != second)
        found.append(f"not the same {differ} in A and {letter}: scores of different programs can't be compared")
    if a.state != b.state or a.state in ("running", "lost"):
        found.append(f"A is {a.state}, {letter} is {b.state}: their durations, GPU-hours and energy can't be compared")
    return found
