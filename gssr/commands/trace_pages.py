"""Traces on the command line: which files they are, which part of them is wanted, and ``gssr analyze`` of them."""

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, USAGE, fail, page_options, put, tell

if TYPE_CHECKING:
    from gssr.model.traces.trace_results import TraceAnalysis
    from gssr.render.roles import Row
    from gssr.traces.open import TraceSet
    from gssr.workers import Workers

ONLY_RECORDINGS = (
    "plot_time_series", "plot_load_balancing", "show_metadata", "no_summary", "exact", "metrics", "run", "terminal",
)  # fmt: skip
"""Options of ``gssr analyze`` that mean nothing for a trace."""
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kKMGT]?)i?B?")
_POWER = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def analyze_traces(names: Sequence[str], options: argparse.Namespace, workers: "Workers") -> int:
    """Carry out ``gssr analyze`` for traces, of the ranks of one run or of several runs; return the exit code.

    ``workers``: who reads them.
    """
    from gssr.model.traces.analyze_trace import PATH_IF_SMALL
    from gssr.model.traces.each_run import each_readable
    from gssr.model.traces.tables import ALIASES, NSYS, TABLES
    from gssr.model.traces.trace_rules import TABLE
    from gssr.model.traces.trace_selection import TraceSelection
    from gssr.model.verdicts.rules import from_environment, load
    from gssr.traces.open import TraceError

    for name in ONLY_RECORDINGS:
        if getattr(options, name) not in (None, False):
            return fail(f"--{name.replace('_', '-')}: is for recordings: {names[0]} is a trace", USAGE)
    if options.csv is not None and options.csv not in (*TABLES, *NSYS, *ALIASES):
        return fail(f"--csv: no table {options.csv!r}; there are: {', '.join((*TABLES, *NSYS))}", USAGE)
    try:
        rules = load(options.rules, TABLE) if options.rules is not None else from_environment(table=TABLE)
        gpus = None if options.gpus is None else [word.strip() for word in options.gpus.split(",") if word.strip()]
        wanted = TraceSelection(options.start, options.end, options.steps, gpus, options.like_hta, options.metric)
        report = NSYS.get(ALIASES.get(options.csv, options.csv))
        page = ["verdicts", PATH_IF_SMALL] if options.csv is None or options.png is not None else []
        only = None if options.json else [*page, *filter(None, [options.csv if report is None else report[0]])]
        runs = opened(names, options.max_size, options.ranks, (_known(wanted.start), _known(wanted.end)))
        for flag, value in (("--csv", options.csv), ("--report", options.report)):
            if len(runs) > 1 and value is not None:
                return fail(
                    f"{flag}: is for the traces of one run: {runs[1].sources[0].path} {runs[1].why_apart}", USAGE
                )
        code = _show(_said(each_readable(runs, wanted, rules, only, workers)), len(runs) == 1, names, options)
        return BAD_INPUT if runs[0].problems else code
    except ValueError as error:
        return fail(str(error), USAGE)
    except TraceError as error:  # the values of a profile are read when they are asked for
        return fail(str(error), BAD_INPUT)
    except BrokenPipeError:  # who reads has seen enough
        raise
    except OSError as error:
        what = f"{error.filename or options.report or options.png}: can't be written: {error.strerror}"
        return fail(what, BAD_INPUT)


def _known(time: str | None) -> int | None:
    """Return a time of the command line in ns after the trace's zero; None for None and for a time before the end.
    Raises ValueError."""
    from gssr.model.traces.trace_selection import ns_of

    return None if time is None or time.strip().startswith("-") else ns_of(time)


def opened(
    names: Sequence[str], max_size: str | None, ranks: str | None, window: tuple[int | None, int | None]
) -> "list[TraceSet]":
    """Open the traces and group them by run.

    Args:
        names: files and folders.
        max_size: --max-size, or None.
        ranks: --ranks, or None for all.
        window: ns after the zero; None for an end that is open.

    Raises:
        TraceError: of gssr.traces.open; none can be read.
        ValueError: the size or the ranks make no sense.
    """
    from gssr.traces.open import open_runs

    if max_size is None:
        return open_runs(names, ranks=ranks, window=window)
    return open_runs(names, most_bytes=bytes_of("--max-size", max_size), ranks=ranks, window=window)


def bytes_of(option: str, size: str) -> int:
    """Return a size on the command line in bytes. ``option``: its name, for the message. Raises ValueError if it is no
    size."""
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise ValueError(f"{option}: {size!r} is not a size: give bytes, 500M or 100G")
    return int(float(found[1]) * 1024 ** _POWER[found[2]])


