"""``gssr analyze``: what a recording, or a trace, says, as a page, pictures or JSON."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, page_options, put, tell, under
from gssr.commands.attached import ATTACH, laid_over, wrong_attach
from gssr.commands.inputs import (
    RULES,
    chosen_runs,
    fleet_at,
    looking_at,
    open_index,
    own_recordings,
    selectors,
    traces_among,
)
from gssr.commands.with_workers import WORKERS, with_workers

if TYPE_CHECKING:
    from gssr.model.analyze import Options as Wanted
    from gssr.model.compare.scaling import ScalingKind
    from gssr.model.fleet.figures import RunFigures
    from gssr.model.results import Analysis
    from gssr.model.verdicts.table import RuleTable
    from gssr.report.page import PageOptions
    from gssr.store.index import Index
    from gssr.store.read.recording import RecordingReader, RunReader
    from gssr.workers import Workers

REPORT_ENDS = (".html", ".pdf")
"""What the names of reports end in."""

_FOR_TRACES = (
    Option(("--ranks",), {"metavar": "LIST", "help": "of a trace: read only these ranks, such as 0-7,12"}),
    Option(
        ("--steps",),
        {"metavar": "N-M", "help": "of a trace: only from step N to step M, by the numbers in the steps' names"},
    ),
    Option(
        ("--csv",),
        {
            "metavar": "TABLE",
            "help": "of a trace: print this table as CSV, also one of nsys stats; an unknown name lists all tables",
        },
    ),
    Option(
        ("--like-hta",),
        {"action": "store_true", "help": "of a trace: count as HolisticTraceAnalysis does, to compare with it"},
    ),
    Option(
        ("--metric",),
        {
            "metavar": "NAME=...",
            "action": "append",
            "default": [],
            "help": "of a trace: define a metric: 'wait=share(/^MPI_Wait/)', count(), bytes(), or one divided by another; "
            "may be repeated",
        },
    ),
    Option(
        ("--memory-limit",),
        {
            "metavar": "SIZE",
            "help": "of a memory snapshot of PyTorch: say which allocations would have to go to fit into SIZE, such as 24G",
        },
    ),
    Option(
        ("--max-size",),
        {"metavar": "SIZE", "help": "of a trace: refuse a file that unpacks to more, such as 100G (default: 16G)"},
    ),
)

OPTIONS = (
    Option(
        ("files",),
        {
            "nargs": "*",
            "metavar": "FILE",
            "help": "recordings, traces, metric files of other tools, or folders of them (default: this job's recording, "
            "else the newest recording here)",
        },
    ),
    Option(
        ("-i", "--input"),
        {"action": "append", "default": [], "metavar": "FILE", "help": "the same as FILE; may be repeated"},
    ),
    *under(
        "what to show",
        Option(
            ("-pts", "--plot-time-series"),
            {
                "action": "store_true",
                "help": "draw the mean of the GPUs over time: on the terminal, or into PNG files if there is none",
            },
        ),
        Option(
            ("-plb", "--plot-load-balancing"),
            {"action": "store_true", "help": "draw each GPU against the others, likewise"},
        ),
        Option(
            ("--terminal",),
            {
                "action": "store_true",
                "help": "draw the charts as text, also into a file; without -pts and -plb all charts",
            },
        ),
        Option(
            ("--png",),
            {"nargs": "?", "const": "", "metavar": "DIR", "help": "draw PNG files, in DIR or beside the recording"},
        ),
        Option(
            ("--report",),
            {
                "metavar": "FILE",
                "help": "also write a report: FILE.html, which loads no other file, or FILE.pdf",
            },
        ),
        Option(
            ("--for",),
            {
                "dest": "purpose",
                "choices": ("proposal", "proposal:strong", "proposal:weak"),
                "help": "with --report FILE.pdf: write one page for a computing-time proposal; strong: all runs did the "
                "same work; weak: every GPU did the same work",
            },
        ),
        Option(("--json",), {"action": "store_true", "help": "print one JSON object instead of a page"}),
        Option(
            ("-mtd", "--show-metadata"),
            {"action": "store_true", "help": "show everything that is known of the run and its GPUs"},
        ),
        Option(("-ns", "--no-summary"), {"action": "store_true", "help": "leave the summary out"}),
        Option(
            ("-v", "--verbosity"),
            {
                "choices": ("low", "medium", "high"),
                "default": "medium",
                "help": "how much the page shows (default: medium)",
            },
        ),
        Option(
            ("--history",),
            {"metavar": "DIR", "help": "compare the run with earlier runs in this folder (default: $GSSR_HISTORY)"},
        ),
        RULES,
    ),
    *under(
        "which part of a recording",
        Option(("--run",), {"metavar": "RUN", "help": "only this run: its number, id or label; -1 is the last"}),
        Option(
            ("--from",),
            {
                "dest": "start",
                "metavar": "TIME",
                "help": "begin here: 90 (s), 5m or 1:30 after the start, -60 before the end, or a date and time",
            },
        ),
        Option(("--to",), {"dest": "end", "metavar": "TIME", "help": "end here, given in the same way"}),
        Option(
            ("-d", "--detect-outliers"),
            {
                "choices": ("leading", "trailing", "all", "none"),
                "default": "none",
                "help": "leave out warm-up (leading), tear-down (trailing) or both (all), found in the data (default: none)",
            },
        ),
        Option(
            ("--gpus",),
            {"metavar": "LIST", "help": "only these GPUs: index, NODE, NODE:INDEX or UUID, also with * and ?"},
        ),
        Option(("--metrics",), {"metavar": "LIST", "help": "only these metrics, comma-separated"}),
        Option(
            ("--exact",),
            {
                "action": "store_true",
                "help": "compute all statistics from every sample, percentiles too; slower for long runs",
            },
        ),
    ),
    *under("traces", *ATTACH, *_FOR_TRACES),
    *under("who reads many traces", *WORKERS),
    *under("how the page looks", *page_options.OPTIONS),
)

REPLACED = {
    "-s": "leave it out: the summary is shown anyway",
    "-rp": "use --report FILE.html or --report FILE.pdf",
    "-hm": "--png -plb draws the map of GPUs over time",
    "-e": "a recording is an SQLite file for sqlite3 or pandas; or use gssr export, or --json",
    "--export": "a recording is an SQLite file for sqlite3 or pandas; or use gssr export, or --json",
    "-o": "use --png DIR for pictures, and the shell's > FILE for the page",
    "-f": "leave it out: pictures are drawn anew each time",
}
"""Options of GSSR 0.4 that work differently here, and what to use instead."""


def with_times(words: Sequence[str]) -> list[str]:
    """Join ``--from -5m`` to ``--from=-5m``, and likewise ``--to``: argparse takes a word with a dash that is no
    number for an option."""
    joined: list[str] = []
    for word in words:
        if joined[-1:] in (["--from"], ["--to"]) and word.startswith("-"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


class DrawingChoice(NamedTuple):
    """Which pictures ``gssr analyze`` draws (time series, load balancing, roofline), and whether on the terminal, into PNG
    files, or both."""

    time_series: bool
    load_balancing: bool
    roofline: bool
    terminal: bool
    png: bool


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0 when every run was analysed; 1 when a file could not be read, or only in part; 2 for wrong usage."""
    return with_workers(options, _handle)


