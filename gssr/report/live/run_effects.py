"""What differs between two runs, number by number, the largest effect first; and the sentence about it. No Textual."""

from typing import NamedTuple

from gssr.model.compare.compared_metrics import measured_metrics
from gssr.model.compare.comparison import (
    LEAST_TOTAL_SHARE,
    CategoryChange,
    Comparison,
    Outcome,
    category_changes,
    change_of_use,
    compare,
    is_same_job,
    judged,
)
from gssr.model.compare.traces import Calls, NameChange, calls, names
from gssr.model.live.alignment import seconds
from gssr.model.live.live_result import Result
from gssr.model.statistics.balance import imbalance
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.render.cells import clean
from gssr.render.clock import duration, exact
from gssr.render.function_names import distinct_names
from gssr.render.scale import NONE, fixed, metric_of, percent, quantity, signed
from gssr.report.compared_figures import compared_figures, figure_text
from gssr.report.live.metric_scales import full_scale
from gssr.report.live.times_of_run import is_whole, length_text
from gssr.report.time_change import compare_times

_MOST_NAMES, _TIMES = 100, 9.0
"""Names are looked at up to so many; from so many times more on it is said how many."""
_LEAST_POINTS = 0.02
"""A metric of which nothing says how it varies differs from so much of its full scale on (a threshold of our own)."""
_MOST_SAID = 2


class RunDifference(NamedTuple):
    """One number of both runs in words, in this unit, the change, the noise, the change as a share of A's value, and what it
    means; ``weight`` sorts: the change as a share."""

    name: str
    unit: str
    first: str
    second: str
    change: str
    noise: str
    relative: str
    outcome: Outcome
    weight: float


def effects(one: Result, other: Result) -> list[RunDifference]:
    """List the numbers that both runs can be compared by: first what is better or worse, then what is more or less,
    then what is within noise, last what is unknown; within each the largest effect first. ``one`` is A, ``other`` is
    B. Of recordings it is what ``gssr compare`` lists; nothing before both are analysed."""
    comparison = comparison_of(one, other)
    if comparison is not None:
        certain = (change for change in comparison.breakdown if change.is_certain)
        found = [*_figures(one, other, comparison), *(_of_category(change, comparison.use) for change in certain)]
    elif one.part is None and other.part is None:
        found = []
    else:
        found = [*_of_traces(one, other), *_metrics_of_traces(one, other), *_names(one, other)]
    rank: dict[Outcome, int] = {"better": 0, "worse": 0, "higher": 1, "lower": 1, "within noise": 2, "unknown": 3}
    return sorted(found, key=lambda effect: (rank[effect.outcome], -effect.weight))


def name_of(frame: Result) -> str:
    """Name a run by its label or job, else by its file."""
    run = frame.run
    label = (run.label or run.shown_job or run.run_id) if run else ""
    return clean(label or frame.path.rsplit("/", 1)[-1])


def sentence(one: Result, other: Result) -> str:
    """Say in one sentence how the time, the categories of lost GPU time and the score changed from A to B. The score
    is only named if both have one, and are the same job or it says the opposite of the time. Of a window that is not all of
    A the time is not told: it is as long in both."""
    if other.n_rows and not seconds(other):
        return "B has nothing in this window."
    parts = [_time_said(one, other)] if is_whole(one) else []
    changes = _changes(one, other)
    lost = sorted((each for each in changes if each.is_certain and each.is_no_work), key=lambda each: -abs(each.change))
    lost = lost[:_MOST_SAID]
    parts += [f"{each.category.label} {percent(each.before)} → {percent(each.after)}" for each in lost]
    if not lost and changes:
        parts.append("no loss of GPU time changed by more than noise")
    scores = [frame.window.score() for frame in (one, other)]
    is_opposite = outcome_of_sentence(one, other) in ("higher", "lower")
    if None not in scores and (_same_job(one, other) or is_opposite):
        parts.append(f"score {fixed(scores[0], 3)} → {fixed(scores[1], 3)}")
    said = "; ".join(parts) or "nothing of this window is judged yet"
    return f"{said[0].upper()}{said[1:]}."


