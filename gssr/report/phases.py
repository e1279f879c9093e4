"""What it did when: the phases of a run.

What bounds the work: where a run and its phases lie under the roofline.
"""

from gssr.metrics import DETECTION_METRICS
from gssr.model.results import Analysis, Phase, Place
from gssr.model.statistics.roofline import roofs
from gssr.peaks import Peaks
from gssr.render.cells import clip, wrap
from gssr.render.clock import duration, moment
from gssr.render.glyphs import glyph_set
from gssr.render.roles import Row, Span
from gssr.render.roofline import engineering
from gssr.render.roofline import roofline as draw
from gssr.render.scale import count, fixed, metric_of, percent, quantity
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import PageOptions, PageTimeAxis, remark, section, time_axis

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MARKS = {"start-up": "+", "steady": "=", "recurring": "~", "idle": ".", "tail": "-"}
"""What fills a phase's part of the line, as different as ASCII allows."""


def letters(analysis: Analysis) -> list[str]:
    """A letter for each phase, in the order of time."""
    return [LETTERS[number % len(LETTERS)] for number in range(len(analysis.judgement.phases))]


def phase_text(phase: Phase) -> str:
    """Say what a phase was: the activity in it, its dips, and what was found; "" if nothing is known."""
    lead = next((name for name in DETECTION_METRICS if phase.means.get(name) is not None), None)
    pieces = []
    if lead is not None:
        pieces.append(f"{metric_of(lead).label} {quantity(phase.means[lead], metric_of(lead))}")
    if phase.cycle is not None and lead is not None:
        pieces.append(dips(phase))
    # What a start-up waits for is told as well: shares are of the phase's own time.
    titles = (verdict.title for verdict in phase.verdicts if verdict.code != "recurring_dips")
    found = [title.replace(" of the GPU time ", " of its GPU time ") for title in titles]
    return ". ".join(["; ".join(pieces), *found] if pieces else found)


def dips(phase: Phase) -> str:
    """Say how many dips a recurring phase has, how long, how often and how deep; "" for other phases."""
    cycle = phase.cycle
    if cycle is None:
        return ""
    often = f" every {duration(cycle.period)}" if cycle.period is not None else ", irregular"
    return f"{count(cycle.count, 'dip')} of {duration(cycle.seconds)}{often}, to {percent(cycle.low)}"


