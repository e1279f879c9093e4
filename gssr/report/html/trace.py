"""The report of a trace as one HTML file: the sections of its page."""

import re

from gssr.model.traces.results import TraceAnalysis
from gssr.render.roles import Row
from gssr.report.html.document import page_of
from gssr.report.html.markup import Markup, fragment, tag
from gssr.report.page import PageOptions
from gssr.report.trace import describe, trace_page

_WIDTHS = {"wide": 110, "narrow": 58}
"""Cells; the style sheet shows what there is room for."""
_DRAWN = re.compile(r"[^\w\s]{3,}[^\w]*")
"""Bars and lines of blocks."""


def trace_report(trace: TraceAnalysis) -> str:
    """The report as the text of one HTML file, whole in itself; the same analysis gives the same text."""
    found = {shown: _parts(trace, width) for shown, width in _WIDTHS.items()}
    name = describe(trace)[0]
    sections = zip(*found.values(), strict=True)
    head, *others = [
        (each[0][0], [_text(rows, shown) for shown, (_, rows) in zip(found, each, strict=True)]) for each in sections
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


def _parts(trace: TraceAnalysis, width: int) -> list[tuple[str, list[Row]]]:
    """The titles of the page's sections and their rows; the first has none, and lacks the name. Then comes what was
    found."""
    parts: list[tuple[str, list[Row]]] = [("", [])]
    for row in trace_page(trace, PageOptions(width, False, "high"))[1:-2]:
        if len(row) > 1 and (row[0].role, row[1].role) == ("dim", "heading"):
            parts.append((row[1].text, []))
        else:
            parts[-1][1].append(row)
    return sorted(parts, key=lambda part: {"": 0, "Notes": 1}.get(part[0], 2))


def _text(rows: list[Row], shown: str) -> Markup:
    """Rows as they are; what is drawn is for eyes."""
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
