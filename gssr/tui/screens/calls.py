"""Calls, of a trace: what took the time of the window and of what is selected, by name: kernels, ranges, calls, copies,
files; and who sent to whom."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.metrics import OF_NAME
from gssr.model.cached import once
from gssr.model.traces.as_metrics import LevelName
from gssr.model.traces.call_tree import CallTree, places_text
from gssr.model.traces.messages import Exchange
from gssr.model.traces.part import named
from gssr.model.traces.results import TraceAnalysis
from gssr.model.traces.tables import TABLES
from gssr.model.verdicts.words import took
from gssr.render.cells import clip, flow, pad
from gssr.render.clock import exact
from gssr.render.function_names import distinct_names
from gssr.render.glyphs import drawable
from gssr.render.roles import CATEGORIES, Role, Row, Span
from gssr.render.scale import NONE, count, fixed
from gssr.render.table import rule
from gssr.traces.timeline import Category
from gssr.tui.axis import gpus_text, window_text
from gssr.tui.screens import call_tree, messages
from gssr.tui.screens.call_tree import Column as _Column
from gssr.tui.view import Scene, View, moved

_TITLES = {
    "kernels": "kernels", "ranges": "ranges of the program", "operators": "operators", "api": "calls of CUDA or HIP",
    "copies": "copies", "os": "calls of the operating system", "calltree": "call tree", "functions": "functions",
    "messages": "messages by rank", "nodes": "messages by node", "collectives": "collectives", "io": "files",
}  # fmt: skip
"""The tables, in the order in which ``v`` shows those that hold anything."""
_MATRICES = ("messages", "nodes")
_LEVELS: dict[str, LevelName] = {"kernels": "gpus", "copies": "gpus"}
"""Whose time names are that Enter shows; of the other tables the threads'."""
_CATEGORY: dict[str, Role] = {category.name.lower(): CATEGORIES[category] for category in Category}
_NAMES: dict[str, tuple[str, ...]] = {
    "copies": ("operation",), "collectives": ("kind", "comm"),
    "io": ("file", "operation", "call"),
}  # fmt: skip
"""The columns that a row is called by, where that is not its name."""


_COLUMNS = (
    _Column("total_ns", "total", 10), _Column("exclusive_ns", "own", 10), _Column("inclusive_ns", "with calls", 11, 70),
    _Column("share", "share", 7), _Column("count", "count", 9),
    _Column("mean_ns", "mean", 10, 70), _Column("median_ns", "median", 10, 100), _Column("min_ns", "min", 10, 110),
    _Column("max_ns", "max", 10, 90), _Column("std_ns", "std", 10, 130), _Column("gpu_ns", "GPU time", 10, 80),
    _Column("wait_ns", "waiting", 10), _Column("sent", "bytes sent", 18, 80), _Column("received", "received", 18, 100),
    _Column("bytes", "bytes", 18, 80), _Column("imbalance", "imbal", 8, 80), _Column("name", "name", 0),
)  # fmt: skip
_HEAD, _FOOT = 2, 1
_MINUTE = 60_000_000_000
_WHOLE = 0.9995
"""A share from here on is 100 %, without a decimal that would touch the column before."""


class Listed(NamedTuple):
    """A table as it is shown: its ``columns``, those sorted by among them, and the ``rows`` that pass, in their order."""

    name: str
    values: Mapping[str, Any]
    columns: tuple[_Column, ...]
    sorted_by: int
    rows: Ints


