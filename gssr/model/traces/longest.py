"""The longest interval of those that a row of a table of names stands for."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.lengths import without_running_numbers
from gssr.model.traces.part import part_of
from gssr.traces.timeline import OPERATIONS, Kind, Timeline

_KINDS: dict[str, Sequence[Kind]] = {
    "kernels": (Kind.KERNEL, Kind.GRAPH), "copies": (Kind.MEMCPY, Kind.MEMSET), "ranges": (Kind.RANGE,),
    "operators": (Kind.CPU_OP,), "api": (Kind.RUNTIME, Kind.DRIVER), "os": (Kind.OS,),
}  # fmt: skip
"""Of the tables that gssr.model.traces.analyze_trace makes; those of functions and files count calls of any other kind."""
_OF_ANY_CALL = tuple(kind for kind in Kind if kind != Kind.MARK)


def longest_interval(trace: Timeline, window: tuple[int, int], tracks: Ints | None, table: str, name: str) -> int:
    """Find the longest interval of this name on these tracks (places; None: all), by what lies in a window (ns) of each.

    ``table``: the table that the name is from; of "copies" the name is an operation. Returns the interval's index in the
    trace's intervals, the first of several; -1 if there is none.
    """
    part = part_of(trace, window, tracks)
    rows = part.rows(*_KINDS.get(table, _OF_ANY_CALL))
    if table == "copies":
        rows = rows[trace.intervals.operation[rows] == OPERATIONS.index(name)]
    else:
        rows = rows[part.is_named(rows, lambda each: name in (each, without_running_numbers(each)))]
    return int(rows[np.argmax(part.length[rows])]) if len(rows) else -1
