"""Calls, of a trace: what took the time of the window and of what is selected, by name: kernels, ranges, calls, copies."""

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.metrics import OF_NAME
from gssr.model.cached import once
from gssr.model.traces.as_metrics import LevelName
from gssr.model.traces.results import TraceAnalysis
from gssr.model.traces.tables import TABLES
from gssr.render.cells import clean, clip, fit, flow, pad
from gssr.render.clock import exact
from gssr.render.glyphs import drawable
from gssr.render.roles import CATEGORIES, Role, Row, Span
from gssr.render.scale import fixed
from gssr.render.table import rule
from gssr.tui.axis import gpus_text, window_text
from gssr.tui.view import Scene, View, moved

_TITLES = {
    "kernels": "kernels", "ranges": "ranges of the program", "operators": "operators", "api": "calls of CUDA or HIP",
    "copies": "copies", "os": "calls of the operating system",
}  # fmt: skip
"""The tables, in the order in which ``v`` shows those that hold anything."""
_LEVELS: dict[str, LevelName] = {"kernels": "gpus", "copies": "gpus"}
"""Whose time names are that Enter shows; of the other tables the threads'."""
_CATEGORY: dict[str, Role] = {"compute": CATEGORIES[0], "communication": CATEGORIES[1], "copy": CATEGORIES[2]}


class _Column(NamedTuple):
    """A column of numbers: ``key`` of the table's; from so many cells of ``width`` on it is shown."""

    key: str
    title: str
    size: int
    least: int = 0


_COLUMNS = (
    _Column("total_ns", "total", 10), _Column("share", "share", 7), _Column("count", "count", 9),
    _Column("mean_ns", "mean", 10, 70), _Column("median_ns", "median", 10, 100), _Column("min_ns", "min", 10, 110),
    _Column("max_ns", "max", 10, 90), _Column("std_ns", "std", 10, 130), _Column("gpu_ns", "GPU time", 10, 80),
    _Column("bytes", "bytes", 18, 80), _Column("name", "name", 0),
)  # fmt: skip
_HEAD, _FOOT = 2, 1


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
        values = dict(TABLES[name].values(analysis))
        values.setdefault("name", values.get("operation", ()))
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
    columns = tuple(each for each in _COLUMNS if each.key in values and width >= each.least)
    names, at = values["name"], column % len(columns)
    rows = np.arange(len(names))
    if sought:
        wanted = sought.lower() if any(char in sought for char in "*?") else f"*{sought.lower()}*"
        rows = rows[[fnmatchcase(each.lower(), wanted) for each in names]]
    key = columns[at].key
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


def draw(scene: Scene) -> list[Row]:
    """The table, its titles, and what the keys do."""
    part, listed, width = scene.frame.part, _shown(scene), scene.width
    if listed is None:
        known = part is not None and part.analysis is not None
        text = "nothing in this window" if known else f"counting{scene.glyphs.ellipsis}"
        return [drawable((Span(f"  {text}", "dim"),), scene.glyphs)]
    n = len(listed.rows)
    every = len(listed.values["name"])
    about = [Span(gpus_text(scene)), Span(window_text(scene.frame), "dim")]
    if scene.view.sought:
        about.insert(0, Span(f"/ {scene.view.sought}", "value"))
    counted = f"{n:,} of {every:,} names" if n < every else f"{every:,} names"
    rows = [rule(_TITLES[listed.name], width, scene.glyphs, tuple(about), (Span(counted, "dim"),))]
    rows.append(clip((Span("  "), *(_title(listed, at) for at in range(len(listed.columns)))), width))
    room, top, picked = _places(scene, n)
    rows += [_row(scene, listed, at, at == picked) for at in range(top, min(top + room, n))]
    if not n:
        rows.append((Span("  no name passes; / changes what is looked for, Esc removes it", "dim"),))
    assert part is not None and part.analysis is not None
    names = list(_tables(part.analysis))
    others = ", ".join(f"[{_TITLES[each]}]" if each == listed.name else _TITLES[each] for each in names)
    hints: list[Row] = [(Span(f" v: {others}", "dim"),), (Span("Enter: the name over time", "dim"),)]
    foot = flow(hints, width, scene.glyphs.ellipsis, separator="   ")
    rows += [()] * (scene.height - _FOOT - len(rows))
    return [drawable(clip(row, width), scene.glyphs) for row in [*rows, *foot[:1]][: scene.height]]


def _title(listed: Listed, at: int) -> Span:
    column = listed.columns[at]
    text = f"{column.title:>{column.size}}" if column.size else f"  {column.title}"
    return Span(text, "value" if at == listed.sorted_by else "dim")


def _row(scene: Scene, listed: Listed, at: int, picked: bool) -> Row:
    row = int(listed.rows[at])
    texts = [f"{_text(key, listed.values[key][row]):>{size}}" for key, _, size, _ in listed.columns[:-1]]
    category = listed.values["category"][row] if "category" in listed.values else ""
    role: Role = "picked" if picked else _CATEGORY.get(category, "plain")
    room = max(scene.width - 4 - sum(column.size for column in listed.columns), 1)
    name = fit(clean(listed.values["name"][row]), room, scene.glyphs.ellipsis)
    return pad(
        (Span("> " if picked else "  ", "value"), Span("".join(texts)), Span("  "), Span(name, role)), scene.width
    )


def _text(key: str, value: float) -> str:
    if key.endswith("_ns"):
        return exact(float(value) / 1e9)
    return f"{fixed(100 * float(value), 1)} %" if key == "share" else f"{int(value):,}"


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Up and down over the names."""
    del dx
    listed = _shown(scene)
    if listed is None or not dy:
        return scene.view
    room, top, row = _places(scene, len(listed.rows))
    return replace(scene.view, top=top, row=moved(row, dy, room, len(listed.rows)))


def enter(scene: Scene) -> View | None:
    """The time under this name, over time: a metric like any other."""
    listed, part = _shown(scene), scene.frame.part
    if listed is None or part is None or not len(listed.rows):
        return None
    row = int(listed.rows[_places(scene, len(listed.rows))[2]])
    name = str(listed.values["name"][row])
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
    if listed is None:
        return None
    room, top, row = _places(scene, len(listed.rows))
    at = top + y - _HEAD
    if not 0 <= y - _HEAD < room or at >= len(listed.rows):
        return None
    return enter(scene) if at == row else replace(scene.view, row=at)
