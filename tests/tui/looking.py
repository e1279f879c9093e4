"""Scenes of recordings, as the program would make them, and what holds for every drawing of a screen."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache

from gssr.tui.screens import BY_NAME

from gssr.model.compare.alignment import aligned
from gssr.model.live.frame import Frame, Query
from gssr.model.live.watch import Watch
from gssr.model.verdicts.rules import TABLE
from gssr.render.cells import cell_width, clip
from gssr.render.glyphs import glyphs
from gssr.render.roles import Row, text_of
from gssr.tui import shell
from gssr.tui.judge import answer, asked_of
from gssr.tui.view import Scene, View

SIZES = ((20, 3), (40, 8), (59, 12), (72, 14), (80, 22), (119, 28), (160, 46), (300, 98))


@lru_cache(maxsize=64)
def frame_of(path: str, query: Query) -> Frame:
    with closing(Watch(path)) as watch:
        frame = watch.look(query)
    asked = asked_of(frame)
    return frame if asked is None else replace(frame, judgement=answer(*asked))


def scene_of(path: str, view: View, width: int, height: int, other: str = "", ascii_only: bool = False) -> Scene:
    """The body of a screen, ``width`` × ``height`` cells; ``other``: the path of the recording it is compared with."""
    query = view.query(BY_NAME[view.screen].columns(view, width, height))
    query = replace(query, causes=TABLE if view.screen in shell.JUDGED else None)
    if not other:
        return Scene(frame_of(path, query), None, view, width, height, glyphs(ascii_only))
    one = two = None
    for _ in range(3):
        queries = aligned(query, view.align, one, two)
        one, two = frame_of(path, queries[0]), frame_of(other, queries[1])
    return Scene(one, two, view, width, height, glyphs(ascii_only), n_recordings=2)


def terminal_of(path: str, view: View, width: int = 80, height: int = 24) -> Scene:
    """A terminal of ``width`` × ``height`` cells: the screen with what surrounds it."""
    return Scene(frame_of(path, shell.query(view, width, height)), None, view, width, height, glyphs(False))


def drawn(path: str, view: View, width: int = 80, height: int = 24) -> list[str]:
    """The lines of the terminal."""
    return [text_of(row) for row in shell.draw(terminal_of(path, view, width, height))]


def text(scene: Scene) -> str:
    """What the screen draws."""
    return text_rows(BY_NAME[scene.view.screen].draw(scene), scene.width)


def text_rows(rows: Sequence[Row], width: int) -> str:
    """The rows as plain text."""
    return "\n".join(text_of(clip(row, width)).rstrip() for row in rows) + "\n"


def fits(scene: Scene) -> None:
    """Nothing outside the box, every character one cell wide, and of the terminal's set."""
    rows = BY_NAME[scene.view.screen].draw(scene)
    assert len(rows) <= scene.height
    for row in rows:
        line = text_of(row)
        assert cell_width(line) == len(line) <= scene.width, line
        if scene.glyphs.levels.isascii():
            assert line.isascii() and line.isprintable(), line