@once
def _tables(analysis: TraceAnalysis) -> dict[str, Mapping[str, Any]]:
    """Those that hold anything, with the name of each row under "name"."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in _TITLES:
        if name in _MATRICES:
            if analysis.exchange is not None and len(analysis.exchange.count):
                of_nodes = {end.node for end in analysis.exchange.ends}
                found |= {name: {"name": ()}} if name == "messages" or len(of_nodes) > 1 else {}
            continue
        if name == "calltree":
            if analysis.tree is not None and len(analysis.tree):
                found[name] = {"name": analysis.tree.names}
            continue
        values = dict(TABLES[name].values(analysis))
        if not analysis.gpus:
            values.pop("gpu_ns", None)
        if "n_sized" in values:
            sized = np.asarray(values["n_sized"]) == np.asarray(values["count"])
            values["bytes"] = np.where(sized, values["bytes"], np.nan)
        if name in _NAMES:
            columns = (values[each] for each in _NAMES[name])
            values["name"] = ["  ".join(filter(None, parts)) for parts in zip(*columns, strict=True)]
        if len(values["name"]):
            found[name] = values
    return found


@once
def _listed(analysis: TraceAnalysis, table: int, column: int, reverse: bool, sought: str, width: int) -> Listed | None:
    tables = _tables(analysis)
    if not tables:
        return None
    name = list(tables)[table % len(tables)]
    values = tables[name]
    if name in _MATRICES:
        return Listed(name, values, (), 0, np.arange(0))
    columns = tuple(each for each in _COLUMNS if each.key in values and width >= each.least)
    names, at = values["name"], column % len(columns)
    rows = np.arange(len(names))
    if sought:
        rows = rows[named(names, (sought,))]
    key = columns[at].key
    if name == "calltree":
        return Listed(name, values, columns, at, rows)  # its order is its own
    if key == "name":
        order = np.array(sorted(range(len(rows)), key=lambda row: names[rows[row]].lower()), np.int64)
    else:
        order = np.argsort(-np.asarray(values[key], np.float64)[rows], kind="stable")
    return Listed(name, values, columns, at, rows[order[::-1] if reverse else order])


def _shown(scene: Scene) -> Listed | None:
    part, view = scene.frame.part, scene.view
    if part is None or part.analysis is None:
        return None
    return _listed(part.analysis, view.density, view.column, view.reverse, view.sought, scene.width)


def columns(view: View, width: int, height: int) -> int:
    """Columns of time wanted."""
    del view, height
    return max(width, 1)


def _places(scene: Scene, n: int) -> tuple[int, int, int]:
    """Rows there is room for, the first row in sight, and the one under the cursor."""
    room = max(scene.height - _HEAD - _FOOT, 1)
    row = min(max(scene.view.row, 0), max(n - 1, 0))
    return room, min(max(scene.view.top, row - room + 1, 0), row), row


def _tree(scene: Scene, listed: Listed | None) -> CallTree | None:
    """The call tree, where that is the table shown."""
    part = scene.frame.part
    assert part is not None or listed is None
    known = None if part is None or part.analysis is None else part.analysis.tree
    return known if listed is not None and listed.name == "calltree" else None


def draw(scene: Scene) -> list[Row]:
    """The table, its titles, and what the keys do."""
    part, listed, width = scene.frame.part, _shown(scene), scene.width
    if listed is not None and listed.name in _MATRICES:
        return messages.draw(
            scene, _exchange(scene), _TITLES[listed.name], listed.name == "nodes", _foot(scene, listed)
        )
    if listed is None:
        known = part is not None and part.analysis is not None
        text = "nothing in this window" if known else f"counting{scene.glyphs.ellipsis}"
        return [drawable((Span(f"  {text}", "dim"),), scene.glyphs)]
    n = len(listed.rows)
    every = len(listed.values["name"])
    assert part is not None and part.analysis is not None
    timed = part.trace.profile is None
    about = [Span(gpus_text(scene)), Span(window_text(scene.frame), "dim")]
    if not timed and part.analysis.tree is not None:
        about = [Span(places_text(part.analysis.tree))]
    if scene.view.sought:
        about.insert(0, Span(f"/ {scene.view.sought}", "value"))
    tree, foot = _tree(scene, listed), _foot(scene, listed)
    if tree is not None:
        return call_tree.draw(scene, tree, tuple(about), foot)[: scene.height]
    counted = f"{n:,} of {count(every, 'name')}" if n < every else count(every, "name")
    rows = [rule(_TITLES[listed.name], width, scene.glyphs, tuple(about), (Span(counted, "dim"),))]
    rows.append(clip((Span("  "), *(_title(listed, at) for at in range(len(listed.columns)))), width))
    room, top, picked = _places(scene, n)
    places = range(top, min(top + room, n))
    cells = max(scene.width - 4 - sum(column.size for column in listed.columns), 1)
    names = distinct_names([listed.values["name"][int(listed.rows[at])] for at in places], cells, scene.glyphs.ellipsis)
    rows += [_row(scene, listed, at, name, at == picked) for at, name in zip(places, names, strict=True)]
    if not n:
        rows.append((Span("  no name passes; / changes what is looked for, Esc removes it", "dim"),))
    rows += [()] * (scene.height - _FOOT - len(rows))
    return [drawable(clip(row, width), scene.glyphs) for row in [*rows, foot][: scene.height]]


def _exchange(scene: Scene) -> Exchange:
    part = scene.frame.part
    assert part is not None and part.analysis is not None and part.analysis.exchange is not None
    return part.analysis.exchange


def _foot(scene: Scene, listed: Listed) -> Row:
    """The tables that there are, and what Enter does."""
    part = scene.frame.part
    assert part is not None and part.analysis is not None
    names = list(_tables(part.analysis))
    others = ", ".join(f"[{_TITLES[each]}]" if each == listed.name else _TITLES[each] for each in names)
    if len(others) > scene.width - len(" v: "):  # what comes next is in sight
        at = names.index(listed.name)
        others = ", ".join([f"[{_TITLES[listed.name]}]", *(_TITLES[each] for each in [*names[at + 1 :], *names[:at]])])
    does = "Enter: the name over time" if part.trace.profile is None else ""
    does = ". , another measure" if listed.name in _MATRICES else does
    hints: list[Row] = [(Span(f" v: {others}", "dim"),), (Span(does, "dim"),)]
    if listed.name == "calltree":
        hints = [(Span(" Enter, left, right: open, close", "dim"),), hints[0]]
    return flow(hints, scene.width, scene.glyphs.ellipsis, separator="   ")[0]


def _title(listed: Listed, at: int) -> Span:
    column = listed.columns[at]
    text = f"{column.title:>{column.size}}" if column.size else f"  {column.title}"
    return Span(text, "value" if at == listed.sorted_by else "dim")


def _row(scene: Scene, listed: Listed, at: int, name: str, picked: bool) -> Row:
    row = int(listed.rows[at])
    texts = [f"{_text(key, listed.values[key][row]):>{size}}" for key, _, size, _ in listed.columns[:-1]]
    category = listed.values["category"][row] if "category" in listed.values else ""
    role: Role = "picked" if picked else _CATEGORY.get(category, "plain")
    return pad(
        (Span("> " if picked else "  ", "value"), Span("".join(texts)), Span("  "), Span(name, role)), scene.width
    )


def _text(key: str, value: float | None) -> str:
    if value is None or value != value:
        return NONE
    if key.endswith("_ns"):
        return exact(float(value) / 1e9) if value < _MINUTE else took(value)
    return (
        f"{fixed(100 * float(value), 1 if value < _WHOLE else 0)} %"
        if key in ("share", "imbalance")
        else f"{int(value):,}"
        if value < 1e8 or key != "count"
        else f"{value:.3g}"
    )


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Up and down over the names; in the call tree into and out of calls, too."""
    listed = _shown(scene)
    tree = _tree(scene, listed)
    if tree is not None:
        return call_tree.move(scene, tree, dx, dy)
    if listed is None or not dy:
        return scene.view
    if listed.name in _MATRICES:
        n = len(messages.folded(_exchange(scene), listed.name == "nodes", scene.width, scene.height).labels)
        return replace(scene.view, row=moved(scene.view.row, dy, n, n))
    room, top, row = _places(scene, len(listed.rows))
    return replace(scene.view, top=top, row=moved(row, dy, room, len(listed.rows)))


