"""The steps of a program, side by side: profiler steps, else ranges that are named like steps or iterations."""

import re
from collections.abc import Sequence

from gssr.arrays import Ints
from gssr.model.traces.part import TracePiece
from gssr.model.traces.segments import NONE, Segments, union
from gssr.model.traces.trace_results import Step
from gssr.traces.timeline import Kind

_PROFILER = re.compile(r"^ProfilerStep\W*\d+$")
_LIKELY = re.compile(
    r"^(?:\w+[ :/._-])?(?:train(?:ing)?[ _-]?)?(?:step|iter|iteration|batch)[ :_#-]*\d+$", re.IGNORECASE
)


def steps_of(part: TracePiece) -> Ints:
    """Find the intervals that are the program's steps: profiler steps, else ranges named like steps. Returns their rows,
    ascending by start; none where nothing is named so."""
    found = part.named(_PROFILER.search, Kind.RANGE)
    return found if len(found) else part.named(_LIKELY.search, Kind.RANGE)


def steps(
    part: TracePiece, rows: Ints, covered: Sequence[Ints], flops: Sequence[tuple[float | None, float | None]]
) -> tuple[Step, ...]:
    """Describe the steps of a trace, each with the time in which the GPUs of its rank were busy.

    ``rows``: the steps' intervals. ``covered``: for each GPU, its busy time in each step, ns. A step's busy time is the
    mean over its rank's GPUs, None where the rank has none or nothing was measured. ``flops``: as by_step returns them
    (gssr.model.traces.flops).
    """
    own, names = part.timeline.intervals, part.timeline.names
    begin, length = part.start[rows], part.length[rows]
    busy_of: dict[tuple[int | None, int], Ints] = {}
    n_of: dict[tuple[int | None, int], int] = {}
    for gpu, ns in zip(part.gpus, covered, strict=False):
        key = gpu.rank, gpu.source
        n_of[key] = n_of.get(key, 0) + 1
        busy_of[key] = busy_of[key] + ns if key in busy_of else ns
    found = []
    for at, row in enumerate(rows.tolist()):
        track = part.timeline.tracks[own.track[row]]
        key = track.rank, track.source
        busy = int(busy_of[key][at]) // n_of[key] if key in busy_of else None
        found.append(Step(names[own.name[row]], track.rank, int(begin[at]), int(length[at]), busy, *flops[at]))
    return tuple(found)


def between(part: TracePiece, rows: Ints) -> Segments:
    """Return the stretches of time between the end of each of these steps (rows) and the begin of the next."""
    return union(*part.times(rows)).gaps() if len(rows) else NONE
