"""Columns of whole numbers of a table, whatever program wrote it, read from the pages of a file that is finished."""

import sqlite3
from collections.abc import Iterator, Sequence

from gssr.arrays import Ints
from gssr.store.pages.file import HIGHEST, LOWEST, NotPlainError, PageFile, in_parts, leaves
from gssr.store.pages.leaf_rows import LeafRows, plain_table

_AT_ONCE = 512
"""Pages that are decoded together: some megabytes, which stay in a core's cache."""


def integers(
    file: PageFile, connection: sqlite3.Connection, table: str, names: Sequence[str]
) -> Iterator[tuple[int, list[Ints]]]:
    """Read columns, int64[n] each, in parts in the order of rowids. NULL is gssr.store.pages.leaf_rows.NULL. ``connection``
    reads the same file. Yields each part's last rowid and its columns. Raises NotPlainError, also after some parts, which
    are right; sqlite3.DatabaseError."""
    root, columns, key, least = plain_table(connection, table)
    place = {name: columns.index(name) for name in names}
    order = sorted(names, key=place.__getitem__)
    found = leaves(file, root, LOWEST, HIGHEST)
    for part in in_parts(found, _AT_ONCE):
        rows = LeafRows(file, part, 1 + max(place.values(), default=0), False, least)
        values = {name: rows.rowid if place[name] == key else rows.integers(place[name]) for name in order}
        if not file.is_unchanged():
            raise NotPlainError("it is being written")
        yield int(rows.rowid[-1]), [values[name] for name in names]
