"""What a notebook shows of a recording and of a run. Labels and commands are users' text: everything is escaped."""

import shlex
from collections.abc import Sequence

from gssr.model.results import Analysis, Series
from gssr.render.clock import duration
from gssr.render.scale import count, energy, fixed, metric_of, percent, scale_text
from gssr.report.html.html_over_time import time_edges
from gssr.report.html.markup import TALL, WIDE, Markup, area, fragment, stairs, tag
from gssr.report.page import full_scale
from gssr.score import CAVEAT

_MOST = 6
_LEFT = "text-align:left"
_COLOR = "#1f6feb"
"""Reads on white and on black."""


def run_html(analysis: Analysis, along: Series | None) -> str:
    """Make the HTML of a run: what it was, its score, a chart of the series ``along`` (no chart for None), and the
    first few verdicts."""
    run = analysis.run
    ended = analysis.state if run.exit_code is None else f"{analysis.state}, exit code {run.exit_code}"
    facts = [
        ("run", run.label or run.run_id),
        ("command", shlex.join(run.command)),
        ("state", ended),
        ("GPUs", f"{count(len(analysis.gpus), 'GPU')} on {count(analysis.n_nodes, 'node')}"),
        ("duration", duration(analysis.window.duration)),
        ("score", f"{fixed(analysis.score, 3, 'unknown')} ({CAVEAT})"),
        ("imbalance", f"{percent(analysis.imbalance)} of SM active"),
        ("energy", energy(analysis.energy_j)),
    ]
    told = [tag("li", f"{verdict.severity}: {verdict.title}") for verdict in analysis.judgement.verdicts[:_MOST]]
    return fragment(
        tag("table", tag("tbody", *map(_row, facts))), _chart(analysis, along), tag("ul", *told) if told else Markup()
    )


def recording_html(path: str, found: Sequence[tuple[Analysis, Series | None]]) -> str:
    """Make the HTML of a recording: one line for each run, with its series as a small drawing (none for None)."""
    head = ("", "run", "state", "GPUs", "duration", "score", "over time")
    rows = [
        _row((
            str(number), own.run.label or own.run.run_id, own.state, str(len(own.gpus)), duration(own.window.duration),
            fixed(own.score, 3, "unknown"), _drawing(own, along, "width:160px;height:24px"),
        ))
        for number, (own, along) in enumerate(found, 1)
    ]  # fmt: skip
    table = tag("table", tag("thead", _row(head, "th")), tag("tbody", *rows))
    return fragment(tag("p", tag("b", path)), table)


def _chart(analysis: Analysis, along: Series | None) -> Markup:
    """Make a chart of a series with its title and the ends of its axis; empty for None."""
    if along is None:
        return Markup()
    metric = metric_of(along.metric)
    full = scale_text(metric, full_scale(analysis, metric))
    band = ": mean, and lowest to highest GPU" if len(analysis.gpus) > 1 else ""
    ends = tag("div", tag("span", "0 s"), tag("span", duration(analysis.window.duration)),
               style="display:flex;justify-content:space-between")  # fmt: skip
    drawing = _drawing(analysis, along, "width:100%;height:90px")
    return tag("div", tag("div", f"{metric.label}, 0 to {full}{band}"), drawing, ends, style="max-width:640px")


def _drawing(analysis: Analysis, along: Series | None, style: str) -> Markup:
    """Draw a series and the band from its lowest to its highest GPU as SVG, empty for None. Its grid takes the colour
    of the text around it."""
    if along is None:
        return Markup()
    metric, edges = metric_of(along.metric), time_edges(analysis, along)
    full = full_scale(analysis, metric)
    own: dict[str, str] = {"vector_effect": "non-scaling-stroke", "fill": "none"}
    return tag(
        "svg",
        tag("path", d=f"M0 {TALL / 2:g}H{WIDE:g}M0 {TALL:g}H{WIDE:g}", stroke="currentColor", stroke_opacity="0.3", **own),
        tag("path", d=area(edges, along.low / full, along.high / full), fill=_COLOR, fill_opacity="0.25"),
        tag("path", d=stairs(edges, along.mean / full), stroke=_COLOR, stroke_width="1.5", **own),
        viewBox=f"0 0 {WIDE:g} {TALL:g}", preserveAspectRatio="none", role="img", style=style,
        aria_label=f"{metric.label} over time",
    )  # fmt: skip


def _row(cells: Sequence[str], name: str = "td") -> Markup:
    return tag("tr", *(tag(name, cell, style=_LEFT) for cell in cells))
