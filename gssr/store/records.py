"""The small tables of a recording as rows: runs, processes, GPUs, events. Columns and units: gssr.store.schema.TABLES."""

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gssr.store.bounds import MOST_EVENTS, MOST_RANKS
from gssr.store.columns import columns_of
from gssr.store.liveness import boot_id, process_start, silent_seconds
from gssr.store.values import sound_rows

LOST_SECONDS, LOST_INTERVALS = 15.0, 10
"""A recorder that can't be looked at from here is lost after max(15 s, 10 sampling intervals) of silence."""

Clock = Callable[[], float]

_AT_ONCE = 4096
_LONGEST = 60
"""So long are lists of ranks at most, in characters."""
_DAMAGED = "\ufffd"  # in a text that was none
_STATE_ORDER = ("running", "lost", "timeout", "killed", "failed", "completed")


class Run(NamedTuple):
    """One row of ``runs``; None where NULL. ``command`` is the list of arguments."""

    run_id: str
    label: str | None
    command: tuple[str, ...]
    job_id: str | None
    step_id: str | None
    launcher: str | None
    cluster: str | None
    user: str | None
    started_at: float | None
    ended_at: float | None
    sampling_ms: float | None
    exit_code: int | None
    state: str
    world_size: int | None
    n_nodes: int | None
    gssr_version: str | None


class Process(NamedTuple):
    """One row of ``processes``."""

    run_id: str
    rank: int
    local_rank: int | None
    node: str | None
    hostname: str | None
    pid: int | None
    pid_start: int | None
    boot_id: str | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    state: str | None
    clock_offset: float | None
    clock_error: float | None


class Gpu(NamedTuple):
    """One row of ``gpus``."""

    gpu: int
    run_id: str
    node: str | None
    rank: int | None
    device_index: int | None
    uuid: str | None
    name: str | None
    memory_total: int | None
    power_limit: float | None
    sm_count: int | None
    max_sm_clock: int | None
    compute_capability: str | None
    driver_version: str | None
    backend: str | None
    mig: str | None


class Event(NamedTuple):
    """One row of ``events``."""

    time: float
    node: str | None
    gpu: int | None
    rank: int | None
    kind: str
    message: str


class Merged(NamedTuple):
    """One row of ``merged``: a rank's file that is part of this one."""

    shard: str
    run_id: str
    first_rowid: int | None
    last_rowid: int | None


def gpu_order(gpu: Gpu) -> tuple[str, int, str]:
    """Sorting key: node, device index, UUID."""
    return (gpu.node or "", -1 if gpu.device_index is None else gpu.device_index, gpu.uuid or "")


def _select(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rest: str, *parameters: str
) -> Iterator[tuple[Any, ...]]:
    """Rows of a table, as far as they are sound (gssr.store.values); columns that the file lacks are None. What a row has in
    common with the one before is there once: of a hundred thousand GPUs that is most."""
    present = columns_of(connection, table)
    wanted = ", ".join(name if name in present else f"NULL AS {name}" for name in columns)
    cursor = connection.execute(f"SELECT {wanted} FROM {table} {rest}", parameters)
    before: tuple[Any, ...] = (None,) * len(columns)
    while batch := cursor.fetchmany(_AT_ONCE):
        for row in sound_rows(table, columns, batch):
            pairs = zip(before, row, strict=True)
            before = tuple(old if old == new and type(old) is type(new) else new for old, new in pairs)
            yield before


def _of_run(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], run_id: str, order: str
) -> Iterator[tuple[Any, ...]]:
    """The same of one run."""
    if _DAMAGED in run_id:  # SQLite knows it by other bytes
        rows = _select(connection, table, (*columns, "run_id"), f"ORDER BY {order}")
        return (row[:-1] for row in rows if row[-1] == run_id)
    # +: not by an index, which may be damaged
    return _select(connection, table, columns, f"WHERE +run_id = ? ORDER BY {order}", run_id)


def _command(text: str | None) -> tuple[str, ...]:
    try:
        words = json.loads(text) if text else []
    except (ValueError, RecursionError):  # of a thousand brackets
        return (str(text),)
    return tuple(str(word) for word in words) if isinstance(words, list) else (str(words),)


def read_runs(connection: sqlite3.Connection) -> list[Run]:
    """Every run, in the order it was added."""
    rows = [Run(*row) for row in _select(connection, "runs", Run._fields, "ORDER BY rowid")]
    return [
        run._replace(
            command=_command(run.command),  # type: ignore[arg-type]
            state=run.state if run.state in _STATE_ORDER else "running",
        )
        for run in rows
    ]


def read_processes(connection: sqlite3.Connection, run_id: str) -> list[Process]:
    """The processes of a run, by rank."""
    return [Process(*row) for row in _of_run(connection, "processes", Process._fields, run_id, "rank")]


def read_gpus(connection: sqlite3.Connection, run_id: str | None) -> list[Gpu]:
    """The GPUs of a run (None: of all runs), by key."""
    if run_id is None:
        return [Gpu(*row) for row in _select(connection, "gpus", Gpu._fields, "ORDER BY gpu")]
    return [Gpu(*row) for row in _of_run(connection, "gpus", Gpu._fields, run_id, "gpu")]


