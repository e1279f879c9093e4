"""A recording as a backend: its last run, played back at its own or another speed.

It can be profiled again, followed live and shown as if the job ran now. Rows come in the order in which they were
recorded, with the values that were recorded; only their times are mapped. Read in small steps and without numpy, so that a
replay costs the sampler no more than the real thing, however long the recording.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Container, Sequence
from typing import Any, NamedTuple, Optional

from gssr.backends.base import Backend, BackendChange, BackendError, Device, Row
from gssr.metrics import NAMES
from gssr.store.format.columns import metric_columns, selected
from gssr.store.format.layout import layout_of
from gssr.store.format.limits import GREATEST, LATEST, number_within
from gssr.store.format.rollup import unpack_vector
from gssr.store.format.rows import Gpu, RunRow, gpu_order
from gssr.store.read.gpu_spans import choose_disjoint, read_spans
from gssr.store.read.open import RecordingError, connect, files_of
from gssr.store.read.small_tables import read_gpus, read_runs, read_thinned

CHUNK_ROWS = 512

_Identity = tuple[Optional[str], Optional[str]]


def parse(spec: str) -> tuple[str, float]:
    """Read file and speed from ``replay:FILE[@SPEED]``; the speed is 1 where none is given. A file that exists and
    whose name ends like a speed wins over the speed.

    Raises BackendError when no file is named or the speed is not a number above 0.
    """
    _, _, path = spec.partition(":")
    if not path:
        raise BackendError("replay: name the recording, as in replay:FILE.sql or replay:FILE.sql@10")
    name, at, text = path.rpartition("@")
    if not at or os.path.lexists(path):
        return path, 1.0
    try:
        speed = float(text)
    except ValueError:
        return path, 1.0
    if not name or not 0 < speed < float("inf"):
        raise BackendError(f"{spec!r}: the speed must be a number above 0, as in replay:{name or 'FILE.sql'}@10")
    return name, speed


def check_spec(spec: str) -> None:
    """Raise BackendError when ``spec`` names nothing that can be played back. It is opened and closed for that."""
    open_replay(spec).close()


def open_replay(spec: str) -> Backend:
    """Open the backend that ``replay:FILE[@SPEED]`` names. Raises BackendError when that can't be played back."""
    path, speed = parse(spec)
    return ReplayBackend(path, speed)


class _ReplayedFile(NamedTuple):
    """One file of the recording: where in ``gpus`` its GPU keys are, the rowid before its first row, and the query for
    its next rows."""

    path: str
    connection: sqlite3.Connection
    positions: dict[int, int]
    before: int
    query: str
    measured: set[str]


