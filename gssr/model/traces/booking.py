"""Booking the time of each GPU of one file: when it works, communicates and copies, and why it is idle otherwise."""

import re

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.model.traces import idle as idling
from gssr.model.traces.gpu_book import DECIDED, GpuBook, book_bins
from gssr.model.traces.launches import Links
from gssr.model.traces.part import TracePiece, counted
from gssr.model.traces.segments import NONE, Segments, common, covered_by, union, without
from gssr.model.traces.waits import BLOCKING, LOADER
from gssr.traces.timeline import OPERATIONS, Category, Kind

SHORT_GAP = idling.LAUNCH
"""Gaps of fewer ns are between kernels, whatever the host does then: getting from one kernel to the next takes as long."""
_READS_FILES = re.compile(r"^p?(?:read|write)v?|^f(?:read|write|sync|datasync)|^(?:msync|sendfile)")
"""Calls of the operating system that read and write files, pipes and sockets."""
_WAITS_FOR_PROCESSES = re.compile(r"^MPI_|^(?:gloo|mpi|ucc):")
"""Calls in which the host itself communicates; those of NCCL launch kernels that do."""
_ON_DEVICE, _BETWEEN_GPUS = (OPERATIONS.index("DtoD"), OPERATIONS.index("memset")), OPERATIONS.index("PtoP")


def host_calls(part: TracePiece) -> tuple[Ints, Ints]:
    """Find the calls on all threads that explain why a thread launches nothing. Returns two arrays of rows of the
    intervals, each ascending: calls that read or load data, and calls that wait for GPUs or other processes."""
    reads = (part.named(LOADER.search, Kind.CPU_OP, Kind.RANGE, Kind.PYTHON), part.named(_READS_FILES.search, Kind.OS))
    waits = (
        part.named(BLOCKING.search, Kind.RUNTIME, Kind.DRIVER),
        part.named(_WAITS_FOR_PROCESSES.search, Kind.CPU_OP, Kind.RANGE),
    )
    return np.sort(np.concatenate(reads)), np.sort(np.concatenate(waits))


def windows_of_files(part: TracePiece) -> list[tuple[int, int]]:
    """Find for each source of the timeline (a file or rank) the time that it tells of, as (begin, end) in ns: from the
    first start to the last end of its intervals, cut to the part's window. With a single source it is the whole window."""
    own, source_of = part.timeline.intervals, np.array([track.source for track in part.timeline.tracks], np.int64)
    n = int(source_of.max(initial=-1)) + 1
    if len(part.timeline.sources) < 2:
        return [part.window] * n
    source = source_of[own.track]
    first, last = np.full(n, part.window[1]), np.full(n, part.window[0])
    np.minimum.at(first, source, own.start)
    np.maximum.at(last, source, own.start + own.length)
    return list(zip(*(np.clip(times, *part.window).tolist() for times in (first, last)), strict=True))


