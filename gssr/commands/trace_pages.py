"""Traces on the command line: which files they are, which part of them is wanted, and ``gssr analyze`` of them."""

import argparse
import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, USAGE, Option, fail, page_options, put

if TYPE_CHECKING:
    from gssr.model.traces.results import TraceAnalysis
    from gssr.model.verdicts.table import Table
    from gssr.traces.open import Traces

OPTIONS = (
    Option(
        ("--steps",),
        {"metavar": "N-M", "help": "of a trace: only from step N to step M, by the numbers in their names"},
    ),
    Option(
        ("--csv",),
        {"metavar": "TABLE", "help": "of a trace: print this table as CSV, as docs/traces.md or nsys stats calls it"},
    ),
    Option(
        ("--like-hta",),
        {"action": "store_true", "help": "of a trace: count as HolisticTraceAnalysis does, to compare with it"},
    ),
    Option(
        ("--max-size",),
        {"metavar": "SIZE", "help": "of a trace: refuse what unpacks to more, such as 100G (default: 16G)"},
    ),
)
ONLY_RECORDINGS = (
    "plot_time_series", "plot_load_balancing", "show_metadata", "no_summary", "exact", "metrics", "run", "report", "png",
    "terminal",
)  # fmt: skip
"""Options of ``gssr analyze`` that mean nothing for a trace."""
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kKMGT]?)i?B?")
_POWER = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def traces_among(names: Sequence[str]) -> list[str]:
    """Those of the files and folders that hold traces, by their content."""
    from gssr.recognise import TRACES, recognise

    return [name for name in names if recognise(name).kind in TRACES]


def analyze_traces(names: Sequence[str], options: argparse.Namespace) -> int:
    """``gssr analyze`` of these traces, the ranks of one run; the exit code."""
    from gssr.model.traces.rules import TABLE
    from gssr.model.traces.tables import ALIASES, NSYS, TABLES
    from gssr.model.verdicts.rules import from_environment, load
    from gssr.traces.open import TraceError

    for name in ONLY_RECORDINGS:
        if getattr(options, name) not in (None, False):
            return fail(f"--{name.replace('_', '-')}: is for recordings: {names[0]} is a trace", USAGE)
    if options.csv is not None and options.csv not in (*TABLES, *NSYS, *ALIASES):
        return fail(f"--csv: no table {options.csv!r}; there are: {', '.join((*TABLES, *NSYS))}", USAGE)
    try:
        rules = load(options.rules, TABLE) if options.rules is not None else from_environment(table=TABLE)
        trace = analysis_of(opened(names, options.max_size), options, rules)
    except TraceError as error:
        return fail(str(error), BAD_INPUT)
    except ValueError as error:
        return fail(str(error), USAGE)
    return _show(trace, options)


def opened(names: Sequence[str], max_size: str | None) -> "Traces":
    """The traces, opened. Raises gssr.traces.open.TraceError, and ValueError for a size that is none."""
    from gssr.traces.open import open_traces

    if max_size is None:
        return open_traces(names)
    found = _SIZE.fullmatch(max_size.strip())
    if found is None:
        raise ValueError(f"--max-size: {max_size!r} is not a size: give bytes, 500M or 100G")
    return open_traces(names, most_bytes=int(float(found[1]) * 1024 ** _POWER[found[2]]))


def analysis_of(traces: "Traces", options: argparse.Namespace, rules: "Table") -> "TraceAnalysis":
    """All files together, in the memory of one. Raises TraceError, and ValueError, a sentence, where nothing of them is
    wanted."""
    from gssr.model.traces.analyze import analyze_timeline, combined
    from gssr.model.traces.results import place
    from gssr.model.traces.window import tracks_of, window_of

    wanted = None if options.gpus is None else [word.strip() for word in options.gpus.split(",") if word.strip()]
    there: list[str] = []

    def each() -> "Iterator[TraceAnalysis]":
        for timeline in traces.timelines():
            tracks = None if wanted is None else tracks_of(timeline, wanted)
            if tracks is not None and not len(tracks):
                there.extend(place(each.rank, each.device) for each in timeline.tracks if each.kind == "gpu_stream")
                continue
            window = window_of(timeline, options.start, options.end, options.steps, options.like_hta)
            yield analyze_timeline(timeline, window, tracks, like_hta=options.like_hta, rules=rules)

    parts = each()
    first = next(parts, None)
    if first is None:
        known = ", ".join(dict.fromkeys(there)) or "no GPUs"
        raise ValueError(f"--gpus: {options.gpus}: not in the trace; there are: {known}")
    return combined(chain([first], parts), rules)


def _show(trace: "TraceAnalysis", options: argparse.Namespace) -> int:
    from gssr.commands.printing import Spool
    from gssr.report.page import PageOptions
    from gssr.report.terminal import to_text
    from gssr.report.trace import pieces, trace_page

    if options.csv is None and not options.json:
        asked = PageOptions(options.width, page_options.ascii_only(options), options.verbosity)
        rows = trace_page(trace, asked)
        return put(to_text(rows, page_options.wants_color(options), asked.ascii))
    with Spool() as spool:
        try:
            for piece in pieces(trace) if options.json else _csv(trace, options.csv):
                spool.write(piece)
        except OSError as error:
            return fail(f"what is to be printed can't be kept: {error.strerror}", BAD_INPUT)
        return spool.print()


def _csv(trace: "TraceAnalysis", name: str) -> "Iterator[str]":
    """A table as CSV: text without control characters, and none that a spreadsheet would run."""
    from gssr.model.traces.tables import TABLES, as_nsys, rows_of
    from gssr.render.cells import harmless
    from gssr.render.scale import cell

    heads, rows = rows_of(name, trace) if name in TABLES else as_nsys(name, trace)
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    for row in chain([heads], rows):
        writer.writerow([cell(harmless(value) if isinstance(value, str) else value) for value in row])
        yield line.getvalue()
        line.seek(0)
        line.truncate()
