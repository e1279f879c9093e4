"""A screen of the app: what it asks of the recording, and what it does with the results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import on
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from gssr.model.live.live_result import Query, Result
from gssr.tui.shared.live_app import LiveApp
from gssr.tui.shared.messages import Opened
from gssr.tui.view import ScreenName, View


class ScreenPane(Container):
    """What a tab holds. ``asks`` adds to the app's query what this screen needs while it is in sight; ``show`` draws the
    newest results: that of the recording, and of the one that it is compared with."""

    app: LiveApp
    screen_name: ScreenName
    panels: ClassVar[tuple[type[Widget], ...]] = ()
    """The kinds of its widgets that show a result, one of each."""
    is_ready = False
    """Whether all its widgets are there."""
    _panels: Sequence[Any] = ()

    class Ready(Message):
        """All widgets of this pane are there."""

        def __init__(self, name: ScreenName) -> None:
            super().__init__()
            self.name = name

    def on_mount(self) -> None:
        """Say that results can be shown."""
        self.is_ready, self._panels = True, [self.query_one(each) for each in self.panels]
        self.post_message(self.Ready(self.screen_name))

    def columns(self, width: int) -> int:
        """How many columns of time the widest widget can show on a terminal of so many cells."""
        return max(width, 1)

    def asks(self, query: Query) -> Query:
        """The app's query with what this screen needs besides."""
        return query

    def show(self, results: Sequence[Result], view: View) -> None:
        """Draw the first result in all ``panels``."""
        for each in self._panels:
            each.show(results[0], view)

    @on(Opened, ".leads-to-gpu")
    def show_gpu(self, event: Opened) -> None:
        """Show all about a GPU, on GPUs."""
        self.app.go_to_screen(replace(self.app.view, screen="gpus"), event.item)

    def point_at(self, gpu: int) -> None:
        """Put the cursor on a GPU, where there is one."""

    def let_go(self) -> bool:
        """Let go of what is typed or marked on this screen alone; whether there was anything."""
        return False
