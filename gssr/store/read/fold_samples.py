"""Folding raw samples into buckets, and buckets of the same GPU and time into one."""

import numpy as np

from gssr.store.format.buckets import Buckets, fold, merge, no_buckets
from gssr.store.format.layout import Layout
from gssr.store.format.sample_arrays import Samples, derive
from gssr.store.format.schema import LEVELS
from gssr.store.read.bucket_numbers import codes_of, positions_of, starts_of


def merge_same_buckets(buckets: Buckets, gap_seconds: float) -> Buckets:
    """Merge the buckets of each GPU and start into one."""
    codes = codes_of(buckets.gpu, buckets.start)
    _, first, group, n = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    several = n > 1
    if several.all():
        vectors = merge(buckets.vectors, group, len(first), gap_seconds, buckets.layout)
    else:
        vectors = buckets.vectors[first]  # most of them may be the only ones: vectors are large
        pieces = several[group]
        place = (np.cumsum(several) - 1)[group[pieces]]
        vectors[several] = merge(buckets.vectors[pieces], place, int(several.sum()), gap_seconds, buckets.layout)
    return Buckets(buckets.gpu[first], buckets.start[first], buckets.seconds[first], vectors, buckets.layout)


def stored_metrics_of(layout: Layout) -> list[str]:
    """List the columns of ``samples`` that vectors of this layout are made of."""
    blocks = sorted(layout.blocks, key=lambda block: block.metric.derived)  # derived ones last
    return list(dict.fromkeys(name for block in blocks for name in block.metric.parts or (block.metric.name,)))


def fold_samples(samples: Samples, gap_seconds: float, layout: Layout, step: int = LEVELS[0]) -> Buckets:
    """Fold samples into buckets of ``step`` seconds, one for each GPU and step that has any, with vectors in
    ``layout``. More than ``gap_seconds`` between two samples of a GPU is a gap."""
    gpu, time, values = samples
    if not len(gpu):
        return no_buckets(layout)
    derived = {metric.name: derive(values, metric.parts) for metric, _, _ in layout.blocks if metric.derived}
    bucket = np.floor(time / step).astype(np.int64) * step
    groups, vectors = fold(codes_of(gpu, bucket), time, values | derived, gap_seconds, layout)
    start, seconds = starts_of(groups).astype(np.float64), np.full(len(groups), float(step))
    return Buckets(positions_of(groups), start, seconds, vectors, layout)
