"""How well used: the score, the balance, the course of time in one line, and a table of all metrics.

Beside the GPUs: what the nodes and the workload's own processes did.
"""

import math
from datetime import datetime
from functools import partial

from gssr.metrics import CLOCK_EVENT_REASONS, PLACES, THROTTLES, Metric, best_measured
from gssr.model.results import Analysis, HostUse, Statistics
from gssr.model.run_history import History
from gssr.render.cells import wrap
from gssr.render.clock import step_text
from gssr.render.columns import bar, strip
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import (
    NONE,
    UNITS,
    UNKNOWN,
    count,
    energy,
    fixed,
    metric_of,
    number,
    percent,
    quantity,
    scale_text,
    unit_of,
)
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import (
    KEY_METRICS,
    LABEL,
    STANDS_IN,
    PageOptions,
    compared,
    drawn,
    full_scale,
    imbalance_text,
    is_detail,
    labelled,
    remark,
    section,
    strip_legend,
    time_axis,
    why_no_score,
)
from gssr.score import CAVEAT, DEFINITION, SCALE, saturation_score

_NUMBERS = ("mean", "median", "p05", "p95", "min", "max")


def summary(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the part of the page that says how well the GPUs were used; without GPUs only the score's reason and the
    nodes."""
    width, marks = options.width, glyph_set(options.ascii)
    rows = section("How well used?", width, marks)
    rows += _score(analysis, options, marks)
    if not analysis.gpus:
        return rows + host(analysis, options)
    rows.append(())
    rows += _table(analysis, options, marks)
    if options.verbosity == "high":
        rows.append(())
        rows += _precision(analysis, options, marks)
    rows.append(())
    rows += _totals(analysis, options)
    return rows + host(analysis, options)


def _score(analysis: Analysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw score, its inputs, imbalance, how the run stands, and the course of the leading metric. Without a score,
    that metric and why there is none."""
    width = options.width
    room = max(width - LABEL - 9, 0)
    best = best_measured(compared(analysis), options.metrics or ())
    if analysis.score is None:
        rows = [] if best not in analysis.metrics else [_leading(analysis, metric_of(best), width, room, marks)]
        rows += remark(f"{UNKNOWN}: {why_no_score(analysis)}", width, "plain", label="score")
    else:
        filled = bar(analysis.score, room, marks) if room >= 8 else ()
        rows = [labelled("score", width, Span(f"{fixed(analysis.score, 3)}    ", "value"), *filled)]
        inputs = ", ".join(
            f"{metric_of(name).label} {quantity(analysis.metrics[name].mean, metric_of(name))}"
            for name in ("sm_active", "sm_occupancy", "flop_active")
            if name in analysis.metrics
        )
        formula = "" if options.verbosity == "high" else " (formula: -v high)"
        rows += remark(f"{SCALE}{'; from ' if inputs else ''}{inputs}{formula}", width)
    rows += remark(CAVEAT, width)
    if options.verbosity == "high":
        rows += remark(DEFINITION, width)
        rows += remark(text, width) if (text := _what_moves_the_score(analysis)) else []
    if analysis.gpus:
        rows += remark(imbalance_text(analysis, best or "sm_active"), width, "plain", label="imbalance")
        for label, text in standing_texts(analysis):
            rows += remark(text, width, "plain", label=label)
        rows += _course(analysis, options, marks)
    return rows


def _what_moves_the_score(analysis: Analysis) -> str:
    """Say by how much the score would change with a tenth more of each of its inputs alone, of shares of time up to all of
    it; empty if one of the inputs is unknown."""
    names = ("sm_active", "flop_active", "sm_occupancy")
    found = [analysis.metrics[name].mean for name in names if name in analysis.metrics]
    means = [mean for mean in found if mean is not None]
    if len(means) < len(names):
        return ""
    score, changes = saturation_score(*means), []
    for at, name in enumerate(names):
        more = [*means[:at], min(1.1 * means[at], max(means[at], 1.0)), *means[at + 1 :]]
        changes.append(f"{metric_of(name).label} {saturation_score(*more) - score:+.3f}")
    return f"with a tenth more of one input alone: {', '.join(changes)}"


def standing_texts(analysis: Analysis) -> list[tuple[str, str]]:
    """List how long a step took and how the run stands against earlier ones, as labels and texts, as far as they are
    known."""
    found = []
    if analysis.judgement.step is not None:
        axis = time_axis(analysis)
        found.append(("step", step_text(analysis.judgement.step, axis.origin, axis.end)))
    if analysis.history is not None:
        found.append(("history", _history(analysis.history)))
    return found


def _history(history: History) -> str:
    """Say in a sentence how the run stands against earlier ones, or that they are too few to compare with."""
    told: list[str] = []
    for what, standing in (("score", history.score), ("step", history.step)):
        if standing is None or (standing.kind == "too few" and told):
            continue
        if standing.kind == "too few" or standing.change is None:
            return f"{count(standing.n, 'earlier run')} of this label and size: too few to compare with"
        words = {"lower": "shorter", "higher": "longer"} if what == "step" else {}
        than = f"than the {standing.n} runs before" if standing.since is not None else f"the last {standing.n} runs"
        if standing.since is None:
            told.append(f"{what} as usual: {standing.change:+.0%} to {than}")
            continue
        kind = words.get(standing.kind, standing.kind)
        since = f", since {day(standing.since)} ({count(standing.n_since, 'run')})" if standing.n_since > 1 else ""
        told.append(f"{what} {abs(standing.change):.0%} {kind} {than}{since}")
    return "; ".join(told).replace("%", " %") or "no score and no step to compare"


def day(time: float) -> str:
    """Write the local day of a unix time with its weekday; "an unknown day" if no calendar has it."""
    try:
        return datetime.fromtimestamp(time).strftime("%A %Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return "an unknown day"


def _leading(analysis: Analysis, metric: Metric, width: int, room: int, marks: Glyphs) -> Row:
    """Draw the mean of the metric that stands where the score would, with a bar of ``room`` cells if these are enough."""
    mean = analysis.metrics[metric.name].mean
    filled = bar(None if mean is None else mean / full_scale(analysis, metric), room, marks) if room >= 8 else ()
    return labelled(metric.short, width, Span(f"{quantity(mean, metric):<9}", "value"), *filled)


def _course(analysis: Analysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the leading metric over time on one line, with its axis and what the marks mean; no rows without samples or
    room."""
    name = best_measured(drawn(analysis), options.metrics or ())
    room = options.width - LABEL
    if name is None or room < 8:
        return []
    series, metric, axis = analysis.series[name], metric_of(name), time_axis(analysis)
    full = full_scale(analysis, metric)
    values = axis.columns(series.mean, series.start, series.width, room) / full
    title = f"mean {metric.label}; {strip_legend(metric, full, marks)}"
    return [
        (),
        labelled("over time", options.width, *strip(values.tolist(), marks)),
        labelled("", options.width, Span(axis.text(room), "dim")),
        *remark(title, options.width),
    ]


def table_metrics(analysis: Analysis, options: PageOptions) -> list[tuple[Metric, Statistics]]:
    """Return the metrics of the table with their statistics, in the catalogue's order, a derived one before its parts.
    Those that were not measured are only there if asked for by name or at high verbosity."""
    chosen = []
    measured = {name for name, statistics in analysis.metrics.items() if statistics.n} or set(KEY_METRICS)
    always = {best_measured(measured), *KEY_METRICS, *(name for name in STANDS_IN if STANDS_IN[name] not in measured)}
    for name, statistics in analysis.metrics.items():
        metric = metric_of(name)
        asked = options.metrics is not None and name in options.metrics
        known = name in measured and (name in always or (options.verbosity == "medium" and not is_detail(name)))
        if metric.kind in ("gauge", "rate") and (asked or known or options.verbosity == "high"):
            chosen.append((metric, statistics))
    return sorted(chosen, key=lambda pair: _position(pair[0]))


def _position(metric: Metric) -> tuple[float, bool]:
    names = metric.parts or (metric.name,)
    return min(PLACES.get(name, math.inf) for name in names), not metric.derived


def _table(analysis: Analysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the table of metrics with the bars of their means and, if there is room, what fills these; a line that says
    so if none was recorded."""
    head = [
        TableColumn("metric"),
        TableColumn("unit", drop=2),
        TableColumn("mean", "right"),
        TableColumn("", drop=7, least=8, most=40),
        TableColumn("median", "right", drop=3),
        TableColumn("p05", "right", drop=4),
        TableColumn("p95", "right", drop=4),
        TableColumn("min", "right", drop=6),
        TableColumn("max", "right", drop=5),
    ]
    lines: list[list[Cell]] = []
    for metric, statistics in table_metrics(analysis, options):
        if not statistics.n:
            lines.append([metric.label, "", NONE, (Span("not measured", "dim"),), *[NONE] * 5])
            continue
        mean, *others = (number(getattr(statistics, key), metric) for key in _NUMBERS)
        fraction = None if statistics.mean is None else statistics.mean / full_scale(analysis, metric)
        unit = (Span(unit_of(metric).name, "dim"),)
        lines.append([metric.label, unit, (Span(mean, "value"),), partial(bar, fraction, glyphs=marks), *others])
    if not lines:
        return [(Span("none of the metrics asked for was recorded", "dim"),)]
    rows = table(head, lines, options.width, marks)
    scales = _scales(analysis, options)
    if scales and options.verbosity != "low" and options.width >= 60:
        rows += wrap(scales, options.width, role="dim")
    return rows


def _scales(analysis: Analysis, options: PageOptions) -> str:
    """Say what fills the bars of the table; "" if nothing was measured."""
    full: dict[str, list[str]] = {}
    for metric, statistics in table_metrics(analysis, options):
        if statistics.n:
            full.setdefault(scale_text(metric, full_scale(analysis, metric)), []).append(metric.label)
    ratio = "100 %"
    if not full:
        return ""
    others = ", ".join(f"{text} ({', '.join(names)})" for text, names in full.items() if text != ratio)
    return f"A full bar is {ratio}" + (f", or {others}" if others else "")


def _precision(analysis: Analysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the spread, the number of samples and how exact the percentiles are; no rows without metrics."""
    head = [
        TableColumn("metric"),
        TableColumn("unit", drop=1),
        TableColumn("std", "right", drop=2),
        TableColumn("samples", "right"),
        TableColumn("percentiles off by at most", "right", drop=3),
    ]
    lines: list[list[Cell]] = []
    for metric, statistics in table_metrics(analysis, options):
        error = number(statistics.p_error, metric) if statistics.p_error else ("exact" if statistics.n else NONE)
        unit = (Span(unit_of(metric).name, "dim"),)
        lines.append([metric.label, unit, number(statistics.std, metric), f"{statistics.n:,}", error])
    return table(head, lines, options.width, marks, gap=2) if lines else []


def _totals(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw energy, GPU-hours and, unless verbosity is low, what held the clocks down."""
    rows = [labelled("energy", options.width, Span(energy(analysis.energy_j)))]
    rows.append(labelled("GPU-hours", options.width, Span(fixed(analysis.gpu_hours, 3))))
    if options.verbosity == "low":
        return rows
    for i, (text, slow) in enumerate(clocks(analysis, every=options.verbosity == "high")):
        role: Role = "outlier" if slow else "plain"
        rows += remark(text, options.width, role, label="" if i else "clocks")
    return rows


def clocks(analysis: Analysis, every: bool) -> list[tuple[str, bool]]:
    """Say what decided about the clocks, each as (sentence, whether it slowed GPUs down); only what did, unless
    ``every``, which adds the names that recordings have for it. One sentence if reasons were not measured, or none
    applied."""
    reasons = analysis.clock_event_reasons
    if not reasons:
        return [("reasons not measured", False)]
    told = [
        (f"in {percent(reasons[name])} of the samples: {meaning}{f' ({name})' if every else ''}", name in THROTTLES)
        for _, name, meaning in CLOCK_EVENT_REASONS
        if reasons.get(name, 0.0) > 0 and (every or name in THROTTLES)
    ]
    return told or [("never held down by power or temperature", False)]


def host(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw what the nodes and the workload did; no rows if nothing is known, or at low verbosity if there are GPUs."""
    if options.verbosity == "low" and analysis.gpus:
        return []
    rows: list[Row] = []
    for label, text in host_texts(analysis):
        rows += remark(text, options.width, "plain", label=label)
    return [(), *rows] if rows else []


def host_texts(analysis: Analysis) -> list[tuple[str, str]]:
    """List what is known of the nodes and of the workload, as labels and texts; empty if nothing is."""
    use = analysis.host
    if use is None:
        return []
    return [
        (label, ", ".join(pieces)) for label, pieces in (("nodes", _nodes(use)), ("command", _workload(use))) if pieces
    ]


def _nodes(use: HostUse) -> list[str]:
    """List what the nodes did, without what is unknown."""
    pieces = []
    if use.cpu_utilization is not None:
        load = "" if use.load1 is None else f" (load {fixed(use.load1, 1)})"
        pieces.append(f"CPU {percent(use.cpu_utilization)} busy{load}")
    if use.memory_used is not None and use.memory_total is not None:
        used, total = (fixed(value * UNITS["B"].factor, 1) for value in (use.memory_used, use.memory_total))
        pieces.append(f"memory at most {used} of {total} GiB")
    for name, first, second, words in (
        ("disk", use.read_bytes, use.write_bytes, ("read", "written")),
        ("network", use.net_rx_bytes, use.net_tx_bytes, ("in", "out")),
        ("fabric", use.fabric_rx_bytes, use.fabric_tx_bytes, ("in", "out")),
    ):
        if first is not None and second is not None:
            pieces.append(f"{name} {_rate(first)} {words[0]} and {_rate(second)} {words[1]}")
    return pieces


def _workload(use: HostUse) -> list[str]:
    """List what the workload's processes did, without what is unknown."""
    pieces = []
    if use.workload_cpu is not None:
        pieces.append(f"{fixed(use.workload_cpu, 2)} cores busy")
    if use.workload_rss is not None:
        pieces.append(f"at most {_memory(use.workload_rss)} resident")
    if use.workload_processes is not None:
        n = int(use.workload_processes)
        pieces.append(f"in {n:,} {'process' if n == 1 else 'processes'}")
    return pieces


def _memory(size: float) -> str:
    return f"{size / (1 << 20):,.0f} MiB" if size < 10 << 30 else f"{size / (1 << 30):,.1f} GiB"


def _rate(bytes_per_second: float) -> str:
    return f"{fixed(bytes_per_second / 1e6, 1)} MB/s"
