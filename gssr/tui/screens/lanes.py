"""One GPU, stream or thread of a trace, track by track and level by level: each interval where it lies, and all that is
known of the one under the cursor. From there to the next of its name, and from a cause to its effect.

Counters, as strips under any timeline of a trace.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from gssr.gpu_name import place as called
from gssr.metrics import OF_NAME, OF_OWN
from gssr.model.live.frame import Frame, TracePart
from gssr.model.statistics.grid import fold
from gssr.model.traces.as_metrics import LevelName
from gssr.model.traces.messages import other_end
from gssr.model.traces.nesting import Lanes, lanes, within
from gssr.render.cells import as_many, clean, clip, fit, pad
from gssr.render.clock import axis_text, exact, moment
from gssr.render.function_names import short_name
from gssr.render.glyphs import MISSING, in_ascii
from gssr.render.marks import Marks, bars, blank, code, marks
from gssr.render.roles import CATEGORIES, Row, Span
from gssr.render.scale import metric_of, quantity
from gssr.render.shares import LETTERS, WORDS
from gssr.render.table import rule
from gssr.traces.timeline import NO_LINK, OPERATIONS, Kind
from gssr.traces.timeline import Timeline as Trace
from gssr.tui.axis import seconds_text
from gssr.tui.screens.time_lines import room_of
from gssr.tui.view import Scene, View, inside, moved, with_cursor

_LEAST_NAME = 3
"""Cells that an interval's name needs."""
_CODES = np.array([code(role) for role in CATEGORIES])
_LAUNCHES = (Kind.RUNTIME, Kind.DRIVER)
_NS = 1e9


def draw(scene: Scene) -> list[Row]:
    """The tracks, the counters, the times, and the interval under the cursor."""
    part, parts = scene.frame.part, room_of(scene)
    if part is None or part.lanes is None or part.columns is None:
        return [clip((Span("one moment", "dim"),), scene.width)]
    sight = _sight(scene, part.lanes)
    title = scene.view.selected or "opened"
    about = (Span(f"{len(part.lanes.track)} lines, Esc closes", "dim"), *_legend(part, part.lanes))
    right = (Span(f"1 column = {seconds_text(part.columns.width)}", "dim"),)
    rows = [rule(clean(title), scene.width, scene.glyphs, about, right)]
    rows += _lane_rows(scene, part, part.lanes, sight)
    rows += counter_rows(scene, parts.left, parts.counters)
    if parts.axis:
        n = part.columns.n
        text = axis_text(part.columns.start - scene.frame.first, part.columns.end - scene.frame.first, n)
        rows.append((Span(" " * parts.left), Span(text, "dim")))
    about_it = context_rows(scene, part, _under(scene.frame, part.lanes, sight.row, scene.view.cursor))
    room = max(scene.height - len(rows), 0)
    return [clip(each, scene.width) for each in [*rows, *about_it[:room]]]


class _Sight(NamedTuple):
    """The lines in sight, and the one under the cursor; ``tall``: rows of each, its names above its bars; with one row,
    names where there is room for them, else bars."""

    lines: range
    row: int
    tall: int


