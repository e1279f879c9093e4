"""The call tree as rows: branches that open and close, the hottest open at first, and the call under the cursor on each
rank. Pure drawing."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import OF_COUNTER
from gssr.model.cached import once
from gssr.model.traces.call_tree import COMMUNICATION, TIME, VISITS, CallTree, callees, hot_path, places_text, spread
from gssr.model.verdicts.words import took
from gssr.render.cells import cell_width, clean, clip, fit, pad
from gssr.render.columns import area
from gssr.render.glyphs import Glyphs, drawable
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import NONE, fixed, prefixed
from gssr.render.table import rule
from gssr.traces.timeline import TraceError
from gssr.tui.view import moved

_HEAD = 1
_PANEL = 6
"""Rows about the call under the cursor, on screens of at least so many: a title, the places as bars, their names."""
_LEAST_PANEL = 16
_LOOKS: dict[str, Role] = {
    **dict.fromkeys(COMMUNICATION, "outlier"), **dict.fromkeys(("openmp", "pthread"), "gap"),
    **dict.fromkeys(("cuda", "hip", "opencl", "openacc", "kokkos"), "series"),
}  # fmt: skip
"""By paradigm; the program's own calls are plain."""


class Column(NamedTuple):
    """A column of numbers: ``key`` of the table's; from so many cells of ``width`` on it is shown."""

    key: str
    title: str
    size: int
    least: int = 0


_COLUMNS = (
    Column("inclusive", "with calls", 11), Column("share", "share", 8), Column("exclusive", "own", 10),
    Column("visits", "calls", 12, 60), Column("least", "least", 11, 110), Column("greatest", "most", 11, 90),
    Column("imbalance", "imbal", 8, 80), Column("name", "call", 0),
)  # fmt: skip


class Listed(NamedTuple):
    """The calls in sight, in their order: ``nodes``, and of all nodes their ``numbers`` [n_nodes] by the columns' keys and
    the ``paths`` by which it is known which are open. ``found``: those of the name that is looked for, None without one."""

    metric: str
    unit: str
    columns: tuple[Column, ...]
    sorted_by: int
    nodes: Ints
    open: frozenset[int]
    paths: tuple[int, ...]
    below: Mapping[int, list[int]]
    numbers: Mapping[str, Floats]
    found: frozenset[int] | None


class Look(NamedTuple):
    """What is looked at of a tree, and in how many cells: the ``metric``, which ``column`` it is sorted by, the name that is
    ``sought``, the calls that are ``toggled``, the ``row`` under the cursor, and the one at the ``top``."""

    glyphs: Glyphs
    width: int = 80
    height: int = 24
    metric: str = ""
    column: int = 0
    reverse: bool = False
    sought: str = ""
    toggled: frozenset[int] = frozenset()
    row: int = 0
    top: int = 0


def metric_name(metric: str) -> str:
    """What a metric of a profile is called on screens, as in the profile."""
    return metric.removeprefix(OF_COUNTER).partition(":")[2] if metric.startswith(OF_COUNTER) else metric


@once
def _numbers(tree: CallTree, metric: str) -> dict[str, Floats]:
    values, known = tree.values(metric), next(each for each in tree.metrics if each.name == metric)
    over = spread(values.inclusive, known.combine)
    own = spread(values.exclusive, known.combine).total
    roots = over.total[tree.depth == 0]
    total = float(np.nansum(roots)) if known.combine == "sum" else float(np.nanmax(roots, initial=0.0))
    visits = tree.values(VISITS).exclusive.sum(axis=1)
    return {
        "inclusive": over.total, "share": over.total / total if total > 0 else over.total * np.nan, "exclusive": own,
        "visits": visits, "least": over.least, "greatest": over.greatest, "imbalance": over.imbalance,
    }  # fmt: skip


@once
def _paths(tree: CallTree) -> tuple[tuple[int, ...], Mapping[int, list[int]], frozenset[int]]:
    """What each node is known by in another window, the callees of each, and the nodes that are open at first."""
    found: list[int] = []
    for name, above in zip(tree.names, tree.parent.tolist(), strict=True):
        found.append(hash((found[above] if above >= 0 else 0, name)))
    hot = hot_path(tree, _first_metric(tree))
    return tuple(found), callees(tree.parent), frozenset(found[node] for node in hot)


def _first_metric(tree: CallTree) -> str:
    return TIME if tree.has(TIME) else tree.metrics[0].name


def _is_known(tree: CallTree, metric: str) -> bool:
    """Its values are read now; a file that has changed since has none."""
    try:
        return tree.has(metric) and len(tree.values(metric).inclusive) > 0
    except TraceError:
        return False


