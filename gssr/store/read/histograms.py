"""Histograms of a window: sketches inside, raw rows where they are cut, not closed yet, or count anything else than the
rollups beside them.

Of a sketch that a window cuts, and whose samples are thinned, or too many to be read, nobody knows which of them lie in the
window. How many do, and between which values, rollups tell, GPU by GPU. So there are a histogram that takes its share of
every bin, and two that no window can go beyond: of the least samples that there were, and of the greatest.

How many samples of a metric are below a value, GPU by GPU: told by the sketches, without reading raw rows.
"""

import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.metrics import BY_NAME
from gssr.store.format.layout import layout_of, part_of
from gssr.store.format.sample_arrays import derive
from gssr.store.format.schema import FINE_SKETCH_SECONDS, SKETCH_SECONDS
from gssr.store.format.sketches import Sketches
from gssr.store.read import check_rollups
from gssr.store.read.check_rollups import samples_of, stretches_of
from gssr.store.read.recording_file import Part
from gssr.store.read.run_clocks import moved
from gssr.store.read.samples import in_threads, stored_names
from gssr.store.read.window import cover, near, not_taken, uncounted, uncounted_pieces, uncovered
from gssr.store.read.window_edges import ALL_TIME, Window, codes_of, positions_of, starts_of

N_BINS = 1 << 16


def no_bins(names: Sequence[str]) -> Ints:
    """Make empty bins for ``count_bins``, int64[len(names) + 1, 65536]: of each metric those of a sketch
    (gssr.store.format.layout), and last those of what nobody asked for. Only pages of it that are written to take memory:
    numpy has huge ones made of its own arrays."""
    shape = len(names) + 1, N_BINS
    return np.frombuffer(mmap.mmap(-1, 8 * shape[0] * shape[1], mmap.MAP_PRIVATE), np.int64).reshape(shape)


def lengths_of(part: Part, window: Window) -> list[int]:
    """List the lengths (s) of the sketches to read for a window, the longest first. That is the longest one alone if the
    run has ended and the window cuts none of that length; otherwise all lengths that the part's file has."""
    if part.unended or window.cut_off(SKETCH_SECONDS):
        return part.shard.rollups.sketch_lengths(part.keys(None))
    return [SKETCH_SECONDS]


def count_bins(counts: Ints, part: Part, names: Sequence[str], window: Window, gpus: Ints | None) -> None:
    """Add to ``counts`` [metrics + 1, 65536], by metric and key of a sketch's bin, the samples of a part of a file that
    lie in the window (unix s). The rows of ``counts`` are the metrics ``names`` in their order; the last one takes what
    sketches hold of other metrics. ``gpus`` are positions, None: all."""
    lengths = lengths_of(part, window)
    taken: list[tuple[int, Ints]] = []
    ranges = [window]
    for seconds in lengths:
        finer = []
        for piece in ranges:
            own = count_sketches(counts, part, names, piece, gpus, seconds, taken)
            taken += own
            begins = starts_of(own[0][1])
            finer += uncovered(piece, seconds, begins, begins, True) if part.unended else piece.cut_off(seconds)
        ranges = finer
    for _gpu, _time, values in in_threads(
        uncounted_pieces(part, stored_names(names), window, lengths[-1], gpus, taken)
    ):
        _add(counts, names, values)


def count_sketches(
    counts: Ints,
    part: Part,
    names: Sequence[str],
    window: Window,
    gpus: Ints | None,
    seconds: int,
    taken: Sequence[tuple[int, Ints]],
) -> list[tuple[int, Ints]]:
    """Add to ``counts`` the sketches of ``seconds`` that lie within the window.

    Args:
        counts: Samples by metric and key of a bin [metrics + 1, 65536], changed in place (``count_bins``).
        part: The part of a file to read.
        names: The metrics of the rows of ``counts``.
        window: The times that are looked at, unix s.
        gpus: Positions of the GPUs; None: all.
        seconds: The length of the sketches.
        taken: What is counted already, as pairs of the length of buckets in s and of their numbers (``codes_of``).
            Sketches that begin in one of these are left out.

    In a run that has ended, sketches that are missing or do not hold what rollups say are replaced by the samples
    themselves, and their stretches entered into ``part.shard.recounted``.

    Returns one or two further entries for ``taken``: the sketches that were added and, if the run has ended, those whose
    samples were counted in their place.
    """
    order = part.shard.file.layout.sketched
    places = np.array([names.index(name) if name in names else len(names) for name in order], np.int64)
    told = Told(part, names, window, gpus, seconds) if part.ended else None
    taken = [(level, near(own, level, *window)) for level, own in taken]
    codes = [np.empty(0, np.int64)]
    for batch in part.shard.rollups.sketches(part.keys(gpus), *window, part.ended, seconds):
        position, bins = part.positions(batch.gpu), batch
        if not part.sound(position).all():
            continue
        own = codes_of(position, batch.start)
        right = not_taken(position, batch.start, taken)
        if told is not None:
            right &= told.by_sketches(own, bins.samples())
        own, bins = own[right], bins.of(right)
        codes.append(own)
        np.add.at(counts.reshape(-1), bins.of_each(places * N_BINS) + bins.keys, bins.counts)
    found = [(seconds, np.concatenate(codes))]
    if told is not None:
        again = told.again(found[0][1])
        again = again[not_taken(positions_of(again), starts_of(again), taken)]
        part.shard.recounted.update((part.first, code) for code in stretches_of(again).tolist())
        found.append((seconds, again))
        for _gpu, _time, values in samples_of(part, stored_names(names), again, seconds, window):
            _add(counts, names, values)
    return found


