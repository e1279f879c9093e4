"""One file of a recording, read into arrays. Only SQL and decoding; what belongs together is put together in ``reader``."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from gssr.metrics import INDEX
from gssr.store.begins import Begins
from gssr.store.bounds import MOST_EVENTS
from gssr.store.columns import columns_of
from gssr.store.companions import fingerprint
from gssr.store.layout import Layout, layout_of
from gssr.store.open import RecordingError, connect, missing_end
from gssr.store.pages.file import identity_of
from gssr.store.pages.table import Wanted
from gssr.store.plain import Plain
from gssr.store.raw import Columns, RawRows
from gssr.store.records import (
    Event,
    Gpu,
    Merged,
    Process,
    Run,
    read_events,
    read_gpus,
    read_merged,
    read_processes,
    read_runs,
    state_in,
)
from gssr.store.rolled import IMPOSSIBLE, RolledUp
from gssr.store.schema import LEVELS, SKETCH_SECONDS
from gssr.store.sound import GREATEST, sound_samples
from gssr.store.spans import Span, spans_of, times_of
from gssr.store.thinning import Thinned, read_thinned
from gssr.store.use import Use
from gssr.store.values import LATEST, number

_Record = TypeVar("_Record", Gpu, Process, Event)
_Id = TypeVar("_Id", str, str | None)
_MANY_RUNS = 20
"""The GPUs of so many are looked for in one go."""


class Shard:
    """One open file. Raises RecordingError when it can't be opened. ``damage`` says what could not be read, if anything."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.plain = Plain(self, identity_of(path))
        self.raw = RawRows(self)
        self.rolled = RolledUp(self)
        self.use = Use(self)
        self.connection = connect(path)
        try:
            columns = columns_of(self.connection, "samples")
        except sqlite3.Error as error:  # a writer on another host, whose lock is not seen here, has just begun to write
            self.close()
            raise RecordingError(f"{path}: can't be read: {error}") from None
        self.metrics = [name for name in columns if name not in ("gpu", "time")]
        self.layout: Layout = layout_of(self.metrics)
        self.damage: str | None = missing_end(path)
        self.runs: list[Run] = []
        self._begins = Begins(self)
        self._gpus: dict[str, list[Gpu]] = {}
        self.merged: list[Merged] = []
        """The ranks' files that are part of this one."""
        self.thinned: list[Thinned] = []
        """Of which rows of ``samples`` are not there any more, or only as means."""
        self.counted: dict[tuple[int, int], Any] = {}
        """By the first and last rowid of a run's part: gssr.store.check_rollups."""
        self.in_order: dict[tuple[int, int], bool] = {}
        """By the same, whether the samples' times ascend with their rowids: gssr.store.part."""
        self.searched: dict[tuple[int, int, float, float], list[tuple[int, int]]] = {}
        """By the same and a window, where its samples are: gssr.store.part."""
        self.held: dict[tuple[int, int], Any] = {}
        """By the same, the samples at the ends of a window: gssr.store.ends."""
        self.recounted: set[tuple[int, int]] = set()
        """What had to be counted anew of a part: its first rowid, and the number of the GPU and its stretch of 600 s."""
        self._snapshot = False
        try:
            self._snapshot = self.connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            if self._snapshot:
                self.connection.execute("BEGIN")  # for all that follows; it holds no writer up
            for run in read_runs(self.connection):
                self.runs.append(run._replace(state=state_in(self.connection, run, path)))
            self.merged = read_merged(self.connection)
            self.thinned = read_thinned(self.connection)
        except sqlite3.DatabaseError as error:
            self.damaged(error)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self.raw.close()
        self.rolled.close()
        self.plain.close()

    def __del__(self) -> None:
        # A connection holds itself, by its cache of statements: its file would stay open until garbage is collected.
        if hasattr(self, "connection"):
            self.close()

    def size(self) -> int:
        """Bytes of the file, and of what of it is in a write-ahead log; 0 when it is gone."""
        try:
            return sum(size for size in fingerprint(self.path).sizes if size > 0)
        except OSError:
            return 0

    def damaged(self, error: Exception | str) -> None:
        """Remember that reading failed; what was read before stays valid."""
        self.damage = self.damage or f"{self.path}: is damaged ({error}): only a part could be read"

    def rows(
        self, query: str, parameters: Sequence[object] = (), fetch: int = 16_384
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query in batches; ends early, with ``damage`` set, where the file is damaged."""
        handed_out = 0
        try:
            cursor = self.connection.execute(query, parameters)
            while batch := cursor.fetchmany(fetch):
                yield batch
                handed_out += len(batch)
        except (sqlite3.DatabaseError, OverflowError) as error:  # or a number that no integer of SQLite's can be
            self.damaged(error)
            yield from self._up_to_damage(query, parameters, handed_out)

    def _up_to_damage(self, query: str, parameters: Sequence[object], skip: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of the batch that a damaged page cut short, one by one."""
        rows: list[tuple[Any, ...]] = []
        try:
            for number, row in enumerate(self.connection.execute(query, parameters)):
                if number >= skip:
                    rows.append(row)
        except (sqlite3.DatabaseError, OverflowError):
            pass
        if rows:
            yield rows

    def all(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query for numbers, or for blobs alone, as ``rows``; None where there is something else."""
        if query.startswith("SELECT data "):
            return [row for batch in self.rows(query, parameters) for row in batch]
        return [tuple(map(_told, row)) for batch in self.rows(query, parameters) for row in batch]

    def gpus(self, run_id: str) -> list[Gpu]:
        """The GPUs of a run in this file, as they were when first asked for."""
        if len(self.runs) >= _MANY_RUNS and not self._gpus:
            listed = self._small_table(read_gpus, None)
            self._gpus = {run.run_id: [] for run in self.runs}
            for gpu in listed:
                self._gpus.setdefault(gpu.run_id, []).append(gpu)
        if run_id not in self._gpus:
            self._gpus[run_id] = self._small_table(read_gpus, run_id)
        return self._gpus[run_id]

    def processes(self, run_id: str) -> list[Process]:
        """The processes of a run in this file."""
        return self._small_table(read_processes, run_id)

    def events(self, run_id: str) -> list[Event]:
        """The events of a run in this file, MOST_EVENTS at most."""
        found = self._small_table(read_events, run_id)
        if len(found) > MOST_EVENTS:
            self.damage = self.damage or f"{self.path}: has more than {MOST_EVENTS:,} events: later ones are left out"
        return found[:MOST_EVENTS]

    def _small_table(self, read: Callable[[sqlite3.Connection, _Id], list[_Record]], run_id: _Id) -> list[_Record]:
        """All rows, or none where the table can't be read."""
        try:
            return read(self.connection, run_id)
        except sqlite3.DatabaseError as error:
            self.damaged(error)
            return []

    def rowids(self, run_id: str) -> tuple[int, int]:
        """First and last rowid of the run's rows in ``samples``; (1, 0) when it has none. Runs follow one another in a
        file, never interleaved, because only one writer has it at a time."""
        first, last = 1, 0
        for low, high in self.all("SELECT (SELECT min(rowid) FROM samples), (SELECT max(rowid) FROM samples)"):
            lows = [low, *(row.first_rowid for row in self.thinned)]
            highs = [high, *(row.last_rowid for row in self.thinned)]
            first = min((rowid for rowid in lows if rowid is not None), default=1)
            last = max((rowid for rowid in highs if rowid is not None), default=0)
        if run_id != self.runs[0].run_id:
            begin = self._begins.of(run_id)
            first = last + 1 if begin is None else max(first, begin)
        after = self._begins.after(run_id)
        return first, max(first - 1, last if after is None else after - 1)

    def ends(self, run_id: str) -> list[tuple[int, int]]:
        """Rowids of the first and the last sample of each rank's part of the run, as far as that is known: within one
        rank's part times ascend."""
        rows = (row for row in self.merged if row.run_id == run_id)
        found = [(row.first_rowid, row.last_rowid) for row in rows if row.first_rowid and row.last_rowid]
        return found or [self.rowids(run_id)]

    def times_at(self, run_id: str, end: int) -> list[float]:
        """Unix times, s: the first (``end`` 0) or last (1) of them is that of the run's first or last row."""
        rowids = [ends[end] for ends in self.ends(run_id)]
        found = [row[0] for rowid in rowids for row in self.all("SELECT time FROM samples WHERE rowid = ?", (rowid,))]
        thinned = any(row.run_id == run_id and row.end_time is not None for row in self.thinned)
        if thinned and (keys := ",".join(str(gpu.gpu) for gpu in self.gpus(run_id))):
            own, direction = f"FROM rollup WHERE level = ?1 AND gpu IN ({keys})", ("ASC", "DESC")[end]
            query = f"SELECT data {own} AND bucket = (SELECT bucket {own} ORDER BY bucket {direction} LIMIT 1)"
            found += [times[end] for (data,) in self.all(query, (LEVELS[0],)) if (times := times_of(data))]
        return [float(time) for time in found if time is not None and 0 <= time <= LATEST]

    def thinned_until(self, run_id: str) -> float:
        """Samples of the run from before this (unix s) were thinned; minus infinity when none were."""
        ends = (row.end_time for row in self.thinned if row.run_id == run_id)
        return max((end for end in ends if end is not None), default=-np.inf)

    def check_thinning(self, run_id: str, start: float) -> None:
        """Raises RecordingError when samples of the run from ``start`` (unix s) on, or its newest ones, were thinned since
        the file was opened: what was read of it then does not fit together. In a snapshot that can't be."""
        if self._snapshot or not self.thinned:
            return
        before = self.thinned_until(run_id)
        try:
            self.thinned = read_thinned(self.connection)
        except sqlite3.DatabaseError:
            return
        until = self.thinned_until(run_id)
        if until > before and until > min(start, max(self.times_at(run_id, 1), default=0.0) - SKETCH_SECONDS):
            raise RecordingError(f"{self.path}: samples were thinned while they were read: read it again")

    def spans(self, run_id: str, keys: Sequence[int]) -> dict[int, Span]:
        """When the rows of these GPUs of the run begin and end; those without rows are left out."""
        first, last = self.rowids(run_id)
        if last < first:
            return {}
        counted = any(row.run_id == run_id for row in self.merged) or self.counts_up_to(last, keys)
        return spans_of(self.all, keys, last, counted)

    def samples(
        self, metrics: Sequence[str], keys: Sequence[int] | None, first: int, last: int, start: float, end: float
    ) -> Columns:
        """Raw rows with first <= rowid <= last and start <= time < end: GPU keys, times and one array per metric (NaN for
        NULL and for columns the file lacks). ``keys`` None means every GPU."""
        return self.raw.samples(Wanted(metrics, keys, first, last, start, end))

    def through_sqlite(self, wanted: Wanted) -> Columns:
        """The same, through SQLite in any case."""
        metrics = wanted.names
        present = [name for name in metrics if name in self.metrics]
        where = "rowid BETWEEN ? AND ?"
        parameters: list[object] = [wanted.first, wanted.last]
        if np.isfinite(wanted.start) or np.isfinite(wanted.end):
            where += " AND time >= ? AND time < ?"
            parameters += [wanted.start, wanted.end]
        if wanted.keys is not None:
            where += f" AND gpu IN ({','.join(map(str, wanted.keys))})"
        columns = ", ".join(["gpu", "time", *present])
        batches = []
        for batch in self.rows(f"SELECT {columns} FROM samples WHERE {where}", parameters):
            rows, sound = sound_samples(batch)
            batches.append(rows)
            if not sound:
                self.damaged(IMPOSSIBLE)
        table = np.concatenate(batches).T if batches else np.empty((len(present) + 2, 0))
        n = table.shape[1]
        values = {name: table[position + 2] for position, name in enumerate(present)}
        values |= {name: np.full(n, np.nan) for name in metrics if name not in values}
        return table[0].astype(np.int64), table[1], values

    def newest_bucket(self, level: int, keys: Sequence[int] | None) -> int | None:
        """Start of the newest closed bucket of a level; None when there is none."""
        only = f" AND gpu IN ({','.join(map(str, keys))})" if keys is not None else ""
        found = self.all(f"SELECT bucket FROM rollup WHERE level = ?{only} ORDER BY bucket DESC LIMIT 1", (level,))
        return int(found[0][0]) if found and found[0][0] is not None else None

    def counts_up_to(self, rowid: int, keys: Sequence[int] | None) -> bool:
        """Whether closed buckets count these GPUs' rows up to the last one, ``rowid``. In a run that ended they do, unless
        the disk had no space for more than its end."""
        newest = self.newest_bucket(LEVELS[0], keys)
        found = self.all(
            "SELECT max(last_rowid) FROM rollup WHERE level = ? AND bucket >= ?", (LEVELS[0], (newest or 0) - LEVELS[1])
        )
        return bool(found) and found[0][0] is not None and int(found[0][0]) >= rowid


def _told(value: Any) -> Any:
    """A number as it is; None where it is none, or none that can be."""
    return None if value is None else number(value, GREATEST)


def catalogue_order(names: Sequence[str]) -> tuple[str, ...]:
    """Metric columns in the catalogue's order; unknown ones (a later version's) last."""
    return tuple(sorted(names, key=lambda name: INDEX.get(name, len(INDEX))))
