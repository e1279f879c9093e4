"""The page that ``gssr analyze`` prints: for a terminal, and as it is for a batch log.

It answers in this order: how well were the GPUs used, when not, which of them differ, what bounds the work. It depends on
the analysis and the options alone, never on the terminal around it.
"""

from collections.abc import Sequence

from gssr.model.results import Analysis
from gssr.render.cells import cleaned, clip
from gssr.render.charset import in_ascii
from gssr.render.glyphs import glyphs
from gssr.render.roles import ROLES, Row, Span
from gssr.report.load_balancing import load_balancing
from gssr.report.metadata import metadata
from gssr.report.notes import notes
from gssr.report.options import Options, Parts
from gssr.report.page import closing_line, head
from gssr.report.phases import phases
from gssr.report.roofline import roofline
from gssr.report.summary import summary


def page(analysis: Analysis, parts: Parts, options: Options) -> list[Row]:
    """The rows of one run's page, at most ``options.width`` cells each; only the closing line is never cut, because programs
    read it."""
    marks = glyphs(options.ascii)
    rows = head(analysis, options.width, marks)
    if parts.summary:
        rows += summary(analysis, options)
    if parts.time_series:
        from gssr.report.time_series import time_series  # plotext takes a tenth of a second to import

        rows += time_series(analysis, options)
    if parts.phases:
        rows += phases(analysis, options)
    if parts.load_balancing:
        rows += load_balancing(analysis, options)
    if parts.roofline:
        rows += roofline(analysis, options)
    if parts.metadata:
        rows += metadata(analysis, options)
    rows += notes(analysis, options)
    return [*rows, (), (Span(closing_line(analysis), "value"),)]


def pages(analyses: Sequence[Analysis], parts: Parts, options: Options) -> list[Row]:
    """The pages of several runs one after another, a heavy line between them."""
    return apart([page(analysis, parts, options) for analysis in analyses], options)


def apart(found: Sequence[list[Row]], options: Options) -> list[Row]:
    """Pages one after another, a heavy line between them."""
    rows: list[Row] = []
    for index, own in enumerate(found):
        if index:
            rule = glyphs(options.ascii).heavy * options.width
            rows += [(), clip((Span(rule, "dim"),), options.width), ()]
        rows += own
    return rows


def to_text(rows: Sequence[Row], color: bool, ascii_only: bool) -> str:
    """The rows as text, clean, a newline after each. Without ``color`` there is no escape byte in it; with ``ascii_only`` no
    byte above 0x7f: what has no stand-in becomes one ``?`` per cell. Blanks at the ends of lines are dropped."""
    return "".join(_line(cleaned(row), color, ascii_only) + "\n" for row in rows)


def _line(row: Row, color: bool, ascii_only: bool) -> str:
    text = ""
    for span in _trimmed(row):
        piece = in_ascii(span.text) if ascii_only else span.text
        sgr = ROLES[span.role].sgr if color else ""
        text += f"\x1b[{sgr}m{piece}\x1b[0m" if sgr else piece
    return text


def _trimmed(row: Row) -> list[Span]:
    spans = list(row)
    while spans and not spans[-1].text.rstrip():
        spans.pop()
    if spans:
        spans[-1] = Span(spans[-1].text.rstrip(), spans[-1].role)
    return spans
