"""Attaching a trace to a recording: ``gssr merge --attach``.

The file is linked into the folder ``NAME.traces``, or copied where it lies on another filesystem: so recording and folder
can be moved together, the file may go where it was, and a trace of many gigabytes takes no room twice.
"""

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Mapping, Sequence
from filecmp import cmp

from gssr.recognise import TRACES, recognise, traces_in
from gssr.store.disk import PLANTED, is_planted, make_folder, traces_beside
from gssr.store.format.rows import AttachedTrace
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader
from gssr.store.write.create import finished_runs, reopen, seal
from gssr.store.write.pending import insertion
from gssr.traces.join import by_boot
from gssr.traces.open import open_traces
from gssr.traces.timeline import Clock, Timeline, TraceError, TraceSource, no_intervals

APART = 60.0
"""A trace that is so far from a run in time is of another one, s: clocks of nodes differ by less."""
_ARCHIVE, _PROFILE = "traces.otf2", ".cubex"
_NS = 1e-9


def to_attach(
    recording: str, files: Sequence[str], runs: Sequence[RunReader]
) -> tuple[list[AttachedTrace], list[str], list[str]]:
    """Link or copy trace files, and those in folders, into the folder beside a recording, each for the run with which
    it overlaps most.

    Args:
        recording: path of the recording, ``NAME.sql``.
        files: paths of traces, or of folders with traces.
        runs: the runs of the recording; at least one.

    Returns the rows to write with ``attach``, sentences on files that are no traces or of another run, and sentences on what
    is uncertain about traces in the rows. Raises RecordingError if the recording is still being written, or its folder of
    traces cannot be used.
    """
    finished_runs(recording)
    folder = traces_beside(recording)
    if is_planted(folder) or os.path.islink(folder):
        raise RecordingError(f"{folder}: can't be used: it is a link, or {PLANTED.removeprefix('is ')}")
    rows, refused, doubts = list[AttachedTrace](), list[str](), list[str]()
    for path in (inside for file in files for inside in _traces_in(file, refused)):
        try:
            rows.append(_attached(folder, path, runs, doubts))
        except TraceError as error:
            refused.append(str(error))
        except OSError as error:
            refused.append(f"{path}: can't be attached: {error.strerror or error}")
    return rows, refused, doubts


def attach(recording: str, rows: Sequence[AttachedTrace]) -> None:
    """Write these rows into the recording's table of traces, replacing rows of the same file and run. No connection of
    this process may have the recording open. Raises RecordingError if it cannot be written."""
    connection = reopen(recording)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for row in rows:
            connection.execute("DELETE FROM traces WHERE run_id = ? AND path = ?", (row.run_id, row.path))
            connection.execute(*insertion("traces", row._asdict()))
        connection.execute("COMMIT")
    except (sqlite3.Error, UnicodeEncodeError) as error:
        raise RecordingError(f"{recording}: can't be written: {error}") from None
    finally:
        seal(connection)


def _traces_in(path: str, refused: list[str]) -> list[str]:
    """List the traces at a path: the path itself if it is a file, else the trace files in that folder. Of a Score-P
    archive only its anchor file and its profiles are listed. If a folder has no traces, a sentence is appended to
    ``refused``, and [] returned."""
    if not os.path.isdir(path):
        return [path]
    names = sorted(os.listdir(path))
    if _ARCHIVE in names:
        return [os.path.join(path, name) for name in names if name == _ARCHIVE or name.endswith(_PROFILE)]
    traces = [file for file, _ in traces_in(path)]
    if not traces:
        refused.append(f"{path}: {recognise(path).no_trace}")
    return traces


def _attached(folder: str, path: str, runs: Sequence[RunReader], doubts: list[str]) -> AttachedTrace:
    """Put a trace into the folder beside the recording, and return its row. Doubts about it are appended to ``doubts``.
    Raises TraceError if it is no trace or of another run, and OSError if the file cannot be put there."""
    kind = recognise(path)
    if kind.kind not in TRACES:
        raise TraceError(f"{path}: {kind.no_trace}")
    try:
        of_runs = _on_clocks_of(path, next(open_traces([path]).timelines()), runs)
    except TraceError as problem:
        if kind.kind != "otf2":  # what reads these need not be installed where they are attached
            raise
        of_runs = dict.fromkeys(runs, Timeline((TraceSource(path, "otf2"),), Clock(), (), (), no_intervals()))
        doubts.append(str(problem))
    run = _run_of(path, of_runs)
    timeline = of_runs[run]
    if _unix_times(timeline) is None:
        doubts.append(f"{path}: tells no time: nobody knows whether it is of this run, nor when it was traced")
    processes, rank, host = run.processes, _rank(timeline), timeline.sources[0].host
    rank = processes[0].rank if rank is None and len(processes) == 1 else rank
    by_host = [process for process in processes if host and host in (process.node, process.hostname)]
    node = next((process.node for process in (*by_host, *processes) if by_host or process.rank == rank), None)
    name = _put(folder, path)
    status = os.stat(os.path.join(folder, name))
    clock, gpus = timeline.clock, _gpus(timeline)
    error = clock.error_ns * _NS if clock.unix_ns is not None else None
    return AttachedTrace(
        run.run.run_id,
        node,
        rank,
        name,
        kind.kind,
        status.st_size,
        status.st_mtime,
        clock.unix_ns,
        error,
        clock.origin,
        json.dumps(gpus) if gpus else None,
    )


