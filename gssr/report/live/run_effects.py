"""What differs between two runs, number by number, the largest effect first; and the sentence about it. No Textual."""

from typing import NamedTuple

from gssr.model.compare.alignment import seconds
from gssr.model.compare.compared_metrics import measured_metrics
from gssr.model.compare.comparison import (
    LEAST_TOTAL_SHARE,
    CategoryChange,
    Outcome,
    category_changes,
    change_of_use,
    is_same_job,
    judged,
)
from gssr.model.compare.traces import Calls, NameChange, calls, names
from gssr.model.live.live_result import Result
from gssr.model.statistics.balance import imbalance
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.render.cells import clean
from gssr.render.clock import duration, exact
from gssr.render.function_names import distinct_names
from gssr.render.scale import energy as energy_text
from gssr.render.scale import fixed, metric_of, percent, quantity, signed
from gssr.report.live.metric_scales import full_scale
from gssr.report.live.times_of_run import is_whole, length_text
from gssr.report.time_change import compare_times

_MOST_NAMES, _TIMES = 100, 9.0
"""Names are looked at up to so many; from so many times more on it is said how many."""
_LEAST_POINTS = 0.02
"""A metric of which nothing says how it varies differs from so much of its full scale on (a threshold of our own)."""
_MOST_SAID, _SAID_FROM = 2, 0.01


class RunDifference(NamedTuple):
    """One number of both runs in words, the change, and what it means; ``weight`` sorts: the change as a share."""

    name: str
    first: str
    second: str
    change: str
    outcome: Outcome
    weight: float


def effects(one: Result, other: Result) -> list[RunDifference]:
    """List the numbers that both runs can be compared by: first what is better or worse, then what is more or less,
    then what is within noise, last what is unknown; within each the largest effect first. ``one`` is A, ``other`` is
    B."""
    use = use_change(one, other)
    categories = [_of_category(change, use) for change in _changes(one, other)]
    found = [*_totals(one, other, use), *categories, *_metrics(one, other), *_names(one, other)]
    known = [effect for effect in found if effect is not None]
    rank: dict[Outcome, int] = {"better": 0, "worse": 0, "higher": 1, "lower": 1, "within noise": 2, "unknown": 3}
    return sorted(known, key=lambda effect: (rank[effect.outcome], -effect.weight))


def name_of(frame: Result) -> str:
    """Name a run by its label or job, else by its file."""
    run = frame.run
    label = (run.label or run.shown_job or run.run_id) if run else ""
    return clean(label or frame.path.rsplit("/", 1)[-1])


def sentence(one: Result, other: Result) -> str:
    """Say in one sentence how the time, the categories of lost GPU time and the score changed from A to B. The score
    is only named if both have one, and are the same job or it says the opposite of the time. Of a window that is not all of
    A the time is not told: it is as long in both."""
    parts = [_time_said(one, other)] if is_whole(one) else []
    certain = [each for each in _changes(one, other) if each.is_certain and each.category.is_loss]
    certain = sorted(certain, key=lambda each: -abs(each.change))[:_MOST_SAID]
    parts += [f"{each.category.label} {percent(each.before)} → {percent(each.after)}" for each in certain]
    if not certain and _changes(one, other):
        parts.append("no loss of GPU time changed by more than noise")
    scores = [frame.window.score() for frame in (one, other)]
    is_opposite = outcome_of_sentence(one, other) in ("higher", "lower")
    if None not in scores and (_same_job(one, other) or is_opposite):
        parts.append(f"score {fixed(scores[0], 3)} → {fixed(scores[1], 3)}")
    said = "; ".join(parts) or "nothing of this window is judged yet"
    return f"{said[0].upper()}{said[1:]}."


def outcome_of_sentence(one: Result, other: Result) -> Outcome:
    """Judge by the time whether B is better, worse, or the same within noise; only "higher" or "lower" where the GPUs' use
    says the opposite (``use_change``). "unknown" while either still grows, in a window that is not all of A, or if A's
    time is 0."""
    times = seconds(one), seconds(other)
    if one.is_live or other.is_live or not is_whole(one) or not times[0]:
        return "unknown"
    return judged("duration_s", *times, LEAST_TOTAL_SHARE * times[0], use_change(one, other)).outcome


def use_change(one: Result, other: Result) -> int:
    """Tell whether B uses its GPUs clearly more than A (1), clearly less (-1), or neither or nobody knows (0), as the page
    of gssr compare does."""
    means = [frame.window.overall() for frame in (one, other)]
    return change_of_use([frame.window.score() for frame in (one, other)], means[0], means[1])


def _same_job(one: Result, other: Result) -> bool:
    """Tell whether both are recordings of the same command with the same label; False for traces, which have no run."""
    runs = one.run, other.run
    return runs[0] is not None and runs[1] is not None and is_same_job(runs[0], runs[1])


