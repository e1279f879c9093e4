"""Why: what keeps it from being saturated? The verdicts as cards, where the GPU time went, and the numbers behind."""

from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from gssr.model.live.live_result import Query
from gssr.tui.shared.messages import Opened, Pointed
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.why.account import AccountTree
from gssr.tui.why.against_all import AgainstAll
from gssr.tui.why.around import OpenAround
from gssr.tui.why.causes import Causes


class WhyPane(ScreenPane):
    """What keeps it from being saturated?"""

    screen_name = "why"
    panels = (Causes, AccountTree, AgainstAll, OpenAround)

    def compose(self) -> ComposeResult:
        """Left what is wrong and what to do, right the account and the numbers."""
        yield Causes(id="causes", classes="panel")
        with Vertical(id="why-right"):
            yield AccountTree(id="account", classes="panel")
            yield AgainstAll(id="against-all", classes="panel")
            yield OpenAround(id="around", classes="panel")

    def asks(self, query: Query) -> Query:
        """Add what this screen needs to the app's query."""
        return replace(query, around=True)

    @on(Pointed, "#causes")
    def show_verdict(self, event: Pointed) -> None:
        """Show all about another verdict."""
        self.app.change_view(replace(self.app.view, note=event.item, row=event.item))

    @on(Opened, "#causes")
    def show_gpu(self, event: Opened) -> None:
        """Show all about the first GPU that a verdict blames, on GPUs."""
        self.app.go_to_screen(replace(self.app.view, screen="gpus"), event.item)
