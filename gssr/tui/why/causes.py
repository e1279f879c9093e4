"""What the rules say, as cards: the one that is looked at is open, with its numbers against their limits and what to do; of
the others there is one line each."""

import re
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll

from gssr.metrics import RATIO
from gssr.model.live.live_result import Result
from gssr.model.results import Finding, Severity, Verdict
from gssr.render.cells import clean
from gssr.render.columns import length
from gssr.render.glyphs import in_ascii
from gssr.render.roles import Row, Span
from gssr.render.scale import metric_of, percent
from gssr.render.verdicts import abstention_rows, advice_parts, limits_of
from gssr.report.live.judgement import not_judged
from gssr.report.live.marked_gpus import gpus_of_verdict
from gssr.report.live.times_of_run import in_part, judged_part_text
from gssr.tui.job.verdict_cards import MARKS, ROLES
from gssr.tui.keys import key
from gssr.tui.shared.messages import Opened, Pointed
from gssr.tui.shared.panel import Drawing, Words
from gssr.tui.view import View

READING = "reading ..."
NOTHING = "Nothing stands out: no rule finds a cause of low use."
_ROWS = 10
"""Rows for each verdict from which all are open."""
_BAR = 24
_BEYOND = 1.25
"""A bar goes on for so much beyond the larger of a number and its limit."""
_UNWRAPPED = 10_000
"""Columns of a line that its widget wraps by itself."""
_MOST_NAMED = 4
_COMMAND = re.compile(
    r"\b(?:gssr doctor|(?:gssr [a-z]+|nsys profile|ncu|rocprofv3|python -m \w+)"
    r"(?: (?:-\w+ (?!PROGRAM\b)[\w./]+(?= )|--?[\w=,.-]+|'[^']+'|[\w./-]*[./][\w./-]*[\w/-]|[a-z]+_[a-z_]+|[A-Z]{3,}))+)"
)
"""A program with its options, files and names to be filled in, in the middle of a sentence."""


def command_of(verdict: Verdict) -> str:
    """Return the first command that the verdict's advice names, cleaned for a shell's line; "" if it names none."""
    alone = next((text for is_command, text in advice_parts(clean(verdict.advice)) if is_command), "")
    if alone:
        return alone
    found = _COMMAND.search(verdict.advice)
    return clean(found[0]) if found else ""


def evidence_bar(finding: Finding, severity: Severity, width: int, drawing: Drawing) -> Row:
    """Draw a number as a bar of ``width`` cells with a mark at its limit; empty if it has no limit or both are 0."""
    if finding.threshold is None:
        return ()
    most = max(abs(finding.value), abs(finding.threshold)) * _BEYOND
    is_ratio = finding.metric == "share" or metric_of(finding.metric).unit == RATIO
    full = min(most, 1.0) if is_ratio and most <= _BEYOND else most
    if not full > 0:
        return ()
    glyphs = drawing.glyphs
    filled = length(min(abs(finding.value) / full, 1.0), width, glyphs)
    text = filled + glyphs.track * (width - len(filled))
    at = min(int(abs(finding.threshold) / full * width), width - 1)
    look = ROLES[severity]
    spans = [
        Span(text[: min(at, len(filled))], look),
        Span(text[len(filled) : at], "track"),
        Span("|" if glyphs.levels.isascii() else "┃", "value"),
        Span(text[at + 1 : max(len(filled), at + 1)], look),
        Span(text[max(len(filled), at + 1) :], "track"),
    ]
    return tuple(span for span in spans if span.text)


