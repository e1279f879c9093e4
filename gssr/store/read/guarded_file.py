"""One open file of a recording: its guarded connection, its pages where it is finished, its runs, and what of it could not
be read."""

import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from gssr.metrics import PLACES
from gssr.store.disk import identity_of, lacks_descriptors, sizes
from gssr.store.format.columns import columns_of
from gssr.store.format.layout import Layout, layout_of
from gssr.store.format.limits import MOST_EVENTS, number_within
from gssr.store.format.rows import AttachedTrace, Event, Gpu, Merged, Process, RunRow, Thinned
from gssr.store.format.sound_arrays import GREATEST
from gssr.store.pages.file import NotPlainError, PageFile
from gssr.store.read.open import RecordingError, connect, missing_end
from gssr.store.read.small_tables import (
    read_events,
    read_gpus,
    read_merged,
    read_processes,
    read_runs,
    read_thinned,
    read_traces,
    state_of,
    was_left,
)

_Record = TypeVar("_Record", Gpu, Process, Event, AttachedTrace)
_Listed = TypeVar("_Listed", Gpu, Process)
_Id = TypeVar("_Id", str, str | None)
_MANY_RUNS = 20
"""The GPUs and processes of so many are looked for in one go."""
IMPOSSIBLE = "values that can't be"


class GuardedFile:
    """One open file of a recording. ``metrics``: its metric columns; ``runs``: its runs, with their states derived;
    ``damage``: a sentence on what could not be read, None if there is nothing. Raises RecordingError if it cannot be
    opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._identity = identity_of(path)
        self._pages: PageFile | None = None
        self._may_be_plain = True
        self.connection = connect(path)
        try:
            columns = columns_of(self.connection, "samples")
        except sqlite3.Error as error:  # a writer on another host, whose lock is not seen here, has just begun to write
            self.close()
            raise RecordingError(f"{path}: can't be read: {error}") from None
        self.metrics = [name for name in columns if name not in ("gpu", "time")]
        self.layout: Layout = layout_of(self.metrics)
        self.damage: str | None = missing_end(path)
        self.runs: list[RunRow] = []
        self._gpus: dict[str, list[Gpu]] = {}
        self._processes: dict[str, list[Process]] = {}
        self.merged: list[Merged] = []
        """The ranks' files that are part of this one."""
        self.thinned: list[Thinned] = []
        """Of which rows of ``samples`` are not there any more, or only as means."""
        self.is_snapshot = False
        """What others write meanwhile is not seen."""
        try:
            self.connection.execute("PRAGMA page_count").fetchone()  # it may have become WAL since it was opened
            self.is_snapshot = self.connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            if self.is_snapshot:
                self.connection.execute("BEGIN")  # for all that follows; it holds no writer up
            self.merged = read_merged(self.connection)
            self.runs = read_runs(self.connection)
            self._find_states()
            self.thinned = read_thinned(self.connection)
        except sqlite3.DatabaseError as error:
            self.damaged(error)

    def _find_states(self) -> None:
        """Find out which of the runs that are noted as running still do, and which are lost. If that can't be read of a
        run, it and those after it are left out, and sqlite3.Error is raised."""
        for at, run in enumerate(self.runs):
            if run.state == "running":
                try:
                    left = was_left(self.connection, run.run_id, self.merged)
                except sqlite3.DatabaseError:
                    del self.runs[at:]
                    raise
                state = "lost" if left else state_of(run, self.processes(run.run_id), self.path)
                self.runs[at] = run._replace(state=state)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        if self._pages is not None:
            self._pages.close()
        self._pages, self._may_be_plain = None, False

    def __del__(self) -> None:
        # A connection holds itself, by its cache of statements: its file would stay open until garbage is collected.
        if hasattr(self, "connection"):
            self.close()

    def pages(self) -> PageFile | None:
        """Return the file's pages; None if they cannot be read past SQLite, or the file grows."""
        if self._pages is None and self._may_be_plain:
            try:
                is_finished = not (self.damage or self.is_snapshot) and all(run.state != "running" for run in self.runs)
                if is_finished and not lacks_descriptors(1):  # SQLite reads it as well, without one more
                    self._pages = PageFile(self.path, self._identity)
            except NotPlainError:
                pass
            self._may_be_plain = self._pages is not None
        return self._pages

    def size(self) -> int:
        """Return the bytes of the file and what belongs to it in a log; 0 if it is gone."""
        try:
            return sum(size for size in sizes(self.path) if size > 0)
        except OSError:
            return 0

    def damaged(self, error: Exception | str) -> None:
        """Note in ``damage`` that reading failed, unless something is noted already. What was read before stays valid."""
        self.damage = self.damage or f"{self.path}: is damaged ({error}): only a part could be read"

    def rows(
        self, query: str, parameters: Sequence[object] = (), fetch: int = 16_384
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in batches of at most ``fetch``. If the file is damaged they end early, and
        ``damage`` is set. ``parameters`` are those of the query."""
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
        """Yield the rows of a batch that a damaged page cut short, after the first ``skip``."""
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
        """Return all rows of a query for numbers, or for blobs alone, as ``rows`` reads them; values that are no
        possible numbers are None."""
        if query.startswith("SELECT data "):
            return [row for batch in self.rows(query, parameters) for row in batch]
        return [tuple(map(_told, row)) for batch in self.rows(query, parameters) for row in batch]

    def gpus(self, run_id: str) -> list[Gpu]:
        """Return the GPUs of a run in this file, as they were when first asked for."""
        return self._of_run(read_gpus, self._gpus, run_id)

    def processes(self, run_id: str) -> list[Process]:
        """Return the processes of a run in this file, as they were when first asked for."""
        return self._of_run(read_processes, self._processes, run_id)

    def _of_run(
        self,
        read: Callable[[sqlite3.Connection, str | None], list[_Listed]],
        known: dict[str, list[_Listed]],
        run_id: str,
    ) -> list[_Listed]:
        """Return what ``read`` reads of a run, which is kept in ``known``."""
        if len(self.runs) >= _MANY_RUNS and not known:
            known.update((run.run_id, []) for run in self.runs)
            for record in self._small_table(read, None):
                known.setdefault(record.run_id, []).append(record)
        if run_id not in known:
            known[run_id] = self._small_table(read, run_id)
        return known[run_id]

    def events(self, run_id: str) -> list[Event]:
        """Return the events of a run in this file, at most MOST_EVENTS."""
        found = self._small_table(read_events, run_id)
        if len(found) > MOST_EVENTS:
            self.damage = self.damage or f"{self.path}: has more than {MOST_EVENTS:,} events: later ones are left out"
        return found[:MOST_EVENTS]

    def traces(self, run_id: str) -> list[AttachedTrace]:
        """Return the traces attached to a run in this file."""
        return self._small_table(read_traces, run_id)

    def _small_table(self, read: Callable[[sqlite3.Connection, _Id], list[_Record]], run_id: _Id) -> list[_Record]:
        """Return what ``read`` reads; [] if the table cannot be read."""
        try:
            return read(self.connection, run_id)
        except sqlite3.DatabaseError as error:
            self.damaged(error)
            return []


def _told(value: Any) -> Any:
    """A number as it is; None where it is none, or none that can be."""
    return None if value is None else number_within(value, GREATEST)


def catalogue_order(names: Sequence[str]) -> tuple[str, ...]:
    """Sort metric columns in the catalogue's order; unknown ones (a later version's) come last."""
    return tuple(sorted(names, key=lambda name: PLACES.get(name, math.inf)))