def _handle(options: argparse.Namespace, workers: "Workers") -> int:
    """Carry out ``gssr analyze``; return the exit code. ``workers``: who reads the traces of many ranks."""
    from gssr.metrics import select
    from gssr.recognise import DUMPS, FLIGHT, PROFILES

    wrong = page_options.wrong_width(options) or wrong_attach(options, (FLIGHT,))
    if wrong:
        return fail(wrong, USAGE)
    if options.report is not None and not options.report.lower().endswith(REPORT_ENDS):
        return fail(f"--report: {options.report}: name a file that ends in {' or '.join(REPORT_ENDS)}", USAGE)
    if options.purpose is not None and not (options.report or "").lower().endswith(".pdf"):
        return fail(f"--for {options.purpose}: is for a report as PDF: add --report FILE.pdf", USAGE)
    try:
        metrics = tuple(metric.name for metric in select(options.metrics)) if options.metrics is not None else None
    except ValueError as error:
        return fail(f"--metrics: {error}", USAGE)
    if options.gpus is not None and not selectors(options.gpus):
        return fail("--gpus: no GPU named: give an index, NODE, NODE:INDEX or UUID", USAGE)
    names = [*options.input, *options.files] or own_recordings()
    if not names:
        return fail("no recording named, and none here: gssr analyze FILE.sql", USAGE)
    if traces_among(names[:1], DUMPS) or traces_among(names, PROFILES):
        from gssr.commands.dump_pages import analyze_dumps

        return analyze_dumps(names, options)
    traces = traces_among(names)
    if traces and len(traces) < len(names):
        other = next(name for name in names if name not in traces)
        return fail(f"{traces[0]} is a trace and {other} is none: analyze them one after the other", USAGE)
    for name in ("history", "attach"):
        if traces and getattr(options, name):
            return fail(f"--{name}: is for recordings: {traces[0]} is a trace", USAGE)
    if traces:
        if options.memory_limit is not None:
            return fail(f"--memory-limit: is for memory snapshots of PyTorch: {traces[0]} is none", USAGE)
        from gssr.commands.trace_pages import analyze_traces

        return analyze_traces(names, options, workers)
    for option in (*_FOR_TRACES, *WORKERS):
        if getattr(options, option.flags[0].removeprefix("--").replace("-", "_")):
            instead = "; metrics of a recording: --metrics" if option.flags[0] == "--metric" else ""
            return fail(f"{option.flags[0]}: is for traces: {names[0]} is none{instead}", USAGE)

    from gssr.model.verdicts.rules import from_environment, load

    try:
        rules = load(options.rules) if options.rules is not None else from_environment()
    except ValueError as error:
        return fail(str(error), USAGE)

    earlier = options.history or os.environ.get("GSSR_HISTORY") or None
    if earlier is not None and not os.path.exists(earlier):
        return fail(f"{'--history' if options.history else 'GSSR_HISTORY'}: {earlier}: no such folder", USAGE)

    from gssr.store.read.freed_memory import keep_freed
    from gssr.store.read.open import RecordingError

    keep_freed()
    history = None if earlier is None else _EarlierRuns(earlier, rules)
    try:
        with looking_at(names, together=True) as places:
            reading = _RunAnalyses(options, metrics, rules, places, history)
            if options.json:
                return _put_json(reading, names, options.report, options.purpose)
            for _ in reading.analyses(names):
                pass
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)
    except ValueError as error:
        return fail(str(error), USAGE)
    code = _show(reading.shown, options, metrics) if reading.shown else OK
    return code if code != OK else reading.code