def _add(counts: Ints, names: Sequence[str], values: dict[str, Floats]) -> None:
    """Count the finite values of raw rows into ``counts``, in place: row i is the metric ``names[i]``, the column is the
    key of a sketch's bin. ``values`` are those of the stored metrics, by name; derived ones are computed from them."""
    for own, name in zip(counts, names, strict=False):
        metric = BY_NAME[name]
        column = derive(values, metric.parts) if metric.derived else values[name]
        column = column[np.isfinite(column)].astype(np.float32)
        if len(column):
            keys = column.view(np.uint32) >> 16
            low, high = int(keys.min()), int(keys.max())  # mostly they are near each other
            own[low : high + 1] += np.bincount(keys - np.uint32(low), minlength=high - low + 1)


class Told:
    """What rollups say about the sketches of ``seconds`` in a window of a run that has ended."""

    def __init__(self, part: Part, names: Sequence[str], window: Window, gpus: Ints | None, seconds: int) -> None:
        layout = part_of(part.shard.file.layout, names)
        counts = [block.start for block in layout.blocks]
        codes, n, wrong = [np.empty(0, np.int64)], [np.empty((0, len(counts)))], [np.empty(0, np.int64)]
        for piece in check_rollups.slices(part, window, seconds):
            buckets, stretches, length = check_rollups.rollups(part, seconds, gpus, piece, layout)
            codes.append(codes_of(buckets.gpu, buckets.start))
            n.append(buckets.vectors[:, counts])
            wrong.append((stretches[:, None] + np.arange(0, length, seconds)).reshape(-1))
        order = np.argsort(np.concatenate(codes))
        self._codes = np.concatenate(codes)[order]
        self._n = np.concatenate(n)[order]
        sketched = part.shard.file.layout.sketched
        self._columns = [sketched.index(block.metric.name) for block in layout.blocks if block.metric.name in sketched]
        untold = np.concatenate(wrong)
        begins = starts_of(untold)
        self._untold = untold[(begins >= window.start) & (begins + seconds <= window.end)]

    def by_sketches(self, codes: Ints, sizes: Ints) -> Flags:
        """Flag the sketches [n] that hold exactly as many samples of each metric asked for as rollups say. ``codes`` [n]
        are the numbers of their GPU and start (``codes_of``), ``sizes`` [n, metrics of a sketch] how many samples they
        hold."""
        place = np.minimum(np.searchsorted(self._codes, codes), max(len(self._codes) - 1, 0))
        if not len(self._codes):
            return np.zeros(len(codes), bool)
        return np.asarray((self._codes[place] == codes) & (self._n[place] == sizes[:, self._columns]).all(axis=1), bool)

    def again(self, counted: Ints) -> Ints:
        """Find the sketches whose samples must be counted from the rows: those of which rollups say that they have
        samples but that are not among ``counted``, and those about which rollups are wrong. ``counted`` and the result,
        which ascends, are numbers of GPU and start (``codes_of``)."""
        some = self._codes[self._n.any(axis=1)]
        return np.unique(np.concatenate([some[~np.isin(some, counted)], self._untold]))


_NEGATIVE = 0x8000  # keys from here on are those of negative values
_GPUS_AT_ONCE = {SKETCH_SECONDS: 64, FINE_SKETCH_SECONDS: 512}
"""Each has some thirty rollups in a sketch that is cut, or seven, mostly read as one (gssr.store.read.window.hold)."""
FEW_ROWS = 10_000
"""Of a file so many samples at an end of a window are read as fast as they are bounded."""


