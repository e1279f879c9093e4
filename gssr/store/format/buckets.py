"""Buckets as arrays: what samples add up to in stretches of time, GPU by GPU, as ``rollup`` keeps it.

The sampler adds up the same in plain Python, without numpy (gssr.store.format.rollup); a test holds the two equal. Which of
what is read could have been written by us is decided in gssr.store.format.sound_arrays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints, select
from gssr.metrics import CLOCK_EVENT_REASONS
from gssr.store.format.layout import FIELDS, HEAD, LAYOUT, Layout
from gssr.store.format.rollup import empty_vector

FLAGS_END = 2.0**63
"""No flags of a driver are as large: such a value, which only a strange file holds, is unknown."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """What the samples of each GPU add up to in stretches of time.

    ``gpu`` int64 [n]: whose, as in gssr.store.format.sample_arrays.Samples.
    ``start`` and ``seconds`` float64 [n]: the stretch, start <= time < start + seconds (unix s).
    ``vectors`` float64 [n, layout.width], in the order of gssr.store.format.layout: number of samples, gaps, first and last
    time, then for each metric n, sum, m2, min and max, or what is kept of a counter or of flags.
    ``rowids`` int64 [n, 2]: first and last rowid of the samples in the file; None where it does not matter.

    A metric without samples has n = 0 and NaN for min and max. m2 is the sum of squared differences from the bucket's own
    mean, so buckets are merged without their samples. No sample is in two buckets of one GPU."""

    gpu: Ints
    start: Floats
    seconds: Floats
    vectors: Floats
    layout: Layout
    rowids: Ints | None = None

    def __len__(self) -> int:
        return len(self.gpu)

    def of(self, chosen: Flags) -> "Buckets":
        """Keep the buckets that are ``chosen`` [n]; if these are all, the arrays themselves."""
        if chosen.all():
            return self
        gpu, start, seconds, vectors = select(chosen, self.gpu, self.start, self.seconds, self.vectors)
        return Buckets(gpu, start, seconds, vectors, self.layout, None if self.rowids is None else self.rowids[chosen])

    def holds(self, metric: str) -> bool:
        """Tell whether the layout has this metric."""
        return any(block.metric.name == metric for block in self.layout.blocks)

    def column(self, metric: str, field: str) -> Floats:
        """Copy one number of each bucket's vector, float64[n], by its name in gssr.store.format.layout.FIELDS. The
        layout must have the metric."""
        block = next(block for block in self.layout.blocks if block.metric.name == metric)
        return self.vectors[:, block.start + FIELDS[block.metric.kind].index(field)].copy()

    def in_layout(self, layout: Layout) -> "Buckets":
        """Return the same buckets in another layout; metrics that this layout lacks have no samples there."""
        if layout == self.layout:
            return self
        vectors = empty_vectors(len(self), layout)
        vectors[:, : len(HEAD)] = self.vectors[:, : len(HEAD)]
        known = {block.metric.name: block for block in self.layout.blocks}
        for metric, start, width in layout.blocks:
            if metric.name in known:
                vectors[:, start : start + width] = self.vectors[:, known[metric.name].start :][:, :width]
        return Buckets(self.gpu, self.start, self.seconds, vectors, layout, self.rowids)


def no_buckets(layout: Layout) -> Buckets:
    """Return Buckets without any bucket."""
    return Buckets(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty((0, layout.width)), layout)


def join_buckets(pieces: Sequence[Buckets], layout: Layout) -> Buckets:
    """Concatenate pieces of this layout, with their rowids if all pieces have them. No pieces make no buckets."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return no_buckets(layout)
    rowids = [piece.rowids for piece in pieces if piece.rowids is not None]
    gpu = np.concatenate([piece.gpu for piece in pieces])
    start, seconds, vectors = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("start", "seconds", "vectors")
    )
    return Buckets(gpu, start, seconds, vectors, layout, np.concatenate(rowids) if len(rowids) == len(pieces) else None)


