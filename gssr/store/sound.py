"""Samples, rollups and sketches as arrays, as far as they are what a writer of ours could have written: see
gssr.store.values for the small tables. A value that can't be is NaN, unknown; a row of which nobody could tell where it
belongs is left out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gssr.store.layout import HEAD, Layout
from gssr.store.moments import Flags, Floats, Ints
from gssr.store.values import GREATEST as GREATEST
from gssr.store.values import LATEST, MOST_KEYS, number

_GREATEST_SUM = 1e90
_COUNTS_END = 2.0**63
_ROWIDS_END = 1 << 62


def sound_numbers(rows: Sequence[tuple[Any, ...]]) -> tuple[Floats, bool]:
    """Rows, one at least, as float64 [n, columns], NaN for NULL and for what can't be; and whether nothing was that."""
    try:
        table, sound = np.array(rows, dtype=np.float64), True
    except (ValueError, TypeError, OverflowError):
        table, sound = np.array([[number(value) for value in row] for row in rows], dtype=np.float64), False
    with np.errstate(invalid="ignore"):
        if np.fmax.reduce(np.abs(table), axis=None, initial=0.0) > GREATEST:
            table[np.abs(table) > GREATEST] = np.nan
            sound = False
    return table, sound


def sound_samples(rows: Sequence[tuple[Any, ...]]) -> tuple[Floats, bool]:
    """Rows of ``samples``, (GPU key, time, values), as float64 [n, columns], NaN for NULL; and whether all were sound."""
    table, sound = sound_numbers(rows)
    with np.errstate(invalid="ignore"):
        key, time = table[:, 0], table[:, 1]
        placed = (key >= 0) & (key < MOST_KEYS) & (key == np.floor(key)) & (time >= 0) & (time <= LATEST)
    return (table, sound) if placed.all() else (table[placed], False)


def sound_buckets(rows: list[tuple[Any, ...]], level: int) -> tuple[Ints, list[tuple[Any, ...]]]:
    """GPU keys and starts, int64 [n, 2], of rows that begin with them and end with a blob; and the rows, without those that
    are no buckets of ``level`` seconds."""
    if not all(type(row[-1]) is bytes for row in rows):
        rows = [row for row in rows if type(row[-1]) is bytes]
    try:
        heads = _columns(rows, 0, 2)
    except (ValueError, TypeError, OverflowError):
        rows = [row for row in rows if type(row[0]) is int and type(row[1]) is int]
        heads = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
    fit = are_placed(heads[:, 0], heads[:, 1], level)
    if fit.all():
        return heads, rows
    return heads[fit], [row for row, fits in zip(rows, fit.tolist(), strict=True) if fits]


def are_placed(key: Ints, start: Ints, level: int) -> Flags:
    """[n]: which are the keys of GPUs and the starts of buckets of ``level`` seconds."""
    return np.asarray((key >= 0) & (key < MOST_KEYS) & (start >= 0) & (start <= LATEST) & (start % level == 0), bool)


def _columns(rows: Sequence[tuple[Any, ...]], first: int, end: int) -> Ints:
    """Some columns of rows as int64 [n, columns]; by columns that is five times as fast."""
    return np.array(list(zip(*rows, strict=True))[first:end], np.int64).reshape(end - first, -1).T


def counts_in(layout: Layout) -> Ints:
    """Which numbers of a vector of this layout are counts: the rows, and each metric's n; of flags all."""
    places = [0, 1]
    for metric, start, width in layout.blocks:
        places += range(start, start + (width if metric.kind == "bits" else 1))
    return np.array(places)


def are_sound(vectors: Floats, starts: Ints, level: int, counts: Ints) -> Flags:
    """[n]: which of the rollups' vectors, of buckets of ``level`` seconds from ``starts`` on, hold what they can."""
    with np.errstate(invalid="ignore"):
        fine: Flags = np.ones(len(vectors), bool)
        if (vectors > _GREATEST_SUM).any() or (vectors < -_GREATEST_SUM).any():
            fine = np.all(~(np.abs(vectors) > _GREATEST_SUM), axis=1)
        for count in counts.tolist():
            own = vectors[:, count]
            fine &= (own >= 0) & (own < _COUNTS_END)
        first, last = vectors[:, 2], vectors[:, 3]
        fine &= (vectors[:, 0] == 0) | ((first >= starts) & (first <= last) & (last <= starts + level))
    return fine


def are_vectors(keys: Ints, blobs: Sequence[bytes], layout: Layout) -> list[bool]:
    """Which blobs of rollups are whole numbers long, have a head at least and no more than the layout says, and are as long
    as the longest of their GPU (``keys`` [n]): all of a run's were written by one version."""
    lengths = np.array([len(blob) for blob in blobs], np.int64)
    if (lengths == 8 * layout.width).all():
        return [True] * len(blobs)
    _, gpu = np.unique(keys, return_inverse=True)
    longest = np.zeros(len(lengths), np.int64)
    whole = (lengths % 8 == 0) & (lengths >= 8 * len(HEAD)) & (lengths <= 8 * layout.width)
    np.maximum.at(longest, gpu[whole], lengths[whole])
    fine: list[bool] = (whole & (lengths == longest[gpu])).tolist()
    return fine


def ranges_in(rows: Sequence[tuple[Any, ...]]) -> Ints:
    """First and last rowid, int64 [n, 2], of rollups, (GPU, start, first and last rowid, blob); (0, 0) of what are none."""
    try:
        return _columns(rows, 2, 4)
    except (ValueError, TypeError, OverflowError):
        ends = [
            row[2:4] if all(type(rowid) is int and 0 < rowid < _ROWIDS_END for rowid in row[2:4]) else (0, 0)
            for row in rows
        ]
        return np.array(ends, np.int64).reshape(-1, 2)


def are_ranges(ends: Ints, n_rows: Floats) -> Flags:
    """[n]: which first and last rowids of rollups, [n, 2], ``n_rows`` samples can have."""
    first, last = ends.T
    possible = (first > 0) & (first < _ROWIDS_END) & (last < _ROWIDS_END)
    return np.asarray(possible & (last - np.where(possible, first, 0) + 1 >= n_rows), bool)


assert HEAD[:4] == ("n_rows", "n_gaps", "first_time", "last_time")  # told by their places above