class Cause(Drawing, Vertical):
    """One verdict."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self._told: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Its title, and what is seen of it when it is open."""
        yield Words(classes="cause-title")
        yield Words(classes="cause-body")

    def on_mount(self) -> None:
        """Show the verdict at once: of a run that has ended no other result comes."""
        self.query_ancestor(Causes).tell_cards()

    def tell(self, verdict: Verdict, is_open: bool, is_looked_at: bool) -> None:
        """Show this verdict, with numbers and advice if it ``is_open``, else as one line."""
        self.set_class(is_looked_at, "-looked-at")
        told = (verdict, is_open, self.palette.theme)
        if told == self._told:
            return
        self._told = told
        ascii_only = self.glyphs.levels.isascii()
        mark = "!" if ascii_only else MARKS[verdict.severity]
        costs = f"   {percent(verdict.lost)} of the GPU time" if verdict.lost else ""
        title, body = self.query(Words)
        style = self.palette.style
        self.set_class(is_open, "-open")
        for severity in MARKS:
            self.set_class(verdict.severity == severity, f"-{severity}")
        head = Text.assemble(
            (f"{mark} {verdict.severity:<9}", style(ROLES[verdict.severity])),
            (clean(verdict.title), "bold" if is_open or verdict.severity != "info" else ""),
        )
        if not is_open:
            head.append(costs, style("dim"))
        title.say(self._plain(head))
        title.tooltip = clean(verdict.title)
        body.display = is_open
        if is_open:
            body.say(self._plain(self._body(verdict)))

    def _plain(self, text: Text) -> Text:
        return Text(in_ascii(text.plain)) if self.glyphs.levels.isascii() else text

    def _body(self, verdict: Verdict) -> Text:
        """Write the numbers behind the verdict with their bars, the advice, its command, and what it would save."""
        style, arrow = self.palette.style, ">" if self.glyphs.levels.isascii() else "→"
        lines: list[Text] = []
        for finding in verdict.evidence:
            row = evidence_bar(finding, verdict.severity, _BAR, self)
            lines.append(Text.assemble(*((span.text, style(span.role)) for span in row), "  " if row else "",
                                       clean(finding.text)))  # fmt: skip
        command, copies = command_of(verdict), ("   y copies it", style("dim"))
        for is_command, text in advice_parts(clean(verdict.advice)):
            if is_command:
                line = Text.assemble(("  $ ", style("dim")), (text, style("good")))
                lines.append(line.append(*copies) if text == command else line)
                command = "" if text == command else command
            else:
                lines.append(Text.assemble((f"{arrow} ", style("heading")), text))
                arrow = " "
        if command:
            lines.append(Text.assemble(("  $ ", style("dim")), (command, style("good")), copies))
        saves = []
        if verdict.gpu_hours:
            saves.append(f"would save about {float(f'{verdict.gpu_hours:.2g}'):,.10g} GPU-hours")
        elif verdict.lost:
            saves.append(f"costs {percent(verdict.lost)} of the GPU time")
        saves.append(limits_of(clean(verdict.source)))
        lines.append(Text("; ".join(saves), style("dim")))
        return Text("\n").join(lines)


class Causes(Drawing, VerticalScroll, can_focus=True):
    """All verdicts, the worst first; the cursor is the one that is open."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "open(-1)", "Up", "open the verdict above", show=False),
        key("down,j", "open(1)", "Down", "open the verdict below", show=False),
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
        before = self._verdicts
        self._verdicts = () if judgement is None else judgement.verdicts
        self._result = result.of_gpus or result
        self._open = min(max(view.note, 0), max(len(self._verdicts) - 1, 0))
        self.border_title = in_part("what keeps it from being saturated", judged_part_text(result))
        self.border_subtitle = "" if judgement is None else _how_many(self._verdicts)
        nothing = self.query_one("#no-cause", Words)
        if not self._verdicts:
            nothing.display = True
            nothing.say(NOTHING if judgement is not None and not judgement.too_few else not_judged(result))
        abstained = self.query_one("#abstained", Words)
        abstained.display = judgement is not None and bool(judgement.abstentions)
        if judgement is not None and abstained.display:
            rows = abstention_rows(judgement.abstentions, _UNWRAPPED, self.glyphs.bullet, _MOST_NAMED)
            abstained.say("\n".join("".join(span.text for span in row) for row in rows))
        cards = list(self.query(Cause))
        if len(cards) != len(self._verdicts):
            for card in cards[len(self._verdicts) :]:
                card.remove()
            added = [Cause(number) for number in range(len(cards), len(self._verdicts))]
            if added:
                self.mount(*added, before=abstained)
        if self._verdicts or before:
            self.tell_cards()

    def on_resize(self) -> None:
        """Open as many as there is room for."""
        self.tell_cards()

    def tell_cards(self) -> None:
        """Tell each card that holds its words its verdict, and whether it is the open one. Once a card says something, the
        words that stood in place of cards go."""
        all_open = len(self._verdicts) * _ROWS <= self.size.height
        for card in self.query(Cause):
            if card.number < len(self._verdicts) and card.query(Words):
                is_looked_at = card.number == self._open
                card.tell(self._verdicts[card.number], all_open or is_looked_at, is_looked_at)
                self.query_one("#no-cause").display = False

    def _look_at(self, number: int) -> None:
        """Open the verdict ``number``, held within those there are, scroll to it and post Pointed; do nothing without
        any."""
        if self._verdicts:
            self._open = min(max(number, 0), len(self._verdicts) - 1)
            self.tell_cards()
            self.call_after_refresh(self._into_sight)
            self.post_message(Pointed(self, self._open))

    def _into_sight(self) -> None:
        for card in self.query(Cause):
            if card.number == self._open:
                self.scroll_to_widget(card, animate=False)

    def action_open(self, step: int) -> None:
        """The verdict above or below."""
        self._look_at(self._open + step)

    def on_click(self, event: events.Click) -> None:
        """Open the card under the mouse."""
        widget = self.screen.get_widget_at(event.screen_x, event.screen_y)[0]
        card = next((each for each in widget.ancestors_with_self if isinstance(each, Cause)), None)
        if card is not None:
            self._look_at(card.number)

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
    counts = [(sum(each.severity == severity for each in verdicts), severity) for severity in MARKS]
    return ", ".join(f"{n} {severity}" for n, severity in counts if n)
