"""``gssr import``: makes recordings of the metric files of other tools, and of reports of Nsight Systems what gssr reads."""

import argparse
import os
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from gssr.foreign.series import ForeignSeries, ImportHints

TOLD = (
    Option(("--start",), {"metavar": "TIME", "help": "for a file without times: when the first sample was taken, a date and"
                          " time or unix seconds (default: so that the last sample is as old as the file)"}),
    Option(("--interval",), {"metavar": "S", "help": "for a file without times: seconds between samples (default: 1)"}),
    Option(("--timezone",), {"metavar": "ZONE", "help": "time zone of times that name none: Europe/Zurich, UTC or +02:00"
                             " (default: this machine's)"}),
    Option(("--host",), {"metavar": "NAME", "help": "for a file that names no node: the node (default, of several files: the"
                         " file's name)"}),
    Option(("--metric",), {"metavar": "NAME", "help": "for values without a name: their metric"}),
    Option(("--columns",), {"metavar": "LIST", "help": "for a table without a header: its columns, as for nvidia-smi"
                            " --query-gpu"}),
)  # fmt: skip
"""What a user can say of files that don't say it themselves."""
OPTIONS = (
    Option(
        ("files",), {"metavar": "FILE|DIR", "nargs": "*", "help": "metric files or folders of them; or one .nsys-rep"}
    ),
    Option(
        ("-o", "--output"),
        {"metavar": "NAME.sql", "help": "write to this file (default: named like the first file, beside it)"},
    ),
    Option(("-f", "--force-overwrite"), {"action": "store_true", "help": "replace an existing file"}),
    *TOLD,
    Option(
        ("--prometheus",),
        {"metavar": "URL", "help": "ask this server for its metrics of GPUs; user and password in it are not recorded"},
    ),
    Option(
        ("--from",),
        {"dest": "begin", "metavar": "TIME", "help": "of a server: begin at a date, or -2h before now (default: -1h)"},
    ),
    Option(("--to",), {"dest": "end", "metavar": "TIME", "help": "of a server: end here (default: now)"}),
    Option(
        ("--token-file",),
        {"metavar": "FILE", "help": "of a server: a file with its access token (default: $GSSR_PROMETHEUS_TOKEN)"},
    ),
    Option(("--proxy",), {"action": "store_true", "help": "of a server: ask it through http_proxy or https_proxy"}),
)
_ASKED_SECONDS = 3600.0
"""Of a server, where nobody says how much."""


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0 when the file is there; 1 when something could not be read, or the file not written; 2 for wrong usage."""
    from gssr.recognise import FOREIGN, recognise

    if not (options.files or options.prometheus):
        return fail("name the files to be imported: gssr import FILE|DIR... -o NAME.sql", USAGE)
    try:
        told = told_by(options)
    except ValueError as error:
        return fail(str(error), USAGE)
    if options.prometheus is not None:
        return _asked(options, told)
    of_a_server = {
        "--from": options.begin,
        "--to": options.end,
        "--token-file": options.token_file,
        "--proxy": options.proxy,
    }
    for flag, value in of_a_server.items():
        if value not in (None, False):
            return fail(f"{flag}: goes with --prometheus", USAGE)
    kinds = [recognise(path) for path in options.files]
    first = options.files[0]
    if any(found.kind in FOREIGN for found in kinds) or len(kinds) > 1 or os.path.isdir(first) or told.columns:
        stem = os.path.splitext(first.rstrip("/").removesuffix(".gz"))[0]
        return _imported(options.files, options.output or f"{stem}.sql", options.force_overwrite, told)
    found = kinds[0]
    if found.kind != "nsys-rep" and not first.endswith(".nsys-rep") and not found.problem.startswith("is an SQLite"):
        return fail(f"{first}: {found.problem or f'needs no import ({found.kind}): gssr analyze reads it'}", BAD_INPUT)
    from gssr.commands.nsys_export import export

    return export(first, options.output or os.path.splitext(first)[0] + ".sqlite", options.force_overwrite)


def told_by(options: argparse.Namespace) -> "ImportHints":
    """Read what the options of TOLD say of files that don't say it themselves. Raises ValueError with a sentence."""
    from gssr.foreign.names import of_dcgm
    from gssr.foreign.series import ImportHints
    from gssr.metrics import NAMES

    zone = None if options.timezone is None else _zone(options.timezone)
    if options.metric is not None and options.metric not in NAMES and of_dcgm(options.metric) is None:
        raise ValueError(f"--metric: {options.metric!r} is no field of DCGM, and none of {', '.join(NAMES)}")
    columns = None if options.columns is None else tuple(word.strip() for word in options.columns.split(","))
    if columns is not None and not all(columns):
        raise ValueError(f"--columns: {options.columns!r} names nothing between two commas")
    return ImportHints(
        None if options.start is None else _start(options.start, zone),
        None if options.interval is None else _interval(options.interval),
        zone,
        options.host,
        options.metric,
        columns,
    )


