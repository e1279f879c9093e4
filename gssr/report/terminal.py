"""The page that ``gssr analyze`` prints: for a terminal, and as it is for a batch log.

It answers in this order: how well were the GPUs used, when not, which of them differ, what bounds the work. It depends on
the analysis and the options alone, never on the terminal around it.

Many runs of one file as a table: what there is, and how each of them was.
"""

from collections.abc import Sequence
from datetime import datetime
from shlex import quote

from gssr.gpu_vendors import in_its_words
from gssr.model.results import Analysis
from gssr.render.cells import clean, cleaned, clip, fit, flow
from gssr.render.clock import duration
from gssr.render.glyphs import glyph_set, in_ascii
from gssr.render.roles import ROLES, Row, Span
from gssr.render.scale import UNKNOWN, fixed, percent
from gssr.render.table import TableColumn, table
from gssr.report.about import metadata, notes
from gssr.report.breakdown import breakdown_section
from gssr.report.page import PageOptions, Parts, closing_line, page_head
from gssr.report.summary import summary


@in_its_words
def page(analysis: Analysis, parts: Parts, options: PageOptions) -> list[Row]:
    """Draw one run's page, at most ``options.width`` cells wide; only the closing line is never cut, because programs
    read it."""
    marks = glyph_set(options.ascii)
    rows, told = page_head(analysis, options.width, marks), notes(analysis, options)
    rows += [*breakdown_section(analysis.judgement.breakdown, options, analysis.judgement.leading_loss), *told]
    if parts.summary:
        rows += summary(analysis, options)
    if parts.time_series:
        from gssr.report.over_time import time_series

        rows += time_series(analysis, options)
    if parts.phases:
        from gssr.report.phases import phases

        rows += phases(analysis, options)
    if parts.load_balancing:
        from gssr.report.load_balancing import load_balancing

        rows += load_balancing(analysis, options)
    if parts.roofline:
        from gssr.report.phases import roofline

        rows += roofline(analysis, options)
    if analysis.traces:
        from gssr.report.traced import traced

        rows += traced(analysis, options)
    if parts.metadata:
        rows += metadata(analysis, options)
    return [*rows, (), (Span(closing_line(analysis), "value"),)]


def pages(analyses: Sequence[Analysis], parts: Parts, options: PageOptions) -> list[Row]:
    """The pages of several runs one after another, a heavy line between them."""
    return joined_pages([page(analysis, parts, options) for analysis in analyses], options)


def joined_pages(found: Sequence[list[Row]], options: PageOptions) -> list[Row]:
    """Put pages one after another, with a heavy line between them."""
    rows: list[Row] = []
    for index, own in enumerate(found):
        if index:
            rule = glyph_set(options.ascii).heavy * options.width
            rows += [(), clip((Span(rule, "dim"),), options.width), ()]
        rows += own
    return rows


def to_text(rows: Sequence[Row], color: bool, ascii_only: bool) -> str:
    """Write the rows as clean text, a newline after each, without blanks at the ends of lines.

    Without ``color`` there is no escape byte in it; with ``ascii_only`` no byte above 0x7f: what has no stand-in
    becomes one ``?`` for each cell.
    """
    return "".join(_line(cleaned(row), color, ascii_only) + "\n" for row in rows)


def _line(row: Row, color: bool, ascii_only: bool) -> str:
    """Write a row, with the escape sequences of its roles if ``color``."""
    text = ""
    for span in _trimmed(row):
        piece = in_ascii(span.text) if ascii_only else span.text
        sgr = ROLES[span.role].sgr if color else ""
        text += f"\x1b[{sgr}m{piece}\x1b[0m" if sgr else piece
    return text


def _trimmed(row: Row) -> list[Span]:
    """Return the spans of a row without blanks at its end."""
    spans = list(row)
    while spans and not spans[-1].text.rstrip():
        spans.pop()
    if spans:
        spans[-1] = Span(spans[-1].text.rstrip(), spans[-1].role)
    return spans


MOST_PAGES = 20
"""Of a file with more runs the page is a table of them."""
_NAME = 10
_COLUMNS = (
    TableColumn("run", align="right"),
    TableColumn("id", drop=2),
    TableColumn("label", drop=3),
    TableColumn("state"),
    TableColumn("started", drop=4),
    TableColumn("lasted", align="right", drop=5),
    TableColumn("GPUs", align="right"),
    TableColumn("score", align="right"),
    TableColumn("imbalance", align="right", drop=1),
)


def run_cells(number: int, analysis: Analysis, ascii_only: bool) -> tuple[str, ...]:
    """Return the cells of the table of runs for a run, which is the ``number``-th in its file, from 1."""
    run, ellipsis = analysis.run, glyph_set(ascii_only).ellipsis
    return (
        str(number), fit(clean(run.run_id), _NAME, ellipsis), fit(clean(run.label or ""), _NAME, ellipsis), analysis.state,
        _moment(run.started_at), duration(analysis.window.duration), f"{len(analysis.gpus)}",
        fixed(analysis.score, 3, UNKNOWN), percent(analysis.imbalance) if len(analysis.gpus) > 1 else "",
    )  # fmt: skip


def runs_page(name: str, rows: Sequence[Sequence[str]], options: PageOptions) -> list[Row]:
    """Draw the table of the runs of the recording ``name``, at most ``options.width`` cells wide but for the closing
    line, which says how one of them is shown. ``rows``: as of ``run_cells``."""
    marks = glyph_set(options.ascii)
    head = [(Span("GSSR", "title"),), (Span(clean(name), "value"),), (Span(f"{len(rows):,} runs"),)]
    last = f"{len(rows):,} runs; one of them: gssr analyze --run NUMBER {clean(quote(name))}"
    return [
        *flow([*head], options.width, marks.ellipsis), (), *table(_COLUMNS, rows, options.width, marks), (),
        (Span(last, "value"),),
    ]  # fmt: skip


def _moment(time: float | None) -> str:
    """Say a unix time as local month, day, hour and minute; "" for None, UNKNOWN for one that is no date."""
    try:
        return "" if time is None else f"{datetime.fromtimestamp(time):%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
