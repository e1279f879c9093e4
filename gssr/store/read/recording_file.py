"""One file of a recording, read into arrays: which of its rows belong to which run, and the readers of its tables. What
belongs together is put together in ``reader``.

Where in ``samples`` of a file each of its runs begins.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from gssr.store.format.limits import LATEST
from gssr.store.format.schema import LEVELS, SKETCH_SECONDS
from gssr.store.read.gpu_spans import Span, spans_of, times_of
from gssr.store.read.guarded_file import GuardedFile
from gssr.store.read.host_use import HostUseRows
from gssr.store.read.open import RecordingError
from gssr.store.read.rollups import RollupRows
from gssr.store.read.samples import SampleRows
from gssr.store.read.small_tables import read_thinned

_KEYS_AT_ONCE = 10_000


class Begins:
    """Rollups know where a run begins; of runs without any, all rows are looked through, once for all of these runs
    together: a file of very many runs takes no longer for that."""

    def __init__(self, file: GuardedFile) -> None:
        self._file = file
        self._known: dict[str, int | None] = {}
        self._first: dict[int, int] = {}
        """By the keys of GPUs without rollups, as far as rows were looked through."""
        self._looked_through = 0
        self._places: dict[str, int] | None = None
        self._least: list[int | None] = [None]
        """The least rowid at which one of the last runs begins, the newest apart, by how many of them."""

    def of(self, run_id: str) -> int | None:
        """The rowid of the run's first row; None without rows. They may still come in the newest run only."""
        if run_id not in self._known:
            found = self._in_rollups(run_id)
            if found is None:
                found = self._in_samples(run_id)
            if found is None and run_id == self._file.runs[-1].run_id:
                return None
            self._known[run_id] = found
        return self._known[run_id]

    def after(self, run_id: str) -> int | None:
        """The rowid at which the rows of a later run begin; None where no later one has any."""
        runs = self._file.runs
        if self._places is None:
            self._places = {run.run_id: place for place, run in reversed(list(enumerate(runs)))}
            # All but the newest run's stay as they are.
            begins = [self.of(run.run_id) for run in runs[:-1]]
            for begin in reversed(begins):
                self._least.append(_lesser(self._least[-1], begin))
        place = self._places[run_id]
        return None if place == len(runs) - 1 else _lesser(self._least[len(runs) - 2 - place], self.of(runs[-1].run_id))

    def _keys(self, run_id: str) -> list[int]:
        return [gpu.gpu for gpu in self._file.gpus(run_id)]

    def _in_rollups(self, run_id: str) -> int | None:
        keys = self._keys(run_id)
        for level in (600, 10) if keys else ():
            for (found,) in self._file.all(
                f"SELECT min(first_rowid) FROM rollup WHERE gpu IN ({_listed(keys)}) AND level = {level}"
            ):
                if found is not None:
                    return int(found)
        return None

    def _in_samples(self, run_id: str) -> int | None:
        self._look_through()
        return min((self._first[key] for key in self._keys(run_id) if key in self._first), default=None)

    def _look_through(self) -> None:
        """Look at the rows that have come since the last time."""
        last = max((row[0] or 0 for row in self._file.all("SELECT max(rowid) FROM samples")), default=0)
        if last <= self._looked_through:
            return
        begun = (run.run_id for run in self._file.runs if self._known.get(run.run_id) is None)
        keys = [key for run_id in begun if self._in_rollups(run_id) is None for key in self._keys(run_id)]
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            own = _listed(keys[begin : begin + _KEYS_AT_ONCE])
            query = (
                f"SELECT gpu, min(rowid) FROM samples WHERE rowid > ? AND rowid <= ? AND gpu IN ({own}) GROUP BY gpu"
            )
            for key, rowid in self._file.all(query, (self._looked_through, last)):
                self._first.setdefault(key, rowid)
        self._looked_through = last


