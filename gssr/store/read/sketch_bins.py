"""Counting the samples of a window by the bins of sketches: sketches inside, raw rows where a sketch is cut, is not closed
yet, or counts anything else than the rollups beside it. What a window that cuts a sketch leaves open:
gssr.store.read.histograms."""

import mmap
from collections.abc import Sequence

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.metrics import BY_NAME
from gssr.store.format.layout import part_of
from gssr.store.format.sample_arrays import derive
from gssr.store.format.schema import SKETCH_SECONDS
from gssr.store.read import check_rollups
from gssr.store.read.bucket_numbers import codes_of, positions_of, starts_of
from gssr.store.read.check_rollups import read_samples_in, stretches_of
from gssr.store.read.recording_file import Part
from gssr.store.read.samples import run_in_threads, stored_names
from gssr.store.read.time_window import Window
from gssr.store.read.window import are_uncounted, find_uncovered, pick_overlapping, uncounted_pieces

N_BINS = 1 << 16


def make_empty_bins(names: Sequence[str]) -> Ints:
    """Make empty bins for ``count_bins``, int64[len(names) + 1, 65536]: of each metric those of a sketch
    (gssr.store.format.layout), and last those of what nobody asked for. Only pages of it that are written to take memory:
    numpy has huge ones made of its own arrays."""
    shape = len(names) + 1, N_BINS
    return np.frombuffer(mmap.mmap(-1, 8 * shape[0] * shape[1], mmap.MAP_PRIVATE), np.int64).reshape(shape)


def sketch_lengths_of(part: Part, window: Window) -> list[int]:
    """List the lengths (s) of the sketches to read for a window, the longest first. That is the longest one alone if the
    run has ended and the window cuts none of that length; otherwise all lengths that the part's file has."""
    if part.unended or window.cut_off(SKETCH_SECONDS):
        return part.shard.rollups.sketch_lengths(part.keys_of(None))
    return [SKETCH_SECONDS]


def count_bins(counts: Ints, part: Part, names: Sequence[str], window: Window, gpus: Ints | None) -> None:
    """Add to ``counts`` [metrics + 1, 65536], by metric and key of a sketch's bin, the samples of a part of a file that
    lie in the window (unix s). The rows of ``counts`` are the metrics ``names`` in their order; the last one takes what
    sketches hold of other metrics. ``gpus`` are positions, None: all."""
    lengths = sketch_lengths_of(part, window)
    taken: list[tuple[int, Ints]] = []
    ranges = [window]
    for seconds in lengths:
        finer = []
        for piece in ranges:
            own = count_sketches(counts, part, names, piece, gpus, seconds, taken)
            taken += own
            begins = starts_of(own[0][1])
            finer += find_uncovered(piece, seconds, begins, begins, True) if part.unended else piece.cut_off(seconds)
        ranges = finer
    for _gpu, _time, values in run_in_threads(
        uncounted_pieces(part, stored_names(names), window, lengths[-1], gpus, taken)
    ):
        count_values(counts, names, values)


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
    check = SketchCheck(part, names, window, gpus, seconds) if part.ended else None
    taken = [(level, pick_overlapping(own, level, *window)) for level, own in taken]
    codes = [np.empty(0, np.int64)]
    for batch in part.shard.rollups.sketches(part.keys_of(gpus), *window, part.ended, seconds):
        position, bins = part.positions(batch.gpu), batch
        if not part.are_listed(position).all():
            continue
        own = codes_of(position, batch.start)
        right = are_uncounted(position, batch.start, taken)
        if check is not None:
            right &= check.are_complete(own, bins.samples())
        own, bins = own[right], bins.of(right)
        codes.append(own)
        np.add.at(counts.reshape(-1), bins.of_each(places * N_BINS) + bins.keys, bins.counts)
    found = [(seconds, np.concatenate(codes))]
    if check is not None:
        again = check.to_recount(found[0][1])
        again = again[are_uncounted(positions_of(again), starts_of(again), taken)]
        part.shard.recounted.update((part.first, code) for code in stretches_of(again).tolist())
        found.append((seconds, again))
        for _gpu, _time, values in read_samples_in(part, stored_names(names), again, seconds, window):
            count_values(counts, names, values)
    return found


def count_values(counts: Ints, names: Sequence[str], values: dict[str, Floats]) -> None:
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


class SketchCheck:
    """Checks the sketches of ``seconds`` in a window, of a run that has ended, against the rollups of the same samples:
    which are complete, and which have to be counted from the samples."""

    def __init__(self, part: Part, names: Sequence[str], window: Window, gpus: Ints | None, seconds: int) -> None:
        layout = part_of(part.shard.file.layout, names)
        counts = [block.start for block in layout.blocks]
        codes, n, wrong = [np.empty(0, np.int64)], [np.empty((0, len(counts)))], [np.empty(0, np.int64)]
        for piece in check_rollups.cut_into_slices(part, window, seconds):
            buckets, stretches, length = check_rollups.read_checked_rollups(part, seconds, gpus, piece, layout)
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

    def are_complete(self, codes: Ints, sizes: Ints) -> Flags:
        """Flag the sketches [n] that hold exactly as many samples of each metric asked for as rollups say. ``codes`` [n]
        are the numbers of their GPU and start (``codes_of``), ``sizes`` [n, metrics of a sketch] how many samples they
        hold."""
        place = np.minimum(np.searchsorted(self._codes, codes), max(len(self._codes) - 1, 0))
        if not len(self._codes):
            return np.zeros(len(codes), bool)
        return np.asarray((self._codes[place] == codes) & (self._n[place] == sizes[:, self._columns]).all(axis=1), bool)

    def to_recount(self, counted: Ints) -> Ints:
        """Find the sketches whose samples must be counted from the rows: those of which rollups say that they have
        samples but that are not among ``counted``, and those about which rollups are wrong. ``counted`` and the result,
        which ascends, are numbers of GPU and start (``codes_of``)."""
        some = self._codes[self._n.any(axis=1)]
        return np.unique(np.concatenate([some[~np.isin(some, counted)], self._untold]))