class _RecordingOutput(NamedTuple):
    """The pages to print for the recording ``name``: one for each of its ``analyses``. For more than MOST_PAGES runs
    ``rows`` has the cells of a row of a table for each instead."""

    name: str
    analyses: "list[Analysis]"
    rows: list[tuple[str, ...]]


class _EarlierRuns:
    """The runs in a folder, read when they are first asked for, through the index."""

    def __init__(self, folder: str, rules: "RuleTable") -> None:
        self._folder, self._rules = folder, rules
        self._index: Index | None = None
        self._runs: tuple[RunFigures, ...] | None = None

    def of(self, analysis: "Analysis") -> "Analysis":
        """Return the analysis with how the run stands against earlier ones; unchanged if it is of a part of a run.

        The folder is read the first time.
        """
        from dataclasses import replace

        from gssr.commands.progress_bar import ProgressBar
        from gssr.model.fleet.fleet import FleetRequest, read_fleet
        from gssr.model.fleet.history import history

        if not analysis.window.whole:
            return analysis
        if self._runs is None:
            self._index, bar = open_index(), ProgressBar("reading earlier runs")
            try:
                self._runs = fleet_at([self._folder], FleetRequest(), self._index, bar.show).runs
            finally:
                bar.clear()
            if self._index is not None and self._index.notice:
                tell(self._index.notice)
        judged, index = FleetRequest(verdicts=True, rules=self._rules), self._index
        return replace(
            analysis, history=history(self._runs, analysis, lambda names: read_fleet(names, judged, index=index).runs)
        )


