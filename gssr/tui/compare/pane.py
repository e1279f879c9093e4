"""Compare: was another run better? The sentence, both over each other, and what changed, the largest effect first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from gssr.model.live.live_result import Query, Result
from gssr.tui.compare.curves import Curves
from gssr.tui.compare.effect_table import EffectTable
from gssr.tui.compare.sentence import CompareSentence
from gssr.tui.keys import key
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.view import View


class ComparePane(ScreenPane):
    """Show whether another run was better."""

    screen_name = "compare"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("a", "app.move('align')", "Align", "align two runs at their start, their work, or a mark"),
        key("c", "app.next_other", "Other run", "compare with the next recording or run"),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the answer, the picture and the numbers."""
        yield CompareSentence(id="compare-sentence", classes="panel")
        yield Curves(id="curves", classes="panel")
        yield EffectTable(id="effects", classes="panel")

    def asks(self, query: Query) -> Query:
        """Add what this screen needs to the app's query."""
        return replace(query, tables=True)

    def show(self, results: Sequence[Result], view: View) -> None:
        """Show the comparison of the first result (A) with the second (B); only the sentence while there is no second
        one, or nothing in it."""
        one, other = results[0], results[1] if len(results) > 1 else None
        self.query_one(CompareSentence).show_both(one, other, view)
        if other is not None and other.n_rows:
            self.query_one(Curves).show_both(one, other, view)
            self.query_one(EffectTable).show_both(one, other)
