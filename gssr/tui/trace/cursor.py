"""Where the cursor goes in a trace: to the next interval of a name, and from a cause to its effect."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gssr.arrays import Ints
from gssr.gpu_name import gpu_label as called
from gssr.metrics import OF_NAME, OF_OWN
from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result, TracePart
from gssr.model.traces.as_metrics import LevelName
from gssr.model.traces.nesting import lanes
from gssr.model.traces.part import fits_name
from gssr.traces.timeline import Timeline as Trace
from gssr.tui.trace.flows import partner
from gssr.tui.view import Scene, View, inside

NS = 1e9


def interval_under(frame: Result, row: int, cursor: float | None) -> int:
    """The interval in the lane ``row`` under the time cursor: the one that begins just there, else the one that has most of
    the column; -1 for none."""
    part = frame.part
    if part is None or part.lanes is None or cursor is None:
        return -1
    own, found = part.trace.intervals, part.lanes
    grid = part.columns or frame.grid
    if row >= len(found.track) or not grid.start <= cursor < grid.end:
        return -1
    time, slack = round(cursor * NS), _slack(cursor)
    at = np.searchsorted(own.start, time - slack)
    exactly = found.places[found.lane == row]
    exactly = exactly[np.searchsorted(exactly, at) :][:1]
    if len(exactly) and abs(own.start[exactly[0]] - time) <= slack:
        return int(exactly[0])
    return int(found.item[row, min(grid.column(cursor), found.item.shape[1] - 1)])


def _slack(cursor: float) -> int:
    """By how many ns a time may be off that is kept in s: nothing but of unix times."""
    return round(float(np.spacing(cursor)) * NS)


def picked(scene: Scene) -> int:
    """The interval under the cursor where tracks are shown; -1 for none."""
    part = scene.frame.part
    if not scene.view.opened or part is None or part.lanes is None:
        return -1
    row = min(max(scene.view.row, 0), max(len(part.lanes.track) - 1, 0))
    return interval_under(scene.frame, row, scene.view.cursor)


@once
def _ids_of(trace: Trace, sought: str) -> Ints:
    same = np.array([name == sought for name in trace.names], np.bool_)  # names may hold what patterns mean
    return np.flatnonzero(same if same.any() else fits_name(trace.names, (sought,)))


def places_sought(frame: Result, view: View) -> Ints:
    """The intervals whose names hold what is looked for (``view.name``), on what is looked at, ascending by time."""
    part = frame.part
    if part is None or not view.name:
        return np.zeros(0, np.int64)
    own = part.trace.intervals
    ids = _ids_of(part.trace, view.name)
    if view.opened and part.lanes is not None:
        places = part.lanes.places
        return places[np.isin(own.name[places], ids)]
    found = np.flatnonzero(np.isin(own.name, ids))
    return _looked_at(frame, part, view, found)


def _looked_at(frame: Result, part: TracePart, view: View, places: Ints) -> Ints:
    chosen = np.append(np.ones(frame.n_gpus, bool), False)
    selection = frame.query.gpus or view.selection
    if selection:
        chosen[:] = False
        chosen[list(selection)] = True
    found: Ints = places[chosen[part.level.owner_of[part.trace.intervals.track[places]]]]
    return found


def find(step: int) -> Callable[[Scene], View]:
    """The next (``step`` 1) or previous (-1) interval of the name that is looked for, or of that under the cursor, or of the
    metric shown, on what is looked at."""

    def move_to(scene: Scene) -> View:
        view, frame = scene.view, scene.frame
        part = frame.part
        if part is None or view.screen != "time":
            return view
        own, here = part.trace.intervals, picked(scene)
        if not view.opened and view.metric.startswith(OF_OWN):
            there = _looked_at(frame, part, view, part.level.of_metric(view.metric))
        else:
            name = view.name
            if not name and here >= 0:
                name = part.trace.names[int(own.name[here])]
            elif not name and view.metric.startswith(OF_NAME):
                name = view.metric.removeprefix(OF_NAME)
            view = replace(view, name=name)
            there = places_sought(frame, view)
        if not len(there):
            return scene.view
        if here >= 0 and here in there:
            at = int(np.searchsorted(there, here)) + step
        else:
            time = -1 if view.cursor is None else round(view.cursor * NS) + step * _slack(view.cursor)
            at = int(np.searchsorted(own.start[there], time, "right" if step > 0 else "left")) - (step < 0)
        if not 0 <= at < len(there):
            return scene.view
        return shown_at(scene._replace(view=view), part, int(there[at]))

    return move_to


def shown_at(scene: Scene, part: TracePart, place: int) -> View:
    """The cursor at the begin of an interval, and its line."""
    view, frame, own = scene.view, scene.frame, part.trace.intervals
    time = float(own.start[place] / NS)
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
    place = picked(scene)
    if part is None or part.lanes is None or place < 0:
        return view
    other = partner(part.trace, place)
    if other < 0:
        return view
    after = shown_at(scene, part, other)
    if np.isin(other, part.lanes.places):
        return after
    track = int(part.trace.intervals.track[other])
    names = (part.level.name, *part.levels)
    level: LevelName | None = next((name for name in names if part.levels[name].owner_of[track] >= 0), None)
    if level is None:
        return view
    owner = int(part.levels[level].owner_of[track])
    name, row = called(part.levels[level].gpus[owner]), _line_of(part, level, owner, other)
    return replace(after, level=level, selection=(owner,), selected=name, row=row)


def _line_of(part: TracePart, level: LevelName, owner: int, place: int) -> int:
    """The line of an interval once its owner is opened."""
    own = part.trace.intervals
    found = lanes(own.start, own.length, own.track, part.levels[level].owner_of == owner, int(own.start[place]), 1, 1)
    return int(found.lane[np.flatnonzero(found.places == place)[0]])
