"""Do rollups count every sample of a run that has ended? What they don't is to be counted anew, from the samples.

The coarsest rollups are held against the rowids, of which samples take one each; finer ones against the coarser, which
count the same samples. So whatever is missing shows, and what could not have been written counts as missing.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.store.layout import Layout, part_of
from gssr.store.moments import Flags, Floats, Ints, where
from gssr.store.rolled import IMPOSSIBLE
from gssr.store.schema import LEVELS

if TYPE_CHECKING:
    from gssr.store.cover import Part

LONGEST = LEVELS[-1]
_ROWS_AT_ONCE, _ROLLUPS_AT_ONCE = 1 << 20, 1024
_BUCKET = (1 << 40) - 1
_SLACK = 1e-9
"""Sums are off by rounding, relative to what they are made of."""


def codes_of(gpu: Ints, bucket: NDArray[Any]) -> Ints:
    """One number for each (position, bucket)."""
    return gpu * (1 << 40) + np.asarray(bucket, np.int64)


def starts_of(codes: Ints) -> Ints:
    """Where the buckets of these numbers begin, unix s."""
    return codes & _BUCKET


class Census(NamedTuple):
    """``codes`` [n], ascending: the buckets of LONGEST seconds that rollups count, and ``rows`` [n] the samples in each.
    ``lost``: those whose samples they don't count, or not all."""

    codes: Ints
    rows: Ints
    lost: Ints


def census(part: "Part") -> Census:
    """The census of a part whose run has ended: taken once. Where the rollups' sum is not the number of rowids every
    sample is looked at."""
    known: dict[tuple[int, int], Census] = part.shard.censuses
    if (part.first, part.last) not in known:
        known[part.first, part.last] = _take(part)
    return known[part.first, part.last]


def _take(part: "Part") -> Census:
    layout = part_of(part.shard.layout, ())
    keys = part.keys(None) if len(part.shard.runs) > 1 else None  # else also those of GPUs whose rows don't count
    key, bucket, vectors = part.shard.rolled.rollups(LONGEST, keys, -np.inf, np.inf, layout, counted_anew=True)
    key, bucket, vectors = where(fits(vectors, layout), key, bucket, vectors)
    n_rows, n_rowids = int(vectors[:, 0].sum()), part.last + 1 - part.first
    key, bucket, vectors = where(np.isin(key, list(part.position)), key, bucket, vectors)
    codes = codes_of(part.positions(key), bucket)
    order = np.argsort(codes)
    codes, rows = codes[order], vectors[order, 0].astype(np.int64)
    if n_rows == n_rowids:
        return Census(codes, rows, np.empty(0, np.int64))
    found, n = _counted(part)
    young = starts_of(found) >= part.thinned
    found, n = found[young], n[young]
    place = np.minimum(np.searchsorted(codes, found), max(len(codes) - 1, 0))
    same = (codes[place] == found) & (rows[place] >= n) if len(codes) else np.zeros(len(found), bool)
    lost: Ints = found[~same]
    if n_rows > n_rowids:  # else samples are missing that a full disk had no space for
        lost = np.unique(np.concatenate([lost, found[(codes[place] == found) & (rows[place] != n)]]))
    kept = ~np.isin(codes, lost)
    return Census(codes[kept], rows[kept], lost)


