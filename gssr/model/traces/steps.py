"""The steps of a program, side by side: profiler steps, else ranges that are named like steps or iterations."""

import re
from collections.abc import Sequence

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.part import Part
from gssr.model.traces.results import Step
from gssr.model.traces.segments import NONE, Segments, union
from gssr.traces.timeline import Kind, Timeline

_PROFILER = re.compile(r"^ProfilerStep\W*\d+$")
_LIKELY = re.compile(
    r"^(?:\w+[ :/._-])?(?:train(?:ing)?[ _-]?)?(?:step|iter|iteration|batch)[ :_#-]*\d+$", re.IGNORECASE
)
_NUMBER = re.compile(r"\d+$")


def steps_of(part: Part) -> Ints:
    """The rows that are steps, ascending by start."""
    found = part.named(_PROFILER.search, Kind.RANGE)
    return found if len(found) else part.named(_LIKELY.search, Kind.RANGE)


def steps(part: Part, rows: Ints, busy: Sequence[Segments]) -> tuple[Step, ...]:
    """The steps; of each GPU the stretches in which it was ``busy``. A step's GPUs are those of its rank."""
    own, names = part.timeline.intervals, part.timeline.names
    begin, end = part.start[rows], part.end[rows]
    covered = [each.before(end) - each.before(begin) for each in busy]
    found = []
    for at, row in enumerate(rows.tolist()):
        track = part.timeline.tracks[own.track[row]]
        mine = [
            int(ns[at])
            for gpu, ns in zip(part.gpus, covered, strict=True)
            if (gpu.rank, gpu.source) == (track.rank, track.source)
        ]
        length = int(end[at] - begin[at])
        found.append(Step(names[own.name[row]], track.rank, int(begin[at]), length, sum(mine) // max(len(mine), 1)))
    return tuple(found)


def between(part: Part, rows: Ints) -> Segments:
    """The times after one of these steps and before the next."""
    return union(part.start[rows], part.end[rows]).gaps if len(rows) else NONE


def window_of_steps(timeline: Timeline, part: Part, first: int, last: int) -> tuple[int, int] | None:
    """From the begin of the step numbered ``first`` to the end of that numbered ``last``, ns; None without such. Numbers
    are those in the steps' names."""
    rows = steps_of(part)
    names = [timeline.names[at] for at in timeline.intervals.name[rows].tolist()]
    numbers = np.array([int(_NUMBER.findall(name)[-1]) for name in names], np.float64)
    inside = rows[(numbers >= first) & (numbers <= last)]
    return (int(part.start[inside].min()), int(part.end[inside].max())) if len(inside) else None
