"""The raw rows of one file, in pieces that threads can read: from its pages where it is finished, else through SQLite."""

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np

from gssr.metrics import BY_NAME
from gssr.store.format.limits import LATEST, LEAST_BYTES, MOST_KEYS
from gssr.store.format.sample_arrays import Samples, derive
from gssr.store.format.sound_arrays import GREATEST, sound_samples
from gssr.store.pages.file import LOWEST, Leaves, NotPlainError, in_parts
from gssr.store.pages.sample_pages import PageTable, SampleQuery
from gssr.store.read.guarded_file import IMPOSSIBLE, GuardedFile

Result = TypeVar("Result")

_PAGES, _BYTES = 512, 4 << 20
"""Pages at once, and what large ones take at most: decoded, their rows stay in the processor's cache."""
_ROWS = 16_384
"""Rows at once through SQLite."""
ROWS_TOGETHER = 16
"""About so many rows are on a page."""
_HIGHEST = (1 << 63) - 1
_MOST_FAILED = 10_000
"""Stretches in which no row can be found for damage."""
_FEW = 4
"""So few pieces are not worth threads."""
_MOST_THREADS = 4


class SampleRows:
    """Reads the table ``samples`` of one file: from the file's pages where it is finished, else through SQLite."""

    def __init__(self, file: GuardedFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._table: PageTable | None = None
        self._may_be_plain = True

    def close(self) -> None:
        """Forget the pages of the file, which is being closed."""
        self._table, self._may_be_plain = None, False

    def pieces(self, wanted: SampleQuery, every: int = 1) -> Iterator[Callable[[], Samples]]:
        """Yield functions that read the rows that are wanted, piece by piece in the order of the file; each may be called in
        any thread. With ``every`` only about so many times fewer rows are read, ROWS_TOGETHER at a time, evenly spread."""
        table = self._open()
        if table is not None:
            try:
                found = table.leaves(wanted.first, wanted.last)
            except NotPlainError:
                table = None
            else:
                found = Leaves(*(column[every // 2 :: every] for column in found))
                most = min(_PAGES, max(_BYTES // table.page_size, 1))
                yield from (partial(self._read_pages, table, part, wanted) for part in in_parts(found, most))
        if table is None:
            size, step = (_ROWS, _ROWS) if every == 1 else (ROWS_TOGETHER, ROWS_TOGETHER * every)
            for first, last in self.stretches(wanted.first, wanted.last, size, step):
                yield partial(self._read_through_sqlite, wanted._replace(first=first, last=last))

    def stretches(self, first: int, last: int, size: int, step: int) -> Iterator[tuple[int, int]]:
        """Find ranges of rowids, first and last, that have rows: of those from ``first`` to ``last``, ``size`` rowids
        every ``step``.

        Where the file has fewer bytes than that many rows would take, ``size`` and ``step`` count rows instead: rowids
        may then lie so far apart that each row would be alone.
        """
        by_rows = (last - first) * LEAST_BYTES > self._file.size()
        failed = 0
        while first <= last and failed < _MOST_FAILED:
            found = self._ends(first, last, size if by_rows else 1)
            if not found:
                failed += 1  # a damaged page: there may be rows behind it
            elif None in found[0]:
                return
            else:
                first = max(first, found[0][0])  # on a damaged page SQLite may find a lower one
            if found and by_rows:
                yield first, max(first, found[0][1])
                behind = found if step == size else self._ends(first, last, step) or found
                first = max(first, behind[0][1]) + 1
            else:
                yield first, min(first + size - 1, last)
                first += step

    def _ends(self, first: int, last: int, n: int) -> list[tuple[Any, ...]]:
        """Find the rowids of the first and the last of ``n`` rows from ``first`` on, as one row in a list: (None, None)
        where there is no row up to ``last``. The list is empty where a page is damaged."""
        rows = f"SELECT rowid AS r FROM samples WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT {n}"
        with self._lock:
            return self._file.all(f"SELECT min(r), max(r) FROM ({rows})", (first, min(last, _HIGHEST)))

    def samples(self, wanted: SampleQuery) -> Samples:
        """Read all rows that are wanted, in the order of the file; empty arrays where there are none. Values of metrics
        that the file lacks are NaN."""
        if self._open() is None:
            return self._read_through_sqlite(wanted)
        return join_samples(list(run_in_threads(self.pieces(wanted))), wanted.names)

    def _open(self) -> PageTable | None:
        """Open the table's pages, or return those that are open; None where they can't be read."""
        if self._table is None and self._may_be_plain:
            try:
                pages = self._file.pages()
                if pages is not None:
                    self._table = PageTable(pages, self._file.connection)
            except (NotPlainError, sqlite3.DatabaseError):
                pass
            self._may_be_plain = self._table is not None
        return self._table

    def _read_pages(self, table: PageTable, part: Leaves, wanted: SampleQuery) -> Samples:
        """Read the rows that are wanted on these leaf pages. Where the pages can't be decoded, or hold values that are
        impossible, the same rows are read through SQLite."""
        try:
            columns = table.read(part, wanted)
            if _are_sound(columns):
                return columns
        except NotPlainError:
            pass
        low = int(part.low[0])
        first = wanted.first if low == LOWEST else max(wanted.first, low + 1)
        last = min(wanted.last, int(part.high[-1]))
        return self._read_through_sqlite(wanted._replace(first=first, last=last))

    def _read_through_sqlite(self, wanted: SampleQuery) -> Samples:
        """Read the rows that are wanted with an SQL query, one thread at a time. For what is left out see
        ``_query_rows``."""
        with self._lock:
            return self._query_rows(wanted)

    def _query_rows(self, wanted: SampleQuery) -> Samples:
        """Read the rows that are wanted with an SQL query; the caller holds the lock. Rows of no possible GPU and time
        are left out, which is noted as damage of the file. Metrics that the file lacks are NaN."""
        metrics = wanted.names
        present = [name for name in metrics if name in self._file.metrics]
        where = "rowid BETWEEN ? AND ?"
        parameters: list[object] = [wanted.first, wanted.last]
        if np.isfinite(wanted.start) or np.isfinite(wanted.end):
            where += " AND time >= ? AND time < ?"
            parameters += [wanted.start, wanted.end]
        if wanted.keys is not None:
            where += f" AND gpu IN ({','.join(map(str, wanted.keys))})"
        columns = ", ".join(["gpu", "time", *present])
        batches = []
        for batch in self._file.rows(f"SELECT {columns} FROM samples WHERE {where}", parameters):
            rows, sound = sound_samples(batch)
            batches.append(rows)
            if not sound:
                self._file.damaged(IMPOSSIBLE)
        table = np.concatenate(batches).T if batches else np.empty((len(present) + 2, 0))
        n = table.shape[1]
        values = {name: table[position + 2] for position, name in enumerate(present)}
        values |= {name: np.full(n, np.nan) for name in metrics if name not in values}
        return Samples(table[0].astype(np.int64), table[1], values)


def _are_sound(samples: Samples) -> bool:
    """Tell whether all values are within the limits that gssr.store.format.sound_arrays checks; true of no samples."""
    gpu, time, values = samples
    if not len(gpu):
        return True
    placed = gpu.min() >= 0 and gpu.max() < MOST_KEYS and time.min() >= 0 and time.max() <= LATEST
    return bool(placed) and not any((np.abs(column) > GREATEST).any() for column in values.values())


def stored_names(names: Sequence[str]) -> list[str]:
    """List the columns of ``samples`` of which these metrics are made, each once."""
    return list(dict.fromkeys(part for name in names for part in BY_NAME[name].parts or (name,)))


def select_metrics(columns: Samples, names: Sequence[str]) -> Samples:
    """Compute these metrics from the stored columns in ``columns`` (see ``stored_names``): GPUs and times stay."""
    gpu, time, values = columns
    found = {name: derive(values, parts) if (parts := BY_NAME[name].parts) else values[name] for name in names}
    return Samples(gpu, time, found)


def join_samples(pieces: list[Samples], names: Sequence[str]) -> Samples:
    """Join pieces one after the other. ``pieces`` is emptied unless it holds one: they are given up column by column,
    so that no more than one column is there twice. Without pieces the arrays are empty."""
    if len(pieces) == 1:
        return pieces[0]
    columns: list[list[Any]] = [[piece[0] for piece in pieces], [piece[1] for piece in pieces]]
    columns += [[piece[2].pop(name) for piece in pieces] for name in dict.fromkeys(names)]
    pieces.clear()
    gpu, time, *values = (
        _empty_column(column, np.float64 if number else np.int64) for number, column in enumerate(columns)
    )
    return Samples(gpu, time, dict(zip(dict.fromkeys(names), values, strict=True)))


def _empty_column(column: list[Any], kind: type) -> Any:
    """Join all arrays of a column into one of this dtype, and empty the list."""
    whole = np.concatenate([np.empty(0, kind), *column])
    column.clear()
    return whole


def run_in_threads(tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Call the tasks, several at once in threads, and yield their results in the order of the tasks. Few run ahead of
    what was taken; few tasks are called without threads. What a task raises is raised when its turn comes."""
    waiting = iter(tasks)
    few = list(islice(waiting, _FEW))
    n = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    if len(few) < _FEW or n == 1:
        yield from (task() for task in chain(few, waiting))
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(n) as pool:
        under_way: deque[Future[Result]] = deque()
        for task in chain(few, waiting):
            under_way.append(pool.submit(task))
            if len(under_way) > 2 * n:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