@once
def listed(
    tree: CallTree, metric: str, column: int, reverse: bool, sought: str, toggled: frozenset[int], width: int
) -> Listed:
    """The calls as they are shown; of those that are ``toggled`` the open ones are closed, and the closed ones open."""
    metric = metric_name(metric)
    metric = metric if _is_known(tree, metric) else _first_metric(tree)
    numbers = _numbers(tree, metric)
    paths, below, hot = _paths(tree)
    columns = tuple(each for each in _COLUMNS if width >= each.least)
    at = column % len(columns)
    key = columns[at].key
    unit = next(each.unit for each in tree.metrics if each.name == metric)
    open_: frozenset[int] = hot ^ toggled
    wanted: set[int] | None = None
    found: frozenset[int] | None = None
    if sought:
        pattern = sought.lower() if any(char in sought for char in "*?") else f"*{sought.lower()}*"
        fitting = {name for name in set(tree.names) if fnmatchcase(name.lower(), pattern)}
        found = frozenset(node for node, name in enumerate(tree.names) if name in fitting)
        wanted, parent = set(), tree.parent.tolist()
        for node in found:
            while node >= 0 and node not in wanted:
                wanted.add(node)
                node = parent[node]

    def order(nodes: list[int]) -> list[int]:
        if key == "name":
            return sorted(nodes, key=lambda node: tree.names[node].lower(), reverse=not reverse)
        values = np.nan_to_num(numbers[key], nan=-1.0)
        return sorted(nodes, key=lambda node: values[node], reverse=reverse)

    shown: list[int] = []
    stack = order(below.get(-1, []))
    while stack:
        node = stack.pop()
        if wanted is not None and node not in wanted:
            continue
        shown.append(node)
        if node in below and (wanted is not None or paths[node] in open_):
            stack += order(below[node])
    return Listed(metric, unit, columns, at, np.array(shown, np.int64), open_, paths, below, numbers, found)


def shown(look: Look, tree: CallTree) -> Listed:
    """The calls as they are shown."""
    return listed(tree, look.metric, look.column, look.reverse, look.sought, look.toggled, look.width)


def _panel(look: Look) -> int:
    return _PANEL if look.height >= _LEAST_PANEL else 0


def places(look: Look, n: int) -> tuple[int, int, int]:
    """Rows there is room for, the first row in sight, and the one under the cursor."""
    room = max(look.height - _HEAD - _panel(look), 1)
    row = min(max(look.row, 0), max(n - 1, 0))
    return room, min(max(look.top, row - room + 1, 0), row), row


def draw(look: Look, tree: CallTree) -> list[Row]:
    """The heads, the calls in sight, and the call under the cursor on each rank."""
    own, width, marks = shown(look, tree), look.width, look.glyphs
    n = len(own.nodes)
    arrow = ("v^" if marks.levels.isascii() else "▾▴")[look.reverse]
    heads = []
    for at, each in enumerate(own.columns):
        title = f"{each.title}{arrow}" if at == own.sorted_by else each.title
        text = f"{title:>{each.size}}" if each.size else f"  {title}"
        heads.append(Span(text, "heading" if at == own.sorted_by else "dim"))
    rows = [clip((Span("  "), *heads), width)]
    room, top, picked = places(look, n)
    rows += [_row(look, tree, own, int(own.nodes[at]), at == picked) for at in range(top, min(top + room, n))]
    if not n:
        rows.append((Span("  no call passes; / changes what is looked for, Esc removes it", "dim"),))
    rows += [()] * (_HEAD + room - len(rows))
    if _panel(look):
        rows += _over_places(look, tree, own, int(own.nodes[picked])) if n else [()] * _PANEL
    return [drawable(clip(row, width), marks) for row in rows]


def titled(look: Look, tree: CallTree) -> str:
    """The metric, and how many calls there are, or fit to what is sought."""
    own = shown(look, tree)
    counted = (
        f"{len(own.nodes):,} of {len(tree):,} calls"
        if own.found is None
        else f"{len(own.found):,} of {len(tree):,} found"
    )
    unit = "" if own.unit == "ns" or not own.unit else f" ({clean(own.unit)})"
    return f"call tree: {clean(own.metric)}{unit}, {places_text(tree)}, {counted}"


def _text(key: str, value: float, unit: str) -> str:
    if value != value:
        return NONE
    if key in ("share", "imbalance"):
        return f"{fixed(100 * value, 1)} %"
    if key == "visits":
        return f"{value:,.0f}" if abs(value) < 1e9 else prefixed(value)
    if unit != "ns":
        return prefixed(value)
    return took(value)