def _start(text: str, zone: tzinfo | None) -> float:
    """Parse --start into unix s: a number, or a date and time, of ``zone`` if it names none (None: this machine's).
    Raises ValueError."""
    try:
        try:
            found = float(text)
        except ValueError:
            date = datetime.fromisoformat(text.strip())
            found = (date.replace(tzinfo=zone) if date.tzinfo is None and zone is not None else date).timestamp()
    except (ValueError, OverflowError, OSError):
        found = -1.0
    if not 0 <= found < 1e11:
        raise ValueError(f"--start: {text!r} is neither a date and time such as 2026-05-01T12:00:00 nor unix seconds")
    return found


def _interval(text: str) -> float:
    """Parse --interval into s. Raises ValueError."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.001 <= found <= 86_400:
        raise ValueError(f"--interval: {text!r} is no number of seconds from 0.001 to 86400")
    return found


def _zone(text: str) -> tzinfo:
    """Parse --timezone, a name or an offset such as +02:00. Raises ValueError."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if text[:1] in "+-":
            zone = datetime.strptime(text, "%z").tzinfo
            return zone or UTC
        return ZoneInfo(text)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError(f"--timezone: {text!r} is no zone: a name such as Europe/Zurich, UTC or +02:00") from None


def _asked(options: argparse.Namespace, told: "ImportHints") -> int:
    """Import what a Prometheus server holds; return the exit code. Nothing else here connects to another machine."""
    import time

    from gssr.foreign.prometheus_server import read_server, token_of
    from gssr.model.window import parse_time

    if options.files:
        return fail(f"{options.files[0]}: name files, or a server with --prometheus", USAGE)
    if options.output is None:
        return fail("--prometheus: name the recording with -o NAME.sql", USAGE)
    now = time.time()
    try:
        end = now if options.end is None else parse_time(options.end, now, now)
        begin = end - _ASKED_SECONDS if options.begin is None else parse_time(options.begin, now, now)
    except ValueError as error:
        return fail(f"--from, --to: {error}", USAGE)

    def ask() -> "list[ForeignSeries]":
        series = read_server(options.prometheus, begin, end, told, token_of(options.token_file), options.proxy)
        series.file, series.stem = series.label or "Prometheus", "prometheus"
        return [series]

    return _written(ask, options.output, options.force_overwrite, told)


def _imported(paths: list[str], output: str, replaces: bool, told: "ImportHints") -> int:
    """Import metric files into a recording; return the exit code. ``replaces``: a file at ``output`` may be replaced."""
    from gssr.commands.progress_bar import ProgressBar
    from gssr.foreign.open import files_in, open_files

    if any(os.path.exists(output) and os.path.samefile(path, output) for path in paths if os.path.exists(path)):
        return fail(f"-o {output}: is also an input", USAGE)
    bar, done = ProgressBar("importing"), 0

    def read_files() -> "list[ForeignSeries]":
        """Read the series of all files, and draw how far that is. Raises RecordingError."""
        files = files_in(paths, told)
        size = sum(os.path.getsize(path) for those in files.values() for path in those) or 1

        def took(n: int) -> None:
            nonlocal done
            done += n
            bar.show(min(done / size, 1.0))

        return open_files(files, told, took)

    return _written(read_files, output, replaces, told, bar.clear)


def _written(
    read: "Callable[[], list[ForeignSeries]]",
    output: str,
    replaces: bool,
    told: "ImportHints",
    clear: "Callable[[], None]" = lambda: None,
) -> int:
    """Write the recording aside and give it its name when it is whole; return the exit code.

    Args:
        read: reads the series; raises RecordingError.
        output: the recording's path.
        replaces: a file that is there may be replaced.
        told: what the user has said of the files.
        clear: is called before anything is said.
    """
    from gssr.commands.nsys_export import ended_like_interrupted
    from gssr.foreign.write import write
    from gssr.render.cells import clean
    from gssr.store.read.open import RecordingError
    from gssr.store.read.private_copy import PRIVATE, private_folder
    from gssr.store.write.create import put_in_place

    if os.path.isdir(output):
        return fail(f"-o {output}: is a folder", USAGE)
    if os.path.lexists(output) and not replaces:
        return fail(f"{output}: already exists: -f replaces it, or choose another name with -o", BAD_INPUT)
    with ended_like_interrupted():
        try:
            with private_folder("import", os.path.dirname(os.path.abspath(output))) as folder:
                made = os.path.join(folder, PRIVATE)
                written = write(made, read(), told)
                put_in_place(made, output, replaces)
        except RecordingError as error:
            clear()
            return fail(str(error), BAD_INPUT)
        except OSError as error:
            clear()
            return fail(f"{output}: can't be written: {error.strerror}", BAD_INPUT)
        finally:
            clear()
    code = OK
    for problem in written.problems:
        code = fail(problem, BAD_INPUT)
    runs = "1 run" if written.n_runs == 1 else f"{written.n_runs:,} runs"
    return put(f"{clean(output)}: {runs} of {written.n_rows:,} samples written; gssr analyze reads it\n") or code


COMMAND = Command(
    "import",
    "convert metrics of DCGM, Prometheus, nvidia-smi and other tools into a recording",
    "gssr import [options] FILE|DIR... [-o NAME.sql]",
    OPTIONS,
    handle,
)
