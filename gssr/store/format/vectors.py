"""Rollup vectors as arrays: folding samples into them and merging them.

The arithmetic is that of gssr.store.format.rollup; here it runs over many GPUs and buckets at once.

Sketches as arrays: histograms of samples, one after the other, as gssr.store.format.layout describes them.

Memory between arrays: what one gave back is for the next one.

Samples, rollups and sketches as arrays, as far as they are what a writer of ours could have written: see
gssr.store.format.limits for the small tables. A value that can't be is NaN, unknown; a row of which nobody could tell where
it belongs is left out.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.metrics import CLOCK_EVENT_REASONS
from gssr.store.format.layout import HEAD, LAYOUT, Layout
from gssr.store.format.limits import GREATEST as GREATEST
from gssr.store.format.limits import LATEST, MOST_KEYS, number_within
from gssr.store.format.rollup import empty_vector, inflated
from gssr.store.format.schema import FINE_SKETCH_SECONDS, SKETCH_SECONDS


def where(mask: Flags, *columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Of each column what is chosen; itself where that is all of it: rollups are large."""
    return columns if mask.all() else tuple(column[mask] for column in columns)


def _starts(group: Ints) -> Ints:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1]))) if len(group) else np.empty(0, np.int64)


def empty_vectors(n: int, layout: Layout = LAYOUT) -> Floats:
    """[n, layout.width]: buckets without rows."""
    return np.tile(np.array(empty_vector(layout)), (n, 1))


def fold(
    group: Ints, time: Floats, values: Mapping[str, Floats], gap_seconds: float, layout: Layout = LAYOUT
) -> tuple[Ints, Floats]:
    """Fold samples into one vector per group.

    ``group`` and ``time`` are [n]; ``values`` holds [n] arrays (NaN is missing) for the metrics there are, the derived
    ones too. A group lies within one GPU; two of its rows further apart than ``gap_seconds`` are a gap. Returns the groups
    that have rows, ascending, and their vectors.
    """
    order = np.lexsort((time, group))
    group, time = group[order], time[order]
    starts = _starts(group)
    vectors = empty_vectors(len(starts), layout)
    if not len(starts):
        return group, vectors
    sizes = np.diff(np.append(starts, len(group)))
    vectors[:, 0] = sizes
    vectors[:, 2] = time[starts]
    vectors[:, 3] = time[starts + sizes - 1]
    wide = np.append(0.0, np.diff(time) > gap_seconds)
    wide[starts] = 0.0
    vectors[:, 1] = np.add.reduceat(wide, starts)
    for metric, s, _width in layout.blocks:
        if metric.name not in values:
            continue
        column = np.asarray(values[metric.name], np.float64)[order]
        known = np.isfinite(column)
        whole = bool(known.all())
        if not whole:
            column[~known] = np.nan
        n = sizes.astype(np.float64) if whole else np.add.reduceat(known, starts, dtype=np.float64)
        some = n > 0
        if not some.any():
            continue
        vectors[:, s] = n
        if metric.kind == "counter":
            vectors[:, s + 1 : s + 4] = _fold_counter(column, known, starts, some)
        elif metric.kind == "bits":
            flags = np.where(known, column, 0).astype(np.int64)
            vectors[:, s + 1] = np.bitwise_or.reduceat(flags, starts)
            for k, (bit, _, _) in enumerate(CLOCK_EVENT_REASONS):
                vectors[:, s + 2 + k] = np.add.reduceat((flags & bit) != 0, starts, dtype=np.float64)
        else:
            total = np.add.reduceat(column if whole else np.where(known, column, 0.0), starts)
            mean = np.divide(total, n, out=np.zeros_like(total), where=some)
            deviation = column - np.repeat(mean, sizes)
            if not whole:
                deviation[~known] = 0.0
            low, high = np.fmin.reduceat(column, starts), np.fmax.reduceat(column, starts)
            vectors[:, s + 1] = total
            vectors[:, s + 2] = np.where(low == high, 0.0, np.add.reduceat(deviation * deviation, starts))
            vectors[:, s + 3], vectors[:, s + 4] = low, high
    return group[starts], vectors


