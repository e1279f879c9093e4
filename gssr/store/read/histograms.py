"""Histograms of a window, by metric.

Of a sketch that a window cuts, and whose samples are thinned, or too many to be read, nobody knows which of them lie in the
window. How many do, and between which values, rollups tell, GPU by GPU. So there are a histogram that takes its share of
every bin, and two that no window can go beyond: of the least samples that there were, and of the greatest. Where no sketch
is cut they are counted exactly: gssr.store.read.sketch_bins.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.store.format.layout import layout_of, part_of
from gssr.store.format.schema import FINE_SKETCH_SECONDS, SKETCH_SECONDS
from gssr.store.format.sketches import Sketches
from gssr.store.read import check_rollups
from gssr.store.read.recording_file import Part
from gssr.store.read.run_clocks import move_window
from gssr.store.read.samples import run_in_threads, stored_names
from gssr.store.read.sketch_bins import N_BINS, count_bins, count_values, make_empty_bins, sketch_lengths_of
from gssr.store.read.time_window import Window
from gssr.store.read.window import cover_window

NEGATIVE = 0x8000
"""Keys of a sketch's bins from here on are those of negative values."""
_GPUS_AT_ONCE = {SKETCH_SECONDS: 64, FINE_SKETCH_SECONDS: 512}
"""Each has some thirty rollups in a sketch that is cut, or seven, mostly read as one:
gssr.store.read.window.keep_cut_minutes."""
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
"""As of make_empty_bins: a share of what there is, the least, the greatest."""


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
    windows = [move_window(window, part.ahead) for part in parts]
    cut = [own.cut_off(sketch_lengths_of(part, own)[-1]) for part, own in zip(parts, windows, strict=True)]
    n_rows: Counter[bool] = Counter()
    for part, own, edges in zip(parts, windows, cut, strict=True):
        for edge in edges:
            n_rows[edge.start == own.start] += _estimate_rows(part, edge, interval)
    counts, bounded = make_empty_bins(names), (make_empty_bins(names), make_empty_bins(names), make_empty_bins(names))
    readable = thinned = False
    for part, own, edges in zip(parts, windows, cut, strict=True):
        lower, upper = own
        seconds = sketch_lengths_of(part, own)[-1]
        for edge in edges if part.ended else ():
            is_first = edge.start == own.start
            few = n_rows[is_first] <= most_rows or _estimate_rows(part, edge, interval) <= min(FEW_ROWS, most_rows)
            if few or edge.start < part.thinned:
                continue
            untold = _add_edge(bounded, part, names, edge, seconds, gpus, gap_seconds, checked=True)
            pieces = part.pieces(stored_names(names), untold, *edge) if len(untold) else ()
            for _gpu, _time, values in run_in_threads(pieces):
                count_values(counts, names, values)
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


def _estimate_rows(part: Part, edge: Window, interval: float) -> int:
    """Estimate how many samples are looked at to read some of an edge."""
    return round(len(part.position) * edge.seconds / interval)


def seconds_in_cut_sketches(parts: Sequence[Part], window: Window) -> float:
    """Measure how many seconds of a window lie in sketches of which only a part is inside the window: in the parts of a
    run (each by its own clock) the most that any has. 0.0 without parts."""
    windows = ((part, move_window(window, part.ahead)) for part in parts)
    cut = (own.cut_off(sketch_lengths_of(part, own)[-1]) for part, own in windows)
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
    for own in _gpus_in_groups(part, gpus, seconds):
        n, ends, whole = _count_in_edge(part, names, edge, seconds, own, gap_seconds, checked)
        done = np.zeros(len(n), bool)
        for batch in part.shard.rollups.sketches(part.keys_of(own), *sketch, checked, seconds):
            position, bins = part.positions(batch.gpu), batch
            if checked:
                right = (whole[position] == bins.samples() * known).all(axis=1)
                position, bins = position[right], bins.of(right)
            metric, keys, weights, n_found = _choose_samples(n[position], ends[position], bins)
            if checked and (short := (n_found != n[position]).any(axis=1)).any():
                position, bins = position[~short], bins.of(~short)
                metric, keys, weights, _ = _choose_samples(n[position], ends[position], bins)
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


def _gpus_in_groups(part: Part, gpus: Ints | None, seconds: int) -> Iterator[Ints]:
    """Yield the positions of the part's GPUs that are among ``gpus`` (None: all), ascending, so many at a time as can be
    looked at together for sketches of ``seconds``."""
    own = part.positions_among(gpus)
    for first in range(0, len(own), _GPUS_AT_ONCE[seconds]):
        yield own[first : first + _GPUS_AT_ONCE[seconds]]


def _count_in_edge(
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
        rolled = check_rollups.read_unchecked_rollups(
            part, seconds, part.keys_of(gpus), _sketch_around(edge, seconds), layout
        )
        put(whole, np.add, rolled.gpu, rolled.vectors[:, at])
    inside = cover_window(part, edge, seconds, gpus, layout, gap_seconds)
    put(n, np.add, inside.gpu, inside.vectors[:, at])
    ends = np.zeros((n_gpus, len(order), 2), np.float32)
    put(ends[..., 0], np.fmin, inside.gpu, inside.vectors[:, at + 3])
    put(ends[..., 1], np.fmax, inside.gpu, inside.vectors[:, at + 4])
    return n, _rank_keys((ends.view(np.uint32) >> 16).astype(np.int64)), whole


def _choose_samples(n: Ints, ends: Ints, bins: Sketches) -> tuple[Ints, Ints, Bounded, Ints]:
    """Choose some of the samples in sketches: of each metric ``n`` [sketches, metrics], in bins whose ranks are from
    ends[..., 0] to ends[..., 1].

    Returns the metrics and the keys of the bins; how many samples are taken of each bin, if those that are chosen are a
    share of all, the least, or the greatest; and how many there are in all [sketches, metrics].
    """
    sizes, keys, weights = bins.sizes.reshape(-1), bins.keys, bins.counts

    def of_each(values: Ints) -> Ints:
        return np.repeat(values, sizes)

    is_signed = (keys >= NEGATIVE).any()
    rank = _rank_keys(keys) if is_signed else keys
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


def _rank_keys(keys: Ints) -> Ints:
    """Rank the keys of bins by value: a negative value falls as its key grows."""
    return np.where(keys >= NEGATIVE, NEGATIVE - 1 - keys, keys)
