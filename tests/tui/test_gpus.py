"""GPUs: which of them differ."""

import re
from collections.abc import Callable
from dataclasses import replace

import frames
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looking import frame_of, text_rows

from gssr.model.verdicts.rules import TABLE
from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import text_of
from gssr.tui.gpu_rows import listing, strip_width
from gssr.tui.screens import gpus
from gssr.tui.view import PAGE, Scene, Sort, View

NAN = np.nan
MANY = np.linspace(0.9, 0.1, 300)[:, None] * np.ones(40)
"""300 GPUs, the last one the lowest."""


def scene_of(values: np.ndarray, view: View | None = None, width: int = 80, height: int = 22) -> Scene:
    return Scene(frames.frame_of(values), None, view or View(screen="gpus"), width, height, UTF8)


def look(path: str, view: View, width: int, height: int, glyphs: Glyphs = UTF8) -> Scene:
    query = replace(view.query(gpus.columns(view, width, height)), causes=TABLE)
    return Scene(frame_of(path, query), None, view, width, height, glyphs)


def lines(scene: Scene) -> list[str]:
    return [text_of(row) for row in gpus.draw(scene)]


@pytest.mark.parametrize("size", ["40x8", "80x22", "160x46"])
def test_gpus_look_as_they_did(plants: dict[str, str], golden: Callable[[str, str], None], size: str) -> None:
    width, height = map(int, size.split("x"))
    rows = gpus.draw(look(plants["slow_node"], View(screen="gpus"), width, height))
    golden(f"gpus-{size}.txt", text_rows(rows, width))


@pytest.mark.parametrize("density", [1, 2])
@pytest.mark.parametrize(
    ("sort", "value"), [("p05", "10"), ("p95", "70"), ("now", "10"), ("mean", "40"), ("place", "40")]
)
def test_what_a_list_is_sorted_by_is_in_it(sort: Sort, value: str, density: int) -> None:
    """In 80 columns p05 and p95 could be sorted by and not be seen."""
    values = np.tile(np.concatenate((np.full(10, 0.7), np.full(10, 0.1))), (4, 1))
    head, first = lines(scene_of(values, View(screen="gpus", sort=sort, density=density)))[1:3]
    title = {"now": "last", "place": "mean"}.get(sort, sort)
    assert title in head.split() and any(word.startswith(value) for word in first.split()), (head, first)


def test_a_gap_looks_as_it_did(plants: dict[str, str], golden: Callable[[str, str], None]) -> None:
    view = View(screen="gpus", gpu=6)
    golden("gpus-gap-80x22.txt", text_rows(gpus.draw(look(plants["gap"], view, 80, 22)), 80))


def test_a_few_gpus_look_as_they_did(plants: dict[str, str], golden: Callable[[str, str], None]) -> None:
    view = View(screen="gpus", selection=(8, 9, 10, 11), selected="nid000003")
    golden("gpus-charts-80x22.txt", text_rows(gpus.draw(look(plants["slow_node"], view, 80, 22)), 80))


@pytest.mark.parametrize("n_gpus", [1, 4, 17, 300])
@pytest.mark.parametrize("glyphs", [UTF8, ASCII], ids=["utf8", "ascii"])
@settings(max_examples=25)
@given(
    width=st.integers(20, 300), height=st.integers(1, 100), n_columns=st.integers(1, 320), density=st.integers(0, 8),
    text=st.sampled_from(["", "*:0", "sm<50", "nobody", "sm<"]),
)  # fmt: skip
def test_nothing_is_drawn_outside_its_box(
    n_gpus: int, glyphs: Glyphs, width: int, height: int, n_columns: int, density: int, text: str
) -> None:
    values = np.random.default_rng(n_columns).random((n_gpus, n_columns)) * 1.1
    values[values < 0.1] = NAN
    view = View(screen="gpus", cursor=frames.START + 5 * n_columns, density=density, filter=text)
    scene = Scene(frames.frame_of(values), None, view, width, height, glyphs)
    rows = gpus.draw(scene)
    assert len(rows) <= height
    for row in rows:
        assert len(text_of(row)) == cell_width(text_of(row)) <= width
        assert glyphs is UTF8 or text_of(row).replace("°", " ").isascii()


def test_missing_is_blank_and_zero_is_not() -> None:
    values = np.full((6, 30), 0.5)
    values[2, 10:20], values[4, 10:20] = NAN, 0.0
    shown = lines(scene_of(values, View(screen="gpus", sort="place")))
    gap, idle = (next(line for line in shown if f"nid00000{name}" in line) for name in ("1:2", "2:0"))
    assert gap.endswith("▄▄▄▄▄     ▄▄▄▄▄") and idle.endswith("▄▄▄▄▄▁▁▁▁▁▄▄▄▄▄")  # two columns in a cell


def test_a_silent_gpu_says_how_old_its_last_sample_is() -> None:
    frame = frames.frame_of(np.full((6, 30), 0.5), state="live")
    last = frame.last_time.copy()
    last[3] -= 11
    scene = Scene(replace(frame, last_time=last), None, View(screen="gpus", gpu=3), 80, 22, UTF8)
    shown = lines(scene)
    row = next(line for line in shown if "nid000001:3" in line)
    assert row.startswith("g") and " 11s " in row
    assert any("last sample 11 s old" in line for line in shown)