class Histograms(NamedTuple):
    """Histograms by metric: how many samples fell into each of the 65,536 bins of a sketch. ``counts`` is exact if
    ``least`` and ``greatest`` are None; otherwise each order statistic lies between those of ``least`` and
    ``greatest``. ``readable``: reading more samples would make it exact."""

    counts: dict[str, Ints]
    least: dict[str, Ints] | None = None
    greatest: dict[str, Ints] | None = None
    readable: bool = False

    def with_others(self, others: "Histograms") -> "Histograms":
        """Return these histograms with the metrics that ``others`` has replaced by theirs, bounds included; ``readable``
        is that of ``others``."""
        kept = [
            {name: own for name, own in bound.items() if name not in others.counts}
            for bound in (self.least or {}, self.greatest or {})
        ]
        least, greatest = kept[0] | (others.least or {}), kept[1] | (others.greatest or {})
        return Histograms(self.counts | others.counts, least, greatest, others.readable)


Bounded = tuple[Ints, Ints, Ints]
"""As gssr.store.read.histograms.no_bins: a share of what there is, the least, the greatest."""


def histograms(
    parts: Sequence[Part],
    names: Sequence[str],
    window: Window,
    gpus: Ints | None,
    gap_seconds: float,
    interval: float,
    most_rows: float,
) -> Histograms:
    """Count the samples of some GPUs in a window by bins.

    Args:
        parts: the run's shares of files.
        names: the metrics.
        window: the time.
        gpus: positions of the GPUs. None: all.
        gap_seconds: more than this between two samples of a GPU is a gap.
        interval: about the time between two samples of a GPU, s.
        most_rows: samples in a sketch that the window cuts are read, if they still are there, up to so many at each end.
    """
    windows = [moved(window, part.ahead) for part in parts]
    cut = [own.cut_off(lengths_of(part, own)[-1]) for part, own in zip(parts, windows, strict=True)]
    n_rows: Counter[bool] = Counter()
    for part, own, edges in zip(parts, windows, cut, strict=True):
        for edge in edges:
            n_rows[edge.start == own.start] += _n_rows(part, edge, interval)
    counts, bounded = no_bins(names), (no_bins(names), no_bins(names), no_bins(names))
    readable = thinned = False
    for part, own, edges in zip(parts, windows, cut, strict=True):
        lower, upper = own
        seconds = lengths_of(part, own)[-1]
        for edge in edges if part.ended else ():
            is_first = edge.start == own.start
            few = n_rows[is_first] <= most_rows or _n_rows(part, edge, interval) <= min(FEW_ROWS, most_rows)
            if few or edge.start < part.thinned:
                continue
            untold = _add_edge(bounded, part, names, edge, seconds, gpus, gap_seconds, checked=True)
            pieces = part.pieces(stored_names(names), untold, *edge) if len(untold) else ()
            for _gpu, _time, values in in_threads(pieces):
                _add(counts, names, values)
            readable = True
            lower, upper = (edge.end, upper) if is_first else (lower, edge.start)
        if lower < upper:
            count_bins(counts, part, names, Window(lower, upper), gpus)
        for edge in edges:
            if edge.start < part.thinned:
                gone = edge._replace(end=min(edge.end, part.thinned))
                thinned = True
                _add_edge(bounded, part, names, gone, seconds, gpus, gap_seconds, checked=False)
    if not (readable or thinned):
        return Histograms(dict(zip(names, counts, strict=False)))
    some = np.flatnonzero(counts)
    for bins in bounded:
        bins.reshape(-1)[some] += counts.reshape(-1)[some]
    share, least, greatest = (dict(zip(names, bins, strict=False)) for bins in bounded)
    return Histograms(share, least, greatest, readable)


def _n_rows(part: Part, edge: Window, interval: float) -> int:
    """Estimate how many samples are looked at to read some of an edge."""
    return round(len(part.position) * edge.seconds / interval)


def cut_seconds(parts: Sequence[Part], window: Window) -> float:
    """Measure how many seconds of a window lie in sketches of which only a part is inside the window: in the parts of a
    run (each by its own clock) the most that any has. 0.0 without parts."""
    windows = ((part, moved(window, part.ahead)) for part in parts)
    cut = (own.cut_off(lengths_of(part, own)[-1]) for part, own in windows)
    return max((sum(edge.seconds for edge in edges) for edges in cut), default=0.0)


