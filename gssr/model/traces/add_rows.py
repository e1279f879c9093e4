"""Rows of tables that are of one thing, such as of one function in several files, added up to one."""

from collections.abc import Collection, Iterable
from operator import add
from typing import Any, NamedTuple, TypeVar

Row = TypeVar("Row", bound=NamedTuple)


def add_up(rows: Iterable[Row], n_keys: int, least: Collection[str] = (), most: Collection[str] = ()) -> list[Row]:
    """Make one row of all whose first ``n_keys`` fields are equal. All other fields are added up, but of those named in
    ``least`` the least is kept and of those in ``most`` the greatest. Returns the rows in the order in which their keys
    come first."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = row[:n_keys]
        so_far = found.get(key)
        if so_far is not None:
            both = {
                name: (min if name in least else max if name in most else add)(
                    getattr(row, name), getattr(so_far, name)
                )
                for name in row._fields[n_keys:]
            }
            row = row._replace(**both)
        found[key] = row
    return list(found.values())
