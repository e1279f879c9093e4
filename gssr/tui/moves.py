"""What actions do to the view: pure functions from a scene to the next view, by the action's name."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gssr.metrics import BY_NAME as METRICS
from gssr.model.findings.notes import FINEST
from gssr.model.live.attention import attention
from gssr.model.live.frame import Frame
from gssr.model.live.watch_trace import FINEST as FINEST_OF_TRACES
from gssr.model.statistics.grid import choose_width, ladder
from gssr.model.window import parse_time
from gssr.tui.order import shown_gpus
from gssr.tui.screens import BY_NAME, SCREENS, screens
from gssr.tui.screens.lanes import cause, find
from gssr.tui.shell import extent_of
from gssr.tui.view import PAGE, Scene, ScreenName, Sort, View, inside, moved, with_cursor

LEAP = 10
"""Columns that a leap in time covers."""
SPEEDS = (0.0, 1.0, 10.0, 60.0)
"""Seconds of a recording a second, one after another."""
SORTS: tuple[Sort, ...] = ("mean", "p05", "p95", "now", "place")

Move = Callable[[Scene], View]


def to_screen(view: View, name: ScreenName) -> View:
    """Another screen; the selection, the time and the metric stay."""
    if name == view.screen:
        return view
    return replace(view, screen=name, row=0, top=0, overlay="", opened=False, trail=())


def _screen(name: ScreenName) -> Move:
    return lambda scene: to_screen(scene.view, name)


def _neighbour(step: int) -> Move:
    def move(scene: Scene) -> View:
        names = [screen.name for screen in screens(scene.frame.part is not None)]
        return to_screen(scene.view, names[(names.index(scene.view.screen) + step) % len(names)])

    return move


def move_by(scene: Scene, dx: int, dy: int) -> View:
    """The cursor of the screen moves so far; what lies over it scrolls instead."""
    view = scene.view
    if not view.overlay:
        return BY_NAME[view.screen].move(scene, dx, dy)
    n, room = extent_of(scene)
    return replace(view, scroll=moved(min(view.scroll, max(n - room, 0)), dy, room, max(n - room, 0) + 1))


def _cursor(dx: int, dy: int) -> Move:
    return lambda scene: move_by(scene, dx, dy)


def _enter(scene: Scene) -> View:
    if scene.view.overlay:
        return replace(scene.view, overlay="")
    return BY_NAME[scene.view.screen].enter(scene) or scene.view


def _back(scene: Scene) -> View:
    """Close what lies over the screen; else let go of a filter set since; else back to where Enter came from; else let go,
    one after another, of the filter, the selection and the time cursor."""
    view = scene.view
    if view.overlay:
        return replace(view, overlay="")
    if view.trail:
        before = view.trail[-1]
        if view.filter and view.filter != before.filter:
            return replace(view, filter="")
        return replace(
            before, metric=view.metric, span=view.span, end=view.end, cursor=view.cursor, output=view.output
        )  # fmt: skip
    for change in ({"sought": ""}, {"filter": ""}, {"selection": (), "selected": ""}, {"cursor": None}):
        after = replace(view, **change)
        if after != view:
            return after
    return view


def _outlier(step: int) -> Move:
    """The next GPU in the order shown that needs a look, around the end: an outlier or one that is silent; where there is
    none, one that is throttled."""

    def move(scene: Scene) -> View:
        view = scene.view
        shown = np.sort(shown_gpus(scene)) if view.screen == "map" else shown_gpus(scene)
        marked = attention(scene.frame).unlike()[shown]
        if not marked.any():
            return view
        at = np.flatnonzero(shown == view.gpu)
        begin = int(at[0]) if len(at) else -1 if step > 0 else 0
        order = (begin + step * np.arange(1, len(shown) + 1)) % len(shown)
        return replace(view, gpu=int(shown[order[np.argmax(marked[order])]]))

    return move


def _overlay(name: str) -> Move:
    return lambda scene: replace(scene.view, overlay="" if scene.view.overlay == name else name, scroll=0)  # type: ignore[arg-type]


# Time


def _pause(scene: Scene) -> View:
    """Hold the view where it is, or let it follow the newest sample."""
    view, frame = scene.view, scene.frame
    if view.end is not None or view.speed:
        return replace(view, end=None, speed=0.0)
    return replace(view, end=frame.last)


def _play(scene: Scene) -> View:
    """Play on from the right edge; from the beginning when that is the end."""
    view, frame = scene.view, scene.frame
    speed = SPEEDS[(SPEEDS.index(view.speed) + 1) % len(SPEEDS)] if view.speed in SPEEDS else 0.0
    end = view.end
    if end is None or end >= frame.last:
        end = frame.first + frame.grid.width
    span = view.span or max(frame.grid.n * frame.grid.width / 4, frame.grid.width)
    return replace(view, speed=speed, end=end, span=span)


def played(scene: Scene, seconds: float) -> View:
    """The view after ``seconds`` of the clock on the wall while it is played; it stops at the newest sample."""
    view, frame = scene.view, scene.frame
    end = (view.end if view.end is not None else frame.last) + seconds * view.speed
    if end >= frame.last:
        return replace(view, end=None, speed=0.0)
    return replace(view, end=end)


def _zoom(step: int) -> Move:
    def move(scene: Scene) -> View:
        view, frame, grid = scene.view, scene.frame, scene.frame.grid
        width = _next_width(frame, step)
        if width is None:
            return view
        span = width * grid.n
        if step > 0 and span >= frame.last - frame.first:
            return _zoom_all(scene)
        end = view.end
        centre = view.cursor if view.cursor is not None and grid.start <= view.cursor < grid.end else None
        if centre is not None and (view.end is not None or centre < grid.end - grid.width):
            begin, until = grid.start, grid.end
            if view.end is not None and view.span is not None:  # exactly: the grid's edges are those of whole columns
                begin, until = view.end - view.span, view.end
            share = (centre - begin) / (until - begin)
            end = inside(scene, centre + (1 - share) * span, span)
        return replace(view, span=span, end=end)

    return move


def _next_width(frame: Frame, step: int) -> float | None:
    """The next narrower (``step`` < 0) or wider width of columns that can be read; None where there is none."""
    grid = frame.grid if frame.part is None else frame.part.columns or frame.grid
    interval, n_gpus = (frame.sampling_seconds, frame.n_gpus) if frame.part is None else (FINEST_OF_TRACES / 2, 0)
    widths = [width for width, _ in zip(ladder(interval), range(60), strict=False)]
    narrower = [width for width in reversed(widths) if width < grid.width * (1 - 1e-9)]
    wider = [width for width in widths if width > grid.width * (1 + 1e-9)]
    others = narrower if step < 0 else wider

    def can_be_read(width: float) -> bool:
        begin = max(min(grid.end, frame.last) - width * grid.n, frame.first)
        least = FINEST if begin < frame.thinned else 0.0
        return choose_width(width * grid.n, grid.n, interval, n_gpus, least=least) == width

    return next(filter(can_be_read, others), None)


def _zoom_all(scene: Scene) -> View:
    """The whole run, up to the newest sample."""
    return replace(scene.view, span=None, end=None, speed=0.0)


def _step(columns: int) -> Move:
    def move(scene: Scene) -> View:
        view, grid = scene.view, scene.frame.grid
        span = view.span if view.span is not None else grid.n * grid.width
        if view.span is None:  # the whole run is in sight: step the cursor through it
            return with_cursor(scene, columns)
        end = (view.end if view.end is not None else grid.end) + columns * grid.width
        return replace(view, span=span, end=inside(scene, end, span), speed=0.0)

    return move


def go_to(scene: Scene, text: str) -> View:
    """Look at a time (gssr.model.window.parse_time). Raises ValueError, with a sentence, when the text is none."""
    frame, view = scene.frame, scene.view
    time = min(max(parse_time(text, frame.first, frame.last), frame.first), frame.last)
    if view.span is None:
        return replace(view, cursor=time)
    return replace(view, cursor=time, end=inside(scene, time + view.span / 2, view.span), speed=0.0)


# What is shown


def _metric(step: int) -> Move:
    def move(scene: Scene) -> View:
        names = measured(scene)
        if not names:
            return scene.view
        shown = scene.view.metric if scene.view.metric in names else scene.frame.grid.metric
        at = names.index(shown) if shown in names else -step
        return replace(scene.view, metric=names[(at + step) % len(names)])

    return move


def measured(scene: Scene) -> list[str]:
    """The metrics that have samples, in the catalogue's order."""
    if scene.frame.part is not None:
        return list(scene.frame.whole.names)
    counts = dict(zip(scene.frame.whole.names, scene.frame.whole.n.sum(axis=1).tolist(), strict=True))
    return [name for name in METRICS if counts.get(name)]