class ReplayBackend:
    """A ``Backend`` that plays the last run of a recording (a file, a folder of shards, or both) at ``speed`` times its
    own."""

    name = "replay"

    def __init__(self, path: str, speed: float = 1.0) -> None:
        """Open it. Raises BackendError when it can't be read or holds no samples."""
        try:
            connections = [(name, connect(name)) for name in files_of(path)]
            self._files, self.gpus = _last_run(connections)
        except RecordingError as error:
            raise BackendError(f"replay: {error}") from None
        except sqlite3.Error as error:
            raise BackendError(f"replay: {path}: is damaged: {error}") from None
        self._speed = speed
        self._waiting: list[deque[tuple[Any, ...]]] = [deque() for _ in self._files]
        self._last_rowid = [file.before for file in self._files]
        self._ended = self._told = False
        self._start: float | None = None
        try:
            heads = [self._next(index) for index in range(len(self._files))]
        except BackendError:
            self.close()
            raise
        times = [head[2] for head in heads if head is not None]
        if not times:
            why = (
                "no samples were kept of its last run (--keep none)"
                if self._is_thinned()
                else "its last run holds no samples"
            )
            self.close()
            raise BackendError(f"replay: {path}: {why}")
        self._first_time: float = min(times)
        measured = set().union(*(file.measured for file in self._files))
        self.measures: Sequence[str] = tuple(name for name in NAMES if name in measured)

    def _is_thinned(self) -> bool:
        """Tell whether samples of any file were thinned; False where one is damaged."""
        try:
            return any(read_thinned(file.connection) for file in self._files)
        except sqlite3.DatabaseError:
            return False

    def sample(self, now: float) -> Sequence[Row]:
        """Return the rows that are due at ``now`` (unix s), with their times mapped to now. Those are due that were
        recorded up to ``speed`` times as long after the first row as ``now`` is after the first call. Empty when none
        is due. Raises BackendError when the file can't be read any further."""
        if self._start is None:
            self._start = now
        start, first, speed = self._start, self._first_time, self._speed
        rows: list[Row] = []
        ended = True
        for index, file in enumerate(self._files):
            while (row := self._next(index)) is not None:
                time = start + (row[2] - first) / speed
                if time > now:
                    ended = False
                    break
                self._waiting[index].popleft()
                rows.append((file.positions[row[1]], time, *row[3:]))
        self._ended = ended
        return rows

    def changes(self) -> Sequence[BackendChange]:
        """Tell the end once, when the last row was returned; empty before and after."""
        if not self._ended or self._told:
            return ()
        self._told = True
        return (BackendChange("backend_lost", None, "the replayed recording has ended"),)

    def close(self) -> Sequence[Row]:
        """Close the files. Returns no rows."""
        for file in self._files:
            file.connection.close()
        return ()

    def _next(self, index: int) -> tuple[Any, ...] | None:
        """Return the next row of a file, (rowid, key, time, values in catalogue order), and leave it where it is; None
        after the last. Raises BackendError when the file can't be read."""
        file, waiting = self._files[index], self._waiting[index]
        while not waiting:
            try:
                # A query at a time: an open one would keep a writer of the file from tidying up.
                chunk = file.connection.execute(file.query, (self._last_rowid[index], CHUNK_ROWS)).fetchall()
            except sqlite3.Error as error:
                raise BackendError(f"replay: {file.path}: can't be read any further: {error}") from None
            if not chunk:
                return None
            self._last_rowid[index] = chunk[-1][0]
            waiting.extend(_sound(row) for row in chunk if row[1] in file.positions and _has_time(row))
        return waiting[0]


def _last_run(connections: Sequence[tuple[str, sqlite3.Connection]]) -> tuple[list[_ReplayedFile], tuple[Device, ...]]:
    """Find the files that hold the run that began last, and its GPUs in the order of all pages. Closes the connections
    to all other files. Raises RecordingError when no file holds a run."""
    runs = [run for _, connection in connections for run in read_runs(connection)[-1:]]
    if not runs:
        raise RecordingError(f"{connections[0][0]}: holds no run")
    last = max(runs, key=lambda run: run.started_at or 0.0)
    owned: list[tuple[str, sqlite3.Connection, RunRow, list[Gpu]]] = []
    listed: dict[_Identity, list[tuple[sqlite3.Connection, Gpu]]] = {}
    for path, connection in connections:
        run = read_runs(connection)[-1:]
        mine = read_gpus(connection, last.run_id) if run and run[0].run_id == last.run_id else []
        for gpu in mine:
            listed.setdefault((gpu.node, gpu.uuid), []).append((connection, gpu))
        if mine:
            owned.append((path, connection, run[0], mine))
        else:
            connection.close()
    ordered = sorted((found[0][1] for found in listed.values()), key=gpu_order)
    counting = {
        identity: _pick_counting_files(found, (last.sampling_ms or 0.0) / 1000) for identity, found in listed.items()
    }
    files = []
    for path, connection, run_of_file, gpus in owned:
        positions = {
            gpu.gpu: index
            for index, first in enumerate(ordered)
            for where, gpu in counting[first.node, first.uuid]
            if where is connection
        }
        if positions:
            files.append(_prepare_file(path, connection, run_of_file, positions, {gpu.gpu for gpu in gpus}))
        else:
            connection.close()
    return files, tuple(_device(gpu) for gpu in ordered)


