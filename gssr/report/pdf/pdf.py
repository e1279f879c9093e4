"""The report as a PDF of two to four A4 pages for each run, for a project proposal or a ticket.

The last page of the PDF: phases, metrics, and what the words mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from gssr.model.results import Analysis
from gssr.render.cells import clean, fit
from gssr.render.verdicts import limits_of, texts_of
from gssr.report.content import Table, definitions, facts, figures, metric_table, phase_table, title, where
from gssr.report.page import drawn
from gssr.report.pdf.pictures import COURSE, along_time_page, balance_page, course
from gssr.report.pdf.sheet import BODY, DIM, LABEL, MARGIN, SMALL, TALL, WIDE, Font, Sheet
from gssr.report.png.figure import BLUE, FAINT, INK, ORANGE, style
from gssr.report.summary import clocks, host_texts
from gssr.score import CAVEAT
from gssr.version import __version__

if TYPE_CHECKING:
    from gssr.model.results import Verdict


_SEVERITIES = {"critical": "#b91c1c", "warning": "#c2410c", "info": BLUE}
_COMMAND_LINES = 3
_FIGURES_A_ROW = 4
_SCORE, _FIGURE, _ABOUT = Font(20.0, BLUE, bold=True), Font(14.0, bold=True), Font(7.0, FAINT)
_MONO = Font(7.5, family="DejaVu Sans Mono")


def pdf_report(analyses: Sequence[Analysis], file: BinaryIO) -> None:
    """Write the report of some runs; the same analyses give the same bytes. Raises OSError."""
    from matplotlib.backends.backend_pdf import PdfPages

    with style(font_size=8.0, axes_titlesize=9.0, pdf_fonttype=42):
        found = {"Title": f"GSSR report: {title(analyses[0])}", "Creator": f"GSSR {__version__}", "Producer": None}
        with PdfPages(file, metadata={**found, "CreationDate": None}) as pdf:
            for analysis in analyses:
                sheets = _sheets(analysis)
                for number, sheet in enumerate(sheets, 1):
                    _foot(sheet, analysis, number, len(sheets))
                    pdf.savefig(sheet.figure)


def _sheets(analysis: Analysis) -> list[Sheet]:
    pages = [_first(analysis)]
    if drawn(analysis):
        pages += [along_time_page(analysis), balance_page(analysis)]
    return [*pages, tables_page(analysis)]


def _foot(sheet: Sheet, analysis: Analysis, number: int, of: int) -> None:
    at = TALL - 0.5
    sheet.put(fit(f"{title(analysis)}, {analysis.run.run_id}", 80, "…"), DIM, MARGIN, at)
    sheet.put(f"GSSR {__version__}, page {number} of {of}", DIM, WIDE - MARGIN, at, "right")


def _first(analysis: Analysis) -> Sheet:
    """Who ran what, the score, and the verdicts."""
    sheet = Sheet()
    sheet.write("GSSR, GPU saturation report", Font(9.0, FAINT, bold=True))
    sheet.write(title(analysis), Font(19.0, INK, bold=True), most=2)
    sheet.y += 0.08
    for label, value in facts(analysis):
        sheet.put(label, DIM, MARGIN, sheet.y)
        sheet.write(value, _MONO if label == "Command" else SMALL, indent=0.85, most=_COMMAND_LINES)
    sheet.y += 0.15
    _summary(sheet, analysis)
    sheet.y += 0.15
    _verdicts(sheet, analysis)
    if sheet.room > COURSE and drawn(analysis):
        course(sheet, analysis)
    return sheet


def _summary(sheet: Sheet, analysis: Analysis) -> None:
    sheet.heading("How well used?")
    wide = (WIDE - 2 * MARGIN) / _FIGURES_A_ROW
    found = figures(analysis)
    for begin in range(0, len(found), _FIGURES_A_ROW):
        top = sheet.y
        for i, figure in enumerate(found[begin : begin + _FIGURES_A_ROW]):
            x = MARGIN + i * wide
            sheet.put(figure.name, DIM, x, top)
            font, below = (_SCORE, 0.13) if begin + i == 0 else (_FIGURE, 0.2)
            sheet.put(figure.text, font, x, top + below)
            sheet.y = top + 0.47
            if figure.share is not None:
                sheet.bar(x, wide - 0.3, 0.055, "#e8ebf0")
                sheet.bar(x, (wide - 0.3) * min(max(figure.share, 0.0), 1.0), 0.055, BLUE)
            for line, text in enumerate(sheet.lines(figure.about, _ABOUT, wide - 0.25)):
                sheet.put(text, _ABOUT, x, top + 0.57 + 0.13 * line)
        sheet.y = top + 1.02
    sheet.write(f"The score is {CAVEAT}.", DIM)
    sides = [("clocks", text) for text, _ in clocks(analysis, every=False)] if analysis.gpus else []
    for label, text in [*sides, *host_texts(analysis)]:
        sheet.put(label, DIM, MARGIN, sheet.y)
        sheet.write(text, SMALL, indent=0.85)


def _verdicts(sheet: Sheet, analysis: Analysis) -> None:
    """As many as there is room for; of the others the titles, or their number."""
    if not analysis.verdicts and not analysis.abstentions:
        return
    sheet.heading("Why?")
    if not analysis.verdicts:
        sheet.write("None of the rules that could be judged found a cause.", BODY)
    for i, verdict in enumerate(analysis.verdicts):
        left = len(analysis.verdicts) - i
        if _tall(sheet, analysis, verdict) + (left > 1) * DIM.line > sheet.room:
            sheet.write(f"and {left} more: see gssr analyze -v high, or the report as HTML", DIM)
            return
        _verdict(sheet, analysis, verdict)


def _verdict(sheet: Sheet, analysis: Analysis, verdict: Verdict) -> None:
    color = _SEVERITIES.get(verdict.severity, ORANGE)
    tall = _tall(sheet, analysis, verdict) - 0.14
    sheet.bar(MARGIN, 0.04, tall, color)
    for text, font, indent in _paragraphs(analysis, verdict):
        sheet.write(text, font, indent)
    sheet.y += 0.14


def _paragraphs(analysis: Analysis, verdict: Verdict) -> list[tuple[str, Font, float]]:
    """A verdict's texts, their fonts and indents."""
    color = _SEVERITIES.get(verdict.severity, ORANGE)
    return [
        (f"{verdict.severity.upper()}  {clean(verdict.title)}", Font(LABEL.size, color, bold=True), 0.14),
        (where(analysis, verdict), DIM, 0.14),
        *((f"•  {clean(text)}", SMALL, 0.22) for text in texts_of(verdict)),
        (f"What to do: {clean(verdict.advice)}", SMALL, 0.14),
        (f"Rule {verdict.code}; {limits_of(clean(verdict.source))}", _ABOUT, 0.14),
    ]


