"""What a file says of nodes and of the workload's processes: from their rollups where these count all rows, else from the
rows themselves."""

import math
import sqlite3
from collections.abc import Sequence
from itertools import cycle, groupby
from typing import Any

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.store.format.columns import selected
from gssr.store.format.host_rollups import HOST, WORKLOAD, UseTable, count_rolled_up
from gssr.store.format.schema import LEVELS
from gssr.store.format.sound_arrays import sound_numbers
from gssr.store.read.guarded_file import GuardedFile

MOST_ROWS = 100_000
"""A window that cuts buckets of a table with more rows, a tenth of a second, is widened to whole buckets of 10 s."""

_OF_ROWS = {"n": "count({})", "sum": "total({})", "max": "max({})"}
_OF_ROLLUPS = _OF_ROWS | {"n": "CAST(total({}) AS INTEGER)"}

Bins = tuple[float, float, int]
"""Their start (unix s), width (s) and number."""
Window = tuple[float, float]
"""Rows with window[0] <= time < window[1] count, unix s; infinite: open."""


OwnerNames = Sequence[str] | Sequence[int] | None
"""Owners of rows: nodes, or ranks; None for all."""


def _among(table: UseTable, names: OwnerNames) -> tuple[str, Sequence[object]]:
    """Return an SQL condition, to be added to a WHERE, for rows of these owners (nodes or ranks), and its parameters.
    None: rows of all owners, with an empty condition."""
    return ("", ()) if names is None else (f" AND {table.owner} IN ({', '.join('?' * len(names))})", names)


