"""What went on beside a GPU while it was idle: data being loaded, calls that wait for the GPU, the time between steps."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.launches import Links
from gssr.model.traces.part import TracePiece, group_rows, processes_of
from gssr.model.traces.segments import Segments, common, union, without
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


class CoveredTimes:
    """Times that data loading, calls that wait for the GPU and the gaps between steps cover on the threads of some
    processes. They are worked out once for each set of processes: a file can name very many GPUs and threads."""

    def __init__(self, part: TracePiece, steps: Ints) -> None:
        """Look for the calls and ranges on all threads. ``steps``: rows of the ranges that are steps."""

        def named(pattern: "re.Pattern[str]", *kinds: Kind) -> Ints | None:
            return part.named(pattern.search, *kinds) if any(len(part.rows(kind)) for kind in kinds) else None

        calls = (Kind.RUNTIME, Kind.DRIVER)
        self._part, self._steps = part, steps
        self._found = (
            named(LOADER, Kind.CPU_OP, Kind.RANGE, Kind.PYTHON), named(BLOCKING, *calls), named(SYNC_COPY, *calls),
            named(SYNC_MEMSET, *calls),
        )  # fmt: skip
        """Rows in the order of Waits, None where nothing of the kind was traced."""
        self._ranks: dict[tuple[int, int | None], int] = {}
        """A number for each rank."""
        tracks = part.timeline.tracks
        ranks = [self._ranks.setdefault((track.source, track.rank), len(self._ranks)) for track in tracks]
        self._number_of_track = {"process": processes_of(tracks), "rank": np.array(ranks, np.int64)}
        """The numbers of each track's process and rank [n tracks]."""
        self._by: dict[str, list[Callable[[Sequence[int]], Ints] | None]] = {}
        self._covered: dict[tuple[str, tuple[int, ...]], tuple[Segments | None, ...]] = {}

    def times_on_host(self, gpu: int, links: Links) -> tuple[Segments | None, ...]:
        """Return the times that data loading, waiting calls and the gaps between steps cover on the threads of the
        processes that launch a GPU's work (``links``), or of the GPU's rank where no launch is known: one for each field
        of Waits, None where nothing of the kind was traced."""
        launching = np.unique(self._part.timeline.intervals.track[links.call[links.call >= 0]])
        if len(launching):
            numbers = np.unique(self._number_of_track["process"][launching])
            return self._times_of("process", tuple(numbers.tolist()))
        own = self._part.gpus[gpu]
        return self._times_of("rank", (self._ranks[own.source, own.rank],))

    def _times_of(self, kind: str, numbers: tuple[int, ...]) -> tuple[Segments | None, ...]:
        """Return the times that the intervals of each field of Waits cover in the processes or ranks (``kind``) with
        these ``numbers`` together: an entry for each field, in their order, and last the time between steps. None where
        the trace has no such intervals."""
        if (kind, numbers) not in self._covered:
            rows = [None if each is None else each(numbers) for each in self._rows_by(kind)]
            steps = rows.pop()
            covered = [None if each is None else union(*self._part.times(each)) for each in rows]
            apart = between(self._part, steps) if steps is not None and len(steps) > 1 else None
            loading = covered[Waits._fields.index("loader")]
            covered.append(apart if apart is None or loading is None else without(apart, loading.some))
            self._covered[kind, numbers] = tuple(covered)
        return self._covered[kind, numbers]

    def _rows_by(self, kind: str) -> "list[Callable[[Sequence[int]], Ints] | None]":
        """Group the rows of each field of Waits, of "between_steps" the steps, by process or by rank (see group_rows)."""
        if kind not in self._by:
            of_track, track = self._number_of_track[kind], self._part.timeline.intervals.track
            self._by[kind] = [
                None if rows is None else group_rows(rows, of_track[track[rows]])
                for rows in (*self._found, self._steps)
            ]
        return self._by[kind]


def no_waits(covered: Sequence[Segments | None]) -> Waits:
    """Return sums to begin with: 0 ns of each thing that is in ``covered`` (CoveredTimes.times_on_host), None of what that
    lacks."""
    return Waits(*(None if each is None else 0 for each in covered))


def add_waits(waits: Waits, covered: Sequence[Segments | None], idle: Segments) -> Waits:
    """Add to ``waits`` how long a GPU was ``idle`` while each thing in ``covered`` (CoveredTimes.times_on_host) went on.
    Returns the new sums, ns; None stays None."""
    pairs = zip(waits, covered, strict=True)
    return Waits(*(None if each is None else (so_far or 0) + common(idle, each).length for so_far, each in pairs))


def call_totals(part: TracePiece, links: Links) -> Mapping[str, CallTotals]:
    """Add up the calls that rules look at, over all threads.

    Returns totals by name: "blocked", calls that wait for the GPU; "pageable", copies from or to pageable memory by calls
    that were to return at once; "sync_copy" and "sync_memset", copies and sets by calls that return when these are done
    (copies within a GPU, and small ones onto it, don't wait: nsys counts neither); "short", short kernels, and "graph",
    those of them that a graph launched.
    """
    own = part.timeline.intervals
    length = part.length

    def totals(rows: Ints) -> CallTotals:
        size, gpu = own.size[rows], part.gpu_of[own.track[rows]]
        rows_of_gpu = group_rows(rows, gpu)
        covered = (union(*part.times(rows_of_gpu([one]))) for one in np.unique(gpu[gpu >= 0]).tolist())
        gpu_ns = sum(each.some.length for each in covered)
        n_bytes, n_sized = int(np.maximum(size, 0).sum()), int((size >= 0).sum())
        return CallTotals(len(rows), int(length[rows].sum()), gpu_ns, n_bytes, n_sized)

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
