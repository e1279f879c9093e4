"""Map: where the GPUs are."""

from collections.abc import Callable
from dataclasses import replace

import frames
import looking
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looking import text_rows

from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import Row, text_of
from gssr.tui.moves import MOVES
from gssr.tui.screens import map as screen
from gssr.tui.screens.map_layout import DENSITIES, TITLE, sight
from gssr.tui.view import PAGE, Scene, View

NAN = np.nan
STEPS = [(1, 0), (-1, 0), (0, 1), (0, -1), (0, PAGE), (0, -PAGE), (0, PAGE * PAGE), (0, -PAGE * PAGE)]


def scene_of(
    values: np.ndarray, view: View | None = None, width: int = 80, height: int = 22, glyphs: Glyphs = UTF8
) -> Scene:
    return Scene(frames.frame_of(values), None, view or View(screen="map"), width, height, glyphs)


def alike(n_gpus: int, level: float = 0.8) -> np.ndarray:
    return np.full((n_gpus, 6), level)


def text(scene: Scene) -> str:
    return "\n".join(text_of(row) for row in screen.draw(scene))


def roles_at(rows: list[Row], y: int) -> list[str]:
    return [span.role for span in rows[y] for _ in span.text]


@pytest.mark.parametrize("size", ["40x8", "80x22", "160x46"])
def test_the_map_looks_as_it_did(plants: dict[str, str], golden: Callable[[str, str], None], size: str) -> None:
    width, height = map(int, size.split("x"))
    scene = looking.scene_of(plants["slow_node"], View(screen="map"), width, height)
    golden(f"map-{size}.txt", text_rows(screen.draw(scene), width))


def test_a_large_map_looks_as_it_did(golden: Callable[[str, str], None]) -> None:
    values = np.full((1024, 6), 0.75) - 0.02 * (np.arange(1024) % 7)[:, None]
    values[513], values[700:704], values[90] = 0.04, 0.4, NAN
    golden("map-1024-80x22.txt", text_rows(screen.draw(scene_of(values, View(screen="map", gpu=513))), 80))
    ascii_only = scene_of(values, View(screen="map", gpu=513), glyphs=ASCII)
    golden("map-1024-ascii-80x22.txt", text_rows(screen.draw(ascii_only), 80))


@pytest.mark.parametrize("n_gpus", [1, 4, 33, 300, 3000])
@pytest.mark.parametrize("ascii_only", [False, True], ids=["utf8", "ascii"])
@settings(max_examples=15, deadline=None)
@given(
    width=st.integers(20, 300), height=st.integers(1, 100), density=st.integers(0, 8), gpu=st.integers(-1, 3000),
    name=st.sampled_from(["", "*:0", "sm<50", "nobody", "sm<"]), metric=st.sampled_from(["sm_active", "power_usage"]),
)  # fmt: skip
def test_nothing_is_drawn_outside_its_box(
    n_gpus: int, ascii_only: bool, width: int, height: int, density: int, gpu: int, name: str, metric: str
) -> None:
    values = np.random.default_rng(n_gpus).random((n_gpus, 5)) * 1.1
    values[values < 0.1] = NAN
    view = View(screen="map", density=density, gpu=gpu, filter=name, metric=metric)
    scene = scene_of(values, view, width, height, ASCII if ascii_only else UTF8)
    looking.fits(scene._replace(frame=frames.frame_of(values, metric=metric)))


