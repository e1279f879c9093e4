"""``gssr analyze`` of what has a page of its own: what PyTorch dumps when something is wrong (memory snapshots and
timelines, and NCCL's flight recorder), and kernels that Nsight Compute has measured."""

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from gssr.commands import BAD_INPUT, OK, USAGE, fail, page_options, put

if TYPE_CHECKING:
    from gssr.render.roles import Row
    from gssr.report.page import PageOptions

_FOR_OTHERS = (
    "plot_time_series", "plot_load_balancing", "show_metadata", "no_summary", "exact", "metrics", "run", "terminal",
    "png", "report", "gpus", "start", "end", "rules", "ranks", "steps", "like_hta", "metric",
    "history", "attach",
)  # fmt: skip
"""Options of ``gssr analyze`` that mean nothing for them."""


class _OwnReport(NamedTuple):
    """The three ways to print files of one kind: ``page`` draws them, ``document`` makes the JSON object, and ``rows``
    yields one of the ``tables``, which maps the names of tables to those of their columns."""

    page: "Callable[[PageOptions], list[Row]]"
    document: Callable[[], dict[str, Any]]
    tables: Mapping[str, tuple[str, ...]]
    rows: Callable[[str], Iterable[tuple[Any, ...]]]


def analyze_dumps(names: Sequence[str], options: argparse.Namespace) -> int:
    """Carry out ``gssr analyze`` for files of one kind, and traces beside kernels that were measured; return the exit
    code. A file that can't be read is said, and the others are shown."""
    from gssr.commands.trace_pages import bytes_of
    from gssr.recognise import DUMPS, MEMORY, PROFILES, TRACES
    from gssr.traces.timeline import TraceError

    files, kinds = _files(names)
    own = next(file for file, kind in zip(files, kinds, strict=True) if kind in (*DUMPS, *PROFILES))
    for name in _FOR_OTHERS:
        if getattr(options, name) not in (None, False, []):
            flag = {"start": "from", "end": "to"}.get(name, name.replace("_", "-"))
            return fail(f"--{flag}: is for recordings and traces: {own} is neither", USAGE)
    together = next(group for group in ((MEMORY,), (*PROFILES, *TRACES), DUMPS) if kinds[files.index(own)] in group)
    if (
        other := next((file for file, kind in zip(files, kinds, strict=True) if kind not in together), None)
    ) is not None:
        what = "measured by Nsight Compute" if PROFILES[0] in together else "a dump of PyTorch"
        return fail(f"{own} is {what} and {other} is none of its kind: analyze them one by one", USAGE)
    is_memory = MEMORY in together and len(together) == 1
    if options.memory_limit is not None and not is_memory:
        return fail(f"--memory-limit: is for memory snapshots and timelines of PyTorch: {own} is none", USAGE)
    try:
        limit = None if options.memory_limit is None else bytes_of("--memory-limit", options.memory_limit)
        most = None if options.max_size is None else bytes_of("--max-size", options.max_size)
        read = _read_memory if is_memory else _read_profiled_kernels if PROFILES[0] in together else _read_hang
        shown, problems = read(files, most, limit)
    except ValueError as error:
        return fail(str(error), USAGE)
    except TraceError as error:
        return fail(str(error), BAD_INPUT)
    for problem in problems:
        fail(problem, BAD_INPUT)
    if shown is None:
        return BAD_INPUT
    if options.csv is not None and options.csv not in shown.tables:
        return fail(f"--csv: no table {options.csv!r}; there are: {', '.join(shown.tables)}", USAGE)
    return _print(shown, options) or (BAD_INPUT if problems else OK)


