"""Every action is handled, every key works on every screen, and no move leaves the run."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from growing import Growing
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.model.live.frame import Frame
from gssr.model.live.watch import Watch
from gssr.model.statistics.grid import JUMPS, choose_width
from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8
from gssr.render.roles import text_of
from gssr.tui import shell
from gssr.tui.actions import ACTIONS, BY_NAME, KEY_NAMES, footer_of, offered, shown_keys
from gssr.tui.app import LiveScreen
from gssr.tui.moves import MOVES, go_to, measured, played
from gssr.tui.screens import SCREENS
from gssr.tui.view import Scene, View

LEAVING = {"quit", "interrupt"}
IN_THE_APP = LEAVING | {"palette", "next_other", "filter", "go_to", "export", "keep", "copy", "metrics", "suspend"}
TIME = ("zoom_in", "zoom_out", "zoom_all", "step_back", "step_forward", "leap_back", "leap_forward", "pause", "play",
        "left", "right", "back")  # fmt: skip


@pytest.fixture(scope="module")
def watches(plants: dict[str, str]) -> Iterator[dict[str, Watch]]:
    """Open recordings, by name."""
    found = {name: Watch(plants[name]) for name in ("straggler", "gap", "before", "after")}
    yield found
    for watch in found.values():
        watch.close()


def _scene(watch: Watch, view: View, width: int = 80, height: int = 24, other: Frame | None = None) -> Scene:
    """What the program would show for this view."""
    frame = watch.look(shell.query(view, width, height))
    return Scene(frame, other, view, width, height, UTF8)


def _moved(name: str, scene: Scene) -> View:
    return MOVES[name](scene.sized(*shell.body_size(scene.view, scene.width, scene.height)))


# The table


def test_every_action_is_handled_once() -> None:
    names = [action.name for action in ACTIONS]
    assert len(names) == len(set(names))
    assert set(names) == set(MOVES) | IN_THE_APP
    assert not set(MOVES) & IN_THE_APP


def test_no_key_means_two_things() -> None:
    assert [key for key, n in Counter(key for action in ACTIONS for key in action.keys).items() if n > 1] == []


def test_every_key_is_written_for_people() -> None:
    for action in ACTIONS:
        assert not {key for key in action.keys if len(key) > 1} - {*KEY_NAMES, "space"}, action.name
        assert shown_keys(action) and action.help and not action.help.endswith(".")


def test_only_what_would_be_gone_can_be_kept() -> None:
    for passing in (False, True):
        assert ("keep" in {action.name for action in offered(False, passing)}) == passing
        assert all(("keep" in {action.name for action in footer_of(screen.name, False, passing)}) == passing
                   for screen in SCREENS)  # fmt: skip


def test_the_footer_names_only_what_works_on_its_screen() -> None:
    for screen in SCREENS:
        shown = footer_of(screen.name)
        assert all(not action.screens or screen.name in action.screens for action in shown)
        assert {"quit", "help", "pause"} <= {action.name for action in shown}


# Time


def _inside_the_run(scene: Scene) -> None:
    view, frame = scene.view, scene.frame
    grid = frame.grid
    assert view.end is None or frame.first < view.end <= frame.last + grid.width
    assert view.span is None or view.span > 0
    assert view.cursor is None or frame.first <= view.cursor <= frame.last
    assert grid.start <= frame.last and grid.end > frame.first
    assert view.metric in ("", *measured(scene))


@settings(max_examples=40)
@given(
    st.sampled_from(("straggler", "gap")),
    st.sampled_from([screen.name for screen in SCREENS]),
    st.lists(st.sampled_from(TIME), max_size=25),
)
def test_no_way_through_time_leaves_the_run(watches, name, screen, moves):
    view = View(screen=screen)
    for move in moves:
        view = _moved(move, _scene(watches[name], view))
        _inside_the_run(_scene(watches[name], view))


@settings(max_examples=40)
@given(st.integers(1, 5), st.booleans(), st.floats(0.2, 0.8), st.integers(40, 200))
def test_zooming_in_and_out_again_gives_back_the_window(watches, depth, paused, share, width):
    watch = watches["gap"]
    frame = _scene(watch, View(), width).frame
    view = View(screen="time", cursor=frame.first + share * (frame.last - frame.first) if paused else None)
    trace = [view]
    for _ in range(depth):
        view = _moved("zoom_in", _scene(watch, view, width))
        if view == trace[-1]:
            break  # as fine as it gets
        trace.append(view)
    for before in reversed(trace[:-1]):
        view = _moved("zoom_out", _scene(watch, view, width))
        assert view.span == (None if before.span is None else pytest.approx(before.span))
        assert view.end == (None if before.end is None else pytest.approx(before.end))


@pytest.mark.parametrize("most_rows", (300_000, 10_000, 6_000))
def test_zooming_in_ends_at_the_finest_columns_that_can_be_read(watches, monkeypatch, most_rows) -> None:
    monkeypatch.setattr("gssr.model.statistics.grid.MOST_ROWS", most_rows)
    view = View(screen="time")
    for _ in range(30):
        view = _moved("zoom_in", _scene(watches["straggler"], view))
    frame = _scene(watches["straggler"], view).frame
    n = frame.grid.n
    assert view.span is None or view.span == pytest.approx(n * frame.grid.width)
    assert _moved("zoom_in", _scene(watches["straggler"], view)) == view
    finer = [width for width in (2.0, 5.0, 10.0) if width < frame.grid.width]
    assert not [width for width in finer if choose_width(width * n, n, 1.0, frame.n_gpus) == width]


def test_a_zoom_keeps_the_cursor_where_it_is_on_screen(watches) -> None:
    scene = _scene(watches["gap"], View(screen="time", cursor=None), 120)
    grid = scene.frame.grid
    view = replace(scene.view, cursor=grid.start + 0.4 * (grid.end - grid.start))
    for _ in range(3):
        before = _scene(watches["gap"], view, 120).frame.grid
        view = _moved("zoom_in", _scene(watches["gap"], view, 120))
        after = _scene(watches["gap"], view, 120).frame.grid
        shares = [(view.cursor - grid.start) / (grid.end - grid.start) for grid in (before, after)]
        assert shares[0] == pytest.approx(shares[1], abs=2.5 / after.n)


@pytest.mark.parametrize(("there", "back"), (("step_back", "step_forward"), ("leap_back", "leap_forward")))
def test_a_step_and_one_back_gives_back_the_window(watches, there, back) -> None:
    frame = _scene(watches["gap"], View()).frame
    view = View(screen="time", span=60.0, end=frame.first + 200.0)
    moved = _moved(there, _scene(watches["gap"], view))
    assert moved.end < view.end
    again = _moved(back, _scene(watches["gap"], moved))
    assert again.end == pytest.approx(view.end)


def test_stepping_on_far_enough_follows_the_newest_sample_again(watches) -> None:
    view = View(screen="time", span=60.0)
    view = _moved("leap_back", _scene(watches["gap"], view))
    assert view.end is not None
    for _ in range(3):
        view = _moved("leap_forward", _scene(watches["gap"], view))
    assert view.end is None


def test_stepping_back_ends_at_the_beginning(watches) -> None:
    view = View(screen="time", span=60.0)
    for _ in range(40):
        view = _moved("leap_back", _scene(watches["gap"], view))
    frame = _scene(watches["gap"], view).frame
    assert view.end == pytest.approx(frame.first + 60.0)
    assert frame.grid.start <= frame.first + frame.grid.width


def test_pausing_holds_the_window_while_the_run_grows_and_goes_on(tmp_path: Path) -> None:
    run = Growing(tmp_path / "a.sql")
    run.grow(200)
    watch = Watch(str(run.path))
    for view in (View(screen="time"), View(screen="time", span=30.0)):
        scene = _scene(watch, view)
        paused = _moved("pause", scene)
        before = _scene(watch, paused).frame
        assert (before.grid.n, before.grid.width) == (scene.frame.grid.n, scene.frame.grid.width)
        moved = (scene.frame.grid.start - before.grid.start) / before.grid.width
        assert 0 <= moved < max(before.grid.n // JUMPS, 1)
        newest = before.grid.column(before.last)  # it fills up, and no other one does
        for ticks in (100, 400):
            run.grow(ticks)
            after = _scene(watch, paused).frame
            assert (after.grid.start, after.grid.width) == (before.grid.start, before.grid.width)
            np.testing.assert_array_equal(after.grid.values[:, :newest], before.grid.values[:, :newest])
            assert np.isnan(after.grid.values[:, newest + 1 :]).all()
            assert np.isnan(after.space.high[newest + 1 :]).all()
            assert after.recent.end < before.last + after.grid.width and after.window.end <= after.recent.end
            assert not after.following
        went_on = _moved("pause", _scene(watch, paused))
        assert went_on.end is None and _scene(watch, went_on).frame.following
    watch.close()


def test_playing_goes_from_the_beginning_to_the_newest_sample_and_stops(watches) -> None:
    watch = watches["gap"]
    view = _moved("play", _scene(watch, View(screen="time")))
    assert view.speed > 0 and view.end < _scene(watch, view).frame.first + 60
    ends = [view.end]
    while view.speed:
        view = played(_scene(watch, replace(view, speed=60.0)), 0.5)
        ends.append(view.end)
    assert ends[-1] is None and ends[:-1] == sorted(ends[:-1]) and len(ends) > 10


@pytest.mark.parametrize(
    ("text", "seconds"), (("90", 90), ("5m", 300), ("1:30", 90), ("-60", 339), ("0", 0), ("9999", 399))
)
def test_go_to_a_time_puts_the_cursor_there_and_in_sight(watches, text, seconds) -> None:
    for view in (View(screen="time"), View(screen="time", span=40.0), View(screen="time", span=40.0, end=None)):
        scene = _scene(watches["gap"], view)
        view = go_to(scene, text)
        frame = _scene(watches["gap"], view).frame
        assert view.cursor - frame.first == pytest.approx(seconds)
        assert frame.grid.start <= view.cursor < frame.grid.end


# Everything


@settings(max_examples=60)
@given(
    st.sampled_from(("straggler", "gap", "before")),
    st.lists(st.sampled_from(sorted(MOVES)), max_size=25),
    st.sampled_from(((20, 5), (40, 10), (80, 24), (120, 40), (200, 60))),
    st.booleans(),
)
def test_whatever_is_pressed_a_screen_of_the_right_size_is_drawn(watches, name, moves, size, ascii_only):
    other = watches["after"].look(shell.query(View(screen="compare"), *size)) if name == "before" else None
    view = View()
    for move in ["", *moves]:
        scene = _scene(watches[name], view, *size, other=other)._replace(glyphs=ASCII if ascii_only else UTF8)
        view = _moved(move, scene) if move else view
        scene = _scene(watches[name], view, *size, other=other)._replace(glyphs=scene.glyphs)
        rows = shell.draw(scene)
        assert len(rows) == size[1]
        assert {cell_width(text_of(row)) for row in rows} == {size[0]}
        assert not ascii_only or all(text_of(row).isascii() for row in rows)
        _inside_the_run(scene)


def _press_everything(paths: list[str], size: tuple[int, int]) -> None:
    """Every key on every screen, one after another; then those that ask something, and out."""

    async def press(app: LiveScreen, *keys: str) -> None:
        for key in keys:
            app.simulate_key(key)
            await asyncio.sleep(0.002)

    async def run() -> None:
        app = LiveScreen([Watch(path) for path in paths], UTF8, 10.0, 16)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.1)
            for screen in SCREENS:
                here = BY_NAME[f"screen_{screen.name}"].keys
                for action in ACTIONS:
                    if action.name not in IN_THE_APP and action.category != "Screens":
                        for key in action.keys:
                            await press(app, *here, key)
                await pilot.pause()
                assert app.is_running
            for name in sorted(IN_THE_APP - LEAVING):
                for key in BY_NAME[name].keys:
                    await press(app, key)
                    await pilot.pause()
                    await press(app, "escape")
            await pilot.pause()
            assert app.is_running
            await pilot.press("q")
        assert app.return_code == 0

    asyncio.run(run())


@pytest.mark.parametrize("size", ((80, 24), (20, 5)))
def test_every_key_works_on_every_screen(plants: dict[str, str], size: tuple[int, int]) -> None:
    _press_everything([plants["before"], plants["after"]], size)


def test_every_key_works_while_there_is_nothing_yet(tmp_path: Path) -> None:
    _press_everything([str(tmp_path / "a.sql")], (80, 24))