@given(
    st.lists(st.sampled_from(STEPS), max_size=15), st.integers(0, 3), st.integers(4, 40), st.integers(20, 200),
    st.sampled_from([1, 3, 17, 300, 5000]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_cursor_is_always_in_sight(
    steps: list[tuple[int, int]], density: int, height: int, width: int, n_gpus: int
) -> None:
    scene = scene_of(alike(n_gpus), View(screen="map", density=density), width, height)
    for dx, dy in steps:
        scene = scene._replace(view=screen.move(scene, dx, dy))
        seen = sight(scene)
        assert scene.view.gpu in seen.layout.members(seen.cell)
        assert seen.top <= seen.layout.line[seen.cell] < seen.top + seen.lines


def test_every_gpu_is_reached_across_nodes() -> None:
    scene = scene_of(alike(24))
    found = []
    for _ in range(24):
        found.append(sight(scene).layout.members(sight(scene).cell).tolist())
        scene = scene._replace(view=screen.move(scene, 1, 0))
    assert found == [[gpu] for gpu in range(24)]


def test_missing_is_blank_and_zero_is_not() -> None:
    values = alike(200)
    values[5], values[6] = NAN, 0.0
    line = text(scene_of(values)).splitlines()[TITLE]
    assert "▇▇▇▇!▇ ▁▇ ▇▇▇▇" in line


def test_above_the_full_scale_is_marked() -> None:
    values = alike(200)
    values[5] = 1.2
    assert "▇▇▇▇!▇^▇▇ ▇▇▇▇" in text(scene_of(values)).splitlines()[TITLE]


@pytest.mark.parametrize("n_gpus", [8, 200, 1300, 10_000])
def test_one_bad_gpu_is_seen_at_every_size(n_gpus: int) -> None:
    values = alike(n_gpus)
    values[n_gpus * 5 // 8] = 0.04
    scene = scene_of(values)
    assert sight(scene).layout.n_lines * sight(scene).layout.height <= 22  # all of it is in sight
    rows = screen.draw(scene)
    body = "\n".join(text_of(row) for row in rows[TITLE:-2]).split("the same GPUs")[0]
    assert body.count("!") == 1
    assert "! 1 outlier" in text(scene)
    after = scene._replace(view=MOVES["next_outlier"](scene))
    assert after.view.gpu == n_gpus * 5 // 8
    shown = screen.draw(after)
    assert any(role == "cursor" for y in range(len(shown)) for role in roles_at(shown, y))
    assert f"{frames.gpu(n_gpus * 5 // 8).node}:" in text(after) and " 4.0 % !" in text(after)


def test_a_node_that_is_low_on_one_gpu_only_is_underlined_where_cells_are_nodes() -> None:
    values = alike(10_000)
    values[::40, 0] = 0.0
    values[7] = 0.2
    scene = scene_of(values, View(screen="map", density=DENSITIES.index("a mark per node")))
    rows = screen.draw(scene._replace(frame=frames.frame_of(values)))
    assert roles_at(rows, TITLE)[sight(scene).layout.label + 1] == "outlier"
    assert "1 cell 1 node" in text(scene)


def test_the_status_says_the_value_the_nodes_and_the_jobs_mean() -> None:
    values = alike(8)
    values[4:] = [[0.2], [0.3], [0.4], [0.5]]
    assert "> nid000002:1 30.0 %  node 20 30 40 50  node mean 35.0  job mean 57.5 %" in text(
        scene_of(values, View(screen="map", gpu=5))
    )


def test_what_is_silent_in_a_living_run_is_blank() -> None:
    frame = frames.frame_of(alike(200), state="live")
    last = frame.last_time.copy()
    last[5] -= 11
    scene = Scene(replace(frame, last_time=last), None, View(screen="map", gpu=5), 80, 22, UTF8)
    shown = text(scene)
    assert "▇▇▇▇ ▇ ▇▇ ▇▇▇▇" in shown.splitlines()[TITLE]
    assert "g silent 11s" in shown and "g 1 silent" in shown


def test_enter_goes_to_the_nodes_gpus_and_the_selection_is_all_that_is_shown() -> None:
    view = screen.enter(scene_of(alike(32), View(screen="map", gpu=6)))
    assert view is not None
    assert (view.screen, view.selection, view.selected, view.gpu) == ("gpus", (4, 5, 6, 7), "nid000002", 6)
    scene = scene_of(alike(32), replace(view, screen="map"))
    assert sight(scene).layout.gpus.tolist() == [4, 5, 6, 7]
    assert "nid000002 (4 GPUs)" in text(scene)


def test_a_click_takes_the_cursor_and_another_goes_down() -> None:
    scene = scene_of(alike(200))
    layout = sight(scene).layout
    x, y = int(layout.x[37]), int(layout.line[37]) + TITLE
    view = screen.click(scene, x, y)
    assert view is not None and view.gpu == 37
    down = screen.click(scene._replace(view=view), x, y)
    assert down is not None and down.selection == (36, 37, 38, 39)
    assert screen.click(scene, 79, 21) is None


def test_density_cycles_and_comes_back() -> None:
    seen = [sight(scene_of(alike(64), View(screen="map", density=d))).layout for d in range(5)]
    assert [(layout.tiled, layout.gap, layout.nodes) for layout in seen] == [
        (True, 2, 0), (False, 1, 0), (False, 0, 0), (False, 0, 1), (True, 2, 0),
    ]  # fmt: skip


def test_a_node_wider_than_the_screen_goes_on_below() -> None:
    frame = frames.frame_of(alike(100))
    gpus = tuple(gpu._replace(node="n1", device_index=i) for i, gpu in enumerate(frame.gpus))
    one = replace(frame, gpus=gpus, nodes=("n1",), node_of=np.zeros(100, np.int64))
    scene = Scene(one, None, View(screen="map", density=1), 40, 22, UTF8)
    assert sight(scene).layout.n_lines == 3
    assert text(scene).count("▇") - 1 >= 100
    looking.fits(scene)
