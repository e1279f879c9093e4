"""``gssr merge``: put the files of a run's ranks together into one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, put, tell
from gssr.commands.attached import DIGEST, write_digests
from gssr.commands.progress_bar import ProgressBar
from gssr.commands.with_workers import WORKERS, with_workers

if TYPE_CHECKING:
    from gssr.workers import Workers

OPTIONS = (
    Option(("file",), {"metavar": "FILE.sql", "help": "the recording: NAME.sql, or the folder NAME.sql.d"}),
    Option(
        ("--attach",),
        {
            "metavar": "TRACE",
            "nargs": "+",
            "action": "extend",
            "help": "attach these traces of the run, files or folders: they go into NAME.traces",
        },
    ),
    DIGEST,
    *WORKERS,
    Option(("--run",), {"metavar": "RUN", "help": "the run that --attach attaches to: its number, id or label"}),
)

_PATIENCE = 10.0  # s, for another merge of the same recording


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code: 1 when something can't be merged, repaired or attached, which stays as it is."""
    return with_workers(options, _handle)


def _handle(options: argparse.Namespace, workers: Workers) -> int:
    """Carry out ``gssr merge``; return the exit code. ``workers``: who reads the traces that are digested."""
    import os

    from gssr.store.merge import names_of

    path, folder = names_of(options.file)
    if (options.dask is not None or options.mpi) and not options.digest:
        return fail("--dask and --mpi: say who digests traces: give them with --digest", USAGE)
    if options.run is not None and not options.attach:
        return fail("--run: says to which run --attach attaches: give it with --attach TRACE", USAGE)
    if not os.path.isdir(folder):
        if os.path.isdir(path):
            return fail(f"{path}: is a folder: name a recording in it, NAME.sql", BAD_INPUT)
        if not os.path.lexists(path):
            from gssr.recognise import meant
            from gssr.spelling import did_you_mean

            near = did_you_mean(meant(path))
            return fail(f"{path}: no such recording: neither this file is there nor {folder}{near}", BAD_INPUT)
        return _attach(path, options, workers) if options.attach or options.digest else _repair(path)
    code = _merge(options.file)
    wanted = (options.attach or options.digest) and os.path.isfile(path)
    return max(code, _attach(path, options, workers)) if wanted else code


def _merge(file: str) -> int:
    """Merge the files of a recording's ranks and say what came of it; return the exit code."""
    from gssr.render.cells import clean
    from gssr.store.merge import merge
    from gssr.store.read.open import RecordingError

    bar = ProgressBar("merging")
    try:
        outcome = merge(file, patience=_PATIENCE, progress=bar.show)
    except RecordingError as error:
        bar.clear()
        return fail(str(error), BAD_INPUT)
    bar.clear()
    for sentence in outcome.replaced:
        tell(sentence)
    left = [*outcome.left, *outcome.waiting.values()]
    for sentence in left:
        fail(sentence, BAD_INPUT)
    path = clean(outcome.path)
    if not outcome.n_files:
        return BAD_INPUT if left else put(f"{path}: there was nothing to merge\n")
    files = "1 file" if outcome.n_files == 1 else f"{outcome.n_files:,} files"
    return put(f"{path}: {files} merged\n") or (BAD_INPUT if left else OK)


def _attach(path: str, options: argparse.Namespace, workers: Workers) -> int:
    """Attach traces to a recording in one file and digest them, as the options say; return the exit code."""
    code = _put_beside(path, options) if options.attach else OK
    return max(code, _digest(path, workers)) if options.digest else code


def _digest(path: str, workers: Workers) -> int:
    """Digest the traces attached to a recording; return the exit code, BAD_INPUT if some can't be."""
    from gssr.render.cells import clean
    from gssr.store.read.open import RecordingError

    bar = ProgressBar("digesting traces")
    try:
        n, refused = write_digests(path, bar.show, workers=workers)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)
    finally:
        bar.clear()
    for sentence in refused:
        fail(sentence, BAD_INPUT)
    return put(f"{clean(path)}: {n:,} trace{'s' * (n != 1)} digested\n") or (BAD_INPUT if refused else OK)


def _put_beside(path: str, options: argparse.Namespace) -> int:
    """Attach the traces that --attach names; return the exit code, BAD_INPUT if some can't be."""
    from gssr.commands.inputs import chosen_runs
    from gssr.render.cells import clean
    from gssr.store.read.open import RecordingError
    from gssr.store.read.recording import open_recording
    from gssr.traces.attach import attach, to_attach

    try:
        recording = open_recording(path)
        try:
            rows, refused, doubts = to_attach(path, options.attach, chosen_runs(recording, options.run))
        finally:
            recording.close()
        if rows:
            attach(path, rows)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)
    except ValueError as error:
        return fail(f"{path}: {error}", BAD_INPUT)
    for sentence in (*refused, *doubts):
        fail(sentence, BAD_INPUT)
    n = len(rows)
    return put(f"{clean(path)}: {n:,} trace{'s' * (n != 1)} attached\n") or (BAD_INPUT if refused else OK)


def _repair(path: str) -> int:
    """Rebuild the rollups of a recording in one file that are missing or damaged; return the exit code."""
    import os

    from gssr.render.cells import clean
    from gssr.store.disk import companion_path
    from gssr.store.merge.repair import repair
    from gssr.store.read.open import RecordingError

    log = companion_path(path, "-wal")
    was_beside = os.path.exists(log)
    try:
        n_repaired, n_thinned, tables = repair(path)
    except RecordingError as error:
        return fail(str(error), BAD_INPUT)
    name = clean(path)
    if n_thinned:
        return fail(
            f"{path}: can't be repaired: the sums over {n_thinned:,} x 10 minutes of a GPU are damaged, and not all samples "
            "from which they could be made anew were kept",
            BAD_INPUT,
        )
    wrong = [f"the sums over {n_repaired:,} x 10 minutes of a GPU were missing or damaged"] if n_repaired else []
    wrong += [f"the sums of {table} did not count all of it" for table in tables]
    if was_beside:
        beside = clean(os.path.basename(log))
        if os.path.exists(log):
            tell(f"{path}: a reader has it open, so {beside} stays beside it: try again once the reader has left")
        elif not wrong:
            return put(f"{name}: what was in {beside} is in the file now\n")
    if not wrong:
        return put(f"{name}: is one file, and nothing in it is damaged: there was nothing to do\n")
    return put(f"{name}: {', and '.join(wrong)}: made anew\n")


COMMAND = Command(
    "merge",
    "join the ranks' files that a killed job left into one recording; repair a recording",
    "gssr merge FILE.sql [--attach TRACE...] [--digest]",
    OPTIONS,
    handle,
)