def outcome_of_sentence(one: Result, other: Result) -> Outcome:
    """Judge by the time whether B is better, worse, or the same within noise; only "higher" or "lower" where the GPUs' use
    says the opposite (``use_change``). "unknown" while either still grows or is not analysed yet, if they did not end alike,
    in a window that is not all of A, or if A's time is 0."""
    comparison, times = comparison_of(one, other), _times(one, other)
    if comparison is not None:
        return comparison.totals["duration_s"].outcome
    if one.part is None or other.part is None or not is_whole(one) or not times[0]:
        return "unknown"
    return judged("duration_s", *times, LEAST_TOTAL_SHARE * times[0], use_change(one, other)).outcome


def use_change(one: Result, other: Result) -> int:
    """Tell whether B uses its GPUs clearly more than A (1), clearly less (-1), or neither or nobody knows (0), as the page
    of gssr compare does."""
    comparison = comparison_of(one, other)
    if comparison is not None:
        return comparison.use
    means = [frame.window.overall() for frame in (one, other)]
    return change_of_use([frame.window.score() for frame in (one, other)], means[0], means[1])


_kept_comparison: list[Comparison] = []


def comparison_of(one: Result, other: Result) -> Comparison | None:
    """Compare two recordings as ``gssr compare`` does, and keep that until it is asked about another pair; None for traces,
    and while either is not analysed."""
    if one.analysis is None or other.analysis is None:
        return None
    kept = _kept_comparison
    if not kept or kept[0].a is not one.analysis or kept[0].b is not other.analysis:
        kept[:] = [compare(one.analysis, other.analysis)]
    return kept[0]


def _same_job(one: Result, other: Result) -> bool:
    """Tell whether both are recordings of the same command with the same label; False for traces, which have no run."""
    runs = one.run, other.run
    return runs[0] is not None and runs[1] is not None and is_same_job(runs[0], runs[1])


def _times(one: Result, other: Result) -> tuple[float, float]:
    """Return how long both took, s; of a window that is not all of them, how much of them it holds."""
    comparison = comparison_of(one, other)
    if comparison is None:
        return seconds(one), seconds(other)
    return comparison.a.window.duration, comparison.b.window.duration


def _is_growing(frame: Result) -> bool:
    return frame.part is None and frame.state in ("live", "stalled")


def _time_said(one: Result, other: Result) -> str:
    """Say how B's time compares with A's; of runs that still grow, or if A's time is 0, both times so far."""
    growing = [letter for letter, frame in zip("AB", (one, other), strict=True) if _is_growing(frame)]
    first, second = (seconds(one), seconds(other)) if growing else _times(one, other)
    if growing or not first:
        who = f"{' and '.join(growing)} still run{'s' if len(growing) == 1 else ''}"
        return f"{who}: {duration(first)} and {duration(second)} so far"
    return compare_times("B", first, second)


def _changes(one: Result, other: Result) -> tuple[CategoryChange, ...]:
    """Return how the share of each category of GPU time changed from A to B; empty while either is not judged yet."""
    before, after = one.judgement, other.judgement
    return () if before is None or after is None else category_changes(before.breakdown, after.breakdown)


def _relative(a: float | None, b: float | None) -> tuple[str, float]:
    """Write the change from ``a`` to ``b`` in per cent, and return it as an absolute share of ``a``; ("-", 0.0) if
    either is None or ``a`` is 0."""
    if a is None or b is None or not a:
        return NONE, 0.0
    return signed(100 * (b - a) / abs(a), 1), abs(b - a) / abs(a)


def _figures(one: Result, other: Result, comparison: Comparison) -> list[RunDifference]:
    """Describe the totals and the metrics of two recordings. Totals weigh by their change as a share of A's, shares and
    metrics by that of the full scale."""
    found = []
    for name, (label, unit, change) in compared_figures(comparison).items():
        relative, weight = _relative(change.a, change.b)
        if name in ("score", "imbalance"):
            weight = abs(change.difference or 0.0)
        elif name in comparison.metrics:
            full = max(full_scale(one, name), full_scale(other, name))
            weight = abs(change.difference or 0.0) / full if full > 0 else 0.0
        a, b, noise = (figure_text(unit, value) for value in (change.a, change.b, change.noise))
        difference = figure_text(unit, change.difference, with_sign=change.difference is not None)
        found.append(RunDifference(label, unit.name, a, b, difference, noise, relative, change.outcome, weight))
    return found