class _RunAnalyses:
    """Analyses recordings one run after the other; what is to be ``shown`` of them in the end; and the exit ``code`` so
    far. ``places``: what is opened in place of a name, "" for nothing."""

    def __init__(
        self,
        options: argparse.Namespace,
        metrics: tuple[str, ...] | None,
        rules: "RuleTable",
        places: Mapping[str, str],
        earlier: _EarlierRuns | None = None,
    ) -> None:
        """``metrics``: their names, None for all; ``earlier``: the runs to compare with, None for none."""
        self._options, self._metrics, self._rules, self._places = options, metrics, rules, places
        self._earlier = earlier
        self.shown: list[_RecordingOutput] = []
        self.code = OK

    def analyses(self, names: Sequence[str]) -> "Iterator[Analysis]":
        """Yield the analyses of all runs of these recordings that are asked for.

        A recording that can't be read is said and sets ``code``. Raises ValueError, with a sentence, for what a
        recording does not have, or has too much of.
        """
        from gssr.store.read.open import RecordingError
        from gssr.store.read.recording import open_recording

        for name in names:
            place = self._places.get(name, name)
            if name in self._places and not place:
                continue
            try:
                recording = open_recording(place)
                yield from self._of(name, recording)
            except RecordingError as error:
                self.code = fail(str(error), BAD_INPUT)
                continue
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            if recording.damage:
                self.code = fail(recording.damage, BAD_INPUT)
            recording.close()

    def _files(self, name: str) -> list[str]:
        """List the files that advised commands name in place of a recording: all of another tool's metric files that
        became one.

        Empty for a demonstration's recording, which is gone with it.
        """
        if getattr(self._options, "passing", False):
            return []
        return [name, *(each for each, place in self._places.items() if name in self._places and not place)]

    def _of(self, name: str, recording: "RecordingReader") -> "Iterator[Analysis]":
        """Yield an analysis of each chosen run of a recording, and add what will be printed of them to ``shown``. Raises
        ValueError, a sentence, where reports or pictures are asked of more than MOST_PAGES runs."""
        from dataclasses import replace

        from gssr.commands.progress_bar import ProgressBar
        from gssr.model.analyze import analyze
        from gssr.recognise import FLIGHT
        from gssr.render.verdicts import naming
        from gssr.report.terminal import MOST_PAGES, run_cells

        options, readers = self._options, chosen_runs(recording, self._options.run)
        many = len(readers) > MOST_PAGES
        if many and (options.report is not None or options.png is not None):
            raise ValueError(
                f"{len(readers):,} runs: reports and pictures are made of {MOST_PAGES} at most: name one with --run"
            )
        numbers = {reader.run.run_id: number for number, reader in enumerate(recording.runs, 1)}
        shown, bar = _RecordingOutput(name, [], []), ProgressBar("reading samples")
        wanted = _wanted(options, self._metrics, self._rules, bar.show, tables=many)
        self.shown.append(shown)
        for reader in readers:
            try:
                analysis = analyze(reader, wanted)
            finally:
                bar.clear()
            if self._earlier is not None and options.gpus is None and not many:
                analysis = self._earlier.of(analysis)
            if not many or options.attach:
                dumps = traces_among(options.attach, (FLIGHT,))
                traces = [trace for trace in options.attach if trace not in dumps]
                analysis = _with_traces(analysis, reader, recording.path, traces, options.offset)
                analysis = _with_dumps(analysis, reader, dumps) if dumps else analysis
            if many:
                shown.rows.append(run_cells(numbers[reader.run.run_id], analysis, page_options.ascii_only(options)))
            elif not options.json or options.report is not None:
                judgement = analysis.judgement
                judgement = replace(judgement, verdicts=naming(judgement.verdicts, self._files(name)))
                shown.analyses.append(replace(analysis, judgement=judgement))
            yield analysis


def _with_traces(
    analysis: "Analysis", reader: "RunReader", recording: str, attach: Sequence[str], offset: float | None
) -> "Analysis":  # fmt: skip
    """Return the analysis with the run's traces and those of ``attach``, to whose times ``offset`` s are added, and why
    others are not of it; unchanged if there are none."""
    rows = reader.traces()
    if not (attach or rows):
        return analysis
    from gssr.model.joined.digest import digested
    from gssr.model.joined.estimates import with_estimates
    from gssr.model.joined.explain import Scores, looked_at, traced, with_traces
    from gssr.store.disk import traces_beside
    from gssr.store.read.time_window import Window
    from gssr.traces.attached import to_open

    place = looked_at(analysis, reader)
    window = analysis.window
    scores = Scores(reader, Window(window.start, window.end))
    found, rows, apart = digested(reader, to_open(rows), traces_beside(recording), place, scores, window.whole)
    refused = [apart] if apart else []
    for match in laid_over(reader, recording, attach, offset, rows):
        if isinstance(match, str):
            refused.append(match)
        elif (own := traced(match, place, scores)) is not None:
            found.append(own)
        else:
            refused.append(f"{match.path}: does not overlap the window, or has none of these GPUs")
    return with_traces(analysis, with_estimates(found, reader, place), refused)


