"""Which GPUs lists show, and in which order."""

from dataclasses import replace

import frames
import numpy as np
import pytest
from gssr.tui.screens.job import to_look_at
from hypothesis import given
from hypothesis import strategies as st

from gssr.model.live.frame import Frame
from gssr.render.glyphs import UTF8
from gssr.tui.moves import MOVES
from gssr.tui.order import ordered, parse_filter, percentiles
from gssr.tui.shared.steady_order import SteadyOrders
from gssr.tui.view import Scene, View

NAN = np.nan
LEVELS = np.array([0.8, 0.1, 0.7, 0.6, 0.5, 0.9, 0.3, 0.2])
"""Two nodes of four GPUs; constant over time."""


def scene_of(view: View, frame: Frame | None = None) -> Scene:
    return Scene(frame or frames.frame_of(np.tile(LEVELS[:, None], 6)), None, view, 80, 22, UTF8)


def shown(text: str = "", **view: object) -> list[int]:
    return ordered(scene_of(View(filter=text, **view))).gpus.tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nid000002", {4, 5, 6, 7}),
        ("nid00000?:0", {0, 4}),
        ("*:0,*:3", {0, 3, 4, 7}),
        ("*:0 nid000001", {0}),
        ("sm<30", {1, 7}),
        ("sm<30%", {1, 7}),
        ("sm_active>=75", {0, 5}),
        ("sm>40 sm<65", {3, 4}),
        ("occ<20", {1, 6, 7}),  # half of sm
        ("power>400", {0, 2, 5}),  # 600 W at full
        ("nid000001 sm<65", {1, 3}),
        ("GPU-00000003", {3}),
        ("nid9*", set()),
        ("dram<50", set()),  # not measured: neither below nor above
        ("", set(range(8))),
    ],
)
def test_a_filter_shows_what_it_says(text: str, expected: set[int]) -> None:
    assert set(shown(text)) == expected


@pytest.mark.parametrize(
    ("text", "named"), [("sm<x", "x"), ("sm<", "nothing"), ("speed>3", "speed"), ("<3", "before the sign")]
)
def test_a_filter_that_is_none_says_why_and_hides_nothing(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        parse_filter(text)
    order = ordered(scene_of(View(filter=text)))
    assert named in order.problem and len(order.gpus) == 8


def test_the_lowest_come_first_and_reverse_turns_it_round() -> None:
    assert shown() == [1, 7, 6, 4, 3, 2, 0, 5]
    assert shown(reverse=True) == [5, 0, 2, 3, 4, 6, 7, 1]
    assert shown(sort="place") == list(range(8))
    assert shown(sort="place", reverse=True) == list(range(7, -1, -1))


def test_what_is_unknown_comes_last_either_way() -> None:
    values = np.tile(LEVELS[:, None], 6)
    values[3] = NAN
    frame = frames.frame_of(values)
    for sort in ("mean", "now", "p05", "p95"):
        for reverse in (False, True):
            view = View(sort=sort, reverse=reverse)  # type: ignore[arg-type]
            assert ordered(scene_of(view, frame)).gpus[-1] == 3


def test_with_a_time_cursor_now_means_then() -> None:
    values = np.tile(LEVELS[:, None], 6)
    values[5, 2] = 0.0
    frame = frames.frame_of(values)
    view = View(sort="now", cursor=frames.START + 25)
    assert ordered(scene_of(view, frame)).gpus[0] == 5
    assert ordered(scene_of(replace(view, cursor=None), frame)).gpus[0] == 1


def test_only_the_selection_is_listed() -> None:
    assert shown(selection=(0, 5, 7)) == [7, 0, 5]
    assert ordered(scene_of(View(selection=(0, 5, 7), filter="sm<30"))).candidates == 3


@given(st.lists(st.lists(st.one_of(st.just(NAN), st.floats(0, 1)), min_size=5, max_size=5), min_size=1, max_size=9))
def test_percentiles_are_numpys(rows: list[list[float]]) -> None:
    values = np.array(rows)
    for share in (0.05, 0.5, 0.95):
        expected = [np.nanpercentile(row, 100 * share) if np.isfinite(row).any() else NAN for row in values]
        assert percentiles(values, share) == pytest.approx(expected, nan_ok=True)


def test_outliers_are_reached_one_after_another_and_around_the_end() -> None:
    values = np.full((12, 6), 0.8)
    values[[2, 9]] = 0.1
    values[5, 2] = NAN
    scene = scene_of(View(screen="gpus"), frames.frame_of(values))
    seen = []
    for _ in range(4):
        scene = scene._replace(view=MOVES["next_outlier"](scene))
        seen.append(scene.view.gpu)
    assert set(seen[:3]) == {2, 5, 9} and seen[3] == seen[0]
    back = MOVES["previous_outlier"](scene)
    assert back.gpu == seen[2]


def test_without_outliers_the_cursor_stays() -> None:
    scene = scene_of(View(screen="gpus", gpu=3), frames.frame_of(np.full((6, 4), 0.5)))
    assert MOVES["next_outlier"](scene) == scene.view


def test_esc_lets_go_of_a_filter_before_it_goes_back() -> None:
    down = View().down(screen="gpus", gpu=2)
    scene = scene_of(replace(down, filter="sm<30"))
    assert MOVES["back"](scene) == down
    assert MOVES["back"](scene_of(down)).screen == "job"


def means_of(means: list[float], state: str = "live") -> Frame:
    """A frame in which the GPUs have these means."""
    return frames.frame_of(np.repeat(np.array(means)[:, None], 6, axis=1), state=state)


def test_a_list_of_a_run_that_grows_is_sorted_anew_only_when_that_can_be_seen() -> None:
    orders = SteadyOrders()

    def order(means: list[float], state: str = "live") -> list[int]:
        scene = scene_of(View(sort="mean"), means_of(means, state))._replace(orders=orders)
        assert to_look_at(scene).tolist() == ordered(scene).gpus.tolist()
        return ordered(scene).gpus.tolist()

    assert order([0.801, 0.8, 0.6]) == [2, 1, 0]
    assert order([0.799, 0.8, 0.6]) == [2, 1, 0]
    assert order([0.799, 0.8, 0.6], "ended") == [2, 0, 1]
    assert order([0.78, 0.8, 0.6]) == [2, 0, 1]
    assert order([0.802, 0.8, 0.6]) == [2, 0, 1]


def test_a_screen_does_not_keep_the_order_of_another() -> None:
    """One recording, shown twice in a process, has the same path and run."""
    before, after = means_of([0.801, 0.8, 0.6]), means_of([0.799, 0.8, 0.6])
    orders = SteadyOrders()
    assert ordered(scene_of(View(), before)._replace(orders=orders)).gpus.tolist() == [2, 1, 0]
    assert ordered(scene_of(View(), after)._replace(orders=SteadyOrders())).gpus.tolist() == [2, 0, 1]
    assert ordered(scene_of(View(), after)._replace(orders=orders)).gpus.tolist() == [2, 1, 0]