def _fold_counter(column: Floats, known: NDArray[np.bool_], starts: Ints, some: NDArray[np.bool_]) -> Floats:
    """[groups, 3]: first, last and increase of a counter."""
    n_groups = len(starts)
    label = np.repeat(np.arange(n_groups), np.diff(np.append(starts, len(column))))[known]
    values = column[known]
    result = np.full((n_groups, 3), np.nan)
    result[:, 2] = 0.0
    first = _starts(label)
    result[some, 0] = values[first]
    result[some, 1] = values[np.append(first[1:], len(values)) - 1]
    rise = np.where(label[1:] == label[:-1], np.maximum(np.diff(values), 0.0), 0.0)
    result[:, 2] = np.bincount(label[1:], weights=rise, minlength=n_groups) if len(rise) else 0.0
    return result


def merge(vectors: Floats, group: Ints, n_groups: int, gap_seconds: float, layout: Layout = LAYOUT) -> Floats:
    """Merge buckets: [n, layout.width] vectors with a group number each (0 <= group < n_groups) into [n_groups,
    layout.width]. A group lies within one GPU where gaps (more than ``gap_seconds`` between two buckets of a group) and
    counters matter: both take a group's buckets in the order of their first rows."""
    filled = np.flatnonzero(vectors[:, 0] > 0)
    order = filled[np.lexsort((vectors[filled, 2], group[filled]))]
    vectors, group = np.take(vectors.T, order, axis=1).T, group[order]  # column by column, as they are looked at
    starts = _starts(group)
    if not len(starts):
        return empty_vectors(n_groups, layout)
    sizes = np.diff(np.append(starts, len(group)))
    out = np.empty((layout.width, len(starts))).T
    wide = np.append(0.0, vectors[1:, 2] - vectors[:-1, 3] > gap_seconds)
    wide[starts] = 0.0
    out[:, 0] = np.add.reduceat(vectors[:, 0], starts)
    out[:, 1] = np.add.reduceat(vectors[:, 1] + wide, starts)
    out[:, 2] = np.fmin.reduceat(vectors[:, 2], starts)
    out[:, 3] = np.fmax.reduceat(vectors[:, 3], starts)
    for metric, s, width in layout.blocks:
        block = vectors[:, s : s + width]
        if metric.kind == "counter":
            out[:, s : s + width] = _merge_counter(block, vectors[:, 2:4], starts)
        elif metric.kind == "bits":
            out[:, s : s + width] = np.add.reduceat(block, starts)
            out[:, s + 1] = np.bitwise_or.reduceat(block[:, 1].astype(np.int64), starts)
        else:
            n, total = np.add.reduceat(block[:, :2], starts).T
            mean = np.divide(total, n, out=np.zeros_like(total), where=n > 0)
            own = np.divide(block[:, 1], block[:, 0], out=np.zeros(len(block)), where=block[:, 0] > 0)
            between = block[:, 0] * np.square(own - np.repeat(mean, sizes))
            out[:, s], out[:, s + 1] = n, total
            low, high = np.fmin.reduceat(block[:, 3], starts), np.fmax.reduceat(block[:, 4], starts)
            out[:, s + 2] = np.where(low == high, 0.0, np.add.reduceat(block[:, 2] + between, starts))
            out[:, s + 3], out[:, s + 4] = low, high
    if len(starts) == n_groups:
        return out
    merged = empty_vectors(n_groups, layout)
    merged[group[starts]] = out
    return merged


def _merge_counter(block: Floats, times: Floats, starts: Ints) -> Floats:
    n_groups = len(starts)
    label = np.repeat(np.arange(n_groups), np.diff(np.append(starts, len(block))))
    out = np.tile(np.array([0.0, np.nan, np.nan, 0.0]), (n_groups, 1))
    out[:, 0] = np.add.reduceat(block[:, 0], starts)
    out[:, 3] = np.add.reduceat(block[:, 3], starts)
    known = block[:, 0] > 0
    block, label, times = block[known], label[known], times[known]
    first = _starts(label)
    if len(first):
        out[label[first], 1] = block[first, 1]
        out[label[first], 2] = block[np.append(first[1:], len(block)) - 1, 2]
        follows = (label[1:] == label[:-1]) & (times[1:, 0] >= times[:-1, 1])
        rise = np.where(follows, np.maximum(block[1:, 1] - block[:-1, 2], 0.0), 0.0)
        out[:, 3] += np.bincount(label[1:], weights=rise, minlength=n_groups)[:n_groups] if len(rise) else 0.0
    return out


