"""What a trace holds, whatever wrote it: intervals on tracks, counters, and where it comes from. Times are whole ns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints

Format = Literal[
    "kineto", "chrome", "nsys", "rocpd", "rocprof", "proton", "cube", "otf2", "xspace", "perfetto", "memory"
]
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
    SAMPLED = 15  # a function in which a sample found a thread, drawn until the thread's next sample or traced call


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
    """A line on which intervals lie. None: the file does not say it.

    ``kind``: "gpu_stream", "cpu_thread", "other"; "host_wait" holds the time that threads waited for a stream, as the
    tool lists it beside their calls (no time of the stream, see gssr.traces.host_waits); "process" is one that was not
    read but exchanged messages with others, and holds nothing. ``device``: the GPU's number in that process;
    ``stream``: the stream's number; ``source``: index in ``Timeline.sources``.
    """

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

    @property
    def label(self) -> str:
        """The text that the screens show for the track: its name, or "stream 7" or "thread 47" if it has only a number."""
        if not self.name:
            return f"stream {self.stream}" if self.stream is not None else f"thread {self.tid}"
        return f"thread {self.name}" if self.name.isdigit() else self.name


class TraceSource(NamedTuple):
    """One file of a timeline. ``n_events``: records in it; ``left_out``: records that could not be read or have no
    sound times; ``notes``: sentences on what was lost, assumed or mended; ``zero_ns``: the file's own time at the
    timeline's 0; ``is_damaged``: the file is cut off or damaged, so any of its events may be missing; "" and None are
    unknown."""

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
    is_damaged: bool = False


class Clock(NamedTuple):
    """The clock of a timeline. ``unix_ns``: the unix time at the timeline's 0, None if unknown; if times count since
    boot (``origin`` "boot") only a recording can say it (gssr.traces.join.by_boot). ``error_ns``: by how much it may be
    wrong."""

    unix_ns: int | None = None
    origin: ClockOrigin = "unknown"
    error_ns: int = 0


def is_unix_time(ns: int) -> bool:
    """Tell whether a time (ns) counts from 1970, as times of 1973 to 2096 do; smaller ones count from the machine's boot."""
    return 10**17 <= ns <= 4 * 10**18


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals as columns [n], sorted by start, those of equal start by falling length. Times in ns.

    ``track``, ``name``: indices in the timeline's ``tracks`` and ``names``. ``kind``, ``category``: values of Kind and
    Category. ``link``: a number that work on a GPU shares with the call that launched it, unique over all files, NO_LINK
    without. ``size``: bytes copied or set, -1 if unknown; of operators with a shape, and of kernels that send or receive,
    -2 less its place in the timeline's ``shapes``. ``operation``: of copies the index in OPERATIONS, else -1."""

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


def no_intervals() -> Intervals:
    """Return intervals [0], for timelines without times."""
    none, short, byte = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int8)
    return Intervals(none, none, short, short, byte, byte, none, none, byte)


OPERATIONS = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "memset", "unified HtoD", "unified DtoH", "other")
"""Kinds of copies, as JSON and tables name them."""


SEND, RECEIVE = "send", "receive"


class Shape(NamedTuple):
    """What an operator was called with, as JSON texts of the file: ``dims`` is a list with the lengths of each input's
    dimensions, ``types`` with each one's type, ``values`` with those of inputs that are no tensors; "" where not told. Of a
    kernel that sends to or receives from another rank ``operator`` is SEND or RECEIVE, and ``dims`` that rank."""

    operator: str
    dims: str
    types: str
    values: str


class CountedKernel(NamedTuple):
    """A kernel in which CUPTI counted, of which it is not known when it ran: its name, its GPU's number in the file, and the
    value of each counter by its name."""

    name: str
    gpu: int
    values: Mapping[str, float]
    source: int = 0


class MemoryHolder(NamedTuple):
    """One line of the program, or one category, that held memory at a GPU's peak.

    ``name``: the line or the category, behind the GPU's name if there are several GPUs. ``track``: the GPU's track.
    ``n_bytes``: what all its allocations held. ``n``: how many these were, ``largest``: bytes of the largest; both None for
    a category.
    """

    name: str
    track: int
    n_bytes: int
    n: int | None = None
    largest: int | None = None