def enter(scene: Scene) -> View | None:
    """The time under this name, over time: a metric like any other."""
    listed, part = _shown(scene), scene.frame.part
    if listed is None or part is None or not len(listed.rows) or listed.name == "collectives":
        return None
    tree = _tree(scene, listed)
    if tree is not None:
        opened, row = call_tree.enter(scene, tree)
        if opened is not None or row < 0:
            return opened
    else:
        row = int(listed.rows[_places(scene, len(listed.rows))[2]])
    if part.trace.profile is not None:
        return None
    name = str(listed.values["call" if listed.name == "io" else "name"][row] or "")
    if not name:
        return None
    level = _LEVELS.get(listed.name, "threads")
    level = level if level in part.levels else part.level.name
    kept = level == part.level.name
    metric = "copy" if listed.name == "copies" else OF_NAME + name
    return scene.view.down(
        screen="time", metric=metric, name="" if listed.name == "copies" else name, level=level, row=0, top=0,
        selection=scene.view.selection if kept else (), selected=scene.view.selected if kept else "",
    )  # fmt: skip


def click(scene: Scene, x: int, y: int) -> View | None:
    """The name under the mouse; when the cursor is on it already, it over time."""
    del x
    listed = _shown(scene)
    if listed is None or listed.name in _MATRICES:
        return None
    tree = _tree(scene, listed)
    if tree is not None:
        line = call_tree.line_at(scene, tree, y)
        return None if line is None else enter(scene) if line == scene.view.row else replace(scene.view, row=line)
    room, top, row = _places(scene, len(listed.rows))
    at = top + y - _HEAD
    if not 0 <= y - _HEAD < room or at >= len(listed.rows):
        return None
    return enter(scene) if at == row else replace(scene.view, row=at)