def vectors_of(blobs: Sequence[bytes], layout: Layout = LAYOUT, columns: Ints | None = None) -> Floats:
    """[n, layout.width] from rollup blobs, or of each vector only these ``columns``; shorter ones (from before columns were
    added) get an empty tail."""
    lengths = {len(blob) for blob in blobs}
    if lengths == {8 * layout.width}:
        table = np.frombuffer(b"".join(blobs), dtype="<f8").reshape(len(blobs), layout.width)
        return table.astype(np.float64) if columns is None else table[:, columns].astype(np.float64, copy=False)
    vectors = empty_vectors(len(blobs), layout)
    for row, blob in enumerate(blobs):
        values = np.frombuffer(blob, dtype="<f8")[: layout.width]
        vectors[row, : len(values)] = values
    return vectors if columns is None else vectors[:, columns]


def derive(values: Mapping[str, Floats], parts: tuple[str, ...]) -> Floats:
    """The sum of the parts, left to right; NaN where one of them is missing."""
    total: Any = 0.0
    for part in parts:
        total = total + values[part]
    return np.asarray(total, np.float64)


assert len(HEAD) == 4  # the head is filled by position above


class SketchBins(NamedTuple):
    """The bins of some sketches: ``sizes`` [n, metrics] how many each has of each metric (of those that an old sketch lacks
    none), ``keys`` and ``counts`` theirs, one sketch and one metric after the other."""

    sizes: Ints
    keys: Ints
    counts: Ints

    def of(self, chosen: Flags) -> "SketchBins":
        """Those of some of the sketches, ``chosen`` [n]."""
        if chosen.all():
            return self
        keys, counts = where(np.repeat(chosen, self.sizes.sum(axis=1)), self.keys, self.counts)
        return SketchBins(self.sizes[chosen], keys, counts)

    def samples(self) -> Ints:
        """[n, metrics]: how many samples each sketch holds of each metric."""
        found, sizes = np.zeros(self.sizes.size, np.int64), self.sizes.reshape(-1)
        some = sizes > 0
        if some.any():
            found[some] = np.add.reduceat(self.counts, (np.cumsum(sizes) - sizes)[some])
        return found.reshape(self.sizes.shape)

    def of_each(self, values: Ints) -> Ints:
        """For each bin the one of ``values`` [metrics] that is its metric's."""
        return np.repeat(np.tile(values, len(self.sizes)), self.sizes.reshape(-1))


def decoded(blobs: Sequence[bytes], n_metrics: int, seconds: int = SKETCH_SECONDS) -> tuple[Flags, SketchBins]:
    """Which [n] of these are sketches of ``seconds``, of no more than so many metrics and as long as they say; and the bins
    of those."""
    is_packed = seconds == FINE_SKETCH_SECONDS
    if is_packed:
        blobs = [inflated(blob) for blob in blobs]
    lengths = np.array([len(blob) for blob in blobs], np.int64)
    begins = np.cumsum(lengths) - lengths
    data = b"".join((*blobs, bytes(2)))
    at_every_byte = np.frombuffer(data, np.uint8)
    of_each = at_every_byte[begins].astype(np.int64) | at_every_byte[begins + 1].astype(np.int64) << 8
    heads = 2 + 2 * of_each
    fine = (lengths >= heads) & (of_each <= n_metrics)
    sizes = np.zeros((len(blobs), n_metrics), np.int64)
    for own in np.unique(of_each[fine & (of_each > 0)]).tolist():
        rows = np.flatnonzero(fine & (of_each == own))
        places = begins[rows, None] + np.arange(2, 2 + 2 * own)
        sizes[rows, :own] = at_every_byte[places].view("<u2")
    n_bins = sizes.sum(axis=1)
    fine &= lengths == heads + 6 * n_bins
    kinds = ("u1",) * 6 if is_packed else ("<u2", "<u4")  # of what stands together, bin by bin
    view, ends = memoryview(data), list(pairwise(accumulate((int(kind[-1]) for kind in kinds), initial=0)))
    cuts: list[list[memoryview]] = [[] for _ in kinds]
    first = (begins + heads)[fine]
    for start, total in zip(first.tolist(), n_bins[fine].tolist(), strict=True):
        for cut, (low, high) in zip(cuts, ends, strict=True):
            cut.append(view[start + low * total : start + high * total])
    columns = [np.frombuffer(b"".join(cut), kind) for cut, kind in zip(cuts, kinds, strict=True)]
    keys, counts = columns[0], columns[2 if is_packed else 1].astype(np.int64)
    if is_packed:
        for place, column in enumerate(columns[3:], 1):  # mostly no count is above 255
            if column.any():
                counts |= column.astype(np.int64) << 8 * place
        steps, n_bins = np.cumsum(keys | columns[1].astype(np.uint16) << 8, dtype=np.uint16), n_bins[fine]
        keys = steps - np.repeat(np.append(np.uint16(0), steps)[np.cumsum(n_bins) - n_bins], n_bins)
    return fine, SketchBins(sizes[fine], keys.astype(np.int64), counts)


