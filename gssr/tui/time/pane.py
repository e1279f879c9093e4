"""Time: when was it not used?"""

from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult

from gssr.model.live.frame import Frame, Query
from gssr.tui.screens.time import rows as timeline_rows
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.screen_rows import ScreenRows
from gssr.tui.view import View


class TimePane(ScreenPane):
    """When was it not used?"""

    screen_name, title, question = "time", "Time", "When was it not used?"

    def compose(self) -> ComposeResult:
        """One drawing."""
        yield ScreenRows("time")

    def asks(self, query: Query) -> Query:
        """See ScreenPane."""
        return replace(query, rows=timeline_rows(self.app.size.width, max(self.app.size.height - 3, 1)))

    def show(self, results: Sequence[Frame], view: View) -> None:
        """See ScreenPane."""
        self.query_one(ScreenRows).show_all(results, view)
