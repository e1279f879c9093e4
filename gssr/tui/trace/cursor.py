"""Where the cursor goes in a trace: to the next interval of a name or on a line, to the longest one, and from a cause to its
effect."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.gpu_name import gpu_label as called
from gssr.metrics import OF_NAME, OF_OWN
from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result, TracePart
from gssr.model.live.watched_trace import FINEST
from gssr.model.traces.flows import partner
from gssr.model.traces.levels import LevelName
from gssr.model.traces.nesting import lanes
from gssr.model.traces.part import fits_name
from gssr.traces.timeline import Timeline as Trace
from gssr.tui.view import Scene, View, inside

NS = 1e9


def interval_under(frame: Result, row: int, cursor: float | None) -> int:
    """Return the interval in the lane ``row`` at the time ``cursor`` (seconds), as an index into the trace's
    intervals.

    That is the one that begins at the cursor (to the precision of seconds as a float), else the one that fills most of
    the cursor's column. -1 if there is none, the cursor is None or outside the columns, or lanes are not shown.
    """
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
    """Return by how many ns a time that is kept in seconds may be off: 0 but for unix times."""
    return round(float(np.spacing(cursor)) * NS)


def picked(scene: Scene) -> int:
    """Return the interval under the cursor, as an index into the trace's intervals; -1 if there is none or Time does
    not show a selection track by track (``view.opened``)."""
    part = scene.frame.part
    if not scene.view.opened or part is None or part.lanes is None:
        return -1
    row = min(max(scene.view.row, 0), max(len(part.lanes.track) - 1, 0))
    return interval_under(scene.frame, row, scene.view.cursor)


@once
def _ids_of(trace: Trace, sought: str) -> Ints:
    """Return the indices into the trace's names of those that equal ``sought``, or else of those that fit it as a
    pattern."""
    same = np.array([name == sought for name in trace.names], np.bool_)  # names may hold what patterns mean
    return np.flatnonzero(same if same.any() else fits_name(trace.names, (sought,)))


def intervals_sought(frame: Result, view: View) -> Ints:
    """Find the intervals whose names are looked for (``view.name``) on the GPUs, ranks or threads looked at, as
    indices into the trace's intervals, ascending by time. Empty if no name is looked for or the result is not of a
    trace."""
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
    """Keep those of ``places`` (indices into the trace's intervals) whose track belongs to a row that is looked at."""
    found: Ints = places[rows_looked_at(frame, view)[part.level.owner_of[part.trace.intervals.track[places]]]]
    return found


def rows_looked_at(frame: Result, view: View) -> Flags:
    """Flag the rows of the level that are selected, all if none is; the last flag is False, for what is on none of them
    (-1)."""
    selection = frame.query.gpus or view.selection
    chosen = np.full(frame.n_gpus + 1, not selection)
    chosen[list(selection)] = True
    chosen[-1] = False
    return chosen


def find(step: int) -> Callable[[Scene], View]:
    """Return a move to the next (``step`` 1) or previous (-1) interval of the name that is looked for.

    Without such a name it is that of the interval under the cursor, or of the metric shown. The move returns the view
    unchanged if there is no further interval, the result is not of a trace, or the screen is not Time.
    """

    def move_to(scene: Scene) -> View:
        view, frame = scene.view, scene.frame
        part = frame.part
        if part is None or view.screen != "time":
            return view
        here = picked(scene)
        if not view.opened and view.metric.startswith(OF_OWN):
            there = _looked_at(frame, part, view, part.level.of_metric(view.metric))
        else:
            name = view.name
            if not name and here >= 0:
                name = part.trace.names[int(part.trace.intervals.name[here])]
            elif not name and view.metric.startswith(OF_NAME):
                name = view.metric.removeprefix(OF_NAME)
            view = replace(view, name=name)
            there = intervals_sought(frame, view)
        return _stepped(scene._replace(view=view), part, there, step) or scene.view

    return move_to


def find_on_line(step: int) -> Callable[[Scene], View]:
    """Return a move to the next (``step`` 1) or previous (-1) interval on the cursor's line.

    The move returns the view unchanged if there is no further interval, or no tracks are shown.
    """

    def move_to(scene: Scene) -> View:
        part = scene.frame.part
        if not scene.view.opened or part is None or part.lanes is None:
            return scene.view
        row = min(max(scene.view.row, 0), max(len(part.lanes.track) - 1, 0))
        return _stepped(scene, part, part.lanes.places[part.lanes.lane == row], step) or scene.view

    return move_to


def _stepped(scene: Scene, part: TracePart, there: Ints, step: int) -> View | None:
    """Return the view with the cursor on the next (``step`` 1) or previous (-1) of ``there`` (indices into the trace's
    intervals, ascending), counted from the interval under the cursor, or from the cursor's time. None if there is none."""
    own, here, cursor = part.trace.intervals, picked(scene), scene.view.cursor
    found = int(np.searchsorted(there, here))
    if here >= 0 and found < len(there) and there[found] == here:
        at = found + step
    else:
        time = -1 if cursor is None else round(cursor * NS) + step * _slack(cursor)
        at = int(np.searchsorted(own.start[there], time, "right" if step > 0 else "left")) - (step < 0)
    return shown_at(scene, part, int(there[at])) if 0 <= at < len(there) else None


def shown_at(scene: Scene, part: TracePart, place: int) -> View:
    """Return the view with the cursor at the begin of an interval (``place``: index into the trace's intervals), on
    its line. The window moves there if it does not hold it; the line stays as it was where the interval is on none in
    sight."""
    view, frame, own = scene.view, scene.frame, part.trace.intervals
    time = float(own.start[place] / NS)
    after = replace(view, cursor=time)
    grid = part.columns or frame.grid
    if view.span is not None and not grid.start <= time < grid.end:
        after = replace(after, end=inside(frame, time + view.span / 2, view.span))
    if view.opened and part.lanes is not None:
        found = np.flatnonzero(part.lanes.places == place)
        return replace(after, row=int(part.lanes.lane[found[0]])) if len(found) else after
    owner = part.level.owner_of[own.track[place]]
    lines = frame.timeline.members if frame.timeline is not None else ()
    row = next((at for at, members in enumerate(lines) if owner in members), view.row)
    return replace(after, row=row)


def cause(scene: Scene) -> View:
    """Move from the interval under the cursor to what launched it or what it launched, or from one end of a message to
    the other.

    If that is on another row, its row is selected and opened, at another level if need be. Returns the view unchanged
    if there is no such interval or no level has its track.
    """
    view, part = scene.view, scene.frame.part
    place = picked(scene)
    if part is None or part.lanes is None or place < 0:
        return view
    other = partner(part.trace, place)
    if other < 0:
        return view
    return shown_at(scene, part, other) if np.isin(other, part.lanes.places) else opened_at(scene, part, other)


def opened_at(scene: Scene, part: TracePart, place: int) -> View:
    """Return the view of the tracks of the row that an interval (``place``: index into the trace's intervals) is on, at
    another level if need be, with the cursor on it. Returns the view unchanged if no level has its track."""
    track = int(part.trace.intervals.track[place])
    names = (part.level.name, *part.levels)
    level: LevelName | None = next((name for name in names if part.levels[name].owner_of[track] >= 0), None)
    if level is None:
        return scene.view
    owner = int(part.levels[level].owner_of[track])
    name, row = called(part.levels[level].gpus[owner]), _line_of(part, level, owner, place)
    after = shown_at(scene, part, place)
    level = scene.view.level if level == part.level.name else level  # the usual one stays so: all screens have it
    return replace(after, level=level, selection=(owner,), selected=name, opened=True, row=row, top=0)


def fitted(result: Result, part: TracePart, view: View, place: int, n: int) -> View:
    """Return the view in whose window of ``n`` cells an interval (``place``: index into the trace's intervals) fills all but
    a tenth of its length on either side, as far as cells can be so narrow."""
    start, length = (float(each[place]) / NS for each in (part.trace.intervals.start, part.trace.intervals.length))
    length = max(length, FINEST * n)
    end = start + 1.1 * length  # before the run there may be some room: columns begin up to one of them late
    return replace(view, span=1.2 * length, end=None if end >= result.last else end)


def _line_of(part: TracePart, level: LevelName, owner: int, place: int) -> int:
    """Return the line on which an interval (``place``) is drawn once its owner (a position in ``level``) is opened."""
    own = part.trace.intervals
    found = lanes(own.start, own.length, own.track, part.levels[level].owner_of == owner, int(own.start[place]), 1, 1)
    return int(found.lane[np.flatnonzero(found.places == place)[0]])
