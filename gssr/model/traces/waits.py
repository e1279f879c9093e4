"""What went on beside a GPU while it was idle: data being loaded, calls that wait for the GPU, the time between steps."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.launches import Links
from gssr.model.traces.part import TracePiece
from gssr.model.traces.segments import Segments, common, union
from gssr.model.traces.trace_results import CallTotals, Waits
from gssr.model.traces.trace_steps import between
from gssr.traces.timeline import OPERATIONS, Kind

LOADER = re.compile(r"DataLoader|(?:data_?loader|_next_data|dataset|batch_sampler).*(?:next|fetch|get)", re.IGNORECASE)
"""Names of operators, ranges and Python functions in which a program waits for, or reads, its next batch."""
BLOCKING = re.compile(r"^(?:cuda|cu|hip)\w*Synchronize")
"""Calls in which a thread waits for the GPU (nsys: cuda_api_sync)."""
SYNC_COPY = re.compile(r"^(?:cuda|cu|hip)Memcpy(?!.*(?:Async|Batch))")
SYNC_MEMSET = re.compile(r"^(?:cuda|cu|hip)Memset(?!.*Async)")
GRAPH_LAUNCH = re.compile(r"GraphLaunch")
SMALL_COPY = 64 << 10
"""Bytes up to which the driver copies from pageable memory without waiting for the GPU (nsys: cuda_memcpy_sync)."""
SHORT = 10_000
"""A kernel of fewer ns is short: launching one takes the host about as long."""
_SAME = tuple(OPERATIONS.index(name) for name in ("DtoD", "memset", "unified HtoD", "unified DtoH"))


class CallsBeside(NamedTuple):
    """Rows of the calls and ranges in question, None where none of their kind were traced. ``steps``: those that are
    steps."""

    loader: Ints | None
    blocked: Ints | None
    sync_copy: Ints | None
    sync_memset: Ints | None
    steps: Ints


def beside(part: TracePiece, steps: Ints) -> CallsBeside:
    """Find the calls and ranges of all threads in which something goes on beside the GPUs."""

    def named(pattern: "re.Pattern[str]", *kinds: Kind) -> Ints | None:
        return part.named(pattern.search, *kinds) if any(len(part.rows(kind)) for kind in kinds) else None

    calls = (Kind.RUNTIME, Kind.DRIVER)
    return CallsBeside(
        named(LOADER, Kind.CPU_OP, Kind.RANGE, Kind.PYTHON), named(BLOCKING, *calls), named(SYNC_COPY, *calls),
        named(SYNC_MEMSET, *calls), steps,
    )  # fmt: skip


class Meanwhile:
    """How much of the time in which a GPU is idle is covered by the calls and ranges in question, on some threads.
    ``covered``: what each of them covers there, and the times between steps; None where none of their kind were traced."""

    def __init__(self, covered: Sequence[Segments | None]) -> None:
        self._covered = covered
        self.waits = Waits(*(None if each is None else 0 for each in covered))
        """So far."""

    def add(self, idle: Segments) -> None:
        """Add the time that these gaps have in common with each of them to ``waits``."""
        pairs = zip(self.waits, self._covered, strict=True)
        self.waits = Waits(
            *(None if each is None else (so_far or 0) + common(idle, each).length for so_far, each in pairs)
        )


class CoveredTimes:
    """What the calls and ranges in question cover on the threads of some processes, worked out once for each set of them: a
    file can name very many GPUs and threads."""

    def __init__(self, part: TracePiece, found: CallsBeside) -> None:
        self._part, self._found = part, found
        tracks = part.timeline.tracks
        self._process = _numbered([(track.source, track.pid) for track in tracks])
        self._rank = _numbered([(track.source, track.rank) for track in tracks])
        self._by: dict[str, list[_RowsByNumber | None]] = {}
        self._covered: dict[tuple[str, tuple[int, ...]], tuple[Segments | None, ...]] = {}

    def meanwhile(self, gpu: int, links: Links) -> Meanwhile:
        """Return the times on the threads of the processes that launch the work of a GPU (``links``); if none is
        known, on those of its rank."""
        launching = np.unique(self._part.timeline.intervals.track[links.call[links.call >= 0]])
        if len(launching):
            return Meanwhile(self._of("process", tuple(np.unique(self._process.of_track[launching]).tolist())))
        own = self._part.gpus[gpu]
        return Meanwhile(self._of("rank", (self._rank.number[own.source, own.rank],)))

    def _of(self, kind: str, numbers: tuple[int, ...]) -> tuple[Segments | None, ...]:
        """Return what each field of CallsBeside covers on the threads of these processes or ranks (``kind``), and the
        times between steps; None for what was not traced."""
        if (kind, numbers) not in self._covered:
            rows = [None if each is None else each.of(numbers) for each in self._rows_by(kind)]
            steps = rows.pop()
            covered = [None if each is None else union(*self._part.times(each)) for each in rows]
            covered.append(between(self._part, steps) if steps is not None and len(steps) > 1 else None)
            self._covered[kind, numbers] = tuple(covered)
        return self._covered[kind, numbers]

    def _rows_by(self, kind: str) -> "list[_RowsByNumber | None]":
        """Return the rows of each field of CallsBeside by process, or by rank (``kind``); None for what was not
        traced."""
        if kind not in self._by:
            of_track = (self._process if kind == "process" else self._rank).of_track
            track = self._part.timeline.intervals.track
            self._by[kind] = [
                None if rows is None else _RowsByNumber(rows, of_track[track[rows]]) for rows in self._found
            ]
        return self._by[kind]


class _Numbered(NamedTuple):
    """``number`` of each key, and ``of_track`` [n tracks] that of each track's."""

    number: dict[tuple[int, int | None], int]
    of_track: Ints


