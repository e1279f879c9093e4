"""Sketches as arrays: histograms of samples, one after the other, as gssr.store.layout describes them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.store.moments import where


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


def decoded(blobs: Sequence[bytes], n_metrics: int) -> tuple[Flags, SketchBins]:
    """Which [n] of these are sketches, of no more than so many metrics and as long as they say; and the bins of those."""
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
    keys, counts, view = [], [], memoryview(data)
    first = (begins + heads)[fine]
    for start, total in zip(first.tolist(), n_bins[fine].tolist(), strict=True):
        keys.append(view[start : start + 2 * total])
        counts.append(view[start + 2 * total : start + 6 * total])
    columns = np.frombuffer(b"".join(keys), "<u2"), np.frombuffer(b"".join(counts), "<u4")
    return fine, SketchBins(sizes[fine], *(column.astype(np.int64) for column in columns))
