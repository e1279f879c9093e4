"""How many samples of a metric are below a value, GPU by GPU: told by the sketches, without reading raw rows."""

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.store.format.schema import SKETCH_SECONDS
from gssr.store.read.part import Part
from gssr.store.read.window import uncounted
from gssr.store.read.window_edges import codes_of

_NEGATIVE = 0x8000
"""Keys of a sketch from here on are those of negative values."""


def count_below(part: Part, name: str, limit: float, n_gpus: int) -> tuple[Ints, Ints]:
    """Samples of a stored metric below ``limit`` >= 0, and samples at all, by position: int64[n_gpus] each. A sample that
    falls into the sketch's bin of the limit itself, 1/128 of it wide, is not below it. Zero where the file lacks the
    metric."""
    below, known = np.zeros(n_gpus, np.int64), np.zeros(n_gpus, np.int64)
    if name not in part.shard.file.layout.sketched:
        return below, known
    index, edge = part.shard.file.layout.sketched.index(name), int(_keys(np.array([limit]))[0])
    codes = [np.empty(0, np.int64)]
    for batch in part.shard.rolled.sketches(part.keys(None), -np.inf, np.inf):
        if not part.sound(batch.gpu).all():
            continue
        gpu = part.positions(batch.gpu)
        codes.append(codes_of(gpu, batch.bucket))
        sizes, keys, counts = batch.bins
        own = batch.bins.of_each(np.arange(sizes.shape[1])) == index
        gpu_of, keys, counts = np.repeat(gpu, sizes[:, index]), keys[own], counts[own]
        np.add.at(known, gpu_of, counts)
        low = (keys < edge) | (keys >= _NEGATIVE)
        np.add.at(below, gpu_of[low], counts[low])
    taken = [(SKETCH_SECONDS, np.concatenate(codes))]
    gpu, _time, values = uncounted(part, [name], -np.inf, np.inf, SKETCH_SECONDS, None, taken)
    measured = np.isfinite(values[name])
    gpu, keys = gpu[measured], _keys(values[name][measured])
    known += np.bincount(gpu, minlength=n_gpus)
    below += np.bincount(gpu[(keys < edge) | (keys >= _NEGATIVE)], minlength=n_gpus)
    return below, known


def _keys(values: Floats) -> Ints:
    """The keys of their bins in a sketch (gssr.store.format.layout)."""
    return np.asarray(values, np.float32).view(np.uint32).astype(np.int64) >> 16
