"""The longest interval of those that a row of a table of names stands for."""

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.lengths import KINDS, without_running_numbers
from gssr.model.traces.part import part_of
from gssr.traces.timeline import OPERATIONS, Kind, Timeline

_OF_ANY_CALL = tuple(kind for kind in Kind if kind != Kind.MARK)
"""What tables count that are not of lengths: those of functions and files."""


def longest_interval(trace: Timeline, window: tuple[int, int], tracks: Ints | None, table: str, name: str) -> int:
    """Find the longest interval of this name on these tracks (places; None: all), by what lies in a window (ns) of each.

    ``table``: the table that the name is from; of "copies" the name is an operation. Returns the interval's index in the
    trace's intervals, the first of several; -1 if there is none.
    """
    part = part_of(trace, window, tracks)
    rows = part.rows(*KINDS.get(table, _OF_ANY_CALL))
    if table == "copies":
        rows = rows[trace.intervals.operation[rows] == OPERATIONS.index(name)]
    else:
        rows = rows[part.is_named(rows, lambda each: name in (each, without_running_numbers(each)))]
    return int(rows[np.argmax(part.length[rows])]) if len(rows) else -1