def _said(analyses: "Iterator[tuple[TraceSet, TraceAnalysis]]") -> "Iterator[tuple[TraceSet, TraceAnalysis]]":
    """Yield the runs and their analyses as they are, and say in the end which traces can't be read."""
    problems: list[str] = []
    for run, trace in analyses:
        problems = run.problems  # those of all runs together
        yield run, trace
    for problem in problems:
        fail(problem, BAD_INPUT)


def _show(
    analyses: "Iterator[tuple[TraceSet, TraceAnalysis]]",
    is_one: bool,
    names: Sequence[str],
    options: argparse.Namespace,
) -> int:
    """Print the analyses of runs, and draw the pictures and reports that are asked for; return the exit code.

    Nothing is printed before all analyses are made. ``is_one``: there is only one run.
    """
    from dataclasses import replace

    from gssr.commands.printing import Spool
    from gssr.render.verdicts import naming
    from gssr.report.page import PageOptions
    from gssr.report.terminal import to_text
    from gssr.report.trace import json_pieces, pieces_of_runs, trace_page

    def draw_each() -> "Iterator[tuple[TraceSet, TraceAnalysis]]":
        """Yield the analyses, after drawing the picture and the report that are asked for of each."""
        for run, trace in analyses:
            if options.png is not None:
                _draw(trace, options.png)
            if options.report is not None:
                _report(trace, options.report)
            yield run, trace

    if options.csv is None and not options.json:
        asked = PageOptions(options.width, page_options.ascii_only(options), options.verbosity)
        rows: list[Row] = []
        for run, trace in draw_each():
            own = _shortest(names if is_one else [source.path for source in run.sources])
            rows += [
                *([(), ()] if rows else []),
                *trace_page(replace(trace, verdicts=naming(trace.verdicts, own)), asked),
            ]
        return put(to_text(rows, page_options.wants_color(options), asked.ascii))
    with Spool() as spool:
        if not is_one:
            found = pieces_of_runs(trace for _, trace in draw_each())
        else:
            ((_, trace),) = draw_each()
            found = json_pieces(trace) if options.json else _csv(trace, options.csv)
        for piece in found:
            try:
                spool.write(piece)
            except OSError as error:
                return fail(f"what is to be printed can't be written to a temporary file: {error.strerror}", BAD_INPUT)
        return spool.print()


def _shortest(names: Sequence[str]) -> Sequence[str]:
    """Name traces by the folder that they are in, if there are several, and no others in it; else as they are."""
    folders = {os.path.dirname(name) or os.curdir for name in names}
    if len(names) < 2 or len(folders) > 1:
        return names
    from gssr.recognise import traces_in

    (folder,) = folders
    try:
        inside = {os.path.basename(path) for path, _ in traces_in(folder)}
    except OSError:
        return names
    return [folder] if inside == set(map(os.path.basename, names)) else names


def _report(trace: "TraceAnalysis", path: str) -> None:
    """Write the report, PDF or HTML by the end of ``path``, and name it on stderr. Raises OSError."""
    from gssr.store.output_file import access_of, output_file

    with output_file(path, access_of(source.path for source in trace.sources)) as file:
        if path.lower().endswith(".pdf"):
            from gssr.report.pdf.pdf_trace import trace_pdf

            trace_pdf(trace, file)
        else:
            from gssr.report.html.html_trace import trace_report

            file.write(trace_report(trace).encode())
    tell(path)


def _draw(trace: "TraceAnalysis", folder: str) -> None:
    """Draw the picture as PNG, in ``folder`` or beside the first file, and name it on stderr. Raises OSError."""
    from gssr.report.png.figure import NothingToDrawError
    from gssr.report.png.png_trace import trace_png
    from gssr.store.output_file import access_of, output_file, output_folder

    names = [source.path for source in trace.sources]
    access = access_of(names)
    if folder:
        output_folder(folder, access)
    path = os.path.join(folder or os.path.dirname(names[0]), f"{os.path.basename(names[0])}.png")
    try:
        with output_file(path, access) as file:
            trace_png(trace, file)
        tell(path)
    except NothingToDrawError as error:
        tell(f"{path}: left out, there is nothing to draw: {error}")


def _csv(trace: "TraceAnalysis", name: str) -> "Iterator[str]":
    """Return the lines of a table as CSV."""
    from gssr.model.traces.tables import TABLES, as_nsys, rows_of
    from gssr.render.csv_cells import csv_lines

    heads, rows = rows_of(name, trace) if name in TABLES else as_nsys(name, trace)
    return csv_lines(chain([heads], rows))
