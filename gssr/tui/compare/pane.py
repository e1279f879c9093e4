"""Compare: was another run better?"""

from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult

from gssr.model.live.frame import Frame, Query
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.screen_rows import ScreenRows
from gssr.tui.view import View


class ComparePane(ScreenPane):
    """Was another run better?"""

    screen_name, title, question = "compare", "Compare", "Was another run better?"

    def compose(self) -> ComposeResult:
        """One drawing."""
        yield ScreenRows("compare")

    def asks(self, query: Query) -> Query:
        """See ScreenPane."""
        return replace(query, tables=True)

    def show(self, results: Sequence[Frame], view: View) -> None:
        """See ScreenPane."""
        self.query_one(ScreenRows).show_all(results, view)