def read_events(connection: sqlite3.Connection, run_id: str) -> list[Event]:
    """The events of a run, by time: no more than MOST_EVENTS + 1 of them."""
    order = f"time, rowid LIMIT {MOST_EVENTS + 1}"
    rows = [Event(*row) for row in _of_run(connection, "events", Event._fields, run_id, order)]
    return [event if event.message is not None else event._replace(message="") for event in rows]


def read_merged(connection: sqlite3.Connection) -> list[Merged]:
    """The ranks' files that were merged into this one, in that order; none in a file of an earlier version."""
    if not columns_of(connection, "merged"):
        return []
    return [Merged(*row) for row in _select(connection, "merged", Merged._fields, "ORDER BY rowid")]


def state_in(connection: sqlite3.Connection, run: Run, path: str, clock: Clock = time.time) -> str:
    """``state_of`` a run in an open file. Ranks are merged when none of them is recorded any more: what says ``running``
    then is lost, however lately the merged file was written."""
    if run.state == "running" and any(row.run_id == run.run_id for row in read_merged(connection)):
        return "lost"
    return state_of(run, read_processes(connection, run.run_id), path, clock)


def state_of(run: Run, processes: Iterable[Process], path: str, clock: Clock = time.time) -> str:
    """How one file says the run stands: its stored state, or ``lost`` when that is ``running`` and whoever recorded it is
    gone: its process on this node, or silent for too long elsewhere. ``clock`` tells the unix time, s: whoever may write
    asks the filesystem's (gssr.store.liveness.time_in), because that of this host may be wrong."""
    if run.state != "running":
        return run.state
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
    """Whether somebody is recording into this file now."""
    return any(state_in(connection, run, path, clock) == "running" for run in read_runs(connection))


def joined(runs: Sequence[Run]) -> Run:
    """One run from the rows its ranks wrote into their own files: first start, last end, highest exit code, worst state
    (``state`` of each must have been derived before)."""
    first = runs[0]
    starts = [run.started_at for run in runs if run.started_at is not None]
    ends = [run.ended_at for run in runs]
    codes = [run.exit_code for run in runs if run.exit_code is not None]
    return first._replace(
        started_at=min(starts, default=None),
        ended_at=None if None in ends else max(end for end in ends if end is not None),
        exit_code=max(codes, default=None),
        state=min((run.state for run in runs), key=_STATE_ORDER.index),
    )


def missing_ranks(world_size: int | None, ranks: Iterable[int]) -> tuple[int, ...] | None:
    """The ranks of a run that are not among those that are there, in order; None where nobody knows how many it has, or a
    number stands there that no run has."""
    if world_size is None or not 0 < world_size <= MOST_RANKS:
        return None
    return tuple(sorted(set(range(world_size)).difference(ranks)))


def without_ranks(missing: Sequence[int], world_size: int | None) -> str:
    """The same as the part of a sentence."""
    return f"{len(missing):,} of {world_size:,} ranks: {_some(ranges(missing))}"


def ranges(numbers: Iterable[int]) -> str:
    """0, 1, 2, 5 as ``0-2, 5``."""
    found = sorted(set(numbers))
    runs = [[number for _, number in group] for _, group in groupby(enumerate(found), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _some(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: text.rindex(",", 0, _LONGEST)] + " and more"


def shared_gpu(gpus: Sequence[Gpu]) -> Gpu:
    """One GPU from the rows of the ranks that list it: its rank is unknown when they are several. Its key is the first
    one's."""
    ranks = {gpu.rank for gpu in gpus}
    return gpus[0]._replace(rank=gpus[0].rank if len(ranks) == 1 else None)


class Thinned(NamedTuple):
    """One row of ``thinned``."""

    run_id: str
    rank: int
    keep: str
    end_time: float | None
    first_rowid: int | None
    last_rowid: int | None


def read_thinned(connection: sqlite3.Connection) -> list[Thinned]:
    """What was thinned, rank by rank; nothing in a file of an earlier version. Raises sqlite3.Error."""
    if not columns_of(connection, "thinned"):
        return []
    rows = [Thinned(*row) for row in connection.execute(f"SELECT {', '.join(Thinned._fields)} FROM main.thinned")]
    if not all(map(_is_sound, rows)):
        raise sqlite3.DatabaseError("thinned holds values that can't be")
    return rows


def _is_sound(row: Thinned) -> bool:
    if row.end_time is None:
        return (row.first_rowid, row.last_rowid) == (None, None)
    rowids = (row.first_rowid, row.last_rowid)
    numbers = all(isinstance(rowid, int) and 0 < rowid < 1 << 62 for rowid in rowids)
    return numbers and isinstance(row.end_time, float) and math.isfinite(row.end_time)


def ends_of(connection: sqlite3.Connection) -> tuple[int | None, int | None]:
    """First and last rowid that samples of the file have, or had before they were thinned; None without any. Raises
    sqlite3.Error."""
    ends = connection.execute(
        "SELECT (SELECT min(rowid) FROM main.samples), (SELECT max(rowid) FROM main.samples)"
    ).fetchone()
    thinned = read_thinned(connection)
    firsts = [rowid for rowid in (ends[0], *(row.first_rowid for row in thinned)) if rowid is not None]
    lasts = [rowid for rowid in (ends[1], *(row.last_rowid for row in thinned)) if rowid is not None]
    return min(firsts, default=None), max(lasts, default=None)