def _with_dumps(analysis: "Analysis", reader: "RunReader", dumps: Sequence[str]) -> "Analysis":
    """Return the analysis with what dumps of NCCL's flight recorder say of its hang, and why others say nothing."""
    from dataclasses import replace

    from gssr.commands.dump_pages import each_read
    from gssr.model.joined.dumps_of_run import dumps_of_run, gpus_by_rank
    from gssr.model.joined.explain import looked_at
    from gssr.model.traces.hang import analyze_hang
    from gssr.report.hang import explain_hang
    from gssr.traces.flight_recorder import read_flight_recorder
    from gssr.traces.timeline import TraceError

    read, problems = each_read(dumps, read_flight_recorder)
    own, others = dumps_of_run(reader, read)
    problems += [f"{dump.path}: is of another time than the run" for dump in others]
    try:
        found = analyze_hang(own) if own else None
    except TraceError as error:
        found, problems = None, [*problems, str(error)]
    analysis = replace(analysis, notes=(*analysis.notes, *problems))
    if found is None:
        return analysis
    return explain_hang(analysis, found, gpus_by_rank(reader, looked_at(analysis, reader)))


def _wanted(
    options: argparse.Namespace,
    metrics: tuple[str, ...] | None,
    rules: "RuleTable",
    progress: Callable[[float], None],
    tables: bool,
) -> "Wanted":
    """Return what is to be analysed.

    ``metrics``: their names, None for all; ``tables``: of the run only its line in a table is shown; ``progress`` gets
    shares, 0-1.
    """
    from gssr.metrics import SCORE_INPUTS
    from gssr.model.analyze import Options as Wanted
    from gssr.report.page import series_needed

    series = () if options.json or tables else series_needed(_page_options(options, metrics))
    bins = max(options.width, page_options.WIDTH) * (3 if options.png is not None else 1)
    if options.report is not None:
        from gssr.report.content import BINS, report_series

        series, bins = (*series, *report_series(metrics)), max(bins, BINS)
    table = tables and not options.json
    return Wanted(
        metrics=SCORE_INPUTS if table else metrics,
        causes=not table,
        gpus=None if options.gpus is None else selectors(options.gpus),
        start=options.start,
        end=options.end,
        outliers=options.detect_outliers,
        exact=options.exact or None,
        rules=rules,
        series=tuple(dict.fromkeys(series)),
        bins=bins,
        host=options.report is not None or (options.show_metadata and not options.json and not table),
        progress=progress,
    )


def _put_json(reading: _RunAnalyses, names: Sequence[str], report: str | None, purpose: str | None) -> int:
    """Analyse the recordings, print the JSON object and write the report if one is asked for; return the exit code.

    Nothing is printed before everything was read. Raises ValueError as ``_RunAnalyses.analyses``.
    """
    from gssr.commands.printing import Spool
    from gssr.report.json_document import pieces

    with Spool() as spool:
        try:
            for piece in pieces(reading.analyses(names)):
                spool.write(piece)
        except OSError as error:
            return fail(f"what is to be printed can't be written to a temporary file: {error.strerror}", BAD_INPUT)
        if report is not None and reading.shown:
            code = _report(reading.shown, report, purpose)
            if code != OK:
                return code
        if not reading.shown and reading.code != OK:
            return reading.code
        return spool.print() or reading.code


def _page_options(options: argparse.Namespace, metrics: tuple[str, ...] | None) -> "PageOptions":
    """Return how the page is to be drawn."""
    from gssr.report.page import PageOptions

    return PageOptions(
        width=options.width,
        ascii=page_options.ascii_only(options),
        verbosity=options.verbosity,
        metrics=metrics,
    )


def _show(shown: Sequence[_RecordingOutput], options: argparse.Namespace, metrics: tuple[str, ...] | None) -> int:
    """Write the report and the pictures that are asked for, and print the page; return the exit code."""
    if options.report is not None:
        code = _report(shown, options.report, options.purpose)
        if code != OK:
            return code
    from gssr.report.page import Parts
    from gssr.report.terminal import joined_pages, pages, runs_page, to_text

    drawing = drawing_of(options)
    if drawing.png:
        try:
            _draw_pictures([(each.name, own) for each in shown for own in each.analyses], drawing, options.png)
        except OSError as error:
            return fail(f"{error.filename or options.png}: pictures can't be written: {error.strerror}", BAD_INPUT)
    parts = Parts(
        summary=not options.no_summary,
        time_series=drawing.terminal and drawing.time_series,
        phases=drawing.terminal and drawing.time_series,
        load_balancing=drawing.terminal and drawing.load_balancing,
        roofline=drawing.terminal and drawing.roofline,
        metadata=options.show_metadata,
    )
    asked = _page_options(options, metrics)
    found = [
        runs_page(each.name, each.rows, asked) if each.rows else pages(each.analyses, parts, asked)
        for each in shown
        if each.rows or each.analyses
    ]
    return put(to_text(joined_pages(found, asked), page_options.wants_color(options), asked.ascii))


