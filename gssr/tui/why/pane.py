"""Why: what keeps it from being saturated?"""

from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult

from gssr.model.live.frame import Frame, Query
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.screen_rows import ScreenRows
from gssr.tui.view import View


class WhyPane(ScreenPane):
    """What keeps it from being saturated?"""

    screen_name, title, question = "why", "Why", "What keeps it from being saturated?"

    def compose(self) -> ComposeResult:
        """One drawing."""
        yield ScreenRows("why")

    def asks(self, query: Query) -> Query:
        """See ScreenPane."""
        return replace(query, around=True)

    def show(self, results: Sequence[Frame], view: View) -> None:
        """See ScreenPane."""
        self.query_one(ScreenRows).show_all(results, view)
