"""Job: the score, the metrics, the course over time, who is lowest."""

import re
from collections.abc import Callable
from dataclasses import replace

import frames
import looking
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looking import text_rows

from gssr.model.live.attention import culprits
from gssr.model.live.frame import Frame
from gssr.model.results import Judgement, Verdict
from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import text_of
from gssr.tui.screens import job
from gssr.tui.view import Scene, View

NAN = np.nan


def look(path: str, view: View, width: int, height: int, glyphs: Glyphs = UTF8) -> Scene:
    return looking.scene_of(path, view, width, height, ascii_only=glyphs is ASCII)


def scene_of(values: np.ndarray, view: View | None = None, width: int = 80, height: int = 22) -> Scene:
    return Scene(frames.frame_of(values), None, view or View(), width, height, UTF8)


def lines(scene: Scene) -> list[str]:
    return [text_of(row) for row in job.draw(scene)]


@pytest.mark.parametrize("size", ["40x8", "80x22", "160x46"])
def test_job_looks_as_it_did(plants: dict[str, str], golden: Callable[[str, str], None], size: str) -> None:
    width, height = map(int, size.split("x"))
    rows = job.draw(look(plants["straggler"], View(), width, height))
    golden(f"job-{size}.txt", text_rows(rows, width))


def test_job_in_ascii_with_a_cursor_looks_as_it_did(plants: dict[str, str], golden: Callable[[str, str], None]) -> None:
    scene = look(plants["io_dip"], View(), 80, 22, ASCII)
    view = replace(View(), cursor=scene.frame.first + 260)
    rows = job.draw(look(plants["io_dip"], view, 80, 22, ASCII))
    golden("job-cursor-ascii-80x22.txt", text_rows(rows, 80))


@pytest.mark.parametrize("n_gpus", [1, 3, 70])
@pytest.mark.parametrize("glyphs", [UTF8, ASCII], ids=["utf8", "ascii"])
@settings(max_examples=25)
@given(width=st.integers(20, 300), height=st.integers(1, 100), n_columns=st.integers(1, 320))
def test_nothing_is_drawn_outside_its_box(n_gpus: int, glyphs: Glyphs, width: int, height: int, n_columns: int) -> None:
    values = np.random.default_rng(n_columns).random((n_gpus, n_columns))
    values[values < 0.1] = NAN
    view = View(cursor=frames.START + 5 * n_columns)
    scene = Scene(frames.frame_of(values), None, view, width, height, glyphs)
    rows = job.draw(scene)
    assert len(rows) <= height
    for row in rows:
        assert len(text_of(row)) == cell_width(text_of(row)) <= width
        assert glyphs is UTF8 or text_of(row).replace("°", " ").isascii()


@pytest.mark.parametrize("size", [(20, 5), (40, 8), (59, 14), (80, 22), (300, 98)])
def test_score_chart_and_lowest_survive_in_every_size(size: tuple[int, int]) -> None:
    shown = lines(scene_of(np.tile([[0.8], [0.1], [0.7], [0.6]], 40), width=size[0], height=size[1]))
    assert any("score" in line for line in shown[:3])
    if size[1] >= 8:
        assert any("│" in line for line in shown)
        assert any("nid000001:1" in line and "10.0" in line for line in shown)


def test_the_score_says_where_it_comes_from() -> None:
    shown = "\n".join(lines(scene_of(np.full((4, 60), 0.5), height=34)))
    for said in ("whole run", "2,400 samples", "no gaps", "SM activity", "occupancy", "good"):
        assert said in shown
    assert "last 60 s" not in shown  # of a run that is over that would be its shutdown


def test_a_living_run_has_now_beside_its_means() -> None:
    frame: Frame = frames.frame_of(np.full((2, 60), 0.5), state="live")
    now = replace(frame.recent, total=frame.recent.total * 0.5)
    shown = "\n".join(lines(Scene(replace(frame, recent=now), None, View(), 120, 30, UTF8)))
    assert "now" in shown and "(last 60 s)" in shown
    assert re.search(r" sm +25\.0 % +50\.0 %", shown)


def test_an_unknown_score_is_no_zero() -> None:
    frame = frames.frame_of(np.full((4, 6), 0.5))
    bare = replace(frame.whole, names=("sm_active",), n=frame.whole.n[:1], total=frame.whole.total[:1])
    scene = Scene(replace(frame, whole=bare, recent=bare, window=bare), None, View(), 80, 34, UTF8)
    shown = lines(scene)
    score = next(line for line in shown if line.startswith(" sm "))
    assert score.startswith(" sm    25.0 %")  # what was best measured stands there
    assert any("score unknown" in line and "was not measured" in line for line in shown)
    nothing = replace(frame, whole=(none := replace(bare, n=0 * bare.n)), recent=none, window=none)
    shown = lines(Scene(nothing, None, View(), 80, 22, UTF8))
    score = next(line for line in shown if "score" in line)
    assert score.split()[:2] == ["score", "unknown"] and "0.0 %" not in score


def test_above_64_gpus_the_band_is_of_percentiles_and_says_so() -> None:
    few, many = (lines(scene_of(np.random.default_rng(1).random((n, 40)))) for n in (64, 65))
    assert any("low to high" in line for line in few)
    assert all(any(said in line for line in many) for said in ("p05 to p95", "lowest", "median GPU"))


