"""Which GPUs differ: each GPU's mean over time, against the others.

What imbalance cost, when, on which nodes and at which places, and which GPUs behave alike.
"""

from collections.abc import Sequence
from functools import partial
from statistics import median

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import Metric, best_measured
from gssr.model.findings.outlier_gpus import culprits, outlier_gpus
from gssr.model.results import Analysis, Unevenness
from gssr.model.statistics.balance import histogram
from gssr.model.verdicts.awaited_gpus import WAITS
from gssr.render.cells import cell_width, clean, clip, fit, wrap
from gssr.render.clock import duration, moment
from gssr.render.columns import bar, strip
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import UNKNOWN, count, energy, fixed, metric_of, number, percent, quantity, unit_of
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import (
    KEY_METRICS,
    LABEL,
    PageOptions,
    compared,
    full_scale,
    imbalance_text,
    labelled,
    remark,
    section,
    strip_legend,
    time_axis,
)

ALL_GPUS = 16
"""Up to this many GPUs all are shown; beyond, the extremes."""
EXTREMES = 5
_LEAST_FOR_HISTOGRAM = 5
_NAMED = 2
"""Up to this many GPUs in a bin of the histogram are named."""
_COUNT, _LEAST_NAME = 6, 8
"""Cells for the count of a bin, and the fewest in which names are worth it."""


