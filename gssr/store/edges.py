"""Histograms of windows that cut a sketch whose samples are thinned: which of them lie in the window is not known any more.

How many do, and between which values, rollups tell. So there are a histogram that takes its share of every bin, and two
that no window can go beyond: of the least samples that there were, and of the greatest.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.store.cover import N_BINS, Part, cover
from gssr.store.layout import layout_of, part_of
from gssr.store.moments import Floats, Ints, merge
from gssr.store.schema import SKETCH_SECONDS

_NEGATIVE = 0x8000  # keys from here on are those of negative values


class Histograms(NamedTuple):
    """By metric, how many samples fell into each of the 65,536 bins of a sketch: as far as that is known in ``counts``. Each
    order statistic lies between those of ``least`` and of ``greatest``; None where ``counts`` is exact."""

    counts: dict[str, Ints]
    least: dict[str, Ints] | None = None
    greatest: dict[str, Ints] | None = None


def _cut(part: Part, start: float, end: float) -> list[int]:
    """Where the sketches begin that an end of the window [start, end) (unix s) cuts, and whose samples are thinned."""
    edges = [edge for edge in (start, end) if math.isfinite(edge) and edge % SKETCH_SECONDS]
    begins = {int(edge // SKETCH_SECONDS) * SKETCH_SECONDS for edge in edges}
    return sorted(begin for begin in begins if max(begin, start) < part.thinned)


def edge_bins(part: Part, names: Sequence[str], start: float, end: float, gpus: Ints | None) -> list[Histograms]:
    """The thinned samples of [start, end) that lie in sketches which the window cuts, sketch by sketch."""
    order = part.shard.layout.sketched
    found = []
    for begin in _cut(part, start, end):
        lower, upper = max(start, begin), min(end, begin + SKETCH_SECONDS, part.thinned)
        counts = [{name: np.zeros(N_BINS, np.int64) for name in names} for _ in range(3)]
        held = _held(part, names, lower, upper, gpus)
        for batch in part.shard.rolled.sketches(part.keys(gpus), begin, begin + SKETCH_SECONDS):
            position = part.positions(np.array([row[0] for row in batch], np.int64))
            for gpu, (_, _, blob) in zip(position.tolist(), batch, strict=True):
                for name, (keys, sizes) in zip(order, _bins(blob), strict=False):
                    if name in held and held[name][gpu, 0] > 0:
                        for own, chosen in zip(counts, _chosen(keys, sizes, *held[name][gpu].tolist()), strict=True):
                            own[name][keys] += chosen
        found.append(Histograms(*counts))
    return found


def _held(part: Part, names: Sequence[str], lower: float, upper: float, gpus: Ints | None) -> dict[str, Floats]:
    """By metric [n_gpus, 3]: number, least and greatest of each GPU's samples in [lower, upper)."""
    layout = part_of(layout_of(part.shard.metrics), [name for name in names if name in part.shard.layout.sketched])
    gpu, _, _, vectors = cover(part, lower, upper, SKETCH_SECONDS, gpus, layout, math.inf)
    n_gpus = max(part.position.values(), default=-1) + 1
    whole = merge(vectors, gpu, n_gpus, math.inf, layout)
    return {block.metric.name: whole[:, [block.start, block.start + 3, block.start + 4]] for block in layout.blocks}


def _bins(blob: bytes) -> list[tuple[Ints, Ints]]:
    """Keys and counts of each metric of a sketch."""
    own = int.from_bytes(blob[:2], "little")
    sizes = np.frombuffer(blob, "<u2", own, 2).astype(np.int64)
    ends, total = np.cumsum(sizes), int(sizes.sum())
    keys = np.frombuffer(blob, "<u2", total, 2 + 2 * own).astype(np.int64)
    counts = np.frombuffer(blob, "<u4", total, 2 + 2 * own + 2 * total).astype(np.int64)
    return [(keys[end - size : end], counts[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _chosen(keys: Ints, counts: Ints, n: float, low: float, high: float) -> tuple[Ints, Ints, Ints]:
    """Of the samples in bins, ``n`` from ``low`` to ``high``: of each bin its share, the least ones, the greatest ones."""
    rank = _rank(keys)
    ends = _rank((np.array([low, high], np.float32).view(np.uint32) >> 16).astype(np.int64))
    inside = np.where((rank >= ends[0]) & (rank <= ends[1]), counts, 0)
    order = np.argsort(rank)
    below = np.cumsum(inside[order])
    total, wanted = int(below[-1]), min(int(n), int(below[-1]))
    if not total:
        return inside, inside, inside
    found = []
    for reached in (below * wanted // total, np.minimum(below, wanted), np.maximum(below - (total - wanted), 0)):
        chosen = np.empty_like(counts)
        chosen[order] = np.diff(reached, prepend=0)
        found.append(chosen)
    return found[0], found[1], found[2]


def _rank(keys: Ints) -> Ints:
    """Keys by value: a negative one falls as its key grows."""
    return np.where(keys >= _NEGATIVE, _NEGATIVE - 1 - keys, keys)
