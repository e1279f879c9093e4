"""The report of a trace as one HTML file: the sections of its page."""

from gssr.model.traces.results import TraceAnalysis
from gssr.render.roles import Row
from gssr.report.html.document import page_of
from gssr.report.html.markup import Markup, fragment, tag
from gssr.report.page import PageOptions
from gssr.report.trace import trace_page

_WIDTH = 110


def trace_report(trace: TraceAnalysis) -> str:
    """The report as the text of one HTML file, whole in itself; the same analysis gives the same text."""
    parts: list[tuple[str, list[Row]]] = [("", [])]
    for row in trace_page(trace, PageOptions(_WIDTH, False, "high")):
        if len(row) > 1 and (row[0].role, row[1].role) == ("dim", "heading"):
            parts.append((row[1].text, []))
        else:
            parts[-1][1].append(row)
    (_, (head, *about)), *sections = parts
    name = "".join(span.text for span in head).removeprefix("GSSR").strip()
    return page_of(
        name,
        tag(
            "main",
            tag("header", tag("p", "GSSR, trace report", class_="brand"), tag("h1", name), _text(about)),
            *(tag("section", tag("h2", title), _text(rows)) for title, rows in sections),
            class_="run",
        ),
    )


def _text(rows: list[Row]) -> Markup:
    lines = (fragment(*(tag("span", span.text, class_=span.role) for span in row), Markup("\n")) for row in rows)
    return tag("pre", *lines, class_="page")
