"""Covering a window with rollups: coarse buckets inside, finer ones towards its edges, raw rows where nothing else fits.

The writer closes buckets only when they are over, and writes them in one transaction with the rows they count. So in a
finished run closed buckets count everything; in one that still runs, or was cut off, the newest rows are counted by none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.store.format.buckets import Buckets, join_buckets
from gssr.store.format.layout import Layout
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS
from gssr.store.read import check_rollups, window_edges
from gssr.store.read.bucket_numbers import codes_of, positions_of, starts_of
from gssr.store.read.check_rollups import read_samples_in
from gssr.store.read.fold_samples import fold_samples, merge_same_buckets, stored_metrics_of
from gssr.store.read.recording_file import OPEN_SECONDS, Part
from gssr.store.read.samples import join_samples, run_in_threads
from gssr.store.read.time_window import Window

_MOST_FOLDED = 4096
"""Buckets that are waiting to be merged, at least: four megabytes."""
_GPUS_AT_ONCE = 1024
"""Each has some seven buckets in a part of a minute."""


def cover_window(
    part: Part,
    window: Window,
    coarsest: int,
    gpus: Ints | None,
    layout: Layout,
    gap_seconds: float,
    as_one: bool = True,
) -> Buckets:
    """Return buckets of a part of a file that together count every row of the window exactly once, those of different
    lengths one after the other.

    Args:
        part: The part of a file to read.
        window: The times that are covered, unix s.
        coarsest: Buckets are at most this long, s; one of LEVELS. Coarser ones are taken first, finer ones where those
            do not fit, and raw rows, folded, at the ends.
        gpus: Positions of the GPUs; None: all.
        layout: The layout of the result.
        gap_seconds: More than this between two samples of a GPU is a gap.
        as_one: Where ``keep_cut_minutes`` has read the minute that an end of the window cuts, return that as one bucket for
            each GPU.

    Samples that rollups should count and don't are read and counted anew.
    """
    taken: list[tuple[int, Ints]] = []
    out: list[Buckets] = []
    ranges = [window]
    for level in (level for level in reversed(LEVELS) if level <= coarsest):
        finer: list[Window] = []
        for own in ranges:
            if (
                as_one
                and level == LEVELS[0] < coarsest
                and (held := _kept_edges(part, [own], gpus, taken, gap_seconds, layout)) is not None
            ):
                out.append(held)
                taken.append((LEVELS[1], codes_of(held.gpu, held.start // LEVELS[1] * LEVELS[1])))
                continue
            fresh, wrong, seconds = check_rollups.read_checked_rollups(part, level, gpus, own, layout)
            fresh = fresh.of(are_uncounted(fresh.gpu, fresh.start, taken))
            out.append(fresh)
            out += _recount(part, wrong, seconds, level, taken, window, layout, gap_seconds)
            taken += [(level, codes_of(fresh.gpu, fresh.start)), (seconds, wrong)]
            anew = starts_of(wrong)
            # Counted for all GPUs, one way or the other.
            anew = anew[(anew >= own.start) & (anew + seconds <= own.end)]
            begins, lasts = np.append(fresh.start, anew), np.append(fresh.start, anew + seconds - level)
            finer += find_uncovered(own, level, begins, lasts, part.unended)
        ranges = finer
    out.append(_fold_uncounted(part, window, gpus, taken, layout, gap_seconds))
    return join_buckets([piece for piece in out if len(piece)], layout)


def keep_cut_minutes(part: Part, window: Window, gpus: Ints | None, gap_seconds: float, interval: float) -> None:
    """Read the samples in the minutes that a window cuts, and keep them with the file, so that ``cover_window`` need not
    read them again for this window, these GPUs and ``gap_seconds``. What is kept: the folded samples of the buckets of 10 s
    that are cut, and of each cut minute one bucket for each GPU. ``gpus`` are positions, None: all; ``interval`` is
    about the time between two samples of a GPU, s."""
    layout, own = part.shard.file.layout, part.positions_among(gpus)
    held = window_edges.read_edges(part, window, gpus, gap_seconds, interval)
    for cut in window.cut_off(LEVELS[1]):
        pieces = []
        for first in range(0, len(own), _GPUS_AT_ONCE):
            some = own[first : first + _GPUS_AT_ONCE]
            found = cover_window(part, cut, LEVELS[0], some, layout, gap_seconds)
            start = np.full_like(found.start, cut.start // LEVELS[1] * LEVELS[1])
            minute = replace(found, start=start, seconds=np.full_like(start, LEVELS[1]))
            pieces.append(merge_same_buckets(minute, gap_seconds))
        held.setdefault(cut, join_buckets(pieces, layout))


def _recount(
    part: Part,
    wrong: Ints,
    seconds: int,
    level: int,
    taken: Sequence[tuple[int, Ints]],
    window: Window,
    layout: Layout,
    gap_seconds: float,
) -> list[Buckets]:
    """Count anew the samples that rollups of a level should count and don't: those in the stretches of ``seconds`` whose
    numbers are ``wrong``, as far as they lie in the window and no bucket in ``taken``, (length in s, numbers of buckets)
    pairs, counts them. Returns buckets of ``level`` seconds, or of the finest level in stretches that the window cuts, in
    one item; [] if there are none."""
    found: list[Buckets] = []
    for rows in read_samples_in(part, stored_metrics_of(layout), wrong, seconds, window):
        fresh = _drop_counted(part, taken, rows)
        begin = fresh[1] // seconds * seconds
        whole = (begin >= window.start) & (begin + seconds <= window.end)
        for step, own in ((level, whole), (LEVELS[0], ~whole)):
            found.append(fold_samples(fresh.of(own), gap_seconds, layout, step))
        if sum(map(len, found[1:])) > max(_MOST_FOLDED, len(found[0])):
            found = [merge_same_buckets(join_buckets(found, layout), gap_seconds)]
    return [merge_same_buckets(join_buckets(found, layout), gap_seconds)] if found else []


def _fold_uncounted(
    part: Part, window: Window, gpus: Ints | None, taken: Sequence[tuple[int, Ints]], layout: Layout, gap_seconds: float
) -> Buckets:
    """Fold the samples of the window that none of the buckets in ``taken`` counts. ``taken`` holds pairs: the length of
    buckets in s, and their numbers (``codes_of``). Returns buckets of 10 s, one for each GPU and bucket with such
    samples. They are not read again if ``keep_cut_minutes`` has read them."""
    finest = part.shard.rollups.finest_level(part.position)
    ranges = window.cut_off(finest)
    is_told = part.ended and (any(len(codes) for _, codes in taken) or ranges == [window])
    held = _kept_edges(part, ranges, gpus, taken, gap_seconds, layout) if is_told else None
    if held is not None:
        return held
    return fold_samples(
        read_uncounted(part, stored_metrics_of(layout), window, finest, gpus, taken), gap_seconds, layout
    )


def _kept_edges(
    part: Part,
    ranges: Sequence[Window],
    gpus: Ints | None,
    taken: Sequence[tuple[int, Ints]],
    gap_seconds: float,
    layout: Layout,
) -> Buckets | None:
    """Return the buckets that ``keep_cut_minutes`` has kept of these pieces of a window, without those that begin in a
    bucket of ``taken``, (length in s, numbers of buckets) pairs. ``gpus`` are positions, None: all. Returns None if
    anything of these pieces or GPUs is not kept, or if it was folded with another ``gap_seconds``."""
    held = window_edges.kept_edges(part, ranges, gpus, gap_seconds, layout)
    if held is None:
        return None
    return held.of(are_uncounted(held.gpu, held.start, taken))


def are_uncounted(gpu: Ints, time: NDArray[Any], taken: Sequence[tuple[int, Ints]]) -> NDArray[np.bool_]:
    """Flag the pairs of a GPU (position) and a time (unix s) [n] that lie in none of the buckets in ``taken``: pairs of
    the length of buckets in s and of their numbers (``codes_of``)."""
    fresh = np.ones(len(gpu), bool)
    for level, codes in taken:
        if len(gpu) and len(codes):
            fresh &= ~np.isin(codes_of(gpu, time // level * level), codes)
    return fresh


def find_uncovered(
    window: Window, level: int, begins: NDArray[Any], lasts: NDArray[Any], unended: bool
) -> list[Window]:
    """Find the pieces of a window for which finer buckets have to be read, because the buckets of ``level`` seconds do
    not reach there.

    Args:
        window: The window that is to be covered, unix s.
        level: The length of the buckets, s.
        begins: When the buckets, and what else is covered, begin: unix s [n], in any order.
        lasts: When the last bucket of each of these begins: unix s [n].
        unended: The run may still go on. Then the last bucket counts as not there, with as many whole buckets before it
            as OPEN_SECONDS hold: some GPUs may not have closed theirs.

    Returns at most two pieces, in order: from the window's start to the first of ``begins``, and from the end of the
    last of ``lasts`` to the window's end. Their other ends are not cut to the window: if all buckets lie behind it, the
    first piece reaches up to them. [window] if nothing is covered. Holes between buckets are not looked for.
    """
    if not len(begins):
        return [window]
    first, last = float(begins.min()), float(lasts.max())
    end = max(first, last - OPEN_SECONDS // level * level) if unended else last + level
    return [piece for piece in (Window(window.start, first), Window(end, window.end)) if piece.start < piece.end]


def read_uncounted(
    part: Part, names: Sequence[str], window: Window, step: int, gpus: Ints | None, taken: Sequence[tuple[int, Ints]]
) -> Samples:
    """Read the raw rows of the window that no bucket in ``taken`` counts: those at the window's ends, in an unended run
    the newest ones as well, and all if ``taken`` holds no bucket.

    Args:
        part: The part of a file to read.
        names: The stored metrics whose values are returned.
        window: The times that are looked at, unix s.
        step: The length of the finest buckets in ``taken``, s: an end of the window is read if it cuts one of these.
        gpus: Positions of the GPUs; None: all.
        taken: Pairs of the length of buckets in s and of their numbers (``codes_of``).
    """
    return join_samples(list(run_in_threads(uncounted_pieces(part, names, window, step, gpus, taken))), names)


def uncounted_pieces(
    part: Part, names: Sequence[str], window: Window, step: int, gpus: Ints | None, taken: Sequence[tuple[int, Ints]]
) -> Iterator[Callable[[], Samples]]:
    """Yield functions that read, piece by piece, the raw rows which no bucket in ``taken`` counts. The arguments are
    those of ``read_uncounted``, which joins the pieces. Each function takes no argument and may be called in any thread."""
    start, end = window
    ranges: list[tuple[float, float, Ints | None]] = [(*cut, gpus) for cut in window.cut_off(step)]
    newest = max((int(_ends_of(codes, level).max()) for level, codes in taken if len(codes)), default=None)
    if newest is None:
        ranges = [(start, end, gpus)]
    elif part.unended:
        recent = min(max(start, float(newest - step)), end)
        ranges = [(lower, min(upper, recent), gpus) for lower, upper, gpus in ranges if lower < recent]
        tail = max(start, float(newest - step - OPEN_SECONDS), *(upper for _, upper, _ in ranges))
        behind = _find_gpus_behind(part, gpus, recent, taken)
        if tail < recent and len(behind):
            ranges.append((tail, recent, behind))
        if recent < end:
            ranges.append((recent, end, gpus))
    for lower, upper, chosen in ranges:
        beside = [(level, pick_overlapping(codes, level, lower, upper)) for level, codes in taken]
        for read in part.pieces(names, chosen, lower, upper):
            yield partial(_read_and_drop_counted, part, beside, read)


def pick_overlapping(codes: Ints, level: int, lower: float, upper: float) -> Ints:
    """Pick the buckets of ``level`` seconds, given by their numbers, that can count a row of [lower, upper)."""
    starts = starts_of(codes)
    return codes[(starts < upper) & (starts + level > lower)]


def _read_and_drop_counted(part: Part, taken: Sequence[tuple[int, Ints]], read: Callable[[], Samples]) -> Samples:
    """Call ``read``, and keep of its rows what ``_drop_counted`` keeps."""
    return _drop_counted(part, taken, read())


def _drop_counted(part: Part, taken: Sequence[tuple[int, Ints]], rows: Samples) -> Samples:
    """Keep the rows that no bucket in ``taken`` counts yet and that are later than what was thinned."""
    return rows.of(are_uncounted(rows.gpu, rows.time, taken) & (rows.time >= part.thinned))


def _find_gpus_behind(part: Part, gpus: Ints | None, time: float, taken: Sequence[tuple[int, Ints]]) -> Ints:
    """Find the GPUs, among these of the part (positions; None: all), for which no bucket in ``taken`` ends at ``time``
    (unix s) or later, so that rows before it may be uncounted. ``taken`` holds pairs of the length of buckets in s and
    of their numbers. Returns positions, ascending."""
    counted = [positions_of(codes[_ends_of(codes, level) >= time]) for level, codes in taken if len(codes)]
    wanted = part.positions_among(gpus)
    return wanted[~np.isin(wanted, np.concatenate(counted))] if counted else wanted


def _ends_of(codes: Ints, level: int) -> Ints:
    """Return where the buckets of these numbers end, unix s."""
    return starts_of(codes) + level
