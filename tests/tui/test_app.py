"""The program around the screens: what is typed, found, taken away and clicked."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.command import CommandList, CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input

from gssr.model.live.watch import Watch
from gssr.render.glyphs import UTF8
from gssr.render.roles import text_of
from gssr.tui.app import LiveScreen

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


def test_escape_leaves_the_line_and_changes_nothing(plants: dict[str, str]) -> None:
    async def steps(app: LiveScreen, pilot: Pilot[int]) -> None:
        before = app.view
        await pilot.press("slash", "q", "escape", "m")
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
        await until(pilot, lambda: isinstance(app.screen, CommandPalette) and isinstance(app.focused, Input))

        def is_found() -> bool:
            found = app.screen.query_one(CommandList)
            return found.option_count > 0 and "imbalance costs" in str(found.get_option_at_index(0).prompt)

        await type_in(pilot, "imbalance costs", once=is_found)
        await until(pilot, lambda: app.view.screen == "balance")

    play([plants["healthy"]], steps)


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
