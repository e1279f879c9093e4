"""The page of kernels that Nsight Compute has measured, its JSON object and its tables; and which kernel to measure next.

The object's keys are a contract (docs/traces.md): they are only ever added to.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from gssr.model.traces.profiled_kernels import ProfiledKernel, UnprofiledKernel
from gssr.model.verdicts.words import took
from gssr.render.cells import cell_width, clean, flow, wrap
from gssr.render.function_names import distinct_names, short_name
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, count, fixed, percent, prefixed
from gssr.render.table import Cell, TableColumn, table
from gssr.render.verdicts import command_rows
from gssr.report.page import PageOptions, files_head, remark, rest_rows, section
from gssr.traces.kernel_profile import Dim3, RuleAdvice

SCHEMA = "gssr.kernels/1"
_MOST = {"low": 3, "medium": 10, "high": 100}
_MOST_TOLD = {"low": 1, "medium": 3, "high": 100}
"""Launches, and those that have a section of their own."""
_MOST_STALLS, _LEAST_STALL = 4, 0.01
_LONGEST_NAME = 60
_KINDS = {"optimization": "!  ", "warning": "!  ", "error": "!! ", "information": "-  "}
_ROOM_FOR_NAMES = 34
_LONGEST_FILTER = 39
"""Characters of what tells a kernel in a command, which then fits into 80 columns."""

TABLES = {
    "kernels": (
        "path", "number", "name", "device", "grid", "block", "launches", "duration_ns", "sm_throughput_percent",
        "memory_throughput_percent", "dram_throughput_percent", "achieved_occupancy_percent",
        "theoretical_occupancy_percent", "registers", "waves", "precision", "flop_per_s", "flop_per_byte",
        "ridge_flop_per_byte", "roofline_share", "trace_count", "trace_total_ns", "trace_share",
    ),
    "stalls": ("path", "number", "name", "reason", "share"),
    "advice": ("path", "number", "name", "rule", "kind", "speedup_percent", "speedup_is_global", "text"),
}  # fmt: skip
"""The tables that ``--csv`` prints, and their columns."""


def profile_command(kernel: str, others: Iterable[str] = ()) -> str | None:
    """Return the command that measures the first launch of a kernel's function with Nsight Compute, for a program to be put
    behind it. A long name is told by a part of it that no function of the ``others`` has. None for a name that is none of
    a function."""
    function = short_name(kernel)
    if not function.replace("_", "a").replace("$", "a").isalnum() or function != clean(function):
        return None
    named = shlex.quote(function)
    if len(named) > _LONGEST_FILTER:
        n, names = _LONGEST_FILTER - len("regex:"), {short_name(other) for other in others} - {function}
        parts = (function[at : at + n] for at in range(len(function) - n + 1))
        own = (part for part in parts if "$" not in part and not any(part in name for name in names))
        named = next((f"regex:{part}" for part in own), named)
    return f"ncu --set full -k {named} -c 1 -o kernel PROGRAM"


def first_launch(kernel: str, others: Iterable[str]) -> str:
    """Say what the command measures: the first launch of the kernel's function, and how many of the ``others`` are of the
    same one, as those with other template arguments."""
    n = 1 + sum(short_name(other) == short_name(kernel) for other in others)
    return "the first launch of its function" + (f", which {count(n, 'kernel')} are of" if n > 1 else "")


def kernels_page(
    found: Sequence[ProfiledKernel],
    next_kernel: UnprofiledKernel | None,
    options: PageOptions,
    damage: Sequence[str] = (),
) -> list[Row]:
    """Draw the page, at most ``options.width`` cells wide but for the closing line. ``next_kernel``: of a trace, the kernel
    with the most time that computes and was not profiled. ``damage``: sentences on files that are cut off."""
    width, marks = options.width, glyph_set(options.ascii)
    rows = files_head(list(dict.fromkeys(each.launch.path for each in found)), width, marks)
    n_launches = sum(each.launch.launches for each in found)
    devices = sorted({clean(each.launch.device) for each in found} - {""})
    pieces = [f"{count(n_launches, 'launch')} measured by Nsight Compute", *devices[:3]]
    rows += flow([(Span(piece),) for piece in pieces], width, marks.ellipsis, separator=", ")
    for sentence in damage:
        rows += wrap(sentence, width, role="outlier")
    rows += _overview(found, options, marks)
    for each in found[: _MOST_TOLD[options.verbosity]]:
        rows += _launch(each, options, marks)
    if next_kernel is not None and (command := profile_command(next_kernel.name, next_kernel.others)) is not None:
        rows += section("Which next?", width, marks)
        text = (
            f"Of the kernels that compute and match no measured one by name, {_sentence_name(next_kernel.name)} has the "
            f"most time in the trace, {percent(next_kernel.share)} of that of all kernels. To measure "
            f"{first_launch(next_kernel.name, next_kernel.others)}:"
        )
        rows += [*wrap(text, width), *command_rows(command, width, role="value")]
    return [*rows, (), (Span(_closing_line(found), "value"),)]


def _closing_line(found: Sequence[ProfiledKernel]) -> str:
    known = [each.launch.duration_ns for each in found if each.launch.duration_ns is not None]
    longest = f"{max(known):.0f}" if known else "unknown"
    names = {each.launch.name for each in found}
    return f"GSSR launches={sum(each.launch.launches for each in found)} kernels={len(names)} longest_ns={longest}"


def _sentence_name(name: str) -> str:
    return distinct_names([name], _LONGEST_NAME, "...")[0]


def _percent(value: float | None) -> str:
    return fixed(value, 1)


def _digits(value: float | None) -> str:
    """Write a number with three digits: ``0.997``, ``53.3``, ``1,234``."""
    return NONE if value is None else f"{float(f'{value:.3g}'):,.10g}" if value < 1000 else f"{value:,.0f}"


def _labels(names: Collection[str], width: int, marks: Glyphs) -> dict[str, str]:
    """Return what each name is called in a table: its function if that tells them apart, else as much of it as does."""
    short = {name: short_name(name) for name in names}
    if len(set(short.values())) == len(short) and all(cell_width(each) <= width for each in short.values()):
        return short
    ordered = sorted(names)
    return dict(zip(ordered, distinct_names(ordered, width, marks.ellipsis), strict=True))


def _sides(sides: Dim3 | None) -> str:
    """Write a grid or block: ``224x1x1``."""
    return NONE if sides is None else "x".join(map(str, sides))


def _overview(found: Sequence[ProfiledKernel], options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw a table of the launches, the longest first."""
    shown = found[: _MOST[options.verbosity]]
    room = max(options.width - (44 if options.width < 100 else 76), _ROOM_FOR_NAMES)
    names = _labels({each.launch.name for each in shown}, room, marks)
    traced, with_roof = (
        any(each.in_trace is not None for each in found),
        any(each.roofline is not None for each in shown),
    )
    with_stalls = any(each.launch.stalls for each in shown)
    head = (
        TableColumn("kernel", cut=True), TableColumn("grid", "right", drop=5), TableColumn("duration", "right"),
        *([TableColumn("in trace", "right")] if traced else []), TableColumn("SM %", "right"),
        TableColumn("mem. %", "right"), TableColumn("occup. %", "right", drop=1), TableColumn("of", "right", drop=1),
        *([TableColumn("FLOP/B", "right", drop=3), TableColumn("roof %", "right", drop=2)] if with_roof else []),
        *([TableColumn("stalled by", drop=4)] if with_stalls else []),
    )  # fmt: skip
    lines: list[list[Cell]] = []
    for each in shown:
        own, roof = each.launch, each.roofline
        cells: list[Cell] = [
            names[own.name], _sides(own.grid), NONE if own.duration_ns is None else took(own.duration_ns),
            *([NONE if each.in_trace is None else percent(each.in_trace.share)] if traced else []),
            _percent(own.sm_throughput), _percent(own.memory_throughput), _percent(own.achieved_occupancy),
            _percent(own.theoretical_occupancy),
        ]  # fmt: skip
        if with_roof:
            share = None if roof is None or roof.share is None else 100 * roof.share
            cells += [_digits(None if roof is None else roof.intensity), fixed(share, 1)]
        if with_stalls:
            cells.append(next((f"{reason} {percent(share)}" for reason, share in own.stalls.items()), NONE))
        lines.append(cells)
    rows = [
        *section("Which kernels?", options.width, marks, "longest first"),
        *table(head, lines, options.width, marks),
    ]
    rows += rest_rows(len(found) - len(shown), "launch", "--csv kernels", options.width)
    text = "SM, mem.: throughput of SMs and memory, % of their peak; occup.: achieved occupancy, of the theoretical one"
    if with_roof:
        text += "; roof: of the FLOP/s that the GPU allows at so many FLOP per byte, without tensor cores"
    return [*rows, *wrap(text, options.width, role="dim")]


