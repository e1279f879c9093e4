"""Calls of a trace with messages: the matrix of a thousand ranks in a small terminal."""

import sys
from pathlib import Path

import pytest

from gssr.model.live.watch_trace import WatchTrace
from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8
from gssr.render.roles import text_of
from gssr.tui.screens import calls
from gssr.tui.view import Scene, View

sys.path.append(str(Path(__file__).parents[1] / "model" / "traces"))
from exchanging import exchanging

N = 1024


@pytest.fixture(scope="module")
def watch() -> WatchTrace:
    ring = [(rank, (rank + 1) % N, 10, 20, 10 ** (rank % 10)) for rank in range(N)]
    return WatchTrace("scorep", lambda: exchanging(N, ring))


def _scene(watch: WatchTrace, view: View, size: tuple[int, int] = (80, 24), ascii_only: bool = False) -> Scene:
    frame = watch.look(view.query(size[0], size[1]))
    return Scene(frame, None, view, *size, ASCII if ascii_only else UTF8)


def _views(watch: WatchTrace) -> dict[str, int]:
    """The views there are, by what their first line begins with."""
    found = {}
    for at in range(9):
        scene = _scene(watch, View(screen="calls", density=at))
        found.setdefault(text_of(calls.draw(scene)[0])[2:].split("  ")[0], at)
    return found


def test_every_view_that_has_something_is_there(watch: WatchTrace) -> None:
    assert list(_views(watch)) == [
        "ranges of the program", "call tree: time", "functions", "messages by rank: bytes", "messages by node: bytes",
        "collectives", "files",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (200, 60)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_matrix_fits_and_always_says_what_its_marks_mean(
    watch: WatchTrace, size: tuple[int, int], ascii_only: bool
) -> None:
    for measure in range(4):
        view = View(screen="calls", density=_views(watch)["messages by rank: bytes"], column=measure)
        rows = calls.draw(_scene(watch, view, size, ascii_only))
        text = "\n".join(map(text_of, rows))
        assert len(rows) == size[1] and all(cell_width(text_of(row)) <= size[0] for row in rows)
        assert "lines send, columns receive" in text and ("from " in text or size[1] == 10)
        assert not ascii_only or text.isascii()


def test_the_cursor_says_a_line_in_words(watch: WatchTrace) -> None:
    at = _views(watch)["messages by node: bytes"]
    scene = _scene(watch, View(screen="calls", density=at))
    down = calls.move(scene, 0, 1)
    assert down.row == 1
    text = "\n".join(text_of(row) for row in calls.draw(_scene(watch, down)))
    assert "\n> " in text and " sends " in text and "; most to " in text
    assert calls.enter(scene) is None and calls.click(scene, 5, 5) is None
