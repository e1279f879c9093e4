"""The page of a trace: how well the GPUs were used, by which kernels, when they were not and why; and its JSON object.

The object's keys are a contract (docs/traces.md): they are only ever added to. Times are whole ns from the trace's zero.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import Metric
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.traces.call_tree import CallTree, places_text
from gssr.model.traces.critical_path import CriticalPath
from gssr.model.traces.idle import MOST_GAPS
from gssr.model.traces.pipelines import stages, transfer_waits
from gssr.model.traces.profiled_kernels import UnprofiledKernel
from gssr.model.traces.tables import TABLES, launch_numbers, rows_of
from gssr.model.traces.trace_results import CAUSES, Cause, Gap, GpuUse, OwnMetric, Step, TraceAnalysis
from gssr.model.verdicts.words import damage_text, no_gpus_text, took
from gssr.render.breakdown import LEAST_SHOWN
from gssr.render.cells import cell_width, clean, clip, fit, flow, wrap
from gssr.render.columns import bar, split_row, strip
from gssr.render.function_names import distinct_names, short_name
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import NONE, count, fixed, percent, quantity
from gssr.render.table import Cell, TableColumn, table
from gssr.render.verdicts import command_rows
from gssr.report.about import note_rows
from gssr.report.breakdown import breakdown_section
from gssr.report.call_tree import call_rows, shares_of
from gssr.report.exchange import exchange_rows, io_rows
from gssr.report.json_document import breakdown_object, number, verdict_object
from gssr.report.kernel_profiles import first_launch, profile_command, profile_object
from gssr.report.page import LABEL, PageOptions, labelled, remark, rest_rows, section

SCHEMA = "gssr.trace/1"
SCHEMA_OF_RUNS = "gssr.traces/1"
"""Of the object that holds those of several runs."""
_MOST = {"low": 3, "medium": 10, "high": 50}
"""Rows of a table."""
_TOLD = 1000
"""Gaps are told from this part of the time on."""
_WHOLE = 1000
"""TFLOP/s from which on they are written without decimals."""
_TOLD_OF_PATH = 3
"""Names on the critical path that the page tells."""
_MOST_OF_IT = 0.99
"""Where a GPU works for less of the job's time than this share, the page shows for how long each does."""
_ROOMY = 64
"""From so many cells on a table of names has all its numbers."""
_LONGEST_NAME = 60
"""Cells of a name in a sentence."""
_LEAST_NAME = 12
"""Cells of a name, for which numbers give way."""
_OF_CUDA = re.compile(r"cu(?:da)?[A-Z]")
_CAUSES: dict[Cause, str] = {
    "host": "the next work was not launched yet",
    "launch": "between two pieces of work, below 30 µs",
    "dependency": "launched, waits for an event or other work",
    "copy": "a copy is launched, waits for its data",
    "unknown": "the trace does not tell what launched it",
    "outside": "before a GPU's first kernel or copy, after its last",
}


def trace_page(trace: TraceAnalysis, options: PageOptions) -> list[Row]:
    """Draw the page, at most ``options.width`` cells wide but for the closing line; parts that the trace holds nothing
    for are left out."""
    width, marks = options.width, glyph_set(options.ascii)
    rows, told = _head(trace, width, marks), note_rows(trace.verdicts, trace.abstentions, _sentences(trace), options)
    n_rows = len(rows)
    rows += breakdown_section(trace.breakdown, options)
    if options.verbosity == "low":
        rows, told = [*rows, *told], []
    if trace.gpus:
        rows += _split(trace, width, marks)
        if len(trace.gpus) > 1:
            rows += _gpus(trace, options, marks)
        rows += _kernels(trace, options, marks)
        rows += _idle(trace, options, marks)
        rows += _critical_path(trace, options, marks)
    elif trace.tree is not None:
        rows += call_rows(trace.tree, options, marks)
    rows += _samples(trace, options, marks)
    rows += _steps(trace, options, marks)
    rows += _pipelines(trace, options, marks)
    rows += exchange_rows(trace, options, marks) + io_rows(trace, options, marks)
    rows += _metrics(trace, options, marks)
    rows += _ranges(trace, options, marks)
    if trace.whole and options.verbosity != "low" and len(rows) == n_rows:
        where = "--csv counters lists its values" if trace.counters else "gssr tui shows when it happened"
        is_empty = not trace.counters and "intervals" not in trace.holds
        rows += [(), *wrap("it holds no intervals" if is_empty else f"nothing in it has a length: {where}", width)]
    return [*rows, *told, (), (Span(closing_line(trace), "value"),)]


def sections(trace: TraceAnalysis, width: int) -> list[tuple[str, list[Row]]]:
    """Return the page's sections as (title, rows) for a report: first what was traced, without a title and the name,
    then notes, then the rest. The closing line is left out."""
    parts: list[tuple[str, list[Row]]] = [("", [])]
    for row in trace_page(trace, PageOptions(width, False, "high"))[1:-2]:
        if len(row) > 1 and (row[0].role, row[1].role) == ("dim", "heading"):
            parts.append((row[1].text, []))
        else:
            parts[-1][1].append(row)
    return sorted(parts, key=lambda part: {"": 0, "Notes": 1}.get(part[0], 2))


