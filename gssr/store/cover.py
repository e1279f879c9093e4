"""Covering a window with rollups: coarse buckets inside, finer ones towards its edges, raw rows where nothing else fits.

The writer closes buckets only when they are over, and writes them in one transaction with the rows they count. So in a
finished run closed buckets count everything; in one that still runs, or was cut off, the newest rows are counted by none.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.store import census, ends
from gssr.store.census import codes_of as codes_of
from gssr.store.ends import Folded, Range, cut_off, fold_rows, stored_of
from gssr.store.layout import Layout
from gssr.store.moments import Ints, where
from gssr.store.pages.table import Wanted
from gssr.store.raw import Columns, in_threads, joined
from gssr.store.recount import Rows, hold_all, ranges_of, rows_of
from gssr.store.schema import LEVELS
from gssr.store.shard import Shard

N_BINS = 1 << 16
OPEN_SECONDS = 60
"""The writer closes the bucket of a silent GPU within this time: behind it, what is not in a bucket does not exist."""


class Part(NamedTuple):
    """A run's share of one file."""

    shard: Shard
    first: int
    last: int
    """Rowids of its samples."""
    position: dict[int, int]
    """GPU key in the file → position in the run."""
    whole: bool
    """Every GPU of the file belongs to this run, and counts."""
    unended: bool
    """It still runs, or was cut off, or its end found a full disk: the newest rows are not rolled up."""
    thinned: float = -math.inf
    """Rows from before this (unix s) may be gone, or means: what rollups count is all that is known."""
    ended: bool = False
    """Its run has ended: rollups count every row, or are damaged."""

    def keys(self, gpus: Ints | None) -> list[int] | None:
        """GPU keys of these positions; None when no row need be filtered out."""
        if gpus is None:
            return None if self.whole else list(self.position)
        chosen = set(gpus.tolist())
        return [key for key, position in self.position.items() if position in chosen]

    def positions(self, keys: Ints) -> Ints:
        """GPU keys of the file as positions in the run."""
        known = np.array(sorted(self.position), dtype=np.int64)
        place = np.array([self.position[key] for key in known.tolist()], dtype=np.int64)
        return place[np.searchsorted(known, keys)] if len(keys) else keys

    def sound(self, keys: Ints) -> NDArray[np.bool_]:
        """True for the keys of the run's GPUs. Where another turns up nothing was filtered out: the file is damaged."""
        found = np.isin(keys, list(self.position))
        if not found.all():
            self.shard.damaged("a GPU that it doesn't list")
        return found

    def rowids(self, start: float, end: float) -> tuple[int, int]:
        """Bounds of the rowids whose rows can lie in [start, end), so that a window reads only its share of the file."""
        if not (math.isfinite(start) or math.isfinite(end)):
            return self.first, self.last
        lower, upper = int(max(start, 0.0)), math.ceil(min(end, 1e15))
        newest = self.shard.newest_bucket(LEVELS[0], self.keys(None))
        found = self.shard.all(
            "SELECT min(first_rowid), max(last_rowid) FROM rollup WHERE level = ? AND bucket > ? AND bucket < ?"
            " AND first_rowid >= ? AND last_rowid <= ?",
            (LEVELS[0], lower - LEVELS[0], upper, self.first, self.last),
        )
        if newest is None or not found or None in found[0]:
            return self.first, self.last
        first, last = int(found[0][0]), int(found[0][1])
        if not self.unended or upper <= newest - OPEN_SECONDS:
            return first, last
        # Rows of a GPU that has not closed its bucket may come before the first of one that has.
        before = self.shard.all(
            "SELECT min(first_rowid) FROM rollup WHERE level = ?1 AND first_rowid >= ?3 AND bucket ="
            " (SELECT max(bucket) FROM rollup WHERE level = ?1 AND bucket <= ?2 AND first_rowid >= ?3)",
            (LEVELS[0], lower - LEVELS[0], self.first),
        )
        earlier = before[0][0] if before and before[0][0] is not None else self.first
        return min(first, int(earlier)), self.last

    def _ranges(self, start: float, end: float) -> list[tuple[int, int]]:
        """The same as ranges, of which there is one for each rank that was merged into the file: it has its rows in one
        piece, and all of them are rolled up."""
        first, last = self.rowids(start, end)
        if (first, last) == (self.first, self.last):
            return [] if self.ended and hold_all(self, [], start, end) else [(first, last)]  # before or after it all
        ranges = [(first, last)]
        if self.shard.merged:
            found = self.shard.all(
                "SELECT min(first_rowid), max(last_rowid) FROM rollup WHERE level = ? AND bucket > ? AND bucket < ?"
                " AND first_rowid >= ? AND last_rowid <= ? GROUP BY gpu ORDER BY 1",
                (LEVELS[0], int(max(start, 0.0)) - LEVELS[0], math.ceil(min(end, 1e15)), self.first, self.last),
            )
            ranges = []
            for low, high in ((int(low), int(high)) for low, high in found if None not in (low, high)):
                if ranges and low <= ranges[-1][1]:
                    ranges[-1] = ranges[-1][0], max(high, ranges[-1][1])
                else:
                    ranges.append((low, high))
        return ranges if not self.ended or hold_all(self, ranges, start, end) else list(ranges_of(self, start, end))

    def raw(self, names: Sequence[str], gpus: Ints | None, start: float, end: float) -> Columns:
        """Raw rows of a window: positions, times, values of stored metrics."""
        return joined(list(in_threads(self.pieces(names, gpus, start, end))), names)

    def pieces(
        self, names: Sequence[str], gpus: Ints | None, start: float, end: float, every: int = 1
    ) -> Iterator[Callable[[], Columns]]:
        """What gives them piece by piece: see gssr.store.raw.RawRows.pieces."""
        keys = self.keys(gpus)
        if keys is not None and not keys:
            return
        place = self._place()
        for first, last in self._ranges(start, end):
            for read in self.shard.raw.pieces(Wanted(names, keys, first, last, start, end), every):
                yield partial(self._placed, read, place)

    def _place(self) -> Ints:
        """Positions by key, -1 for keys of no GPU of the run."""
        place = np.full(max(self.position, default=-1) + 2, -1, np.int64)
        for key, position in self.position.items():
            place[key] = position
        return place

    def _placed(self, read: Callable[[], Columns], place: Ints) -> Columns:
        key, time, values = read()
        gpu = place[np.minimum(key, len(place) - 1)]
        if gpu.min(initial=0) < 0:
            sound = self.sound(key)
            gpu, time, values = gpu[sound], time[sound], {name: value[sound] for name, value in values.items()}
        return gpu, time, values


