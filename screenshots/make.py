"""Draws the pictures of the live screen from recordings that it makes itself: ``python screenshots/make.py [DIR]``.

Nothing is drawn by hand: each picture is what the screen shows after the keys listed here.
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from gssr.model.watch import Watch
from gssr.render.glyphs import UTF8
from gssr.render.roles import Row
from gssr.tui import shell
from gssr.tui.moves import MOVES
from gssr.tui.picture import to_png, to_svg
from gssr.tui.view import Scene, View

ROOT = Path(__file__).resolve().parents[1]
SIZES = ((80, 24), (160, 48))


class Picture(NamedTuple):
    """A picture: its name, the planted recordings it is drawn from (the second to compare with), the actions that lead to
    it."""

    name: str
    recordings: tuple[str, ...]
    actions: tuple[str, ...]


PICTURES = (
    Picture("1-job", ("checkpoint",), ()),
    Picture("2-gpus", ("straggler",), ("screen_gpus",)),
    Picture("3-map", ("slow_node",), ("screen_map", "next_outlier")),
    Picture("4-time", ("io_dip",), ("screen_time", *["left"] * 20)),
    Picture("5-balance", ("rotating",), ("screen_balance",)),
    Picture("6-why", ("slow_node",), ("screen_map", "next_outlier", "enter", "screen_why")),
    Picture("7-compare", ("after", "before"), ("screen_compare",)),
)


def after(actions: tuple[str, ...], watches: list[Watch], width: int, height: int) -> list[Row]:
    """The rows on screen after these actions."""
    view = View()
    scene = _scene(view, watches, width, height)
    for action in actions:
        inner = scene.sized(*shell.body_size(width, height))
        view = MOVES[action](inner)
        scene = _scene(view, watches, width, height)
    return shell.draw(scene)


def _scene(view: View, watches: list[Watch], width: int, height: int) -> Scene:
    query = view.query(shell.columns(view, width, height))
    frames = [watch.look(query) for watch in watches]
    return Scene(frames[0], frames[1] if len(frames) > 1 else None, view, width, height, UTF8)


def main(folder: Path) -> None:
    """Write every picture in every size, as PNG and as SVG."""
    sys.path.insert(0, str(ROOT / "tests" / "tui"))
    import planted

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        planted.write_all(Path(made))
        for picture in PICTURES:
            for width, height in SIZES:
                watches = [Watch(f"{made}/{name}.sql") for name in picture.recordings]
                rows = after(picture.actions, watches, width, height)
                stem = folder / f"{picture.name}-{width}x{height}"
                to_png(rows, width, f"{stem}.png")
                Path(f"{stem}.svg").write_text(to_svg(rows, width), encoding="utf-8")
                print(stem)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
