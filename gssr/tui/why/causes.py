"""What the rules say, as cards: the one that is looked at is open, with its numbers against their limits and what to do; of
the others there is one line each."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from gssr.model.live.live_result import Result
from gssr.model.results import Verdict
from gssr.render.cells import clean
from gssr.render.roles import text_of
from gssr.render.verdicts import abstention_rows
from gssr.report.live.judgement import not_judged
from gssr.report.live.marked_gpus import gpus_of_verdict
from gssr.report.live.times_of_run import judged_title
from gssr.tui.keys import key
from gssr.tui.shared.messages import Opened, Pointed
from gssr.tui.shared.panel import Drawing, Words
from gssr.tui.shared.verdict_card import MARKS, VerdictCard, command_of
from gssr.tui.view import View

READING = "reading ..."
NOTHING = "Nothing stands out: no rule finds a cause of low use."
_ROWS = 10
"""Rows for each verdict from which all are open."""
_UNWRAPPED = 10_000
"""Columns of a line that its widget wraps by itself."""
_MOST_NAMED = 4


class Causes(Drawing, VerticalScroll, can_focus=True):
    """All verdicts, the worst first; the cursor is the one that is open."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "open(-1)", "Up", "open the verdict above", show=False),
        key("down,j", "open(1)", "Down", "open the verdict below", show=False),
        key("pageup", "page_up", "Page up", "a page up", show=False),
        key("pagedown", "page_down", "Page down", "a page down", show=False),
        key("enter", "gpus", "Its GPUs", "the GPUs that this verdict is about, on GPUs"),
        key("y", "copy_command", "Copy", "copy the command that the advice names, else the advice"),
    ]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self._verdicts: tuple[Verdict, ...] = ()
        self._result: Result | None = None
        self._open = 0

    def compose(self) -> ComposeResult:
        """The cards come with the verdicts; below them what could not be judged."""
        yield Words(READING, id="no-cause")
        yield Words(id="abstained")

    def show(self, result: Result, view: View) -> None:
        """Show what the rules say of this result, or why there is no judgement yet, or that nothing stands out. Cards
        are kept and only added or removed at the end."""
        judgement = result.judgement
        self._verdicts = () if judgement is None else judgement.verdicts
        self._result = result.of_gpus or result
        self._open = min(max(view.note, 0), max(len(self._verdicts) - 1, 0))
        self.border_title = judged_title("what keeps it from being saturated", result)
        self.border_subtitle = "" if judgement is None else _how_many(self._verdicts)
        nothing = self.query_one("#no-cause", Words)
        nothing.display = not self._verdicts
        if not self._verdicts:
            nothing.say(NOTHING if judgement is not None and not judgement.not_judged else not_judged(result))
        abstained = self.query_one("#abstained", Words)
        abstained.display = judgement is not None and bool(judgement.abstentions)
        if judgement is not None and abstained.display:
            rows = abstention_rows(judgement.abstentions, _UNWRAPPED, self.glyphs.bullet, _MOST_NAMED)
            abstained.say("\n".join(map(text_of, rows)))
        cards = list(self.query(VerdictCard))
        for card in cards[len(self._verdicts) :]:
            card.remove()
        added = [VerdictCard(number) for number in range(len(cards), len(self._verdicts))]
        for card in added:
            card.can_focus = False  # the list has the focus, and its cursor is on one of them
        self.mount_all(added, before=abstained)
        self.tell_cards()

    def on_resize(self) -> None:
        """Open as many as there is room for."""
        self.tell_cards()

    def tell_cards(self) -> None:
        """Tell each card its verdict: all of it if it is the one at the cursor or all have room, else one line."""
        all_open = len(self._verdicts) * _ROWS <= self.size.height
        for card, verdict in zip(self.query(VerdictCard), self._verdicts, strict=False):
            is_at_cursor = card.number == self._open
            card.tell(verdict, "whole" if all_open or is_at_cursor else "title", is_at_cursor)

    def _look_at(self, number: int) -> None:
        """Open the verdict ``number``, held within those there are, scroll to it and post Pointed; do nothing without
        any."""
        if self._verdicts:
            self._open = min(max(number, 0), len(self._verdicts) - 1)
            self.tell_cards()
            self.call_after_refresh(self._into_sight)
            self.post_message(Pointed(self, self._open))

    def _into_sight(self) -> None:
        for card in self.query(".-at-cursor"):
            self.scroll_to_widget(card, animate=False)

    def action_open(self, step: int) -> None:
        """The verdict above or below."""
        self._look_at(self._open + step)

    @on(Opened, "VerdictCard")
    def open_clicked(self, event: Opened) -> None:
        """Open the card that was clicked."""
        event.stop()
        self._look_at(event.item)

    def action_gpus(self) -> None:
        """Post Opened with the first GPU (position) of the open verdict; a notice if it is about all of them."""
        if self._verdicts and self._result is not None:
            gpus = gpus_of_verdict(self._result, self._verdicts[self._open])
            if gpus:
                self.post_message(Opened(self, gpus[0]))
            else:
                self.notify("This verdict is about all GPUs.")

    def action_copy_command(self) -> None:
        """Copy the command of the open verdict's advice to the clipboard, or the advice if it names none."""
        if self._verdicts:
            verdict = self._verdicts[self._open]
            command = command_of(verdict)
            self.app.copy_to_clipboard(command or clean(verdict.advice))
            self.notify(f"Copied, if the terminal allows it: {command or 'the advice'}", markup=False)


def _how_many(verdicts: tuple[Verdict, ...]) -> str:
    """Say how many verdicts there are of each severity."""
    counts = [(sum(each.severity == severity for each in verdicts), severity) for severity in MARKS]
    return ", ".join(f"{n} {severity}" for n, severity in counts if n)
