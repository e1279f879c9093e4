"""Screens side by side: on a large terminal the one looked at is joined by others, of the same GPUs, time and metric."""

from dataclasses import replace
from typing import NamedTuple

from gssr.render.cells import clip, pad
from gssr.render.roles import Row, Span
from gssr.render.table import rule
from gssr.tui.screens import BY_NAME, SCREENS
from gssr.tui.view import Scene, ScreenName, View

LEAST_WIDTH, LEAST_HEIGHT = 160, 40
"""Of the terminal; a smaller one shows one screen."""
COMPANIONS: dict[ScreenName, tuple[ScreenName, ...]] = {
    "job": ("gpus", "balance"),
    "gpus": ("why", "map"),
    "map": ("gpus", "why"),
    "time": ("gpus", "balance"),
    "balance": ("gpus", "why"),
    "why": ("gpus", "map"),
    "compare": (),
    "calls": (),
}
"""What is shown beside each screen, what helps most first: only what says something that the screen does not."""
_MAIN = 0.6
"""The share of the width that the screen looked at has."""
_TWO_COLUMNS = 240
"""From so many columns on the companions stand in two columns."""
_LEAST_PANEL = 20
"""Rows of a companion, its title among them."""


class Panel(NamedTuple):
    """A box of the body: its place from the body's upper left corner, and its size, title included."""

    name: ScreenName
    x: int
    y: int
    width: int
    height: int


def main_width(view: View, width: int, height: int) -> int:
    """How wide the screen looked at is on a terminal of this size."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT or view.overlay or view.opened or not COMPANIONS[view.screen]:
        return width
    return round(width * (_MAIN if width < _TWO_COLUMNS else _MAIN * 0.8))


def panels(view: View, width: int, body_height: int, main: int) -> list[Panel]:
    """The companions beside a screen that is ``main`` cells wide, one column of them or two."""
    if main >= width:
        return []
    n_columns = 1 if width < _TWO_COLUMNS else 2
    per_column = max(body_height // _LEAST_PANEL, 1)
    names = COMPANIONS[view.screen][: n_columns * min(per_column, 3)]
    per_column = -(-len(names) // n_columns)
    found = []
    for column in range(n_columns):
        own = names[column * per_column : (column + 1) * per_column]
        begin = main + (width - main) * column // n_columns + 1
        end = main + (width - main) * (column + 1) // n_columns
        for y, name in enumerate(own):
            top = body_height * y // len(own)
            found.append(Panel(name, begin, top, end - begin, body_height * (y + 1) // len(own) - top))
    return found


def companion(scene: Scene, panel: Panel) -> Scene:
    """What a companion is drawn from: it has no cursor line of its own."""
    view = replace(scene.view, screen=panel.name, row=0, top=0, density=0)
    return scene._replace(view=view, width=panel.width, height=panel.height - 1)


def beside(scene: Scene, main: list[Row], width: int, found: list[Panel]) -> list[Row]:
    """The screen's rows ``main``, ``width`` cells wide, and its companions to their right; ``scene`` is the whole body."""
    line = "|" if scene.glyphs.levels.isascii() else "│"
    rows = [pad(row, width) for row in [*main, *[()] * (scene.height - len(main))][: scene.height]]
    for panel in found:
        own = companion(scene, panel)
        screen = BY_NAME[panel.name]
        number = 1 + [each.name for each in SCREENS].index(panel.name)
        title = rule(f"{number} {screen.title}", panel.width, scene.glyphs, (Span(screen.question, "dim"),))
        drawn = [title, *screen.draw(own)][: panel.height]
        drawn += [()] * (panel.height - len(drawn))
        for y, row in enumerate(drawn):
            at = panel.y + y
            rows[at] = (*pad(rows[at], panel.x - 1), Span(line, "dim"), *clip(row, panel.width))
    return rows


def clicked(scene: Scene, panel: Panel, x: int, y: int) -> View | None:
    """What a click in a companion means for the screen beside it: what it chose, or where it leads."""
    own = companion(scene, panel)
    view = BY_NAME[panel.name].click(own, x - panel.x, y - panel.y - 1)
    if view is None:
        return None
    if len(view.trail) > len(scene.view.trail):
        return replace(view, trail=(*scene.view.trail, scene.view))
    return replace(view, screen=scene.view.screen, row=scene.view.row, top=scene.view.top, density=scene.view.density)
