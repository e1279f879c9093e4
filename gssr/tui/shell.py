"""What surrounds every screen: the header, the footer, and what lies over the screen."""

from gssr.model.frame import Frame, Query
from gssr.render.cells import cell_width, clip, fit, pad
from gssr.render.clock import duration
from gssr.render.pane import pane_height
from gssr.render.roles import Role, Row, Span, text_of
from gssr.render.scale import count
from gssr.tui.actions import footer_of
from gssr.tui.help import help_rows
from gssr.tui.output import output_pane
from gssr.tui.screens import BY_NAME, SCREENS
from gssr.tui.screens import time as timeline
from gssr.tui.screens.events import event_rows
from gssr.tui.view import Scene, View

HEADER, FOOTER = 1, 1

_STATES: dict[str, tuple[str, Role]] = {
    "waiting": ("… waiting", "dim"),
    "live": ("* live", "good"),
    "stalled": ("o stalled", "outlier"),
    "lost": ("x lost", "bad"),
    "ended": ("x ended", "dim"),
}


def body_size(view: View, width: int, height: int) -> tuple[int, int]:
    """Width and height of what is left for the screen."""
    return width, max(height - HEADER - FOOTER - _pane(view, height), 0)


def _pane(view: View, height: int) -> int:
    """Rows of what the workload prints."""
    return pane_height(height) if view.output and not view.overlay else 0


def query(view: View, width: int, height: int) -> Query:
    """What this view needs to know of the recording on a terminal of this size."""
    inner = body_size(view, width, height)
    rows = timeline.rows(*inner) if view.screen == "time" else 0
    return view.query(max(BY_NAME[view.screen].columns(view, *inner), 1), rows)


def draw(scene: Scene, message: str = "") -> list[Row]:
    """Exactly ``scene.height`` rows of exactly ``scene.width`` cells. ``message`` replaces the footer for once."""
    width, height = scene.width, scene.height
    inner = scene.sized(*body_size(scene.view, width, height))
    pane = _pane(scene.view, height)
    rows = [header(scene)]
    if inner.height > 0:
        rows += _body(inner)[: inner.height]
    rows += [()] * (height - FOOTER - pane - len(rows))
    rows += output_pane(scene.output, width, pane, scene.glyphs)
    rows.append((Span(fit(message, width, scene.glyphs.ellipsis), "outlier"),) if message else footer(scene))
    return [pad(row, width) for row in rows[:height]]


def _body(scene: Scene) -> list[Row]:
    if scene.view.overlay == "help":
        return help_rows(scene)
    if scene.view.overlay == "events":
        return event_rows(scene)
    frame = scene.frame
    if frame.state == "waiting" or not frame.n_gpus or not frame.n_rows:
        return _nothing(frame, scene.width)
    rows = BY_NAME[scene.view.screen].draw(scene)
    if frame.problem:
        rows = [*rows[: scene.height - 1], *[()] * (scene.height - 1 - len(rows))]
        rows.append((Span(fit(frame.problem, scene.width, scene.glyphs.ellipsis), "bad"),))
    return rows


def _nothing(frame: Frame, width: int) -> list[Row]:
    if frame.problem:
        why = frame.problem
    elif frame.run is None:
        why = f"waiting for {frame.path}"
    elif not frame.n_gpus:
        why = "no GPU was recorded"
    else:
        why = "no sample yet"
    return [(), clip((Span("  "), Span(why, "title")), width), clip((Span("  q leaves", "dim"),), width)]


def state_text(frame: Frame) -> Span:
    """``* live``, ``o stalled 12 s``, ``x ended (exit 7)``."""
    text, role = _STATES[frame.state]
    if frame.state == "stalled":
        text += f" {frame.silent:.0f} s"
    elif frame.state == "ended" and frame.run is not None and frame.run.exit_code is not None:
        text += f" (exit {frame.run.exit_code})"
        role = "dim" if frame.run.exit_code == 0 else "bad"
    return Span(text, role)


def header(scene: Scene) -> Row:
    """Which run this is, how it stands, and where in time the view is."""
    frame, view = scene.frame, scene.view
    run = frame.run
    names = [run.job_id, run.label] if run else []
    name = " ".join(part for part in names if part) or frame.path.rsplit("/", 1)[-1]
    pieces: list[Row] = [(state_text(frame),)]
    if frame.n_rows:
        elapsed = (frame.now if frame.following else frame.last) - frame.first
        pieces.append((Span(duration(elapsed)),))
    if view.speed:
        pieces.append((Span(f"playing ×{view.speed:g}", "outlier"),))
    elif view.end is not None:
        pieces.append((Span(f"paused {duration(max(frame.last - view.end, 0.0))} behind", "outlier"),))
    pieces.append((Span(f"{count(frame.n_gpus, 'GPU')} on {count(len(frame.nodes), 'node')}"),))
    if frame.sampling_seconds:
        pieces.append((Span(f"{frame.sampling_seconds * 1000:g} ms"),))
    gaps = int(frame.n_gaps.sum())
    pieces.append((Span(f"gaps {gaps:,}", "gap" if gaps else "plain"),))
    if not frame.refined:
        pieces.append((Span("refining…", "dim"),))
    number = next(index for index, screen in enumerate(SCREENS, 1) if screen.name == view.screen)
    right = Span(f"{BY_NAME[view.screen].title} {number}/{len(SCREENS)}", "title")
    room = scene.width - cell_width(right.text) - 1
    title = fit(name, max(min(room // 3, 40), 6), scene.glyphs.ellipsis)
    line: Row = (Span("GSSR ", "title"), Span(title, "title"))
    for piece in pieces:
        if cell_width(text_of(line)) + 2 + cell_width(text_of(piece)) <= room:
            line = (*line, Span("  "), *piece)
    return (*pad(line, max(room, 0)), Span(" "), right)


def footer(scene: Scene) -> Row:
    """The screens by number, then the keys that matter here, as many as fit."""
    view = scene.view
    digits: list[Span] = []
    for number, screen in enumerate(SCREENS, 1):
        on = screen.name == view.screen
        title = screen.title if scene.width >= 100 or on else screen.title[:4]
        digits.append(Span(f"[{number}]{title} " if on else f"{number} {title} ", "title" if on else "dim"))
    line: Row = tuple(digits)
    for action in footer_of(view.screen):
        if cell_width(text_of(line)) + len(action.label) + 3 <= scene.width:
            line = (*line, Span("  " + action.label, "dim"))
    return clip(line, scene.width)


def footer_action(scene: Scene, x: int) -> str:
    """The action that the footer names at this cell: a screen, or a key's; "" for none."""
    at = 0
    for number, screen in enumerate(SCREENS, 1):
        on = screen.name == scene.view.screen
        title = screen.title if scene.width >= 100 or on else screen.title[:4]
        at += len(f"[{number}]{title} " if on else f"{number} {title} ")
        if x < at:
            return f"screen_{screen.name}"
    return ""
