"""Booking the time of each GPU of one file: when it works, communicates and copies, and why it is idle otherwise."""

import re
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.model.traces import idle as idling
from gssr.model.traces.gpu_book import DECIDED, GpuBook, book_bins
from gssr.model.traces.launches import Links
from gssr.model.traces.part import TracePiece, counted
from gssr.model.traces.segments import NONE, Segments, common, covered_by, stretches, union, without
from gssr.model.traces.waits import BLOCKING, LOADER
from gssr.traces.timeline import OPERATIONS, Category, Kind

SHORT_GAP = idling.LAUNCH
"""Gaps of fewer ns are between kernels, whatever the host does then: getting from one kernel to the next takes as long."""
_READS_FILES = re.compile(r"^p?(?:read|write)v?|^f(?:read|write|sync|datasync)|^(?:msync|sendfile)")
"""Calls of the operating system that read and write files, pipes and sockets."""
_WAITS_FOR_PROCESSES = re.compile(r"^MPI_|^(?:gloo|mpi|ucc):")
"""Calls in which the host itself communicates; those of NCCL launch kernels that do."""
_ON_DEVICE, _BETWEEN_GPUS = (OPERATIONS.index("DtoD"), OPERATIONS.index("memset")), OPERATIONS.index("PtoP")


class HostCalls(NamedTuple):
    """Where a part's calls stand in which any thread reads or loads data, and in which one waits for GPUs or processes."""

    reads: Ints
    waits: Ints


def host_calls(part: TracePiece) -> HostCalls:
    """Find the calls that say why a thread launches nothing: those that read or load data, and those that wait."""
    reads = (part.named(LOADER.search, Kind.CPU_OP, Kind.RANGE, Kind.PYTHON), part.named(_READS_FILES.search, Kind.OS))
    waits = (
        part.named(BLOCKING.search, Kind.RUNTIME, Kind.DRIVER),
        part.named(_WAITS_FOR_PROCESSES.search, Kind.CPU_OP, Kind.RANGE),
    )
    return HostCalls(np.sort(np.concatenate(reads)), np.sort(np.concatenate(waits)))


def book_gpu(part: TracePiece, links: Links, calls: HostCalls) -> GpuBook:
    """Book the time of the GPU whose work ``links`` are. Its work is gone through in stretches between which it is
    idle."""
    own = part.timeline.intervals
    begin, stop = part.window
    n_bins = book_bins(len(part.gpus))
    edges = begin + np.arange(n_bins + 1) * max(stop - begin, 1) // n_bins
    decided = np.zeros((len(DECIDED), n_bins + 1))
    works = _extent_of_kernels(part, links.rows)
    if works is None:
        return GpuBook(part.window, None, edges, decided, NONE, NONE, NONE, {})
    host = _Host(part, links, calls)
    inner = np.clip(edges, *works)
    open_, kernels, communication, rows_of_collectives = [], [], [], []
    last: int | None = None
    for some, busy, first in stretches(len(links.rows), lambda some: part.times(links.rows[some])):
        rows, call = links.rows[some], links.call[some]
        start, end = part.times(rows)
        communicates, is_copy = _communicates(part, rows), _is_host_copy(part, rows)
        computes = union(*_of(start, end, ~(communicates | is_copy)))
        both = union(*_of(start, end, ~is_copy))
        exposed = without(both, computes)
        decided[0] += computes.before(edges)
        decided[1] += busy.some.before(inner) - both.before(inner)
        gaps = busy.gaps(last)
        first = first[len(first) - len(gaps.start) :]
        idle = idling.idle_of(part, gaps.start, gaps.end, rows[first], call[first])
        gaps_by_cause = _split_gaps(idle, works, host)
        decided[2:] += [times.before(edges) for times in gaps_by_cause[:-1]]
        open_.append(gaps_by_cause[-1])
        kernels.append(_close_gaps(computes))
        communication.append(exposed)
        rows_of_collectives.append(rows[communicates & (own.kind[rows] != Kind.MEMCPY)])
        last = int(busy.end[-1])
    return GpuBook(
        part.window, works, edges, decided, _joined(open_), _close_gaps(_joined(kernels)), _joined(communication),
        _by_name(part, np.concatenate(rows_of_collectives)),
    )  # fmt: skip


