"""The frame of a page: its head, its section titles, its notes and its closing line.

The axes that all drawings of one page share.

What a page is asked to show.
"""

import os
import shlex
import signal
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import BY_NAME, DETECTION_METRICS, SCORE_INPUTS, Metric
from gssr.model.results import Analysis
from gssr.model.statistics import balance
from gssr.render import clock
from gssr.render.cells import cell_width, clean, clip, fit, flow, wrap
from gssr.render.clock import duration, event_text, event_time, interval_text
from gssr.render.columns import average_into_columns
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import UNKNOWN, count, fixed, metric_of, nice_above, percent, quantity, scale_text
from gssr.score import how_to_measure, result_line
from gssr.store.format.rows import Event

LABEL = 11
"""Cells that the labels at the left of a page take."""

_ROUTINE = {"start", "end", "backend"}
_STATES: dict[str, tuple[str, Role]] = {
    "running": ("still running", "plain"),
    "completed": ("completed", "good"),
    "failed": ("failed", "bad"),
    "timeout": ("ended at its time limit", "bad"),
    "killed": ("killed", "bad"),
    "lost": ("lost: the recording stopped without an end", "bad"),
}


def page_head(analysis: Analysis, width: int, glyphs: Glyphs) -> list[Row]:
    """Say who ran what, where, for how long and how it ended, and what was recorded of it; also which part of the run
    is shown, if not all."""
    run = analysis.run
    name: list[Row] = [(Span("GSSR", "title"),), (Span(clean(run.label or run.run_id), "value"),)]
    if run.shown_job:
        name.append((Span(f"job {clean(run.shown_job)}"),))
    name.append(ending(analysis))
    rows = flow(name, width, glyphs.ellipsis, indent="  ")
    if run.command:
        rows.append((Span("$ ", "dim"), Span(fit(shlex.join(run.command), width - 2, glyphs.ellipsis))))
    rows.extend(flow([(Span(piece),) for piece in _extent(analysis)], width, glyphs.ellipsis, separator=", "))
    if not analysis.window.whole:
        rows.extend(wrap(left_out(analysis), width, role="outlier"))
    return [clip(row, width) for row in rows]


def ending(analysis: Analysis) -> Row:
    """Say how the run ended, with its exit code and the signal it stands for, if it has one."""
    words, role = _STATES.get(analysis.state, (clean(analysis.state), "plain"))
    code = analysis.run.exit_code
    if code is None:
        return (Span(words, role),)
    sign = f" ({signal.Signals(code - 128).name})" if code - 128 in set(signal.Signals) else ""
    return (Span(f"{words}, exit code {code}{sign}", role if code == 0 else "bad"),)


def _extent(analysis: Analysis) -> list[str]:
    """List what was recorded: GPUs, ranks if there are several, model, length, sampling, samples and gaps; unknown ones
    are left out."""
    names = sorted({gpu.name for gpu in analysis.gpus if gpu.name})
    kind = clean(names[0]) if len(names) == 1 else f"{len(names)} models" if names else None
    pieces = [
        gpus_and_nodes_text(analysis),
        count(analysis.n_ranks, "rank") if analysis.n_ranks > 1 else None,
        kind,
        duration(analysis.window.duration),
        sampling(analysis) or None,
        count(analysis.n_samples, "sample"),
        count(analysis.n_gaps, "gap"),
    ]
    return [piece for piece in pieces if piece]


def gpus_and_nodes_text(analysis: Analysis) -> str:
    """Say how many GPUs there are, on how many nodes."""
    if not analysis.gpus:
        return "no GPU"
    return f"{count(len(analysis.gpus), 'GPU')} on {count(analysis.n_nodes, 'node')}"


def sampling(analysis: Analysis) -> str:
    """Say how often and by which backend it was sampled; "" if neither is known."""
    interval = analysis.run.sampling_ms
    how = ["sampled"]
    if interval:
        how.append(f"every {interval_text(interval / 1000)}")
    if analysis.backend:
        how.append(f"by {clean(analysis.backend)}")
    return " ".join(how) if len(how) > 1 else ""


def left_out(analysis: Analysis) -> str:
    """Say which part of a run was looked at, and how much warm-up and tear-down was left out."""
    window, axis = analysis.window, time_axis(analysis)
    text = f"only {fixed(axis.begin - axis.origin, 1)} s to {fixed(axis.end - axis.origin, 1)} s after the start"
    if window.leading or window.trailing:
        text += f"; left out: {duration(window.leading)} of warm-up, {duration(window.trailing)} of tear-down"
    return text