def cover(
    part: Part, start: float, end: float, coarsest: int, gpus: Ints | None, layout: Layout, gap_seconds: float
) -> Folded:
    """Positions, starts, lengths and vectors of buckets that count every row of [start, end) once; none is longer than
    ``coarsest`` seconds."""
    taken: list[tuple[int, Ints]] = []
    out: list[Folded] = []
    ranges: list[Range] = [(start, end)]
    for level in (level for level in reversed(LEVELS) if level <= coarsest):
        finer: list[Range] = []
        for lower, upper in ranges:
            rolled = census.rollups(part, level, gpus, lower, upper, layout)
            fresh = _not_taken(rolled.gpu, rolled.bucket, taken)
            gpu, bucket, vectors = where(fresh, rolled.gpu, rolled.bucket, rolled.vectors)
            out.append((gpu, bucket.astype(np.float64), np.full(len(gpu), float(level)), vectors))
            again = rows_of(part, stored_of(layout), rolled.wrong, rolled.seconds, start, end)
            out += [fold_rows(_fresh(part, taken, rows), gap_seconds, layout) for rows in again]
            taken += [(level, codes_of(gpu, bucket)), (rolled.seconds, rolled.wrong)]
            finer += _uncovered(lower, upper, level, bucket, part.unended)
        ranges = finer
    out.append(_rest(part, start, end, gpus, taken, layout, gap_seconds))
    return ends.joined([piece for piece in out if len(piece[0])] or out[-1:])


def _rest(
    part: Part,
    start: float,
    end: float,
    gpus: Ints | None,
    taken: Sequence[tuple[int, Ints]],
    layout: Layout,
    gap_seconds: float,
) -> Folded:
    """Buckets of the samples of [start, end) that none of those ``taken`` counts."""
    ranges = cut_off(start, end, LEVELS[0])
    if part.ended and (any(len(codes) for _, codes in taken) or ranges == [(start, end)]):
        held = ends.held(part, ranges, gpus, gap_seconds, layout)
        if held is not None:
            gpu, begin, seconds, vectors = held
            fresh = _not_taken(gpu, begin, taken)
            return gpu[fresh], begin[fresh], seconds[fresh], vectors[fresh]
    return fold_rows(uncounted(part, stored_of(layout), start, end, LEVELS[0], gpus, taken), gap_seconds, layout)


