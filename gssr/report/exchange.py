"""The parts of a trace's page about messages and files: who sends to whom, and what is read and written."""

from collections.abc import Sequence

import numpy as np

from gssr.model.traces.io import FileCalls
from gssr.model.traces.messages import Exchange, matrix_of
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.verdicts.words import took
from gssr.render.cells import clean, flow, wrap
from gssr.render.glyphs import Glyphs
from gssr.render.matrix import MEASURES, amount, legend, matrix
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, count
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import PageOptions, rest_rows, section

_BYTES, _COUNT, _TIME, _RATE = MEASURES
_MOST = {"low": 3, "medium": 8, "high": 50}
_MOST_LINES = {"low": 0, "medium": 16, "high": 64}


def exchange_rows(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the section about messages and collective operations; no rows if there are neither."""
    found, width = trace.exchange, options.width
    if found is None or not (len(found.count) or trace.collectives):
        return []
    rows = section("Who talks to whom?", width, marks, f"{count(int(found.count.sum()), 'message')}, "
                   f"{amount(float(found.size.sum()), _BYTES)}")  # fmt: skip
    if len(found.count):
        rows += _matrix(found, options, marks) + _pairs(found, options, marks)
    if not trace.collectives:
        return rows
    head = (
        TableColumn("collective"), TableColumn("total", "right"), TableColumn("waiting", "right"),
        TableColumn("count", "right"),
        TableColumn("sent", "right", drop=1), TableColumn("received", "right", drop=2), TableColumn("on", drop=3),
    )  # fmt: skip
    lines: list[list[Cell]] = [
        [use.kind, took(use.total_ns), NONE if use.wait_ns is None else took(use.wait_ns), f"{use.n:,}",
         amount(float(use.sent), _BYTES), amount(float(use.received), _BYTES), clean(use.comm)]
        for use in trace.collectives[: _MOST[options.verbosity]]
    ]  # fmt: skip
    return [*rows, *([()] if len(found.count) else []), *table(head, lines, width, marks),
            *wrap("waiting: until the last rank had begun", width, role="dim")]  # fmt: skip


def _matrix(found: Exchange, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the matrix of bytes with its legend; no rows at low verbosity or for fewer than two ends."""
    most = min(_MOST_LINES[options.verbosity], len(found.ends))
    if not most or len(found.ends) < 2:
        return []
    own = matrix_of(found, at_most=most)
    rows = matrix(own.size.astype(np.float64), own.labels, _BYTES, options.width, marks)
    about = "lines send, columns receive; ranks; bytes: "
    return [*rows, *flow([(Span(about, "dim"),), *legend(_BYTES, marks)], options.width, marks.ellipsis)]


def _pairs(found: Exchange, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the table of the pairs that exchange most bytes, and how many more there are."""
    head = (
        TableColumn("from"), TableColumn("to"), TableColumn("bytes", "right"), TableColumn("messages", "right"),
        TableColumn("under way", "right"),
        TableColumn("late sender", "right", drop=2), TableColumn("rate", "right", drop=1), TableColumn("nodes", drop=3),
    )  # fmt: skip
    order = np.argsort(-found.size, kind="stable")[: _MOST[options.verbosity]].tolist()
    rates = found.rate()
    lines: list[list[Cell]] = []
    for at in order:
        source, target = found.ends[found.source[at]], found.ends[found.target[at]]
        nodes = " ".join(dict.fromkeys(clean(end.node) for end in (source, target) if end.node))
        names = [clean(end.name if end.rank is None else str(end.rank)) for end in (source, target)]
        timed = int(found.timed[at])
        lines.append([*names, amount(float(found.size[at]), _BYTES), f"{found.count[at]:,}",
                      took(found.time[at]) if timed else NONE, took(found.late[at]) if found.called[at] else NONE,
                      amount(float(rates[at]), _RATE) if timed else NONE, nodes])  # fmt: skip
    rows = [(), *table(head, lines, options.width, marks)]
    return rows + rest_rows(len(found.count) - len(order), "pair", "--csv messages", options.width)


def io_rows(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the section about files, by file and by call; no rows if none were traced."""
    if not trace.io:
        return []
    n_bytes = sum(each.bytes for each in trace.io)
    files = len({each.file for each in trace.io})
    rows = section("Which files?", options.width, marks, f"{count(files, 'file')}, {amount(float(n_bytes), _BYTES)}")
    for label, key in (("file", 0), ("call", 2)):
        head = (
            TableColumn(label, keep="end"), TableColumn("operation"), TableColumn("time", "right"),
            TableColumn("bytes", "right"),
            TableColumn("count", "right"), TableColumn("MB/s", "right", drop=1), TableColumn("longest", "right", drop=2),
            TableColumn("interface", drop=3),
        )  # fmt: skip
        groups: dict[tuple[str, str, str], list[FileCalls]] = {}
        for each in trace.io:
            groups.setdefault((str(each[key] or "(unknown)"), each.operation, each.layer), []).append(each)
        by_time = sorted(groups.items(), key=lambda group: -sum(each.total_ns for each in group[1]))
        lines = [_file_line(*named, own) for named, own in by_time[: _MOST[options.verbosity]]]
        rows += [*([()] if label == "call" else []), *table(head, lines, options.width, marks)]
        rows += rest_rows(len(by_time) - len(lines), "line", "--csv io", options.width)
    return rows


def _file_line(name: str, operation: str, layer: str, own: Sequence[FileCalls]) -> list[Cell]:
    """Return the cells of one file or call; its rate is only known if all of its calls told their size."""
    total, n_bytes = sum(each.total_ns for each in own), sum(each.bytes for each in own)
    is_sized = all(each.n_sized == each.n for each in own) and total
    rate = f"{n_bytes * 1e3 / total:.1f}" if is_sized else NONE
    counted = f"{sum(each.n for each in own):,}"
    return [clean(name), operation, took(total), amount(float(n_bytes), _BYTES), counted, rate,
            took(max(each.max_ns for each in own)), clean(layer)]  # fmt: skip