def _pick_counting_files(found: Sequence[tuple[sqlite3.Connection, Gpu]], sampling_seconds: float) -> list[Any]:
    """Pick, among the files that list one GPU, those whose rows of it count, so that no time counts twice: (connection,
    Gpu) pairs, in and out. A single file counts in any case. Empty if several files list the GPU and none has rows of
    it."""
    if len(found) == 1:
        return list(found)
    sampled = []
    for connection, gpu in found:
        (last,) = connection.execute("SELECT max(rowid) FROM samples").fetchone()

        def query(statement: str, values: Sequence[object], of: sqlite3.Connection = connection) -> list[Any]:
            return of.execute(statement, tuple(values)).fetchall()

        span = read_spans(query, [gpu.gpu], last or 0, counted=False).get(gpu.gpu)
        if span is not None:
            sampled.append((span, (connection, gpu)))
    return [sampled[index][1] for index in choose_disjoint([span for span, _ in sampled], sampling_seconds)]


def _has_time(row: tuple[Any, ...]) -> bool:
    return isinstance(row[2], (int, float)) and 0 <= row[2] <= LATEST


def _sound(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with None in the place of what is no number: the file may come from anybody."""
    return (*row[:3], *(value if value is None else number_within(value, GREATEST) for value in row[3:]))


def _device(gpu: Gpu) -> Device:
    known = gpu._asdict()
    return Device(**{name: known[name] for name in Device._fields})


def _prepare_file(
    path: str, connection: sqlite3.Connection, run: RunRow, positions: dict[int, int], keys_of_run: Container[int]
) -> _ReplayedFile:
    """Prepare one file of the run for replaying. Raises sqlite3.Error.

    Args:
        run: The run's row in this file. If it has ended, the metrics that the rollups have values of count as measured
            (all, if they have none); else every metric of the file does.
        positions: The index in the backend's ``gpus`` of each GPU key whose rows of this file count.
        keys_of_run: The keys of all the run's GPUs in this file; its rows begin with the first row of one of these.
    """
    columns = metric_columns(connection)
    wanted = ", ".join(selected(connection, "samples", NAMES))
    keys = ", ".join(map(str, positions))
    measured = set(columns) if run.ended_at is None else _measured(connection, columns, keys)
    query = f"SELECT rowid, gpu, time, {wanted} FROM samples WHERE rowid > ? ORDER BY rowid LIMIT ?"
    return _ReplayedFile(path, connection, positions, _before_first(connection, keys_of_run), query, measured)


def _before_first(connection: sqlite3.Connection, keys: Container[int]) -> int:
    """Find the rowid before the first row of these GPUs, by bisection: a file's runs follow one another, and theirs is
    its last."""
    ends = "SELECT (SELECT min(rowid) FROM samples), (SELECT max(rowid) FROM samples)"
    low, high = (rowid or 0 for rowid in connection.execute(ends).fetchone())
    while low < high:
        middle = (low + high) // 2
        query = "SELECT rowid, gpu FROM samples WHERE rowid >= ? ORDER BY rowid LIMIT 1"
        rowid, gpu = connection.execute(query, (middle,)).fetchone() or (high, None)
        low, high = (low, middle) if gpu in keys else (rowid + 1, high)
    return max(int(low), -(1 << 63) + 1) - 1


def _measured(connection: sqlite3.Connection, columns: Sequence[str], keys: str) -> set[str]:
    """Find the metrics with a value anywhere in a run that has ended, by its rollups; all columns where these count
    nothing. ``keys``: the GPU keys, separated by commas."""
    layout = layout_of(columns)
    counts = [0.0] * len(layout.blocks)
    for (data,) in connection.execute(f"SELECT data FROM rollup WHERE level = 600 AND gpu IN ({keys})"):
        vector = unpack_vector(data)
        for index, block in enumerate(layout.blocks):
            counts[index] += vector[block.start] if block.start < len(vector) else 0.0
    if not any(counts):
        return set(columns)
    return {block.metric.name for block, count in zip(layout.blocks, counts) if count}
