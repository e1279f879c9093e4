"""The small tables of a recording as rows: runs, processes, GPUs, events. Columns and units:
gssr.store.format.schema.TABLES."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gssr.store.format.columns import columns_of
from gssr.store.format.limits import MOST_EVENTS, sound_rows
from gssr.store.format.rows import _STATE_ORDER, AttachedTrace, Event, Gpu, Merged, Process, RunRow, Thinned
from gssr.store.format.schema import RECORDING_STOPPED, TABLES

LOST_SECONDS, LOST_INTERVALS = 15.0, 10
"""A recorder that can't be looked at from here is lost after max(15 s, 10 sampling intervals) of silence."""

Clock = Callable[[], float]

LOOK_COLUMNS = tuple(column.name for column in TABLES["gpu_processes"])

_AT_ONCE = 4096
_NEWEST_EVENTS = 16
"""The supervisor adds at most 8 to a recording that has stopped (gssr.profile.recorder)."""
_DAMAGED = "\ufffd"  # in a text that was none


def _select(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rest: str, *parameters: str
) -> Iterator[tuple[Any, ...]]:
    """Read rows of a table, as far as they are sound (gssr.store.format.limits). Columns that the file lacks are None.
    A value that a row has in common with the row before is there once in memory: of a hundred thousand GPUs that is
    most."""
    present = columns_of(connection, table)
    wanted = ", ".join(name if name in present else f"NULL AS {name}" for name in columns)
    cursor = connection.execute(f"SELECT {wanted} FROM {table} {rest}", parameters)
    before: tuple[Any, ...] = (None,) * len(columns)
    while batch := cursor.fetchmany(_AT_ONCE):
        for row in sound_rows(table, columns, batch):
            pairs = zip(before, row)
            before = tuple(old if old == new and type(old) is type(new) else new for old, new in pairs)
            yield before


def _of_run(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], run_id: str, order: str
) -> Iterator[tuple[Any, ...]]:
    """Read rows of one run, sorted as an SQL ORDER BY of ``order`` sorts them, as far as they are sound. Columns that
    the file lacks are None."""
    if _DAMAGED in run_id:  # SQLite knows it by other bytes
        rows = _select(connection, table, (*columns, "run_id"), f"ORDER BY {order}")
        return (row[:-1] for row in rows if row[-1] == run_id)
    # +: not by an index, which may be damaged
    return _select(connection, table, columns, f"WHERE +run_id = ? ORDER BY {order}", run_id)


def _parse_command(text: str | None) -> tuple[str, ...]:
    """Read the words of a run's command, a JSON list. Empty for None and for "". A text that is no JSON, or JSON of
    something else, becomes one word."""
    try:
        words = json.loads(text) if text else []
    except (ValueError, RecursionError):  # of a thousand brackets
        return (str(text),)
    return tuple(str(word) for word in words) if isinstance(words, list) else (str(words),)


def read_runs(connection: sqlite3.Connection) -> list[RunRow]:
    """Read every run of a file, in the order in which they were added. A state that we don't know becomes ``running``."""
    rows = [RunRow(*row) for row in _select(connection, "runs", RunRow._fields, "ORDER BY rowid")]
    return [
        run._replace(
            command=_parse_command(run.command),  # type: ignore[arg-type]
            state=run.state if run.state in _STATE_ORDER else "running",
        )
        for run in rows
    ]


def read_processes(connection: sqlite3.Connection, run_id: str | None) -> list[Process]:
    """Read the processes of a run (None: of all runs), by rank. States are as they were written: a lost process is
    still ``running``."""
    if run_id is None:
        return [Process(*row) for row in _select(connection, "processes", Process._fields, "ORDER BY rank")]
    return [Process(*row) for row in _of_run(connection, "processes", Process._fields, run_id, "rank")]


def read_gpus(connection: sqlite3.Connection, run_id: str | None) -> list[Gpu]:
    """Read the GPUs of a run (None: of all runs), by key."""
    if run_id is None:
        return [Gpu(*row) for row in _select(connection, "gpus", Gpu._fields, "ORDER BY gpu")]
    return [Gpu(*row) for row in _of_run(connection, "gpus", Gpu._fields, run_id, "gpu")]


def read_events(connection: sqlite3.Connection, run_id: str) -> list[Event]:
    """Read the events of a run, by time: the first MOST_EVENTS + 1 at most, so that the caller sees that there are
    more."""
    order = f"time, rowid LIMIT {MOST_EVENTS + 1}"
    rows = [Event(*row) for row in _of_run(connection, "events", Event._fields, run_id, order)]
    return [event if event.message is not None else event._replace(message="") for event in rows]


def read_merged(connection: sqlite3.Connection) -> list[Merged]:
    """Read which ranks' files were merged into this one, in the order in which they were; empty in a file of an earlier
    version."""
    if not columns_of(connection, "merged"):
        return []
    return [Merged(*row) for row in _select(connection, "merged", Merged._fields, "ORDER BY rowid")]


def read_traces(connection: sqlite3.Connection, run_id: str | None) -> list[AttachedTrace]:
    """Read the traces attached to a run (None: to all runs), in the order in which they were attached; empty in a file
    of an earlier version."""
    if not columns_of(connection, "traces"):
        return []
    if run_id is None:
        return [AttachedTrace(*row) for row in _select(connection, "traces", AttachedTrace._fields, "ORDER BY rowid")]
    return [AttachedTrace(*row) for row in _of_run(connection, "traces", AttachedTrace._fields, run_id, "rowid")]


