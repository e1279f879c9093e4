"""What the sub-tabs of Calls hold: the tables of a trace's analysis, their columns in words, and how a cell reads."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gssr.model.frame_cache import once
from gssr.model.traces.levels import LevelName
from gssr.model.traces.tables import TABLES
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.verdicts.words import binary, took
from gssr.render.clock import exact
from gssr.render.roles import Role
from gssr.render.scale import NONE, fixed, prefixed
from gssr.render.states import OF_TRACE
from gssr.traces.timeline import Category

Values = Mapping[str, Any]
TITLES: dict[str, str] = {
    "kernels": "Kernels", "ranges": "Ranges", "operators": "Operators", "api": "CUDA, HIP", "copies": "Copies",
    "os": "System calls", "hlo": "HLO", "functions": "Functions", "sampled_functions": "Samples",
    "messages": "Messages", "nodes": "By node", "collectives": "Collectives", "io": "Files", "calltree": "Tree",
    "holders": "Memory",
}  # fmt: skip
"""The tables in their order, and what their sub-tabs are called."""
ABOUT: dict[str, str] = {
    "kernels": "kernels by name", "ranges": "ranges that the program marked", "operators": "operators of the framework",
    "api": "calls of CUDA or HIP", "copies": "copies by kind", "os": "calls of the operating system",
    "hlo": "XLA's operations by category and module",
    "functions": "functions: the function summary", "sampled_functions": "functions that samples found",
    "messages": "messages by rank: the communication matrix",
    "nodes": "messages by node: the communication matrix", "collectives": "collective operations", "io": "files",
    "calltree": "call tree", "holders": "what held memory when each GPU held the most",
}  # fmt: skip
MATRICES = ("messages", "nodes")
LEVELS: dict[str, LevelName] = {"kernels": "gpus", "copies": "gpus"}
"""Whose time names are that Enter shows; of the other tables the threads'."""
_NAMES: dict[str, tuple[str, ...]] = {
    "copies": ("operation",), "hlo": ("category", "module"), "collectives": ("kind", "comm"),
    "io": ("file", "operation", "call"),
}  # fmt: skip
"""The columns that a row is called by, where that is not its name."""
_ROLES: dict[str, Role] = {category.name.lower(): OF_TRACE[category].role for category in Category}
_MINUTE = 60_000_000_000
_WHOLE = 0.9995
"""A share from here on is 100 %, without a decimal."""


class CallColumn(NamedTuple):
    """A column: ``key`` of the table's; from ``least`` cells of width on it is shown. ``size``: its own cells, 0 for as many
    as its values need."""

    key: str
    title: str
    help: str
    least: int = 0
    size: int = 0


COLUMNS = (
    CallColumn("total_ns", "total", "the time of all of them together"),
    CallColumn("exclusive_ns", "own", "the time without what it calls"),
    CallColumn("inclusive_ns", "with calls", "the time with what it calls", 70),
    CallColumn("exclusive", "samples", "samples in which it was what ran"),
    CallColumn("inclusive", "with calls", "samples in which it ran, or had called what did", 70),
    CallColumn("share", "share", "of the sum of all totals in this table"),
    CallColumn("count", "count", "how often"),
    CallColumn("mean_ns", "mean", "the mean length", 70),
    CallColumn("median_ns", "median", "half are shorter", 110),
    CallColumn("min_ns", "min", "the shortest", 120),
    CallColumn("max_ns", "max", "the longest", 90),
    CallColumn("std_ns", "std", "standard deviation of the lengths", 140),
    CallColumn("gpu_ns", "GPU time", "how long the work took that was launched in them", 80),
    CallColumn("wait_ns", "waiting", "how long those that came early waited for the last"),
    CallColumn("sent", "sent", "bytes sent", 80),
    CallColumn("received", "received", "bytes received", 100),
    CallColumn("bytes", "bytes", "bytes together", 80),
    CallColumn("held_bytes", "bytes", "bytes together"),
    CallColumn("largest_bytes", "largest", "bytes of the largest allocation", 70),
    CallColumn("imbalance", "imbalance", "how much longer the slowest rank takes than the mean", 80),
    CallColumn("name", "name", "what it is called"),
)


@once
def tables_of(analysis: TraceAnalysis) -> dict[str, Values]:
    """Return the tables that hold anything, by their key in TITLES and in that order.

    Each maps column names to values [n_rows]; "name" is always there. For "messages" and "nodes" it is empty, because
    the matrix is drawn from the exchange; "nodes" is only there for two nodes or more. ``gpu_ns`` is left out without
    GPUs, and ``bytes`` is NaN unless all calls of a row told their size.
    """
    found: dict[str, Values] = {}
    for name in TITLES:
        if name in MATRICES:
            if analysis.exchange is not None and len(analysis.exchange.count):
                of_nodes = {end.node for end in analysis.exchange.ends}
                found |= {name: {"name": ()}} if name == "messages" or len(of_nodes) > 1 else {}
            continue
        if name == "calltree":
            if analysis.tree is not None and len(analysis.tree):
                found[name] = {"name": analysis.tree.names}
            continue
        if name == "holders":
            found |= {name: _holders(analysis)} if analysis.holders else {}
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


def _holders(analysis: TraceAnalysis) -> Values:
    """Return the columns, by key, of the table of what held memory at the peak: a row for each MemoryHolder. Counts and
    largest bytes are None for categories."""
    held = analysis.holders
    total = max(sum(each.n_bytes for each in held), 1)
    return {
        "share": [each.n_bytes / total for each in held], "count": [each.n for each in held],
        "held_bytes": [each.n_bytes for each in held], "largest_bytes": [each.largest for each in held],
        "name": [each.name for each in held],
    }  # fmt: skip


def columns_of(values: Values, width: int) -> list[CallColumn]:
    """The columns that a table has, and that fit."""
    return [each for each in COLUMNS if each.key in values and width >= each.least]


def cell_text(key: str, value: float | None) -> str:
    """Write a value of the column ``key`` short enough to be read at a glance; "-" for None or NaN. Keys that end in
    "_ns" hold ns; shares are fractions."""
    if value is None or value != value:
        return NONE
    if key.endswith("_ns"):
        return exact(float(value) / 1e9) if value < _MINUTE else took(value)
    if key in ("share", "imbalance"):
        return f"{fixed(100 * float(value), 1 if value < _WHOLE else 0)} %"
    if key in ("held_bytes", "largest_bytes"):
        return binary(int(value))
    if key in ("bytes", "sent", "received"):
        return prefixed(float(value), "B")
    return f"{int(value):,}" if value < 1e9 else prefixed(float(value))


def role_of(values: Values, row: int) -> Role:
    """The colour of what a row is for."""
    return _ROLES.get(values["category"][row], "plain") if "category" in values else "plain"
