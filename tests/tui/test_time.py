"""Time: when the GPUs were used and when not."""

from collections.abc import Callable
from dataclasses import replace

import frames
import looking
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looking import text_rows

from gssr.model.live.timeline import Timelines
from gssr.model.live.watch import Watch
from gssr.model.results import Judgement, StepTime
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import text_of
from gssr.store.format.rows import Event
from gssr.tui import shell
from gssr.tui.moves import MOVES
from gssr.tui.screens import time as screen
from gssr.tui.screens.time_lines import part_of, room
from gssr.tui.view import PAGE, Scene, View

NAN = np.nan


def scene_of(
    values: np.ndarray, view: View | None = None, width: int = 80, height: int = 22, glyphs: Glyphs = UTF8,
    **changes: object,
) -> Scene:  # fmt: skip
    view = view or View(screen="time")
    frame = frames.frame_of(values, **changes)
    query = view.query(values.shape[1], screen.rows(width, height))
    timeline = Timelines().show(query, frame.grid, frame.window, frame.gpus, frame.node_of, False)
    return Scene(replace(frame, timeline=timeline, query=query), None, view, width, height, glyphs)


def look(path: str, view: View, width: int, height: int, ascii_only: bool = False) -> Scene:
    """The screen as the program would show it, in a body of this size."""
    watch = Watch(path)
    query = view.query(screen.columns(view, width, height), screen.rows(width, height))
    frame = watch.look(query)
    watch.close()
    return Scene(frame, None, view, width, height, ASCII if ascii_only else UTF8)


def text(scene: Scene) -> str:
    return "\n".join(text_of(row) for row in screen.draw(scene))


def alike(n_gpus: int, n_columns: int = 40, level: float = 0.8) -> np.ndarray:
    return np.full((n_gpus, n_columns), level)


@pytest.mark.parametrize("size", ["40x8", "80x22", "160x46"])
def test_time_looks_as_it_did(plants: dict[str, str], golden: Callable[[str, str], None], size: str) -> None:
    width, height = map(int, size.split("x"))
    golden(
        f"time-{size}.txt",
        text_rows(screen.draw(look(plants["late_start"], View(screen="time"), width, height)), width),
    )


def test_the_cursor_looks_as_it_did(plants: dict[str, str], golden: Callable[[str, str], None]) -> None:
    scene = look(plants["io_dip"], View(screen="time"), 80, 22)
    view = View(screen="time", cursor=scene.frame.first + 250)
    golden("time-cursor-80x22.txt", text_rows(screen.draw(look(plants["io_dip"], view, 80, 22)), 80))


def test_ungrouped_in_ascii_looks_as_it_did(plants: dict[str, str], golden: Callable[[str, str], None]) -> None:
    view = View(screen="time", grouped=False)
    golden("time-ungrouped-ascii-80x22.txt", text_rows(screen.draw(look(plants["gap"], view, 80, 22, True)), 80))


@pytest.mark.parametrize("n_gpus", [1, 4, 33, 700])
@pytest.mark.parametrize("ascii_only", [False, True], ids=["utf8", "ascii"])
@settings(max_examples=15, deadline=None)
@given(
    width=st.integers(20, 300), height=st.integers(1, 100), n_columns=st.integers(1, 320), grouped=st.booleans(),
    row=st.integers(0, 800), cursor=st.sampled_from([None, 0.0, 0.5, 0.999, 2.0]), taller=st.integers(1, 100),
)  # fmt: skip
def test_nothing_is_drawn_outside_its_box(
    n_gpus: int, ascii_only: bool, width: int, height: int, n_columns: int, grouped: bool, row: int,
    cursor: float | None, taller: int,
) -> None:  # fmt: skip
    values = np.random.default_rng(n_columns).random((n_gpus, n_columns)) * 1.1
    values[values < 0.2] = NAN
    at = None if cursor is None else frames.START + cursor * n_columns * 10
    view = View(screen="time", grouped=grouped, row=row, cursor=at)
    glyphs = ASCII if ascii_only else UTF8
    looking.fits(scene_of(values, view, width, height, glyphs))
    looking.fits(scene_of(values, view, width, taller, glyphs).sized(width, height))  # made for another size