def section(title: str, width: int, glyphs: Glyphs, about: str = "") -> list[Row]:
    """Draw an empty line and a titled rule across the page, with ``about`` at its end if there is room."""
    tail = f" {about} {glyphs.rule}" if about else ""
    room = width - len(title) - 4
    if cell_width(tail) > room - 3:
        tail = ""
    rule = glyphs.rule * max(room - cell_width(tail), 0)
    row = (Span(glyphs.rule * 2 + " ", "dim"), Span(title, "heading"), Span(f" {rule}", "dim"), Span(tail, "dim"))
    return [(), clip(row, width)]


def labelled(label: str, width: int, *value: Span) -> Row:
    """A line of the form ``label   value``."""
    return clip((Span(f"{label:<{LABEL}}"), *value), width)


def remark(text: str, width: int, role: Role = "dim", label: str = "") -> list[Row]:
    """Wrap a sentence under the values of labelled lines, with ``label`` before its first line; on a narrow page from
    its left edge."""
    indent = " " * LABEL if width >= 40 else ""
    return wrap(text, width, f"{label:<{len(indent)}}" if indent else f"{label} ".lstrip(), indent, role)


def rest_rows(n: int, noun: str, where: str, width: int) -> list[Row]:
    """Say how many rows of a table were left out, if any (``n``), and ``where`` they are ("": nowhere)."""
    return wrap(f"and {count(n, f'more {noun}')}{f': {where}' if where else ''}", width, role="dim") if n > 0 else []


def files_head(paths: Sequence[str], width: int, glyphs: Glyphs) -> list[Row]:
    """Begin a page with GSSR's name, that of the first file (``paths``, at least one), and how many more there are."""
    more = f" and {count(len(paths) - 1, 'more file')}" if paths[1:] else ""
    named = f"{clean(os.path.basename(paths[0]))}{more}"
    return flow([(Span("GSSR", "title"),), (Span(named, "value"),)], width, glyphs.ellipsis, indent="  ")


def happened(analysis: Analysis, most: int | None = None) -> list[tuple[str, str]]:
    """List what happened while it ran, oldest first, as (time in words, place and text), without what happens in every
    run.

    Of more than ``most`` (None: all) the user's marks are left out first, then what happened last.
    """
    axis = time_axis(analysis)
    places = {gpu.gpu: gpu.place for gpu in analysis.gpus}
    found = []
    chosen = sorted(events(analysis), key=lambda event: event.kind == "mark")[:most]
    for event in sorted(chosen, key=lambda event: event.time):
        place = event.node if event.gpu is None else places.get(event.gpu, event.node)
        at = event_time(event.time - axis.origin, axis.end - axis.origin)
        found.append((at, f"{f'{place}: ' if place else ''}{event_text(event)}"))
    return found


def events(analysis: Analysis) -> list[Event]:
    """The events that are told."""
    return [event for event in analysis.events if event.kind not in _ROUTINE]


def why_no_score(analysis: Analysis) -> str:
    """Say why the score is unknown, as a clause. Only for an analysis without one."""
    if not analysis.gpus:
        return "no GPU was recorded"
    if analysis.n_samples == 0:
        return "there are no samples"
    if analysis.metrics.keys().isdisjoint(SCORE_INPUTS):
        return "its inputs were not looked at"
    missing = [
        metric_of(name).label for name in SCORE_INPUTS if name in analysis.metrics and not analysis.metrics[name].n
    ]
    if len(missing) == len(SCORE_INPUTS):
        by = f" by {clean(analysis.backend)}" if analysis.backend else ""
        cure = how_to_measure(analysis.backend)
        return f"none of its inputs was measured{by}" + (f": {cure}" if cure else "")
    if not missing:
        return "not all of its inputs were looked at"
    return f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} not measured"


def drawn(analysis: Analysis) -> list[str]:
    """Return the metrics whose series hold any value, in the catalogue's order. A metric that only stands in for
    another one (STANDS_IN) is left out beside it, unless metrics were asked for by name."""
    found = [name for name, series in analysis.series.items() if np.isfinite(series.mean).any()]
    by_name = len(analysis.metrics) < sum(metric.kind != "bits" for metric in BY_NAME.values())
    asked = analysis.metrics.keys() if by_name else ()
    return [name for name in found if name in asked or STANDS_IN.get(name) not in found]


def compared(analysis: Analysis) -> frozenset[str]:
    """The metrics whose balance is known."""
    return frozenset(name for name, balance in analysis.balance.items() if balance.lowest is not None)


def imbalance_text(analysis: Analysis, name: str) -> str:
    """Say how large the imbalance in one metric is, with the lowest and the highest GPU.

    Says so instead if the metric was not measured, there is one GPU, or the metric was 0 throughout.
    """
    metric, evenness = metric_of(name), analysis.balance.get(name)
    if evenness is None or evenness.lowest is None or evenness.highest is None:
        return f"{UNKNOWN}: {metric.label} was not measured"
    if len(analysis.gpus) == 1:
        return "one GPU: nothing to compare"
    low, high = evenness.lowest, evenness.highest
    ends = (
        f"lowest {clean(low.place)} {quantity(low.mean.get(name), metric)}, "
        f"highest {clean(high.place)} {quantity(high.mean.get(name), metric)}"
    )
    if evenness.imbalance is None:
        return f"{UNKNOWN}: {metric.label} was 0 throughout"
    return f"{percent(evenness.imbalance)} of {metric.label} (1 - mean / highest): {ends}"


