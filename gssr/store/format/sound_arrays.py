"""Samples, rollups and sketches as arrays, as far as they are what a writer of ours could have written: see
gssr.store.format.limits for the small tables. A value that can't be is NaN, unknown; a row of which nobody could tell where
it belongs is left out.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.store.format.buckets import FLAGS_END, Buckets
from gssr.store.format.layout import HEAD, Layout
from gssr.store.format.limits import GREATEST as GREATEST
from gssr.store.format.limits import LATEST, MOST_KEYS, number_within

_GREATEST_SUM = 1e90
_COUNTS_END = 2.0**63
_ROWIDS_END = 1 << 62
_NUMBERS = frozenset({int, float, type(None)})
_SLACK = 1e-9
"""Sums are off by rounding, relative to what they are made of."""


def sound_numbers(rows: Sequence[tuple[Any, ...]]) -> tuple[Floats, bool]:
    """Convert rows (at least one) to float64[n, columns], NaN for NULL and for values that cannot be. Returns it, and
    True if there were no such values."""
    sound = _NUMBERS.issuperset(map(type, chain.from_iterable(rows)))  # numpy takes '1_0', and b"1", for numbers
    own = rows if sound else [[number_within(value) for value in row] for row in rows]
    table = np.array(own, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        if np.fmax.reduce(np.abs(table), axis=None, initial=0.0) > GREATEST:
            table[np.abs(table) > GREATEST] = np.nan
            sound = False
    return table, sound


def sound_samples(rows: Sequence[tuple[Any, ...]]) -> tuple[Floats, bool]:
    """Convert rows of ``samples`` (GPU key, time, values) to float64[n, columns], NaN for NULL. Rows without a possible
    GPU and time are left out. Returns it, and True if everything was sound."""
    table, sound = sound_numbers(rows)
    with np.errstate(invalid="ignore"):
        key, time = table[:, 0], table[:, 1]
        placed = (key >= 0) & (key < MOST_KEYS) & (key == np.floor(key)) & (time >= 0) & (time <= LATEST)
    return (table, sound) if placed.all() else (table[placed], False)


def sound_buckets(rows: list[tuple[Any, ...]], level: int) -> tuple[Ints, list[tuple[Any, ...]]]:
    """Leave out rows that are no buckets of ``level`` seconds. Rows begin with GPU key and start, and end with a blob.
    Returns keys and starts, int64[n, 2], and the rows that are left."""
    if not all(type(row[-1]) is bytes for row in rows):
        rows = [row for row in rows if type(row[-1]) is bytes]
    if not all(type(row[0]) is int and type(row[1]) is int for row in rows):
        rows = [row for row in rows if type(row[0]) is int and type(row[1]) is int]
    heads = _columns(rows, 0, 2)
    fit = are_placed(heads[:, 0], heads[:, 1], level)
    if fit.all():
        return heads, rows
    return heads[fit], [row for row, fits in zip(rows, fit.tolist(), strict=True) if fits]


def are_placed(key: Ints, start: Ints | Floats, level: int) -> Flags:
    """Tell which rows have the key of a GPU and the start of a bucket of ``level`` seconds, bool[n]."""
    return np.asarray((key >= 0) & (key < MOST_KEYS) & (start >= 0) & (start <= LATEST) & (start % level == 0), bool)


def _columns(rows: Sequence[tuple[Any, ...]], first: int, end: int) -> Ints:
    """Convert the columns ``first`` to ``end`` - 1 of rows to int64[n, columns]."""
    return np.array(list(zip(*rows, strict=True))[first:end], np.int64).reshape(end - first, -1).T


def are_rollups(buckets: Buckets, level: int) -> Flags:
    """Tell which buckets of ``level`` seconds, whose rowids are known, hold numbers that are possible and fit together,
    bool[n].

    That is: no more values than rows, a mean between least and greatest, no wider spread than these allow (Popoviciu
    1935), no counter that falls, and at least as many rowids as rows.
    """
    vectors, starts = buckets.vectors, buckets.start
    assert buckets.rowids is not None
    with np.errstate(invalid="ignore", over="ignore"):
        fine: Flags = np.ones(len(vectors), bool)
        if (vectors > _GREATEST_SUM).any() or (vectors < -_GREATEST_SUM).any():
            fine = np.all(~(np.abs(vectors) > _GREATEST_SUM), axis=1)
        n_rows, n_gaps, begin, end = (vectors[:, place] for place in range(4))
        fine &= (n_rows >= 1) & (n_rows < _COUNTS_END) & (n_gaps >= 0) & (n_gaps < n_rows)
        fine &= (begin >= starts) & (begin <= end) & (end <= starts + level)
        for metric, at, width in buckets.layout.blocks:
            n = vectors[:, at]
            own = (n >= 0) & (n <= n_rows)
            if metric.kind == "bits":
                own &= (vectors[:, at + 1] >= 0) & (vectors[:, at + 1] < FLAGS_END)
                for place in range(at + 2, at + width):
                    own &= (vectors[:, place] >= 0) & (vectors[:, place] <= n)
            elif metric.kind == "counter":
                own &= (n == 0) | ((vectors[:, at + 3] >= 0) & np.isfinite(vectors[:, at + 1] + vectors[:, at + 2]))
            else:
                total, squares, low, high = vectors[:, at + 1 : at + 5].T
                height = np.maximum(np.abs(low), np.abs(high))
                slack = _SLACK * n * height
                inside = (total >= n * low - slack) & (total <= n * high + slack) & (low <= high)
                spread = (squares >= 0) & (squares <= n * np.square(high - low) / 4 * (1 + _SLACK) + slack * height)
                own &= (n == 0) | (inside & spread)
            fine &= own
        first, last = buckets.rowids.T
        possible = (first > 0) & (first < _ROWIDS_END) & (last < _ROWIDS_END)
        fine &= possible & (last - np.where(possible, first, 0) + 1 >= n_rows)
    return np.asarray(fine, bool)


def are_vectors(keys: Ints, blobs: Sequence[bytes], layout: Layout) -> list[bool]:
    """Check each rollup blob's length: a multiple of 8, at least a head and at most what the layout says, and equal to
    the longest of its GPU (``keys`` [n]), as all of a run's were written by one version."""
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
    """Read the first and last rowid of rollups, int64[n, 2]; (0, 0) where they are no numbers. Rows are (GPU, start,
    first rowid, last rowid, blob)."""
    if all(type(row[2]) is int and type(row[3]) is int for row in rows):
        return _columns(rows, 2, 4)
    ends = [row[2:4] if type(row[2]) is int and type(row[3]) is int else (0, 0) for row in rows]
    return np.array(ends, np.int64).reshape(-1, 2)


assert HEAD[:4] == ("n_rows", "n_gaps", "first_time", "last_time")  # told by their places above
