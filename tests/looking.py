"""The live screen as its user works and sees it, without a terminal."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace

from textual.pilot import Pilot
from textual.widgets import Tabs

import gssr.report.plotext_chart  # noqa: F401  or the first chart of a process comes later than the rest
from gssr.model.live.judge import answer, asked_of
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watch import Watch
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.verdicts.rules import TABLE
from gssr.render.glyphs import UTF8, Glyphs
from gssr.tui.app import LiveScreen
from gssr.tui.export import picture_of
from gssr.tui.shared.tabs import TABS
from gssr.tui.view import View

Work = Callable[[Pilot[int]], Awaitable[None]]


def judged(path: str, query: Query) -> Result:
    """A recording as the screen sees it once it is judged."""
    with closing(WatchedRecording(path)) as watch:
        frame = watch.look(replace(query, causes=TABLE))
    asked = asked_of(frame)
    return frame if asked is None else answer(asked).added_to(frame)


class Fixed(Watch):
    """What is watched where a result was made by hand."""

    growing = False
    arrived = 0.0

    def __init__(self, result: Result) -> None:
        self.path, self._result = result.path, result

    def read_result(self, query: Query, quick: bool) -> Result:  # noqa: ARG002 - as all that can be watched
        return replace(self._result, query=query)

    def close(self) -> None:
        pass


def live_screen(
    *watched: str | Watch, glyphs: Glyphs = UTF8, colors: int = 256, view: View | None = None
) -> LiveScreen:
    """The live screen of recordings by their paths, or of what is watched otherwise."""
    watches = [WatchedRecording(each) if isinstance(each, str) else each for each in watched]
    app = LiveScreen(watches, glyphs, 10.0, colors)
    app.view = view or app.view
    return app


def work(app: LiveScreen, steps: Work, size: tuple[int, int] = (120, 40)) -> None:
    """Do the steps once there are results."""

    first: list[BaseException] = []

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            try:
                await until(pilot, lambda: bool(app.results) and app.results[0].n_rows > 0)
                await steps(pilot)
            except BaseException as error:
                first.append(error)  # an app that is left in the middle of its work may fail as well
                raise

    try:
        asyncio.run(run())
    except Exception as error:
        if first and first[0] is not error:
            raise first[0] from error
        raise


async def until(pilot: Pilot[int], true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it, and for what it leads to."""
    for _ in range(int(seconds / 0.05)):
        if true():
            await pilot.pause(0.1)
            return
        await pilot.pause(0.05)
    raise AssertionError("it never came")


async def open_tab(pilot: Pilot[int], app: LiveScreen, digit: str) -> None:
    """Press a tab's digit, and wait until the tab is there."""
    await pilot.press(digit)
    name = TABS[int(digit) - 1].name
    await until(pilot, lambda: app.view.screen == app.query_one("#tabs", Tabs).active == name and app.pane.is_ready)


def seen(app: LiveScreen) -> str:
    """What stands on the terminal."""
    return picture_of(app.export_screenshot()).text()


def looked_at(
    *watched: str | Watch, views: Sequence[View], size: tuple[int, int] = (100, 30), glyphs: Glyphs = UTF8
) -> list[str]:
    """What stands on the terminal with each of these views, one after another."""
    app, texts = live_screen(*watched, glyphs=glyphs, view=views[0]), []

    async def steps(pilot: Pilot[int]) -> None:
        for view in views:
            app.go_to_screen(view)
            await until(pilot, lambda view=view: app.results[0].refined and _is_shown(app, view))  # type: ignore[misc]
            texts.append(seen(app))

    work(app, steps, size)
    return texts


def _is_shown(app: LiveScreen, view: View) -> bool:
    """Whether the view's tab is there, which is made when it is first gone to, and the results are those it asked for."""
    query, tab = app.results[0].query, app.query_one("#tabs", Tabs).active
    asked = (query.metric, query.cursor, query.gpus, query.level)
    return tab == view.screen and app.pane.is_ready and asked == (view.metric, view.cursor, view.selection, view.level)