def _split_gaps(
    idle: idling.Idle, works: tuple[int, int], host: "_Host"
) -> tuple[Segments, Segments, Segments, Segments]:
    """Split the gaps that lie within ``works``. Returns the parts that lie between kernels, in which the host reads,
    and in which it is late; and what is left."""
    is_inside = (idle.start >= works[0]) & (idle.end <= works[1])
    is_long = is_inside & (idle.length >= SHORT_GAP)
    late = idle.start + idle.host
    gaps = Segments(*_of(idle.start, idle.end, is_inside)).some
    long = Segments(*_of(idle.start, np.where(idle.rest == idling.LAUNCHING, late, idle.end), is_long)).some
    reading = common(long, host.reads)
    left = without(long, reading)
    before_launch = common(left, Segments(*_of(idle.start, late, is_long)).some)
    waits = common(before_launch, host.waits)
    is_brief = waits.end - waits.start < SHORT_GAP  # a thread takes a moment to notice that the GPU is done
    host_late = without(before_launch, waits)
    left = without(left, covered_by(host_late, Segments(*_of(*waits, is_brief))))
    return without(gaps, covered_by(reading, host_late, left)), reading, host_late, left


class _Host:
    """When the threads that launch a GPU's work read or load data, and when they wait for GPUs or other processes."""

    def __init__(self, part: TracePiece, links: Links, calls: HostCalls) -> None:
        own = part.timeline.intervals
        launches = counted(own.track, len(part.timeline.tracks), links.call[links.call >= 0]) > 0

        def covered(rows: Ints) -> Segments:
            return union(*part.times(rows[launches[own.track[rows]]])).some

        self.reads, self.waits = covered(calls.reads), covered(calls.waits)


def _extent_of_kernels(part: TracePiece, rows: Ints) -> tuple[int, int] | None:
    """Return the first start and the last end of the kernels among these rows (of copies if there are none), or None
    for no rows."""
    kernels = rows[~_is_host_copy(part, rows)]
    rows = kernels if len(kernels) else rows
    return part.extent(rows) if len(rows) else None


def _communicates(part: TracePiece, rows: Ints) -> Flags:
    own = part.timeline.intervals
    between = (own.kind[rows] == Kind.MEMCPY) & (own.operation[rows] == _BETWEEN_GPUS)
    return np.asarray((part.category[rows] == Category.COMMUNICATION) | between, np.bool_)


def _is_host_copy(part: TracePiece, rows: Ints) -> Flags:
    """Flag copies from or to the host [n_rows]; those within a GPU and sets are its own work."""
    own = part.timeline.intervals
    is_copy = (own.kind[rows] == Kind.MEMCPY) | (own.kind[rows] == Kind.MEMSET)
    operation = own.operation[rows]
    for other in (*_ON_DEVICE, _BETWEEN_GPUS):
        is_copy &= operation != other
    return np.asarray(is_copy, np.bool_)


def _of(start: Ints, end: Ints, chosen: Flags) -> tuple[Ints, Ints]:
    return start[chosen], end[chosen]


def _close_gaps(times: Segments) -> Segments:
    """Join stretches with gaps shorter than SHORT_GAP between them."""
    below = SHORT_GAP - 1
    joined = union(times.start, times.end + below)
    return Segments(joined.start, joined.end - below)


def _joined(parts: list[Segments]) -> Segments:
    """Put stretches one after another, of which each begins after those before it."""
    return Segments(*map(np.concatenate, zip(NONE, *parts, strict=True))).some


def _by_name(part: TracePiece, rows: Ints) -> dict[str, Segments]:
    """Return the times of kernels by their name, ascending by start."""
    name = part.timeline.intervals.name[rows]
    return {part.timeline.names[code]: Segments(*part.times(rows[name == code])) for code in np.unique(name).tolist()}