def book_gpu(
    part: TracePiece, links: Links, calls: tuple[Ints, Ints], window: tuple[int, int], is_damaged: bool
) -> GpuBook:  # fmt: skip
    """Book the time of the GPU whose work ``links`` are, by the ``host_calls`` of the part, in the ``window`` (ns) that its
    file tells of. A file that ``is_damaged`` tells of nothing after the GPU's last kernel: later ones may be missing. The
    work is gone through in stretches between which the GPU is idle."""
    own = part.timeline.intervals
    works = _extent_of_kernels(part, links.rows)
    window = (window[0], works[1]) if is_damaged and works is not None else window
    begin, stop = window
    n_bins = book_bins(len(part.gpus))
    edges = begin + np.arange(n_bins + 1) * max(stop - begin, 1) // n_bins
    decided = np.zeros((len(DECIDED), n_bins + 1))
    if works is None:
        return GpuBook(window, None, edges, decided, NONE, NONE, NONE, {})
    reads, waits = _times_on_launching_threads(part, links, calls)
    inner = np.clip(edges, *works)
    open_, kernels, communication, rows_of_collectives = [], [], [], []
    for rows, _, busy, idle in idling.work_and_gaps(part, links):
        start, end = part.times(rows)
        communicates, is_copy = _communicates(part, rows), _is_host_copy(part, rows)
        computes = union(*_of(start, end, ~(communicates | is_copy)))
        both = union(*_of(start, end, ~is_copy))
        exposed = without(both, computes)
        decided[0] += computes.before(edges)
        decided[1] += busy.some.before(inner) - both.before(inner)
        gaps_by_cause = _split_gaps(idle, works, reads, waits)
        decided[2:] += [times.before(edges) for times in gaps_by_cause[:-1]]
        open_.append(gaps_by_cause[-1])
        kernels.append(_close_gaps(computes))
        communication.append(exposed)
        rows_of_collectives.append(rows[communicates & (own.kind[rows] != Kind.MEMCPY)])
    return GpuBook(
        window, works, edges, decided, _joined(open_), _close_gaps(_joined(kernels)), _joined(communication),
        _by_name(part, np.concatenate(rows_of_collectives)),
    )  # fmt: skip


def _split_gaps(
    idle: idling.Idle, works: tuple[int, int], reads: Segments, waits: Segments
) -> tuple[Segments, Segments, Segments, Segments]:
    """Split the gaps that lie within ``works`` by what the threads that launch the GPU's work did: ``reads`` are the times
    in which they read data, ``waits`` those in which they wait for GPUs or processes.

    Returns four parts of the gaps: between kernels, the host reads, the host is late, and the rest.
    """
    is_inside = (idle.start >= works[0]) & (idle.end <= works[1])
    is_long = is_inside & (idle.length >= SHORT_GAP)
    late = idle.start + idle.host
    gaps = Segments(*_of(idle.start, idle.end, is_inside)).some
    long = Segments(*_of(idle.start, np.where(idle.rest == idling.LAUNCHING, late, idle.end), is_long)).some
    reading = common(long, reads)
    left = without(long, reading)
    before_launch = common(left, Segments(*_of(idle.start, late, is_long)).some)
    waiting = common(before_launch, waits)
    is_brief = waiting.end - waiting.start < SHORT_GAP  # a thread takes a moment to notice that the GPU is done
    host_late = without(before_launch, waiting)
    left = without(left, covered_by(host_late, Segments(*_of(*waiting, is_brief))))
    return without(gaps, covered_by(reading, host_late, left)), reading, host_late, left


def _times_on_launching_threads(part: TracePiece, links: Links, calls: tuple[Ints, Ints]) -> tuple[Segments, Segments]:
    """Find the times in which the threads that launch a GPU's work are in the ``host_calls`` of the part. Returns the times
    in which they read or load data, and those in which they wait for GPUs or other processes."""
    own = part.timeline.intervals
    launches = counted(own.track, len(part.timeline.tracks), links.call[links.call >= 0]) > 0

    def covered(rows: Ints) -> Segments:
        return union(*part.times(rows[launches[own.track[rows]]])).some

    reads, waits = calls
    return covered(reads), covered(waits)


def _extent_of_kernels(part: TracePiece, rows: Ints) -> tuple[int, int] | None:
    """Find the time from the first start to the last end of a GPU's kernels, as ``GpuBook.works`` has it. None without
    kernels and copies."""
    kernels = rows[~_is_host_copy(part, rows)]
    rows = kernels if len(kernels) else rows
    return part.extent(rows) if len(rows) else None


def _communicates(part: TracePiece, rows: Ints) -> Flags:
    """Flag work that communicates, copies between GPUs among it."""
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
    """Return the starts and ends of the chosen intervals."""
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
    """Group the times of kernels by their name, ascending by start."""
    name = part.timeline.intervals.name[rows]
    return {part.timeline.names[code]: Segments(*part.times(rows[name == code])) for code in np.unique(name).tolist()}
