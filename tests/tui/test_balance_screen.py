"""Balance leads to who is behind, says what it costs, and tells a rotating imbalance from a static one."""

from dataclasses import replace

import numpy as np
import pytest
from frames import frame_of
from looking import SIZES, fits, scene_of, text

from gssr.model.results import Judgement, Verdict, over_space
from gssr.model.verdicts.rules import TABLE
from gssr.render.glyphs import UTF8
from gssr.render.roles import text_of
from gssr.tui.screens import balance
from gssr.tui.steady_order import SteadyOrders
from gssr.tui.view import Scene, View

VIEW = View(screen="balance")


@pytest.mark.parametrize(("width", "height"), [(40, 8), (80, 22), (160, 46)])
def test_balance_looks_as_it_did(plants, golden, width, height):
    golden(f"balance_{width}x{height + 2}.txt", text(scene_of(plants["slow_node"], VIEW, width, height)))


def test_balance_in_ascii_looks_as_it_did(plants, golden):
    golden("balance_ascii_80x24.txt", text(scene_of(plants["rotating"], VIEW, 80, 22, ascii_only=True)))


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("name", ["slow_node", "gap", "rotating"])
def test_nothing_is_outside_its_box(plants, name, ascii_only):
    for width, height in SIZES:
        for view in (VIEW, replace(VIEW, metric="power_usage"), replace(VIEW, selection=(6,)), replace(VIEW, row=99)):
            fits(scene_of(plants[name], view, width, height, ascii_only=ascii_only))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("healthy", "balanced"),
        ("straggler", "static: nid000007:2 below"),
        ("slow_node", "static: node nid000003 below"),
        ("idle_gpus", "static: 3 GPUs: nid000004:1"),
        ("rotating", "rotates: some GPU is behind"),
        ("late_start", "for 20.0 % of the time: node nid000005"),
    ],
)
def test_each_cause_is_named(plants, name, says):
    assert says in text(scene_of(plants[name], VIEW, 160, 46)), name


@pytest.mark.parametrize(
    ("low", "says"),
    [
        ([5], "static: nid000002:1 below"),
        ([1, 5], "by place: GPU 1 of every node"),
        ([1, 5, 9, 13], "by place: GPU 1 of every node"),
        ([1, 5, 9], "static: 3 GPUs"),
    ],
)
def test_a_place_is_slow_where_it_is_so_on_nearly_every_node(low, says):
    """One straggler on one of two nodes made the mean of its place look slow."""
    n_gpus = 8 if max(low) < 8 else 16
    values = np.full((n_gpus, 30), 0.8) + 1e-4 * np.arange(n_gpus)[:, None]
    values[low] = 0.35
    scene = Scene(frame_of(values), None, VIEW, 160, 46, UTF8)
    assert says in text(scene), text(scene)


def _live(values: np.ndarray, **changes: object) -> Scene:
    frame = frame_of(values, width=1.0, state="live", **changes)
    return Scene(replace(frame, query=replace(frame.query, causes=TABLE)), None, VIEW, 160, 46, UTF8)


def test_of_a_run_that_grows_balance_says_what_the_verdicts_say() -> None:
    """Its own reading of a few columns came and went within seconds."""
    values = np.full((6, 40), 0.8)
    values[np.arange(40) % 6, np.arange(40)] = 0.2
    assert "too early to say: 9 s of the 30 s" in text(_live(values[:, :10]))
    assert "judging" in text(_live(values))
    verdict = Verdict("rotating_stragglers", "info", "Another GPU holds up the others", (), "", "ours", 0.0, 1.0)
    for verdicts, says in ((), "balanced: no GPU stands out"), ((verdict,), "! Another GPU holds up the others"):
        drawn = text(_live(values, judgement=Judgement(verdicts, (), 0.0, 1.0)))
        assert says in drawn and "! rotates" not in drawn
    assert "! rotates" in text(Scene(frame_of(values, width=1.0), None, VIEW, 160, 46, UTF8))


