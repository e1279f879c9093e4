"""The last page of the PDF: phases, metrics, and what the words mean."""

from dataclasses import replace

from gssr.model.results import Analysis
from gssr.render.cells import clean
from gssr.report.content import Table, definitions, metric_table, phase_table
from gssr.report.png_frame import FAINT
from gssr.report.sheet import MARGIN, WIDE, Font, Sheet

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
