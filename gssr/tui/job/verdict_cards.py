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
        yield Words("", id="no-verdict")

    def show(self, result: Result, _view: View) -> None:
        """Show the first verdicts as cards, and in the border how many more there are on Why; in their place that no rule
        finds anything, or that samples are too few for them; nothing at all before there is a judgement."""
        self._judgement = judgement = result.judgement
        self.set_class(judgement is None, "-not-judged-yet")
        said = self.query_one("#no-verdict", Words)
        said.display = judgement is not None and not judgement.verdicts
        few = judgement.not_judged if judgement is not None else None
        said.say(f"not judged: {few}" if few else "no rule finds anything wrong")
        self._tell_cards()

    def _tell_cards(self) -> None:
        """Tell each card its verdict in as much detail as fits, and hide those without one; say in the border, if the
        screen is not short, what is left out."""
        judgement, width = self._judgement, self.content_size.width
        verdicts = () if judgement is None else judgement.verdicts
        details = [] if judgement is None else self._details(judgement)
        for card in self.query(VerdictCard):
            card.display = card.number < len(details)
            if card.display:
                card.tell(verdicts[card.number], details[card.number])
        more = len(verdicts) - len(details)
        is_cut = bool(details) and self._first_card.n_lines(verdicts[0], details[0], width) > self._room
        left_out = f"{more} more on Why (press 5)" if more else "the rest is on Why (press 5)" if is_cut else ""
        self.border_subtitle = "" if self.screen.has_class("-short") else left_out

    @property
    def _first_card(self) -> VerdictCard:
        return self.query(VerdictCard).first(VerdictCard)

    @property
    def _room(self) -> int:
        """How many lines all cards may have together."""
        most = self.styles.max_height
        return int(most.value) - self.gutter.height if most is not None else 0

    def _details(self, judgement: Judgement) -> list[Detail]:
        """Choose how much each card tells, for as many as fit. On a short screen, whose lines are cut, a card has no title
        if the sentence above says what it does. On others the first card tells all, and of the others first the last ones
        have a line alone, then no card: a sentence that breaks off helps nobody."""
        verdicts, width = judgement.verdicts[:MOST_CARDS], self.content_size.width
        if self.screen.has_class("-short"):
            return ["short advice" if is_in_headline(verdict, judgement) else "short" for verdict in verdicts]
        details: list[Detail] = ["advice" if self.screen.has_class("-medium") else "evidence"] * len(verdicts)

        def is_too_much() -> bool:
            each = zip(verdicts, details, strict=False)
            return sum(self._first_card.n_lines(*told, width) for told in each) > self._room

        for at in range(len(details) - 1, 0, -1):
            if is_too_much():
                details[at] = "title"
        while len(details) > 1 and is_too_much():
            details.pop()
        return details

    def on_resize(self) -> None:
        """Tell as much as there is room for now."""
        self._tell_cards()
