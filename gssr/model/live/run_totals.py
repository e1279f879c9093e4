"""What all rows of a growing run add up to, GPU by GPU: read once, then counted on row by row; and those of its last minute,
which moves on with it."""

import math
from collections.abc import Sequence

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS, DERIVED, THROTTLES, best_measured
from gssr.model.findings.notes import SURELY_WHOLE
from gssr.model.live.live_result import RECENT_SECONDS
from gssr.model.results import Means
from gssr.model.statistics.gpu_time_counts import GpuTimeCounts
from gssr.model.statistics.grid import Spans
from gssr.model.statistics.sources import RollupSource
from gssr.model.statistics.sums import add_buckets, sum_samples
from gssr.store.format.buckets import Buckets
from gssr.store.format.sample_arrays import derive
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

_MOST_OF_A_SECOND = 3_000
"""Numbers kept for each second of the last minute; a larger run's are kept for each five seconds."""
_FLAGS = "clock_event_reasons"
SILENT_SECONDS = 10.0
"""A file whose newest row is older than this, compared with the others', is not waited for."""


class RunTotals:
    """Counts and sums of every metric that has a mean, over the whole run and its last minute.

    ``metrics``: these metrics, derived ones first; ``names``: these and THROTTLES, each a metric that is 1 where the
    flag is set and else 0; ``stored``: the columns they are made of; ``counted``: the metrics of rollups. ``rows``,
    ``n_gaps``, ``first_time`` and ``last_time`` (unix s, NaN without rows) are [n_gpus]; ``latest`` [n_names, n_gpus]
    holds the newest values, NaN without any, or, where samples were not kept, the means of their last 10 s.
    """

    def __init__(self, reader: RunReader, growing: bool, others: Ints | None = None) -> None:
        """``others``: only these GPUs (positions) are read, and all about the rest is still to be added; None: all are
        read."""
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
        self._thins = growing and reader.keep != "raw"
        self._thinned_until = reader.thinned_until
        self._n, self._total = self._nothing()
        self.n_gaps = np.zeros(self._n_gpus, np.int64)
        self.first_time = np.full(self._n_gpus, np.nan)
        self.last_time = np.full(self._n_gpus, np.nan)
        self.latest = np.full((len(self.names), self._n_gpus), np.nan)
        self.rows = np.zeros(self._n_gpus, np.int64)
        self.first = self.last = math.nan
        self._step = 1.0 if len(self.names) * self._n_gpus <= _MOST_OF_A_SECOND else 5.0
        """The width of the bins of the last minute, s."""
        self._recent = GpuTimeCounts(
            self.names,
            self._n_gpus,
            int(RECENT_SECONDS / self._step) + 1,
            np.float64,  # of a span parts may lie in several
        )
        self._recent_from = 0
        """The number of its first bin, which begins at unix time ``_recent_from * _step``."""
        self._folded_until = -math.inf
        """Up to this time (unix s) its bins were read from rollups: each of these stands in the bin in which it begins."""
        tails = reader.tails
        self._file = np.zeros(self._n_gpus, np.int64)  # which of the files each GPU's rows are in
        for number, (_, _, position) in enumerate(tails):
            self._file[list(position.values())] = number
        self._n_files = len(tails)
        if (others is None or len(others)) and reader.last_time is not None:
            self._read(reader, growing, others)
        self._read_up_to = self.last_time.copy()

    def _read(self, reader: RunReader, growing: bool, gpus: Ints | None) -> None:
        """Read, of these GPUs (positions; None: all), the totals of the whole run, those of its last minute if it is
        ``growing``, and the newest value of each metric. Nothing is left to do if there are no samples."""
        own = np.arange(self._n_gpus) if gpus is None else gpus
        whole = RollupSource(reader, own, 0).sums(self.counted, ALL_TIME, self._gap)
        self.first, self.last = whole.sums.start, whole.sums.end
        if math.isnan(self.last):
            return
        self.rows[own], self.n_gaps[own] = whole.n_rows, whole.n_gaps
        self.first_time[own], self.last_time[own] = whole.first_time, whole.last_time
        for at, name in enumerate(whole.sums.names):
            if name in self.names:
                row = self.names.index(name)
                self._n[row, own], self._total[row, own] = whole.sums.n[at], whole.sums.total[at]
        if growing:
            self._folded_until = self.last
            self._move_recent()
            recent = reader.buckets(
                Window(self._recent_from * self._step), level=LEVELS[0], names=self.counted, gpus=gpus
            )
            for begin in np.unique(recent.start).tolist():
                bin_ = int(begin // self._step) - self._recent_from
                part = self.means_of(recent.of(recent.start == begin), Window(begin, begin + LEVELS[0]))
                for name in part.measured():
                    n, total = self._recent.cells(name)
                    n[:, bin_] += part.n[self.names.index(name)]
                    total[:, bin_] += part.total[self.names.index(name)]
        begin = self.last - 2.5 * max(reader.sampling_seconds, 0.05)
        if reader.thinned_until > begin:
            begin = math.floor(self.last / LEVELS[0]) * float(LEVELS[0])
            window = Window(begin, self.last)
            means = self.means_of(reader.buckets(Window(begin), names=self.counted, gpus=gpus), window)
            np.divide(means.total, means.n, out=self.latest, where=means.n > 0)
            return
        newest = reader.samples(self.metrics, gpus, Window(begin))
        for row, name in enumerate(self.metrics):
            column = newest.values[name]
            present = np.isfinite(column)
            self.latest[row, newest.gpu[present]] = column[present]

    def means_of(self, buckets: Buckets, window: Window) -> Means:
        """Return the means over the rollups of a window."""
        n, total = self._nothing()
        add_buckets(self.names, buckets.gpu, buckets.vectors, buckets.layout, n, total)
        return Means(self.names, *window, n, total)

    def _nothing(self) -> tuple[Floats, Floats]:
        """Return counts and sums of zero [n_names, n_gpus] to write into."""
        shape = (len(self.names), self._n_gpus)
        return np.zeros(shape), np.zeros(shape)

    def add(self, gpu: Ints, time: Floats, rows: Floats) -> dict[str, Floats]:
        """Count new rows, float64[n, len(stored)], of GPUs (positions) at times (unix s). Returns their values by
        metric, also of derived ones. Rows that a rollup had counted already are not counted again."""
        values = {name: rows[:, index] for index, name in enumerate(self.stored)}
        values |= {metric.name: derive(values, metric.parts) for metric in self._derived}
        if self._throttles:
            values |= _split(values.pop(_FLAGS), self._throttles)
        known = self._read_up_to[gpu] >= time
        if known.any():  # a rollup held them already, though they came after the rows that were read
            new = ~known
            self._count(gpu[new], time[new], {name: column[new] for name, column in values.items()})
        else:
            self._count(gpu, time, values)
        return values

    def add_spans(self, spans: Spans) -> None:
        """Count what GPUs did between two looks, where their rows are not read one by one."""
        gpu, end = spans.gpu, spans.end
        self._n, self._total = self._n.copy(), self._total.copy()  # frames hold those of before
        self._n[:, gpu] += spans.n
        self._total[:, gpu] += spans.total
        self.n_gaps[gpu] += spans.gaps
        self.first_time[gpu] = np.fmin(self.first_time[gpu], spans.start)
        self.last_time[gpu] = end
        known = np.isfinite(spans.latest)
        self.latest[: len(known), gpu] = np.where(known, spans.latest, self.latest[: len(known), gpu])
        self.rows[gpu] += spans.rows
        self.first, self.last = float(np.fmin(self.first, spans.start.min())), float(np.fmax(self.last, end.max()))
        # Of the last minute, to a few seconds: a span counts where it ends, but for one that is longer.
        self._move_recent()
        bin_ = np.floor(end / self._step).astype(np.int64) - self._recent_from
        new = (end - spans.start <= RECENT_SECONDS) & (bin_ >= 0)
        for row, name in enumerate(self.names):
            known = new & (spans.n[row] > 0)
            self._recent.add_spans(name, gpu[known], bin_[known], spans.n[row, known], spans.total[row, known])

    def _move_recent(self) -> None:
        """Have the minute up to the newest sample in the bins of the last minute; what is older is forgotten."""
        start = self.last - RECENT_SECONDS
        if start < self._folded_until:  # up to the end of a rollup
            start = min(math.ceil(start / LEVELS[0]) * float(LEVELS[0]), self._folded_until)
        first = math.ceil(start / self._step)
        if first > self._recent_from:
            self._recent.move(first - self._recent_from)
            self._recent_from = first

    def _count(self, gpu: Ints, time: Floats, values: dict[str, Floats]) -> None:
        """Add rows to the totals of the run and of its last minute: GPUs, times (unix s) and values by metric, all [n]."""
        if not len(gpu):
            return
        order = np.lexsort((time, gpu))
        ordered, moment = gpu[order], time[order]
        starts = np.diff(ordered, prepend=-1) != 0
        before = np.where(starts, self.last_time[ordered], np.roll(moment, 1))
        np.add.at(self.n_gaps, ordered, moment - before > self._gap)
        np.fmin.at(self.first_time, gpu, time)
        np.fmax.at(self.last_time, gpu, time)
        for row, name in enumerate(self.names):
            known = np.isfinite(values[name])
            self.latest[row, gpu[known]] = values[name][known]
        n, total = self._nothing()
        for row, name in enumerate(self.names):
            n[row], total[row] = sum_samples(gpu, values[name], self._n_gpus)
        self._n, self._total = self._n + n, self._total + total
        self.rows += np.bincount(gpu, minlength=self._n_gpus)
        self.first, self.last = float(np.fmin(self.first, time.min())), float(np.fmax(self.last, time.max()))
        self._move_recent()
        bin_ = np.floor(time / self._step).astype(np.int64) - self._recent_from
        is_recent = bin_ >= 0
        self._recent.add_rows(gpu[is_recent], bin_[is_recent], {name: values[name][is_recent] for name in self.names})

    @property
    def thinned(self) -> float:
        """The unix time, s, before which nothing finer than FINEST is known; minus infinity if all samples were kept. It
        moves on while a run grows."""
        return max(self._thinned_until, self.last - SURELY_WHOLE) if self._thins else self._thinned_until

    def best(self) -> str | None:
        """Return the metric to begin with (gssr.metrics.best_measured), as far as is known by now; None if nothing was
        measured."""
        return best_measured([name for name, n in zip(self.metrics, self._n, strict=False) if n.any()])

    @property
    def n_rows(self) -> int:
        """The number of rows of all GPUs."""
        return int(self.rows.sum())

    def whole(self) -> Means:
        """Return the means over the whole run."""
        return Means(self.names, self.first, self.last, self._n, self._total)

    def recent(self) -> Means:
        """Return the means over the last minute, as far as it is known, to a few seconds."""
        n, total = self._nothing()
        for name in self._recent.n:
            row = self.names.index(name)
            n[row], total[row] = self._recent.n[name].sum(axis=1), self._recent.total[name].sum(axis=1)
        return Means(self.names, max(self._recent_from * self._step, self.first), self.last, n, total)

    def settled(self) -> float:
        """Return the unix time, s, up to which every file that still grows has given its rows: what comes is later than
        that."""
        newest = np.full(self._n_files, -math.inf)
        np.fmax.at(newest, self._file, self.last_time)
        return float(newest[newest > self.last - SILENT_SECONDS].min(initial=self.last))


def _split(flags: Floats, reasons: Sequence[tuple[int, str, str]]) -> dict[str, Floats]:
    """Return each flag as a column float64[n]: 1 where it is set, 0 where it is not, NaN where nothing is known."""
    known = np.isfinite(flags)
    bits = np.where(known, flags, 0.0).astype(np.int64)
    return {name: np.where(known, (bits & bit) != 0, np.nan) for bit, name, _ in reasons}
