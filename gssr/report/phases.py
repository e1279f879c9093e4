"""What it did when: the phases of a run."""

from gssr.model.results import Analysis, Phase
from gssr.model.window import DETECTION_METRICS
from gssr.render.cells import clip, wrap
from gssr.render.clock import duration, moment
from gssr.render.glyphs import glyphs
from gssr.render.roles import Row, Span
from gssr.render.scale import count, fixed, metric_of, percent, quantity
from gssr.render.table import Cell, Column, table
from gssr.report.axes import TimeAxis, time_axis
from gssr.report.options import Options
from gssr.report.page import section

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MARKS = {"start-up": "+", "steady": "=", "recurring": "~", "idle": ".", "tail": "-"}
"""What fills a phase's part of the line, as different as ASCII allows."""


def letters(analysis: Analysis) -> list[str]:
    """A letter for each phase, in the order of time."""
    return [LETTERS[number % len(LETTERS)] for number in range(len(analysis.phases))]


def what(phase: Phase) -> str:
    """What a phase was, in words: the activity in it, its dips, and what was found."""
    lead = next((name for name in DETECTION_METRICS if phase.means.get(name) is not None), None)
    pieces = []
    if lead is not None:
        pieces.append(f"{metric_of(lead).label} {quantity(phase.means[lead], metric_of(lead))}")
    if phase.cycle is not None and lead is not None:
        pieces.append(dips(phase))
    pieces += [verdict.title for verdict in phase.verdicts if verdict.code != "recurring_dips"]
    return "; ".join(pieces)


def dips(phase: Phase) -> str:
    """The dips of a recurring phase: how many, how long, how often and how deep; empty of other phases."""
    cycle = phase.cycle
    if cycle is None:
        return ""
    often = f" every {duration(cycle.period)}" if cycle.period is not None else ", irregular"
    return f"{count(cycle.count, 'dip')} of {duration(cycle.seconds)}{often}, to {percent(cycle.low)}"


def phases(analysis: Analysis, options: Options) -> list[Row]:
    """The part of the page that says what happened when; nothing without phases."""
    if not analysis.phases:
        return []
    width, marks, axis = options.width, glyphs(options.ascii), time_axis(analysis)
    rows = section("Phases", width, marks, "where several metrics change at once")
    rows += _line(analysis, axis, width)
    lines: list[list[Cell]] = []
    for letter, phase in zip(letters(analysis), analysis.phases, strict=True):
        at = moment(phase.start - axis.origin, axis.end - axis.origin)
        lines.append([
            (Span(letter, "value"), Span(f" {phase.kind}")), at, duration(phase.seconds), percent(phase.share),
            (Span(fixed(phase.score, 3), "value"),),
        ])  # fmt: skip
    head = [
        Column("phase"),
        Column("start", "right"),
        Column("lasted", "right", drop=2),
        Column("GPU-hours", "right", drop=1),
        Column("score", "right"),
    ]
    drawn = table(head, lines, width, marks, gap=2)
    rows.append(drawn[0])
    for row, phase in zip(drawn[1:], analysis.phases, strict=True):
        text = what(phase)
        rows.append(row)
        if text and options.verbosity != "low":
            rows += wrap(text, width, "  ", "  ")
    return rows


def _line(analysis: Analysis, axis: TimeAxis, width: int) -> list[Row]:
    """The phases along time on one line, each with its letter at its beginning; the axis below."""
    if width < 24 or axis.end <= axis.begin:
        return []
    spans = []
    scale = width / (axis.end - axis.begin)
    ends = [round((phase.end - axis.begin) * scale) for phase in analysis.phases]
    begin = 0
    for letter, phase, end in zip(letters(analysis), analysis.phases, ends, strict=True):
        if end > begin:
            spans += [Span(letter, "value"), Span(MARKS[phase.kind] * (end - begin - 1), "band")]
        begin = max(end, begin)
    return [clip(tuple(spans), width), (Span(axis.text(width), "dim"),), ()]
