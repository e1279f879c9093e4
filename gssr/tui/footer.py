"""The last row: the screens by number, and the keys that matter here."""

from typing import NamedTuple

from gssr.render.cells import clip
from gssr.render.roles import Role, Row, Span
from gssr.tui.actions import BY_NAME as ACTION
from gssr.tui.actions import footer_of
from gssr.tui.screens import SCREENS
from gssr.tui.view import Scene

_FULL_TITLES = 100
_LONG, _SHORT = 20, 4
"""Letters of a title on terminals of at least _FULL_TITLES columns, and on smaller ones."""
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
    for action in footer_of(scene.view.screen):
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
    for number, screen in enumerate(SCREENS, 1):
        on = screen.name == scene.view.screen
        title = screen.title if on else screen.title[:letters]
        text = f"[{number}]{title} " if on else f"{number} {title} " if title else f"{number} "
        pieces.append(Piece(text, "title" if on else "dim", f"screen_{screen.name}"))
    return pieces