def _sight(scene: Scene, lanes: Lanes) -> _Sight:
    """All rows but those of the title, the axis, the counters and the panel are for lines."""
    n, parts = len(lanes.track), room_of(scene)
    row = min(max(scene.view.row, 0), max(n - 1, 0))
    room = max(parts.lines + parts.summary + parts.head, 1)
    tall = max(room // max(n, 1), 1)
    top = min(max(scene.view.top, row - room // tall + 1, 0), row, max(n - room // tall, 0))
    return _Sight(range(top, min(top + room // tall, n)), row, tall)


def _legend(part: TracePart, lanes: Lanes) -> Row:
    seen = np.unique(part.trace.intervals.category[np.unique(lanes.item[lanes.item >= 0])]).tolist()
    return tuple(Span(f"{LETTERS[at]} {WORDS[at].partition(',')[0]}", CATEGORIES[at]) for at in seen)


def _lane_rows(scene: Scene, part: TracePart, lanes: Lanes, sight: _Sight) -> list[Row]:
    left, (shown, row, tall) = room_of(scene).left, sight
    own, names = part.trace.intervals, part.trace.names
    assert part.columns is not None
    column = _column(part, scene.view.cursor)
    items = lanes.item[shown.start : shown.stop]
    drawn = bars(lanes.share[shown.start : shown.stop], max(tall - 1, 1), scene.glyphs)
    drawn.codes[:] = np.where(items >= 0, _CODES[own.category[items]], code("plain"))[:, None, :]
    drawn.chars[np.broadcast_to((items < 0)[:, None, :], drawn.chars.shape)] = MISSING
    box = blank(len(shown), tall, part.columns.n)
    box.chars[:, -drawn.chars.shape[1] :], box.codes[:, -drawn.chars.shape[1] :] = drawn.chars, drawn.codes
    flat = Marks(box.chars.reshape(-1, part.columns.n), box.codes.reshape(-1, part.columns.n))
    if column is not None:
        empty = flat.chars[:, column] == MISSING
        flat.chars[empty, column], flat.codes[empty, column] = scene.glyphs.cursor, code("value")
    labels: list[Row] = []
    for y, lane in enumerate(shown):
        edges = np.flatnonzero(np.diff(items[y], prepend=-2)).tolist()
        for begin, end in zip(edges, [*edges[1:], part.columns.n], strict=True):
            item = int(items[y, begin])
            picked = lane == row and column is not None and begin <= column < end
            if item >= 0 and end - begin >= _LEAST_NAME:
                name = fit(in_ascii(short_name(names[int(own.name[item])])), end - begin - 1, "").ljust(end - begin - 1)
                flat.write(y * tall, begin, scene.glyphs.cursor + name, CATEGORIES[int(own.category[item])])
            if item >= 0 and picked:
                flat.codes[y * tall, begin:end] = code("picked")
        labels += [_label(scene, part, lanes, lane, lane == row, left), *[()] * (tall - 1)]
    return [(*pad(label, left), *line) for label, line in zip(labels, flat.rows(), strict=True)]


def _label(scene: Scene, part: TracePart, lanes: Lanes, lane: int, here: bool, left: int) -> Row:
    track, level = part.trace.tracks[int(lanes.track[lane])], int(lanes.level[lane])
    first = lane == 0 or lanes.track[lane - 1] != lanes.track[lane]
    name = track.name or (f"stream {track.stream}" if track.stream is not None else f"thread {track.tid}")
    text = clean(name) if first else f"  level {level}"
    room = left - 3
    shown = fit(text, room, scene.glyphs.ellipsis)
    return (Span(">" if here else " ", "value"), Span(f" {shown}", "picked" if here else "plain" if first else "dim"))


def _column(part: TracePart, cursor: float | None) -> int | None:
    grid = part.columns
    if grid is None or cursor is None or not grid.start <= cursor < grid.end:
        return None
    return grid.column(cursor)


def _under(frame: Frame, lanes: Lanes, row: int, cursor: float | None) -> int:
    """The interval under the cursor: the one that begins just there, else the one that has most of the column; -1: none."""
    part = frame.part
    assert part is not None
    column = _column(part, cursor)
    if column is None or cursor is None or row >= len(lanes.track):
        return -1
    own = part.trace.intervals
    time, slack = round(cursor * _NS), _slack(cursor)
    at = np.searchsorted(own.start, time - slack)
    exactly = lanes.places[lanes.lane == row]
    exactly = exactly[np.searchsorted(exactly, at) :][:1]
    if len(exactly) and abs(own.start[exactly[0]] - time) <= slack:
        return int(exactly[0])
    return int(lanes.item[row, column])


def _slack(cursor: float) -> int:
    """By how many ns a time may be off that is kept in s: nothing but of unix times."""
    return round(float(np.spacing(cursor)) * _NS)


def context_rows(scene: Scene, part: TracePart, place: int) -> list[Row]:
    """What is known of an interval: when, how long, what launched it, and in what it lies."""
    if place < 0:
        return [rule("nothing under the cursor", scene.width, scene.glyphs, (Span("arrows move it", "dim"),))]
    own, names, first = part.trace.intervals, part.trace.names, scene.frame.first
    category = int(own.category[place])
    kind = Kind(int(own.kind[place])).name.lower().replace("_", " ")
    begin, length = int(own.start[place]), int(own.length[place])
    title = fit(clean(names[int(own.name[place])]), scene.width - 8, scene.glyphs.ellipsis)
    pieces: list[Row] = [
        (Span(LETTERS[category], CATEGORIES[category]), Span(f" {WORDS[category]} ({kind})")),
        (Span(f"at {moment(begin / _NS - first, 0.0, 1e-6)}", "value"),),
        (Span(f"takes {exact(length / _NS)}", "value"),),
    ]
    if own.size[place] >= 0:
        rate = f", {own.size[place] / length:.2f} GB/s" if length > 0 else ""
        operation = OPERATIONS[int(own.operation[place])] if own.operation[place] >= 0 else ""
        pieces.append((Span(f"{operation} {own.size[place]:,} bytes{rate}".strip()),))
    rows = [rule(title, scene.width, scene.glyphs), as_many([(Span(" "), *piece) for piece in pieces], scene.width)]
    other = partner(part.trace, place)
    if other >= 0:
        gap = (int(own.start[other]) - begin) / _NS
        whose = part.trace.tracks[int(own.track[other])]
        where = whose.name or f"stream {whose.stream}"
        linked = "launched by" if own.kind[other] in _LAUNCHES else "launched"
        how = "message with" if own.link[place] == NO_LINK else linked
        when = f"{exact(abs(gap))} {'later' if gap >= 0 else 'earlier'}"
        rows.append(
            (Span(f"  b {how} ", "dim"), Span(clean(names[int(own.name[other])])), Span(f" on {clean(where)}, {when}"))
        )
    for what, at in (("  within ", place), ("    in ", other if other >= 0 and own.kind[other] in _LAUNCHES else -1)):
        around = within(own.start, own.length, own.track, at) if at >= 0 else []
        if around:
            rows.append((Span(what, "dim"), Span(" < ".join(clean(names[int(own.name[at])]) for at in around))))
    return [(*row,) for row in rows]


def counter_rows(scene: Scene, left: int, n_rows: int) -> list[Row]:
    """The first counters of a trace, a strip each: up to the greatest value that each has anywhere."""
    part = scene.frame.part
    rows: list[Row] = []
    if part is None or part.columns is None:
        return rows
    shown = [(counter, metric_of(counter.metric)) for counter in part.counters[:n_rows]]
    alike = len({metric.label[: left // 4] for _, metric in shown}) < len(
        shown
    )  # one of each GPU: which one says the end
    for counter, metric in shown:
        columns = fold(part.columns, counter.values, max(scene.width - left, 1))
        column = None if scene.view.cursor is None else columns.column(scene.view.cursor)
        known = columns.values[np.isfinite(columns.values)]
        value = columns.values[column] if column is not None else known.max() if len(known) else np.nan
        text = f"{'' if column is not None else 'max '}{quantity(float(value), metric)}"
        keep: Literal["start", "end"] = "end" if alike else "start"
        name = fit(clean(metric.label), max(left - len(text) - 4, 4), scene.glyphs.ellipsis, keep)
        drawn = marks(columns.values[None] / (counter.full or 1.0), scene.glyphs)
        drawn.codes[:] = code("series")
        if column is not None:
            drawn.codes[:, column] = code("cursor")
        label = (Span(f"  {name} ", "dim"), Span(text, "value"))
        rows.append((*pad(clip(label, left - 1), left), *drawn.rows()[0]))
    return rows


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Sideways the time cursor, up and down the line."""
    part = scene.frame.part
    view = with_cursor(scene, dx) if dx else scene.view
    if not dy or part is None or part.lanes is None:
        return view
    sight = _sight(scene, part.lanes)
    return replace(view, top=sight.lines.start, row=moved(sight.row, dy, len(sight.lines), len(part.lanes.track)))


def enter(scene: Scene) -> View | None:
    """The window becomes the interval under the cursor, and a tenth of it on both sides."""
    part = scene.frame.part
    if part is None or part.lanes is None:
        return None
    place = _under(scene.frame, part.lanes, _sight(scene, part.lanes).row, scene.view.cursor)
    if place < 0:
        return None
    own = part.trace.intervals
    length = max(int(own.length[place]) / _NS, 1e-6 * part.lanes.item.shape[1])
    end = own.start[place] / _NS + 1.1 * length
    return replace(scene.view, span=1.2 * length, end=inside(scene, float(end), 1.2 * length))


def click(scene: Scene, x: int, y: int) -> View | None:
    """The interval under the mouse."""
    part, parts = scene.frame.part, room_of(scene)
    if part is None or part.lanes is None or part.columns is None:
        return None
    sight = _sight(scene, part.lanes)
    line = sight.lines.start + (y - 1) // sight.tall
    if y < 1 or line not in sight.lines:
        return None
    if not 0 <= x - parts.left < part.columns.n:
        return replace(scene.view, row=line)
    cursor = part.columns.start + (x - parts.left + 0.5) * part.columns.width
    return replace(scene.view, row=line, cursor=min(max(cursor, scene.frame.first), scene.frame.last))


def partner(trace: Trace, place: int) -> int:
    """The place of what launched an interval, or of the first that it launched; of a call that sends or receives that of the
    call at the other end of its first message; -1 for none."""
    own = trace.intervals
    if own.link[place] == NO_LINK:
        return other_end(trace, place)
    calls = np.isin(own.kind[place], _LAUNCHES)
    linked = np.flatnonzero(own.link == own.link[place])
    others = linked[np.isin(own.kind[linked], _LAUNCHES) != calls]
    return int(others[0]) if len(others) else -1


def place_under(scene: Scene) -> int:
    """The interval under the cursor where tracks are shown; -1 for none."""
    part = scene.frame.part
    if not scene.view.opened or part is None or part.lanes is None:
        return -1
    return _under(scene.frame, part.lanes, _sight(scene, part.lanes).row, scene.view.cursor)


def find(step: int) -> Callable[[Scene], View]:
    """The next (``step`` 1) or previous (-1) interval of the name under the cursor, or of the metric shown, on what is
    looked at."""

    def move_to(scene: Scene) -> View:
        view, frame = scene.view, scene.frame
        part = frame.part
        if part is None or view.screen != "time":
            return view
        own = part.trace.intervals
        name = _name_under(scene, part)
        looked_at = np.append(np.zeros(frame.n_gpus, bool), False)
        looked_at[scene.looked_at()] = True
        there = part.level.of_metric(
            OF_NAME + name if view.opened or not view.metric.startswith(OF_OWN) else view.metric
        )
        there = there[looked_at[part.level.owner_of[own.track[there]]]]
        time = -1 if view.cursor is None else round(view.cursor * _NS) + step * _slack(view.cursor)
        at = int(np.searchsorted(own.start[there], time, "right" if step > 0 else "left")) - (step < 0)
        if not 0 <= at < len(there):
            return view
        return replace(_shown_at(scene, part, int(there[at])), name=name)

    return move_to


def _name_under(scene: Scene, part: TracePart) -> str:
    view, own = scene.view, part.trace.intervals
    if not view.opened or part.lanes is None:
        return view.metric.removeprefix(OF_NAME) if view.metric.startswith(OF_NAME) else view.name
    row = _sight(scene, part.lanes).row
    place = _under(scene.frame, part.lanes, row, view.cursor)
    return part.trace.names[int(own.name[place])] if place >= 0 else view.name


def _shown_at(scene: Scene, part: TracePart, place: int) -> View:
    """The cursor at the begin of an interval, and its line."""
    view, frame, own = scene.view, scene.frame, part.trace.intervals
    time = float(own.start[place] / _NS)
    after = replace(view, cursor=time)
    grid = part.columns or frame.grid
    if view.span is not None and not grid.start <= time < grid.end:
        after = replace(after, end=inside(scene, time + view.span / 2, view.span))
    if view.opened and part.lanes is not None:
        found = np.flatnonzero(part.lanes.places == place)
        return replace(after, row=int(part.lanes.lane[found[0]])) if len(found) else after
    owner = part.level.owner_of[own.track[place]]
    lines = frame.timeline.members if frame.timeline is not None else ()
    row = next((at for at, members in enumerate(lines) if owner in members), view.row)
    return replace(after, row=row)


def cause(scene: Scene) -> View:
    """From an interval to what launched it, or to what it launched; from one end of a message to the other."""
    view, part = scene.view, scene.frame.part
    if part is None or part.lanes is None or not view.opened:
        return view
    row = _sight(scene, part.lanes).row
    place = _under(scene.frame, part.lanes, row, view.cursor)
    other = partner(part.trace, place) if place >= 0 else -1
    if other < 0:
        return view
    track = int(part.trace.intervals.track[other])
    names = (part.level.name, *part.levels)
    level: LevelName | None = next((name for name in names if part.levels[name].owner_of[track] >= 0), None)
    if level is None:
        return view
    owner = int(part.levels[level].owner_of[track])
    after = _shown_at(scene, part, other)
    if level == part.level.name and view.selection == (owner,):
        return after
    name, row = called(part.levels[level].gpus[owner]), _line_of(part, level, owner, other)
    return replace(after, level=level, selection=(owner,), selected=name, row=row)


def _line_of(part: TracePart, level: LevelName, owner: int, place: int) -> int:
    """The line of an interval once its owner is opened."""
    own = part.trace.intervals
    found = lanes(own.start, own.length, own.track, part.levels[level].owner_of == owner, int(own.start[place]), 1, 1)
    return int(found.lane[np.flatnonzero(found.places == place)[0]])
