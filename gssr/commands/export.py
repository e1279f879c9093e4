"""``gssr export``: recordings as Parquet or CSV files, for other programs to query."""

import argparse
import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, put, tell
from gssr.commands.inputs import traces_among

if TYPE_CHECKING:
    from gssr.commands.printing import Bar
    from gssr.convert.tables import Sink, Table
    from gssr.model.verdicts.table import Table as Rules

FORMATS = ("parquet", "csv")
FOLDER = "gssr_export"
MISSING = "Parquet files need pyarrow: pip install pyarrow; or take --format csv"

OPTIONS = (
    Option(
        ("places",),
        {
            "nargs": "+",
            "metavar": "FILE|DIR",
            "help": "recordings, and folders that hold some; traces of a run's ranks",
        },
    ),
    Option(("-o", "--output"), {"metavar": "DIR", "default": FOLDER, "help": f"where to (default: {FOLDER})"}),
    Option(("--format",), {"choices": FORMATS, "default": FORMATS[0], "help": f"default: {FORMATS[0]}"}),
    Option(
        ("--tables",), {"metavar": "LIST", "help": "only these tables, comma-separated: docs/export.md (default: all)"}
    ),
    Option(("-f", "--force-overwrite"), {"action": "store_true", "help": "replace what was exported before"}),
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0 when everything was exported; 1 when something could not be read, or written, or was there already; 2 for
    wrong usage."""
    from gssr.convert.tables import EXPORTED, ExportError
    from gssr.convert.traces import TRACE_TABLES, export_traces
    from gssr.model.verdicts.rules import from_environment
    from gssr.store.read.open import recordings_in
    from gssr.traces.open import TraceError

    every = (*EXPORTED, *TRACE_TABLES)
    names = [word.strip() for word in (options.tables or ",".join(every)).split(",") if word.strip()]
    unknown = [name for name in names if name not in every]
    if unknown or not names:
        return fail(f"--tables: {unknown[0] if unknown else options.tables!r}: choose from {', '.join(every)}", USAGE)
    if os.path.lexists(options.output) and not os.path.isdir(options.output):
        return fail(f"-o {options.output}: is not a folder", USAGE)
    try:
        rules = from_environment()
    except ValueError as error:
        return fail(str(error), USAGE)
    traces = [place for place in traces_among(options.places) if not recordings_in([place]).names]
    found = recordings_in([place for place in options.places if place not in traces])
    for sentence in found.unreadable:
        tell(sentence)
    if not (found.names or traces):
        return fail(f"{', '.join(options.places)}: no recording is there", BAD_INPUT)
    try:
        sink = _sink(options, [*found.names, *traces])
    except ImportError:
        return fail(MISSING, BAD_INPUT)
    except OSError as error:
        return fail(f"-o {options.output}: can't be written: {error.strerror}", BAD_INPUT)
    try:
        if traces:
            export_traces(traces, sink, [table for name, table in TRACE_TABLES.items() if name in names])
    except (TraceError, ExportError, ValueError) as error:
        return fail(str(error), BAD_INPUT)
    except OSError as error:
        return fail(f"{error.filename or options.output}: can't be written: {error.strerror}", BAD_INPUT)
    tables = [table for name, table in EXPORTED.items() if name in names]
    n_runs, code = _export(found.names, sink, tables, rules, options.output)
    n_runs += bool(traces)
    if n_runs:
        from gssr.render.cells import clean

        code = put(f"{clean(options.output)}: {n_runs:,} {'run' if n_runs == 1 else 'runs'} exported\n") or code
    return BAD_INPUT if found.unreadable else code


def _sink(options: argparse.Namespace, names: Sequence[str]) -> "Sink":
    from gssr.store.output_file import access_of

    access = access_of(names)
    if options.format == "csv":
        from gssr.convert.csv_files import CsvSink

        return CsvSink(options.output, options.force_overwrite, access)
    from gssr.convert.parquet import ParquetSink

    return ParquetSink(options.output, options.force_overwrite, access)


def _export(
    names: Sequence[str], sink: "Sink", tables: "Sequence[Table]", rules: "Rules", output: str
) -> tuple[int, int]:  # fmt: skip
    """How many runs were exported, and the exit code."""
    from gssr.commands.printing import Bar
    from gssr.convert.export import export
    from gssr.convert.tables import ExportError
    from gssr.store.read.open import RecordingError
    from gssr.store.read.recording import open_recording

    bar, n_runs, code = Bar("exporting"), 0, OK
    try:
        for at, name in enumerate(names):
            try:
                with closing(open_recording(name)) as recording:
                    for number, reader in enumerate(recording.runs):
                        before, n = at + number / len(recording.runs), len(recording.runs) * len(names)
                        show = partial(_show, bar, before / len(names), n)
                        export(reader, name, sink, tables, rules, show)
                        n_runs += 1
                    if recording.damage:
                        bar.clear()
                        code = fail(recording.damage, BAD_INPUT)
            except (RecordingError, ExportError) as error:
                bar.clear()
                code = fail(str(error) if isinstance(error, RecordingError) else f"{name}: {error}", BAD_INPUT)
        sink.finish()
    except OSError as error:
        return 0, fail(f"{error.filename or output}: can't be written: {error.strerror}", BAD_INPUT)
    finally:
        bar.clear()
    return n_runs, code


def _show(bar: "Bar", before: float, n: int, share: float) -> None:
    """The share done of all ``n`` runs, within one of them."""
    bar.show(before + share / n)


COMMAND = Command(
    "export", "write recordings as Parquet or CSV files", "gssr export [options] FILE|DIR...", OPTIONS, handle
)
