"""The program around the screens: what is typed, found, taken away and clicked."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import frames
import numpy as np
import pytest
from growing import STEP, Growing
from textual.pilot import Pilot
from textual.widgets import Static

from gssr.backends.synthetic.bulk import Request, generate
from gssr.model.live.watch import Watch
from gssr.render.cells import cell_width
from gssr.render.glyphs import UTF8
from gssr.render.roles import text_of
from gssr.tui.app import LiveScreen
from gssr.tui.palette import choices
from gssr.tui.view import LATELY, Scene, View

Steps = Callable[[LiveScreen, Pilot[int]], Awaitable[None]]


def play(paths: list[str], steps: Steps, size: tuple[int, int] = (80, 24)) -> None:
    """Run the program on these recordings, wait for its first frame, and do ``steps``."""

    async def run() -> None:
        app = LiveScreen([Watch(path) for path in paths], UTF8, 10.0, 256)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: bool(app.frames))
            await steps(app, pilot)

    asyncio.run(run())


async def until(pilot: Pilot[int], true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "never came true"
        await pilot.pause(0.02)


async def type_in(pilot: Pilot[int], text: str, once: Callable[[], bool] = lambda: True) -> None:
    """Type this, and press Enter ``once`` that is true."""
    for char in text:
        await pilot.press({"-": "minus", ".": "full_stop", ":": "colon", "/": "slash", " ": "space"}.get(char, char))
    await until(pilot, once)
    await pilot.press("enter")
    await pilot.pause()


def shown(app: LiveScreen) -> str:
    return "\n".join(text_of(row) for row in app._canvas.rows())


def test_what_is_typed_after_a_slash_filters(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("2", "slash")
        await type_in(pilot, "nid000007")
        assert app.view.filter == "nid000007"
        await until(pilot, lambda: "nid000007:2" in shown(app) and "nid000001:0" not in shown(app))
        await pilot.press("escape")
        assert app.view.filter == ""

    play([plants["straggler"]], steps)


def test_where_no_other_gpu_is_an_outlier_it_is_said(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("2", "n")
        assert "no other GPU" not in shown(app)
        await pilot.press("n")
        assert "no other GPU is unlike the rest" in shown(app)
        await pilot.press("f")  # of traces only
        assert "no other GPU" not in shown(app)

    play([plants["straggler"]], steps)


def test_a_command_that_is_advised_names_the_recording(tmp_path: Path) -> None:
    path = str(tmp_path / "run.sql")
    generate(Request(path, "imbalanced", 4, 1 / 60, 0.5))

    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("6")
        await until(pilot, lambda: "gssr analyze -plb FILE shows" in " ".join(shown(app).split()))
        app.file = "my run.sql"
        await pilot.press("3", "6")
        await until(pilot, lambda: "gssr analyze -plb 'my run.sql' shows" in " ".join(shown(app).split()))

    play([path], steps, (120, 40))


def test_escape_leaves_the_line_and_changes_nothing(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        before = app.view
        await pilot.press("slash", "q", "escape", "M")
        assert app.view.metric != before.metric
        assert app.view.filter == before.filter

    play([plants["healthy"]], steps)


def test_a_time_is_gone_to_and_no_time_is_told(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("4", "t")
        await type_in(pilot, "4:20")
        assert app.view.cursor == pytest.approx(app.frames[0].first + 260)
        await pilot.press("t")
        await type_in(pilot, "soon")
        assert "'soon' is not a time" in shown(app)

    play([plants["io_dip"]], steps)


@pytest.mark.parametrize("ending", ["txt", "png", "svg", "csv"])
def test_what_is_on_screen_is_written(
    plants: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("x")
        app._prompt.value = f"out.{ending}"
        await pilot.press("enter")
        await until(pilot, lambda: "written: " in shown(app))
        first = (tmp_path / f"out.{ending}").read_bytes()
        await pilot.press("x")
        app._prompt.value = f"out.{ending}"
        await pilot.press("enter")
        await until(pilot, lambda: "File exists" in shown(app))
        assert (tmp_path / f"out.{ending}").read_bytes() == first, "never overwritten"

    play([plants["healthy"]], steps)
    content = (tmp_path / f"out.{ending}").read_bytes()
    starts = {
        "txt": b"GSSR 4711 healthy",
        "png": b"\x89PNG",
        "svg": b"<svg ",
        "csv": b"time,seconds,sm_active nid000001:0",
    }
    assert content.startswith(starts[ending])


def test_another_ending_is_told(plants: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("x")
        app._prompt.value = "out.pdf"
        await pilot.press("enter")
        await until(pilot, lambda: "must end in .txt" in shown(app))

    play([plants["healthy"]], steps)
    assert not list(tmp_path.iterdir())


def test_the_screen_is_copied_as_text(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("y")
        assert app.clipboard.startswith("GSSR 4711 healthy")
        assert app.clipboard.count("\n") == 24

    play([plants["healthy"]], steps)


def test_an_action_is_found_by_its_words(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("colon")
        await type_in(pilot, "imbalance costs")
        assert app.view.screen == "balance"
        await pilot.press("colon")
        await type_in(pilot, "whole run")
        assert app.view.span is None
        await pilot.press("colon")
        await type_in(pilot, "no such thing")
        assert "nothing has this name" in shown(app)

    play([plants["healthy"]], steps)


def test_a_metric_is_picked_from_a_list_that_what_is_typed_narrows(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        before = app.view
        await pilot.press("m")
        assert "Metrics: " in shown(app) and "dram_active" in shown(app)
        await pilot.press("enter")
        assert app.view == replace(before, metric="sm_active"), "the one that is shown was picked already"
        before = app.view
        await pilot.press("m", "p", "o", "w", "e")
        assert "power_usage" in shown(app) and "dram_active" not in shown(app)
        await pilot.press("escape")
        assert app.view == before and "power_usage" not in shown(app)
        await pilot.press("m", "p", "o", "w", "enter")
        assert app.view == replace(before, metric="power_usage")
        await pilot.press("m", "down", "down", "up", "1", "q", "backspace", "backspace", "enter")
        assert app.view.screen == "job" and app.is_running
        await pilot.press("M")
        assert app.view.metric != "power_usage"

    play([plants["healthy"]], steps)


def test_the_mouse_chooses_in_a_list_and_closes_it_elsewhere(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        for typed in ("", "pc"):
            await pilot.press("m", *typed)
            rows = [text_of(row) for row in app._canvas.rows()]
            await pilot.click("Canvas", offset=(5, next(y for y, row in enumerate(rows) if "pcie_rx_bytes" in row)))
            await until(pilot, lambda: app.view.metric == "pcie_rx_bytes" and "Metrics" not in shown(app))
            await pilot.press("M")
            assert app.view.metric != "pcie_rx_bytes"
        before = app.view
        await pilot.press("colon", "o", "w", "e", "r")
        await pilot.click("Canvas", offset=(5, 0))
        await until(pilot, lambda: "Actions" not in shown(app))
        assert app.view == before
        await pilot.press("m", "tab", "s", "enter", "2")
        await until(pilot, lambda: app.view.screen == "gpus")

    play([plants["healthy"]], steps)


def test_a_gpu_and_a_node_are_found_by_their_names(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("colon")
        await type_in(pilot, "nid000007:2")
        frame = app.frames[0]
        assert app.view.screen == "gpus" and frame.place(app.view.gpu) == "nid000007:2" and not app.view.selection
        await pilot.press("colon")
        await type_in(pilot, "node nid000003")
        assert {frame.place(gpu) for gpu in app.view.selection} == {f"nid000003:{at}" for at in range(4)}
        assert app.view.selected == "nid000003"
        await pilot.press("colon")
        await type_in(pilot, "dram")
        assert app.view.metric == "dram_active"

    play([plants["straggler"]], steps)


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (200, 60)])
def test_a_list_is_drawn_on_any_terminal(plants: dict[str, str], size: tuple[int, int]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        for key in ("m", "colon"):
            await pilot.press(key, "pagedown", "pagedown", "x")
            rows = app._canvas.rows()
            assert len(rows) == size[1] and {cell_width(text_of(row)) for row in rows} == {size[0]}
            await pilot.press("escape")

    play([plants["healthy"]], steps, size)


def test_a_search_among_very_many_gpus_is_bounded() -> None:
    frame = frames.frame_of(np.full((10_000, 2), 0.5))
    scene = Scene(frame, None, View(), 80, 24, UTF8)
    assert 100 <= len(choices("palette", scene, "nid")) < 200
    assert [each.name for each in choices("palette", scene, "gpu nid002500:3")] == ["GPU nid002500:3"]


@pytest.mark.parametrize("over", ["question_mark", "e"])
def test_q_closes_what_lies_over_the_screen_before_it_leaves(plants: dict[str, str], over: str) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press(over, "q")
        assert app.view.overlay == "" and app.is_running
        await pilot.press("q")
        assert app.return_code == 0

    play([plants["healthy"]], steps)


@pytest.mark.parametrize(
    ("key", "label"), [("slash", "Filter:"), ("t", "Go to:"), ("x", "Save as:"), ("m", "Metric:"), ("colon", "Find:")]
)
def test_what_is_asked_for_has_a_name(plants: dict[str, str], key: str, label: str) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press(key)
        await until(pilot, lambda: str(app._prompt.query_one(Static).visual) == label)

    play([plants["healthy"]], steps)


@pytest.mark.parametrize(
    ("screen", "typed", "said"),
    [
        ("2", "xyz", "no GPU passes the filter xyz"),
        ("2", "nid*", "the filter nid* hides nothing: 64 of 64 GPUs pass"),
        ("1", "nid000007", "4 of 64 GPUs pass the filter: GPUs (2) and Map (3) show them"),
        ("2", "foo<3", "no metric 'foo'; write sm, dram, power or a full name"),
    ],
)
def test_a_filter_that_changes_nothing_in_sight_says_so(
    plants: dict[str, str], screen: str, typed: str, said: str
) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press(screen, "slash")
        app._prompt.value = typed
        await pilot.press("enter")
        assert text_of(app._canvas.rows()[-1]).rstrip() == said
        await pilot.press("slash")
        app._prompt.value = ""
        await pilot.press("enter")
        assert "q quit" in text_of(app._canvas.rows()[-1])

    play([plants["straggler"]], steps)


def test_a_click_on_a_screens_name_goes_there(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        footer = text_of(app._canvas.rows()[-1])
        await pilot.click("Canvas", offset=(footer.index("Map"), 23))
        await until(pilot, lambda: app.view.screen == "map")

    play([plants["healthy"]], steps)


def test_two_recordings_are_compared(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await pilot.press("7")
        await until(pilot, lambda: len(app.frames) == 2)
        scene = app.scene()
        assert scene is not None and scene.other is not None
        assert scene.other.path == plants["before"]

    play([plants["after"], plants["before"]], steps)


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path: Path, plants: dict[str, str]) -> None:
    path = tmp_path / "later.sql"

    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: f"waiting for {path}"[:60] in shown(app))
        path.write_bytes(Path(plants["healthy"]).read_bytes())
        await until(pilot, lambda: "ended (exit 0)" in shown(app))

    play([str(path)], steps)


def test_of_what_grows_the_last_minutes_are_shown_until_it_is_over_or_another_window_is_chosen(tmp_path: Path) -> None:
    run = Growing(tmp_path / "a.sql")
    run.grow(round(1.5 * LATELY / STEP))

    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.view.span == LATELY)
        await until(pilot, lambda: "last 5 min" in shown(app).splitlines()[0])
        await pilot.press("space")
        assert app.view.end is not None
        await pilot.press("space")  # to hold the view is to choose no window
        assert app.view.end is None
        await pilot.press("equals_sign")
        await until(pilot, lambda: "whole run" in shown(app).splitlines()[0])
        assert app.view.span is None
        await pilot.press("equals_sign")
        await until(pilot, lambda: "last 5 min" in shown(app).splitlines()[0])

    play([str(run.path)], steps)

    async def held_and_over(app: LiveScreen, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.view.span == LATELY)
        await pilot.press("space", "space")
        run.end()
        await until(pilot, lambda: app.view.span is None and "ended" in shown(app))

    play([str(run.path)], held_and_over)
