"""One interval of a trace in words: when, how long, what launched it, and in what it lies."""

from gssr.model.live.live_result import Result, TracePart
from gssr.model.traces.flows import LAUNCHES, partner, stream_wait
from gssr.model.traces.nesting import within
from gssr.render.cells import as_many_as_fit, at_most, clean, fit, fit_row, wrap
from gssr.render.clock import exact, moment
from gssr.render.function_names import short_name
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row, Span, text_of
from gssr.render.shares import WORDS
from gssr.render.states import OF_TRACE
from gssr.render.table import rule
from gssr.traces.timeline import NO_LINK, OPERATIONS, Kind
from gssr.traces.timeline import Timeline as Trace

_NS = 1e9
"""Nanoseconds of a second."""
_MOST_WAIT_ROWS = 2
"""The numbers fit into one line of 80 cells with its indent; the other is for the name of what was waited for."""


def context_rows(result: Result, part: TracePart, place: int, width: int, glyphs: Glyphs) -> list[Row]:
    """Describe an interval (``place``: index into the trace's intervals) below a title with its name; for -1 a title
    that says there is nothing under the cursor."""
    if place < 0:
        return [rule("nothing under the cursor", width, glyphs, (Span("arrows move it", "dim"),))]
    name = clean(part.trace.names[int(part.trace.intervals.name[place])])
    title = fit(name, width - 8, glyphs.ellipsis)
    return [rule(title, width, glyphs), *interval_rows(result, part, place, width, glyphs)]


def interval_rows(result: Result, part: TracePart, place: int, width: int, glyphs: Glyphs) -> list[Row]:
    """Describe an interval without a title: kind, begin after the shown start, length, size, then its launch or
    message partner and what the two lie in, each only where there is one."""
    own, names = part.trace.intervals, part.trace.names
    first = result.first if result.since is None else result.since
    category = int(own.category[place])
    kind = Kind(int(own.kind[place])).name.lower().replace("_", " ")
    begin, length = int(own.start[place]), int(own.length[place])
    state = OF_TRACE[category]
    mark = state.mark if glyphs.levels.isascii() else "█"
    pieces: list[Row] = [
        (Span(mark, state.role), Span(f" {WORDS[category]} ({kind})")),
        (Span(f"at {moment(begin / _NS - first, 0.0, 1e-6)}", "value"),),
        (Span(f"takes {exact(length / _NS)}", "value"),),
    ]
    if own.size[place] >= 0:
        rate = f", {own.size[place] / length:.2f} GB/s" if length > 0 else ""
        operation = OPERATIONS[int(own.operation[place])] if own.operation[place] >= 0 else ""
        pieces.append((Span(f"{operation} {own.size[place]:,} bytes{rate}".strip()),))
    rows = [as_many_as_fit([(Span(" "), *piece) for piece in pieces], width)]
    other = partner(part.trace, place)
    if other >= 0:
        gap = (int(own.start[other]) - begin) / _NS
        where = part.trace.tracks[int(own.track[other])].label
        linked = "launched by" if own.kind[other] in LAUNCHES else "launched"
        how = "message with" if own.link[place] == NO_LINK else linked
        when = f"{exact(abs(gap))} {'later' if gap >= 0 else 'earlier'}"
        rows.append(
            (Span(f"  b {how} ", "dim"), Span(clean(names[int(own.name[other])])), Span(f" on {clean(where)}, {when}"))
        )
    if other >= 0 and own.kind[other] in LAUNCHES and own.start[other] < begin:
        rows += _wait_rows(_wait_text(part.trace, other, place), width, glyphs)
    for what, at in (("  within ", place), ("    in ", other if other >= 0 and own.kind[other] in LAUNCHES else -1)):
        around = within(own.start, own.length, own.track, at) if at >= 0 else []
        if around:
            rows.append((Span(what, "dim"), Span(" < ".join(clean(names[int(own.name[at])]) for at in around))))
    return [fit_row(row, width, glyphs.ellipsis) for row in rows]


def _wait_rows(said: str, width: int, glyphs: Glyphs) -> list[Row]:
    """Write what an interval waited for in at most _MOST_WAIT_ROWS lines."""
    waited = "  waited "
    indent = " " * len(waited)
    lines = wrap(said, width, indent, indent)
    first = (Span(waited, "dim"), Span(text_of(lines[0])[len(waited) :]))
    return at_most([first, *lines[1:]], _MOST_WAIT_ROWS, width, glyphs.ellipsis)


def _wait_text(trace: Trace, call: int, work: int) -> str:
    """Say what the time from a launch to the start of its work went to: ``5.00 µs while its stream was free, 50.0 µs
    on its stream behind memset``. The name comes last, as it may be long."""
    wait = stream_wait(trace, call, work)
    said = [f"{exact(wait.free / _NS)} while its stream was free"] if wait.free else []
    if wait.behind:
        name = short_name(trace.names[int(trace.intervals.name[wait.behind[0][0]])])
        n = len(wait.behind)
        what = name if n == 1 else f"{n:,} pieces of work, the longest {name}"
        said.append(f"{exact(sum(ns for _, ns in wait.behind) / _NS)} on its stream behind {what}")
    return ", ".join(said)
