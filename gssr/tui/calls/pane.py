"""Calls: what took the time?"""

from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult

from gssr.model.live.frame import Frame, Query
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.screen_rows import ScreenRows
from gssr.tui.view import View


class CallsPane(ScreenPane):
    """What took the time?"""

    screen_name, title, question = "calls", "Calls", "What took the time?"

    def compose(self) -> ComposeResult:
        """One drawing."""
        yield ScreenRows("calls")

    def asks(self, query: Query) -> Query:
        """See ScreenPane."""
        return replace(query, tables=True)

    def show(self, results: Sequence[Frame], view: View) -> None:
        """See ScreenPane."""
        self.query_one(ScreenRows).show_all(results, view)