def _numbered(keys: Sequence[tuple[int, int | None]]) -> _Numbered:
    number: dict[tuple[int, int | None], int] = {}
    return _Numbered(number, np.array([number.setdefault(key, len(number)) for key in keys], np.int64))


class _RowsByNumber:
    """Rows, ascending, by the number that each has."""

    def __init__(self, rows: Ints, number: Ints) -> None:
        order = np.argsort(number, kind="stable")
        self._rows, self._number = rows[order], number[order]

    def of(self, numbers: Sequence[int]) -> Ints:
        """Return the rows that have one of these numbers, ascending."""
        low, high = (np.searchsorted(self._number, numbers, side) for side in ("left", "right"))
        parts = [self._rows[begin:end] for begin, end in zip(low.tolist(), high.tolist(), strict=True)]
        return np.sort(np.concatenate(parts))


def call_totals(part: TracePiece, links: Links) -> Mapping[str, CallTotals]:
    """Sum up the calls that rules look at, over all threads, by name: "blocked" calls; copies from or to "pageable"
    memory by calls that were to return at once; copies and sets of "sync_copy" and "sync_memset" calls (copies within
    a GPU, and small ones onto it, don't wait: nsys counts neither); "short" kernels, and of these those that a "graph"
    launched."""
    own = part.timeline.intervals
    length = part.length

    def totals(rows: Ints) -> CallTotals:
        size = own.size[rows]
        return CallTotals(len(rows), int(length[rows].sum()), int(np.maximum(size, 0).sum()), int((size >= 0).sum()))

    linked = links.call >= 0
    rows, call = links.rows[linked], links.call[linked]

    def launched_by(rows: Ints, call: Ints, pattern: "re.Pattern[str]") -> Ints:
        return rows[part.is_named(call, pattern.search)]

    copies = own.kind[rows] == Kind.MEMCPY
    waits = copies & ~np.isin(own.operation[rows], _SAME)
    waits &= ~(
        (own.operation[rows] == OPERATIONS.index("HtoD")) & (own.size[rows] <= SMALL_COPY) & (own.size[rows] >= 0)
    )
    pageable = np.zeros(len(own), np.bool_)
    if part.timeline.pageable is not None:
        pageable[part.timeline.pageable] = True
    short = (own.kind[rows] == Kind.KERNEL) & (length[rows] < SHORT)
    return {
        "blocked": totals(part.named(BLOCKING.search, Kind.RUNTIME, Kind.DRIVER)),
        "pageable": totals(launched_by(rows[copies & pageable[rows]], call[copies & pageable[rows]], _ASYNC)),
        "sync_copy": totals(launched_by(rows[waits], call[waits], SYNC_COPY)),
        "sync_memset": totals(launched_by(rows[own.kind[rows] == Kind.MEMSET], call[own.kind[rows] == Kind.MEMSET],
                                          SYNC_MEMSET)),
        "short": totals(rows[short]),
        "graph": totals(launched_by(rows[short], call[short], GRAPH_LAUNCH)),
    }  # fmt: skip


_ASYNC = re.compile("Async")