def _row(look: Look, tree: CallTree, own: Listed, node: int, picked: bool) -> Row:
    texts = [
        f"{_text(each.key, float(own.numbers[each.key][node]), own.unit):>{each.size}}" for each in own.columns[:-1]
    ]
    mark = " " if node not in own.below else "-" if own.paths[node] in own.open or own.found is not None else "+"
    around = own.found is not None and node not in own.found
    role: Role = "picked" if picked else "dim" if around else _LOOKS.get(tree.paradigm[node], "plain")
    deep = min(int(tree.depth[node]), max(look.width // 8, 4))
    room = max(look.width - 4 - sum(each.size for each in own.columns) - deep - 2, 1)
    name = f"{' ' * deep}{mark} {fit(clean(tree.names[node]), room, look.glyphs.ellipsis)}"
    return pad(
        (Span("> " if picked else "  ", "value"), Span("".join(texts)), Span("  "), Span(name, role)), look.width
    )


def _over_places(look: Look, tree: CallTree, own: Listed, node: int) -> list[Row]:
    """Its value at each place as a bar: with all that it calls, or where it is sorted by that alone, its own."""
    width, exclusive = look.width, own.columns[own.sorted_by].key == "exclusive"
    values = tree.values(own.metric)
    mine = (values.exclusive if exclusive else values.inclusive)[node]
    found, n = spread(mine[None]), len(mine)
    room = max(width - 2, 1)
    edges = np.linspace(0, n, min(room, n) + 1).astype(int)
    each = max(min(room // max(n, 1), 8), 1)
    top = max(float(np.nan_to_num(mine).max(initial=0.0)), 1e-300)
    bars = np.repeat(np.fmax.reduceat(mine, edges[:-1]) / top, each)
    said = [f"{'own, ' if exclusive else ''}over {places_text(tree)}"]
    if n > 1 and found.most[0] >= 0:
        said[1:] = [
            f"most {_text('', float(found.greatest[0]), own.unit)} on {clean(tree.called(int(found.most[0])))}",
            f"least {_text('', float(found.least[0]), own.unit)} on {clean(tree.called(int(np.nanargmin(mine))))}",
            f"imbalance {_text('imbalance', float(found.imbalance[0]), own.unit)}",
        ]
    name = fit(clean(tree.names[node]), max(width // 4, 8), look.glyphs.ellipsis)
    while len(", ".join(said)) > width - cell_width(name) - 6 and len(said) > 1:
        said.pop()
    rows = [rule(name, width, look.glyphs, (Span(", ".join(said), "dim"),))]
    rows += [(Span("  "), *row) for row in area(bars.tolist(), _PANEL - 2, look.glyphs)]
    last = clean(tree.called(n - 1)) if n > 1 else ""
    first = clean(tree.called(0))
    gap = max(len(bars) - len(first) - len(last), 1)
    return [*rows, (Span(f"  {first}{' ' * gap}{last}", "dim"),)]


# Keys and the mouse


def move(look: Look, tree: CallTree, dx: int, dy: int) -> Look:
    """Up and down over the calls; to the right opens one, to the left closes it, or goes to its caller."""
    own = shown(look, tree)
    n = len(own.nodes)
    if not n:
        return look
    room, top, row = places(look, n)
    if dy:
        return look._replace(top=top, row=moved(row, dy, room, n))
    node = int(own.nodes[row])
    is_open = own.paths[node] in own.open
    if own.found is None and node in own.below and is_open != (dx > 0):
        return _toggled(look, own, node)
    above = int(tree.parent[node])
    if dx < 0 and above >= 0:
        return look._replace(top=top, row=int(np.flatnonzero(own.nodes == above)[0]))
    return look


def _toggled(look: Look, own: Listed, node: int) -> Look:
    return look._replace(toggled=look.toggled ^ {own.paths[node]})


def enter(look: Look, tree: CallTree) -> tuple[Look | None, int]:
    """With the call under the cursor open or closed; None for one that calls nothing. And which it is, -1 without one."""
    node = picked_node(look, tree)
    if node < 0:
        return None, -1
    own = shown(look, tree)
    return (_toggled(look, own, node) if node in own.below and own.found is None else None), node


def picked_node(look: Look, tree: CallTree) -> int:
    """The call under the cursor, -1 without one."""
    own = shown(look, tree)
    n = len(own.nodes)
    return int(own.nodes[places(look, n)[2]]) if n else -1


def line_at(look: Look, tree: CallTree, y: int) -> int | None:
    """Which line stands in this row."""
    own = shown(look, tree)
    room, top, _ = places(look, len(own.nodes))
    at = top + y - _HEAD
    return at if 0 <= y - _HEAD < room and at < len(own.nodes) else None


def column_at(look: Look, tree: CallTree, x: int) -> int:
    """Which column stands in this cell of a row."""
    columns = shown(look, tree).columns
    edge = 2
    for at, each in enumerate(columns):
        edge += each.size
        if each.size and x < edge:
            return at
    return len(columns) - 1