def closing_line(trace: TraceAnalysis) -> str:
    """Return the line for programs that ends the page; shares are ``unknown`` in a window without GPU time. Of a
    profile the shares of its paradigms."""
    if trace.tree is not None and _is_profile(trace):
        return f"GSSR {_of_calls(trace.tree)}"
    kernels = sum(gpu.n_kernels for gpu in trace.gpus)
    shares = [("busy", "busy_ns"), ("compute", "compute_ns"), ("exposed_communication", "exposed_communication_ns")]
    known = [f"{name}={_share(trace, key):.3f}" if trace.span_ns else f"{name}=unknown" for name, key in shares]
    return f"GSSR {' '.join(known)} gpus={len(trace.gpus)} kernels={kernels}"


def _is_profile(trace: TraceAnalysis) -> bool:
    return all(source.format in ("cube", "proton") for source in trace.sources)


def _of_calls(tree: CallTree) -> str:
    """Return the line for programs about a call tree: the shares of its first four paradigms, and how many places and
    functions it has."""
    shares = shares_of(tree)
    known = [f"{name}={share:.3f}" for name, share in shares.items() if name.isidentifier() and share >= 0.0005]
    return " ".join([*known[:4], f"{tree.noun.lower()}s={len(tree.places)}", f"functions={len(set(tree.names))}"])


def _sum(trace: TraceAnalysis, key: str) -> int:
    return sum(int(getattr(gpu, key)) for gpu in trace.gpus)


def _share(trace: TraceAnalysis, key: str) -> float:
    """Return the share (0-1) that the time ``key`` has in the time of all GPUs together."""
    return (trace.idle_ns if key == "idle_ns" else _sum(trace, key)) / max(trace.span_ns, 1)


def _head(trace: TraceAnalysis, width: int, marks: Glyphs) -> list[Row]:
    """Name the trace and describe it in a few rows, with the window if it is not all of it."""
    named, *pieces = describe(trace)
    rows = flow([(Span("GSSR", "title"),), (Span(named, "value"),)], width, marks.ellipsis, indent="  ")
    rows += flow([(Span(piece),) for piece in pieces], width, marks.ellipsis, separator=", ")
    if trace.is_damaged:
        rows += wrap(f"not judged: {clean(damage_text(trace.sources))}", width, role="outlier")
    if not trace.whole:
        begin, end = (f"{at / 1e9:.9g} s" for at in trace.window)
        rows += wrap(f"only {begin} to {end} after the trace's zero", width, role="outlier")
    if trace.like_hta:
        rows += wrap("as HolisticTraceAnalysis counts, to compare with: whole µs, no last step", width, role="outlier")
    return rows


def describe(trace: TraceAnalysis) -> list[str]:
    """List the name of its files, then its GPUs or places, how long it is, and what recorded it."""
    paths = [fit(os.path.basename(source.path), 80, "…") for source in trace.sources]
    more = f" and {count(len(paths) - 1, 'more file')}" if paths[1:] else ""
    nodes = {gpu.node for gpu in trace.gpus if gpu.node is not None}
    tools = dict.fromkeys(f"{source.tool or source.format} {source.version}".strip() for source in trace.sources)
    if trace.tree is not None and _is_profile(trace):
        return ["".join([*paths[:1], more]), *_describe_calls(trace.tree, clean(", ".join(tools)))]
    gpus = count(len(trace.gpus), "GPU") if trace.gpus else no_gpus_text(trace.sources)
    places = [] if trace.gpus or trace.tree is None else [places_text(trace.tree)]
    events = sum(source.n_events for source in trace.sources)
    return [
        "".join([*paths[:1], more]),
        *places,
        gpus + (f" on {count(len(nodes), 'node')}" if nodes and trace.gpus else ""),
        *sorted({clean(value) for name, value in trace.facts.items() if re.match("GPU |gpu$", name)} - {""})[:2],
        took(trace.window[1] - trace.window[0]),
        *([count(_sum(trace, "n_kernels"), "kernel")] if trace.gpus or not places else []),
        f"{count(events, 'event')} by {clean(', '.join(tools))}",
    ]


def _describe_calls(tree: CallTree, tools: str) -> list[str]:
    nodes = {track.node for track in tree.places if track.node is not None}
    places = places_text(tree) + (f" on {count(len(nodes), 'node')}" if nodes else "")
    return [places, count(len(tree), "call path"), f"by {tools}"]


PARTS: tuple[tuple[str, str, Role], ...] = (
    ("compute", "compute_ns", "series"),
    ("exposed communication", "exposed_communication_ns", "outlier"),
    ("exposed copies", "exposed_copy_ns", "gap"),
    ("idle", "idle_ns", "dim"),
)
"""The split: what adds up to the span."""


