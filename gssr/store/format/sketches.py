"""Sketches as arrays: histograms of samples, one after the other, as gssr.store.format.layout describes them."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints, select
from gssr.store.format.rollup import inflated
from gssr.store.format.schema import FINE_SKETCH_SECONDS


class Sketches(NamedTuple):
    """Histograms of samples in stretches of time, GPU by GPU and metric by metric (in the order of Layout.sketched).

    ``gpu`` int64 [n]: whose, as in gssr.store.format.sample_arrays.Samples. ``start`` int64 [n]: where each begins,
    unix s; all last as long as those of the table that they were read from. ``sizes`` int64 [n, metrics]: how many bins
    each has of each metric; 0 for metrics that an old sketch lacks. ``keys`` and ``counts`` int64: the bins' keys and
    how many samples each holds, one sketch and one metric after the other; within a metric keys ascend.
    """

    gpu: Ints
    start: Ints
    sizes: Ints
    keys: Ints
    counts: Ints

    def of(self, chosen: Flags) -> "Sketches":
        """Keep the sketches that are ``chosen`` [n]; if these are all, the arrays themselves."""
        if chosen.all():
            return self
        keys, counts = select(np.repeat(chosen, self.sizes.sum(axis=1)), self.keys, self.counts)
        return Sketches(self.gpu[chosen], self.start[chosen], self.sizes[chosen], keys, counts)

    def samples(self) -> Ints:
        """Return how many samples each sketch holds of each metric, int64[n, metrics]."""
        found, sizes = np.zeros(self.sizes.size, np.int64), self.sizes.reshape(-1)
        some = sizes > 0
        if some.any():
            found[some] = np.add.reduceat(self.counts, (np.cumsum(sizes) - sizes)[some])
        return found.reshape(self.sizes.shape)

    def of_each(self, values: Ints) -> Ints:
        """Return for each bin the element of ``values`` [metrics] that belongs to its metric."""
        return np.repeat(np.tile(values, len(self.sizes)), self.sizes.reshape(-1))


def decode_sketches(gpu: Ints, start: Ints, blobs: Sequence[bytes], n_metrics: int, seconds: int) -> Sketches:
    """Decode the blobs of sketches of ``seconds``, whose GPUs and starts are ``gpu`` and ``start`` [n]. Blobs that are
    no such sketch are left out: those with more than ``n_metrics`` metrics, or of another length than they say."""
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
    for begin, total in zip(first.tolist(), n_bins[fine].tolist(), strict=True):
        for cut, (low, high) in zip(cuts, ends, strict=True):
            cut.append(view[begin + low * total : begin + high * total])
    columns = [np.frombuffer(b"".join(cut), kind) for cut, kind in zip(cuts, kinds, strict=True)]
    keys, counts = columns[0], columns[2 if is_packed else 1].astype(np.int64)
    if is_packed:
        for place, column in enumerate(columns[3:], 1):  # mostly no count is above 255
            if column.any():
                counts |= column.astype(np.int64) << 8 * place
        steps, n_bins = np.cumsum(keys | columns[1].astype(np.uint16) << 8, dtype=np.uint16), n_bins[fine]
        keys = steps - np.repeat(np.append(np.uint16(0), steps)[np.cumsum(n_bins) - n_bins], n_bins)
    return Sketches(gpu[fine], start[fine], sizes[fine], keys.astype(np.int64), counts)
