"""Balance: what does imbalance cost?"""

from collections.abc import Sequence

from textual.app import ComposeResult

from gssr.model.live.frame import Frame, Query
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.screen_rows import ScreenRows
from gssr.tui.view import View


class BalancePane(ScreenPane):
    """What does imbalance cost?"""

    screen_name, title, question = "balance", "Balance", "What does imbalance cost?"

    def compose(self) -> ComposeResult:
        """One drawing."""
        yield ScreenRows("balance")

    def asks(self, query: Query) -> Query:
        """See ScreenPane."""
        return query

    def show(self, results: Sequence[Frame], view: View) -> None:
        """See ScreenPane."""
        self.query_one(ScreenRows).show_all(results, view)