def process_rows(rows: Sequence[tuple[Any, ...]], positions: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Keep the sound rows of ``gpu_processes`` (in the columns LOOK_COLUMNS), with the GPU's position in place of its
    key. Rows of GPUs that are not in ``positions`` are left out."""
    sound = sound_rows("gpu_processes", LOOK_COLUMNS, rows)
    return [(positions[row[0]], *row[1:]) for row in sound if row[0] in positions]


def state_in(connection: sqlite3.Connection, run: RunRow, path: str, clock: Clock = time.time) -> str:
    """Find the state of a run in an open file, as ``state_of`` does, and look into the file for what tells sooner that
    it is lost.

    Ranks are merged when none of them is recorded any more: if a merged run says ``running``, it is lost, however
    lately the file was written.
    """
    if run.state != "running":
        return run.state
    if was_left(connection, run.run_id, read_merged(connection)):
        return "lost"
    return state_of(run, read_processes(connection, run.run_id), path, clock)


def was_left(connection: sqlite3.Connection, run_id: str, merged: Iterable[Merged]) -> bool:
    """Tell whether an open file itself says that nobody records a run any more that it calls ``running``. ``merged``:
    what ``read_merged`` returns of the file. Raises sqlite3.Error."""
    return any(row.run_id == run_id for row in merged) or _sampler_is_gone(connection, run_id)


def _sampler_is_gone(connection: sqlite3.Connection, run_id: str) -> bool:
    """Tell whether the supervisor has noted, as one of the newest events, that nobody records any more. This is known
    before the file has been silent for long. What is said of a GPU is not the supervisor's: a host that is only watched
    may have sent it."""
    newest = f"SELECT run_id, gpu, kind, message FROM events ORDER BY rowid DESC LIMIT {_NEWEST_EVENTS}"
    rows = connection.execute(f"SELECT kind, message FROM ({newest}) WHERE run_id = ? AND gpu IS NULL", (run_id,))
    return any(kind == "backend_lost" and str(message).startswith(RECORDING_STOPPED) for kind, message in rows)


def state_of(run: RunRow, processes: Iterable[Process], path: str, clock: Clock = time.time) -> str:
    """Find the state of a run by one file: its stored state, or ``lost`` when that is ``running`` and whoever recorded
    it is gone. On this node that is seen by the process; elsewhere by how long the file was silent.

    ``clock`` tells the unix time, s: whoever may write asks the filesystem's (gssr.store.liveness.time_in), because
    that of this host may be wrong.
    """
    if run.state != "running":
        return run.state
    from gssr.store.liveness import boot_id, process_start, silent_seconds

    here, boot = os.uname().nodename, boot_id()
    running = [process for process in processes if process.state == "running"]
    for process in running:
        if process.hostname == here and process.boot_id == boot and process.pid is not None:
            if process_start(process.pid) != process.pid_start:
                return "lost"
            return "running"
    patience = max(LOST_SECONDS, LOST_INTERVALS * (run.sampling_ms or 0.0) / 1000)
    return "lost" if silent_seconds(path, clock()) > patience else "running"


def is_recorded_into(connection: sqlite3.Connection, path: str, clock: Clock = time.time) -> bool:
    """Tell whether somebody is recording into this file now."""
    return any(state_in(connection, run, path, clock) == "running" for run in read_runs(connection))


def read_thinned(connection: sqlite3.Connection) -> list[Thinned]:
    """Read what was thinned, one row per rank; empty in a file of an earlier version. Raises sqlite3.Error, also when a
    value is impossible."""
    if not columns_of(connection, "thinned"):
        return []
    rows = [Thinned(*row) for row in connection.execute(f"SELECT {', '.join(Thinned._fields)} FROM main.thinned")]
    if not all(map(_is_sound, rows)):
        raise sqlite3.DatabaseError("thinned holds values that can't be")
    return rows


def _is_sound(row: Thinned) -> bool:
    """Tell whether a row can be true: it has a finite time and two rowids from 1 on, or none of the three because
    nothing was thinned yet."""
    if row.end_time is None:
        return (row.first_rowid, row.last_rowid) == (None, None)
    rowids = (row.first_rowid, row.last_rowid)
    numbers = all(isinstance(rowid, int) and 0 < rowid < 1 << 62 for rowid in rowids)
    return numbers and isinstance(row.end_time, float) and math.isfinite(row.end_time)


def ends_of(connection: sqlite3.Connection) -> tuple[int | None, int | None]:
    """Find the first and last rowid that samples of the file have, or had before they were thinned; each None without
    any. Raises sqlite3.Error."""
    ends = connection.execute(
        "SELECT (SELECT min(rowid) FROM main.samples), (SELECT max(rowid) FROM main.samples)"
    ).fetchone()
    thinned = read_thinned(connection)
    firsts = [rowid for rowid in (ends[0], *(row.first_rowid for row in thinned)) if rowid is not None]
    lasts = [rowid for rowid in (ends[1], *(row.last_rowid for row in thinned)) if rowid is not None]
    return min(firsts, default=None), max(lasts, default=None)
