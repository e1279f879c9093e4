"""What the columns of a recording may hold. SQLite keeps values of any type in any column, and a file may come from
anybody: what none of our writers could have written reads as NULL, which is unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gssr.store.format.schema import TABLES

LATEST = 1e11
"""Unix times, s, are from 0 to this: some three thousand years."""
MOST_KEYS = 1 << 24
"""Keys of GPUs are below this: 64 for each of 262,144 ranks."""
MOST_ROWIDS = 1 << 62
"""Rowids of samples are below this in a file that is added to: SQLite's end at twice as many, which no writer of ours comes
near, and a file that has the last one takes no more."""
MOST_RUNS = 1 << 12
MOST_GPUS = 1 << 17
"""Of all runs in a file. The largest machines have half as many."""
MOST_RANKS = 1 << 18
"""Of all runs in a file."""
MOST_EVENTS = 1 << 17
"""Of a run: the earliest are read."""
MOST_TRACES = 1 << 18
"""Of all runs in a file: one for each of as many ranks."""
MOST_DIGEST = 1 << 18
"""Characters of what a trace says; no more than a tenth of it is ever written."""
LEAST_BYTES = 6
"""Of a row: two in its page's list, its length, its rowid and a head of two."""
GREATEST = 1e30
"""No sample is greater: sums and squares of any number of them can be told."""
_MANY, _MOST, _ANY = 1 << 31, (1 << 63) - 1, sys.float_info.max

_BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("time", "started_at", "ended_at", "bucket", "mtime"), (0, LATEST)),
    **dict.fromkeys(("clock_offset", "clock_error"), (-LATEST, LATEST)),
    **dict.fromkeys(
        ("rank", "local_rank", "device_index", "world_size", "n_nodes", "sm_count", "pid", "n_processes"), (0, _MANY)
    ),
    **dict.fromkeys(
        ("first_rowid", "last_rowid", "size", "zero", "memory_total", "power_limit", "max_sm_clock"), (0, _MOST)
    ),
    "gpu": (0, MOST_KEYS - 1),
    "sampling_ms": (1e-3, 1e10),
    "exit_code": (-_MANY, _MANY),
}
"""Least and greatest; other numbers are any finite ones."""

_Check = Callable[[Any], Any]


def number_within(value: Any, greatest: float = _ANY) -> float | None:
    """Return the value unchanged if it is a number from -``greatest`` to ``greatest``; None otherwise."""
    return value if isinstance(value, (int, float)) and -greatest <= value <= greatest else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _digest(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= MOST_DIGEST else None


def _blob(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) else None


def _make_bounds_check(least: float, greatest: float, whole: bool) -> _Check:
    """Make the check of a column of numbers: it returns a value from ``least`` to ``greatest``, both included, as it is,
    and None for anything else. With ``whole`` only integers pass."""

    def check(value: Any) -> Any:
        fits = isinstance(value, int) or (not whole and isinstance(value, float))
        return value if fits and least <= value <= greatest else None

    return check


def _check_of(name: str, kind: str) -> _Check:
    """Return the function that checks the values of a column with this name and SQL type: it returns the value, or None
    if it cannot be."""
    if kind.startswith("TEXT"):
        return _digest if name == "digest" else _text
    if kind.startswith("BLOB"):
        return _blob
    return _make_bounds_check(*_BOUNDS.get(name, (-_ANY, _ANY)), whole=kind.startswith("INTEGER"))


@cache
def _checks(table: str, names: tuple[str, ...]) -> tuple[tuple[_Check, bool], ...]:
    """Return for each column its check, and whether a row without a value of it is left out."""
    types = {column.name: column.type for column in TABLES[table]}
    return tuple(
        (_check_of(name, types[name]), "NOT NULL" in types[name] or "PRIMARY KEY" in types[name]) for name in names
    )


def sound_rows(table: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Check rows of these columns of a table. A value that cannot be becomes None, and a row that lacks what it must
    have is left out."""
    checks = _checks(table, tuple(names))
    sound = []
    for row in rows:
        values = tuple(check(value) for (check, _), value in zip(checks, row))
        if not any(value is None and needed for (_, needed), value in zip(checks, values)):
            sound.append(values)
    return sound
