"""What a trace holds, whatever wrote it: intervals on tracks, counters, and where it comes from. Times are whole ns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints

Format = Literal["kineto", "chrome", "nsys", "rocpd", "cube", "otf2"]
TrackKind = Literal["gpu_stream", "cpu_thread", "host_wait", "process", "other"]
ClockOrigin = Literal["unix", "by comparison", "boot", "unknown"]
NO_LINK = -1


class TraceError(Exception):
    """A trace can't be read; the text is one sentence that names the file and what to do."""


class Kind(IntEnum):
    """What an interval is, as its file says. What counts as a GPU's busy time is BUSY."""

    KERNEL = 0
    GRAPH = 1  # a CUDA graph traced as a whole: it stands for its kernels
    MEMCPY = 2
    MEMSET = 3
    GPU_SYNC = 4  # a stream that waits; on a track of the kind "host_wait" the host: Kineto's cuda_sync
    GPU_RANGE = 5  # a range as the tool has projected it onto a stream
    RUNTIME = 6  # a call of the CUDA or HIP runtime
    DRIVER = 7
    CPU_OP = 8
    PYTHON = 9  # a Python function on the stack
    RANGE = 10  # NVTX, record_function, ProfilerStep: named by the user
    OS = 11  # a call of the operating system
    OVERHEAD = 12  # of the profiler itself
    OTHER = 13
    MARK = 14  # a moment, named by the user: without length


BUSY = (Kind.KERNEL, Kind.GRAPH, Kind.MEMCPY, Kind.MEMSET)


class Category(IntEnum):
    """What an interval is for; its order is that of colours and letters."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2
    SYNC = 3
    LAUNCH = 4  # a launch, or any other call of an API
    RANGE = 5
    IO = 6
    OTHER = 7


class Track(NamedTuple):
    """Where intervals lie: a stream of a GPU, or a thread. ``device`` is the GPU's number in that process; ``source``
    that of the file in ``Timeline.sources``. None: not told. On a "host_wait" lies how long threads waited for a stream,
    as the tool has it beside their calls: no time of the stream (gssr.traces.host_waits). A "process" is one that was not
    read, to which others have sent messages: nothing lies on it."""

    kind: TrackKind
    name: str
    rank: int | None = None
    node: str | None = None
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    uuid: str | None = None
    stream: int | None = None
    source: int = 0


class TraceSource(NamedTuple):
    """One file. ``n_events``: records in it; ``left_out``: those that could not be read, or that say nothing sound;
    ``notes``: sentences about what was lost, assumed or mended; ``zero_ns``: the file's own time of the timeline's 0."""

    path: str
    format: Format
    tool: str = ""
    version: str = ""
    rank: int | None = None
    host: str | None = None
    n_events: int = 0
    left_out: int = 0
    notes: tuple[str, ...] = ()
    zero_ns: int = 0


class Clock(NamedTuple):
    """``unix_ns``: the unix time of 0 of all times, None where no file tells it; of times since the node was booted (ns of
    CLOCK_BOOTTIME) only a recording tells it (gssr.traces.join.by_boot)."""

    unix_ns: int | None = None
    origin: ClockOrigin = "unknown"
    error_ns: int = 0


@dataclass(frozen=True, slots=True)
class Intervals:
    """Columns [n], ascending by start; of the same start the longer first. ``track``, ``name``: places in the timeline's
    tracks and names. ``link``: what a GPU's work shares with the call that launched it, NO_LINK without; unique over
    all files. ``size``: bytes copied or set, -1 unknown. ``operation``: of copies the place in ``OPERATIONS``, else -1."""

    start: Ints
    length: Ints
    track: NDArray[np.int32]
    name: NDArray[np.int32]
    kind: NDArray[np.int8]
    category: NDArray[np.int8]
    link: Ints
    size: Ints
    operation: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.start)


OPERATIONS = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "memset", "unified HtoD", "unified DtoH", "other")
"""Kinds of copies, as JSON and tables name them."""


class Counter(NamedTuple):
    """A series [n]: ``time`` in ns, ascending; ``track``: the place of the track it belongs to, -1 the whole. A "gauge"
    holds until its next value, a "rate" is of the time before its time, a "total" only grows."""

    name: str
    unit: str
    mode: Literal["gauge", "rate", "total"]
    time: Ints
    value: Floats
    track: int = -1


NO_TIME = -(1 << 62)
"""When a message was sent or received whose other end was not read."""
COLLECTIVES = (
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
    "alltoallw", "allreduce", "reduce", "reduce_scatter", "scan", "exscan", "reduce_scatter_block", "create handle",
    "destroy handle", "allocate", "deallocate", "create handle and allocate", "destroy handle and deallocate", "other",
)  # fmt: skip
"""Kinds of collective operations, in the order of their numbers in OTF2."""


@dataclass(frozen=True, slots=True)
class Collectives:
    """Columns [n], ascending by start: each rank's part of a collective operation. ``kind``: the place in COLLECTIVES;
    ``comm``: in the ``comms`` of Messages. ``sent``, ``received``: bytes. ``wait``: from its own begin to the last begin of
    those that take part, ns, at most its length; -1 where not all of these were read."""

    track: NDArray[np.int32]
    start: Ints
    length: Ints
    kind: NDArray[np.int8]
    comm: NDArray[np.int32]
    sent: Ints
    received: Ints
    wait: Ints


@dataclass(frozen=True, slots=True)
class Messages:
    """Columns [n]: messages from the track ``source`` to ``target``, places in the timeline's. ``sent``, ``received``: when,
    NO_TIME where that end was not read. ``size``: bytes; ``comm``: the place in ``comms`` of the communicator."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    sent: Ints
    received: Ints
    size: Ints
    comm: NDArray[np.int32]
    comms: tuple[str, ...]
    collectives: Collectives