def test_a_straggler_has_a_line_of_its_own_with_its_name() -> None:
    values = alike(64)
    values[42] = 0.1
    lines = [line for line in text(scene_of(values)).splitlines() if line[2:3] in "AB" and line[2:3].strip()]
    assert lines[0].split()[:3] == [">", "A", "63"]
    assert lines[1].startswith(" !B") and "nid000011:2" in lines[1] and "10.0" in lines[1]


def test_missing_is_blank_and_zero_is_not() -> None:
    values = alike(4)
    values[1, 10:20], values[2, 10:20] = NAN, 0.0
    shown = text(scene_of(values, View(screen="time", grouped=False), height=14)).splitlines()
    gap, idle = (next(line for line in shown if f"nid000001:{i}" in line)[24:] for i in (1, 2))
    at = slice(10, 20)
    below = shown[shown.index(next(line for line in shown if "nid000001:2" in line)) + 0][24:]
    assert gap[at] == " " * 10
    assert idle[at] == "▁" * 10 or below[at].strip() == ""


def test_a_line_of_several_shows_that_one_of_them_is_low() -> None:
    values = alike(64)
    values[3, 10:20] = 0.05
    scene = scene_of(values, View(screen="time", grouped=False))
    rows = screen.draw(scene)
    first = next(row for row in rows if "nid000001:0" in text_of(row))
    roles = [span.role for span in first for _ in span.text][24:]
    assert all(role.startswith("low") for role in roles[10:20])
    assert not any(role.startswith("low") for role in roles[:10])
    tall = scene_of(values[:4], View(screen="time", grouped=False), height=6)
    assert "nid000001:0 +3" in text(tall) or room(80, 6).lines >= 4


def test_the_shares_are_those_of_the_column_under_the_cursor() -> None:
    values = alike(10)
    values[:2, 5], values[2, 5] = 0.1, 0.5
    shown = text(scene_of(values, View(screen="time", cursor=frames.START + 55)))
    assert "at 0:50 +10 s  10 GPUs  70 % busy, 10 % medium, 20 % idle" in shown
    values[:, 5] = 0.9
    values[0, 5] = 0.0
    assert "90 % busy" in text(scene_of(values, View(screen="time", cursor=frames.START + 55)))


def test_one_idle_gpu_of_a_thousand_is_not_rounded_away() -> None:
    values = alike(1000)
    values[17, 5:7] = 0.0
    shown = text(scene_of(values, View(screen="time", cursor=frames.START + 55)))
    assert ">99 % busy, 0 % medium, <1 % idle" in shown
    top = shown.splitlines()[next(i for i, line in enumerate(shown.splitlines()) if "busy >=66" in line)]
    assert top[24:].replace("│", "░")[5:7] == "░░" and "░" not in top[24:29]


def test_all_metrics_at_the_cursor_are_those_of_the_selection(plants: dict[str, str]) -> None:
    view = View(screen="time", selection=(26,), selected="nid000007:2")
    scene = look(plants["straggler"], view, 80, 22)
    scene = look(plants["straggler"], replace(view, cursor=scene.frame.first + 300), 80, 22)
    shown = text(scene)
    assert "nid000007:2" in shown
    value = scene.frame.moment["sm_active"]
    assert value is not None and value < 0.2 and f"{100 * value:.1f} %" in shown
    assert "64 GPUs" not in shown


def test_enter_goes_to_the_gpus_of_the_band() -> None:
    values = alike(64)
    values[42] = 0.1
    scene = scene_of(values)
    scene = scene._replace(view=screen.move(scene, 0, 1))
    view = screen.enter(scene)
    assert view is not None
    assert (view.screen, view.selection, view.selected, view.gpu) == ("gpus", (42,), "band B", 42)
    assert view.trail == (scene.view,)


