"""Whole recordings of synthetic jobs, hours of a thousand GPUs in minutes: what the benchmarks live on.

The samples are those that live sampling would have given, the file is the one it would have left, merged from one rank
for each node of ``GPUS_PER_NODE`` GPUs.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.backends.synthetic import BACK, LENGTH, LOST, MEASURES, device, known_scenario
from gssr.backends.synthetic.arrays import evaluate, stack
from gssr.backends.synthetic.gpu import traits
from gssr.backends.synthetic.hosts import hosts
from gssr.backends.synthetic.scenarios import Scenario
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.format.schema import LEVELS
from gssr.store.read.open import RecordingError
from gssr.store.write.bulk import BulkWriter
from gssr.store.write.create import remove
from gssr.store.write.thinning import Keep
from gssr.version import __version__

START = 1_700_000_400.0
"""Unix time at which every generated run starts: at the edge of all buckets, and the same in every file."""
GPUS_PER_NODE = 8
ROWS_AT_ONCE = 20_000
"""Generated in one go, where a bucket of the finest rollup has no more."""


def generate(
    path: str,
    scenario: str,
    n_gpus: int,
    hours: float,
    interval: float,
    seed: int = 0,
    keep: Keep = "raw",
    host: bool = False,
    progress: Callable[[float], None] | None = None,
) -> int:
    """Write a recording of GPUs that don't exist, and return its number of samples.

    Args:
        path: the file to be written, which must not exist yet.
        scenario: the name of the scenario that runs on the GPUs.
        n_gpus: number of GPUs.
        hours: length of the run.
        interval: time between two samples of a GPU, s.
        seed: another one gives other noise.
        keep: what is kept of the samples.
        host: write rows of the nodes and of their ranks' processes as well, one a second.
        progress: is told the share that is done, 0-1.

    Raises BackendError for an unknown scenario and RecordingError when the file exists or can't be written; what was
    written by then is removed.
    """
    found = known_scenario(scenario)
    writer = BulkWriter(path, keep)
    try:
        n = _write(writer, scenario, found, n_gpus, hours * 3600, interval, seed, host, progress)
        spread_over_ranks(path)
    except BaseException:
        remove(path)
        raise
    return n


def _node(rank: int) -> str:
    return f"node{rank:04d}"


def _write(
    writer: BulkWriter,
    name: str,
    scenario: Scenario,
    n_gpus: int,
    seconds: float,
    interval: float,
    seed: int,
    host: bool,
    progress: Callable[[float], None] | None,
) -> int:
    """Write the run of the scenario of this name, as ``generate`` says. Returns the number of samples."""
    end = START + seconds
    n_nodes = -(-n_gpus // GPUS_PER_NODE)
    run_id = f"synthetic-{name}-{n_gpus}-{seed}"
    run: dict[str, str | int | float | None] = {
        "run_id": run_id, "label": f"synthetic {name}", "command": json.dumps(["synthetic", name]),
        "launcher": "alone", "started_at": START, "sampling_ms": interval * 1000, "world_size": n_nodes,
        "n_nodes": n_nodes, "state": "running", "gssr_version": __version__,
    }  # fmt: skip
    for rank in reversed(range(n_nodes)):  # the last one begun is the one that finishes
        writer.begin(
            run,
            {
                "rank": rank, "local_rank": 0, "node": _node(rank), "hostname": _node(rank), "started_at": START,
                "ended_at": end, "exit_code": 0, "state": "completed",
            },
        )  # fmt: skip
    places = [divmod(position, GPUS_PER_NODE) for position in range(n_gpus)]
    gpus = [device(_node(rank), index) for rank, index in places]
    writer.add_gpus(
        [
            {"node": _node(rank), "rank": rank, "backend": "synthetic", **gpu._asdict()}
            for (rank, _), gpu in zip(places, gpus, strict=True)
        ],
        MEASURES,
        interval,
    )
    writer.event(START, "start", "the command was started")
    for time, kind, lost, message in _losses(scenario, n_gpus, seconds):
        writer.event(START + time, kind, message, lost)
    writer.event(end, "end", "the command ended: completed, exit code 0")

    stretch = seconds / LENGTH if scenario.stretches else 1.0
    all_traits = stack([traits(scenario, position, len(gpus), gpu.uuid, seed) for position, gpu in enumerate(gpus)])
    total = 0
    for times in _pieces(seconds, interval, len(gpus)):
        columns, exists = evaluate(scenario, all_traits, times - START, stretch)
        position: Ints = np.tile(np.arange(len(gpus), dtype=np.int64), len(times))
        tick: Floats = np.repeat(times, len(gpus))
        values = {name: cast(Floats, column) for name, column in columns.items()}
        if not exists.all():
            position, tick = position[exists], tick[exists]
            values = {name: column[exists] for name, column in values.items()}
        writer.add_columns(position, tick, values)
        if host:
            _add_use(writer, times, n_nodes, seed)
        total += len(tick)
        if progress is not None:
            progress((times[-1] - START) / seconds)
    if not writer.finish(end, 0, "completed", end):
        raise RecordingError(writer.problem or f"{writer.path}: can't be written")
    return total


def _add_use(writer: BulkWriter, times: Floats, n_nodes: int, seed: int) -> None:
    """Write one row a second of each node and of its rank's processes, for the seconds that begin between the first and
    the last of ``times`` (unix s, at least one); none where no second begins. ``n_nodes``: nodes with a rank each;
    ``seed``: of the noise."""
    seconds = np.arange(np.ceil(times[0]), times[-1] + 1e-6)
    if len(seconds):
        host, workload = hosts(seconds, n_nodes, seed)
        writer.add_use(HOST, [_node(rank) for rank in range(n_nodes)], seconds, host)
        writer.add_use(WORKLOAD, range(n_nodes), seconds, workload)


def _pieces(seconds: float, interval: float, n_gpus: int) -> Iterator[Floats]:
    """Yield the times of all ticks of a run of this many ``seconds``, unix s, cut into pieces between which no rollup is
    cut. A piece is as long as a bucket of the coarsest level of which ``n_gpus`` GPUs have at most ROWS_AT_ONCE rows."""
    times = START + np.arange(max(round(seconds / interval), 1)) * interval
    fitting = (level for level in reversed(LEVELS) if n_gpus * level / interval <= ROWS_AT_ONCE)
    edges = np.flatnonzero(np.diff(np.floor(times / next(fitting, LEVELS[0])))) + 1
    yield from np.split(times, edges)


def _losses(scenario: Scenario, n: int, seconds: float) -> list[tuple[float, str, int, str]]:
    """List (time, kind, GPU, message) of every GPU lost and back, in the order of time: s since the start, position."""
    events = []
    for hole in scenario.holes:
        if not hole.lost:
            continue
        begin = hole.pulse.start
        while begin < seconds:
            back = begin + hole.pulse.width
            for gpu in range(hole.remainder, n, hole.modulus):
                events.append((begin, "gpu_lost", gpu, LOST))
                if back < seconds:
                    events.append((back, "gpu_back", gpu, BACK))
            begin += hole.pulse.period
    return sorted(events)


def spread_over_ranks(path: str) -> None:
    """Give the GPUs and their events, which one writer wrote for all ranks, to the ranks they belong to. Raises
    sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN")
        connection.execute("UPDATE process_gpus SET rank = (SELECT g.rank FROM gpus g WHERE g.gpu = process_gpus.gpu)")
        for column in ("node", "rank"):
            connection.execute(
                f"UPDATE events SET {column} = (SELECT g.{column} FROM gpus g WHERE g.gpu = events.gpu) "
                "WHERE gpu IS NOT NULL"
            )
        connection.execute("COMMIT")
    finally:
        connection.close()