def test_a_selection_is_named_and_nothing_else_counts() -> None:
    values = np.tile([[0.8], [0.8], [0.8], [0.8], [0.2], [0.2]], 20)
    shown = lines(scene_of(values, View(selection=(4, 5), selected="nid000002")))
    assert any("nid000002 (2 GPUs)" in line for line in shown)
    assert not any("nid000001:" in line for line in shown if "events" not in line)
    assert any(" sm " in line and "20.0 %" in line for line in shown)


def test_a_missing_metric_has_no_bar_and_zero_has_one() -> None:
    row = next(line for line in lines(scene_of(np.zeros((2, 10)))) if line.startswith(" sm "))
    assert "0.0 %" in row and "─" in row.split("0.0 %")[1][:8]
    assert not any(" dram" in line for line in lines(scene_of(np.zeros((2, 10)))))
    silent = np.array([[0.0], [np.nan]]).repeat(10, axis=1)
    row = [line for line in lines(scene_of(silent, View(selection=(1,)))) if line.startswith(" sm ")][-1]
    assert row.split()[1] == "-"


def test_the_time_cursor_names_its_column() -> None:
    values = np.full((3, 30), 0.5)
    values[:, 7] = [0.1, 0.2, 0.6]
    shown = lines(scene_of(values, View(cursor=frames.START + 72)))
    assert any("0:01:10 +10 s: 30.0 (10.0 to 60.0)" in line for line in shown)


def test_columns_that_are_over_never_change() -> None:
    values = np.random.default_rng(3).random((4, 40))
    later = values.copy()
    later[:, 35:] = 0.99
    charts = [[line[5:40] for line in lines(scene_of(each)) if "│" in line] for each in (values, later)]
    assert charts[0] == charts[1] and charts[0]


def test_enter_leads_to_the_gpu_under_the_cursor_and_back() -> None:
    scene = scene_of(np.tile([[0.8], [0.1], [0.7], [0.6]], 10))
    scene = scene._replace(view=job.move(scene, 0, 1))
    view = job.enter(scene)
    assert view is not None and (view.screen, view.gpu) == ("gpus", 3) and view.trail[-1] == scene.view


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(-3, 3)), max_size=12))
def test_moves_stay_in_range(steps: list[tuple[int, int]]) -> None:
    scene = scene_of(np.random.default_rng(2).random((9, 30)))
    for dx, dy in steps:
        scene = scene._replace(view=job.move(scene, dx, dy))
        view, frame = scene.view, scene.frame
        assert 0 <= view.row < 3
        assert view.cursor is None or frame.first <= view.cursor <= frame.last


def test_every_click_is_understood() -> None:
    scene = scene_of(np.random.default_rng(2).random((9, 30)))
    shown = lines(scene)
    for y in range(22):
        for x in range(0, 80, 7):
            view = job.click(scene, x, y)
            if view is not None and view.cursor is not None:
                assert "│" in shown[y] or "0:00" in shown[y] or "SM active" in shown[y]
                assert scene.frame.grid.start <= view.cursor < scene.frame.grid.end
            elif view is not None:
                assert "nid" in shown[y]


def judged(values: np.ndarray, *blamed: int) -> Frame:
    """A frame whose worst verdict blames these GPUs."""
    frame: Frame = frames.frame_of(values)
    verdict = Verdict("straggler", "critical", "slow", (), "look", "ours", frame.first, frame.last, blamed)
    return replace(frame, judgement=Judgement((verdict,), (), frame.first, frame.last))


@pytest.mark.parametrize("glyphs", [UTF8, ASCII], ids=["utf8", "ascii"])
def test_those_whom_the_rules_blame_come_first_and_have_a_line_of_their_own(glyphs: Glyphs) -> None:
    """A culprit is not always the lowest: what spins while all others wait for it is the busiest."""
    values = np.tile([[0.1], [0.2], [0.1], [0.9], [0.1], [0.2], [0.1], [0.2]], 40)
    scene = Scene(judged(values, 3), None, View(), 120, 38, glyphs)
    drawn = job.draw(scene)
    listed = [line for line in map(text_of, drawn) if re.match(r"[ !]  ?nid", line)]
    assert listed[0].startswith("! nid000001:3") and not any(line.startswith("!") for line in listed[1:])
    chart = [span.text for row in drawn[: -len(listed)] for span in row if span.role == "outlier"]
    assert any("nid000001:3" in text for text in chart), chart
    assert len([text for text in chart if set(text) & set("⠒⠤⣀⠉x")]) > 0, chart


def test_a_verdict_on_most_gpus_blames_none_of_them() -> None:
    assert culprits(judged(np.full((8, 10), 0.5), *range(6))) == ()
    assert culprits(judged(np.full((8, 10), 0.5), 1, 2)) == (1, 2)


def test_strips_stand_under_the_columns_of_the_chart() -> None:
    values = np.full((5, 50), 0.8)
    values[:, 30] = 0.0
    for width in (80, 120):
        shown = lines(scene_of(values, width=width, height=38))
        strip = next(line for line in shown if "nid000001:0" in line)
        assert strip.rindex("▁") == job.left(width) + 30
