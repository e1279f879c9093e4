"""The last row: the screens by number, and the keys that matter here."""

from typing import NamedTuple

from gssr.render.cells import clip
from gssr.render.roles import Role, Row, Span
from gssr.tui.actions import BY_NAME as ACTION
from gssr.tui.actions import footer_of
from gssr.tui.screens import SCREENS
from gssr.tui.view import Scene

_FULL_TITLES = 100
_SHORT_TITLES = 60
_SHORT = 4
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
    pieces: list[Piece] = []
    for number, screen in enumerate(SCREENS, 1):
        on = screen.name == scene.view.screen
        title = screen.title if width >= _FULL_TITLES or on else screen.title[:_SHORT] if width >= _SHORT_TITLES else ""
        text = f"[{number}]{title} " if on else f"{number} {title} ".replace("  ", " ")
        pieces.append(Piece(text, "title" if on else "dim", f"screen_{screen.name}"))
    end = [Piece(f"  {ACTION[name].label}", "plain", name) for name in _ALWAYS]
    used = sum(len(piece.text) for piece in (*pieces, *end))
    for action in footer_of(scene.view.screen):
        text = f"  {action.label}"
        if action.name not in _ALWAYS and used + len(text) <= width:
            pieces.append(Piece(text, "dim", action.name))
            used += len(text)
    if used < width:
        pieces.append(Piece(" " * (width - used), "plain", ""))
    return [*pieces, *end]
