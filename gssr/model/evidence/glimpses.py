"""Short stretches of a long window, spread over it, that are looked at sample by sample: what is over in seconds shows in no
longer bin, and all raw rows of a large job are too many to read."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.statistics import series
from gssr.model.statistics.aggregate import numbers_within
from gssr.model.statistics.series import Bins
from gssr.model.window import extent
from gssr.store.format.host_rollups import HOST, UseTable
from gssr.store.read.recording import RunReader, Samples
from gssr.store.read.window_edges import Window

MOST_ROWS = 40_000
"""About so many raw rows are read, of all GPUs: they interleave. Some hundredths of a second."""
MOST_USE = 500_000
"""So many rows of nodes, or of ranks, are gone through at most, all of the run's for each stretch; each has one a second."""
SECONDS, LEAST_SECONDS = 40.0, 15.0
"""As many stretches as last so long each, two at least, unless these last for less than the second."""
MOST = 8
"""Longer ones rather than more."""


class Glimpses(NamedTuple):
    """Stretches of ``seconds`` that begin at ``begins`` [n] (unix s), ascending and apart from each other, in bins of
    ``width`` seconds. One empty bin lies between two of them, so that nothing reaches from one into the next."""

    begins: Floats
    seconds: float
    width: float

    @property
    def each(self) -> int:
        """Bins of one stretch."""
        return max(1, round(self.seconds / self.width))

    @property
    def bins(self) -> Bins:
        """All of them as if they followed each other."""
        return Bins(0.0, self.width, len(self.begins) * (self.each + 1) - 1)

    @property
    def times(self) -> Floats:
        """[bins.n]: when each bin begins, unix s."""
        own = self.begins[:, None] + self.width * np.arange(self.each + 1)
        return np.asarray(own.ravel()[:-1], np.float64)

    def moved(self, time: Floats) -> Floats:
        """Where in ``bins`` these times (unix s, each within a stretch) lie."""
        which = np.clip(np.searchsorted(self.begins, time, "right") - 1, 0, None)
        within = np.clip(time - self.begins[which], 0.0, (self.each - 0.5) * self.width)
        return np.asarray(which * (self.each + 1) * self.width + within, np.float64)


def stretches(reader: RunReader, span: Window) -> tuple[Floats, float]:
    """Where (unix s) the stretches of a window begin, and how long they are, s; none where the rows that may be read last
    for less than two of LEAST_SECONDS. Few rows last for the whole window: then that is the only one."""
    seconds = max(extent(reader).seconds, 1.0)
    start, end = max(span.start, reader.thinned_until), span.end
    if reader.state == "running" and reader.keep != "raw":
        start = end  # what is read might be thinned meanwhile
    in_all = MOST_ROWS / max(reader.n_rows / seconds, 1.0)
    most = min(MOST, int(MOST_USE / (_n_nodes(reader) * seconds)))
    if start == span.start and end - start <= in_all and most:
        return np.array([start]), end - start
    n = min(most, max(2, int(in_all / SECONDS)))
    each = min(in_all, (end - start) / 2) / max(n, 1)
    if n < 2 or each < LEAST_SECONDS:
        return np.empty(0), 0.0
    return start + (np.arange(n) + 0.5) * (end - start) / n - each / 2, each


def rows_in(reader: RunReader, few: Ints, names: Sequence[str], begins: Floats, seconds: float) -> Samples:
    """The raw rows of some GPUs in the stretches, numbered from 0 within ``few`` (positions)."""
    pieces = [reader.samples(names, few, Window(begin, begin + seconds)) for begin in begins.tolist()]
    gpu = np.concatenate([piece.gpu for piece in pieces])
    time = np.concatenate([piece.time for piece in pieces])
    values = {name: np.concatenate([piece.values[name] for piece in pieces]) for name in names}
    return Samples(numbers_within(gpu, few, len(reader.gpus)), time, values)


def those_in(rows: Samples, names: Sequence[str], begins: Floats, seconds: float) -> Samples:
    """Those of the rows that lie in the stretches."""
    which = np.searchsorted(begins, rows.time, "right") - 1
    inside = (which >= 0) & (rows.time < begins[np.clip(which, 0, None)] + seconds)
    return Samples(rows.gpu[inside], rows.time[inside], {name: rows.values[name][inside] for name in names})


def glimpses(rows: Samples, begins: Floats, seconds: float, interval: float) -> Glimpses:
    """The stretches in bins that fit the samples ``rows`` of the first of them; a second at least, as nodes are sampled."""
    first = rows.time < begins[0] + seconds
    own = Samples(rows.gpu[first], rows.time[first], {})
    most = int(seconds) + 1
    width = series.bins_of_samples(own, Window(begins[0], begins[0] + seconds), interval, most).width
    return Glimpses(begins, seconds, width)


def use(reader: RunReader, table: UseTable, names: Sequence[str], into: Glimpses) -> dict[str, Floats]:
    """What the nodes (HOST) or the workload's processes (WORKLOAD) did, as RunReader.use_over_time
    tells it, in ``into.bins``; nothing where they have more rows than MOST_USE."""
    n_ranks = reader.run.world_size or len(reader.gpus)
    n_rows = (_n_nodes(reader) if table is HOST else n_ranks) * extent(reader).seconds
    if n_rows * len(into.begins) > MOST_USE:
        return {}
    found: dict[str, Floats] = {}
    for number, begin in enumerate(into.begins.tolist()):
        at = number * (into.each + 1)
        stretch = Window(begin, begin + into.seconds)
        part = reader.use_over_time(table, stretch, (begin, into.width, into.each), names)
        for name, values in part.items():
            found.setdefault(name, np.full(into.bins.n, np.nan))[at : at + into.each] = values
    return found


def _n_nodes(reader: RunReader) -> int:
    """Nodes with GPUs of the run; 1 where none is known."""
    return len({gpu.node for gpu in reader.gpus}) or 1