def _launch(each: ProfiledKernel, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the section of a launch: how it was launched, where it stands, what stalls it and what NVIDIA's rules say."""
    own, roof, width = each.launch, each.roofline, options.width
    rows = section(
        _sentence_name(own.name)[: max(width - 12, 8)], width, marks, f"launch {own.number}" if own.number else ""
    )
    shape = f"grid {_sides(own.grid)}, block {_sides(own.block)}"
    shape += "" if own.registers is None else f", {own.registers:.0f} registers"
    shape += "" if own.waves is None else f", {own.waves:.2f} waves"
    rows += remark(shape, width, "plain", "launch")
    if own.launches > 1:
        rows += remark(f"the mean of {own.launches:,} launches", width, "plain")
    if each.in_trace is not None:
        traced = each.in_trace
        alike = "of this grid and block" if traced.has_shape else "of its name (with which grids is not known)"
        text = (
            f"{traced.n_launches:,} {alike} take {took(traced.total_ns)}, {percent(traced.share)} of the time of all "
            f"kernels; one takes {took(traced.total_ns / traced.n_launches)} there"
        )
        rows += remark(text, width, "plain", "in trace")
    if roof is not None:
        text = f"{prefixed(roof.rate, 'FLOP/s')} in {roof.precision}"
        if roof.intensity is not None:
            text += f", {_digits(roof.intensity)} FLOP for each byte of device memory"
        if roof.limit is not None and roof.share is not None:
            side = "memory limits" if roof.limit == "memory" else "the cores limit"
            text += f": below {_digits(roof.ridge)} memory limits, above it the cores; here {side}, and it reaches "
            text += f"{percent(roof.share)} of what that allows"
        rows += remark(text, width, "plain", "roofline")
    stalls = [f"{reason} {percent(share)}" for reason, share in own.stalls.items() if share >= _LEAST_STALL]
    if stalls:
        text = ", ".join(stalls[:_MOST_STALLS])
        rows += remark(f"{text} of the time of the active warps", width, "plain", "stalls")
    if options.verbosity != "low":
        for advice in own.advice:
            if advice.kind != "information" or options.verbosity == "high":
                rows += wrap(_advice(advice), width, _KINDS[advice.kind], "   ")
    return rows


def _advice(advice: RuleAdvice) -> str:
    """Write what a rule says, with what it estimates to be won."""
    won = ""
    if advice.speedup is not None:
        of = "of the launch" if advice.speedup_is_global else "of the part that this is about"
        won = f" (NVIDIA's estimate: {advice.speedup:.1f} % {of})"
    return f"{clean(advice.rule)}: {clean(advice.text)}{won}"


def kernels_document(
    found: Sequence[ProfiledKernel], next_kernel: UnprofiledKernel | None, damage: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the JSON object; None is unknown. ``damage``: sentences on files that are cut off."""
    return {
        "schema": SCHEMA,
        "kernels": [
            dict(zip(TABLES["kernels"], _make_kernel_row(each), strict=True)) | {
                "grid": each.launch.grid, "block": each.launch.block, "limit": each.roofline and each.roofline.limit,
                "stalls": [{"reason": reason, "share": share} for reason, share in each.launch.stalls.items()],
                "advice": [dict(zip(TABLES["advice"][3:], _advice_row(one), strict=True)) for one in each.launch.advice],
            }
            for each in found
        ],
        "next": None if next_kernel is None else profile_object(next_kernel),
        "damage": list(damage),
    }  # fmt: skip


def profile_object(kernel: UnprofiledKernel) -> dict[str, Any]:
    """Return the JSON object of a kernel that is to be measured next; the command is None if it has no function's name."""
    command = profile_command(kernel.name, kernel.others)
    return {"kernel": kernel.name, "share": kernel.share, "command": command}


def _make_kernel_row(each: ProfiledKernel) -> tuple[Any, ...]:
    """Return the row of a kernel in the table "kernels", in the order of its columns. What was not measured is None, and
    so is all about its roofline or its trace if it has none."""
    own, roof, traced = each.launch, each.roofline, each.in_trace
    return (
        own.path, own.number, own.name, own.device, _sides(own.grid) if own.grid else None,
        _sides(own.block) if own.block else None, own.launches, own.duration_ns, own.sm_throughput,
        own.memory_throughput, own.dram_throughput, own.achieved_occupancy, own.theoretical_occupancy, own.registers,
        own.waves, *((None,) * 5 if roof is None else (roof.precision, roof.rate, roof.intensity, roof.ridge, roof.share)),
        *((None,) * 3 if traced is None else (traced.n_launches, traced.total_ns, traced.share)),
    )  # fmt: skip


def _advice_row(advice: RuleAdvice) -> tuple[Any, ...]:
    return advice.rule, advice.kind, advice.speedup, advice.speedup_is_global, advice.text


def kernels_rows(name: str, found: Iterable[ProfiledKernel]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table in TABLES."""
    for each in found:
        head = (each.launch.path, each.launch.number, each.launch.name)
        if name == "kernels":
            yield _make_kernel_row(each)
        elif name == "stalls":
            yield from ((*head, *stall) for stall in each.launch.stalls.items())
        else:
            yield from ((*head, *_advice_row(advice)) for advice in each.launch.advice)