def _fills(marks: Glyphs) -> str:
    return f"{marks.full}{marks.shares[1]}{marks.shares[2]} "


def _split(trace: TraceAnalysis, width: int, marks: Glyphs) -> list[Row]:
    """Draw the split as a bar with its legend, the hidden share of communication if there is any, and the share busy
    over time. The heading says which part of the breakdown's time it is of."""
    about = "from the first kernel or copy to the last"
    if trace.breakdown is not None and trace.breakdown.gpu_seconds > 0:
        of_breakdown = percent(trace.span_ns / 1e9 / trace.breakdown.gpu_seconds)
        about = (
            "" if of_breakdown == percent(1.0) else f"first kernel or copy to last: {of_breakdown} of the time above"
        )
    rows = section("How well used?", width, marks, about)
    room = max(width - LABEL, 8)
    rows.append(labelled("split", width, *split_bar([_share(trace, key) for _, key, _ in PARTS], room, marks)))
    legend = [
        (Span(f"{fill or ' '} ", role), Span(f"{name} {percent(_share(trace, key))}"))
        for fill, (name, key, role) in zip(_fills(marks), PARTS, strict=True)
    ]
    rows += [labelled("", width, *row) for row in flow(legend, room, marks.ellipsis, separator="   ")]
    if "communication" in trace.holds:
        hidden = 1 - _sum(trace, "exposed_communication_ns") / max(_sum(trace, "communication_ns"), 1)
        rows += remark(
            f"{percent(hidden)} of the communication lies under computation", width, "plain", label="overlap"
        )
    rows += _copies_outside_kernels(trace, width) + _flops(trace, width)
    values = over_time(trace, room)
    begin, end = trace.extent or (0, 0)
    left, right = took(begin), took(end)
    axis = f"{left}{right:>{max(room - len(left), len(right) + 1)}}"
    return [
        *rows, (), labelled("over time", width, *strip(values.tolist(), marks)), labelled("", width, Span(axis, "dim")),
        *remark(f"share busy, {'mean of the GPUs; ' if len(trace.gpus) > 1 else ''}{marks.levels[0]} 0, "
                f"{marks.levels[-1]} 100 %", width),
    ]  # fmt: skip


def _copies_outside_kernels(trace: TraceAnalysis, width: int) -> list[Row]:
    """Say how much of the exposed copies the breakdown does not count as waits for copies; no rows if it is little."""
    breakdown = trace.breakdown
    if breakdown is None:
        return []
    outside = _sum(trace, "exposed_copy_ns") - breakdown.by_gpu[:, POSITIONS["idle.copies"]].sum() * 1e9
    if outside < LEAST_SHOWN * breakdown.gpu_seconds * 1e9:
        return []
    where = "before a GPU's first kernel, after its last or within a GPU"
    text = f"{took(outside)} of them are {where}; the table above doesn't count them as waiting"
    return remark(text, width, label="copies")


def _flops(trace: TraceAnalysis, width: int) -> list[Row]:
    """Draw the line about floating-point operations per second of the matrix products, or one that says how to record
    their shapes. Returns no rows for a trace without matrix products."""
    if "multiplications" not in trace.holds:
        return []
    known = [each for each in trace.flops if each.flops is not None]
    flops, gpu_ns = sum(each.flops or 0.0 for each in known), sum(each.gpu_ns for each in known)
    if not gpu_ns:
        how = "record_shapes=True of torch.profiler records them"
        about = "shapes do not tell" if "shapes" in trace.holds else f"no shapes were recorded: {how}"
        return remark(f"unknown: {about}", width, "plain", label="TFLOP/s")
    n, of = sum(each.n for each in known), sum(each.n for each in trace.flops)
    models = {(each.model, each.peak) for each in known}
    model, peak = models.pop() if len(models) == 1 else (None, None)

    def rate(ns: int) -> str:
        share = f", {percent(flops * 1e9 / ns / peak)} of {model}'s peak (dense BF16)" if peak else ""
        tera = flops / ns / 1e3
        return f"{f'{tera:,.0f}' if tera >= _WHOLE else f'{tera:.3g}'}{share}"

    names, kernels = rows_of("kernels", trace)
    kernel_ns = sum(row[names.index("total_ns")] for row in kernels)
    some = "" if n == of else f"{n:,} of {of:,}, "
    about = f"{some}{percent(min(gpu_ns / max(kernel_ns, 1), 1.0))} of the kernel time"
    text = (
        f"matrix products whose shapes are known ({about}): {rate(gpu_ns)} while they run; "
        f"{rate(trace.span_ns)} over the time of all GPUs"
    )
    return remark(text, width, "plain", label="TFLOP/s")


def split_bar(shares: Sequence[float], width: int, marks: Glyphs) -> Row:
    """Draw a split, the shares (0-1) of PARTS, in exactly ``width`` cells; blank for idle."""
    return split_row(shares, ((fill, role) for fill, (_, _, role) in zip(_fills(marks), PARTS, strict=True)), width)