def phases(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the part of the page that says what happened when; no rows without phases."""
    if not analysis.judgement.phases:
        return []
    width, marks, axis = options.width, glyph_set(options.ascii), time_axis(analysis)
    rows = section("Phases", width, marks, "where several metrics change at once")
    rows += _line(analysis, axis, width)
    scored = any(phase.score is not None for phase in analysis.judgement.phases)
    lines: list[list[Cell]] = []
    for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True):
        at = moment(phase.start - axis.origin, axis.end - axis.origin)
        lines.append([
            (Span(letter, "value"), Span(f" {phase.kind}")), at, duration(phase.seconds), percent(phase.share),
            *([(Span(fixed(phase.score, 3), "value"),)] if scored else []),
        ])  # fmt: skip
    head = [
        TableColumn("phase"),
        TableColumn("start", "right"),
        TableColumn("lasted", "right", drop=2),
        TableColumn("GPU-hours", "right", drop=1),
        *([TableColumn("score", "right")] if scored else []),
    ]
    drawn = table(head, lines, width, marks, gap=2)
    rows.append(drawn[0])
    for row, phase in zip(drawn[1:], analysis.judgement.phases, strict=True):
        text = phase_text(phase)
        rows.append(row)
        if text and options.verbosity != "low":
            rows += wrap(text, width, "  ", "  ")
    return rows


def _line(analysis: Analysis, axis: PageTimeAxis, width: int) -> list[Row]:
    """Draw the phases along time on one line, each with its letter at its beginning, and the axis below; no rows on a
    narrow page."""
    if width < 24 or axis.end <= axis.begin:
        return []
    spans = []
    scale = width / (axis.end - axis.begin)
    ends = [round((phase.end - axis.begin) * scale) for phase in analysis.judgement.phases]
    begin = 0
    for letter, phase, end in zip(letters(analysis), analysis.judgement.phases, ends, strict=True):
        if end > begin:
            spans += [Span(letter, "value"), Span(MARKS[phase.kind] * (end - begin - 1), "band")]
        begin = max(end, begin)
    return [clip(tuple(spans), width), (Span(axis.text(width), "dim"),), ()]


WHOLE = "*"
CAVEAT = (
    "an upper bound: FLOP/s are pipe activities times peaks, bytes are DRAM activity times peak bandwidth; an active pipe "
    "need not do useful arithmetic"
)


def roofline_points(analysis: Analysis) -> list[tuple[str, str, Place]]:
    """Return (mark, name, place) of each phase that has a place (none if there are fewer than two phases), and last of
    the whole run, if it has one."""
    found: list[tuple[str, str, Place]] = [
        (letter, phase.kind, phase.place)
        for letter, phase in zip(letters(analysis), analysis.judgement.phases, strict=True)
        if isinstance(phase.place, Place)
    ]
    if len(analysis.judgement.phases) < 2:
        found = []
    return [*found, (WHOLE, "all", analysis.judgement.place)] if isinstance(analysis.judgement.place, Place) else found


def drawn_roofs(peaks: Peaks, analysis: Analysis) -> list[tuple[str, float]]:
    """Return the highest roof, and those of the pipes that do most at some point, each as (label, FLOP/s)."""
    used = {found.dominant.peak for _, _, found in roofline_points(analysis)}
    return [roof for number, roof in enumerate(roofs(peaks)) if number == 0 or roof[1] in used]


def bound_text(found: Place) -> str:
    """Say in one sentence what bounds the work at this place, and how near to the roof it is."""
    side = "below" if found.intensity < found.ridge else "above"
    what = "neither compute- nor memory-bound" if found.bound == "neither" else f"{found.bound}-bound"
    return (
        f"{what}: {intensity_text(found)}, {side} the {found.dominant.label} pipe's ridge at {fixed(found.ridge, 1)}; "
        f"at most {engineering(found.flops)}FLOP/s, {percent(found.of_roof)} of the roof there"
    )


def intensity_text(found: Place) -> str:
    """Its arithmetic intensity."""
    return f"{found.intensity:.3g} FLOP/B"


def roofline(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the part of the page that says what bounds the work; no rows if it was not looked at. If the run has no
    place, its reason instead of the chart."""
    if analysis.judgement.place is None:
        return []
    width, marks, peaks = options.width, glyph_set(options.ascii), analysis.judgement.peaks
    about = f"{peaks.model}: one GPU, log-log" if peaks else ""
    rows = section("What bounds it?", width, marks, about)
    found = roofline_points(analysis)
    if isinstance(analysis.judgement.place, str):
        rows += remark(analysis.judgement.place, width, "plain", label="roofline")
    else:
        when = "averaged over the whole run" if analysis.window.whole else "averaged over this part of the run"
        rows += remark(f"{when}, {bound_text(analysis.judgement.place)}", width, "plain", label="roofline")
        if analysis.judgement.place.unpriced:
            rows += remark(f"peak unknown, left out: {', '.join(analysis.judgement.place.unpriced)}", width)
    if peaks is None or not found:
        return rows
    rows += remark(CAVEAT, width)
    points = [(mark, place.intensity, place.flops) for mark, _, place in found]
    chart = draw(drawn_roofs(peaks, analysis), peaks.memory_bandwidth, points, width, marks)
    if chart and options.verbosity != "low":
        rows += [(), clip((Span("FLOP/s", "heading"), Span(" at most, by FLOP/B", "dim")), width), *chart]
    return [*rows, (), *_table(found, options)]


def _table(found: list[tuple[str, str, Place]], options: PageOptions) -> list[Row]:
    """Draw a table of the points, with their shares of the roof and their two busiest pipes."""
    lines: list[list[Cell]] = [
        [
            (Span(mark, "outlier"), Span(f" {name}")), f"{place.intensity:.3g}", engineering(place.flops),
            engineering(place.bytes), percent(place.of_roof), place.bound, _pipes(place),
        ]
        for mark, name, place in found
    ]  # fmt: skip
    head = [
        TableColumn("phase"), TableColumn("FLOP/B", "right"), TableColumn("FLOP/s", "right"),
        TableColumn("B/s", "right", drop=2),
        TableColumn("of roof", "right"), TableColumn("bound by"), TableColumn("pipes", drop=1),
    ]  # fmt: skip
    return table(head, lines, options.width, glyph_set(options.ascii), gap=2)


def _pipes(place: Place) -> str:
    """Who does the arithmetic, the most first."""
    total = place.flops or 1.0
    return ", ".join(f"{pipe.label} {100 * pipe.flops / total:.0f} %" for pipe in place.pipes[:2])
