"""Draws the pictures of the live screen from runs that it makes itself: ``python screenshots/make.py [DIR [NAME...]]``.

Nothing is drawn by hand: each picture is what the screen shows after the keys listed here. plot.png is what the lines
for a notebook in docs/start.md draw; score.png is drawn by gssr.score.
"""

import asyncio
import re
import runpy
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from gssr.backends.synthetic.bulk import generate
from gssr.commands.tui import watches_of
from gssr.model.custom_metrics import custom
from gssr.model.live.watch import Watch
from gssr.render.glyphs import UTF8
from gssr.report.png.cells import Picture as Seen
from gssr.report.png.cells import to_png, to_svg
from gssr.score import saturation_score
from gssr.tui.app import LiveScreen
from gssr.tui.export import picture_of
from gssr.tui.view import View

ROOT = Path(__file__).resolve().parents[1]
SIZES = ((80, 24), (160, 48))
PATIENCE = 30.0


class Picture(NamedTuple):
    """A picture: its name, the planted recordings it is drawn from (the second to compare with) or the trace, the keys that
    lead to it (Textual's names), and what the view begins with besides."""

    name: str
    recordings: tuple[str, ...]
    keys: tuple[str, ...]
    view: View = View()
    metric: str = ""


PICTURES = (
    Picture("job", ("checkpoint",), ()),
    Picture("gpus", ("straggler",), ("2", "n")),
    Picture("nodes", ("slow_node",), ("2", "v", "v")),
    Picture("time", ("io_dip",), ("3", "t", *"4:20", "enter")),
    Picture("balance", ("rotating",), ("4",)),
    Picture("why", ("slow_node",), ("5",)),
    Picture("compare", ("before", "after"), ("6",)),
    Picture("tree-profile", ("profile",), ("7",), View(screen="calls")),
    *(
        Picture(f"{screen}-{name}", (name,), (key,))
        for name in ("kineto", "nsys")
        for screen, key in (("job", "1"), ("time", "3"), ("calls", "7"))
    ),
    Picture("opened-kineto", ("kineto",), ("3", "t", *"0.025", "enter", "enter")),
    Picture("radar-kineto", ("ranks",), ("3", "u", "u"), View(screen="time"), "gemms=count(/gemm/)"),
    Picture("alike-ranks", ("ranks",), ("3", "u")),
    Picture("filter-kineto", ("kineto",), ("3",), View(screen="time", filter="name=nccl takes>100us")),
    Picture("why-kineto", ("kineto",), ("3", "t", *"0.025", "enter", "enter", "5")),
    Picture("compare-kineto", ("kineto", "loader"), ("6", "a")),
    Picture("messages-archive", ("archive",), ("7", *["v"] * 7)),
    Picture("collectives-archive", ("archive",), ("7", *["v"] * 9)),
    Picture("files-archive", ("archive",), ("7", *["v"] * 10)),
    Picture("time-joined", ("joined",), ("3", "v")),
    Picture("why-joined", ("joined",), ("5",)),
)


def after(picture: Picture, watches: list[Watch], size: tuple[int, int]) -> Seen:
    """What is seen after its keys."""
    app = LiveScreen(watches, UTF8, 10.0, 256)
    app.view = replace(picture.view, metric=custom(picture.metric).metric) if picture.metric else picture.view
    seen: list[Seen] = []

    def is_still() -> bool:
        ready = app.pane.is_ready and bool(app.results)
        return ready and app.results[0].refined and (app.view.speed > 0 or app.results[0].n_rows > 0)

    def is_judged() -> bool:
        compares = app.view.screen == "compare" and app.results[0].part is None
        return all(each.analysis if compares else each.judgement for each in app.results[: 2 if compares else 1])

    async def run() -> None:
        async with app.run_test(size=size) as pilot:

            async def settle() -> None:
                for _ in range(int(PATIENCE / 0.1)):
                    await pilot.pause(0.1)
                    if is_still() and (is_judged() or app.results[0].run is None):
                        break
                await pilot.pause(0.3)

            await settle()
            for key in picture.keys:
                await pilot.press(key)
                await settle()
            seen.append(picture_of(app.export_screenshot()))

    asyncio.run(run())
    return seen[0]


