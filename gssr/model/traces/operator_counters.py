"""What CUPTI counted in kernels that torch.profiler measured one by one, by the operators that launched them.

Such a trace does not tell when the kernels ran, only their order, which is that of their launches.
"""

import re
from collections.abc import Iterable
from itertools import chain

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.add_rows import add_up
from gssr.model.traces.nesting import nesting
from gssr.model.traces.part import TracePiece
from gssr.model.traces.trace_results import OperatorCounter
from gssr.traces.timeline import Kind

_LAUNCH = re.compile("^cu(?:da)?Launch(?:Cooperative)?Kernel")


def operator_counters(part: TracePiece) -> tuple[OperatorCounter, ...]:
    """Add up what was counted in the kernels that are looked at. Their operators are unknown if there are more or fewer
    kernels than launches, or kernels of several GPUs; of a part of the trace nothing is then known."""
    counted = part.timeline.counted
    launches = part.all_rows(Kind.RUNTIME, Kind.DRIVER) if counted else np.empty(0, np.int64)
    launches = launches[part.is_named(launches, _LAUNCH.match)]
    if len(launches) == len(counted) and len({(each.source, each.gpu) for each in counted}) == 1:
        operators = _operators_around(part, launches)
        looked_at = np.arange(len(counted)) if part.chosen is None else np.flatnonzero(part.chosen[launches])
    elif part.chosen is None:
        operators, looked_at = np.full((len(counted), 2), -1), np.arange(len(counted))
    else:
        return ()
    called = (*part.timeline.names, None)  # the last is that of no interval
    names = np.append(part.timeline.intervals.name, -1)[operators]
    return both_counters(
        OperatorCounter(called[inner], called[outer], counted[number].name, counter, 1, value, value, value)
        for number, (inner, outer) in zip(looked_at.tolist(), names[looked_at].tolist(), strict=True)
        for counter, value in counted[number].values.items()
    )


def _operators_around(part: TracePiece, calls: Ints) -> Ints:
    """Find the innermost and the outermost operator in which each of these calls lies. Returns places in the timeline's
    intervals, -1 for none, [n calls, 2]."""
    own = part.timeline.intervals
    rows = np.union1d(part.all_rows(Kind.CPU_OP), calls)
    _, parent = nesting(own.start[rows], own.length[rows], own.track[rows])
    innermost = outermost = parent[np.searchsorted(rows, calls)]
    while (inside := (outermost >= 0) & (parent[outermost] >= 0)).any():
        outermost = np.where(inside, parent[outermost], outermost)
    return np.where(np.column_stack([innermost, outermost]) >= 0, rows[np.column_stack([innermost, outermost])], -1)


def both_counters(*parts: Iterable[OperatorCounter]) -> tuple[OperatorCounter, ...]:
    """Add up the counters of several files, by operator, kernel and counter, the greatest total of each counter first."""
    found = add_up(chain(*parts), 4, least=("min",), most=("max",))
    return tuple(sorted(found, key=lambda each: (each.counter, -each.total)))
