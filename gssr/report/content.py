"""What a report says in words and tables, whatever it is made of: shared by the HTML and the PDF."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from gssr.metrics import OF_HOST, OF_NODES, Metric, best_measured
from gssr.model.results import Analysis, Phase, Verdict
from gssr.render.cells import clean, fit
from gssr.render.clock import duration, moment
from gssr.render.roles import text_of
from gssr.render.scale import UNKNOWN, count, energy, fixed, metric_of, number, percent, quantity, unit_of
from gssr.report.load_balancing import as_the_median, lost, outliers_of, when
from gssr.report.page import (
    STANDS_IN,
    PageOptions,
    compared,
    drawn,
    ending,
    full_scale,
    gpus_and_nodes_text,
    left_out,
    sampling,
    series_needed,
    time_axis,
    why_no_score,
)
from gssr.report.phases import letters, phase_text
from gssr.report.summary import clocks, standing_texts, table_metrics
from gssr.score import CAVEAT, DEFINITION, SCALE

SERIES = (
    "sm_active", "gpu_utilization", "tensor_active", "flop_active", "dram_active", "power_usage", "memory_used", "sm_clock",
    "temperature", "memory_copy_utilization",
)  # fmt: skip
"""The metrics that a report draws along time, where they were measured."""
BINS = 480
"""How many bins of time a report asks for."""
_INPUTS = ("sm_active", "sm_occupancy", "flop_active")
_BESIDE = ("power_usage", "memory_used", "memory_copy_utilization")
"""What stands beside another metric than SM activity."""
_OF_A_PHASE = ("sm_active", "gpu_utilization", "tensor_active", "dram_active", "power_usage")
_NAMED = 6
_LOWEST_NODES = 8
_MOST_PROCESSES, _LONGEST_NAME = 20, 40


def report_series(metrics: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the metrics to ask an analysis for: those asked for (None: SERIES) and whatever may stand for use."""
    return tuple(
        dict.fromkeys((*series_needed(PageOptions(metrics=metrics)), *(SERIES if metrics is None else metrics)))
    )


