"""Why: what keeps it from being saturated? The verdicts as cards, where the GPU time went, and the GPU that is blamed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from gssr.model.live.live_result import Query, Result
from gssr.report.live.marked_gpus import gpus_of_verdict
from gssr.tui.gpus.inspector import Inspector
from gssr.tui.shared.messages import Pointed
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.view import View, selection_of
from gssr.tui.why.account import AccountTree
from gssr.tui.why.around import OpenAround
from gssr.tui.why.causes import Causes


class WhyPane(ScreenPane):
    """Show what keeps the job from being saturated: the verdicts and the account of the GPU time."""

    screen_name = "why"
    panels = (Causes, AccountTree, OpenAround)

    def compose(self) -> ComposeResult:
        """Left what is wrong and what to do, right the account and the GPU."""
        yield Causes(id="causes", classes="panel leads-to-gpu")
        with Vertical(id="why-right"):
            yield AccountTree(id="account", classes="panel")
            yield Inspector(id="blamed-gpu", classes="panel")
            yield OpenAround(id="around", classes="panel")

    def show(self, results: Sequence[Result], view: View) -> None:
        """Draw the first result in all panels, and all about the GPU that the verdict is about."""
        super().show(results, view)
        result, inspector = results[0].of_gpus or results[0], self.query_one(Inspector)
        inspector.inspect(blamed_gpu(result, view))
        inspector.show(result, view)

    def asks(self, query: Query) -> Query:
        """Add what this screen needs to the app's query."""
        return replace(query, around=True)

    @on(Pointed, "#causes")
    def show_verdict(self, event: Pointed) -> None:
        """Show all about another verdict."""
        self.app.change_view(replace(self.app.view, note=event.item))


def blamed_gpu(result: Result, view: View) -> int:
    """Return the position of the first selected GPU, else of the first that the verdict (``view.note``) is about if that
    is not about all of them, else of the one with the lowest mean; -1 if none has samples."""
    verdicts = () if result.judgement is None else result.judgement.verdicts
    blamed = gpus_of_verdict(result, verdicts[min(max(view.note, 0), len(verdicts) - 1)]) if verdicts else ()
    selection = selection_of(result, view)
    if selection or 0 < len(blamed) < result.n_gpus:
        return (selection or blamed)[0]
    means = result.window.per_gpu(result.grid.metric)
    return int(np.nanargmin(means)) if np.isfinite(means).any() else -1
