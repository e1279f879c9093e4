"""How many samples of a metric are below a value, GPU by GPU: told by the sketches, without reading raw rows."""

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.store.format.schema import SKETCH_SECONDS
from gssr.store.read.bucket_numbers import codes_of
from gssr.store.read.histograms import NEGATIVE
from gssr.store.read.recording_file import Part
from gssr.store.read.time_window import ALL_TIME
from gssr.store.read.window import read_uncounted


def count_samples_below(part: Part, name: str, limit: float, n_gpus: int) -> tuple[Ints, Ints]:
    """Count the samples of a stored metric below ``limit`` >= 0, and all of its samples, by position: int64[n_gpus] each. A
    sample that falls into the sketch's bin of the limit itself, 1/128 of it wide, is not below it. Zero where the file lacks
    the metric."""
    below, known = np.zeros(n_gpus, np.int64), np.zeros(n_gpus, np.int64)
    if name not in part.shard.file.layout.sketched:
        return below, known
    index, edge = part.shard.file.layout.sketched.index(name), int(_keys_of_bins(np.array([limit]))[0])
    codes = [np.empty(0, np.int64)]
    for batch in part.shard.rollups.sketches(part.keys_of(None), -np.inf, np.inf):
        gpu = part.positions(batch.gpu)
        if not part.are_listed(gpu).all():
            continue
        codes.append(codes_of(gpu, batch.start))
        sizes, keys, counts = batch.sizes, batch.keys, batch.counts
        own = batch.of_each(np.arange(sizes.shape[1])) == index
        gpu_of, keys, counts = np.repeat(gpu, sizes[:, index]), keys[own], counts[own]
        np.add.at(known, gpu_of, counts)
        low = (keys < edge) | (keys >= NEGATIVE)
        np.add.at(below, gpu_of[low], counts[low])
    taken = [(SKETCH_SECONDS, np.concatenate(codes))]
    gpu, _time, values = read_uncounted(part, [name], ALL_TIME, SKETCH_SECONDS, None, taken)
    measured = np.isfinite(values[name])
    gpu, keys = gpu[measured], _keys_of_bins(values[name][measured])
    known += np.bincount(gpu, minlength=n_gpus)
    below += np.bincount(gpu[(keys < edge) | (keys >= NEGATIVE)], minlength=n_gpus)
    return below, known


def _keys_of_bins(values: Floats) -> Ints:
    """Return for each value [n] the key (0 to 65,535) of the bin of a sketch that it falls into: the upper half of its bits
    as a 32-bit float (gssr.store.format.layout)."""
    return np.asarray(values, np.float32).view(np.uint32).astype(np.int64) >> 16