_KEPT = 8 << 20


def keep_freed() -> None:
    """Have glibc keep memory that is freed, instead of giving it back to the kernel, which clears it page by page when the
    next array asks for it: a third of all page faults of an analysis. Once a mapping of some megabytes was freed, smaller
    blocks come from the heap, whose end is cut off only when twice as much of it is free (mallopt(3), M_MMAP_THRESHOLD: it
    adjusts itself). Elsewhere this does nothing."""
    np.empty(_KEPT, np.uint8)


_GREATEST_SUM = 1e90
_COUNTS_END = 2.0**63
_ROWIDS_END = 1 << 62
_NUMBERS = frozenset({int, float, type(None)})
_SLACK = 1e-9
"""Sums are off by rounding, relative to what they are made of."""


def sound_numbers(rows: Sequence[tuple[Any, ...]]) -> tuple[Floats, bool]:
    """Rows, one at least, as float64 [n, columns], NaN for NULL and for what can't be; and whether nothing was that."""
    sound = _NUMBERS.issuperset(map(type, chain.from_iterable(rows)))  # numpy takes '1_0', and b"1", for numbers
    own = rows if sound else [[number_within(value) for value in row] for row in rows]
    table = np.array(own, dtype=np.float64)
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
    if not all(type(row[0]) is int and type(row[1]) is int for row in rows):
        rows = [row for row in rows if type(row[0]) is int and type(row[1]) is int]
    heads = _columns(rows, 0, 2)
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


def are_rollups(vectors: Floats, starts: Ints, rowids: Ints, level: int, layout: Layout) -> Flags:
    """[n]: which vectors of buckets of ``level`` seconds from ``starts`` on, with first and last rowids [n, 2], hold numbers
    that can be and belong together: no more values than rows, a mean between least and greatest, no wider spread than these
    allow (Popoviciu 1935), no counter that falls from 0 on; as many rowids as rows, at least."""
    with np.errstate(invalid="ignore", over="ignore"):
        fine: Flags = np.ones(len(vectors), bool)
        if (vectors > _GREATEST_SUM).any() or (vectors < -_GREATEST_SUM).any():
            fine = np.all(~(np.abs(vectors) > _GREATEST_SUM), axis=1)
        n_rows, n_gaps, begin, end = (vectors[:, place] for place in range(4))
        fine &= (n_rows >= 1) & (n_rows < _COUNTS_END) & (n_gaps >= 0) & (n_gaps < n_rows)
        fine &= (begin >= starts) & (begin <= end) & (end <= starts + level)
        for metric, at, width in layout.blocks:
            n = vectors[:, at]
            own = (n >= 0) & (n <= n_rows)
            if metric.kind == "bits":
                for place in range(at + 1, at + width):
                    own &= (vectors[:, place] >= 0) & ((vectors[:, place] <= n) | (place == at + 1))
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
        first, last = rowids.T
        possible = (first > 0) & (first < _ROWIDS_END) & (last < _ROWIDS_END)
        fine &= possible & (last - np.where(possible, first, 0) + 1 >= n_rows)
    return np.asarray(fine, bool)


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
    if all(type(row[2]) is int and type(row[3]) is int for row in rows):
        return _columns(rows, 2, 4)
    ends = [row[2:4] if type(row[2]) is int and type(row[3]) is int else (0, 0) for row in rows]
    return np.array(ends, np.int64).reshape(-1, 2)


assert HEAD[:4] == ("n_rows", "n_gaps", "first_time", "last_time")  # told by their places above
