"""Where the GPU time went: the bar that adds up to 100 %, its legend as a table, and the shares along time."""

import numpy as np

from gssr.model.results import Analysis
from gssr.render.clock import duration
from gssr.render.scale import percent
from gssr.report import chart_texts
from gssr.report.breakdown import breakdown_remarks
from gssr.report.breakdown_drawing import BreakdownDrawing, breakdown_drawing
from gssr.report.content import ContentTable
from gssr.report.html.markup import (
    Markup,
    area,
    axis_labels,
    drawn_table,
    fragment,
    grid,
    level_labels,
    sentence,
    share,
    svg,
    tag,
    time_marks,
)
from gssr.report.page import time_axis

_LEAST_WRITTEN = 0.06
"""Share of the bar that a part needs for its percentage."""


def breakdown_part(analysis: Analysis) -> Markup:
    """Draw the bar, the categories in words and numbers, and the shares along time; empty if the GPU time was not
    accounted for."""
    drawing = breakdown_drawing(analysis)
    if drawing is None or analysis.judgement.breakdown is None:
        return Markup()
    return fragment(
        tag("p", sentence(drawing.headline), class_="headline"),
        _bar(drawing),
        drawn_table(_legend(drawing), "Shares of the GPU time"),
        *(tag("p", sentence(text), class_="dim") for text in breakdown_remarks(analysis.judgement.breakdown)),
        _shares_over_time(analysis, drawing),
    )


def _bar(drawing: BreakdownDrawing) -> Markup:
    """Draw the bar that adds up to 100 %, with percentages in the parts that have room for one."""
    parts = []
    for each in drawing.categories:
        inside = [
            tag("title", f"{each.text} ({each.about})"),
            tag("rect", width="100%", height="100%", fill=each.colour),
        ]
        if each.share >= _LEAST_WRITTEN:
            text = tag("text", percent(each.share), x="50%", y="50%", dy="0.35em", text_anchor="middle")
            inside.append(tag("g", text, fill=each.text_colour))
        parts.append(tag("svg", *inside, x=share(each.start), width=share(each.share), aria_hidden="true"))
    bar = tag("svg", *parts, class_="bar", role="img", aria_label=chart_texts.breakdown_shares(drawing))
    return tag("figure", bar, class_="chart")


def _legend(drawing: BreakdownDrawing) -> ContentTable:
    """Build the table of the named categories, with swatches of their colours."""
    rows = []
    for each in drawing.named:
        colour = tag(
            "svg", tag("rect", width="100%", height="100%", fill=each.colour), class_="swatch", aria_hidden="true"
        )
        label = fragment(colour, each.label)
        rows.append((label, each.known_by, percent(each.share), percent(each.error), duration(each.gpu_seconds)))
    return ContentTable(("The GPUs", "Known by", "Share", "±", "GPU time"), tuple(rows), n_text=2)


def _shares_over_time(analysis: Analysis, drawing: BreakdownDrawing) -> Markup:
    """Draw the shares of all categories along time, stacked."""
    axis, marks = time_axis(analysis), time_marks(analysis)
    edges = np.asarray((drawing.edges - axis.begin) / (axis.end - axis.begin), np.float64)
    parts = [
        tag("g", tag("title", each.text), tag("path", d=area(edges, each.bottom, each.top)), fill=each.colour)
        for each in drawing.categories
    ]
    return tag(
        "figure",
        tag("figcaption", tag("b", "Shares of the GPU time over time")),
        tag(
            "div",
            level_labels("100 %", "50 %", "0"),
            svg(chart_texts.breakdown_over_time(drawing), *parts, grid([mark.at for mark in marks])),
            axis_labels(marks),
            class_="plot",
        ),
        class_="chart lead shares",
    )