@given(
    st.lists(st.sampled_from([(1, 0), (-1, 0), (0, 1), (0, -1), (0, PAGE), (0, -PAGE), (0, PAGE * PAGE)]), max_size=15),
    st.booleans(), st.sampled_from([1, 3, 33, 300]), st.integers(3, 40),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_both_cursors_stay_in_sight(steps: list[tuple[int, int]], grouped: bool, n_gpus: int, height: int) -> None:
    values = np.linspace(0.05, 0.95, n_gpus)[:, None] * np.ones(30)
    scene = scene_of(values, View(screen="time", grouped=grouped), height=height)
    for dx, dy in steps:
        scene = scene._replace(view=screen.move(scene, dx, dy))
        part = part_of(scene)
        assert part is not None and part.line in part.lines()
        assert scene.view.cursor is None or part.cursor is not None


def test_events_are_marked_where_they_lie() -> None:
    events = (
        Event(frames.START + 100, "n", 1, 0, "gap", "late"),
        Event(frames.START + 101, "n", 1, 0, "mark", "here"),
        Event(frames.START + 250, "n", 1, 0, "mark", "there"),
        Event(frames.START + 9999, "n", 1, 0, "gap", "never"),
    )
    head = text(scene_of(alike(4), events=events)).splitlines()[1][24:]
    assert (head[10], head[25], head.split()) == ("g", "m", ["g", "m"])


def test_a_click_takes_both_cursors_and_another_goes_down() -> None:
    values = alike(64)
    values[42] = 0.1
    scene = scene_of(values)
    lines = text(scene).splitlines()
    y = next(i for i, line in enumerate(lines) if line.startswith(" !B"))
    view = screen.click(scene, 24 + 7, y)
    assert view is not None and (view.row, view.cursor) == (1, frames.START + 75)
    down = screen.click(scene._replace(view=view), 2, y)
    assert down is not None and down.selection == (42,)


def test_zoom_keeps_the_time_under_the_cursor_where_it_is(plants: dict[str, str]) -> None:
    watch = Watch(plants["io_dip"])

    def shown(view: View) -> Scene:
        scene = Scene(watch.look(shell.query(view, 80, 24)), None, view, 80, 24, UTF8)
        return scene.sized(*shell.body_size(view, 80, 24))

    scene = shown(View(screen="time"))
    scene = shown(replace(scene.view, cursor=scene.frame.first + 250))
    time = scene.view.cursor
    for action in ("zoom_in", "zoom_in", "zoom_in", "zoom_out"):
        before = part_of(scene)
        scene = shown(MOVES[action](scene))
        after = part_of(scene)
        assert before and after and before.cursor is not None and after.cursor is not None
        assert scene.view.cursor == time
        assert abs(after.cursor / after.columns.n - before.cursor / before.columns.n) <= 0.06
    watch.close()


def test_a_frame_without_a_timeline_is_waited_for() -> None:
    scene = Scene(frames.frame_of(alike(4)), None, View(screen="time"), 80, 22, UTF8)
    assert "one moment" in text(scene)
    assert screen.enter(scene) is None and screen.click(scene, 30, 5) is None
    assert screen.move(scene, 0, 1) == scene.view


def test_the_length_of_a_step_has_a_line_where_it_is_known() -> None:
    step = StepTime(1.62, 0.003, 20.0, 0.25, ((0.0, 1.5), (20.0, 1.875)))
    bare = scene_of(alike(8), width=120, height=30)
    frame = bare.frame
    judgement = Judgement(
        (), (), frame.first, frame.last, replace(step, series=((frame.first, 1.5), (frame.last, 1.9)))
    )
    scene = bare._replace(frame=replace(frame, judgement=judgement))
    assert "step 1.62 s" in text(scene)
    assert len(screen.draw(scene)) == len(screen.draw(bare)) == 30
    assert "step" not in text(bare)
    assert "step" not in text(bare._replace(frame=replace(frame, judgement=replace(judgement, step=None))))
    at = scene._replace(view=replace(scene.view, cursor=frame.first + 1.0))
    assert "step 1.50 s" in text(at)