def _time_said(one: Result, other: Result) -> str:
    """Say how B's time compares with A's; of runs that still grow, or if A's time is 0, both times so far."""
    first, second = seconds(one), seconds(other)
    growing = [letter for letter, frame in zip("AB", (one, other), strict=True) if frame.is_live]
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
        return "-", 0.0
    return f"{signed(100 * (b - a) / abs(a), 1)} %", abs(b - a) / abs(a)


def _totals(one: Result, other: Result, use: int) -> list[RunDifference]:
    """Compare duration and imbalance, and of recordings also GPU-hours, energy and, if they are the same job, the
    score. What is not known of both is left out, but for energy."""
    times = seconds(one), seconds(other)
    noise = None if one.is_live or other.is_live else LEAST_TOTAL_SHARE
    found: list[RunDifference] = []

    def total(name: str, key: str, a: float | None, b: float | None, texts: tuple[str, str]) -> None:
        change, weight = _relative(a, b)
        least = None if noise is None or a is None else noise * abs(a)
        found.append(RunDifference(name, *texts, change, judged(key, a, b, least, use).outcome, weight))

    total("duration", "duration_s", *times, (length_text(one, times[0]), length_text(other, times[1])))
    uneven = [_imbalance(frame) for frame in (one, other)]
    if None not in uneven:
        a, b = uneven[0] or 0.0, uneven[1] or 0.0
        points = f"{signed(100 * (b - a), 1)} points"
        found.append(
            RunDifference(
                f"imbalance, {metric_of(one.grid.metric).label}",
                percent(a),
                percent(b),
                points,
                judged("imbalance", a, b, 0.01, use).outcome,
                abs(b - a),
            )
        )
    if one.part is not None or other.part is not None:
        return found
    hours = [frame.gpus_of_run * time / 3600 for frame, time in zip((one, other), times, strict=True)]
    total("GPU-hours", "gpu_hours", hours[0], hours[1], (fixed(hours[0], 3), fixed(hours[1], 3)))
    joules = one.energy_j, other.energy_j
    total("energy", "energy_j", *joules, (_joules(joules[0]), _joules(joules[1])))
    scores = [frame.window.score() for frame in (one, other)]
    if None not in scores and _same_job(one, other):
        a, b = scores[0] or 0.0, scores[1] or 0.0
        outcome = judged("score", a, b, 0.01, use).outcome
        found.append(RunDifference("score", fixed(a, 3), fixed(b, 3), signed(b - a, 3), outcome, abs(b - a)))
    return found


def _imbalance(frame: Result) -> float | None:
    return imbalance(frame.window.per_gpu(frame.grid.metric))


def _joules(joules: float | None) -> str:
    return "-" if joules is None else energy_text(joules).split(" (")[0]


def _of_category(change: CategoryChange, use: int) -> RunDifference | None:
    """Describe the change of one category's share of the GPU time: less of a loss is better, unless ``use`` (``use_change``)
    says the opposite. None if the share is below _SAID_FROM in both runs."""
    if max(change.before, change.after) < _SAID_FROM:
        return None
    points = f"{signed(100 * change.change, 1)} points"
    return RunDifference(
        change.category.label,
        percent(change.before),
        percent(change.after),
        points,
        change.outcome(use),
        abs(change.change),
    )


def _metrics(one: Result, other: Result) -> list[RunDifference]:
    """Compare the means over all GPUs of each metric that was measured in either run; "-" for the run without it."""
    means = one.window.overall(), other.window.overall()
    found = []
    for name in measured_metrics(*means):
        a, b = means[0].get(name), means[1].get(name)
        metric, full = metric_of(name), max(full_scale(one, name), full_scale(other, name))
        change, _ = _relative(a, b)
        weight = 0.0 if a is None or b is None or full <= 0 else abs(b - a) / full
        outcome = judged("", a, b, _LEAST_POINTS * full).outcome
        found.append(RunDifference(metric.label, quantity(a, metric), quantity(b, metric), change, outcome, weight))
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
        text = "only A" if not each.b.n else "only B" if not each.a.n else change
        if each.a.total_ns and each.difference_ns / each.a.total_ns >= _TIMES:
            text = f"x {1 + each.difference_ns / each.a.total_ns:,.0f}"
        outcome: Outcome = "within noise" if each.a.n and each.b.n and relative <= LEAST_TOTAL_SHARE else (
            "higher" if each.difference_ns > 0 else "lower"
        )  # fmt: skip
        found.append(RunDifference(name, said(each.a), said(each.b), text, outcome, abs(each.difference_ns) / all_ns))
    return found


_kept: list[tuple[TraceAnalysis, TraceAnalysis, tuple[NameChange, ...]]] = []


def _compared(one: TraceAnalysis, other: TraceAnalysis) -> tuple[NameChange, ...]:
    """Return the differences of two traces by name, kept until it is asked about another pair."""
    if not _kept or _kept[0][0] is not one or _kept[0][1] is not other:
        _kept[:] = [(one, other, names(calls(one), calls(other)))]
    return _kept[0][2]
