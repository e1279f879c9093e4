"""The page of ``gssr compare`` for traces, and its JSON object, whose keys are only ever added to.

The first trace is A; every other one is compared with it.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

from gssr.model.compare.traces import Calls, NameChange, Number, calls, names, numbers
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.verdicts.words import took
from gssr.render.cells import clean, clip, fit, wrap
from gssr.render.function_names import distinct_names
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, fixed, percent, signed
from gssr.render.table import Cell, TableColumn, table
from gssr.report.comparison import LETTERS
from gssr.report.page import PageOptions, section
from gssr.report.trace import describe

SCHEMA = "gssr.trace-compare/1"
_MOST = 15
"""Names that the page lists of each comparison; the JSON object has all."""
_ROOMY, _NUMBERS = 100, 50
"""From so many cells on the table of names has means; cells that its other numbers take."""
_TIMES = 10


def trace_comparison_page(paths: Sequence[str], traces: Sequence[TraceAnalysis], options: PageOptions) -> list[Row]:
    """Draw the page, at most ``options.width`` cells wide but for the closing lines. ``paths`` and ``traces`` are A's
    first."""
    width, marks = options.width, glyph_set(options.ascii)
    rows: list[Row] = []
    for letter, path, trace in zip(LETTERS, paths, traces, strict=False):
        named = Span(fit(clean(os.path.basename(path.rstrip("/")) or path), width // 2, marks.ellipsis), "value")
        about = ", ".join(describe(trace)[1:])
        rows += [clip((Span(f"{letter}  ", "title"), named), width), *wrap(about, width, "   ", "   ", role="dim")]
        if not trace.whole:
            begin, end = (f"{at / 1e9:.9g} s" for at in trace.window)
            rows += wrap(f"only {begin} to {end} after its zero", width, "   ", "   ", role="outlier")
    closing: list[Row] = []
    for letter, other in zip(LETTERS[1:], traces[1:], strict=False):
        found = numbers(traces[0], other)
        rows += section("What differs?", width, marks, f"{letter} against A")
        head = (TableColumn(""), *(TableColumn(title, "right") for title in ("A", letter, f"{letter} - A")))
        rows += table(head, [_line(each) for each in found], width, marks)
        rows += _names(letter, names(calls(traces[0]), calls(other)), width, marks)
        known = {each.name: each for each in found}
        pairs = [(key, known.get(key, Number(key, "1", None, None))) for key in ("busy", "compute")]
        said = [f"{key}={_or_unknown(each.a)},{_or_unknown(each.b)}" for key, each in pairs]
        closing.append((Span(f"GSSR compare {letter}: {' '.join(said)}", "value"),))
    return [*rows, (), *closing]


def _or_unknown(value: float | None) -> str:
    return fixed(value, 3, "unknown")


def _line(each: Number) -> list[Cell]:
    """Return the cells of one number: A, the other, and the difference in points for a share, in per cent of A for a
    time."""
    gap = None if each.a is None or each.b is None else each.b - each.a
    if each.unit == "1":
        return [each.name, percent(each.a), percent(each.b), NONE if gap is None else f"{signed(100 * gap, 1)}  "]
    a, b = (NONE if value is None else took(value) for value in (each.a, each.b))
    return [each.name, a, b, NONE if gap is None or not each.a else f"{signed(100 * gap / each.a, 1)} %"]


def _change(a: int, b: int) -> str:
    """Write the change from ``a`` to ``b`` in per cent, or from _TIMES on as how many times; "-" if ``a`` is 0."""
    if not a:
        return NONE
    return f"x {b / a:,.0f}" if b >= _TIMES * a else f"{signed(100 * (b - a) / a, 1)} %"


def _names(letter: str, found: Sequence[NameChange], width: int, marks: Glyphs) -> list[Row]:
    """Draw the table of the names whose time differs most, and how many more there are."""
    rows = section("Which names?", width, marks, "by how much their time differs")
    more = 0 if width >= _ROOMY else 1
    head: tuple[TableColumn, ...] = (
        TableColumn("name"), TableColumn("", drop=3), TableColumn("A", "right"), TableColumn(letter, "right"),
        TableColumn("change", "right"),
        TableColumn("n A", "right", drop=2), TableColumn(f"n {letter}", "right", drop=2),
        TableColumn("mean A", "right", drop=more),
        TableColumn(f"mean {letter}", "right", drop=more),
    )  # fmt: skip
    is_even = all(one.imbalance is None for each in found for one in (each.a, each.b))
    head += () if is_even else tuple(TableColumn(f"imbal {which}", "right", drop=1) for which in ("A", letter))
    lines: list[list[Cell]] = []
    shown = [each.name for each in found[:_MOST]]
    for each, name in zip(found, distinct_names(shown, max(width - _NUMBERS, 20), marks.ellipsis), strict=False):
        both = (each.a, each.b)
        change = _change(each.a.total_ns, each.b.total_ns)
        change = f"only {letter}" if not each.a.n else "only A" if not each.b.n else change
        lines.append(
            [name, each.table,
             *(took(one.total_ns) if one.n else NONE for one in both), change, *(f"{one.n:,}" for one in both),
             *(NONE if one.mean_ns is None else took(one.mean_ns) for one in both),
             *(() if is_even else (_imbalance(one) for one in both))]
        )  # fmt: skip
    rows += table(head, lines, width, marks) if lines else wrap("neither holds any", width)
    if len(found) > _MOST:
        rows += wrap(f"and {len(found) - _MOST:,} more: --json", width, role="dim")
    return rows


def _imbalance(own: Calls) -> str:
    return NONE if own.imbalance is None else fixed(100 * own.imbalance, 1)


def to_json(paths: Sequence[str], traces: Sequence[TraceAnalysis]) -> str:
    """Write one JSON object with a newline at its end; what is not known is null."""
    found = {
        "schema": SCHEMA,
        "traces": [
            {"letter": letter, "path": path, "window_ns": list(trace.window), "gpus": len(trace.gpus)}
            for letter, path, trace in zip(LETTERS, paths, traces, strict=False)
        ],
        "comparisons": [
            {
                "a": "A",
                "b": letter,
                "numbers": [each._asdict() for each in numbers(traces[0], other)],
                "names": [_name(each) for each in names(calls(traces[0]), calls(other))],
            }
            for letter, other in zip(LETTERS[1:], traces[1:], strict=False)
        ],
    }  # fmt: skip
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def _name(own: NameChange) -> dict[str, Any]:
    """Return one name's times in both traces; of paired kernels with the names that each trace has."""
    paired = {"names_a": own.names_a, "names_b": own.names_b} if own.names_a else {}
    times = {"difference_ns": own.difference_ns, "a": _calls(own.a), "b": _calls(own.b)}
    return {"table": own.table, "name": own.name, **times, **paired}


def _calls(own: Calls) -> dict[str, Any] | None:
    """Return the numbers of a name, or None if the trace does not hold it."""
    if not own.n:
        return None
    uneven = {} if own.imbalance is None else {"imbalance": own.imbalance}
    return {"count": own.n, "total_ns": own.total_ns, "mean_ns": own.mean_ns, **uneven}