class ContentTable(NamedTuple):
    """``head`` are the columns' titles, ``rows`` the cells as text; the first ``n_text`` columns hold words, the others
    numbers. ``below``: a sentence under each row, empty for none."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_text: int
    below: tuple[str, ...] = ()


class Figure(NamedTuple):
    """A number that stands out: its ``name``, its ``text``, what is said ``about`` it, and the ``share`` of its scale that
    it fills (None: has no scale, or is unknown)."""

    name: str
    text: str
    about: str
    share: float | None


def title(analysis: Analysis) -> str:
    """What the run is called."""
    return clean(analysis.run.label or analysis.run.run_id)


def facts(analysis: Analysis) -> list[tuple[str, str]]:
    """List who ran what, where, for how long and how it ended, as labels and values; what is unknown is left out."""
    run = analysis.run
    names = sorted({clean(gpu.name) for gpu in analysis.gpus if gpu.name})
    started = None if run.started_at is None else f"{datetime.fromtimestamp(run.started_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    found = [
        ("State", text_of(ending(analysis))),
        ("Job", clean(run.shown_job or "")),
        ("Run", clean(run.run_id)),
        ("Cluster", clean(run.cluster or "")),
        ("User", clean(run.user or "")),
        ("GPUs", ", ".join([gpus_and_nodes_text(analysis), *names])),
        ("Started", started or ""),
        ("Duration", duration(analysis.window.duration)),
        ("Part", "" if analysis.window.whole else left_out(analysis)),
        ("Samples", ", ".join(piece for piece in (
            count(analysis.n_samples, "sample"), count(analysis.n_gaps, "gap"), sampling(analysis)) if piece)),
        ("Command", clean(shlex.join(run.command))),
    ]  # fmt: skip
    return [(label, value) for label, value in found if value]


def figures(analysis: Analysis) -> list[Figure]:
    """List the numbers that stand out: the score, its inputs, imbalance and totals. Without a score the best metric
    that was measured comes first, and the score, unknown, after the metrics."""
    known = analysis.score is not None
    about = SCALE if known else why_no_score(analysis)
    found = [Figure("Score", fixed(analysis.score, 3, UNKNOWN), about, analysis.score)]
    measured = {name for name, statistics in analysis.metrics.items() if statistics.n}
    best = best_measured(measured)
    names = (
        _INPUTS if best == _INPUTS[0] else (best, *(name for name in _BESIDE if STANDS_IN.get(name) not in measured))
    )
    for name in names:
        if name in measured:
            metric, mean = metric_of(name), analysis.metrics[name].mean
            share = None if mean is None else mean / full_scale(analysis, metric)
            found.append(Figure(metric.label, quantity(mean, metric), "mean over GPUs and time", share))
    if not known and len(found) > 1:
        found.append(found.pop(0))
    by = compared_by(analysis)
    if by is not None:
        uneven = analysis.balance[by].imbalance
        found.append(Figure("Imbalance", percent(uneven), f"of {metric_of(by).label}; 0 % is even", uneven))
    found.append(
        Figure("GPU-hours", fixed(analysis.gpu_hours, 3 if analysis.gpu_hours < 10 else 1), "in this run", None)
    )
    joules, _, kwh = energy(analysis.energy_j).partition(" (")
    found.append(Figure("Energy", joules, kwh.rstrip(")") or "of all GPUs", None))
    return found


def compared_by(analysis: Analysis) -> str | None:
    """Return the metric by which GPUs are compared, or None if nothing was measured."""
    return best_measured(compared(analysis))


def abstentions(analysis: Analysis) -> list[tuple[str, list[str]]]:
    """List the reasons why rules could not be judged, each with the codes of the rules it holds for."""
    reasons: dict[str, list[str]] = {}
    for code, reason in analysis.judgement.abstentions.items():
        reasons.setdefault(reason, []).append(code)
    return list(reasons.items())


def where(analysis: Analysis, verdict: Verdict) -> str:
    """Say when a verdict held, and for which GPUs unless it is about all."""
    window, axis = analysis.window, time_axis(analysis)
    slack = 0.01 * window.duration
    if verdict.start <= window.start + slack and verdict.end >= window.end - slack:
        found = "throughout"
    else:
        span = axis.end - axis.origin
        first, last = (moment(time - axis.origin, span) for time in (verdict.start, verdict.end))
        found = f"from {first} to {last}"
    if not verdict.gpus:
        return found
    return f"{found}; {count(len(verdict.gpus), 'GPU')}: {_places(analysis, verdict.gpus)}"


def metric_table(analysis: Analysis) -> ContentTable:
    """Build the table of statistics over all samples of all GPUs, a row for each metric."""
    keys = ("mean", "median", "p05", "p95", "min", "max", "std")
    rows = [
        (metric.label, unit_of(metric).name, *(number(getattr(statistics, key), metric) for key in keys))
        for metric, statistics in table_metrics(analysis, PageOptions(verbosity="medium"))
    ]
    return ContentTable(("Metric", "Unit", *keys), tuple(rows), n_text=2)


def phase_table(analysis: Analysis) -> ContentTable:
    """Build the table of the phases in the order of time, with their means, and below each what was found in it; no
    rows without phases."""
    names = [
        name for name in _OF_A_PHASE if any(phase.means.get(name) is not None for phase in analysis.judgement.phases)
    ]
    names = [name for name in names if name != "gpu_utilization" or "sm_active" not in names]
    metrics = [metric_of(name) for name in names]
    scores = ("Score",) if any(phase.score is not None for phase in analysis.judgement.phases) else ()
    head = ("Phase", "", "From", "Lasted", "GPU-hours", *scores, *(_titled(metric) for metric in metrics))
    rows = tuple(
        (letter, phase.kind, *_phase(analysis, phase, metrics))
        for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True)
    )
    return ContentTable(
        head, rows, n_text=2, below=tuple(clean(phase_text(phase)) for phase in analysis.judgement.phases)
    )


def _phase(analysis: Analysis, phase: Phase, metrics: list[Metric]) -> tuple[str, ...]:
    """Return the cells of a phase after letter and kind: begin, length, share of GPU-hours, its score if any phase has
    one, and the means of ``metrics``."""
    axis = time_axis(analysis)
    first = moment(phase.start - axis.origin, axis.end - axis.origin)
    means = (number(phase.means.get(metric.name), metric) for metric in metrics)
    scores = [fixed(phase.score, 3)] if any(each.score is not None for each in analysis.judgement.phases) else []
    return first, duration(phase.seconds), percent(phase.share), *scores, *means


def _titled(metric: Metric) -> str:
    return f"{metric.label}, {unit_of(metric).name}"


def uneven_texts(analysis: Analysis) -> list[str]:
    """List sentences on the imbalance moment by moment, what it cost, and what the score would be without it; empty if
    GPUs were not compared, as with a single one."""
    found = analysis.judgement.unevenness
    if found is None:
        return []
    texts = [f"Imbalance {when(analysis, found)}.", f"Lost: {lost(analysis, found)}."]
    as_median = as_the_median(analysis, found)
    return [*texts, f"Median GPU: {as_median}."] if as_median else texts


def alike_table(analysis: Analysis) -> ContentTable | None:
    """Build the table of GPUs that behave alike, or return None if all do or GPUs were not compared."""
    found = analysis.judgement.unevenness
    if found is None or len(found.alike) < 2:
        return None
    metric = metric_of(found.metric)
    apart = outliers_of(analysis, metric)
    rows = tuple(
        (
            group.name if apart.isdisjoint(group.gpus) else f"{group.name} !",
            _places(analysis, group.gpus),
            f"{len(group.gpus):,}",
            number(group.mean, metric),
        )
        for group in found.alike
    )
    return ContentTable(("Alike", "", "GPUs", _titled(metric)), rows, n_text=2)


def node_table(analysis: Analysis) -> ContentTable | None:
    """Build the table of the _LOWEST_NODES lowest nodes, or return None if there are fewer than two."""
    found = analysis.judgement.unevenness
    if found is None or len(found.by_node.keys) < 2:
        return None
    metric, order = metric_of(found.metric), np.argsort(found.by_node.means, kind="stable")[:_LOWEST_NODES]
    rows = tuple(
        (clean(found.nodes[found.by_node.keys[i]]), number(float(found.by_node.means[i]), metric))
        for i in order.tolist()
    )
    n = len(found.by_node.keys)
    return ContentTable(
        (f"Lowest of {n} nodes" if n > len(rows) else "Nodes, the lowest first", _titled(metric)), rows, n_text=1
    )


def _places(analysis: Analysis, gpus: Sequence[int]) -> str:
    """Name the first _NAMED GPUs (positions), and how many more there are."""
    places = [clean(analysis.gpus[gpu].place) for gpu in gpus[:_NAMED]]
    return ", ".join(places) + (f" and {len(gpus) - _NAMED:,} more" if len(gpus) > _NAMED else "")


def nodes_drawn(analysis: Analysis) -> list[str]:
    """List the metrics of nodes to draw along time; a disk or a network that carried nothing is left out."""
    return [
        name
        for name, series in analysis.node_series.items()
        if metric_of(name).full_scale or float(np.nanmax(series.high)) > 0
    ]


def beside_texts(analysis: Analysis) -> list[tuple[str, str]]:
    """List how the run stands and what held the clocks down, as labels and texts, as far as they are known."""
    sides = [("clocks", text) for text, _ in clocks(analysis, every=False)] if analysis.gpus else []
    return [*standing_texts(analysis), *sides]


def process_table(analysis: Analysis) -> ContentTable | None:
    """Build the table of the processes on the GPUs by name and user, at most _MOST_PROCESSES rows, or return None if
    there are none."""
    axis, memory = time_axis(analysis), metric_of("memory_used")
    span = axis.end - axis.origin
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            *(fit(text or UNKNOWN, _LONGEST_NAME, "…") for text in (own.name, own.user)), f"{own.n:,}", f"{own.n_gpus:,}",
            number(own.memory_used, memory), moment(own.start - axis.origin, span), moment(own.end - axis.origin, span),
        )
        for own in analysis.processes[:_MOST_PROCESSES]
    )  # fmt: skip
    more = len(analysis.processes) - len(rows)
    if more > 0:
        rows = (*rows, (f"and {more:,} more", *[""] * 6))
    head = ("Process", "User", "Processes", "GPUs", f"At most, {unit_of(memory).name}", "First seen", "Last seen")
    return ContentTable(head, rows, n_text=2) if rows else None


def definitions(analysis: Analysis) -> list[tuple[str, str]]:
    """List the terms of the report and what they mean; of metrics those that are drawn."""
    terms = [
        (
            "Score",
            f"{DEFINITION}, A being the mean SM activity, F the sum of the means of the FP64, FP32, FP16 and tensor "
            f"pipes' activities, and O the mean SM occupancy. It is {CAVEAT}.",
        ),
        (
            "Mean over GPUs",
            "Time is cut into bins. A GPU's value in a bin is the mean of its samples there; the line is the mean over "
            "the GPUs that have a value, the bands reach from the lowest to the highest GPU and over the middle 90 % "
            "of them. A bin without samples stays empty: missing is never zero.",
        ),
        (
            "Imbalance",
            "1 - mean/max of the GPUs' means over time: 0 when all are equal. One straggler among many GPUs hardly "
            "moves it: look at the lowest GPU.",
        ),
        ("Gap", "More than 2.5 sampling intervals between two samples of a GPU."),
        ("GPU-hours", "The number of GPUs times the time looked at, whether they were used or not."),
    ]
    for name in along_time(analysis):
        statistics = analysis.metrics.get(name)
        if statistics is not None and statistics.n:
            metric = metric_of(name)
            terms.append((metric.label, f"{metric.meaning} {metric.pitfalls}"))
    return terms


def along_time(analysis: Analysis) -> list[str]:
    """List the metrics to draw along time: the leading one first, then those of SERIES or those asked for; empty if
    nothing was measured."""
    names = drawn(analysis)
    first = best_measured(names)
    wanted = SERIES if set(SERIES) <= analysis.metrics.keys() else tuple(analysis.metrics)
    return [first, *(name for name in wanted if name in names and name != first)] if first else []


def mean_text(analysis: Analysis, name: str) -> str:
    """Write the mean of a metric over everything, for the title of its chart (of a node's memory its highest); "" if
    it is not known."""
    if name in OF_NODES and analysis.host is not None:
        if name == "host:memory_used":
            return f"highest {quantity(float(np.nanmax(analysis.node_series[name].high)), metric_of(name))}"
        return f"mean {quantity(getattr(analysis.host, name.removeprefix(OF_HOST)), metric_of(name))}"
    statistics = analysis.metrics.get(name)
    return f"mean {quantity(statistics.mean, metric_of(name))}" if statistics else ""