def _sort(step: int) -> Move:
    def move(scene: Scene) -> View:
        if scene.view.screen == "calls":
            return replace(scene.view, column=scene.view.column + step, row=0, top=0)
        at = (SORTS.index(scene.view.sort) + step) % len(SORTS)
        return replace(scene.view, sort=SORTS[at], top=0)

    return move


def _density(scene: Scene) -> View:
    """Another way to show many; on Time, of a trace, another level, of which nothing is selected yet."""
    view, part = scene.view, scene.frame.part
    if view.screen == "time" and part is not None:
        names = list(part.levels)
        level = names[(names.index(part.level.name) + 1) % len(names)]
        return replace(view, level=level, opened=False, selection=(), selected="", gpu=-1, row=0, top=0, trail=())
    return replace(view, density=view.density + 1, row=0 if view.screen == "calls" else view.row, top=0)


MOVES: dict[str, Move] = {
    **{f"screen_{screen.name}": _screen(screen.name) for screen in SCREENS},
    "next_screen": _neighbour(1),
    "previous_screen": _neighbour(-1),
    "enter": _enter,
    "back": _back,
    "up": _cursor(0, -1),
    "down": _cursor(0, 1),
    "left": _cursor(-1, 0),
    "right": _cursor(1, 0),
    "page_up": _cursor(0, -PAGE),
    "page_down": _cursor(0, PAGE),
    "first": _cursor(0, -PAGE * PAGE),
    "last": _cursor(0, PAGE * PAGE),
    "next_outlier": _outlier(1),
    "previous_outlier": _outlier(-1),
    "next_found": find(1),
    "previous_found": find(-1),
    "cause": cause,
    "pause": _pause,
    "play": _play,
    "zoom_in": _zoom(-1),
    "zoom_out": _zoom(1),
    "zoom_all": _zoom_all,
    "step_back": _step(-1),
    "step_forward": _step(1),
    "leap_back": _step(-LEAP),
    "leap_forward": _step(LEAP),
    "next_metric": _metric(1),
    "previous_metric": _metric(-1),
    "next_sort": _sort(1),
    "previous_sort": _sort(-1),
    "reverse": lambda scene: replace(scene.view, reverse=not scene.view.reverse, top=0),
    "density": _density,
    "group": lambda scene: replace(scene.view, grouped=not scene.view.grouped, row=0, top=0),
    "events": _overlay("events"),
    "help": _overlay("help"),
    "output": lambda scene: replace(scene.view, output=not scene.view.output),
    "align": lambda scene: replace(scene.view, align="activity" if scene.view.align == "start" else "start"),
}
"""By action; ``app`` does the others."""
