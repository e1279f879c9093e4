"""The report as a PDF of A4 pages, for a project proposal or a ticket: each part begins where the one before ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from gssr.gpu_vendors import in_its_words
from gssr.model.results import Analysis
from gssr.render.cells import clean, fit
from gssr.render.scale import count
from gssr.render.verdicts import advice_parts, limits_of, texts_of
from gssr.report.content import (
    ContentTable,
    beside_texts,
    definitions,
    facts,
    figures,
    metric_table,
    phase_table,
    process_table,
    title,
    where,
)
from gssr.report.page import drawn, events, happened
from gssr.report.pdf.pictures import draw_along_time, draw_balance, draw_breakdown, draw_nodes, draw_roofline
from gssr.report.pdf.sheet import BODY, DIM, LABEL, MARGIN, SMALL, WIDE, Font, Sheet, write_pdf
from gssr.report.png.figure import BLUE, FAINT, INK, ORANGE
from gssr.report.summary import host_texts
from gssr.report.traced import traced_table, traced_texts
from gssr.score import CAVEAT

if TYPE_CHECKING:
    from gssr.model.results import Verdict


_SEVERITIES = {"critical": "#b91c1c", "warning": "#c2410c", "info": BLUE}
_COMMAND_LINES = 3
_FIGURES_A_ROW = 4
_SCORE, _FIGURE, _ABOUT = Font(20.0, BLUE, bold=True), Font(14.0, bold=True), Font(7.0, FAINT)
_MONO = Font(7.5, family="DejaVu Sans Mono")


def pdf_report(analyses: Sequence[Analysis], file: BinaryIO) -> None:
    """Write the report of some runs as a PDF to ``file``; the same analyses give the same bytes. Raises OSError."""
    sheets = ((fit(f"{title(analysis)}, {analysis.run.run_id}", 80, "…"), written(analysis)) for analysis in analyses)
    write_pdf(f"GSSR report: {title(analyses[0])}", sheets, file)


@in_its_words
def written(analysis: Analysis) -> Sheet:
    """Write the pages of one run: who ran what, where the GPU time went, why, the numbers that stand out, and what
    that rests on. Returns the sheet."""
    sheet = Sheet()
    sheet.write("GSSR, GPU saturation report", Font(9.0, FAINT, bold=True))
    sheet.write(title(analysis), Font(19.0, INK, bold=True), most=2)
    sheet.y += 0.08
    for label, value in facts(analysis):
        sheet.put(label, DIM, MARGIN, sheet.y)
        sheet.write(value, _MONO if label == "Command" else SMALL, indent=0.85, most=_COMMAND_LINES)
    draw_breakdown(sheet, analysis)
    _verdicts(sheet, analysis)
    _summary(sheet, analysis)
    if drawn(analysis):
        draw_along_time(sheet, analysis)
        _events(sheet, analysis)
        draw_balance(sheet, analysis)
    _nodes(sheet, analysis)
    _traced(sheet, analysis)
    if analysis.judgement.phases:
        write_table(sheet, "Phases", phase_table(analysis))
    draw_roofline(sheet, analysis)
    if analysis.gpus:
        write_table(sheet, "All metrics", metric_table(analysis))
    _words(sheet, analysis)
    return sheet


def _summary(sheet: Sheet, analysis: Analysis) -> None:
    """Write the numbers that stand out, and how the run stands."""
    write_figures(sheet, analysis)
    sheet.write(f"The score is {CAVEAT}.", DIM)
    _labelled(sheet, beside_texts(analysis))


def write_figures(sheet: Sheet, analysis: Analysis) -> None:
    """Write the numbers that stand out below a heading, four in a row."""
    wide = (WIDE - 2 * MARGIN) / _FIGURES_A_ROW
    found = figures(analysis)
    abouts = [sheet.lines(figure.about, _ABOUT, wide - 0.25) for figure in found]
    firsts = range(0, len(found), _FIGURES_A_ROW)
    talls = [0.7 + 0.13 * max(len(about) for about in abouts[first : first + _FIGURES_A_ROW]) for first in firsts]
    sheet.heading("How well were the GPUs used?", sum(talls) + DIM.line)
    for first, tall in zip(firsts, talls, strict=True):
        top = sheet.y
        for i, figure in enumerate(found[first : first + _FIGURES_A_ROW]):
            x = MARGIN + i * wide
            sheet.put(figure.name, DIM, x, top)
            font, below = (_SCORE, 0.13) if first + i == 0 else (_FIGURE, 0.2)
            sheet.put(figure.text, font, x, top + below)
            sheet.y = top + 0.47
            if figure.share is not None:
                sheet.bar(x, wide - 0.3, 0.055, "#e8ebf0")
                sheet.bar(x, (wide - 0.3) * min(max(figure.share, 0.0), 1.0), 0.055, BLUE)
            for line, text in enumerate(abouts[first + i]):
                sheet.put(text, _ABOUT, x, top + 0.57 + 0.13 * line)
        sheet.y = top + tall


def _labelled(sheet: Sheet, told: list[tuple[str, str]]) -> None:
    """Write labels with their texts, a paragraph each."""
    for label, text in told:
        sheet.need(SMALL.line)
        sheet.put(label, DIM, MARGIN, sheet.y)
        sheet.write(text, SMALL, indent=0.85)


def _verdicts(sheet: Sheet, analysis: Analysis) -> None:
    """Write the verdicts, each kept together, and which rules could not be judged; nothing if there are neither."""
    if not analysis.judgement.verdicts and not analysis.judgement.abstentions:
        return
    first = _tall(sheet, analysis, analysis.judgement.verdicts[0]) if analysis.judgement.verdicts else BODY.line
    sheet.heading("Why?", first)
    if not analysis.judgement.verdicts:
        sheet.write("None of the rules that could be judged found a cause.", BODY)
    for verdict in analysis.judgement.verdicts:
        tall = _tall(sheet, analysis, verdict)
        sheet.need(tall)
        sheet.bar(MARGIN, 0.04, min(tall - 0.14, sheet.room), _SEVERITIES.get(verdict.severity, ORANGE))
        for text, font, indent in _paragraphs(analysis, verdict):
            sheet.write(text, font, indent)
        sheet.y += 0.14
    if analysis.judgement.abstentions:
        codes = ", ".join(analysis.judgement.abstentions)
        sheet.write(f"{count(len(analysis.judgement.abstentions), 'rule')} could not be judged: {codes}", DIM)


def _paragraphs(analysis: Analysis, verdict: Verdict) -> list[tuple[str, Font, float]]:
    """List the paragraphs of a verdict as (text, font, indent in inches)."""
    color = _SEVERITIES.get(verdict.severity, ORANGE)
    return [
        (f"{verdict.severity.upper()}  {clean(verdict.title)}", Font(LABEL.size, color, bold=True), 0.14),
        (clean(where(analysis, verdict)), DIM, 0.14),
        *((f"•  {clean(text)}", SMALL, 0.22) for text in texts_of(verdict)),
        *(
            (text if is_command or number else f"What to do: {text}", SMALL, 0.3 if is_command else 0.14)
            for number, (is_command, text) in enumerate(advice_parts(clean(verdict.advice)))
        ),
        (f"Rule {verdict.code}. {limits_of(clean(verdict.source))}", _ABOUT, 0.14),
    ]


def _tall(sheet: Sheet, analysis: Analysis, verdict: Verdict) -> float:
    return sum(sheet.tall(*paragraph) for paragraph in _paragraphs(analysis, verdict)) + 0.14


def _events(sheet: Sheet, analysis: Analysis) -> None:
    """Write the events, at most _MOST_EVENTS, and how many more there are; nothing if there are none."""
    n, told = len(events(analysis)), happened(analysis, _MOST_EVENTS)
    if not told:
        return
    sheet.need(LABEL.line + 2 * SMALL.line)
    sheet.write("Events", LABEL)
    for at, text in told:
        sheet.need(SMALL.line)
        sheet.put(at, DIM, MARGIN, sheet.y)
        sheet.write(text, SMALL, indent=0.85)
    if n > len(told):
        sheet.write(f"and {count(n - len(told), 'more event')}: see the report as HTML", DIM, indent=0.85)
    sheet.y += _GAP


def _nodes(sheet: Sheet, analysis: Analysis) -> None:
    """Write what was beside the GPUs: in words, along time, and process by process; nothing if it is not known."""
    told, found = host_texts(analysis), process_table(analysis)
    if not told and found is None:
        return
    sheet.heading("What did the nodes and the processes do?", 1.5)
    _labelled(sheet, told)
    sheet.y += _GAP
    draw_nodes(sheet, analysis)
    if found is not None:
        write_table(sheet, "", found)


def _traced(sheet: Sheet, analysis: Analysis) -> None:
    """Write what traces of the run say; nothing without any."""
    found = traced_table(analysis)
    if found is None:
        return
    sheet.heading("What was traced?", 1.0)
    for text in traced_texts(analysis.traces):
        sheet.write(text, SMALL)
    sheet.y += _GAP
    write_table(sheet, "", found)


_CELL, _HEAD, _WORD = Font(7.5), Font(7.5, FAINT, bold=True), Font(7.0)
_TERM, _BELOW = Font(7.0, bold=True), Font(7.0, FAINT)
_GAP, _BETWEEN = 0.12, 0.1
"""Inches: below a table, and between its columns at least."""
_MOST_EVENTS = 20


def _words(sheet: Sheet, analysis: Analysis) -> None:
    """Write notes on the data, if there are any, and what the words mean."""
    if analysis.notes:
        sheet.heading("Notes on the data", 2 * _WORD.line)
        for note in analysis.notes:
            sheet.write(f"•  {clean(note)}", _WORD)
        sheet.y += _GAP
    sheet.heading("What the words mean", 4 * _WORD.line)
    for term, text in definitions(analysis):
        sheet.need(sheet.tall(text, _WORD, indent=1.5))
        sheet.put(term, _TERM, MARGIN, sheet.y)
        sheet.write(text, _WORD, indent=1.5)
        sheet.y += 0.02


def write_table(sheet: Sheet, heading: str, table: ContentTable) -> None:
    """Write a table below ``heading`` ("" for none). The columns share the width by what they hold, in smaller letters
    if need be. On each further page its head is repeated."""
    if heading:
        sheet.heading(heading, 0.7)
    columns = list(zip(table.head, *table.rows, strict=True))
    needed = [max(sheet.width(cell, _HEAD) for cell in column) + _BETWEEN for column in columns]
    fitting = min((WIDE - 2 * MARGIN) / sum(needed), 1.0)
    head, cell = (replace(font, size=font.size * fitting) for font in (_HEAD, _CELL))
    needed = [width * fitting for width in needed]
    spare = (WIDE - 2 * MARGIN - sum(needed)) / max(len(needed) - 1, 1)
    edges, x = [], MARGIN
    for i, width in enumerate(needed):
        edges.append(x if i < table.n_text else x + width)
        x += width + spare

    def begin() -> None:
        sheet.row(table.head, edges, table.n_text, head)
        sheet.rule()
        sheet.y += 0.05

    sheet.need(0.7)
    begin()
    for number, row in enumerate(table.rows):
        below = table.below[number] if table.below else ""
        if sheet.need(cell.line + 0.03 + (sheet.tall(below, _BELOW, 0.2) if below else 0.0)):
            begin()
        sheet.row(row, edges, table.n_text, cell)
        if below:
            sheet.write(below, _BELOW, indent=0.2)
            sheet.y += 0.04
    sheet.y += _GAP
