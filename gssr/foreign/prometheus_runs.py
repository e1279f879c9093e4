"""An OpenMetrics export of GSSR as the runs that it was made of: its head says which run had which GPU from when to when
(gssr.prometheus.RUN_INFO), and each sample belongs to the run that had its GPU then. Other texts of Prometheus, and what
versions before 0.5 have exported, are one series (gssr/foreign/prometheus_text.py).
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.foreign.prometheus_series import NOTHING, SeriesTable, describe_run
from gssr.foreign.prometheus_text import LineReader, read_seconds, split_labels
from gssr.foreign.prometheus_text import read as read_text
from gssr.foreign.series import ByteSource, ForeignError, ForeignSeries, ImportHints, Note
from gssr.prometheus import GPU_LABELS, RUN_INFO
from gssr.store.format.limits import MOST_RUNS
from gssr.store.format.sample_arrays import Samples

KIND = "prometheus"
HEAD = f"# TYPE {RUN_INFO.name} {RUN_INFO.type}\n".encode()
"""How an export of GSSR begins, from 0.5 on."""
_BEGIN = f"{RUN_INFO.sample}{{".encode()
_Gpu = frozenset[tuple[str, str]]
"""Labels of GPU_LABELS with their values."""
_Samples = tuple[Ints, Floats, Floats]
"""Numbers of series in the run's SeriesTable, times in unix s, and values."""


class _Holding(NamedTuple):
    """A run has a GPU. ``run``: the run's number; ``first``: unix s, from when on; ``labels``: all that RUN_INFO says."""

    run: int
    first: float
    labels: Mapping[str, str]


def read(source: ByteSource, told: ImportHints) -> list[ForeignSeries]:
    """Read a text of Prometheus: a series for each run of an export of GSSR, in which the samples of the whole file are
    read when the first piece is taken; one series for any other text. Raises ForeignError, also while pieces are taken."""
    head = b""
    for chunk in source.chunks:
        head += chunk
        if len(head) >= len(HEAD) or not HEAD.startswith(head):
            break
    source = source._replace(chunks=chain([head], source.chunks))
    return _Runs(source, told).series if head.startswith(HEAD) else [read_text(source, told)]


class _Runs:
    """The runs of one file; ``series`` has one for each of them. Reads the file's head at once. Raises ForeignError if
    that names no run, or too many."""

    def __init__(self, source: ByteSource, told: ImportHints) -> None:
        self._source = source
        self._blocks = _blocks(source.chunks)
        held = self._held_gpus()
        if not held:
            raise ForeignError(f"{source.path}: holds no run, though it begins as an export of GSSR")
        self._numbers = _RunNumbers(held, [])
        by_run: dict[int, Mapping[str, str]] = {}
        for holdings in held.values():
            for each in holdings:
                by_run.setdefault(each.run, each.labels)
        self.series: list[ForeignSeries] = []
        for run in sorted(by_run):
            series = ForeignSeries(KIND, self._pieces(run), sampling_seconds=told.interval)
            describe_run(series, by_run[run])
            self.series.append(series)
            self._numbers.tables.append(SeriesTable(series, told))
        self._samples: list[_Samples] | None = None

    def _held_gpus(self) -> dict[_Gpu, list[_Holding]]:
        """Read which run has which GPU, in ascending order of time for each GPU. What follows in the file stays in
        ``_blocks``."""
        began: dict[bytes, float] = {}
        for block in self._blocks:
            lines = block.split(b"\n")
            for at, line in enumerate(lines):
                if not line.startswith((_BEGIN, b"#")) or (line.startswith(b"# TYPE ") and line + b"\n" != HEAD):
                    self._blocks = chain([b"\n".join(lines[at:])], self._blocks)
                    return self._by_gpu(began)
                begin, _, rest = line.rpartition(b"} ")
                time = read_seconds(rest.rpartition(b" ")[2]) if line.startswith(_BEGIN) else None
                if time is not None:
                    began[begin] = min(began.get(begin, time), time)
        return self._by_gpu(began)

    def _by_gpu(self, began: Mapping[bytes, float]) -> dict[_Gpu, list[_Holding]]:
        """Sort what RUN_INFO says by GPU. ``began``: from when on, unix s, by the line up to the end of its labels."""
        numbers: dict[str, int] = {}
        found: dict[_Gpu, list[_Holding]] = {}
        for begin, first in began.items():
            labels = split_labels(begin[len(_BEGIN) :])
            if not labels or not labels.get("run"):
                continue
            number = numbers.setdefault(labels["run"], len(numbers))
            if number >= MOST_RUNS:
                raise ForeignError(f"{self._source.path}: names more than {MOST_RUNS:,} runs")
            found.setdefault(_gpu_of(labels), []).append(_Holding(number, first, labels))
        for holdings in found.values():
            holdings.sort(key=lambda each: each.first)
        return found

    def _pieces(self, run: int) -> Iterator[Samples]:
        """Yield the rows of one run, ascending in time."""
        if self._samples is None:
            self._samples = self._read()
        table = self._numbers.tables[run]
        yield from table.pieces(*self._samples[run])
        table.finish()

    def _read(self) -> list[_Samples]:
        """Read all samples. Returns those of each run. Adds notes about lines that are left out to the first run."""
        lines = LineReader(self._numbers.add)
        parts: list[_Samples] = []
        n_timeless = 0
        for block in self._blocks:
            own, values, times, _ = lines.samples(block)
            timed = ~np.isnan(times)
            n_timeless += int((~timed).sum())
            parts.append((own[timed], times[timed], values[timed]))
        notes = [
            (lines.n_bad, "lines that are no samples are left out"),
            (n_timeless, "lines that have no time are left out"),
            (self._numbers.n_unheld, "series of GPUs that no run has are left out"),
        ]
        self.series[0].notes += [Note(f"{n:,} {what}") for n, what in notes if n]
        empty = np.empty(0, np.int64), np.empty(0), np.empty(0)
        own, times, values = (np.concatenate(column) for column in zip(empty, *parts, strict=True))
        return self._numbers.parted(own, times, values)


