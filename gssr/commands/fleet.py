"""``gssr fleet``: what the runs of many recordings used and wasted, and which of them stand out."""

import argparse
import gc
import os
import shutil
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, page_options, put, tell
from gssr.commands.inputs import fleet_at, growing_at, no_recording_in, open_index
from gssr.commands.with_workers import WORKERS, with_workers

if TYPE_CHECKING:
    from gssr.model.fleet.allocations import Allocation
    from gssr.model.fleet.figures import RunFigures
    from gssr.model.fleet.fleet import Fleet
    from gssr.store.index import Index
    from gssr.workers import Workers

BY = ("user", "account", "partition", "label", "command", "job", "array", "node", "model", "week", "state")
OLD_BY = ("gpu",)
"""The earlier name of model, which JSON has as well."""
JUDGED_BY = ("cause", "verdict")
"""By these every run has to be judged, which takes several times as long; the second one is the old name of the first."""
LOST = "lost"
SORTS_OF_CAUSES = (LOST, "wasted", "hours", "runs", "name")
"""What the hours of a cause can be sorted by: nothing else is known of them. What a cause has lost, CSV and JSON call
wasted, as of all other groups."""
SORTS = (
    "wasted", "idle", "unused", "uneven", "throttled", "hours", "energy", "wasted-energy", "score", "runs", "name",
)  # fmt: skip
"""What everything else can be sorted by."""
_RECORDINGS = (".sql", ".sql.d", ".sql.d/")
IDLE_HELD = 3
"""Exit code of --watch where GPUs are held idle."""
MOST = 10
"""Lines of each table, unless somebody says otherwise."""

OPTIONS = (
    Option(
        ("places",),
        {"nargs": "*", "metavar": "DIR|FILE", "help": "recordings, and folders to search for them, subfolders too"},
    ),
    Option(
        ("--by",),
        {
            "choices": (*BY, *JUDGED_BY, *OLD_BY),
            "metavar": "WHAT",
            "help": f"rank by {', '.join(BY)} or {JUDGED_BY[0]} (default: a page of everything)",
        },
    ),
    Option(
        ("--sort",),
        {
            "choices": (*SORTS, LOST),
            "default": "wasted",
            "metavar": "HOW",
            "help": f"{', '.join(SORTS)} (default: wasted); by cause {', '.join(SORTS_OF_CAUSES)} (default: {LOST})",
        },
    ),
    Option(
        ("--since",),
        {"metavar": "TIME", "help": "only runs that ended since then, or go on: 30d or 12h ago, or a date, 2026-05-01"},
    ),
    Option(
        ("-n", "--most"),
        {"type": int, "metavar": "N", "help": f"lines of each table (default: {MOST}; of --json and --csv all)"},
    ),
    Option(
        ("--sacct",),
        {
            "nargs": "?",
            "const": "",
            "metavar": "FILE",
            "help": "also show the GPU-hours that Slurm allocated: ask sacct, or read FILE, the output of sacct --parsable2",
        },
    ),
    Option(
        ("--db",),
        {
            "metavar": "FILE",
            "help": "keep runs, causes and nodes in an SQLite database as well, for Datasette or Grafana",
        },
    ),
    Option(
        ("--watch",),
        {
            "action": "store_true",
            "help": "list the GPUs that running jobs hold idle now; exit with code 3 if there are any",
        },
    ),
    Option(("--json",), {"action": "store_true", "help": "print one JSON object instead of a page"}),
    Option(("--csv",), {"action": "store_true", "help": "print CSV: a line for each run; with --by, for each group"}),
    Option(
        ("--foreign",),
        {"action": "store_true", "help": "also read metric files of other tools, as gssr import does"},
    ),
    Option(
        ("--index",),
        {
            "metavar": "FILE",
            "help": "keep the results in this file for the next call (default: gssr/fleet.index in your cache folder)",
        },
    ),
    Option(("--no-index",), {"action": "store_true", "help": "read every recording anew, and keep no results"}),
    *WORKERS,
    Option(
        ("--width",),
        {
            "type": int,
            "metavar": "N",
            "help": f"columns (default: COLUMNS, else the terminal's, else {page_options.WIDTH})",
        },
    ),
    *(option for option in page_options.OPTIONS if option.flags != ("--width",)),
)


