"""What all rows of a growing run add up to, GPU by GPU: read once, then counted on row by row."""

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS, DERIVED, THROTTLES
from gssr.model.analysis import Floats
from gssr.model.frame import RECENT_SECONDS, Ints, Means
from gssr.store.layout import FIELDS
from gssr.store.moments import derive
from gssr.store.reader import Buckets, RunReader
from gssr.store.schema import LEVELS

_FLAGS = "clock_event_reasons"
_MOST_CHUNKS_OF = 30_000
"""Numbers kept for each second of the last minute; a larger run's are kept for each five seconds."""


class Tally:
    """Counts and sums of every metric that has a mean, over the whole run and over its last minute. ``metrics``: these,
    derived ones first; ``names``: these and THROTTLES, each as a metric of its own that is 1 where the flag is set and else
    0; ``stored``: the columns that they are made of, ``counted``: what of rollups. ``n_gaps``, ``last_time`` (unix s, NaN
    without rows) [n_gpus]; ``latest`` [n_metrics, n_gpus] the newest values, NaN without any."""

    def __init__(self, reader: RunReader, growing: bool) -> None:
        known = [name for name in reader.metrics if name in BY_NAME]
        gauges = tuple(name for name in known if BY_NAME[name].kind in ("gauge", "rate"))
        derived = [metric for metric in DERIVED if set(metric.parts) <= set(gauges)]
        flags = tuple(name for name in known if name == _FLAGS)
        self._throttles = [reason for reason in CLOCK_EVENT_REASONS if flags and reason[1] in THROTTLES]
        self.metrics = (*(metric.name for metric in derived), *gauges)
        self.names = (*self.metrics, *(name for _, name, _ in self._throttles))
        self.stored = (*gauges, *flags)
        self.counted = (*self.metrics, *flags)
        self._derived = derived
        self._n_gpus = len(reader.gpus)
        self._gap = reader.gap_seconds
        shape = (len(self.names), self._n_gpus)
        self._n, self._total = np.zeros(shape), np.zeros(shape)
        self.n_gaps = np.zeros(self._n_gpus, np.int64)
        self.last_time = np.full(self._n_gpus, np.nan)
        self.latest = np.full(shape, np.nan)
        self.n_rows = reader.n_rows
        self.first = _known(reader.first_time)
        self.last = _known(reader.last_time)
        self._chunk_seconds = 1.0 if self._n.size <= _MOST_CHUNKS_OF else 5.0
        self._chunks: deque[Means] = deque()
        if math.isfinite(self.last):
            self._read(reader, growing)

    def _read(self, reader: RunReader, growing: bool) -> None:
        buckets = reader.buckets(names=self.counted)
        whole = self.means_of(buckets, self.first, self.last)
        self._n, self._total = whole.n, whole.total
        self.n_gaps = np.bincount(buckets.gpu, buckets.vectors[:, 1], self._n_gpus).astype(np.int64)
        np.fmax.at(self.last_time, buckets.gpu, buckets.vectors[:, 3])
        if growing:
            start = math.floor((self.last - RECENT_SECONDS) / LEVELS[0]) * float(LEVELS[0])
            recent = reader.buckets(start, level=LEVELS[0], names=self.counted)
            for begin in np.unique(recent.start).tolist():
                own = recent.start == begin
                piece = Buckets(
                    recent.gpu[own], recent.start[own], recent.seconds[own], recent.vectors[own], recent.layout
                )
                self._chunks.append(self.means_of(piece, begin, min(begin + LEVELS[0], self.last)))
        newest = reader.samples(self.metrics, start=self.last - 2.5 * max(reader.sampling_seconds, 0.05))
        for row, name in enumerate(self.metrics):
            column = newest.values[name]
            present = np.isfinite(column)
            self.latest[row, newest.gpu[present]] = column[present]

    def means_of(self, buckets: Buckets, start: float, end: float) -> Means:
        """What rollups add up to."""
        n, total = np.zeros_like(self._n), np.zeros_like(self._total)
        for block in buckets.layout.blocks:
            if block.metric.kind == "bits":
                fields = FIELDS["bits"]
                for _, name, _ in self._throttles:
                    row, at = self.names.index(name), block.start + fields.index(name)
                    n[row] = np.bincount(buckets.gpu, buckets.vectors[:, block.start], self._n_gpus)
                    total[row] = np.bincount(buckets.gpu, buckets.vectors[:, at], self._n_gpus)
                continue
            row = self.names.index(block.metric.name)
            n[row] = np.bincount(buckets.gpu, buckets.vectors[:, block.start], self._n_gpus)
            total[row] = np.bincount(buckets.gpu, buckets.vectors[:, block.start + 1], self._n_gpus)
        return Means(self.names, start, end, n, total)

    def add(self, gpu: Ints, time: Floats, rows: Floats) -> dict[str, Floats]:
        """Count new rows [n, len(stored)]; their values by metric, derived ones too."""
        values = {name: rows[:, index] for index, name in enumerate(self.stored)}
        values |= {metric.name: derive(values, metric.parts) for metric in self._derived}
        if self._throttles:
            values |= _split(values.pop(_FLAGS), self._throttles)
        order = np.lexsort((time, gpu))
        ordered, moment = gpu[order], time[order]
        starts = np.diff(ordered, prepend=-1) != 0
        before = np.where(starts, self.last_time[ordered], np.roll(moment, 1))
        np.add.at(self.n_gaps, ordered, moment - before > self._gap)
        np.fmax.at(self.last_time, gpu, time)
        n, total = np.zeros_like(self._n), np.zeros_like(self._total)
        for row, name in enumerate(self.names):
            known = np.isfinite(values[name])
            owner, column = gpu[known], values[name][known]
            n[row] = np.bincount(owner, minlength=self._n_gpus)
            total[row] = np.bincount(owner, column, self._n_gpus)
            self.latest[row, owner] = column
        self._n += n
        self._total += total
        self.n_rows += len(gpu)
        first, last = float(time.min()), float(time.max())
        self.first = min(self.first, first) if math.isfinite(self.first) else first
        self.last = max(self.last, last) if math.isfinite(self.last) else last
        self._chunk(Means(self.names, first, last, n, total))
        return values

    def _chunk(self, new: Means) -> None:
        newest = self._chunks[-1] if self._chunks else None
        if newest is not None and new.end - newest.start < self._chunk_seconds:
            start, end = min(newest.start, new.start), max(newest.end, new.end)
            self._chunks[-1] = Means(self.names, start, end, newest.n + new.n, newest.total + new.total)
        else:
            self._chunks.append(new)
        while self._chunks and self._chunks[0].start < self.last - RECENT_SECONDS:
            self._chunks.popleft()

    def whole(self) -> Means:
        """Over the whole run."""
        return Means(self.names, self.first, self.last, self._n.copy(), self._total.copy())

    def recent(self) -> Means:
        """Over the last minute, as far as it is known to a few seconds."""
        if not self._chunks:
            return Means(self.names, self.last, self.last, np.zeros_like(self._n), np.zeros_like(self._n))
        chunks: Sequence[Means] = self._chunks
        n = np.sum([chunk.n for chunk in chunks], axis=0)
        total = np.sum([chunk.total for chunk in chunks], axis=0)
        return Means(self.names, chunks[0].start, self.last, n, total)


def _split(flags: Floats, reasons: Sequence[tuple[int, str, str]]) -> dict[str, Floats]:
    """Each flag by itself [n]: 1 where it is set, else 0; NaN where nothing is known."""
    known = np.isfinite(flags)
    bits = np.where(known, flags, 0.0).astype(np.int64)
    return {name: np.where(known, (bits & bit) != 0, np.nan) for bit, name, _ in reasons}


def _known(value: float | None) -> float:
    return math.nan if value is None else value