FILE_OPERATIONS = ("read", "write", "flush", "other")


@dataclass(frozen=True, slots=True)
class FileUse:
    """Columns [n]: operations on the files ``files[file]``. ``operation``: the place in FILE_OPERATIONS; ``name``: in the
    timeline's names of the call that did it, -1 unknown; ``layer``: in ``layers`` of the interface that it is a call of (a
    call of MPI I/O and the POSIX calls that it makes are told apart by it). ``size``: bytes, -1 unknown."""

    track: NDArray[np.int32]
    start: Ints
    length: Ints
    file: NDArray[np.int32]
    operation: NDArray[np.int8]
    name: NDArray[np.int32]
    layer: NDArray[np.int32]
    size: Ints
    files: tuple[str, ...]
    layers: tuple[str, ...]


class Measured(NamedTuple):
    """A metric of a profile: ``rows()`` gives the places of the nodes [k] that have values, and these [k, n_tracks]; of the
    others they are 0. ``inclusive``: a value holds for a node and all below it, else for itself alone. ``combine``: how
    values of several nodes or tracks become one."""

    name: str
    title: str
    unit: str
    inclusive: bool
    combine: Literal["sum", "min", "max"]
    rows: Callable[[], tuple[Ints, Floats]]


@dataclass(frozen=True, slots=True)
class Profile:
    """A call tree with numbers for each track, and no times at which anything was: nodes [n], each behind its caller
    ``parent``, -1 of a root. ``name``: places in the timeline's names; ``paradigm``, ``role``: what a node belongs to (user,
    mpi, openmp, cuda ...), and what it does, as Score-P has them."""

    parent: Ints
    name: Ints
    paradigm: tuple[str, ...]
    role: tuple[str, ...]
    metrics: tuple[Measured, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """All of one or several files of one run. ``pageable``: places in ``intervals`` of copies from or to pageable memory,
    None where the format does not tell; ``messages``, ``io``: None likewise."""

    sources: tuple[TraceSource, ...]
    clock: Clock
    tracks: tuple[Track, ...]
    names: tuple[str, ...]
    intervals: Intervals
    counters: tuple[Counter, ...] = ()
    pageable: Ints | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the files say of themselves: the GPU's name, versions of drivers."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """Of the names of ranges that begin with "DOMAIN:" the NVTX domain, which keeps apart libraries that name their own; of
    all names of an OTF2 archive the paradigm, as "MPI"."""
    messages: Messages | None = None
    io: FileUse | None = None
    profile: Profile | None = None
    """In place of intervals."""
    start_end: Ints | None = None
    """Places in ``intervals`` of NVTX ranges that end wherever their handle is given, "StartEnd" for ``nsys``; all others
    nest, "PushPop". None where the format does not tell."""
