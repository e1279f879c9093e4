"""The report of a trace as one HTML file: the sections of its page."""

import re

from gssr.model.traces.trace_results import TraceAnalysis
from gssr.render.roles import Row
from gssr.report.html.html_document import page_of
from gssr.report.html.markup import Markup, fragment, tag
from gssr.report.trace import describe, sections

_WIDTHS = {"wide": 110, "narrow": 58}
"""Cells; the style sheet shows what there is room for."""
_DRAWN = re.compile(r"[^\w\s]{3,}[^\w]*")
"""Bars and lines of blocks."""


def trace_report(trace: TraceAnalysis) -> str:
    """Return the report of a trace as the text of one HTML file, whole in itself; the same analysis gives the same
    text."""
    found = {shown: sections(trace, width) for shown, width in _WIDTHS.items()}
    name = describe(trace)[0]
    both = zip(*found.values(), strict=True)
    head, *others = [
        (each[0][0], [_text(rows, shown) for shown, (_, rows) in zip(found, each, strict=True)]) for each in both
    ]
    return page_of(
        name,
        tag(
            "main",
            tag("header", tag("p", "GSSR, trace report", class_="brand"), tag("h1", name), *head[1]),
            *(tag("section", tag("h2", title), *texts) for title, texts in others),
            class_="run",
        ),
    )


def _text(rows: list[Row], shown: str) -> Markup:
    """Draw rows as they are, with the CSS class ``shown``; what is only drawn is hidden from screen readers."""
    lines = (
        fragment(
            *(
                tag(
                    "span",
                    span.text,
                    class_=span.role,
                    aria_hidden="true" if _DRAWN.fullmatch(span.text.strip()) else None,
                )
                for span in row
            ),
            Markup("\n"),
        )
        for row in rows
    )
    return tag("pre", *lines, class_=f"page {shown}", tabindex=0)