class _RunNumbers:
    """Numbers the series of the whole file, and knows the runs that each of them is of. ``tables`` has the SeriesTable
    of each run; ``n_unheld`` counts series of GPUs that no run has."""

    def __init__(self, held: Mapping[_Gpu, list[_Holding]], tables: list[SeriesTable]) -> None:
        self._held, self.tables = held, tables
        self._ids: dict[tuple[str, _Gpu], int] = {}
        self._holders: list[list[_Holding]] = []
        self._local: list[list[int]] = []
        """Of each series, for each of its holders: its number in the holder's table."""
        self.n_unheld = 0

    def add(self, name: str, labels: Mapping[str, str]) -> int:
        """Number a series of the whole file by its name and labels, as ``SeriesTable.add`` does, and add it to the
        tables of all runs that have its GPU. Returns its number, the same for the same name and GPU; NOTHING (-1) if no
        run has its GPU (counted in ``n_unheld``) or it is no known metric."""
        gpu = _gpu_of(labels)
        found = self._ids.get((name, gpu))
        if found is not None:
            return found
        found, holders = NOTHING, self._held.get(gpu, [])
        local = [self.tables[each.run].add(name, _without_run(each.labels)) for each in holders]
        self.n_unheld += not holders
        if local and min(local) >= 0:
            found = len(self._holders)
            self._holders.append(holders)
            self._local.append(local)
        self._ids[name, gpu] = found
        return found

    def parted(self, own: Ints, times: Floats, values: Floats) -> list[_Samples]:
        """Sort samples by run. A sample belongs to the run that was the last to begin on its GPU by then; one from
        before all of them to the first.

        ``own`` [n] are the numbers of their series, as ``add`` returned them; ``times`` are in unix s. Returns for each
        run, in the order of ``tables``, the numbers of the series in its own table, the times and the values, in the
        order given.
        """
        run, local = np.empty(len(own), np.int64), np.empty(len(own), np.int64)
        order = np.argsort(own, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(own[order])) + 1):
            if not len(rows):
                continue
            holders = self._holders[own[rows[0]]]
            begins = np.array([each.first for each in holders])
            which = np.maximum(np.searchsorted(begins, times[rows], side="right") - 1, 0)
            run[rows] = np.array([each.run for each in holders])[which]
            local[rows] = np.array(self._local[own[rows[0]]])[which]
        by_run = np.argsort(run, kind="stable")
        edges = np.searchsorted(run[by_run], np.arange(len(self.tables) + 1))
        found = []
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            rows = by_run[first:last]
            found.append((local[rows], times[rows], values[rows]))
        return found


def _gpu_of(labels: Mapping[str, str]) -> _Gpu:
    return frozenset((name, labels[name]) for name in GPU_LABELS if labels.get(name))


def _without_run(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that are about the GPU and its rank."""
    return {name: text for name, text in labels.items() if name in (*GPU_LABELS, "rank", "model")}


def _blocks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines; a last line without an end, which may be cut off, is left out unless it is a comment."""
    rest = b""
    for chunk in chunks:
        block, end, after = chunk.rpartition(b"\n")
        if not end:
            rest += chunk
            continue
        yield rest + block
        rest = after