def _counted(part: "Part") -> tuple[Ints, Ints]:
    """The buckets of LONGEST seconds that have samples, and how many."""
    codes, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first, last in part.shard.raw.stretches(part.first, part.last, _ROWS_AT_ONCE, _ROWS_AT_ONCE):
        piece = part._replace(first=first, last=last)
        gpu, time, _ = piece.raw([], None, -np.inf, np.inf)
        found, n = np.unique(codes_of(gpu, time // LONGEST * LONGEST), return_counts=True)
        codes.append(found)
        counts.append(n)
    found, group = np.unique(np.concatenate(codes), return_inverse=True)
    return found, np.bincount(group, np.concatenate(counts), len(found)).astype(np.int64)


def slices(part: "Part", start: float, end: float, level: int) -> Iterator[tuple[float, float]]:
    """The window [start, end), unix s, in pieces none of which has many rollups of a level, nor cuts one."""
    known = census(part)
    starts = np.unique(starts_of(np.concatenate([known.codes, known.lost])))  # a wrong time may be years apart
    n = max(1, _ROLLUPS_AT_ONCE * level // LONGEST // max(1, len(part.position)))
    cuts: list[int] = starts[n::n].tolist()
    yield from pairwise([start, *(cut for cut in cuts if start < cut < end), end])


class Rolled(NamedTuple):
    """Rollups of a level that lie in a window: positions, starts, vectors; and the stretches, by their numbers, of
    ``seconds`` each, in which they do not count what they should: rollups in these are left out."""

    gpu: Ints
    bucket: Ints
    vectors: Floats
    wrong: Ints
    seconds: int


def rollups(part: "Part", level: int, gpus: Ints | None, lower: float, upper: float, layout: Layout) -> Rolled:
    """The rollups of a level in [lower, upper), unix s, of these GPUs (positions; None: all), as far as they are sound."""
    keys = part.keys(gpus)
    if not part.ended:
        gpu, bucket, vectors = _read(part, level, keys, lower, upper, layout)
        return Rolled(gpu, bucket, vectors, np.empty(0, np.int64), level)
    lower, upper = _clipped(part, lower, upper)
    seconds = _held_against(level, lower, upper)
    low, high = np.floor(lower / seconds) * seconds, np.ceil(upper / seconds) * seconds
    gpu, bucket, vectors = _read(part, level, keys, low, high, layout)
    wrong = _wrong(part, gpus, gpu, bucket, vectors[:, 0], seconds, (low, high))
    kept = (bucket >= lower) & (bucket + level <= upper)
    if len(wrong):
        kept &= ~np.isin(codes_of(gpu, bucket // seconds * seconds), wrong)
        part.shard.recounted.update(
            (part.first, code) for code in codes_of(wrong >> 40, starts_of(wrong) // LONGEST * LONGEST).tolist()
        )
    gpu, bucket, vectors = where(kept, gpu, bucket, vectors)
    return Rolled(gpu, bucket, vectors, wrong, seconds)


def _clipped(part: "Part", lower: float, upper: float) -> tuple[float, float]:
    """What of a window can hold rollups; of thinned samples more than the census knows of may be left."""
    known = census(part)
    starts = starts_of(np.concatenate([known.codes, known.lost]))
    if not len(starts) or part.thinned > -np.inf:
        return lower, upper
    lower = max(lower, float(starts.min()))
    return lower, max(min(upper, float(starts.max()) + LONGEST), lower)


def _read(
    part: "Part", level: int, keys: list[int] | None, lower: float, upper: float, layout: Layout
) -> tuple[Ints, Ints, Floats]:
    if upper - lower < level:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, layout.width))
    key, bucket, vectors = part.shard.rolled.rollups(level, keys, lower, upper, layout, counted_anew=part.ended)
    fine = fits(vectors, layout)
    if not (fine.all() or part.ended):
        part.shard.damaged(IMPOSSIBLE)
    key, bucket, vectors = where(part.sound(key) & fine, key, bucket, vectors)
    return part.positions(key), bucket, vectors


def _held_against(level: int, lower: float, upper: float) -> int:
    """The level whose buckets tell what those of ``level`` in [lower, upper) should count: the one that asks for less to be
    read. The window is widened to its buckets."""
    if level != LEVELS[0] or not (np.isfinite(lower) or np.isfinite(upper)):
        return LONGEST
    beyond = (lower % LONGEST if np.isfinite(lower) else 0.0) + (-upper % LONGEST if np.isfinite(upper) else 0.0)
    return LEVELS[1] if upper - lower < beyond * LEVELS[1] / level else LONGEST


def _wrong(
    part: "Part",
    gpus: Ints | None,
    gpu: Ints,
    bucket: Ints,
    rows: Floats,
    seconds: int,
    window: tuple[float, float],
) -> Ints:
    """Which buckets of ``seconds`` in the window, whole ones, have not got all their samples counted by the finer ones of
    ``gpu`` and ``bucket`` with ``rows``."""
    codes, expected, lost = _expected(part, gpus, seconds, window)
    mine = codes_of(gpu, bucket // seconds * seconds)
    place = np.searchsorted(codes, mine)
    known = place < len(codes)
    known[known] = codes[place[known]] == mine[known]
    sums = np.bincount(place[known], rows[known], len(codes))
    return np.unique(np.concatenate([codes[sums != expected], mine[~known], lost]))


def _expected(part: "Part", gpus: Ints | None, seconds: int, window: tuple[float, float]) -> tuple[Ints, Ints, Ints]:
    """Buckets of ``seconds`` in the window by their numbers, ascending; how many samples each has; and those of which that
    is known to be told wrongly."""
    known = census(part)
    lost = (known.lost[:, None] + np.arange(0, LONGEST, seconds)).reshape(-1)
    lost = lost[_within(gpus, lost, window)]
    if seconds == LONGEST:
        inside = _within(gpus, known.codes, window)
        return known.codes[inside], known.rows[inside], lost
    gpu, start, vectors = _read(part, seconds, part.keys(gpus), *window, part_of(part.shard.layout, ()))
    codes = codes_of(gpu, start)
    order = np.argsort(codes)
    return codes[order], vectors[order, 0].astype(np.int64), lost


def _within(gpus: Ints | None, codes: Ints, window: tuple[float, float]) -> Flags:
    """[n]: which buckets, by their numbers, are those of the GPUs and in the window."""
    start = starts_of(codes)
    inside = (start >= window[0]) & (start < window[1])
    return np.asarray(inside if gpus is None else inside & np.isin(codes >> 40, gpus), bool)


def fits(vectors: Floats, layout: Layout) -> Flags:
    """[n]: which vectors hold numbers that belong together: no more values than rows, a mean between least and greatest, no
    wider spread than these allow (Popoviciu 1935), no counter that falls from 0 on."""
    n_rows = vectors[:, 0]
    with np.errstate(invalid="ignore", over="ignore"):
        fine = (n_rows >= 1) & (vectors[:, 1] < n_rows)
        for metric, at, width in layout.blocks:
            n = vectors[:, at]
            own = n <= n_rows
            if metric.kind == "bits":
                own &= (vectors[:, at + 2 : at + width] <= n[:, None]).all(axis=1)
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
    return np.asarray(fine, bool)