def load_balancing(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the part of the page that says which GPUs differ; one sentence if nothing was measured."""
    width, marks = options.width, glyph_set(options.ascii)
    name = best_measured(compared(analysis), options.metrics or ())
    about = f"means over time of each GPU's {metric_of(name).label}" if name else ""
    rows = section("Which GPUs differ?", width, marks, about)
    if name is None:
        rows.append(clip((Span("nothing to compare: " + ("no samples" if analysis.gpus else "no GPU")),), width))
        return rows
    metric, many = metric_of(name), len(analysis.gpus)
    rows += remark(imbalance_text(analysis, name), width, "plain", label="imbalance")
    rows += costs(analysis, options)
    if many >= _LEAST_FOR_HISTOGRAM and options.verbosity != "low":
        rows += [(), *_histogram(analysis, metric, width, marks)]
    rows += _gpus(analysis, metric, options, marks)
    if options.verbosity != "low":
        rows += groups(analysis, options)
    if many > 1 and options.verbosity != "low":
        rows += _others(analysis, metric, options, marks)
    return rows


def _histogram(analysis: Analysis, metric: Metric, width: int, marks: Glyphs) -> list[Row]:
    """Draw how many GPUs have which mean: a line for each bin from the highest to the lowest that hold any, with the
    names of few GPUs in a bin."""
    from gssr.report.plotext_chart import histogram_chart  # a page without a drawing needs no plotext

    found, unit = histogram(metric, analysis.gpus), unit_of(metric)
    title = clip((Span("number of GPUs", "heading"), Span(f" by mean {metric.label}, {unit.name}", "dim")), width)
    shown = [edge * unit.factor for edge in found.edges.tolist()]
    decimals = 0 if all(abs(edge - round(edge)) < 1e-6 for edge in shown) else unit.decimals
    edges = [fixed(edge, decimals) for edge in shown]
    held = np.flatnonzero(found.counts)
    bins = range(int(held[-1]), int(held[0]) - 1, -1) if len(held) else range(0)
    size = max(map(len, edges))
    indent = "  " if width >= 40 else ""
    labels = [f"{indent}{edges[i]:>{size}} - {edges[i + 1]:>{size}}" for i in bins]
    counts = [int(found.counts[i]) for i in bins]
    names = [
        ", ".join(clean(analysis.gpus[i].place) for i in members) if len(members) <= _NAMED else ""
        for members in (found.members[i] for i in bins)
    ]
    spare = width - len(indent) - 2 * size - 4 - _COUNT
    tail = min(max(map(cell_width, names), default=0), spare // 2)
    tail = tail + 2 if tail >= _LEAST_NAME else 0
    bars = histogram_chart(labels, counts, spare - tail, marks) or [(Span(f"{label} "),) for label in labels]
    rows = []
    for drawn, n, name in zip(bars, counts, names, strict=True):
        about = Span(fit(f"  {name}", tail, marks.ellipsis), "dim")
        rows.append(clip((*drawn, Span(f"{n:>{_COUNT}}", "plain" if n else "dim"), about), width))
    return [title, *rows]


def _gpus(analysis: Analysis, metric: Metric, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw each GPU, or of more than ALL_GPUS the lowest and the highest few, with its course over time; then how many
    are unlike the rest or without samples."""
    apart = outliers_of(analysis, metric)
    rows: list[Row] = []
    for title, group in listed(analysis, metric):
        rows += [(), *_group(analysis, metric, title, group, apart, options, marks)]
    if metric.name in analysis.gpu_series and options.width >= 60:
        rows += wrap(strip_legend(metric, full_scale(analysis, metric), marks), options.width, role="dim")
    if apart:
        rows += wrap(f"! {outliers_text(analysis, metric)}", options.width, role="outlier")
    silent = len(analysis.gpus) - len(_means(analysis, metric))
    if silent:
        rows += wrap(f"{count(silent, 'GPU')} without samples of {metric.label}", options.width, role="gap")
    return rows


def listed(analysis: Analysis, metric: Metric) -> list[tuple[str, Sequence[int]]]:
    """Return the GPUs that are listed one by one, as (title, positions): all of them, or of more than ALL_GPUS the
    lowest and the highest EXTREMES that have a mean."""
    if len(analysis.gpus) <= ALL_GPUS:
        return [("all GPUs", range(len(analysis.gpus)))]
    means = _means(analysis, metric)
    ranked = sorted(means, key=lambda i: (means[i], i))
    low = ranked[:EXTREMES]
    high = ranked[len(low) :][-EXTREMES:][::-1]
    return [(f"lowest {len(low)}", low), (f"highest {len(high)}", high)]


def outliers_of(analysis: Analysis, metric: Metric) -> frozenset[int]:
    """Return the positions of the GPUs that are marked as unlike the rest, by the same rule as on the screens
    (gssr.model.findings.outlier_gpus)."""
    means = np.array([gpu.mean.get(metric.name) for gpu in analysis.gpus], np.float64)
    blamed = culprits(analysis.judgement.verdicts, len(analysis.gpus))
    return frozenset(np.flatnonzero(outlier_gpus(metric.name, means, full_scale(analysis, metric), blamed)).tolist())


def outliers_text(analysis: Analysis, metric: Metric) -> str:
    """Say how many GPUs are unlike the rest, and what the median GPU does. Needs a GPU with a mean."""
    middle = quantity(median(_means(analysis, metric).values()), metric)
    return f"{count(len(outliers_of(analysis, metric)), 'GPU')} unlike the rest; the median GPU {middle}"


def _means(analysis: Analysis, metric: Metric) -> dict[int, float]:
    """The mean over time of each GPU that has one, by position."""
    return {i: mean for i, gpu in enumerate(analysis.gpus) if (mean := gpu.mean.get(metric.name)) is not None}


def _group(
    analysis: Analysis, metric: Metric, title: str, group: Sequence[int], apart: frozenset[int], options: PageOptions,
    marks: Glyphs,
) -> list[Row]:  # fmt: skip
    """Draw a table of these GPUs (positions) with mean, bar, score and course; ``!`` before those that are ``apart``.
    Scores are left out if no GPU has one."""
    full = full_scale(analysis, metric)
    head = [
        TableColumn(title, keep="end"),
        TableColumn(unit_of(metric).name, "right"),
        TableColumn("", drop=3, least=8, most=12),
        TableColumn("score", "right", drop=1),
        TableColumn("", drop=2, least=10, most=240),
    ]
    if all(gpu.score is None for gpu in analysis.gpus):
        del head[3]
    lines: list[list[Cell]] = []
    for i in group:
        gpu = analysis.gpus[i]
        mean = gpu.mean.get(metric.name)
        role: Role = "outlier" if i in apart else "plain"
        lines.append([
            (Span("! " if i in apart else "  ", "outlier"), Span(clean(gpu.place), role)),
            (Span(number(mean, metric), "value"),),
            partial(bar, None if mean is None else mean / full, glyphs=marks),
            *([fixed(gpu.score, 3)] if len(head) == 5 else []),
            partial(_course, analysis, metric, i, full, marks),
        ])  # fmt: skip
    if metric.name in analysis.gpu_series:
        lines.append([*[""] * (len(head) - 1), lambda room: (Span(time_axis(analysis).text(room), "dim"),)])
    return table(head, lines, options.width, marks, gap=2)


def _course(analysis: Analysis, metric: Metric, position: int, full: float, marks: Glyphs, room: int) -> Row:
    """Draw the GPU at this position over time, ``room`` cells wide, from 0 to ``full`` (stored unit); empty if its
    series was not kept."""
    series = analysis.gpu_series.get(metric.name)
    if series is None:
        return ()
    values = time_axis(analysis).columns(series.values[position], series.start, series.width, room)
    return strip((values / full).tolist(), marks)


def _others(analysis: Analysis, metric: Metric, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the balance of the other metrics that say how evenly work is spread; no rows if there are none."""
    wanted = KEY_METRICS if options.verbosity == "medium" else tuple(analysis.balance)
    lines: list[list[Cell]] = []
    for name, balance in analysis.balance.items():
        asked = name in wanted or name in (options.metrics or ())
        if name == metric.name or not asked or balance.lowest is None or balance.highest is None:
            continue
        other = metric_of(name)
        low, high = balance.lowest, balance.highest
        lines.append([
            other.label,
            "all 0" if high.mean.get(name) == 0 else percent(balance.imbalance),
            quantity(low.mean.get(name), other), clean(low.place),
            quantity(high.mean.get(name), other), clean(high.place),
        ])  # fmt: skip
    if not lines:
        return []
    head = [
        TableColumn("other metrics"),
        TableColumn("imbalance", "right"),
        TableColumn("lowest", "right", drop=1),
        TableColumn("", drop=2, keep="end"),
        TableColumn("highest", "right", drop=1),
        TableColumn("", drop=2, keep="end"),
    ]
    return [(), *table(head, lines, options.width, marks, gap=2)]


_LEAST_CHANGE = 0.01
"""A score that changes by less says nothing."""
_NODES = {"low": 0, "medium": 5, "high": 40}
_PLACES = 16
_LEAST_WAITING = 0.005
"""A smaller share of the GPU time is not told as waiting: it would round to nothing."""
_LEAST_FOR_WORST_MINUTE = 120.0
"""Seconds. In a shorter run a minute is most of it."""
_LEAST = 24
"""Cells that a line over time needs."""


def costs(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the imbalance moment by moment, what it cost, what would be without it, and its course if there is room; no
    rows if GPUs were not compared, as with a single one."""
    found = analysis.judgement.unevenness
    if found is None:
        return []
    rows = remark(when(analysis, found), options.width, "plain", label="in time")
    rows += remark(lost(analysis, found), options.width, "plain", label="lost")
    median_text = as_the_median(analysis, found)
    if median_text:
        rows += remark(median_text, options.width, "plain", label="median GPU")
    room = options.width - LABEL
    if options.verbosity == "low" or room < _LEAST:
        return rows
    axis, marks = time_axis(analysis), glyph_set(options.ascii)
    columns = axis.columns(found.imbalance.over_time, found.start, found.width, room)
    return [
        *rows,
        (),
        labelled("imbalance", options.width, *strip(columns.tolist(), marks)),
        labelled("over time", options.width, Span(axis.text(room), "dim")),
    ]


def when(analysis: Analysis, found: Unevenness) -> str:
    """Say how large the imbalance is moment by moment and, of a run of some minutes, when its worst minute was, if that
    is known."""
    uneven, axis = found.imbalance, time_axis(analysis)
    label = metric_of(found.metric).label
    text = f"{percent(uneven.resolved)} of {label} moment by moment (columns of {duration(found.width)})"
    if uneven.worst is not None and axis.end - axis.begin >= _LEAST_FOR_WORST_MINUTE:
        at = moment(uneven.worst_start - axis.origin, axis.end - axis.origin)
        text += f"; worst minute at {at}: {percent(uneven.worst)}"
    return text


def lost(analysis: Analysis, found: Unevenness) -> str:
    """Say how many GPU-hours the account sees as waiting for other GPUs; then how much more the GPUs would have done if all
    had been as busy as the busiest one of each moment, and what of that is constant; UNKNOWN if that is not known. The
    second is more than the first where GPUs did less without waiting."""
    uneven, breakdown = found.imbalance, analysis.judgement.breakdown
    if uneven.lost is None or uneven.static is None:
        return UNKNOWN
    cost = "" if found.energy_lost is None else f", {energy(found.energy_lost)}"
    turns = uneven.lost - uneven.static
    waiting = 0.0 if breakdown is None else sum(map(breakdown.share, WAITS))
    seen = ""
    if breakdown is not None and waiting >= _LEAST_WAITING:
        seen = f"{_hours(waiting * breakdown.gpu_seconds / 3600)} GPU-hours of waiting for other GPUs; "
    return (
        f"{seen}room for {_hours(uneven.lost)} of {_hours(uneven.gpu_hours)} GPU-hours{cost}, if all GPUs had been as busy "
        f"as the busiest of each moment ({_hours(uneven.static)} constant, {_hours(turns)} rotating)"
    )


def as_the_median(analysis: Analysis, found: Unevenness) -> str:
    """Say what the score would be if all GPUs ran like the median GPU; "" if that is unknown, or hardly another score."""
    before, after = analysis.score, found.score_as_median
    if after is None or (before is not None and abs(after - before) < _LEAST_CHANGE):
        return ""
    scores = f"{fixed(analysis.score, 3, UNKNOWN)} to {fixed(found.score_as_median, 3, UNKNOWN)}"
    return f"score {scores} if all ran like the median GPU"


def _hours(hours: float) -> str:
    return fixed(hours, 1 if hours >= 100 else 2 if hours >= 1 else 3)


def groups(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw GPUs that behave alike, the lowest nodes, and the places in the node; each is left out if there is only one
    of it."""
    found = analysis.judgement.unevenness
    if found is None:
        return []
    return [*_alike(analysis, found, options), *_nodes(analysis, found, options), *_places(analysis, found, options)]


def _alike(analysis: Analysis, found: Unevenness, options: PageOptions) -> list[Row]:
    """Draw the groups of GPUs that behave alike; no rows for fewer than two."""
    if len(found.alike) < 2:
        return []
    lines: list[list[Cell]] = []
    apart = outliers_of(analysis, metric_of(found.metric))
    for group in found.alike:
        places = [clean(analysis.gpus[gpu].place) for gpu in group.gpus[:_NAMED]]
        more = f" and {len(group.gpus) - _NAMED:,} more" if len(group.gpus) > _NAMED else ""
        marked = not apart.isdisjoint(group.gpus)
        role: Role = "outlier" if marked else "value"
        name: Row = (Span("! " if marked else "  ", role), Span(group.name, role))
        n = f"{len(group.gpus):,}"
        lines.append([name, *_mean(analysis, found, group.mean, options), n, ", ".join(places) + more])
    return [(), *_table("alike", lines, found, options, TableColumn("GPUs", "right"), TableColumn("", drop=1))]


def _nodes(analysis: Analysis, found: Unevenness, options: PageOptions) -> list[Row]:
    """Draw the lowest nodes, as many as the verbosity allows; no rows for fewer than two."""
    n, most = len(found.by_node.keys), _NODES[options.verbosity]
    if n < 2 or not most:
        return []
    order = np.argsort(found.by_node.means, kind="stable")[:most]
    lines: list[list[Cell]] = [
        [f"  {clean(found.nodes[key])}", *_mean(analysis, found, mean, options)]
        for key, mean in zip(found.by_node.keys[order].tolist(), found.by_node.means[order].tolist(), strict=True)
    ]
    return [(), *_table(f"lowest of {count(n, 'node')}" if n > most else "nodes", lines, found, options)]


def _places(analysis: Analysis, found: Unevenness, options: PageOptions) -> list[Row]:
    """Draw the mean of each GPU index in the node; no rows for fewer than two nodes or indices, or more than _PLACES."""
    keys = found.by_index.keys
    if len(found.by_node.keys) < 2 or not 1 < len(keys) <= _PLACES:
        return []
    metric = metric_of(found.metric)
    lines: list[list[Cell]] = []
    own = zip(keys.tolist(), found.by_index.means.tolist(), *_below(found), strict=True)
    for key, mean, below, share in own:
        name = f"  {key}" if key >= 0 else "  unknown"
        lines.append([name, *_mean(analysis, found, mean, options), number(below, metric), percent(share)])
    extra = (TableColumn("below node's mean", "right", drop=2), TableColumn("of nodes", "right", drop=1))
    return [(), *_table("index in node", lines, found, options, *extra)]


def _below(found: Unevenness) -> tuple[list[float], list[float]]:
    below: Floats = found.by_index.below
    return below.tolist(), found.by_index.share.tolist()


def _mean(analysis: Analysis, found: Unevenness, mean: float, options: PageOptions) -> list[Cell]:
    """Return the cells of a mean and of its bar."""
    metric = metric_of(found.metric)
    full = full_scale(analysis, metric)
    return [(Span(number(mean, metric), "value"),), partial(bar, mean / full, glyphs=glyph_set(options.ascii))]


def _table(
    title: str, lines: list[list[Cell]], found: Unevenness, options: PageOptions, *further: TableColumn
) -> list[Row]:
    """Draw a table with a title, a mean and its bar, and ``further`` columns."""
    unit = unit_of(metric_of(found.metric)).name
    head = [TableColumn(title), TableColumn(unit, "right"), TableColumn("", drop=3, least=8, most=12), *further]
    return table(head, lines, options.width, glyph_set(options.ascii), gap=2)
