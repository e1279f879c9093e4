"""The help that lies over a screen, made from the table of actions."""

from gssr.render.cells import clip, pad
from gssr.render.roles import Row, Span
from gssr.tui.actions import ACTIONS, shown_keys
from gssr.tui.screens import BY_NAME
from gssr.tui.view import Scene

_KEYS = 12
_LEAST_COLUMN = 62


def help_rows(scene: Scene) -> list[Row]:
    """All actions with their keys, by category; in columns where there is room."""
    screen = BY_NAME[scene.view.screen]
    lines: list[Row] = []
    category = ""
    for action in ACTIONS:
        if action.category != category:
            category = action.category
            lines.append((Span(category, "heading"),))
        lines.append((*pad((Span(f" {shown_keys(action)}", "value"),), _KEYS), Span(f" {action.help}")))
    n_columns = max(scene.width // _LEAST_COLUMN, 1)
    per_column = -(-len(lines) // n_columns)
    room = max(scene.height - 2, 1)
    top = min(scene.view.top, max(per_column - room, 0))
    size = scene.width // n_columns
    rows: list[Row] = [clip((Span(f"{screen.title}: {screen.question}", "title"),), scene.width), ()]
    for line in range(top, min(top + room, per_column)):
        row: Row = ()
        for column in range(n_columns):
            index = column * per_column + line
            row = (*row, *pad(lines[index] if index < len(lines) else (), size))
        rows.append(clip(row, scene.width))
    return rows
