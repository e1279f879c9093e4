"""How many samples of a metric are below a value, GPU by GPU: told by the sketches, without reading raw rows."""

import numpy as np

from gssr.store.cover import Part, codes_of, uncounted
from gssr.store.moments import Floats, Ints
from gssr.store.schema import SKETCH_SECONDS

_NEGATIVE = 0x8000
"""Keys of a sketch from here on are those of negative values."""


def count_below(part: Part, name: str, limit: float, n_gpus: int) -> tuple[Ints, Ints]:
    """Samples of a stored metric below ``limit`` >= 0, and samples at all, by position: int64[n_gpus] each. A sample that
    falls into the sketch's bin of the limit itself, 1/128 of it wide, is not below it. Zero where the file lacks the
    metric."""
    below, known = np.zeros(n_gpus, np.int64), np.zeros(n_gpus, np.int64)
    if name not in part.shard.layout.sketched:
        return below, known
    index, edge = part.shard.layout.sketched.index(name), int(_keys(np.array([limit]))[0])
    codes = [np.empty(0, np.int64)]
    for batch in part.shard.rolled.sketches(part.keys(None), -np.inf, np.inf):
        key = np.array([row[0] for row in batch], np.int64)
        if not part.sound(key).all():
            continue
        gpu = part.positions(key)
        codes.append(codes_of(gpu, np.array([row[1] for row in batch])))
        counted = np.array([_counted(row[2], index, edge) for row in batch], np.int64).reshape(-1, 2)
        np.add.at(below, gpu, counted[:, 0])
        np.add.at(known, gpu, counted[:, 1])
    taken = [(SKETCH_SECONDS, np.concatenate(codes))]
    gpu, _time, values = uncounted(part, [name], -np.inf, np.inf, SKETCH_SECONDS, None, taken)
    measured = np.isfinite(values[name])
    gpu, keys = gpu[measured], _keys(values[name][measured])
    known += np.bincount(gpu, minlength=n_gpus)
    below += np.bincount(gpu[(keys < edge) | (keys >= _NEGATIVE)], minlength=n_gpus)
    return below, known


def _keys(values: Floats) -> Ints:
    """The keys of their bins in a sketch (gssr.store.layout)."""
    return np.asarray(values, np.float32).view(np.uint32).astype(np.int64) >> 16


def _counted(blob: bytes, index: int, edge: int) -> tuple[int, int]:
    """Of one metric of a sketch: how many samples are in bins below that of the key ``edge``, and how many there are. A
    metric that came after the sketch was made has none."""
    n_metrics = int.from_bytes(blob[:2], "little")
    if index >= n_metrics:
        return 0, 0
    sizes = np.frombuffer(blob, "<u2", n_metrics, 2).astype(np.int64)
    before, own, total = int(sizes[:index].sum()), int(sizes[index]), int(sizes.sum())
    start = 2 + 2 * n_metrics
    keys = np.frombuffer(blob, "<u2", own, start + 2 * before)
    counts = np.frombuffer(blob, "<u4", own, start + 2 * total + 4 * before)
    return int(counts[(keys < edge) | (keys >= _NEGATIVE)].sum()), int(counts.sum())
