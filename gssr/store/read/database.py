"""The database of another program, opened as a recording is (gssr.store.read.open): columns of whole numbers from its pages
where they are plain, else by SQL."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from gssr.arrays import Ints
from gssr.guarded_sqlite import in_one_line
from gssr.store.disk import fingerprint, identity_of
from gssr.store.pages.file import NotPlainError, PageFile
from gssr.store.pages.integers import integers
from gssr.store.pages.leaf_rows import NULL
from gssr.store.read.open import Readable, RecordingError, connect, missing_end

_AT_ONCE = 16_384
"""Rows fetched together."""
_LEAST_ROW = 10
"""Bytes that a row of some columns takes of a page, at least."""


class Database:
    """A database of another program, opened for reading. ``columns``: by table, its columns, of those tables that
    exist; ``damage``: sentences on what could not be read; ``texts``: see ``integers``. Of a damaged table the sound
    part is read."""

    def __init__(self, path: str, readable: Readable, tables: Iterable[str]) -> None:
        """``tables``: names of the tables that may be read; they are iterated after ``readable`` has looked. Raises
        RecordingError."""
        self.path = path
        self.texts: dict[str, int] = {}
        self.damage: list[str] = []
        identity = identity_of(path)
        self._pages: PageFile | None = None
        self._connection = connect(path, readable)
        try:
            end, self._size = missing_end(path), os.path.getsize(path)
            self._before = None
            if self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                self._connection.execute("BEGIN")  # one moment for all that follows; it holds no writer up
            else:
                self._before = fingerprint(path)
                self._pages = _plain(path, identity)
            self.columns = {table: found for table in tables if (found := self._columns(table))}
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise RecordingError(f"{path}: can't be read: {in_one_line(error)}") from None
        if end is not None:
            self.damage.append(end)

    def _columns(self, table: str) -> list[str]:
        return [str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({table})")]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._pages is not None:
            self._pages.close()

    def check(self) -> None:
        """Check that nobody has written the file since it was opened. Raises RecordingError otherwise, as what was read
        may be wrong."""
        try:
            changed = self._before is not None and fingerprint(self.path) != self._before
        except OSError:
            return  # it is gone: what was read of it is what was there
        if changed:
            raise RecordingError(f"{self.path}: was written while it was read: read it again when that has ended")

    def most_rows(self, table: str) -> int:
        """Return an upper bound of a table's rows, mostly their exact number; 0 if there is no such table."""
        if table not in self.columns:
            return 0
        fitting = max(self._size // _LEAST_ROW, 1)
        try:
            ends = f"SELECT (SELECT min(rowid) FROM {table}), (SELECT max(rowid) FROM {table})"
            low, high = self._connection.execute(ends).fetchone()
        except sqlite3.DatabaseError:
            return fitting
        return 0 if high is None else max(0, min(high - low + 1, fitting))

    def rows(
        self, table: str, names: Sequence[str], most: int, only: tuple[str, Iterable[int]] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the first ``most`` rows of a table, as they are; None for columns that it lacks, [] if there is no
        such table. ``only``: a column that it has, and the integers wanted of it."""
        where = "" if only is None else f' WHERE "{only[0]}" IN ({",".join(map(str, only[1]))})'
        return list(islice(self._each(table, names, where), most))

    def batches(self, table: str, names: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield all rows of a table as ``rows`` returns them, some thousand at a time."""
        each = self._each(table, names)
        while rows := list(islice(each, _AT_ONCE)):
            yield rows

    def strings(self, table: str, wanted: set[int], column: str = "value") -> dict[int, str]:
        """Return by id the texts in ``column`` of a table that has a column ``id``; ids that are not there are missing."""
        found = self._each(table, ("id", column))
        return {key: value for key, value in found if key in wanted and isinstance(value, str)}

    def _each(self, table: str, names: Sequence[str], where: str = "", before: int = 0) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table that match. If it is damaged they end early, and ``damage`` says so. ``before``:
        how many were read before."""
        there = self.columns.get(table, ())
        if not there:
            return
        listed = ",".join(f'"{name}"' if name in there else "NULL" for name in names)
        n, most = before, self.most_rows(table)
        try:
            for row in self._connection.execute(f"SELECT {listed} FROM {table}{where}"):
                if n == most:
                    raise sqlite3.DatabaseError("it leads back to itself")
                n += 1
                yield row
        except (sqlite3.DatabaseError, OverflowError, MemoryError) as error:  # of a row that says it is very long
            why = in_one_line(error) or "a row that can't be"
            self.damage.append(f"{self.path}: {table} is damaged ({why}): only {n:,} rows could be read")

    def integers(self, table: str, names: Sequence[str], texts: Sequence[str] = ()) -> Iterator[list[Ints]]:
        """Yield columns of a table, int64[n] each, in parts in the order of rowids.

        A value is NULL (gssr.store.pages.leaf_rows) if it is no whole number, or the column does not exist. Of columns
        in ``texts`` it is the number that the string has in ``self.texts``, to which new ones are added. There are no
        more than ``most_rows``; nothing for a table that does not exist.
        """
        there = self.columns.get(table, ())
        if not there:
            return
        n, most, last = 0, self.most_rows(table), None
        if self._pages is not None and not texts:
            found = [name for name in names if name in there]
            try:
                for highest, values in integers(self._pages, self._connection, table, found):
                    length = len(values[0]) if values else 0
                    if n + length > most:
                        raise NotPlainError("more rows than it can hold")
                    n, last = n + length, highest
                    by_name = dict(zip(found, values, strict=True))
                    nothing = np.broadcast_to(np.int64(NULL), length)
                    yield [by_name.get(name, nothing) for name in names]
                return
            except (NotPlainError, sqlite3.DatabaseError):
                pass
        each = self._each(table, names, "" if last is None else f" WHERE rowid > {last} ORDER BY rowid", n)
        while rows := list(islice(each, _AT_ONCE)):
            columns = zip(names, zip(*rows, strict=True), strict=True)
            yield [self._places(values) if name in texts else _whole(values) for name, values in columns]

    def _places(self, values: Sequence[Any]) -> Ints:
        own = self.texts
        return np.array([own.setdefault(value, len(own)) if isinstance(value, str) else NULL for value in values])


def _plain(path: str, identity: tuple[int, int] | None) -> PageFile | None:
    """Open a file to read its pages past SQLite; None where they can't be read so."""
    try:
        return PageFile(path, identity)
    except NotPlainError:
        return None


def _whole(values: Sequence[Any]) -> Ints:
    if set(map(type, values)) != {int}:
        values = [value if type(value) is int else NULL for value in values]
    return np.array(values, np.int64)
