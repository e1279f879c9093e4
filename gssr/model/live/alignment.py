"""Two runs in the same columns of time: from their starts on, or from where they begin to work, of traces from a step that
both have or from the first kernel, or from a mark."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from gssr.arrays import Floats
from gssr.metrics import OF_NODES, best_measured
from gssr.model.findings.notes import FINEST
from gssr.model.live.live_result import Query, Result
from gssr.model.statistics.grid import choose_width, column_of, columns_over

Alignment = Literal["start", "activity", "mark"]


def origins(one: Result, other: Result, align: Alignment) -> tuple[tuple[float, str], tuple[float, str]]:
    """Find the time that counts as 0 in each of two runs: the first sample ("start"), where they begin to work, as far as
    that is known ("activity"; of two traces a step, else the first work of a GPU), or a mark ("mark"). Of steps and marks
    it is the first of ``one`` that ``other`` has too, else the first of each; a run without any counts from its first
    sample. Returns for both that time, unix s, and the name of the step or mark that it is, "" for none."""
    pair = (one, other)
    if align == "start":
        return (one.first, ""), (other.first, "")
    if align == "activity" and not (_steps(one) and _steps(other)):
        own = [frame.first if frame.active_from is None else frame.active_from for frame in pair]
        return (own[0], ""), (own[1], "")
    named = [_steps(frame) if align == "activity" else marks(frame) for frame in pair]
    shared = next((name for name in named[0] if name in named[1]), None)
    names = [shared or next(iter(each), "") for each in named]
    found = [(each.get(name, frame.first), name) for frame, each, name in zip(pair, named, names, strict=True)]
    return found[0], found[1]


def _steps(frame: Result) -> Mapping[str, float]:
    return {} if frame.part is None else frame.part.steps


def marks(frame: Result) -> Mapping[str, float]:
    """Return the first time of each mark by its text, in their order; of a trace without the marks that are its steps."""
    steps = _steps(frame)
    found: dict[str, float] = {}
    for event in frame.events:
        if event.kind == "mark" and event.message not in steps:
            found.setdefault(event.message, event.time)
    return found


def aligned(query: Query, align: Alignment, one: Result | None, other: Result | None) -> tuple[Query, Query]:
    """Return what to ask of both runs so that their columns are as wide, and begin at the same time after the origin
    to within one column.

    ``query`` is about ``one``, whose window is the same as on every other screen; that of ``other`` is as far after its own
    origin. Without a span, with one that holds all of ``one``, or while the newest columns roll in, both are shown whole. A
    metric of nodes, or one that a run lacks, gives way to the best that both have. What the results (None: not there yet)
    say is used as far as it is known; asked again with the results that come, the answer stays the same. Selected GPUs of
    one run mean nothing in the other: all of both are looked at.
    """
    metric = "" if query.metric in OF_NODES else query.metric
    base = replace(query, metric=metric, activity=align != "start", gpus=(), rows=0, width=None, analysis=True)
    if query.width is not None:  # what rolls in is a part of the whole run
        base = replace(base, span=None)
    if one is None or other is None or not one.n_rows or not other.n_rows:
        return base, replace(base, end=None, cursor=None)
    zeros = [time for time, _ in origins(one, other, align)]
    shared = one.whole.measured() & other.whole.measured()
    if one.part is None and base.metric not in shared:
        base = replace(base, metric=best_measured(shared) or "")
    interval = max(one.sampling_seconds, other.sampling_seconds)
    n_gpus = max(one.n_gpus, other.n_gpus)
    least = FINEST if math.isfinite(max(one.thinned, other.thinned)) else 0.0
    if base.span is None or (base.end is None and base.span >= one.last - one.first):
        begin = min(one.first - zeros[0], other.first - zeros[1])
        span = max(one.last - zeros[0], other.last - zeros[1]) - begin
        width = choose_width(max(span, interval), max(query.columns - 1, 1), interval, n_gpus, snug=True, least=least)
        found = [_columns_from(base, zero + begin, width, query.columns) for zero in zeros]
    else:
        is_sampled = one.part is None
        snug = is_sampled and base.end is None
        width = choose_width(base.span, query.columns, interval, n_gpus, snug=snug, least=least)
        edge = one.last if base.end is None else base.end
        n = min(query.columns, columns_over(base.span, width, base.end if is_sampled else edge))
        rolls = is_sampled and base.end is None
        behind = column_of(one.last, width) + 1 if rolls else math.ceil(edge / width - 1e-9)
        begin = (behind - n) * width - zeros[0]
        found = [replace(base, width=width), _columns_from(base, zeros[1] + begin, width, n)]
    cursor = None if query.cursor is None else query.cursor - zeros[0] + zeros[1]
    return found[0], replace(found[1], cursor=cursor)


def _columns_from(query: Query, begin: float, width: float, n: int) -> Query:
    """Return the query for ``n`` columns of ``width`` s, the first of which holds ``begin`` (unix s)."""
    return replace(query, span=n * width, end=(column_of(begin, width) + n) * width, width=width)


def shares_columns(one: Result, other: Result) -> bool:
    """Tell whether the two results have the same metric in columns of the same number and width, so that these can be
    set beside each other."""
    return one.grid.n == other.grid.n and one.grid.width == other.grid.width and one.grid.metric == other.grid.metric


def seconds(frame: Result) -> float:
    """Return how many seconds of the run the window holds."""
    return max(min(frame.window.end, frame.last) - max(frame.window.start, frame.first), 0.0)


def difference(one: Result, other: Result) -> Floats:
    """Return ``other``'s mean over its GPUs less ``one``'s [n_columns], NaN if either has none. Only if
    ``shares_columns``."""
    return other.space.mean - one.space.mean
