"""Do rollups count every sample of a run that has ended? What they don't is counted anew, from the samples.

The coarsest rollups are held against the rowids, of which samples take one each; finer ones against the coarser, which
count the same samples, when they are read. So whatever is missing shows, and what could not have been written
(gssr.store.format.sound_arrays) counts as missing. However much that is, the samples are read once for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints, select
from gssr.store.format.buckets import Buckets, no_buckets
from gssr.store.format.layout import Layout, part_of
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS
from gssr.store.pages.sample_pages import SampleQuery
from gssr.store.read.recording_file import Part
from gssr.store.read.samples import in_threads
from gssr.store.read.window_edges import ALL_TIME, Window, codes_of, positions_of, starts_of

LONGEST = LEVELS[-1]
_ROLLUPS_AT_ONCE = 1024
_HEADS_KEPT, _HEADS_OF = 16, 4096
"""Whoever looks at a window in several ways asks for the same heads each time; of so many GPUs at most they are kept."""


class RollupCounts(NamedTuple):
    """``codes`` [n], ascending: the buckets of LONGEST seconds that rollups count, and ``rows`` [n] the samples in each.
    ``lost``: those whose samples they don't count, or not all."""

    codes: Ints
    rows: Ints
    lost: Ints


def counted(part: Part) -> RollupCounts:
    """Count, once, what the coarsest rollups count of a part whose run has ended. Where their sum is not the number of
    rowids every sample is looked at."""
    known = part.shard.counted
    if (part.first, part.last) not in known:
        known[part.first, part.last] = _count(part)
    found: RollupCounts = known[part.first, part.last]
    return found


def _count(part: Part) -> RollupCounts:
    layout = part_of(part.shard.file.layout, ())
    keys = part.keys(None) if len(part.shard.file.runs) > 1 else None  # else also those of GPUs whose rows don't count
    rolled = part.shard.rollups.rollups(LONGEST, keys, -np.inf, np.inf, layout, counted_anew=True)
    n_rows, n_rowids = int(rolled.vectors[:, 0].sum()), part.last + 1 - part.first
    rolled = replace(rolled, gpu=part.positions(rolled.gpu))
    codes, rows = _counts(rolled.of(rolled.gpu >= 0))
    if n_rows == n_rowids:
        return RollupCounts(codes, rows, np.empty(0, np.int64))
    found, n = _in_samples(part)
    young = starts_of(found) >= part.thinned
    found, n = found[young], n[young]
    place = np.searchsorted(codes, found)
    there = place < len(codes)
    there[there] = codes[place[there]] == found[there]
    told = np.zeros(len(found), np.int64)
    told[there] = rows[place[there]]
    # With fewer rows than rowids samples may be missing that a full disk had no space for.
    lost: Ints = found[told != n if n_rows > n_rowids else told < n]
    kept = ~np.isin(codes, lost)
    return RollupCounts(codes[kept], rows[kept], lost)


def _counts(buckets: Buckets) -> tuple[Ints, Ints]:
    """Return the numbers of buckets, ascending, and how many samples each has."""
    codes = codes_of(buckets.gpu, buckets.start)
    order = np.argsort(codes)
    return codes[order], buckets.vectors[order, 0].astype(np.int64)


