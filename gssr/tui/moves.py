"""What keys do to the view: pure functions from a scene to the next view."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gssr.metrics import BY_NAME as METRICS
from gssr.metrics import OF_NODES
from gssr.model.live.live_result import Result
from gssr.model.live.nodes import metrics_of
from gssr.model.window import parse_time
from gssr.report.live.times_of_run import seconds_text
from gssr.tui.time.window import cells_wanted, scrubbed, zoomed
from gssr.tui.view import Scene, View, inside

if TYPE_CHECKING:
    from gssr.model.live.alignment import Alignment
    from gssr.model.traces.levels import LevelName

WINDOWS = (60.0, 300.0, 900.0, 3600.0)
"""Seconds: the last parts of a run that ``w`` shows, after its newest columns and the whole run."""
SPEEDS = (0.0, 1.0, 10.0, 60.0)
"""Seconds of a recording a second, one after another."""

Move = Callable[[Scene], View]


def back(scene: Scene) -> View:
    """Go back to the view that Enter came from.

    If it came from none, let go of one thing: the filter, else the selection, else the time cursor; the view is
    unchanged if there is none of these. On the way back a filter typed since is let go of first; metric, window and
    cursor stay as they are, but from Time back to Calls the window is again the one that its tables were of.
    """
    view = scene.view
    if view.trail:
        before = view.trail[-1]
        if view.filter and view.filter != before.filter:
            return replace(view, filter="")
        after = replace(before, metric=view.metric, cursor=view.cursor)
        return after if before.screen == "calls" else replace(after, span=view.span, end=view.end, lately=view.lately)
    for change in ({"filter": ""}, {"selection": (), "selected": ""}, {"cursor": None}):
        after = replace(view, **change)
        if after != view:
            return after
    return view


# Time


def _pause(scene: Scene) -> View:
    """Hold the window where it is, or let it follow the newest sample if it was held or played."""
    view, frame = scene.view, scene.frame
    if view.end is not None or view.speed:
        return replace(view, end=None, speed=0.0)
    return replace(view, end=frame.last)


def _play(scene: Scene) -> View:
    """Play on from the window's right edge at the next of SPEEDS (after the fastest 0, which stops); from the
    beginning if the edge is at the end."""
    view, frame = scene.view, scene.frame
    speed = SPEEDS[(SPEEDS.index(view.speed) + 1) % len(SPEEDS)] if view.speed in SPEEDS else 0.0
    end = view.end
    if end is None or end >= frame.last:
        end = frame.first + frame.grid.width
    span = view.span or max(frame.grid.n * frame.grid.width / 4, frame.grid.width)
    return replace(view, speed=speed, end=end, span=span)


def played(scene: Scene, seconds: float) -> View:
    """Return the view after ``seconds`` of wall-clock time while it is played; at the newest sample playing stops."""
    view, frame = scene.view, scene.frame
    end = (view.end if view.end is not None else frame.last) + seconds * view.speed
    if end >= frame.last:
        return replace(view, end=None, speed=0.0)
    return replace(view, end=end)


def _zoom(factor: float) -> Move:
    """Return a move to the next narrower (``step`` < 0) or wider columns, around the time cursor if it is in sight.
    The view is unchanged if there are none that can be read; it becomes the whole run if all of it is in sight."""

    def move(scene: Scene) -> View:
        view, frame = scene.view, scene.frame
        return zoomed(frame, view, factor, cells_wanted(frame, view, frame.grid.n))

    return move


def _step(columns: int) -> Move:
    """Return a move of the window by so many columns (negative: back); if the whole run is in sight, of the time
    cursor."""

    def move(scene: Scene) -> View:
        view, grid = scene.view, scene.frame.grid
        span = view.span if view.span is not None else grid.n * grid.width
        if view.span is None:  # the whole run is in sight: step the cursor through it
            return scrubbed(scene.frame, view, columns, cells_wanted(scene.frame, view, grid.n))
        end = (view.end if view.end is not None else grid.end) + columns * grid.width
        return replace(view, span=span, end=inside(scene.frame, end, span), speed=0.0)

    return move


def next_window(view: View, result: Result | None) -> tuple[View, str]:
    """Return the view of the next window, and what it is called: the newest seconds (of a live run only), the whole run,
    then its last WINDOWS that are shorter than the run."""
    live = result is not None and result.is_live
    lasted = 0.0 if result is None else result.last - result.first
    windows = [None, *(span for span in WINDOWS if span < lasted)]
    at = windows.index(view.span) if view.span in windows else -1
    if view.lately and live:
        after = replace(view, span=None, lately=False, end=None)
    elif at == len(windows) - 1:
        after = replace(view, span=None, lately=True, end=None, speed=0.0)
    else:
        after = replace(view, span=windows[at + 1], lately=False, end=None, speed=0.0)
    if after.span is not None:
        return after, f"the last {seconds_text(after.span)}"
    if live and after.lately:
        return after, "the newest seconds"
    return after, "the whole run" if live or windows[1:] else "the whole run, which is shorter than every other window"


def go_to(scene: Scene, text: str) -> View:
    """Move the cursor to a time as gssr.model.window.parse_time reads it, held within the run, and the window around
    it. Raises ValueError, with a sentence, if the text is no time."""
    frame, view = scene.frame, scene.view
    time = min(max(parse_time(text, frame.first, frame.last), frame.first), frame.last)
    view = replace(view, place=-1)
    if view.span is None:
        return replace(view, cursor=time)
    return replace(view, cursor=time, end=inside(frame, time + view.span / 2, view.span), speed=0.0)


# What is shown


def of_metric(scene: Scene, metric: str) -> View:
    """Return the view of another metric. Between metrics of GPUs and of nodes the selection changes along: to the
    nodes of the selected GPUs, or to all GPUs on the selected nodes."""
    view, frame = scene.view, scene.frame
    before = view.metric in OF_NODES
    gpus = frame.of_gpus or frame
    if (metric in OF_NODES) == before or gpus.by_node:
        return replace(view, metric=metric)

    def others(positions: list[int]) -> list[int]:
        known = np.array([at for at in positions if 0 <= at < (len(gpus.nodes) if before else gpus.n_gpus)], np.int64)
        found = np.flatnonzero(np.isin(gpus.node_of, known)) if before else np.unique(gpus.node_of[known])
        return [int(at) for at in found]

    return replace(view, metric=metric, selection=tuple(others(list(view.selection))), row=0, top=0, trail=())


def measured(scene: Scene) -> list[str]:
    """List the metrics that have samples, in the catalogue's order, with those of nodes last; of a trace all of its
    metrics."""
    frame = scene.frame
    if frame.part is not None:
        return list(frame.whole.names)
    found = frame.whole.measured() | (frame.of_gpus.whole.measured() if frame.of_gpus else frozenset())
    if not frame.by_node:
        found |= set(metrics_of(frame.host))
    return [name for name in (*METRICS, *OF_NODES) if name in found]


def _level(scene: Scene) -> View:
    """Show the next level of a trace with nothing selected, after the last one the first; for a recording with traces
    the recording itself is one of them. The view is unchanged if there is no trace."""
    view, part, found = scene.view, scene.frame.part, scene.frame.traced
    if part is None and not found:
        return view
    names: list[LevelName | None] = [*([None] if found else []), *(part.levels if part else ["gpus"])]
    level = names[(names.index(part.level.name if part else None) + 1) % len(names)]
    view = replace(view, level=level, opened=False, selection=(), selected="", row=0, top=0, trail=())
    return _over_traces(scene, view) if part is None else view


def _align(scene: Scene) -> View:
    """Align the two runs at the next of: their starts, where they begin to work, and, if every result has marks, a
    mark; after the last one the first. While the other run's result is missing (None), only this one's marks count."""
    both = [frame for frame in (scene.frame, scene.other) if frame is not None]
    from gssr.model.live.alignment import marks

    ways: list[Alignment] = ["start", "activity", *(["mark"] if all(map(marks, both)) else [])]  # type: ignore[list-item]
    at = ways.index(scene.view.align) if scene.view.align in ways else -1
    return replace(scene.view, align=ways[(at + 1) % len(ways)])


def _group(scene: Scene) -> View:
    """Group the rows: similar ones as bands, then (of a trace only) those that spend their time alike, then each row
    alone."""
    view = scene.view
    alike = scene.frame.part is not None and view.grouped and not view.alike
    return replace(view, grouped=alike or not view.grouped, alike=alike, row=0, top=0)


def _over_traces(scene: Scene, view: View) -> View:
    """Return the view as it is if more than half of its window was traced, else with all of the run, and without a
    cursor outside the traces. Needs a frame with traces."""
    window, found = scene.frame.window, scene.frame.traced
    first, last = min(trace.start for trace in found), max(trace.end for trace in found)
    overlap = min(window.end, last) - max(window.start, first)
    if view.span is not None and overlap > (window.end - window.start) / 2:
        return view
    cursor = view.cursor if view.cursor is not None and first <= view.cursor <= last else None
    return replace(view, span=None, end=None, cursor=cursor)


MOVES: dict[str, Move] = {
    "pause": _pause,
    "play": _play,
    "zoom_in": _zoom(0.5),
    "zoom_out": _zoom(2.0),
    "step_back": _step(-1),
    "step_forward": _step(1),
    "level": _level,
    "group": _group,
    "align": _align,
    "back": back,
}
"""By the action's name."""
