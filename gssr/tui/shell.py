"""What surrounds every screen: the header, the footer, and what lies over the screen.

The last row: the screens by number, and the keys that matter here.

What lies over a screen until Esc closes it: the help, made from the table of actions, and the list of events.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from time import localtime, strftime
from typing import NamedTuple

import numpy as np

from gssr.makers import BOTH, maker_of, speaking_of
from gssr.model.cached import once
from gssr.model.live.frame import Frame, Query
from gssr.model.verdicts.table import Table
from gssr.render import clock
from gssr.render.cells import cell_width, clean, clip, fit, flow, pad, wrap
from gssr.render.clock import duration
from gssr.render.glyphs import drawable
from gssr.render.roles import Role, Row, Span, text_of
from gssr.render.scale import UNKNOWN, count, fixed, metric_of, pane_height, quantity, unit_of
from gssr.store.format.rank_ends import RankEnd, place_of
from gssr.tui.actions import BY_NAME as ACTION
from gssr.tui.actions import footer_of, offered, shown_keys
from gssr.tui.axis import age_text, event_text, is_growing, lasting, shown_metrics, told, window_text
from gssr.tui.order import only_of
from gssr.tui.output import output_pane
from gssr.tui.panels import beside, clicked, main_width, panels
from gssr.tui.screens import BY_NAME, SCREENS, screens_of
from gssr.tui.screens import time as timeline
from gssr.tui.screens.why import headlines
from gssr.tui.view import Scene, ScreenName, View

_FULL_TITLES = 100
_LONG, _SHORT = 20, 4
"""Letters of a title on terminals of at least _FULL_TITLES columns, and on smaller ones."""
HEADED: set[ScreenName] = {"gpus", "map", "time"}
"""Screens that begin with the worst of what the rules say, on terminals of at least so many rows."""
_LEAST_HEADED = 20
JUDGED = {"job", "why", "balance", *HEADED}
"""Screens that show what the rules say."""
_ALWAYS = ("help", "quit")
"""At the right edge of every footer."""


class Piece(NamedTuple):
    """A piece of the footer, and the action that a click on it does ("" for none)."""

    text: str
    role: Role
    action: str


def footer(scene: Scene) -> Row:
    """As many keys as fit; help and quit always."""
    return clip(tuple(Span(piece.text, piece.role) for piece in _pieces(scene)), scene.width)


def footer_action(scene: Scene, x: int) -> str:
    """The action that the footer names at this cell: a screen, or a key's; "" for none."""
    at = 0
    for piece in _pieces(scene):
        at += len(piece.text)
        if x < at:
            return piece.action
    return ""


def _pieces(scene: Scene) -> list[Piece]:
    width = scene.width
    end = [Piece(f"  {ACTION[name].label}", "plain", name) for name in _ALWAYS]
    spare = width - sum(len(piece.text) for piece in end)
    pieces = _digits(scene, _LONG if width >= _FULL_TITLES else _SHORT)
    if sum(len(piece.text) for piece in pieces) > spare:
        pieces = _digits(scene, 0)
    spare -= sum(len(piece.text) for piece in pieces)
    timed = len(screens_of(scene.frame)) > 1
    for action in footer_of(scene.view.screen, scene.frame.part is not None, scene.view.passing):
        if action.category == "Time" and not timed:
            continue
        text = f"  {action.label}"
        if action.name not in _ALWAYS and len(text) <= spare:
            pieces.append(Piece(text, "dim", action.name))
            spare -= len(text)
    if spare > 0:
        pieces.append(Piece(" " * spare, "plain", ""))
    return [*pieces, *end]


def _digits(scene: Scene, letters: int) -> list[Piece]:
    """The screens by number, each with so many letters of its title; all of them for the one looked at."""
    pieces = []
    for screen in screens_of(scene.frame):
        number = SCREENS.index(screen) + 1
        on = screen.name == scene.view.screen
        title = screen.title if on else screen.title[:letters]
        text = f"[{number}]{title} " if on else f"{number} {title} " if title else f"{number} "
        pieces.append(Piece(text, "title" if on else "dim", f"screen_{screen.name}"))
    return pieces


_HEAD = 2
"""Rows above the lines: a title and a blank."""
_KEYS = 12
_LEAST_COLUMN = 62


