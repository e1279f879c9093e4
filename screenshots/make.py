"""Draws the pictures of the live screen from runs that it makes itself: ``python screenshots/make.py [DIR [NAME...]]``.

Nothing is drawn by hand: each picture is what the screen shows after the keys listed here.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gssr.commands.tui import watches_of
from gssr.model.compare.alignment import aligned
from gssr.model.custom_metrics import custom
from gssr.model.live.watch_trace import Watched
from gssr.model.verdicts.rules import TABLE
from gssr.render.glyphs import UTF8
from gssr.render.roles import Row
from gssr.tui import shell
from gssr.tui.export import to_png, to_svg
from gssr.tui.judge import answer, asked_of
from gssr.tui.moves import MOVES, go_to
from gssr.tui.view import Scene, View

ROOT = Path(__file__).resolve().parents[1]
SIZES = ((80, 24), (160, 48))


class Picture(NamedTuple):
    """A picture: its name, the planted recordings it is drawn from (the second to compare with) or the trace, the actions
    that lead to it, with what is typed after their names."""

    name: str
    recordings: tuple[str, ...]
    actions: tuple[str, ...]


PICTURES = (
    Picture("1-job", ("checkpoint",), ()),
    Picture("2-gpus", ("straggler",), ("screen_gpus",)),
    Picture("3-map", ("slow_node",), ("screen_map", "next_outlier")),
    Picture("4-time", ("io_dip",), ("screen_time", "go_to 4:20")),
    Picture("5-balance", ("rotating",), ("screen_balance",)),
    Picture("6-why", ("slow_node",), ("screen_map", "next_outlier", "enter", "screen_why")),
    Picture("8-tree-profile", ("profile",), ("screen_calls", "down", "down", "down")),
    Picture("7-compare", ("before", "after"), ("screen_compare",)),
    *(
        Picture(f"{at}-{screen}-{name}", (name,), (f"screen_{screen}",))
        for name in ("kineto", "nsys")
        for at, screen in ((1, "job"), (4, "time"), (8, "calls"))
    ),
    Picture("4-opened-kineto", ("kineto",), ("screen_time", "go_to 0.025", "enter")),
    Picture("4-radar-kineto", ("ranks",), ("screen_time", "metric gemms=count(/gemm/)", "group", "group")),
    Picture("4-alike-ranks", ("ranks",), ("screen_time", "group")),
    Picture("4-filter-kineto", ("kineto",), ("screen_time", "filter name=nccl takes>100us")),
    Picture("6-why-kineto", ("kineto",), ("screen_time", "go_to 0.025", "enter", "screen_why")),
    Picture("7-compare-kineto", ("kineto", "loader"), ("screen_compare", "align")),
    Picture("8-messages-archive", ("archive",), ("screen_calls", *["density"] * 7)),
    Picture("8-collectives-archive", ("archive",), ("screen_calls", *["density"] * 9)),
    Picture("8-files-archive", ("archive",), ("screen_calls", *["density"] * 10)),
    Picture("4-time-joined", ("joined",), ("screen_time", "density")),
    Picture("6-why-joined", ("joined",), ("screen_time", "density", "screen_why")),
)


def after(actions: tuple[str, ...], watches: list[Watched], width: int, height: int) -> list[Row]:
    """The rows on screen after these actions."""
    view = View()
    scene = _scene(view, watches, width, height)
    for action in actions:
        inner = scene.sized(*shell.body_size(view, width, height))
        name, _, typed = action.partition(" ")
        if name == "go_to":
            view = go_to(inner, typed)
        elif name == "metric":
            view = replace(view, metric=custom(typed).metric)
        elif name == "filter":
            view = replace(view, filter=typed)
        else:
            view = MOVES[name](inner)
        scene = _scene(view, watches, width, height)
    return shell.draw(scene)


def _scene(view: View, watches: list[Watched], width: int, height: int) -> Scene:
    asked = shell.query(view, width, height, TABLE)
    frame, other = watches[0].look(asked), None
    if view.screen == "compare":
        for _ in range(3):  # how the two are aligned depends on both
            queries = aligned(asked, view.align, frame, other)
            frame, other = (watch.look(query) for watch, query in zip(watches, queries, strict=True))
    judged = asked_of(frame)
    frame = frame if judged is None else replace(frame, judgement=answer(*judged))
    return Scene(frame, other, view, width, height, UTF8, n_recordings=len(watches))


def main(folder: Path, wanted: Sequence[str] = ()) -> None:
    """Write every picture, or those ``wanted``, in every size, as PNG and as SVG."""
    sys.path[:0] = [str(ROOT / "tests" / "tui"), str(ROOT)]
    import planted

    from tests.fakes.joined import run
    from tests.fakes.scorep import otf2_archive, program
    from tests.fakes.traces import kineto, loop, nsys
    from tests.fakes.traces.cube import write_solver

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        planted.write_all(made)
        traces = {"nsys": made / "report.sqlite"}
        for called, ail, ranks in (("kineto", "communication", 2), ("loader", "loader", 2), ("ranks", "straggler", 24)):
            traces[called] = made / ("traces" if called == "kineto" else called)
            traces[called].mkdir()
            for content in loop.ail(ail, ranks=ranks).ranks:  # type: ignore[arg-type]
                kineto.write(traces[called] / f"rank{content.rank}.json.gz", content)
        nsys.write(traces["nsys"], loop.ail("loader", ranks=2).ranks)
        traces["profile"] = write_solver(made / "profile.cubex")
        (made / "archive").mkdir()
        traces["archive"] = otf2_archive.write(made / "archive", program.run(ranks=32))
        (made / "joined").mkdir()
        traces["joined"] = run.make(made / "joined", run.CASES["four ranks"]).recording
        attached = {"joined": [str(made / "joined" / "traces")]}
        for picture in PICTURES if not wanted else [each for each in PICTURES if each.name in wanted]:
            for width, height in SIZES:
                names = [str(traces.get(name, made / f"{name}.sql")) for name in picture.recordings]
                watches = watches_of(names, attach=attached.get(picture.recordings[0], ()))
                rows = after(picture.actions, watches, width, height)
                stem = folder / f"{picture.name}-{width}x{height}"
                with open(f"{stem}.png", "wb") as file:
                    to_png(rows, width, file)
                Path(f"{stem}.svg").write_text(to_svg(rows, width), encoding="utf-8")
                print(stem)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent, sys.argv[2:])
