"""The worst verdicts as cards: what is wrong, what it rests on, and what to do. A click or Enter opens Why."""

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from gssr.model.live.live_result import Result
from gssr.model.results import Judgement, Severity, Verdict
from gssr.render.breakdown import headline
from gssr.render.cells import clean
from gssr.render.glyphs import in_ascii
from gssr.render.roles import Role
from gssr.render.verdicts import advice_parts, texts_of
from gssr.tui.keys import key
from gssr.tui.shared.live_app import LiveApp
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.panel import Drawing, Words
from gssr.tui.view import View

MOST_CARDS = 3
MARKS: dict[Severity, str] = {"critical": "◆", "warning": "▲", "info": "●"}
"""A filled mark beside the word, so that hue never says it alone."""
ROLES: dict[Severity, Role] = {"critical": "bad", "warning": "outlier", "info": "neutral"}


def advice_lines(verdict: Verdict, arrow: str) -> list[str]:
    """Write what to do about a verdict: its sentences, the first after an ``arrow``, and each command on a line of its
    own."""
    parts = advice_parts(clean(verdict.advice))
    begins = [arrow, *(" " for _ in parts[1:])]
    return [
        f"{begin} {'$ ' if is_command else ''}{text}" for begin, (is_command, text) in zip(begins, parts, strict=True)
    ]


def is_in_headline(verdict: Verdict, judgement: Judgement) -> bool:
    """Tell whether the sentence on where the GPU time went already says what this verdict's title says was lost."""
    lost = clean(verdict.title).partition(" of the GPU time ")[2]
    if judgement.breakdown is None or not lost:
        return False
    return lost in headline(judgement.breakdown, judgement.leading_loss)


class VerdictCard(Words, can_focus=True):
    """One verdict."""

    app: LiveApp

    BINDINGS: ClassVar[list[BindingType]] = [key("enter", "open", "Why", "all about this verdict")]

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def tell(self, verdict: Verdict, judgement: Judgement, ascii_only: bool) -> None:
        """Show this verdict: title, evidence and advice, as much as screens of this height have room for, with its severity
        as a CSS class. The one line of a short screen is the advice, if the sentence above says what the title does."""
        is_short = self.screen.has_class("-short")
        mark = "!" if ascii_only else MARKS[verdict.severity]
        # In the one line of a short screen what is wrong comes first; there the mark alone tells how bad it is.
        word = "" if is_short and not ascii_only else f"{verdict.severity}  "
        title = clean(verdict.title)
        evidence = "; ".join(clean(text) for text in texts_of(verdict))
        advice = "\n".join(advice_lines(verdict, ">" if ascii_only else "→"))
        is_advice = is_short and is_in_headline(verdict, judgement)
        parts: list[tuple[str, Role]] = [(f"{mark} {word}{advice if is_advice else title}", ROLES[verdict.severity])]
        if not is_short:
            parts += [] if self.screen.has_class("-medium") else [(f"\n{evidence}", "dim")]
            parts.append((f"\n{advice}", "plain"))
        style = self.app.palette.style
        self.say(Text.assemble(*((in_ascii(text) if ascii_only else text, style(role)) for text, role in parts)))
        for severity in MARKS:
            self.set_class(verdict.severity == severity, f"-{severity}")
        self.tooltip = f"{title}\n{evidence}\n{advice}"

    def action_open(self) -> None:
        """Go to Why."""
        self.post_message(Opened(self, self.number))

    def on_click(self, event: events.Click) -> None:
        """Go to Why."""
        event.stop()
        self.action_open()


class VerdictCards(Drawing, Vertical):
    """The first few verdicts."""

    _told: object = ()
    """The judgement that the cards tell; none yet."""
    _told_for: object = ()
    """What they tell it for: the height of the screen, in steps, and the theme."""

    def compose(self) -> ComposeResult:
        """Lay out as many cards as there may be at once."""
        for number in range(MOST_CARDS):
            yield VerdictCard(number)
        yield Words("", id="more-verdicts")

    def show(self, result: Result, _view: View) -> None:
        """Show the first verdicts as cards, and below them how many more there are on Why, or that no rule finds
        anything, or that samples are too few for them; no cards before there is a judgement."""
        told_for = self.screen.has_class("-short"), self.screen.has_class("-medium"), self.palette.theme
        if result.judgement is self._told and told_for == self._told_for:
            return
        self._told, self._told_for = result.judgement, told_for
        verdicts = () if result.judgement is None else result.judgement.verdicts
        cards = list(self.query(VerdictCard))
        for card in cards:
            number = card.number
            card.display = number < len(verdicts)
            if card.display and result.judgement is not None:
                card.tell(verdicts[number], result.judgement, self.glyphs.levels.isascii())
        more = len(verdicts) - len(cards)
        said = self.query_one("#more-verdicts", Words)
        said.display = more > 0 or (result.judgement is not None and not verdicts)
        few = result.judgement.too_few if result.judgement is not None else None
        nothing = f"not judged: {few}" if few else "no rule finds anything wrong"
        said.say(f"{more} more on Why" if more > 0 else nothing)
        self.call_after_refresh(self._point_to_what_is_cut)

    def on_resize(self) -> None:
        """Look again at what fits."""
        self.call_after_refresh(self._point_to_what_is_cut)

    def _point_to_what_is_cut(self) -> None:
        """Say in the border that the rest is on Why, if a card is cut and the screen is not short."""
        room = self.scrollable_content_region.height
        is_cut = any(card.display and card.virtual_region.bottom > room for card in self.query(VerdictCard))
        self.border_subtitle = "the rest is on Why" if is_cut and not self.screen.has_class("-short") else ""