def _in_samples(part: Part) -> tuple[Ints, Ints]:
    """Count the samples of each GPU in each bucket of LONGEST seconds. Returns the buckets that have any, as codes of GPU
    and start together (``codes_of``) in ascending order, and the number of samples of each."""
    codes, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for gpu, time, _ in in_threads(part.pieces([], None, -np.inf, np.inf)):
        found, n = np.unique(codes_of(gpu, time // LONGEST * LONGEST), return_counts=True)
        codes.append(found)
        counts.append(n)
    found, group = np.unique(np.concatenate(codes), return_inverse=True)
    return found, np.bincount(group, np.concatenate(counts), len(found)).astype(np.int64)


def slices(part: Part, window: Window, level: int) -> Iterator[Window]:
    """Cut the window into pieces none of which has many rollups of a level, nor cuts one."""
    known = counted(part)
    starts = np.unique(starts_of(np.concatenate([known.codes, known.lost])))  # a wrong time may be years apart
    n = max(1, _ROLLUPS_AT_ONCE * level // LONGEST // max(1, len(part.position)))
    cuts: list[int] = starts[n::n].tolist()
    yield from window.at(cuts)


class Rolled(NamedTuple):
    """The rollups of a level that lie in a window, and the stretches, by their numbers, of ``seconds`` each, in which they
    do not count what they should: rollups in these are left out."""

    buckets: Buckets
    wrong: Ints
    seconds: int


def rollups(part: Part, level: int, gpus: Ints | None, window: Window, layout: Layout) -> Rolled:
    """Read the rollups of a level in a window, of these GPUs (positions; None: all), as far as they are sound."""
    keys = part.keys(gpus)
    if not part.ended:
        return Rolled(unchecked(part, level, keys, window, layout), np.empty(0, np.int64), level)
    lower, upper = _clipped(part, window)
    if np.ceil(lower / level) * level + level > upper:  # there is room for none
        return Rolled(no_buckets(layout), np.empty(0, np.int64), level)
    seconds = _held_against(level, lower, upper)
    lower, upper = np.ceil(lower / level) * level, np.floor(upper / level) * level
    low, high = np.floor(lower / seconds) * seconds, np.ceil(upper / seconds) * seconds
    buckets = unchecked(part, level, keys, Window(lower, upper), layout)
    codes = codes_of(buckets.gpu, buckets.start)
    pieces = Window(low, lower), Window(upper, high)
    beside = [_heads(part, gpus, level, piece) for piece in pieces if piece.start < piece.end]
    all_codes = np.concatenate([codes, *(own for own, _ in beside)])
    rows = np.concatenate([buckets.vectors[:, 0], *(own for _, own in beside)])
    wrong = _wrong(part, gpus, stretches_of(all_codes, seconds), rows, seconds, Window(low, high))
    if len(wrong):
        buckets = buckets.of(~np.isin(stretches_of(codes, seconds), wrong))
        part.shard.recounted.update((part.first, code) for code in stretches_of(wrong).tolist())
    return Rolled(buckets, wrong, seconds)


def stretches_of(codes: Ints, seconds: int = LONGEST) -> Ints:
    """Find the stretches of so many seconds in which buckets lie. Both are numbers (gssr.store.read.window_edges)."""
    return codes - starts_of(codes) % seconds


def _heads(part: Part, gpus: Ints | None, level: int, window: Window) -> tuple[Ints, Ints]:
    """Read how many samples each bucket of a level in a window has. Returns the buckets by their numbers, ascending, and the
    counts."""
    known, key = part.shard.heads, (part.first, level, window)
    if len(part.position) > _HEADS_OF or (gpus is not None and len(gpus) < len(part.position) // 8):
        return _read_heads(part, gpus, level, window)
    if key not in known:
        if len(known) >= _HEADS_KEPT:
            known.clear()
        known[key] = _read_heads(part, None, level, window)
    codes, rows = known[key]
    own = _within(gpus, codes, window)
    return codes[own], rows[own]


def _read_heads(part: Part, gpus: Ints | None, level: int, window: Window) -> tuple[Ints, Ints]:
    layout = part_of(part.shard.file.layout, ())
    return _counts(unchecked(part, level, part.keys(gpus), window, layout))


def _clipped(part: Part, window: Window) -> Window:
    """Clip a window to what can hold rollups; of thinned samples more than is counted of may be left."""
    known = counted(part)
    starts = starts_of(np.concatenate([known.codes, known.lost]))
    if not len(starts) or part.thinned > -np.inf:
        return window
    lower = max(window.start, float(starts.min()))
    return Window(lower, max(min(window.end, float(starts.max()) + LONGEST), lower))


def unchecked(part: Part, level: int, keys: list[int] | None, window: Window, layout: Layout) -> Buckets:
    """Return the rollups of a level in a window, of these GPUs (keys; None: all), whatever they count."""
    if window.end - window.start < level:
        return no_buckets(layout)
    rolled = part.shard.rollups.rollups(level, keys, *window, layout, counted_anew=part.ended)
    gpu = part.positions(rolled.gpu)
    return replace(rolled, gpu=gpu).of(part.sound(gpu))


def _held_against(level: int, lower: float, upper: float) -> int:
    """Choose the level whose buckets tell what those of ``level`` in [lower, upper) should count: the one that asks for less
    to be read. The window is widened to its buckets."""
    if level != LEVELS[0] or not (np.isfinite(lower) or np.isfinite(upper)):
        return LONGEST
    beyond = (lower % LONGEST if np.isfinite(lower) else 0.0) + (-upper % LONGEST if np.isfinite(upper) else 0.0)
    return LEVELS[1] if upper - lower < beyond * LEVELS[1] / level else LONGEST


def _wrong(part: Part, gpus: Ints | None, mine: Ints, rows: Floats, seconds: int, window: Window) -> Ints:
    """Find the whole buckets of ``seconds`` in the window whose samples the finer buckets ``mine`` (numbers), of so many
    ``rows``, do not all count."""
    codes, expected, lost = _expected(part, gpus, seconds, window)
    place = np.searchsorted(codes, mine)
    known = place < len(codes)
    known[known] = codes[place[known]] == mine[known]
    sums = np.bincount(place[known], rows[known], len(codes))
    return np.unique(np.concatenate([codes[sums != expected], mine[~known], lost]))


def _expected(part: Part, gpus: Ints | None, seconds: int, window: Window) -> tuple[Ints, Ints, Ints]:
    """Find what the buckets of ``seconds`` in the window should count. Returns the buckets by their numbers, ascending, how
    many samples each has, and the buckets of which it is known that rollups tell this wrongly."""
    known = counted(part)
    lost = (known.lost[:, None] + np.arange(0, LONGEST, seconds)).reshape(-1)
    lost = lost[_within(gpus, lost, window)]
    if seconds == LONGEST:
        inside = _within(gpus, known.codes, window)
        return known.codes[inside], known.rows[inside], lost
    return *_heads(part, gpus, seconds, window), lost


def _within(gpus: Ints | None, codes: Ints, window: Window) -> Flags:
    """Flag the buckets [n], given by their numbers, that are of the GPUs and in the window."""
    start = starts_of(codes)
    inside = (start >= window.start) & (start < window.end)
    return np.asarray(inside if gpus is None else inside & np.isin(positions_of(codes), gpus), bool)


def samples_of(part: Part, names: Sequence[str], codes: Ints, seconds: int, window: Window) -> Iterator[Samples]:
    """Read the samples in a window that lie in these stretches of ``seconds`` (numbers: gssr.store.read.window_edges), in
    pieces, with values of stored metrics. Thinned samples can't be counted any more: then the file is damaged."""
    begins = starts_of(codes)
    if (begins < part.thinned).any():
        part.shard.file.damaged("rollups of samples that are thinned")
        codes, begins = select(begins >= part.thinned, codes, begins)
    if not len(codes):
        return
    low, high = max(window.start, float(begins.min())), min(window.end, float(begins.max()) + seconds)
    wanted = SampleQuery(names, part.keys(np.unique(positions_of(codes))), 0, 0, low, high)
    for samples in in_threads(part.pieces_in(part.searched(low, high), wanted)):
        own = np.isin(codes_of(samples.gpu, samples.time // seconds * seconds), codes)
        if own.any():
            yield samples.of(own)


def wrong_stretches(part: Part) -> Ints:
    """Find the stretches of LONGEST seconds in which rollups of any level do not count what they should, or hold what can't
    be. Returns their numbers."""
    for level in LEVELS:
        for window in slices(part, ALL_TIME, level):
            rollups(part, level, None, window, part.shard.file.layout)
    return np.array(sorted(code for first, code in part.shard.recounted if first == part.first), np.int64)