@pytest.mark.parametrize("metric", ["sm_active", "power_usage"])
def test_of_a_run_that_grows_names_keep_their_order_over_differences_that_cannot_be_seen(metric: str) -> None:
    full = 700.0 if metric == "power_usage" else 1.0
    values = np.tile(full * (0.8 + 1e-4 * np.arange(12))[:, None], 40)
    orders, drawn = SteadyOrders(), []
    for second in range(4):  # two stragglers, lower than each other in turn
        values[[3, 7]] = full * np.array([[0.3 + 0.001 * (second % 2)], [0.301 - 0.001 * (second % 2)]])
        frame = frame_of(values, width=1.0, metric=metric, state="live")
        drawn.append(text(Scene(frame, None, VIEW, 160, 46, UTF8, orders=orders)))
    assert all("2 GPUs: nid000001:3, nid000002:3 below" in each for each in drawn)


def test_marks_are_those_of_the_list_of_gpus() -> None:
    """Whom the rules blame, who need not be the lowest, is marked in bars and lists."""
    frame = frame_of(np.tile([[0.8], [0.79], [0.81], [0.3], [0.82], [0.8]], 40))
    verdict = Verdict("straggler", "critical", "slow", (), "look", "ours", frame.first, frame.last, (4,))
    frame = replace(frame, judgement=Judgement((verdict,), (), frame.first, frame.last))
    drawn = text(Scene(frame, None, VIEW, 160, 46, UTF8))
    marked = [line for line in drawn.splitlines()[3:] if line.startswith(("!", " !", ">!"))]
    assert any("80-" in line for line in marked) and not any("30-" in line for line in marked), drawn


def test_enter_on_the_lowest_bar_selects_its_gpus(plants):
    scene = scene_of(plants["slow_node"], VIEW, 80, 22)
    view = balance.enter(scene)
    assert view is not None and view.screen == "gpus"
    assert (view.selection, view.selected) == ((8, 9, 10, 11), "nid000003")
    assert view.trail[-1] == VIEW


def test_the_cursor_stays_on_bars_that_hold_gpus(plants):
    scene = scene_of(plants["slow_node"], VIEW, 80, 22)
    up = balance.move(scene, 0, -1)
    assert up.row == 1 and balance.move(scene._replace(view=up), 0, -10_000).row == 1
    above = balance.enter(scene._replace(view=up))
    assert above is not None and len(above.selection) == 28
    assert balance.move(scene._replace(view=up), 0, 10_000).row == 0


def test_the_bar_under_the_mouse_is_taken_and_then_opened(plants):
    scene = scene_of(plants["slow_node"], VIEW, 80, 22)
    rows = [text_of(row) for row in balance.draw(scene)]
    line = next(y for y, row in enumerate(rows) if " 80- 90" in row)
    taken = balance.click(scene, 5, line)
    assert taken is not None and taken.row == 1
    opened = balance.click(scene._replace(view=taken), 5, line)
    assert opened is not None and opened.screen == "gpus"
    assert balance.click(scene, 5, line + 2) is None  # holds none
    assert balance.click(scene, 79, line) is None


def test_a_selection_is_balanced_by_itself(plants):
    view = replace(VIEW, selection=(8, 9, 10, 11), selected="nid000003")
    drawn = text(scene_of(plants["slow_node"], view, 80, 22))
    assert "nid000003 (4 GPUs)" in drawn and "balanced" in drawn


def test_missing_is_blank_and_zero_is_not(plants):
    scene = scene_of(plants["healthy"], VIEW, 80, 22)
    grid = scene.frame.grid
    gone, idle = grid.values.copy(), grid.values.copy()
    gone[:, :5], idle[:, :5] = np.nan, 0.0
    drawn = []
    for values in (gone, idle):
        frame = replace(scene.frame, grid=replace(grid, values=values), space=over_space(values))
        drawn.append(text(scene._replace(frame=frame)))
    assert drawn[0] != drawn[1]
