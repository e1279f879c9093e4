"""``gssr export``: recordings as files of other kinds, for other programs to query, draw or keep."""

import argparse
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, put, tell
from gssr.commands.inputs import looking_at, no_recording_in, traces_among
from gssr.commands.with_workers import WORKERS, with_workers

if TYPE_CHECKING:
    from gssr.commands.progress_bar import ProgressBar
    from gssr.convert.tables import ExportTable, Sink, WrittenFile
    from gssr.model.verdicts.table import RuleTable as Rules
    from gssr.store.output_file import Access
    from gssr.store.read.recording import RunReader
    from gssr.traces.timeline import Timeline
    from gssr.workers import Workers

FORMATS = ("parquet", "csv", "json", "openmetrics", "prometheus", "perfetto", "jobstats")
ONE_FILE = {"openmetrics": ".txt", "prometheus": ".prom", "perfetto": ".json", "jobstats": ".js1"}
"""Formats of which all runs make one file, and how its name ends; the others make a folder."""
FOLDER = "gssr_export"
PER_PROCESS = 25
"""Another process pays from so many recordings on."""
MOST_TOGETHER = 64
"""Recordings whose runs a worker writes into the same files of a data set: of less the files are small, and are written
again."""
_TURNS = 4
"""So many times each worker gets recordings at least, if there are enough: what one takes longer for, others make up for."""