def _on_clocks_of(path: str, timeline: Timeline, runs: Sequence[RunReader]) -> dict[RunReader, Timeline]:
    """Return for each run the trace with its times on that run's clock. Runs of other nodes are left out; raises TraceError
    if none is left."""
    found, why = dict[RunReader, Timeline](), ""
    for run in runs:
        try:
            found[run] = by_boot(timeline, run.processes)
        except ValueError as error:
            why = str(error)
    if not found:
        raise TraceError(f"{path}: {why}")
    return found


def _unix_times(timeline: Timeline) -> tuple[float, float] | None:
    """Return when a trace begins and ends, unix s; None if it does not say it."""
    zero, intervals = timeline.clock.unix_ns, timeline.intervals
    if zero is None or not len(intervals):
        return None
    first, last = int(intervals.start[0]), int((intervals.start + intervals.length).max())
    return (zero + first) * _NS, (zero + last) * _NS


def _rank(timeline: Timeline) -> int | None:
    """Return the rank that a trace is of; None if it tells none, or several."""
    own, ranks = timeline.sources[0].rank, {track.rank for track in timeline.tracks} - {None}
    return own if own is not None else ranks.pop() if len(ranks) == 1 else None


def _gpus(timeline: Timeline) -> list[str | int]:
    """List the UUIDs, or device numbers, of the GPUs in a trace, as far as they are known."""
    gpus = {track.uuid or track.device for track in timeline.tracks if track.kind == "gpu_stream"}
    return sorted((gpu for gpu in gpus if gpu is not None), key=str)


def _run_of(path: str, of_runs: Mapping[RunReader, Timeline]) -> RunReader:
    """Choose the run with which a trace overlaps most in time. Raises TraceError if it lies more than ``APART`` seconds
    from every run, or if it has no times and there are several runs."""
    times = {run: own for run, timeline in of_runs.items() if (own := _unix_times(timeline)) is not None}
    if not times:
        if len(of_runs) > 1:
            raise TraceError(f"{path}: tells no time, and the recording holds {len(of_runs)} runs: name one with --run")
        return next(iter(of_runs))
    common = {run: min(end, _span(run)[1]) - max(begin, _span(run)[0]) for run, (begin, end) in times.items()}
    nearest = max(common, key=lambda run: common[run])
    if common[nearest] < -APART:
        (begin, end), (first, last) = times[nearest], _span(nearest)
        when = f"{_clock(begin)} to {_clock(end)}, and the run is from {_clock(first)} to {_clock(last)}"
        why = ", if its node was not booted since" if of_runs[nearest].clock.origin == "boot" else ""
        raise TraceError(f"{path}: is of another run: it was traced from {when}{why}")
    return nearest


def _span(run: RunReader) -> tuple[float, float]:
    """Return when a run began and ended, unix s."""
    begin = run.run.started_at if run.run.started_at is not None else run.first_time
    end = run.run.ended_at if run.run.ended_at is not None else run.last_time
    return begin or 0.0, end or begin or 0.0


def _clock(when: float) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _put(folder: str, path: str) -> str:
    """Put a trace into the folder, together with the rest of its archive if it belongs to one. Returns its path
    relative to the folder, also if it was there already. Raises OSError, TraceError."""
    file = os.path.realpath(path)
    inside = os.path.relpath(file, os.path.realpath(folder))
    if not inside.startswith(os.pardir):
        return inside
    make_folder(folder)
    above, name = os.path.split(file)
    if name != _ARCHIVE and not os.path.lexists(os.path.join(above, _ARCHIVE)):
        return _linked(file, folder, name)
    # All of an archive, which is useless without its other files.
    archive = os.path.basename(above)
    for place, _, names in os.walk(above):
        below = os.path.normpath(os.path.join(folder, archive, os.path.relpath(place, above)))
        os.makedirs(below, 0o700, exist_ok=True)
        for each in names:
            if stat.S_ISREG(os.lstat(os.path.join(place, each)).st_mode):
                _linked(os.path.join(place, each), below, each, only=True)
    return os.path.join(archive, name)


def _linked(file: str, folder: str, name: str, only: bool = False) -> str:
    """Link a file into a folder, or copy it if it cannot be linked.

    Returns its name there: a number is added if the name is taken by another file, and if a file of equal content is
    already there, that file's name. With ``only`` no other name will do, and TraceError is raised if it is taken.
    Raises OSError.
    """
    size = os.stat(file).st_size
    for each in sorted(os.scandir(folder), key=lambda each: (each.name != name, each.name)):
        if only and each.name != name:
            break
        if not each.is_file(follow_symlinks=False) or each.stat().st_size != size:
            continue
        if os.path.samefile(each.path, file) or cmp(file, each.path, shallow=False):
            return each.name
    stem, ending = os.path.splitext(name)
    number = 1
    while os.path.lexists(place := os.path.join(folder, name)):
        if only:
            raise TraceError(f"{place}: already exists, of another archive: rename one of the two folders")
        number += 1
        name = f"{stem}-{number}{ending}"
    try:
        os.link(file, place)
    except OSError:  # on another filesystem, or of another user
        aside = f"{place}.part"
        shutil.copy2(file, aside)
        os.rename(aside, place)
    return name