def _lesser(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _listed(keys: Sequence[int]) -> str:
    return ",".join(map(str, keys))


class RecordingFile:
    """Raises RecordingError when it can't be opened."""

    def __init__(self, path: str) -> None:
        self.file = GuardedFile(path)
        self.samples = SampleRows(self.file)
        self.rollups = RollupRows(self.file)
        self.host_use = HostUseRows(self.file)
        self._begins = Begins(self.file)
        self.counted: dict[tuple[int, int], Any] = {}
        """By the first and last rowid of a run's part: gssr.store.read.check_rollups."""
        self.in_order: dict[tuple[int, int], bool] = {}
        """By the same, whether the samples' times ascend with their rowids: gssr.store.read.part."""
        self.searched: dict[tuple[int, int, float, float], list[tuple[int, int]]] = {}
        """By the same and a window, where its samples are: gssr.store.read.part."""
        self.held: dict[tuple[int, int], Any] = {}
        """By the same, the samples at the ends of a window: gssr.store.read.window_edges."""
        self.recounted: set[tuple[int, int]] = set()
        """What had to be counted anew of a part: its first rowid, and the number of the GPU and its stretch of 600 s."""

    def close(self) -> None:
        """Close the file."""
        self.samples.close()
        self.rollups.close()
        self.file.close()

    def __del__(self) -> None:
        if hasattr(self, "rollups"):
            self.close()

    def rowids(self, run_id: str) -> tuple[int, int]:
        """First and last rowid of the run's rows in ``samples``; (1, 0) when it has none. Runs follow one another in a
        file, never interleaved, because only one writer has it at a time."""
        first, last = 1, 0
        for low, high in self.file.all("SELECT (SELECT min(rowid) FROM samples), (SELECT max(rowid) FROM samples)"):
            lows = [low, *(row.first_rowid for row in self.file.thinned)]
            highs = [high, *(row.last_rowid for row in self.file.thinned)]
            first = min((rowid for rowid in lows if rowid is not None), default=1)
            last = max((rowid for rowid in highs if rowid is not None), default=0)
        if run_id != self.file.runs[0].run_id:
            begin = self._begins.of(run_id)
            first = last + 1 if begin is None else max(first, begin)
        after = self._begins.after(run_id)
        return first, max(first - 1, last if after is None else after - 1)

    def ends(self, run_id: str) -> list[tuple[int, int]]:
        """Rowids of the first and the last sample of each rank's part of the run, as far as that is known: within one
        rank's part times ascend."""
        rows = (row for row in self.file.merged if row.run_id == run_id)
        found = [(row.first_rowid, row.last_rowid) for row in rows if row.first_rowid and row.last_rowid]
        return found or [self.rowids(run_id)]

    def times_at(self, run_id: str, end: int) -> list[float]:
        """Unix times, s: the first (``end`` 0) or last (1) of them is that of the run's first or last row."""
        rowids = [ends[end] for ends in self.ends(run_id)]
        found = [
            row[0] for rowid in rowids for row in self.file.all("SELECT time FROM samples WHERE rowid = ?", (rowid,))
        ]
        thinned = any(row.run_id == run_id and row.end_time is not None for row in self.file.thinned)
        if thinned and (keys := ",".join(str(gpu.gpu) for gpu in self.file.gpus(run_id))):
            own, direction = f"FROM rollup WHERE level = ?1 AND gpu IN ({keys})", ("ASC", "DESC")[end]
            query = f"SELECT data {own} AND bucket = (SELECT bucket {own} ORDER BY bucket {direction} LIMIT 1)"
            found += [times[end] for (data,) in self.file.all(query, (LEVELS[0],)) if (times := times_of(data))]
        return [float(time) for time in found if time is not None and 0 <= time <= LATEST]

    def thinned_until(self, run_id: str) -> float:
        """Samples of the run from before this (unix s) were thinned; minus infinity when none were."""
        ends = (row.end_time for row in self.file.thinned if row.run_id == run_id)
        return max((end for end in ends if end is not None), default=-np.inf)

    def check_thinning(self, run_id: str, start: float) -> None:
        """Raises RecordingError when samples of the run from ``start`` (unix s) on, or its newest ones, were thinned since
        the file was opened: what was read of it then does not fit together. In a snapshot that can't be."""
        if self.file.is_snapshot or not self.file.thinned:
            return
        before = self.thinned_until(run_id)
        try:
            self.file.thinned = read_thinned(self.file.connection)
        except sqlite3.DatabaseError:
            return
        until = self.thinned_until(run_id)
        if until > before and until > min(start, max(self.times_at(run_id, 1), default=0.0) - SKETCH_SECONDS):
            raise RecordingError(f"{self.file.path}: samples were thinned while they were read: read it again")

    def spans(self, run_id: str, keys: Sequence[int]) -> dict[int, Span]:
        """When the rows of these GPUs of the run begin and end; those without rows are left out."""
        first, last = self.rowids(run_id)
        if last < first:
            return {}
        counted = any(row.run_id == run_id for row in self.file.merged) or self.rollups.counts_up_to(last, keys)
        return spans_of(self.file.all, keys, last, counted)
