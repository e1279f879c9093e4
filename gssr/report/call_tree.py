"""The part of a trace's page that is about calls: what the time went into, the path that has most of it, and which rank
differs."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.traces import call_tree
from gssr.model.traces.call_tree import CallTree
from gssr.model.verdicts.words import took
from gssr.render.cells import cell_width, clean, fit, flow, wrap
from gssr.render.columns import split_row, strip
from gssr.render.function_names import distinct_names, short_name
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import NONE, fixed, percent
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import LABEL, PageOptions, labelled, remark, rest_rows, section

_LOOKS: tuple[Role, ...] = ("series", "outlier", "gap", "dim")
_TOLD = 0.01
"""On a page of all, calls below this share of the time are left out."""
_ALIKE = 0.001
"""Below this imbalance no place is named: all have nearly the same."""
_NUMBERS = 54
"""Cells of all columns of numbers."""
_MOST_LINES = {"low": 5, "medium": 10, "high": 200}


def call_rows(tree: CallTree, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the sections about calls. If no times were measured, one sentence instead that names what was."""
    if not tree.has(call_tree.TIME):
        return wrap(f"no times were measured: {', '.join(clean(each.name) for each in tree.metrics)}", options.width)
    rows = _by_paradigm(tree, options.width, marks)
    rows += _functions(tree, options, marks)
    rows += _throughputs(tree, options, marks)
    if options.verbosity != "low":
        rows += _path(tree, options, marks)
    return rows + (_places(tree, options, marks) if len(tree.places) > 1 else [])


def shares_of(tree: CallTree) -> dict[str, float]:
    """Return the share of each paradigm in the time of all places, 0-1, the greatest first."""
    found = call_tree.by_paradigm(tree)
    total = max(sum(float(each.sum()) for each in found.values()), 1e-9)
    return {name: float(each.sum()) / total for name, each in found.items()}


def _by_paradigm(tree: CallTree, width: int, marks: Glyphs) -> list[Row]:
    """Draw the time of all places as a bar with its legend: the three paradigms with most of it, and the rest."""
    total = float(np.nansum(tree.values(call_tree.TIME).inclusive[tree.depth == 0]))
    of = f"{took(total)} on {call_tree.places_text(tree)}"
    rows = section("Where did the time go?", width, marks, of)
    shares = shares_of(tree)
    most = list(shares.items())[:3]
    parts = [*most, ("others", 1 - sum(share for _, share in most))]
    fills, room = f"{marks.full}{marks.shares[1]}{marks.shares[2]} ", max(width - LABEL, 8)
    looks = list(zip(fills, _LOOKS, strict=True))[: len(parts)]
    rows.append(labelled("split", width, *split_row([share for _, share in parts], looks, room)))
    legend = [
        (Span(f"{fill if name != 'others' else ' '} ", look), Span(f"{clean(name)} {percent(share)}"))
        for fill, (name, share), look in zip(f"{fills[: len(most)]} ", parts, _LOOKS, strict=False)
        if name != "others" or share > 5e-4
    ]
    return [*rows, *(labelled("", width, *row) for row in flow(legend, room, marks.ellipsis, separator="   "))]


def _columns(tree: CallTree, first: str) -> tuple[TableColumn, ...]:
    """Return the columns of a table of calls; ``first`` heads their names."""
    return (
        TableColumn(first), TableColumn("incl %", "right"), TableColumn("excl %", "right"),
        TableColumn(tree.visits_noun, "right", 1), TableColumn("mean", "right", 2), TableColumn("max", "right"),
        TableColumn("on", "left", 1), TableColumn("imbal", "right", 2),
    )  # fmt: skip


def _line(
    tree: CallTree, label: str, visits: float, values: tuple[Floats, Floats], total: float, of: Floats,
    options: PageOptions, marks: Glyphs,
) -> list[Cell]:  # fmt: skip
    """Return the cells of one row: ``label``, the shares of both ``values`` [n_places] in ``total`` (ns), the
    ``visits`` (NaN: unknown), and mean, greatest, its place and imbalance of ``of`` [n_places]."""
    spread = call_tree.spread(of[None])
    most = int(spread.most[0])
    name = fit(clean(label), _name_width(options), marks.ellipsis)
    return [
        name, *(fixed(100 * float(each.sum()) / total, 1) for each in values),
        f"{visits:,.0f}" if visits == visits else NONE, _took(float(spread.mean[0])), _took(float(spread.greatest[0])),
        tree.called(most) if float(spread.imbalance[0]) >= _ALIKE else "", fixed(100 * float(spread.imbalance[0]), 1),
    ]  # fmt: skip


def _name_width(options: PageOptions) -> int:
    return max(options.width - _NUMBERS, 24)


def _took(ns: float) -> str:
    return took(ns) if ns == ns else NONE


