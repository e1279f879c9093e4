"""The worst verdicts as cards: what is wrong, what it rests on, and what to do. A click or Enter opens Why."""

from textual.app import ComposeResult
from textual.containers import Vertical

from gssr.model.live.live_result import Result
from gssr.model.results import Judgement, Verdict
from gssr.render.breakdown import headline
from gssr.render.cells import clean
from gssr.tui.shared.panel import Drawing, Words
from gssr.tui.shared.verdict_card import Detail, VerdictCard
from gssr.tui.view import View

MOST_CARDS = 3


def is_in_headline(verdict: Verdict, judgement: Judgement) -> bool:
    """Tell whether the sentence on where the GPU time went already says what this verdict's title says was lost, or begins
    to."""
    lost = clean(verdict.title).partition(" of the GPU time is ")[2]
    if judgement.breakdown is None or not lost:
        return False
    told = headline(judgement.breakdown, judgement.leading_loss).rpartition(" % is ")[2].rstrip(".")
    return bool(told) and (lost in told or lost.startswith(told.removesuffix(" (a guess)")))


class VerdictCards(Drawing, Vertical):
    """The first few verdicts."""

    _judgement: Judgement | None = None

    def compose(self) -> ComposeResult:
        """Lay out as many cards as there may be at once."""
        for number in range(MOST_CARDS):
            yield VerdictCard(number)
        yield Words("", id="more-verdicts")

    def show(self, result: Result, _view: View) -> None:
        """Show the first verdicts as cards, and below them how many more there are on Why, or that no rule finds
        anything, or that samples are too few for them; nothing at all before there is a judgement."""
        self._judgement = judgement = result.judgement
        self.set_class(judgement is None, "-not-judged-yet")
        verdicts = () if judgement is None else judgement.verdicts
        self._tell_cards()
        more = len(verdicts) - MOST_CARDS
        said = self.query_one("#more-verdicts", Words)
        said.display = more > 0 or (judgement is not None and not verdicts)
        few = judgement.not_judged if judgement is not None else None
        nothing = f"not judged: {few}" if few else "no rule finds anything wrong"
        said.say(f"{more} more on Why (5)" if more > 0 else nothing)
        self.call_after_refresh(self._point_to_what_is_cut)

    def _tell_cards(self) -> None:
        """Tell each card its verdict, and hide those without one."""
        judgement = self._judgement
        verdicts = () if judgement is None else judgement.verdicts
        for card in self.query(VerdictCard):
            card.display = card.number < len(verdicts)
            if judgement is not None and card.display:
                card.tell(verdicts[card.number], self._detail(verdicts[card.number], judgement))

    def _detail(self, verdict: Verdict, judgement: Judgement) -> Detail:
        """Choose how much a screen of this height has room for. On a short one, whose lines are cut, a card has no title
        if the sentence above says what it does."""
        if self.screen.has_class("-short"):
            return "short advice" if is_in_headline(verdict, judgement) else "short"
        return "advice" if self.screen.has_class("-medium") else "evidence"

    def on_resize(self) -> None:
        """Tell as much as there is room for now, and look again at what fits."""
        self._tell_cards()
        self.call_after_refresh(self._point_to_what_is_cut)

    def _point_to_what_is_cut(self) -> None:
        """Say in the border that the rest is on Why, if a card is cut and the screen is not short."""
        room = self.scrollable_content_region.height
        is_cut = any(card.display and card.virtual_region.bottom > room for card in self.query(VerdictCard))
        self.border_subtitle = "the rest is on Why" if is_cut and not self.screen.has_class("-short") else ""