def _files(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """List the files that are named, those of folders that have pages of their own, and the kind of each."""
    from gssr.recognise import DUMPS, PROFILES, recognise

    files, kinds = [], []
    for name in names:
        inside = [name]
        if is_folder := os.path.isdir(name):
            inside = sorted(os.path.join(name, each) for each in os.listdir(name) if not each.startswith("."))
        for file in inside:
            kind = "" if is_folder and os.path.isdir(file) else recognise(file).kind
            if kind in (*DUMPS, *PROFILES) or not is_folder:
                files.append(file)
                kinds.append(kind)
    return files, kinds


def each_read(files: Sequence[str], read: Callable[[str], Any]) -> tuple[list[Any], list[str]]:
    """Read files; return what they hold, and sentences on those that can't be read."""
    from gssr.traces.timeline import TraceError

    found, problems = [], []
    for file in files:
        try:
            found.append(read(file))
        except TraceError as error:
            problems.append(str(error))
    return found, problems


def _read_memory(files: Sequence[str], most: int | None, limit: int | None) -> tuple[_OwnReport | None, list[str]]:
    """Read memory snapshots and timelines, and prepare their report. Returns it, None if no file holds memory of a GPU,
    and sentences on what can't be read. ``most``: bytes that a file may unpack to, None for the default; ``limit``:
    bytes into which the memory should fit, None if nobody asks."""
    from gssr.model.traces.memory import device_memories
    from gssr.report.memory import TABLES, memory_document, memory_page, memory_rows
    from gssr.traces.memory_dump import read_memory_dump

    read, problems = each_read(files, lambda file: device_memories(file, read_memory_dump(file, most), limit))
    found = [device for devices in read for device in devices]
    if read and not found:
        problems.append(f"{files[0]}: holds no memory of any GPU")
    if not found:
        return None, problems
    return _OwnReport(
        lambda asked: memory_page(found, asked), lambda: memory_document(found), TABLES,
        lambda name: memory_rows(name, found),
    ), problems  # fmt: skip


def _read_hang(files: Sequence[str], most: int | None, _limit: int | None) -> tuple[_OwnReport | None, list[str]]:
    """Read dumps of NCCL's flight recorder, and prepare their report. Returns it, None if no file can be read, and
    sentences on those that can't. ``most``: bytes that a file may unpack to, None for the default. Raises TraceError if
    two dumps are of one rank."""
    from gssr.model.traces.hang import analyze_hang
    from gssr.report.hang import TABLES, hang_document, hang_page, hang_rows
    from gssr.traces.flight_recorder import read_flight_recorder

    read, problems = each_read(files, lambda file: read_flight_recorder(file, most))
    if not read:
        return None, problems
    found = analyze_hang(read)
    return _OwnReport(
        lambda asked: hang_page(found, asked), lambda: hang_document(found), TABLES, lambda name: hang_rows(name, found)
    ), problems  # fmt: skip


def _read_profiled_kernels(
    files: Sequence[str], most: int | None, _limit: int | None
) -> tuple[_OwnReport | None, list[str]]:
    """Read kernels that Nsight Compute measured, and prepare their report, with how much of the traces among the files
    each of them takes. Returns it, None if no file of Nsight Compute can be read, and sentences on those that can't.
    ``most``: bytes that a file may unpack to, None for the default. Raises TraceError for a trace that can't be read."""
    from gssr.model.traces.profiled_kernels import most_time_unprofiled, profiled_kernels
    from gssr.recognise import NCU_CSV, TRACES, recognise
    from gssr.render.function_names import short_name
    from gssr.report.kernel_profiles import TABLES, kernels_document, kernels_page, kernels_rows
    from gssr.traces.launch_shapes import launch_shapes
    from gssr.traces.ncu_csv import read_ncu_csv
    from gssr.traces.ncu_report import read_ncu_report
    from gssr.traces.open import open_traces

    kinds = {file: recognise(file).kind for file in files}
    traces = [file for file in files if kinds[file] in TRACES]
    cut_off: list[str] = []
    read, problems = each_read(
        [file for file in files if file not in traces],
        lambda file: read_ncu_csv(file, most, cut_off) if kinds[file] == NCU_CSV else read_ncu_report(file),
    )
    problems += cut_off
    if not read:
        return None, problems
    traced = launch_shapes(open_traces(traces, most_bytes=most).sources, most) if traces else None
    found = profiled_kernels([launch for launches in read for launch in launches], traced, short_name)
    following = most_time_unprofiled(found, traced or {}, short_name)
    return _OwnReport(
        lambda asked: kernels_page(found, following, asked, cut_off),
        lambda: kernels_document(found, following, cut_off), TABLES, lambda name: kernels_rows(name, found),
    ), problems  # fmt: skip


def _print(shown: _OwnReport, options: argparse.Namespace) -> int:
    """Print the page, the JSON object or a table; return the exit code."""
    from gssr.commands.printing import Spool
    from gssr.render.csv_cells import csv_lines
    from gssr.report.page import PageOptions
    from gssr.report.terminal import to_text

    if options.csv is None and not options.json:
        asked = PageOptions(options.width, page_options.ascii_only(options), options.verbosity)
        return put(to_text(shown.page(asked), page_options.wants_color(options), asked.ascii))
    with Spool() as spool:
        try:
            if options.json:
                for piece in json.JSONEncoder(indent=1, allow_nan=False).iterencode(shown.document()):
                    spool.write(piece)
                spool.write("\n")
            else:
                for line in csv_lines(chain([shown.tables[options.csv]], shown.rows(options.csv))):
                    spool.write(line)
        except OSError as error:
            return fail(f"what is to be printed can't be written to a temporary file: {error.strerror}", BAD_INPUT)
        return spool.print()