def strip_legend(metric: Metric, full: float, glyphs: Glyphs) -> str:
    """What the marks of a strip mean."""
    lowest, highest = glyphs.levels[0], glyphs.levels[-1]
    return f"{lowest} 0, {highest} {scale_text(metric, full)}, blank: no sample"


def closing_line(analysis: Analysis) -> str:
    """The line for programs that ends a page (gssr.score.result_line)."""
    return result_line(analysis.score, analysis.imbalance, len(analysis.gpus), analysis.n_gaps)


class PageTimeAxis(NamedTuple):
    """The window, unix s from ``begin`` to ``end``, labelled by the time since ``origin``."""

    begin: float
    end: float
    origin: float

    def columns(self, values: Floats, start: float, width: float, n: int) -> Floats:
        """A series' ``values`` [..., bins], ``width`` seconds each from ``start``, in ``n`` columns of the axis."""
        return average_into_columns(values, start, width, self.begin, self.end, n)

    def text(self, width: int) -> str:
        """The labels on one line."""
        return clock.axis_text(self.begin - self.origin, self.end - self.origin, width)

    def ticks(self, width: int) -> list[clock.Tick]:
        """Return the labels of an axis ``width`` columns long, each with its column (from 0)."""
        begin, span = self.begin - self.origin, self.end - self.begin
        return [
            clock.Tick(min((tick.at - begin) / span * width, width - 1.0) if span > 0 else 0.0, tick.label)
            for tick in clock.time_ticks(begin, begin + span, width)
        ]


def time_axis(analysis: Analysis) -> PageTimeAxis:
    """Return the time axis of an analysis: its window, counted from the run's start, or from the window's if that is
    unknown. A window without length, as that of a single sample, is drawn one sampling interval long."""
    window, started = analysis.window, analysis.run.started_at
    end = window.end if window.end > window.start else window.start + (analysis.run.sampling_ms or 1000.0) / 1000.0
    return PageTimeAxis(window.start, end, window.start if started is None else started)


def full_scale(analysis: Analysis, metric: Metric) -> float:
    """Return the value that fills the metric's axis, in its stored unit: the catalogue's or the GPUs' own limit, or if
    neither is known a round number above all samples."""
    statistics, of_nodes = analysis.metrics.get(metric.name), analysis.node_series.get(metric.name)
    greatest = statistics.max if statistics else None
    if of_nodes is not None:
        greatest = max(float(np.nanmax(of_nodes.high)), _LEAST_OF_NODES)
    return balance.full_scale(metric, analysis.gpus) or nice_above(greatest, metric)


_LEAST_OF_NODES = 1e6
"""No axis of a node's rate ends below this, B/s."""


Verbosity = Literal["low", "medium", "high"]


class Parts(NamedTuple):
    """Which parts a page has; its head, its notes and its closing line are always there."""

    summary: bool = True
    time_series: bool = False
    load_balancing: bool = False
    metadata: bool = False
    phases: bool = False
    roofline: bool = False


class PageOptions(NamedTuple):
    """How a page is drawn: ``width`` in cells, ``ascii`` for pure ASCII. ``metrics`` are those asked for by name: they are
    shown whatever the verbosity."""

    width: int = 80
    ascii: bool = False
    verbosity: Verbosity = "medium"
    metrics: tuple[str, ...] | None = None


KEY_METRICS: tuple[str, ...] = ("sm_active", "tensor_active", "dram_active", "power_usage", "memory_used")
"""The five that even a short page shows, where they were measured."""

_DETAILS = (
    "memory_copy_utilization", "tensor_hmma_active", "tensor_imma_active", "tensor_dfma_active", "integer_active",
    "memory_temperature",
)  # fmt: skip
STANDS_IN = {"memory_copy_utilization": "dram_active"}
"""What is shown only where the better metric was not measured, or when it is asked for by name."""


def is_detail(name: str) -> bool:
    """True for a metric that only a page of high verbosity shows."""
    return name in _DETAILS


def series_needed(options: PageOptions) -> tuple[str, ...]:
    """Return the metrics whose series pages and pictures draw, to be asked of the analysis; those that were not
    measured are missing in it."""
    return tuple(dict.fromkeys((*DETECTION_METRICS, *KEY_METRICS, *STANDS_IN, *(options.metrics or ()))))