def plot(recording: Path, path: Path) -> None:
    """Draw what docs/start.md shows for a notebook, by the lines that stand there."""
    generate(str(recording), "imbalanced", 4, 0.02, 0.2)
    (lines,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "start.md").read_text(encoding="utf-8"), re.M | re.S
    )
    exec(lines.replace("run.sql", str(recording)), {})
    plt.savefig(path)


def curve(path: Path) -> None:
    """Draw the score by its input F for several values of O, and the simulated programs of docs/metrics.md as points."""
    sys.path.insert(0, str(ROOT / "docs"))  # it imports from its own folder
    page = runpy.run_path(str(ROOT / "docs" / "make_metrics.py"))
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    arithmetic = np.linspace(0, 1, 201)
    for occupancy, width in ((1.0, 2.8), (0.6, 2.1), (0.3, 1.4), (0.1, 0.7)):
        scores = [saturation_score(0.8, each, occupancy) for each in arithmetic]
        axes.plot(arithmetic, scores, color="#2a6f97", linewidth=width, label=f"O = {occupancy:g}")
    aside = {
        "vision": (-8, 6, "right"),
        "graph": (-2, -62, "left"),
        "stencil": (4, -32, "left"),
        "inference": (8, -6, "left"),
    }
    for name, called in page["PROGRAMS"].items():
        inputs = page["inputs_of"](name)
        at = (inputs[1], saturation_score(*inputs))
        axes.plot(*at, "o", color="#c2404f", zorder=3)
        right, up, align = aside.get(name, (8, -14, "left"))
        line = {"arrowstyle": "-", "color": "#6b6b6b", "linewidth": 0.6} if up < -20 else None
        axes.annotate(called, at, (right, up), textcoords="offset points", ha=align, arrowprops=line)
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="F: the activities of the arithmetic pipes, added up", ylabel="score (A = 0.8)"
    )
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=110)


def main(folder: Path, wanted: Sequence[str] = ()) -> None:
    """Write every picture, or those ``wanted``, in every size, as PNG and as SVG."""
    sys.path.insert(0, str(ROOT))
    from tests.fakes import planted
    from tests.fakes.scorep import otf2_archive, program
    from tests.fakes.traces import beside, kineto, loop, nsys
    from tests.fakes.traces.cube import write_solver

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        planted.write_all(made)
        traces = {"nsys": made / "report.sqlite"}
        for called, ail, ranks in (("kineto", "communication", 2), ("loader", "loader", 2), ("ranks", "straggler", 24)):
            traces[called] = made / ("traces" if called == "kineto" else called)
            traces[called].mkdir()
            for content in loop.ail(ail, ranks=ranks):  # type: ignore[arg-type]
                kineto.write(traces[called] / f"rank{content.rank}.json.gz", content)
        nsys.write(traces["nsys"], loop.ail("loader", ranks=2))
        traces["profile"] = write_solver(made / "profile.cubex")
        (made / "archive").mkdir()
        traces["archive"] = otf2_archive.write(made / "archive", program.run(ranks=32))
        (made / "joined").mkdir()
        truth = beside.Truth(ranks=4, seconds=100, interval=0.5)
        traces["joined"] = truth.record(made / "joined.sql")
        attached = {"joined": [str(truth.trace(made / "joined" / f"rank{at}.json", at, 40.0, 62.0)) for at in range(4)]}
        if not wanted or "score" in wanted:
            curve(folder / "score.png")
        if not wanted or "plot" in wanted:
            plot(made / "uneven.sql", folder / "plot.png")
        for picture in PICTURES if not wanted else [each for each in PICTURES if each.name in wanted]:
            for width, height in SIZES:
                names = [str(traces.get(name, made / f"{name}.sql")) for name in picture.recordings]
                own = (custom(picture.metric),) if picture.metric else ()
                watches = watches_of(names, attach=attached.get(picture.recordings[0], ()), own=own)
                rows = after(picture, watches, (width, height)).rows
                stem = folder / f"{picture.name}-{width}x{height}"
                with open(f"{stem}.png", "wb") as file:
                    to_png(rows, width, file)
                Path(f"{stem}.svg").write_text(to_svg(rows, width), encoding="utf-8")
                print(stem)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent, sys.argv[2:])
