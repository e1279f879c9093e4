"""The call tree as an outline: its numbers by column, and which calls are in sight in which order. No Textual."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import OF_COUNTER
from gssr.model.frame_cache import once
from gssr.model.traces.call_tree import TIME, VISITS, CallTree, callees, depth_first, hot_path, spread
from gssr.model.verdicts.words import took
from gssr.render.scale import NONE, fixed, prefixed
from gssr.report.live.call_tables import CallColumn
from gssr.traces.timeline import TraceError

NAME = "name"


COLUMNS = (
    CallColumn("inclusive", "with calls", "the value with all that it calls", size=11),
    CallColumn("share", "share", "of the whole program", size=8),
    CallColumn("exclusive", "own", "the value without what it calls", size=10),
    CallColumn("visits", "calls", "how often it was called", 60, 12),
    CallColumn("least", "least", "on the rank with the least", 110, 11),
    CallColumn("greatest", "most", "on the rank with the most", 90, 11),
    CallColumn("imbalance", "imbal", "how uneven it is over the ranks", 80, 8),
)


def columns_of(tree: CallTree) -> tuple[CallColumn, ...]:
    """Return the columns of a tree, in which a program that was sampled has samples in the place of calls."""
    about = "in how many samples it, or what it called, ran"
    return tuple(
        each._replace(title="samples", help=about) if each.key == "visits" and tree.visits_noun == "samples" else each
        for each in COLUMNS
    )


class Outline(NamedTuple):
    """The calls in sight, ``nodes`` in their order.

    ``open`` holds the paths of the calls that are open, ``paths`` the path of each node, by which it is known in another
    window too, and ``callees`` the nodes that each node calls. ``found``: the nodes of the name that is looked for, None
    where none is.
    """

    nodes: Ints
    open: frozenset[int]
    paths: tuple[int, ...]
    callees: Mapping[int, list[int]]
    found: frozenset[int] | None

    def is_open(self, node: int) -> bool:
        """Tell whether the calls of a node (an index into the tree) are in sight. While a name is looked for, every
        node counts as open."""
        return self.found is not None or self.paths[node] in self.open


def metric_of_tree(tree: CallTree, metric: str) -> str:
    """Return the name of the tree's own metric that a metric of the screen stands for. If there is none, or its values
    can't be read any more, return the tree's time, and without that its first metric."""
    name = metric.removeprefix(OF_COUNTER).partition(":")[2] if metric.startswith(OF_COUNTER) else metric
    try:
        if tree.has(name) and len(tree.values(name).inclusive):
            return name
    except TraceError:  # the file has changed since, and its values can't be read any more
        pass
    return _first_metric(tree)


def _first_metric(tree: CallTree) -> str:
    return TIME if tree.has(TIME) else tree.metrics[0].name


@once
def numbers_of(tree: CallTree, metric: str) -> dict[str, Floats]:
    """Compute the values of each column, [n_nodes] by the column's key; NaN where a value is unknown.

    ``share`` is of the sum over the roots (of their greatest for a metric that is not summed), NaN where that is 0.
    Values are in the metric's unit, visits in calls.
    """
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
    """Return the path of each node (a hash of the names from the root), the callees of each node, and the paths that
    are open at first: those of the hottest call chain. The roots are the callees of -1."""
    found: list[int] = []
    for name, above in zip(tree.names, tree.parent.tolist(), strict=True):
        found.append(hash((found[above] if above >= 0 else 0, name)))
    hot = hot_path(tree, _first_metric(tree))
    return tuple(found), callees(tree.parent), frozenset(found[node] for node in hot)


@once
def outline_of(
    tree: CallTree, metric: str, sort: str, descending: bool, sought: str, toggled: frozenset[int]
) -> Outline:
    """List the calls in sight in the order in which they are drawn.

    Args:
        metric: Name of a metric of the tree, whose values sort.
        sort: Key of a column in COLUMNS, or NAME.
        sought: What a name must hold, or match if it has * or ?; then the found calls and all their callers are shown,
            all open. "" shows all.
        toggled: Paths of the calls that the reader opened or closed, against the open hottest chain.
    """
    paths, below, hot = _paths(tree)
    open_ = hot ^ toggled
    found = _nodes_named(tree, sought) if sought else None
    wanted = None if found is None else _with_callers(tree, found)
    values = np.nan_to_num(numbers_of(tree, metric)[sort], nan=-1.0) if sort != NAME else None

    def last_first(nodes: list[int]) -> list[int]:
        nodes = nodes if wanted is None else [node for node in nodes if node in wanted]
        if values is None:
            return sorted(nodes, key=lambda node: tree.names[node].lower(), reverse=not descending)
        return sorted(nodes, key=lambda node: values[node], reverse=not descending)

    shown = depth_first(below, last_first, lambda node: wanted is not None or paths[node] in open_)
    return Outline(np.array(shown, np.int64), open_, paths, below, found)


def _nodes_named(tree: CallTree, sought: str) -> frozenset[int]:
    """Return the indices of the nodes whose names hold ``sought``, or match it if it has * or ?; upper and lower case
    are alike."""
    pattern = sought.lower() if any(char in sought for char in "*?") else f"*{sought.lower()}*"
    fitting = {name for name in set(tree.names) if fnmatchcase(name.lower(), pattern)}
    return frozenset(node for node, name in enumerate(tree.names) if name in fitting)


def _with_callers(tree: CallTree, nodes: frozenset[int]) -> set[int]:
    """Return the indices of these nodes and of all their callers up to the roots."""
    found: set[int] = set()
    parent = tree.parent.tolist()
    for node in nodes:
        while node >= 0 and node not in found:
            found.add(node)
            node = parent[node]
    return found


def value_text(key: str, value: float, unit: str) -> str:
    """Write a value of the column ``key`` in words; "-" for NaN. ``unit`` is the metric's: "ns" is written as a length
    of time, all others as a number without their unit."""
    if value != value:
        return NONE
    if key in ("share", "imbalance"):
        return f"{fixed(100 * value, 1)} %"
    if key == "visits":
        return f"{value:,.0f}" if abs(value) < 1e9 else prefixed(value)
    return took(value) if unit == "ns" else prefixed(value)
