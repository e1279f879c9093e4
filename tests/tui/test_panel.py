"""A panel is drawn anew only where its lines have changed."""

import asyncio
from typing import Any

from textual.strip import Strip

from gssr.render.glyphs import UTF8
from gssr.render.roles import Row, Span
from gssr.tui.shared.live_app import LiveApp
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.themes import Palette


class CountingPanel(RowsPanel):
    """Three lines of text; ``rendered`` holds the numbers of those that Textual has asked for."""

    def __init__(self) -> None:
        super().__init__(classes="panel")
        self.texts = ["one", "two", "three"]
        self.rendered: list[int] = []

    def rows(self, _result: Any, _width: int, height: int) -> list[Row]:
        rows: list[Row] = [(Span(text),) for text in self.texts]
        return rows[:height]

    def render_line(self, y: int) -> Strip:
        self.rendered.append(y)
        return super().render_line(y)


class OnePanel(LiveApp):
    CSS = "CountingPanel { height: 5; border: round white; }"
    glyphs = UTF8

    @property
    def palette(self) -> Palette:
        return Palette.of(self, False)

    def compose(self) -> Any:
        yield CountingPanel()


def test_only_lines_that_have_changed_are_drawn_anew_and_a_title_draws_its_border_alone() -> None:
    async def run() -> None:
        async with OnePanel().run_test(size=(20, 6)) as pilot:
            panel = pilot.app.query_one(CountingPanel)

            async def rendered_after_a_look() -> list[int]:
                panel.rendered.clear()
                panel.show(object(), object())  # type: ignore[arg-type]
                await pilot.pause(0.1)
                return sorted(panel.rendered)

            panel.border_title = "[numbers]"
            assert await rendered_after_a_look() == [0, 1, 2]
            assert await rendered_after_a_look() == []
            panel.border_title = "[numbers]"
            assert await rendered_after_a_look() == []
            panel.texts[1] = "second"
            assert await rendered_after_a_look() == [1]
            assert "second" in panel.render_line(1).text
            panel.border_title, panel.border_subtitle = "words", "below"
            assert await rendered_after_a_look() == [], "only the border is drawn"
            picture = pilot.app.export_screenshot()
            assert "words" in picture and "below" in picture and "numbers" not in picture
            pilot.app.theme = "textual-light"
            await pilot.pause(0.1)
            assert set(panel.rendered) == {0, 1, 2}

    asyncio.run(run())