def _starts(group: Ints) -> Ints:
    """Return the indices at which runs of equal numbers begin."""
    return np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1]))) if len(group) else np.empty(0, np.int64)


def empty_vectors(n: int, layout: Layout = LAYOUT) -> Floats:
    """Return the vectors of ``n`` buckets without rows, float64[n, layout.width]."""
    return np.tile(np.array(empty_vector(layout)), (n, 1))


def fold(
    group: Ints, time: Floats, values: Mapping[str, Floats], gap_seconds: float, layout: Layout = LAYOUT
) -> tuple[Ints, Floats]:
    """Add up samples in groups, each within one GPU.

    Args:
        group: group number of each sample, int64[n].
        time: unix s, float64[n].
        values: float64[n] by metric, NaN for missing, also of derived metrics.
        gap_seconds: two samples of a group that are further apart are a gap.

    Returns the numbers of the groups that have samples, ascending, and their vectors, float64[groups, layout.width].
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
        if metric.kind == "bits":
            known &= np.abs(column) < FLAGS_END
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
    """Return first value, last value and increase of a counter in each group of rows, float64[groups, 3]; NaN, NaN, 0 in
    a group without values. ``column`` [n]: its values, in the order of time within a group; ``known`` [n] flags those
    that are there; ``starts``: where groups begin; ``some`` [groups] flags those that have values."""
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
    """Merge buckets into groups. Buckets without samples do not count.

    Args:
        vectors: float64[n, layout.width].
        group: group number of each bucket, from 0 to ``n_groups`` - 1. For gaps and counters to mean something a group
            lies within one GPU.
        gap_seconds: two buckets of a group further apart than this are a gap.
        layout: that of ``vectors``, and of the result.

    Returns float64[n_groups, layout.width]; a group without buckets gets an empty vector. Buckets of a group are taken
    in the order of their first samples.
    """
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
    """Merge a counter's blocks [n, 4] (n, first, last, increase) group by group. Returns [groups, 4]; NaN for first and
    last in a group without samples.

    Rows of a group are in the order of time. ``times`` [n, 2] are the first and the last time of each bucket, ``starts``
    where groups begin. What a counter rose by between two buckets counts only if these don't overlap in time.
    """
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


def merge_by_gpu(buckets: Buckets, gap_seconds: float) -> Buckets:
    """Merge the buckets of each GPU into one, which lasts from the first of their starts to the last of their ends.
    GPUs ascend."""
    gpu, first, group = np.unique(buckets.gpu, return_index=True, return_inverse=True)
    vectors = merge(buckets.vectors, group.reshape(-1), len(gpu), gap_seconds, buckets.layout)
    start, end = buckets.start[first], (buckets.start + buckets.seconds)[first]
    np.minimum.at(start, group.reshape(-1), buckets.start)
    np.maximum.at(end, group.reshape(-1), buckets.start + buckets.seconds)
    return Buckets(gpu, start, end - start, vectors, buckets.layout)


def vectors_of(blobs: Sequence[bytes], layout: Layout = LAYOUT, columns: Ints | None = None) -> Floats:
    """Decode rollup blobs, float64[n, layout.width], or only these ``columns`` of each. Shorter blobs, from before
    columns were added, have no samples of what they lack."""
    lengths = {len(blob) for blob in blobs}
    if lengths == {8 * layout.width}:
        table = np.frombuffer(b"".join(blobs), dtype="<f8").reshape(len(blobs), layout.width)
        return table.astype(np.float64) if columns is None else table[:, columns].astype(np.float64, copy=False)
    vectors = empty_vectors(len(blobs), layout)
    for row, blob in enumerate(blobs):
        values = np.frombuffer(blob, dtype="<f8")[: layout.width]
        vectors[row, : len(values)] = values
    return vectors if columns is None else vectors[:, columns]
