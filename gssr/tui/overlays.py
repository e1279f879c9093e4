"""What lies over a screen until Esc closes it: the help, made from the table of actions, and the list of events."""

from gssr.render.cells import clean, clip, pad, wrap
from gssr.render.events import told
from gssr.render.roles import Row, Span
from gssr.tui.actions import ACTIONS, shown_keys
from gssr.tui.axis import at_text
from gssr.tui.screens import BY_NAME
from gssr.tui.view import Scene

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
    head: Row = (Span(title, "title"), Span(f"  {more}Esc closes", "dim"))
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
    """All actions with their keys, by category, in lines as wide as a column."""
    lines: list[Row] = []
    room = max(scene.width // _columns(scene) - _KEYS - 2, 1)
    category = ""
    for action in ACTIONS:
        if action.category != category:
            category = action.category
            lines.append((Span(category, "heading"),))
        said = wrap(action.help, room)
        lines.append((*pad((Span(f" {shown_keys(action)}", "value"),), _KEYS + 1), *said[0]))
        lines += [(Span(" " * (_KEYS + 1)), *row) for row in said[1:]]
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
    rows: list[Row] = []
    for event in frame.events[::-1][shown.start : shown.stop]:
        where = "" if event.node is None else f"{event.node}: "
        rows.append((Span(f"{at_text(frame, event.time):>9}  ", "dim"), Span(clean(f"{where}{told(event)}"))))
    return rows
