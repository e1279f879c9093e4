"""What CUPTI counted in kernels that torch.profiler measured one by one, by the operators that launched them.

Such a trace does not tell when the kernels ran, only their order, which is that of their launches.
"""

import json
import re
from collections.abc import Iterable

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.nesting import nesting
from gssr.model.traces.part import TracePiece
from gssr.model.traces.trace_results import OperatorCounter
from gssr.traces.timeline import COUNTED, Kind

_LAUNCH = re.compile("^cu(?:da)?Launch(?:Cooperative)?Kernel")


def operator_counters(part: TracePiece) -> tuple[OperatorCounter, ...]:
    """Add up what was counted in the kernels that are looked at. Their operators are unknown if there are more or fewer
    kernels than launches, or kernels of several GPUs; of a window of time nothing is then known."""
    own, shapes, names = part.timeline.intervals, part.timeline.shapes, part.timeline.names
    if not any(shape.operator == COUNTED for shape in shapes):
        return ()
    ranges = part.all_rows(Kind.GPU_RANGE)
    ranges = ranges[own.size[ranges] < -1]
    launches = part.all_rows(Kind.RUNTIME, Kind.DRIVER)
    launches = launches[part.is_named(launches, _LAUNCH.match)]
    if len(launches) == len(ranges) and len(set(own.track[ranges].tolist())) == 1:
        decides, operators = launches, _operators_around(part, launches)
    elif part.whole:
        decides, operators = ranges, np.full((len(ranges), 2), -1)
    else:
        return ()
    looked_at = slice(None) if part.chosen is None else part.chosen[decides]
    counts = [json.loads(shape.values) if shape.operator == COUNTED else {} for shape in shapes]
    called = (*names, None)  # the last is that of no interval
    name = np.append(own.name, -1)
    found = [
        OperatorCounter(called[name[around[0]]], called[name[around[1]]], names[name[row]], counter, 1, *(value,) * 3)
        for row, around in zip(ranges[looked_at].tolist(), operators[looked_at].tolist(), strict=True)
        for counter, value in counts[-2 - own.size[row]].items()
    ]
    return both_counters(found)


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
    found: dict[tuple[str | None, ...], OperatorCounter] = {}
    for each in (one for part in parts for one in part):
        before = found.get(each[:4])
        found[each[:4]] = each if before is None else each._replace(
            n=each.n + before.n, total=each.total + before.total, min=min(each.min, before.min),
            max=max(each.max, before.max),
        )  # fmt: skip
    return tuple(sorted(found.values(), key=lambda each: (each.counter, -each.total)))
