"""A verdict as a card: on Job one of the first few, on Why one of all of them."""

import re
from typing import ClassVar, Literal

from textual import events
from textual.binding import BindingType

from gssr.metrics import RATIO
from gssr.model.results import Finding, Severity, Verdict
from gssr.render.cells import clean
from gssr.render.columns import length
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import metric_of, percent
from gssr.render.verdicts import advice_parts, limits_of, saving_of, texts_of
from gssr.tui.keys import key
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.panel import Drawing, Words

Detail = Literal["short advice", "short", "title", "advice", "evidence", "whole"]
"""How much a card tells: without the word for its severity the advice in one line, or the title and the advice in two; in
one line the title and what it costs; in several the title and the advice, the numbers as well, or these against their limits
and the command to copy."""
MARKS: dict[Severity, str] = {"critical": "◆", "warning": "▲", "info": "●"}
"""A filled mark beside the word, so that hue never says it alone."""
ROLES: dict[Severity, Role] = {"critical": "bad", "warning": "outlier", "info": "neutral"}
_BAR = 24
_BEYOND = 1.25
"""A bar goes on for so much beyond the larger of a number and its limit."""
_COPIES: Row = (Span("    y copies it", "dim"),)
"""A line of its own, as a command is often as long as a line."""
_COMMAND = re.compile(
    r"\b(?:gssr doctor|(?:gssr [a-z]+|nsys profile|ncu|rocprofv3|python -m \w+)"
    r"(?: (?:-\w+ (?!PROGRAM\b)[\w./]+(?= )|--?[\w=,.-]+|'[^']+'|[\w./-]*[./][\w./-]*[\w/-]|[a-z]+_[a-z_]+|[A-Z]{3,}))+)"
)
"""A program with its options, files and names to be filled in, in the middle of a sentence."""


class VerdictCard(Drawing, Words, can_focus=True):
    """A verdict, the one of this ``number``. Its severity is a CSS class, and so is whether it has ``-one-line`` or is
    ``-at-cursor`` of a list."""

    BINDINGS: ClassVar[list[BindingType]] = [key("enter", "open", "Why", "all about this verdict")]

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self._told: tuple[object, ...] = ()

    def tell(self, verdict: Verdict, detail: Detail, is_at_cursor: bool = False) -> None:
        """Show this verdict in so much detail. All of it, and where its limits are from, is in the tooltip."""
        told = verdict, detail, is_at_cursor, self.app.theme
        if told == self._told:
            return
        self._told = told
        for severity in MARKS:
            self.set_class(verdict.severity == severity, f"-{severity}")
        self.set_class(detail in ("short advice", "title"), "-one-line")
        self.set_class(detail == "short", "-two-lines")
        self.set_class(is_at_cursor, "-at-cursor")
        text = self.palette.text_of(self._rows(verdict, detail), self.glyphs)
        if is_at_cursor:
            text.stylize("underline", 0, len(text.plain.partition("\n")[0]))
        self.say(text)
        advice = (text for _, text in advice_parts(clean(verdict.advice)))
        numbers, limits = "; ".join(map(clean, texts_of(verdict))), limits_of(clean(verdict.source))
        self.tooltip = "\n".join([clean(verdict.title), numbers, *advice, limits])

    def n_lines(self, verdict: Verdict, detail: Detail, width: int) -> int:
        """Count the lines of a card that tells a verdict in so much detail and is ``width`` cells wide."""
        if detail == "title":
            return 1
        text = self.palette.text_of(self._rows(verdict, detail), self.glyphs)
        return len(text.wrap(self.app.console, max(width - self.gutter.width, 1)))

    def _rows(self, verdict: Verdict, detail: Detail) -> list[Row]:
        """Draw the lines of a card, which its widget wraps."""
        ascii_only = self.glyphs.levels.isascii()
        command = command_of(verdict) if detail == "whole" else ""
        advice = _advice_rows(verdict, ">" if ascii_only else "→", command)
        # On a short screen what is wrong comes first; there the mark alone tells how bad it is.
        word = "" if detail.startswith("short") and not ascii_only else f"{verdict.severity:<9}"
        mark = Span(f"{'!' if ascii_only else MARKS[verdict.severity]} {word}", ROLES[verdict.severity])
        title: Row = (mark, Span(clean(verdict.title), "plain" if verdict.severity == "info" else "value"))
        if detail == "short advice":
            return [(mark, *advice[0])]
        if detail == "short":
            return [title, *advice[:1]]
        if detail == "title" and verdict.lost and "of the GPU time" not in verdict.title:
            return [(*title, Span(f"   {percent(verdict.lost)} of the GPU time", "dim"))]
        if detail == "evidence":
            return [title, (Span("; ".join(map(clean, texts_of(verdict))), "dim"),), *advice]
        if detail == "whole":
            bars = [
                (finding, evidence_bar(finding, verdict.severity, _BAR, self.glyphs)) for finding in verdict.evidence
            ]
            numbers = [(*bar, Span(f"{'  ' if bar else ''}{clean(finding.text)}")) for finding, bar in bars]
            costs = f"costs {percent(verdict.lost)} of the GPU time" if verdict.lost else ""
            said = saving_of(verdict) or costs
            return [title, *numbers, *advice, *([(Span(said, "dim"),)] if said else [])]
        return [title, *advice] if detail == "advice" else [title]

    def action_open(self) -> None:
        """Ask for all about this verdict."""
        self.post_message(Opened(self, self.number))

    def on_click(self, event: events.Click) -> None:
        """Ask for all about this verdict."""
        event.stop()
        self.action_open()


def _advice_rows(verdict: Verdict, arrow: str, command: str) -> list[Row]:
    """Write what to do about a verdict: its sentences, the first after an ``arrow``, and each command on a line of its own.
    Below the one that can be copied, ``command``, is the key for it; it has a line at the end if no sentence names it so."""
    rows: list[Row] = []
    for is_command, text in advice_parts(clean(verdict.advice)):
        if not is_command:
            rows.append((Span(f"{' ' if rows else arrow} ", "heading"), Span(text)))
        elif text == command:
            rows += [(Span("  $ ", "dim"), Span(text, "good")), _COPIES]
            command = ""
        else:
            rows.append((Span("  $ ", "dim"), Span(text, "good")))
    return [*rows, (Span("  $ ", "dim"), Span(command, "good")), _COPIES] if command else rows


def command_of(verdict: Verdict) -> str:
    """Return the first command that the verdict's advice names, cleaned for a shell's line; "" if it names none."""
    alone = next((text for is_command, text in advice_parts(clean(verdict.advice)) if is_command), "")
    if alone:
        return alone
    found = _COMMAND.search(verdict.advice)
    return clean(found[0]) if found else ""


def evidence_bar(finding: Finding, severity: Severity, width: int, glyphs: Glyphs) -> Row:
    """Draw a number as a bar of ``width`` cells with a mark at its limit; empty if it has no limit or both are 0. All of the
    width is 1 for a ratio, otherwise somewhat more than the greater of number and limit."""
    if finding.threshold is None:
        return ()
    most = max(abs(finding.value), abs(finding.threshold))
    is_ratio = finding.metric == "share" or metric_of(finding.metric).unit == RATIO
    full = 1.0 if is_ratio and most <= 1 else most * _BEYOND
    if not full > 0:
        return ()
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