def _functions(tree: CallTree, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the functions with most time of their own, as many as the verbosity allows, and how many more there are."""
    flat = call_tree.flat_profile(tree)
    values, visits = flat.values(call_tree.TIME), flat.values(call_tree.VISITS).exclusive
    total = max(float(np.nansum(values.exclusive)), 1e-9)
    about = f"by their own time; per {tree.noun}"
    rows = section("Which functions?", options.width, marks, about)
    most = _MOST_LINES[options.verbosity]
    names = distinct_names(flat.names[:most], _name_width(options), marks.ellipsis)
    lines = [
        _line(tree, name, float(visits[at].sum()), (values.inclusive[at], values.exclusive[at]), total,
              values.exclusive[at], options, marks)
        for at, name in enumerate(names)
    ]  # fmt: skip
    rows += table(_columns(tree, "function"), lines, options.width, marks)
    return rows + rest_rows(len(flat) - len(lines), "name", "--csv functions", options.width)


def _throughputs(tree: CallTree, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the functions of which the profile tells FLOPs or bytes, with how many of them there are in a second; no rows if
    it tells none."""
    found = call_tree.throughputs(tree)
    if not found:
        return []
    head = (
        TableColumn("function"), TableColumn("time", "right"), TableColumn("TFLOP/s", "right"),
        TableColumn("GB/s", "right", drop=1),
    )  # fmt: skip
    shown = found[: _MOST_LINES[options.verbosity]]
    names = distinct_names([each.name for each in shown], _name_width(options), marks.ellipsis)
    lines: list[list[Cell]] = [
        [clean(name), took(each.ns),
         *(NONE if n is None else fixed(n / each.ns / size, 2) for n, size in ((each.flops, 1e3), (each.bytes, 1.0)))]
        for name, each in zip(names, shown, strict=True)
    ]  # fmt: skip
    about = "FLOPs and bytes that the program tells, in their time"
    rows = section("How fast?", options.width, marks, about) + table(head, lines, options.width, marks)
    return rows + rest_rows(len(found) - len(lines), "name", "--csv calltree_metrics", options.width)


def _path(tree: CallTree, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the calls on the path with most of the time; at high verbosity all calls with at least _TOLD of it."""
    values = tree.values(call_tree.TIME)
    total = max(float(np.nansum(values.inclusive[tree.depth == 0])), 1e-9)
    if options.verbosity == "high":
        share = np.nan_to_num(values.inclusive).sum(axis=1) / total
        nodes, title = [node for node in by_time(tree) if share[node] >= _TOLD], "Call tree"
        about = f"calls with at least {percent(_TOLD)} of the time"
    else:
        nodes, title, about = call_tree.hot_path(tree), "Hot path", "the call with most of the time, level by level"
    visits = tree.values(call_tree.VISITS).exclusive
    most = _MOST_LINES["high"] if options.verbosity == "high" else 12
    lines = [
        _line(tree, _indented(tree, node, _name_width(options)), float(visits[node].sum()),
              (values.inclusive[node], values.exclusive[node]), total, values.inclusive[node], options,
              marks)
        for node in nodes[:most]
    ]  # fmt: skip
    rows = section(title, options.width, marks, about) + table(_columns(tree, "call"), lines, options.width, marks)
    return rows + rest_rows(len(nodes) - most, "call", "--csv calltree", options.width)


def _indented(tree: CallTree, node: int, width: int) -> str:
    """Name a call, indented by its depth; a name that does not fit into ``width`` cells is written short."""
    indent, name = " " * min(int(tree.depth[node]), 20), tree.names[node]
    return f"{indent}{name if cell_width(indent + clean(name)) <= width else short_name(name)}"


def by_time(tree: CallTree) -> list[int]:
    """Return all nodes (indices into the tree), each before what it calls, and callees with more time before others."""
    inclusive = np.nan_to_num(tree.values(call_tree.TIME).inclusive).sum(axis=1)
    below = call_tree.callees(tree.parent)
    return call_tree.depth_first(below, lambda nodes: sorted(nodes, key=lambda node: inclusive[node]))


def _places(tree: CallTree, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw over the places, with the least and the most, those of the two paradigms with most of the time in which places
    differ; no rows if they are alike in both. If there are more places than cells, the greatest of neighbours."""
    width, noun, rows = options.width, tree.noun, list[Row]()
    room = max(width - LABEL, 8)
    for name, time in list(call_tree.by_paradigm(tree).items())[:2]:
        found = call_tree.spread(time[None])
        if not float(found.imbalance[0]) >= _ALIKE:
            continue
        edges = np.linspace(0, len(time), min(room, len(time)) + 1).astype(int)
        columns = np.maximum.reduceat(time, edges[:-1]) / time.max()
        rows.append(labelled(fit(clean(name), LABEL - 1, marks.ellipsis), width, *strip(columns.tolist(), marks)))
        least, most = tree.called(int(time.argmin())), tree.called(int(found.most[0]))
        text = f"least {took(float(time.min()))}, {clean(least)}; most {took(float(time.max()))}, {clean(most)}"
        rows += remark(f"{text}; imbalance {percent(float(found.imbalance[0]))}", width)
    return [*section(f"Which {noun} differs?", width, marks, f"a column is a {noun}"), *rows] if rows else []
