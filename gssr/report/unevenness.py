"""What imbalance cost, when, on which nodes and at which places, and which GPUs behave alike."""

from functools import partial

import numpy as np

from gssr.arrays import Floats
from gssr.model.results import Analysis, Unevenness
from gssr.render.bar import bar
from gssr.render.cells import clean
from gssr.render.clock import duration, moment
from gssr.render.glyphs import glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import UNKNOWN, count, energy, fixed, metric_of, number, percent, unit_of
from gssr.render.strip import strip
from gssr.render.table import Cell, Column, table
from gssr.report.axes import full_scale, time_axis
from gssr.report.options import Options
from gssr.report.page import LABEL, labelled, remark

_NODES = {"low": 0, "medium": 5, "high": 40}
_PLACES = 16
_NAMED = 2
_LEAST = 24
"""Cells that a line over time needs."""


def costs(analysis: Analysis, options: Options) -> list[Row]:
    """The imbalance over time, what it cost, and what would be if there were none; nothing of a single GPU."""
    found = analysis.unevenness
    if found is None:
        return []
    rows = remark(when(analysis, found), options.width, "plain", label="in time")
    rows += remark(lost(found), options.width, "plain", label="lost")
    rows += remark(as_the_median(analysis, found), options.width, "plain", label="if even")
    room = options.width - LABEL
    if options.verbosity == "low" or room < _LEAST:
        return rows
    axis, marks = time_axis(analysis), glyphs(options.ascii)
    columns = axis.columns(found.imbalance.over_time, found.start, found.width, room)
    return [
        *rows,
        (),
        labelled("imbalance", options.width, *strip(columns.tolist(), marks)),
        labelled("over time", options.width, Span(axis.text(room), "dim")),
    ]


def when(analysis: Analysis, found: Unevenness) -> str:
    """The imbalance moment by moment."""
    uneven, axis = found.imbalance, time_axis(analysis)
    label = metric_of(found.metric).label
    text = f"{percent(uneven.resolved)} of {label} moment by moment (columns of {duration(found.width)})"
    if uneven.worst is not None:
        at = moment(uneven.worst_start - axis.origin, axis.end - axis.origin)
        text += f"; worst minute at {at}: {percent(uneven.worst)}"
    return text


def lost(found: Unevenness) -> str:
    """GPU-hours and energy lost."""
    uneven = found.imbalance
    if uneven.lost is None or uneven.static is None:
        return UNKNOWN
    cost = "" if found.energy_lost is None else f" and {energy(found.energy_lost)}"
    turns = uneven.lost - uneven.static
    return (
        f"{_hours(uneven.lost)} of {_hours(uneven.gpu_hours)} GPU-hours{cost} against the busiest GPU of each moment: "
        f"{_hours(uneven.static)} all along, {_hours(turns)} by turns"
    )


def as_the_median(analysis: Analysis, found: Unevenness) -> str:
    """What the score would be if all GPUs ran like the median GPU."""
    scores = f"{fixed(analysis.score, 3, UNKNOWN)} to {fixed(found.score_as_median, 3, UNKNOWN)}"
    return f"score {scores} if all ran like the median GPU"


def _hours(hours: float) -> str:
    return fixed(hours, 1 if hours >= 100 else 2 if hours >= 1 else 3)


def groups(analysis: Analysis, options: Options) -> list[Row]:
    """GPUs that behave alike, the lowest nodes, and the places in the node; what there is only one of is left out."""
    found = analysis.unevenness
    if found is None:
        return []
    return [*_alike(analysis, found, options), *_nodes(analysis, found, options), *_places(analysis, found, options)]


def _alike(analysis: Analysis, found: Unevenness, options: Options) -> list[Row]:
    if len(found.alike) < 2:
        return []
    lines: list[list[Cell]] = []
    for group in found.alike:
        places = [clean(analysis.gpus[gpu].place) for gpu in group.gpus[:_NAMED]]
        more = f" and {len(group.gpus) - _NAMED:,} more" if len(group.gpus) > _NAMED else ""
        role: Role = "outlier" if group.apart else "value"
        name: Row = (Span("! " if group.apart else "  ", role), Span(group.name, role))
        n = f"{len(group.gpus):,}"
        lines.append([name, *_mean(analysis, found, group.mean, options), n, ", ".join(places) + more])
    return [(), *_table("alike", lines, found, options, Column("GPUs", "right"), Column("", drop=1))]


def _nodes(analysis: Analysis, found: Unevenness, options: Options) -> list[Row]:
    n, most = len(found.by_node.keys), _NODES[options.verbosity]
    if n < 2 or not most:
        return []
    order = np.argsort(found.by_node.means, kind="stable")[:most]
    lines: list[list[Cell]] = [
        [f"  {clean(found.nodes[key])}", *_mean(analysis, found, mean, options)]
        for key, mean in zip(found.by_node.keys[order].tolist(), found.by_node.means[order].tolist(), strict=True)
    ]
    return [(), *_table(f"lowest of {count(n, 'node')}" if n > most else "nodes", lines, found, options)]


def _places(analysis: Analysis, found: Unevenness, options: Options) -> list[Row]:
    keys = found.by_index.keys
    if len(found.by_node.keys) < 2 or not 1 < len(keys) <= _PLACES:
        return []
    metric = metric_of(found.metric)
    lines: list[list[Cell]] = []
    own = zip(keys.tolist(), found.by_index.means.tolist(), *_below(found), strict=True)
    for key, mean, below, share in own:
        name = f"  {key}" if key >= 0 else "  unknown"
        lines.append([name, *_mean(analysis, found, mean, options), number(below, metric), percent(share)])
    extra = (Column("below node's mean", "right", drop=2), Column("of nodes", "right", drop=1))
    return [(), *_table("index in node", lines, found, options, *extra)]


def _below(found: Unevenness) -> tuple[list[float], list[float]]:
    below: Floats = found.by_index.below
    return below.tolist(), found.by_index.share.tolist()


def _mean(analysis: Analysis, found: Unevenness, mean: float, options: Options) -> list[Cell]:
    """A mean and its bar."""
    metric = metric_of(found.metric)
    full = full_scale(analysis, metric)
    return [(Span(number(mean, metric), "value"),), partial(bar, mean / full, glyphs=glyphs(options.ascii))]


def _table(title: str, lines: list[list[Cell]], found: Unevenness, options: Options, *further: Column) -> list[Row]:
    unit = unit_of(metric_of(found.metric)).name
    head = [Column(title), Column(unit, "right"), Column("", drop=3, least=8, most=12), *further]
    return table(head, lines, options.width, glyphs(options.ascii), gap=2)