def _add_edge(
    counts: Bounded,
    part: Part,
    names: Sequence[str],
    edge: Window,
    seconds: int,
    gpus: Ints | None,
    gap_seconds: float,
    checked: bool,
) -> Ints:
    """Add to the three arrays in ``counts`` how many samples lie in the piece of a sketch of ``seconds`` that is inside
    the window (``edge``): estimated, at least and at most, bin by bin, for the metrics ``names``.

    ``gpus`` are positions, None: all; more than ``gap_seconds`` between two samples of a GPU is a gap. With ``checked``
    a sketch is only used if it holds exactly as many samples as rollups say; without it (samples are thinned) it is all
    there is. Returns the positions of the GPUs that have samples there but no such sketch: nothing of them was added.
    """
    order = part.shard.file.layout.sketched
    places = np.array([names.index(name) if name in names else len(names) for name in order], np.int64)
    known = np.array([name in names for name in order])
    sketch, untold = _sketch_around(edge, seconds), [np.empty(0, np.int64)]
    for own in _groups(part, gpus, seconds):
        n, ends, whole = _held(part, names, edge, seconds, own, gap_seconds, checked)
        done = np.zeros(len(n), bool)
        for batch in part.shard.rollups.sketches(part.keys(own), *sketch, checked, seconds):
            position, bins = part.positions(batch.gpu), batch
            if checked:
                right = (whole[position] == bins.samples() * known).all(axis=1)
                position, bins = position[right], bins.of(right)
            metric, keys, weights, n_found = _chosen(n[position], ends[position], bins)
            if checked and (short := (n_found != n[position]).any(axis=1)).any():
                position, bins = position[~short], bins.of(~short)
                metric, keys, weights, _ = _chosen(n[position], ends[position], bins)
            done[position] = True
            cells = places[metric] * N_BINS + keys
            for into, each in zip(counts, weights, strict=True):
                np.add.at(into.reshape(-1), cells, each)
        untold.append(own[n[own].any(axis=1) & ~done[own]])
    return np.concatenate(untold)


def _sketch_around(edge: Window, seconds: int) -> Window:
    """Return the times of the sketch of ``seconds`` that a piece of it (``edge``) lies in."""
    begin = edge.start // seconds * seconds
    return Window(begin, begin + seconds)


def _groups(part: Part, gpus: Ints | None, seconds: int) -> Iterator[Ints]:
    """Yield the positions of the part's GPUs that are among ``gpus`` (None: all), ascending, so many at a time as can be
    looked at together for sketches of ``seconds``."""
    own = part.own(gpus)
    for first in range(0, len(own), _GPUS_AT_ONCE[seconds]):
        yield own[first : first + _GPUS_AT_ONCE[seconds]]


def _held(
    part: Part, names: Sequence[str], edge: Window, seconds: int, gpus: Ints, gap_seconds: float, checked: bool
) -> tuple[Ints, Ints, Ints]:
    """Count the samples in the window's part (``edge``) of a sketch of ``seconds``.

    Returns, by position and metric of a sketch: how many samples lie in the part, int64[positions, metrics]; the ranks
    of the bins of the least and the greatest of them, int64[positions, metrics, 2]; and how many lie in the whole
    sketch, int64[positions, metrics], if ``checked``, else 0. Metrics that nobody asked for are 0.
    """
    order = part.shard.file.layout.sketched
    layout = part_of(layout_of(part.shard.file.metrics), [name for name in names if name in order])
    n_gpus = int(gpus.max()) + 1
    metrics = [order.index(block.metric.name) for block in layout.blocks]
    at = np.array([block.start for block in layout.blocks], np.int64)

    def put(into: NDArray[Any], how: np.ufunc, gpu: Ints, values: Floats) -> None:
        by_gpu = np.argsort(gpu, kind="stable")
        found, starts = np.unique(gpu[by_gpu], return_index=True)
        into[found[:, None], metrics] = how.reduceat(values[by_gpu], starts, axis=0)

    n, whole = np.zeros((2, n_gpus, len(order)), np.int64)
    if checked:
        rolled = check_rollups.unchecked(part, seconds, part.keys(gpus), _sketch_around(edge, seconds), layout)
        put(whole, np.add, rolled.gpu, rolled.vectors[:, at])
    inside = cover(part, edge, seconds, gpus, layout, gap_seconds)
    put(n, np.add, inside.gpu, inside.vectors[:, at])
    ends = np.zeros((n_gpus, len(order), 2), np.float32)
    put(ends[..., 0], np.fmin, inside.gpu, inside.vectors[:, at + 3])
    put(ends[..., 1], np.fmax, inside.gpu, inside.vectors[:, at + 4])
    return n, _rank((ends.view(np.uint32) >> 16).astype(np.int64)), whole