def since_of(text: str, now: float) -> float:
    """Parse --since into unix s: a date, or how long before ``now`` (unix s). Raises ValueError with a sentence."""
    from datetime import datetime

    from gssr.model.window import parse_time

    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return parse_time(f"-{text.strip()}", 0.0, now)
    except ValueError:
        raise ValueError(f"{text!r} is neither a time ago, such as 30d or 12h, nor a date such as 2026-05-01") from None


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0, also where some recordings can't be read, which is said; 1 when there is none that can; 2 for wrong
    usage; with --watch 3 where GPUs are held idle."""
    if options.sacct and (os.path.isdir(options.sacct) or options.sacct.endswith(_RECORDINGS)):
        options.places.insert(0, options.sacct)  # it is not what the option is about
        options.sacct = ""
    if not options.places:
        return fail("name folders or recordings: gssr fleet [options] DIR|FILE...", USAGE)
    return with_workers(options, _with_foreign)


def _with_foreign(options: argparse.Namespace, workers: "Workers") -> int:
    """Carry out ``gssr fleet``, with the metric files of other tools if these are asked for; return the exit code."""
    if not options.foreign:
        return _handle(options, options.places, workers)
    from gssr.commands.inputs import with_foreign
    from gssr.store.read.open import RecordingError

    try:
        with with_foreign(options.places) as places:
            return _handle(options, places, workers)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)


def _handle(options: argparse.Namespace, named: Sequence[str], workers: "Workers") -> int:
    """Carry out ``gssr fleet`` of these recordings and folders of them; return the exit code. ``workers``: who reads
    them."""
    if options.width is None:
        columns = shutil.get_terminal_size((page_options.WIDTH, 24)).columns
        options.width = min(max(columns, page_options.NARROWEST), page_options.WIDEST)
    wrong = page_options.wrong_width(options)
    if wrong is None and options.most is not None and options.most < 1:
        wrong = f"--most: {options.most} is not above 0"
    if wrong is None and options.json and options.csv:
        wrong = "--json and --csv: choose one"
    without = ("by", "since", "db", "csv", "foreign")
    other = next((each for each in without if getattr(options, each) not in (None, False)), None)
    if wrong is None and options.watch and other is not None:
        wrong = f"--watch and --{other}: choose one"
    if wrong is None and options.by in JUDGED_BY and options.sort not in SORTS_OF_CAUSES:
        wrong = f"--sort {options.sort}: by cause, hours can be sorted by {', '.join(SORTS_OF_CAUSES)}"
    if wrong is None and options.sort == LOST and options.by not in JUDGED_BY:
        wrong = f"--sort {LOST}: goes with --by {JUDGED_BY[0]}; else one of {', '.join(SORTS)}"
    if wrong is None and options.index is not None and options.no_index:
        wrong = "--index and --no-index: choose one"
    if wrong is not None:
        return fail(wrong, USAGE)
    from gssr.model.verdicts.rules import from_environment

    try:
        since = None if options.since is None else since_of(options.since, time.time())
    except ValueError as error:
        return fail(f"--since: {error}", USAGE)
    try:
        rules = from_environment()
    except ValueError as error:
        return fail(str(error), USAGE)

    from gssr.commands.progress_bar import ProgressBar
    from gssr.model.fleet.fleet import FleetRequest

    try:
        index = (
            None if options.no_index or options.foreign else open_index(options.index)
        )  # what is imported goes again
    except ValueError as error:
        return fail(f"--index: {error}", USAGE)
    if options.watch:
        return _watch(options, index)
    bar, collected = ProgressBar("reading"), gc.isenabled()
    gc.disable()  # of all that is kept in the index nothing goes before the end
    try:
        judged = options.by in JUDGED_BY or options.db is not None
        # Of a job that ended since, all runs are needed to know how much of it was recorded.
        read_since = since if options.sacct is None else None
        found = fleet_at(named, FleetRequest(read_since, judged, rules), index, bar.show, workers)
    finally:
        bar.clear()
        gc.freeze()
        if collected:
            gc.enable()
    if index is not None and index.notice:
        tell(index.notice)
    if not found.n_recordings:
        for sentence in found.unreadable:
            tell(sentence)
        others = " and the files of other tools" if options.foreign else ""
        return fail(no_recording_in(options.places) + others, BAD_INPUT)
    if not found.runs and len(found.unreadable) >= found.n_recordings:
        for sentence in found.unreadable:
            tell(sentence)
        return BAD_INPUT
    if options.sacct is not None:
        try:
            found = _join_allocations(found, options.sacct, since)
        except ValueError as error:
            return fail(f"--sacct: {error}", BAD_INPUT)
    code = OK if options.db is None else _keep(found, options.db)
    return _show(found, options) or code


def _keep(found: "Fleet", path: str) -> int:
    """Write what was found into the database at this path, and say so; return the exit code."""
    from gssr.convert.fleet_database import update_database
    from gssr.convert.tables import ExportError
    from gssr.render.scale import count

    try:
        n_new = update_database(path, found)
    except ExportError as error:
        return fail(f"--db: {error}", BAD_INPUT)
    n_updated = len(found.runs) - n_new
    tell(f"{path}: {count(n_new, 'new run')} added, {count(n_updated, 'run')} updated")
    return OK


def _join_allocations(found: "Fleet", file: str, since: float | None) -> "Fleet":
    """Join what Slurm allocated, by a ``file`` of its accounting, or "" for what sacct says.

    ``since``: only the jobs and runs that ended then (unix s) or later, or go on; None: all those of the file, and of sacct
    those that ran when the first run began, or later. Raises ValueError, a sentence.
    """
    from gssr.model.fleet.allocations import join
    from gssr.model.fleet.fleet import without_earlier

    jobs, n_unreadable, first = _read_accounting(file, found.runs, since)
    allocated, runs = join(found.runs, jobs, n_unreadable)
    own = tuple(use for use in allocated.jobs if since is None or use.allocation.end >= since)
    found = found._replace(runs=runs, allocated=allocated._replace(jobs=own, since=first))
    return found if since is None else without_earlier(found, since)


def _read_accounting(
    file: str, runs: Sequence["RunFigures"], since: float | None
) -> tuple[list["Allocation"], int, float | None]:
    """Read the jobs of a ``file`` of Slurm's accounting, or with "" ask sacct for those that ran at ``since`` (unix s) or
    later, or where that is None, when the first of the runs began. Returns also how many lines could not be read, and the
    time from which on the jobs are, None for all of a file. Raises ValueError, a sentence."""
    from gssr.commands.sacct import from_file, from_slurm

    now = time.time()
    if file:
        return *from_file(file, now), since
    first = min((run.began for run in runs), default=now) if since is None else since
    return *from_slurm(first, now), first


def _watch(options: argparse.Namespace, index: "Index | None") -> int:
    """Print which GPUs the recordings that grow hold idle now; return IDLE_HELD where there are any."""
    from gssr.commands.progress_bar import ProgressBar

    bar = ProgressBar("reading")
    try:
        found = growing_at(options.places, index, bar.show)
    finally:
        bar.clear()
    if not found.n_recordings or (not found.runs and len(found.unreadable) >= found.n_recordings):
        for sentence in found.unreadable:
            tell(sentence)
        return BAD_INPUT if found.n_recordings else fail(no_recording_in(options.places), BAD_INPUT)
    if options.sacct is not None:
        from gssr.model.fleet.allocations import join

        figures = [own.run for own in found.runs]
        try:
            jobs, *_ = _read_accounting(options.sacct, figures, None)
        except ValueError as error:
            return fail(f"--sacct: {error}", BAD_INPUT)
        _, named = join(figures, jobs)
        found = found._replace(runs=tuple(own._replace(run=run) for own, run in zip(found.runs, named, strict=True)))
    if options.json:
        from gssr.report.fleet_watch import watch_json

        code = put(watch_json(found, options.most))
    else:
        from gssr.report.fleet_watch import watch_page
        from gssr.report.terminal import to_text

        ascii_only = page_options.ascii_only(options)
        page = watch_page(options.places, found, options.most or MOST, options.width, ascii_only)
        code = put(to_text(page, page_options.wants_color(options), ascii_only))
    return code or (IDLE_HELD if any(own.idle for own in found.runs) else OK)


def _show(found: "Fleet", options: argparse.Namespace) -> int:
    """Print the fleet as a page, JSON or CSV; return the exit code."""
    from gssr.model.fleet.fleet import groups

    by: str | None = options.by
    if options.json:
        from gssr.report.fleet_export import to_json

        return put(to_json(found, (by,) if by else (*BY, *OLD_BY), options.sort, options.most))
    if options.csv:
        from gssr.report.fleet_export import groups_csv, runs_csv

        for sentence in found.unreadable:
            tell(sentence)
        if by:
            return put(groups_csv(groups(found.runs, by, options.sort)[: options.most]))
        return put(runs_csv(found.runs[: options.most]))
    from gssr.report.fleet import FleetPageOptions, fleet_page
    from gssr.report.terminal import to_text

    ascii_only = page_options.ascii_only(options)
    page = FleetPageOptions(by, options.sort, options.most or MOST, options.width, ascii_only)
    return put(to_text(fleet_page(options.places, found, page), page_options.wants_color(options), ascii_only)) or OK


COMMAND = Command(
    "fleet",
    "summarise many recordings: who wastes how many GPU-hours, and on what",
    "gssr fleet [options] DIR|FILE...",
    OPTIONS,
    handle,
)
