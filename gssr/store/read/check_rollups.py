"""Do rollups count every sample of a run that has ended? What they don't is counted anew, from the samples.

The coarsest rollups are held against the rowids, of which samples take one each; finer ones against the coarser, which
count the same samples, when they are read. So whatever is missing shows, and what could not have been written
(gssr.store.format.sound_arrays) counts as missing. However much that is, the samples are read once for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gssr.arrays import Flags, Floats, Ints, select
from gssr.store.format.buckets import Buckets, no_buckets
from gssr.store.format.layout import Layout, part_of
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS
from gssr.store.pages.sample_pages import SampleQuery
from gssr.store.read.bucket_numbers import codes_of, positions_of, starts_of
from gssr.store.read.recording_file import Part
from gssr.store.read.samples import run_in_threads
from gssr.store.read.time_window import ALL_TIME, Window

LONGEST = LEVELS[-1]
_ROLLUPS_AT_ONCE = 1024
_HEADS_KEPT, _HEADS_OF = 16, 4096
"""Whoever looks at a window in several ways asks for the same heads each time; of so many GPUs at most they are kept."""


def count_coarsest(part: Part) -> tuple[Ints, Ints, Ints]:
    """Find out which samples the coarsest rollups of a part count, whose run has ended. It is done once and kept with
    the file. If their sum is not the number of rowids, every sample is looked at to find the buckets that are wrong.

    Returns the numbers of the buckets of LONGEST seconds that rollups count (``codes_of``), ascending, the samples in each,
    and the numbers of those whose samples they don't count, or not all; int64.
    """
    known = part.shard.coarsest_counts
    if (part.first, part.last) not in known:
        known[part.first, part.last] = _check_counts(part)
    found: tuple[Ints, Ints, Ints] = known[part.first, part.last]
    return found


def _check_counts(part: Part) -> tuple[Ints, Ints, Ints]:
    """Compare how many samples the coarsest rollups of a part count with the number of its rowids, and, if they differ,
    with its samples bucket by bucket. Buckets that begin before ``part.thinned`` are not compared. Returns the arrays
    that ``count_coarsest`` returns."""
    layout = part_of(part.shard.file.layout, ())
    keys = (
        part.keys_of(None) if len(part.shard.file.runs) > 1 else None
    )  # else also those of GPUs whose rows don't count
    rolled = part.shard.rollups.rollups(LONGEST, keys, -np.inf, np.inf, layout, counted_anew=True)
    n_rows, n_rowids = int(rolled.vectors[:, 0].sum()), part.last + 1 - part.first
    rolled = replace(rolled, gpu=part.positions(rolled.gpu))
    codes, rows = _counts_of(rolled.of(rolled.gpu >= 0))
    if n_rows == n_rowids:
        return codes, rows, np.empty(0, np.int64)
    found, n = _count_in_samples(part)
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
    return codes[kept], rows[kept], lost


def _counts_of(buckets: Buckets) -> tuple[Ints, Ints]:
    """Return the numbers of these buckets (``codes_of``), ascending, and the number of rows in each, int64[n] both."""
    codes = codes_of(buckets.gpu, buckets.start)
    order = np.argsort(codes)
    return codes[order], buckets.vectors[order, 0].astype(np.int64)


def _count_in_samples(part: Part) -> tuple[Ints, Ints]:
    """Count the samples of each GPU in each bucket of LONGEST seconds. Returns the buckets that have any, as codes of GPU
    and start together (``codes_of``) in ascending order, and the number of samples of each."""
    codes, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for gpu, time, _ in run_in_threads(part.pieces([], None, -np.inf, np.inf)):
        found, n = np.unique(codes_of(gpu, time // LONGEST * LONGEST), return_counts=True)
        codes.append(found)
        counts.append(n)
    found, group = np.unique(np.concatenate(codes), return_inverse=True)
    return found, np.bincount(group, np.concatenate(counts), len(found)).astype(np.int64)


def cut_into_slices(part: Part, window: Window, level: int) -> Iterator[Window]:
    """Cut the window, in a part whose run has ended, into pieces that hold about _ROLLUPS_AT_ONCE rollups of ``level``
    seconds or fewer, if possible. It is cut only where a bucket of the coarsest level begins. Yields the pieces in
    order."""
    codes, _, lost = count_coarsest(part)
    starts = np.unique(starts_of(np.concatenate([codes, lost])))  # a wrong time may be years apart
    n = max(1, _ROLLUPS_AT_ONCE * level // LONGEST // max(1, len(part.position)))
    cuts: list[int] = starts[n::n].tolist()
    yield from window.at(cuts)


def read_checked_rollups(
    part: Part, level: int, gpus: Ints | None, window: Window, layout: Layout
) -> tuple[Buckets, Ints, int]:
    """Read the rollups of ``level`` seconds that lie in a window as a whole, and in an ended run check what they count.

    ``gpus`` are positions, None: all; ``layout`` is that of the result. Returns the buckets without those that lie in a
    stretch in which rollups of this level do not count what coarser ones say, the numbers of these stretches, and the
    length of each in s. The stretches are also entered into ``part.shard.recounted``. In an unended run nothing is checked.
    """
    keys = part.keys_of(gpus)
    if not part.ended:
        return read_unchecked_rollups(part, level, keys, window, layout), np.empty(0, np.int64), level
    if level < part.shard.rollups.finest_level(part.position):
        return no_buckets(layout), np.empty(0, np.int64), level
    lower, upper = _clip_to_rollups(part, window)
    if np.ceil(lower / level) * level + level > upper:  # there is room for none
        return no_buckets(layout), np.empty(0, np.int64), level
    seconds = _choose_reference_level(level, lower, upper)
    lower, upper = np.ceil(lower / level) * level, np.floor(upper / level) * level
    low, high = np.floor(lower / seconds) * seconds, np.ceil(upper / seconds) * seconds
    buckets = read_unchecked_rollups(part, level, keys, Window(lower, upper), layout)
    codes = codes_of(buckets.gpu, buckets.start)
    pieces = Window(low, lower), Window(upper, high)
    beside = [_row_counts(part, gpus, level, piece) for piece in pieces if piece.start < piece.end]
    all_codes = np.concatenate([codes, *(own for own, _ in beside)])
    rows = np.concatenate([buckets.vectors[:, 0], *(own for _, own in beside)])
    wrong = _find_wrong_buckets(part, gpus, stretches_of(all_codes, seconds), rows, seconds, Window(low, high))
    if len(wrong):
        buckets = buckets.of(~np.isin(stretches_of(codes, seconds), wrong))
        part.shard.recounted.update((part.first, code) for code in stretches_of(wrong).tolist())
    return buckets, wrong, seconds


def stretches_of(codes: Ints, seconds: int = LONGEST) -> Ints:
    """Find the stretches of so many seconds in which buckets lie. Both are numbers (gssr.store.read.bucket_numbers)."""
    return codes - starts_of(codes) % seconds


def _row_counts(part: Part, gpus: Ints | None, level: int, window: Window) -> tuple[Ints, Ints]:
    """Read how many rows each bucket of ``level`` seconds in a window counts. ``gpus`` are positions, None: all. Returns
    the numbers of the buckets (``codes_of``), ascending, and their counts, int64[n] both. The last few answers about all
    GPUs are kept, unless the part has very many."""
    known, key = part.shard.row_counts, (part.first, level, window)
    if len(part.position) > _HEADS_OF or (gpus is not None and len(gpus) < len(part.position) // 8):
        return _read_row_counts(part, gpus, level, window)
    if key not in known:
        if len(known) >= _HEADS_KEPT:
            known.clear()
        known[key] = _read_row_counts(part, None, level, window)
    codes, rows = known[key]
    own = _are_within(gpus, codes, window)
    return codes[own], rows[own]


def _read_row_counts(part: Part, gpus: Ints | None, level: int, window: Window) -> tuple[Ints, Ints]:
    layout = part_of(part.shard.file.layout, ())
    return _counts_of(read_unchecked_rollups(part, level, part.keys_of(gpus), window, layout))


def _clip_to_rollups(part: Part, window: Window) -> Window:
    """Narrow a window (unix s) to the time from the first to the last of the coarsest buckets that the part has. It is
    returned as it is if there are none, or if samples were thinned: then finer rollups may be left of other times."""
    codes, _, lost = count_coarsest(part)
    starts = starts_of(np.concatenate([codes, lost]))
    if not len(starts) or part.thinned > -np.inf:
        return window
    lower = max(window.start, float(starts.min()))
    return Window(lower, max(min(window.end, float(starts.max()) + LONGEST), lower))


def read_unchecked_rollups(part: Part, level: int, keys: list[int] | None, window: Window, layout: Layout) -> Buckets:
    """Read the rollups of ``level`` seconds that lie in a window as a whole, without comparing what they count with
    anything. ``keys`` are the GPUs' keys in the file, None: all. Returns them in ``layout``, with positions for GPUs;
    empty if the window is shorter than a bucket. Rollups of GPUs that the run does not have are left out."""
    if window.end - window.start < level:
        return no_buckets(layout)
    rolled = part.shard.rollups.rollups(level, keys, *window, layout, counted_anew=part.ended)
    gpu = part.positions(rolled.gpu)
    return replace(rolled, gpu=gpu).of(part.are_listed(gpu))


def _choose_reference_level(level: int, lower: float, upper: float) -> int:
    """Choose with which coarser level to compare the buckets of ``level`` seconds in [lower, upper), unix s, whose ends
    are widened to whole buckets of the chosen level. Returns its length in s: the coarsest, or, for the finest buckets
    in a short window, the level in between if less has to be read then."""
    if level != LEVELS[0] or not (np.isfinite(lower) or np.isfinite(upper)):
        return LONGEST
    beyond = (lower % LONGEST if np.isfinite(lower) else 0.0) + (-upper % LONGEST if np.isfinite(upper) else 0.0)
    return LEVELS[1] if upper - lower < beyond * LEVELS[1] / level else LONGEST


def _find_wrong_buckets(part: Part, gpus: Ints | None, mine: Ints, rows: Floats, seconds: int, window: Window) -> Ints:
    """Find the buckets of ``seconds`` in the window whose samples finer rollups do not count exactly.

    Args:
        part: The part of a file, whose run has ended.
        gpus: Positions of the GPUs; None: all.
        mine: For each finer bucket [n], the number of the bucket of ``seconds`` that it lies in.
        rows: The number of rows that each finer bucket counts [n].
        seconds: The length of the buckets that tell what should be counted.
        window: Whole buckets of ``seconds``, unix s.

    Returns their numbers, ascending: those with another sum, those that should not be there, and those that the coarsest
    rollups are known not to count.
    """
    codes, expected, lost = _expected_counts(part, gpus, seconds, window)
    place = np.searchsorted(codes, mine)
    known = place < len(codes)
    known[known] = codes[place[known]] == mine[known]
    sums = np.bincount(place[known], rows[known], len(codes))
    return np.unique(np.concatenate([codes[sums != expected], mine[~known], lost]))


def _expected_counts(part: Part, gpus: Ints | None, seconds: int, window: Window) -> tuple[Ints, Ints, Ints]:
    """Find how many rows the buckets of ``seconds`` in the window should count, for these GPUs (positions; None: all).
    Returns the buckets' numbers, ascending, the rows of each, and the numbers of buckets whose samples the coarsest
    rollups are known not to count, or not all."""
    codes, rows, uncounted = count_coarsest(part)
    lost = (uncounted[:, None] + np.arange(0, LONGEST, seconds)).reshape(-1)
    lost = lost[_are_within(gpus, lost, window)]
    if seconds == LONGEST:
        inside = _are_within(gpus, codes, window)
        return codes[inside], rows[inside], lost
    return *_row_counts(part, gpus, seconds, window), lost


def _are_within(gpus: Ints | None, codes: Ints, window: Window) -> Flags:
    """Flag the buckets [n], given by their numbers (``codes_of``), that belong to these GPUs (positions; None: any) and
    begin in the window."""
    start = starts_of(codes)
    inside = (start >= window.start) & (start < window.end)
    return np.asarray(inside if gpus is None else inside & np.isin(positions_of(codes), gpus), bool)


def read_samples_in(part: Part, names: Sequence[str], codes: Ints, seconds: int, window: Window) -> Iterator[Samples]:
    """Read the samples of a window that lie in some stretches of ``seconds``, with the values of the stored metrics
    ``names``. ``codes`` are the numbers of the stretches (``codes_of``: GPU and start). Yields pieces, none of them
    empty. Samples that were thinned can't be read any more: their stretches are left out, and the file is noted as
    damaged."""
    begins = starts_of(codes)
    if (begins < part.thinned).any():
        part.shard.file.damaged("rollups of samples that are thinned")
        codes, begins = select(begins >= part.thinned, codes, begins)
    if not len(codes):
        return
    low, high = max(window.start, float(begins.min())), min(window.end, float(begins.max()) + seconds)
    wanted = SampleQuery(names, part.keys_of(np.unique(positions_of(codes))), 0, 0, low, high)
    for samples in run_in_threads(part.pieces_in(part.find_ranges(low, high), wanted)):
        own = np.isin(codes_of(samples.gpu, samples.time // seconds * seconds), codes)
        if own.any():
            yield samples.of(own)


def find_wrong_stretches(part: Part) -> Ints:
    """Compare all rollups of a part whose run has ended, and return the numbers of the stretches of LONGEST seconds that
    are wrong, ascending: rollups there count other samples than they should, or hold values that are impossible.
    Stretches of this part that were found wrong before, by whatever was read of it, are among them."""
    for level in LEVELS:
        for window in cut_into_slices(part, ALL_TIME, level):
            read_checked_rollups(part, level, None, window, part.shard.file.layout)
    return np.array(sorted(code for first, code in part.shard.recounted if first == part.first), np.int64)