def _of_category(change: CategoryChange, use: int) -> RunDifference:
    """Describe the change of one category's share of the GPU time: less of a loss is better, unless ``use`` (``use_change``)
    says the opposite."""
    a, b = fixed(100 * change.before, 1), fixed(100 * change.after, 1)
    noise = NONE if change.figure.noise is None else fixed(100 * change.figure.noise, 1)
    points, (relative, _) = signed(100 * change.change, 1), _relative(change.before, change.after)
    outcome = change.outcome(use)
    return RunDifference(change.category.label, "%", a, b, points, noise, relative, outcome, abs(change.change))


def _of_traces(one: Result, other: Result) -> list[RunDifference]:
    """Compare the duration and the imbalance of two traces. The imbalance is left out if it is not known of both."""
    times, use = (seconds(one), seconds(other)), use_change(one, other)
    relative, weight = _relative(*times)
    noise = LEAST_TOTAL_SHARE * times[0] if is_whole(one) and is_whole(other) else None
    texts = length_text(one, times[0]), length_text(other, times[1])
    outcome = judged("duration_s", *times, noise, use).outcome
    found = [RunDifference("duration", "", *texts, f"{relative} %", "", "", outcome, weight)]
    a, b = (imbalance(frame.window.per_gpu(frame.grid.metric)) for frame in (one, other))
    if a is not None and b is not None:
        name = f"imbalance, {metric_of(one.grid.metric).label}"
        points = f"{signed(100 * (b - a), 1)} points"
        outcome = judged("imbalance", a, b, 0.01, use).outcome
        found.append(RunDifference(name, "", percent(a), percent(b), points, "", "", outcome, abs(b - a)))
    return found


def _metrics_of_traces(one: Result, other: Result) -> list[RunDifference]:
    """Compare the means over all GPUs of each metric that was measured in either trace; "-" for the one without it."""
    means = one.window.overall(), other.window.overall()
    found = []
    for name in measured_metrics(*means):
        a, b = means[0].get(name), means[1].get(name)
        metric, full = metric_of(name), max(full_scale(one, name), full_scale(other, name))
        change, _ = _relative(a, b)
        weight = 0.0 if a is None or b is None or full <= 0 else abs(b - a) / full
        outcome = judged("", a, b, _LEAST_POINTS * full).outcome
        texts = quantity(a, metric), quantity(b, metric)
        found.append(RunDifference(metric.label, "", *texts, f"{change} %", "", "", outcome, weight))
    return found


def _names(one: Result, other: Result) -> list[RunDifference]:
    """List the _MOST_NAMES names of two traces whose total time differs most, with time and number of calls, including
    those that only one of them has. Empty unless both are traces that have been analysed."""
    analyses = [frame.part.analysis for frame in (one, other) if frame.part and frame.part.analysis]
    if len(analyses) < 2:
        return []

    def said(own: Calls) -> str:
        return "-" if own.mean_ns is None else f"{exact(own.total_ns / 1e9)} {own.n:,}x"

    found, shown = [], _compared(*analyses)[:_MOST_NAMES]
    all_ns = max(sum(each.a.total_ns for each in shown), 1)
    for each, name in zip(shown, distinct_names([each.name for each in shown], 40, ""), strict=True):
        change, relative = _relative(each.a.total_ns, each.b.total_ns)
        text = "only A" if not each.b.n else "only B" if not each.a.n else f"{change} %"
        if each.a.total_ns and each.difference_ns / each.a.total_ns >= _TIMES:
            text = f"x {1 + each.difference_ns / each.a.total_ns:,.0f}"
        outcome: Outcome = "within noise" if each.a.n and each.b.n and relative <= LEAST_TOTAL_SHARE else (
            "higher" if each.difference_ns > 0 else "lower"
        )  # fmt: skip
        weight = abs(each.difference_ns) / all_ns
        found.append(RunDifference(name, "", said(each.a), said(each.b), text, "", "", outcome, weight))
    return found


_kept: list[tuple[TraceAnalysis, TraceAnalysis, tuple[NameChange, ...]]] = []


def _compared(one: TraceAnalysis, other: TraceAnalysis) -> tuple[NameChange, ...]:
    """Return the differences of two traces by name, kept until it is asked about another pair."""
    if not _kept or _kept[0][0] is not one or _kept[0][1] is not other:
        _kept[:] = [(one, other, names(calls(one), calls(other)))]
    return _kept[0][2]