def test_a_gap_says_how_long_it_was(plants: dict[str, str]) -> None:
    shown = lines(look(plants["gap"], View(screen="gpus", gpu=6), 80, 22))
    assert any(line.startswith("g!nid000002:2") for line in shown)
    found = re.search(r"nid000002:2  at least (\d+) s without samples", "\n".join(shown))
    assert found and 30 <= int(found[1]) <= 60  # whole columns of it


def test_as_gpus_grow_more_share_a_row_until_all_are_seen() -> None:
    across = [listing(scene_of(MANY[:n], width=120)).across for n in (5, 18, 19, 36, 37, 54, 300)]
    assert across == [1, 1, 2, 2, 3, 3, 4]
    for n in (5, 18, 36, 54):
        shown = listing(scene_of(MANY[:n], width=120))
        assert sorted(shown.visible.tolist()) == list(range(n))


def test_density_cycles_and_comes_back() -> None:
    seen = [listing(scene_of(MANY, View(screen="gpus", density=d), 120)).across for d in range(6)]
    assert seen == [4, 1, 2, 3, 4, 4]


def test_the_lowest_are_seen_first_without_a_cursor() -> None:
    assert listing(scene_of(MANY)).visible[0] == 299


@given(
    st.lists(st.sampled_from([(1, 0), (-1, 0), (0, 1), (0, -1), (0, PAGE), (0, -PAGE), (0, PAGE * PAGE)]), max_size=15),
    st.integers(0, 4), st.integers(8, 40), st.sampled_from([1, 3, 17, 300]),
)  # fmt: skip
def test_the_gpu_under_the_cursor_is_always_in_sight(
    steps: list[tuple[int, int]], density: int, height: int, n: int
) -> None:
    scene = scene_of(MANY[:n], View(screen="gpus", density=density), 80, height)
    for dx, dy in steps:
        scene = scene._replace(view=gpus.move(scene, dx, dy))
        shown = listing(scene)
        assert shown.gpu in shown.visible.tolist()
        assert scene.view.gpu in (-1, shown.gpu)


def test_a_page_moves_by_what_is_in_sight_and_ends_are_ends() -> None:
    scene = scene_of(MANY, View(screen="gpus", density=1))
    room = listing(scene).room
    down = gpus.move(scene, 0, PAGE)
    assert listing(scene._replace(view=down)).at == room - 1
    last = scene._replace(view=gpus.move(scene, 0, PAGE * PAGE))
    assert last.view.gpu == 0 and listing(last).at == 299
    assert gpus.move(last, 0, -PAGE * PAGE).gpu == 299


def test_enter_asks_why_of_the_gpu_under_the_cursor() -> None:
    scene = scene_of(MANY, View(screen="gpus", gpu=17))
    view = gpus.enter(scene)
    assert view is not None
    assert (view.screen, view.selection, view.selected) == ("why", (17,), "nid000005:1")
    assert view.trail[-1] == scene.view


def test_a_filter_that_nobody_passes_says_so() -> None:
    shown = lines(scene_of(MANY, View(screen="gpus", filter="sm<3")))
    assert any("no GPU of 300 passes the filter sm<3" in line for line in shown)
    assert gpus.enter(scene_of(MANY, View(screen="gpus", filter="sm<3"))) is None


@pytest.mark.parametrize("n", [3, 300])
def test_a_filter_that_is_none_is_explained(n: int) -> None:
    shown = lines(scene_of(MANY[:n], View(screen="gpus", filter="sm<x")))
    assert any("x is not a number" in line for line in shown)


def test_values_at_the_time_cursor_replace_the_newest() -> None:
    values = np.full((6, 30), 0.5)
    values[:, 7] = 0.125
    shown = lines(scene_of(values, View(screen="gpus", cursor=frames.START + 75)))
    assert "at" in shown[1].split() and "last" not in shown[1].split()
    assert all(line.split()[1] == "12.5" for line in shown if line.startswith("  nid"))  # no class before a judgement


def test_a_click_on_a_row_chooses_its_gpu() -> None:
    for density in (0, 1, 2):
        scene = scene_of(MANY, View(screen="gpus", density=density))
        shown = listing(scene)
        for index in (0, 1, 7):
            y, x = 2 + index // shown.across, index % shown.across * (80 // shown.across) + 3
            view = gpus.click(scene, x, y)
            assert view is not None and view.gpu == shown.visible[index]
    assert gpus.click(scene_of(MANY), 3, 0) is None


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_click_on_a_chart_chooses_its_gpu(n: int) -> None:
    scene = scene_of(MANY[:n], height=30)
    chosen = [gpus.click(scene, 5, y) for y in range(29)]
    found = [view.gpu for view in chosen if view is not None]
    assert list(dict.fromkeys(found)) == list(range(n - 1, -1, -1))


def test_columns_that_are_over_never_change() -> None:
    values = np.random.default_rng(3).random((6, 40))
    later = values.copy()
    later[:, 35:] = 0.99
    view = View(screen="gpus", sort="place")
    first = 80 - strip_width(80)
    strips = [
        [line[first : first + 5] for line in lines(scene_of(each, view)) if "nid" in line] for each in (values, later)
    ]
    assert strips[0][:6] == strips[1][:6]


def test_a_dip_that_a_short_strip_hides_is_underlined() -> None:
    values = np.full((60, 40), 0.8)
    values[7, 21] = 0.0
    rows = gpus.draw(scene_of(values, View(screen="gpus", density=3)))
    low = [span for row in rows[2:-2] for span in row if span.role.startswith("low")]
    assert len(low) == 1 and len(low[0].text) == 1