class Counter(NamedTuple):
    """A series of values [n]. ``time``: ns, ascending; ``track``: index of the track it belongs to, -1 if to none.
    ``mode``: a "gauge" holds until the next value, a "rate" is over the time before its own, a "total" only grows."""

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
    """Each rank's part in collective operations as columns [n], sorted by start (ns). ``kind``: index in COLLECTIVES;
    ``comm``: index in ``Messages.comms``; ``sent``, ``received``: bytes. ``wait``: ns from its own start to the latest
    start of all participants, at most its length; -1 if not all participants were read."""

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
    """Messages as columns [n]. ``source``, ``target``: indices of the sender's and receiver's tracks; ``sent``,
    ``received``: ns, NO_TIME if that end was not read; ``size``: bytes; ``comm``: index of the communicator in
    ``comms``."""

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
    """Operations on files as columns [n]. ``file``: index in ``files``; ``operation``: index in FILE_OPERATIONS;
    ``name``: index in the timeline's names of the call that did it, -1 if unknown; ``layer``: index in ``layers`` of
    the interface the call is of (MPI I/O and the POSIX calls that it makes are told apart by it); ``size``: bytes, -1
    if unknown; ``start``, ``length``: ns."""

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


@dataclass(frozen=True, slots=True)
class CallSamples:
    """Samples of what threads were in as columns [n], thread by thread, ascending by ``time`` (ns). ``track``: the thread's;
    ``path``: index of a call path [n_paths]: of its function (``name``: index in the timeline's names), and of the path of
    its caller (``parent``, -1 for none)."""

    track: NDArray[np.int32]
    time: Ints
    path: Ints
    parent: Ints
    name: Ints


class Measured(NamedTuple):
    """A metric of a profile. ``rows()`` returns the indices of the nodes that have values, int64[k], and their values,
    float64[k, tracks]; all other nodes have 0. ``inclusive``: a value is for a node and all below it, else for the node
    alone. ``combine``: how values of several nodes or tracks are put together."""

    name: str
    title: str
    unit: str
    inclusive: bool
    combine: Literal["sum", "min", "max"]
    rows: Callable[[], tuple[Ints, Floats]]


@dataclass(frozen=True, slots=True)
class Profile:
    """A call tree with values for each track, and no times: nodes [n], each behind its caller. ``parent``: index of the
    caller, -1 for a root; ``name``: index in the timeline's names; ``paradigm`` (user, mpi, openmp, cuda ...) and
    ``role`` of each node as Score-P has them."""

    parent: Ints
    name: Ints
    paradigm: tuple[str, ...]
    role: tuple[str, ...]
    metrics: tuple[Measured, ...]


class HloOp(NamedTuple):
    """An operation of a program that XLA has compiled. ``category``: as XLA has it, such as "loop fusion", "" if unknown;
    ``flops``, ``bytes``: what one execution computes, and reads and writes, by XLA's count; -1 if unknown."""

    module: str
    category: str
    flops: int = -1
    bytes: int = -1


@dataclass(frozen=True, slots=True)
class HloOps:
    """Which of ``ops`` each interval [n] is an execution of, or was launched by; -1 for none."""

    op: NDArray[np.int32]
    ops: tuple[HloOp, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that one or several trace files of one run hold. Times are ns since ``clock``'s 0. ``pageable``: indices of
    intervals that copy from or to pageable memory, None if the format does not say it; ``messages`` and ``io``: None
    likewise. ``profile``: None except for profiles, which have no intervals."""

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
    samples: CallSamples | None = None
    """None without samples."""
    profile: Profile | None = None
    """In place of intervals."""
    start_end: Ints | None = None
    """Places in ``intervals`` of NVTX ranges that end wherever their handle is given, "StartEnd" for ``nsys``; all others
    nest, "PushPop". None where the format does not tell."""
    shapes: tuple[Shape, ...] = ()
    """What operators and kernels were called with, each once."""
    hlo: HloOps | None = None
    """Of profiles of XLA."""
    counted: tuple[CountedKernel, ...] = ()
    """In the order in which they ran on their GPU."""
    holders: tuple[MemoryHolder, ...] = ()
    """Of what PyTorch wrote about memory."""
