"""Why: what keeps it from being saturated? The verdicts as cards, where the GPU time went, and the numbers behind."""

from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from gssr.model.live.frame import Frame, Query
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.view import View
from gssr.tui.why.account import Account
from gssr.tui.why.against_all import AgainstAll
from gssr.tui.why.around import Around
from gssr.tui.why.causes import Causes


class WhyPane(ScreenPane):
    """What keeps it from being saturated?"""

    screen_name = "why"

    def compose(self) -> ComposeResult:
        """Left what is wrong and what to do, right the account and the numbers."""
        with Horizontal(id="why-body"):
            yield Causes(id="causes", classes="panel")
            with Vertical(id="why-right"):
                yield Account(id="account", classes="panel")
                yield AgainstAll(id="against-all", classes="panel")
                yield Around(id="around", classes="panel")

    def asks(self, query: Query) -> Query:
        """See ScreenPane."""
        return replace(query, around=True)

    def show(self, results: Sequence[Frame], view: View) -> None:
        """See ScreenPane."""
        for widget in (Causes, Account, AgainstAll, Around):
            self.query_one(widget).show(results[0], view)  # type: ignore[attr-defined]

    def on_causes_opened(self, event: Causes.Opened) -> None:
        """All of the pane is about this verdict."""
        view = self.app.view  # type: ignore[attr-defined]
        self.app.look(replace(view, note=event.number, row=event.number))  # type: ignore[attr-defined]

    def on_causes_blamed(self, event: Causes.Blamed) -> None:
        """All about a GPU is on GPUs."""
        view = self.app.view  # type: ignore[attr-defined]
        self.app.go(replace(view, screen="gpus"), event.gpus[0])  # type: ignore[attr-defined]
