"""What a file's writer has counted already, the tables ``rollup`` and ``sketch``: from the file's pages where it is
finished, else through SQLite."""

import math
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from gssr.arrays import Ints
from gssr.store.format.buckets import Buckets, join_buckets, vectors_of
from gssr.store.format.columns import columns_of
from gssr.store.format.layout import Layout, part_of
from gssr.store.format.schema import FINE_SKETCH_SECONDS, FINEST_LEVEL, LEVELS, SKETCH_SECONDS, SKETCHES
from gssr.store.format.sketches import Sketches, decode_sketches
from gssr.store.format.sound_arrays import are_placed, are_rollups, are_vectors, ranges_in, sound_buckets
from gssr.store.pages.file import NotPlainError
from gssr.store.pages.rollup_pages import PageRollups
from gssr.store.read.guarded_file import IMPOSSIBLE, GuardedFile

_NAMED = 1_000
"""So many buckets or fewer are asked for by name: then the index finds each GPU's in each, and no others are looked at."""


def bucket_condition(start: float, end: float, seconds: int, keys: Sequence[int] | None) -> str:
    """Make the condition that a bucket of ``seconds`` lies within [start, end), unix s or infinite, and is of one of these
    GPU keys (None: of any)."""
    conditions = ["1"]
    if keys is not None and math.isfinite(end - start) and end - start <= _NAMED * seconds:
        named = range(-(-math.ceil(start) // seconds) * seconds, math.floor(end) - seconds + 1, seconds)
        conditions.append(f"bucket IN ({','.join(map(str, named))})")
    else:
        if math.isfinite(start):
            conditions.append(f"bucket >= {math.ceil(start)}")
        if math.isfinite(end):
            conditions.append(f"bucket <= {math.floor(end) - seconds}")
    if keys is not None:
        conditions.append(f"gpu IN ({','.join(map(str, keys))})")
    return " AND ".join(conditions)


_BLOBS_AT_ONCE = 1024
"""Rollups fetched before they are decoded: a megabyte; of sketches, which are larger, an eighth."""

_MOST_KEPT = 2048
"""So many rollups of the coarsest level are kept once they are read, of all open files together: two megabytes."""

_MOST_LISTS = 8
"""A window has a stretch of each level at each of its ends."""

_SHARE = 1 / 8
"""For so many of a file's GPUs those that are wanted are looked for among all of a stretch."""


class RollupRows:
    """Reads the tables ``rollup`` and ``sketch`` of one file: from the file's pages where it is finished, else through
    SQLite."""

    n_kept = 0
    """Of all files together."""

    def __init__(self, file: GuardedFile) -> None:
        self._file = file
        self._pages: PageRollups | None = None
        self._may_be_plain = True
        self._lists: dict[tuple[int, float, float], tuple[Ints, Ints]] = {}
        """What was listed last: who reads a stretch in pieces asks for other GPUs of the same one next."""
        self._kept: Buckets | None = None
        self._are_many = False
        self._finest: dict[int, int] = {}
        """The finest level, by the lowest of a run's keys."""

    def close(self) -> None:
        """Forget what is kept of the file, which is being closed."""
        if self._kept is not None:
            RollupRows.n_kept -= len(self._kept)
        self._pages, self._kept, self._may_be_plain = None, None, False

    def rollups(
        self,
        level: int,
        keys: Sequence[int] | None,
        start: float,
        end: float,
        layout: Layout,
        counted_anew: bool = False,
    ) -> Buckets:
        """Read the closed buckets of a level that lie within [start, end), unix s.

        Args:
            keys: GPU keys of the file; None: all.
            layout: The layout of the result, which may keep only some of the file's blocks. Blocks that the file lacks
                are added to the vectors.
            counted_anew: Whether the caller counts anew what is left out because it can't be right. If not, that is
                noted as damage of the file.
        """
        known = part_of(layout, [block.metric.name for block in self._file.layout.blocks])
        if known.width < layout.width:  # of ranks' files not all may have every column
            return self.rollups(level, keys, start, end, known, counted_anew).in_layout(layout)
        try:
            batches = [self._decoded(level, keys, start, end, layout)]
        except NotPlainError:
            self._may_be_plain = False
            batches = list(self._through_sqlite(level, keys, start, end, layout))
        if sum(n - len(batch) for batch, n in batches) and not counted_anew:
            self._file.damaged(IMPOSSIBLE)
        return join_buckets([batch for batch, _ in batches], layout)

    def _decoded(
        self, level: int, keys: Sequence[int] | None, start: float, end: float, layout: Layout
    ) -> tuple[Buckets, int]:
        """Read the rollups of a level of a finished file from its pages, past SQLite. ``keys`` are GPU keys of the file,
        None: all; buckets must lie within [start, end), unix s; ``layout`` is that of the result. Returns the buckets
        that hold only values that are possible, and how many there were with the others. Raises NotPlainError where the
        pages can't be read so."""
        columns, pages = self._columns_of(layout), self._open()
        kept = self._coarsest(pages) if level == LEVELS[-1] else None
        if kept is not None:
            pages.check()
            read = _select_buckets(kept, keys, start, end, layout, columns)
        else:
            read = pages.read(self._rowids(level, keys, start, end), level, layout, columns)
        return read.of(are_placed(read.gpu, read.start, level) & are_rollups(read, level)), len(read)

    def _coarsest(self, pages: PageRollups) -> Buckets | None:
        """Read all rollups of the coarsest level and keep them, because whoever reads a recording asks for them again
        and again. Returns None where they are too many to be kept. Raises NotPlainError."""
        if not self._are_many and self._kept is None:
            level, most = LEVELS[-1], _MOST_KEPT - RollupRows.n_kept
            query = f"SELECT count(*) FROM (SELECT 1 FROM rollup WHERE level = {level} LIMIT {most + 1})"
            try:
                ((n,),) = self._file.connection.execute(query).fetchall()
            except sqlite3.DatabaseError as error:
                raise NotPlainError(str(error)) from None
            self._are_many = n > most
            if not self._are_many:
                rowids, _ = self._listed(level, None, -math.inf, math.inf)
                self._kept = pages.read(rowids, level, self._file.layout, None)
                RollupRows.n_kept += len(self._kept)
        return self._kept

    def _through_sqlite(
        self, level: int, keys: Sequence[int] | None, start: float, end: float, layout: Layout
    ) -> Iterator[tuple[Buckets, int]]:
        """Read the rollups of a level of any file through SQLite. ``keys`` are GPU keys of the file, None: all; buckets
        must lie within [start, end), unix s; ``layout`` is that of the result. Yields batches: the buckets that hold
        only values that are possible, and how many there were with the others."""
        file, columns = self._file, self._columns_of(layout)
        query = "SELECT gpu, bucket, first_rowid, last_rowid, data FROM rollup"
        query += f" WHERE level = {level} AND {bucket_condition(start, end, level, keys)}"
        for batch in file.rows(query, fetch=_BLOBS_AT_ONCE):
            head, rows = sound_buckets(batch, level)
            rows, head = _keep_fitting(rows, are_vectors(head[:, 0], [row[-1] for row in rows], file.layout), head)
            vectors = vectors_of([row[-1] for row in rows], file.layout, columns)
            start_times, seconds = head[:, 1].astype(np.float64), np.full(len(rows), float(level))
            read = Buckets(head[:, 0], start_times, seconds, vectors, layout, ranges_in(rows))
            yield read.of(are_rollups(read, level)), len(batch)

    def _open(self) -> PageRollups:
        """Open the table's pages, or return those that are open. Raises NotPlainError where they can't be read."""
        if not self._may_be_plain:
            raise NotPlainError("it was not before")
        if self._pages is None:
            file = self._file
            pages = file.pages()
            if pages is None:
                raise NotPlainError("not a finished file")
            try:
                self._pages = PageRollups(pages, file.connection, file.layout.width)
            except sqlite3.DatabaseError as error:
                raise NotPlainError(str(error)) from None
        return self._pages

    def _rowids(self, level: int, keys: Sequence[int] | None, start: float, end: float) -> Ints:
        """List the rowids of these GPUs' rollups of a level within [start, end), in the order of their index. Raises
        NotPlainError."""
        n_gpus = sum(len(self._file.gpus(run.run_id)) for run in self._file.runs)
        if keys is not None and len(keys) < n_gpus * _SHARE:
            return self._listed(level, keys, start, end)[0]
        if (found := self._lists.get((level, start, end))) is None:
            if len(self._lists) >= _MOST_LISTS:
                self._lists.clear()
            self._lists[level, start, end] = found = self._listed(level, None, start, end)
        rowids, gpus = found
        return rowids if keys is None else rowids[np.isin(gpus, np.array(keys, np.int64))]

    def _listed(self, level: int, keys: Sequence[int] | None, start: float, end: float) -> tuple[Ints, Ints]:
        """List the rowids of these GPUs' rollups of a level within [start, end), and the key of each one's GPU. SQLite
        gives both as texts, which takes a third of the time that rows take. Raises NotPlainError."""
        condition = f"level = {level} AND {bucket_condition(start, end, level, keys)}"
        query = f"SELECT count(*), group_concat(rowid), group_concat(gpu) FROM rollup WHERE {condition}"
        try:
            ((n, *texts),) = self._file.connection.execute(query).fetchall()
            rowids, gpus = (np.fromstring(text or "", np.int64, sep=",") for text in texts)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise NotPlainError(str(error)) from None
        if not len(rowids) == len(gpus) == n:
            raise NotPlainError("an index of other values")
        return rowids, gpus

    def _columns_of(self, layout: Layout) -> Ints | None:
        """Find which numbers of this file's vectors, in order, make a vector of ``layout``, whose metrics the file must
        all have. Returns their indices, or None if the layouts are the same."""
        if layout == self._file.layout:
            return None
        own = {block.metric.name: block for block in self._file.layout.blocks}
        columns = list(range(4))
        for block in layout.blocks:
            mine = own[block.metric.name]
            columns += range(mine.start, mine.start + mine.width)
        return np.array(columns)

    def sketch_lengths(self, keys: Sequence[int] | None) -> list[int]:
        """List the lengths of the sketches of these GPUs (None: of all), s, the longest first: earlier versions had no finer
        ones."""
        fine = SKETCHES[FINE_SKETCH_SECONDS]
        only = f" WHERE gpu IN ({','.join(map(str, keys))})" if keys is not None else ""
        if columns_of(self._file.connection, fine) and self._file.all(f"SELECT gpu FROM {fine}{only} LIMIT 1"):
            return [SKETCH_SECONDS, FINE_SKETCH_SECONDS]
        return [SKETCH_SECONDS]

    def sketches(
        self,
        keys: Sequence[int] | None,
        start: float,
        end: float,
        counted_anew: bool = False,
        seconds: int = SKETCH_SECONDS,
    ) -> Iterator[Sketches]:
        """Read the closed sketches of ``seconds`` that lie within [start, end), unix s, and yield them in batches, none
        empty.

        ``keys`` are GPU keys of the file, None: all. ``counted_anew``: the caller counts anew what is left out because
        it can't be right; if not, that is noted as damage of the file.
        """
        query = f"SELECT gpu, bucket, data FROM {SKETCHES[seconds]} WHERE {bucket_condition(start, end, seconds, keys)}"
        for batch in self._file.rows(query, fetch=_BLOBS_AT_ONCE // 8):
            head, rows = sound_buckets(batch, seconds)
            blobs, n_metrics = [row[2] for row in rows], len(self._file.layout.sketched)
            sketches = decode_sketches(head[:, 0], head[:, 1], blobs, n_metrics, seconds)
            if len(sketches.gpu) < len(batch) and not counted_anew:
                self._file.damaged(IMPOSSIBLE)
            if len(sketches.gpu):
                yield sketches

    def finest_level(self, keys: Collection[int]) -> int:
        """Return the level of the shortest buckets that the file has of these GPUs, all of one run; the coarsest level if
        it has none. Only an imported file lacks finer ones for long (gssr.store.write.bulk)."""
        lowest = min(keys, default=-1)
        if self._finest.get(lowest) != LEVELS[0]:
            mine = f"gpu IN ({','.join(map(str, keys))})"
            found = (
                self._file.all(f"SELECT 1 FROM rollup WHERE level = {level} AND {mine} LIMIT 1") for level in LEVELS
            )
            self._finest[lowest] = next((level for level, rows in zip(LEVELS, found, strict=True) if rows), LEVELS[-1])
        return self._finest[lowest]

    def newest_bucket(self, keys: Sequence[int] | None) -> int | None:
        """Return the start (unix s) of the newest closed bucket of the finest level of these GPUs (None: of any); None
        when there is none."""
        only = f" AND gpu IN ({','.join(map(str, keys))})" if keys is not None else ""
        found = self._file.all(
            f"SELECT bucket FROM rollup WHERE level = {FINEST_LEVEL}{only} ORDER BY bucket DESC LIMIT 1"
        )
        return int(found[0][0]) if found and found[0][0] is not None else None

    def counts_up_to(self, rowid: int, keys: Sequence[int] | None) -> bool:
        """Tell whether a closed bucket counts the row with this ``rowid`` or a later one: any GPU's, from LEVELS[1] s
        before the newest bucket of these GPUs (keys, None: all) on. In a run that has ended buckets count up to its last
        row, unless the disk had no space for more than its end."""
        newest = self.newest_bucket(keys)
        found = self._file.all(
            f"SELECT max(last_rowid) FROM rollup WHERE level = {FINEST_LEVEL} AND bucket >= ?",
            ((newest or 0) - LEVELS[1],),
        )
        return bool(found) and found[0][0] is not None and int(found[0][0]) >= rowid


def _select_buckets(
    rows: Buckets, keys: Sequence[int] | None, start: float, end: float, layout: Layout, columns: Ints | None
) -> Buckets:
    """Keep the buckets of these GPUs (None: all) within [start, end), and of their vectors these ``columns`` (None: all)."""
    vectors = rows.vectors if columns is None else rows.vectors.T[columns].T
    inside = (rows.start >= start) & (rows.start + rows.seconds <= end)
    if keys is not None:
        inside &= np.isin(rows.gpu, np.array(keys, np.int64))
    return Buckets(rows.gpu, rows.start, rows.seconds, vectors, layout, rows.rowids).of(inside)


def _keep_fitting(rows: list[tuple[Any, ...]], fit: list[bool], head: Ints) -> tuple[list[tuple[Any, ...]], Ints]:
    """Keep the rows that fit, and their lines of ``head``."""
    return (rows, head) if all(fit) else ([row for row, fits in zip(rows, fit, strict=True) if fits], head[fit])
