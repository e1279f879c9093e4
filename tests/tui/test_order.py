"""Which GPUs lists show, and in which order; where Esc goes."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from gssr.model.live.live_result import Result
from gssr.model.live.steady_order import SteadyOrders
from gssr.model.percentiles import known_percentiles
from gssr.report.live.gpu_columns import MEAN, NOW
from gssr.report.live.gpu_filter import parse_filter, passing
from gssr.tui.gpus.nodes import NodeTable
from gssr.tui.gpus.table import GpuTable
from gssr.tui.moves import MOVES
from gssr.tui.view import Scene, View
from tests.fakes import frames
from tests.looking import Fixed, live_screen, seen, until, work

NAN = np.nan
LEVELS = np.array([0.8, 0.1, 0.7, 0.6, 0.5, 0.9, 0.3, 0.2])
"""Two nodes of four GPUs; constant over time."""


def scene_of(view: View, frame: Result | None = None) -> Scene:
    return Scene(frame or frames.frame_of(np.tile(LEVELS[:, None], 6)), None, view)


def shown(text: str) -> list[int]:
    return np.flatnonzero(passing(scene_of(View()).frame, text)).tolist()


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
    app = live_screen(Fixed(scene_of(View()).frame), view=View(screen="gpus", filter=text))

    async def steps(pilot: Pilot[int]) -> None:
        table = app.query_one(GpuTable)
        await until(pilot, lambda: len(table.order) == 8)
        assert named in table.problem

    work(app, steps)


def test_what_is_unknown_comes_last_either_way() -> None:
    values = np.tile(LEVELS[:, None], 6)
    values[3] = NAN
    app = live_screen(Fixed(frames.frame_of(values)), view=View(screen="gpus"))

    async def steps(pilot: Pilot[int]) -> None:
        table = app.query_one(GpuTable)
        await until(pilot, lambda: len(table.order) == 8)
        for column in (NOW, MEAN, "p05", "p95"):
            for _ in range(2):
                table.sort_by(column)
                assert table.order[-1] == 3 and table.order[0] == (5 if table.descending else 1)

    work(app, steps)


def test_the_wall_and_the_nodes_show_only_gpus_that_pass_the_filter() -> None:
    """They showed all GPUs below a line that names the filter."""
    view = View(screen="gpus", filter="sm<30")
    app = live_screen(Fixed(scene_of(View()).frame), view=view)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.query_one(GpuTable).order.tolist() == [1, 7])
        await pilot.press("v")
        await until(pilot, lambda: "2 of 8 GPUs pass sm<30" in seen(app))
        assert "nid000001:1 " in seen(app) and "nid000001:0 " not in seen(app)
        await pilot.press("v")
        await until(pilot, lambda: "2 nodes with GPUs that pass sm<30" in seen(app))
        nodes = app.query_one(NodeTable)
        assert re.search(r"nid000001 +1 +10\.0 +nid000001:1 +10\.0", seen(app)), seen(app)
        app.filter_gpus("nid000002 sm<30")
        await until(pilot, lambda: nodes.order.tolist() == [1] and "1 node with GPUs that pass" in seen(app))
        app.filter_gpus("nid9*")
        await until(pilot, lambda: not len(nodes.order) and "no GPU passes the filter" in seen(app))
        await pilot.press("v", "v")
        await until(pilot, lambda: "0 of 8 GPUs pass nid9*" in seen(app) and "nid000001" not in seen(app))

    work(app, steps)


def test_the_key_for_windows_says_why_there_is_no_other() -> None:
    app = live_screen(Fixed(frames.frame_of(np.tile(LEVELS[:, None], 6), width=1.0)))

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("w")
        await until(pilot, lambda: any("shorter than every other" in each.message for each in app._notifications))

    work(app, steps, (160, 40))


def test_only_the_selection_is_listed() -> None:
    view = View(screen="gpus", selection=(0, 5, 7), filter="sm<30")
    app = live_screen(Fixed(scene_of(View()).frame), view=view)

    async def steps(pilot: Pilot[int]) -> None:
        table = app.query_one(GpuTable)
        await until(pilot, lambda: table.order.tolist() == [7])
        assert "1 of 3 pass" in str(table.border_subtitle)

    work(app, steps)


@given(st.lists(st.lists(st.one_of(st.just(NAN), st.floats(0, 1)), min_size=5, max_size=5), min_size=1, max_size=9))
def test_percentiles_are_numpys(rows: list[list[float]]) -> None:
    values = np.array(rows)
    for share in (0.05, 0.5, 0.95):
        expected = [np.nanpercentile(row, 100 * share) if np.isfinite(row).any() else NAN for row in values]
        assert known_percentiles(values.T, (share,))[0] == pytest.approx(expected, nan_ok=True)


def test_outliers_are_reached_one_after_another_and_around_the_end() -> None:
    values = np.full((12, 6), 0.8)
    values[[2, 9]] = 0.1
    values[5, 2] = NAN
    app = live_screen(Fixed(frames.frame_of(values)), view=View(screen="gpus"))

    async def steps(pilot: Pilot[int]) -> None:
        table = app.query_one(GpuTable)
        await until(pilot, lambda: len(table.order) == 12)
        table.focus()
        seen = []
        for _ in range(4):
            await pilot.press("n")
            seen.append(table.item)
        assert set(seen[:3]) == {2, 5, 9} and seen[3] == seen[0]
        await pilot.press("N")
        assert table.item == seen[2]

    work(app, steps)


def test_esc_lets_go_of_a_filter_before_it_goes_back() -> None:
    down = View().down(screen="gpus", selection=(2,))
    scene = scene_of(replace(down, filter="sm<30"))
    assert MOVES["back"](scene) == down
    assert MOVES["back"](scene_of(down)).screen == "job"


def means_of(means: list[float], state: str = "live") -> Result:
    """A frame in which the GPUs have these means."""
    return frames.frame_of(np.repeat(np.array(means)[:, None], 6, axis=1), state=state)


def order(orders: SteadyOrders, means: list[float], state: str = "live") -> list[int]:
    frame = means_of(means, state)
    gpus, values = np.arange(len(means)), frame.window.per_gpu("sm_active")
    return orders.steady(frame, "mean", gpus, values, 1.0).tolist()


def test_a_list_of_a_run_that_grows_is_sorted_anew_only_when_that_can_be_seen() -> None:
    orders = SteadyOrders()
    assert order(orders, [0.801, 0.8, 0.6]) == [2, 1, 0]
    assert order(orders, [0.799, 0.8, 0.6]) == [2, 1, 0]
    assert order(orders, [0.799, 0.8, 0.6], "ended") == [2, 0, 1]
    assert order(orders, [0.78, 0.8, 0.6]) == [2, 0, 1]
    assert order(orders, [0.802, 0.8, 0.6]) == [2, 0, 1]


def test_a_list_does_not_keep_the_order_of_another() -> None:
    orders = SteadyOrders()
    assert order(orders, [0.801, 0.8, 0.6]) == [2, 1, 0]
    assert order(SteadyOrders(), [0.799, 0.8, 0.6]) == [2, 0, 1]
    assert order(orders, [0.799, 0.8, 0.6]) == [2, 1, 0]


def test_the_cursor_begins_in_sight_and_stays_so_when_the_window_shrinks() -> None:
    """On the one GPU that is not like the rest, far below what fits."""
    levels = np.full(60, 0.8)
    levels[55] = 0.05
    app = live_screen(Fixed(frames.frame_of(np.tile(levels[:, None], 6))), view=View(screen="gpus"))

    def is_in_sight(table: GpuTable) -> bool:
        row = table.at * table.tall - table.scroll_offset.y
        return table.item == 55 and 0 <= row < table.size.height - 1

    async def steps(pilot: Pilot[int]) -> None:
        table = app.query_one(GpuTable)
        await until(pilot, lambda: len(table.order) == 60 and is_in_sight(table))
        await pilot.resize_terminal(100, 18)
        await until(pilot, lambda: table.size.height < 20 and is_in_sight(table))

    work(app, steps)
