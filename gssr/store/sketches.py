"""Histograms of a window: sketches inside, raw rows where they are cut, not closed yet, or count anything else than the
rollups beside them."""

import mmap
from collections.abc import Sequence

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.metrics import BY_NAME
from gssr.store import check_rollups
from gssr.store.buckets import codes_of, starts_of
from gssr.store.check_rollups import samples_of
from gssr.store.cover import uncounted_pieces
from gssr.store.layout import part_of
from gssr.store.moments import derive
from gssr.store.part import Part
from gssr.store.raw import in_threads
from gssr.store.schema import SKETCH_SECONDS

N_BINS = 1 << 16


def no_bins(names: Sequence[str]) -> Ints:
    """int64[len(names) + 1, 65536], for ``count_bins``: of each metric the bins of a sketch (gssr.store.layout); last what
    nobody asked for. Only pages of it that are written to take memory: numpy has huge ones made of its own arrays."""
    shape = len(names) + 1, N_BINS
    return np.frombuffer(mmap.mmap(-1, 8 * shape[0] * shape[1], mmap.MAP_PRIVATE), np.int64).reshape(shape)


def count_bins(counts: Ints, part: Part, names: Sequence[str], start: float, end: float, gpus: Ints | None) -> None:
    """Add for each metric how many samples of [start, end) fell into each bin."""
    order = part.shard.file.layout.sketched
    places = np.array([names.index(name) if name in names else len(names) for name in order], np.int64)
    stored = list(dict.fromkeys(part_name for name in names for part_name in (BY_NAME[name].parts or (name,))))
    told = Told(part, names, start, end, gpus) if part.ended else None
    codes = [np.empty(0, np.int64)]
    for batch in part.shard.rolled.sketches(part.keys(gpus), start, end, counted_anew=part.ended):
        if not part.sound(batch.gpu).all():
            continue
        own, bins = codes_of(part.positions(batch.gpu), batch.bucket), batch.bins
        if told is not None:
            right = told.by_sketches(own, bins.samples())
            own, bins = own[right], bins.of(right)
        codes.append(own)
        np.add.at(counts.reshape(-1), bins.of_each(places * N_BINS) + bins.keys, bins.counts)
    taken = [(SKETCH_SECONDS, np.concatenate(codes))]
    if told is not None:
        again = told.again(taken[0][1])
        part.shard.recounted.update((part.first, code) for code in again.tolist())
        taken.append((SKETCH_SECONDS, again))
        for _gpu, _time, values in samples_of(part, stored, again, SKETCH_SECONDS, start, end):
            _add(counts, names, values)
    for _gpu, _time, values in in_threads(uncounted_pieces(part, stored, start, end, SKETCH_SECONDS, gpus, taken)):
        _add(counts, names, values)


def _add(counts: Ints, names: Sequence[str], values: dict[str, Floats]) -> None:
    """Count the values of raw rows."""
    for own, name in zip(counts, names, strict=False):
        metric = BY_NAME[name]
        column = derive(values, metric.parts) if metric.derived else values[name]
        column = column[np.isfinite(column)].astype(np.float32)
        if len(column):
            keys = column.view(np.uint32) >> 16
            low, high = int(keys.min()), int(keys.max())  # mostly they are near each other
            own[low : high + 1] += np.bincount(keys - np.uint32(low), minlength=high - low + 1)


class Told:
    """What rollups tell of the sketches that lie in a window of a run that has ended."""

    def __init__(self, part: Part, names: Sequence[str], start: float, end: float, gpus: Ints | None) -> None:
        layout = part_of(part.shard.file.layout, names)
        counts = [block.start for block in layout.blocks]
        codes, n, wrong = [np.empty(0, np.int64)], [np.empty((0, len(counts)))], [np.empty(0, np.int64)]
        for lower, upper in check_rollups.slices(part, start, end, SKETCH_SECONDS):
            rolled = check_rollups.rollups(part, SKETCH_SECONDS, gpus, lower, upper, layout)
            codes.append(codes_of(rolled.gpu, rolled.bucket))
            n.append(rolled.vectors[:, counts])
            wrong.append(rolled.wrong)
        order = np.argsort(np.concatenate(codes))
        self._codes = np.concatenate(codes)[order]
        self._n = np.concatenate(n)[order]
        sketched = part.shard.file.layout.sketched
        self._columns = [sketched.index(block.metric.name) for block in layout.blocks if block.metric.name in sketched]
        untold = np.concatenate(wrong)
        begins = starts_of(untold)
        self._untold = untold[(begins >= start) & (begins + SKETCH_SECONDS <= end)]

    def by_sketches(self, codes: Ints, sizes: Ints) -> Flags:
        """[n]: which of the sketches of these buckets, by their numbers, hold as many samples of each metric as rollups say;
        ``sizes`` [n, metrics] are theirs."""
        place = np.minimum(np.searchsorted(self._codes, codes), max(len(self._codes) - 1, 0))
        if not len(self._codes):
            return np.zeros(len(codes), bool)
        return np.asarray((self._codes[place] == codes) & (self._n[place] == sizes[:, self._columns]).all(axis=1), bool)

    def again(self, counted: Ints) -> Ints:
        """The buckets, by their numbers, whose samples are to be counted anew; ``counted`` are those of right sketches."""
        some = self._codes[self._n.any(axis=1)]
        return np.unique(np.concatenate([some[~np.isin(some, counted)], self._untold]))