def over_time(trace: TraceAnalysis, n: int, name: str = "busy") -> Floats:
    """Return the share ``busy`` or in ``compute`` as the mean of all GPUs, [n] in equal columns of the job's time."""
    found = np.zeros(n)
    for gpu in trace.gpus:
        shares = gpu.busy_over_time if name == "busy" else gpu.types_over_time[0]
        found += gpu.shares_between(shares, *(trace.extent or (0, 0)), n)
    return found / max(len(trace.gpus), 1)


def _gpus(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw a table of the GPUs with their split, an empty row before it, as many GPUs as the verbosity allows. Shares are of
    each GPU's own span. That span is a column if one GPU's is shorter than _MOST_OF_IT of the mean."""
    length = trace.span_ns / max(len(trace.gpus), 1)
    apart = any(gpu.span_ns < _MOST_OF_IT * length for gpu in trace.gpus)
    head = (
        TableColumn("GPU"), TableColumn("split", least=8, most=30, drop=2),
        *([TableColumn("span", "right")] if apart else []),
        TableColumn("busy", "right"), TableColumn("compute", "right"), TableColumn("exp.comm", "right"),
        TableColumn("exp.copy", "right", drop=3), TableColumn("overlap", "right", drop=4),
        TableColumn("comm.", "right", drop=1),
        TableColumn("kernels", "right", drop=5),
    )  # fmt: skip

    def share(gpu: GpuUse, key: str) -> float:
        return float(getattr(gpu, key) / max(gpu.span_ns, 1))

    def shown(gpu: GpuUse, key: str) -> str:
        return f"{100 * share(gpu, key):.1f}" if gpu.span_ns else NONE

    most = {"low": 4, "medium": 16, "high": 4096}[options.verbosity]
    lines: list[list[Cell]] = [
        [clean(gpu.place), partial(split_bar, [share(gpu, key) for _, key, _ in PARTS], marks=marks),
         *([took(gpu.span_ns)] if apart else []),
         *(shown(gpu, f"{key}_ns") for key in ("busy", "compute", "exposed_communication", "exposed_copy")),
         NONE if gpu.overlap is None else f"{100 * gpu.overlap:.1f}", took(gpu.communication_ns), f"{gpu.n_kernels:,}"]
        for gpu in trace.gpus[:most]
    ]  # fmt: skip
    rows = [(), *table(head, lines, options.width, marks)]
    rows += rest_rows(len(trace.gpus) - most, "GPU", "", options.width)
    if apart:
        about = "shares of each GPU's span, from its first kernel or copy to its last; above, of the job's"
        rows += wrap(about, options.width, role="dim")
    return rows


def _tops(trace: TraceAnalysis, name: str, options: PageOptions, marks: Glyphs, label: str) -> list[Row]:
    """Draw the first rows of the table ``name`` of lengths, with ``label`` above the names, and how many more there
    are; no rows if it is empty. Names are cut to what the numbers leave."""
    fifth = {"copies": "GB/s"} | ({"ranges": "GPU time", "operators": "GPU time"} if trace.gpus else {})
    drop = 0 if options.width >= _ROOMY else 1
    names, found = rows_of(name, trace)
    most, n = _MOST[options.verbosity], 0
    shown: list[str] = []
    lines: list[list[Cell]] = []
    for values in found:
        row, n = dict(zip(names, values, strict=True)), n + 1
        if len(lines) < most:
            shown.append(clean(row["name"] if "name" in row else row["operation"]))
            rate = row.get("bytes_per_s")
            own = (
                took(row["gpu_ns" if fifth.get(name) == "GPU time" else "median_ns"])
                if rate is None
                else fixed(rate / 1e9, 2)
            )
            numbers = [f"{100 * row['share']:.1f}", took(row["total_ns"]), f"{row['count']:,}", own]
            cell = partial(_name_cell, shown, len(lines), marks=marks)
            lines.append([cell, *numbers, took(row["mean_ns"]), took(row["max_ns"])])
    if not lines:
        return []
    longest = max(cell_width(each) for each in (label, *shown))
    head = (
        TableColumn(label, least=min(longest, _LEAST_NAME), most=longest), TableColumn("%", "right"),
        TableColumn("total", "right"),
        TableColumn("count", "right"), TableColumn(fifth.get(name, "median"), "right"), TableColumn("mean", "right", drop),
        TableColumn("max", "right", drop),
    )  # fmt: skip
    rows = [(), *table(head, lines, options.width, marks)]
    return rows + rest_rows(n - len(lines), "name", f"--csv {name}", options.width)


def _name_cell(names: Sequence[str], at: int, width: int, marks: Glyphs) -> Row:
    """Draw the name at index ``at`` of different names, cut to ``width`` cells so that it differs from the others."""
    return (Span(distinct_names(names, width, marks.ellipsis)[at]),)


def _kernels(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the section about kernels and copies and, unless verbosity is low, calls and launches."""
    fewer = options._replace(verbosity="low") if options.verbosity == "medium" else options
    rows = section("Which kernels?", options.width, marks, "by their time")
    rows += _tops(trace, "kernels", options, marks, "kernel")[1:]
    rows += _tops(trace, "copies", options, marks, "copy")
    rows += _hlo(trace, options, marks)
    if options.verbosity == "low":
        return rows
    rows += _tops(trace, "api", fewer, marks, "call") + _launches(trace, options.width)
    longest = next_to_profile(trace)
    if longest is not None and (command := profile_command(longest.name, longest.others)) is not None:
        share = f"{_fit_name(longest.name)} takes {percent(longest.share)} of the time of all kernels"
        text = f"{share}; to measure {first_launch(longest.name, longest.others)}:"
        rows += [
            (),
            *remark(text, options.width, "plain", label="profile"),
            *command_rows(command, options.width, role="value"),
        ]
    return rows


def next_to_profile(trace: TraceAnalysis) -> UnprofiledKernel | None:
    """Return the kernel that computes with the most time. None if the trace has none that has a function's name, by which
    Nsight Compute could measure it, or no call of CUDA."""
    names, calls = rows_of("api", trace)
    called = (str(row[names.index("name")]) for row in calls)
    if not any(_OF_CUDA.match(name) for name in called):
        return None
    names, kernels = rows_of("kernels", trace)
    at = [names.index(each) for each in ("name", "category", "share")]
    told = [[row[each] for each in at] for row in kernels]
    for name, category, share in told:
        if category == "compute" and profile_command(name) is not None:
            return UnprofiledKernel(name, share, [other for other, *_ in told if other != name])
    return None


def _samples(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the section about functions that samples found; no rows without samples."""
    every, most = trace.sampled_functions, _MOST[options.verbosity]
    total = sum(each.exclusive for each in every)
    if not total:
        return []
    longest = max(_LEAST_NAME, *(cell_width(clean(each.name)) for each in every[:most]))
    head = (
        TableColumn("function", least=_LEAST_NAME, most=longest), TableColumn("incl %", "right"),
        TableColumn("excl %", "right"), TableColumn("samples", "right", 1),
    )  # fmt: skip
    lines: list[list[Cell]] = [
        [
            clean(each.name),
            *(fixed(100 * n / total, 1) for n in (each.inclusive, each.exclusive)),
            f"{each.exclusive:,}",
        ]
        for each in every[:most]
    ]
    rows = section("What did samples find?", options.width, marks, f"{count(total, 'sample')} of all threads")
    rows += table(head, lines, options.width, marks)
    return rows + rest_rows(len(every) - len(lines), "name", "--csv sampled_functions", options.width)


def _hlo(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw XLA's operations by category and module, an empty row before them; no rows if there are none."""
    names, found = rows_of("hlo", trace)
    every = [dict(zip(names, values, strict=True)) for values in found]
    most = _MOST[options.verbosity]
    head = (
        TableColumn("HLO category", least=_LEAST_NAME, most=24), TableColumn("module", least=_LEAST_NAME, most=40, drop=3),
        TableColumn("%", "right"), TableColumn("total", "right"), TableColumn("count", "right", drop=2),
        TableColumn("TFLOP/s", "right", drop=1), TableColumn("GB/s", "right", drop=1),
    )  # fmt: skip
    lines: list[list[Cell]] = [
        [clean(row["category"]) or NONE, clean(row["module"]) or NONE, f"{100 * row['share']:.1f}", took(row["total_ns"]),
         f"{row['count']:,}", *(NONE if row[key] != row[key] else fixed(row[key] / unit, 2)
                                for key, unit in (("flops_per_s", 1e12), ("moved_bytes_per_s", 1e9)))]
        for row in every[:most]
    ]  # fmt: skip
    if not lines:
        return []
    rows = [(), *table(head, lines, options.width, marks)]
    return rows + rest_rows(len(every) - most, "row", "--csv hlo", options.width)


def _launches(trace: TraceAnalysis, width: int) -> list[Row]:
    """Say how long launches waited; no rows if there are none."""
    found = launch_numbers(trace)
    if not found["count"]:
        return []
    delay, n_short = found["delay_ns"], found["short_kernels"]
    short = "no work" if not n_short else "1 piece of work" if n_short == 1 else f"{n_short:,} pieces of work"
    than = "were shorter than their launches" if n_short > 1 else "was shorter than its launch"
    text = (
        f"{found['count']:,}; median delay {took(delay['median'])}, longest {took(delay['max'])}, "
        f"{found['long_delays']:,} above 100 µs; {short} {than}; at most "
        f"{found['queue_max']:,} waited in a stream"
    )
    return [(), *remark(text, width, "plain", label="launches")]


def _idle(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw idle time by cause, and the longest gaps; one sentence if the GPUs were never idle."""
    width = options.width
    rows = section("When not?", width, marks, "the GPUs' idle time, by its cause")
    total = max(sum(ns for _, ns in trace.idle.values()), 1)
    head = (
        TableColumn("cause"),
        TableColumn("%", "right"),
        TableColumn("time", "right"),
        TableColumn("gaps", "right"),
        TableColumn("", drop=1),
    )
    lines: list[list[Cell]] = []
    for cause in CAUSES:
        n, ns = trace.idle[cause]
        if n:
            about = fit(_CAUSES[cause], max(width - 36, 10), marks.ellipsis)
            lines.append([cause, f"{100 * ns / total:.1f}", took(ns), f"{n:,}", (Span(about, "dim"),)])
    if not lines:
        return [*rows, clip((Span("never idle between its first and its last work"),), width)]
    rows += table(head, lines, width, marks)
    most = {"low": 0, "medium": 5, "high": MOST_GAPS}[options.verbosity]
    told = [gap for gap in trace.gaps[:most] if gap.length_ns * _TOLD >= trace.span_ns / len(trace.gpus)]
    return rows + [row for gap in told for row in _gap(trace, gap, width)]


_DELAYS = "delays before work on a GPU"
_KINDS_ON_PATH = {
    "computation": ("compute",),
    "communication": ("communication",),
    "copies": ("copy",),
    "threads": ("host",),
    _DELAYS: ("launch", "gap"),
}
"""What the sentence about the critical path calls the kinds of its parts."""
_MANY_PAUSES = 0.1
"""Share of a critical path. With less, the work mostly follows at once, so it waited for the work before it even where the
trace does not tell what launched it."""
_LONG_PAUSE_NS = 50_000
"""Mean pause on a stream: kernels that wait for nothing but the one before begin within some microseconds."""


def _critical_path(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Say in three sentences what is on the critical path, and what shortening it would win; no rows at low verbosity or
    where it is not known."""
    path = None if options.verbosity == "low" else trace.critical_path(_TOLD_OF_PATH)
    if path is None or not path.length_ns:
        return []
    why = _why_unknown(trace, path)
    is_known = not why
    named = _KINDS_ON_PATH if is_known else {**_KINDS_ON_PATH, _DELAYS: (), "pauses": ("gap",)}
    shares = [(name, path.total_ns(*kinds) / path.length_ns) for name, kinds in named.items()]
    split = ", ".join(f"{name} {percent(share)}" for name, share in sorted(shares, key=lambda each: -each[1]) if share)
    rows = section("What would have to be shorter?", options.width, marks, "the critical path")
    text = f"{took(path.length_ns)}, each moment of it waited for the one before: {split}"
    if not is_known:
        text = f"that can't be told: {why}. Back from the last work on its stream it is {took(path.length_ns)}: {split}"
    rows += wrap(text, options.width)
    known = [(part, part.win_ns) for part in path.parts if part.win_ns is not None and is_known]
    names = distinct_names([clean(part.name) for part, _ in known], _LONGEST_NAME, marks.ellipsis)
    if known:
        in_step = [
            part.kind == "host" and any(step.name.startswith(part.name) for step in trace.steps) for part, _ in known
        ]
        names = [f"between calls in {name}" if inside else name for name, inside in zip(names, in_step, strict=True)]
        each = [f"{name} {took(part.total_ns)} ({took(ns)})" for name, (part, ns) in zip(names, known, strict=True)]
        text = (
            "most of it, and in brackets how much earlier it would end if that took no time and all else as long as it did: "
            f"{'; '.join(each)}"
        )
        rows += wrap(text, options.width)
    ranks = sorted(path.by_rank.items(), key=lambda each: -each[1])[:4]
    where = ", ".join(f"{percent(ns / path.length_ns)} on rank {NONE if rank is None else rank}" for rank, ns in ranks)
    rest = "all of it: --csv critical_path"
    return rows + wrap(f"{where}; {rest}" if len(path.by_rank) > 1 else rest, options.width, role="dim")


def _why_unknown(trace: TraceAnalysis, path: CriticalPath) -> str:
    """Say why what is on the path need not be what would have to be shorter; "" where it is."""
    pauses, n_pauses = path.total_ns("gap"), sum(part.n for part in path.parts if part.kind == "gap")
    if pauses >= _MANY_PAUSES * path.length_ns:
        if "launches" not in trace.holds:
            return "the trace does not say what launched the GPUs' work, so not what it waited for"
        if pauses >= n_pauses * _LONG_PAUSE_NS:
            return "work stands still on its stream, and the trace does not tell what it waits for"
    begin, end = trace.extent or (0, 0)
    if path.length_ns < (1 - _MANY_PAUSES) * (end - begin):
        return "it breaks off at work of which the trace does not tell what it waited for"
    return ""


def _gap(trace: TraceAnalysis, gap: Gap, width: int) -> list[Row]:
    """Say when and where a gap was, what caused it, and what the program did meanwhile."""
    on = "" if len(trace.gpus) == 1 else f" on {clean(gap.place)}"
    doing = ", ".join(_fit_name(each) for each in (gap.python, gap.range, gap.call) if each)
    late = f" for {took(gap.host_ns)}" if gap.cause == "host" and gap.host_ns < gap.length_ns else ""
    text = f"at {took(gap.start_ns)}{on}: {gap.cause}{late}; next {_fit_name(gap.after)}"
    text += f"; meanwhile {doing}" if doing else ""
    return wrap(text, width, f"{took(gap.length_ns):>10}  ", " " * 12)


def _fit_name(name: str) -> str:
    return fit(name if cell_width(name) <= _LONGEST_NAME else short_name(name), _LONGEST_NAME, "…")


def _steps(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw a table of the steps, each with its first begin, its mean over the ranks, the longest, and how long the GPUs were
    busy; no rows without steps."""
    if not trace.steps:
        return []
    width = options.width
    by_name: dict[str, list[Step]] = {}
    for step in trace.steps:
        by_name.setdefault(step.name, []).append(step)
    rows = section("Steps", width, marks, count(len(by_name), "step"))
    several = len(by_name) < len(trace.steps)
    alike = {name for name, own in by_name.items() if len(own) > 1 and len({step.length_ns for step in own}) == 1}
    ranks = len({step.rank for step in trace.steps}) > 1 and len(alike) < len(by_name)
    head = (
        TableColumn("step"), TableColumn("begins at", "right", drop=2),
        TableColumn("mean" if several else "lasts", "right"),
        *((TableColumn("longest", "right"),) if several else ()), *((TableColumn("on", "left", drop=1),) if ranks else ()),
        TableColumn("busy %", "right"),
        TableColumn("", least=8, most=30, drop=3),
    )  # fmt: skip
    longest = max(step.length_ns for step in trace.steps)
    most = {"low": 0, "medium": 8, "high": 1000}[options.verbosity]
    lines: list[list[Cell]] = []
    for name, own in list(by_name.items())[:most]:
        last = max(own, key=lambda step: step.length_ns)
        known = [step for step in own if step.busy_ns is not None]
        busy = sum(step.busy_ns or 0 for step in known) / max(sum(step.length_ns for step in known), 1)
        length = sum(step.length_ns for step in own)
        spread = [took(last.length_ns)] if several else []
        spread += [NONE if name in alike else f"rank {NONE if last.rank is None else last.rank}"] if ranks else []
        lines.append(
            [fit(name, 32, marks.ellipsis), took(min(step.start_ns for step in own)), took(length / len(own)), *spread,
             f"{100 * busy:.1f}" if known else NONE, partial(bar, length / len(own) / max(longest, 1), glyphs=marks)]
        )  # fmt: skip
    rows += table(head, lines, width, marks) if lines else []
    lengths = np.array([step.length_ns for step in trace.steps])
    text = f"shortest {took(int(lengths.min()))}, median {took(float(np.median(lengths)))}, longest {took(longest)}"
    text += ": from begin to end of the range that marks a step"
    text += "; GPUs may run its work later" if trace.gpus else ""
    return rows + wrap(text, width, role="dim")


def _pipelines(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the stages of pipelines with their bubbles, and whom each waited for longest; no rows without any."""
    found = stages(trace)
    if not found or options.verbosity == "low":
        return []
    waits = transfer_waits(trace)
    head = (
        TableColumn("stage"), TableColumn("GPU"), TableColumn("bubble %", "right"), TableColumn("ideal %", "right"),
        TableColumn("waited", "right", drop=1), TableColumn("for", drop=1),
    )  # fmt: skip
    lines: list[list[Cell]] = []
    for each in found[: _MOST[options.verbosity]]:
        longest = next((wait for wait in waits if wait.rank == each.rank and wait.wait_ns), None)
        last = [NONE, NONE] if longest is None else [took(longest.wait_ns), f"rank {longest.other}"]
        ideal = NONE if each.ideal is None else f"{100 * each.ideal:.1f}"
        lines.append([f"{each.stage} of {each.n_stages}", clean(each.place), f"{100 * each.share:.1f}", ideal, *last])
    rows = [*section("Pipelines", options.width, marks), *table(head, lines, options.width, marks)]
    about = "bubble: idle, or nothing but sends and receives; ideal: (p - 1) / (m + p - 1), p stages, m micro-batches"
    if len(found) > len(lines):
        about += f"; and {count(len(found) - len(lines), 'more stage')}: --csv stages"
    return rows + wrap(about, options.width, role="dim")


def _metrics(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the user's own metrics, each over all GPUs or threads that have it, with the least and the most; no rows
    without any."""
    by_name: dict[tuple[str, str], list[OwnMetric]] = {}
    for each in trace.metrics:
        by_name.setdefault((each.name, each.level or ""), []).append(each)
    if not by_name:
        return []
    head = (
        TableColumn("metric"), TableColumn("", "right"), TableColumn("mean", "right"), TableColumn("least", "right", drop=2),
        TableColumn("on", drop=3), TableColumn("most", "right", drop=1), TableColumn("on", drop=1),
    )  # fmt: skip
    lines: list[list[Cell]] = []
    for (name, level), own in by_name.items():
        metric = Metric(name, name, name, own[0].unit, "gauge", 0.0, "", "", "")
        known = sorted((each for each in own if each.value is not None), key=lambda each: each.value or 0.0)
        values = [each.value for each in known if each.value is not None]
        ends = [
            (quantity(each.value, metric), fit(clean(each.place or NONE), 24, "…"))
            for each in (*known[:1], *known[-1:])
        ] or [(NONE, NONE)] * 2
        mean = quantity(sum(values) / len(values) if values else None, metric)
        lines.append([name, count(len(own), level) if level else "no name fits", mean, *ends[0], *ends[1]])
    rows = [*section("Metrics of your own", options.width, marks), *table(head, lines, options.width, marks)]
    for name, text in dict.fromkeys((each.name, each.expression) for each in trace.metrics):
        rows += wrap(clean(f"{name} = {text}"), options.width, role="dim")
    return rows


def _ranges(trace: TraceAnalysis, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw ranges, operators and system calls by their time; no rows at low verbosity or if there are none."""
    if options.verbosity == "low":
        return []
    fewer = options if options.verbosity == "high" else options._replace(verbosity="low")
    found: list[Row] = []
    for name, label in (("ranges", "range"), ("operators", "operator"), ("os", "system call")):
        found += _tops(trace, name, fewer, marks, label)
    about = "GPU time of the kernels launched inside it" if trace.gpus else ""
    return [*section("What did the program do?", options.width, marks, about), *found[1:]] if found else []


def _sentences(trace: TraceAnalysis) -> list[str]:
    """List sentences about the files: what could not be read and what was assumed, each once."""
    said: dict[str, list[str]] = {}
    for source in trace.sources:
        for note in source.notes:
            said.setdefault(note, []).append(clean(os.path.basename(source.path)))
    more = {note: f" and {count(len(names) - 1, 'other')}" if names[1:] else "" for note, names in said.items()}
    return [f"{names[0]}{more[note]}: {note}" for note, names in said.items()]


def pieces_of_runs(traces: Iterable[TraceAnalysis]) -> Iterator[str]:
    """Yield the JSON object of several runs' traces, each analysed when it is its turn."""
    yield f'{{"schema": "{SCHEMA_OF_RUNS}",\n "runs": ['
    for place, trace in enumerate(traces):
        yield ",\n" if place else "\n"
        yield from json_pieces(trace)
    yield "]}\n"


def json_pieces(trace: TraceAnalysis) -> Iterator[str]:
    """Yield the JSON object as ASCII text, piece by piece, with a line for each row of a table; a million names need
    never be in memory as a whole."""
    yield "{"
    between = "\n "
    for key, value in _document(trace).items():
        yield f"{between}{json.dumps(key)}: "
        if isinstance(value, Iterator):
            begun = "\n  "
            yield "["
            for row in value:
                yield begun + json.dumps(row, allow_nan=False)
                begun = ",\n  "
            yield "]" if begun == "\n  " else "\n ]"
        else:
            yield json.dumps(value, allow_nan=False)
        between = ",\n "
    yield "\n}\n"


def _document(trace: TraceAnalysis) -> dict[str, Any]:
    """Return the object, with tables as iterators of their rows. None for messages and files if they were not traced,
    and for the call tree if there is none."""
    tables: dict[str, Iterator[dict[str, Any]] | None] = {}
    tables |= {name: _objects(name, trace) for name in TABLES if name not in ("launches", "verdicts")}
    dependencies = None if trace.is_damaged else trace.dependencies or None
    told = {"messages": trace.exchange, "io": trace.io, "critical_path": dependencies}
    tables |= {name: None for name, found in told.items() if found is None}
    tables["kernel_types"] = (row | {"types": row["types"].split("+")} for row in _objects("kernel_types", trace))
    longest = next_to_profile(trace)
    return {
        "schema": SCHEMA,
        "sources": iter([source._asdict() for source in trace.sources]),
        "window_ns": list(trace.window),
        "zero_unix_ns": trace.clock.unix_ns,
        "clock": trace.clock.origin,
        "clock_error_ns": trace.clock.error_ns,
        "like_hta": trace.like_hta,
        "facts": dict(trace.facts),
        **tables,
        "launches": launch_numbers(trace),
        "next_to_profile": None if longest is None else profile_object(longest),
        "breakdown": breakdown_object(trace.breakdown),
        "calltree": None if trace.tree is None else tables["calltree"],
        "verdicts": iter([verdict_object(verdict) for verdict in trace.verdicts]),
        "abstentions": iter([{"code": code, "reason": reason} for code, reason in trace.abstentions.items()]),
    }


def _objects(name: str, trace: TraceAnalysis) -> Iterator[dict[str, Any]]:
    names, rows = rows_of(name, trace)
    for row in rows:
        yield {key: number(value) if isinstance(value, float) else value for key, value in zip(names, row, strict=True)}