def _not_taken(gpu: Ints, time: NDArray[Any], taken: Sequence[tuple[int, Ints]]) -> NDArray[np.bool_]:
    """True where no bucket that was taken already counts this time of this GPU."""
    fresh = np.ones(len(gpu), bool)
    for level, codes in taken:
        if len(gpu) and len(codes):
            fresh &= ~np.isin(codes_of(gpu, time // level * level), codes)
    return fresh


def _uncovered(lower: float, upper: float, level: int, bucket: Ints, unended: bool) -> list[Range]:
    """Where finer buckets may be needed after these of ``level``: before the first, after the last, and, in an unended
    run, beside the newest ones, which some GPUs may not have closed yet."""
    if not len(bucket):
        return [(lower, upper)]
    first, last = float(bucket.min()), float(bucket.max())
    end = max(first, last - OPEN_SECONDS // level * level) if unended else last + level
    return [piece for piece in ((lower, first), (end, upper)) if piece[0] < piece[1]]


def uncounted(
    part: Part,
    names: Sequence[str],
    start: float,
    end: float,
    step: int,
    gpus: Ints | None,
    taken: Sequence[tuple[int, Ints]],
) -> Rows:
    """Raw rows of [start, end) that no bucket in ``taken`` counts: at the window's edges, and the newest of an unended
    run. ``step`` is the length of the finest bucket looked for."""
    return joined(list(in_threads(uncounted_pieces(part, names, start, end, step, gpus, taken))), names)


def uncounted_pieces(
    part: Part,
    names: Sequence[str],
    start: float,
    end: float,
    step: int,
    gpus: Ints | None,
    taken: Sequence[tuple[int, Ints]],
) -> Iterator[Callable[[], Rows]]:
    """What gives the same piece by piece, in any thread."""
    ranges: list[tuple[float, float, Ints | None]] = [
        (lower, upper, gpus) for lower, upper in cut_off(start, end, step)
    ]
    newest = max((int(_end(codes, level).max()) for level, codes in taken if len(codes)), default=None)
    if newest is None:
        ranges = [(start, end, gpus)]
    elif part.unended:
        recent = min(max(start, float(newest - step)), end)
        ranges = [(lower, min(upper, recent), gpus) for lower, upper, gpus in ranges if lower < recent]
        tail = max(start, float(newest - step - OPEN_SECONDS), *(upper for _, upper, _ in ranges))
        behind = _behind(part, gpus, recent, taken)
        if tail < recent and len(behind):
            ranges.append((tail, recent, behind))
        if recent < end:
            ranges.append((recent, end, gpus))
    for lower, upper, chosen in ranges:
        near = [(level, _near(codes, level, lower, upper)) for level, codes in taken]
        for read in part.pieces(names, chosen, lower, upper):
            yield partial(_read_fresh, part, near, read)


def _near(codes: Ints, level: int, lower: float, upper: float) -> Ints:
    """The buckets of ``level`` seconds, by their numbers, that can count a row of [lower, upper)."""
    starts = census.starts_of(codes)
    return codes[(starts < upper) & (starts + level > lower)]


def _read_fresh(part: Part, taken: Sequence[tuple[int, Ints]], read: Callable[[], Columns]) -> Columns:
    return _fresh(part, taken, read())


def _fresh(part: Part, taken: Sequence[tuple[int, Ints]], rows: Rows) -> Rows:
    """The rows that no bucket counts yet, and that are not thinned."""
    gpu, time, values = rows
    fresh = _not_taken(gpu, time, taken) & (time >= part.thinned)
    if fresh.all():
        return gpu, time, values
    return gpu[fresh], time[fresh], {name: value[fresh] for name, value in values.items()}


def _behind(part: Part, gpus: Ints | None, time: float, taken: Sequence[tuple[int, Ints]]) -> Ints:
    """Positions of the GPUs whose rows before ``time`` are not all counted by the buckets taken."""
    counted = [codes[_end(codes, level) >= time] >> 40 for level, codes in taken if len(codes)]
    wanted = np.array(sorted(part.position.values()), np.int64) if gpus is None else gpus
    return wanted[~np.isin(wanted, np.concatenate(counted))] if counted else wanted


def _end(codes: Ints, level: int) -> Ints:
    """Where the buckets of these (position, bucket) numbers end."""
    return census.starts_of(codes) + level
