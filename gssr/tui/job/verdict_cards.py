"""The worst verdicts as cards: what is wrong, what it rests on, and what to do. A click or Enter opens Why."""

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from gssr.model.live.live_result import Result
from gssr.model.results import Severity, Verdict
from gssr.render.cells import clean
from gssr.render.glyphs import in_ascii
from gssr.render.verdicts import advice_parts, texts_of
from gssr.tui.keys import key
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.panel import Drawing, PlainText, Words
from gssr.tui.view import View

MOST_CARDS = 3
MARKS: dict[Severity, str] = {"critical": "◆", "warning": "▲", "info": "●"}
"""A filled mark beside the word, so that hue never says it alone."""


def advice_lines(verdict: Verdict, arrow: str) -> list[str]:
    """Write what to do about a verdict: its sentences, the first after an ``arrow``, and each command on a line of its
    own."""
    parts = advice_parts(clean(verdict.advice))
    begins = [arrow, *(" " for _ in parts[1:])]
    return [
        f"{begin} {'$ ' if is_command else ''}{text}" for begin, (is_command, text) in zip(begins, parts, strict=True)
    ]


class VerdictCard(PlainText, Vertical, can_focus=True):
    """One verdict."""

    BINDINGS: ClassVar[list[BindingType]] = [key("enter", "open", "Why", "all about this verdict")]

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def compose(self) -> ComposeResult:
        """Title, evidence, advice."""
        yield Words(classes="card-title")
        yield Words(classes="card-evidence")
        yield Words(classes="card-advice")

    def tell(self, verdict: Verdict, ascii_only: bool) -> None:
        """Show this verdict: title, evidence and advice, with its severity as a CSS class."""
        mark = "!" if ascii_only else MARKS[verdict.severity]
        # In the one line of a short screen what is wrong comes first; there the mark alone tells how bad it is.
        word = "" if self.screen.has_class("-short") and not ascii_only else f"{verdict.severity}  "
        title = Text(f"{mark} {word}{clean(verdict.title)}", "bold")
        evidence = "; ".join(clean(text) for text in texts_of(verdict))
        advice = "\n".join(advice_lines(verdict, ">" if ascii_only else "→"))
        texts = [title, Text(evidence), Text(advice)]
        for label, text in zip(self.query(Words), texts, strict=True):
            label.say(Text(in_ascii(text.plain)) if ascii_only else text)
        for severity in MARKS:
            self.set_class(verdict.severity == severity, f"-{severity}")
        self.tooltip = f"{clean(verdict.title)}\n{evidence}\n{advice}"

    def action_open(self) -> None:
        """Go to Why."""
        self.post_message(Opened(self, self.number))

    def on_click(self, event: events.Click) -> None:
        """Go to Why."""
        event.stop()
        self.action_open()


class VerdictCards(Drawing, Vertical):  # type: ignore[misc] # app is narrowed
    """The first few verdicts."""

    _told: object = ()
    """The judgement that the cards tell; none yet."""
    _in_one_line = False
    """Whether they tell it in one line."""

    def compose(self) -> ComposeResult:
        """Lay out as many cards as there may be at once."""
        for number in range(MOST_CARDS):
            yield VerdictCard(number)
        yield Words("", id="more-verdicts")

    def show(self, result: Result, _view: View) -> None:
        """Show the first verdicts as cards, and below them how many more there are on Why, or that no rule finds
        anything; no cards before there is a judgement."""
        is_short = self.screen.has_class("-short")
        if result.judgement is self._told and is_short == self._in_one_line:
            return
        self._told, self._in_one_line = result.judgement, is_short
        verdicts = () if result.judgement is None else result.judgement.verdicts
        cards = list(self.query(VerdictCard))
        for card in cards:
            number = card.number
            card.display = number < len(verdicts)
            if card.display:
                card.tell(verdicts[number], self.glyphs.levels.isascii())
        more = len(verdicts) - len(cards)
        said = self.query_one("#more-verdicts", Words)
        said.display = more > 0 or (result.judgement is not None and not verdicts)
        said.say(f"{more} more on Why" if more > 0 else "no rule finds anything wrong")
        self.call_after_refresh(self._point_to_what_is_cut)

    def on_resize(self) -> None:
        """Look again at what fits."""
        self.call_after_refresh(self._point_to_what_is_cut)

    def _point_to_what_is_cut(self) -> None:
        """Say in the border that the rest is on Why, if a card is cut and the screen is not short."""
        room = self.scrollable_content_region.height
        is_cut = any(card.display and card.virtual_region.bottom > room for card in self.query(VerdictCard))
        self.border_subtitle = "the rest is on Why" if is_cut and not self.screen.has_class("-short") else ""
