"""The SQLite file that the published GSSR, 0.4.0 and older, exports (``gssr analyze --export``). Of a rank with several
GPUs it holds the samples of the last one only; times are local to the machine that exported, in whole seconds. Older
versions have other columns: what is there is read by name."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.foreign.json_file import floats, number, text_or_none, whole
from gssr.foreign.published import TIMELESS, Rank, runs_of
from gssr.foreign.series import ForeignError, ForeignSeries, ImportHints
from gssr.store.read.database import Database
from gssr.store.read.open import Readable, RecordingError

_DATA, _RANKS, _JOBS = "data", "process_metadata", "job_metadata"
_KEYS = ("job_id", "step_id", "proc_id", "gpu_id")
_MOST_RANKS = 1 << 18
_COLUMNS_OF_RANKS = ("job_id", "step_id", "proc_id", "hostname", "gpu_ids", "start_time", "end_time", "elapsed")
_COLUMNS_OF_JOBS = ("job_id", "step_id", "label", "n_procs", "sampling_time", "cmd")
_LOST = (
    "its SQLite export keeps of a rank with several GPUs the samples of the last one only: the JSON files have all",
    TIMELESS,
)


def _look(connection: sqlite3.Connection) -> str | None:
    tables = {str(name).lower() for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    return None if _DATA in tables else "is no export of the older GSSR: it has no table named data"


_EXPORT = Readable("an export of the older GSSR", "the older GSSR", frozenset((_DATA, _RANKS, _JOBS)), _look)


_Key = tuple[str | None, str | None, int | None]
"""Job, step and rank."""


class _Step(NamedTuple):
    """A row of the table of jobs."""

    label: str | None
    n_ranks: int | None
    sampling_seconds: float | None
    command: str | None


def read(paths: Sequence[str], told: ImportHints) -> list[ForeignSeries]:
    """Read SQLite exports of the published GSSR. Returns one series for each step of each job in each file. Raises
    ForeignError if one of the files cannot be read or has no samples."""
    return [series for path in paths for series in _read(path, told)]


def _read(path: str, told: ImportHints) -> list[ForeignSeries]:
    """Read the steps in one export. Raises ForeignError."""
    try:
        database = Database(path, _EXPORT, (_DATA, _RANKS, _JOBS))
    except RecordingError as error:
        raise ForeignError(str(error)) from None
    try:
        ranks = _ranks(path, database, told.timezone)
        zone = told.timezone or "this machine's zone"
        clock = (f"the export's times are local to the machine that made it, and whole seconds: read in {zone}",)
        is_dated = any(rank.ended is not None for rank in ranks)
        notes = (*_LOST, *(clock if is_dated else ()), *database.damage)
        database.check()
    except RecordingError as error:
        raise ForeignError(str(error)) from None
    finally:
        database.close()
    return runs_of(ranks, told, notes)


def _ranks(path: str, database: Database, zone: tzinfo | None) -> list[Rank]:
    """Read all ranks of an export: those of its table of ranks, and those that only have samples. Its local times are
    taken to be of ``zone`` (None: this machine's)."""
    samples = _samples(database)
    steps = {
        (text_or_none(job), text_or_none(step)): _Step(
            text_or_none(label), whole(n), None if (ms := number(asked)) is None else ms / 1e3, text_or_none(command)
        )
        for job, step, label, n, asked, command in database.rows(_JOBS, _COLUMNS_OF_JOBS, _MOST_RANKS)
    }
    found: dict[_Key, Rank] = {}
    for job, step, number_, node, listed, begun, ended, elapsed in database.rows(
        _RANKS, _COLUMNS_OF_RANKS, _MOST_RANKS
    ):
        key = text_or_none(job), text_or_none(step), whole(number_)
        ids = tuple(own for each in str(listed or "").split(",") if (own := whole(each)) is not None)
        found[key] = Rank(
            path, *key, text_or_none(node), ids, {}, _time(begun, zone), _time(ended, zone), number(elapsed)
        )
    for key in samples:
        found.setdefault(key, Rank(path, *key, None, (), {}, None, None))
    every = []
    for key, rank in found.items():
        about = steps.get(key[:2]) or (next(iter(steps.values())) if len(steps) == 1 else _Step(None, None, None, None))
        by_gpu = samples.get(key, {})
        every.append(rank._replace(
            samples={**by_gpu, **{device: {} for device in rank.gpu_ids if device not in by_gpu}},
            label=about.label, command=about.command, world_size=about.n_ranks, sampling_seconds=about.sampling_seconds,
        ))  # fmt: skip
    return every


def _samples(database: Database) -> dict[_Key, dict[int, Mapping[str, Floats]]]:
    """Read the columns of each rank and device index, as in ``Rank.samples``, sorted by ``sample_index``. A device
    index that is no number becomes the next number of the rank."""
    there = database.columns.get(_DATA, [])
    tags = [name for name in there if name not in (*_KEYS, "sample_index", "time")]
    places: dict[tuple[Any, ...], int] = {}
    parts: dict[int, list[Floats]] = {}
    for batch in database.batches(_DATA, (*_KEYS, "sample_index", *tags)):
        columns = np.stack([floats(column) for column in list(zip(*batch, strict=True))[4:]])
        of_row = np.array([places.setdefault(row[:4], len(places)) for row in batch])
        order = np.argsort(of_row, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(of_row[order])) + 1):
            parts.setdefault(int(of_row[rows[0]]), []).append(columns[:, rows])
    found: dict[_Key, dict[int, Mapping[str, Floats]]] = {}
    for (job, step, rank, gpu), place in places.items():
        columns = np.concatenate(parts[place], axis=1)
        columns = columns[:, np.argsort(columns[0], kind="stable")]
        device = whole(gpu)
        of_rank = found.setdefault((text_or_none(job), text_or_none(step), whole(rank)), {})
        of_rank[len(of_rank) if device is None else device] = dict(zip(tags, columns[1:], strict=True))
    return found


def _time(value: object, zone: tzinfo | None) -> float | None:
    """Convert an ISO time, of ``zone`` if it names none, or a number, to unix s. None for anything else."""
    if not isinstance(value, str):
        return number(value)
    try:
        when = datetime.fromisoformat(value)
        return (when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
