"""The table of the processes on a GPU."""

import numpy as np
import pytest
from frames import frame_of

from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8
from gssr.render.roles import text_of
from gssr.store.format.rows import GpuProcess
from gssr.tui.moves import MOVES
from gssr.tui.order import ordered
from gssr.tui.screens import gpus
from gssr.tui.screens.processes import process_rows
from gssr.tui.view import Scene, View

GIB = 1 << 30
ON_GPU_0 = (
    GpuProcess(0, 1.0, 11, "python3", "me", 2 * GIB, 0.5),
    GpuProcess(0, 1.0, 12, None, None, None, None),
    GpuProcess(0, 1.0, 13, "trainer", "me", 30 * GIB, 0.0),
    GpuProcess(1, 1.0, 14, "elsewhere", "me", GIB, 0.1),
)


def scene(width: int = 80, ascii_only: bool = False) -> Scene:
    frame = frame_of(np.full((4, 60), 0.8), processes=ON_GPU_0, without_process=frozenset({2}))
    return Scene(frame, None, View(), width, 20, ASCII if ascii_only else UTF8)


def lines(gpu: int, height: int, width: int = 80) -> list[str]:
    return [text_of(row).rstrip() for row in process_rows(scene(width), [gpu], height)]


def test_processes_of_the_gpu_stand_by_memory_and_what_is_unknown_is_a_dash() -> None:
    title, head, *rows = lines(0, 20)
    assert "nid000001:0" in title and "3 processes" in title
    assert head.split() == ["GPU", "pid", "user", "process", "memory", "SM"]
    assert [row.split() for row in rows] == [
        ["nid000001:0", "13", "me", "trainer", "30.0", "GiB", "0.0", "%"],
        ["nid000001:0", "11", "me", "python3", "2.0", "GiB", "50.0", "%"],
        ["nid000001:0", "12", "–", "–", "–", "–"],
    ]


@pytest.mark.parametrize("height", range(8))
@pytest.mark.parametrize("width", [20, 40, 80])
def test_what_does_not_fit_is_counted(height: int, width: int) -> None:
    rows = process_rows(scene(width), [0], height)
    assert len(rows) <= height and all(cell_width(text_of(row)) <= width for row in rows)
    if height == 4:
        assert text_of(rows[-1]).strip() == "+2 more"


@pytest.mark.parametrize(
    ("view", "pids", "first"),
    [
        (View(screen="gpus", sort="memory"), [13, 11, 14, 12], [0, 1, 2, 3]),
        (View(screen="gpus", sort="memory", reverse=True), [14, 11, 13, 12], [1, 0, 2, 3]),
        (View(screen="gpus", sort="SM"), [11, 14, 13, 12], [0, 1, 2, 3]),
        (View(screen="gpus", sort="user"), [13, 11, 14, 12], [0, 1, 2, 3]),
        (View(screen="gpus", sort="SM", filter="process=*e"), [14], [1]),
        (View(screen="gpus", sort="place", filter="user=me"), [13, 11, 14], [0, 1]),
        (View(screen="gpus", sort="place", filter="pid=13 sm>1"), [13], [0]),
        (View(screen="gpus", sort="memory", filter="sm<x"), [13, 11, 14, 12], [0, 1, 2, 3]),
    ],
)
def test_processes_are_sorted_and_filtered_and_gpus_with_them(view: View, pids: list[int], first: list[int]) -> None:
    drawn = scene()._replace(view=view, height=24)
    order = ordered(drawn)
    assert order.gpus.tolist() == first
    rows = [text_of(row) for row in process_rows(drawn, order.gpus.tolist(), 20)][2:]
    assert [int(row.split()[1]) for row in rows] == pids
    assert "GPUs by " in text_of(gpus.draw(drawn)[0])


def test_sorting_comes_to_what_runs_only_where_that_is_known() -> None:
    seen, view = [], View(screen="gpus")
    for _ in range(8):
        seen.append(view.sort)
        view = MOVES["next_sort"](scene()._replace(view=view))
    assert view.sort == "mean" and set(seen) == {"place", "now", "mean", "p05", "p95", "memory", "SM", "user"}
    nothing = scene()._replace(frame=frame_of(np.full((4, 60), 0.8)), view=View(screen="gpus", sort="memory"))
    assert MOVES["next_sort"](nothing).sort in ("p05", "mean")


def test_none_and_unknown_are_told_apart() -> None:
    assert "0 processes" in lines(2, 5)[0] and "not known" in lines(3, 5)[0]


def test_those_of_all_gpus_in_sight_stand_under_the_list_before_any_chart() -> None:
    for height in (14, 24, 40):
        drawn = [text_of(row) for row in gpus.draw(scene()._replace(height=height))]
        at = next(y for y, line in enumerate(drawn) if "Processes on 4 GPUs" in line)
        listed = [line.split()[1] for line in drawn[at + 2 :] if line.startswith("nid")]
        assert listed == ["13", "11", "12", "14"][: len(listed)] and len(listed) >= (4 if height == 24 else 2)
        assert any("│" in line for line in drawn) == (height > 20)
