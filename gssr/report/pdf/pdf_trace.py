"""The report of a trace as a PDF: a picture along time, and the sections of its page."""

from __future__ import annotations

from typing import BinaryIO

from gssr.model.traces.trace_results import TraceAnalysis
from gssr.render.cells import cell_width, fit
from gssr.render.roles import Role, Row
from gssr.report.pdf.pictures import panel_of
from gssr.report.pdf.sheet import MARGIN, WIDE, Font, Sheet, write_pdf
from gssr.report.png.figure import BLUE, FAINT, INK, ORANGE
from gssr.report.png.png_trace import draw_over_time
from gssr.report.trace import describe, sections

_WIDTH = 109
"""Cells of a line."""
_SIZE = 7.6
_CELL = 1233 / 2048 * _SIZE / 72
"""Points of the letters, and inches of each: DejaVu Sans Mono's advance, 1233 units of 2048 to the em. A line is
then as wide as the sheet."""
_COLOURS: dict[Role, str] = {
    "dim": FAINT, "track": "#cfd4da", "outlier": ORANGE, "bad": ORANGE, "series": BLUE, "fill": BLUE, "compute": BLUE,
}  # fmt: skip
_BOLD: tuple[Role, ...] = ("title", "heading", "value")
_TALL, _AROUND = 1.6, 0.8
"""Inches: the picture along time, and what its title and its axis take."""


def trace_pdf(trace: TraceAnalysis, file: BinaryIO) -> None:
    """Write the report of a trace as a PDF to ``file``; the same analysis gives the same bytes. Raises OSError."""
    name = describe(trace)[0]
    write_pdf(f"GSSR trace report: {name}", ((fit(name, 80, "…"), written(trace)) for _ in range(1)), file)


def written(trace: TraceAnalysis) -> Sheet:
    """Write what was traced, what was found, what the GPUs did along time, then all other sections of the page.
    Returns the sheet."""
    sheet = Sheet()
    sheet.write("GSSR, trace report", Font(9.0, FAINT, bold=True))
    sheet.write(describe(trace)[0], Font(16.0, INK, bold=True), most=2)
    sheet.y += 0.08
    (_, head), *others = sections(trace, _WIDTH)
    _rows(sheet, head)
    found = [part for part in others if part[0] == "Notes"]
    for title, rows in found:
        _section(sheet, title, rows)
    if trace.gpus:
        _over_time(sheet, trace)
    for title, rows in others[len(found) :]:
        _section(sheet, title, rows)
    return sheet


def _section(sheet: Sheet, title: str, rows: list[Row]) -> None:
    sheet.heading(title, min(len(rows), 3) * _font("plain").line)
    _rows(sheet, rows)


def _over_time(sheet: Sheet, trace: TraceAnalysis) -> None:
    sheet.heading("What did the GPUs do?", _TALL + _AROUND)
    draw_over_time(panel_of(sheet, MARGIN + 0.35, WIDE - MARGIN, sheet.y + 0.25, _TALL), trace)
    sheet.y += _TALL + _AROUND


def _font(role: Role) -> Font:
    return Font(_SIZE, _COLOURS.get(role, INK), role in _BOLD, "DejaVu Sans Mono")


def _rows(sheet: Sheet, rows: list[Row]) -> None:
    """Write rows cell by cell, as on a terminal."""
    for row in rows:
        sheet.need(_font("plain").line)
        x = MARGIN
        for span in row:
            sheet.put(span.text, _font(span.role), x, sheet.y)
            x += _CELL * cell_width(span.text)
        sheet.y += _font("plain").line