def _chosen(n: Ints, ends: Ints, bins: Sketches) -> tuple[Ints, Ints, Bounded, Ints]:
    """Choose some of the samples in sketches: of each metric ``n`` [sketches, metrics], in bins whose ranks are from
    ends[..., 0] to ends[..., 1].

    Returns the metrics and the keys of the bins; how many samples are taken of each bin, if those that are chosen are a
    share of all, the least, or the greatest; and how many there are in all [sketches, metrics].
    """
    sizes, keys, weights = bins.sizes.reshape(-1), bins.keys, bins.counts

    def of_each(values: Ints) -> Ints:
        return np.repeat(values, sizes)

    is_signed = (keys >= _NEGATIVE).any()
    rank = _rank(keys) if is_signed else keys
    low, high = np.where(n.reshape(-1) > 0, ends.reshape(-1, 2).T, -1)
    weights = weights * ((rank >= of_each(low)) & (rank <= of_each(high)))
    if is_signed:
        order = np.lexsort((rank, of_each(np.arange(n.size))))
        keys, weights = keys[order], weights[order]
    below = np.cumsum(weights)
    begins = np.append(0, below)[np.append(0, np.cumsum(sizes))]
    total = np.diff(begins)
    wanted = np.minimum(n.reshape(-1), total)
    below -= of_each(begins[:-1])
    own, earlier = of_each(wanted), of_each(np.cumsum(wanted) - wanted)
    up_to = below * own // of_each(np.maximum(total, 1)), np.minimum(below, own), below - of_each(total - wanted)
    for some in up_to:  # what each bin adds
        np.maximum(some, 0, out=some)
        some += earlier
        some[1:] -= some[:-1].copy()
    return of_each(np.arange(n.size) % n.shape[1]), keys, up_to, wanted.reshape(n.shape)


def _rank(keys: Ints) -> Ints:
    """Rank the keys of bins by value: a negative value falls as its key grows."""
    return np.where(keys >= _NEGATIVE, _NEGATIVE - 1 - keys, keys)


"""Keys of a sketch from here on are those of negative values."""


def count_below(part: Part, name: str, limit: float, n_gpus: int) -> tuple[Ints, Ints]:
    """Count the samples of a stored metric below ``limit`` >= 0, and all of its samples, by position: int64[n_gpus] each. A
    sample that falls into the sketch's bin of the limit itself, 1/128 of it wide, is not below it. Zero where the file lacks
    the metric."""
    below, known = np.zeros(n_gpus, np.int64), np.zeros(n_gpus, np.int64)
    if name not in part.shard.file.layout.sketched:
        return below, known
    index, edge = part.shard.file.layout.sketched.index(name), int(_keys(np.array([limit]))[0])
    codes = [np.empty(0, np.int64)]
    for batch in part.shard.rollups.sketches(part.keys(None), -np.inf, np.inf):
        gpu = part.positions(batch.gpu)
        if not part.sound(gpu).all():
            continue
        codes.append(codes_of(gpu, batch.start))
        sizes, keys, counts = batch.sizes, batch.keys, batch.counts
        own = batch.of_each(np.arange(sizes.shape[1])) == index
        gpu_of, keys, counts = np.repeat(gpu, sizes[:, index]), keys[own], counts[own]
        np.add.at(known, gpu_of, counts)
        low = (keys < edge) | (keys >= _NEGATIVE)
        np.add.at(below, gpu_of[low], counts[low])
    taken = [(SKETCH_SECONDS, np.concatenate(codes))]
    gpu, _time, values = uncounted(part, [name], ALL_TIME, SKETCH_SECONDS, None, taken)
    measured = np.isfinite(values[name])
    gpu, keys = gpu[measured], _keys(values[name][measured])
    known += np.bincount(gpu, minlength=n_gpus)
    below += np.bincount(gpu[(keys < edge) | (keys >= _NEGATIVE)], minlength=n_gpus)
    return below, known


def _keys(values: Floats) -> Ints:
    """Return the keys of the values' bins in a sketch (gssr.store.format.layout)."""
    return np.asarray(values, np.float32).view(np.uint32).astype(np.int64) >> 16
