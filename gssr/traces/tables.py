"""Tables of columns that readers of traces go through, whether they lie in a database or were made of another file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import Any, Protocol

import numpy as np

from gssr.arrays import Ints
from gssr.store.pages.leaf_rows import NULL


class Tables(Protocol):
    """What readers ask of a database; gssr.store.read.database.Database says what each part means."""

    path: str
    texts: dict[str, int]
    damage: list[str]

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The columns of each table that there is."""
        ...

    def most_rows(self, table: str) -> int:
        """Return an upper bound of a table's rows."""
        ...

    def rows(
        self, table: str, names: Sequence[str], most: int, only: tuple[str, Iterable[int]] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the first rows of a table, None for columns that it lacks."""
        ...

    def strings(self, table: str, wanted: set[int], column: str = "value") -> dict[int, str]:
        """Return by id the texts in a column."""
        ...

    def integers(self, table: str, names: Sequence[str], texts: Sequence[str] = ()) -> Iterator[list[Ints]]:
        """Yield columns of whole numbers in parts."""
        ...


def damage_notes(tables: Tables) -> list[str]:
    """List what could not be read, as notes on the file, which do not name it."""
    return [text.removeprefix(f"{tables.path}: ") for text in tables.damage]


_AT_ONCE = 1 << 17


class TablesInMemory:
    """Tables that were made of a file. ``tables``: by name the columns of each, all of one length: arrays of whole numbers,
    of which NULL is no value, or lists of any values. Columns that are read by ``integers`` must be arrays."""

    def __init__(
        self, path: str, tables: Mapping[str, Mapping[str, Ints | Sequence[Any]]], damage: Sequence[str]
    ) -> None:
        self.path, self.damage = path, [*damage]
        self.texts: dict[str, int] = {}
        self._tables = {
            name: columns for name, columns in tables.items() if columns and len(next(iter(columns.values())))
        }
        self.columns: dict[str, list[str]] = {name: list(columns) for name, columns in self._tables.items()}

    def most_rows(self, table: str) -> int:
        """Return a table's number of rows."""
        return len(next(iter(self._tables[table].values()))) if table in self._tables else 0

    def rows(
        self, table: str, names: Sequence[str], most: int, only: tuple[str, Iterable[int]] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the first ``most`` rows of a table; None for columns that it lacks, and for NULL. ``only``: a column, and
        the values wanted of it."""
        own, n = self._tables.get(table, {}), self.most_rows(table)
        wanted = None if only is None else set(only[1])
        found: Iterable[tuple[Any, ...]] = zip(*(_values(own.get(name), n) for name in names), strict=True)
        if only is not None and wanted is not None:
            chosen = [value in wanted for value in _values(own.get(only[0]), n)]
            found = compress(found, chosen)
        return list(islice(found, most))

    def strings(self, table: str, wanted: set[int], column: str = "value") -> dict[int, str]:
        """Return by id the texts in ``column`` of a table that has a column ``id``."""
        found = self.rows(table, ("id", column), self.most_rows(table))
        return {key: value for key, value in found if key in wanted and isinstance(value, str)}

    def integers(self, table: str, names: Sequence[str], texts: Sequence[str] = ()) -> Iterator[list[Ints]]:
        """Yield the columns of a table, some thousand rows at a time; NULL for those that it lacks. Of columns in ``texts``
        numbers in ``self.texts``."""
        own, n = self._tables.get(table, {}), self.most_rows(table)
        for begin in range(0, n, _AT_ONCE):
            rows = slice(begin, min(begin + _AT_ONCE, n))
            nothing = np.broadcast_to(np.int64(NULL), rows.stop - rows.start)
            yield [
                nothing if name not in own else
                self._numbered(own[name][rows]) if name in texts else np.array(own[name][rows])
                for name in names
            ]  # fmt: skip

    def _numbered(self, values: Iterable[Any]) -> Ints:
        """Number texts as ``texts`` does, to which new ones are added: int64[n]; NULL for anything but a text."""
        own = self.texts
        return np.array(
            [own.setdefault(each, len(own)) if isinstance(each, str) else NULL for each in values], np.int64
        )


def _values(column: Ints | Sequence[Any] | None, n: int) -> Iterable[Any]:
    """Return the values of a column as they are in a database: None for NULL, and of a column that is not there."""
    if column is None:
        return [None] * n
    if isinstance(column, np.ndarray):
        return [None if value == NULL else value for value in column.tolist()]
    return column