OPTIONS = (
    Option(
        ("places",),
        {
            "nargs": "+",
            "metavar": "FILE|DIR",
            "help": "recordings, folders of recordings, or the traces of one run's ranks",
        },
    ),
    Option(
        ("-o", "--output"),
        {
            "metavar": "DIR|FILE",
            "help": f"write into this folder or file (default: {FOLDER}, {FOLDER}.txt, .prom, .json or .js1); - writes one "
            "file to stdout; a name that ends in .gz packs the file",
        },
    ),
    Option(
        ("--dataset",),
        {
            "metavar": "DIR",
            "help": "append the runs that have ended to the Parquet data set in DIR, sorted by table and week; runs that "
            "are in it already are left out",
        },
    ),
    Option(
        ("--format",), {"choices": FORMATS, "default": FORMATS[0], "help": f"what to write (default: {FORMATS[0]})"}
    ),
    Option(
        ("--tables",),
        {
            "metavar": "LIST",
            "help": "only these tables, comma-separated (default: all); an unknown name lists all",
        },
    ),
    Option(
        ("--points",),
        {
            "metavar": "N",
            "type": int,
            "help": "with --format perfetto: write at most N values; more samples are averaged (default: 100000)",
        },
    ),
    Option(
        ("--metric",),
        {
            "metavar": "NAME=...",
            "action": "append",
            "default": [],
            "help": "of traces: define a metric, as for gssr analyze; may be repeated",
        },
    ),
    Option(
        ("--with-traces",),
        {
            "action": "store_true",
            "help": "with --format perfetto: also write the traces attached to a run, on its clock",
        },
    ),
    Option(("-f", "--force-overwrite"), {"action": "store_true", "help": "replace what was exported before"}),
    *WORKERS,
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0 when everything was exported; 1 when something could not be read, or written, or was there already; 2 for
    wrong usage."""
    return with_workers(options, _handle)


def _handle(options: argparse.Namespace, workers: "Workers") -> int:
    """Carry out ``gssr export``; return the exit code. ``workers``: who reads the recordings."""
    if options.dataset is not None:
        if options.output is not None or options.format != FORMATS[0]:
            return fail(f"--dataset {options.dataset}: is a folder of Parquet files: leave out -o and --format", USAGE)
        options.output = options.dataset
    if workers.is_elsewhere and options.format in ONE_FILE:
        return fail(f"--dask and --mpi: one process writes the file of --format {options.format}", USAGE)
    if options.output is None:
        options.output = FOLDER + ONE_FILE.get(options.format, "")
    if options.output == "-":
        if options.format not in ONE_FILE:
            return fail(f"-o -: --format {options.format} writes several files: name a folder", USAGE)
        options.output = "/dev/stdout"
    if options.points is not None and (options.format != "perfetto" or options.points < 1):
        return fail(f"--points {options.points}: goes with --format perfetto, and is a number above 0", USAGE)
    if options.with_traces and options.format != "perfetto":
        return fail("--with-traces: goes with --format perfetto", USAGE)
    from gssr.store.read.open import RecordingError

    try:
        with looking_at(options.places) as places:
            called = {place: name for name, place in places.items()}
            options.places = [places.get(name, name) for name in options.places]
            return _one_file(options) if options.format in ONE_FILE else _folder(options, called, workers)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)


def _folder(options: argparse.Namespace, called: Mapping[str, str], workers: "Workers") -> int:
    """Export recordings and traces into a folder of files; return the exit code.

    ``called``: of places that stand in for a file of another tool, that file's name; ``workers``: who reads recordings.
    """
    from gssr.convert.tables import EXPORTED, ExportError
    from gssr.convert.traces import TRACE_TABLES, export_traces
    from gssr.model.verdicts.rules import from_environment
    from gssr.store.read.find_recordings import recordings_in
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
    traces = _traces(options.places)
    if options.dataset is not None and traces:
        return fail(f"--dataset: is for recordings: {traces[0]} is a trace", USAGE)
    if workers.is_elsewhere and options.format != FORMATS[0] and not traces:
        return fail(f"--dask and --mpi: one process writes the files of --format {options.format}", USAGE)
    if options.metric and not traces:
        return fail(f"--metric: is for traces: {options.places[0]} is none", USAGE)
    found, unreadable = recordings_in([place for place in options.places if place not in traces])
    for sentence in unreadable:
        tell(sentence)
    if not (found or traces):
        return fail(no_recording_in(options.places), BAD_INPUT)
    n_traced, n_runs, n_there, code = 0, 0, 0, OK
    problems: Sequence[str] = ()
    try:
        with _sink(options, [*found, *traces]) as sink:
            if traces:
                chosen = [table for name, table in TRACE_TABLES.items() if name in names]
                n_traced, problems = export_traces(traces, sink, chosen, options.metric, workers)
            tables = [table for name, table in EXPORTED.items() if name in names]
            recordings = {name: called.get(name, name) for name in found}
            n_runs, n_there, code = _export(recordings, sink, tables, rules, workers)
    except (TraceError, ExportError, ValueError) as error:
        return fail(str(error), BAD_INPUT)
    except OSError as error:
        return fail(f"{error.filename or options.output}: can't be written: {error.strerror}", BAD_INPUT)
    n_runs += n_traced
    for problem in problems:
        code = fail(problem, BAD_INPUT)
    code = _print_exported(options.output, n_runs, n_there) or code
    return BAD_INPUT if unreadable else code


def _print_exported(output: str, n_runs: int, n_there: int = 0) -> int:
    """Print how many runs were exported to ``output``, and how many were there already; return the exit code. Nothing is
    printed if there are neither, or if the export itself went to stdout."""
    from gssr.render.cells import clean

    if not (n_runs or n_there) or output.startswith("/dev/") or not (os.path.isdir(output) or os.path.isfile(output)):
        return OK
    there = f", {n_there:,} {'was' if n_there == 1 else 'were'} there already" if n_there else ""
    return put(f"{clean(output)}: {n_runs:,} {'run' if n_runs == 1 else 'runs'} exported{there}\n")


def _traces(places: "Sequence[str]") -> list[str]:
    """Return those places that are traces, or folders of nothing else."""
    from gssr.store.read.find_recordings import recordings_in

    return [place for place in traces_among(places) if os.path.isfile(place) or not recordings_in([place])[0]]


def _one_file(options: argparse.Namespace) -> int:
    """Export all runs of the recordings into one file; return the exit code."""
    from gssr.commands.progress_bar import ProgressBar
    from gssr.convert.tables import ExportError
    from gssr.model.verdicts.rules import from_environment
    from gssr.store.output_file import access_of
    from gssr.store.read.find_recordings import recordings_in
    from gssr.store.read.open import RecordingError
    from gssr.store.read.recording import open_recording

    output, bar, code = options.output, ProgressBar("exporting"), OK
    if options.tables is not None:
        return fail(f"--tables: a file of --format {options.format} has none", USAGE)
    if os.path.isdir(output):
        return fail(f"-o {output}: is a folder: name a file in it", USAGE)
    if os.path.isfile(output) and not output.startswith("/dev/") and not options.force_overwrite:
        return fail(f"-o {output}: exists; -f replaces it", BAD_INPUT)
    traces = _traces(options.places)
    if traces:
        return fail(f"{traces[0]}: is a trace: --format {options.format} is for recordings", USAGE)
    try:
        rules = from_environment()
    except ValueError as error:
        return fail(str(error), USAGE)
    found, unreadable = recordings_in(options.places)
    for sentence in unreadable:
        code = fail(sentence, BAD_INPUT)
    with ExitStack() as stack:
        runs: dict[RunReader, str] = {}
        for name in found:
            try:
                runs |= dict.fromkeys(stack.enter_context(closing(open_recording(name))).runs, name)
            except RecordingError as error:
                code = fail(str(error), BAD_INPUT)
        if not runs:
            return code or fail(no_recording_in(options.places), BAD_INPUT)
        try:
            _write(runs, options, rules, access_of(found), bar)
        except (RecordingError, ExportError) as error:
            bar.clear()
            return fail(str(error), BAD_INPUT)
        except BrokenPipeError:
            raise
        except OSError as error:
            bar.clear()
            return fail(f"{error.filename or output}: can't be written: {error.strerror}", BAD_INPUT)
        finally:
            bar.clear()
        for sentence in dict.fromkeys(reader.damage for reader in runs if reader.damage):
            code = fail(sentence, BAD_INPUT)
        return _print_exported(output, len(runs)) or code


def _write(
    runs: "Mapping[RunReader, str]", options: argparse.Namespace, rules: "Rules", access: "Access", bar: "ProgressBar"
) -> None:
    """Write the runs, each with its recording's path, into the output file. Raises OSError, RecordingError and
    ExportError."""
    import gzip

    from gssr.store.output_file import output_file

    with ExitStack() as stack:
        stream: BinaryIO = stack.enter_context(output_file(options.output, access))
        if options.output.endswith(".gz"):
            packed = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream)
            stream = cast("BinaryIO", stack.enter_context(packed))
        if options.format == "perfetto":
            from gssr.convert import perfetto

            points = options.points or perfetto.POINTS
            if options.with_traces:
                perfetto.write([*runs], stream, points, bar.show, lambda run: _intervals(run, runs[run]))
            else:
                perfetto.write([*runs], stream, points, bar.show)
        elif options.format == "jobstats":
            from gssr.convert import jobstats

            unknown = jobstats.write([*runs], stream, os.environ)
            if unknown:
                tell(f"not known of every node, and left out: {', '.join(unknown)}; jobstats may not print the summary")
        elif options.format == "prometheus":
            from gssr.convert import prometheus_summary

            n_left_out = prometheus_summary.write([*runs], rules, stream)
            if n_left_out:
                tell(f"left out: {n_left_out:,} without samples, or whose GPUs all had later runs")
        else:
            from gssr.convert import openmetrics

            openmetrics.write([*runs], stream, bar.show)


def _intervals(run: "RunReader", recording: str) -> "Iterator[Timeline]":
    """Yield the timelines of the traces attached to a run, by its clock; why others can't be laid over it is said."""
    from gssr.commands.attached import laid_over

    for match in laid_over(run, recording):
        if isinstance(match, str):
            tell(match)
            continue
        yield match.timeline
        for text in match.said:
            tell(f"{match.path}: {text}")


@contextmanager
def _sink(options: argparse.Namespace, names: Sequence[str]) -> "Iterator[Sink]":
    """Yield what takes the tables in the wanted format.

    Raises ImportError where the package for it is missing, OSError where the folder can't be written, ExportError where
    somebody else writes into it.
    """
    from gssr.store.output_file import access_of

    access = access_of(names)
    if options.dataset is not None:
        from gssr.convert.dataset import ParquetDataset

        with ParquetDataset(options.dataset, options.force_overwrite, access) as dataset:
            yield dataset
    elif options.format != "parquet":
        from gssr.convert.text_files import TextSink

        yield TextSink(options.output, options.force_overwrite, access, options.format)
    else:
        from gssr.convert.parquet import ParquetSink

        yield ParquetSink(options.output, options.force_overwrite, access)


class _RecordingExport(NamedTuple):
    """The outcome of exporting one recording.

    ``n_runs`` were exported, ``n_there`` were in the export already, ``n_going_on`` have not ended and are left for later.
    ``problems``: a sentence for each thing that could not be exported. ``pieces``: finished files with runs of this and of
    earlier recordings, for ``Sink.put``.
    """

    n_runs: int
    n_there: int
    n_going_on: int
    problems: "Sequence[str]"
    pieces: "Sequence[WrittenFile]" = ()


def _export(
    names: Mapping[str, str], sink: "Sink", tables: "Sequence[ExportTable]", rules: "Rules", workers: "Workers"
) -> tuple[int, int, int]:  # fmt: skip
    """Export recordings table by table, with a progress bar; failures are said.

    ``names``: the path of each recording and what it is called. Returns how many runs were exported and were there
    already, and the exit code. Raises OSError and ExportError where nothing more can be written.
    """
    from gssr.commands.progress_bar import ProgressBar

    bar, n_runs, n_there, n_going_on, code = ProgressBar("exporting"), 0, 0, 0, OK
    n_workers = workers.n_for(len(names), PER_PROCESS) if sink.splits_runs else 1
    export_each = partial(_export_each, sink=sink, tables=tuple(table.name for table in tables), rules=rules)
    gc.freeze()  # so that no process looks for garbage in what is imported
    try:
        exported = (
            workers.map(
                export_each, [*names.items()], _unread, per_worker=PER_PROCESS,
                at_once=min(max(len(names) // (_TURNS * n_workers), 1), MOST_TOGETHER), meanwhile=sink.stay,
            )
            if n_workers > 1 or (workers.is_elsewhere and sink.splits_runs)
            else export_each([*names.items()], progress=bar.show)
        )  # fmt: skip
        for done, each in enumerate(exported, 1):
            twice = [f"run {run!r} was exported already, from another recording" for run in sink.put(each.pieces)]
            n_runs += each.n_runs - len(twice)
            n_there += each.n_there
            n_going_on += each.n_going_on
            bar.show(min(done / len(names), 1.0))
            for problem in (*each.problems, *twice):
                bar.clear()
                code = fail(problem, BAD_INPUT)
        sink.finish()
    finally:
        bar.clear()
    if n_going_on:
        tell(f"{n_going_on:,} {'run has' if n_going_on == 1 else 'runs have'} not ended: left for a later export")
    return n_runs, n_there, code


def _unread(named: tuple[str, str]) -> _RecordingExport:
    """Return what is said of a recording that no worker has survived."""
    return _RecordingExport(0, 0, 0, [f"{named[1]}: the process that read it died"])


def _export_each(
    named: Sequence[tuple[str, str]],
    sink: "Sink",
    tables: Sequence[str],
    rules: "Rules",
    progress: Callable[[float], None] = lambda _: None,
) -> "Iterator[_RecordingExport]":
    """Export recordings, each given by its path and what it is called, and yield what came of each.

    ``tables``: their names, which is all that a worker is sent of them; ``progress`` is called with the share done, 0-1.
    """
    from gssr.convert.tables import EXPORTED
    from gssr.store.read.freed_memory import keep_freed

    keep_freed()
    chosen = [EXPORTED[table] for table in tables]
    for at, (place, name) in enumerate(named):
        of_all = partial(_add_share, progress, at / len(named), len(named))
        own = _export_recording(place, name, sink, chosen, rules, of_all)
        is_last_of_some = (at + 1) % MOST_TOGETHER == 0 or at + 1 == len(named)
        yield own._replace(pieces=sink.hand_over()) if is_last_of_some else own


def _export_recording(
    place: str,
    name: str,
    sink: "Sink",
    tables: "Sequence[ExportTable]",
    rules: "Rules",
    progress: Callable[[float], None],
) -> _RecordingExport:
    """Export the runs of a recording.

    ``place``: its path; ``name``: what it is called; ``progress`` is called with the share done, 0-1. Raises OSError where
    nothing can be written.
    """
    from gssr.convert.export import export
    from gssr.convert.tables import ExportError
    from gssr.model.fleet.fleet import is_final
    from gssr.store.read.open import RecordingError
    from gssr.store.read.recording import open_recording

    n_runs, n_there, n_going_on, problems = 0, 0, 0, []
    try:
        with closing(open_recording(place)) as recording:
            n = len(recording.runs)
            for number, reader in enumerate(recording.runs):
                if sink.only_ended and not is_final(reader.state, place):
                    n_going_on += 1
                    continue
                try:
                    of_one = partial(_add_share, progress, number / n, n)
                    is_new = export(reader, name, sink, tables, rules, of_one)
                    n_runs, n_there = n_runs + is_new, n_there + (not is_new)
                except ExportError as error:
                    problems.append(f"{name}: {error}")
            if recording.damage:
                problems.append(recording.damage)
    except RecordingError as error:
        problems.append(str(error))
    return _RecordingExport(n_runs, n_there, n_going_on, problems)


def _add_share(progress: Callable[[float], None], before: float, n: int, share: float) -> None:
    """Report the share done of ``n`` equal parts: ``before`` (0-1), and ``share`` (0-1) of one more part."""
    progress(before + share / n)


COMMAND = Command(
    "export",
    "write recordings as Parquet, CSV, JSON, for Prometheus or for Perfetto",
    "gssr export [options] FILE|DIR...",
    OPTIONS,
    handle,
)
