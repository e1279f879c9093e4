"""What went on beside a GPU while it was idle: data being loaded, calls that wait for the GPU, the time between steps."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.model.traces.launches import Links
from gssr.model.traces.part import Part, counted
from gssr.model.traces.results import CallTotals, Waits
from gssr.model.traces.segments import Segments, common, union
from gssr.model.traces.steps import between
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


class Beside(NamedTuple):
    """Rows of the calls and ranges in question, None where none of their kind were traced. ``steps``: those that are
    steps."""

    loader: Ints | None
    blocked: Ints | None
    sync_copy: Ints | None
    sync_memset: Ints | None
    steps: Ints


def beside(part: Part, steps: Ints) -> Beside:
    """Of all threads."""

    def named(pattern: "re.Pattern[str]", *kinds: Kind) -> Ints | None:
        return part.named(pattern.search, *kinds) if any(len(part.rows(kind)) for kind in kinds) else None

    calls = (Kind.RUNTIME, Kind.DRIVER)
    return Beside(
        named(LOADER, Kind.CPU_OP, Kind.RANGE, Kind.PYTHON), named(BLOCKING, *calls), named(SYNC_COPY, *calls),
        named(SYNC_MEMSET, *calls), steps,
    )  # fmt: skip


class Meanwhile:
    """How much of the time in which a GPU is idle they take, on threads of the processes that launch its work (``links``),
    or where none is known of its rank."""

    def __init__(self, part: Part, gpu: int, links: Links, found: Beside) -> None:
        threads = _threads(part, gpu, links)
        track = part.timeline.intervals.track

        def covered(rows: Ints | None) -> Segments | None:
            return None if rows is None else union(*part.times(rows[threads[track[rows]]]))

        steps = found.steps[threads[track[found.steps]]]
        self._covered = (*map(covered, found[:4]), between(part, steps) if len(steps) > 1 else None)
        self.waits = Waits(*(None if each is None else 0 for each in self._covered))
        """So far."""

    def add(self, idle: Segments) -> None:
        """Of these gaps, too."""
        pairs = zip(self.waits, self._covered, strict=True)
        self.waits = Waits(
            *(None if each is None else (so_far or 0) + common(idle, each).length for so_far, each in pairs)
        )


def _threads(part: Part, gpu: int, links: Links) -> Flags:
    tracks, own = part.timeline.tracks, part.gpus[gpu]
    launching = np.flatnonzero(
        counted(part.timeline.intervals.track, len(tracks), links.call[links.call >= 0])
    ).tolist()
    processes = {(tracks[at].source, tracks[at].pid) for at in launching}
    return np.array(
        [
            (track.source, track.pid) in processes
            if processes
            else (track.source, track.rank) == (own.source, own.rank)
            for track in tracks
        ],
        np.bool_,
    )


def call_totals(part: Part, links: Links) -> Mapping[str, CallTotals]:
    """Totals of what rules look at, over all threads: "blocked" calls; copies from or to "pageable" memory by calls that
    were to return at once; copies and sets of "sync_copy" and "sync_memset" calls (copies within a GPU, and small ones onto
    it, don't wait: nsys counts neither); "short" kernels, and of these those that a "graph" launched."""
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