class HostUseRows:
    """Reads ``host_samples`` and ``workload_samples`` of a file."""

    def __init__(self, file: GuardedFile) -> None:
        self._file = file
        self._whole: dict[tuple[UseTable, int, str], bool] = {}

    def host(self, run_id: str, window: Window, nodes: OwnerNames = None) -> list[tuple[Any, ...]]:
        """Add up ``host_samples`` of these nodes (None: all). Returns one row: for each value column its count, sum and
        greatest."""
        return self._added_up(HOST, run_id, window, "", nodes)

    def workload(self, run_id: str, window: Window, ranks: OwnerNames = None) -> list[tuple[Any, ...]]:
        """Add up ``workload_samples`` in the same way. Returns one row for each rank."""
        return self._added_up(WORKLOAD, run_id, window, " GROUP BY rank", ranks)

    def _added_up(
        self, table: UseTable, run_id: str, window: Window, rest: str, names: OwnerNames
    ) -> list[tuple[Any, ...]]:
        """Add up the rows of a table in a window (unix s). ``names`` are the owners, nodes or ranks, whose rows count,
        None: all; ``rest`` ends the query: "" for one sum over all, or a GROUP BY clause. Returns rows with count, sum
        and greatest value of each of the table's value columns in turn."""
        together = not rest and names is None
        level, window = self._read_at(table, window, together)
        among, those = _among(table, names)
        wanted = self._sums(table, level, table.values, ("n", "sum", "max"))
        if level is None:
            query = f"SELECT {wanted} FROM {table.samples} WHERE run_id = ? AND time >= ? AND time < ?{among}{rest}"
        else:
            query = f"SELECT {wanted} FROM {table.rollup} WHERE {self._whose(table, level, together)} AND run_id = ?"
            query += f" AND bucket >= ? AND bucket < ?{among}{rest}"
        return [_possible(row) for row in self._file.all(query, (run_id, *window, *those))]

    def over_time(
        self, table: UseTable, names: Sequence[str], run_id: str, window: Window, bins: Bins, owners: OwnerNames = None
    ) -> tuple[Ints, Floats]:
        """Add up rows of a table in bins of time.

        Args:
            names: value columns.
            bins: start, width and number; what lies beyond an end belongs to the bin there.
            owners: of the rows; None for all.

        Returns bin numbers, int64[n], in which a bin may come more than once, and counts and sums of the columns by
        turns, float64[n, 2 * columns].
        """
        start, width, n = bins
        together = owners is None
        level, window = self._read_at(table, window, together, (start, width))
        among, those = _among(table, owners)
        wanted = self._sums(table, level, names, ("n", "sum"))
        if level is not None:
            query = f"SELECT bucket, {wanted} FROM {table.rollup} WHERE {self._whose(table, level, together)} AND run_id = ?"
            query += f" AND bucket >= ? AND bucket < ?{among} GROUP BY bucket"
            rows = self._rows(query, (run_id, *window, *those), 1 + 2 * len(names))
        else:
            query = f"SELECT min(max(CAST((time - ?) / ? AS INTEGER), 0), ?) AS bin, {wanted} FROM {table.samples}"
            query += f" WHERE run_id = ? AND time >= ? AND time < ?{among} GROUP BY bin"
            rows = self._rows(query, (start, float(width), n - 1, run_id, *window, *those), 1 + 2 * len(names))
        at = rows[:, 0] if level is None else np.clip(np.trunc((rows[:, 0] - start) / width), 0, n - 1)
        sums = rows[:, 1:].reshape(len(rows), len(names), 2)
        sums[~np.isfinite(sums).all(axis=2)] = 0.0  # a sum that can't be is none of anything
        return at.astype(np.int64), sums.reshape(len(rows), 2 * len(names))

    def by_owner(
        self, table: UseTable, names: Sequence[str], run_id: str, window: Window, bins: Bins, owners: OwnerNames = None
    ) -> list[tuple[str, Ints, Floats]]:
        """Add up rows of a table in bins of time, for each owner whose name is a text, that is for each node: ranks,
        which are numbers, are left out.

        Args:
            table: The table to read.
            names: Its value columns.
            run_id: The run whose rows count.
            window: The times that count, unix s.
            bins: Start (unix s), width (s) and number of the bins; what lies beyond an end belongs to the bin there.
            owners: The owners whose rows count; None: all.

        Returns for each owner its name, bin numbers int64[n], ascending, and counts and sums of the columns by turns,
        float64[n, 2 * columns]. Owners without rows are missing.
        """
        among, those = _among(table, owners)
        start, width, n = bins
        level, window = self._read_at(table, window, False, (start, width))
        wanted = self._sums(table, level, names, ("n", "sum"))
        source, time, whose = table.samples, "time", ""
        if level is not None:
            source, time, whose = table.rollup, "bucket", f" AND {self._whose(table, level, False)}"
        query = (
            f"SELECT {table.owner}, min(max(CAST(({time} - ?) / ? AS INTEGER), 0), ?) AS bin, {wanted} FROM {source}"
        )
        query += f" WHERE run_id = ? AND {time} >= ? AND {time} < ?{whose}{among} GROUP BY 1, 2"
        parameters = (start, float(width), n - 1, run_id, *window, *those)
        rows = [row for batch in self._file.rows(query, parameters) for row in batch]
        found = []
        for owner, of_it in groupby((row for row in rows if isinstance(row[0], str)), lambda row: row[0]):
            numbers, _ = sound_numbers([row[1:] for row in of_it])
            own = numbers[np.isfinite(numbers[:, 0])]
            sums = own[:, 1:].reshape(len(own), len(names), 2)
            sums[~np.isfinite(sums).all(axis=2)] = 0.0
            found.append((owner, own[:, 0].astype(np.int64), sums.reshape(len(own), 2 * len(names))))
        return found

    def times(self, run_id: str, nodes: OwnerNames = None) -> tuple[float, float] | None:
        """Find when the first and the newest row of these nodes (None: all) was written, unix s; None without any."""
        among, those = _among(HOST, nodes)
        query = f"SELECT min(time), max(time) FROM {HOST.samples} WHERE run_id = ?{among}"
        found = self._rows(query, (run_id, *those), 2)
        return None if not len(found) or not np.isfinite(found).all() else (float(found[0, 0]), float(found[0, 1]))

    def _sums(self, table: UseTable, level: int | None, names: Sequence[str], parts: Sequence[str]) -> str:
        """Make the list of expressions to select: for each of the value columns ``names`` its ``parts`` ("n", "sum",
        "max") in turn. ``level`` is the length in s of the rollups that are read; None: samples are read."""
        if level is None:
            functions, own = _OF_ROWS, [name for name in self.selected(table.samples, names) for _ in parts]
        else:
            functions, own = _OF_ROLLUPS, self.selected(table.rollup, [f"{name}_{p}" for name in names for p in parts])
        return ", ".join(functions[part].format(column) for part, column in zip(cycle(parts), own, strict=False))

    def selected(self, table: str, names: Sequence[str]) -> list[str]:
        """Return SQL expressions for these columns, NULL for those that the file lacks or cannot tell."""
        try:
            return selected(self._file.connection, table, names)
        except sqlite3.DatabaseError as error:
            self._file.damaged(error)
            return ["NULL"] * len(names)

    def _rows(self, query: str, parameters: Sequence[object], n_columns: int) -> Floats:
        """Return the rows that a query finds, float64[n, columns], without those whose first column is no number."""
        found = [row for batch in self._file.rows(query, parameters) for row in batch]
        if not found:
            return np.empty((0, n_columns))
        table, _ = sound_numbers(found)
        return table[np.isfinite(table[:, 0])]

    def _whose(self, table: UseTable, level: int, together: bool) -> str:
        """Make the condition that picks rollups of ``level`` seconds: with ``together`` the rollups that add up all
        owners, if these count every row of an ended file; otherwise those of each owner."""
        together = together and self._is_whole(table, level, table.together)
        return f"level = {level} AND {table.together if together else table.each}"

    def _read_at(
        self, table: UseTable, window: Window, together: bool, edges: Sequence[float] = ()
    ) -> tuple[int | None, Window]:
        """Choose whether to read rollups or samples of a table.

        ``together``: the sum over all owners is wanted, so rollups of all owners together will do. ``edges`` (unix s)
        must, like the window's ends, not cut a rollup that is read. Returns the length in s of the coarsest rollups that
        are cut by none of them and count every row, and the window; or None and the window if samples must be read. If
        that were very many, the finest rollups are read although the window cuts them, and the window is widened to
        whole ones.
        """
        cuts = [edge for edge in (*window, *edges) if math.isfinite(edge)]
        for level in reversed(LEVELS):
            if all(edge % level == 0 for edge in cuts) and self._says_all(table, level, together):
                return level, window
        level = LEVELS[0]
        fits = all(edge % level == 0 for edge in edges) and self._says_all(table, level, together)
        if fits and self._n_rows(table) > MOST_ROWS:
            return level, _widen_to_rollups(window, level)
        return None, window

    def _says_all(self, table: UseTable, level: int, together: bool) -> bool:
        """Tell whether the rollups of a level count all rows; with ``together``, rollups of all owners together
        suffice."""
        return (together and self._is_whole(table, level, table.together)) or self._is_whole(table, level, table.each)

    def _is_whole(self, table: UseTable, level: int, whose: str) -> bool:
        """Tell whether the rollups of ``level`` seconds that the condition ``whose`` picks count every row of the table.
        False while any run of the file goes on. It is found out once."""
        key = table, level, whose
        if key not in self._whole:
            ended = all(run.state != "running" for run in self._file.runs)
            self._whole[key] = ended and self.counts_all(*key)
        return self._whole[key]

    def counts_all(self, table: UseTable, level: int, whose: str) -> bool:
        """Tell whether the rollups of ``level`` seconds count as many rows as the table has. ``whose`` is ``table.each``
        or ``table.together``, the condition that picks those of each owner or of all together. False if the file lacks
        them; False as well, and noted as damage of the file, if they can't be read."""
        try:
            return count_rolled_up(self._file.connection, "main", table, level, whose) == self._n_rows(table)
        except sqlite3.DatabaseError as error:
            self._file.damaged(error)
            return False

    def _n_rows(self, table: UseTable) -> int:
        """Count the rows of a table by its rowids, which have no holes."""
        ends = f"SELECT (SELECT min(rowid) FROM {table.samples}), (SELECT max(rowid) FROM {table.samples})"
        return sum(last - first + 1 for first, last in self._file.all(ends) if first is not None)


def _widen_to_rollups(window: Window, level: int) -> Window:
    """Widen a window to whole rollups of ``level`` seconds; an infinite end stays."""
    lower, upper = window
    if math.isfinite(lower):
        lower = math.floor(lower / level) * float(level)
    if math.isfinite(upper):
        upper = math.ceil(upper / level) * float(level)
    return lower, upper


def _possible(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of counts, sums and greatest values by turns, with (0, 0.0, None) where a sum is impossible."""
    groups = [row[at : at + 3] for at in range(0, len(row), 3)]
    return tuple(value for group in groups for value in ((0, 0.0, None) if group[1] is None else group))