def drawing_of(options: argparse.Namespace) -> DrawingChoice:
    """--terminal or --png alone draw everything; -pts and -plb alone draw where they can be seen: on a terminal, else
    into PNG files."""
    time_series, load_balancing = options.plot_time_series, options.plot_load_balancing
    terminal, png = options.terminal, options.png is not None
    if not (time_series or load_balancing):
        wanted = terminal or png
        return DrawingChoice(wanted, wanted, wanted, terminal, png)
    if not (terminal or png):
        terminal = page_options.on_terminal()
        png = not terminal
    return DrawingChoice(time_series, load_balancing, False, terminal, png)


def _draw_pictures(analyses: Sequence[tuple[str, "Analysis"]], drawing: DrawingChoice, folder: str | None) -> None:
    """Write the PNG files in ``folder``, or beside each recording if that is None or "", and name them on stderr.
    Raises OSError.

    ``analyses``: each with the name of its recording. A picture of which nothing is known is left out, which is said.
    """
    from gssr.report.png.figure import NothingToDrawError
    from gssr.report.png.png import load_balancing_png, roofline_png, time_series_png
    from gssr.report.png.png_breakdown import breakdown_png
    from gssr.report.png.png_over_time import heat_map_png, phases_png
    from gssr.store.output_file import access_of, output_file, output_folder

    several = len(analyses) > 1
    if folder:
        output_folder(folder, access_of(name for name, _ in analyses))
    for number, (name, analysis) in enumerate(analyses, 1):
        access = access_of([name])
        stem = name.rstrip("/").removesuffix(".d").removesuffix(".sql")
        if folder:
            stem = os.path.join(folder, os.path.basename(stem))
        if several:
            stem += f".{number}"
        for wanted, suffix, draw in (
            (drawing.time_series, "breakdown", breakdown_png),
            (drawing.time_series, "time-series", time_series_png),
            (drawing.time_series, "phases", phases_png),
            (drawing.load_balancing, "load-balancing", load_balancing_png),
            (drawing.load_balancing, "heat-map", heat_map_png),
            (drawing.roofline, "roofline", roofline_png),
        ):
            if not wanted:
                continue
            path = f"{stem}.{suffix}.png"
            try:
                with output_file(path, access) as file:
                    draw(analysis, file)
                tell(path)
            except NothingToDrawError as error:
                tell(f"{path}: left out, there is nothing to draw: {error}")


def _report(shown: Sequence[_RecordingOutput], path: str, purpose: str | None) -> int:
    """Write the report, or say why that fails; return the exit code."""
    try:
        _write_report(shown, path, purpose)
    except OSError as error:
        return fail(f"{error.filename or path}: can't be written: {error.strerror}", BAD_INPUT)
    return OK


def _write_report(shown: Sequence[_RecordingOutput], path: str, purpose: str | None) -> None:
    """Write the report, PDF or HTML by the end of ``path``, and name it on stderr.

    ``purpose``: as --for has it, None for the whole report. Raises OSError.
    """
    from gssr.store.output_file import access_of, output_file

    reported = [analysis for each in shown for analysis in each.analyses]
    with output_file(path, access_of(each.name for each in shown)) as file:
        if purpose is not None:
            from gssr.report.pdf.proposal import proposal_pdf

            kind: ScalingKind | None = "strong" if purpose.endswith(":strong") else "weak" if ":" in purpose else None
            proposal_pdf(reported, file, kind)
        elif path.lower().endswith(".pdf"):
            from gssr.report.pdf.pdf import pdf_report

            pdf_report(reported, file)
        else:
            from gssr.report.html.html_document import html_report

            file.write(html_report(reported).encode())
    tell(path)


COMMAND = Command(
    "analyze",
    "print the page: where the GPU time went and why, of recordings and traces",
    "gssr analyze [options] [-i] [FILE...]",
    OPTIONS,
    handle,
)
