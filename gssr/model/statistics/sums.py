"""Counts and sums of samples, GPU by GPU (gssr.model.results.Means): means, scores and shares of clock event reasons are
made of them, on pages, screens and for fleets."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import CLOCK_EVENT_REASONS
from gssr.store.format.layout import FIELDS, Layout


def summed_names(layout: Layout) -> tuple[str, ...]:
    """List the metrics of a layout of which rollups give counts and sums: those that have a mean, and, in place of the clock
    event reasons, each flag as a metric of its own."""
    gauges = [block.metric.name for block in layout.blocks if block.metric.kind in ("gauge", "rate")]
    has_flags = any(block.metric.kind == "bits" for block in layout.blocks)
    return (*gauges, *(name for _, name, _ in CLOCK_EVENT_REASONS if has_flags))


def sum_samples(gpu: Ints, values: Floats, n_gpus: int) -> tuple[Floats, Floats]:
    """Count and add up the values of each GPU. ``gpu`` [n]: the GPU of each sample; ``values`` [n]: its value, NaN where it
    is missing. Returns the counts and the sums, [n_gpus] each."""
    known = np.isfinite(values)
    owner = gpu[known]
    n, total = np.bincount(owner, minlength=n_gpus), np.bincount(owner, values[known], n_gpus)
    return n.astype(np.float64), total.astype(np.float64, copy=False)


def add_buckets(names: Sequence[str], gpu: Ints, vectors: Floats, layout: Layout, n: Floats, total: Floats) -> None:
    """Add the samples in buckets to the counts ``n`` and the sums ``total`` [n_names, n_gpus] of the metrics ``names``,
    in place; of flags these are numbers of samples, and of those in which the flag was set. ``gpu`` [n_buckets]: the
    GPU of each bucket, an index into the last axis; ``vectors`` [n_buckets, width]: the buckets' numbers, in
    ``layout``."""
    sampled, place = np.unique(gpu, return_inverse=True)
    rows = {name: row for row, name in enumerate(names)}
    for block in layout.blocks:
        counts = vectors[:, block.start]
        if block.metric.kind == "counter" or not counts.any():
            continue
        columns = {block.metric.name: block.start + 1}
        if block.metric.kind == "bits":
            columns = {name: block.start + FIELDS["bits"].index(name) for _, name, _ in CLOCK_EVENT_REASONS}
        own_n = np.bincount(place, counts, len(sampled))
        for name in columns.keys() & rows:
            n[rows[name], sampled] += own_n
            total[rows[name], sampled] += np.bincount(place, vectors[:, columns[name]], len(sampled))
