"""Not drawn yet."""

from gssr.render.roles import Row, Span
from gssr.tui.view import Scene, View


def columns(view: View, width: int, height: int) -> int:
    """Columns of time wanted."""
    return max(width - 8, 1)


def rows(width: int, height: int) -> int:
    """Lines of the timeline that fit."""
    return max(height - 10, 1)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    return [(Span(scene.view.screen),)]


def move(scene: Scene, dx: int, dy: int) -> View:
    """The view after the cursor moved."""
    return scene.view


def enter(scene: Scene) -> View | None:
    """One level down."""
    return None


def click(scene: Scene, x: int, y: int) -> View | None:
    """What is under the mouse."""
    return None
