"""What the page says about the job and its data: the verdicts with their evidence and advice, then the data's flaws."""

from gssr.model.results import Analysis, Severity, Verdict
from gssr.render.cells import clean, wrap
from gssr.render.glyphs import Glyphs, glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import count
from gssr.report.options import Options
from gssr.report.page import section

MOST = 6
"""Verdicts shown unless all are asked for: the worst."""

_LOOKS: dict[Severity, tuple[str, Role]] = {
    "critical": ("!!", "bad"),
    "warning": ("!", "outlier"),
    "info": ("i", "dim"),
}


def notes(analysis: Analysis, options: Options) -> list[Row]:
    """The verdicts by severity, then one bullet for each sentence about the data; nothing when there are none. A page of low
    verbosity has the verdicts' titles alone, one of high verbosity all of them, and the rules that could not be judged."""
    width, marks, high = options.width, glyphs(options.ascii), options.verbosity == "high"
    abstained = analysis.abstentions if high else ()
    if not (analysis.verdicts or analysis.notes or abstained):
        return []
    rows = section("Notes", width, marks)
    shown = analysis.verdicts if high else analysis.verdicts[:MOST]
    for verdict in shown:
        rows += _verdict(verdict, options)
    rest = len(analysis.verdicts) - len(shown)
    if rest:
        rows += wrap(f"{count(rest, 'more note')} with -v high", width, "   ", "   ", "dim")
    for sentence in analysis.notes:
        rows += wrap(sentence, width, f"{marks.bullet}  ", "   ")
    rows += _abstentions(analysis, options, marks) if abstained else []
    return rows


def _verdict(verdict: Verdict, options: Options) -> list[Row]:
    """One verdict: its mark and title, what it rests on, and what to do."""
    mark, role = _LOOKS[verdict.severity]
    rows = wrap(clean(verdict.title), options.width - 3, role="value" if verdict.severity != "info" else "plain")
    rows = [(Span(f"{mark if number == 0 else '':<3}", role), *row) for number, row in enumerate(rows)]
    if options.verbosity == "low" or (verdict.severity == "info" and options.verbosity != "high"):
        return rows
    numbers = "; ".join(clean(finding.text) for finding in verdict.evidence)
    rows += wrap(f"{numbers} [{clean(verdict.source)}]", options.width, "   ", "   ", "dim")
    return rows + wrap(clean(verdict.advice), options.width, " > ", "   ")


def _abstentions(analysis: Analysis, options: Options, marks: Glyphs) -> list[Row]:
    """Which rules could not be judged, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for abstention in analysis.abstentions:
        reasons.setdefault(abstention.reason, []).append(abstention.code)
    rows: list[Row] = []
    for reason, codes in reasons.items():
        text = f"not judged: {', '.join(codes)} ({reason})"
        rows += wrap(text, options.width, f"{marks.bullet}  ", "   ", "dim")
    return rows
