"""What a recording that grows tells of its nodes now, in plain Python: to read these few rows takes less time than to import
numpy, and ``gssr top --once`` is done without it."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from gssr.metrics import BY_NAME, NAMES
from gssr.store.format.columns import columns_of, selected
from gssr.store.format.limits import GREATEST, number_within, sound_rows
from gssr.store.format.rows import Gpu, GpuProcess, gpu_order
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.small_tables import LOOK_COLUMNS, process_rows, read_gpus, read_processes, read_runs

RECENT_SECONDS = 60.0
"""What is older is not now."""
HOST = (
    "cpu_utilization",
    "load1",
    "memory_used",
    "memory_total",
    "read_bytes",
    "write_bytes",
    "net_rx_bytes",
    "net_tx_bytes",
)
"""Columns of ``host_samples``."""


class GpuNow(NamedTuple):
    """A GPU: its newest row's ``time`` (unix s, None without one) and the newest value of each metric, None where there is
    none; ``n_rows`` there are of late. ``processes``: those on it, most memory first; None where that is not known."""

    gpu: Gpu
    time: float | None
    n_rows: int
    values: Mapping[str, float | None]
    processes: Sequence[GpuProcess] | None


class NodesNow(NamedTuple):
    """One node or many: the GPUs of all, and the mean over the run of each column of HOST of each node, by the node's
    name (None is unknown). ``time``: of the newest sample, unix s."""

    time: float
    gpus: Sequence[GpuNow]
    hosts: Mapping[str, Mapping[str, float | None]]


def nodes_now(path: str) -> NodesNow:
    """Read the nodes that a file's newest run is recorded on, as they were at its newest sample. Values of GPUs and
    processes on them that are older than RECENT_SECONDS are unknown; those of the nodes are means over the run. Raises
    RecordingError if the file can't be read or holds no run."""
    with closing(connect(path)) as connection:
        try:
            return _read_nodes_now(connection, path)
        except sqlite3.Error as error:
            raise RecordingError(f"{path}: can't be read: {error}") from None


def _read_nodes_now(connection: sqlite3.Connection, path: str) -> NodesNow:
    """Read what ``nodes_now`` returns from an open recording; ``path`` is for the text of an error. GPUs are in the
    order of all pages. Without samples the time is the run's start, or 0.0 if that is unknown as well. Raises
    RecordingError if it holds no run, sqlite3.Error."""
    runs = read_runs(connection)
    if not runs:
        raise RecordingError(f"{path}: holds no run")
    run = runs[-1]
    gpus = sorted(read_gpus(connection, run.run_id), key=gpu_order)
    position = {gpu.gpu: at for at, gpu in enumerate(gpus)}
    newest = connection.execute("SELECT max(time) FROM samples").fetchone()[0]
    now = run.started_at or 0.0 if number_within(newest) is None else float(newest)
    since = (now - RECENT_SECONDS,)
    samples = _newest_samples(
        _rows(connection, "samples", ("gpu", "time", *NAMES), "WHERE time >= ? ORDER BY time", since)
    )
    columns = LOOK_COLUMNS if columns_of(connection, "gpu_processes") else ()  # which files of an earlier version lack
    looks = _rows(connection, "gpu_processes", columns, "WHERE time >= ?", since) if columns else ()
    processes = _newest_looks(process_rows([*looks], position))
    empty: tuple[float | None, int, Mapping[str, float | None]] = (None, 0, dict.fromkeys(NAMES))
    found = [GpuNow(gpu, *samples.get(gpu.gpu, empty), processes.get(at)) for at, gpu in enumerate(gpus)]
    nodes = [process.node for process in read_processes(connection, run.run_id) if process.node]
    return NodesNow(now, found, _hosts(connection, run.run_id, nodes))


def _rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rest: str, parameters: Sequence[object]
) -> Iterable[tuple[Any, ...]]:
    """Select these columns of a table, NULL for those that the file lacks. ``rest`` follows the table in the statement.
    Raises sqlite3.Error."""
    wanted = ", ".join(selected(connection, table, columns))
    return connection.execute(f"SELECT {wanted} FROM {table} {rest}", parameters)


def _newest_samples(rows: Iterable[tuple[Any, ...]]) -> dict[int, tuple[float, int, Mapping[str, float | None]]]:
    """Find the newest values of each GPU. ``rows``: its key, the time and all metrics, by time. Returns by key the time of
    the newest row, the number of rows and the newest value of each metric."""
    found: dict[int, tuple[float, int, dict[str, float | None]]] = {}
    for key, time, *values in sound_rows("samples", ("gpu", "time", *NAMES), [*rows]):
        _, n_rows, newest = found.get(key, (0.0, 0, dict.fromkeys(NAMES)))
        for name, value in zip(NAMES, values):
            if number_within(value, GREATEST) is not None:
                newest[name] = int(value) if BY_NAME[name].integral else float(value)
        found[key] = time, n_rows + 1, newest
    return dict(found)


def _newest_looks(rows: Sequence[tuple[Any, ...]]) -> dict[int, list[GpuProcess]]:
    """Return what was on each GPU the last time that it was looked at, by its position, the process with most memory
    first. An empty list: nothing was on it; GPUs that were not looked at are missing. ``rows``, in any order: position,
    unix s, number of processes, and the columns of one process; rows of a GPU at equal times are one look."""
    times: dict[int, float] = {}
    found: dict[int, list[GpuProcess]] = {}
    for gpu, time, n_processes, *rest in rows:
        if time > times.get(gpu, -math.inf):
            times[gpu], found[gpu] = time, []
        if n_processes and time == times[gpu]:
            found[gpu].append(GpuProcess(gpu, time, *rest))
    return {gpu: sorted(own, key=lambda each: -(each.memory_used or 0)) for gpu, own in found.items()}


def _hosts(connection: sqlite3.Connection, run_id: str, nodes: Sequence[str]) -> dict[str, Mapping[str, float | None]]:
    """Return for each node the mean of each column of HOST over the run; None for one without values. ``nodes`` are there
    also without samples."""
    columns = selected(connection, "host_samples", HOST)
    sums = ", ".join(f"count({column}), total({column})" for column in columns)
    query = f"SELECT node, {sums} FROM host_samples WHERE run_id = ? GROUP BY node ORDER BY node"
    found: dict[str, Mapping[str, float | None]] = {node: dict.fromkeys(HOST) for node in nodes}
    for node, *row in connection.execute(query, (run_id,)):
        pairs = zip(HOST, row[::2], row[1::2])
        if isinstance(node, str):
            found[node] = {
                name: total / n if n and number_within(total) is not None else None for name, n, total in pairs
            }
    return found