def overlay_rows(scene: Scene) -> list[Row]:
    """The rows of the view's overlay, from the line on to which it was scrolled."""
    helps = scene.view.overlay == "help"
    n, room = extent_of(scene)
    top = min(scene.view.scroll, max(n - room, 0))
    screen = BY_NAME[scene.view.screen]
    title = f"{screen.title}: {screen.question}" if helps else f"{len(scene.frame.events):,} events, newest first"
    more = f"{top + 1}-{min(top + room, n)} of {n}, down: more; " if n > room else ""
    head: Row = (Span(title, "title"), Span(f"  {more}Esc or q closes", "dim"))
    lines = (_help if helps else _events)(scene, range(top, min(top + room, n)))
    return [clip(row, scene.width) for row in (head, (), *lines)]


def extent_of(scene: Scene) -> tuple[int, int]:
    """How many lines the overlay has, and how many of them there is room for."""
    room = max(scene.height - _HEAD, 1)
    if scene.view.overlay == "help":
        return -(-len(_actions(scene)) // _columns(scene)), room
    return len(scene.frame.events), room


def _columns(scene: Scene) -> int:
    return max(scene.width // _LEAST_COLUMN, 1)


def _actions(scene: Scene) -> list[Row]:
    """All actions with their keys, by category, and what metrics are called, in lines as wide as a column."""
    lines: list[Row] = []
    room = max(scene.width // _columns(scene) - _KEYS - 2, 1)
    category = ""
    for action in offered(scene.frame.part is not None, scene.view.passing):
        if action.category != category:
            category = action.category
            lines.append((Span(category, "heading"),))
        said = wrap(action.help, room)
        lines.append((*pad((Span(f" {shown_keys(action)}", "value"),), _KEYS + 1), *said[0]))
        lines += [(Span(" " * (_KEYS + 1)), *row) for row in said[1:]]
    lines.append((Span("Metrics", "heading"),))
    for metric in map(metric_of, shown_metrics(scene.frame)):
        unit = unit_of(metric).name
        lines.append(
            (*pad((Span(f" {metric.short}", "value"),), _KEYS + 1), Span(f"{metric.label}, {unit}".rstrip(", ")))
        )
    return lines


def _help(scene: Scene, shown: range) -> list[Row]:
    """In columns where there is room."""
    lines, n_columns = _actions(scene), _columns(scene)
    per_column = extent_of(scene)[0]
    size = scene.width // n_columns
    rows: list[Row] = []
    for line in shown:
        row: Row = ()
        for index in range(line, n_columns * per_column, per_column):
            row = (*row, *pad(lines[index] if index < len(lines) else (), size))
        rows.append(row)
    return rows


def _events(scene: Scene, shown: range) -> list[Row]:
    frame = scene.frame
    return [
        (Span(f"{event_text(frame, event.time):>9}  ", "dim"), Span(told(frame, event)))
        for event in frame.events[::-1][shown.start : shown.stop]
    ]


HEADER, FOOTER = 1, 1
LEAST_WIDTH, LEAST_HEIGHT = 40, 10
"""A smaller terminal shows one line."""

_STATES: dict[str, tuple[str, Role]] = {
    "waiting": (". waiting", "dim"),
    "live": ("* live", "good"),
    "stalled": ("o stalled", "outlier"),
    "lost": ("x lost", "bad"),
    "ended": ("ended", "dim"),
}


def body_size(view: View, width: int, height: int) -> tuple[int, int]:
    """Width and height of what is left for the screen looked at."""
    return main_width(view, width, height), _body_height(view, height)


def _body_height(view: View, height: int) -> int:
    return max(height - _above(view, height) - FOOTER - _pane(view, height), 0)


def _above(view: View, height: int) -> int:
    """Rows above the screen: the header, and what the rules say where the screen itself does not."""
    return HEADER + (view.screen in HEADED and height >= _LEAST_HEADED and not view.overlay)


def _pane(view: View, height: int) -> int:
    """Rows of what the workload prints."""
    return pane_height(height) if view.output and not view.overlay else 0


def query(view: View, width: int, height: int, rules: Table | None = None) -> Query:
    """What this view needs to know of the recording on a terminal of this size. ``rules``: what it is judged by, where that
    is shown; what is played is gone before it is judged."""
    inner = body_size(view, width, height)
    rows = timeline.rows(*inner) if view.screen == "time" else 0
    shown = {view.screen, *(panel.name for panel in panels(view, width, inner[1], inner[0]))}
    asked = view.query(max(BY_NAME[view.screen].columns(view, *inner), 1), rows)
    return replace(asked, causes=rules if shown & JUDGED and not view.speed else None, only=only_of(view.filter))


def draw(scene: Scene, message: str = "") -> list[Row]:
    """Exactly ``scene.height`` rows of exactly ``scene.width`` cells. ``message`` replaces the footer for once."""
    frames = [frame.of_gpus or frame for frame in (scene.frame, scene.other) if frame is not None]
    makers = {_maker_of(frame.gpus) for frame in frames}
    with speaking_of(makers.pop() if len(makers) == 1 else BOTH):
        return _draw(scene, message)


_maker_of = once(maker_of)


def _draw(scene: Scene, message: str) -> list[Row]:
    width, height = scene.width, scene.height
    said: Row = (Span(fit(message, width, scene.glyphs.ellipsis), "outlier"),) if message else ()
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        rows = [_one_line(scene), *[()] * (height - 2), *([said] if height > 1 else [])]
        return [pad(drawable(row, scene.glyphs), width) for row in rows]
    pane = _pane(scene.view, height)
    headed = _above(scene.view, height) > HEADER
    above: list[Row] = ([()] if _over_the_screen(scene) else headlines(scene, 1, " ")) if headed else []
    rows = [header(scene), *above, *_body(scene.sized(width, _body_height(scene.view, height)), height)]
    rows += [()] * (height - FOOTER - pane - len(rows))
    rows += output_pane(scene.output, width, pane, scene.glyphs)
    rows.append(said or footer(scene))
    return [pad(drawable(row, scene.glyphs), width) for row in rows[:height]]


def click(scene: Scene, x: int, y: int) -> View | None:
    """What a click there means for the view; None for nothing. The footer is apart (``footer_action``)."""
    body = scene.sized(scene.width, _body_height(scene.view, scene.height))
    main = body.sized(*body_size(scene.view, scene.width, scene.height))
    y -= _above(scene.view, scene.height)
    if not 0 <= y < body.height or _over_the_screen(scene):
        return None
    for panel in panels(scene.view, scene.width, body.height, main.width):
        if panel.x <= x < panel.x + panel.width and panel.y <= y < panel.y + panel.height:
            return clicked(body, panel, x, y)
    return BY_NAME[scene.view.screen].click(main, x, y) if x < main.width else None


def _over_the_screen(scene: Scene) -> bool:
    """Whether something else is shown than the screen."""
    frame = scene.frame
    return bool(scene.view.overlay) or frame.state == "waiting" or not frame.n_gpus or not frame.n_rows


def _body(scene: Scene, height: int) -> list[Row]:
    """All between the header and the pane, on a terminal of ``height`` rows."""
    view, frame = scene.view, scene.frame
    if view.overlay:
        return overlay_rows(scene)[: scene.height]
    if _over_the_screen(scene):
        return _nothing(frame, scene.width)[: scene.height]
    problem: list[Row] = []
    if frame.problem and scene.height > 1:
        said = frame.problem.replace(
            frame.path, os.path.basename(frame.path.rstrip("/"))
        )  # what is wrong must fit, too
        problem = [(Span(fit(said, scene.width, scene.glyphs.ellipsis), "bad"),)]
        scene = scene.sized(scene.width, scene.height - 1)
    main = scene.sized(main_width(view, scene.width, height), scene.height)
    rows = BY_NAME[view.screen].draw(main)[: main.height]
    found = panels(view, scene.width, scene.height, main.width)
    if found:
        rows = beside(scene, rows, main.width, found)
    return [*rows, *[()] * (scene.height - len(rows)), *problem] if problem else rows


def _one_line(scene: Scene) -> Row:
    """What matters most, in a terminal too small for anything else."""
    frame = scene.frame
    if not frame.n_rows:
        return _nothing(frame, scene.width + 2)[1][1:]
    score = frame.whole.score()
    pieces: list[Row] = [(Span(f"score {fixed(score, 3, UNKNOWN)}", "value"),), (state_text(frame),)]
    means = frame.window.per_gpu(frame.grid.metric)
    if np.isfinite(means).any():
        low = int(np.nanargmin(means))
        text = quantity(float(means[low]), metric_of(frame.grid.metric))
        pieces.append((Span(f"lowest {frame.place(low)} {text}"),))
    return flow(pieces, scene.width, scene.glyphs.ellipsis)[0]


def _nothing(frame: Frame, width: int) -> list[Row]:
    if frame.problem:
        why = frame.problem
    elif frame.run is None:
        why = f"{'waiting for' if frame.refined else 'reading'} {frame.path}"
    elif not frame.n_gpus:
        why = "no GPU was recorded"
    else:
        why = "no sample yet"
    return [(), clip((Span("  "), Span(why, "title")), width), clip((Span("  q leaves", "dim"),), width)]


def state_text(frame: Frame) -> Span:
    """``* live``, ``o stalled 12 s``, ``ended (exit 7)``."""
    if frame.part is not None:
        return Span("profile" if frame.part.trace.profile is not None else "trace", "dim")
    text, role = _STATES[frame.state]
    if frame.state == "stalled":
        text += f" {frame.silent:.0f} s"
    elif frame.state == "ended" and frame.run is not None and frame.run.exit_code is not None:
        text += f" (exit {frame.run.exit_code})"
        role = "dim" if frame.run.exit_code == 0 else "bad"
    return Span(text, role)


def _stopped(ranks: Sequence[RankEnd]) -> str:
    """Name the first rank that was lost or failed, with its node and the time, and count the others."""
    first = ranks[0]
    at = "" if first.time is None else f" {strftime('%H:%M:%S', localtime(first.time))}"
    more = f", {len(ranks) - 1} more" if len(ranks) > 1 else ""
    return f"{clean(place_of(first))} {first.how}{at}{more}"


def header(scene: Scene) -> Row:
    """Which run this is, how it stands, and where in time the view is."""
    frame, view = scene.frame, scene.view
    run = frame.run
    names = [run.shown_job, run.label] if run else []
    name = " ".join(part for part in names if part) or frame.path.rsplit("/", 1)[-1]
    pieces: list[Row] = [(state_text(frame),)]
    if run is not None and frame.ranks_missing:
        pieces.append((Span(f"lacks {len(frame.ranks_missing):,} of {run.world_size:,} ranks", "bad"),))
    if run is not None and frame.ranks_stopped and (run.world_size or 1) > 1:
        pieces.append((Span(_stopped(frame.ranks_stopped), "bad"),))
    if frame.n_rows:
        elapsed = (frame.now if frame.following else frame.last) - frame.first
        since = frame.first if frame.since is None else frame.since
        at = f" at {clock.moment(frame.first - since, frame.last - since)}" if frame.since is not None else ""
        pieces += [(Span(f"{lasting(frame, elapsed)}{at}"),)] if elapsed or frame.part is None else []
        if frame.is_live:
            pieces.append((Span(window_text(frame) if view.span is not None else "whole run", "title"),))
    if view.speed:
        pieces.append((Span(f"playing {view.speed:g}x", "outlier"),))
    elif view.end is not None and frame.part is None and (is_growing(frame) or round(frame.last - view.end)):
        pieces.append((Span(f"paused {duration(max(frame.last - view.end, 0.0))} behind", "outlier"),))
    clocks = list(dict.fromkeys(trace.clock_text for trace in frame.traced))
    if clocks and frame.part is None:
        pieces.append((Span("traced (v)" if view.screen == "time" else "traced (4 v)", "value"),))
    elif clocks:
        pieces.append((Span(f"clock: {clocks[0]}" if len(clocks) == 1 else "clocks differ (e)", "value"),))
    if frame.part is not None:
        pieces += [
            (Span(f"{count(len(level), level.noun)}"),)
            for level in frame.part.levels.values()
            if level.name in ("gpus", "streams", "threads")
        ]
        pieces += [(Span(source, "dim"),) for source in dict.fromkeys(each.format for each in frame.part.trace.sources)]
    if run is not None:
        pieces.append((Span(f"{count(frame.gpus_of_run, 'GPU')} on {count(len(frame.nodes), 'node')}"),))
    if frame.sampling_seconds:
        pieces.append((Span(f"{frame.sampling_seconds * 1000:g} ms"),))
    if run is not None:
        gaps = int(frame.n_gaps.sum())
        pieces.append((Span(f"gaps {gaps:,}", "gap" if gaps else "plain"),))
    if frame.reread is not None:
        pieces.append((Span(f"files {age_text(frame.reread)} old", "dim"),))
    if frame.n_rows and max(frame.grid.start, frame.first) < frame.thinned:
        pieces.append((Span("thinned to 10 s", "gap"),))
    if not frame.refined:
        pieces.append((Span("refining", "dim"),))
    every = screens_of(frame)
    number = next((index for index, screen in enumerate(every, 1) if screen.name == view.screen), 0)
    right = Span(f"{BY_NAME[view.screen].title} {number}/{len(every)}", "title")
    room = scene.width - cell_width(right.text) - 1
    title = fit(name, max(min(room // 3, 40), 6), scene.glyphs.ellipsis)
    line: Row = (Span("GSSR ", "title"), Span(title, "title"))
    for piece in pieces:
        if cell_width(text_of(line)) + 2 + cell_width(text_of(piece)) <= room:
            line = (*line, Span("  "), *piece)
    return (*pad(line, max(room, 0)), Span(" "), right)