def _tall(sheet: Sheet, analysis: Analysis, verdict: Verdict) -> float:
    return sum(sheet.tall(*paragraph) for paragraph in _paragraphs(analysis, verdict)) + 0.14


_CELL, _HEAD, _WORD = Font(7.5), Font(7.5, FAINT, bold=True), Font(7.0)
_TERM = Font(7.0, bold=True)
_GAP, _BETWEEN = 0.12, 0.1
"""Inches: below a table, and between its columns at least."""


def tables_page(analysis: Analysis) -> Sheet:
    """As much as there is room for; what the words mean comes last."""
    sheet = Sheet()
    if analysis.phases:
        sheet.heading("Phases")
        _table(sheet, phase_table(analysis))
    if analysis.gpus:
        sheet.heading("All metrics")
        _table(sheet, metric_table(analysis))
    if analysis.notes:
        sheet.heading("Notes on the data")
        for note in analysis.notes:
            sheet.write(f"•  {clean(note)}", _WORD)
        sheet.y += _GAP
    sheet.heading("What the words mean")
    for term, text in definitions(analysis):
        if sheet.tall(text, _WORD, indent=1.35) > sheet.room:
            break
        sheet.put(term, _TERM, MARGIN, sheet.y)
        sheet.write(text, _WORD, indent=1.35)
    return sheet


def _table(sheet: Sheet, table: Table) -> None:
    """The columns share the width by what they hold; where that is too much, in smaller letters."""
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
    sheet.row(table.head, edges, table.n_text, head)
    sheet.rule()
    sheet.y += 0.05
    for number, row in enumerate(table.rows):
        sheet.row(row, edges, table.n_text, cell)
        if table.below and table.below[number]:
            sheet.write(table.below[number], Font(7.0, FAINT), indent=0.2)
            sheet.y += 0.04
    sheet.y += _GAP
